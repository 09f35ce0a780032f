"""An account: how much went into each bucket, in accelerator-time, money and capability.

All three are exact integers. Money is a rational with one denominator (micro-dollars times
``DENOMINATOR``) and is rounded once, when it is shown, by largest remainders: so the lines that are
printed add up to the total that is printed, in any unit.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidemill.ledger.buckets import ABOUT
from tidemill.model.measures import (
    MILLI_MS_PER_UNIT_HOUR,
    ONE_PPM,
    UNKNOWN_DOLLARS,
    share_out,
)
from tidemill.units.capability import REFERENCE_GFLOPS

DENOMINATOR = MILLI_MS_PER_UNIT_HOUR
"""milli·ms × micro-dollars per accelerator-hour, over this, is micro-dollars."""

CENT_MICRO = 10_000


class Account(NamedTuple):
    """Amounts per bucket, indexed by ``Bucket``."""

    milli_ms: tuple[int, ...]
    money: tuple[int, ...]
    """Micro-dollars × DENOMINATOR."""
    capability: tuple[int, ...] | None
    """milli·ms × GFLOP/s; None when some of the time is of a kind of unknown capability."""
    unpriced: tuple[int, ...]
    """milli·ms that nobody said a price of: what they cost is no part of ``money``."""
    assumed_useful: int = 0
    """Of what is useful, the milli·ms that rest on a figure that somebody assumed."""

    @property
    def paid_milli_ms(self) -> int:
        """Everything that was paid for: the sum of all buckets."""
        return sum(self.milli_ms)

    @property
    def paid_money(self) -> int:
        """Everything that was paid, exactly."""
        return sum(self.money)

    @property
    def paid_usd_micro(self) -> int:
        """Everything that was paid, to the nearest micro-dollar."""
        return rounded(self.paid_money, DENOMINATOR)

    @property
    def unpriced_milli_ms(self) -> int:
        """Of everything paid for, the time that nobody said a price of."""
        return sum(self.unpriced)

    @property
    def is_unpriced(self) -> bool:
        """Whether nobody said a price of any of it: then no amount of dollars is known."""
        return 0 < self.paid_milli_ms == self.unpriced_milli_ms

    def has_price(self, bucket: int | None = None) -> bool:
        """Whether the price of some of a bucket (of everything) is known, or nothing is in it."""
        if bucket is None or self.is_unpriced:
            return not self.is_unpriced
        return not self.milli_ms[bucket] or self.unpriced[bucket] < self.milli_ms[bucket]

    def known_usd(self, usd_micro: int, bucket: int | None = None) -> int | None:
        """Dollars of a bucket (of everything): the known part; None where none of it is known."""
        return usd_micro if self.has_price(bucket) else None

    def told(self, text: str, bucket: int | None = None) -> str:
        """Dollars of a bucket (of everything) in words: at least so much where some is unpriced."""
        return self.told_of(text, range(len(self.milli_ms)) if bucket is None else (bucket,))

    def told_of(self, text: str, buckets: Iterable[int]) -> str:
        """The same of some buckets together."""
        some = [*buckets]
        without = sum(self.unpriced[bucket] for bucket in some)
        if self.is_unpriced or (without and without == self.of(some)):
            return UNKNOWN_DOLLARS
        return f"≥ {text}" if without else text

    def priced_milli_ms(self, bucket: int) -> int:
        """The time in a bucket whose price is known."""
        return self.milli_ms[bucket] - self.unpriced[bucket]

    def of(self, buckets: Iterable[int]) -> int:
        """The accelerator-time of some buckets together."""
        return sum(self.milli_ms[bucket] for bucket in buckets)

    def usd_micro(self) -> list[int]:
        """Micro-dollars per bucket; they add up to ``paid_usd_micro``."""
        return shown(self.money, DENOMINATOR)

    def in_units(self, unit_micro: int) -> list[int]:
        """Money per bucket in units of so many micro-dollars; they add up to the total so."""
        return shown(self.money, DENOMINATOR * unit_micro)

    def cents(self) -> list[int]:
        """Cents per bucket; they add up to the total in cents."""
        return self.in_units(CENT_MICRO)

    def hours_in(self, unit: int) -> list[int]:
        """Accelerator-time per bucket in units of so many milli·ms; they add up to the total so."""
        return shown(self.milli_ms, unit)

    def h100_milli_ms(self) -> list[int] | None:
        """Milli·ms of BF16-H100 equivalents per bucket; they add up. None when unknown."""
        return None if self.capability is None else shown(self.capability, REFERENCE_GFLOPS)

    def h100_hours_in(self, unit: int) -> list[int] | None:
        """BF16-H100-equivalent time in units of so many milli·ms, likewise. None when unknown."""
        return None if self.capability is None else shown(self.capability, REFERENCE_GFLOPS * unit)

    def basis_points(self) -> list[int]:
        """Hundredths of a percent of the accelerator-hours paid for, per bucket; up to 10,000."""
        return share_out(10_000 if self.paid_milli_ms else 0, self.milli_ms)

    def dollar_points(self) -> list[int] | None:
        """Hundredths of a percent of the dollars, per bucket; None where nothing cost anything."""
        return share_out(10_000, self.money) if self.paid_money else None

    def dollar_shares_ppm(self) -> list[int] | None:
        """Parts per million of the dollars, per bucket; None where nothing cost anything."""
        return share_out(ONE_PPM, self.money) if self.paid_money else None

    def shares_ppm(self) -> list[int]:
        """Parts per million of the accelerator-hours paid for, per bucket; up to a million."""
        return share_out(ONE_PPM if self.paid_milli_ms else 0, self.milli_ms)


def zero() -> Account:
    """An account with nothing in it."""
    nothing = (0,) * len(ABOUT)
    return Account(nothing, nothing, nothing, nothing)


def added(accounts: Iterable[Account]) -> Account:
    """Accounts of different things as one; its capability is unknown if any of theirs is."""
    columns = list(zip(*accounts, strict=True))
    time, money, capability, unpriced, assumed = ([*column] for column in columns)
    known = None if None in capability else tuple(map(sum, zip(*capability, strict=True)))
    sums = [tuple(map(sum, zip(*column, strict=True))) for column in (time, money, unpriced)]
    return Account(sums[0], sums[1], known, sums[2], sum(assumed))


def divided(total: Account, parts: Iterable[Account], unit_micro: int) -> list[int]:
    """What each part paid, in units of so many micro-dollars; they add up to the total's.

    Of all parts, also those that a table does not show: so one amount is the same in every table.
    """
    paid = sum(total.in_units(unit_micro))
    return shown([part.paid_money for part in parts], DENOMINATOR * unit_micro, paid)


def rounded(amount: int, denominator: int) -> int:
    """The nearest integer to a ratio, halves up."""
    return (2 * amount + denominator) // (2 * denominator)


def shown(
    amounts: Sequence[int],
    denominator: int,
    total: int | None = None,
    at_most: Sequence[int] | None = None,
) -> list[int]:
    """Each amount in whole units, less than one away from it; they add up to the rounded total.

    By the remainders of the amounts themselves: shares of the rounded total would carry its
    rounding into the largest line. Whole amounts, 0 among them, are shown as they are. Amounts may
    be negative. ``total``: as it is printed elsewhere, where that may be one more or less.
    ``at_most``: what each is a part of, as that is shown; a part is not shown larger, if others
    that are not whole can be.
    """
    parts = [amount // denominator for amount in amounts]
    left = (rounded(sum(amounts), denominator) if total is None else total) - sum(parts)
    whole = [part + 1 for part in parts] if at_most is None else at_most
    rest = [amount % denominator for amount in amounts]
    by_remainder = sorted(
        range(len(amounts)), key=lambda i: (not rest[i], parts[i] >= whole[i], -rest[i], i)
    )
    for i in by_remainder[:left]:
        parts[i] += 1
    return parts


def shown_with_parts(
    amounts: Sequence[int], parts: Sequence[int], denominator: int
) -> tuple[list[int], list[int]]:
    """Amounts and a part of each, both as ``shown``; where a part came out larger than its amount,
    that is rounded up too, and another down that was rounded up and has room.
    """
    whole = shown(amounts, denominator)
    within = shown(parts, denominator, at_most=whole)
    for i in [i for i, part in enumerate(within) if part > whole[i]]:
        up = [
            j for j, amount in enumerate(amounts)
            if whole[j] > max(within[j], amount // denominator)
        ]  # fmt: skip
        if up:
            whole[min(up, key=lambda j: amounts[j] % denominator)] -= 1
            whole[i] += 1
    return whole, within
