"""Pods that a kubelet would refuse, for disk, CPU or its pods: elsewhere, or held and said."""

from collections import Counter
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.model import events as ev

DISK, GIB = "ephemeral-storage", 2**30
TAINTS = [{"key": "own", "value": "", "effect": "NoSchedule"}]


class Tight(Story):
    """A pretended cluster whose nodes have so many GiB of disk."""

    def __init__(self, **gib: int) -> None:
        super().__init__()
        for name, amount in gib.items():
            self.set(name, amount)

    def set(self, name: str, gib: int, gpus: int = 8) -> None:
        """A node came, or has so much disk now."""
        row = made.node(name, gpus, amounts={DISK: f"{gib}Gi"})
        self.server.nodes[name] = row
        self.server.news.append(("Node", ("", name), row, False))

    def make(self, name: str, gib: int, gpus: int = 1, **rest: Any) -> None:
        """A pod that requests so much disk."""
        self.server.make(name, gpus, requests={DISK: f"{gib}Gi"}, **rest)

    def placings(self, name: str) -> int:
        """How often a plan had a place for a job."""
        j = self.scheduler.loop.world.job_number[f"ml/{name}"]
        told = self.journal.read()
        return sum(isinstance(one, ev.AskedPlace) and one.job == j for one in told)


def test_a_pod_goes_where_its_disk_is_though_another_node_came_first():
    """Two nodes have too little of it, and one enough: bound there in the same rest."""
    story = Tight(n0=10, n1=20, n2=200)
    story.make("wide", 100)
    story.rest()
    assert story.bound() == {"wide": "n2"}


def test_a_pod_that_no_node_takes_is_held_until_nodes_change():
    """It is tried one time; other pods that come do not bring it back, more disk does."""
    story = Tight(n0=10, n1=20)
    story.make("wide", 100)
    story.rest()
    reason, words = story.held()["ml/wide"]
    assert reason == "BindRefused"
    assert "node `n0` has 10.0 GiB of ephemeral-storage left, and 100.0 are requested" in words
    assert "1 more that it may use refuse it too" in words
    for i in range(4):
        story.make(f"small{i}", 1)
        story.rest()
    assert story.placings("wide") == 1
    story.set("n1", 150)
    story.rest()
    assert story.bound()["wide"] == "n1"
    assert story.held() == {}


@pytest.mark.parametrize("other", [{"taints": TAINTS}, {"gpus": 1}])
def test_nodes_that_it_may_not_use_or_that_are_too_small_are_none_that_are_left(
    other: dict[str, Any],
):
    """The one that could carry it has no disk: that keeps it, and no label or taint does alone."""
    story = Tight(n0=10)
    given: dict[str, Any] = {"gpus": 8, "amounts": {DISK: "200Gi"}} | other
    row = made.node("n1", **given)
    story.server.nodes["n1"] = row
    story.server.news.append(("Node", ("", "n1"), row, False))
    story.make("wide", 100, gpus=2)
    story.rest()
    reason, words = story.held()["ml/wide"]
    assert reason == "BindRefused"
    assert "node `n0` has 10.0 GiB of ephemeral-storage left" in words
    assert "it may use" not in words


def test_a_pod_is_bound_when_the_disk_of_another_is_free():
    """The one that had it leaves; what comes and goes elsewhere does not count."""
    story = Tight(n0=10)
    story.make("first", 8)
    story.rest()
    story.make("second", 8)
    story.rest()
    assert "2.0 GiB of ephemeral-storage left" in story.held()["ml/second"][1]
    story.server.finish(("ml", "first"))
    story.rest()
    assert story.bound() == {"second": "n0"}


def test_a_gang_whose_pods_would_meet_on_a_disk_goes_apart():
    """Two pods of 8 GiB on nodes of 10: the plan puts both on one, and is told not to."""
    story = Tight(n0=10, n1=100)
    for i in range(2):
        story.make(f"g{i}", 8, gang="g", size=2, gpus=2)
    story.rest()
    assert set(story.bound().values()) == {"n1"}


@pytest.mark.parametrize("is_down", [False, True])
def test_a_gang_that_fits_on_no_disk_is_divided_among_nodes(is_down: bool):
    """Five pods of 8 GiB on nodes with room for three and for two: it starts, and goes on after a
    restart; a pod that is made anew has the seat of the one before.
    """
    story = Tight(n0=30, n1=20)
    for i in range(5):
        story.make(f"g{i}", 8, gang="g", size=5)
    story.rest()
    assert Counter(story.bound().values()) == {"n0": 3, "n1": 2}
    if is_down:
        story.scheduler = Scheduler(story.server, story.journal)
    (name, _), *_ = [one for one in story.bound().items() if one[1] == "n1"]
    story.server.drop(("ml", name))
    story.make("again", 8, gang="g", size=5)
    story.rest()
    assert story.bound()["again"] == "n1"
    assert len([one for one in story.journal.read() if isinstance(one, ev.JobSubmitted)]) == 1


def test_a_gang_that_is_larger_than_a_node_has_as_many_there_as_its_disk_takes():
    """Twelve pods on two nodes of eight GPUs, of which one has disk for five: seven on the other.

    Whoever of these is made anew has the seat of the one before.
    """
    story = Tight(n0=42, n1=200)
    for i in range(12):
        story.make(f"g{i}", 8, gang="g", size=12)
    story.rest()
    assert Counter(story.bound().values()) == {"n0": 5, "n1": 7}
    for node in ("n0", "n1"):
        (name, *_) = [one for one, on in story.bound().items() if on == node]
        story.server.drop(("ml", name))
        story.make(f"on-{node}", 8, gang="g", size=12)
        story.rest()
        assert story.bound()[f"on-{node}"] == node


def test_it_keeps_its_place_while_nodes_refuse_it():
    """It is one job in the journal, and before who came later."""
    story = Tight(n0=10)
    story.make("wide", 100, gpus=8)
    story.rest()
    story.make("late", 1, gpus=8)
    story.rest()
    assert story.bound() == {"late": "n0"}
    story.make("later", 1, gpus=8)
    story.rest()
    story.set("n0", 150)
    story.server.finish(("ml", "late"))
    story.rest()
    assert story.bound() == {"wide": "n0"}
    names = [one.job.name for one in story.journal.read() if isinstance(one, ev.JobSubmitted)]
    assert names == ["ml/wide", "ml/late", "ml/later"]


@pytest.mark.parametrize("resource", [DISK, "cpu", "memory"])
def test_what_a_node_does_not_advertise_it_has_not(resource: str):
    """A pod that requests some waits; one that requests none is bound."""
    story = Story()
    row = made.node("n0", 8, amounts={resource: None})
    story.server.nodes["n0"] = row
    story.server.news.append(("Node", ("", "n0"), row, False))
    requests = {resource: {DISK: "1Gi", "cpu": "1", "memory": "1Gi"}[resource]}
    story.server.make("wants", 1, cpu="0", memory="0", requests=requests)
    story.server.make("none", 1, cpu="0", memory="0")
    story.rest()
    assert story.bound() == {"none": "n0"}


@pytest.mark.parametrize(
    ("resource", "large", "small", "said"),
    [
        ("cpu", "186", "20", "has 6 cores left, and 20 are requested"),
        ("memory", "1992Gi", "100Gi", "has 24.0 GiB of memory left, and 100.0 are requested"),
    ],
)
def test_a_pod_that_was_resized_in_place_has_what_it_requests_now(
    resource: str, large: str, small: str, said: str
):
    """What it was placed with is in the books: the kubelet counts what it has by now.

    Others go elsewhere, and wait where they may not; they start when it is smaller again.
    """
    story = Story(8)
    story.server.make("first", 1, requests={resource: "1"})
    story.rest()
    story.server.resize(("ml", "first"), **{resource: large})
    story.server.make("next", 1, requests={resource: small})
    story.rest()
    assert story.bound() == {"first": "n0"}
    reason, words = story.held()["ml/next"]
    assert reason == "BindRefused"
    assert f"node `n0` {said}" in words
    story.server.put_node("n1", 8)
    story.server.make("free", 1, requests={resource: small})
    story.rest()
    assert story.bound() == {"first": "n0", "free": "n1", "next": "n1"}


def test_a_pod_starts_when_one_that_was_resized_in_place_is_smaller_again():
    """Nothing has left the node, and there is room."""
    story = Story(8)
    story.server.make("first", 1, requests={"cpu": "1"})
    story.rest()
    story.server.resize(("ml", "first"), cpu="186")
    story.server.make("next", 1, requests={"cpu": "20"})
    story.rest()
    story.server.resize(("ml", "first"), cpu="2")
    story.rest()
    assert story.bound() == {"first": "n0", "next": "n0"}
