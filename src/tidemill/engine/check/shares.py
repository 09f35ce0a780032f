"""The plan checker on fair shares: is anybody placed before one whose team has less?

Said again, by fractions of the fleet: a team's share is what it uses, and what it used lately by a
mean that loses half of its weight in a half-life, over what there is, by its weight; shares are
compared where the paths of two teams part. Of two jobs that ask for the same, the one of the team
with less goes first; with backfill one that ends sooner may pass it. Said where no guaranteed quota
and no limit has a say, and only of shares that differ by more than rounding can hide; of anything
else nothing is said. ``tests/engine/shares_oracle.py`` says the same in plain Python.
"""

from tidemill.engine.check.columns import BRANCH, GANG, RULE, SUM, WORTHY
from tidemill.engine.check.expecting import end_if_placed
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.pieces import use
from tidemill.engine.check.telling import PLACE, tell
from tidemill.model import columns
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import AT, CONTRACT, JOB, NODE, QUOTA, ROLE, SHAPE
from tidemill.model.world import PAST_BITS

HAS_LESS = int(RULE.HAS_LESS)
DRF, BILL = 1, 2  # in ``SUM.FAIRNESS``
CLEAR_MILLI, CLEAR_PART = 8, 1e-6  # more than rounding makes of a few sums of whole thousandths
LN_2, TERMS = 0.6931471805599453, 20
HALVINGS_AT_MOST = 64  # after so many nothing is left
READ_AT_ONCE = 256
"""Waiting jobs and queues; where there are more, one plan in so many more is read for shares."""
PAST_MS = int(columns.QUEUE.PAST_MS)
FINE = 1 << PAST_BITS


@kernel
def left_after(gone, half_life):
    """What is left of a weight that loses half of it in a half-life."""
    part, term, found = LN_2 * (gone % half_life) / half_life, 1.0, 1.0
    for i in range(1, TERMS):
        term = -term * part / i
        found += term
    for _ in range(min(gone // half_life, HALVINGS_AT_MOST)):
        found = found / 2
    return found


@kernel
def begin(w, c):
    """Write what there is of each type and costs, and what queues used lately; nobody got more."""
    for k in range(len(c.worth)):
        c.worth[k, WORTHY.THERE] = 0
        c.worth[k, WORTHY.PAID] = 0
    for i in range(c.reg[SUM.CONTRACTS]):
        k, milli = w.contracts[i, CONTRACT.KIND], w.contracts[i, CONTRACT.LAUNCHED_MILLI]
        c.worth[k, WORTHY.THERE] += milli
        c.worth[k, WORTHY.PAID] += milli * w.contracts[i, CONTRACT.RATE_USD_MICRO]
    half_life = w.at[AT.HALF_LIFE_MS]
    for q in range(len(c.queue)):
        left = left_after(c.reg[SUM.NOW] - w.queues[q, PAST_MS], half_life) if half_life else 0.0
        for k in range(len(c.worth)):
            used, past = w.quotas[q, k, QUOTA.USED] << PAST_BITS, w.quotas[q, k, QUOTA.PAST]
            c.so_far[q, k] = 0
            c.lately[q, k] = used + int((past - used) * left) if half_life else 0


@kernel
def worth_of(worth, fairness, k):
    """What part of the fleet, or of its bill, a thousandth of a type is."""
    if fairness == DRF:
        return 1 / max(1, worth[k, WORTHY.THERE])
    there, paid = 0, 0
    for i in range(len(worth)):
        there += worth[i, WORTHY.THERE]
        paid += worth[i, WORTHY.PAID]
    if paid == 0:
        return 1 / max(1, there)
    return worth[k, WORTHY.PAID] / max(1, worth[k, WORTHY.THERE]) / paid


@kernel
def share_of(w, c, q):
    """What a queue has, now and lately, by the common measure and its weight."""
    found = 0.0
    for k in range(len(c.worth)):
        milli = w.quotas[q, k, QUOTA.USED] + c.so_far[q, k] + c.lately[q, k] / FINE
        part = milli * worth_of(c.worth, c.reg[SUM.FAIRNESS], k)
        if c.reg[SUM.FAIRNESS] == BILL:
            found += part
        elif part > found:
            found = part
    return found / c.queue[q, BRANCH.WEIGHT]


@kernel
def has_less(w, c, q, other):
    """Whether a queue surely has less than another, where their paths part."""
    queue, dearest = c.queue, 0.0
    while queue[q, BRANCH.DEPTH] > queue[other, BRANCH.DEPTH]:
        q = queue[q, BRANCH.PARENT]
    while queue[other, BRANCH.DEPTH] > queue[q, BRANCH.DEPTH]:
        other = queue[other, BRANCH.PARENT]
    if q == other:
        return False
    while queue[q, BRANCH.PARENT] != queue[other, BRANCH.PARENT]:
        q, other = queue[q, BRANCH.PARENT], queue[other, BRANCH.PARENT]
    for k in range(len(c.worth)):
        worth = worth_of(c.worth, c.reg[SUM.FAIRNESS], k)
        dearest = max(dearest, worth)
    return share_of(w, c, q) * (1 + CLEAR_PART) + CLEAR_MILLI * dearest < share_of(w, c, other)


@kernel
def first_left(jobs, shapes, named, s):
    """The first of a shape's line whom the plan leaves waiting; -1: nobody."""
    j = shapes[s, SHAPE.HEAD]
    while j >= 0 and named[j] != 0:
        j = jobs[j, JOB.NEXT]
    return j


@kernel
def passed_over(w, c, f, j):
    """Somebody who is left waiting, asks for the same, and whose team has less; -1: nobody."""
    reg, s = c.reg, w.jobs[j, JOB.SHAPE]
    like, q = f.of_shape[s, GANG.LIKE], w.shapes[s, SHAPE.QUEUE]
    for i in range(w.at[AT.QUEUED] if like >= 0 else 0):
        o = w.queued[i]
        if f.of_shape[o, GANG.LIKE] != like or w.shapes[o, SHAPE.QUEUE] == q:
            continue
        other = first_left(w.jobs, w.shapes, c.named, o)
        if other < 0 or not has_less(w, c, w.shapes[o, SHAPE.QUEUE], q):
            continue
        mine = end_if_placed(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
        its = end_if_placed(w.jobs, w.shapes, w.run_times, w.ratios, reg, other)
        if reg[SUM.BACKFILLS] == 0 or mine >= its:
            return other
    return -1


@kernel
def take(w, c, p, e, j):
    """A job is placed: its team, and all above it, have more."""
    s, first = w.jobs[j, JOB.SHAPE], p.events[e, EventColumn.FIRST]
    for i in range(first, first + p.events[e, EventColumn.COUNT]):
        r = w.shapes[s, SHAPE.FIRST_ROLE] + p.event_pieces[i, PieceColumn.ROLE]
        milli = p.event_pieces[i, PieceColumn.REPLICAS] * w.roles[r, ROLE.ACCELERATORS]
        k = w.nodes[p.event_pieces[i, PieceColumn.NODE], NODE.KIND]
        use(c.so_far, c.queue, w.shapes[s, SHAPE.QUEUE], k, milli * w.roles[r, ROLE.MILLI])


@kernel
def are_shares_alone(w, c):
    """Whether fair shares alone say whose turn it is, among jobs that ask for the same.

    And whether it is the turn of this plan to be read for them.
    """
    if c.reg[SUM.FAIRNESS] == 0 or c.reg[SUM.IS_BOUND] != 0 or c.reg[SUM.PLACES_ONLY] == 0:
        return False
    if w.at[AT.PROMISED] != 0 or w.at[AT.LEAVING] != 0 or w.at[AT.SLICED] != 0:
        return False
    return c.reg[SUM.PLANS] % (1 + (w.at[AT.WAITING] + len(c.queue)) // READ_AT_ONCE) == 0


@kernel
def read_shares(w, c, f, p):
    """Tell who is placed before one that asks for the same and whose team has less."""
    begin(w, c)
    for e in range(c.reg[SUM.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            j = p.events[e, EventColumn.WHO]
            other = passed_over(w, c, f, j)
            if other >= 0:
                tell(c.reg, c.wrong, HAS_LESS, e, j, other, 0)
            take(w, c, p, e, j)
