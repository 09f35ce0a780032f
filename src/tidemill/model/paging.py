"""Where matrices have their memory: in the process, or, of long ones, wherever somebody says.

A long matrix may lie in a file that is mapped into memory (``journal.spilling`` makes it): kernels
read and write it as any other. ``let_go`` takes its pages out of this process; what is read or
written after that comes back by itself, as it was. So nobody has to know which rows are still of
use, and no answer can depend on it. As long as all of them together take no more than
``STAYS_BYTES`` nothing leaves: to bring it back takes time.
"""

import mmap
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Maker = Callable[[int], mmap.mmap | None]
"""Memory of so many bytes, all zero; None: take it from the process."""
Meter = Callable[[], int]
"""How many bytes of files this process has in memory now."""

_AT_ONCE = 1 << 14  # rows
_APART = 1 << 16  # rows of columns that are read by number: half a MiB of each
_NEW_AT_MOST = 1 << 13  # rows that are written before pages go: what is in use comes back each time
STAYS_BYTES = 128 << 20
LONG_BYTES = 16 << 20  # of a matrix that kernels work on: each page that they touch costs more
KEPT_BYTES = 1 << 20  # of a column that is put away
_BROUGHT = 128  # rows that one look-up counts as

_CAME_BACK_BYTES = 64 << 20  # pages that may come back before they are let go again

_makers: list[Maker] = []
_meters: list[Meter] = []
_mapped: WeakSet[mmap.mmap] = WeakSet()
_size = [0]
"""What they took together when the last of them was made: some may be gone by now."""
_new = [0]


def take_from(maker: Maker, meter: Meter) -> None:
    """Ask for the memory of matrices here from now on, and what of it is resident."""
    _makers[:], _meters[:] = [maker], [meter]


def blank(*shape: int, is_kept: bool = False) -> Numbers:
    """A matrix of zeros; ``is_kept``: it is written once, and read now and then."""
    size = prod(shape) * np.dtype(np.int64).itemsize
    is_long = size >= (KEPT_BYTES if is_kept else LONG_BYTES)
    mapped = _makers[0](size) if _makers and is_long else None
    if mapped is None:
        return np.zeros(shape, np.int64)
    _mapped.add(mapped)
    _size[0] = sum(map(len, _mapped))
    return np.frombuffer(mapped, np.int64).reshape(shape)


def let_go() -> None:
    """Take the pages of all mapped matrices out of memory, if they are many.

    Whoever needs one gets it back.
    """
    if _size[0] <= STAYS_BYTES:
        return
    found = list(_mapped)
    _size[0] = sum(map(len, found))
    if _size[0] > STAYS_BYTES:
        for mapped in found:
            mapped.madvise(mmap.MADV_DONTNEED)


def wrote(rows: int) -> None:
    """So many new rows were written; now and then the old ones are let go."""
    _new[0] += rows
    if _new[0] >= _NEW_AT_MOST:
        _new[0] = 0
        let_go()


def bound(since: int) -> int:
    """Let pages go if many have come back since the last call, which returned this; 0: the first.

    For whoever reads rows all over long tables, of which each brings its neighbours.
    """
    if _size[0] <= STAYS_BYTES:
        return since
    now = _meters[0]()
    if since and now - since < _CAME_BACK_BYTES:
        return since
    let_go()
    return _meters[0]()


def looked_up() -> None:
    """One row somewhere was read; with it come its neighbours, up to 16 pages of each matrix."""
    wrote(_BROUGHT)


def stretches(rows: int) -> Iterator[slice]:
    """So many rows, some at a time: what was read or written of one stretch is let go."""
    for first in range(0, rows, _AT_ONCE):
        yield slice(first, min(first + _AT_ONCE, rows))
        if rows - first >= _AT_ONCE:
            let_go()


def near(numbers: Numbers) -> Iterator[Numbers]:
    """Ascending numbers of rows, those that lie near each other at a time; then rows are let go."""
    if not len(numbers):
        return
    edges = np.arange(numbers.item(0), numbers.item(-1), _APART)[1:]
    for first, end in pairwise([0, *np.searchsorted(numbers, edges).tolist(), len(numbers)]):
        if first < end:
            yield numbers[first:end]
        if len(edges):
            let_go()


def copy_rows(rows: Numbers, to: Numbers) -> None:
    """Write rows into a matrix that has as many, or more; some at a time."""
    for some in stretches(len(rows)):
        to[some] = rows[some]


def put_away(numbers: Numbers) -> Numbers:
    """The same numbers, where long matrices are; in the process they are as they were."""
    made = blank(len(numbers), is_kept=True)
    if made.flags.owndata:
        return numbers
    copy_rows(numbers, made)
    let_go()
    return made


def column(numbers: Numbers, count: int) -> Numbers:
    """A copy of the first so many numbers of a column, read some rows at a time."""
    return columns((numbers,), count)[0]


def columns(several: Sequence[Numbers], count: int) -> list[Numbers]:
    """The same of several columns of a matrix, whose rows are read once for all of them."""
    found = [blank(count, is_kept=True) for _ in several]
    for some in stretches(count):
        for numbers, copy in zip(several, found, strict=True):
            copy[some] = numbers[some]
    return found
