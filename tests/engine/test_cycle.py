"""One cycle: pure, in one climb, and what the layers decide agrees."""

from tests.builders import (
    beat,
    contract,
    decide,
    evicted,
    fall_idle,
    fleet,
    job,
    lose_device,
    lose_node,
    pass_ms,
    placed,
    submit,
    team,
)
from tests.engine.stories import played, replayable, seeds, story
from tidemill.core import snapshot
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold_all
from tidemill.engine.what_if import what_if
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobClass
from tidemill.model.world import World


def test_a_cycle_changes_nothing():
    """Before and after a cycle the World has the same bytes, at every beat of many stories."""
    for seed in seeds(8):
        with replayable(seed):
            world = World()
            for seen, plan in played(seed).beats:
                fold_all(world, seen)
                before = snapshot.dump(world)
                cycle(world, story(seed).policy, CycleMemo())
                assert snapshot.dump(world) == before
                fold_all(world, plan.actions)


def test_equal_worlds_give_equal_plans():
    """The same World, policy and memory give the same plan, however often asked."""
    world = fleet(nodes=2, teams=[team("a", floor=8), team("b")])
    submit(world, job("one", gpus=16, team="b"))
    beat(world)
    submit(world, job("two", gpus=8), job("three", gpus=4, priority=2))
    assert decide(world) == decide(world) == decide(snapshot.copy(world))


def test_a_job_that_is_cancelled_anyway_is_not_evicted():
    """An idle notebook that is due to be cancelled is no victim in the same plan."""
    world = fleet(nodes=1)
    submit(world, job("notebook", gpus=8, kind=JobClass.INTERACTIVE))
    beat(world)
    fall_idle(world, "notebook")
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=8, priority=1))
    plan = decide(world, Policy(cull_idle_after_ms=HOUR_MS))
    assert evicted(world, plan) == {}
    assert isinstance(plan.actions[0], ev.AskedCancel)


def test_the_order_of_a_plan_is_the_order_of_the_climb():
    """Workload, scheduling, provisioning, reservation: each layer's actions follow the last's."""
    world = fleet(contract("first", gpus=16), contract("brief", gpus=8, end_ms=2 * HOUR_MS))
    pass_ms(world, HOUR_MS)
    submit(world, job("one", gpus=8))
    lose_node(world, 0)
    plan = decide(world)
    kinds = [type(action) for action in plan.actions]
    assert kinds == [ev.AskedPlace, ev.AskedRepair, ev.AskedDrain]


def test_placements_on_other_nodes_stand():
    """A drain in the plan takes back only what would be placed on that very node."""
    world = fleet(nodes=3)
    lose_device(world, 0, 0)
    submit(world, job("big", gpus=16))
    assert placed(world, decide(world)) == {"big": {1: 8, 2: 8}}


def test_what_if_leaves_the_world_alone():
    """Imagined events give the plan that would follow; the World has not heard of them."""
    world = fleet(nodes=1)
    before = snapshot.dump(world)
    imagined = what_if(world, [ev.JobSubmitted(5, job("maybe", gpus=8))], Policy())
    assert placed(imagined.world, imagined.plan) == {"maybe": {0: 8}}
    assert snapshot.dump(world) == before
