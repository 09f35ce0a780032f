"""The supply side of the ledger: sums per time bin of what is paid, and of what no job holds.

Kernels add to the arrays of one bin (``core.accounting.claims``); this keeps those of all of them.
"""

from typing import TypeVar

import numpy as np

from tidemill.ledger.buckets import Bucket
from tidemill.model.errors import SpecError
from tidemill.model.tables import I64

BINS_AT_MOST = 100_000  # eleven years by the hour; each holds contracts × buckets × teams numbers

Bin = TypeVar("Bin", int, tuple[int, int])


class SupplySums:
    """Milli × ms by time bin; its arrays are written by kernels."""

    def __init__(self) -> None:
        self.paid: dict[int, I64] = {}
        """Paid, per contract."""
        self.unheld: dict[tuple[int, int], I64] = {}
        """Paid and in no job's hands, per contract, bucket, team + 1 (0: nobody); by bin and price
        period (``price_periods``)."""

    def of_bin(self, number: int, period: int, contracts: int, teams: int) -> tuple[I64, I64]:
        """Both arrays of a bin, for what is counted in a price period."""
        return (
            row_of(self.paid, number, (contracts,)),
            row_of(self.unheld, (number, period), (contracts, len(Bucket), teams + 1)),
        )


def row_of(bins: dict[Bin, I64], number: Bin, shape: tuple[int, ...]) -> I64:
    """The array of a bin, enlarged when contracts or teams were added."""
    array = bins.get(number)
    if array is None:
        if len(bins) >= BINS_AT_MOST:
            raise SpecError(
                f"the window has more than {BINS_AT_MOST:,} time bins",
                hint="ask for wider bins, or for a shorter window",
            )
        array = bins[number] = np.zeros(shape, np.int64)
    elif array.shape != shape:
        bigger = np.zeros(shape, np.int64)
        bigger[tuple(slice(0, n) for n in array.shape)] = array
        array = bins[number] = bigger
    return array
