"""Kernels that use all that kernels may be written in; run as Python they are their own oracle."""

from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tidemill.compiled import folder, shared


class Table(NamedTuple):
    """Arrays of every type that kernels know."""

    row: Any
    words: Any
    small: Any
    reals: Any
    flags: Any


kernel = folder(
    Path(__file__).parent,
    dimensions=lambda name: {"row": 1, "grid": 2, "cube": 3}.get(name, 0),
    whole={
        "t": (
            Table,
            (1, 1, 2, 1, 1),
            {"words": "uint64", "small": "int16", "reals": "float64", "flags": "bool"},
        )
    },
)


class COLUMN(IntEnum):
    """Of a grid."""

    FIRST = 0
    SECOND = 1
    THIRD = 2


PRIMES = (2, 3, 5, 7)
SQUARES = np.arange(8, dtype=np.int64) ** 2
ONE = np.uint64(1)


@kernel
def quotient(a, b):
    return a // b


@kernel
def rest(a, b):
    return a % b


@kernel
def by_seven(a):
    return (a // 7) * 1_000 + a % 7 + (a // -7) * 3 + a % -7


@kernel
def bits(a, b):
    return ((a & b) | (a ^ ~b)) + (a >> 3) + (b << 2) - (-a)


@kernel
def extremes(a, b, c):
    low, high = min(a, b, c), max(a, b > c, c)
    times, left = divmod(a, 5)
    return low * 31 + high * 7 + abs(b) + times - left


@kernel
def first_that_decides(a, b, c):
    return (a and b) or c


@kernel
def chain(a, b, c):
    return a <= b < c != 3


@kernel
def steps(a, b):
    """An ``and`` ends at the first that is false, so that nothing beyond it is asked."""
    is_odd = a % 2 == 1 and not b & 1
    return 5 if is_odd or (a in (1, 4, 9) and b not in PRIMES) else 7 if b > a else is_odd


@kernel
def widened(a):
    """A truth that turns into an integer, in a loop."""
    found = False
    for i in range(a):
        found = found + i if found else i % 3 == 2  # type: ignore[assignment]
    return found


@kernel
def ranges(a, b, c):
    total, i = 0, -1
    for i in range(a):
        if i == 7:
            break
        if i % 3 == 1:
            continue
        total += i
    for j in range(b, a):
        total += 3 * j
    for j in range(b, -b, -2):
        total -= j
    for j in range(a, b, c):
        total ^= j
    return total * 10 + i


@kernel
def endless(a):
    """Loops whose end is never reached."""
    while True:
        a -= 3
        if a < 0:
            return a
        while a > 50:
            a //= 2
            if a == 30:
                break


@kernel
def places(row, grid, cube):
    """Rows of rows, elements that are changed, two that change places."""
    line, plane = grid[1], cube[1]
    line[2] += 5
    grid[0, COLUMN.FIRST], grid[1, COLUMN.SECOND] = grid[1, COLUMN.SECOND], grid[0, COLUMN.FIRST]
    plane[0, 1] = line[0] - grid.shape[1]
    cube[0, 1, 2] *= 3
    total = len(row) + len(grid) + len(COLUMN) + cube.shape[2]
    for value in row:
        total += value * plane[0, 1]
    row[:] = total
    return total


@kernel
def tables(t, a):
    """What is in arrays of other numbers."""
    t.small[0, 1] += a
    t.words[0] = (t.words[1] >> np.uint64(3)) & ~(ONE << np.uint64(2))
    t.reals[0] = t.reals[1] / 4 + a
    t.flags[0] = t.flags[1] or a > 3
    above = t.words[0] > t.words[1] // np.uint64(9)
    return (
        int(max(t.reals[0], t.reals[1], 0.5) * 10.0)
        + int(t.small[0, 1])
        + t.row[a]
        + above
        + int(t.flags[0])
    )


@kernel
def known(a):
    """What modules name."""
    return PRIMES[a % len(PRIMES)] + SQUARES[a % 8] + PRIMES[2] + COLUMN.THIRD


@kernel
def pair(a, row):
    """Compiled into whoever calls it."""
    return a + row[0], a > row[1]


@kernel
def several(row, a):
    return pair(a, row)


@kernel
@shared
def summed(row, a):
    total = a
    for i in range(len(row)):
        total += row[i]
    return total


@kernel
def calls(row, grid, a):
    value, is_above = pair(a, row)
    other, _ = pair(is_above, grid[0])
    return summed(row, value > 3) + other + summed(grid[1], value)


@kernel
def nothing(row, a):
    if a > 3:
        return
    row[0] = a
