"""Seats for those who are in and hold nothing: as ``apply.Reordering``, over columns.

Running members keep their places; newcomers are fitted around them, in order. Where that leaves one
of them out, the places of the plan itself are taken, if nobody loses anything by moving there.
"""

from tidemill.core.progress import lost_ms
from tidemill.model.columns import AT, DEVICE, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import WHOLE_MILLI
from tidemill.scheduling.desk.codes import PREPARE
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.desk.placing import UNSURE, fit_held
from tidemill.scheduling.fitting.columns import OUT, PART
from tidemill.scheduling.fitting.sweeps import bit
from tidemill.scheduling.preemptive_order.calling import NO_SPACE, NOT_SIMPLE, WAITING
from tidemill.scheduling.preemptive_order.columns import (
    OUTSIDE,
    PLANNED,
    ROLL,
    SEEKER,
    TERM,
)
from tidemill.scheduling.preemptive_order.kernel import kernel
from tidemill.scheduling.preemptive_order.rooms import (
    count_seat,
    give_piece,
    is_sound,
    lift,
    move_seat,
)

ROUNDS = 4  # how often seats are sought again because somebody must stay for want of an heir
SEATED = 0  # all that may be said was


# Who is where -----------------------------------------------------------------------------------


@kernel
def is_there(w, r, i):
    """Whether an active job holds as much of the same nodes as the plan gives it."""
    pieces, seats, held = w.pieces, r.seats, 0
    first, count = r.roll[i, ROLL.FIRST_SEAT], r.roll[i, ROLL.SEATS]
    start = w.jobs[r.roll[i, ROLL.JOB], JOB.FIRST_PIECE]
    p = start
    while p >= 0:
        if pieces[p, PIECE.IS_COMING] == 0:
            held += 1
            alike, n, replicas = 0, pieces[p, PIECE.NODE], pieces[p, PIECE.REPLICAS]
            for f in range(first, first + count):
                if seats[f, PLANNED.NODE] == n and seats[f, PLANNED.REPLICAS] == replicas:
                    alike += 1
            other = start
            while other >= 0:
                is_like = pieces[other, PIECE.NODE] == n
                is_like = is_like and pieces[other, PIECE.REPLICAS] == replicas
                if is_like and pieces[other, PIECE.IS_COMING] == 0:
                    alike -= 1
                other = pieces[other, PIECE.NEXT_OF_JOB]
            if alike != 0:
                return False
        p = pieces[p, PIECE.NEXT_OF_JOB]
    return held == count


@kernel
def list_newcomers(w, r):
    """List those who are in and hold nothing, and those who are there, not in, and not leaving."""
    roll, terms, jobs, newcomers, outside = r.roll, r.terms, w.jobs, 0, 0
    for i in range(terms[TERM.COUNT] - 1, -1, -1):
        j = roll[i, ROLL.JOB]
        if roll[i, ROLL.SEATS] > 0:
            if jobs[j, JOB.STATE] == WAITING:
                r.newcomers[newcomers, SEEKER.ROW] = i
                r.newcomers[newcomers, SEEKER.COUNT] = 0
                newcomers += 1
        elif roll[i, ROLL.IS_ACTIVE] != 0 and jobs[j, JOB.IS_LEAVING] == 0:
            r.outside[outside, OUTSIDE.ROW] = i
            r.outside[outside, OUTSIDE.STAYS] = 0
            r.outside[outside, OUTSIDE.IS_LEAVING] = 0
            outside += 1
    terms[TERM.NEWCOMERS] = newcomers
    terms[TERM.OUTSIDE] = outside
    terms[TERM.ELSEWHERE] = 0


@kernel
def list_elsewhere(w, r):
    """List those who are in and sit elsewhere; whether nobody loses anything who must move."""
    roll, terms, found = r.roll, r.terms, 0
    for i in range(terms[TERM.COUNT] - 1, -1, -1):
        j = roll[i, ROLL.JOB]
        if roll[i, ROLL.SEATS] == 0 or w.jobs[j, JOB.STATE] == WAITING or is_there(w, r, i):
            continue
        moves = w.jobs[j, JOB.IS_LEAVING] == 0
        if moves and lost_ms(w.jobs, j, terms[TERM.NOW]) != 0:
            return False
        r.elsewhere[found, SEEKER.ROW] = i
        r.elsewhere[found, SEEKER.IS_READY] = int(moves)
        found += 1
    terms[TERM.ELSEWHERE] = found
    return True


@kernel
def lift_leaving(w, d, g, r):
    """Have all leave who were asked to for somebody, or who are not in."""
    for i in range(w.at[AT.ACTIVE] if w.at[AT.LEAVING] > 0 else 0):
        j = w.active[i]
        if w.jobs[j, JOB.IS_LEAVING] != 0 and w.jobs[j, JOB.LEAVING_FOR] >= 0:
            lift(w, d, g, j, 1)
    for i in range(r.terms[TERM.OUTSIDE]):
        lift(w, d, g, r.roll[r.outside[i, OUTSIDE.ROW], ROLL.JOB], 1)


# Around those who stay --------------------------------------------------------------------------


@kernel
def keep_seat(g, r, seekers, i, count):
    """Keep the seat that was found last for a newcomer; whether there is space for it."""
    given, first = r.given, r.terms[TERM.GIVEN]
    if first + count > len(given):
        return False
    for p in range(count):
        given[first + p, PLANNED.NODE] = g.out[p, OUT.NODE]
        given[first + p, PLANNED.REPLICAS] = g.out[p, OUT.REPLICAS]
        given[first + p, PLANNED.DEVICES] = g.out[p, OUT.DEVICES]
    seekers[i, SEEKER.FIRST] = first
    seekers[i, SEEKER.COUNT] = count
    r.terms[TERM.GIVEN] = first + count
    return True


@kernel
def fit_all(w, d, g, t, r):
    """Fit the newcomers in order into what the others leave free; ``SEATED``, or why not."""
    newcomers = r.newcomers
    r.terms[TERM.GIVEN] = 0
    for i in range(r.terms[TERM.NEWCOMERS]):
        newcomers[i, SEEKER.COUNT] = 0
        s = r.roll[newcomers[i, SEEKER.ROW], ROLL.SHAPE]
        if d.asks[s, ASK.PREPARED] != d.reg[REG.ROOM_AT]:
            d.reg[REG.WHO] = s
            return PREPARE
        count = fit_held(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE])
        if count == UNSURE:
            return NOT_SIMPLE
        if count > 0:
            if not keep_seat(g, r, newcomers, i, count):
                return NO_SPACE
            count_seat(w, d, g, r.given, s, newcomers[i, SEEKER.FIRST], count, -1)
    return SEATED


@kernel
def move_seats(w, d, g, r, sign):
    """Have all newcomers who have a seat leave it (1), or take it again (-1)."""
    newcomers = r.newcomers
    for i in range(r.terms[TERM.NEWCOMERS]):
        count = newcomers[i, SEEKER.COUNT]
        if count > 0:
            s, first = r.roll[newcomers[i, SEEKER.ROW], ROLL.SHAPE], newcomers[i, SEEKER.FIRST]
            move_seat(w, g, r.given, s, first, count, sign)
            count_seat(w, d, g, r.given, s, first, count, sign)


@kernel
def count_seated(r):
    """How many newcomers have a seat."""
    found = 0
    for i in range(r.terms[TERM.NEWCOMERS]):
        found += r.newcomers[i, SEEKER.COUNT] > 0
    return found


@kernel
def first_seated(r):
    """The row on the roll of the first who has a seat; -1: nobody has."""
    for i in range(r.terms[TERM.NEWCOMERS]):
        if r.newcomers[i, SEEKER.COUNT] > 0:
            return r.newcomers[i, SEEKER.ROW]
    return -1


# As planned -------------------------------------------------------------------------------------


@kernel
def take_free_devices(w, g, n, wanted):
    """Take so many devices of a node that are free for a role of whole ones; the mask."""
    first, mask = w.nodes[n, NODE.FIRST_DEVICE], 0
    for c in range(w.nodes[n, NODE.DEVICES]):
        is_free = g.parts[first + c, PART.FREE] >= WHOLE_MILLI
        if wanted > 0 and is_free and w.devices[first + c, DEVICE.IS_FAILED] == 0:
            mask |= bit(c)
            wanted -= 1
    return mask if wanted == 0 else 0


@kernel
def give_planned(w, g, r, s, first, end):
    """Give these pieces back."""
    for p in range(first, end):
        give_piece(
            w, g, w.shapes[s, SHAPE.FIRST_ROLE], r.given[p, PLANNED.NODE],
            r.given[p, PLANNED.REPLICAS], r.given[p, PLANNED.DEVICES], 1,
        )  # fmt: skip


@kernel
def take_planned(w, g, r, i, first):
    """Seat somebody on the nodes of the plan, on devices that are free there; whether they are.

    Its pieces are written from ``first`` on, where there is space for them.
    """
    roll, seats, given, s = r.roll, r.seats, r.given, r.roll[i, ROLL.SHAPE]
    role = w.shapes[s, SHAPE.FIRST_ROLE]
    if w.roles[role, ROLE.MILLI] < WHOLE_MILLI:
        return False
    for p in range(roll[i, ROLL.SEATS]):
        f = roll[i, ROLL.FIRST_SEAT] + p
        n, replicas = seats[f, PLANNED.NODE], seats[f, PLANNED.REPLICAS]
        mask = take_free_devices(w, g, n, replicas * w.roles[role, ROLE.ACCELERATORS])
        if mask == 0:
            give_planned(w, g, r, s, first, first + p)
            return False
        given[first + p, PLANNED.NODE] = n
        given[first + p, PLANNED.REPLICAS] = replicas
        given[first + p, PLANNED.DEVICES] = mask
        give_piece(w, g, role, n, replicas, mask, -1)
    for p in range(first, first + roll[i, ROLL.SEATS]):
        if not is_sound(w, g, given[p, PLANNED.NODE]):
            give_planned(w, g, r, s, first, first + roll[i, ROLL.SEATS])
            return False
    return True


@kernel
def settle(w, d, g, r, seekers, many):
    """Seat these where the plan has them, as far as that is free; how many."""
    for i in range(many):
        row, first = seekers[i, SEEKER.ROW], r.terms[TERM.GIVEN]
        s = r.roll[row, ROLL.SHAPE]
        if not take_planned(w, g, r, row, first):
            return i
        seekers[i, SEEKER.PLANNED_FIRST] = first
        seekers[i, SEEKER.PLANNED] = r.roll[row, ROLL.SEATS]
        count_seat(w, d, g, r.given, s, first, r.roll[row, ROLL.SEATS], -1)
        r.terms[TERM.GIVEN] = first + r.roll[row, ROLL.SEATS]
    return many


@kernel
def unsettle(w, d, g, r, seekers, many):
    """Have so many of them leave again."""
    for i in range(many):
        s, count = r.roll[seekers[i, SEEKER.ROW], ROLL.SHAPE], seekers[i, SEEKER.PLANNED]
        move_seat(w, g, r.given, s, seekers[i, SEEKER.PLANNED_FIRST], count, 1)
        count_seat(w, d, g, r.given, s, seekers[i, SEEKER.PLANNED_FIRST], count, 1)


@kernel
def lift_movers(w, d, g, r, sign):
    """Have those leave who must move (1), or put them back (-1); how many they are."""
    found = 0
    for i in range(r.terms[TERM.ELSEWHERE]):
        if r.elsewhere[i, SEEKER.IS_READY] != 0:
            lift(w, d, g, r.roll[r.elsewhere[i, SEEKER.ROW], ROLL.JOB], sign)
            found += 1
    return found


@kernel
def space_to_settle(r):
    """Whether the pieces of the whole plan can be written beside those of the seats."""
    needed = r.terms[TERM.GIVEN]
    for i in range(r.terms[TERM.ELSEWHERE]):
        needed += r.roll[r.elsewhere[i, SEEKER.ROW], ROLL.SEATS]
    for i in range(r.terms[TERM.NEWCOMERS]):
        needed += r.roll[r.newcomers[i, SEEKER.ROW], ROLL.SEATS]
    return needed <= len(r.given)


@kernel
def seat_as_planned(w, d, g, r):
    """Seat the newcomers where the plan has them, if that costs nothing; how many must move.

    ``NOT_SIMPLE``: it costs something, or is not free; all is as before. Or ``NO_SPACE``.
    """
    terms, newcomers, elsewhere = r.terms, r.newcomers, r.elsewhere
    is_first_out = terms[TERM.OUTSIDE] > 0
    is_first_out = is_first_out and r.outside[0, OUTSIDE.ROW] > newcomers[0, SEEKER.ROW]
    if is_first_out or not list_elsewhere(w, r):
        terms[TERM.ELSEWHERE] = 0
        return NOT_SIMPLE
    if not space_to_settle(r):
        return NO_SPACE
    move_seats(w, d, g, r, 1)
    movers = lift_movers(w, d, g, r, 1)
    there = settle(w, d, g, r, elsewhere, terms[TERM.ELSEWHERE])
    came = 0
    if there == terms[TERM.ELSEWHERE]:
        came = settle(w, d, g, r, newcomers, terms[TERM.NEWCOMERS])
        if came == terms[TERM.NEWCOMERS]:
            for i in range(came):
                newcomers[i, SEEKER.FIRST] = newcomers[i, SEEKER.PLANNED_FIRST]
                newcomers[i, SEEKER.COUNT] = newcomers[i, SEEKER.PLANNED]
            return movers
    unsettle(w, d, g, r, elsewhere, there)
    unsettle(w, d, g, r, newcomers, came)
    lift_movers(w, d, g, r, -1)
    move_seats(w, d, g, r, -1)
    terms[TERM.ELSEWHERE] = 0
    return NOT_SIMPLE


# Heirs ------------------------------------------------------------------------------------------


@kernel
def keep_heirless(w, d, g, r, first):
    """Put back whoever goes before this row of the roll, and does not stay yet; how many did.

    Whoever goes first has the higher row.
    """
    found = 0
    for i in range(r.terms[TERM.OUTSIDE]):
        row = r.outside[i, OUTSIDE.ROW]
        if r.outside[i, OUTSIDE.STAYS] == 0 and row > first:
            if found == 0:
                move_seats(w, d, g, r, 1)
            r.outside[i, OUTSIDE.STAYS] = 1
            lift(w, d, g, r.roll[row, ROLL.JOB], -1)
            found += 1
    return found


@kernel
def seat_without_heirless(w, d, g, t, r):
    """Seats for which nobody must leave who goes before all of the newcomers; as ``fit_all``."""
    for _ in range(ROUNDS):
        if keep_heirless(w, d, g, r, first_seated(r)) == 0:
            return SEATED
        code = fit_all(w, d, g, t, r)
        if code != SEATED:
            return code
    if keep_heirless(w, d, g, r, -1) == 0:
        move_seats(w, d, g, r, 1)
    return fit_all(w, d, g, t, r)


@kernel
def find_seats(w, d, g, t, r):
    """Find seats for the newcomers; ``SEATED``, or why not."""
    lift_leaving(w, d, g, r)
    code, movers = fit_all(w, d, g, t, r), 0
    if code == SEATED and count_seated(r) < r.terms[TERM.NEWCOMERS]:
        movers = seat_as_planned(w, d, g, r)
        if movers == NO_SPACE:
            return NO_SPACE
    if code == SEATED and movers <= 0:
        return seat_without_heirless(w, d, g, t, r)
    return code
