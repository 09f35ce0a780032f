"""Order: how a queue stands by its guaranteed quotas; as ``scheduling.shares.standing``."""

from tidemill.core.accounting.columns import DEMAND
from tidemill.core.kernel import kernel
from tidemill.model.columns import QUEUE, QUOTA, SHAPE


@kernel
def is_below_floor(shapes, quotas, demands, reach, s, q):
    """Whether a queue uses less than its floor of a kind that a shape may use."""
    first = shapes[s, SHAPE.FIRST_ROLE]
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        rule = demands[r, DEMAND.RULE]
        for k in range(quotas.shape[1]):
            if reach[rule, k] != 0 and quotas[q, k, QUOTA.USED] < quotas[q, k, QUOTA.FLOOR]:
                return True
    return False


@kernel
def standing(shapes, queues, quotas, demands, reach, s, depth):
    """The rank of a shape's queue by its floors, from the top level down: smaller goes first."""
    rank, bit, q = 0, 1, shapes[s, SHAPE.QUEUE]
    while q >= 0:
        if not is_below_floor(shapes, quotas, demands, reach, s, q):
            rank += bit
        bit <<= 1
        depth -= 1
        q = queues[q, QUEUE.PARENT]
    return ((rank + 1) << depth) - 1
