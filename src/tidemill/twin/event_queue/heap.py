"""The queue itself: a heap of rows, by time, then rank, then the order in which they were pushed.

An entry names its subject and the stamp for which it was meant; whoever takes it out compares the
stamp, so nothing is ever searched for and removed.
"""

from tidemill.core.heaps import leave, rise
from tidemill.twin.event_queue.columns import CLOCK, ENTRY
from tidemill.twin.event_queue.kernel import kernel

WORDS = int(ENTRY.SERIAL) + 1  # columns that decide


@kernel
def push(clock, entries, at_ms, rank, who, stamp, kind, value):
    """Put what will happen into the queue; its serial. There must be room for one more row.

    It was pushed last, so it comes after all of its time and rank.
    """
    clock[CLOCK.SERIAL] += 1
    i = clock[CLOCK.ENTRIES]
    clock[CLOCK.ENTRIES] += 1
    entries[i, ENTRY.AT] = at_ms
    entries[i, ENTRY.RANK] = rank
    entries[i, ENTRY.SERIAL] = clock[CLOCK.SERIAL]
    entries[i, ENTRY.WHO] = who
    entries[i, ENTRY.STAMP] = stamp
    entries[i, ENTRY.KIND] = kind
    entries[i, ENTRY.VALUE] = value
    rise(entries, i, WORDS)
    return clock[CLOCK.SERIAL]


@kernel
def pop(clock, entries):
    """Take the first entry out (read it before)."""
    leave(entries, clock[CLOCK.ENTRIES], WORDS)
    clock[CLOCK.ENTRIES] -= 1
