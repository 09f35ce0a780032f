"""Numbers as people read them on the page. Integers in, text out; nothing is rounded twice."""

from fractions import Fraction

from tidemill.ledger import printed, ratios
from tidemill.ledger.account import CENT_MICRO, Account, rounded
from tidemill.model.measures import DOLLAR_MICRO, WHOLE_MILLI, dollars_text
from tidemill.model.reasons import Layer

NBSP = "\u00a0"
UNKNOWN = "unknown"
WHOLE_POINTS = 10_000  # hundredths of a percent


WHOLE_FROM_MICRO = 10_000 * DOLLAR_MICRO
"""From this total on the page has whole dollars: cents of a modelled share are noise."""


_PLACES = {DOLLAR_MICRO: 0, CENT_MICRO: 2, CENT_MICRO // 100: 4}


def unit_micro(account: Account) -> int:
    """What the page counts an account's money in: cents, whole dollars where it is much, and
    hundredths of cents where it is little.
    """
    if account.paid_usd_micro >= WHOLE_FROM_MICRO:
        return DOLLAR_MICRO
    return printed.units(account).usd_micro


def usd(amount: int, unit: int) -> str:
    """An amount in units of cents or dollars: ``$1,234.56``, ``$12,346``."""
    return dollars_text(amount * unit, _PLACES[unit])


def cents(amount: int) -> str:
    """Cents as dollars: ``$1,234.56``."""
    return usd(amount, CENT_MICRO)


def hours(tenths: int) -> str:
    """Tenths of accelerator-hours: ``1,234.5``."""
    return f"{tenths // 10:,}.{tenths % 10}"


def percent(basis_points: int) -> str:
    """Hundredths of a percent: ``47.04 %``."""
    return f"{basis_points // 100}.{basis_points % 100:02d}{NBSP}%"


def share(ratio: Fraction) -> str:
    """A ratio as a percentage, rounded half up."""
    return percent(points(ratio))


def points(ratio: Fraction) -> int:
    """A ratio in hundredths of a percent, rounded half up."""
    return rounded(ratio.numerator * 10_000, ratio.denominator)


def useful(basis_points: int, account: Account) -> str:
    """A useful share of an account: at least that, where more may yet turn out; unknown, where
    nothing has so far; assumed, where it rests on an assumption.
    """
    found = ratios.goodput(account)
    if found.is_lower_bound and not basis_points:
        return UNKNOWN
    least = f"≥{NBSP}" if found.is_lower_bound else ""
    return f"{least}{percent(basis_points)}{found.assumed}"


def useful_part(ratio: Fraction | None, found: ratios.Goodput) -> str:
    """The same of the work that was seen: its program goodput."""
    if not ratio and found.is_lower_bound:
        return UNKNOWN
    least = f"≥{NBSP}" if found.is_program_bound else ""
    return f"{least}{share(ratio or Fraction(0))}{found.assumed}"


def at_most(basis_points: int, is_upper_bound: bool) -> str:
    """A share; at most that where not all that is missing is known; unknown where nothing is."""
    if not is_upper_bound:
        return percent(basis_points)
    return f"≤{NBSP}{percent(basis_points)}" if basis_points < WHOLE_POINTS else UNKNOWN


def times(ratio: Fraction) -> str:
    """How many times as much: ``15.9 ×``."""
    tenths = rounded(ratio.numerator * 10, ratio.denominator)
    return f"{tenths // 10:,}.{tenths % 10}{NBSP}×"


def accelerators(milli: int) -> str:
    """Milli-units as a plain number: ``48``, ``0.5``, ``1,024``."""
    whole, rest = divmod(milli, WHOLE_MILLI)
    return f"{whole:,}" + (f".{rest:03d}".rstrip("0") if rest else "")


def owner(layer: Layer) -> str:
    """A layer with its number: ``L3 scheduling``."""
    return f"L{int(layer)} {layer.name.lower()}"
