"""A run that was stopped says so, and goes on to the journal that it would have written."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.conftest import ROOT
from tests.journal import runner
from tests.journal.parts import beginning
from tidemill import api
from tidemill.core import snapshot
from tidemill.journal import completeness, open_journal, snapshots
from tidemill.journal.exchange import export_events, import_events
from tidemill.journal.replay import rebuild
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.journal.verify import verify
from tidemill.model.errors import JournalError

SPEC = ROOT / "tests" / "docs" / "tiny.toml"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The journal of a run that nobody disturbed; what runs here commits as often as it did."""
    path = tmp_path_factory.mktemp("whole") / "run.db"
    with pytest.MonkeyPatch.context() as often:
        often.setattr(api, "TWIN_BEATS_PER_COMMIT", runner.BEATS_PER_COMMIT)
        often.setattr(snapshots, "APART", runner.EVENTS_APART)
        api.simulate(api.load_spec(SPEC), str(path))
        yield path


def contents(path: Path) -> list[Sequence[object]]:
    """Everything in a journal: its events, facts and snapshots, however it is cut into rows."""
    with SqliteJournal(path) as journal:
        kept = [journal.stored_snapshot(seq) for seq in journal.snapshot_numbers()]
        return [
            list(journal.read()),
            sorted(journal.facts().items()),
            [(stored.seq, stored.digest) for stored in kept if stored],
        ]


def rows(path: Path) -> list[tuple[object, ...]]:
    """The rows that keep the events of a journal, with their checksums."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM batches ORDER BY 1").fetchall()


def start(path: Path, *words: str) -> subprocess.Popen[bytes]:
    """Run the spec in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.journal.runner", str(SPEC), str(path), *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stderr=subprocess.PIPE,
    )


def events_in(path: Path) -> int:
    """How many events a journal has that somebody may be making just now."""
    try:
        with open_journal(str(path)) as journal:
            return len(journal)
    except JournalError:
        return 0


def test_a_killed_run_goes_on_to_the_same_journal(whole: Path, tmp_path: Path):
    """Killed at random instants, its resumptions too, it says so each time; the end is the same."""
    path, rng, before, states = tmp_path / "run.db", Random("kill"), 0, set()
    for kill in range(3):
        process = start(path, *(["--resume"] if kill else []))
        wanted, end = before + rng.randint(1, 300), time.monotonic() + PATIENCE_S
        while events_in(path) < wanted and process.poll() is None and time.monotonic() < end:
            pass  # another process, stopped when it has written so much
        states.add(api.completeness_of(str(path)).state)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = api.completeness_of(str(path))
        if found.state == "complete":
            break
        assert found.state == "interrupted"
        assert found.events > before
        assert f"interrupted after {found.events:,} events" in found.words
        assert verify(path).is_sound
        before = found.events
    assert before, "the first run was through before it could be killed"
    assert "being written" in states
    if api.completeness_of(str(path)).state != "complete":
        api.simulate(api.load_spec(SPEC), str(path), is_resumed=True)
    assert contents(path) == contents(whole)
    assert rows(path) == rows(whole)


def test_a_full_disk_leaves_a_journal_to_go_on_with(whole: Path, tmp_path: Path):
    """A run that can write no more ends with words, is marked, and goes on when there is room."""
    path = tmp_path / "run.db"
    process = start(path, f"--limit={whole.stat().st_size}")  # its log of pages becomes larger
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert b"cannot be used now" in told, told
    found = api.completeness_of(str(path))
    assert found.state == "interrupted"
    assert 0 < found.events < len(contents(whole)[0])
    api.simulate(api.load_spec(SPEC), str(path), is_resumed=True)
    assert contents(path) == contents(whole)


def test_any_part_of_a_run_can_be_gone_on_with(whole: Path, tmp_path: Path):
    """Wherever it stopped, even before its first event, the whole holds the same."""
    count = len(contents(whole)[0])
    for events in (0, 1, Random("any").randrange(count), count):
        path = beginning(whole, tmp_path / f"{events}.db", events)
        assert api.completeness_of(str(path)).state == "interrupted"
        done = api.simulate(api.load_spec(SPEC), str(path), is_resumed=True)
        assert contents(path) == contents(whole)
        with open_journal(str(whole)) as journal:
            assert snapshot.digest(done.world) == snapshot.digest(rebuild(journal))


def test_another_run_is_refused(whole: Path, tmp_path: Path):
    """Another seed, another spec and a run that is complete are named; nothing is written."""
    from msgspec.structs import replace

    path, spec = beginning(whole, tmp_path / "run.db", 300), api.load_spec(SPEC)
    before = contents(path)
    with pytest.raises(JournalError, match="the seed differs"):
        api.simulate(replace(spec, twin=replace(spec.twin, seed=99)), str(path), is_resumed=True)
    other = replace(spec, policy=replace(spec.policy, order="fifo"))
    with pytest.raises(JournalError, match="the file or its options differs"):
        api.simulate(other, str(path), is_resumed=True)
    with pytest.raises(JournalError, match="is complete"):
        api.simulate(spec, str(whole), is_resumed=True)
    assert contents(path) == before


def test_a_record_that_differs_is_found(whole: Path, tmp_path: Path):
    """A run that tells another event than is recorded stops there and says which."""
    from tidemill.journal.resuming import Resumed
    from tidemill.model import events as ev

    path = beginning(whole, tmp_path / "run.db", 10)
    with open_journal(str(path)) as journal:
        begun = completeness.begun(journal)
        assert begun is not None
        resumed = Resumed(journal, begun)
        first, second = list(journal.read())[:2]
        with pytest.raises(JournalError, match="event 1 is") as refused:
            resumed.append([first, ev.Woke(second.at_ms)])
        assert f"`woke` at {second.at_ms} ms" in refused.value.message
        assert len(journal) == 10


def test_a_part_of_an_export_is_a_part(whole: Path, tmp_path: Path):
    """An import that keeps only a beginning says how much of the run it has."""
    with open_journal(str(whole)) as journal:
        export_events(journal, tmp_path / "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "half.jsonl").write_text("".join(lines[:301]))
    import_events(tmp_path / "half.jsonl", tmp_path / "half.db")
    import_events(tmp_path / "run.jsonl", tmp_path / "copy.db")
    found = api.completeness_of(str(tmp_path / "half.db"))
    assert (found.state, found.events) == ("cut short", 300)
    assert f"300 of the {len(lines) - 1:,} events" in found.words
    assert api.completeness_of(str(tmp_path / "copy.db")).state == "complete"


def test_snapshots_are_spread_over_a_run(whole: Path):
    """There are snapshots all along the journal, never more than a few, and moments use them."""
    with SqliteJournal(whole) as journal:
        count, seqs = len(journal), journal.snapshot_numbers()[::-1]
        assert 4 <= len(seqs) <= snapshots.SPREAD_KEPT + snapshots.NEWEST_KEPT
        assert seqs[0] <= 2 * snapshots.spacing(count)
        assert max(b - a for a, b in pairwise(seqs)) <= 2 * snapshots.spacing(count)
        last_ms = api.last_ms(journal)
        for at_ms in range(0, last_ms, last_ms // 7):
            near = journal.latest_snapshot(at_ms)
            assert near is None or near.now_ms <= at_ms
            quick = rebuild(journal, up_to_ms=at_ms)
            slow = rebuild(journal, up_to_ms=at_ms, use_snapshot=False)
            assert snapshot.dump(quick) == snapshot.dump(slow)
    assert verify(whole).is_sound


@pytest.mark.parametrize("events", [1, 99_999, 100_000, 674_000, 10**9])
def test_snapshots_of_any_length_are_few(events: int):
    """However long a journal grows, its snapshots are at most a few, and evenly apart."""
    kept = list[int]()
    apart = snapshots.spacing(events)
    for seq in range(0, events, max(1, apart // 4)):
        if kept and not snapshots.is_due(kept[-1], seq):
            continue
        kept.append(seq)
        worn = snapshots.worn(kept, seq)
        kept = [seq for seq in kept if seq not in worn]
    assert len(kept) <= snapshots.SPREAD_KEPT + snapshots.NEWEST_KEPT
    assert events <= 2 * apart or len(kept) >= snapshots.SPREAD_KEPT // 4
