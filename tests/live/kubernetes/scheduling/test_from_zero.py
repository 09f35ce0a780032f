"""A pool that an autoscaler emptied is filled again: what it had is known, and is ordered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.kubernetes.scheduling.pretended import MIG, Scheduler
from tests.live.kubernetes.scheduling.test_reading import POLICY, Read
from tidemill.live.kubernetes.scheduling import saying
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model.rows import Queue, Share
from tidemill.model.topology import Tier, Topology

ZONE = "topology.kubernetes.io/zone"
PAST = "which is gone, could carry it: an autoscaler that has such may add one"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods are told at once."""
    monkeypatch.setattr(saying, "PER_SECOND", 1_000_000)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Read]:
    """A pool of two nodes of 8 GPUs; what it ran has ended, and its nodes are gone."""
    read = Read(tmp_path / "live.sqlite", 8, 8)
    read.server.put_node("cpu0", 0)
    read.server.make("before", 8)
    read.rest()
    read.server.finish(("ml", "before"))
    read.rest()
    drop(read, "n0", "n1")
    yield read
    read.journal.close()


def drop(read: Read, *names: str) -> None:
    for name in names:
        read.server.drop_node(name)
    read.rest()


def put(read: Read, name: str, gpus: int, labels: dict[str, str], **rest: Any) -> None:
    """A node with such labels."""
    read.server.put_node(name, gpus)
    one = read.server.nodes[name]
    one["metadata"]["labels"] |= labels
    one["spec"] |= rest


def restart(read: Read) -> None:
    """Another scheduler, that knows what the journal has."""
    read.scheduler = Scheduler(read.server, read.journal, POLICY)
    read.scheduler.loop.world.scheduler = "tidemill"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_node_like_those_that_are_gone_is_ordered(story: Read, is_restarted: bool):
    """Of the last GPU nodes of a cluster; not what none of them could carry, nor by a label that
    none of them had. When one comes the pod starts.
    """
    if is_restarted:
        restart(story)
    story.server.make("fits", 8)
    story.server.make("too-large", 16)
    story.server.make("elsewhere", 1, spec={"nodeSelector": {"zone": "mars"}})
    story.server.make("that-one", 1, spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    for i in range(3):
        story.server.make(f"g{i}", 8, gang="g", size=3)
    story.rest()
    assert story.told("fits") == (
        "Unschedulable",
        f"no node of the cluster has what it may use; nodes like `n0` (8 `H100`), {PAST}",
    )
    assert story.told("g0")[0] == "Unschedulable", "more of them than there ever were"
    assert {story.told(name)[0] for name in ("too-large", "elsewhere", "that-one")} == {
        "NoSuchNode"
    }
    story.server.put_node("n7", 8)
    story.rest()
    assert story.server.pods["ml", "fits"]["spec"]["nodeName"] == "n7"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_of_several_pools_the_one_that_is_empty_is_ordered(tmp_path: Path, is_restarted: bool):
    """By its label, by its size and by its taint: nodes of another pool are there."""
    story = Read(tmp_path / "live.sqlite", 4)
    put(story, "big", 8, {"pool": "big"})
    kept = [{"key": "team", "value": "b", "effect": "NoSchedule"}]
    put(story, "kept", 2, {"pool": "kept"}, taints=kept)
    story.rest()
    drop(story, "big", "kept")
    if is_restarted:
        restart(story)
    tolerates = [{"key": "team", "operator": "Exists"}]
    story.server.make("by-size", 8)
    story.server.make("by-label", 1, spec={"nodeSelector": {"pool": "big"}})
    story.server.make(
        "by-taint", 1, spec={"nodeSelector": {"pool": "kept"}, "tolerations": tolerates}
    )
    story.server.make("not-tolerated", 1, spec={"nodeSelector": {"pool": "kept"}})
    story.rest()
    reasons = {name: story.told(name)[0] for name in story.server.told}
    assert reasons == {
        "by-size": "Unschedulable", "by-label": "Unschedulable", "by-taint": "Unschedulable",
        "not-tolerated": "NoSuchNode",
    }  # fmt: skip
    story.journal.close()


def test_a_kind_that_was_never_there_is_not_ordered(tmp_path: Path):
    """Nobody tells us what an autoscaler could bring."""
    story = Read(tmp_path / "live.sqlite")
    story.server.put_node("cpu0", 0)
    story.server.make("first", 8)
    story.rest()
    assert story.told("first") == ("NoSuchNode", "no node of the cluster has what it may use")
    story.journal.close()


def test_a_node_that_was_changed_counts_as_it_was_last(tmp_path: Path):
    """8 GPUs became 4, and a label went, before it left: that is what another would be like."""
    story = Read(tmp_path / "live.sqlite", 1)
    put(story, "n5", 8, {"pool": "a"})
    story.rest()
    story.server.put_node("n5", 4)
    story.rest()
    drop(story, "n5")
    story.server.make("eight", 8)
    story.server.make("labelled", 1, spec={"nodeSelector": {"pool": "a"}})
    story.server.make("four", 4)
    story.rest()
    told = [story.told(name)[0] for name in ("eight", "labelled", "four")]
    assert told == ["NoSuchNode", "NoSuchNode", "Unschedulable"]
    story.journal.close()


def test_nothing_is_ordered_that_a_quota_keeps_from_its_team(tmp_path: Path):
    """At most 4 of a kind of which none is there: a node of 8 would not help."""
    rules = FleetRules((Queue("ml", (Share("H100", limit_milli=4_000),)),))
    story = Read(tmp_path / "live.sqlite", 8, rules=rules)
    story.rest()
    drop(story, "n0")
    story.server.put_node("cpu0", 0)
    story.server.make("eight", 8)
    story.server.make("four", 4)
    story.rest()
    assert (story.told("eight")[0], story.told("four")[0]) == ("NoSuchNode", "Unschedulable")
    story.journal.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_gone_is_known_by_its_resource(tmp_path: Path, is_restarted: bool):
    """Whole GPUs are there, MIG instances were; then the other way round."""
    story = Read(tmp_path / "live.sqlite", 8)
    story.server.put_node("m0", 0)
    story.rest()
    drop(story, "m0")
    if is_restarted:
        restart(story)
    story.server.make("part", 1, resource=MIG)
    story.rest()
    assert story.told("part")[0] == "Unschedulable"
    story.server.put_node("m1", 0)
    story.rest()
    assert story.server.pods["ml", "part"]["spec"]["nodeName"] == "m1"
    drop(story, "n0")
    if is_restarted:
        restart(story)
    story.server.make("whole", 8)
    story.server.make("never", 1, resource="amd.com/gpu")
    story.rest()
    assert (story.told("whole")[0], story.told("never")[0]) == ("Unschedulable", "NoSuchNode")
    story.journal.close()


@pytest.mark.parametrize(
    ("label", "zones", "reason"),
    [(ZONE, ("a", "a"), "Unschedulable"), (ZONE, ("a", "b"), "NoSuchNode"),
     (ZONE, ("a", ""), "NoSuchNode"), ("example.com/rack", ("a", "a"), "NoSuchNode")],
)  # fmt: skip
def test_a_gang_that_is_tied_to_the_only_zone_is_an_order(
    label: str, zones: tuple[str, str], reason: str, tmp_path: Path
):
    """A pool's new node is in the zone of the pool; in which of two, or in which rack, nobody
    knows.
    """
    rules = FleetRules(topology=Topology((Tier("place", label),)))
    story = Read(tmp_path / "live.sqlite", rules=rules)
    for i, zone in enumerate(zones):
        put(story, f"n{i}", 8, {label: zone} if zone else {})
    tied = {"tidemill/required-topology": "place"}
    for i in range(3):
        story.server.make(f"g{i}", 8, gang="g", size=3, annotations=tied)
    story.rest()
    assert story.told("g0")[0].replace("WaitingForTopology", "NoSuchNode") == reason
    story.journal.close()


def test_a_gang_that_has_to_be_on_one_node_is_an_order_for_one(tmp_path: Path):
    """2 × 4 on one node, and both are half used; 2 × 8 no node holds."""
    rules = FleetRules(topology=Topology((Tier("node"),)))
    story = Read(tmp_path / "live.sqlite", 8, 8, rules=rules)
    story.rest()
    for i in range(2):
        story.server.make(f"other{i}", 8, on=f"n{i}")
    tied = {"tidemill/required-topology": "kubernetes.io/hostname"}
    for i in range(2):
        story.server.make(f"g{i}", 4, gang="g", size=2, annotations=tied)
        story.server.make(f"h{i}", 8, gang="h", size=2, annotations=tied)
    story.rest()
    assert (story.told("g0")[0], story.told("h0")[0]) == ("Unschedulable", "NoSuchNode")
    story.journal.close()
