"""Reading columns, and the events of a batch, out of bytes; see ``journal.columns``.

Whatever is read is read from a place on and returns where the next thing begins; a number below
zero says what is wrong instead (``words``). What was read until then is of no use.
"""

import numpy as np

from tidemill.journal.packed.kernel import kernel
from tidemill.model.batch import ADDED, PIECED, SUBMITTED, EventColumn

ZERO, SAME, FEW, WIDE, STEPS = range(5)
"""The forms of a column: all zero, one number, few numbers, numbers, differences."""
SORTED = tuple(
    map(
        int,
        (EventColumn.WHO, EventColumn.ATTEMPT, EventColumn.WHY, EventColumn.TO, EventColumn.VALUE,
         EventColumn.COUNT),
    )
)  # fmt: skip
"""The columns of events that stand in the order of kinds; a new one comes at the end."""
KINDS = 256  # of events there are fewer; of damaged rows perhaps not
PIECES, JOBS, NODES = range(3)  # columns of ``counts``: rows of each pool that were used up

EARLY, BEYOND, BROAD, KINDLESS, TEXTLESS, FORMLESS = -1, -2, -3, -4, -5, -16
_MOST_PLANES = 8
_POSITIVE = 2**63 - 1
FIRST_SHORT, LAST_SHORT = 0xA0, 0xBF  # heads of texts: how many bytes they have
FIRST_WIDE, LAST_WIDE = 0xD9, 0xDB  # the same in one, two or four bytes that follow
IS_PIECED = tuple(int(kind in PIECED) for kind in range(KINDS))


def words(fault: int) -> str:
    """What a number below zero says."""
    if fault <= FORMLESS:
        return f"it has a column of form {FORMLESS - fault}, which this version cannot read"
    return {
        EARLY: "it ends too early",
        BEYOND: "a column has a number that its table has not",
        BROAD: f"a number of more than {_MOST_PLANES} bytes",
        KINDLESS: "this version knows no such kind of event",
        TEXTLESS: "it has something else where a text should be",
    }[fault]


@kernel
def number_at(p, at, planes, count, r):
    """The number of a row of byte planes that begin at a place."""
    body, word = p.body, 0
    for plane in range(planes):
        word |= int(body[at + plane * count + r]) << (8 * plane)
    return ((word >> 1) & _POSITIVE) ^ -(word & 1)


@kernel
def end_of_planes(p, at, count):
    """Where byte planes of so many rows end; their number stands before them."""
    if at >= len(p.body):
        return EARLY
    planes = int(p.body[at])
    if planes > _MOST_PLANES:
        return BROAD
    end = at + 1 + planes * count
    return end if end <= len(p.body) else EARLY


@kernel
def after_texts(p, at, count):
    """Where so many texts end that begin at a place, as MessagePack writes them."""
    body = p.body
    for _ in range(count):
        if at >= len(body):
            return EARLY
        head, wide = int(body[at]), 0
        if head >= FIRST_WIDE and head <= LAST_WIDE:
            wide = 1 << (head - FIRST_WIDE)
        elif head < FIRST_SHORT or head > LAST_SHORT:
            return TEXTLESS
        size = 0 if wide else head - FIRST_SHORT
        if at + 1 + wide > len(body):
            return EARLY
        for i in range(wide):
            size = size << 8 | int(body[at + 1 + i])
        at += 1 + wide + size
    return at if at <= len(body) else EARLY


@kernel
def fill(read, first, column, count, value):
    """One number in all rows."""
    for r in range(first, first + count):
        read[r, column] = value


@kernel
def read_planes(p, read, first, column, at, count, in_steps):
    """Numbers, or sums of differences, of planes that are whole."""
    planes, total = int(p.body[at]), np.int64(0)
    for r in range(count):
        value = number_at(p, at + 1, planes, count, r)
        if in_steps:
            total += value
            value = total
        read[first + r, column] = value


@kernel
def read_few(p, read, first, column, at, count):
    """A table of numbers, and which of them each row has."""
    body, table, total = p.body, p.table, np.int64(0)
    if at + 2 > len(body):
        return EARLY
    in_steps, size = int(body[at]), int(body[at + 1]) + 1
    at += 2
    places = end_of_planes(p, at, size)
    if places < 0:
        return places
    if places + count > len(body):
        return EARLY
    read_planes(p, table, 0, 0, at, size, 1)
    for r in range(count):
        i = int(body[places + r])
        if i >= size:
            return BEYOND
        value = table[i, 0]
        if in_steps:
            total += value
            value = total
        read[first + r, column] = value
    return places + count


@kernel
def read_column(p, read, first, column, at, count):
    """The next column, into one of a matrix, from a row on."""
    if count == 0:
        return at
    if at >= len(p.body):
        return EARLY
    form = int(p.body[at])
    at += 1
    if form == ZERO:
        fill(read, first, column, count, 0)
        return at
    if form == SAME:
        end = end_of_planes(p, at, 1)
        if end >= 0:
            fill(read, first, column, count, number_at(p, at + 1, int(p.body[at]), 1, 0))
        return end
    if form == FEW:
        return read_few(p, read, first, column, at, count)
    if form not in (WIDE, STEPS):
        return FORMLESS - form
    end = end_of_planes(p, at, count)
    if end >= 0:
        read_planes(p, read, first, column, at, count, int(form == STEPS))
    return end


@kernel
def read_pool(p, read, first, count, at, width):
    """The next columns, into the first of a matrix, from a row on."""
    for column in range(width):
        at = read_column(p, read, first, column, at, count)
        if at < 0:
            return at
    return at


@kernel
def sort_by_kind(p, events, order, first, count):
    """Where events stand when they are sorted by kind; 0: one has a kind that cannot be."""
    table = p.table
    for kind in range(KINDS):
        table[kind, 0] = 0
    for e in range(first, first + count):
        kind = events[e, EventColumn.KIND]
        if kind < 0 or kind >= KINDS:
            return 0
        table[kind, 0] += 1
    before = 0
    for kind in range(KINDS):
        before += table[kind, 0]
        table[kind, 0] = before - table[kind, 0]
    for e in range(first, first + count):
        kind = events[e, EventColumn.KIND]
        order[table[kind, 0]] = e
        table[kind, 0] += 1
    return 1


@kernel
def place_events(events, counts, first, count):
    """Say where each event has its rows in the pools, which are used up in their order."""
    pieces, jobs, nodes = counts[0, PIECES], counts[0, JOBS], counts[0, NODES]
    for e in range(first, first + count):
        kind = events[e, EventColumn.KIND]
        events[e, EventColumn.FIRST] = pieces * IS_PIECED[kind]
        pieces += events[e, EventColumn.COUNT]
        if kind == SUBMITTED:
            events[e, EventColumn.FIRST] = jobs
            jobs += 1
        elif kind == ADDED:
            events[e, EventColumn.FIRST] = nodes
            nodes += 1
    counts[0, PIECES] = pieces
    counts[0, JOBS] = jobs
    counts[0, NODES] = nodes


@kernel
def read_events(p, events, order, read, counts, first, count, at, width):
    """The events of a row, of which so many columns stand in the order of kinds."""
    at = read_column(p, events, first, int(EventColumn.AT), at, count)
    if at < 0:
        return at
    at = read_column(p, events, first, int(EventColumn.KIND), at, count)
    if at < 0:
        return at
    if not sort_by_kind(p, events, order, first, count):
        return KINDLESS
    for i in range(width):
        at = read_column(p, read, 0, 0, at, count)
        if at < 0:
            return at
        for e in range(count):
            events[order[e], SORTED[i]] = read[e, 0]
    place_events(events, counts, first, count)
    return at
