"""The queue itself: a heap of rows, by time, then rank, then the order in which they were pushed.

An entry names its subject and the stamp for which it was meant; whoever takes it out compares the
stamp, so nothing is ever searched for and removed.
"""

from tidemill.twin.event_queue.columns import CLOCK, ENTRY
from tidemill.twin.event_queue.kernel import kernel


@kernel
def goes_before(entries, i, k):
    """Whether one entry comes before another."""
    if entries[i, ENTRY.AT] != entries[k, ENTRY.AT]:
        return entries[i, ENTRY.AT] < entries[k, ENTRY.AT]
    if entries[i, ENTRY.RANK] != entries[k, ENTRY.RANK]:
        return entries[i, ENTRY.RANK] < entries[k, ENTRY.RANK]
    return entries[i, ENTRY.SERIAL] < entries[k, ENTRY.SERIAL]


@kernel
def copy(entries, origin, to):
    """Write one row over another."""
    for column in range(entries.shape[1]):
        entries[to, column] = entries[origin, column]


@kernel
def push(clock, entries, at_ms, rank, who, stamp, kind, value):
    """Put what will happen into the queue; its serial. There must be room for one more row.

    It was pushed last, so it comes after all of its time and rank.
    """
    clock[CLOCK.SERIAL] += 1
    i = clock[CLOCK.ENTRIES]
    clock[CLOCK.ENTRIES] += 1
    while i > 0:
        up = (i - 1) >> 1
        before = entries[up, ENTRY.AT]
        if before < at_ms or (before == at_ms and entries[up, ENTRY.RANK] <= rank):
            break
        copy(entries, up, i)
        i = up
    entries[i, ENTRY.AT] = at_ms
    entries[i, ENTRY.RANK] = rank
    entries[i, ENTRY.SERIAL] = clock[CLOCK.SERIAL]
    entries[i, ENTRY.WHO] = who
    entries[i, ENTRY.STAMP] = stamp
    entries[i, ENTRY.KIND] = kind
    entries[i, ENTRY.VALUE] = value
    return clock[CLOCK.SERIAL]


@kernel
def pop(clock, entries):
    """Take the first entry out (read it before)."""
    last = clock[CLOCK.ENTRIES] - 1
    clock[CLOCK.ENTRIES] = last
    i = 0
    while True:
        down = 2 * i + 1
        if down >= last:
            break
        if down + 1 < last and goes_before(entries, down + 1, down):
            down += 1
        if goes_before(entries, last, down):
            break
        copy(entries, down, i)
        i = down
    copy(entries, last, i)
