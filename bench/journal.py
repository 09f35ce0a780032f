"""The journal in a file and on PostgreSQL: how fast it takes events and gives them back, how large.

The events of an ordinary fleet (see ``ordinary``) are appended one at a time, 64 at a time, and as
whole batches in columns; each append is on the disk when it returns. The server is started here, on
the same disk, with its default durability; it is left out where there is none.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from bench import ordinary
from bench.spine import reference_per_cpu_s
from tests.rigs import postgres
from tidemill import api
from tidemill.journal import Journal, open_journal
from tidemill.journal.memory import MemoryJournal
from tidemill.model.policy import Policy


def run(jobs: int = 20_000, appends: int = 1_000) -> dict[str, Any]:
    """Both places, with the events of so many jobs."""
    events = _events(jobs)
    found: dict[str, Any] = {"reference_per_cpu_s": round(reference_per_cpu_s())}
    found["events"] = len(events)
    with _places() as places:
        for name, (where, size) in places.items():
            found[name] = _measured(where, events, appends, size)
    return found


def _events(jobs: int) -> Journal:
    """What an ordinary fleet did with so many jobs."""
    kept = MemoryJournal()
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "made.sqlite")
        api.run(ordinary.twin(jobs, 128, ordinary.ALL), Policy(), journal=path)
        with open_journal(path) as made:
            for batch in made.batches():
                kept.append_batch(batch)
    return kept


@contextmanager
def _places() -> Iterator[dict[str, tuple[Callable[[str], str], Callable[[str], int]]]]:
    """Where journals are made: by a name, and how many bytes one takes."""
    with TemporaryDirectory() as folder:
        file = Path(folder)
        in_files = (lambda n: str(file / n), lambda n: (file / n).stat().st_size)
        if why := postgres.missing():
            print(f"no PostgreSQL: {why}")
            yield {"sqlite": in_files}
            return
        with postgres.running(in_memory=False, fsync="on", full_page_writes="on") as server:
            yield {"sqlite": in_files, "postgresql": (server.address, lambda n: _size(server, n))}


def _size(server: postgres.Server, name: str) -> int:
    statement = """SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relkind = 'r'"""
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres") as other:
        return int(other.execute(statement, (f"tidemill_{name}",)).fetchall()[0][0])


def _measured(
    where: Callable[[str], str], kept: Journal, appends: int, size: Callable[[str], int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    events = list(kept.read())[: 64 * appends]
    for count in (1, 64):
        with open_journal(where(f"by-{count}"), create=True) as journal:
            journal.claim()
            start = time.perf_counter()
            for first in range(0, count * appends, count):
                journal.append(events[first : first + count])
            took = time.perf_counter() - start
        found[f"appends_per_s_of_{count}"] = round(min(appends, len(events) / count) / took)
    with open_journal(where("whole"), create=True) as journal:
        start = time.perf_counter()
        for batch in kept.batches():
            journal.append_batch(batch)
        found["events_per_s_in_batches"] = round(len(kept) / (time.perf_counter() - start))
    with open_journal(where("whole")) as journal:
        start = time.perf_counter()
        count = sum(len(batch.events) for batch in journal.batches())
        found["events_per_s_read"] = round(count / (time.perf_counter() - start))
    found["bytes_per_event"] = round(size("whole") / len(kept), 1)
    return found
