"""What queues use in a room, what they may use more, and what they keep back of what is free."""

from tidemill.model.columns import AT, QUEUE, QUOTA
from tidemill.scheduling.fitting.columns import Obstacle
from tidemill.scheduling.fitting.kernel import kernel

LIMIT, SHORT, UNFIT, KEPT_OFF, APART = map(int, Obstacle)


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


@kernel
def is_over_limit(queues, quotas, used, q, k, need):
    """Whether a queue, or one above it, may not use so much more of a type."""
    while q >= 0:
        if used[q, k] + need > quotas[q, k, QUOTA.LIMIT]:
            return True
        q = queues[q, QUEUE.PARENT]
    return False


@kernel
def limit_on(queues, quotas, used, q, k, need):
    """The highest queue whose limit keeps so much out; the queue itself where none does."""
    found, a = q, q
    while a >= 0:
        if used[a, k] + need > quotas[a, k, QUOTA.LIMIT]:
            found = a
        a = queues[a, QUEUE.PARENT]
    return found


@kernel
def kept_after(queues, quotas, used, below, kept, q, k, need):
    """What all queues keep back of a type if one of them uses so much more."""
    shift = 0
    while q >= 0:
        owed, under = quotas[q, k, QUOTA.GUARD] - used[q, k], below[q, k]
        shift = max(owed - need, under + shift) - max(owed, under)
        q = queues[q, QUEUE.PARENT]
    return kept[k] + shift


@kernel
def is_kept_back(at, queues, quotas, used, below, kept, free, q, k, need):
    """Whether using so much would touch what other queues keep back of their floors.

    Where less is free than is kept (nodes broke), it must come out of what is kept for it.
    """
    if at[AT.KEEPS] == 0:
        return False
    after = kept_after(queues, quotas, used, below, kept, q, k, need)
    return after + need > max(free[k], kept[k])


@kernel
def is_barred(at, queues, quotas, used, below, kept, free, q, k, need):
    """Whether limits, or what others keep back, leave a queue not so much more."""
    if need == 0:
        return False
    if is_over_limit(queues, quotas, used, q, k, need):
        return True
    return is_kept_back(at, queues, quotas, used, below, kept, free, q, k, need)


@kernel
def barred_by(at, queues, quotas, used, below, kept, free, q, k, need):
    """What keeps a request off a type, whichever nodes there are: its team, the sum, or others'.

    ``UNFIT``: nothing; if no nodes hold it, that is why.
    """
    if need == 0:
        return UNFIT
    if is_over_limit(queues, quotas, used, q, k, need):
        return LIMIT
    if need > free[k]:
        return SHORT
    if is_kept_back(at, queues, quotas, used, below, kept, free, q, k, need):
        return KEPT_OFF
    return UNFIT
