"""What ``schedule kubernetes --check`` says of a cluster, without one."""

import pytest

from tests.builders import contract, fleet
from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.cli.schedule_check import given_by, nodes_out, nodes_text
from tidemill.engine.fold.one_event import fold
from tidemill.live.kubernetes.scheduling import remarks, rights
from tidemill.live.kubernetes.scheduling.differ import Differ, FleetRules
from tidemill.live.kubernetes.scheduling.rights import RightsAsked
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue, Share
from tidemill.model.states import NodeState
from tidemill.model.topology import Tier, Topology
from tidemill.model.world import World


def test_gpus_of_a_cordoned_node_are_not_among_those_that_take_work():
    """They are counted apart; a cluster without GPUs has no words."""
    world = fleet(contract("a", gpus=24), contract("b", gpus=8, kind="A100"))
    assert nodes_text(world) == "4 with GPUs take work; 8 A100, 24 H100"
    fold(world, ev.NodeMoved(world.now_ms, 0, NodeState.CORDONED))
    assert nodes_text(world) == "3 with GPUs take work; 8 A100, 16 H100; 1 does not: 8 H100"
    assert not nodes_text(World())


def told(policy: Policy, fleet: FleetRules, seen: Differ, by: str = "namespace") -> list[str]:
    return [f"{one.found} ({one.so})" for one in remarks.of_policy(policy, fleet, seen, by)]


def test_what_of_a_policy_can_mean_nothing_on_a_cluster_is_told():
    """A mistyped team, more guaranteed than there is, a label that no node has, and switches that
    are off; of a policy that fits nothing is told.
    """
    story = Story(8, 6)
    story.rest()
    seen = story.scheduler.differ
    seen.view.cluster.namespaces.update({"vision": {}, "nlp": {}})  # type: ignore[attr-defined]
    queues = (
        Queue("org", (Share("H100", 8_000),)),
        Queue("visoin", (Share("H100", 12_000),), parent="org"),
        Queue("nlp", (Share("H100", 4_000),)),
    )
    tiers = Topology((Tier("block", "topology.kubernetes.io/block"),))
    found = told(Policy(may_move=True, cull_idle_after_ms=1), FleetRules(queues, tiers), seen)
    assert len(found) == 5
    assert "no namespace is called `visoin`" in found[0]
    assert "did you mean `vision`?" in found[0]
    assert "16 H100 are guaranteed, and the nodes have 14" in found[1]
    assert "`block`: no node has the label `topology.kubernetes.io/block`" in found[2]
    assert "`may_move` is off" in found[3]
    assert "`cull_idle_after` is off" in found[4]
    fine = (Queue("vision", (Share("H100", 14_000),)),)
    assert told(Policy(), FleetRules(fine), seen) == []
    assert told(Policy(), FleetRules((Queue("any"),)), seen, "label:team") == []


ZONE = Tier("zone", "topology.kubernetes.io/zone")
RACK = Tier("rack", "topology.kubernetes.io/rack")


def placed(*places: tuple[str, str]) -> Differ:
    """A cluster of one node in each of these zones and racks."""
    story = Story()
    for i, (zone, rack) in enumerate(places):
        row = made.node(f"n{i}", 8, labels={ZONE.label: zone, RACK.label: rack})
        story.server.nodes[f"n{i}"] = row
        story.server.news.append(("Node", ("", f"n{i}"), row, False))
    story.rest()
    return story.scheduler.differ


@pytest.mark.parametrize(
    ("places", "tiers", "is_told"),
    [
        ([("z1", "r0"), ("z1", "r1")], (RACK, ZONE), True),
        ([("z1", "r0"), ("z1", "r1")], (ZONE, RACK), False),
        ([("z1", "r0"), ("z1", "r1"), ("z2", "r0"), ("z2", "r1")], (ZONE, RACK), False),
        ([("z1", "r0"), ("z1", "r1"), ("z2", "r0"), ("z2", "r1")], (RACK, ZONE), False),
        ([("z1", "r0"), ("z2", "r1")], (RACK, ZONE), False),
    ],
)
def test_tiers_from_the_inside_out_are_told(
    places: list[tuple[str, str]], tiers: tuple[Tier, ...], *, is_told: bool
):
    """Each rack is in one zone, and a zone has several: then racks go after zones.

    Names of racks that each zone has again say nothing of that.
    """
    found = told(Policy(), FleetRules((), Topology(tiers)), placed(*places))
    assert [one.partition(" (")[0] for one in found] == [
        "`rack` comes before `zone`, and each of its places lies in one of `zone`"
    ] * is_told
    if is_told:
        assert "tiers go from the outermost to the innermost: put `zone` before `rack`" in found[0]


def test_the_nodes_that_take_no_work_are_named_with_why():
    """One is cordoned, another has no right state: who runs the scheduler need not look for it."""
    story = Story(8)
    story.server.put_node("n1", 6, unschedulable=True)
    story.rest()
    ((name, why),) = nodes_out(story.scheduler.differ)
    assert name == "n1"
    assert "cordoned" in why


def test_a_lease_of_another_name_needs_that_name_in_the_file():
    """To apply the file as it is gives the right for another Lease."""
    wanted = rights.needed(RightsAsked("tidemill/other"), ())
    said = {given_by(one, "tidemill/other") for one in wanted if one.resource == "leases"}
    assert all("write `tidemill/other` into a copy of that file" in one for one in said)
    (binding,) = [one for one in wanted if one.resource == "pods/binding"]
    assert given_by(binding, "tidemill/other").startswith("apply deploy/kubernetes/schedule.yaml")
