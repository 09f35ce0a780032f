"""Whom to stop so that a waiting job fits: the search of ``preemption.select``, compiled.

For the ordinary case: the one who waits and those who may be stopped have one role of one size and
no MIG instances, and no elastic job gives up replicas. Everything is tried in the room, which is
left as it was. Python does the rest.
"""

from tidemill.compiled import shared
from tidemill.core.heaps import leave
from tidemill.core.progress import left_ms
from tidemill.core.wide import LARGEST
from tidemill.model.columns import JOB, NODE, PIECE, QUEUE, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS, HOUR_MS, ONE_PPM
from tidemill.scheduling.desk.columns import ASK, LINE, OPTION, REG, VICTIM
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.offering import (
    BY_CHEAP_NODE,
    BY_DENSITY,
    BY_NODE,
    BY_SIZE,
    BY_TIME,
    RATE,
    line_up,
    line_up_by_node,
    price_of,
    usd_micro,
    write_victims,
)
from tidemill.scheduling.desk.order import WORDS, insert
from tidemill.scheduling.desk.placing import book, fit
from tidemill.scheduling.desk.rights import borrows, find_stoppable, seek
from tidemill.scheduling.fitting.books import is_barred
from tidemill.scheduling.fitting.columns import OUT, PART, REQUEST, SPOT
from tidemill.scheduling.fitting.sweeps import give, give_all

COLUMNS = len(OUT)
ROUNDS = 3  # how often a search begins again without the jobs that would only be moved
CONSIDERED = 4096  # candidates, at the most
UNSURE, UNPREPARED = -1, -2  # Python must search; or look at a shape first (``REG.WHO``)
TIME = 0  # how a policy prices victims; else in dollars
UNKNOWN_WAIT_MS = HOUR_MS  # what a start is worth to a job that gave no estimate; a convention


# Clearing -------------------------------------------------------------------------------------


@kernel
def shift(w, d, g, victims, i, sign):
    """Take a candidate out of the room and off the books (1), or put it back (-1)."""
    p, s = w.jobs[victims[i, VICTIM.JOB], JOB.FIRST_PIECE], victims[i, VICTIM.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE]
    accelerators, milli = w.roles[r, ROLE.ACCELERATORS], w.roles[r, ROLE.MILLI]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            n, replicas = w.pieces[p, PIECE.NODE], w.pieces[p, PIECE.REPLICAS]
            give(
                w.nodes, g.regs, g.touched, g.spots, g.parts, n, replicas,
                w.pieces[p, PIECE.DEVICES], accelerators, milli, w.roles[r, ROLE.CPU],
                w.roles[r, ROLE.MEMORY], sign,
            )  # fmt: skip
            k, held = w.nodes[n, NODE.KIND], sign * replicas * accelerators * milli
            book(w, d, victims[i, VICTIM.QUEUE], k, -held)
            if g.spots[n, SPOT.IS_OPEN] == 0:  # what leaves a closed node is free to nobody
                d.free[k] -= held
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def still_borrows(w, used, victims, i, q):
    """Whether a team still borrows what is to be taken back from it."""
    other, p = victims[i, VICTIM.QUEUE], w.jobs[victims[i, VICTIM.JOB], JOB.FIRST_PIECE]
    while p >= 0:
        k = w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND]
        if w.pieces[p, PIECE.IS_COMING] == 0 and borrows(w.queues, w.quotas, used, q, other, k):
            return True
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return False


@kernel
def is_free(nodes, spots, parts, n):
    """Whether nothing of a node is taken twice."""
    if spots[n, SPOT.CPU] < 0 or spots[n, SPOT.MEMORY] < 0:
        return False
    first = nodes[n, NODE.FIRST_DEVICE]
    for i in range(first, first + nodes[n, NODE.DEVICES]):
        if parts[i, PART.FREE] < 0:
            return False
    return True


@kernel
def may_stay(w, d, g, victims, i):
    """Put a candidate back into the room if it can stay where it was; whether it can.

    Where its devices are free, within maximum quotas and beside what others keep back.
    """
    q, p, need = victims[i, VICTIM.QUEUE], w.jobs[victims[i, VICTIM.JOB], JOB.FIRST_PIECE], 0
    k = -1
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            k = w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND]
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    need = victims[i, VICTIM.MILLI]
    if is_barred(w.at, w.queues, w.quotas, d.used, d.below, d.kept, d.free, q, k, need):
        return False
    shift(w, d, g, victims, i, -1)
    p = w.jobs[victims[i, VICTIM.JOB], JOB.FIRST_PIECE]
    while p >= 0:
        n = w.pieces[p, PIECE.NODE]
        if w.pieces[p, PIECE.IS_COMING] == 0 and not is_free(w.nodes, g.spots, g.parts, n):
            shift(w, d, g, victims, i, 1)
            return False
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return True


@kernel
def request_of(asks, options, s):
    """A row of the room that says what a replica of a shape asks for."""
    return options[asks[s, ASK.FIRST_OPTION], OPTION.REQUEST]


@kernel
def seek_only(closed, sought, is_strict):
    """Fit on the types that are sought alone, or on all."""
    for k in range(len(sought)):
        closed[k] = int(is_strict != 0 and sought[k] == 0)


@kernel
def fits(w, d, g, t, s):
    """Whether a shape fits; the room is as it was."""
    count = fit(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE])
    if count > 0:
        give_all(w, g, request_of(d.asks, d.options, s), count, 1)
    return count > 0


@kernel
def drop(freed, count, i):
    """One of those who were freed is not any more; how many are left."""
    for later in range(i, count - 1):
        freed[later] = freed[later + 1]
    return count - 1


@kernel
def spare(w, d, g, h, s, count, seated):
    """Put back, last first, whoever can stay beside the heir, which sits; how many go still."""
    q, need = w.shapes[s, SHAPE.QUEUE], d.asks[s, ASK.NEED]
    k = w.nodes[g.out[0, OUT.NODE], NODE.KIND]
    book(w, d, q, k, need)
    for at in range(count - 1, -1, -1):
        if may_stay(w, d, g, h.victims, h.freed[at]):
            count = drop(h.freed, count, at)
    give_all(w, g, request_of(d.asks, d.options, s), seated, 1)
    book(w, d, q, k, -need)
    return count


@kernel
def spare_dearest(w, d, g, t, h, s, count):
    """Put back, dearest first, whoever leaves room even so; until nobody can be spared."""
    victims, freed, ranks, before = h.victims, h.freed, h.ranks, -1
    how = BY_TIME if d.reg[REG.PRICES] == TIME else BY_CHEAP_NODE
    while count != before:
        before = count
        for i in range(count):
            x = freed[i]
            price, j = price_of(victims, x, how), victims[x, VICTIM.JOB]
            insert(ranks, i, -victims[x, VICTIM.PRIORITY], -price, -j, 0, 0, x)
        for left in range(before, 0, -1):
            leave(ranks, left, WORDS)
            x = ranks[left - 1, LINE.SHAPE]
            shift(w, d, g, victims, x, -1)
            if fits(w, d, g, t, s):
                at = 0
                while freed[at] != x:
                    at += 1
                count = drop(freed, count, at)
            else:
                shift(w, d, g, victims, x, 1)
    return count


@kernel
def put_back(w, d, g, h, count):
    """Put whoever was freed back into the room."""
    for i in range(count):
        shift(w, d, g, h.victims, h.freed[i], -1)


@kernel
def clear(w, d, g, t, h, s, end, at_most):
    """Free candidates in order until a shape fits on the types that are sought; how many go.

    Nobody of whom could be spared; they are out of the room. 0: it does not fit even so, and the
    room is as it was.
    """
    count, pieces, q, victims = 0, 0, w.shapes[s, SHAPE.QUEUE], h.victims
    seek_only(d.closed, d.sought, 1)
    for i in range(end):
        x = h.sequence[i]
        if count >= at_most or pieces > 0:
            break
        if victims[x, VICTIM.IS_RECLAIMED] != 0 and not still_borrows(w, d.used, victims, x, q):
            continue
        shift(w, d, g, victims, x, 1)
        h.freed[count] = x
        count += 1
        pieces = fit(w, d, g, t, s, q)
    if pieces <= 0:
        put_back(w, d, g, h, count)
        count = 0
    else:
        count = spare(w, d, g, h, s, count, pieces)
        if count > 1:
            count = spare_dearest(w, d, g, t, h, s, count)
    seek_only(d.closed, d.sought, 0)
    return count


@kernel
def take_seat(w, d, g, h, s, seated, sign):
    """Take the heir's place, which was found (1), or give it back (-1), on the books too."""
    r, k = request_of(d.asks, d.options, s), w.nodes[h.seat[0, OUT.NODE], NODE.KIND]
    if sign < 0:
        for i in range(seated):
            give(
                w.nodes, g.regs, g.touched, g.spots, g.parts, h.seat[i, OUT.NODE],
                h.seat[i, OUT.REPLICAS], h.seat[i, OUT.DEVICES],
                g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI],
                g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY], 1,
            )  # fmt: skip
    book(w, d, w.shapes[s, SHAPE.QUEUE], k, sign * d.asks[s, ASK.NEED])


@kernel
def rehearse(w, d, g, t, h, s, reach, count):
    """What the next cycle would do, now that the victims are gone: how many would fit elsewhere.

    Evicting those would only move them. -1: the job would not sit where it may.
    """
    movers, pieces = -1, fit(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE])
    if pieces <= 0:
        return -1
    for i in range(pieces):
        for c in range(COLUMNS):
            h.seat[i, c] = g.out[i, c]
    take_seat(w, d, g, h, s, pieces, 1)
    if reach == 0 or d.sought[w.nodes[h.seat[0, OUT.NODE], NODE.KIND]] != 0:
        movers = 0
        for i in range(count):
            if fits(w, d, g, t, h.victims[h.freed[i], VICTIM.SHAPE]):
                h.victims[h.freed[i], VICTIM.IS_OUT] = 1
                movers += 1
    take_seat(w, d, g, h, s, pieces, -1)
    return movers


# Choosing -------------------------------------------------------------------------------------


@kernel
def settle_on(w, d, g, t, h, s, reach, many, how):
    """Search in one order; begin again without those that would only be moved; how many go."""
    victims, left = h.victims, many
    for i in range(many):
        victims[i, VICTIM.IS_OUT] = 0
    for _ in range(ROUNDS):
        if left == 0:
            return 0
        for i in range(many):
            victims[i, VICTIM.IS_GONE] = 0
        if how in (BY_NODE, BY_CHEAP_NODE):
            line_up_by_node(w, d, g, h, s, many, how)
        else:
            line_up(victims, h.ranks, h.sequence, 0, many, how)
        count = clear(w, d, g, t, h, s, left, d.reg[REG.VICTIMS_AT_MOST])
        if count == 0:
            return 0
        movers = rehearse(w, d, g, t, h, s, reach, count)
        put_back(w, d, g, h, count)
        if movers <= 0:
            return count if movers == 0 else 0
        left -= movers
    return 0


@kernel
def lowest_beside(victims, freed, count, chosen, many):
    """The lowest number of a job that is in the first set and not in the second."""
    lowest = FOREVER_MS
    for i in range(count):
        is_other = False
        for c in range(many):
            is_other = is_other or chosen[c] == freed[i]
        if not is_other:
            lowest = min(lowest, victims[freed[i], VICTIM.JOB])
    return lowest


@kernel
def keep_if_better(h, count, best):
    """Keep those who were freed if they are a better set than the best so far; its size then.

    By its most important victim, its dollars, what else it may lose, its size; ties by number.
    """
    victims, freed, chosen = h.victims, h.freed, h.chosen
    if count == 0:
        return best
    priority, usd, first, dollars = -FOREVER_MS, 0, -FOREVER_MS, 0
    untold, unknown = 0, 0
    for i in range(count):
        priority = max(priority, victims[freed[i], VICTIM.PRIORITY])
        usd += victims[freed[i], VICTIM.USD_MICRO]
        untold += victims[freed[i], VICTIM.AT_MOST]
    for i in range(best):
        first = max(first, victims[chosen[i], VICTIM.PRIORITY])
        dollars += victims[chosen[i], VICTIM.USD_MICRO]
        unknown += victims[chosen[i], VICTIM.AT_MOST]
    is_better = best == 0 or priority < first
    if best > 0 and priority == first:
        is_better = usd < dollars or (usd == dollars and untold < unknown)
        if usd == dollars and untold == unknown:
            is_better = count < best
            if count == best:
                mine = lowest_beside(victims, freed, count, chosen, best)
                is_better = mine < lowest_beside(victims, chosen, best, freed, count)
    if is_better:
        for i in range(count):
            chosen[i] = freed[i]
        return count
    return best


@kernel
def choose_among(w, d, g, t, h, s, reach, count):
    """Whom of these candidates to stop, in ``chosen``; how many."""
    if d.reg[REG.PRICES] == TIME:
        return keep_if_better(h, settle_on(w, d, g, t, h, s, reach, count, BY_TIME), 0)
    best = keep_if_better(h, settle_on(w, d, g, t, h, s, reach, count, BY_SIZE), 0)
    best = keep_if_better(h, settle_on(w, d, g, t, h, s, reach, count, BY_NODE), best)
    if best == 0:
        return 0
    best = keep_if_better(h, settle_on(w, d, g, t, h, s, reach, count, BY_DENSITY), best)
    return keep_if_better(h, settle_on(w, d, g, t, h, s, reach, count, BY_CHEAP_NODE), best)


@kernel
def is_ready(reg, asks, s):
    """Whether a shape can be fitted here: 1, ``UNSURE``, or ``UNPREPARED``."""
    if asks[s, ASK.IS_KNOWN] == 0:
        return UNPREPARED
    if asks[s, ASK.IS_SIMPLE] == 0:
        return UNSURE
    if asks[s, ASK.PREPARED] != reg[REG.ROOM_AT]:
        return UNPREPARED
    return UNSURE if asks[s, ASK.TOGETHER] >= 0 else 1


@kernel
def are_ready(w, d, count):
    """Whether all candidates can be fitted here: 1, or a code where Python must do something."""
    if count > CONSIDERED:
        return UNSURE
    for i in range(count):
        other = w.jobs[d.candidates[i], JOB.SHAPE]
        code = is_ready(d.reg, d.asks, other)
        if code < 0:
            d.reg[REG.WHO] = other
            return code
    return 1


@kernel
def search_as_far(w, d, g, t, h, s, reach):
    """Whom to stop on the types that are sought, as far as ``reach``; how many, or a code."""
    count = find_stoppable(w, d, s, reach, d.asks[s, ASK.NEED])
    if count == 0:
        return 0
    code = are_ready(w, d, count)
    if code < 0:
        return code
    write_victims(w, d, h, s, count)
    return choose_among(w, d, g, t, h, s, reach, count)


@kernel
@shared
def find_victims(w, d, g, t, h, s):
    """Whom to stop so that a shape fits, in ``chosen``: how many, or a code for Python.

    By what right is in ``REG.REACH``: 0 for priority. For nobody, ``REG.AGAIN_MS`` and
    ``REG.IS_FINAL`` are as ``rights.is_in_vain`` says.
    """
    reg, asks = d.reg, d.asks
    reg[REG.AGAIN_MS] = FOREVER_MS
    reg[REG.IS_FINAL] = 1
    code = is_ready(reg, asks, s)
    if asks[s, ASK.NEED] == 0:
        code = UNSURE
    reg[REG.WHO] = s
    a, reach = w.shapes[s, SHAPE.QUEUE], 0
    while code >= 0 and a >= 0 and reg[REG.MAY_RECLAIM] != 0:
        reach += 1
        reg[REG.REACH] = reach
        if seek(w.quotas, d.used, asks, d.types, d.sought, s, a, asks[s, ASK.NEED]):
            code = search_as_far(w, d, g, t, h, s, reach)
            if code != 0:
                return code
        a = w.queues[a, QUEUE.PARENT]
    if code < 0:
        return code
    reg[REG.REACH] = 0
    seek(w.quotas, d.used, asks, d.types, d.sought, s, -1, asks[s, ASK.NEED])
    return search_as_far(w, d, g, t, h, s, 0)


# What it is worth -----------------------------------------------------------------------------


@kernel
def rate_of_seat(w, d, g, t, h, s, count):
    """What the place costs per hour, times milli, that a shape has when the chosen are gone."""
    r, rate = w.shapes[s, SHAPE.FIRST_ROLE], 0
    for i in range(count):
        shift(w, d, g, h.victims, h.chosen[i], 1)
    pieces = fit(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE])
    for i in range(pieces):
        held = g.out[i, OUT.REPLICAS] * w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
        rate += held * w.contracts[w.nodes[g.out[i, OUT.NODE], NODE.CONTRACT], RATE]
    if pieces > 0:
        give_all(w, g, request_of(d.asks, d.options, s), pieces, 1)
    for i in range(count):
        shift(w, d, g, h.victims, h.chosen[i], -1)
    return rate


@kernel
def is_worth(w, d, g, t, h, s, count):
    """Whether what the heir wins covers the share of the loss that the policy asks for.

    1, 0, or ``UNSURE`` where the numbers are too large to be compared here.
    """
    share, estimate = d.reg[REG.GAIN_PPM], w.jobs[w.shapes[s, SHAPE.HEAD], JOB.ESTIMATE_MS]
    if share == 0:
        return 1
    left, cost = 0, 0
    for i in range(count):
        left = max(left, left_ms(w.jobs, h.victims[h.chosen[i], VICTIM.JOB], d.reg[REG.NOW]))
        cost += h.victims[h.chosen[i], VICTIM.USD_MICRO]
    spared = min(estimate if estimate > 0 else UNKNOWN_WAIT_MS, left)
    gain = usd_micro(rate_of_seat(w, d, g, t, h, s, count), spared)
    if max(gain, cost) > LARGEST // ONE_PPM:
        return UNSURE
    return int(gain * ONE_PPM >= cost * share)
