"""Fleets by what they can do: unlike accelerators are not added up by their number.

1,024 A100 are twice as many as 512 H100, and do two thirds of the work. Where two fleets stand in
another ratio by capability (dense BF16) than by count, comparing them by count misleads.
"""

from typing import NamedTuple

from tidemill.units import capability
from tidemill.units.catalogue.figures import Figures

TOLERATED = 0.1
"""Ratios that differ by less lie within what runs of one part differ among themselves."""


class FleetPart(NamedTuple):
    """So many accelerators of one kind."""

    figures: Figures
    parts: int
    equivalents: float | None
    """In accelerators of the reference; None where the rate of a part is unknown."""
    memory_gb: float
    memory_tb_s: float
    usd_micro_per_hour: int | None


class Misled(NamedTuple):
    """Two fleets that stand otherwise by capability than by count."""

    first: FleetPart
    other: FleetPart
    by_count: float
    by_capability: float


def fleet(figures: Figures, parts: int) -> FleetPart:
    """Sums over so many of one part."""
    rate, usd = figures.part.bf16_tflops, figures.usd_micro_per_hour
    return FleetPart(
        figures=figures,
        parts=parts,
        equivalents=None if rate is None else parts * rate * 1000 / capability.REFERENCE_GFLOPS,
        memory_gb=parts * figures.memory_gb,
        memory_tb_s=parts * figures.memory_tb_s,
        usd_micro_per_hour=None if usd is None else parts * usd,
    )


def misled(first: FleetPart, other: FleetPart) -> Misled | None:
    """What a comparison by count would get wrong; None where count says the same."""
    if first.equivalents is None or other.equivalents is None:
        return None
    by_count = other.parts / first.parts
    by_capability = other.equivalents / first.equivalents
    if abs(by_capability / by_count - 1) <= TOLERATED:
        return None
    return Misled(first, other, by_count, by_capability)
