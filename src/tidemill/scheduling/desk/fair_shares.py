"""Fair shares: how much of the fleet each queue uses above its floor, and who has the least.

The measures are those of ``scheduling.fairness``, which says what a thousandth of each type is
worth. Sums are exact, whatever the fleet costs.
"""

from tidemill.core.decay import left_after
from tidemill.core.decay import past as past_use
from tidemill.core.wide import divided
from tidemill.model.columns import AT, QUEUE, QUOTA, SHAPE
from tidemill.model.world import PAST_BITS
from tidemill.scheduling.desk.columns import REG, SHARING, WORTH
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.order import line_up_again

TOP = int(SHARING.TOP)
BY_BILL = 2


@kernel
def count_past(at, queues, quotas, past, q, now):
    """Write what a queue used lately above its floor, by type: the decayed mean as of now."""
    left = left_after(now - queues[q, QUEUE.PAST_MS], at[AT.HALF_LIFE_MS])
    for k in range(quotas.shape[1]):
        past[q, k] = past_use(quotas, q, k, left) >> PAST_BITS


@kernel
def count_all_past(w, d):
    """The same of the queues in which somebody waits, and of those above them."""
    for i in range(d.reg[REG.LOOKS]):
        q = w.shapes[d.looks[i], SHAPE.QUEUE]
        while q >= 0 and d.sharing[q, SHARING.PAST_IN] != d.reg[REG.CYCLE]:
            count_past(w.at, w.queues, w.quotas, d.past, q, d.reg[REG.NOW])
            d.sharing[q, SHARING.PAST_IN] = d.reg[REG.CYCLE]
            q = w.queues[q, QUEUE.PARENT]


@kernel
def share_of(quotas, used, past, worth, q, weight, fairness):
    """What a queue uses above its floor, now and lately, by the common measure and its weight."""
    found = 0
    for k in range(len(worth)):
        milli = max(0, used[q, k] - quotas[q, k, QUOTA.FLOOR]) + past[q, k]
        part = milli * worth[k, WORTH.WHOLES]
        part += divided(milli, worth[k, WORTH.REST], worth[k, WORTH.WHOLE])
        found = found + part if fairness == BY_BILL else max(found, part)
    return found // weight


@kernel
def has_less(sharing, q, other):
    """Whether a queue has a smaller share than another, from the top of the tree down."""
    for level in range(TOP, sharing.shape[1]):
        mine, its = sharing[q, level], sharing[other, level]
        if mine < 0 or its < 0:
            return mine < 0 and its >= 0
        if sharing[mine, SHARING.SHARE] != sharing[its, SHARING.SHARE]:
            return sharing[mine, SHARING.SHARE] < sharing[its, SHARING.SHARE]
    return False


@kernel
def rank(sharing, fair):
    """Number the queues by their shares; equal ones alike. They are nearly in order already."""
    for i in range(1, len(sharing)):
        q, at = sharing[i, SHARING.ORDER], i
        while at > 0 and has_less(sharing, q, sharing[at - 1, SHARING.ORDER]):
            sharing[at, SHARING.ORDER] = sharing[at - 1, SHARING.ORDER]
            at -= 1
        sharing[at, SHARING.ORDER] = q
    place = 0
    for i in range(len(sharing)):
        q = sharing[i, SHARING.ORDER]
        if i > 0 and has_less(sharing, sharing[i - 1, SHARING.ORDER], q):
            place += 1
        fair[q] = place


@kernel
def count_share(w, d, q):
    """Write the share of a queue as it is in the room."""
    weight, fairness = d.sharing[q, SHARING.WEIGHT], d.reg[REG.FAIRNESS]
    share = share_of(w.quotas, d.used, d.past, d.worth, q, weight, fairness)
    d.sharing[q, SHARING.SHARE] = share


@kernel
def rank_all(w, d):
    """At the beginning of a cycle: who has how much, and who has the least."""
    if d.reg[REG.FAIRNESS] != 0:
        if w.at[AT.HALF_LIFE_MS] != 0:
            count_all_past(w, d)
        for q in range(len(d.sharing)):
            count_share(w, d, q)
        rank(d.sharing, d.fair)


@kernel
def rank_again(w, d, q):
    """A job of a queue was placed: it has more, and everybody in line may have another key."""
    if d.reg[REG.FAIRNESS] == 0:
        return
    while q >= 0:
        count_share(w, d, q)
        q = w.queues[q, QUEUE.PARENT]
    rank(d.sharing, d.fair)
    line_up_again(w, d)
