"""Telling moment after moment: devices for attempts that begin, events for all that happens.

Whatever is rare is left to Python: ``walk`` stops before it.
"""

from tidemill.live.history.walking.columns import (
    ATTEMPT,
    MOMENT,
    PLACE,
    SEAT,
    SEATED,
    WALK,
    Turn,
)
from tidemill.live.history.walking.kernel import kernel
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import Cause
from tidemill.model.rows import MAX_DEVICES

SUBMITTED, CAUSE, PLACED, STARTED, HOST_USE = (
    codes.KIND_CODE[kind]
    for kind in (ev.JobSubmitted, ev.CauseChanged, ev.PlacementSeen, ev.JobStarted, ev.HostUseSeen)
)
NOT_ELIGIBLE = int(Cause.NOT_ELIGIBLE)
ENDS, SUBMITS, PLACES, STARTS, MEASURES, ENDS_AT_ONCE = map(
    int,
    (Turn.ENDS, Turn.SUBMITS, Turn.PLACES, Turn.STARTS, Turn.MEASURES,
     Turn.ENDS_AT_ONCE),
)  # fmt: skip
LAST = MAX_DEVICES - 1
SIGN = -(1 << LAST)


@kernel
def bit(d):
    """The mask of one device."""
    return SIGN if d == LAST else 1 << d


@kernel
def count(mask):
    """How many devices a mask has."""
    found = 0
    for d in range(MAX_DEVICES):
        if mask >> d == 0:
            break
        found += mask >> d & 1
    return found


@kernel
def some_of(free, wanted):
    """The first devices of those that are free; there are so many."""
    mask, d = 0, 0
    while wanted > 0:
        if free >> d & 1:
            mask |= bit(d)
            wanted -= 1
        d += 1
    return mask


@kernel
def write(events, reg, at, kind, who, attempt, why, value, pieces):
    """Write one event."""
    e = reg[WALK.EVENTS]
    events[e, EventColumn.AT] = at
    events[e, EventColumn.KIND] = kind
    events[e, EventColumn.WHO] = who
    events[e, EventColumn.ATTEMPT] = attempt
    events[e, EventColumn.WHY] = why
    events[e, EventColumn.TO] = 0
    events[e, EventColumn.VALUE] = value
    events[e, EventColumn.FIRST] = 0
    events[e, EventColumn.COUNT] = pieces
    reg[WALK.EVENTS] = e + 1


@kernel
def seat_on(seats, event_pieces, reg, n, replicas, each, told):
    """Seat as many of these replicas on a node as find devices; how many those are.

    They get the devices that they were shown on, if all of these are free, or else the first.
    """
    free = seats[n, SEAT.FREE]
    if told != 0 and told & ~free == 0 and count(told) == replicas * each:
        mask = told
    else:
        replicas = min(replicas, count(free) // each)
        mask = some_of(free, replicas * each)
    if replicas > 0:
        p = reg[WALK.PIECES]
        event_pieces[p, PieceColumn.ROLE] = 0
        event_pieces[p, PieceColumn.NODE] = n
        event_pieces[p, PieceColumn.REPLICAS] = replicas
        event_pieces[p, PieceColumn.DEVICES] = mask
        event_pieces[p, PieceColumn.SLICES] = 0
        reg[WALK.PIECES] = p + 1
        seats[n, SEAT.FREE] = free & ~mask
        seats[n, SEAT.ABOARD] += replicas
    return replicas


@kernel
def seat(attempts, where, seats, event_pieces, reg, a):
    """Seat an attempt on its nodes in their order; how many replicas found no device."""
    first, nodes = attempts[a, ATTEMPT.FIRST], attempts[a, ATTEMPT.NODES]
    left, is_anywhere = attempts[a, ATTEMPT.REPLICAS], attempts[a, ATTEMPT.IS_ANYWHERE] != 0
    share, missing = left if is_anywhere else -(-left // max(1, nodes)), 0
    for i in range(first, first + nodes):
        if left == 0:
            break
        wanted = min(share, left)
        found = seat_on(
            seats, event_pieces, reg, where[i, PLACE.NODE], wanted, attempts[a, ATTEMPT.EACH],
            where[i, PLACE.TOLD],
        )  # fmt: skip
        if is_anywhere:
            left -= found
        else:
            left -= wanted
            missing += wanted - found
    return missing + left


@kernel
def place(attempts, where, seats, held, events, event_pieces, reg, at, a):
    """An attempt holds what it finds of what it was shown to hold."""
    j, before = attempts[a, ATTEMPT.JOB], reg[WALK.PIECES]
    over = seat(attempts, where, seats, event_pieces, reg, a)
    pieces = reg[WALK.PIECES] - before
    held[j, SEATED.FIRST], held[j, SEATED.COUNT] = before, pieces
    reg[WALK.OVER] += over > 0
    over_milli = over * attempts[a, ATTEMPT.EACH] * WHOLE_MILLI
    write(events, reg, at, PLACED, j, attempts[a, ATTEMPT.NUMBER], 0, over_milli, pieces)


@kernel
def say_use(attempts, events, reg, at, a):
    """What an attempt that ends used of its host, if anybody says."""
    used, peak = attempts[a, ATTEMPT.CPU_USED_MS], attempts[a, ATTEMPT.PEAK_PPM]
    if (used >= 0 or peak >= 0) and attempts[a, ATTEMPT.NUMBER] > 0:
        j, number = attempts[a, ATTEMPT.JOB], attempts[a, ATTEMPT.NUMBER]
        write(events, reg, at, HOST_USE, j, number, peak, used, 0)
        events[reg[WALK.EVENTS] - 1, EventColumn.TO] = attempts[a, ATTEMPT.CPU_HAD_MS]


@kernel
def end(attempts, seats, held, events, event_pieces, reg, at, a):
    """An attempt ends and gives back what it held; whether a watched node is empty now."""
    j = attempts[a, ATTEMPT.JOB]
    first, pieces = held[j, SEATED.FIRST], held[j, SEATED.COUNT]
    kind, number = attempts[a, ATTEMPT.END_KIND], attempts[a, ATTEMPT.END_NUMBER]
    why, value = attempts[a, ATTEMPT.END_WHY], attempts[a, ATTEMPT.END_VALUE]
    say_use(attempts, events, reg, at, a)
    write(events, reg, at, kind, j, number, why, value, 0)
    is_watched = False
    for p in range(first, first + pieces):
        n = event_pieces[p, PieceColumn.NODE]
        seats[n, SEAT.FREE] |= event_pieces[p, PieceColumn.DEVICES]
        seats[n, SEAT.ABOARD] -= event_pieces[p, PieceColumn.REPLICAS]
        if seats[n, SEAT.ABOARD] == 0 and seats[n, SEAT.IS_WATCHED] != 0:
            is_watched = True
    held[j, SEATED.COUNT] = 0
    if is_watched:
        reg[WALK.LEFT_FIRST], reg[WALK.LEFT_COUNT] = first, pieces
    return is_watched


@kernel
def submit(submitted, events, reg, at, i):
    """A job is submitted; it may wait for something else than GPUs at first."""
    write(events, reg, at, SUBMITTED, 0, 0, 0, 0, 0)
    if submitted[i, 0] >= 0:
        write(events, reg, at, CAUSE, submitted[i, 0], 0, NOT_ELIGIBLE, 0, 0)


@kernel
def copy(measured, events, reg, i):
    """What was measured is an event already."""
    for column in range(events.shape[1]):
        events[reg[WALK.EVENTS], column] = measured[i, column]
    reg[WALK.EVENTS] += 1


@kernel
def walk(
    moments, attempts, where, submitted, measured, seats, held, events, event_pieces, reg, job, i
):
    """Tell what happens from a moment on; the number of the first that was not told.

    It ends where events or pieces have no more room, where Python has to tell a moment, and after
    an attempt that left a watched node empty (``LEFT_COUNT``). ``job``: the number of the job that
    the first row of ``submitted`` is of.
    """
    reg[WALK.LEFT_COUNT] = 0
    most_events = min(reg[WALK.FULL], len(events) - 1)
    most_pieces = len(event_pieces) - reg[WALK.MOST_PIECES]
    while i < len(moments):
        if reg[WALK.EVENTS] >= most_events or reg[WALK.PIECES] > most_pieces:
            break
        at, what, who = moments[i, MOMENT.AT], moments[i, MOMENT.WHAT], moments[i, MOMENT.WHO]
        is_end = what in (ENDS, ENDS_AT_ONCE)
        if (is_end or what == PLACES) and attempts[who, ATTEMPT.IS_PLAIN] == 0:
            break
        if is_end:
            if end(attempts, seats, held, events, event_pieces, reg, at, who):
                return i + 1
        elif what == PLACES:
            place(attempts, where, seats, held, events, event_pieces, reg, at, who)
        elif what == STARTS:
            j, number = attempts[who, ATTEMPT.JOB], attempts[who, ATTEMPT.NUMBER]
            write(events, reg, at, STARTED, j, number, 0, 0, 0)
        elif what == SUBMITS:
            submit(submitted, events, reg, at, who - job)
        elif what == MEASURES:
            copy(measured, events, reg, who)
        else:
            break
        i += 1
    return i
