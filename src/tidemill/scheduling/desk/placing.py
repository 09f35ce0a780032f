"""Fitting the next job of a shape in the room, beside what is reserved, and placing it."""

from tidemill.core.replay import PASSED, PLACED, SAID_WHY
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import DEVICE, JOB, NODE, QUEUE
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.tables import NEVER_PASSED
from tidemill.scheduling.desk.columns import ASK, CLAIM, OPTION, PASSABLE, PROMISE, REG, SEATING
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.order import note_placed
from tidemill.scheduling.fitting.books import SHORT, UNFIT, barred_by, count_used
from tidemill.scheduling.fitting.columns import BITS, CALL, KEPT, OUT, REQUEST, SPOT
from tidemill.scheduling.fitting.keeping import give, note, take
from tidemill.scheduling.fitting.ladders import fill_tied
from tidemill.scheduling.fitting.node_ranking import MANY, seat, seat_among_few, seat_beside
from tidemill.scheduling.fitting.sweeps import (
    bit,
    count_hosts,
    give_all,
    host_beside,
    is_held,
    on_device,
)

NO_NODES = 0  # no nodes hold it
BARRED = -1  # something else than nodes stands in its way
UNSURE = -2  # Python must say
ANYWHERE = -1
PASSABLE_COLUMNS = len(PASSABLE)
TIED, LOOSE, COUNTED, BESIDE = range(4)  # how a gang is tried
EASY = 1  # backfill


# Telling --------------------------------------------------------------------------------------


@kernel
def tell(d, kind, who, attempt, why):
    """Write one action."""
    e = d.reg[REG.EVENTS]
    d.events[e, EventColumn.AT] = d.reg[REG.NOW]
    d.events[e, EventColumn.KIND] = kind
    d.events[e, EventColumn.WHO] = who
    d.events[e, EventColumn.ATTEMPT] = attempt
    d.events[e, EventColumn.WHY] = why
    d.events[e, EventColumn.TO] = 0
    d.events[e, EventColumn.FIRST] = 0
    d.events[e, EventColumn.COUNT] = 0
    d.reg[REG.EVENTS] = e + 1


@kernel
def say(d, s, cause):
    """Tell why a shape waits, if that changed."""
    if d.asks[s, ASK.SAID] != cause:
        d.asks[s, ASK.SAID] = cause
        tell(d, SAID_WHY, s, 0, cause)


@kernel
def tell_placement(d, g, j, attempt, count):
    """Write that a job is placed where it was found to fit."""
    e, first, pieces = d.reg[REG.EVENTS], d.reg[REG.EVENT_PIECES], d.event_pieces
    tell(d, PLACED, j, attempt, 0)
    d.events[e, EventColumn.FIRST] = first
    d.events[e, EventColumn.COUNT] = count
    for i in range(count):
        pieces[first + i, PieceColumn.ROLE] = 0
        pieces[first + i, PieceColumn.NODE] = g.out[i, OUT.NODE]
        pieces[first + i, PieceColumn.REPLICAS] = g.out[i, OUT.REPLICAS]
        pieces[first + i, PieceColumn.DEVICES] = g.out[i, OUT.DEVICES]
        pieces[first + i, PieceColumn.SLICES] = 0
    d.reg[REG.EVENT_PIECES] = first + count


@kernel
def tell_gang(d, j, attempt, count):
    """Write that a gang is placed where it was found to fit, role by role."""
    e, first, pieces, seats = d.reg[REG.EVENTS], d.reg[REG.EVENT_PIECES], d.event_pieces, d.seats
    tell(d, PLACED, j, attempt, 0)
    d.events[e, EventColumn.FIRST] = first
    d.events[e, EventColumn.COUNT] = count
    for i in range(count):
        pieces[first + i, PieceColumn.ROLE] = seats[i, SEATING.ROLE]
        pieces[first + i, PieceColumn.NODE] = seats[i, SEATING.NODE]
        pieces[first + i, PieceColumn.REPLICAS] = seats[i, SEATING.REPLICAS]
        pieces[first + i, PieceColumn.DEVICES] = seats[i, SEATING.DEVICES]
        pieces[first + i, PieceColumn.SLICES] = 0
    d.reg[REG.EVENT_PIECES] = first + count


@kernel
def has_space(d, g):
    """Whether whatever one more job brings can be told."""
    most = d.reg[REG.EVENTS] + d.reg[REG.PASSABLES] + 4
    return most <= len(d.events) and d.reg[REG.EVENT_PIECES] + len(g.out) <= len(d.event_pieces)


# Books ----------------------------------------------------------------------------------------


@kernel
def book(w, d, q, k, milli):
    """Count so much of a type as used by a queue in the room, or as not used any more."""
    if milli != 0:
        d.free[k] -= milli
        count_used(w.at, w.queues, w.quotas, d.used, d.below, d.kept, q, k, milli)


@kernel
def obstacle(w, d, q, k, need):
    """What keeps a request off a type, if no nodes hold it; as ``books.barred_by``."""
    if need != 0 and d.closed[k] != 0:
        return SHORT
    return barred_by(w.at, w.queues, w.quotas, d.used, d.below, d.kept, d.free, q, k, need)


# Fitting --------------------------------------------------------------------------------------


@kernel
def count_able(w, d, s, q):
    """How many of its types nothing bars a shape from."""
    asks, options, able = d.asks, d.options, 0
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + asks[s, ASK.OPTIONS]):
        able += obstacle(w, d, q, options[o, OPTION.KIND], asks[s, ASK.NEED]) == UNFIT
    return able


@kernel
def left_beside(w, d, g, r, p):
    """How many replicas the node of a reservation's piece could take at most beside the piece."""
    n, mask, hosted = d.promised[p, KEPT.NODE], d.promised[p, KEPT.DEVICES], 0
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    most, first = g.hosts[g.requests[r, REQUEST.HOSTS_ROW], n], w.nodes[n, NODE.FIRST_DEVICE]
    if most == 0 or accelerators == 0 or d.promised[p, KEPT.MILLI] < WHOLE_MILLI:
        return most
    if mask == (bit(w.nodes[n, NODE.DEVICES] - 1) << 1) - 1:
        return 0
    for c in range(w.nodes[n, NODE.DEVICES]):
        if mask >> c & 1 == 0 and w.devices[first + c, DEVICE.IS_FAILED] == 0:
            hosted += on_device(g.parts, first + c, milli)
    return min(most, hosted // accelerators)


@kernel
def is_whole_node(w, d, p):
    """Whether a reservation's piece keeps all devices of its node as they are."""
    n = d.promised[p, KEPT.NODE]
    if d.promised[p, KEPT.MILLI] < WHOLE_MILLI:
        return False
    return d.promised[p, KEPT.DEVICES] == (bit(w.nodes[n, NODE.DEVICES] - 1) << 1) - 1


@kernel
def keeps_whole_nodes(w, d, g, r):
    """Whether the only reservation leaves a request nothing of its nodes, which are noted then."""
    regs, made_in = g.regs, d.reg[REG.MADE_FIRST]
    if d.reg[REG.PROMISES] != 1 or g.requests[r, REQUEST.ACCELERATORS] == 0:
        return False
    if regs[CALL.RESERVED_IN] != made_in or made_in == 0:
        regs[CALL.RESERVED_IN] = made_in
        regs[CALL.CUT] = 0
        for i in range(len(g.reserved)):
            g.reserved[i] = 0
        for p in range(d.promises[0, PROMISE.PIECES]):
            n = d.promised[p, KEPT.NODE]
            if is_whole_node(w, d, p):
                g.reserved[n // BITS] |= 1 << n % BITS
            else:
                regs[CALL.CUT] += 1
    return regs[CALL.CUT] == 0


@kernel
def note_none_beside(g, r):
    """Note that no node that is not reserved as a whole could take a replica of a request."""
    g.requests[r, REQUEST.BESIDE_AT] = g.regs[CALL.TOUCHED] + 1
    g.requests[r, REQUEST.BESIDE_IN] = g.regs[CALL.RESERVED_IN]


@kernel
def is_none_beside(g, r):
    """Whether that is known: it was so, and no such node was touched since that could."""
    regs, touched, h = g.regs, g.touched, g.requests[r, REQUEST.HOSTS_ROW]
    since, size = g.requests[r, REQUEST.BESIDE_AT] - 1, regs[CALL.TOUCHED]
    if regs[CALL.RESERVED_IN] == 0 or g.requests[r, REQUEST.BESIDE_IN] != regs[CALL.RESERVED_IN]:
        return False
    if not 0 <= since <= size <= since + len(touched):
        return False
    for i in range(since, size):
        n = touched[i % len(touched)]
        if g.hosts[h, n] > 0 and g.reserved[n // BITS] >> n % BITS & 1 == 0:
            return False
    note_none_beside(g, r)
    return True


@kernel
def is_hosted_beside(w, g, r, count):
    """Whether nodes that are not reserved as a whole could take so many replicas."""
    count_hosts(w, g, r)
    if is_none_beside(g, r):
        return False
    h, rows = g.requests[r, REQUEST.HOSTS_ROW], g.regs[CALL.ROWS]
    n = host_beside(g, h, 0)
    if n == rows:
        note_none_beside(g, r)
    while n < rows and count > 0:
        count -= g.hosts[h, n]
        n = host_beside(g, h, n + 1)
    return count <= 0


@kernel
def most_beside(w, d, g, r):
    """How many replicas of a request nodes could take at most, beside what would be disturbed."""
    total, h, promises = count_hosts(w, g, r), g.requests[r, REQUEST.HOSTS_ROW], d.promises
    g.regs[CALL.MARK] += 1
    for i in range(d.reg[REG.PROMISES]):
        first = promises[i, PROMISE.FIRST_PIECE]
        pieces = promises[i, PROMISE.PIECES] if promises[i, PROMISE.IS_DISTURBED] != 0 else 0
        for p in range(first, first + pieces):
            n = d.promised[p, KEPT.NODE]
            if g.hosts[h, n] > 0 and g.spots[n, SPOT.MARK] != g.regs[CALL.MARK]:
                g.spots[n, SPOT.MARK] = g.regs[CALL.MARK]
                total += left_beside(w, d, g, r, p) - g.hosts[h, n]
    return total


@kernel
def try_type(w, d, g, t, s, o, how):
    """Take a place for a gang on one of its types: the number of pieces; or none.

    ``TIED``: as it wishes to be tied. ``LOOSE``: on any nodes. ``COUNTED``: nothing is taken, the
    number is that of its replicas. ``BESIDE``: the same where it may fit beside the reservations
    that would be disturbed.
    """
    asks, r, packed = d.asks, d.options[o, OPTION.REQUEST], d.options[o, OPTION.PACKED]
    rungs, count = asks[s, ASK.RUNGS], asks[s, ASK.COUNT]
    if how == COUNTED:
        return count if is_held(w, g, packed, count, 0) else 0
    if how == BESIDE and keeps_whole_nodes(w, d, g, packed):
        return count if is_hosted_beside(w, g, packed, count) else 0
    if how == BESIDE:
        return count if most_beside(w, d, g, packed) >= count else 0
    if how == LOOSE:
        return seat(w, g, t, r if rungs == 0 else packed, count)
    found = fill_tied(w, g, d.rungs, r, asks[s, ASK.FIRST_RUNG], rungs, 0, ANYWHERE)
    if found > 0:
        give_all(w, g, r, found, -1)
    return found


@kernel
def try_types(w, d, g, t, s, q, how):
    """The same on the first of its types that has one; or as ``fit``."""
    asks, found = d.asks, NO_NODES
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + asks[s, ASK.OPTIONS]):
        why = obstacle(w, d, q, d.options[o, OPTION.KIND], asks[s, ASK.NEED])
        if why != UNFIT:
            found = found if why == SHORT else BARRED
            continue
        count = try_type(w, d, g, t, s, o, how)
        if count > 0:
            return count
    return found


@kernel
def has_wishes(asks, s):
    """Whether a gang has wishes that bind it to nothing: it fits when it would without them."""
    return asks[s, ASK.RUNGS] > 0 and asks[s, ASK.IS_BINDING] == 0


@kernel
def is_counted(asks, s):
    """Whether a shape can fit only where nodes could take as many replicas as it has, by type."""
    return asks[s, ASK.TOGETHER] < 0


@kernel
def fit_held(w, d, g, t, s, q):
    """As ``fit``, of a job whose wishes nodes could hold if it has any that bind it to nothing."""
    asks = d.asks
    if asks[s, ASK.RUNGS] > 0:
        count = try_types(w, d, g, t, s, q, TIED)
        if count > 0:
            return count
        if asks[s, ASK.IS_BINDING] != 0:
            return BARRED
    elif asks[s, ASK.TOGETHER] >= 0:
        able = count_able(w, d, s, q)
        if able > 1 and able < asks[s, ASK.OPTIONS]:
            return UNSURE
        if able > 1:
            count = seat(w, g, t, asks[s, ASK.TOGETHER], 1)
            if count > 0:
                return count
    return try_types(w, d, g, t, s, q, LOOSE)


@kernel
def fit(w, d, g, t, s, q):
    """Take a place for the next job of a simple shape: the number of pieces.

    ``NO_NODES``: no nodes hold it; ``BARRED``: something else is in its way; ``UNSURE``: Python
    must say.
    """
    if has_wishes(d.asks, s):
        count = try_types(w, d, g, t, s, q, COUNTED)
        if count <= 0:
            return count
    return fit_held(w, d, g, t, s, q)


@kernel
def try_to_fit(w, d, g, t, s, q):
    """As ``fit``, of a job that will not sit where it would: nothing is taken."""
    asks = d.asks
    if is_counted(asks, s) and asks[s, ASK.IS_BINDING] == 0:
        return try_types(w, d, g, t, s, q, COUNTED)
    count = fit(w, d, g, t, s, q)
    if count > 0:
        give_all(w, g, d.options[asks[s, ASK.FIRST_OPTION], OPTION.REQUEST], count, 1)
    return count


@kernel
def settle_books(w, d, g, s, q):
    """Book what was found to fit."""
    book(w, d, q, w.nodes[g.out[0, OUT.NODE], NODE.KIND], d.asks[s, ASK.NEED])


# Passing --------------------------------------------------------------------------------------


@kernel
def shares_type(asks, types, s, other):
    """Whether two shapes may use the same type."""
    first, start = asks[s, ASK.FIRST_TYPE], asks[other, ASK.FIRST_TYPE]
    for i in range(first, first + asks[s, ASK.TYPES]):
        for c in range(start, start + asks[other, ASK.TYPES]):
            if types[i] == types[c]:
                return True
    return False


@kernel
def latest_disturbed(w, d, s, end):
    """When the last of the reservations begins that a job of a shape with this end disturbs.

    -1: none is.
    """
    promises, latest = d.promises, -1
    for i in range(d.reg[REG.PROMISES]):
        other = w.jobs[promises[i, PROMISE.JOB], JOB.SHAPE]
        promises[i, PROMISE.IS_DISTURBED] = 0
        if promises[i, PROMISE.AT_MS] < end and shares_type(d.asks, d.types, s, other):
            promises[i, PROMISE.IS_DISTURBED] = 1
            latest = max(latest, promises[i, PROMISE.AT_MS])
    return latest


@kernel
def keep_disturbed(w, d, g):
    """Take what the reservations that would be disturbed need and is free now."""
    promises = d.promises
    for i in range(d.reg[REG.PROMISES]):
        if promises[i, PROMISE.IS_DISTURBED] != 0:
            first = promises[i, PROMISE.FIRST_PIECE]
            take(w, g, d.promised, first, first + promises[i, PROMISE.PIECES])
    note_disturbed(w, d, g)


@kernel
def let_disturbed_go(w, d, g):
    """Give that back."""
    promises = d.promises
    for i in range(d.reg[REG.PROMISES] - 1, -1, -1):
        if promises[i, PROMISE.IS_DISTURBED] != 0:
            first = promises[i, PROMISE.FIRST_PIECE]
            give(w, g, d.promised, first, first + promises[i, PROMISE.PIECES])
    note_disturbed(w, d, g)


@kernel
def note_disturbed(w, d, g):
    """Let tournaments know of the nodes of these reservations."""
    promises = d.promises
    for i in range(d.reg[REG.PROMISES]):
        if promises[i, PROMISE.IS_DISTURBED] != 0:
            first = promises[i, PROMISE.FIRST_PIECE]
            note(w, g, d.promised, first, first + promises[i, PROMISE.PIECES])


@kernel
def is_single(d, g, s):
    """Whether jobs of a shape are one replica each, which one tournament places."""
    asks, requests = d.asks, g.requests
    r = d.options[asks[s, ASK.FIRST_OPTION], OPTION.REQUEST]
    if asks[s, ASK.COUNT] != 1 or asks[s, ASK.RUNGS] > 0 or asks[s, ASK.OPTIONS] != 1:
        return False
    return requests[r, REQUEST.TREE] >= 0 and requests[r, REQUEST.IS_SHARED] == 0


@kernel
def seat_single(w, d, g, t, o):
    """Place one replica beside the only reservation, which would be disturbed; 1, or 0."""
    r, packed = d.options[o, OPTION.REQUEST], d.options[o, OPTION.PACKED]
    if keeps_whole_nodes(w, d, g, r):
        found = seat_among_few(w, g, t, r, g.requests[packed, REQUEST.HOSTS_ROW])
        if found != MANY:
            return found
    first = d.promises[0, PROMISE.FIRST_PIECE]
    return seat_beside(w, g, t, r, d.promised, first, first + d.promises[0, PROMISE.PIECES])


@kernel
def fit_beside(w, d, g, t, s, q):
    """As ``fit``, beside the reservations that would be disturbed."""
    if is_counted(d.asks, s):
        found = try_types(w, d, g, t, s, q, BESIDE)
        if found <= 0:
            return found
        if d.reg[REG.PROMISES] == 1 and is_single(d, g, s):
            return seat_single(w, d, g, t, d.asks[s, ASK.FIRST_OPTION])
    keep_disturbed(w, d, g)
    found = fit_held(w, d, g, t, s, q)
    let_disturbed_go(w, d, g)
    return found


@kernel
def refuse(d, s, latest):
    """No job of this shape, nor of its like now, is let past that ends later than this."""
    asks, options, reg, o = d.asks, d.options, d.reg, d.asks[s, ASK.FIRST_OPTION]
    reg[REG.HAS_REFUSED] = 1
    asks[s, ASK.REFUSED_MS] = latest
    if asks[s, ASK.IS_SIMPLE] != 0:
        options[o, OPTION.REFUSED_IN] = reg[REG.CYCLE]
        options[o, OPTION.REFUSED_AT] = reg[REG.PLACED]
        options[o, OPTION.REFUSED_MS] = latest


@kernel
def is_under(queues, limit_rows, asks, types, s, q, first, count):
    """Whether a shape's use of some of its types counts under one of these limits."""
    while q >= 0:
        for i in range(first, first + count):
            for c in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
                if limit_rows[i, 0] == q and limit_rows[i, 1] == types[c]:
                    return True
        q = queues[q, QUEUE.PARENT]
    return False


@kernel
def pass_by(w, d, s, q):
    """Tell whom a job of this shape, which was placed just now, is the first to pass."""
    passables, asks, left = d.passables, d.asks, 0
    for i in range(d.reg[REG.PASSABLES]):
        limits = passables[i, PASSABLE.LIMITS]
        if limits > 0:
            first = passables[i, PASSABLE.FIRST_LIMIT]
            passes = is_under(w.queues, d.limit_rows, asks, d.types, s, q, first, limits)
        else:
            passes = shares_type(asks, d.types, s, passables[i, PASSABLE.SHAPE])
        if passes:
            tell(d, PASSED, passables[i, PASSABLE.JOB], 0, 0)
        else:
            for c in range(PASSABLE_COLUMNS):
                passables[left, c] = passables[i, c]
            left += 1
    d.reg[REG.PASSABLES] = left


@kernel
def note_first(d, jobs, s, j, first, count):
    """The first job on its types, or under some limits, that is not placed may be passed now."""
    if jobs[j, JOB.PASSED_MS] != NEVER_PASSED:
        return
    i = d.reg[REG.PASSABLES]
    d.passables[i, PASSABLE.JOB] = j
    d.passables[i, PASSABLE.SHAPE] = s
    d.passables[i, PASSABLE.FIRST_LIMIT] = first
    d.passables[i, PASSABLE.LIMITS] = count
    d.reg[REG.PASSABLES] = i + 1


@kernel
def claim(w, d, s, j):
    """A job that does not fit shall have a reservation."""
    reg, asks, i = d.reg, d.asks, d.reg[REG.PENDING]
    if reg[REG.BACKFILL] == EASY:
        for c in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
            d.claimed[d.types[c]] = 1
    else:
        reg[REG.CLAIMS_LEFT] -= 1
    d.claims[i, CLAIM.SHAPE] = s
    d.claims[i, CLAIM.JOB] = j
    reg[REG.PENDING] = i + 1
    note_first(d, w.jobs, s, j, 0, 0)


# Placing --------------------------------------------------------------------------------------


@kernel
def place(w, d, g, s, q, count):
    """Place the next job of a shape where it was found to fit, and tell it."""
    j = d.asks[s, ASK.UPCOMING]
    tell_placement(d, g, j, w.jobs[j, JOB.ATTEMPT] + 1, count)
    pass_by(w, d, s, q)
    note_placed(w, d)


@kernel
def place_gang(w, d, s, q, count):
    """The same of a gang that was fitted role by role."""
    j = d.asks[s, ASK.UPCOMING]
    tell_gang(d, j, w.jobs[j, JOB.ATTEMPT] + 1, count)
    pass_by(w, d, s, q)
    note_placed(w, d)
