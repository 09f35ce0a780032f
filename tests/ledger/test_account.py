"""Accounts: exact inside, rounded once, so that what is printed adds up."""

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from tidemill.ledger import ratios
from tidemill.ledger.account import (
    CENT_MICRO,
    DENOMINATOR,
    Account,
    rounded,
    shown_with_parts,
    zero,
)
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.difference import difference, sides
from tidemill.ledger.unknowns import is_useful_unknown
from tidemill.model.measures import HOUR_MS, MILLI_MS_PER_UNIT_HOUR, YEAR_MS
from tidemill.units.capability import REFERENCE_GFLOPS

AMOUNT = st.one_of(st.just(0), st.integers(0, 10**18), st.integers(0, 50))
RATES = st.sampled_from((0, 1, 999_999, 2_000_000, 3_333_333))


NOTHING = (0,) * len(Bucket)


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    """Any account: amounts of several contracts, each with its price and power."""
    amounts = [[draw(AMOUNT) for _ in Bucket] for _ in range(draw(st.integers(1, 2)))]
    rates, powers = (
        [draw(RATES) for _ in amounts],
        [draw(st.integers(1, 3_000_000)) for _ in amounts],
    )
    columns = list(zip(*amounts, strict=True))
    return Account(
        tuple(sum(column) for column in columns),
        tuple(sum(a * r for a, r in zip(column, rates, strict=True)) for column in columns),
        tuple(sum(a * p for a, p in zip(column, powers, strict=True)) for column in columns),
        NOTHING,
    )


@given(accounts())
def test_printed_lines_add_up_to_the_printed_total(account: Account):
    """Dollars to the cent, micro-dollars, hours and H100 hours: the lines sum to the total."""
    assert sum(account.usd_micro()) == account.paid_usd_micro
    assert sum(account.in_units(CENT_MICRO)) == rounded(
        account.paid_money, DENOMINATOR * CENT_MICRO
    )
    tenth = MILLI_MS_PER_UNIT_HOUR // 10
    assert sum(account.hours_in(tenth)) == rounded(account.paid_milli_ms, tenth)
    equivalent, hours = account.h100_milli_ms(), account.h100_hours_in(tenth)
    assert account.capability is not None
    assert equivalent is not None
    assert hours is not None
    assert sum(equivalent) == rounded(sum(account.capability), REFERENCE_GFLOPS)
    assert sum(hours) == rounded(sum(account.capability), REFERENCE_GFLOPS * tenth)


NEARLY_A_CENT_MORE = Account(
    (0,) * (len(Bucket) - 3) + (9_392, 289_458_280_067, 1_109_444_177_444_177),
    (0,) * (len(Bucket) - 3)
    + (9_391_990_608, 289_457_990_608_719_933, 1_109_443_067_999_999_555_823),
    None,
    NOTHING,
)
"""The largest line is just under a whole cent, and the total is rounded up."""


@example(NEARLY_A_CENT_MORE)
@given(accounts())
def test_printed_lines_are_true_to_one_unit(account: Account):
    """No line is a whole unit away from its exact value."""
    for cents, money in zip(account.in_units(CENT_MICRO), account.money, strict=True):
        assert abs(Fraction(money, DENOMINATOR * CENT_MICRO) - cents) < 1
    for points, part in zip(account.basis_points(), account.milli_ms, strict=True):
        if account.paid_milli_ms:
            assert abs(Fraction(10_000 * part, account.paid_milli_ms) - points) < 1


@given(accounts())
def test_percents_add_up_to_a_hundred(account: Account):
    """Hundredths of percents add up to 100.00 %, parts per million to a million; or to nothing."""
    paid = account.paid_milli_ms > 0
    assert sum(account.basis_points()) == 10_000 * paid
    assert sum(account.shares_ppm()) == 1_000_000 * paid


@given(accounts())
def test_goodputs_multiply_to_useful_over_paid(account: Account):
    """Scheduling × runtime × program goodput is the ledger's own ratio, exactly."""
    useful, paid = account.milli_ms[Bucket.USEFUL], account.paid_milli_ms
    expected = Fraction(useful, paid) if paid else Fraction(0)
    shown = None if is_useful_unknown(account) else expected
    assert ratios.goodput(account).overall == shown
    assert ratios.utilisation(account).mfu == shown


@given(accounts())
def test_utilisations_are_in_order(account: Account):
    """Allocation is at least occupancy, occupancy at least MFU; all between 0 and 1."""
    allocation, occupancy, mfu, _ = ratios.utilisation(account)
    assert 1 >= allocation >= occupancy >= (mfu or 0) >= 0


@given(accounts())
def test_shares_of_dollars_add_up_too(account: Account):
    """Shares of the dollars make 100.00 %; where nothing cost anything there are none."""
    points, ppm = account.dollar_points(), account.dollar_shares_ppm()
    assert (points is None) == (ppm is None) == (account.paid_money == 0)
    assert points is None or sum(points) == 10_000
    assert ppm is None or sum(ppm) == 1_000_000


def test_goodput_says_whether_all_of_it_is_assumed():
    """What was measured of some jobs and assumed of others is neither the one nor the other."""
    amounts = [0] * len(Bucket)
    amounts[Bucket.USEFUL] = amounts[Bucket.NO_DEMAND] = 10
    said = [
        ratios.goodput(Account(tuple(amounts), tuple(amounts), None, NOTHING, some)).assumed
        for some in (0, 4, 10)
    ]
    assert said == ["", ", partly assumed", ", assumed"]


def test_goodput_says_when_it_is_a_lower_bound():
    """Work of unknown efficiency, or not saved yet, may be useful: the goodput is at least this."""
    amounts = [0] * len(Bucket)
    amounts[Bucket.USEFUL] = amounts[Bucket.NO_DEMAND] = 10
    known = Account(tuple(amounts), tuple(amounts), None, NOTHING)
    assert not ratios.goodput(known).is_lower_bound
    amounts[Bucket.UNKNOWN] = 1
    assert ratios.goodput(Account(tuple(amounts), tuple(amounts), None, NOTHING)).is_lower_bound


@given(accounts(), accounts())
def test_columns_of_a_difference_add_up(before: Account, after: Account):
    """Time, dollars and shares of the changes add up to the change of the whole."""
    found = difference(before, after)
    assert [change.bucket for change in found] == list(Bucket)
    assert sum(c.milli_ms for c in found) == after.paid_milli_ms - before.paid_milli_ms
    assert sum(c.usd_micro or 0 for c in found) == after.paid_usd_micro - before.paid_usd_micro
    shares = 10_000 * (bool(after.paid_milli_ms) - bool(before.paid_milli_ms))
    assert sum(c.basis_points for c in found) == shares


@given(accounts())
def test_nothing_changed_between_a_ledger_and_itself(account: Account):
    """The difference of a ledger to itself is zero in every bucket and column."""
    for change in difference(account, account):
        assert (change.milli_ms, change.usd_micro, change.basis_points) == (0, 0, 0)


@given(accounts(), st.integers(1, 10**6))
def test_a_share_that_did_not_change_shows_no_change(account: Account, more: int):
    """Another fleet, so many times as large and used alike, differs in no share; and where two
    lines change, the others show nothing, however the remainders of either side fall.
    """
    larger = Account(
        tuple(amount * more for amount in account.milli_ms), account.money, None, NOTHING
    )
    assert all(change.basis_points == 0 for change in difference(account, larger))
    amounts = [*account.milli_ms]
    amounts[Bucket.NO_DEMAND] += amounts[Bucket.USEFUL]
    amounts[Bucket.USEFUL] = 0
    for change in difference(account, Account(tuple(amounts), account.money, None, NOTHING)):
        if change.bucket not in (Bucket.NO_DEMAND, Bucket.USEFUL):
            assert change.basis_points == 0


@given(accounts(), accounts(), st.sets(st.sampled_from(Bucket)))
def test_dollars_of_both_sides_add_up_and_are_true_to_a_cent(
    before: Account, after: Account, same: set[Bucket]
):
    """Whatever is equal on both sides: each cell is its amount rounded down or up, whole amounts
    stay, each side adds up, and the first is what its own ledger prints.
    """
    paid = tuple(before.money[b] if b in same else after.money[b] for b in Bucket)
    mixed = after._replace(money=paid)
    first, second = sides(before, mixed, CENT_MICRO)
    assert first == before.in_units(CENT_MICRO)
    assert sum(second) == sum(mixed.in_units(CENT_MICRO))
    unit = DENOMINATOR * CENT_MICRO
    assert all(
        0 <= s * unit - m < unit or 0 <= m - s * unit < unit
        for s, m in zip(second, paid, strict=True)
    )


def test_a_line_that_did_not_change_costs_the_same_on_both_sides():
    """Half a cent of three lines: which two are rounded up depended on the others of a ledger, so
    equal lines differed by a cent. The line that changed takes what is left.
    """
    half = DENOMINATOR * CENT_MICRO // 2
    amounts = [0] * len(Bucket)
    amounts[Bucket.IDLE] = amounts[Bucket.REWORK] = amounts[Bucket.USEFUL] = half
    before = zero()._replace(money=tuple(amounts))
    amounts[Bucket.NOT_READY] = 3 * half // 2
    after = before._replace(money=tuple(amounts))
    first, second = sides(before, after, CENT_MICRO)
    same = [b for b in Bucket if b is not Bucket.NOT_READY]
    assert [first[b] for b in same] == [second[b] for b in same]
    first, second = (account.in_units(CENT_MICRO) for account in (before, after))
    assert [first[b] for b in same] != [second[b] for b in same]


def test_prices_of_an_hour():
    """$6 for two paid hours, half an hour of it useful: $3 a paid hour, $12 a useful one.

    On an A100 (312 TFLOP/s; an H100 has 989) that half hour is worth 0.158 H100 hours, so a useful
    H100 hour costs $6 / 0.1577… = $38.038461.
    """
    amounts, hour = [0] * len(Bucket), MILLI_MS_PER_UNIT_HOUR
    amounts[Bucket.USEFUL], amounts[Bucket.NO_DEMAND] = hour // 2, hour * 3 // 2
    account = Account(
        tuple(amounts),
        tuple(3_000_000 * a for a in amounts),
        tuple(312_000 * a for a in amounts),
        NOTHING,
    )
    assert ratios.usd_micro_per_paid_hour(account) == 3_000_000
    assert ratios.usd_micro_per_useful_hour(account) == 12_000_000
    assert ratios.usd_micro_per_useful_h100_hour(account) == 38_038_462
    assert ratios.usd_micro_per_useful_h100_hour(account._replace(capability=None)) is None


def test_an_idle_point_for_a_year():
    """A fleet that costs $200 an hour costs $17,520 a year for each percent that is idle.

    100 accelerators at $2: 200 × 8760 / 100.
    """
    amounts = [0] * len(Bucket)
    amounts[Bucket.NO_DEMAND] = 100 * MILLI_MS_PER_UNIT_HOUR
    account = Account(tuple(amounts), tuple(2_000_000 * a for a in amounts), None, NOTHING)
    assert ratios.idle_point_usd_micro_per_year(account, HOUR_MS) == 17_520_000_000
    assert ratios.mean_accelerators(account, HOUR_MS) == 100
    assert ratios.idle_point_usd_micro_per_year(account, 0) == 0
    assert YEAR_MS == 8760 * HOUR_MS


def test_nothing_has_no_price():
    """An account with nothing in it has no price per hour, no share and no goodput."""
    account = zero()
    assert ratios.usd_micro_per_paid_hour(account) is None
    assert ratios.usd_micro_per_useful_hour(account) is None
    assert ratios.goodput(account).overall == 0
    assert account.basis_points() == [0] * len(Bucket)


@given(st.integers(0, 10**30), st.integers(1, 10**12))
def test_rounding_is_to_the_nearest(amount: int, denominator: int):
    """Half a unit or less away; halves go up."""
    error = rounded(amount, denominator) - Fraction(amount, denominator)
    assert Fraction(-1, 2) < error <= Fraction(1, 2)


_PARTS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=9)


@given(_PARTS)
@example([(0, 180_245), (82_820, 0), (80_935, 0), (40_000, 0)])
def test_no_rounding_lifts_a_whole_amount(pairs: list[tuple[int, int]]):
    """Who held nothing is shown to hold nothing, and both columns add up to their totals."""
    parts, amounts = [held for held, _ in pairs], [held + free for held, free in pairs]
    whole, within = shown_with_parts(amounts, parts, 100)
    for exact, printed in ((amounts, whole), (parts, within)):
        assert sum(printed) == rounded(sum(exact), 100)
        for amount, text in zip(exact, printed, strict=True):
            assert abs(amount - 100 * text) < 100


def test_a_job_is_not_shown_to_hold_more_than_it_paid_for():
    """Where only jobs and nobody share the hours, parts stay parts."""
    whole, within = shown_with_parts([180_245, 82_820, 80_935, 40_000], [0, 82_820, 80_935, 40_000],
                                     100)  # fmt: skip
    assert (whole, within) == ([1802, 828, 810, 400], [0, 828, 810, 400])
