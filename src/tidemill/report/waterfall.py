"""The leak waterfall: from paid, one bar per leak, down to useful.

Bars are shares of paid accelerator-hours, so that the last one is the answer; the dollars beside
them are each contract's own. Useful work that nobody measured is unknown, not $0. Bars are laid
out in percent of the drawing's width and in pixels of its height: text keeps its size on every
screen, and nothing needs to be scaled.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, Bucket, Stage
from tidemill.ledger.unknowns import is_useful_unknown
from tidemill.report import stages, words


class Layout(NamedTuple):
    """How high rows are; labels stand beside the bars, or above them where there is no room."""

    row_px: int
    bar_px: int
    gap_px: int
    bar_offset_px: int
    text_offset_px: int


WIDE = Layout(row_px=25, bar_px=17, gap_px=8, bar_offset_px=4, text_offset_px=17)
NARROW = Layout(row_px=39, bar_px=14, gap_px=8, bar_offset_px=19, text_offset_px=13)


class Bar(NamedTuple):
    """One row: a leak, or a sum (paid, Ready, allocated). Shares are in percent of the width."""

    key: str
    title: str
    style: str
    is_sum: bool
    left: str
    width: str
    usd: str
    percent: str
    text_y: int
    bar_y: int
    link_x: str
    link_y: int
    """Where the thin line to the next row leaves; a sum's leaves at its right end."""


class Waterfall(NamedTuple):
    """Rows from paid to useful, and how high they are together."""

    bars: tuple[Bar, ...]
    bar_px: int
    height_px: int
    row_px: int


class _Row(NamedTuple):
    key: str
    title: str
    style: str
    is_sum: bool
    start: int
    amount: int
    usd: str
    percent: str
    is_first: bool
    """Of its stage: a little space above."""


def waterfall(account: Account, layout: Layout) -> Waterfall:
    """Lay the rows of an account out."""
    paid, y = account.paid_milli_ms, 0
    bars: list[Bar] = []
    for row in _rows(account):
        y += layout.gap_px if row.is_first and bars else 0
        bars.append(_bar(row, paid, y, layout))
        y += layout.row_px
    return Waterfall(tuple(bars), layout.bar_px, y, layout.row_px)


def _rows(account: Account) -> list[_Row]:
    """Paid, then each stage's leaks; a milestone where something leaked since the last one."""
    left = account.paid_milli_ms
    unit, points = words.unit_micro(account), account.basis_points()
    money, is_unknown = account.in_units(unit), is_useful_unknown(account)
    rest_usd, rest_points = sum(money), sum(points)

    rest = [*ABOUT]

    def told(amount: int, share: int, buckets: Iterable[int]) -> tuple[str, str]:
        return account.told_of(words.usd(amount, unit), buckets), words.percent(share)

    def summed(key: str, title: str) -> _Row:
        said = told(rest_usd, rest_points, rest)
        return _Row(key, title, "s-sum", True, 0, left, *said, True)

    rows = [summed("paid", "paid")]
    for group in Stage:
        if group in stages.MILESTONES and not rows[-1].is_sum:
            name = stages.MILESTONES[group]
            rows.append(summed(name.lower(), name))
        inside = [b for b in stages.members(group) if _is_shown(account, b)]
        for bucket in inside:
            amount = account.milli_ms[bucket]
            left -= amount
            rest_usd -= money[bucket]
            rest_points -= points[bucket]
            rest.remove(bucket)
            about = ABOUT[bucket]
            said = told(money[bucket], points[bucket], (bucket,))
            if bucket == Bucket.USEFUL and is_unknown:
                said = ("", words.UNKNOWN)
            rows.append(
                _Row(about.key, about.title, stages.style(group), False, left, amount, *said,
                     bucket is inside[0])
            )  # fmt: skip
    assert left == 0, "the buckets are what was paid"
    return rows


def _is_shown(account: Account, bucket: int) -> bool:
    return account.milli_ms[bucket] > 0 or bucket == Bucket.USEFUL


def _bar(row: _Row, paid: int, y: int, layout: Layout) -> Bar:
    end = row.start + row.amount
    bar_y = y + layout.bar_offset_px
    return Bar(
        row.key, row.title, row.style, row.is_sum,
        of_width(row.start, paid), of_width(row.amount, paid),
        row.usd, row.percent,
        y + layout.text_offset_px, bar_y,
        of_width(end if row.is_sum else row.start, paid), bar_y + layout.bar_px,
    )  # fmt: skip


def of_width(part: int, whole: int) -> str:
    """A share as an SVG percentage, to a ten-thousandth of the width."""
    return f"{part * 100 / whole:.4f}%" if whole else "0%"
