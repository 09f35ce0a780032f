"""Order: how a queue stands by its guaranteed quotas, whom the starvation guard protects."""

from tidemill.core.accounting.columns import DEMAND
from tidemill.core.kernel import kernel
from tidemill.model.columns import JOB, QUEUE, QUOTA, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import NEVER_PASSED


@kernel
def guarded_from(jobs, j, backfills, by_shape, patience_ms, hold_after_ms):
    """From when on the starvation guard protects a job that goes on waiting; FOREVER_MS: never yet.

    With backfill so long after it was first passed; without it when it loses its patience. In an
    order that may put off a job that is there already all its waits count, or it might begin again
    for ever; otherwise only this wait.
    """
    if backfills != 0:
        passed = jobs[j, JOB.PASSED_MS]
        return FOREVER_MS if passed == NEVER_PASSED else passed + hold_after_ms
    if by_shape != 0:
        return jobs[j, JOB.SINCE_MS] + patience_ms
    return jobs[j, JOB.SUBMIT_MS] + jobs[j, JOB.RAN_MS] + patience_ms


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
