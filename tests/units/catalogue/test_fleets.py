"""Fleets: sums are exact, and a comparison by count is flagged where it misleads."""

import pytest

from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.figures import figures
from tidemill.units.catalogue.fleets import FleetPart, fleet, misled

BOOK = Catalogue()


def of(name: str, parts: int) -> FleetPart:
    """So many of one part."""
    return fleet(figures(BOOK, BOOK.part(name)), parts)


def test_a_fleet_in_equivalents():
    """256 A100 and 768 H100 are worth 849 H100, as the ledger adds them."""
    total = (of("a100", 256).equivalents or 0) + (of("h100", 768).equivalents or 0)
    assert round(total) == 849


def test_count_misleads_between_generations():
    """Twice as many A100 as H100 do less: ×0.5 by count, ×1.58 by capability."""
    wrong = misled(of("a100", 1024), of("h100", 512))
    assert wrong is not None
    assert wrong.by_count == 0.5
    assert wrong.by_capability == pytest.approx(0.5 * 989 / 312)


def test_count_is_fair_among_equals():
    """H100 and H200 have the same arithmetic: count says what capability says."""
    assert misled(of("h100", 8), of("h200", 16)) is None


def test_unknown_is_not_flagged():
    """Of a part without a rate nothing can be said."""
    assert of("a10g", 8).equivalents is None
    assert misled(of("a10g", 8), of("h100", 8)) is None


def test_dollars_add_up():
    """64 parts at 6.88 $/h, in whole micro-dollars; a part without a price has none."""
    assert of("h100", 64).usd_micro_per_hour == 64 * 6_880_000
    assert of("h20", 64).usd_micro_per_hour is None
