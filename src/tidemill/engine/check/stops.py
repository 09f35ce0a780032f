"""The kernels of the plan checker on evictions: who may be stopped, and for whom.

What a job is protected by is read here for every eviction, and the whole right where a plan of the
fleet puts jobs off (``Why.REORDERED``, ``REPACKED``). Rights by priority and by quotas are rare,
and so are drains: those are Python's (``rare``).
"""

from tidemill.engine.check.columns import QUEUE, REG, RULE
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.ranks import goes_first
from tidemill.engine.check.telling import tell
from tidemill.model import codes
from tidemill.model.batch import EventColumn
from tidemill.model.columns import JOB, QUOTA, SHAPE
from tidemill.model.events import Why
from tidemill.model.states import JobState

WAITING, STARTING, RUNNING = map(int, (JobState.WAITING, JobState.STARTING, JobState.RUNNING))
RECLAIMED, REORDERED, REPACKED = (
    codes.WHY_CODE[why] for why in (Why.RECLAIMED, Why.REORDERED, Why.REPACKED)
)
IS_STOPPED_INACTIVE, IS_LEAVING, IS_STOPPED_ATTEMPT, IS_NOT_PROMISED = map(
    int, (RULE.STOPPED_INACTIVE, RULE.LEAVING, RULE.STOPPED_ATTEMPT, RULE.NOT_PROMISED)
)
IS_FOR_NOBODY, IS_NOT_PREEMPTIBLE, IS_TOO_SOON, IS_TOO_OFTEN = map(
    int, (RULE.HEIR, RULE.NOT_PREEMPTIBLE, RULE.TOO_SOON, RULE.TOO_OFTEN)
)
IS_NOT_REORDERED, IS_LOSING, IS_AFTER = map(
    int, (RULE.NOT_REORDERED, RULE.LOSES_WORK, RULE.COMES_AFTER)
)
DOUBLINGS = 4  # of the minimum run time, one for each time that it was stopped


@kernel
def read_there(reg, wrong, jobs, e, j):
    """What is stopped is there, and not about to leave."""
    if jobs[j, JOB.STATE] not in (STARTING, RUNNING):
        tell(reg, wrong, IS_STOPPED_INACTIVE, e, j, 0, 0)
    if jobs[j, JOB.IS_LEAVING] != 0:
        tell(reg, wrong, IS_LEAVING, e, j, 0, 0)


@kernel
def loses_nothing(jobs, j, now):
    """Whether stopping an active job now wastes no work and no time to come back."""
    if jobs[j, JOB.STARTUP_MS] != 0 or jobs[j, JOB.RESTART_MS] != 0:
        return False
    if jobs[j, JOB.STATE] != RUNNING or jobs[j, JOB.INTERVAL_MS] < 0:
        return True
    elapsed, interval = now - jobs[j, JOB.ORIGIN_MS], jobs[j, JOB.INTERVAL_MS]
    if interval == 0:
        return elapsed == 0
    return elapsed % (interval + jobs[j, JOB.COST_MS]) == 0


@kernel
def read_protection(reg, wrong, jobs, e, j, why):
    """Nobody is stopped for another before its time, nor too often without saving anything."""
    if why in (REORDERED, REPACKED) and loses_nothing(jobs, j, reg[REG.NOW]):
        return
    least = reg[REG.MIN_RUN_MS] << min(DOUBLINGS, jobs[j, JOB.EVICTIONS])
    is_up = jobs[j, JOB.STATE] == RUNNING and reg[REG.NOW] - jobs[j, JOB.SINCE_MS] >= least
    if least != 0 and not is_up:
        tell(reg, wrong, IS_TOO_SOON, e, j, 0, 0)
    if jobs[j, JOB.FRUITLESS] >= reg[REG.EVICTIONS_AT_MOST] and why != RECLAIMED:
        tell(reg, wrong, IS_TOO_OFTEN, e, j, 0, 0)


@kernel
def has_floor(quotas, queue, q):
    """Whether a queue, or one above it, has a guaranteed quota."""
    while q >= 0:
        for k in range(quotas.shape[1]):
            if quotas[q, k, QUOTA.FLOOR] > 0:
                return True
        q = queue[q, QUEUE.PARENT]
    return False


@kernel
def read_order(w, c, e, j, heir, why):
    """An heir goes before whom it puts off, or its team does; who is repacked loses nothing.

    False: the order is one that kernels do not know.
    """
    reg, wrong = c.reg, c.wrong
    if reg[REG.REORDERS] == 0:
        tell(reg, wrong, IS_NOT_REORDERED, e, j, 0, 0)
    elif why == REPACKED:
        if not loses_nothing(w.jobs, j, reg[REG.NOW]):
            tell(reg, wrong, IS_LOSING, e, j, 0, 0)
    elif reg[REG.ORDER] == 0:
        return False
    elif not goes_first(w.jobs, w.shapes, w.run_times, w.ratios, reg, heir, j):
        q = w.shapes[w.jobs[heir, JOB.SHAPE], SHAPE.QUEUE]
        if reg[REG.IS_FAIR] == 0 and not has_floor(w.quotas, c.queue, q):
            tell(reg, wrong, IS_AFTER, e, j, heir, 0)
    return True


@kernel
def read_stop(w, c, p, e):
    """Read an eviction; whether that is all of it, or Python reads on."""
    reg, wrong, jobs, j = c.reg, c.wrong, w.jobs, p.events[e, EventColumn.WHO]
    heir, why = p.events[e, EventColumn.TO], p.events[e, EventColumn.WHY]
    read_there(reg, wrong, jobs, e, j)
    if p.events[e, EventColumn.ATTEMPT] != jobs[j, JOB.ATTEMPT]:
        tell(reg, wrong, IS_STOPPED_ATTEMPT, e, j, p.events[e, EventColumn.ATTEMPT], 0)
    if heir < 0:
        return False
    if jobs[heir, JOB.STATE] != WAITING:
        tell(reg, wrong, IS_FOR_NOBODY, e, j, 0, 0)
    if w.shapes[jobs[j, JOB.SHAPE], SHAPE.IS_PREEMPTIBLE] == 0:
        tell(reg, wrong, IS_NOT_PREEMPTIBLE, e, j, 0, 0)
    read_protection(reg, wrong, jobs, e, j, why)
    return why in (REORDERED, REPACKED) and read_order(w, c, e, j, heir, why)


@kernel
def read_release(reg, wrong, shapes, e, s):
    """Room is being made for whom it is made no more."""
    if shapes[s, SHAPE.PROMISED] == 0:
        tell(reg, wrong, IS_NOT_PROMISED, e, s, 0, 0)
