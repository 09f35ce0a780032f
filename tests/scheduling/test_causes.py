"""Why something waits: every cause can be met, and each is said when it is the one."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import (
    NODE,
    RACK,
    asked,
    beat,
    cause_of,
    contract,
    decide,
    finish,
    fleet,
    job,
    lose_node,
    move_node,
    node,
    pass_ms,
    place,
    queue,
    racks,
    role,
    submit,
    team,
)
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece, Queue
from tidemill.model.states import NodeState, Terms
from tidemill.model.topology import Bond
from tidemill.model.world import World

WAITING = "waiting"
SPREAD = Policy(
    placement="spread", patience_ms=HOUR_MS, backfill="none", min_run_ms=0, preempt_gain_ppm=0
)
FULL_HOST: dict[str, Any] = {"cpu_milli": 8_000, "memory_mib": 64}


def nobody_looked() -> World:
    world = fleet()
    submit(world, job(WAITING))
    return world


def no_contract_of_the_kind() -> World:
    return asking(fleet(), job(WAITING, kinds=["B200"]))


def only_a_contract_that_starts_later() -> World:
    return asking(fleet(contract(start_ms=HOUR_MS)), job(WAITING))


def on_demand_not_launched() -> World:
    world = fleet(contract(terms=Terms.ON_DEMAND))
    move_node(world, 0, NodeState.GONE)
    return asking(world, job(WAITING))


def all_nodes_sick() -> World:
    world = fleet(nodes=2)
    lose_node(world, 0)
    move_node(world, 1, NodeState.CORDONED)
    return asking(world, job(WAITING))


def a_label_nobody_has() -> World:
    return asking(fleet(), job(WAITING, labels={"zone": "mars"}))


def more_than_any_node_has() -> World:
    return asking(fleet(), job(WAITING, gpus=16, per_node=16))


def more_memory_than_any_node_has() -> World:
    return asking(fleet(), job(WAITING, memory_mib=2_000_000))


def more_than_the_fleet_has() -> World:
    return asking(fleet(nodes=2), job(WAITING, gpus=24))


def roles_together_more_than_the_fleet_has() -> World:
    return asking(fleet(nodes=1), job(WAITING, roles=[role(1, gpus=8), role(2)]))


def more_than_the_fleet_has_but_for_spares() -> World:
    return asking(fleet(contract(gpus=16, spares=1)), job(WAITING, gpus=16))


def a_node_of_the_gang_was_deleted() -> World:
    """Of a live cluster, which promises no nodes."""
    world = fleet(nodes=2)
    world.scheduler = "tidemill"
    move_node(world, 1, NodeState.GONE)
    return asking(world, job(WAITING, gpus=16))


def the_nodes_without_a_taint_were_deleted() -> World:
    """The same; what is left of their group is a node that repels it."""
    world = fleet(contract(gpus=16, terms="observed"))
    world.scheduler = "tidemill"
    move_node(world, 1, NodeState.GONE)
    fold(world, ev.NodeAdded(0, replace(node("kept"), taints=(("dedicated", "x"),))))
    move_node(world, 2, NodeState.BOOTING, NodeState.READY)
    move_node(world, 0, NodeState.GONE)
    return asking(world, job(WAITING))


def above_the_limit_for_ever() -> World:
    return asking(fleet(teams=[team("a", limit=8)]), job(WAITING, gpus=16))


def roles_together_above_the_limit() -> World:
    two = [role(1, gpus=6), role(1, gpus=6)]
    return asking(fleet(teams=[team("a", limit=8)]), job(WAITING, roles=two))


def above_the_limit_on_the_only_type_with_its_label() -> World:
    world = two_types(team("a", limit=24))
    return asking(world, job(WAITING, gpus=32, labels={"product": "H100"}))


def above_the_limit_on_the_only_type_that_is_large_enough() -> World:
    return asking(two_types(team("a", limit=24)), job(WAITING, gpus=32))


def two_types(row: Queue) -> World:
    """64 H100 and 16 A100, each with a label that says so."""
    types = [("H100", 64), ("A100", 16)]
    rows = [contract(kind, kind=kind, gpus=n, labels={"product": kind}) for kind, n in types]
    return fleet(*rows, teams=[row])


def limited_here_but_not_where_nothing_runs_yet() -> World:
    later = contract("later", kind="A100", start_ms=HOUR_MS)
    world = fleet(contract(), later, teams=[team("a", limit=1)])
    return asking(world, job(WAITING, gpus=2))


def a_node_too_few_is_ready() -> World:
    world = fleet(nodes=2)
    lose_node(world, 1)
    return asking(world, job(WAITING, gpus=16))


def at_the_limit_now() -> World:
    world = busy(fleet(teams=[team("a", limit=8)]), job("runs", gpus=8))
    return asking(world, job(WAITING, gpus=8))


def at_the_limit_where_it_could_be() -> World:
    """The H100s of its team are used up; the A100s, all free, are too few for the gang."""
    world = busy(two_types(team("a", limit=32)), job("runs", gpus=8, kinds=["H100"]))
    return asking(world, job(WAITING, gpus=32))


def at_the_limit_where_a_node_is_large_enough() -> World:
    """Nodes of four A100, all free, hold no replica of eight."""
    rows = [contract("h", gpus=32), contract("a", kind="A100", gpus=32, per_node=4)]
    world = busy(fleet(*rows, teams=[team("a", limit=16)]), job("runs", gpus=8, kinds=["H100"]))
    return asking(world, job(WAITING, gpus=16))


def busy_where_it_could_be() -> World:
    """Nothing is free of the type that could hold it; the other, all free, is too small."""
    world = busy(two_types(team("a")), job("runs", gpus=64, kinds=["H100"]))
    return asking(world, job(WAITING, gpus=32))


def behind_one_that_lost_patience() -> World:
    world = busy(fleet(nodes=2), job("runs", gpus=8))
    asking(world, job("large", gpus=16))
    pass_ms(world, HOUR_MS)
    return asking(world, job(WAITING))


def room_is_being_made() -> World:
    world = busy(fleet(nodes=1), job("low", gpus=8))
    return asking(world, job(WAITING, gpus=8, priority=1))


def everything_is_busy() -> World:
    return asking(busy(fleet(nodes=1), job("runs", gpus=8)), job(WAITING, gpus=4))


def half_of_a_gang_would_fit() -> World:
    return asking(busy(fleet(nodes=2), job("runs", gpus=8)), job(WAITING, gpus=16))


def free_but_scattered() -> World:
    world = busy(fleet(nodes=2), job("left", gpus=4), job("right", gpus=4))
    return asking(world, job(WAITING, gpus=8))


def cpu_is_taken() -> World:
    world = busy(fleet(contract(**FULL_HOST)), job("runs", cpu_milli=8_000))
    return asking(world, job(WAITING, cpu_milli=1))


def memory_is_taken() -> World:
    world = busy(fleet(contract(**FULL_HOST)), job("runs", memory_mib=64))
    return asking(world, job(WAITING, memory_mib=1))


def both_are_taken() -> World:
    world = busy(fleet(contract(**FULL_HOST)), job("runs", cpu_milli=8_000, memory_mib=64))
    return asking(world, job(WAITING, cpu_milli=1, memory_mib=1))


def each_is_taken_on_a_node() -> World:
    rows = [contract("one", **FULL_HOST), contract("two", **FULL_HOST)]
    runs = [job("one", gpus=1, cpu_milli=8_000), job("two", gpus=1, memory_mib=64)]
    world = fleet(*rows)
    submit(world, *runs)
    place(world, "one", Piece(0, 0, 1, 1))
    place(world, "two", Piece(0, 1, 1, 0b1))
    return asking(world, job(WAITING, gpus=10, per_node=1, cpu_milli=1, memory_mib=1))


def memory_is_taken_from_a_driver() -> World:
    world = busy(fleet(contract(**FULL_HOST)), job("runs", memory_mib=64))
    return asking(world, job(WAITING, gpus=0, memory_mib=1))


def free_but_kept_for_another_team() -> World:
    teams = [queue("a"), queue("b", floor=8, lend=2)]
    world = busy(fleet(nodes=2, teams=teams), job("runs", gpus=8))
    return asking(world, job(WAITING, gpus=4))


def busy(world: World, *jobs: object) -> World:
    """A World in which these jobs run, spread out."""
    submit(world, *jobs)  # type: ignore[arg-type]
    beat(world, SPREAD)
    return world


def free_in_two_racks() -> World:
    world = racked()
    submit(world, job("x", gpus=8), job("y", gpus=8))
    place(world, "x", Piece(0, 0, 1, 255))
    place(world, "y", Piece(0, 2, 1, 255))
    return asking(world, job(WAITING, gpus=16, bonds=[Bond("rack")]))


def more_than_any_rack_has() -> World:
    return asking(racked(), job(WAITING, gpus=24, bonds=[Bond("rack")]))


def racked() -> World:
    return fleet(contract(gpus=32), node_labels=racks(2, 2), topology=(RACK, NODE))


def asking(world: World, waiting: object) -> World:
    """A World in which this job was looked at and waits."""
    submit(world, waiting)  # type: ignore[arg-type]
    beat(world, SPREAD)
    return world


def room_kept_by_a_reservation() -> World:
    """A gang of two nodes is sure of them in an hour; who would run longer may not pass it."""
    world, policy = fleet(nodes=2), Policy(backfill="easy")
    submit(world, job("runs", gpus=8, estimate_ms=HOUR_MS))
    beat(world, policy)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    beat(world, policy)
    submit(world, job(WAITING, gpus=1, estimate_ms=2 * HOUR_MS))
    beat(world, policy)
    return world


CASES: list[tuple[Callable[[], World], Cause]] = [
    (nobody_looked, Cause.NONE),
    (no_contract_of_the_kind, Cause.NOTHING_CLAIMED),
    (only_a_contract_that_starts_later, Cause.NOTHING_LAUNCHED),
    (on_demand_not_launched, Cause.NOTHING_LAUNCHED),
    (all_nodes_sick, Cause.NOTHING_READY),
    (a_label_nobody_has, Cause.IMPOSSIBLE_LABEL),
    (more_than_any_node_has, Cause.IMPOSSIBLE_SIZE),
    (more_memory_than_any_node_has, Cause.IMPOSSIBLE_SIZE),
    (more_than_the_fleet_has, Cause.IMPOSSIBLE_GANG),
    (roles_together_more_than_the_fleet_has, Cause.IMPOSSIBLE_GANG),
    (more_than_the_fleet_has_but_for_spares, Cause.IMPOSSIBLE_GANG),
    (a_node_of_the_gang_was_deleted, Cause.IMPOSSIBLE_GANG),
    (the_nodes_without_a_taint_were_deleted, Cause.IMPOSSIBLE_LABEL),
    (above_the_limit_for_ever, Cause.OVER_LIMIT_ALWAYS),
    (roles_together_above_the_limit, Cause.OVER_LIMIT_ALWAYS),
    (above_the_limit_on_the_only_type_with_its_label, Cause.OVER_LIMIT_ALWAYS),
    (above_the_limit_on_the_only_type_that_is_large_enough, Cause.OVER_LIMIT_ALWAYS),
    (limited_here_but_not_where_nothing_runs_yet, Cause.NOT_ENOUGH_READY),
    (a_node_too_few_is_ready, Cause.NOT_ENOUGH_READY),
    (at_the_limit_now, Cause.OVER_LIMIT),
    (at_the_limit_where_it_could_be, Cause.OVER_LIMIT),
    (at_the_limit_where_a_node_is_large_enough, Cause.OVER_LIMIT),
    (busy_where_it_could_be, Cause.BUSY),
    (behind_one_that_lost_patience, Cause.BEHIND),
    (room_is_being_made, Cause.PROMISED),
    (everything_is_busy, Cause.BUSY),
    (half_of_a_gang_would_fit, Cause.PARTIAL_GANG),
    (free_but_scattered, Cause.SCATTERED),
    (cpu_is_taken, Cause.CPU_BINDS),
    (memory_is_taken, Cause.MEMORY_BINDS),
    (memory_is_taken_from_a_driver, Cause.MEMORY_BINDS),
    (both_are_taken, Cause.HOST_BINDS),
    (each_is_taken_on_a_node, Cause.HOST_BINDS),
    (free_but_kept_for_another_team, Cause.KEPT_BACK),
    (free_in_two_racks, Cause.TOPOLOGY),
    (more_than_any_rack_has, Cause.IMPOSSIBLE_TOPOLOGY),
    (room_kept_by_a_reservation, Cause.RESERVED),
]


@pytest.mark.parametrize(
    ("story", "cause"), CASES, ids=lambda case: getattr(case, "__name__", None)
)
def test_the_cause_is_the_one(story: Callable[[], World], cause: Cause):
    """In this world, jobs of this shape wait for exactly this cause."""
    assert cause_of(story(), WAITING) is cause


def test_every_cause_can_be_met():
    """No cause is only a word; two are said by other schedulers alone."""
    of_others = {Cause.NOT_ELIGIBLE, Cause.LOST_RACE}
    assert {cause for _, cause in CASES} == set(Cause) - of_others


def test_a_cause_is_said_once():
    """What was said is not said again while it stays true."""
    world = everything_is_busy()
    pass_ms(world, 1)
    assert asked(decide(world, SPREAD), ev.CauseChanged) == []


def test_a_cause_is_said_again_when_it_changes():
    """When the shortage becomes another one, the journal says so."""
    world = everything_is_busy()
    submit(world, job("wide", gpus=4, cpu_milli=999_999))
    lose_node(world, 0)
    beat(world, SPREAD)
    assert cause_of(world, WAITING) is Cause.NOTHING_READY


def test_causes_are_said_of_shapes():
    """A thousand equal jobs have one cause, said once."""
    world = busy(fleet(nodes=1), job("runs", gpus=8))
    submit(world, *(job(f"w{i}", gpus=8) for i in range(1000)))
    assert asked(decide(world), ev.CauseChanged) == [ev.CauseChanged(0, 0, Cause.BUSY)]


def test_a_raised_limit_changes_the_verdict():
    """After a larger limit the same job waits for something else."""
    world = fleet(nodes=1, teams=[team("a", limit=4), team("b")])
    submit(world, job("runs", gpus=8, team="b"), job(WAITING, gpus=8))
    beat(world)
    assert cause_of(world, WAITING) is Cause.OVER_LIMIT_ALWAYS
    fold(world, ev.QueueSet(0, team("a")))
    beat(world)
    assert cause_of(world, WAITING) is Cause.BUSY
    finish(world, "runs")
    beat(world)
    assert world.placements
