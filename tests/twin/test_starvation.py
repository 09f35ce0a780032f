"""Nobody starves: how long a gang may be passed has a bound, whatever owners guess."""

from random import Random

import msgspec
import pytest

from tests.builders import contract, job, team
from tidemill import api
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.twin.backend import Twin

RUN_MS = 30 * MINUTE_MS  # the truth about every small job
GANG_MS = HOUR_MS  # when the gang comes
HOLD_MS, PATIENCE_MS = 2 * HOUR_MS, HOUR_MS
BOUND_MS = PATIENCE_MS + HOLD_MS + 2 * RUN_MS
"""Until it is first in its order, until nobody may pass it, and until what runs then has ended."""

ORDERS = ("fifo", "priority", "shortest", "smallest", "attained")
BACKFILLS = ("none", "easy", "conservative")
GUESSES = {
    "a hundredth": (0.01,), "a tenth": (0.1,), "the truth": (1.0,), "a hundred times": (100.0,),
    "anything": (0.01, 0.1, 1.0, 10.0, 100.0),
}  # fmt: skip


def wait_of_gang_ms(policy: Policy, factors: tuple[float, ...]) -> int:
    """How long a gang of the whole fleet waits among small jobs that keep it full."""
    luck = Random(f"starve {factors}")
    coming = [
        (i * 7 * MINUTE_MS, job(f"s{i}", gpus=1, estimate_ms=_guess_ms(luck, factors)), RUN_MS)
        for i in range(90)
    ]
    coming.append((GANG_MS, job("gang", gpus=4, estimate_ms=RUN_MS), RUN_MS))
    twin = Twin([contract(gpus=4, per_node=4)], [team("a")], coming)
    world = api.run(twin, policy).world
    gang = world.job_number["gang"]
    return int(world.jobs.placed_ms[gang] - world.jobs.submit_ms[gang])


def _guess_ms(luck: Random, factors: tuple[float, ...]) -> int:
    return max(1, round(RUN_MS * luck.choice(factors)))


@pytest.mark.parametrize("guesses", GUESSES)
@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_gang_is_passed_for_a_bounded_time(order: str, backfill: str, guesses: str):
    """Under every order, every backfill and any guess it starts within patience, hold and a run.

    Before, jobs that guessed a tenth of the truth passed it for as long as there were any.
    """
    policy = msgspec.convert(
        {
            "order": order,
            "backfill": backfill,
            "hold_after_ms": HOLD_MS,
            "patience_ms": PATIENCE_MS,
        },
        Policy,
    )
    assert wait_of_gang_ms(policy, GUESSES[guesses]) <= BOUND_MS


def test_without_the_guard_it_would_starve():
    """The test can fail: with a guard of thirty days the gang waits until nobody comes any more."""
    policy = Policy(order="fifo", hold_after_ms=720 * HOUR_MS)
    assert wait_of_gang_ms(policy, (0.1,)) > 2 * BOUND_MS
