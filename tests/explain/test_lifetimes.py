"""Histories of run times: each simulated future takes another stretch of them."""

import numpy as np

from tidemill.explain.draws import draws
from tidemill.explain.lifetimes import FEWEST_STRETCHES, LEAST, RunHistory, RunTimes
from tidemill.model.tables import I64

NOBODY = RunTimes(np.zeros(0, np.int64), np.zeros(0, np.int64))


def history(*values: int) -> RunTimes:
    return RunTimes(np.arange(len(values)), np.array(values, np.int64))


def means(alike: RunHistory, futures: int) -> list[float]:
    return [float(np.mean(alike.of(draw).values)) for draw in draws(futures)]


def plain_stretch(values: I64, length: int, share: float) -> float:
    """The mean of the stretch at this rank, every stretch being looked at."""
    last = len(values) - length
    firsts = sorted({*range(0, last, max(1, length // 4)), last})
    found = sorted(float(values[first : first + length].mean()) for first in firsts)
    return found[int(share * len(found))]


def test_futures_take_stretches_from_short_to_long():
    """Where sweeps of short jobs follow long ones, futures are short or long as a whole."""
    sweep, usual = [10] * 100, [1000] * 100
    alike = RunHistory(history(*(sweep + usual) * 3), NOBODY, waiting=100)
    low, middle, high = means(alike, 3)
    assert low < middle < high
    found = means(alike, 11)
    assert found == sorted(found)
    assert (found[0], found[-1]) == (10, 1000)


def test_a_stretch_is_the_one_of_its_rank():
    """The same as looking at every stretch."""
    values = np.random.default_rng(1).lognormal(5, 2, 400).astype(np.int64)
    alike = RunHistory(history(*values.tolist()), NOBODY, waiting=60)
    for futures in (3, 5, 11):
        shares = [(2 * future + 1) / (2 * futures) for future in range(futures)]
        assert means(alike, futures) == [plain_stretch(values, 60, share) for share in shares]


def test_jobs_that_keep_to_one_kind_of_run_time_differ_little():
    """Stretches of what does not change are alike, so that futures nearly agree."""
    values = np.random.default_rng(2).lognormal(5, 1, 3000).astype(np.int64)
    low, _, high = means(RunHistory(history(*values.tolist()), NOBODY, waiting=900), 3)
    assert high / low < 1.2


def test_a_short_history_is_taken_as_a_whole():
    """Of few that ended no part tells anything."""
    values = [10] * 30 + [1000] * (FEWEST_STRETCHES * LEAST - 31)
    alike = RunHistory(history(*values), NOBODY, waiting=100)
    assert all(alike.of(draw) is alike.whole for draw in draws(3))


def test_those_that_still_run_belong_to_their_stretch():
    """A stretch whose jobs mostly still run is a long one, though those that ended are short."""
    ended = RunTimes(np.arange(0, 400, 2), np.full(200, 10))
    going = RunTimes(np.arange(301, 400, 2), np.full(50, 5000))
    alike = RunHistory(ended, going, waiting=50)
    assert alike.of(draws(3)[0]).longest == 10
    assert alike.of(draws(11)[10]).longest == 5000
