"""Plans of the whole fleet in one compiled call are those that are made job by job."""

from collections import Counter
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
from tidemill.model.batch.sheet import Sheet
from tidemill.model.events import Action, AskedEvict, AskedPlace, Why
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job
from tidemill.model.states import JobClass, JobState, NodeState
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import NOTE
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order import apply, at_once
from tidemill.scheduling.schedule import Cycle

ORDERS = ["shortest", "smallest", "attained"]
PLACEMENTS = ["pack", "pack", "tide", "spread", "best-fit"]


def _policy(luck: Random) -> Policy:
    return Policy(
        order=luck.choice(ORDERS), may_reorder=True, placement=luck.choice(PLACEMENTS),
        backfill="none",
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


def _at_once(world: World, policy: Policy, memo: Memo) -> tuple[Action, ...] | None:
    """A plan of the whole fleet in one call, and none where more than nodes decides."""
    sheet = Sheet()
    memo.lines(policy).begin(world)
    is_made = at_once.plan(Cycle(world, policy, memo, sheet))
    return sheet.actions() if is_made else None


@pytest.mark.parametrize("seed", range(24))
def test_a_plan_at_once_is_the_plan_that_is_made_job_by_job(seed: int):
    """Who is placed and where, who leaves for whom, why others wait, when to ask again."""
    luck = Random(seed)
    policy, compared = _policy(luck), 0
    world = fleet(
        contract("c", gpus=32, cpu_milli=20), contract("d", gpus=16, kind="A100", cpu_milli=20)
    )
    kept = Memo()
    for i in range(25):
        _happen(luck, world, i)
        if not world.queued:
            continue
        oracle = Memo()
        oracle.lines(policy).begin(world)
        expected = tuple(apply.reorder(world, policy, oracle, frozenset()))
        found = _at_once(world, policy, kept)
        if found is not None:
            compared += 1
            assert found == expected
            assert found == _at_once(world, policy, kept), "asked again at the same moment"
            again_ms = kept.notes[NOTE.FLEET_AGAIN_MS]
            assert again_ms == oracle.notes[NOTE.FLEET_AGAIN_MS]
            assert at_once.of(kept, policy).next_step_ms == apply.next_step_ms(world, policy)
        beat(world, policy)
    assert compared > 10


def _costless(luck: Random, world: World, i: int) -> None:
    """Whole GPUs of one type, saved at every moment: whoever is put off loses nothing by it."""
    leave(world)
    sizes = [luck.choice([1, 1, 2, 4, 8]) for _ in range(luck.choice([0, 1, 2, 4]))]
    asked = [(gpus, luck.choice([1, 2, 5, 20, 60]) * MINUTE_MS) for gpus in sizes]
    submit(
        world,
        *(job(f"j{i}.{n}", gpus=gpus, estimate_ms=ms) for n, (gpus, ms) in enumerate(asked)),
    )
    running = [j for j in world.placements if world.jobs.state[j] == JobState.RUNNING]
    for j in luck.sample(running, min(len(running), luck.randrange(3))):
        finish(world, world.job_names[j])
    pass_ms(world, luck.choice([0, MINUTE_MS]))


def test_who_is_put_off_and_who_is_repacked_are_the_same():
    """Jobs that lose nothing move for newcomers that only the plan's own places have room for."""
    stopped = Counter[Why]()
    for seed in range(6):
        luck, kept = Random(f"costless {seed}"), Memo()
        policy = Policy(order=luck.choice(ORDERS[:2]), may_reorder=True, placement="spread")
        world = fleet(contract("c", gpus=24))
        for i in range(40):
            _costless(luck, world, i)
            if world.queued:
                oracle = Memo()
                oracle.lines(policy).begin(world)
                expected = tuple(apply.reorder(world, policy, oracle, frozenset()))
                assert _at_once(world, policy, kept) == expected
                stopped.update(a.why for a in expected if isinstance(a, AskedEvict))
            beat(world, policy)
    assert min(stopped[Why.REORDERED], stopped[Why.REPACKED]) > 3, stopped


def test_it_is_left_to_python_where_more_than_nodes_decides():
    """A maximum quota, or a gang of two roles: it is planned job by job."""
    policy = Policy(order="shortest", may_reorder=True, estimates="given")
    limited = fleet(teams=[team("a", limit=8)])
    submit(limited, job())
    assert _at_once(limited, policy, Memo()) is None
    world = fleet()
    submit(world, job("gang", roles=[role(1, gpus=1), role(1, name="head", gpus=1)]))
    assert _at_once(world, policy, Memo()) is None


def test_columns_that_are_too_short_are_made_longer(monkeypatch: pytest.MonkeyPatch):
    """Parts of devices, so that there are more seats than devices; more jobs than rows."""
    monkeypatch.setattr(at_once, "ROWS", 1)
    policy, oracle = Policy(order="smallest", may_reorder=True, placement="pack"), Memo()
    world = fleet(contract("c", gpus=16))
    submit(world, *(job(f"j{i}", gpus=1, milli=100, estimate_ms=HOUR_MS) for i in range(170)))
    found = _at_once(world, policy, Memo())
    oracle.lines(policy).begin(world)
    assert found == tuple(apply.reorder(world, policy, oracle, frozenset()))
    assert found is not None
    assert sum(isinstance(action, AskedPlace) for action in found) == 160
