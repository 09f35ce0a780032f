"""Forecasts against what came of them: the band holds the truth about as often as it says."""

import random

from tests.builders import contract, job, team
from tests.engine.stage import Arrival, Player, Script
from tidemill import explain
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy

POLICY = Policy(patience_ms=2 * HOUR_MS)


def week(seed: int) -> Script:
    """A busy fleet whose owners guess between once and four times the truth."""
    luck = random.Random(seed)
    arrivals = []
    for i in range(400):
        work_ms = int(luck.lognormvariate(0, 1) * 60) * MINUTE_MS + MINUTE_MS
        gpus = luck.choice([1, 2, 4, 8, 8, 16, 32])
        row = job(f"j{i}", gpus=gpus, estimate_ms=int(work_ms * luck.uniform(1, 4)))
        arrivals.append(Arrival(luck.randrange(0, 48 * HOUR_MS, MINUTE_MS), row, work_ms))
    return Script([contract(gpus=64)], [team("a")], arrivals, policy=POLICY)


def test_the_band_holds_the_truth():
    """Of some dozens of forecasts in a busy queue, most of the true starts lie within the band."""
    player = Player(week(1))
    forecasts: list[tuple[int, int, explain.answers.Forecast]] = []
    next_ms = 12 * HOUR_MS

    def ask(at_ms: int) -> None:
        nonlocal next_ms
        world = player.world
        queue = sorted(j for s in world.queued for j in world.waiting[s])
        if at_ms < next_ms or not queue:
            return
        next_ms = at_ms + 2 * HOUR_MS
        j = queue[len(queue) // 2]
        forecasts.append((at_ms, j, explain.eta(world, POLICY, j)))

    player.run(on_beat=ask)
    starts = {(event.job, event.at_ms) for event in player.kept if isinstance(event, ev.AskedPlace)}
    inside = 0
    errors = []
    for at_ms, j, found in forecasts:
        assert found.wait is not None
        real_ms = min(at for i, at in starts if i == j and at > at_ms) - at_ms
        low_ms, high_ms = found.wait.p10_ms, found.wait.p90_ms
        assert low_ms is not None
        errors.append(real_ms / max(1, found.wait.p50_ms or 0))
        inside += low_ms <= real_ms and (high_ms is None or real_ms <= high_ms)
    assert len(forecasts) >= 20
    assert inside / len(forecasts) >= 0.8, f"{inside} of {len(forecasts)}"
    assert 0.7 < sorted(errors)[len(errors) // 2] < 1.4, "the middle of the band is about right"
