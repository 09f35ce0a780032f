"""Tournaments: for each request the best node is known, and kept known as nodes change.

Every leaf holds how well its node suits the request, every match is won by the better one (the
lower number among equals), and the root is the answer. A change of one node costs the matches on
one path; a tournament is brought up to date when it is asked, with the nodes that were touched
since it was asked before.
"""

from tidemill.compiled import shared
from tidemill.model.columns import DEVICE, NODE
from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.fitting.columns import CALL, KEPT, PART, REQUEST, SCORE, SPOT
from tidemill.scheduling.fitting.keeping import give, is_kept, take
from tidemill.scheduling.fitting.kernel import kernel
from tidemill.scheduling.fitting.sweeps import (
    bit,
    fill,
    give_all,
    host_beside,
    hosts_one,
    is_able,
    looseness,
    put,
    put_some,
)
from tidemill.scheduling.scores.codes import FGD, TIDE
from tidemill.scheduling.scores.futures import (
    SEED,
    fragments,
    state_key,
    stir,
    waste_of,
    weighed,
)
from tidemill.scheduling.scores.kernels import (
    bits_after,
    bound,
    rank_node,
    score_one,
    tide_parts,
    tightest,
)

NOWHERE = -(1 << 62)  # the rank of a node that cannot host the request
FEW = 16  # nodes that are ranked one by one sooner than a tournament is told what is reserved
MANY = -1
TABLES, SPREAD = int(SCORE.TABLES), int(SCORE.SPREAD)


@kernel
def play_all(rank, winner, e):
    """Play a whole tournament: ``winner[e, 1]`` wins, ``winner[e, 0]`` nodes could host it."""
    size = rank.shape[1]
    winner[e, 0] = 0
    for n in range(size):
        winner[e, 0] += rank[e, n] > NOWHERE
        winner[e, size + n] = n
    for i in range(size - 1, 0, -1):
        left, right = winner[e, 2 * i], winner[e, 2 * i + 1]
        winner[e, i] = left if rank[e, left] >= rank[e, right] else right


@kernel
def play_one(rank, winner, e, n, now):
    """Give one node another rank and play its matches again; as ``play_all``."""
    winner[e, 0] += int(now > NOWHERE) - int(rank[e, n] > NOWHERE)
    rank[e, n] = now
    i = (rank.shape[1] + n) >> 1
    while i > 0:
        left, right = winner[e, 2 * i], winner[e, 2 * i + 1]
        best = left if rank[e, left] >= rank[e, right] else right
        if best == winner[e, i] and best != n:
            break
        winner[e, i] = best
        i >>= 1


@kernel
def load(nodes, devices, parts, n, scratch):
    """Write the free milli of the working devices of a node into row 0; return how many."""
    count, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if devices[d, DEVICE.IS_FAILED] == 0:
            scratch[0, count] = parts[d, PART.FREE]
            count += 1
    return count


@kernel
def look(w, g, t, n):
    """Note what is wasted of a node as it is, how much of that is lost for good, and its state.

    For ``tide`` its waste, what lies on devices with too little for any class, and what fragments
    count for in it; for ``fgd`` its fragments.
    """
    spots, wasted, kind, lost = g.spots, g.wasted, w.nodes[n, NODE.KIND], 0
    count = load(w.nodes, w.devices, g.parts, n, t.scratch)
    free = t.scratch[0]
    for i in range(count):
        if free[i] < t.limits[3]:
            lost += free[i]
    cpu, memory = spots[n, SPOT.CPU], spots[n, SPOT.MEMORY]
    key = state_key(free, count, kind, cpu, memory, t.scratch[2])
    wasted[n, 0] = spots[n, SPOT.CHANGED]
    wasted[n, 3] = key
    if t.codes[0] == FGD:
        wasted[n, 1] = fragments(free, count, kind, cpu, t)
    else:
        wasted[n, 1] = waste_of(key, count, kind, cpu, memory, t)
        wasted[n, 2] = lost * len(t.draws)
        wasted[n, 4] = weighed(free, count, kind, cpu, t)


@kernel
def rank_by_tables(w, g, t, r, n):
    """The scores of a node that can host a replica in one number, the higher the better."""
    requests, spots = g.requests, g.spots
    count = load(w.nodes, w.devices, g.parts, n, t.scratch)
    cpu, memory = spots[n, SPOT.CPU], spots[n, SPOT.MEMORY]
    return rank_node(
        count, w.nodes[n, NODE.KIND], cpu, memory, cpu == w.nodes[n, NODE.CPU_MILLI],
        requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI], requests[r, REQUEST.CPU],
        requests[r, REQUEST.MEMORY], t,
    )  # fmt: skip


@kernel
def plain_rank(nodes, devices, spots, parts, requests, oks, r, n):
    """How well a node suits one replica without scores; ``NOWHERE``: it cannot host it."""
    accelerators, milli = requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI]
    cpu, memory = requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY]
    if not is_able(nodes, spots, oks, r, n, accelerators * milli, cpu, memory):
        return NOWHERE
    if not hosts_one(nodes, devices, parts, n, accelerators, milli):
        return NOWHERE
    if requests[r, REQUEST.SCORE] == SPREAD:
        return spots[n, SPOT.FREE]
    return -looseness(nodes, devices, spots, parts, n, milli)


@kernel
def rank_at_most(w, g, t, r, e, n, bits):
    """How well a node that can host one replica suits it by scores, or at most could.

    Scores that take long are not made for every node: nodes enter with what they could reach at
    most.
    """
    requests, spots = g.requests, g.spots
    if bits < 0:
        return rank_by_tables(w, g, t, r, n)
    g.exact[e, n] = 0
    if g.wasted[n, 0] != spots[n, SPOT.CHANGED]:
        look(w, g, t, n)
    milli = requests[r, REQUEST.MILLI]
    is_untouched = spots[n, SPOT.CPU] == w.nodes[n, NODE.CPU_MILLI]
    most = bound(
        g.wasted, n, is_untouched, requests[r, REQUEST.ACCELERATORS] * milli, milli,
        requests[r, REQUEST.CPU], t,
    )  # fmt: skip
    return ((most + 1) << bits) - 1


@kernel
def rank_now(w, g, t, r, e, n, bits):
    """How well a node suits a request as it is now, in its tournament; or at most could."""
    now = plain_rank(w.nodes, w.devices, g.spots, g.parts, g.requests, g.oks, r, n)
    g.exact[e, n] = 1
    if g.requests[r, REQUEST.SCORE] == TABLES and now > NOWHERE:
        now = rank_at_most(w, g, t, r, e, n, bits)
    return now


@kernel
def bring_up_to_date(w, g, t, r, e, bits):
    """Rank again whatever was touched since a tournament was asked before, or all nodes."""
    size, rows, requests = g.regs[CALL.TOUCHED], g.regs[CALL.ROWS], g.requests
    before = requests[r, REQUEST.READ] if requests[r, REQUEST.IS_SHARED] == 0 else -1
    requests[r, REQUEST.READ] = size
    is_new = before < 0 or size - before > min(rows, len(g.touched))
    if is_new:
        for n in range(g.rank.shape[1]):
            g.rank[e, n] = NOWHERE
    for i in range(0 if is_new else before, rows if is_new else size):
        n = i if is_new else g.touched[i % len(g.touched)]
        now = rank_now(w, g, t, r, e, n, bits)
        if is_new:
            g.rank[e, n] = now
        elif now != g.rank[e, n]:
            play_one(g.rank, g.winner, e, n, now)
    if is_new:
        play_all(g.rank, g.winner, e)


@kernel
def state_of_request(requests, r):
    """One number for all that a request asks of a node."""
    devices = stir(stir(SEED, requests[r, REQUEST.ACCELERATORS]), requests[r, REQUEST.MILLI])
    return stir(stir(devices, requests[r, REQUEST.CPU]), requests[r, REQUEST.MEMORY])


@kernel
def rank_by_state(w, g, t, r, n, request):
    """The scores of a node whose state is noted (``look``); nodes in equal state have equal ones.

    ``request``: ``state_of_request``.
    """
    ranked, is_untouched = t.ranked, int(g.spots[n, SPOT.CPU] == w.nodes[n, NODE.CPU_MILLI])
    key = stir(stir(request, g.wasted[n, 3]), is_untouched)
    i = key & (len(ranked) - 1)
    if ranked[i, 0] != key:
        ranked[i, 0] = key
        ranked[i, 1] = rank_by_tables(w, g, t, r, n)
    return ranked[i, 1]


@kernel
def ask_winners(w, g, t, r, e):
    """Let whoever wins by a bound have its score, until somebody wins by a score."""
    rank, winner, request = g.rank, g.winner, state_of_request(g.requests, r)
    n = winner[e, 1]
    while rank[e, n] > NOWHERE and g.exact[e, n] == 0:
        g.exact[e, n] = 1
        now = rank_by_state(w, g, t, r, n, request)
        if now != rank[e, n]:
            play_one(rank, winner, e, n, now)
        n = winner[e, 1]


@kernel
def put_by_tables(w, g, t, r, i, n):
    """Put one replica on a node: on the devices the first score prefers, else on the tightest.

    Whole devices are all alike; of those with room for a fraction the choice is the score's.
    """
    requests, parts, spots = g.requests, g.parts, g.spots
    milli, first = requests[r, REQUEST.MILLI], w.nodes[n, NODE.FIRST_DEVICE]
    if milli >= WHOLE:
        put_some(w, g, r, i, n, 1)
        return
    free, count = t.scratch[0], load(w.nodes, w.devices, parts, n, t.scratch)
    chosen, mask = tightest(free, count, milli), 0
    cpu, memory = spots[n, SPOT.CPU], spots[n, SPOT.MEMORY]
    for code in t.codes:
        if code in (FGD, TIDE):
            _, chosen = score_one(
                code, free, count, w.nodes[n, NODE.KIND], cpu, memory,
                cpu == w.nodes[n, NODE.CPU_MILLI], requests[r, REQUEST.ACCELERATORS], milli,
                requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY], t,
            )  # fmt: skip
            break
    for d in range(first, first + w.nodes[n, NODE.DEVICES]):
        if w.devices[d, DEVICE.IS_FAILED] == 0:
            if chosen == 0:
                parts[d, PART.FREE] -= milli
                mask = bit(d - first)
                break
            chosen -= 1
    put(g, r, i, n, 1, mask)


@kernel
def bits_of(g, t, r):
    """By how many bits the first score of a request is shifted in a rank; -1: it is no bound."""
    return bits_after(t.codes) if g.requests[r, REQUEST.SCORE] == TABLES else -1


@kernel
def put_on(w, g, t, r, i, n):
    """Place one replica on a node."""
    if g.requests[r, REQUEST.SCORE] == TABLES:
        put_by_tables(w, g, t, r, i, n)
    else:
        put_some(w, g, r, i, n, 1)


@kernel
def put_best(w, g, t, r, i):
    """Place one replica where its tournament, which is up to date, says: the node, or -1."""
    e = g.requests[r, REQUEST.TREE]
    if bits_of(g, t, r) >= 0:
        ask_winners(w, g, t, r, e)
    n = g.winner[e, 1]
    if g.rank[e, n] <= NOWHERE:
        return -1
    put_on(w, g, t, r, i, n)
    return n


@kernel
def put_one(w, g, t, r, i):
    """Place one replica through its tournament: return the node, or -1."""
    bring_up_to_date(w, g, t, r, g.requests[r, REQUEST.TREE], bits_of(g, t, r))
    return put_best(w, g, t, r, i)


@kernel
def rank_kept(w, g, t, r, promised, i):
    """Rank a node of which a reservation has taken something, for one request and for a while."""
    n, e = promised[i, KEPT.NODE], g.requests[r, REQUEST.TREE]
    promised[i, KEPT.RANK] = g.rank[e, n]
    promised[i, KEPT.IS_EXACT] = g.exact[e, n]
    g.spots[n, SPOT.CHANGED] += 1
    now = rank_now(w, g, t, r, e, n, bits_of(g, t, r))
    if now != g.rank[e, n]:
        play_one(g.rank, g.winner, e, n, now)


@kernel
def rank_again(g, r, promised, i):
    """Give such a node, to which that was given back, the rank again that it had."""
    n, e = promised[i, KEPT.NODE], g.requests[r, REQUEST.TREE]
    g.spots[n, SPOT.CHANGED] += 1
    g.exact[e, n] = promised[i, KEPT.IS_EXACT]
    if promised[i, KEPT.RANK] != g.rank[e, n]:
        play_one(g.rank, g.winner, e, n, promised[i, KEPT.RANK])


@kernel
@shared
def seat_beside(w, g, t, r, promised, start, end):
    """Place one replica by its tournament beside what reservations took, in these rows; 1, or 0.

    No other tournament need know of it: all of it is given back by whoever took it, after which
    this one is as it was, but for the node that was taken (``rank_again``).
    """
    g.regs[CALL.SOUGHT] += 1
    bring_up_to_date(w, g, t, r, g.requests[r, REQUEST.TREE], bits_of(g, t, r))
    take(w, g, promised, start, end)
    for i in range(start, end):
        if is_kept(w, promised, i):
            rank_kept(w, g, t, r, promised, i)
    n = put_best(w, g, t, r, 0)
    give(w, g, promised, start, end)
    for i in range(end - 1, start - 1, -1):
        if is_kept(w, promised, i):
            rank_again(g, r, promised, i)
    return int(n >= 0)


@kernel
def rank_exactly(w, g, t, r, n):
    """How well a node suits one replica as it is now, whichever way its tournament would know."""
    now = plain_rank(w.nodes, w.devices, g.spots, g.parts, g.requests, g.oks, r, n)
    if g.requests[r, REQUEST.SCORE] != TABLES or now <= NOWHERE:
        return now
    if bits_of(g, t, r) < 0:
        return rank_by_tables(w, g, t, r, n)
    if g.wasted[n, 0] != g.spots[n, SPOT.CHANGED]:
        look(w, g, t, n)
    return rank_by_state(w, g, t, r, n, state_of_request(g.requests, r))


@kernel
@shared
def seat_among_few(w, g, t, r, h):
    """Place one replica on one of a few nodes that could take it beside whole nodes reserved.

    ``h``: where it is counted who could (``Ground.hosts``). 1, or 0; ``MANY``: they are not few.
    """
    best, best_rank, left, n = -1, NOWHERE, FEW, host_beside(g, h, 0)
    while n < g.regs[CALL.ROWS]:
        if left == 0:
            return MANY
        rank = rank_exactly(w, g, t, r, n)
        if rank > best_rank:
            best, best_rank = n, rank
        left -= 1
        n = host_beside(g, h, n + 1)
    g.regs[CALL.SOUGHT] += 1
    if best < 0:
        return 0
    put_on(w, g, t, r, 0, best)
    return 1


@kernel
def rank_plainly(w, g, r, suits):
    """How well each node suits one replica of a request without scores, in ``suits``."""
    for n in range(g.regs[CALL.ROWS]):
        suits[n] = plain_rank(w.nodes, w.devices, g.spots, g.parts, g.requests, g.oks, r, n)


@kernel
def best_few(w, g, t, r, few):
    """The nodes that suit one replica best by its tournament, and their ranks; how many.

    Each of them is taken out of the tournament, which is made anew when it is asked again.
    """
    e, is_by_tables, count = g.requests[r, REQUEST.TREE], g.requests[r, REQUEST.SCORE] == TABLES, 0
    bits = bits_after(t.codes) if is_by_tables else -1
    bring_up_to_date(w, g, t, r, e, bits)
    while count < len(few):
        if is_by_tables and bits >= 0:
            ask_winners(w, g, t, r, e)
        n = g.winner[e, 1]
        if g.rank[e, n] <= NOWHERE:
            break
        few[count, 0] = n
        few[count, 1] = g.rank[e, n]
        play_one(g.rank, g.winner, e, n, NOWHERE)
        count += 1
    g.requests[r, REQUEST.READ] = -1
    return count


@kernel
def look_ahead(w, g, t, r, n, few):
    """What a score that looks ahead is made of, in the first row: see ``tide_parts``."""
    requests, cpu, memory = g.requests, g.spots[n, SPOT.CPU], g.spots[n, SPOT.MEMORY]
    count = load(w.nodes, w.devices, g.parts, n, t.scratch)
    gain, price, _ = tide_parts(
        t.scratch[0], count, w.nodes[n, NODE.KIND], cpu, memory,
        cpu == w.nodes[n, NODE.CPU_MILLI], requests[r, REQUEST.ACCELERATORS],
        requests[r, REQUEST.MILLI], requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY], t,
    )  # fmt: skip
    few[0, 0] = gain // len(t.draws)
    few[0, 1] = price


@kernel
@shared
def seat(w, g, t, r, count):
    """Place all replicas of a request or none; the number of pieces, or minus what fits, less one.

    By its tournament where it has one: scores choose the node of a single replica and of each
    fraction. A gang of whole devices is put on the fewest nodes.
    """
    requests, score = g.requests, g.requests[r, REQUEST.SCORE]
    g.regs[CALL.SOUGHT] += 1
    is_by_tables = score == TABLES and requests[r, REQUEST.MILLI] < WHOLE
    if requests[r, REQUEST.TREE] < 0 or (count > 1 and not is_by_tables):
        return fill(w, g, r, count, int(score == SPREAD))
    for i in range(count):
        if put_one(w, g, t, r, i) < 0:
            give_all(w, g, r, i, 1)
            return -i - 1
    return count
