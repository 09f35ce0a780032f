"""Cells in few bytes are the same cells."""

from random import Random

import numpy as np
import pytest

from tidemill.ledger.cells import NOTHING, Cells, added_packed, in_order, packed, unpacked


def _some(luck: Random, count: int, most: int) -> Cells:
    """Cells of which some are of the same."""
    columns = [np.array([luck.randrange(most) for _ in range(count)], np.int64) for _ in range(6)]
    amounts = np.array([luck.randrange(1, 1 << 40) for _ in range(count)], np.int64)
    return Cells._make([*columns, amounts])


def added(*parts: Cells) -> dict[tuple[int, ...], int]:
    """The sums of cells of the same."""
    sums = dict[tuple[int, ...], int]()
    for part in parts:
        for *key, amount in zip(*(column.tolist() for column in part), strict=True):
            sums[tuple(key)] = sums.get(tuple(key), 0) + amount
    return sums


@pytest.mark.parametrize("seed", range(5))
def test_packed_cells_add_up_to_what_cells_do(seed: int):
    """Parts with numbers of any size, packed by themselves and then together, or none."""
    luck = Random(seed)
    parts = [_some(luck, luck.randrange(40), most) for most in (2, 3, 200, 5)]
    together = added_packed(NOTHING, *map(packed, parts))
    assert added(unpacked(together)) == added(*parts)
    assert len(together.keys) == len(added(*parts))


@pytest.mark.parametrize("seed", range(5))
def test_cells_in_order_are_those_that_are_added(seed: int):
    """Column by column as if the unpacked cells were added up; empty ones are left out."""
    luck = Random(seed)
    some = _some(luck, luck.randrange(200), luck.choice((2, 40)))
    some.milli_ms[::7] = 0
    naive = sorted((*key, amount) for key, amount in added(some).items() if amount)
    found = zip(*(column.tolist() for column in in_order(packed(some))), strict=True)
    assert [*found] == naive
