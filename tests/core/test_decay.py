"""Decay by halves: whole numbers that agree with the real ones, and with those of any size."""

from math import isqrt

from hypothesis import given
from hypothesis import strategies as st

from tidemill.core import decay

ONE = 1 << 62
TIMES = st.integers(0, 10**10)
HALF_LIVES = st.integers(1, 10**10)
PARTS = st.integers(0, ONE)


def exact_factor(elapsed_ms: int, half_life_ms: int) -> int:
    """What is left of one, by products as large as they are."""
    halvings, rest = divmod(elapsed_ms, half_life_ms)
    left, fraction, half = ONE, (rest << 32) // half_life_ms, ONE >> 1
    for bit in range(31, -1, -1):
        half = isqrt(half << 62)
        if fraction >> bit & 1:
            left = left * half >> 62
    return left >> halvings if halvings < 62 else 0


def toward(mean: int, level: int, elapsed_ms: int, half_life_ms: int) -> int:
    """The mean after a level was constant for this long."""
    return int(decay.toward(mean, level, decay.left_after(elapsed_ms, half_life_ms)))


def test_after_one_half_life_half_is_left():
    """And a quarter after two; nothing after very many."""
    assert decay.left_after(0, 1000) == ONE
    assert decay.left_after(1000, 1000) == ONE // 2
    assert decay.left_after(2000, 1000) == ONE // 4
    assert decay.left_after(10**9, 1000) == 0


@given(PARTS, PARTS)
def test_products_are_exact_both_ways(part: int, other: int):
    """Rounded down and up, though the product has up to 124 bits."""
    assert decay.times(part, other, 0) == part * other >> 62
    assert decay.times(part, other, 1) == -(-part * other >> 62)


@given(TIMES, HALF_LIVES)
def test_the_factor_is_two_to_the_minus_time(elapsed_ms: int, half_life_ms: int):
    """The integer factor is the real one to nine places, and exactly that of larger numbers."""
    found = decay.left_after(elapsed_ms, half_life_ms)
    assert abs(found / ONE - 2.0 ** -(elapsed_ms / half_life_ms)) <= 1e-9
    assert found == exact_factor(elapsed_ms, half_life_ms)


@given(st.integers(0, 10**17), st.integers(0, 10**17), TIMES, HALF_LIVES)
def test_a_mean_moves_towards_the_level_and_not_past_it(
    mean: int, level: int, elapsed_ms: int, half_life_ms: int
):
    """After a while the mean lies between what it was and the level, rounded down."""
    found = toward(mean, level, elapsed_ms, half_life_ms)
    assert min(mean, level) <= found <= max(mean, level)
    assert found == level + ((mean - level) * exact_factor(elapsed_ms, half_life_ms) >> 62)


@given(st.integers(0, 10**14), TIMES, TIMES, st.integers(1000, 10**10))
def test_two_steps_are_one(mean: int, first_ms: int, then_ms: int, half_life_ms: int):
    """Settling in between changes the mean by a few parts in a billion at most."""
    once = toward(mean, 5_000, first_ms + then_ms, half_life_ms)
    between = toward(mean, 5_000, first_ms, half_life_ms)
    twice = toward(between, 5_000, then_ms, half_life_ms)
    assert abs(once - twice) <= 2 + mean // 10**8
