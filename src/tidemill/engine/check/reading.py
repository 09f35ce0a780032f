"""The kernels of the plan checker: the rows of a plan, one after the other, then the sums.

``read`` goes through a plan and comes back before each row of a rare kind, which Python reads
(``rare``) over the same sums. ``sums.finish`` compares them with what there is. The cost grows with
the plan, not with the fleet. Nothing here is shared with the layers.

Of jobs that ask for the same, the first in line goes first: jobs of one shape fit wherever another
of them does. So in an order that does not read run times none of them is placed before an earlier
one; with backfill one that is taken to end before it may be, since it may end before what is
reserved begins where the earlier one does not.
"""

from tidemill.compiled import shared
from tidemill.engine.check.columns import GANG, ON, RULE, SUM
from tidemill.engine.check.expecting import end_if_placed
from tidemill.engine.check.gangs import read_gang
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.pieces import take_pieces
from tidemill.engine.check.ranks import goes_first
from tidemill.engine.check.shares import are_shares_alone, read_shares
from tidemill.engine.check.stops import read_release, read_stop, read_there
from tidemill.engine.check.sums import finish
from tidemill.engine.check.telling import (
    ABOUT,
    CANCEL,
    EVICT,
    MIX,
    MOVE,
    NODES,
    PASSED,
    PLACE,
    RELEASE,
    WHY,
    are_known,
    tell,
)
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT, JOB, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState

WAITING = int(JobState.WAITING)
IS_NOT_WAITING, IS_ATTEMPT, IS_OUT_OF_ORDER = map(
    int, (RULE.NOT_WAITING, RULE.ATTEMPT, RULE.OUT_OF_ORDER)
)
IS_PASSED_ACTIVE, IS_PASSED_TWICE, IS_PASSED_BY_NOBODY = map(
    int, (RULE.PASSED_ACTIVE, RULE.PASSED_TWICE, RULE.PASSED_BY_NOBODY)
)
IS_NOT_IDLE = int(RULE.NOT_IDLE)
STRICT, SHORTER_MAY_PASS = 1, 2  # in ``SUM.LINES``
READ_AT_ONCE = 256
"""Jobs of a line that is read for every plan, where each job has a place of its own; a longer one
is read for one plan in so many more."""


@kernel
def read_state(reg, wrong, jobs, events, e):
    """A waiting job is placed, as its next attempt."""
    j, attempt = events[e, EventColumn.WHO], events[e, EventColumn.ATTEMPT]
    if jobs[j, JOB.STATE] != WAITING:
        tell(reg, wrong, IS_NOT_WAITING, e, j, 0, 0)
    if attempt != jobs[j, JOB.ATTEMPT] + 1:
        tell(reg, wrong, IS_ATTEMPT, e, j, attempt, 0)


@kernel
def read_passed(reg, wrong, jobs, named, e, j):
    """Whoever is said to be passed for the first time waits, and somebody else is placed."""
    if jobs[j, JOB.STATE] != WAITING or named[j] != 0:
        tell(reg, wrong, IS_PASSED_ACTIVE, e, j, 0, 0)
    if jobs[j, JOB.PASSED_MS] >= 0:
        tell(reg, wrong, IS_PASSED_TWICE, e, j, 0, 0)
    if reg[SUM.PLACED] == 0:
        tell(reg, wrong, IS_PASSED_BY_NOBODY, e, j, 0, 0)


@kernel
def read_cancel(reg, wrong, jobs, of_shape, e, j):
    """What is cancelled is there, not about to leave, and interactive work long since idle."""
    since, after = jobs[j, JOB.IDLE_MS], reg[SUM.CULL_AFTER_MS]
    read_there(reg, wrong, jobs, e, j)
    is_unused = of_shape[jobs[j, JOB.SHAPE], GANG.IS_INTERACTIVE] != 0 and since >= 0
    if not is_unused or after == 0 or reg[SUM.NOW] < since + after:
        tell(reg, wrong, IS_NOT_IDLE, e, j, 0, 0)


@kernel
def first_passed(jobs, shapes, run_times, ratios, reg, named, j):
    """Some job that goes before one and that the plan leaves waiting, though it may not; or -1.

    Who does is who is first in line, unless the order reads jobs.
    """
    other, end = shapes[jobs[j, JOB.SHAPE], SHAPE.HEAD], -1
    while other >= 0 and (other != j or reg[SUM.ORDER] != 0):
        if named[other] == 0 and (
            reg[SUM.ORDER] == 0 or goes_first(jobs, shapes, run_times, ratios, reg, other, j)
        ):
            if reg[SUM.LINES] == STRICT:
                return other
            if end < 0:
                end = end_if_placed(jobs, shapes, run_times, ratios, reg, j)
            if end_if_placed(jobs, shapes, run_times, ratios, reg, other) <= end:
                return other
        other = jobs[other, JOB.NEXT]
    return -1


@kernel
def is_line_known(jobs, shapes, of_shape, reg, s):
    """Whether what was read last of a shape's line is still true of those who are left of it.

    Who went since was one of them, and nobody came between unless somebody came back. A plan that
    was not carried out told nothing.
    """
    if of_shape[s, GANG.PLAN] == 0 or reg[SUM.LEARNS] != 0:
        return False
    if of_shape[s, GANG.RETURNS] != shapes[s, SHAPE.RETURNS]:
        return False
    is_this = of_shape[s, GANG.PLAN] == reg[SUM.PLANS]
    return is_this or jobs[of_shape[s, GANG.LAST], JOB.STATE] != WAITING


@kernel
def soonest(jobs, shapes, run_times, ratios, reg, named, j, last, least):
    """In what time the first ends of those between two in line whom the plan leaves waiting."""
    other = jobs[j, JOB.PREVIOUS]
    while other > last:
        if named[other] == 0:
            end = end_if_placed(jobs, shapes, run_times, ratios, reg, other)
            least = min(least, end - reg[SUM.NOW])
        other = jobs[other, JOB.PREVIOUS]
    return least


@kernel
def is_next(jobs, shapes, run_times, ratios, of_shape, reg, named, j):
    """Whether a job ends before all before it in line whom the plan leaves waiting.

    Of those before the last that was placed it is kept how soon one ends: only who stands between
    that one and this is read, unless that does not tell.
    """
    s, last, least = jobs[j, JOB.SHAPE], -1, FOREVER_MS
    ends_in = end_if_placed(jobs, shapes, run_times, ratios, reg, j) - reg[SUM.NOW]
    is_known = is_line_known(jobs, shapes, of_shape, reg, s)
    if is_known and of_shape[s, GANG.LAST] < j:
        last, least = of_shape[s, GANG.LAST], of_shape[s, GANG.LEAST_MS]
    least = soonest(jobs, shapes, run_times, ratios, reg, named, j, last, least)
    if last >= 0 and ends_in >= least:
        least = soonest(jobs, shapes, run_times, ratios, reg, named, j, -1, FOREVER_MS)
    if not is_known or of_shape[s, GANG.LAST] < j:
        of_shape[s, GANG.PLAN] = reg[SUM.PLANS]
        of_shape[s, GANG.LAST] = j
        of_shape[s, GANG.RETURNS] = shapes[s, SHAPE.RETURNS]
        of_shape[s, GANG.LEAST_MS] = least
    return ends_in < least


@kernel
def passed_over(w, c, f, j):
    """Some job that a plan leaves waiting, though it goes before one that it places; -1: none."""
    reg, s = c.reg, w.jobs[j, JOB.SHAPE]
    if reg[SUM.ORDER] != 0:
        if reg[SUM.PLANS] % (1 + w.shapes[s, SHAPE.WAITING] // READ_AT_ONCE) != 0:
            return -1
    elif reg[SUM.LINES] != STRICT and is_next(
        w.jobs, w.shapes, w.run_times, w.ratios, f.of_shape, reg, c.named, j
    ):
        return -1
    return first_passed(w.jobs, w.shapes, w.run_times, w.ratios, reg, c.named, j)


@kernel
def read_lines(w, c, f, p):
    """Tell who is placed before one that asks for the same and goes first."""
    for e in range(c.reg[SUM.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            j = p.events[e, EventColumn.WHO]
            other = passed_over(w, c, f, j)
            if other >= 0:
                tell(c.reg, c.wrong, IS_OUT_OF_ORDER, e, j, other, 0)


@kernel
def read_row(w, c, f, p, e):
    """Read a row, unless it is of a rare kind; whether it was read."""
    events, who = p.events, p.events[e, EventColumn.WHO]
    kind, first = events[e, EventColumn.KIND], events[e, EventColumn.FIRST]
    if kind in (PLACE, EVICT, MOVE, CANCEL):
        c.named[who] += 1
    if ABOUT[kind] == NODES:
        c.on_node[who, ON.NAMED] += 1
    if kind == PLACE:
        count = events[e, EventColumn.COUNT]
        read_state(c.reg, c.wrong, w.jobs, events, e)
        take_pieces(w, c, f, p, e, count)
        read_gang(w, c, f, p.event_pieces, first, count, e, who, w.jobs[who, JOB.SHAPE])
    elif kind == PASSED:
        read_passed(c.reg, c.wrong, w.jobs, c.named, e, who)
    elif kind == CANCEL:
        read_cancel(c.reg, c.wrong, w.jobs, f.of_shape, e, who)
    elif kind == RELEASE:
        read_release(c.reg, c.wrong, w.shapes, e, who)
    elif kind == EVICT:
        return read_stop(w, c, p, e)
    if kind == MIX:
        return c.reg[SUM.JOBS] > c.reg[SUM.MIX_POINT]
    return kind in (PLACE, PASSED, WHY, CANCEL, RELEASE)


@kernel
@shared
def read(w, c, f, p, e):
    """Read a plan from a row on; the first row of a rare kind, for Python, or where it ends."""
    if e == 0:
        c.reg[SUM.PLANS] += 1
    if e == 0 and not are_known(c.reg, c.wrong, p.events, p.event_pieces):
        return c.reg[SUM.ROWS]
    while e < c.reg[SUM.ROWS]:
        if not read_row(w, c, f, p, e):
            return e
        e += 1
    goes_in_line = c.reg[SUM.LINES] != 0 and w.at[AT.PROMISED] == 0  # who has room made goes first
    if goes_in_line and c.reg[SUM.PLACES_ONLY] and c.reg[SUM.WRONGS] == 0:
        read_lines(w, c, f, p)
    if c.reg[SUM.WRONGS] == 0 and are_shares_alone(w, c):
        read_shares(w, c, f, p)
    finish(w, c, p)
    return e
