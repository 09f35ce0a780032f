"""Whether a search for victims is surely in vain: nobody may be stopped who could make room.

A quick no for ``scheduling.victims``, which does the search itself: what is counted here is never
less than what could be freed.
"""

from tidemill.model.columns import QUEUE, QUOTA, SHAPE
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.desk.kernel import kernel


@kernel
def height(queues, q):
    """How many queues there are from one to the top, itself counted."""
    found = 0
    while q >= 0:
        found += 1
        q = queues[q, QUEUE.PARENT]
    return found


@kernel
def above(queues, q, up):
    """The queue so many levels above one."""
    for _ in range(up):
        q = queues[q, QUEUE.PARENT]
    return q


@kernel
def is_borrowing(queues, quotas, used, q, other, reach):
    """Whether a queue uses more than it is sure of, up to where its path parts from another's.

    And that is not further from the other than ``reach`` levels.
    """
    mine, theirs, shared = height(queues, q), height(queues, other), 0
    while shared < min(mine, theirs) - 1 and above(queues, q, mine - 1 - shared) == above(
        queues, other, theirs - 1 - shared
    ):
        shared += 1
    if mine - shared > reach:
        return False
    for k in range(used.shape[1]):
        borrows, a = True, other
        for _ in range(theirs - shared):
            borrows = borrows and used[a, k] > quotas[a, k, QUOTA.FLOOR]
            a = queues[a, QUEUE.PARENT]
        if borrows:
            return True
    return False


@kernel
def is_owed(quotas, used, asks, types, s, a):
    """Whether one more job of a shape would stay within the floor of a queue, on some type."""
    need, first = asks[s, ASK.NEED], asks[s, ASK.FIRST_TYPE]
    for i in range(first, first + asks[s, ASK.TYPES]):
        k = types[i]
        if need > 0 and used[a, k] + need <= quotas[a, k, QUOTA.FLOOR]:
            return True
    return False


@kernel
def could_free(shapes, reg, lends, count, s):
    """The most that stopping jobs could free for a shape, in milli."""
    total, largest, q = 0, 0, shapes[s, SHAPE.QUEUE]
    for t in range(count):
        if shapes[t, SHAPE.ACTIVE] == 0 or shapes[t, SHAPE.IS_PREEMPTIBLE] == 0:
            continue
        if shapes[t, SHAPE.QUEUE] == q:
            if reg[REG.MAY_PREEMPT] == 0:
                continue
            if shapes[t, SHAPE.PRIORITY] >= shapes[s, SHAPE.PRIORITY]:
                continue
        elif lends[shapes[t, SHAPE.QUEUE]] == 0:
            continue
        total += shapes[t, SHAPE.ACTIVE] * shapes[t, SHAPE.TOTAL_MILLI]
        largest = max(largest, shapes[t, SHAPE.TOTAL_MILLI])
    return min(total, largest * reg[REG.VICTIMS_AT_MOST])


@kernel
def is_in_vain(w, d, s):
    """Whether no set of jobs that a shape may stop could be enough for it."""
    reg, asks, lends, used = d.reg, d.asks, d.lends, d.used
    q, count = w.shapes[s, SHAPE.QUEUE], reg[REG.SHAPES]
    free, first = 0, asks[s, ASK.FIRST_TYPE]
    for i in range(first, first + asks[s, ASK.TYPES]):
        free += d.free[d.types[i]]
    lends[:] = 0
    if free + could_free(w.shapes, reg, lends, count, s) >= asks[s, ASK.NEED]:
        return False
    a, reach = q, 0
    while a >= 0 and reg[REG.MAY_RECLAIM] != 0:
        reach += 1
        if is_owed(w.quotas, used, asks, d.types, s, a):
            for other in range(len(w.queues)):
                lends[other] = other != q and is_borrowing(
                    w.queues, w.quotas, used, q, other, reach
                )
            if free + could_free(w.shapes, reg, lends, count, s) >= asks[s, ASK.NEED]:
                return False
        a = w.queues[a, QUEUE.PARENT]
    return True
