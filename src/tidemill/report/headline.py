"""The answer to the one question, in a sentence and four figures.

Where some work did not tell its efficiency, useful is a lower bound and says so.
"""

from fractions import Fraction
from typing import NamedTuple

from tidemill.ledger import printed, ratios
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, Bucket, Stage
from tidemill.ledger.unknowns import is_work_seen
from tidemill.model.measures import (
    WHOLE_MILLI,
    dollars_text,
    duration_text,
)
from tidemill.report import words
from tidemill.units import capability

QUESTION = "Are you getting useful work out of the silicon you pay for?"


class HeadlineFigure(NamedTuple):
    """One number with its name and what to make of it."""

    key: str
    name: str
    value: str
    note: str


class Headline(NamedTuple):
    """The answer."""

    answer: str
    leak: str
    basis: str
    """How the numbers below are known."""
    prices: str
    """Who said what it cost; empty where contracts do."""
    figures: tuple[HeadlineFigure, ...]


def headline(
    account: Account,
    window_ms: int,
    basis: str = "",
    prices: str = "",
    *,
    is_price_assumed: bool = False,
) -> Headline:
    """The answer of an account in which something was paid.

    ``basis``: how that is known; ``prices``: who said what it cost, where no contract does.
    """
    figures = (
        _paid(account, window_ms, ", assumed" if is_price_assumed else ""),
        _useful(account),
        _hourly(account),
        _idle_point(account, window_ms),
    )
    return Headline(_answer(account), _largest_leak(account), basis, prices, figures)


def _answer(account: Account) -> str:
    useful = words.percent(account.basis_points()[Bucket.USEFUL])
    if not account.milli_ms[Bucket.USEFUL]:
        if is_work_seen(account):
            return "Nobody knows yet: work ran, but how well is not known."
        if account.milli_ms[Bucket.NOT_OBSERVED]:
            return "Nobody knows: not all that was done was observed."
        return "No: nothing that was paid for became useful work."
    found = ratios.goodput(account)
    at_least = "At least " if found.is_lower_bound else ""
    if found.is_assumed:
        of = "" if found.is_all_assumed else " of some jobs"
        return (
            f"{at_least}{useful}{found.assumed}: so much of the accelerator-hours paid for became"
            f" useful work, if the efficiency{of} is as somebody assumed."
        )
    return f"{at_least}{useful} of the accelerator-hours paid for became useful work."


def _largest_leak(account: Account) -> str:
    unit, points = words.unit_micro(account), account.dollar_points()
    usd = account.in_units(unit)
    leaks = [b for b in ABOUT if b != Bucket.USEFUL and account.milli_ms[b]]
    if not leaks:
        return ""
    by = account.milli_ms if account.unpriced_milli_ms else usd
    most = max(leaks, key=lambda b: (by[b], -b))
    is_leak = ABOUT[most].group is not Stage.UNKNOWN
    what = f"The largest {'leak' if is_leak else 'part of the rest'} is “{ABOUT[most].title}”:"
    if account.unpriced_milli_ms:
        return f"{what} {words.percent(account.basis_points()[most])} of the hours."
    share = f", {words.percent(points[most])} of the dollars" if points is not None else ""
    return f"{what} {words.usd(usd[most], unit)}{share}."


def _paid(account: Account, window_ms: int, assumed: str) -> HeadlineFigure:
    count, units = ratios.mean_accelerators(account, window_ms), printed.units(account)
    note = (
        f"{units.hours(sum(account.hours_in(units.hour)))} accelerator-hours:"
        f" {_plain(count)} on average for {duration_text(window_ms)}"
    )
    if account.capability is not None:
        equal = Fraction(sum(account.capability), _reference() * WHOLE_MILLI * window_ms)
        note += f", worth {_plain(equal)} {capability.REFERENCE}"
    unit = words.unit_micro(account)
    if account.unpriced_milli_ms:
        without = printed.hours_text(account.unpriced_milli_ms)
        note += f"; nobody said a price of {without} of them"
    paid = account.told(words.usd(sum(account.in_units(unit)), unit))
    return HeadlineFigure("paid", "Paid", paid + assumed, note)


def _useful(account: Account) -> HeadlineFigure:
    unit, points = words.unit_micro(account), account.basis_points()
    usd, of_dollars = account.in_units(unit), account.dollar_points()
    unknown = points[Bucket.UNKNOWN] + points[Bucket.UNSAVED]
    parts = ["of the accelerator-hours"] if points[Bucket.USEFUL] else []
    if parts and of_dollars is not None:
        share = words.percent(of_dollars[Bucket.USEFUL])
        parts = [f"of the hours; {words.usd(usd[Bucket.USEFUL], unit)}, {share} of the dollars"]
    if is_work_seen(account):
        more = "another " if parts else ""
        parts.append(
            f"{more}{words.percent(unknown)} of the hours worked, and nobody knows yet how well"
        )
    if account.milli_ms[Bucket.NOT_OBSERVED]:
        parts.append(f"{words.percent(points[Bucket.NOT_OBSERVED])} of the hours were not observed")
    value = words.useful(points[Bucket.USEFUL], account)
    return HeadlineFigure("useful", "Useful", value, "; ".join(parts))


def _hourly(account: Account) -> HeadlineFigure:
    paid = ratios.usd_micro_per_paid_hour(account)
    useful = ratios.usd_micro_per_useful_hour(account)
    name = "A useful hour costs"
    if paid is None and account.is_unpriced:
        return HeadlineFigure("hourly", name, "unknown", "nobody said a price")
    if paid is None or useful is None:
        note = "nothing is known to have been useful"
        return HeadlineFigure(
            "hourly", name, "unknown", f"a paid hour {dollars_text(paid or 0)}; {note}"
        )
    note = f"a paid hour costs {dollars_text(paid)}"
    if paid:
        note += f": {words.times(Fraction(useful, paid))} as much for one that counts"
    found = ratios.goodput(account)
    at_most = f"≤{words.NBSP}" if found.is_lower_bound else ""
    cost = f"{at_most}{dollars_text(useful)}{found.assumed}"
    return HeadlineFigure("hourly", name, cost, note)


def _idle_point(account: Account, window_ms: int) -> HeadlineFigure:
    usd_micro = ratios.idle_point_usd_micro_per_year(account, window_ms)
    note = "a year, for each percentage point of this fleet that stands idle"
    cost = account.told(dollars_text(usd_micro, 0))
    return HeadlineFigure("point", "One idle point costs", cost, note)


def _reference() -> int:
    gflops = capability.gflops(capability.REFERENCE)
    assert gflops is not None, "the reference is in the table"
    return gflops


def _plain(count: Fraction) -> str:
    return f"{float(count):,.0f}" if count >= 10 else f"{float(count):,.3g}"
