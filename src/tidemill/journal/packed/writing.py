"""Writing columns, and the events of a batch, as bytes; see ``journal.columns``.

Whatever is written is written from a place on, and returns where the next thing begins. There must
be room for it (``column_bytes``).
"""

from tidemill.journal.packed.kernel import MOST_FEW, kernel
from tidemill.journal.packed.reading import (
    FEW,
    SAME,
    SORTED,
    STEPS,
    WIDE,
    ZERO,
    sort_by_kind,
)
from tidemill.model.batch import EventColumn

FEWEST = 32  # rows that a table of distinct numbers is worth its while for


def column_bytes(rows: int) -> int:
    """As many bytes as a column of so many rows may take."""
    return 8 * (rows + MOST_FEW) + 8


@kernel
def step_at(read, column, r, in_steps):
    """A number of a column, or by how much it differs from the one before it."""
    value = read[r, column]
    if in_steps and r > 0:
        value -= read[r - 1, column]
    return value


@kernel
def folded(value):
    """A number of 64 bits without a sign: small negative ones are small, too."""
    return (value << 1) ^ (value >> 63)


@kernel
def planes_of(bits):
    """How many bytes have any of these bits."""
    if bits < 0:
        return 8
    planes = 0
    while planes < 8 and bits >> (8 * planes) != 0:
        planes += 1
    return planes


@kernel
def write_planes(p, read, column, count, in_steps, at):
    """All lowest bytes, then the next, as many as there are; how many stands before them."""
    body, bits = p.body, 0
    for r in range(count):
        bits |= folded(step_at(read, column, r, in_steps))
    planes = planes_of(bits)
    body[at] = planes
    at += 1
    for plane in range(planes):
        for r in range(count):
            body[at + r] = (folded(step_at(read, column, r, in_steps)) >> (8 * plane)) & 255
        at += count
    return at


@kernel
def place_in(table, size, value):
    """Where a number stands, or would, in a table in order."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if table[middle, 0] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def make_table(p, read, column, count, in_steps, most):
    """The distinct numbers of a column, in order; how many, 0: they are too many."""
    table, size = p.table, 0
    for r in range(count):
        value = step_at(read, column, r, in_steps)
        i = place_in(table, size, value)
        if i < size and table[i, 0] == value:
            continue
        if size == most:
            return 0
        for k in range(size, i, -1):
            table[k, 0] = table[k - 1, 0]
        table[i, 0] = value
        size += 1
    return size


@kernel
def is_same(read, column, count):
    """Whether all numbers of a column are the same."""
    r = 1
    while r < count and read[r, column] == read[0, column]:
        r += 1
    return r >= count


@kernel
def write_column(p, read, column, count, in_steps, at):
    """A column in the form that suits it; ``in_steps``: each lies near the one before it."""
    body, table, size = p.body, p.table, 0
    if is_same(read, column, count):
        body[at] = SAME if read[0, column] != 0 else ZERO
        return write_planes(p, read, column, 1, 0, at + 1) if read[0, column] != 0 else at + 1
    if count >= FEWEST:
        size = make_table(p, read, column, count, in_steps, min(MOST_FEW, count // 4))
    if size == 0:
        body[at] = STEPS if in_steps else WIDE
        return write_planes(p, read, column, count, in_steps, at + 1)
    body[at] = FEW
    body[at + 1] = in_steps
    body[at + 2] = size - 1
    at = write_planes(p, table, 0, size, 1, at + 3)
    for r in range(count):
        body[at + r] = place_in(table, size, step_at(read, column, r, in_steps))
    return at + count


@kernel
def write_pool(p, read, at):
    """All columns of a matrix; nothing, if it has no rows."""
    if len(read) > 0:
        for column in range(read.shape[1]):
            at = write_column(p, read, column, len(read), 0, at)
    return at


@kernel
def write_events(p, events, order, read):
    """The events of a batch; most of their columns in the order of kinds."""
    count = len(events)
    at = write_column(p, events, int(EventColumn.AT), count, 1, 0)
    at = write_column(p, events, int(EventColumn.KIND), count, 0, at)
    sort_by_kind(p, events, order, 0, count)
    for i in range(len(SORTED)):
        for e in range(count):
            read[e, 0] = events[order[e], SORTED[i]]
        at = write_column(p, read, 0, count, int(SORTED[i] == EventColumn.WHO), at)
    return at
