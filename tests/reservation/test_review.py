"""Contracts are let go in time, so that their end surprises no job."""

from tests.builders import (
    asked,
    beat,
    contract,
    decide,
    fleet,
    job,
    lose_device,
    pass_ms,
    placed,
    state_of,
    submit,
)
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

POLICY = Policy(release_ahead_ms=HOUR_MS)


def test_a_plan_names_the_moment_of_release():
    """Long before the end nothing is drained, but the loop is to wake in time."""
    world = fleet(contract(end_ms=DAY_MS))
    assert decide(world, POLICY) == ev.Plan((), DAY_MS - HOUR_MS)


def test_nodes_drain_before_their_contract_ends():
    """From the release on, nodes take no new work and have until the end to empty."""
    world = fleet(contract("short", end_ms=DAY_MS), contract("long"))
    pass_ms(world, DAY_MS - HOUR_MS)
    plan = beat(world, POLICY)
    assert asked(plan, ev.AskedDrain) == [
        ev.AskedDrain(world.now_ms, 0, ev.Why.CONTRACT_END, DAY_MS)
    ]
    submit(world, job("late", gpus=8))
    assert placed(world, decide(world, POLICY)) == {"late": {1: 8}}


def test_a_node_is_drained_for_one_reason():
    """A node with a broken device that is drained anyway is not asked twice."""
    world = fleet(contract(end_ms=DAY_MS))
    pass_ms(world, DAY_MS - HOUR_MS)
    lose_device(world, 0, 0)
    (drain,) = asked(decide(world, POLICY), ev.AskedDrain)
    assert isinstance(drain, ev.AskedDrain)
    assert drain.why is ev.Why.DEVICE_LOST


def test_a_contract_shorter_than_the_release_is_still_used():
    """A reserved day is launched and used for its first half, whatever the policy's release."""
    brief = contract(gpus=8, end_ms=4 * HOUR_MS)
    world = World()
    fold(world, ev.ContractSigned(0, brief))
    fold(world, ev.ContractStarted(0, 0))
    assert decide(world) == ev.Plan((ev.AskedLaunch(0, 0, 1),), 2 * HOUR_MS)
    world = fleet(brief)
    assert decide(world) == ev.Plan((), 2 * HOUR_MS)
    pass_ms(world, 2 * HOUR_MS)
    assert asked(decide(world), ev.AskedDrain) != []


def test_a_contract_without_end_is_left_alone():
    """For ever is not a deadline."""
    assert decide(fleet(contract()), POLICY) == ev.Plan((), FOREVER_MS)


def test_what_still_runs_at_the_end_is_lost_and_waits_again():
    """The end of a contract takes its nodes; their jobs wait for others."""
    world = fleet(contract("short", end_ms=DAY_MS), contract("long"))
    submit(world, job("runs", gpus=8))
    beat(world, POLICY)
    pass_ms(world, DAY_MS)
    assert fold(world, ev.ContractEnded(DAY_MS, 0)) == [0]
    assert state_of(world, "runs") is JobState.WAITING
    assert world.nodes.state[0] == NodeState.GONE
    assert placed(world, decide(world)) == {"runs": {1: 8}}
