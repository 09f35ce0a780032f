"""Reservations, made in the compiled cycle: when and where jobs that were kept out will fit.

For jobs of one role in one pass over what ends; for others, and where quotas keep room back, by
halving, a whole fit each time. Python makes them (``backfill.reservations``, which also says what a
reservation is) where devices are cut.
"""

from tidemill.compiled import shared
from tidemill.model.columns import AT, JOB, NODE, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.scheduling.backfill.columns import ENDING, TALLY
from tidemill.scheduling.backfill.ends import (
    catch_up,
    count_beside,
    end_first,
    enough_after,
    give_back,
    is_to_be_read,
    sort_more,
)
from tidemill.scheduling.backfill.later import (
    LEAST,
    enough_then,
    fill_then,
    keep_up,
    lend_hosts,
)
from tidemill.scheduling.desk.columns import (
    ASK,
    CLAIM,
    MEMBER,
    NOTE,
    OPTION,
    PROMISE,
    REG,
    SEATING,
)
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.placing import UNSURE, fit
from tidemill.scheduling.desk.role_by_role import fit_largest, note_seats, unseat
from tidemill.scheduling.fitting.books import is_over_limit
from tidemill.scheduling.fitting.columns import CALL, KEPT, OUT, REQUEST
from tidemill.scheduling.fitting.keeping import give, keep, let_go, take
from tidemill.scheduling.fitting.ladders import fill_tied
from tidemill.scheduling.fitting.sweeps import count_again, count_hosts, fill, give_all

ANYWHERE = -1
READY, UNPREPARED, NOT_HERE = 0, 1, 2


@kernel
def is_whole(shapes, roles, s):
    """Whether a shape of one role keeps whole devices and nothing else."""
    r = shapes[s, SHAPE.FIRST_ROLE]
    return (
        shapes[s, SHAPE.ROLES] == 1
        and roles[r, ROLE.MILLI] == WHOLE_MILLI
        and roles[r, ROLE.CPU] == 0
        and roles[r, ROLE.MEMORY] == 0
    )


@kernel
def is_simple(asks, s):
    """Whether a shape has one role of one size, and neither bonds nor a choice bind it.

    Wishes alone bind nobody: whoever has some fits when it would without them.
    """
    if asks[s, ASK.IS_SIMPLE] == 0:
        return False
    return asks[s, ASK.RUNGS] == 0 or (asks[s, ASK.IS_BINDING] == 0 and asks[s, ASK.OPTIONS] == 1)


@kernel
def is_off_limits(w, d, s):
    """Whether limits keep a shape with wishes off its only type."""
    asks, need, q = d.asks, d.asks[s, ASK.NEED], w.shapes[s, SHAPE.QUEUE]
    if asks[s, ASK.RUNGS] == 0 or need == 0:
        return False
    k = d.options[asks[s, ASK.FIRST_OPTION], OPTION.KIND]
    return is_over_limit(w.queues, w.quotas, d.used, q, k, need)


@kernel
def has_space(w, d, e):
    """Whether all that run, and all that was claimed, has a row."""
    if d.reg[REG.PROMISES] + d.reg[REG.PENDING] > len(d.promises):
        return False
    active = w.at[AT.ACTIVE] + e.tally[TALLY.COUNT]
    return active <= len(e.order) and d.notes[NOTE.JOBS] <= len(e.rows)


@kernel
def may_reserve(w, d, s):
    """Whether a reservation for a shape, which is prepared, can be made in one pass.

    No device is cut and no room is kept back: the pass knows neither. What is reserved already is
    whole devices, which nobody else may count on.
    """
    if w.at[AT.SLICED] != 0 or w.at[AT.KEEPS] != 0 or d.reg[REG.IS_SLICED] != 0:
        return False
    if not is_simple(d.asks, s) or is_off_limits(w, d, s):
        return False
    for i in range(d.reg[REG.PROMISES]):
        if not is_whole(w.shapes, w.roles, w.jobs[d.promises[i, PROMISE.JOB], JOB.SHAPE]):
            return False
    return True


@kernel
def is_fitted(asks, s):
    """Whether a shape is fitted by kernels: it is simple, or they do it role by role."""
    return asks[s, ASK.IS_SIMPLE] != 0 or asks[s, ASK.SIZES] != 0


@kernel
def replicas_of(asks, members, s):
    """How many replicas a shape has at most."""
    if asks[s, ASK.SIZES] == 0:
        return asks[s, ASK.COUNT]
    total, end = 0, asks[s, ASK.FIRST_MEMBER] + asks[s, ASK.SIZES] * asks[s, ASK.ROLES]
    for m in range(end - asks[s, ASK.ROLES], end):
        total += members[m, MEMBER.COUNT]
    return total


@kernel
def may_make(w, d, e):
    """Whether all that was claimed can be made here; ``REG.WHO``: who is to be prepared before."""
    reg, asks, pieces = d.reg, d.asks, 0
    if reg[REG.IS_MOVING] != 0 or not has_space(w, d, e):
        return NOT_HERE
    if w.at[AT.SLICED] != 0 or reg[REG.IS_SLICED] != 0 or reg[REG.IS_PLAIN] == 0:
        return NOT_HERE
    for i in range(reg[REG.PROMISES]):
        pieces += d.promises[i, PROMISE.PIECES]
    for i in range(reg[REG.PENDING]):
        s = d.claims[i, CLAIM.SHAPE]
        if not is_fitted(asks, s):
            return NOT_HERE
        if asks[s, ASK.PREPARED] != reg[REG.ROOM_AT]:
            reg[REG.WHO] = s
            return UNPREPARED
        pieces += replicas_of(asks, d.members, s)
    return READY if pieces <= len(d.promised) else NOT_HERE


@kernel
def pieces_promised(d):
    """How many pieces all reservations have."""
    last = d.reg[REG.PROMISES] - 1
    if last < 0:
        return 0
    return d.promises[last, PROMISE.FIRST_PIECE] + d.promises[last, PROMISE.PIECES]


@kernel
def bar(w, d, e, is_barred):
    """Note devices that nobody else may count on, which are reserved whole; or forget them."""
    for p in range(pieces_promised(d)):
        start = w.nodes[d.promised[p, KEPT.NODE], NODE.FIRST_DEVICE]
        for c in range(w.nodes[d.promised[p, KEPT.NODE], NODE.DEVICES]):
            if d.promised[p, KEPT.DEVICES] >> c & 1:
                e.barred[start + c] = is_barred


@kernel
def count_promised(w, d, g, r):
    """Count again what nodes could take of a request of which something is reserved."""
    for p in range(pieces_promised(d)):
        count_again(w, g, r, d.promised[p, KEPT.NODE])


@kernel
def seat_then(w, d, g, s, o):
    """Where a shape that fits on one type sits, as it wishes if it can; nothing is taken."""
    asks, r = d.asks, d.options[o, OPTION.PACKED]
    if asks[s, ASK.RUNGS] > 0:
        first, rungs_there = asks[s, ASK.FIRST_RUNG], asks[s, ASK.RUNGS]
        count = fill_tied(w, g, d.rungs, r, first, rungs_there, 0, ANYWHERE)
        if count > 0:
            return count
    spreads = d.reg[REG.SPREADS] if asks[s, ASK.RUNGS] == 0 else 0
    g.regs[CALL.IS_UNSEEN] = 1
    count = fill(w, g, r, asks[s, ASK.COUNT], spreads)
    if count > 0:
        give_all(w, g, r, count, 1)
    g.regs[CALL.IS_UNSEEN] = 0
    for i in range(count):
        count_again(w, g, r, g.out[i, OUT.NODE])
    return count


@kernel
def keep_promises(w, d, g, sign):
    """Take what reservations need and is free now out of the room (1), or give it back (-1)."""
    end = pieces_promised(d)
    if sign > 0:
        take(w, g, d.promised, 0, end)
    else:
        give(w, g, d.promised, 0, end)


@kernel
def write_promised(w, d, s, count):
    """Write the pieces of the next reservation down, where they were noted (``Desk.seats``)."""
    promised, seats, first = d.promised, d.seats, pieces_promised(d)
    for c in range(count):
        p, replicas = first + c, seats[c, SEATING.REPLICAS]
        r = w.shapes[s, SHAPE.FIRST_ROLE] + seats[c, SEATING.ROLE]
        promised[p, KEPT.NODE] = seats[c, SEATING.NODE]
        promised[p, KEPT.DEVICES] = seats[c, SEATING.DEVICES]
        promised[p, KEPT.MILLI] = w.roles[r, ROLE.MILLI]
        promised[p, KEPT.CPU] = replicas * w.roles[r, ROLE.CPU]
        promised[p, KEPT.MEMORY] = replicas * w.roles[r, ROLE.MEMORY]
        promised[p, KEPT.REPLICAS] = replicas
        promised[p, KEPT.ROLE] = seats[c, SEATING.ROLE]


@kernel
def promise(d, j, moment, count):
    """Write a reservation down, whose pieces are written."""
    promises, i, first = d.promises, d.reg[REG.PROMISES], pieces_promised(d)
    promises[i, PROMISE.JOB] = j
    promises[i, PROMISE.AT_MS] = moment
    promises[i, PROMISE.FIRST_PIECE] = first
    promises[i, PROMISE.PIECES] = count
    promises[i, PROMISE.IS_DISTURBED] = 0
    d.reg[REG.PROMISES] = i + 1
    if i == 0:
        d.reg[REG.MADE_FIRST] = d.reg[REG.CYCLE]
        d.reg[REG.IS_KEPT_THERE] = 0


@kernel
def promise_found(w, d, g, s, j, moment, count):
    """Write a reservation down for a shape of one role, with the pieces that were found."""
    note_seats(d, g, 0, 0, count)
    write_promised(w, d, s, count)
    promise(d, j, moment, count)


@kernel
def ended_first(w, d, g, e, running, o, s, stays):
    """How many of those who run must end until a shape fits on one type; -1: it never does."""
    need, k, r = d.asks[s, ASK.NEED], d.options[o, OPTION.KIND], d.options[o, OPTION.PACKED]
    short = need - d.free[k] if need != 0 else 0
    count_hosts(w, g, r)
    for p in range(pieces_promised(d)):
        count_beside(w, g, e.barred, r, d.promised[p, KEPT.NODE])
    after = enough_after(w, e, g, e.barred, running, r, d.asks[s, ASK.COUNT], k, short, stays)
    if after < 0 or stays == 0:
        count_promised(w, d, g, r)
    return after


@kernel
def is_kept_for(w, d, g, e, s, j):
    """Whether what will be free for a job is kept from cycle to cycle.

    It is where many must end for one who was the first to wait before; nothing else is reserved.
    """
    tally, o = e.tally, d.asks[s, ASK.FIRST_OPTION]
    if d.reg[REG.PROMISES] > 0 or d.asks[s, ASK.OPTIONS] != 1 or is_to_be_read(w, e, d.learnt):
        return False
    was_reserved, tally[TALLY.RESERVED] = tally[TALLY.RESERVED] == j, j
    if g.requests[d.options[o, OPTION.PACKED], REQUEST.HOSTS_ROW] == 0:
        return False
    return was_reserved and tally[TALLY.WANTED] >= LEAST


@kernel
def seat_later(w, d, g, e, s, o):
    """Where a shape sits when what is kept is free; nothing is taken."""
    asks, r = d.asks, d.options[o, OPTION.PACKED]
    is_packed = asks[s, ASK.RUNGS] == 0 and d.reg[REG.SPREADS] == 0
    is_whole = g.requests[r, REQUEST.MILLI] >= WHOLE_MILLI and asks[s, ASK.NEED] > 0
    if is_packed and is_whole:
        return fill_then(g, e, asks[s, ASK.COUNT])
    count_hosts(w, g, r)
    lend_hosts(w, g, e, 1)
    count = seat_then(w, d, g, s, o)
    lend_hosts(w, g, e, -1)
    return count


@kernel
def reserve_by_change(w, d, g, e, s, j):
    """Make the only reservation, of what is kept from cycle to cycle; how many there are.

    Where nothing of that is another, the reservation of the last time is still written there.
    """
    reg, asks, o = d.reg, d.asks, d.asks[s, ASK.FIRST_OPTION]
    k, r, need = d.options[o, OPTION.KIND], d.options[o, OPTION.PACKED], asks[s, ASK.NEED]
    if need != 0 and is_over_limit(w.queues, w.quotas, d.used, w.shapes[s, SHAPE.QUEUE], k, need):
        return reg[REG.PROMISES]
    keep_up(w, g, e, r, k, reg[REG.ROOM_AT])
    ended = enough_then(w, g, e, asks[s, ASK.COUNT], need - d.free[k] if need != 0 else 0)
    if ended <= 0:
        return reg[REG.PROMISES]
    is_there = reg[REG.IS_KEPT_THERE] != 0 and d.promises[0, PROMISE.JOB] == j
    if e.tally[TALLY.IS_SAME] != 0 and is_there:
        reg[REG.PROMISES] = 1
        return 1
    count = seat_later(w, d, g, e, s, o)
    if count > 0:
        promise_found(w, d, g, s, j, e.rows[e.order[ended - 1], ENDING.AT_MS], count)
        e.tally[TALLY.IS_SAME] = 1
        reg[REG.IS_KEPT_THERE] = 1
    return reg[REG.PROMISES]


@kernel
@shared
def reserve(w, d, g, e, s, j, running):
    """Make one reservation, if the job will fit at all; how many there are.

    On the type on which it does when the fewest have ended.
    """
    if is_kept_for(w, d, g, e, s, j):
        return reserve_by_change(w, d, g, e, s, j)
    asks, options, q, need = d.asks, d.options, w.shapes[s, SHAPE.QUEUE], d.asks[s, ASK.NEED]
    best, ended, is_only = -1, 0, asks[s, ASK.OPTIONS] == 1
    bar(w, d, e, 1)
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + asks[s, ASK.OPTIONS]):
        k = options[o, OPTION.KIND]
        if need != 0 and is_over_limit(w.queues, w.quotas, d.used, q, k, need):
            continue
        after = ended_first(w, d, g, e, running, o, s, int(is_only))
        if after > 0 and (best < 0 or after < ended):
            best, ended = o, after
    bar(w, d, e, 0)
    if best < 0:
        return d.reg[REG.PROMISES]
    r = options[best, OPTION.PACKED]
    if not is_only:
        end_first(w, e, g, ended, 1, r)
    keep_promises(w, d, g, 1)
    count_promised(w, d, g, r)
    count = seat_then(w, d, g, s, best)
    keep_promises(w, d, g, -1)
    end_first(w, e, g, ended, -1, r)
    count_promised(w, d, g, r)
    if count > 0:
        promise_found(w, d, g, s, j, e.rows[e.order[ended - 1], ENDING.AT_MS], count)
    return d.reg[REG.PROMISES]


# By halving -----------------------------------------------------------------------------------


@kernel
def end_until(w, d, g, e, given, wanted):
    """Have so many of the first given back, whatever it was before; on the books too."""
    if wanted > given:
        give_back(w, e, g, d.used, d.below, d.kept, d.free, given, wanted, 1)
    else:
        give_back(w, e, g, d.used, d.below, d.kept, d.free, wanted, given, -1)


@kernel
def fit_and_leave(w, d, g, t, s):
    """Where a shape fits (``Desk.seats``), which is left as it was: the pieces, or as ``fit``."""
    asks, q = d.asks, w.shapes[s, SHAPE.QUEUE]
    if asks[s, ASK.SIZES] > 0:
        count = fit_largest(w, d, g, t, s, q)
        unseat(w, d, g, s, q, count)
        return count
    count = fit(w, d, g, t, s, q)
    if count > 0:
        note_seats(d, g, 0, 0, count)
        give_all(w, g, d.options[asks[s, ASK.FIRST_OPTION], OPTION.REQUEST], count, 1)
    return count


@kernel
def fit_after(w, d, g, t, e, s, given, wanted):
    """As ``fit_and_leave``, when so many have ended, beside what is reserved already.

    Where it fits, that is written down as the pieces of the next reservation.
    """
    end = pieces_promised(d)
    end_until(w, d, g, e, given, wanted)
    keep(w, g, d.promised, end)
    count = fit_and_leave(w, d, g, t, s)
    let_go(w, g, d.promised, end)
    if count > 0:
        write_promised(w, d, s, count)
    return count


@kernel
@shared
def reserve_by_halving(w, d, g, t, e, s, j):
    """Make one reservation, if the job will fit at all: READY, or NOT_HERE.

    When as few have ended as need be, a whole fit each time.
    """
    tally, low = e.tally, 0
    while tally[TALLY.NEAR] < tally[TALLY.COUNT] and sort_more(w, e):
        pass
    high = given = tally[TALLY.COUNT]
    found = pieces = fit_after(w, d, g, t, e, s, 0, high)
    while pieces > 0 and found != UNSURE and high - low > 1:
        middle = (low + high) // 2
        found = fit_after(w, d, g, t, e, s, given, middle)
        given = middle
        if found > 0:
            high, pieces = middle, found
        else:
            low = middle
    end_until(w, d, g, e, given, 0)
    if found == UNSURE:
        return NOT_HERE
    if pieces > 0 and high > 0:
        promise(d, j, e.rows[e.order[high - 1], ENDING.AT_MS], pieces)
    return READY


@kernel
def stand(w, d):
    """Whether the reservations of an earlier cycle are what would be made now.

    They are for the same jobs, and since then no node has changed, and nobody was expected to end.
    """
    reg, at = d.reg, w.at
    if reg[REG.STANDS] != reg[REG.PENDING] + 1 or reg[REG.PLACED] + reg[REG.PROMISES] > 0:
        return False
    if reg[REG.MADE_OF] != at[AT.LOGGED] or reg[REG.MADE_PACE] != at[AT.PACE_CHANGES]:
        return False
    for i in range(reg[REG.PENDING]):
        if d.claims[i, CLAIM.MADE] != d.claims[i, CLAIM.JOB]:
            return False
    return reg[REG.NOW] < reg[REG.NEXT_END_MS]


@kernel
def note_made(w, d, e):
    """Note for whom reservations were made, and what of; not where ends move by themselves."""
    reg, tally = d.reg, e.tally
    reg[REG.STANDS] = 0 if is_to_be_read(w, e, d.learnt) else reg[REG.PENDING] + 1
    reg[REG.MADE_IN] = reg[REG.CYCLE]
    reg[REG.MADE_OF] = w.at[AT.LOGGED]
    reg[REG.MADE_PACE] = w.at[AT.PACE_CHANGES]
    reg[REG.MADE] = reg[REG.PROMISES]
    reg[REG.NEXT_END_MS] = FOREVER_MS
    if tally[TALLY.NEAR] > 0:
        reg[REG.NEXT_END_MS] = e.rows[e.order[0], ENDING.AT_MS]
    for i in range(reg[REG.PENDING]):
        d.claims[i, CLAIM.MADE] = d.claims[i, CLAIM.JOB]


@kernel
def make_anew(w, d, g, t, e):
    """Make all reservations that were claimed; READY, or NOT_HERE: none of them."""
    reg, before, is_first = d.reg, d.reg[REG.PROMISES], d.reg[REG.PLACED] + d.reg[REG.PROMISES] == 0
    if reg[REG.STANDS] == 0:
        reg[REG.IS_KEPT_THERE] = 0  # Python may have written others over it
    catch_up(w, e, d.learnt, reg[REG.NOW])
    for i in range(reg[REG.PENDING]):
        s, j = d.claims[i, CLAIM.SHAPE], d.claims[i, CLAIM.JOB]
        if may_reserve(w, d, s):
            reserve(w, d, g, e, s, j, e.tally[TALLY.COUNT])
        elif reserve_by_halving(w, d, g, t, e, s, j) != READY:
            reg[REG.PROMISES] = before
            return NOT_HERE
    note_made(w, d, e)
    if not is_first:
        reg[REG.STANDS] = 0
    return READY


@kernel
def make_all(w, d, g, t, e):
    """Have all reservations that were claimed, anew if they do not stand; READY, or why not."""
    reg = d.reg
    why = may_make(w, d, e)
    if why != READY:
        return why
    if stand(w, d):
        reg[REG.PROMISES] = reg[REG.MADE]
        reg[REG.SINCE] = reg[REG.MADE_IN]
    else:
        why = make_anew(w, d, g, t, e)
        if why != READY:
            return why
    reg[REG.PENDING] = 0
    reg[REG.CLAIMS_LEFT] = reg[REG.RESERVATIONS_AT_MOST] - reg[REG.PROMISES]
    return READY
