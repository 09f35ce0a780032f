"""A journal whose first events were rolled up: its books are what they were, by whole hours."""

import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from threading import Event as Signal

import numpy as np
import pytest

from tests.journal.stories import tell
from tidemill.core import snapshot
from tidemill.journal import open_journal
from tidemill.journal.base import Journal
from tidemill.journal.copying import copy
from tidemill.journal.faults import DamageError
from tidemill.journal.replay import rebuild
from tidemill.journal.rolled_up import GoneError
from tidemill.journal.verify import verify
from tidemill.ledger import books, rolling
from tidemill.ledger.measured import FIGURES
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.events import Event
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy

HOUR_MS = 60_000  # the stories last an hour or two: here an hour has a minute
ROUNDS = 3


@pytest.fixture(autouse=True)
def short_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of a minute."""
    monkeypatch.setattr(books, "HOUR_MS", HOUR_MS)
    monkeypatch.setattr(rolling, "HOUR_MS", HOUR_MS)
    monkeypatch.setattr(rolling, "_HOURLY", Window(bin_ms=HOUR_MS))


def keep(where: str, events: list[Event], rng: Random) -> None:
    """Keep a story in rows of a few events each."""
    with open_journal(where, create=True) as journal:
        while events:
            count = rng.randint(1, 20)
            journal.append(events[:count])
            events = events[count:]


def statement(journal: Journal, start_ms: int, end_ms: int, bin_ms: int) -> Statement:
    """The ledger of a window."""
    window = Window(start_ms, end_ms, bin_ms)
    ledger, first = rolling.reader_of(journal, Policy(), window, weighs_mix=True)
    for batch in journal.batches(first):
        ledger.read_batch(batch)
    return Statement(ledger)


def told(found: Statement, cut_ms: int) -> list[object]:
    """All that a statement says which does not name single jobs; waits if they are known."""

    def by(dimension: str) -> dict[str, object]:
        accounts = found.by(dimension)  # type: ignore[arg-type]
        return {key: account for key, account in accounts.items() if account.paid_milli_ms}

    rows, free = found.rows, found.free_use
    cells: Counter[tuple[int, ...]] = Counter()
    columns = (rows.bin, rows.contract, rows.bucket, rows.team, rows.known, rows.milli_ms)
    for *key, amount in zip(*(column.tolist() for column in columns), strict=True):
        cells[tuple(key)] += amount
    assert free is not None
    loads: Counter[tuple[int, ...]] = Counter()
    asked = found.measured
    of_loads = (asked.bin, asked.team, asked.what, asked.bound, asked.amount)
    for *key, amount in zip(*(column.tolist() for column in of_loads), strict=True):
        if key[2] < FIGURES:
            loads[tuple(key)] += amount
    is_paid = found.paid.any(axis=1)
    return [
        (found.start_ms, found.end_ms), cells, loads, found.total(), found.stops, found.alarms,
        [by(d) for d in ("team", "user", "pool", "contract", "kind", "class", "time")],
        [found.confidence_of(bucket) for bucket in range(len(found.total().milli_ms))],
        (found.bins[is_paid].tolist(), found.paid[is_paid].tolist()),
        [np.asarray(part)[is_paid].tolist() for part in free],
        [column.tolist() for column in found.waits] if found.end_ms >= cut_ms else [],
    ]  # fmt: skip


def windows(rng: Random, last_ms: int, cut_ms: int) -> list[tuple[int, int, int]]:
    """Windows that can be asked after a roll-up: on the hour, or after the cut."""
    hours = last_ms // HOUR_MS + 1
    found = [(0, FOREVER_MS, FOREVER_MS), (0, FOREVER_MS, HOUR_MS), (cut_ms, FOREVER_MS, 7_777)]
    for _ in range(3):
        start, end = sorted(rng.sample(range(hours + 1), 2))
        found.append((start * HOUR_MS, end * HOUR_MS, rng.choice((1, 3)) * HOUR_MS))
    found.append((found[-1][0], last_ms + 1 - rng.randint(0, max(0, last_ms - cut_ms)), FOREVER_MS))
    return found


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_books_are_what_they_were(seed: int, where: str):
    """Random stories, cuts and windows, rolled up once and again: every sum is as before."""
    rng = Random(f"roll up {seed}")
    events = tell(rng, rng.randint(150, 400))
    keep(where, events, rng)
    last_ms = events[-1].at_ms
    cuts = sorted(rng.randint(0, last_ms) for _ in range(2))
    with open_journal(where) as journal:
        asked = windows(rng, last_ms, cuts[-1])
        before = [told(statement(journal, *window), cuts[-1]) for window in asked]
        whole = snapshot.dump(rebuild(journal))
        for cut in cuts:
            rolling.roll_up(journal, cut, Policy())
            for window, was in zip(asked, before, strict=True):
                now = statement(journal, *window)
                for part, before_it in zip(told(now, cuts[-1]), was, strict=True):
                    assert part == before_it, (window, cut)
            assert snapshot.dump(rebuild(journal)) == whole
    with open_journal(where) as again:
        assert [told(statement(again, *window), cuts[-1]) for window in asked] == before
        assert len(again) == len(events)


def test_what_is_rolled_up_may_have_cost_nothing_yet(path: Path):
    """The first row of an imported fleet shows its nodes, all at one moment: nothing is paid for by
    then, and the books are as before.
    """
    events = tell(Random("nothing paid"), 200)
    first = [event for event in events if event.at_ms == events[0].at_ms]
    with open_journal(str(path), create=True) as journal:
        journal.append(first)
        journal.append(events[len(first) :])
        window = (0, FOREVER_MS, FOREVER_MS)
        before = told(statement(journal, *window), 0)
        assert rolling.roll_up(journal, events[-1].at_ms, Policy())[:2] == (
            len(first), len(events) - len(first),
        )  # fmt: skip
        assert told(statement(journal, *window), 0) == before


def test_a_roll_up_that_is_killed_was_not_or_is_whole(where: str):
    """Killed at random instants, a journal has all its events, or books that say the same."""
    rng = Random("killed")
    events = tell(rng, 300)
    keep(where, events, rng)
    window = (0, FOREVER_MS, HOUR_MS)
    with open_journal(where) as journal:
        before = told(statement(journal, *window), FOREVER_MS)
    firsts = set[int]()
    for cut in range(1, 7):
        _roll_up_and_kill(where, events[40 * cut].at_ms, rng.uniform(0, 0.3) if cut > 1 else None)
        with open_journal(where) as journal:
            assert told(statement(journal, *window), FOREVER_MS) == before
            rolled = journal.rolled_up()
            firsts.add(0 if rolled is None else rolled.seq)
        assert verify(where).faults == ()
    with open_journal(where) as journal:
        rolling.roll_up(journal, events[-20].at_ms, Policy())
        assert told(statement(journal, *window), FOREVER_MS) == before
    assert min(firsts) > 0, "the first of them came to an end"


def _roll_up_and_kill(where: str, cut_ms: int, after_s: float | None) -> None:
    pid = os.fork()
    if pid == 0:
        with open_journal(where) as journal:
            rolling.roll_up(journal, cut_ms, Policy())
        os._exit(0)
    if after_s is not None:
        Signal().wait(after_s)
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.fixture
def rolled(where: str, story: list[Event]) -> str:
    """A journal of which the first half was rolled up; somebody had it open meanwhile."""
    keep(where, story, Random(1))
    with open_journal(where) as journal:
        rolling.roll_up(journal, story[200].at_ms, Policy())
    return where


def test_what_is_gone_is_said(rolled: str, story: list[Event]):
    """Single jobs, states and windows that the books do not have are refused, with what they do."""
    with open_journal(rolled) as journal:
        found = journal.rolled_up()
        assert found is not None
        with pytest.raises(GoneError, match="rolled up into hourly books"):
            rebuild(journal, up_to_ms=found.at_ms - 1)
        with pytest.raises(GoneError, match="event 0 was asked for"):
            journal.read()
        assert list(journal.read(found.seq)) == story[found.seq :]
        whole = statement(journal, 0, FOREVER_MS, FOREVER_MS)
        with pytest.raises(SpecError, match="no single jobs") as refused:
            whole.by("job")
        assert "begin later: --from" in refused.value.hint
        early = statement(journal, 0, HOUR_MS, FOREVER_MS)
        with pytest.raises(SpecError, match="how long jobs waited"):
            early.waits.figures()
        for start, end, bins in ((1, FOREVER_MS, FOREVER_MS), (0, HOUR_MS + 1, FOREVER_MS),
                                 (0, FOREVER_MS, HOUR_MS + 1)):  # fmt: skip
            with pytest.raises(SpecError, match="hourly books"):
                statement(journal, start, end, bins)
        assert statement(journal, found.at_ms, FOREVER_MS, 1_001).past is None


def test_a_reader_that_is_overtaken_is_told(where: str, story: list[Event]):
    """Events that are rolled up under a reader are gone, not damaged."""
    keep(where, story, Random(1))
    with open_journal(where) as reader, open_journal(where) as writer:
        reading = reader.batches()
        next(reading)
        rolling.roll_up(writer, story[-5].at_ms, Policy())
        with pytest.raises(GoneError):
            list(reader.read())
        writer.append([ev.Woke(story[-1].at_ms)])


def test_a_copy_keeps_what_was_rolled_up(rolled: str, tmp_path: Path):
    """The books, the state and the rows come along, to a file and to a server."""
    target = str(tmp_path / "copy.sqlite")
    copy(rolled, target)
    window = (0, FOREVER_MS, HOUR_MS)
    with open_journal(rolled) as one, open_journal(target) as other:
        assert told(statement(one, *window), 0) == told(statement(other, *window), 0)
        assert (one.rolled_up(), one.books()) == (other.rolled_up(), other.books())
    assert verify(target)._replace(path="") == verify(rolled)._replace(path="")


def test_damaged_books_are_found(path: Path, story: list[Event]):
    """A byte changed in the books or in the state: refused, and verify says so."""
    keep(str(path), story, Random(1))
    with open_journal(str(path)) as journal:
        rolling.roll_up(journal, story[200].at_ms, Policy())
    with closing(sqlite3.connect(path)) as other:
        (body,) = other.execute("SELECT body FROM books").fetchone()
        other.execute("UPDATE books SET body = ?", (body[:-1] + bytes([body[-1] ^ 1]),))
        other.commit()
    assert "hourly books were damaged" in verify(path).faults[0].found
    with open_journal(str(path)) as journal, pytest.raises(DamageError, match="hourly books"):
        statement(journal, 0, FOREVER_MS, FOREVER_MS)
