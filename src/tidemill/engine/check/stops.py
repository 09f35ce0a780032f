"""The kernels of the plan checker on evictions: who may be stopped, and for whom.

What a job is protected by, and by what right it is stopped: by the order of the fleet
(``Why.REORDERED``, ``REPACKED``), by priority within its team, by the quotas of another. Drains are
rare, and so are orders of a plug-in: those are Python's (``rare``).
"""

from tidemill.engine.check.columns import BRANCH, RULE, SUM
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.ranks import goes_first
from tidemill.engine.check.telling import tell
from tidemill.model import codes
from tidemill.model.batch import EventColumn
from tidemill.model.columns import JOB, NODE, PIECE, QUOTA, ROLE, SHAPE
from tidemill.model.events import Why
from tidemill.model.states import JobState

WAITING, STARTING, RUNNING = map(int, (JobState.WAITING, JobState.STARTING, JobState.RUNNING))
RECLAIMED, REORDERED, REPACKED = (
    codes.WHY_CODE[why] for why in (Why.RECLAIMED, Why.REORDERED, Why.REPACKED)
)
IS_STOPPED_INACTIVE, IS_LEAVING, IS_STOPPED_ATTEMPT, IS_NOT_PROMISED = map(
    int, (RULE.STOPPED_INACTIVE, RULE.LEAVING, RULE.STOPPED_ATTEMPT, RULE.NOT_PROMISED)
)
IS_FOR_MEEK = int(RULE.MAY_NOT_PREEMPT)
IS_FOR_NOBODY, IS_NOT_PREEMPTIBLE, IS_TOO_SOON, IS_TOO_OFTEN = map(
    int, (RULE.HEIR, RULE.NOT_PREEMPTIBLE, RULE.TOO_SOON, RULE.TOO_OFTEN)
)
IS_NOT_REORDERED, IS_LOSING, IS_AFTER, IS_WITHOUT_CLAIM, IS_NOT_HIGHER = map(
    int,
    (RULE.NOT_REORDERED, RULE.LOSES_WORK, RULE.COMES_AFTER, RULE.NO_CLAIM, RULE.NOT_HIGHER),
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
    if why in (REORDERED, REPACKED) and loses_nothing(jobs, j, reg[SUM.NOW]):
        return
    least = reg[SUM.MIN_RUN_MS] << min(DOUBLINGS, jobs[j, JOB.EVICTIONS])
    is_up = jobs[j, JOB.STATE] == RUNNING and reg[SUM.NOW] - jobs[j, JOB.SINCE_MS] >= least
    if least != 0 and not is_up:
        tell(reg, wrong, IS_TOO_SOON, e, j, 0, 0)
    if jobs[j, JOB.FRUITLESS] >= reg[SUM.EVICTIONS_AT_MOST] and why != RECLAIMED:
        tell(reg, wrong, IS_TOO_OFTEN, e, j, 0, 0)


@kernel
def has_floor(quotas, queue, q):
    """Whether a queue, or one above it, has a guaranteed quota."""
    while q >= 0:
        for k in range(quotas.shape[1]):
            if quotas[q, k, QUOTA.FLOOR] > 0:
                return True
        q = queue[q, BRANCH.PARENT]
    return False


@kernel
def read_order(w, c, e, j, heir, why):
    """An heir goes before whom it puts off, or its team does; who is repacked loses nothing.

    False: the order is one that kernels do not know.
    """
    reg, wrong = c.reg, c.wrong
    if reg[SUM.REORDERS] == 0:
        tell(reg, wrong, IS_NOT_REORDERED, e, j, 0, 0)
    elif why == REPACKED:
        if not loses_nothing(w.jobs, j, reg[SUM.NOW]):
            tell(reg, wrong, IS_LOSING, e, j, 0, 0)
    elif reg[SUM.ORDER] == 0:
        return False
    elif not goes_first(w.jobs, w.shapes, w.run_times, w.ratios, reg, heir, j):
        q = w.shapes[w.jobs[heir, JOB.SHAPE], SHAPE.QUEUE]
        if reg[SUM.IS_FAIR] == 0 and not has_floor(w.quotas, c.queue, q):
            tell(reg, wrong, IS_AFTER, e, j, heir, 0)
    return True


@kernel
def is_in(queue, q, above):
    """Whether a queue is another one, or below it."""
    while q >= 0 and q != above:
        q = queue[q, BRANCH.PARENT]
    return q >= 0


@kernel
def branch(queue, q, other):
    """The highest queue above one, itself counted, that another is not in."""
    while queue[q, BRANCH.PARENT] >= 0 and not is_in(queue, other, queue[q, BRANCH.PARENT]):
        q = queue[q, BRANCH.PARENT]
    return q


@kernel
def least_of(shapes, roles, s):
    """What a gang takes at its smallest size, in milli."""
    first, milli = shapes[s, SHAPE.FIRST_ROLE], 0
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        count = roles[r, ROLE.LEAST] if roles[r, ROLE.LEAST] != 0 else roles[r, ROLE.COUNT]
        milli += count * roles[r, ROLE.ACCELERATORS] * roles[r, ROLE.MILLI]
    return milli


@kernel
def is_entitled(quotas, on_team, q, need):
    """Whether a queue is sure of so much more of some type."""
    for k in range(on_team.shape[1]):
        if quotas[q, k, QUOTA.USED] + on_team[q, k] + need <= quotas[q, k, QUOTA.FLOOR]:
            return True
    return False


@kernel
def borrows(quotas, c, q, heirs, k):
    """Whether a queue and those above it that another is not in use more than they are sure of."""
    while q >= 0 and not is_in(c.queue, heirs, q):
        used = quotas[q, k, QUOTA.USED] + c.on_team[q, k] - c.leaving[q, k]
        if used <= quotas[q, k, QUOTA.FLOOR]:
            return False
        q = c.queue[q, BRANCH.PARENT]
    return True


@kernel
def may_reclaim(w, c, j, heir):
    """Whether one branch of the tree takes back what another borrows, below where they meet."""
    q, s = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.QUEUE], w.jobs[heir, JOB.SHAPE]
    heirs, p = w.shapes[s, SHAPE.QUEUE], w.jobs[j, JOB.FIRST_PIECE]
    need = least_of(w.shapes, w.roles, s)
    if not is_entitled(w.quotas, c.on_team, branch(c.queue, heirs, q), need):
        return False
    while p >= 0:
        k = w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND]
        if w.pieces[p, PIECE.IS_COMING] == 0 and borrows(w.quotas, c, q, heirs, k):
            return True
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return False


@kernel
def read_right(w, c, e, j, heir):
    """A team takes back what another borrows; within a team, the higher goes before the lower."""
    mine, theirs = w.jobs[j, JOB.SHAPE], w.jobs[heir, JOB.SHAPE]
    if w.shapes[theirs, SHAPE.MAY_PREEMPT] == 0:
        tell(c.reg, c.wrong, IS_FOR_MEEK, e, j, 0, 0)
    if w.shapes[mine, SHAPE.QUEUE] != w.shapes[theirs, SHAPE.QUEUE]:
        if not may_reclaim(w, c, j, heir):
            tell(c.reg, c.wrong, IS_WITHOUT_CLAIM, e, j, 0, 0)
    elif w.shapes[mine, SHAPE.PRIORITY] >= w.shapes[theirs, SHAPE.PRIORITY]:
        tell(c.reg, c.wrong, IS_NOT_HIGHER, e, j, 0, 0)


@kernel
def count_leaving(w, c, j):
    """Count what a job holds that is asked to leave, for its team and all above it."""
    s, p = w.jobs[j, JOB.SHAPE], w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            r = w.shapes[s, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE]
            replica = w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
            k, q = w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND], w.shapes[s, SHAPE.QUEUE]
            while q >= 0:
                c.leaving[q, k] += w.pieces[p, PIECE.REPLICAS] * replica
                q = c.queue[q, BRANCH.PARENT]
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


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
    is_read = True
    if why in (REORDERED, REPACKED):
        is_read = read_order(w, c, e, j, heir, why)
    else:
        read_right(w, c, e, j, heir)
    count_leaving(w, c, j)
    return is_read


@kernel
def read_release(reg, wrong, shapes, e, s):
    """Room is being made for whom it is made no more."""
    if shapes[s, SHAPE.PROMISED] == 0:
        tell(reg, wrong, IS_NOT_PROMISED, e, s, 0, 0)
