"""Time that nobody observed: ratios of what was paid are bounds then, by hand, and no zeros."""

from fractions import Fraction

from tests.ledger.test_misleading import of
from tidemill.ledger import ratios
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.unknowns import NO_EFFICIENCY, NOT_SEEN, unknowns

PARTLY = of(not_observed=30, no_demand=20, idle=10, below_peak=30, useful=10)


def tenths(ratio: Fraction) -> str:
    return f"{float(ratio):.1%}"


def test_each_utilisation_has_two_bounds():
    """50 of 100 were seen to be held, 40 to be busy and 10 to be useful; 30 may have been all."""
    seen = ratios.utilisation(PARTLY)
    assert (seen.allocation, seen.allocation_most) == (Fraction(1, 2), Fraction(4, 5))
    assert (seen.occupancy, seen.occupancy_most) == (Fraction(2, 5), Fraction(7, 10))
    assert seen.mfu == Fraction(1, 10)


def test_goodput_after_scheduling_is_of_what_was_observed():
    """40 of the 50 that were held made progress, 10 of it at peak; the product is 10 of 100."""
    found = ratios.goodput(PARTLY)
    assert (found.scheduling, found.scheduling_most) == (Fraction(1, 2), Fraction(4, 5))
    assert (found.runtime, found.program) == (Fraction(4, 5), Fraction(1, 4))
    assert found.overall == Fraction(1, 10)
    assert (found.is_lower_bound, found.is_program_bound) == (True, False)


def test_of_a_window_that_nobody_observed_nothing_is_known():
    """No factor is zero, none of the three misleads, and each empty bucket is unknown."""
    account = of(not_observed=100)
    seen, found = ratios.utilisation(account), ratios.goodput(account)
    assert ratios.between(seen.allocation, seen.allocation_most, tenths) == "unknown"
    assert ratios.between(seen.occupancy, seen.occupancy_most, tenths) == "unknown"
    assert seen.mfu is None
    assert (found.runtime, found.program, found.overall) == (None, None, None)
    assert ratios.misleading(account) is None
    assert unknowns(account) == dict.fromkeys({*ABOUT} - {Bucket.NOT_OBSERVED}, NOT_SEEN)


def test_where_all_was_observed_both_bounds_are_one():
    """Nothing changes: 80 of 100 held, 70 busy, all of it known."""
    account = of(no_demand=20, idle=10, below_peak=30, useful=40)
    seen, found = ratios.utilisation(account), ratios.goodput(account)
    assert seen.allocation == seen.allocation_most == found.scheduling_most == Fraction(4, 5)
    assert seen.occupancy == seen.occupancy_most == Fraction(7, 10)
    assert ratios.between(seen.allocation, seen.allocation_most, tenths) == "80.0%"
    assert not found.is_lower_bound
    assert NOT_SEEN not in unknowns(account).values()


def test_work_that_may_have_been_is_not_zero():
    """Free or not observed: useful is unknown, since nobody saw; where work ran, as it says not."""
    assert unknowns(of(not_observed=40, no_demand=60))[Bucket.USEFUL] == NOT_SEEN
    assert unknowns(of(not_observed=40, unknown=60))[Bucket.USEFUL] == NO_EFFICIENCY


def test_a_bound_that_says_nothing_is_left_out():
    """From zero: at most; up to all: at least."""
    bounds = ((0, 3), (3, 10), (2, 5), (5, 5))
    said = [ratios.between(Fraction(a, 10), Fraction(b, 10), tenths) for a, b in bounds]
    assert said == ["≤ 30.0%", "≥ 30.0%", "20.0% to 50.0%", "50.0%"]


def test_programs_are_not_blamed_for_what_nobody_saw():
    """Of 60 that were seen 50 were free: so much at least was not allocated."""
    found = ratios.misleading(of(not_observed=40, no_demand=50, below_peak=5, useful=5))
    assert found is not None
    assert found.words == (
        "MFU: at least 50.0% was not allocated; while jobs held accelerators, it was 50.0%"
    )
    assert ratios.misleading(of(not_observed=40, no_demand=5, below_peak=25, useful=30)) is None
