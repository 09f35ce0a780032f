"""Forecasts against what came of them: the band holds the truth about as often as it says.

A small copy of ``python -m bench bands``, which does the same on the demo and on recorded traces.
"""

import random

import numpy as np
import pytest

from tests.builders import contract, job, team
from tests.engine.stage import Arrival, Player, Script
from tidemill.explain import bands, futures
from tidemill.explain.answers import Band
from tidemill.explain.bands import Sides
from tidemill.explain.draws import draws
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, ONE_PPM
from tidemill.model.policy import Policy

POLICY = Policy(patience_ms=2 * HOUR_MS)


def days(seed: int) -> Script:
    """A busy fleet whose owners guess between once and four times the truth; jobs keep coming."""
    luck = random.Random(seed)
    arrivals = []
    for i in range(400):
        work_ms = int(luck.lognormvariate(0, 1) * 60) * MINUTE_MS + MINUTE_MS
        gpus = luck.choice([1, 2, 4, 8, 8, 16, 32])
        row = job(f"j{i}", gpus=gpus, estimate_ms=int(work_ms * luck.uniform(1, 4)))
        arrivals.append(Arrival(luck.randrange(0, 48 * HOUR_MS, MINUTE_MS), row, work_ms))
    return Script([contract(gpus=64)], [team("a")], arrivals, policy=POLICY)


def test_the_band_holds_the_truth():
    """In a busy queue, of the true waits 65 to 95 % lie from p10 to p90, and it is not wide.

    Before, all jobs were short together or long together: 163 of 164 lay in the band.
    """
    player = Player(days(1))
    forecasts: list[tuple[int, int, Band]] = []
    next_ms = 12 * HOUR_MS

    def ask(at_ms: int) -> None:
        nonlocal next_ms
        world = player.world
        queue = sorted(j for s in world.queued for j in world.waiting[s])
        if at_ms < next_ms or not queue:
            return
        next_ms = at_ms + 4 * HOUR_MS
        some = sorted({queue[i * len(queue) // 6] for i in range(6)})
        seen = futures.look(world, POLICY, some)
        forecasts.extend((at_ms, j, seen.bands[j]) for j in some if seen.verdict(j) == "waits")

    player.run(on_beat=ask)
    starts = [(event.job, event.at_ms) for event in player.kept if isinstance(event, ev.AskedPlace)]
    inside, ratios, errors = 0, [], []
    for at_ms, j, band in forecasts:
        real_ms = min(at for i, at in starts if i == j and at > at_ms) - at_ms
        low_ms, high_ms = band.p10_ms or 0, band.p90_ms or futures.HORIZON_MS
        inside += low_ms <= real_ms <= high_ms
        ratios.append(high_ms / max(low_ms, MINUTE_MS))
        errors.append(real_ms / max(1, band.p50_ms or 0))
    assert len(forecasts) >= 50
    assert 0.65 <= inside / len(forecasts) <= 0.95, f"{inside} of {len(forecasts)}"
    assert 4 < np.median(ratios) < 10
    assert 0.7 < np.median(errors) < 1.4, "the middle of the band is about right"


def test_the_draws_of_a_job_are_spread_over_its_futures():
    """Of so many futures one has each part of 0 to 1, in an order that is the job's own."""
    for futures_ in (3, 5, 11):
        parts = {
            tuple(draw.of_job(j) * futures_ // ONE_PPM for draw in draws(futures_))
            for j in range(50)
        }
        assert all(sorted(part) == list(range(futures_)) for part in parts)
        assert len(parts) >= 5, "jobs are not short together or long together"
    node, its_job = ([draw.of_node(1) for draw in draws(5)], [draw.of_job(1) for draw in draws(5)])
    assert node != its_job


def test_a_band_is_as_wide_as_its_futures_and_more():
    """Where futures agree nearly, the error of past forecasts is left; where they do not, both."""
    near = bands.band([59 * MINUTE_MS, HOUR_MS, 61 * MINUTE_MS], DAY_MS)
    far = bands.band([6 * MINUTE_MS, HOUR_MS, 600 * MINUTE_MS], DAY_MS)
    assert near.p50_ms == far.p50_ms == HOUR_MS
    assert [round((ms or 0) / MINUTE_MS) for ms in (near.p10_ms, near.p90_ms)] == [40, 182]
    assert (far.p10_ms or 0) < (near.p10_ms or 0) < (near.p90_ms or 0) < (far.p90_ms or 0)


@pytest.mark.parametrize("middle_ms", [1, 21_000, 33_000, 57_000, 93_000, 153_000])
def test_the_middle_lies_in_its_band(middle_ms):
    """Of short waits too: the middle is on the minute as the band is, and not finer."""
    for early in (0.5, 1.0, 2.0):
        found = bands.band([1, middle_ms, 4 * middle_ms], DAY_MS, Sides(early, 1.0))
        assert MINUTE_MS <= (found.p10_ms or 0) <= (found.p50_ms or 0) <= (found.p90_ms or 0)
        assert (found.p50_ms or 0) % MINUTE_MS == 0


def test_each_side_is_as_wide_as_the_past_says():
    """Twice as far by logarithms on one side, half as far on the other; the middle stays."""
    waits_ms = [59 * MINUTE_MS, HOUR_MS, 61 * MINUTE_MS]
    usual, other = bands.band(waits_ms, DAY_MS), bands.band(waits_ms, DAY_MS, Sides(2.0, 0.5))
    assert (other.p10_ms, other.p50_ms, other.p90_ms) == (26 * MINUTE_MS, HOUR_MS, 105 * MINUTE_MS)
    assert (usual.p10_ms, usual.p50_ms) == (40 * MINUTE_MS, HOUR_MS)


def test_only_a_wait_that_nothing_drawn_decides_has_no_band():
    """When a contract starts is no matter of chance; that three futures agree may be chance."""
    certain = [range(HOUR_MS, 2 * HOUR_MS)]
    assert bands.band([HOUR_MS] * 3, DAY_MS, certain_ms=certain) == Band(HOUR_MS, HOUR_MS, HOUR_MS)
    by_chance = bands.band([HOUR_MS] * 3, DAY_MS)
    assert (by_chance.p10_ms or 0) < HOUR_MS < (by_chance.p90_ms or 0)
    assert bands.band([None] * 3, DAY_MS) == Band(None, None, None)
    is_open = bands.band([HOUR_MS, 20 * HOUR_MS, None], DAY_MS)
    assert (is_open.p50_ms, is_open.p90_ms) == (20 * HOUR_MS, None)
