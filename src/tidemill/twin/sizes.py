"""How many accelerators jobs ask for: powers of two (and fractions of one), by share.

``halving`` gives the heavy-tailed family that published averages are met with: this share of ones,
and beyond them each doubling is some factor rarer than the one before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI


class JobSizes(NamedTuple):
    """Sizes in accelerator-milli, rising, and their shares, which add up to one."""

    milli: tuple[int, ...]
    shares: tuple[float, ...]

    def mean_milli(self) -> float:
        """The average size."""
        return sum(m * s for m, s in zip(self.milli, self.shares, strict=True))

    def capped(self, largest_milli: int) -> "JobSizes":
        """The same with every larger size replaced by the largest power of two that fits."""
        largest = WHOLE_MILLI
        while largest * 2 <= largest_milli:
            largest *= 2
        shares: dict[int, float] = {}
        for milli, share in zip(self.milli, self.shares, strict=True):
            fitting = milli if milli <= largest_milli else largest
            shares[fitting] = shares.get(fitting, 0.0) + share
        return of(shares)


def of(shares: Mapping[int, float]) -> JobSizes:
    """Sizes from weights by accelerator-milli, whatever they add up to."""
    total = sum(shares.values())
    milli = tuple(sorted(m for m, share in shares.items() if share > 0))
    return JobSizes(milli, tuple(shares[m] / total for m in milli))


def halving(ones: float, mean: float, largest: int) -> JobSizes:
    """A share of ones, then powers of two up to ``largest``, with this mean."""
    doublings = largest.bit_length() - 1
    low, high = 1e-6, 4.0
    for _ in range(80):
        factor = (low + high) / 2
        found = _halving(ones, factor, doublings)
        low, high = (factor, high) if found.mean_milli() < mean * WHOLE_MILLI else (low, factor)
    found = _halving(ones, high, doublings)
    if abs(found.mean_milli() / (mean * WHOLE_MILLI) - 1) > 0.01:
        raise SpecError(
            f"no sizes up to {largest} with {ones:.0%} ones have a mean of {mean}",
            hint="change the share of ones or the largest size",
        )
    return found


def _halving(ones: float, factor: float, doublings: int) -> JobSizes:
    weights = [factor**k for k in range(doublings)]
    rest = (1 - ones) / sum(weights)
    tail = {2 ** (k + 1) * WHOLE_MILLI: rest * w for k, w in enumerate(weights)}
    return of({WHOLE_MILLI: ones} | tail)
