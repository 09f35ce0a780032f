"""Decay by halves, in whole numbers: what an average becomes when time passes.

``toward(mean, level, …)`` is the exponentially weighted mean of a level that was constant for a
while: it moves towards the level, half of the way in one half-life. Two steps give what one long
step gives, but for the last bits; integers only, so that every machine finds the same.
"""

from math import isqrt

_BITS = 62
_ONE = 1 << _BITS


def _halves() -> tuple[int, ...]:
    """2^-1/2, 2^-1/4, 2^-1/8, … as parts of ``_ONE``: each is the root of the one before."""
    found = [_ONE >> 1]
    while len(found) <= 32:
        found.append(isqrt(found[-1] << _BITS))
    return tuple(found[1:])


_HALVES = _halves()


def factor(elapsed_ms: int, half_life_ms: int) -> int:
    """What is left of one after a while, as parts of 2^62."""
    halvings, rest = divmod(elapsed_ms, half_life_ms)
    if halvings >= _BITS:
        return 0
    left, fraction = _ONE, (rest << 32) // half_life_ms
    for half in _HALVES:
        fraction <<= 1
        if fraction >> 32:
            fraction &= (1 << 32) - 1
            left = left * half >> _BITS
    return left >> halvings


def toward(mean: int, level: int, elapsed_ms: int, half_life_ms: int) -> int:
    """The mean after a level was constant for this long."""
    return level + ((mean - level) * factor(elapsed_ms, half_life_ms) >> _BITS)
