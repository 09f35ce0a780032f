"""Of priorities their order counts and nothing else, up to the largest that a cluster may say."""

import os
import subprocess
import sys
from hashlib import sha256
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from tests.builders import beat, fleet, job, leave, pass_ms, rights, submit, team
from tests.core.both_ways import SOURCES, digest_of_ledger
from tests.engine.stories import played
from tidemill.compiled import INTERPRETED
from tidemill.model import events as ev
from tidemill.model.orders import ORDERS
from tidemill.model.policy import Policy
from tidemill.model.rows import LEAST_PRIORITY, MOST_PRIORITY

SMALL = (-1, 0, 1, 2)
HUGE = (LEAST_PRIORITY, 1_000_000_000, 2_000_001_000, MOST_PRIORITY)
"""Of Kubernetes: the least, the most of users, and those of its own; of Slurm: the most."""
STORIES = 4


def decided(seed: int, policy: Policy, priorities: tuple[int, ...]) -> list[ev.Event]:
    """What is done for jobs of these priorities that come in waves, of two teams."""
    luck = Random(seed)
    teams = [team("a"), team("b", floor=luck.choice([0, 8, 16]))]
    world, found = fleet(nodes=luck.randint(1, 3), teams=teams), list[ev.Event]()
    for i in range(24):
        asked = job(
            f"j{i}", gpus=luck.choice([1, 2, 8, 8]), team=luck.choice("aab"),
            priority=luck.choice(priorities), estimate_ms=luck.choice([0, 60_000, 600_000]),
        )  # fmt: skip
        submit(world, asked)
        found += beat(world, policy).actions
        leave(world)
        pass_ms(world, luck.choice([0, 1000, 60_000]))
    return found


def digest() -> str:
    """What all that is decided here comes to."""
    told = [decided(seed, rights(order=order), HUGE) for seed in range(STORIES) for order in ORDERS]
    return sha256(msgspec.json.encode(told)).hexdigest()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("victims", ["time", "dollars"])
def test_the_largest_priorities_are_ordered_as_small_ones_are(order: str, victims: str):
    """Placed, stopped and kept back alike; and somebody is stopped by priority."""
    stopped = 0
    for seed in range(STORIES):
        policy = rights(order=order, victims=victims)
        huge = decided(seed, policy, HUGE)
        assert huge == decided(seed, policy, SMALL)
        stopped += sum(isinstance(one, ev.AskedEvict) for one in huge)
    assert stopped > 0


@pytest.mark.skipif(INTERPRETED, reason="both ways are compared once")
def test_the_largest_priorities_are_decided_alike_interpreted():
    """With the compiler switched off the same is done."""
    told = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.scheduling.test_priorities"],
        env=os.environ | {"TIDEMILL_INTERPRETED": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert told.stdout.split() == ["interpreted", digest()]


@pytest.mark.parametrize("source", SOURCES)
def test_the_ledger_of_the_largest_priorities_is_that_of_small_ones(source: str):
    """Who has the first claim on what is free is decided by their order."""
    for seed in range(STORIES):
        events = played(seed, source).kept
        told = {
            one.job.shape.priority for one in events if isinstance(one, ev.JobSubmitted)
        }  # fmt: skip
        assert len(told) <= len(HUGE)
        large = dict(zip(sorted(told), HUGE, strict=False))
        raised = [_raised(one, large) for one in events]
        assert digest_of_ledger(Policy(), raised) == digest_of_ledger(Policy(), events)


def _raised(event: ev.Event, large: dict[int, int]) -> ev.Event:
    if not isinstance(event, ev.JobSubmitted):
        return event
    shape = replace(event.job.shape, priority=large[event.job.shape.priority])
    return replace(event, job=replace(event.job, shape=shape))


if __name__ == "__main__":
    print("compiled" if "llvmlite" in sys.modules else "interpreted")
    print(digest())
