"""Amounts as loops give them, as the integers that records hold."""

from tidemill.track.format import MOST


def whole(amount: object, most: int = MOST, scale: float = 1) -> int | None:
    """An amount as an integer; None where it is none, negative, or larger than ``most``.

    A tensor is none: to read it would wait for the device.
    """
    if type(amount) is int and scale == 1:
        return amount if 0 <= amount <= most else None
    try:
        value: object = round(amount * scale)  # type: ignore[operator]
    except (ArithmeticError, TypeError, ValueError, RuntimeError):
        return None
    return value if isinstance(value, int) and 0 <= value <= most else None
