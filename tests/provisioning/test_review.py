"""What is asked of nodes: launch, return, repair, drain, keep spare."""

import msgspec

from tests.builders import (
    asked,
    beat,
    carry_out,
    contract,
    decide,
    evicted,
    finish,
    fleet,
    job,
    leave,
    lose_device,
    lose_node,
    move_node,
    node,
    pass_ms,
    placed,
    role,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.states import NodeState, Terms
from tidemill.model.world import World

POLICY = Policy(drain_ms=HOUR_MS, scale_up_after_ms=5 * MINUTE_MS, return_idle_after_ms=HOUR_MS)


def empty_handed(*contracts: object) -> World:
    """A World with running contracts and no node yet."""
    world = World()
    fold(world, ev.QueueSet(0, team("a")))
    for c, row in enumerate(contracts):
        fold(world, ev.ContractSigned(0, row))  # type: ignore[arg-type]
        fold(world, ev.ContractStarted(0, c))
    return world


# Launching ------------------------------------------------------------------------------------


def test_everything_reserved_is_launched():
    """All nodes of a reserved contract are asked for at once, and only once."""
    world = empty_handed(contract(gpus=32))
    plan = decide(world)
    assert plan.actions == (ev.AskedLaunch(0, 0, 4),)
    carry_out(world, plan)
    assert decide(world).actions == ()


def test_a_node_that_is_gone_is_replaced():
    """When the provider takes a reserved node, another is asked for."""
    world = fleet(nodes=2)
    move_node(world, 1, NodeState.GONE)
    assert decide(world).actions == (ev.AskedLaunch(0, 0, 1),)


def test_nothing_is_launched_before_the_start():
    """A contract that is only signed launches nothing."""
    assert decide(fleet(contract(start_ms=5))).actions == ()


def test_nodes_on_demand_wait_for_unmet_demand():
    """On-demand nodes are launched for what has waited long enough, and as many as it needs."""
    world = empty_handed(contract(gpus=64, terms=Terms.ON_DEMAND))
    assert decide(world, POLICY).actions == ()
    submit(world, job("large", gpus=16))
    memo = CycleMemo()
    plan = beat(world, POLICY, memo)
    assert asked(plan, ev.AskedLaunch) == []
    assert plan.wake_at_ms == 5 * MINUTE_MS
    pass_ms(world, 5 * MINUTE_MS)
    plan = decide(world, POLICY, memo)
    assert asked(plan, ev.AskedLaunch) == [ev.AskedLaunch(world.now_ms, 0, 2)]


def test_what_never_fits_launches_nothing():
    """Demand that no node would cure is no reason to pay."""
    world = empty_handed(contract(gpus=16, terms=Terms.ON_DEMAND))
    submit(world, job("huge", gpus=64), job("other", kinds=["B200"]))
    beat(world, POLICY)
    pass_ms(world, HOUR_MS)
    assert asked(decide(world, POLICY), ev.AskedLaunch) == []


def test_a_gang_of_two_kinds_launches_the_kind_it_lacks():
    """Each role counts for the kinds it may use."""
    world = fleet(contract("h", gpus=8))
    fold(world, ev.ContractSigned(0, contract("a", gpus=16, kind="A100", terms=Terms.ON_DEMAND)))
    fold(world, ev.ContractStarted(0, 1))
    roles = [role(1, gpus=8, kinds=["H100"]), role(1, gpus=8, kinds=["A100"])]
    submit(world, job("both", roles=roles))
    beat(world, POLICY)
    pass_ms(world, HOUR_MS)
    assert asked(decide(world, POLICY), ev.AskedLaunch) == [ev.AskedLaunch(world.now_ms, 1, 1)]


# Returning ------------------------------------------------------------------------------------


def test_an_idle_node_on_demand_is_given_back():
    """After the policy's time without work, and not before; it takes no work on its way."""
    world = fleet(contract(gpus=16, terms=Terms.ON_DEMAND))
    submit(world, job("runs", gpus=8))
    beat(world, POLICY)
    assert decide(world, POLICY) == ev.Plan((), HOUR_MS)
    pass_ms(world, HOUR_MS)
    assert asked(beat(world, POLICY), ev.AskedReturn) == [ev.AskedReturn(HOUR_MS, 1)]
    assert world.nodes.state[1] == NodeState.DRAINING
    submit(world, job("next", gpus=8))
    assert placed(world, decide(world, POLICY)) == {}


def test_reserved_nodes_are_never_given_back():
    """What is paid for by the calendar stays."""
    world = fleet(nodes=2)
    pass_ms(world, 1000 * HOUR_MS)
    assert asked(decide(world, POLICY), ev.AskedReturn) == []


def test_a_node_in_this_plan_is_not_given_back():
    """An idle node that gets work at the moment it is due stays."""
    world = fleet(contract(gpus=8, terms=Terms.ON_DEMAND))
    pass_ms(world, HOUR_MS)
    submit(world, job("late", gpus=8))
    plan = decide(world, POLICY)
    assert asked(plan, ev.AskedReturn) == []
    assert placed(world, plan) == {"late": {0: 8}}


def test_what_would_be_launched_again_is_not_given_back():
    """Idle nodes stay while demand waits that would launch them again."""
    world = fleet(contract(gpus=16, terms=Terms.ON_DEMAND))
    submit(world, job("left", gpus=4), job("right", gpus=4))
    beat(world, Policy(placement="spread"))
    submit(world, job("whole", gpus=8))
    beat(world, POLICY)
    pass_ms(world, 2 * HOUR_MS)
    finish(world, "right")
    pass_ms(world, 0)
    plan = decide(world, POLICY)
    assert asked(plan, ev.AskedReturn) == []


def test_spares_on_demand_are_kept():
    """A warm pool is idle by design, and no node is asked for two things at once."""
    world = fleet(contract(gpus=16, terms=Terms.ON_DEMAND, spares=1))
    pass_ms(world, 2 * HOUR_MS)
    assert asked(decide(world, POLICY), ev.AskedReturn) == [ev.AskedReturn(world.now_ms, 0)]


# Sick and draining nodes ----------------------------------------------------------------------


def test_a_sick_node_is_repaired_once():
    """An unhealthy node is sent to be repaired, and not again."""
    world = fleet(nodes=2)
    lose_node(world, 1)
    assert beat(world).actions == (ev.AskedRepair(0, 1),)
    assert decide(world).actions == ()


def test_a_node_with_a_broken_device_is_drained_then_repaired():
    """What runs beside the broken device may end in time; then the node is repaired."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=4))
    beat(world)
    lose_device(world, 0, 7)
    plan = beat(world, POLICY)
    assert plan.actions == (ev.AskedDrain(0, 0, ev.Why.DEVICE_LOST, HOUR_MS),)
    finish(world, "runs")
    assert beat(world, POLICY).actions == (ev.AskedRepair(0, 0),)
    move_node(world, 0, NodeState.REPAIRING, NodeState.BOOTING, NodeState.READY)
    assert world.nodes.free_milli[0] == 8000


def test_an_empty_node_with_a_broken_device_is_repaired_without_delay():
    """The plan that drains it asks to be woken at once, and the next one repairs it."""
    world, memo = fleet(nodes=2), CycleMemo()
    decide(world, POLICY, memo)
    lose_device(world, 0, 7)
    plan = beat(world, POLICY, memo)
    assert plan.wake_at_ms == world.now_ms
    pass_ms(world, 1)
    assert beat(world, POLICY, memo).actions == (ev.AskedRepair(1, 0),)


def test_a_drain_without_end_can_be_written_and_read():
    """A policy that lets work stay for ever gives a deadline that the journal takes."""
    world = fleet(nodes=1)
    pass_ms(world, HOUR_MS)
    lose_device(world, 0, 7)
    (drain,) = decide(world, Policy(drain_ms=FOREVER_MS)).actions
    assert msgspec.json.decode(msgspec.json.encode(drain), type=ev.Event) == drain


def test_nothing_is_placed_where_it_would_be_drained_at_once():
    """A job that arrives when a node must be drained goes elsewhere."""
    world = fleet(nodes=1)
    lose_device(world, 0, 7)
    submit(world, job("small"))
    plan = decide(world)
    assert placed(world, plan) == {}
    assert asked(plan, ev.AskedDrain) != []


def test_work_is_evicted_when_the_time_of_a_drain_is_up():
    """At the deadline, not before, whoever still runs is evicted."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8))
    beat(world)
    move_node(world, 0, NodeState.DRAINING, why=ev.Why.MAINTENANCE, deadline_ms=HOUR_MS)
    assert decide(world) == ev.Plan((), HOUR_MS)
    pass_ms(world, HOUR_MS)
    assert evicted(world, decide(world)) == {"runs": ev.Why.DRAINED}


def test_a_gang_on_two_draining_nodes_is_evicted_once():
    """One eviction for one gang, however many of its nodes drain."""
    world = fleet(nodes=2)
    submit(world, job("gang", gpus=16))
    beat(world)
    for n in (0, 1):
        move_node(world, n, NodeState.DRAINING, why=ev.Why.MAINTENANCE, deadline_ms=5)
    pass_ms(world, 5)
    assert decide(world).actions == (ev.AskedEvict(5, 0, 1, ev.Why.DRAINED),)


def test_a_spot_reclaim_is_left_to_the_provider():
    """When the provider takes a node at a deadline of its own, nobody is evicted by us."""
    world = fleet(contract(gpus=8, terms=Terms.SPOT))
    submit(world, job("runs", gpus=8))
    beat(world)
    move_node(world, 0, NodeState.DRAINING, why=ev.Why.SPOT_RECLAIM, deadline_ms=5)
    pass_ms(world, 5)
    assert decide(world).actions == ()


def test_a_node_drained_by_hand_waits_for_the_hand():
    """Empty and drained for no reason we know, it is neither repaired nor returned."""
    world = fleet(nodes=1)
    move_node(world, 0, NodeState.DRAINING)
    assert decide(world) == ev.Plan((), FOREVER_MS)


# Spares ---------------------------------------------------------------------------------------


def spared() -> World:
    """Three nodes, the last of them a spare; two jobs run."""
    world = fleet(contract(gpus=24, spares=1))
    submit(world, job("one", gpus=8), job("two", gpus=8))
    beat(world)
    return world


def test_a_spare_replaces_a_lost_node():
    """When a node in use is lost the spare is put to use, and the next plan places work on it."""
    world = spared()
    lose_node(world, 0)
    assert asked(beat(world), ev.AskedSpare) == [ev.AskedSpare(0, 2, False)]
    assert placed(world, decide(world)) == {"one": {2: 8}}


def test_a_node_that_came_back_becomes_the_spare():
    """Once all are well again, an empty node is kept idle."""
    world = spared()
    lose_node(world, 0)
    beat(world)
    beat(world)
    move_node(world, 0, NodeState.REPAIRING, NodeState.BOOTING, NodeState.READY)
    assert asked(beat(world), ev.AskedSpare) == [ev.AskedSpare(0, 0, True)]


def test_a_broken_node_does_not_become_a_spare():
    """A node is not asked to drain and to be a spare in one plan."""
    world = spared()
    lose_node(world, 0)
    beat(world)
    beat(world)
    move_node(world, 0, NodeState.REPAIRING, NodeState.BOOTING, NodeState.READY)
    lose_device(world, 0, 0)
    plan = decide(world)
    assert asked(plan, ev.AskedSpare) == []
    assert asked(plan, ev.AskedDrain) != []


def test_nobody_is_evicted_while_spares_are_moved():
    """A node is lost and its job may reclaim; the spare comes first, and nobody is stopped."""
    teams = [team("a", floor=8), team("b")]
    world = fleet(contract(gpus=24, spares=1), teams=teams)
    submit(world, job("owed", gpus=8), job("borrows", gpus=8, team="b"))
    beat(world)
    lose_node(world, int(world.placements[0][0].node))
    plan = beat(world)
    assert evicted(world, plan) == {}
    assert plan.wake_at_ms == world.now_ms
    assert list(placed(world, decide(world))) == ["owed"]


def test_a_review_is_made_when_there_is_a_reason():
    """Between changes of supply nothing is looked at again; a fresh memo looks once more."""
    world, memo = fleet(nodes=2), CycleMemo()
    decide(world, POLICY, memo)
    pass_ms(world, 1)
    assert decide(world, POLICY, memo) == decide(world, POLICY) == ev.Plan((), FOREVER_MS)


def test_a_late_node_is_counted():
    """A node that was asked for and is not yet named is not asked for twice."""
    world = empty_handed(contract(gpus=16))
    carry_out(world, decide(world))
    fold(world, ev.NodeAdded(0, node("c-0")))
    assert decide(world).actions == ()
    leave(world)
