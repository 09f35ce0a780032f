"""Ratios of a ledger: goodput, three utilisations on one axis, and what an idle point costs."""

from fractions import Fraction
from typing import NamedTuple

from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ALLOCATED, OCCUPIED, PRODUCTIVE, Bucket
from tidemill.model.measures import HOUR_MS, MILLI_MS_PER_UNIT_HOUR, YEAR_MS
from tidemill.units import capability


class Goodput(NamedTuple):
    """Scheduling × runtime × program goodput; the product is useful over paid, exactly.

    Program goodput is a lower bound when some productive time has unknown efficiency.
    """

    scheduling: Fraction
    runtime: Fraction
    program: Fraction
    is_lower_bound: bool

    @property
    def overall(self) -> Fraction:
        """Useful over paid."""
        return self.scheduling * self.runtime * self.program


class Utilisation(NamedTuple):
    """The same hardware seen three ways, each over what was paid."""

    allocation: Fraction
    occupancy: Fraction
    mfu: Fraction

    @property
    def misleading(self) -> str:
        """Which of the three hides most here."""
        if self.allocation - self.occupancy > self.occupancy - self.mfu:
            return "allocation: much of what is allocated is idle, starting or restarting"
        return "occupancy: the accelerators are busy, but far below what they could do"


def goodput(account: Account) -> Goodput:
    """How paid time turns into useful time, in three steps."""
    allocated, productive = account.of(ALLOCATED), account.of(PRODUCTIVE)
    unknown = account.of((Bucket.UNKNOWN, Bucket.UNSAVED))
    return Goodput(
        _ratio(allocated, account.paid_milli_ms),
        _ratio(productive, allocated),
        _ratio(account.milli_ms[Bucket.USEFUL], productive),
        unknown > 0,
    )


def utilisation(account: Account) -> Utilisation:
    """Allocation, occupancy and MFU over what was paid."""
    paid = account.paid_milli_ms
    return Utilisation(
        _ratio(account.of(ALLOCATED), paid),
        _ratio(account.of(OCCUPIED), paid),
        _ratio(account.milli_ms[Bucket.USEFUL], paid),
    )


def usd_micro_per_paid_hour(account: Account) -> int | None:
    """The mean price of an accelerator-hour."""
    return _per_hour(account.paid_money, account.paid_milli_ms)


def usd_micro_per_useful_hour(account: Account) -> int | None:
    """What an hour of useful accelerator-time really costs; None when nothing was useful."""
    return _per_hour(account.paid_money, account.milli_ms[Bucket.USEFUL])


def usd_micro_per_useful_h100_hour(account: Account) -> int | None:
    """The same per hour of a useful BF16-H100 equivalent, so that unlike fleets compare."""
    if account.capability is None:
        return None
    useful = account.capability[Bucket.USEFUL]
    return _per_hour(account.paid_money * capability.REFERENCE_GFLOPS, useful)


def idle_point_usd_micro_per_year(account: Account, window_ms: int) -> int:
    """What one percentage point of this fleet, idle for a year, costs."""
    if not window_ms:
        return 0
    return rounded(account.paid_money * YEAR_MS, DENOMINATOR * window_ms * 100)


def mean_accelerators(account: Account, window_ms: int) -> Fraction:
    """How many accelerators were paid for, on average."""
    return _ratio(account.paid_milli_ms * HOUR_MS, MILLI_MS_PER_UNIT_HOUR * window_ms)


def _per_hour(money: int, milli_ms: int) -> int | None:
    if not milli_ms:
        return None
    return rounded(money * MILLI_MS_PER_UNIT_HOUR, DENOMINATOR * milli_ms)


def _ratio(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
