"""Decay by halves: whole numbers that agree with the real ones."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import decay

ONE = 1 << 62
TIMES = st.integers(0, 10**10)
HALF_LIVES = st.integers(1, 10**10)


def test_after_one_half_life_half_is_left():
    """And a quarter after two; nothing after very many."""
    assert decay.factor(0, 1000) == ONE
    assert decay.factor(1000, 1000) == ONE // 2
    assert decay.factor(2000, 1000) == ONE // 4
    assert decay.factor(10**9, 1000) == 0


@given(TIMES, HALF_LIVES)
def test_the_factor_is_two_to_the_minus_time(elapsed_ms: int, half_life_ms: int):
    """The integer factor is the real one to nine places."""
    exact = 2.0 ** -(elapsed_ms / half_life_ms)
    assert abs(decay.factor(elapsed_ms, half_life_ms) / ONE - exact) <= 1e-9


@given(st.integers(0, 10**9), st.integers(0, 10**9), TIMES, HALF_LIVES)
def test_a_mean_moves_towards_the_level_and_not_past_it(
    mean: int, level: int, elapsed_ms: int, half_life_ms: int
):
    """After a while the mean lies between what it was and the level."""
    found = decay.toward(mean, level, elapsed_ms, half_life_ms)
    assert min(mean, level) <= found <= max(mean, level)


@given(st.integers(0, 10**14), TIMES, TIMES, st.integers(1000, 10**10))
def test_two_steps_are_one(mean: int, first_ms: int, then_ms: int, half_life_ms: int):
    """Settling in between changes the mean by a few parts in a billion at most."""
    once = decay.toward(mean, 5_000, first_ms + then_ms, half_life_ms)
    between = decay.toward(mean, 5_000, first_ms, half_life_ms)
    twice = decay.toward(between, 5_000, then_ms, half_life_ms)
    assert abs(once - twice) <= 2 + mean // 10**8
