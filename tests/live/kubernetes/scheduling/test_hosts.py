"""Pods without GPUs of a gang that has to be in one rack are bound with it, whole or not at all."""

import asyncio
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import OWNER, Object, Scheduler
from tests.live.kubernetes.scheduling.test_group_topology import DIALECTS, RACK, group, story_of
from tests.live.kubernetes.scheduling.test_holding import Story

MPI = ("kubeflow.org/v2beta1", "MPIJob", "g")


def launch(story: Story, names: Object, *, cpu: str = "1", workers: int = 2, **rest: Any) -> None:
    """A launcher, and then workers with whole nodes, that name a group."""
    story.server.make("launcher", 0, **names, **({"cpu": cpu} | rest))
    for i in range(workers):
        story.server.make(f"w{i}", 8, **names, **rest)


def of_three(dialect: str) -> tuple[Object, Object]:
    """A group of three that has to be in one rack, and how pods name it."""
    version, spec, names = DIALECTS[dialect]
    least: Object = {"minMember": 3}
    if dialect == "core":
        least = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    return group(version, spec | least), names


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_launcher_is_bound_in_the_rack_of_its_workers(dialect: str):
    """n0 in rack a, n1 and n2 in b; where the launcher would fit everywhere, it goes to b; and with
    no rack for the workers it is not bound either.
    """
    declared, names = of_three(dialect)
    for racks, on in ((("a", "b", "b"), {"n1", "n2"}), (("a", "b", "c"), set[str]())):
        story = story_of(*racks)
        story.server.put(declared)
        launch(story, names)
        story.rest()
        assert set(story.bound().values()) == on
        assert len(story.bound()) == (3 if on else 0)
        assert story.held() == {}


def test_a_rack_without_cpus_for_the_launcher_is_no_rack_for_the_gang():
    """The workers would fit in rack b alone, the launcher only in a: none of them is bound; with
    CPUs there all are.
    """
    declared, names = of_three("core")
    story = story_of("a", "b", "b")
    story.server.put(declared)
    story.server.make("busy", 0, on="n1", cpu="187")
    story.server.make("busier", 0, on="n2", cpu="187")
    launch(story, names, cpu="8")
    story.rest()
    assert set(story.bound()) == {"busy", "busier"}
    story.server.drop(("ml", "busy"))
    story.rest()
    assert story.bound()["launcher"] == "n1"
    assert {story.bound()["w0"], story.bound()["w1"]} == {"n1", "n2"}


def test_a_launcher_that_may_only_be_on_some_nodes_is_bound_there():
    """It selects a node of rack a: the gang goes to that rack; one that no rack has holds all."""
    declared, names = of_three("volcano")
    for chosen, on in (("n1", {"n0", "n1"}), ("n9", set[str]())):
        story = story_of("a", "a", "b", "b")
        story.server.put(declared)
        selector: Object = {"spec": {"nodeSelector": {"kubernetes.io/hostname": chosen}}}
        for name in ("n0", "n1", "n2", "n3"):
            story.server.nodes[name]["metadata"]["labels"]["kubernetes.io/hostname"] = name
        story.server.make("launcher", 0, **names, **selector)
        for i in range(2):
            story.server.make(f"w{i}", 8, **names)
        story.rest()
        assert set(story.bound().values()) == on
        assert story.bound().get("launcher") == (chosen if on else None)


@pytest.mark.parametrize("is_late", [False, True])
def test_whatever_of_a_gang_comes_first_nothing_is_bound_before_all_is_there(is_late: bool):
    """The launcher before its group, the group before the workers; or the launcher last."""
    declared, names = of_three("core")
    story = story_of("a", "b", "b")
    if not is_late:
        story.server.make("launcher", 0, **names)
        story.rest()
        assert [why for why, _ in story.held().values()] == ["UnknownGang"]
    story.server.put(declared)
    story.rest()
    for i in range(2):
        story.server.make(f"w{i}", 8, **names)
        story.rest()
        if i == 0 or is_late:
            assert story.bound() == {}
            assert {why for why, _ in story.held().values()} == {"WaitingForGang"}
    if is_late:
        story.server.make("launcher", 0, **names)
        story.rest()
    assert set(story.bound().values()) == {"n1", "n2"}
    assert len(story.bound()) == 3


def test_a_launcher_that_comes_when_its_workers_run_goes_where_they_are():
    """A group of two workers, bound in rack b; the launcher is made then, and lands there; when all
    of them are made anew they start together.
    """
    version, spec, names = DIALECTS["core"]
    story = story_of("a", "b", "b")
    story.server.put(group(version, spec))
    for i in range(2):
        story.server.make(f"w{i}", 8, **names)
    story.rest()
    assert set(story.bound().values()) == {"n1", "n2"}
    story.server.make("launcher", 0, **names)
    story.rest()
    assert story.bound()["launcher"] in ("n1", "n2")
    for name in ("w0", "w1", "launcher"):
        story.server.drop(("ml", name))
    story.rest()
    story.server.make("other", 1, spec={"nodeSelector": {RACK: "a"}})
    story.rest()
    launch(story, names)
    story.rest()
    assert len(story.bound()) == 4
    assert {story.bound()[name] for name in ("w0", "w1", "launcher")} == {"n1", "n2"}


@pytest.mark.parametrize("owner", [MPI, OWNER], ids=["of a job", "of nobody known"])
def test_a_launcher_that_is_gone_gets_its_seat_again(owner: tuple[str, str, str]):
    """Its owner makes another: it sits where it did, the workers stay; so after a restart."""
    declared, names = of_three("kai")
    story = story_of("a", "b", "b")
    story.server.put(declared)
    told = {"Launcher": {"replicas": 1, "template": made.template(0)},
            "Worker": {"replicas": 2, "template": made.template(8)}}  # fmt: skip
    if owner == MPI:
        story.scheduler.view.awaited.is_read = lambda *_: True
        story.server.put(made.owner(MPI[0], MPI[1], MPI[2], {"mpiReplicaSpecs": told}))
    launch(story, names, owner=owner)
    story.rest()
    before = story.bound()
    assert len(before) == 3
    story.server.drop(("ml", "launcher"))
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())
    story.server.make("launcher", 0, **names, owner=owner)
    story.rest()
    assert story.bound() == before
    story.scheduler = Scheduler(story.server, story.journal)
    story.server.put(declared)
    story.rest()
    assert story.bound() == before
