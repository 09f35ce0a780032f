"""History: how long past jobs ran, as counts over steps that grow with what they count.

A step is half of a doubling: 1, 2, 3, 4, 6, 8, 12 … So a few dozen counts hold run times from a
millisecond to centuries, and a quantile of them is right to a half. Integers only; nothing is ever
forgotten and nothing needs sorting.
"""

STEPS = 88  # up to 2^43 ms, 278 years
SIZES = 16  # up to 2^14 whole accelerators and more


def end_of(step: int) -> int:
    """The first value above a step."""
    exponent, half = divmod(step, 2)
    return 2 << exponent if half or exponent == 0 else 3 << (exponent - 1)
