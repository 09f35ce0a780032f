"""Amounts as loops give them, as the integers that records hold."""

from numbers import Integral, Real

from tidemill.track.format import MOST


def whole(amount: object, most: int = MOST, scale: float = 1) -> int | None:
    """An amount as an integer; None where it is none, negative, or larger than ``most``.

    Numbers of Python and numpy are amounts. A tensor is none: to read it would wait for the device.
    """
    if type(amount) is int and scale == 1:
        value = amount  # nearly always; an abstract class takes a microsecond to ask
    elif isinstance(amount, Integral) and scale == 1:
        value = int(amount)
    elif isinstance(amount, float | Real):
        try:
            value = round(float(amount) * scale)
        except (ArithmeticError, ValueError):  # infinite, or no number
            return None
    else:
        return None
    return value if 0 <= value <= most else None
