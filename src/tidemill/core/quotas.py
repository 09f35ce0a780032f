"""What queues use: along the path of a queue up the tree, and what is kept back of floors."""

from tidemill.core.kernel import kernel
from tidemill.model.columns import AT, KIND, QUEUE, QUOTA


@kernel
def use(at, queues, quotas, kinds, q, k, milli):
    """A queue, and all that is above it, uses this much more of a kind, or less."""
    if at[AT.KEEPS] == 0:
        while q >= 0:
            quotas[q, k, QUOTA.USED] += milli
            q = queues[q, QUEUE.PARENT]
        return
    shift = 0
    while q >= 0:
        quota = quotas[q, k]
        before = max(quota[QUOTA.GUARD] - quota[QUOTA.USED], quota[QUOTA.BELOW])
        quota[QUOTA.BELOW] += shift
        quota[QUOTA.USED] += milli
        after = max(quota[QUOTA.GUARD] - quota[QUOTA.USED], quota[QUOTA.BELOW])
        shift = after - before
        q = queues[q, QUEUE.PARENT]
    kinds[k, KIND.KEPT_MILLI] += shift


@kernel
def gave_back(queues, q):
    """A queue gave something back, or one of its jobs left: who waits for its limit may look."""
    while q >= 0:
        queues[q, QUEUE.FREED] += 1
        q = queues[q, QUEUE.PARENT]
