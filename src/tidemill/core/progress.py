"""The rhythm of saving: what a stretch of running has saved, what a stop would lose.

A training job works ``interval`` milliseconds, then stalls ``cost`` to write a checkpoint, and so
on; it does not write one at the very end. Everything here is arithmetic on that rhythm, so a week
of running costs the same to account for as a minute. ``workload.progress`` asks this too.
"""

from tidemill.core import rhythm
from tidemill.core.kernel import kernel
from tidemill.model.columns import JOB
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState

CONTINUOUS = -1  # the interval of work that is worth something at once: services, notebooks
RUNNING = int(JobState.RUNNING)
checkpoints = kernel(rhythm.checkpoints)
since_checkpoint_ms = kernel(rhythm.since_checkpoint_ms)


@kernel
def saved_ms(elapsed, interval, cost):
    """How much work of a stretch is saved."""
    if interval == CONTINUOUS:
        return elapsed
    if interval == 0:
        return 0
    return checkpoints(elapsed, interval, cost) * interval


@kernel
def unsaved_ms(elapsed, interval, cost):
    """How much work of a stretch is not saved yet."""
    if interval == CONTINUOUS:
        return 0
    if interval == 0:
        return elapsed
    return min(since_checkpoint_ms(elapsed, interval, cost), interval)


@kernel
def safe_ms(elapsed, interval, cost):
    """How much of a stretch an interruption cannot take back any more."""
    if interval == CONTINUOUS:
        return elapsed
    if interval == 0:
        return 0
    return elapsed - since_checkpoint_ms(elapsed, interval, cost)


@kernel
def run_ms(work, interval, cost):
    """How long an undisturbed attempt takes to do this much work, checkpoints included."""
    if interval <= 0 or work == 0:
        return work
    return work + (work - 1) // interval * cost


@kernel
def lost_ms(jobs, j, now):
    """Time of the whole gang that stopping an active job now would waste.

    Work since its last checkpoint, and coming back.
    """
    back = jobs[j, JOB.STARTUP_MS] + jobs[j, JOB.RESTART_MS]
    if jobs[j, JOB.STATE] != RUNNING:
        return back
    elapsed = now - jobs[j, JOB.ORIGIN_MS]
    return unsaved_ms(elapsed, jobs[j, JOB.INTERVAL_MS], jobs[j, JOB.COST_MS]) + back


@kernel
def left_ms(jobs, j, now):
    """How long an active job is expected to go on; one that is overdue, as long as it is overdue.

    Without an estimate it is expected to go on for as long as anybody counts.
    """
    estimate = jobs[j, JOB.ESTIMATE_MS]
    if estimate == 0:
        return FOREVER_MS
    left = estimate - jobs[j, JOB.SAVED_MS] - max(0, now - jobs[j, JOB.SINCE_MS])
    return max(left, -left)
