"""In which currency prices are: the books are in dollars, and nobody converts anything."""

import re
from collections.abc import Iterable

import polars as pl

from tidemill.live.csv import times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.prices.rules import MOST_USD_MICRO
from tidemill.model.errors import SpecError

CONVERT = "the books are in USD and nothing is converted: write dollars, at a rate of your own"
_DOLLARS = frozenset({"", "USD", "US$", "$"})
_SIGNS = {"€": "EUR", "£": "GBP", "¥": "JPY or CNY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY"}
_CODES = (
    "AED|AUD|BRL|CAD|CHF|CLP|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PLN|"
    "RMB|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|ZAR"
)
_OTHERS = rf"(?i)(?:^|[^a-z])({_CODES})(?:$|[^a-z])|[{''.join(_SIGNS)}]|\b[A-TV-Z]{{1,2}}\$"
_BEFORE = r"(?i)^(?:US\$|USD|\$)\s*"
_AFTER = r"(?i)\s*(?:US\$|USD|\$)?\s*(?:(?:/|per)\s*h(?:ou)?r?)?$"
_THOUSANDS = r"^-?\d{1,3}(?:,\d{3})+\.\d+$"


def refuse_others(said: pl.Series, words: str) -> None:
    """Refuse prices in anything but dollars; ``words``: what is said before which they are."""
    named = {one.strip().upper() for one in said.cast(pl.String).unique().to_list() if one}
    if others := named - _DOLLARS:
        raise SpecError(f"{words} {', '.join(sorted(others))}", hint=CONVERT)


def refuse_columns(columns: Iterable[str], names: Iterable[str], path: object) -> None:
    """Refuse a column whose header names a price in another currency; ``names``: of dollars."""
    known = {name.replace("usd", "") for name in names}
    for column in columns:
        if (other := other_in(column)) and _priced(column) in known:
            raise SpecError(f"`{path}` has prices in {other} (column `{column}`)", hint=CONVERT)


def other_in(text: str) -> str:
    """Another currency than dollars that a text names; "": none."""
    found = re.search(_OTHERS, text)
    return "" if found is None else _SIGNS.get(found[0], (found[1] or found[0]).upper())


def bare(text: str) -> str:
    """A price without its dollars: `$2.50`, `2.50 USD` and `2.50 USD/h` are 2.50."""
    return re.sub(_AFTER, "", re.sub(_BEFORE, "", text.strip()))


def dollars(texts: pl.Series, column: str) -> pl.Series:
    """What cells say in dollars per hour; null where nothing is said."""
    given, faults = times.blank(texts), CellFaults()
    other = given.str.contains(_OTHERS)
    faults.check(given, other, column, "a price that is not in USD", CONVERT)
    plain = given.str.replace(_BEFORE, "").str.replace(_AFTER, "")
    is_grouped = plain.str.contains(_THOUSANDS)
    plain = plain.str.replace_all(",", "").zip_with(is_grouped.fill_null(value=False), plain)
    number = times.number_of(plain)
    is_bad = number.is_null() & given.is_not_null()
    faults.check(given, is_bad, column, "which is no number of dollars", "such as 2.50 or $2.50")
    faults.check(given, number < 0, column, "a price below zero", "dollars per hour; 0 is free")
    is_large = number * 1_000_000 > MOST_USD_MICRO
    large = "a price above ten million dollars an hour"
    faults.check(given, is_large, column, large, "dollars per hour, such as 2.50")
    return number


def _priced(column: str) -> str:
    """A header without the currency that it names, as headers are compared."""
    without = re.sub(_OTHERS, " ", column)
    return re.sub(r"[^a-z0-9]", "", without.lower())
