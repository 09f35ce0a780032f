"""What a stretch of running was worth, against a clock that ticks every millisecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemill.core import progress as rhythm
from tidemill.model.columns import JOB
from tidemill.model.states import JobState
from tidemill.workload import progress
from tidemill.workload.progress import CONTINUOUS, Split

ELAPSED = st.integers(0, 200)
INTERVAL = st.sampled_from([CONTINUOUS, 0, 1, 2, 7, 10, 50])
COST = st.integers(0, 12)


def lived(elapsed_ms: int, interval_ms: int, cost_ms: int) -> Split:
    """Live through a stretch, one millisecond at a time."""
    saved = stall = unsaved = writing = 0
    for _ in range(elapsed_ms):
        if interval_ms == CONTINUOUS:
            saved += 1
        elif writing:
            writing -= 1
            stall += 1
        else:
            unsaved += 1
            writing = cost_ms if unsaved == interval_ms else 0
        if unsaved == interval_ms and not writing:
            saved, unsaved = saved + unsaved, 0
    return Split(saved, stall, unsaved)


@given(ELAPSED, INTERVAL, COST)
def test_split_is_what_a_clock_would_count(elapsed_ms: int, interval_ms: int, cost_ms: int):
    """Saved, stalled and unsaved time equal those counted millisecond by millisecond."""
    if interval_ms == 0:
        assert progress.split(elapsed_ms, 0, cost_ms) == Split(0, 0, elapsed_ms)
    else:
        expected = lived(elapsed_ms, interval_ms, cost_ms)
        assert progress.split(elapsed_ms, interval_ms, cost_ms) == expected


@given(ELAPSED, INTERVAL, COST)
def test_the_parts_add_up_to_the_stretch(elapsed_ms: int, interval_ms: int, cost_ms: int):
    """Every millisecond is in exactly one part."""
    split = progress.split(elapsed_ms, interval_ms, cost_ms)
    assert sum(split) == elapsed_ms


@given(ELAPSED, INTERVAL, COST)
def test_what_is_safe_stays_safe(elapsed_ms: int, interval_ms: int, cost_ms: int):
    """What is safe at one moment is safe a moment later, and lies before the work at risk."""
    safe_ms = rhythm.safe_ms(elapsed_ms, interval_ms, cost_ms)
    assert safe_ms <= rhythm.safe_ms(elapsed_ms + 1, interval_ms, cost_ms)
    at_risk_ms = progress.split(elapsed_ms, interval_ms, cost_ms).unsaved_ms
    assert 0 <= safe_ms <= elapsed_ms - at_risk_ms


@given(st.integers(1, 200), INTERVAL, COST)
def test_run_ms_is_the_first_moment_at_which_the_work_is_done(
    work_ms: int, interval_ms: int, cost_ms: int
):
    """After run_ms all work is done, a moment before not; no checkpoint is written at the end."""
    run_ms = progress.run_ms(work_ms, interval_ms, cost_ms)

    def done_ms(elapsed_ms: int) -> int:
        split = progress.split(elapsed_ms, interval_ms, cost_ms)
        return split.saved_ms + split.unsaved_ms

    assert done_ms(run_ms) == work_ms
    assert done_ms(run_ms - 1) == work_ms - 1


@given(ELAPSED, INTERVAL, COST, st.sampled_from([JobState.STARTING, JobState.RUNNING]))
def test_stopping_loses_what_is_unsaved_and_the_way_back(
    elapsed_ms: int, interval_ms: int, cost_ms: int, state: JobState
):
    """What a stop would cost is the work at risk, if it works, plus the time to come back."""
    jobs = np.zeros((2, len(JOB)), np.int64)
    jobs[1, [JOB.STATE, JOB.ORIGIN_MS, JOB.STARTUP_MS, JOB.RESTART_MS]] = (state, 1000, 30, 4)
    jobs[1, [JOB.INTERVAL_MS, JOB.COST_MS]] = (interval_ms, cost_ms)
    at_risk_ms = progress.split(elapsed_ms, interval_ms, cost_ms).unsaved_ms
    expected = 34 + (at_risk_ms if state is JobState.RUNNING else 0)
    assert rhythm.lost_ms(jobs, 1, 1000 + elapsed_ms) == expected


def test_nothing_to_do_takes_no_time():
    """A job without work is done at once."""
    assert progress.run_ms(0, 10, 5) == 0
