"""Price periods: the times between which no contract of a fleet changes its price.

Amounts of the ledger are kept by period, so that dollars are what each hour cost. The first period
ends where the first price changes; a contract that is signed later changes its price only after
that, so the periods of what was counted before keep their numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.rows import UNPRICED, Contract
from tidemill.model.tables import I64


def edges(contracts: Sequence[Contract]) -> I64:
    """When prices change, in order."""
    found = {price.from_ms for row in contracts for price in row.later_prices or ()}
    return np.array(sorted(found), np.int64)


def period_at(changes: I64, at_ms: I64 | int) -> I64:
    """The number of the period that a moment is in."""
    found: I64 = np.searchsorted(changes, at_ms, side="right")
    return found


class PeriodPrices(NamedTuple):
    """By period and contract; Python's integers, since money outgrows 64 bits."""

    rates: NDArray[np.object_]
    """What is known, in micro-dollars per hour; 0 where nobody said a price."""
    is_unpriced: NDArray[np.bool_]
    sources: list[list[str]]
    """Who said it; "": the contract itself."""


def prices(contracts: Sequence[Contract]) -> PeriodPrices:
    """What a GPU of each contract costs in each period; of parts of GPUs, all of one together."""
    starts = [0, *edges(contracts).tolist()]
    table = [[row.price_at(at_ms) for row in contracts] for at_ms in starts]
    told = np.array([[p.usd_micro_per_hour for p in row] for row in table], object)
    told = told.reshape(len(starts), len(contracts))
    is_unpriced = (told == UNPRICED).astype(bool)
    sources = [[p.price_source for p in row] for row in table]
    units = [row.unit or (1, 1) for row in contracts]
    rates = np.where(is_unpriced, 0, told)
    for c, (gpus, of) in enumerate(units):
        rates[:, c] = [rate * of // gpus for rate in rates[:, c]]
    return PeriodPrices(rates, is_unpriced, sources)


def names(contracts: Sequence[Contract]) -> list[list[str]] | None:
    """Under which name the hours of each contract are in each period; None: always its own."""
    if not any(price.name for row in contracts for price in row.later_prices or ()):
        return None
    return [[row.name_at(ms) for row in contracts] for ms in (0, *edges(contracts).tolist())]
