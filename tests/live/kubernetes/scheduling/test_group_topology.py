"""Pod groups that ask for one rack, a priority or shared claims: kept, or held and said."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object
from tests.live.kubernetes.scheduling.test_holding import Story, in_group
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model.topology import Tier, Topology

RACK = "topology.kubernetes.io/rack"
TIERS = Topology((Tier("rack", RACK), Tier("hypernode-tier-1", "volcano/leaf")))
CORE: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}}
VOLCANO, KAI = "scheduling.volcano.sh/v1beta1", "scheduling.run.ai/v2alpha2"
DIALECTS: dict[str, tuple[str, Object, Object]] = {
    "core": ("scheduling.k8s.io/v1alpha2",
             CORE | {"schedulingConstraints": {"topology": [{"key": RACK}]}},
             {"spec": in_group("g")}),
    "volcano": (VOLCANO, {"minMember": 2, "networkTopology": {
                    "mode": "hard", "highestTierAllowed": 1}},
                {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
    "kai": (KAI, {"minMember": 2, "topologyConstraint": {"requiredTopologyLevel": RACK}},
            {"annotations": {"pod-group-name": "g"}}),
}  # fmt: skip


def story_of(*racks: str, rules: Topology = TIERS, free: int = 8) -> Story:
    """A node per rack that is told, on a cluster with these tiers."""
    story = Story()
    for i, rack in enumerate(racks):
        labels = {RACK: rack, "volcano/leaf": rack}
        one = made.node(f"n{i}", free, labels=labels)
        story.server.nodes[f"n{i}"] = one
        story.server.news.append(("Node", ("", f"n{i}"), one, False))
    story.scheduler.differ.rules = FleetRules((), rules)
    return story


def group(version: str, spec: Object, name: str = "g") -> Object:
    return made.owner(version, "PodGroup", name, spec)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_group_that_requires_one_rack_is_bound_in_one(dialect: str):
    """n0 in one rack, n1 and n2 in another, a gang of two whole nodes: on n1 and n2; where no rack
    has room for it, it waits though enough is free.
    """
    version, spec, names = DIALECTS[dialect]
    for racks, on in ((("a", "b", "b"), {"n1", "n2"}), (("a", "b", "c"), set[str]())):
        story = story_of(*racks)
        story.server.put(group(version, spec))
        for i in range(2):
            story.server.make(f"p{i}", 8, **names)
        story.rest()
        assert set(story.bound().values()) == on
        assert story.held() == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_group_whose_topology_no_tier_has_is_held_and_says_which(dialect: str):
    """The policy declares no tier of this label: nothing is bound, and the label is named."""
    version, spec, names = DIALECTS[dialect]
    story = story_of("a", "a", rules=Topology((Tier("zone", "topology.kubernetes.io/zone"),)))
    story.server.put(group(version, spec))
    for i in range(2):
        story.server.make(f"p{i}", 8, **names)
    story.rest()
    assert story.bound() == {}
    reason, words = story.held()["ml/g"]
    assert reason == "UnknownTopology"
    told = "hypernode-tier-1" if dialect == "volcano" else RACK
    assert words == f"has to be in one `{told}`; tiers that the policy declares: `zone`"


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (VOLCANO, {"networkTopology": {"mode": "soft", "highestTierAllowed": 1}}),
        (KAI, {"topologyConstraint": {"preferredTopologyLevel": RACK}}),
    ],
)
def test_a_topology_that_is_only_preferred_is_kept_where_it_can_be(version: str, spec: Object):
    """In one rack if one has room; over two racks otherwise; and where nobody knows the tier."""
    names = DIALECTS["volcano" if version == VOLCANO else "kai"][2]
    for racks, rules, on in (
        (("a", "b", "b"), TIERS, {"n1", "n2"}), (("a", "b"), TIERS, {"n0", "n1"}),
        (("a", "b"), Topology(), {"n0", "n1"}),
    ):  # fmt: skip
        story = story_of(*racks, rules=rules)
        story.server.put(group(version, {"minMember": 2} | spec))
        for i in range(2):
            story.server.make(f"p{i}", 8, **names)
        story.rest()
        assert set(story.bound().values()) == on


def test_a_pod_beyond_the_least_of_a_group_is_bound_in_its_rack():
    """A gang of two fills a node of rack b: the third goes to the other node there, not to a, and
    the fourth, for which that rack has no room, waits.
    """
    story = story_of("b", "b", "a")
    full = DIALECTS["core"][1]
    story.server.put(group("scheduling.k8s.io/v1alpha2", full))
    pinned = {"nodeSelector": {RACK: "b"}}
    for i in range(2):
        story.server.make(f"p{i}", 4, spec=in_group("g") | pinned)
    story.rest()
    (first,) = set(story.bound().values())
    for i in (2, 3):
        story.server.make(f"p{i}", 8, spec=in_group("g"))
    story.rest()
    story.rest()
    assert {story.bound()["p0"], story.bound()["p1"]} == {first}
    beyond = {name: on for name, on in story.bound().items() if name in ("p2", "p3")}
    assert [*beyond.values()] == [one for one in ("n0", "n1") if one != first]


UNKEPT: dict[str, tuple[Object, str]] = {
    "claims": ({"resourceClaims": [{"name": "x", "resourceClaimName": "shared"}]},
               "resourceClaims of its pod group"),
    "other": ({"schedulingConstraints": {"dra": [{"any": "thing"}]}},
              "schedulingConstraints.dra of its pod group"),
    "basic": ({"schedulingPolicy": {"basic": {}},
               "schedulingConstraints": {"topology": [{"key": RACK}]}},
              "the topology of a pod group that is no gang"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNKEPT)
def test_what_is_not_kept_of_a_group_holds_its_pods_by_name(what: str):
    """Claims that a group shares, a constraint that nobody knows, a rack for pods one by one."""
    spec, words = UNKEPT[what]
    story = story_of("a", "a")
    story.server.put(group("scheduling.k8s.io/v1alpha2", CORE | spec))
    for i in range(2):
        story.server.make(f"p{i}", 2, spec=in_group("g"))
    story.rest()
    assert story.bound() == {}
    held = set(story.held().values())
    assert held == {("NotSupported", f"{words}: not placed by Tidemill's scheduler yet")}


def test_sub_groups_with_a_required_topology_of_their_own_are_held():
    """KAI's and Volcano's: a rack for each part of a group is not what one rack for all is."""
    story = story_of("a", "a")
    level = {"topologyConstraint": {"requiredTopologyLevel": RACK}}
    story.server.put(group(KAI, {"minMember": 2, "subGroups": [{"name": "x"} | level]}))
    for i in range(2):
        story.server.make(f"p{i}", 2, annotations={"pod-group-name": "g"})
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/g"][1].startswith("the topology of subGroups of its pod group")


@pytest.mark.parametrize(
    ("spec", "wins"),
    [({"priority": 10}, True), ({"priorityClassName": "high"}, True), ({"priority": -5}, False),
     ({}, False), ({"priorityClassName": "nobody-has-it"}, False)],
)  # fmt: skip
def test_the_priority_of_a_group_counts_over_that_of_its_pods(spec: Object, wins: bool):
    """Room for one gang of two: an older pod of priority 5 has it, unless the group says more."""
    story = story_of("a", free=2)
    known: Any = story.scheduler.view.cluster.priorities
    known["high"] = 1000
    story.server.put(group("scheduling.k8s.io/v1alpha2", CORE | spec))
    rest: dict[str, Any] = {"priority": 5}
    story.server.make("other", 2, spec=rest)
    for i in range(2):
        story.server.make(f"p{i}", 1, spec=in_group("g"))
    story.rest()
    assert set(story.bound()) == ({"p0", "p1"} if wins else {"other"})
