"""What queues use in a room, and what they keep back of what is free."""

from tidemill.model.columns import AT, QUEUE, QUOTA
from tidemill.scheduling.fitting.kernel import kernel


@kernel
def count_used(at, queues, quotas, used, below, kept, q, k, milli):
    """Count so much of a type as used by a queue, or as not used any more."""
    if at[AT.KEEPS] == 0:
        while q >= 0:
            used[q, k] += milli
            q = queues[q, QUEUE.PARENT]
        return
    change = 0
    while q >= 0:
        guard = quotas[q, k, QUOTA.GUARD]
        before = max(guard - used[q, k], below[q, k])
        below[q, k] += change
        used[q, k] += milli
        change = max(guard - used[q, k], below[q, k]) - before
        q = queues[q, QUEUE.PARENT]
    kept[k] += change
