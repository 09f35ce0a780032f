"""Fair shares: how much of the fleet each queue uses above its floor, and who has the least.

The measures are those of ``scheduling.fairness``, which says what a thousandth of each type is
worth. Sums are exact, whatever the fleet costs. The scheduling cycle ranks queues by them, and so
does the ledger.
"""

from enum import IntEnum

from tidemill.core.decay import left_after
from tidemill.core.decay import past as past_use
from tidemill.core.kernel import kernel
from tidemill.core.wide import divided
from tidemill.model.columns import AT, QUEUE, QUOTA
from tidemill.model.world import PAST_BITS


class SHARING(IntEnum):
    """One row per queue: its fair share. From ``TOP`` on: the queues above it and itself, from the
    top down; below 0: no more.
    """

    WEIGHT = 0
    SHARE = 1
    ORDER = 2  # of another queue: which one is at this place, the smallest share first
    COUNTED_IN = 3  # when it was last counted what was used lately
    TOP = 4


class WORTH(IntEnum):
    """One row per GPU type: what a thousandth of it counts as a share, in parts that kernels can
    multiply.
    """

    WHOLES = 0
    REST = 1  # of the division, over
    WHOLE = 2


TOP = int(SHARING.TOP)
BY_BILL = 2


@kernel
def count_past(at, queues, quotas, past, q, now):
    """Write what a queue used lately above its floor, by type: the decayed mean as of now."""
    left = left_after(now - queues[q, QUEUE.PAST_MS], at[AT.HALF_LIFE_MS])
    for k in range(quotas.shape[1]):
        past[q, k] = past_use(quotas, q, k, left) >> PAST_BITS


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
        q, at_place = sharing[i, SHARING.ORDER], i
        while at_place > 0 and has_less(sharing, q, sharing[at_place - 1, SHARING.ORDER]):
            sharing[at_place, SHARING.ORDER] = sharing[at_place - 1, SHARING.ORDER]
            at_place -= 1
        sharing[at_place, SHARING.ORDER] = q
    place = 0
    for i in range(len(sharing)):
        q = sharing[i, SHARING.ORDER]
        if i > 0 and has_less(sharing, sharing[i - 1, SHARING.ORDER], q):
            place += 1
        fair[q] = place
