"""The arithmetic that kernels and Python share."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tidemill.core import progress, rhythm
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR
from tidemill.scheduling.desk import offering


@given(st.integers(0, 2**46), st.integers(0, 2**46))
@example(2**46 - 1, 2**46 - 1)
@example(MILLI_MS_PER_UNIT_HOUR - 1, MILLI_MS_PER_UNIT_HOUR - 1)
def test_a_price_is_exact(rate: int, ms: int):
    """What accelerators cost is the product over an hour, rounded down, compiled or not."""
    exact = rate * ms // MILLI_MS_PER_UNIT_HOUR
    assert rhythm.usd_micro(rate, ms) == exact
    if exact < 2**63:
        assert offering.usd_micro(rate, ms) == exact


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.lists(st.integers(0, 10**9), min_size=1))
def test_columns_and_single_numbers_are_divided_alike(interval: int, cost: int, runs: list[int]):
    """Checkpoints of many runs at once are those of each, and the parts are the stretch."""
    elapsed = np.array(runs, np.int64)
    many = np.full_like(elapsed, interval), np.full_like(elapsed, cost)
    written = rhythm.checkpoints(elapsed, *many)
    since_ms = rhythm.since_checkpoint_ms(elapsed, *many)
    assert (written * (interval + cost) + since_ms == elapsed).all()
    assert [progress.saved_ms(run, interval, cost) for run in runs] == (written * interval).tolist()
    at_risk = [progress.unsaved_ms(run, interval, cost) for run in runs]
    assert at_risk == np.minimum(since_ms, interval).tolist()
