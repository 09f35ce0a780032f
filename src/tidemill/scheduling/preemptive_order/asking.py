"""A plan of the whole fleet in one compiled call: who is placed, who is stopped, why others wait.

As ``apply.Reordering``, which says why; where more than nodes decides it is left to that.
"""

from tidemill.core.estimates import learn
from tidemill.core.replay import EVICT, PLACED, RELEASE, SAID_WHY
from tidemill.model import codes
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import AT, JOB, SHAPE
from tidemill.model.events import Why
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.codes import KNOW, OVER, SUPPLY
from tidemill.scheduling.desk.columns import ASK, NOTE, REG, UNKNOWN
from tidemill.scheduling.desk.opening import refresh, refresh_room
from tidemill.scheduling.desk.placing import tell
from tidemill.scheduling.preemptive_order.calling import NO_SPACE, call, may_stop, next_step
from tidemill.scheduling.preemptive_order.columns import (
    OUTSIDE,
    PLANNED,
    ROLL,
    SEEKER,
    TERM,
    WANT,
)
from tidemill.scheduling.preemptive_order.kernel import kernel
from tidemill.scheduling.preemptive_order.rooms import sit_again, take_seat
from tidemill.scheduling.preemptive_order.seating import SEATED, find_seats, list_newcomers

REORDERED, REPACKED = codes.WHY_CODE[Why.REORDERED], codes.WHY_CODE[Why.REPACKED]
NO_CAUSE, PROMISED, SCATTERED, BUSY = (
    int(cause) for cause in (Cause.NONE, Cause.PROMISED, Cause.SCATTERED, Cause.BUSY)
)


# Who is ready, and who leaves -------------------------------------------------------------------


@kernel
def try_seats(w, a, r):
    """Note whose seat is free now; whether all of them may be stopped again.

    Nobody is asked to leave in the cycle in which somebody sits down who cannot be stopped again:
    the plan of the fleet is another one then.
    """
    newcomers, is_settled = r.newcomers, True
    for i in range(r.terms[TERM.NEWCOMERS]):
        count, s = newcomers[i, SEEKER.COUNT], r.roll[newcomers[i, SEEKER.ROW], ROLL.SHAPE]
        newcomers[i, SEEKER.IS_READY] = 0
        if count > 0 and take_seat(w, a, r.given, s, newcomers[i, SEEKER.FIRST], count):
            newcomers[i, SEEKER.IS_READY] = 1
            is_settled = is_settled and may_stop(w.shapes, s)
    return is_settled


@kernel
def first_waiting(r):
    """The first newcomer who has a seat that is not free yet; -1: all are."""
    for i in range(r.terms[TERM.NEWCOMERS]):
        if r.newcomers[i, SEEKER.COUNT] > 0 and r.newcomers[i, SEEKER.IS_READY] == 0:
            return i
    return -1


@kernel
def list_leaving(w, g, r):
    """Note who is in the way; the first of them, or -1."""
    first = -1
    for i in range(r.terms[TERM.OUTSIDE]):
        j = r.roll[r.outside[i, OUTSIDE.ROW], ROLL.JOB]
        if r.outside[i, OUTSIDE.STAYS] == 0 and not sit_again(w, g, j):
            r.outside[i, OUTSIDE.IS_LEAVING] = 1
            first = i if first < 0 else first
    return first


@kernel
def let_wait(r):
    """Have the first who is ready wait a cycle, so that room is made in its name; who it is."""
    for i in range(r.terms[TERM.NEWCOMERS]):
        if r.newcomers[i, SEEKER.IS_READY] != 0:
            r.newcomers[i, SEEKER.IS_READY] = 0
            return i
    return -1


# Telling ----------------------------------------------------------------------------------------


@kernel
def has_space(w, d, r):
    """Whether all that may be said can be."""
    terms, pieces = r.terms, d.reg[REG.EVENT_PIECES] + r.terms[TERM.GIVEN]
    rows = d.reg[REG.EVENTS] + terms[TERM.NEWCOMERS] + terms[TERM.OUTSIDE] + terms[TERM.ELSEWHERE]
    rows += w.at[AT.PROMISED] + w.at[AT.QUEUED]
    return rows <= len(d.events) and pieces <= len(d.event_pieces)


@kernel
def tell_place(d, r, j, attempt, first, count):
    """Write that a job is placed on its seat."""
    e, start = d.reg[REG.EVENTS], d.reg[REG.EVENT_PIECES]
    tell(d, PLACED, j, attempt, 0)
    d.events[e, EventColumn.FIRST] = start
    d.events[e, EventColumn.COUNT] = count
    for p in range(count):
        d.event_pieces[start + p, PieceColumn.ROLE] = 0
        d.event_pieces[start + p, PieceColumn.NODE] = r.given[first + p, PLANNED.NODE]
        d.event_pieces[start + p, PieceColumn.REPLICAS] = r.given[first + p, PLANNED.REPLICAS]
        d.event_pieces[start + p, PieceColumn.DEVICES] = r.given[first + p, PLANNED.DEVICES]
        d.event_pieces[start + p, PieceColumn.SLICES] = 0
    d.reg[REG.EVENT_PIECES] = start + count


@kernel
def tell_places(w, d, r):
    """Write who is placed; of the others that have a seat, that room is made for them."""
    newcomers = r.newcomers
    for i in range(r.terms[TERM.NEWCOMERS]):
        row, count = newcomers[i, SEEKER.ROW], newcomers[i, SEEKER.COUNT]
        j, s = r.roll[row, ROLL.JOB], r.roll[row, ROLL.SHAPE]
        if count > 0 and newcomers[i, SEEKER.IS_READY] != 0:
            r.wants[s, WANT.IS_PLACED] = 1
            tell_place(d, r, j, w.jobs[j, JOB.ATTEMPT] + 1, newcomers[i, SEEKER.FIRST], count)
        elif count > 0:
            r.wants[s, WANT.IS_PROMISED] = 1


@kernel
def tell_leave(w, d, r, row, why, heir):
    """Write that somebody on the roll is asked to leave for another."""
    j = r.roll[row, ROLL.JOB]
    tell(d, EVICT, j, w.jobs[j, JOB.ATTEMPT], why)
    d.events[d.reg[REG.EVENTS] - 1, EventColumn.TO] = heir


@kernel
def ask(w, d, g, a, r):
    """Place whoever's seat is free; ask those in the way of the others to leave.

    They leave for a newcomer that goes before all of them. If every such newcomer could be placed
    at once, the first of them waits a cycle, so that room is made in its name.
    """
    is_settled = try_seats(w, a, r)
    waiting, leaving = first_waiting(r), list_leaving(w, g, r)
    makes_room = waiting >= 0 and is_settled
    has_no_heir = makes_room and leaving >= 0
    if has_no_heir and r.outside[leaving, OUTSIDE.ROW] > r.newcomers[waiting, SEEKER.ROW]:
        waiting = let_wait(r)
    tell_places(w, d, r)
    if not makes_room:
        return
    heir = r.roll[r.newcomers[waiting, SEEKER.ROW], ROLL.JOB]
    for i in range(r.terms[TERM.OUTSIDE]):
        if r.outside[i, OUTSIDE.IS_LEAVING] != 0:
            tell_leave(w, d, r, r.outside[i, OUTSIDE.ROW], REORDERED, heir)
    for i in range(r.terms[TERM.ELSEWHERE]):
        if r.elsewhere[i, SEEKER.IS_READY] != 0:
            tell_leave(w, d, r, r.elsewhere[i, SEEKER.ROW], REPACKED, heir)


@kernel
def cause_of(asks, wants, s):
    """Why the jobs of a shape wait; ``NO_CAUSE``: one of them does not."""
    if wants[s, WANT.IS_PROMISED] != 0:
        return PROMISED
    if wants[s, WANT.IS_OUT] == 0:
        return NO_CAUSE if wants[s, WANT.IS_PLACED] != 0 else SCATTERED
    return BUSY if asks[s, ASK.SUPPLY] == NO_CAUSE else asks[s, ASK.SUPPLY]


@kernel
def finish(w, d, r):
    """Say which promises came to nothing, and why the others wait."""
    shapes, wants = w.shapes, r.wants
    for s in range(d.reg[REG.SHAPES] if w.at[AT.PROMISED] > 0 else 0):
        is_kept = wants[s, WANT.IS_PLACED] != 0 or wants[s, WANT.IS_PROMISED] != 0
        if shapes[s, SHAPE.PROMISED] == 1 and not is_kept:
            tell(d, RELEASE, s, 0, 0)
    for s in range(d.reg[REG.SHAPES]):
        if shapes[s, SHAPE.WAITING] > 0:
            cause = cause_of(d.asks, wants, s)
            if cause not in (NO_CAUSE, shapes[s, SHAPE.CAUSE]):
                tell(d, SAID_WHY, s, 0, cause)


# A plan -----------------------------------------------------------------------------------------


@kernel
def begin(w, d, r, now):
    """Begin a plan: nothing is said yet; ``OVER``, or what must be known of a shape first."""
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        d.reg[REG.WHO] = s
        if d.asks[s, ASK.IS_KNOWN] == 0:
            return KNOW
        if d.asks[s, ASK.SUPPLY] == UNKNOWN:
            return SUPPLY
    for s in range(len(r.wants)):
        r.wants[s, WANT.IS_PLACED] = 0
        r.wants[s, WANT.IS_PROMISED] = 0
    r.terms[TERM.NOW] = now
    learn(w.queues, w.run_times, w.ratios, d.learnt)
    return OVER


@kernel
def plan_all(w, d, g, a, v, r, t, jobs_came, now):
    """Say who is placed, who is stopped and why the others wait, after what was said before.

    ``OVER``; or a code of the cycle, about ``REG.WHO``; or ``NOT_SIMPLE`` or ``NO_SPACE``: nothing
    was said.
    """
    code = begin(w, d, r, now)
    if code != OVER:
        return code
    count = call(w, d, v, r, jobs_came)
    if count < 0:
        return count
    list_newcomers(w, r)
    r.terms[TERM.GIVEN] = 0
    if r.terms[TERM.NEWCOMERS] > 0:
        refresh(w, d, g)
        refresh_room(w, a)
        code = find_seats(w, d, g, t, r)
        if code != SEATED:
            return code
    if not has_space(w, d, r):
        return NO_SPACE
    if r.terms[TERM.NEWCOMERS] > 0:
        ask(w, d, g, a, r)
    finish(w, d, r)
    d.notes[NOTE.FLEET_AGAIN_MS] = r.terms[TERM.AGAIN_MS]
    r.terms[TERM.STEP_MS] = next_step(w, r)
    return OVER
