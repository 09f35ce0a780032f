"""The ledger over journals: how fast it reads, and how often its kernels come back to Python.

Two journals are made first: a replay of Philly, and an ordinary fleet (teams under organisations,
quotas, racks, backfill, faults; see ``ordinary``) until all of its jobs have ended.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from bench import ordinary, traces
from bench.spine import reference_per_cpu_s
from tidemill import api
from tidemill.journal import open_journal
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model.measures import nice_bin_ms
from tidemill.model.policy import Policy
from tidemill.twin.backend import Twin
from tidemill.twin.traces import philly
from tidemill.twin.traces.options import Options


def run(share: int = 1, jobs: int = 20_000, repeats: int = 3) -> dict[str, Any]:
    """Both journals; of Philly one job in so many."""
    makers: dict[str, Callable[[], Twin]] = {
        "philly": lambda: _philly(share),
        "ordinary": lambda: ordinary.twin(jobs, 128, ordinary.ALL._replace(fault_rate=6.5)),
    }
    found: dict[str, Any] = {"reference_per_cpu_s": round(reference_per_cpu_s())}
    with TemporaryDirectory() as folder:
        for name, make in makers.items():
            path = str(Path(folder) / f"{name}.sqlite")
            api.run(make(), Policy(), journal=path)
            _read(path)  # compiled, or loaded, before the clock runs
            found[name] = min((_read(path) for _ in range(repeats)), key=lambda one: one["cpu_s"])
    return found


def _philly(share: int) -> Twin:
    trace = philly.load(traces.folder() / "philly" / "philly.csv.gz", Options(accelerators=512))
    return Twin.from_trace(replace(trace, arrivals=trace.arrivals[::share]))


def _read(path: str) -> dict[str, Any]:
    with open_journal(path) as journal:
        width = nice_bin_ms(api.last_ms(journal))
        start = time.process_time()
        ledger = Ledger(api.policy_of(journal), Window(bin_ms=width), weighs_mix=True)
        for batch in journal.batches():
            ledger.read_batch(batch)
        statement = Statement(ledger)
        cpu_s = time.process_time() - start
    events = statement.world.seq
    return {
        "events": events,
        "cpu_s": round(cpu_s, 2),
        "events_per_cpu_s": round(events / cpu_s),
        "returns_to_python": {why.name.lower(): n for why, n in sorted(ledger.returns.items())},
    }
