"""History: how long past jobs ran, as counts over steps that grow with what they count.

A step is half of a doubling: 1, 2, 3, 4, 6, 8, 12 … So a few dozen counts hold run times from a
millisecond to centuries, and a quantile of them is right to a half. Integers only; nothing is ever
forgotten and nothing needs sorting.
"""

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64

STEPS = 88  # up to 2^43 ms, 278 years
SIZES = 16  # up to 2^14 whole accelerators and more


def step_of(value: int) -> int:
    """The step into which a positive value falls."""
    if value < 2:
        return 0
    exponent = value.bit_length() - 1
    return min(STEPS - 1, 2 * exponent + (value >> (exponent - 1) & 1))


def end_of(step: int) -> int:
    """The first value above a step."""
    exponent, half = divmod(step, 2)
    return 2 << exponent if half or exponent == 0 else 3 << (exponent - 1)


def size_of(milli: int) -> int:
    """The class of a gang's size: doublings of whole accelerators, rounded up."""
    return min(SIZES - 1, (-(-milli // 1000)).bit_length())


def quantile(counts: I64, share_ppm: int, past: int = 0) -> int | None:
    """The end of the step that this share of the values above ``past`` does not exceed."""
    first = step_of(past) + 1 if past else 0
    above = counts[first:]
    total = int(above.sum())
    if not total:
        return None
    least = max(1, -(-total * share_ppm // ONE_PPM))
    return end_of(first + int(np.searchsorted(np.cumsum(above), least)))
