"""Plans of the whole fleet in one compiled call are those that are made job by job."""

from random import Random

import pytest

from tests.builders import (
    beat,
    contract,
    crash,
    finish,
    fleet,
    job,
    leave,
    move_node,
    pass_ms,
    role,
    submit,
    team,
)
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job
from tidemill.model.states import JobClass, JobState, NodeState
from tidemill.model.world import World
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order import plan

ORDERS = ["shortest", "smallest", "attained"]


def _policy(luck: Random) -> Policy:
    return Policy(
        order=luck.choice(ORDERS), may_reorder=True, placement="pack", backfill="none",
        patience_ms=luck.choice([FOREVER_MS // 4, 2 * HOUR_MS]),
        min_run_ms=luck.choice([0, 10 * MINUTE_MS]), evictions_at_most=luck.choice([1, 5]),
        unknown_run_ms=HOUR_MS, attained_steps_ms=(10 * MINUTE_MS, HOUR_MS),
        estimates=luck.choice(["given", "history"]),
    )  # fmt: skip


def _job(luck: Random, i: int) -> Job:
    kinds = luck.choice([(), (), ("H100",), ("A100", "H100"), ("B200",)])
    is_service, gpus = luck.random() < 0.1, luck.choice([1, 1, 2, 4, 8, 16, 24])
    return job(
        f"j{i}", gpus=gpus, milli=luck.choice([500, 1000]) if gpus == 1 else 1000, kinds=kinds,
        cpu_milli=luck.choice([0, 3]), kind=JobClass.INFERENCE if is_service else JobClass.TRAINING,
        is_preemptible=luck.random() < 0.9, estimate_ms=luck.choice([0, 1, 2, 7]) * MINUTE_MS * 10,
        startup_ms=luck.choice([0, 0, MINUTE_MS]), saves_every_ms=luck.choice([0, 1, MINUTE_MS]),
    )  # fmt: skip


def _happen(luck: Random, world: World, i: int) -> None:
    """Some come, one ends or dies, those who were asked to leave do."""
    leave(world)
    submit(world, *(_job(luck, 3 * i + n) for n in range(luck.randrange(3))))
    running = [j for j in world.placements if world.jobs.state[j] == JobState.RUNNING]
    for j in luck.sample(running, min(len(running), luck.randrange(3))):
        ends = finish if luck.random() < 0.5 else crash
        ends(world, world.job_names[j])
    n = luck.randrange(world.node_count)
    if luck.random() < 0.1 and world.nodes.state[n] == NodeState.READY:
        move_node(world, n, NodeState.DRAINING)
    pass_ms(world, luck.choice([1, MINUTE_MS, HOUR_MS]))


@pytest.mark.parametrize("seed", range(12))
def test_all_at_once_are_who_are_in_one_by_one(seed: int):
    """Who is in and where, who is not, what is short, when to ask again, who may be stopped."""
    luck = Random(seed)
    policy, compared = _policy(luck), 0
    world = fleet(
        contract("c", gpus=32, cpu_milli=20), contract("d", gpus=16, kind="A100", cpu_milli=20)
    )
    for i in range(25):
        _happen(luck, world, i)
        memo = Memo()
        at_once = plan.call_at_once(world, policy, memo)
        one_by_one = plan.call_one_by_one(world, policy, memo)
        if at_once is not None:
            compared += 1
            (inside, outside, shortages), *rest = at_once
            assert [*inside] == [*one_by_one[0].inside]
            assert inside[:1] == [*inside][:1]
            assert (outside, shortages) == one_by_one[0][1:]
            assert rest == [*one_by_one[1:]]
            assert plan.newcomers(world, at_once[0]) == plan.newcomers(world, one_by_one[0])
        beat(world, policy)
    assert compared > 10


def test_it_is_left_to_python_where_more_than_nodes_decides():
    """A maximum quota, or a gang of two roles: whoever calls asks one by one."""
    policy = Policy(order="shortest", may_reorder=True, estimates="given")
    limited = fleet(teams=[team("a", limit=8)])
    submit(limited, job())
    assert plan.call_at_once(limited, policy, Memo()) is None
    world = fleet()
    submit(world, job("gang", roles=[role(1, gpus=1), role(1, name="head", gpus=1)]))
    assert plan.call_at_once(world, policy, Memo()) is None
