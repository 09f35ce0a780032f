"""Calling the roll in one go, where only nodes decide who is in: as ``plan.call_one_by_one``.

Every job that may be stopped, and every waiting one, is fitted in order into a room in which
nothing runs but what may not be stopped. A shape of which one did not fit is not tried again.
"""

from tidemill.core.heaps import arrange, leave
from tidemill.core.order import guarded_from
from tidemill.core.progress import lost_ms
from tidemill.core.ranks import ATTAINED, rank_of
from tidemill.model.columns import AT, JOB, NODE, PIECE, SHAPE
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.states import JobState, NodeState
from tidemill.scheduling.desk.rights import until_ms
from tidemill.scheduling.fitting.columns import OUT
from tidemill.scheduling.fitting.sweeps import fill
from tidemill.scheduling.preemptive_order.columns import PLANNED, ROLL, TERM, WANT
from tidemill.scheduling.preemptive_order.kernel import kernel
from tidemill.scheduling.preemptive_order.rooms import empty, move_job

READY, RUNNING, WAITING = int(NodeState.READY), int(JobState.RUNNING), int(JobState.WAITING)
KEY = int(ROLL.SHAPE)
NOT_SIMPLE = -1  # somebody is there for whom more than nodes decides
NO_SPACE = -2  # some column is too short
ENTRIES_AT_MOST = 1 << 14  # on the roll: with more, a line for each shape is quicker


@kernel
def may_stop(shapes, s):
    """Whether the order may stop a job of this shape: preemptible, and no service."""
    return shapes[s, SHAPE.IS_PREEMPTIBLE] != 0 and shapes[s, SHAPE.IS_LASTING] == 0


@kernel
def is_on_ready_nodes(nodes, pieces, p):
    """Whether all nodes of a job take work."""
    while p >= 0:
        if pieces[p, PIECE.IS_COMING] == 0 and nodes[pieces[p, PIECE.NODE], NODE.STATE] != READY:
            return False
        p = pieces[p, PIECE.NEXT_OF_JOB]
    return True


@kernel
def is_protected(jobs, terms, j):
    """Whether a job may not be stopped yet; one that loses nothing by it always may."""
    until = until_ms(jobs, j, terms[TERM.MIN_RUN_MS], terms[TERM.EVICTIONS_AT_MOST], 0)
    if until <= terms[TERM.NOW] or lost_ms(jobs, j, terms[TERM.NOW]) == 0:
        return False
    terms[TERM.AGAIN_MS] = min(terms[TERM.AGAIN_MS], until)
    return True


@kernel
def sit(w, v, j):
    """Take the place of a job that stays; whether that is of whole or shared devices."""
    p = w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.SLICES] != 0 or w.pieces[p, PIECE.IS_COMING] != 0:
            return False
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    move_job(w, v, j, -1)
    return True


@kernel
def enter(w, d, r, i, j, is_active):
    """Write a job and its place in the order on the roll; as ``order.place_of``."""
    jobs, roll, terms = w.jobs, r.roll, r.terms
    now, begun = terms[TERM.NOW], terms[TERM.NOW]
    if jobs[j, JOB.STATE] == RUNNING:
        begun = jobs[j, JOB.ORIGIN_MS]
    lost_at = guarded_from(jobs, j, 0, 0, terms[TERM.PATIENCE_MS], 0)
    is_lost = lost_at <= begun
    roll[i, ROLL.FIRST] = 0 if is_lost else 1
    roll[i, ROLL.SECOND] = lost_at
    if not is_lost:
        roll[i, ROLL.SECOND] = rank_of(
            jobs, w.shapes, d.learnt, r.steps, terms[TERM.RANKS], j, now - begun
        )
    roll[i, ROLL.JOB] = j
    roll[i, ROLL.SHAPE] = jobs[j, JOB.SHAPE]
    roll[i, ROLL.IS_ACTIVE] = is_active


@kernel
def enter_active(w, d, v, r):
    """Enter those that may be stopped, and seat those that stay; how many, or ``NOT_SIMPLE``."""
    jobs, count = w.jobs, 0
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        s = jobs[j, JOB.SHAPE]
        if jobs[j, JOB.IS_MOVING] != 0:
            return NOT_SIMPLE
        is_free = may_stop(w.shapes, s)
        is_free = is_free and is_on_ready_nodes(w.nodes, w.pieces, jobs[j, JOB.FIRST_PIECE])
        if not is_free or is_protected(jobs, r.terms, j):
            if not sit(w, v, j):
                return NOT_SIMPLE
        elif jobs[j, JOB.IS_LEAVING] == 0 or jobs[j, JOB.LEAVING_FOR] >= 0:
            if r.wants[s, WANT.IS_SIMPLE] == 0:
                return NOT_SIMPLE
            enter(w, d, r, count, j, 1)
            count += 1
    return count


@kernel
def enter_waiting(w, d, r, count):
    """Enter all who wait; how many there are then, or ``NOT_SIMPLE``."""
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        if r.wants[s, WANT.IS_SIMPLE] == 0:
            return NOT_SIMPLE
        j = w.shapes[s, SHAPE.HEAD]
        while j >= 0:
            enter(w, d, r, count, j, 0)
            count += 1
            j = w.jobs[j, JOB.NEXT]
    return count


@kernel
def seat(w, v, r, i, seated):
    """Fit a job, on the first GPU type that has room; how many seats are taken, or ``NO_SPACE``."""
    roll, seats, wants = r.roll, r.seats, r.wants
    s = roll[i, ROLL.SHAPE]
    roll[i, ROLL.SEATS] = 0
    if wants[s, WANT.IS_OUT] != 0:
        return seated
    for option in range(wants[s, WANT.OPTIONS]):
        found = fill(w, v, wants[s, WANT.FIRST + option], wants[s, WANT.COUNT], 0)
        if found > 0:
            if seated + found > len(seats):
                return NO_SPACE
            roll[i, ROLL.FIRST_SEAT] = seated
            roll[i, ROLL.SEATS] = found
            for p in range(found):
                seats[seated, PLANNED.NODE] = v.out[p, OUT.NODE]
                seats[seated, PLANNED.REPLICAS] = v.out[p, OUT.REPLICAS]
                seats[seated, PLANNED.DEVICES] = v.out[p, OUT.DEVICES]
                seated += 1
            return seated
    wants[s, WANT.IS_OUT] = 1
    return seated


@kernel
def is_costly(jobs, terms, j):
    """Whether a job would be protected when it was placed: it takes time to come up."""
    comes_up = jobs[j, JOB.STARTUP_MS] != 0 or jobs[j, JOB.RESTART_MS] != 0
    return terms[TERM.MIN_RUN_MS] != 0 and comes_up


@kernel
def call_all(w, d, v, r):
    """Call the roll; how many are on it, the last first, or why nothing was found."""
    roll, terms, seated, entries = r.roll, r.terms, 0, w.at[AT.ACTIVE] + w.at[AT.WAITING]
    if entries > ENTRIES_AT_MOST:
        return NOT_SIMPLE
    if entries > len(roll):
        return NO_SPACE
    terms[TERM.AGAIN_MS] = FOREVER_MS
    terms[TERM.IS_LASTING] = 1
    for s in range(len(r.wants)):
        r.wants[s, WANT.IS_OUT] = 0
    empty(w, v)
    count = enter_active(w, d, v, r)
    if count >= 0:
        count = enter_waiting(w, d, r, count)
    if count < 0:
        return count
    arrange(roll, count, KEY)
    for left in range(count, 0, -1):
        leave(roll, left, KEY)
        i = left - 1
        seated = seat(w, v, r, i, seated)
        if seated < 0:
            return seated
        j, is_in = roll[i, ROLL.JOB], roll[i, ROLL.SEATS] > 0
        if is_in and (is_costly(w.jobs, terms, j) or not may_stop(w.shapes, roll[i, ROLL.SHAPE])):
            terms[TERM.IS_LASTING] = 0
    return count


# Once for each moment -------------------------------------------------------------------------


@kernel
def leaving_for_nobody(w):
    """How many active jobs were asked to leave, and for nobody."""
    found = 0
    if w.at[AT.LEAVING] > 0:
        for i in range(w.at[AT.ACTIVE]):
            j = w.active[i]
            if w.jobs[j, JOB.IS_LEAVING] != 0 and w.jobs[j, JOB.LEAVING_FOR] < 0:
                found += 1
    return found


@kernel
def is_same(w, terms, jobs_came, alive, leaving):
    """Whether the roll was called at this moment, nobody came or ended since, no node changed."""
    return (
        terms[TERM.IS_CALLED] != 0
        and terms[TERM.IS_LASTING] != 0
        and terms[TERM.AT_MS] == terms[TERM.NOW]
        and terms[TERM.JOBS] == jobs_came
        and terms[TERM.ALIVE] == alive
        and terms[TERM.LEAVING] == leaving
        and terms[TERM.SUPPLY] == w.at[AT.SUPPLY_CHANGES]
        and terms[TERM.SHARES] == terms[TERM.SHARES_NOW]
    )


@kernel
def forget_who_left(w, r):
    """Whoever was outside and has left is not there any more, even if it should come back."""
    for i in range(r.terms[TERM.COUNT]):
        if w.jobs[r.roll[i, ROLL.JOB], JOB.STATE] == WAITING:
            r.roll[i, ROLL.IS_ACTIVE] = 0


@kernel
def call(w, d, v, r, jobs_came):
    """Know who is in; how many are on the roll, or why that is not known.

    When at the same moment nobody came, nobody ended and no node changed, the same are in: whoever
    was stopped since was not in, or lost nothing by it.
    """
    terms, alive, leaving = r.terms, w.at[AT.ACTIVE] + w.at[AT.WAITING], leaving_for_nobody(w)
    if is_same(w, terms, jobs_came, alive, leaving):
        forget_who_left(w, r)
        return terms[TERM.COUNT]
    terms[TERM.IS_CALLED] = 0
    count = call_all(w, d, v, r)
    if count >= 0:
        terms[TERM.IS_CALLED] = 1
        terms[TERM.COUNT] = count
        terms[TERM.AT_MS] = terms[TERM.NOW]
        terms[TERM.JOBS] = jobs_came
        terms[TERM.ALIVE] = alive
        terms[TERM.LEAVING] = leaving
        terms[TERM.SUPPLY] = w.at[AT.SUPPLY_CHANGES]
        terms[TERM.SHARES] = terms[TERM.SHARES_NOW]
    return count


@kernel
def next_step(w, r):
    """When the next running job steps back in the order of attained service."""
    jobs, terms, found = w.jobs, r.terms, FOREVER_MS
    if terms[TERM.RANKS] != ATTAINED:
        return found
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        milli = w.shapes[jobs[j, JOB.SHAPE], SHAPE.TOTAL_MILLI]
        if jobs[j, JOB.STATE] != RUNNING or milli == 0:
            continue
        for step in range(len(r.steps)):
            needed = -(-r.steps[step] * WHOLE_MILLI // milli)
            at_ms = jobs[j, JOB.ORIGIN_MS] - jobs[j, JOB.RAN_MS] + needed
            if terms[TERM.NOW] < at_ms < found:
                found = at_ms
    return found
