"""The words of a spec file: quantities as people write them, kept as the integers we count in.

Each is an integer that remembers only its unit: ``Span`` reads ``"14d"`` into milliseconds,
``Dollars`` reads ``2.49`` into micro-dollars. ``read`` is what msgspec asks for such a type; what
it raises becomes an error that names the field.
"""

from collections.abc import Callable
from datetime import date
from math import isfinite
from typing import Any

from tidemill.model.measures import DOLLAR_MICRO, ONE_PPM, WHOLE_MILLI, duration_ms

LARGEST = 10_000_000  # of any quantity that a file may give as a number


class Span(int):
    """Milliseconds, written as ``"14d"`` or ``"1h30m"``."""

    __slots__ = ()


class Moment(str):
    """A date and time in ISO form, written in quotes or as TOML's own date."""

    __slots__ = ()


class Dollars(int):
    """Micro-dollars, written as dollars."""

    __slots__ = ()


class Cores(int):
    """Thousandths of a processor, written as processors."""

    __slots__ = ()


class Gib(int):
    """MiB, written as GiB."""

    __slots__ = ()


class Fraction(int):
    """Parts per million, written as a fraction between 0 and 1."""

    __slots__ = ()


def read(kind: type[Any], value: object) -> object:
    """Read one value as this word; TypeError or ValueError says what was asked for."""
    return _READERS[kind](value)


def span(value: object) -> Span:
    """A duration as people write it; 0 needs no unit."""
    if value == 0 and type(value) is int:
        return Span(0)
    if not isinstance(value, str):
        raise TypeError('expected a duration in quotes, such as "14d" or "1h30m"')
    try:
        return Span(duration_ms(value))
    except ValueError:
        raise ValueError(
            'expected a duration from "0s" to 100 years, such as "14d" or "1h30m"'
        ) from None


def _moment(value: object) -> Moment:
    if isinstance(value, date):  # of TOML; a datetime is one too
        return Moment(value.isoformat())
    if not isinstance(value, str):
        raise TypeError('expected a date and time, such as "2026-03-02T00:00:00+01:00"')
    return Moment(value)


def _number(value: object, what: str, largest: float = LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected {what} as a number")
    if not isfinite(value) or not 0 <= value <= largest:
        raise ValueError(f"expected {what} between 0 and {largest:,}")
    return float(value)


def _part(value: object) -> Fraction:
    return Fraction(round(_number(value, "a share", 1) * ONE_PPM))


_READERS: dict[type[Any], Callable[[object], object]] = {
    Span: span,
    Fraction: _part,
    Moment: _moment,
    Dollars: lambda value: Dollars(round(_number(value, "dollars") * DOLLAR_MICRO)),
    Cores: lambda value: Cores(round(_number(value, "processors") * WHOLE_MILLI)),
    Gib: lambda value: Gib(round(_number(value, "GiB") * 1024)),
}
