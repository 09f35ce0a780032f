"""Heaps of rows, and rows in order: by their first ``words`` columns, compared from left to right.

The smallest is the first. Callers see to it that no two rows are equal there.
"""

from tidemill.core.kernel import kernel


@kernel
def goes_before(heap, i, other, words):
    """Whether one row goes before another."""
    for c in range(words):
        if heap[i, c] != heap[other, c]:
            return heap[i, c] < heap[other, c]
    return False


@kernel
def swap(heap, i, other):
    """Let two rows change places."""
    for c in range(heap.shape[1]):
        heap[i, c], heap[other, c] = heap[other, c], heap[i, c]


@kernel
def rise(heap, i, words):
    """A row that was written at the end of a heap takes its place."""
    while i > 0:
        up = (i - 1) >> 1
        if not goes_before(heap, i, up, words):
            return
        swap(heap, i, up)
        i = up


@kernel
def sink(heap, i, count, words):
    """A row of a heap of so many goes down to its place."""
    while True:
        down = 2 * i + 1
        if down >= count:
            return
        if down + 1 < count and goes_before(heap, down + 1, down, words):
            down += 1
        if not goes_before(heap, down, i, words):
            return
        swap(heap, i, down)
        i = down


@kernel
def leave(heap, count, words):
    """Take the first out of a heap of so many; it is found at the end then."""
    swap(heap, 0, count - 1)
    sink(heap, 0, count - 1, words)


@kernel
def arrange(heap, count, words):
    """Make a heap of the first so many rows."""
    for i in range(count // 2 - 1, -1, -1):
        sink(heap, i, count, words)


@kernel
def sort(heap, count, words):
    """Sort the first so many rows in place."""
    arrange(heap, count, words)
    for left in range(count, 1, -1):
        leave(heap, left, words)
    for i in range(count // 2):
        swap(heap, i, count - 1 - i)
