"""The relaxed division: how many devices have which combination if devices could be split.

Its value is a bound that no division exceeds; rounded down it is where a good one begins. A linear
program with a row for the devices and one for each profile, solved by the simplex method on exact
fractions (Dantzig 1951; Bland's rule, so that it ends): some 130 columns, a few dozen steps.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Relaxed(NamedTuple):
    """The most that can be had, and how much of each column is in it."""

    most: Fraction
    amounts: tuple[Fraction, ...]


def maximise(
    columns: Sequence[Sequence[int]], worth: Sequence[int], limits: Sequence[int]
) -> Relaxed:
    """The amounts, none below 0, that are worth most while no row's sum exceeds its limit.

    ``columns`` holds one row of numbers for each column; limits are 0 or more.
    """
    rows, width = len(limits), len(columns)
    table = [
        [*(Fraction(column[r]) for column in columns),
         *(Fraction(int(r == i)) for i in range(rows)), Fraction(limits[r])]
        for r in range(rows)
    ]  # fmt: skip
    prices = [*(Fraction(-value) for value in worth), *(Fraction(0) for _ in range(rows + 1))]
    basis = list(range(width, width + rows))
    while True:
        enter = next((c for c in range(width + rows) if prices[c] < 0), None)
        if enter is None:
            break
        able = [r for r in range(rows) if table[r][enter] > 0]
        assert able, "every column takes a device, so nothing grows for ever"
        leave = min(able, key=lambda r: (table[r][-1] / table[r][enter], basis[r]))
        _pivot(table, prices, leave, enter)
        basis[leave] = enter
    amounts = [Fraction(0)] * (width + rows)
    for r, c in enumerate(basis):
        amounts[c] = table[r][-1]
    return Relaxed(prices[-1], tuple(amounts[:width]))


def _pivot(table: list[list[Fraction]], prices: list[Fraction], leave: int, enter: int) -> None:
    """Let a column into the basis in place of a row's."""
    divisor = table[leave][enter]
    mine = table[leave] = [value / divisor for value in table[leave]]
    for row in (*(row for r, row in enumerate(table) if r != leave), prices):
        factor = row[enter]
        if factor:
            row[:] = [a - factor * b if b else a for a, b in zip(row, mine, strict=True)]
