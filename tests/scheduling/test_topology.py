"""Gangs that are to sit together: where they go, why they wait, and what is refused."""

import pytest
from msgspec.structs import replace

from tests.builders import (
    NODE,
    PAIR,
    RACK,
    SPINE,
    beat,
    carry_out,
    cause_of,
    contract,
    decide,
    evicted,
    finish,
    fleet,
    fold,
    job,
    leave,
    lose_node,
    place,
    placed,
    racks,
    role,
    start,
    submit,
    team,
)  # fmt: skip
from tidemill.core import snapshot
from tidemill.engine import check
from tidemill.engine.fold.batch import fold_batch
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.errors import EventRefused
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Node, Piece
from tidemill.model.topology import APART, NO_HOP, Bond, Parallelism, Tier, Topology
from tidemill.model.world import World

IN_ONE_RACK = Bond("rack")
NEAR = Bond("rack", is_required=False)


def racked(*sizes: int, topology: tuple[Tier, ...] = (SPINE, RACK, NODE)) -> World:
    """A fleet of nodes of 8 in racks of these sizes, two racks to a spine."""
    return fleet(
        contract(gpus=8 * sum(sizes)), node_labels=racks(*sizes), topology=topology,
        teams=[team("a"), team("b")],
    )  # fmt: skip


def test_a_required_rack_is_the_tightest_that_holds_the_gang():
    """Of racks with 4, 3 and 2 free nodes, a gang of two takes the one with 2."""
    world = racked(4, 3, 2)
    submit(world, job("t", gpus=16, bonds=[IN_ONE_RACK]))
    assert placed(world, decide(world)) == {"t": {7: 8, 8: 8}}


def test_a_gang_that_no_rack_holds_now_waits_for_topology():
    """Four nodes are free in two racks: a required rack waits though the number is there."""
    world = racked(3, 3)
    submit(world, job("busy", gpus=8), job("too", gpus=8, per_node=8))
    place(world, "busy", Piece(0, 0, 1, 255))
    place(world, "too", Piece(0, 3, 1, 255))
    start(world, "busy", "too")
    submit(world, job("t", gpus=24, bonds=[IN_ONE_RACK]))
    beat(world)
    assert cause_of(world, "t") is Cause.TOPOLOGY
    finish(world, "busy")
    assert placed(world, decide(world)) == {"t": {0: 8, 1: 8, 2: 8}}


def test_a_gang_larger_than_any_rack_never_fits():
    """When every node that is paid for is seen, a gang above the largest rack is told so."""
    world = racked(2, 2)
    submit(world, job("t", gpus=24, bonds=[IN_ONE_RACK]))
    beat(world)
    assert cause_of(world, "t") is Cause.IMPOSSIBLE_TOPOLOGY


def test_a_rack_that_lost_a_node_is_not_impossible():
    """With a node down, the rack is too small only for now."""
    world = racked(2, 2)
    lose_node(world, 0)
    lose_node(world, 2)
    submit(world, job("t", gpus=16, bonds=[IN_ONE_RACK]))
    beat(world)
    assert cause_of(world, "t") is Cause.NOT_ENOUGH_READY


def test_a_preferred_rack_gives_way_to_its_spine_then_to_the_fleet():
    """A gang too large for a rack sits under one spine; too large for a spine, on fewest."""
    world = racked(2, 2, 2, 4)
    submit(world, job("t", gpus=48, bonds=[NEAR]))
    assert {*placed(world, decide(world))["t"]} == {4, 5, 6, 7, 8, 9}
    submit(world, job("u", gpus=56, bonds=[NEAR], priority=1))
    plan = decide(world)
    assert {*placed(world, plan)["u"]} >= {4, 5, 6, 7, 8, 9}
    carry_out(world, plan)
    assert world.jobs.hop[1] == APART


def test_the_worst_hop_is_kept_while_the_gang_sits():
    """The innermost tier that holds a gang is its hop; a job that waits has none."""
    world = racked(2, 2, topology=(SPINE, RACK, NODE, PAIR))
    sizes = {"pair": 2, "node": 8, "rack": 16, "spine": 32}
    for number, (tier, gpus) in enumerate(sizes.items()):
        submit(world, job(tier, gpus=gpus, per_node=min(8, gpus), bonds=[Bond("rack", 0, False)]))
        carry_out(world, decide(world))
        assert world.topology.tiers[world.jobs.hop[number] - 1].name == tier
        start(world, tier)
        finish(world, tier)
        assert world.jobs.hop[number] == NO_HOP


def test_groups_of_a_role_sit_together_and_the_role_goes_across():
    """Two groups of two nodes, each in one rack, where no rack holds all four."""
    world = racked(3, 3)
    submit(world, job("t", roles=[role(4, gpus=8, bonds=[Bond("rack", 2)])]))
    nodes = [*placed(world, decide(world))["t"]]
    assert sorted(n // 3 for n in nodes) == [0, 0, 1, 1]


def test_groups_nest():
    """Pairs on a node inside a rack: both bonds are kept at once."""
    world = racked(2, 2, topology=(RACK, NODE))
    submit(
        world,
        job("x", gpus=4),
        job("t", roles=[role(8, gpus=2, bonds=[Bond("node", 2), Bond("rack", 8)])]),
    )
    place(world, "x", Piece(0, 0, 1, 0b1111))
    found = placed(world, decide(world))["t"]
    assert found == {2: 8, 3: 8}


def test_a_replica_stays_inside_a_block_of_devices():
    """With the odd devices of each pair taken, two on one pair are not to be had there."""
    world = racked(1, 1, topology=(RACK, NODE, PAIR))
    for number in range(4):
        submit(world, job(f"x{number}", gpus=1))
        place(world, f"x{number}", Piece(0, 0, 1, 1 << 2 * number))
    submit(world, job("t", gpus=2, bonds=[Bond("pair")]))
    assert placed(world, decide(world)) == {"t": {1: 2}}


def test_roles_of_one_gang_share_a_rack():
    """A gang tied whole takes the rack that holds all its roles, not the first of one of them."""
    world = racked(1, 2)
    roles = [role(1, gpus=8), role(1, name="second", gpus=8)]
    submit(world, job("t", roles=roles, bonds=[IN_ONE_RACK]))
    assert placed(world, decide(world)) == {"t": {1: 8, 2: 8}}


def test_a_node_without_the_label_is_an_island():
    """Two nodes without a rack are not in one rack, and each is one by itself."""
    world = fleet(contract(gpus=16), topology=(RACK, NODE))
    submit(world, job("t", gpus=16, bonds=[IN_ONE_RACK]), job("u", gpus=8, bonds=[IN_ONE_RACK]))
    beat(world)
    assert cause_of(world, "t") is Cause.IMPOSSIBLE_TOPOLOGY
    assert [d.island for d in world.domains[0]] == [0, 1]


def test_racks_of_one_name_under_two_spines_are_two():
    """A domain is inside the one around it: `r0` of `s0` is not `r0` of `s1`."""
    labels = [{"spine": "s0", "rack": "r0"}, {"spine": "s1", "rack": "r0"}]
    world = fleet(contract(gpus=16), node_labels=labels, topology=(SPINE, RACK))
    submit(world, job("t", gpus=16, bonds=[IN_ONE_RACK]))
    beat(world)
    assert cause_of(world, "t") is Cause.IMPOSSIBLE_TOPOLOGY


def test_labels_of_tiers_make_no_groups_until_a_job_asks_for_one():
    """Six racks are one group of nodes; a job that asks for one by its label still gets it."""
    world = racked(1, 1, 1, 1, 1, 1)
    assert len(world.groups) == 1
    submit(world, job("t", gpus=8, labels={"rack": "r4"}))
    assert placed(world, decide(world)) == {"t": {4: 8}}


def test_a_topology_may_come_after_the_nodes():
    """Positions, hops and groups are those of the new tiers; what ran keeps running."""
    world = fleet(contract(gpus=32), node_labels=racks(2, 2))
    submit(world, job("t", gpus=16))
    beat(world)
    assert len(world.groups) == 2
    fold(world, ev.TopologySet(world.now_ms, Topology((RACK, NODE))))
    assert world.jobs.hop[0] == 1
    submit(world, job("u", gpus=16, bonds=[IN_ONE_RACK]))
    assert placed(world, decide(world)) == {"u": {2: 8, 3: 8}}
    assert snapshot.dump(snapshot.copy(world)) == snapshot.dump(world)


def test_a_tied_gang_makes_room_in_one_rack():
    """Eviction frees a whole rack: cheap work elsewhere is left alone."""
    world = racked(2, 2)
    submit(world, *(job(f"x{n}", gpus=8) for n in range(4)))
    for n in (0, 2, 1, 3):
        place(world, f"x{n}", Piece(0, n, 1, 255))
    start(world, "x0", "x1", "x2", "x3")
    submit(world, job("t", gpus=16, priority=5, bonds=[IN_ONE_RACK]))
    plan = decide(world)
    assert len(evicted(world, plan)) == 2
    carry_out(world, plan)
    leave(world)
    found = placed(world, decide(world))["t"]
    assert {n // 2 for n in found} in ({0}, {1})


def test_parallelism_keeps_the_ranks_that_talk_most_together():
    """Tensor groups of 8 on one node and pipelines of two nodes in one rack, data across."""
    world = racked(3, 3)
    stated = Parallelism(tensor=8, pipeline=2, data=2)
    submit(world, job("t", gpus=32, per_node=4, parallelism=stated))
    found = placed(world, decide(world))["t"]
    assert set(found.values()) == {8}
    assert sorted(n // 3 for n in found) == [0, 0, 1, 1]


REFUSED = {
    "a tier twice": (RACK, RACK),
    "the node before the rack": (NODE, RACK),
    "blocks that do not divide": (NODE, Tier("a", devices=4), Tier("b", devices=3)),
    "a label and devices": (Tier("a", "rack", devices=2),),
    "two nodes": (NODE, Tier("host")),
}


@pytest.mark.parametrize("tiers", REFUSED.values(), ids=REFUSED.keys())
def test_tiers_that_do_not_nest_are_refused(tiers: tuple[Tier, ...]):
    """A topology out of order changes nothing."""
    world = fleet(nodes=1)
    with pytest.raises(EventRefused):
        fold(world, ev.TopologySet(0, Topology(tiers)))
    assert world.topology == Topology()


def test_a_job_tied_to_an_unknown_tier_is_refused_with_those_that_are_known():
    """The message names the tier, and what there is."""
    world = racked(2)
    with pytest.raises(EventRefused, match=r"requires one `row`; .*: `spine`, `rack`, `node`"):
        submit(world, job("t", bonds=[Bond("row")]))
    with pytest.raises(EventRefused, match="prefers one `row`"):
        submit(world, job("t", bonds=[Bond("row", is_required=False)]))
    submit(world, job("u", bonds=[IN_ONE_RACK]))
    with pytest.raises(EventRefused, match="has no tier `rack`"):
        fold(world, ev.TopologySet(0, Topology((SPINE,))))


def test_a_tier_that_only_ended_jobs_name_may_be_taken_away_and_come_back():
    """Then nobody may ask for it, whoever did before; folded as columns the story is the same."""
    world = racked(2)
    told = list[ev.Event]()

    def tell(*events: ev.Event) -> None:
        for event in events:
            fold(world, event)
            told.append(event)

    before = snapshot.copy(world)
    tied = job("t", bonds=[IN_ONE_RACK])
    tell(ev.JobSubmitted(0, tied))
    with pytest.raises(EventRefused, match="which the job `t` names"):
        fold(world, ev.TopologySet(0, Topology((SPINE,))))
    tell(ev.JobCancelled(0, 0), ev.TopologySet(0, Topology((SPINE,))))
    with pytest.raises(EventRefused, match="requires one `rack`"):
        fold(world, ev.JobSubmitted(0, replace(tied, name="u")))
    tell(ev.JobSubmitted(0, job("plain", bonds=[Bond("spine")])))
    assert placed(world, decide(world)) == {"plain": {0: 1}}
    assert snapshot.dump(snapshot.copy(world)) == snapshot.dump(world)
    tell(ev.TopologySet(0, Topology((SPINE, RACK))), ev.JobSubmitted(0, replace(tied, name="u")))
    assert world.shape_count == 2
    both = fold_batch(before, of_events(told, Dictionary()))
    assert snapshot.dump(both) == snapshot.dump(world)


def test_groups_that_do_not_divide_are_refused():
    """Three replicas are not groups of two; groups of 2 and 3 are not inside each other."""
    world = racked(2)
    with pytest.raises(EventRefused, match="tied 2 by 2"):
        submit(world, job("t", roles=[role(3, bonds=[Bond("rack", 2)])]))
    with pytest.raises(EventRefused, match="do not nest"):
        submit(world, job("t", roles=[role(6, bonds=[Bond("rack", 3), Bond("node", 2)])]))
    with pytest.raises(EventRefused, match="inside a node"):
        submit(world, job("t", roles=[role(2)], bonds=[Bond("rack", 2)]))


def test_the_second_reader_sees_a_broken_bond():
    """A plan that splits a gang over racks, or a group over pairs, is not carried out."""
    world = racked(2, 2, topology=(RACK, NODE, PAIR))
    submit(
        world,
        job("t", gpus=16, bonds=[IN_ONE_RACK]),
        job("u", gpus=2, bonds=[Bond("pair")]),
        job("v", roles=[role(1, gpus=8), role(1, gpus=8)], bonds=[IN_ONE_RACK]),
        job("w", roles=[role(4, gpus=8, bonds=[Bond("rack", 2)])]),
    )
    split = {
        0: (Piece(0, 1, 1, 255), Piece(0, 2, 1, 255)),
        1: (Piece(0, 0, 1, 0b110),),
        2: (Piece(0, 1, 1, 255), Piece(1, 2, 1, 255)),
        3: (*(Piece(0, n, 1, 255) for n in (0, 1, 2)), Piece(0, 3, 1, 255)),
    }
    for j, pieces in split.items():
        found = check.violations(world, ev.Plan((ev.AskedPlace(0, j, 1, pieces),)), Policy())
        assert bool(found) == (j != 3), f"job {j}: {found}"
    whole = ev.Plan((ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 255), Piece(0, 1, 1, 255))),))
    assert check.violations(world, whole, Policy()) == []


def test_a_label_of_the_node_goes_before_that_of_its_contract():
    """Scheduler and second reader agree where a node is that says otherwise than its contract."""
    world = fleet(contract(gpus=16, labels={"rack": "a"}), topology=(RACK, NODE), teams=[team("a")])
    assert world.position[0, :2].tolist() == [0, 0]
    other = Node("odd", "d", (("rack", "b"),))
    fold(world, ev.ContractSigned(0, contract("d", gpus=8, labels={"rack": "a"})))
    fold(world, ev.ContractStarted(0, 1))
    fold(world, ev.NodeAdded(0, other))
    assert world.position[0, 2] == 1
