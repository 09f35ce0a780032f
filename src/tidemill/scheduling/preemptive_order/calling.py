"""Calling the roll in one go, where only nodes decide who is in: as ``plan.call_one_by_one``.

Every job that may be stopped, and every waiting one, is fitted in order into a room in which
nothing runs but what may not be stopped. A shape of which one did not fit is not tried again.
"""

from tidemill.core.estimates import total_ms
from tidemill.core.heaps import arrange, leave
from tidemill.core.order import guarded_from
from tidemill.core.progress import lost_ms
from tidemill.model.columns import AT, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import JobState, NodeState
from tidemill.scheduling.desk.lines import ATTAINED, SMALLEST
from tidemill.scheduling.desk.rights import until_ms
from tidemill.scheduling.fitting.columns import OUT
from tidemill.scheduling.fitting.sweeps import fill, give
from tidemill.scheduling.preemptive_order.columns import PLANNED, ROLL, TERM, WANT
from tidemill.scheduling.preemptive_order.kernel import kernel

READY, RUNNING = int(NodeState.READY), int(JobState.RUNNING)
KEY = int(ROLL.SHAPE)
NOT_SIMPLE = -1  # somebody is there for whom more than nodes decides


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
def sit(w, g, j):
    """Take the place of a job that stays; whether that is of whole or shared devices."""
    first, p = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE], w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        r = first + w.pieces[p, PIECE.ROLE]
        if w.pieces[p, PIECE.SLICES] != 0 or w.pieces[p, PIECE.IS_COMING] != 0:
            return False
        give(
            w.nodes, g.regs, g.touched, g.spots, g.parts, w.pieces[p, PIECE.NODE],
            w.pieces[p, PIECE.REPLICAS], w.pieces[p, PIECE.DEVICES], w.roles[r, ROLE.ACCELERATORS],
            w.roles[r, ROLE.MILLI], w.roles[r, ROLE.CPU], w.roles[r, ROLE.MEMORY], -1,
        )  # fmt: skip
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return True


@kernel
def rank(jobs, shapes, learnt, steps, terms, j, running):
    """What the order makes of a job that has been running for so long now; as ``order.rank``."""
    milli = shapes[jobs[j, JOB.SHAPE], SHAPE.TOTAL_MILLI]
    if terms[TERM.RANKS] == ATTAINED:
        had, found = (jobs[j, JOB.RAN_MS] + running) * milli // 1000, 0
        for i in range(len(steps)):
            found += had >= steps[i]
        return found
    done = running * ONE_PPM // (ONE_PPM + jobs[j, JOB.SLOW_PPM])
    worked = jobs[j, JOB.SAVED_MS] + done * jobs[j, JOB.SPEED_PPM] // ONE_PPM
    left = total_ms(jobs, shapes, learnt, j, worked) - worked
    return left * milli if terms[TERM.RANKS] == SMALLEST else left


@kernel
def enter(jobs, shapes, learnt, roll, steps, terms, i, j, is_active):
    """Write a job and its place in the order on the roll; as ``order.place_of``."""
    now, begun = terms[TERM.NOW], terms[TERM.NOW]
    if jobs[j, JOB.STATE] == RUNNING:
        begun = jobs[j, JOB.ORIGIN_MS]
    lost_at = guarded_from(jobs, j, 0, 0, terms[TERM.PATIENCE_MS], 0)
    is_lost = lost_at <= begun
    roll[i, ROLL.FIRST] = 0 if is_lost else 1
    roll[i, ROLL.SECOND] = lost_at
    if not is_lost:
        roll[i, ROLL.SECOND] = rank(jobs, shapes, learnt, steps, terms, j, now - begun)
    roll[i, ROLL.JOB] = j
    roll[i, ROLL.SHAPE] = jobs[j, JOB.SHAPE]
    roll[i, ROLL.IS_ACTIVE] = is_active


@kernel
def enter_active(w, g, learnt, roll, wants, steps, terms):
    """Enter those that may be stopped, and seat those that stay; how many, or ``NOT_SIMPLE``."""
    jobs, shapes, count = w.jobs, w.shapes, 0
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        s = jobs[j, JOB.SHAPE]
        is_free = may_stop(shapes, s)
        is_free = is_free and is_on_ready_nodes(w.nodes, w.pieces, jobs[j, JOB.FIRST_PIECE])
        if not is_free or is_protected(jobs, terms, j):
            if not sit(w, g, j):
                return NOT_SIMPLE
        elif jobs[j, JOB.IS_LEAVING] == 0 or jobs[j, JOB.LEAVING_FOR] >= 0:
            if wants[s, WANT.IS_SIMPLE] == 0:
                return NOT_SIMPLE
            enter(jobs, shapes, learnt, roll, steps, terms, count, j, 1)
            count += 1
    return count


@kernel
def enter_waiting(w, learnt, roll, wants, steps, terms, count):
    """Enter all who wait; how many there are then, or ``NOT_SIMPLE``."""
    jobs, shapes = w.jobs, w.shapes
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        if wants[s, WANT.IS_SIMPLE] == 0:
            return NOT_SIMPLE
        j = shapes[s, SHAPE.HEAD]
        while j >= 0:
            enter(jobs, shapes, learnt, roll, steps, terms, count, j, 0)
            count += 1
            j = jobs[j, JOB.NEXT]
    return count


@kernel
def seat(w, g, roll, seats, wants, i, seated):
    """Fit a job, on the first GPU type that has room; how many seats are taken then."""
    s = roll[i, ROLL.SHAPE]
    roll[i, ROLL.SEATS] = 0
    if wants[s, WANT.IS_OUT] != 0:
        return seated
    for option in range(wants[s, WANT.OPTIONS]):
        found = fill(w, g, wants[s, WANT.FIRST + option], wants[s, WANT.COUNT], 0)
        if found > 0:
            roll[i, ROLL.FIRST_SEAT] = seated
            roll[i, ROLL.SEATS] = found
            for p in range(found):
                seats[seated, PLANNED.NODE] = g.out[p, OUT.NODE]
                seats[seated, PLANNED.REPLICAS] = g.out[p, OUT.REPLICAS]
                seats[seated, PLANNED.DEVICES] = g.out[p, OUT.DEVICES]
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
def call_all(w, g, learnt, roll, seats, wants, steps, terms):
    """Call the roll; how many are on it, the last first, or ``NOT_SIMPLE``: nothing was found."""
    for s in range(len(wants)):
        wants[s, WANT.IS_OUT] = 0
    count = enter_active(w, g, learnt, roll, wants, steps, terms)
    if count != NOT_SIMPLE:
        count = enter_waiting(w, learnt, roll, wants, steps, terms, count)
    if count == NOT_SIMPLE:
        return count
    arrange(roll, count, KEY)
    seated = 0
    for left in range(count, 0, -1):
        leave(roll, left, KEY)
        i = left - 1
        seated = seat(w, g, roll, seats, wants, i, seated)
        j, is_in = roll[i, ROLL.JOB], roll[i, ROLL.SEATS] > 0
        if is_in and (is_costly(w.jobs, terms, j) or not may_stop(w.shapes, roll[i, ROLL.SHAPE])):
            terms[TERM.IS_LASTING] = 0
    return count
