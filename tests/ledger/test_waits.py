"""Waits against a naive reading of the journal: every job looked at after every event."""

from collections.abc import Iterable
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.builders import contract, job, team
from tests.ledger.stories import STORIES, Story
from tidemill import api
from tidemill.engine.fold.one_event import fold
from tidemill.ledger import efficiency, waits
from tidemill.ledger.account import rounded
from tidemill.ledger.statement import Statement, read
from tidemill.ledger.waits import WaitSpread, spread
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World
from tidemill.twin.spec import fleet_spec

_OFF = -1  # instead of a state: it waits, and does not ask for GPUs
_ALL = frozenset({"mean", "p50", "p90", "p99", "max"})
SMALL = """
[twin]
seed = 5
horizon = "3d"
[[contract]]
name = "c"
kind = "H100"
count = 16
usd_per_hour = 2
[[team]]
name = "a"
[[team]]
name = "b"
[[workload]]
name = "w"
team = "a"
users = ["ana", "bo"]
per_day = 60
sizes = { 1 = 0.5, 4 = 0.3, 16 = 0.2 }
run = { median = "40m", mean = "90m" }
crash = 0.2
cancel = 0.1
[[workload]]
name = "v"
team = "b"
per_day = 30
sizes = { "0.5" = 0.5, 2 = 0.5 }
run = { median = "40m", mean = "90m" }
kinds = ["H100"]
[faults]
node_rate = 200
repair = "3h"
"""


def _by_hand(events: Iterable[ev.Event], start_ms: int, end_ms: int) -> dict[str, tuple[int, ...]]:
    """(wait, started, total wait, still waiting, completion, ended) by looking after each event.

    A job that waits and is held does not ask: that is no wait, and before its first start nothing.
    """
    world, last_ms = World(), 0
    seen: dict[str, list[tuple[int, int]]] = {}
    submitted: dict[str, int] = {}
    for event in events:
        last_ms = event.at_ms
        fold(world, event)
        if isinstance(event, ev.JobSubmitted):
            submitted[event.job.name] = event.at_ms
        if event.at_ms <= end_ms:
            for j, name in enumerate(world.job_names):
                state = int(world.jobs.state[j])
                is_off = state == JobState.WAITING and world.is_held(j)
                seen.setdefault(name, []).append((event.at_ms, _OFF if is_off else state))
    until = max(start_ms, min(end_ms, last_ms))
    found: dict[str, tuple[int, ...]] = {}
    for name, states in seen.items():
        at_ms = submitted[name]
        if not (start_ms <= at_ms and (at_ms < until or end_ms >= last_ms)):
            continue
        starts = [t for t, state in states if state in ACTIVE]
        ends = [t for t, state in states if state >= JobState.DONE]
        gone = ends[0] if ends else until
        moments = [*states, (until, states[-1][1])]
        total = sum(
            later - t for (t, state), (later, _) in pairwise(moments) if state == JobState.WAITING
        )
        still = states[-1][1] in (JobState.WAITING, _OFF)
        first = starts[0] if starts else gone
        at_ms += sum(
            later - t for (t, state), (later, _) in pairwise(moments) if state == _OFF and t < first
        )
        found[name] = (first - at_ms, bool(starts), total, still, gone - at_ms, bool(ends))
    return found


def _told(statement: Statement) -> dict[str, tuple[int, ...]]:
    rows = statement.waits
    names = [statement.world.job_names[j] for j in rows.job.tolist()]
    columns = (
        rows.wait_ms, rows.is_started, rows.total_wait_ms, rows.is_waiting, rows.completion_ms,
        rows.is_ended,
    )  # fmt: skip
    return dict(zip(names, zip(*(c.tolist() for c in columns), strict=True), strict=True))


@settings(max_examples=40)
@given(story=STORIES, window=st.tuples(st.integers(0, 40_000), st.integers(1, 90_000)))
def test_waits_are_what_a_naive_reader_finds(story: Story, window: tuple[int, int]):
    """Whatever the journal says, cut at any two moments, every job's figures are right."""
    start_ms, length_ms = window
    for end_ms in (start_ms + length_ms, FOREVER_MS):
        told = _told(read(story, start_ms, end_ms))
        assert told == _by_hand(story, start_ms, end_ms)


def test_a_run_and_its_journal_tell_the_same(tmp_path):
    """Read along with a run or from its journal afterwards, waits are the same rows."""
    where = str(tmp_path / "j.sqlite")
    done = api.simulate(fleet_spec.parse(SMALL), where)
    again = api.read_statement(where)
    assert _told(done.statement) == _told(again)
    with api.open_journal(where) as journal:
        assert _told(again) == _by_hand(journal.read(), 0, FOREVER_MS)


def test_groups_are_those_of_the_jobs(tmp_path):
    """Every dimension has every job once; a user that nobody named is unknown."""
    done = api.simulate(fleet_spec.parse(SMALL))
    statement = done.statement
    whole = statement.waits.figures()
    for dimension in waits.WAIT_DIMENSIONS:
        parts = statement.waits_by(dimension).values()
        for field in ("jobs", "done", "failed", "cancelled", "running", "waiting"):
            assert sum(getattr(part, field) for part in parts) == getattr(whole, field)
    assert list(statement.waits_by("size")) == ["below 1", "1", "2", "3 to 4", "5 to 8"]
    assert set(statement.waits_by("user")) == {"(unknown)", "ana", "bo"}
    assert set(statement.waits_by("kind")) == {"H100", "any"}
    assert whole.jobs == whole.done + whole.failed + whole.cancelled + whole.running + whole.waiting


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=30),
    st.data(),
)
def test_bounds_hold_whatever_the_truth_is(rows: list[tuple[int, bool]], data: st.DataObject):
    """Let everything censored last longer: no figure falls, and those not marked do not move."""
    values, censored = (np.array(column) for column in zip(*rows, strict=True))
    before = spread(values.copy(), censored)
    more = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    after = spread(values + np.where(censored, more, 0), np.zeros(len(rows), bool))
    assert before is not None
    assert after is not None
    for name in ("mean", "p50", "p90", "p99", "max"):
        if name in before.at_least:
            assert getattr(after, name) >= getattr(before, name)
        else:
            assert getattr(after, name) == getattr(before, name)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200))
def test_quantiles_are_nearest_ranks(values: list[int]):
    """The value at rank ceil(p n) of the sorted list, and a mean rounded half up."""
    found = spread(np.array(values), np.zeros(len(values), bool))
    ordered, n = sorted(values), len(values)
    p50, p90, p99 = (ordered[ceil(n * p / 100) - 1] for p in (50, 90, 99))
    mean = (2 * sum(values) + n) // (2 * n)
    assert found == WaitSpread(n, 0, mean, p50, p90, p99, max(values))
    assert spread(np.array([], np.int64), np.array([], bool)) is None


def test_a_worked_example():
    """One waits an hour for its first start; one ran, was cut short and waits again; one waits."""
    opening = list(builders.opening(contract(gpus=8), teams=[team("a")]))
    events = [
        *opening,
        ev.JobSubmitted(0, job("one", gpus=8)),
        ev.JobSubmitted(0, job("two", gpus=8)),
        *_placed(0, 0, 1),
        ev.JobFailed(HOUR_MS, 0, 1),
        *_placed(HOUR_MS, 1, 1),
        ev.JobFinished(3 * HOUR_MS, 1, 1),
        ev.JobSubmitted(3 * HOUR_MS, job("three", gpus=8)),
        *_placed(3 * HOUR_MS, 0, 2),
        ev.JobFinished(4 * HOUR_MS, 0, 2),
        ev.Woke(5 * HOUR_MS),
    ]
    found = read(events).waits.figures()
    hour = HOUR_MS
    assert (found.jobs, found.done, found.waiting, found.never_started) == (3, 2, 1, 1)
    assert found.wait == WaitSpread(3, 1, hour, hour, 2 * hour, 2 * hour, 2 * hour, _ALL - {"p50"})
    assert found.total_wait is not None
    assert found.total_wait.mean == rounded(5 * hour, 3)  # two, one and two hours
    assert found.slowdown == WaitSpread(2, 0, 1750, 1500, 2000, 2000, 2000)  # 3 h / 2 h, 4 h / 2 h


@settings(max_examples=60)
@given(
    turns=st.lists(st.tuples(st.sampled_from("hrcgpf"), st.integers(0, 9)), max_size=12),
    end_ms=st.one_of(st.just(FOREVER_MS), st.integers(1, 60)),
)
def test_a_job_waits_only_while_it_asks(turns: list[tuple[str, int]], end_ms: int):
    """Held and released, not eligible as a whole or again, placed and failed, in any order."""
    now, attempt, is_placed = 10, 1, False
    events: list[ev.Event] = [
        *builders.opening(contract(gpus=8), teams=[team("a")]),
        ev.JobSubmitted(10, job("one", gpus=8)),
    ]
    for turn, later in turns:
        now += later
        if turn in "cg":
            events.append(ev.CauseChanged(now, 0, _SAID[turn]))
        elif turn == "f" and is_placed:
            events.append(ev.JobFailed(now, 0, attempt))
            attempt, is_placed = attempt + 1, False
        elif turn == "p" and not is_placed:
            events += [ev.PlacementSeen(now, 0, attempt, _WHOLE), ev.JobStarted(now, 0, attempt)]
            is_placed = True
        elif turn in "hr" and not is_placed:
            events.append(ev.ReasonSeen(now, 0, _SAID[turn], 4, turn))
    events.append(ev.Woke(now + 5))
    assert _told(read(events, 0, end_ms)) == _by_hand(events, 0, end_ms)


_SAID = dict.fromkeys("hc", Cause.NOT_ELIGIBLE) | dict.fromkeys("rg", Cause.NONE)
_WHOLE = (Piece(0, 0, 1, 0xFF),)


def _of_one(value: int) -> WaitSpread:
    return WaitSpread(1, 0, value, value, value, value, value)


def test_a_job_that_is_requeued_and_held_does_not_wait():
    """It runs for 2 h, may not run for 6 h, waits half an hour, and runs for 1 h 30 m."""
    hour = HOUR_MS
    events = [
        *builders.opening(contract(gpus=8), teams=[team("a")]),
        ev.JobSubmitted(0, job("one", gpus=8)),
        *_placed(0, 0, 1),
        ev.JobFailed(2 * hour, 0, 1),
        ev.ReasonSeen(2 * hour, 0, Cause.NOT_ELIGIBLE, 4, "held"),
        ev.ReasonSeen(8 * hour, 0, Cause.NONE, 3, "not held any more"),
        *_placed(8 * hour + hour // 2, 0, 2),
        ev.JobFinished(10 * hour, 0, 2),
    ]
    told = read(events)
    found = told.waits.figures()
    assert found.total_wait == _of_one(hour // 2)
    assert found.completion == _of_one(10 * hour)
    assert found.slowdown == _of_one(1052)  # 10 h / 9 h 30 m
    assert efficiency.facts_of(told, 0).elapsed_ms == 3 * hour + hour // 2


def test_a_job_that_is_held_first_counts_from_when_it_asks():
    """Held for 1 h before its first start, as if it had been submitted later: it waited 2 h."""
    hour = HOUR_MS
    events = [
        *builders.opening(contract(gpus=8), teams=[team("a")]),
        ev.JobSubmitted(0, job("one", gpus=8)),
        ev.CauseChanged(0, 0, Cause.NOT_ELIGIBLE),
        ev.CauseChanged(hour, 0, Cause.NONE),
        *_placed(3 * hour, 0, 1),
        ev.JobFinished(7 * hour, 0, 1),
    ]
    found = read(events).waits.figures()
    assert found.wait == found.total_wait == _of_one(2 * hour)
    assert found.completion == _of_one(6 * hour)
    assert found.slowdown == _of_one(1500)


def _placed(at_ms: int, j: int, attempt: int) -> list[ev.Event]:
    piece = Piece(0, 0, 1, 0xFF)
    return [ev.AskedPlace(at_ms, j, attempt, (piece,)), ev.JobStarted(at_ms, j, attempt)]


@pytest.mark.parametrize(
    ("milli", "name"),
    [(0, "none"), (500, "below 1"), (1000, "1"), (2000, "2"), (3000, "3 to 4"), (4000, "3 to 4"),
     (8000, "5 to 8"), (9000, "9 to 16"), (1_024_000, "513 to 1024")],
)  # fmt: skip
def test_sizes_are_doublings(milli: int, name: str):
    """A part of a GPU, one, two, and then classes that end at a power of two."""
    assert waits.size_name(milli)[1] == name


def test_no_less_than_nothing_is_unknown():
    """A job that came in the last moment has waited for nothing so far: that bounds nothing."""
    found = spread(np.array([0, 0, 60_000]), np.array([True, False, False]))
    assert found is not None
    assert "p50" in found.at_least
    assert found.is_untold("p50")
    assert not found.is_untold("max")
