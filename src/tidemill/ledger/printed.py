"""In which units the amounts of a ledger are printed: so fine that small ones are not all zero."""

from typing import NamedTuple

from tidemill.ledger.account import DENOMINATOR, Account
from tidemill.model.measures import DOLLAR_MICRO, MILLI_MS_PER_UNIT_HOUR, dollars_text

SMALL_HOURS, TINY_HOURS, SMALL_USD_MICRO = 100, 1, 10 * DOLLAR_MICRO
"""Below these totals hours are in thousandths, in hundred-thousandths (36 ms of one accelerator),
and dollars in hundredths of cents."""


class Units(NamedTuple):
    """Decimals of accelerator-hours and of dollars."""

    hour_places: int
    usd_places: int

    def hours(self, units: int) -> str:
        """Accelerator-hours, given in ``hour``."""
        return f"{units / 10**self.hour_places:,.{self.hour_places}f}"

    def dollars(self, units: int) -> str:
        """Dollars, given in ``usd_micro``."""
        return dollars_text(units * self.usd_micro, self.usd_places)

    @property
    def hour(self) -> int:
        """Milli·ms of the last digit of hours."""
        return MILLI_MS_PER_UNIT_HOUR // 10**self.hour_places

    @property
    def usd_micro(self) -> int:
        """Micro-dollars of the last digit of dollars."""
        return int(10 ** (6 - self.usd_places))

    @property
    def money(self) -> int:
        """The same as ``Account.money``."""
        return DENOMINATOR * self.usd_micro


def units(account: Account) -> Units:
    """The units for the lines of an account."""
    return units_of(account.paid_milli_ms, account.paid_usd_micro)


def units_of(milli_ms: int, usd_micro: int = 0) -> Units:
    """The units for the parts of so much."""
    return Units(_hour_places(milli_ms), 4 if 0 < usd_micro < SMALL_USD_MICRO else 2)


def hours_text(milli_ms: int) -> str:
    """An amount of accelerator-hours in a sentence: two digits of it that say something."""
    return f"{milli_ms / MILLI_MS_PER_UNIT_HOUR:,.{_hour_places(100 * milli_ms)}f}"


def about_usd(usd_micro: int) -> str:
    """Dollars in a sentence: whole ones where it is more than a few, else cents or their parts."""
    usd = abs(usd_micro)
    places = 0 if usd >= SMALL_USD_MICRO else 2 if usd >= DOLLAR_MICRO // 10 else 4
    return dollars_text(usd_micro, places if usd_micro else 0)


def cost_text(usd_micro: int | None, milli_ms: int) -> str:
    """What accelerator-time cost in a sentence; the hours themselves where nobody said a price."""
    return f"{hours_text(milli_ms)} GPU-hours" if usd_micro is None else about_usd(usd_micro)


def _hour_places(milli_ms: int) -> int:
    if not milli_ms or milli_ms >= SMALL_HOURS * MILLI_MS_PER_UNIT_HOUR:
        return 1
    return 3 if milli_ms >= TINY_HOURS * MILLI_MS_PER_UNIT_HOUR else 5
