"""What is told of jobs, read batch by batch, is what one event after another tells."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.ledger.buckets import Bucket
from tidemill.ledger.told import Told
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.states import Confidence

JOBS = (0, 1, 2, 200)  # for the last of them tables must grow
news = st.tuples(st.integers(0, 1), st.sampled_from(JOBS), st.booleans())
"""How much later than the last one, of which job, and whether it came up or its loop spoke."""


@given(st.lists(st.lists(news, max_size=6), max_size=5))
def test_since_when_a_job_works_is_told_by_loops_that_spoke_at_once(
    batches: list[list[tuple[int, int, bool]]],
):
    """Once a loop first spoke of an attempt after that came up, it is not known of its job."""
    found, dictionary, read = Told(), Dictionary(), list[ev.Event]()
    for events in _in_time(batches):
        found.count(of_events(events, dictionary))
        read += events
    spoke, late = _by_hand(read)
    for j in JOBS:
        jobs = np.array([j])
        assert found.knows(jobs, Bucket.REWORK).tolist() == [j in spoke]
        assert found.knows(jobs, Bucket.STARTING).tolist() == [j in spoke - late]


def test_of_many_jobs_each_must_have_told():
    """However many jobs are asked about, one that is silent makes a bucket unknown of all."""
    many = 40_000
    loops: list[ev.Event] = [ev.CheckpointSeen(0, j, 1, 0) for j in range(many)]
    found = Told()
    found.count(of_events(loops, Dictionary()))
    jobs = np.arange(many)
    assert Bucket.REWORK in found.of(jobs)
    assert not found.of(np.append(jobs, many))
    assert found.knows(np.append(jobs, many), Bucket.REWORK).tolist() == [True] * many + [False]


def test_of_jobs_together_devices_must_have_been_seen_for_almost_all_of_the_time():
    """99 hours that were seen whole, and one of which 59 minutes, or half a job of 50, were not."""
    busy: list[ev.Event] = [ev.ActivitySeen(0, j, 1, 500_000) for j in range(2)]
    told = Told()
    told.count(of_events(busy, Dictionary()))
    found = told.with_seen(np.array([99 * 60, 1, 25 * 60]), np.array([99 * 60, 60, 50 * 60]))
    jobs = np.arange(3)
    assert found.knows(jobs, Bucket.IDLE).tolist() == [True, False, False]
    assert Bucket.IDLE in found.of(jobs[:2])
    assert Bucket.IDLE not in found.of(jobs[1:2])
    assert Bucket.IDLE not in found.of(jobs)


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_whether_ranks_told_of_most_devices_is_known_when_an_attempt_comes_up(is_one_batch: bool):
    """Of three quarters nobody did, of a quarter, of all only later: what was before is of that."""
    ups: list[ev.Event] = [ev.JobStarted(5, j, 1) for j in range(4)]
    silent: list[ev.Event] = [
        ev.StragglerSeen(at_ms, j, 1, 0, Confidence.UNKNOWN, ppm)
        for at_ms, j, ppm in ((5, 0, 750_000), (5, 1, 250_000), (9, 2, 1_000_000))
    ]
    told, dictionary = Told(), Dictionary()
    for events in [[*ups, *silent]] if is_one_batch else [ups, silent]:
        told.count(of_events(events, dictionary))
    assert told.came_up_unheard(np.arange(4)).tolist() == [True, False, False, False]


def test_jobs_of_which_nothing_is_told_take_no_rows():
    """That jobs start says nothing of them: an import of a million has no row for each."""
    found = Told()
    before = found._bits.nbytes
    found.count(of_events([ev.JobStarted(0, j, 1) for j in range(5_000)], Dictionary()))
    assert found._bits.nbytes == before
    assert not found.of(np.arange(5_000))


def _in_time(batches: Sequence[Sequence[tuple[int, int, bool]]]) -> Iterator[list[ev.Event]]:
    """The events of each batch."""
    now = 0
    for some in batches:
        events = list[ev.Event]()
        for later, j, is_up in some:
            now += later
            events += [ev.JobStarted(now, j, 1) if is_up else ev.CheckpointSeen(now, j, 1, now)]
        yield events


def _by_hand(events: Sequence[ev.Event]) -> tuple[set[int], set[int]]:
    """Jobs whose loops spoke, and those of which one did so late."""
    up, spoke, late = dict[int, int](), set[int](), set[int]()
    for event in events:
        if isinstance(event, ev.JobStarted):
            up[event.job] = event.at_ms
        elif isinstance(event, ev.CheckpointSeen):
            spoke.add(event.job)
            if event.at_ms > up.pop(event.job, event.at_ms):
                late.add(event.job)
    return spoke, late
