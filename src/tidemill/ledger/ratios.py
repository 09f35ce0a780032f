"""Ratios of a ledger: goodput, three utilisations on one axis, and what an idle point costs.

Time that nobody observed may have been anything: a share of what was paid is then known as two
bounds, and the steps after allocation are ratios of what was observed.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ALLOCATED, OCCUPIED, PRODUCTIVE, Bucket
from tidemill.ledger.unknowns import is_useful_unknown
from tidemill.model.measures import HOUR_MS, MILLI_MS_PER_UNIT_HOUR, YEAR_MS
from tidemill.units import capability


class Goodput(NamedTuple):
    """Scheduling × runtime × program goodput; the product is useful over paid, exactly.

    Program goodput is a lower bound when some productive time has unknown efficiency, and None
    when all of it has. What rests on an assumption says so; a bound is then one if that holds.
    """

    scheduling: Fraction
    """A lower bound where some time was not observed."""
    runtime: Fraction | None
    """An upper bound where nobody said what of their time jobs lost (``is_loss_told``); of what
    was observed, and None where no job was seen and not all was observed."""
    program: Fraction | None
    """Of what was observed."""
    is_lower_bound: bool
    """Of what is useful of all that was paid."""
    is_assumed: bool = False
    """Whether some of what is useful is so by assumption."""
    not_observed: Fraction = Fraction(0)
    """The share of what was paid of which nobody knows what it was."""
    is_program_bound: bool = False
    """Whether the efficiency of some work that was seen is unknown."""
    is_all_assumed: bool = False
    """Whether all of what is useful is so by assumption."""

    @property
    def assumed(self) -> str:
        """What to say after a figure that rests on what is useful; "": nothing is assumed."""
        if not self.is_assumed:
            return ""
        return ", assumed" if self.is_all_assumed else ", partly assumed"

    @property
    def overall(self) -> Fraction | None:
        """Useful over paid."""
        if self.program is None or self.runtime is None:
            return None
        return self.scheduling * self.runtime * self.program

    @property
    def scheduling_most(self) -> Fraction:
        """What scheduling goodput is at most: if jobs held all that was not observed."""
        return self.scheduling + self.not_observed


HEALTHY_ALLOCATION = Fraction(80, 100)
HEALTHY_OCCUPANCY = Fraction(90, 100)
"""Of what is allocated."""
HEALTHY_MFU = Fraction(40, 100)
"""Of what is busy: about what well-tuned training on thousands of accelerators reaches."""


class Misleading(NamedTuple):
    """Which utilisation looks different from what it means here, and why."""

    name: str
    because: str

    @property
    def words(self) -> str:
        """``occupancy: the accelerators are busy, but …``."""
        return f"{self.name}: {self.because}"


class Utilisation(NamedTuple):
    """The same hardware seen three ways, each over the accelerator-hours that were paid for.

    All three are what was seen: of what was not observed, as much more may have been.
    """

    allocation: Fraction
    occupancy: Fraction
    """Not the least, but what it was seen not to exceed, where nobody said when accelerators were
    busy (``is_busy_told``)."""
    mfu: Fraction | None
    """None: unknown, because no job that worked says how well, or nobody saw one."""
    not_observed: Fraction = Fraction(0)

    @property
    def allocation_most(self) -> Fraction:
        """If jobs held all that was not observed."""
        return self.allocation + self.not_observed

    @property
    def occupancy_most(self) -> Fraction:
        """If all that was not observed was busy."""
        return self.occupancy + self.not_observed


def goodput(account: Account) -> Goodput:
    """How paid time turns into useful time, in three steps; the last two are None if unknown."""
    allocated, productive = account.of(ALLOCATED), account.of(PRODUCTIVE)
    unknown = account.of((Bucket.UNKNOWN, Bucket.UNSAVED))
    unseen = account.milli_ms[Bucket.NOT_OBSERVED]
    return Goodput(
        _ratio(allocated, account.paid_milli_ms),
        None if unseen and not allocated else _ratio(productive, allocated),
        None if is_useful_unknown(account) else _ratio(account.milli_ms[Bucket.USEFUL], productive),
        unknown + unseen > 0,
        account.assumed_useful > 0,
        _ratio(unseen, account.paid_milli_ms),
        unknown > 0,
        0 < account.milli_ms[Bucket.USEFUL] <= account.assumed_useful,
    )


def utilisation(account: Account) -> Utilisation:
    """Allocation, occupancy and MFU over the accelerator-hours that were paid for."""
    paid = account.paid_milli_ms
    return Utilisation(
        _ratio(account.of(ALLOCATED), paid),
        _ratio(account.of(OCCUPIED), paid),
        None if is_useful_unknown(account) else _ratio(account.milli_ms[Bucket.USEFUL], paid),
        _ratio(account.milli_ms[Bucket.NOT_OBSERVED], paid),
    )


def between(least: Fraction, most: Fraction, text: Callable[[Fraction], str]) -> str:
    """A share of which two bounds are known: ``40.0% to 60.0%``; a bound that says nothing, zero
    or all, is left out.
    """
    if least == most:
        return text(least)
    if most == 1:
        return f"≥ {text(least)}" if least else "unknown"
    return f"{text(least)} to {text(most)}" if least else f"≤ {text(most)}"


def misleading(account: Account) -> Misleading | None:
    """Which of the three misleads: the step from paid to useful furthest below a healthy one.

    None: all are healthy, or nobody can say. Paid → allocated → busy → model FLOPs, each over the
    one before, against 80, 90 and 40 %. Much that is free makes MFU look like bad programs; idle
    jobs make allocation look like use; slow programs make occupancy look like work. Work of
    unknown efficiency, and what was not observed, is not held against anybody.
    """
    allocated, busy = account.of(ALLOCATED), account.of(OCCUPIED)
    useful, unknown = account.milli_ms[Bucket.USEFUL], account.of((Bucket.UNKNOWN, Bucket.UNSAVED))
    bound = account.milli_ms[Bucket.MEMORY_BOUND]
    steps = [
        (utilisation(account).allocation_most / HEALTHY_ALLOCATION, _free_hides(account)),
        (_ratio(busy, allocated) / HEALTHY_OCCUPANCY, _IDLE_HIDES),
        (
            _ratio(useful + unknown, busy) / HEALTHY_MFU,
            _MEMORY_HIDES if useful + bound >= busy * HEALTHY_MFU else _SLOW_HIDES,
        ),
    ]
    worst, found = min(steps[: 3 if busy else 2 if allocated else 1], key=lambda step: step[0])
    is_shown = found.name != "MFU" or not is_useful_unknown(account)
    return found if worst < 1 and is_shown else None


def _free_hides(account: Account) -> Misleading:
    allocated = account.of(ALLOCATED)
    seen, found = utilisation(account), goodput(account)
    unused = "at least " * (seen.not_observed > 0) + _percent(1 - seen.allocation_most)
    least = "at least " * found.is_program_bound
    of_use = least + _percent(_ratio(account.milli_ms[Bucket.USEFUL], allocated))
    if not allocated:
        return Misleading("MFU", f"{unused} was not allocated: no program is to blame for that")
    return Misleading(
        "MFU", f"{unused} was not allocated; while jobs held accelerators, it was {of_use}"
    )


_IDLE_HIDES = Misleading(
    "allocation",
    "much of what is allocated is idle: starting, restarting, saving, waiting for data or unused",
)
_SLOW_HIDES = Misleading("occupancy", "the accelerators are busy, but far below what they could do")
_MEMORY_HIDES = Misleading(
    "MFU", "much of the work is memory-bound: at the roof of memory bandwidth, not badly written"
)


def usd_micro_per_paid_hour(account: Account) -> int | None:
    """The mean price of an accelerator-hour that has one; None where none has."""
    return _per_hour(account.paid_money, account.paid_milli_ms - account.unpriced_milli_ms)


def usd_micro_per_useful_hour(account: Account) -> int | None:
    """What an hour of useful accelerator-time really costs; None when nothing was useful.

    Where not all has a price: of the part that has one.
    """
    return _per_hour(account.paid_money, account.priced_milli_ms(Bucket.USEFUL))


def usd_micro_per_useful_h100_hour(account: Account) -> int | None:
    """The same per hour of a useful BF16-H100 equivalent, so that unlike fleets compare."""
    if account.capability is None or account.unpriced_milli_ms:
        return None
    useful = account.capability[Bucket.USEFUL]
    return _per_hour(account.paid_money * capability.REFERENCE_GFLOPS, useful)


def idle_point_usd_micro_per_year(account: Account, window_ms: int) -> int | None:
    """What one percentage point of this fleet, idle for a year, costs: what is known of it."""
    if account.is_unpriced:
        return None
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


def _percent(ratio: Fraction) -> str:
    return f"{float(ratio):.1%}"


def _ratio(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
