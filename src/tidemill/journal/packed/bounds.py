"""Whether numbers are such as they may be: the first row in which one is not."""

from tidemill.journal.packed.kernel import kernel
from tidemill.journal.packed.reading import IS_PIECED
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import ADDED, SUBMITTED, EventColumn

MOVE = codes.KIND_CODE[ev.AskedMove]


@kernel
def is_within(read, low, high, r, bound):
    """Whether all numbers of a row lie within a row of bounds."""
    for c in range(read.shape[1]):
        if read[r, c] < low[bound, c] or read[r, c] > high[bound, c]:
            return False
    return True


@kernel
def first_beyond(read, low, high):
    """The first row with a number that is not within the bounds of all rows; else their number."""
    r = 0
    while r < len(read) and is_within(read, low, high, r, 0):
        r += 1
    return r


@kernel
def first_wrong(events, low, high, now):
    """The first event that cannot be, or goes back in time; else how many there are.

    ``low``, ``high``: what each column of each kind may hold; ``now``: when the last one before
    them happened.
    """
    pieces, jobs, nodes, e = 0, 0, 0, 0
    while e < len(events) and events[e, EventColumn.AT] >= now:
        kind, count = events[e, EventColumn.KIND], events[e, EventColumn.COUNT]
        if kind < 0 or kind >= len(low) or not is_within(events, low, high, e, kind):
            break
        if kind == MOVE and events[e, EventColumn.VALUE] > count:
            break
        first = pieces * IS_PIECED[kind]
        if kind == SUBMITTED:
            first = jobs
            jobs += 1
        elif kind == ADDED:
            first = nodes
            nodes += 1
        if events[e, EventColumn.FIRST] != first:
            break
        pieces += count
        now = events[e, EventColumn.AT]
        e += 1
    return e
