"""The compiled search for victims, against the search in Python, on random fleets.

``test_victims`` and ``test_making_room`` hold it to what they know without any search: brute force
over all sets, and that nobody is stopped who could be spared.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import (
    beat,
    cancel,
    contract,
    decide,
    evicted,
    fleet,
    job,
    pass_ms,
    queue,
    racks,
    rights,
    submit,
)
from tidemill.core.progress import CONTINUOUS
from tidemill.model.batch.sheet import Sheet
from tidemill.model.events import AskedEvict, AskedPlace, Why
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job
from tidemill.model.topology import Bond, Tier
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import VICTIM
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.schedule import Cycle

SEEDS = range(70)
TIERS = [Tier("rack", "rack")]


SMALL, LARGE = (0, 1, 1, 1, 1, 2, 2, 2, 3, 8), (2, 3, 4, 4, 8)


def some_job(luck: Random, name: str, sizes: Sequence[int], **more: Any) -> Job:
    """A job of one role: a gang, a few whole GPUs, or a fraction of one."""
    size = luck.choice(sizes)
    gpus, milli = (size, 1000) if size else (1, luck.choice([250, 500]))
    kinds = luck.choice([["H100"], ["A100"], ["H100", "A100"], ["A100", "H100"]])
    bonds = [Bond("rack", is_required=luck.random() < 0.5)] if luck.random() < 0.2 else []
    return job(
        name, gpus=gpus, milli=milli, per_node=min(gpus, 4), kinds=kinds, bonds=bonds,
        cpu_milli=luck.choice([0, 0, 4000]) * min(gpus, 4), team=luck.choice("aaabc"),
        saves_every_ms=luck.choice([CONTINUOUS, 0, 10 * MINUTE_MS, HOUR_MS]),
        restart_ms=luck.choice([0, 5 * MINUTE_MS]), **more,
    )  # fmt: skip


def crowded(luck: Random, policy: Policy) -> World:
    """A busy fleet of two GPU types and three teams, two of them siblings; nobody waits."""
    parent = luck.choice(["", "top"])
    floors = [luck.choice([0, 8, 16]) for _ in range(3)]
    teams = [
        *([queue("top", floor=floors[0] + floors[1])] if parent else []),
        queue("a", floor=floors[0], parent=parent, limit=luck.choice([None, None, 20])),
        queue("b", floor=floors[1], parent=parent, lend=luck.choice([None, 2])),
        queue("c", floor=floors[2]),
    ]
    rates = [luck.choice([1, 2, 4]) * 1_000_000 for _ in range(2)]
    world = fleet(
        contract("one", gpus=24, per_node=4, usd_micro_per_hour=rates[0]),
        contract("two", kind="A100", gpus=16, per_node=4, usd_micro_per_hour=rates[1]),
        teams=teams, node_labels=racks(2, 2, 2, 2, 2), topology=TIERS,
    )  # fmt: skip
    calm = replace(policy, may_preempt=False, may_reclaim=False, backfill="none")
    for i in range(luck.randint(24, 40)):
        is_free = luck.random() < 0.96
        rest: dict[str, Any] = {"priority": luck.randint(-1, 1), "is_preemptible": is_free}
        submit(world, some_job(luck, f"j{i}", SMALL, **rest))
        beat(world, calm)
        pass_ms(world, luck.randint(1, 40 * MINUTE_MS))
    for name in [world.job_names[j] for s in sorted(world.queued) for j in [*world.waiting[s]]]:
        cancel(world, name)
    return world


def in_python(world: World, policy: Policy, s: int) -> list[tuple[int, Why]]:
    """Whom the search in Python stops."""
    found = Cycle(world, policy, Memo(), Sheet()).victims_for(s)
    return [(victim.job, victim.why) for victim in found]


def test_the_compiled_search_stops_whom_python_stops():
    """The same jobs in the same order by the same right, in time and in dollars."""
    several, reclaimed, nobody, compiled, stopped = 0, 0, 0, 0, 0
    for seed in SEEDS:
        luck = Random(seed)
        policy = rights(
            victims=luck.choice(["time", "dollars", "dollars"]), min_run_ms=MINUTE_MS,
            placement=luck.choice(["pack", "spread"]), victims_at_most=luck.choice([3, 64]),
            preempt_gain_ppm=0, may_resize=False, backfill="none",
        )  # fmt: skip
        world = crowded(luck, policy)
        submit(world, some_job(luck, "high", LARGE, priority=2))
        sheet = Sheet()
        desk = Cycle(world, policy, Memo(), sheet)
        desk.begin()
        desk.gather()
        desk.work_off()
        plan = sheet.actions()
        found = [(one.job, one.why) for one in plan if isinstance(one, AskedEvict)]
        if any(isinstance(one, AskedPlace) for one in plan):
            continue
        assert found == in_python(world, policy, next(iter(world.queued))), f"seed {seed}"
        chosen = desk.hunt.victims[desk.hunt.chosen[: len(found)], VICTIM.JOB]
        compiled += bool(found) and chosen.tolist() == [j for j, _ in found]
        stopped += bool(found)
        several += len(found) > 1
        reclaimed += Why.RECLAIMED in dict(found).values()
        nobody += not found
    assert compiled > stopped * 9 // 10, f"Python has searched for {stopped - compiled}"
    assert several > 5, f"{several} stop several"
    assert reclaimed > 3, f"{reclaimed} take back"
    assert nobody > 5, f"{nobody} find nobody"


@pytest.mark.parametrize("rate", [0, 2_000_000])
@pytest.mark.parametrize("is_small_older", [False, True])
def test_of_jobs_of_which_nobody_knows_what_they_lose_the_one_that_may_lose_least_goes(
    rate: int,
    is_small_older: bool,
):
    """Two nodes are taken back: from a gang of two, not an older one of three. Where the smaller
    one has run much longer it may lose more, and stays.
    """
    policy = rights(victims="dollars", min_run_ms=0, may_resize=False, backfill="none")
    world = fleet(
        contract(gpus=40, usd_micro_per_hour=rate), teams=[queue("a"), queue("b", floor=16)]
    )
    for count in (2, 3) if is_small_older else (3, 2):
        submit(world, job(f"of{count}", gpus=8 * count, saves_every_ms=CONTINUOUS))
        beat(world, policy)
        pass_ms(world, HOUR_MS)
    submit(world, job("b0", gpus=16, team="b"))
    victim = "of3" if is_small_older else "of2"
    assert [*evicted(world, decide(world, policy))] == [victim]
    (found,) = in_python(world, policy, next(iter(world.queued)))
    assert world.job_names[found[0]] == victim
