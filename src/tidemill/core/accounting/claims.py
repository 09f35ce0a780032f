"""Claims: accelerators that no job holds, and who among the waiting keeps out of what is free.

Free accelerators are claimed by waiting shapes in the scheduler's order, role by role, contract by
contract; what nobody claims is in no demand. A shape claims for all its waiting jobs at the place
of the first of them. What partial gangs lack is claimed after those who have nothing yet. Where
labels or taints set nodes of a contract apart, what is free of it is several lots, of which a role
claims those on nodes that it may be on.

Where nothing but age and priority decides, those who wait are kept in order from event to event
(``MARK.LINE``): one event moves one of them. Otherwise the order is made at every moment.
"""

from tidemill.core.accounting.columns import (
    CLAIMANT,
    COUNTED,
    DEMAND,
    FIRST,
    LACK,
    LOT,
    MARK,
    ORDER,
    TABLE,
    UNLINED,
)
from tidemill.core.accounting.heads import place_first
from tidemill.core.estimates import learn
from tidemill.core.fair_shares import SHARING, count_past, share_of
from tidemill.core.fair_shares import rank as rank_queues
from tidemill.core.fold import STARTING
from tidemill.core.heaps import arrange, goes_before, leave, sort, swap
from tidemill.core.kernel import kernel
from tidemill.core.order import standing
from tidemill.core.places import READY
from tidemill.model.columns import AT, JOB, NODE, NONE, QUEUE, QUOTA, SHAPE
from tidemill.model.reasons import Cause
from tidemill.model.states import Level
from tidemill.model.tables import Contracts

IS_RUNNING, COMMITTED_MILLI, LAUNCHED_MILLI = (
    Contracts._fields.index(name) for name in ("is_running", "committed_milli", "launched_milli")
)
UNSAID = int(Cause.NONE)
KEY = int(CLAIMANT.SHAPE)  # how many columns tell who claims first
UNKNOWN, RANKED = map(int, UNLINED)
MOST_TOUCHED = 16  # in one moment: looking at all again is cheaper than moving more of them
UNRANKED = -1  # a rank that was not looked for yet
KEPT_AT_MOST = 32  # in a line that is kept by moving rows: a heap is quicker with more


@kernel
def count_node(nodes, lots, lot_of, counted, n):
    """Count anew what is free of a node that takes new work."""
    is_open = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
    milli = nodes[n, NODE.FREE_MILLI] if is_open and nodes[n, NODE.IS_UNSEEN] == 0 else 0
    lots[counted[n, COUNTED.LOT], LOT.READY] -= counted[n, COUNTED.MILLI]
    counted[n, COUNTED.LOT] = lot_of[nodes[n, NODE.CONTRACT], nodes[n, NODE.GROUP]]
    counted[n, COUNTED.MILLI] = milli
    lots[counted[n, COUNTED.LOT], LOT.READY] += milli


@kernel
def count_lots(w, b):
    """What is free of each lot: of the nodes that changed since it was last counted, or of all."""
    marks, at, position, kept = b.marks, w.at, b.marks[MARK.LOTS_READ], len(w.log)
    marks[MARK.LOTS_READ] = at[AT.LOGGED]
    if position >= at[AT.LOG_FIRST] and at[AT.LOGGED] - position <= kept:
        for i in range(position, at[AT.LOGGED]):
            count_node(w.nodes, b.lots, b.lot_of, b.counted, w.log[i % kept])
        return
    for lot in range(marks[MARK.LOTS]):
        b.lots[lot, LOT.READY] = 0
    for n in range(marks[MARK.NODES]):
        b.counted[n, COUNTED.LOT] = 0
        b.counted[n, COUNTED.MILLI] = 0
        count_node(w.nodes, b.lots, b.lot_of, b.counted, n)


@kernel
def lay_out(w, b):
    """What is free of each lot, claimed by nobody yet; the sum."""
    marks, lots, left = b.marks, b.lots, 0
    if marks[MARK.IS_PARTED] != 0:
        count_lots(w, b)
    for lot in range(marks[MARK.LOTS]):
        free = lots[lot, LOT.READY] if marks[MARK.IS_PARTED] != 0 else w.levels[lot, Level.READY]
        lots[lot, LOT.FREE] = free
        left += free
    return left


@kernel
def finds_some(shapes, demands, may_use, lots, lots_known, s):
    """Whether something is free that a shape may use."""
    first = shapes[s, SHAPE.FIRST_ROLE]
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        if demands[r, DEMAND.MILLI] > 0:
            for lot in range(lots_known):
                if lots[lot, LOT.FREE] > 0 and may_use[demands[r, DEMAND.RULE], lot] != 0:
                    return True
    return False


@kernel
def gather(w, b):
    """Who may use something of what is free, in no order; how many."""
    marks, shapes, claims, count = b.marks, w.shapes, b.claims, 0
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        if b.tables[TABLE.OF_CAUSE, shapes[s, SHAPE.CAUSE]] < 0:
            continue
        if not finds_some(shapes, b.demands, b.may_use, b.lots, marks[MARK.LOTS], s):
            continue
        rule = b.demands[shapes[s, SHAPE.FIRST_ROLE], DEMAND.RULE]
        b.standings[rule, shapes[s, SHAPE.QUEUE]] = UNRANKED
        claims[count, CLAIMANT.SHAPE] = s
        count += 1
    return count


@kernel
def count_share(w, b, q):
    """Count the fair share of a queue as of the last event."""
    marks, weight = b.marks, b.sharing[q, SHARING.WEIGHT]
    for k in range(w.quotas.shape[1]):
        b.used[q, k] = w.quotas[q, k, QUOTA.USED]
        b.past[q, k] = 0
    if w.at[AT.HALF_LIFE_MS] != 0:
        count_past(w.at, w.queues, w.quotas, b.past, q, marks[MARK.EVENT_MS])
    share = share_of(w.quotas, b.used, b.past, b.worth, q, weight, marks[MARK.FAIRNESS])
    b.sharing[q, SHARING.SHARE] = share
    b.sharing[q, SHARING.COUNTED_IN] = marks[MARK.RANKED]


@kernel
def know_shares(w, b, count):
    """Rank the queues of those who claim by their fair shares, once after an event."""
    marks, sharing = b.marks, b.sharing
    if marks[MARK.FAIRNESS] == 0 or marks[MARK.IS_FRESH] != 0:
        return
    marks[MARK.IS_FRESH] = 1
    marks[MARK.RANKED] += 1
    for i in range(count):
        q = w.shapes[b.claims[i, CLAIMANT.SHAPE], SHAPE.QUEUE]
        while q >= 0 and sharing[q, SHARING.COUNTED_IN] != marks[MARK.RANKED]:
            count_share(w, b, q)
            q = w.queues[q, QUEUE.PARENT]
    rank_queues(sharing, b.fair)


@kernel
def standing_once(w, b, s):
    """As ``standing``; found once for all shapes of a queue whose only roles may use the same."""
    q, r = w.shapes[s, SHAPE.QUEUE], w.shapes[s, SHAPE.FIRST_ROLE]
    depth, rule = b.marks[MARK.DEPTH], b.demands[r, DEMAND.RULE]
    if w.shapes[s, SHAPE.ROLES] != 1:
        return standing(w.shapes, w.queues, w.quotas, b.demands, b.reach, s, depth)
    if b.standings[rule, q] == UNRANKED:
        b.standings[rule, q] = standing(
            w.shapes, w.queues, w.quotas, b.demands, b.reach, s, depth
        )  # fmt: skip
    return b.standings[rule, q]


@kernel
def rank(w, b, count):
    """Give those who claim their places in the scheduler's order."""
    marks, shapes, claims = b.marks, w.shapes, b.claims
    is_read = marks[MARK.ORDER] == ORDER.READ and count > 1
    if count > 1:
        know_shares(w, b, count)
    if is_read:
        learn(w.queues, w.run_times, w.ratios, b.learnt)
    for i in range(count):
        s = claims[i, CLAIMANT.SHAPE]
        claims[i, CLAIMANT.FAIR] = 0
        claims[i, CLAIMANT.PLACE] = 0
        claims[i, CLAIMANT.HEAD] = shapes[s, SHAPE.HEAD]
        if is_read:
            claims[i, CLAIMANT.PLACE] = place_first(w, b, s)
            claims[i, CLAIMANT.HEAD] = b.heads[s, FIRST.UPCOMING]
        if marks[MARK.ORDER] == ORDER.ASKED:
            claims[i, CLAIMANT.RANK] = b.turns[s]
        elif shapes[s, SHAPE.PROMISED] != 0:
            claims[i, CLAIMANT.RANK] = -1
            claims[i, CLAIMANT.PLACE] = 0
        else:
            claims[i, CLAIMANT.RANK] = standing_once(w, b, s)
            if marks[MARK.FAIRNESS] != 0:
                claims[i, CLAIMANT.FAIR] = b.fair[shapes[s, SHAPE.QUEUE]]
            if marks[MARK.ORDER] == ORDER.PRIORITY:
                claims[i, CLAIMANT.PLACE] = -shapes[s, SHAPE.PRIORITY]


@kernel
def asking(shapes, s):
    """How many jobs of a shape wait for GPUs: those that are held claim none."""
    return shapes[s, SHAPE.WAITING] - shapes[s, SHAPE.HELD]


@kernel
def bucket_as_said(w, b, j):
    """Under which bucket a job claims: of the cause for which its shape waits.

    Where no cause is recorded, of the one that its own scheduler gave, if that is one for which
    accelerators are claimed.
    """
    cause, said = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.CAUSE], w.jobs[j, JOB.SAID]
    if cause == UNSAID and said > 0 and b.tables[TABLE.OF_CAUSE, said - 1] >= 0:
        cause = said - 1
    return b.tables[TABLE.OF_CAUSE, cause]


@kernel
def take_for(b, shapes, s, r, bucket, demand, dt):
    """A role of a shape claims so much of what is left, for so long; what it got."""
    lots, rule, taken = b.lots, b.demands[r, DEMAND.RULE], 0
    team = shapes[s, SHAPE.QUEUE] + 1
    for lot in range(b.marks[MARK.LOTS]):
        if taken < demand and lots[lot, LOT.FREE] > 0 and b.may_use[rule, lot] != 0:
            part = min(demand - taken, lots[lot, LOT.FREE])
            b.unheld[lots[lot, LOT.CONTRACT], bucket, team] += part * dt
            lots[lot, LOT.FREE] -= part
            taken += part
    return taken


@kernel
def take_as_said(w, b, s, r, left, dt):
    """The same of a shape of whose jobs another scheduler says why they wait; the oldest first."""
    jobs, each, taken, j = w.jobs, b.demands[r, DEMAND.MILLI], 0, w.shapes[s, SHAPE.HEAD]
    while j >= 0 and each > 0 and taken < left:
        bucket, demand = bucket_as_said(w, b, j), 0
        while j >= 0 and demand < left - taken and bucket_as_said(w, b, j) == bucket:
            demand += each if jobs[j, JOB.IS_HELD] == 0 else 0
            j = jobs[j, JOB.NEXT]
        found = take_for(b, w.shapes, s, r, bucket, demand, dt)
        taken += found
        if found < demand:  # it may use nothing of what is left
            return taken
    return taken


@kernel
def take(w, b, s, left, dt):
    """A shape claims what it may use of what is left, for so long; what is left then."""
    shapes = w.shapes
    first, cause = shapes[s, SHAPE.FIRST_ROLE], shapes[s, SHAPE.CAUSE]
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        if cause == UNSAID and shapes[s, SHAPE.SAID] > 0:
            left -= take_as_said(w, b, s, r, left, dt)
        else:
            demand = asking(shapes, s) * b.demands[r, DEMAND.MILLI]
            left -= take_for(b, shapes, s, r, b.tables[TABLE.OF_CAUSE, cause], demand, dt)
    return left


@kernel
def claim_parts(w, b, dt):
    """What partial gangs lack is claimed of what is left, for so long."""
    parts, jobs = b.parts, w.jobs
    for i in range(len(parts)):
        j, s = parts[i, LACK.JOB], jobs[parts[i, LACK.JOB], JOB.SHAPE]
        is_partial = (
            jobs[j, JOB.STATE] == STARTING and jobs[j, JOB.ATTEMPT] == parts[i, LACK.ATTEMPT]
        )
        if is_partial and b.tables[TABLE.OF_CAUSE, w.shapes[s, SHAPE.CAUSE]] >= 0:
            bucket, milli = bucket_as_said(w, b, j), parts[i, LACK.MILLI]
            take_for(b, w.shapes, s, parts[i, LACK.ROLE], bucket, milli, dt)


@kernel
def surely_takes(shapes, demands, may_use, lots, lots_known, s):
    """What a shape claims if enough is left, wherever that is: by roles that may use all of it."""
    first, milli = shapes[s, SHAPE.FIRST_ROLE], 0
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        may_use_all = demands[r, DEMAND.MILLI] > 0
        for lot in range(lots_known):
            if lots[lot, LOT.FREE] > 0 and may_use[demands[r, DEMAND.RULE], lot] == 0:
                may_use_all = False
        if may_use_all:
            milli += demands[r, DEMAND.MILLI]
    return asking(shapes, s) * milli


@kernel
def insert_claim(w, b, kept, sure, left):
    """Put one more in its place in a sorted line, with what it surely takes.

    How many are kept then, and the sum of all: without those before whom nothing can be left.
    """
    claims, i = b.claims, kept
    claims[kept, CLAIMANT.SURE] = surely_takes(
        w.shapes, b.demands, b.may_use, b.lots, b.marks[MARK.LOTS], claims[kept, CLAIMANT.SHAPE]
    )  # fmt: skip
    sure += claims[kept, CLAIMANT.SURE]
    while i > 0 and goes_before(claims, i, i - 1, KEY):
        swap(claims, i, i - 1)
        i -= 1
    while sure - claims[kept, CLAIMANT.SURE] >= left:
        sure -= claims[kept, CLAIMANT.SURE]
        kept -= 1
    return kept + 1, sure


@kernel
def keep_first(w, b, count, left):
    """Sort those before whom nothing can be left, to the front; how many, 0: they are too many.

    A little is free and many wait, as a rule: then most are looked at once and go no further.
    """
    claims, kept, sure = b.claims, 0, 0
    for i in range(count):
        if sure >= left and goes_before(claims, kept - 1, i, KEY):
            continue
        if kept == KEPT_AT_MOST:
            return 0
        swap(claims, i, kept)
        kept, sure = insert_claim(w, b, kept, sure, left)
    return kept


@kernel
def rank_by_age(w, b, s):
    """How a shape stands by guaranteed quotas, and by priority, where age decides after that."""
    marks, shapes, standings = b.marks, w.shapes, b.standings
    if w.at[AT.PROMISED] != 0 and shapes[s, SHAPE.PROMISED] != 0:
        return -1, 0
    rank = standings[0, shapes[s, SHAPE.QUEUE]]
    if len(standings) > 1 or rank == UNRANKED:
        rank = standing_once(w, b, s)
    return rank, -shapes[s, SHAPE.PRIORITY] if marks[MARK.ORDER] == ORDER.PRIORITY else 0


@kernel
def is_after(claims, last, rank, place, head):
    """Whether somebody goes after the last of a line."""
    if rank != claims[last, CLAIMANT.RANK]:
        return rank > claims[last, CLAIMANT.RANK]
    if place != claims[last, CLAIMANT.PLACE]:
        return place > claims[last, CLAIMANT.PLACE]
    return head > claims[last, CLAIMANT.HEAD]


@kernel
def keep_oldest(w, b, left):
    """As ``keep_first``, of all who wait, in one look; where no fair shares decide."""
    shapes, claims, standings, kept, sure = w.shapes, b.claims, b.standings, 0, 0
    for rule in range(len(standings)):
        for q in range(standings.shape[1]):
            standings[rule, q] = UNRANKED
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        if b.tables[TABLE.OF_CAUSE, shapes[s, SHAPE.CAUSE]] < 0:
            continue
        rank, place = rank_by_age(w, b, s)
        if sure >= left and is_after(claims, kept - 1, rank, place, shapes[s, SHAPE.HEAD]):
            continue
        if not finds_some(shapes, b.demands, b.may_use, b.lots, b.marks[MARK.LOTS], s):
            continue
        if kept == KEPT_AT_MOST:
            return NONE
        claims[kept, CLAIMANT.RANK] = rank
        claims[kept, CLAIMANT.FAIR] = 0
        claims[kept, CLAIMANT.PLACE] = place
        claims[kept, CLAIMANT.HEAD] = shapes[s, SHAPE.HEAD]
        claims[kept, CLAIMANT.SHAPE] = s
        kept, sure = insert_claim(w, b, kept, sure, left)
    return kept


@kernel
def take_all(w, b, kept, left, dt):
    """Let those who were kept claim, the first first."""
    for i in range(kept):
        left = take(w, b, b.claims[i, CLAIMANT.SHAPE], left, dt)


@kernel
def claim(w, b, count, left, dt):
    """Divide what is free, for so long, among those who claim, the first in order first."""
    claims, kept = b.claims, keep_first(w, b, count, left)
    if kept > 0:
        take_all(w, b, kept, left, dt)
        return
    arrange(claims, count, KEY)
    while count > 0 and left > 0:
        left = take(w, b, claims[0, CLAIMANT.SHAPE], left, dt)
        leave(claims, count, KEY)
        count -= 1


@kernel
def has_floors(quotas):
    """Whether any queue has a guaranteed quota: then what they use decides who claims first."""
    for q in range(quotas.shape[0]):
        for k in range(quotas.shape[1]):
            if quotas[q, k, QUOTA.FLOOR] > 0:
                return True
    return False


@kernel
def stand(shapes, claims, order, i, s):
    """Write the place of a shape in a line in which only age and priority decide."""
    claims[i, CLAIMANT.RANK] = 0
    claims[i, CLAIMANT.FAIR] = 0
    claims[i, CLAIMANT.PLACE] = -shapes[s, SHAPE.PRIORITY] if order == ORDER.PRIORITY else 0
    claims[i, CLAIMANT.HEAD] = shapes[s, SHAPE.HEAD]
    claims[i, CLAIMANT.SHAPE] = s


@kernel
def keep_in_line(marks, shapes, claims, s):
    """One or more jobs of a shape began or ceased to wait: it takes its place, or leaves."""
    count, i = marks[MARK.LINE], 0
    if count < 0:
        return
    marks[MARK.TOUCHED] += 1
    if marks[MARK.TOUCHED] > MOST_TOUCHED:
        marks[MARK.LINE] = UNKNOWN
        return
    while i < count and claims[i, CLAIMANT.SHAPE] != s:
        i += 1
    if shapes[s, SHAPE.WAITING] == 0:
        marks[MARK.LINE] -= int(i < count)
        while i < count - 1:
            swap(claims, i, i + 1)
            i += 1
        return
    if i < count and claims[i, CLAIMANT.HEAD] == shapes[s, SHAPE.HEAD]:
        return
    if i == count:
        count += 1
        marks[MARK.LINE] = count
    stand(shapes, claims, marks[MARK.ORDER], i, s)
    while i > 0 and goes_before(claims, i, i - 1, KEY):
        swap(claims, i, i - 1)
        i -= 1
    while i < count - 1 and goes_before(claims, i + 1, i, KEY):
        swap(claims, i, i + 1)
        i += 1


@kernel
def make_line(w, b):
    """Put all who wait in order, if only age and priority decide."""
    marks, order, count = b.marks, b.marks[MARK.ORDER], w.at[AT.QUEUED]
    is_by_age = order in (ORDER.OLDEST, ORDER.PRIORITY)
    if not is_by_age or marks[MARK.FAIRNESS] != 0 or has_floors(w.quotas):
        marks[MARK.LINE] = RANKED
        return
    for i in range(count):
        stand(w.shapes, b.claims, order, i, w.queued[i])
    sort(b.claims, count, KEY)
    marks[MARK.LINE] = count


@kernel
def claim_in_line(w, b, left, dt):
    """Divide what is free, for so long, among those who stand in line."""
    claims, shapes = b.claims, w.shapes
    for i in range(b.marks[MARK.LINE]):
        s = claims[i, CLAIMANT.SHAPE]
        if b.tables[TABLE.OF_CAUSE, shapes[s, SHAPE.CAUSE]] >= 0:
            left = take(w, b, s, left, dt)
            if left == 0:
                return


@kernel
def claim_by_rank(w, b, left, dt):
    """The same by an order that is made now; False: it must be asked for."""
    marks = b.marks
    if marks[MARK.LINE] >= 0:
        marks[MARK.LINE] = UNKNOWN  # its rows are written over
    if marks[MARK.FAIRNESS] == 0 and marks[MARK.ORDER] in (ORDER.OLDEST, ORDER.PRIORITY):
        kept = keep_oldest(w, b, left)
        if kept >= 0:
            take_all(w, b, kept, left, dt)
            return True
    count = gather(w, b)
    if count > 1 and marks[MARK.ORDER] == ORDER.ASKED and marks[MARK.IS_FRESH] == 0:
        return False
    rank(w, b, count)
    claim(w, b, count, left, dt)
    return True


@kernel
def paid_milli(contracts, c):
    """What is paid of a contract now: all that is launched, or what it commits to."""
    paid_now = contracts[c, LAUNCHED_MILLI]
    if contracts[c, IS_RUNNING] != 0:
        paid_now = max(paid_now, contracts[c, COMMITTED_MILLI])
    return paid_now


@kernel
def count_supply(marks, contracts, levels, tables, lots, paid, unheld, dt):
    """Add so long of what is paid, and of all that is in no job's hands and that nobody claims."""
    for c in range(marks[MARK.CONTRACTS]):
        launched = 0
        for level in range(levels.shape[1]):
            launched += levels[c, level]
            if tables[TABLE.OF_LEVEL, level] >= 0:
                unheld[c, tables[TABLE.OF_LEVEL, level], 0] += levels[c, level] * dt
        paid_now = paid_milli(contracts, c)
        paid[c] += paid_now * dt
        unheld[c, marks[MARK.NOT_LAUNCHED], 0] += (paid_now - launched) * dt
    for lot in range(marks[MARK.LOTS]):
        free = lots[lot, LOT.FREE] * dt
        unheld[lots[lot, LOT.CONTRACT], marks[MARK.NO_DEMAND], 0] += free


@kernel
def count_unseen(marks, contracts, levels, paid, unheld, dt):
    """Add so long of what is paid while nobody watches; what jobs hold is told by their spans."""
    for c in range(marks[MARK.CONTRACTS]):
        paid_now = paid_milli(contracts, c)
        paid[c] += paid_now * dt
        unheld[c, marks[MARK.NOT_OBSERVED], 0] += (paid_now - levels[c, Level.ALLOCATED]) * dt


@kernel
def integrate(w, b, dt):
    """Add so long of the state as it is; False, and nothing was added: the order must be asked."""
    marks = b.marks
    if w.at[AT.BLIND] != 0:
        count_unseen(marks, w.contracts, w.levels, b.paid, b.unheld, dt)
        return True
    left = lay_out(w, b)
    if left > 0:
        if marks[MARK.LINE] == UNKNOWN and w.at[AT.PROMISED] == 0:
            make_line(w, b)
        if marks[MARK.LINE] >= 0 and w.at[AT.PROMISED] == 0:
            claim_in_line(w, b, left, dt)
        elif not claim_by_rank(w, b, left, dt):
            return False
        claim_parts(w, b, dt)
    marks[MARK.TOUCHED] = 0
    count_supply(marks, w.contracts, w.levels, b.tables, b.lots, b.paid, b.unheld, dt)
    return True
