"""What stopping jobs costs, and in which order those that may be stopped are tried.

*Flat*, the least important and cheapest first; or *by node*, the cheapest node to free for one
replica first, with just those of its jobs that have to go.
"""

from tidemill.core import rhythm
from tidemill.core.heaps import leave
from tidemill.core.progress import CONTINUOUS, RUNNING, lost_ms
from tidemill.model.columns import JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import SECOND_MS
from tidemill.model.states import NodeState
from tidemill.model.tables import Contracts
from tidemill.scheduling.desk.columns import ASK, LINE, OFFER, OPTION, REG, VICTIM
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.order import WORDS, insert
from tidemill.scheduling.fitting.columns import PART, REQUEST, SPOT
from tidemill.scheduling.fitting.sweeps import hosts_one

RATE = Contracts._fields.index("rate_usd_micro")
READY = int(NodeState.READY)
BY_SIZE, BY_TIME, BY_DENSITY, BY_NODE, BY_CHEAP_NODE = range(5)
NOT_YET, OFFERED, DONE = range(3)


# Prices ---------------------------------------------------------------------------------------


usd_micro = kernel(rhythm.usd_micro)
price_ms = kernel(rhythm.price_ms)


@kernel
def write_victim(w, victims, i, j, lost, is_reclaimed):
    """Write what a job holds that may be stopped, where that would lose so much time."""
    s, p, milli, rate = w.jobs[j, JOB.SHAPE], w.jobs[j, JOB.FIRST_PIECE], 0, 0
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            r = w.shapes[s, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE]
            replica = w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
            held = w.pieces[p, PIECE.REPLICAS] * replica
            c = w.nodes[w.pieces[p, PIECE.NODE], NODE.CONTRACT]
            milli += held
            rate += held * w.contracts[c, RATE]
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    victims[i, VICTIM.JOB] = j
    victims[i, VICTIM.SHAPE] = s
    victims[i, VICTIM.QUEUE] = w.shapes[s, SHAPE.QUEUE]
    victims[i, VICTIM.PRIORITY] = w.shapes[s, SHAPE.PRIORITY]
    victims[i, VICTIM.MILLI] = milli
    victims[i, VICTIM.LOST_MS] = lost
    victims[i, VICTIM.USD_MICRO] = usd_micro(rate, lost)
    victims[i, VICTIM.IS_RECLAIMED] = is_reclaimed
    victims[i, VICTIM.AT_MOST] = 0


@kernel
def is_untold(w, j):
    """Whether nobody knows what a stop loses of a job's work, as ``cost.is_loss_known`` asks."""
    is_running = w.jobs[j, JOB.STATE] == RUNNING and w.jobs[j, JOB.INTERVAL_MS] == CONTINUOUS
    return is_running and w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.IS_TRAINING] != 0


@kernel
def write_victims(w, d, h, s, count):
    """Write what the candidates hold that a shape may have stopped, and what that would lose."""
    for i in range(count):
        other = w.shapes[w.jobs[d.candidates[i], JOB.SHAPE], SHAPE.QUEUE]
        is_reclaimed, j = int(other != w.shapes[s, SHAPE.QUEUE]), d.candidates[i]
        lost = price_ms(lost_ms(w.jobs, j, d.reg[REG.NOW]), w.jobs[j, JOB.EVICTIONS])
        write_victim(w, h.victims, i, j, lost, is_reclaimed)
        if is_untold(w, j):
            seconds = 1 + max(0, d.reg[REG.NOW] - w.jobs[j, JOB.ORIGIN_MS]) // SECOND_MS
            h.victims[i, VICTIM.AT_MOST] = h.victims[i, VICTIM.MILLI] * seconds


@kernel
def price_of(victims, i, how):
    """What a victim counts in an order."""
    if how == BY_SIZE:
        return -victims[i, VICTIM.MILLI]
    if how == BY_TIME:
        return victims[i, VICTIM.LOST_MS]
    if how == BY_DENSITY:
        return victims[i, VICTIM.USD_MICRO] * 1000 // max(1, victims[i, VICTIM.MILLI])
    return victims[i, VICTIM.USD_MICRO] if how == BY_CHEAP_NODE else 1


# Orders ---------------------------------------------------------------------------------------


@kernel
def line_up(victims, ranks, sequence, start, count, how):
    """Append the candidates that are not in the sequence yet: the least important, cheapest first.

    The end of the sequence then.
    """
    at = 0
    for i in range(count):
        if victims[i, VICTIM.IS_OUT] == 0 and victims[i, VICTIM.IS_GONE] == 0:
            price, j = price_of(victims, i, how), victims[i, VICTIM.JOB]
            insert(ranks, at, victims[i, VICTIM.PRIORITY], price, -j, 0, 0, i)
            at += 1
    while at > 0:
        leave(ranks, at, WORDS)
        at -= 1
        sequence[start] = ranks[at, LINE.SHAPE]
        start += 1
    return start


@kernel
def may_use(nodes, asks, options, sought, oks, s, n):
    """Whether a node takes work, and a shape may use it on the types that are sought."""
    if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
        return False
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + asks[s, ASK.OPTIONS]):
        is_ok = oks[options[o, OPTION.REQUEST], nodes[n, NODE.GROUP]] != 0
        if is_ok and sought[options[o, OPTION.KIND]] != 0:
            return True
    return False


@kernel
def go_aboard(w, d, g, h, s, count, writes):
    """Count the candidates on every node that is worth freeing, or write who they are."""
    offers = h.offers
    for n in range(len(offers)):
        offers[n, OFFER.LAST] = -1
        offers[n, OFFER.ABOARD] = 0
    for i in range(count):
        if h.victims[i, VICTIM.IS_OUT] != 0:
            continue
        p = w.jobs[h.victims[i, VICTIM.JOB], JOB.FIRST_PIECE]
        while p >= 0:
            here, p = p, w.pieces[p, PIECE.NEXT_OF_JOB]
            n = w.pieces[here, PIECE.NODE]
            if w.pieces[here, PIECE.IS_COMING] != 0 or offers[n, OFFER.LAST] == i:
                continue
            if may_use(w.nodes, d.asks, d.options, d.sought, g.oks, s, n):
                offers[n, OFFER.LAST] = i
                if writes != 0:
                    h.aboard[offers[n, OFFER.FIRST] + offers[n, OFFER.ABOARD]] = i
                offers[n, OFFER.ABOARD] += 1


@kernel
def move_here(w, g, n, j, sign):
    """Take what a job holds on one node off it (1), or put it back (-1)."""
    p, s = w.jobs[j, JOB.FIRST_PIECE], w.jobs[j, JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE]
    first = w.nodes[n, NODE.FIRST_DEVICE]
    while p >= 0:
        if w.pieces[p, PIECE.NODE] == n and w.pieces[p, PIECE.IS_COMING] == 0:
            replicas, mask = sign * w.pieces[p, PIECE.REPLICAS], w.pieces[p, PIECE.DEVICES]
            g.spots[n, SPOT.CPU] += replicas * w.roles[r, ROLE.CPU]
            g.spots[n, SPOT.MEMORY] += replicas * w.roles[r, ROLE.MEMORY]
            for i in range(w.nodes[n, NODE.DEVICES]):
                if mask >> i & 1:
                    g.parts[first + i, PART.FREE] += sign * w.roles[r, ROLE.MILLI]
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def hosts_here(nodes, devices, spots, parts, requests, r, n):
    """Whether a node hosts one replica of a request as it is now."""
    if spots[n, SPOT.CPU] < requests[r, REQUEST.CPU]:
        return False
    if spots[n, SPOT.MEMORY] < requests[r, REQUEST.MEMORY]:
        return False
    accelerators, milli = requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI]
    return hosts_one(nodes, devices, parts, n, accelerators, milli)


@kernel
def goes_earlier(victims, a, b, how):
    """Whether one candidate on a node is taken off it before another."""
    if victims[a, VICTIM.PRIORITY] != victims[b, VICTIM.PRIORITY]:
        return victims[a, VICTIM.PRIORITY] < victims[b, VICTIM.PRIORITY]
    price, other = price_of(victims, a, how), price_of(victims, b, how)
    if price != other:
        return price < other
    return victims[a, VICTIM.JOB] > victims[b, VICTIM.JOB]


@kernel
def sort_aboard(h, n, how):
    """Write the candidates on a node that are not gone, in the order in which they would go."""
    offers, aboard, here, count = h.offers, h.aboard, h.here, 0
    first = offers[n, OFFER.FIRST]
    for a in range(first, first + offers[n, OFFER.ABOARD]):
        x = aboard[a]
        if h.victims[x, VICTIM.IS_GONE] != 0:
            continue
        at = count
        while at > 0 and goes_earlier(h.victims, x, here[at - 1], how):
            here[at] = here[at - 1]
            at -= 1
        here[at] = x
        count += 1
    return count


@kernel
def move_gone(w, g, h, n, sign):
    """Take those who are gone off one node, or put them back."""
    first = h.offers[n, OFFER.FIRST]
    for a in range(first, first + h.offers[n, OFFER.ABOARD]):
        if h.victims[h.aboard[a], VICTIM.IS_GONE] != 0:
            move_here(w, g, n, h.victims[h.aboard[a], VICTIM.JOB], sign)


@kernel
def empty_node(w, g, h, r, n, how):
    """The cheapest jobs to take off one node for one replica, in ``here``; how many.

    Greedy, cheapest first; then, dearest first, whoever is not needed after all stays. The node is
    left as it was. 0: one replica would not fit even so, or fits without.
    """
    here, victims, going, left = h.here, h.victims, 0, 0
    count = sort_aboard(h, n, how)
    move_gone(w, g, h, n, 1)
    is_room = hosts_here(w.nodes, w.devices, g.spots, g.parts, g.requests, r, n)
    while going < count and not is_room:
        move_here(w, g, n, victims[here[going], VICTIM.JOB], 1)
        going += 1
        is_room = hosts_here(w.nodes, w.devices, g.spots, g.parts, g.requests, r, n)
    for at in range(going - 1, -1, -1):
        x = here[at]
        move_here(w, g, n, victims[x, VICTIM.JOB], -1)
        if is_room and hosts_here(w.nodes, w.devices, g.spots, g.parts, g.requests, r, n):
            here[at] = -1
        elif is_room:
            move_here(w, g, n, victims[x, VICTIM.JOB], 1)
    for at in range(going if is_room else 0):
        x = here[at]
        if x >= 0:
            move_here(w, g, n, victims[x, VICTIM.JOB], -1)
            here[left] = x
            left += 1
    move_gone(w, g, h, n, -1)
    return left


@kernel
def is_lesser(victims, a, b):
    """Whether one victim goes before another where offers cost the same."""
    if victims[a, VICTIM.PRIORITY] != victims[b, VICTIM.PRIORITY]:
        return victims[a, VICTIM.PRIORITY] < victims[b, VICTIM.PRIORITY]
    if victims[a, VICTIM.LOST_MS] != victims[b, VICTIM.LOST_MS]:
        return victims[a, VICTIM.LOST_MS] < victims[b, VICTIM.LOST_MS]
    if victims[a, VICTIM.USD_MICRO] != victims[b, VICTIM.USD_MICRO]:
        return victims[a, VICTIM.USD_MICRO] < victims[b, VICTIM.USD_MICRO]
    return victims[a, VICTIM.JOB] < victims[b, VICTIM.JOB]


@kernel
def is_better(victims, offers, offered, here, n, count):
    """Whether the victims in ``here`` go before those that were offered for a node so far."""
    first, most = offers[n, OFFER.FIRST], offers[n, OFFER.COUNT]
    for i in range(min(count, most)):
        if here[i] != offered[first + i]:
            return is_lesser(victims, here[i], offered[first + i])
    return count < most


@kernel
def offer(w, g, h, r, n, how, heap):
    """Offer to empty a node, if it is cheaper than what was offered so far; how many offers.

    Of what is offered for a node in turn, the cheapest counts.
    """
    count, offers, victims = empty_node(w, g, h, r, n, how), h.offers, h.victims
    if count == 0:
        return heap
    priority, price, first = victims[h.here[0], VICTIM.PRIORITY], 0, offers[n, OFFER.FIRST]
    for i in range(count):
        priority = max(priority, victims[h.here[i], VICTIM.PRIORITY])
        price += price_of(victims, h.here[i], how)
    is_new = offers[n, OFFER.STATE] == NOT_YET
    if not is_new:
        if priority != offers[n, OFFER.PRIORITY]:
            is_new = priority < offers[n, OFFER.PRIORITY]
        else:
            is_new = price < offers[n, OFFER.PRICE]
        is_equal = priority == offers[n, OFFER.PRIORITY] and price == offers[n, OFFER.PRICE]
        is_kept = not is_equal or not is_better(victims, offers, h.offered, h.here, n, count)
        if not is_new and is_kept:
            return heap
    offers[n, OFFER.STATE] = OFFERED
    offers[n, OFFER.PRIORITY] = priority
    offers[n, OFFER.PRICE] = price
    offers[n, OFFER.COUNT] = count
    for i in range(count):
        h.offered[first + i] = h.here[i]
    if is_new:
        insert(h.ranks, heap, priority, price, n, 0, 0, n)
        heap += 1
    return heap


@kernel
def offer_again(w, g, h, r, x, how, heap):
    """A candidate goes: the other nodes that it sits on are cheaper to empty."""
    p = w.jobs[h.victims[x, VICTIM.JOB], JOB.FIRST_PIECE]
    while p >= 0:
        n = w.pieces[p, PIECE.NODE]
        is_there = w.pieces[p, PIECE.IS_COMING] == 0 and h.offers[n, OFFER.ABOARD] > 0
        if is_there and h.offers[n, OFFER.STATE] != DONE:
            heap = offer(w, g, h, r, n, how, heap)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return heap


@kernel
def line_up_by_node(w, d, g, h, s, count, how):
    """Line up candidates node by node, the cheapest to free for one replica first; then others."""
    offers, end, heap, first = h.offers, 0, 0, 0
    r = d.options[d.asks[s, ASK.FIRST_OPTION], OPTION.REQUEST]
    go_aboard(w, d, g, h, s, count, 0)
    for n in range(len(offers)):
        offers[n, OFFER.FIRST] = first
        offers[n, OFFER.STATE] = NOT_YET
        first += offers[n, OFFER.ABOARD]
    go_aboard(w, d, g, h, s, count, 1)
    for n in range(len(offers)):
        if offers[n, OFFER.ABOARD] > 0:
            heap = offer(w, g, h, r, n, how, heap)
    while heap > 0:
        leave(h.ranks, heap, WORDS)
        heap -= 1
        n, start = h.ranks[heap, LINE.SHAPE], end
        if offers[n, OFFER.STATE] == DONE:
            continue
        offers[n, OFFER.STATE] = DONE
        for i in range(offers[n, OFFER.FIRST], offers[n, OFFER.FIRST] + offers[n, OFFER.COUNT]):
            x = h.offered[i]
            if h.victims[x, VICTIM.IS_GONE] == 0:
                h.sequence[end] = x
                end += 1
        for i in range(start, end):
            h.victims[h.sequence[i], VICTIM.IS_GONE] = 1
        for i in range(start, end):
            heap = offer_again(w, g, h, r, h.sequence[i], how, heap)
    return line_up(h.victims, h.ranks, h.sequence, end, count, BY_SIZE)
