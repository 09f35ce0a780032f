"""Pods of a pod group beyond what it needs: never before the gang, never counted twice."""

import asyncio

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story, in_group, pod_group
from tidemill.explain import partial_gangs
from tidemill.live.kubernetes.scheduling.differ import SEAT_GRACE_MS, FleetRules
from tidemill.model import events as ev
from tidemill.model.rows import Queue, Share
from tidemill.model.states import NodeState


def group_of(story: Story, pods: int, gpus: int, least: int = 2) -> None:
    story.server.put(pod_group("g", least))
    for i in range(pods):
        story.server.make(f"g{i}", gpus, spec=in_group("g"))


def submitted(story: Story) -> list[str]:
    return [one.job.name for one in story.journal.read() if isinstance(one, ev.JobSubmitted)]


def placements_seen(story: Story) -> int:
    """How many jobs were found elsewhere than the plan put them."""
    return sum(isinstance(one, ev.PlacementSeen) for one in story.journal.read())


@pytest.mark.parametrize("by_quota", [False, True])
def test_a_pod_beyond_the_least_waits_until_its_gang_is_bound(by_quota: bool):
    """Room for one pod, or a quota of one: the gang of two waits, and the third waits after it."""
    story = Story(8, 8 if by_quota else 4)
    if by_quota:
        share = Share("H100", 0, 8_000)
        story.scheduler.differ.rules = FleetRules((Queue("ml", (share,)),))
    group_of(story, 3, 8)
    story.rest()
    assert story.bound() == {}
    reason, words = story.held()["ml/g2"]
    assert reason == "WaitingForGang"
    assert "0 of the 2 pods" in words
    assert set(story.held()) == {"ml/g2"}, "the gang is in the queue"
    if by_quota:
        story.scheduler.differ.rules = FleetRules((Queue("ml", (Share("H100", 0, 24_000),)),))
        story.server.put_node("n2", 8)
    else:
        story.server.put_node("n1", 8)
        story.server.put_node("n2", 8)
    story.rest()
    assert set(story.bound()) == {"g0", "g1", "g2"}
    assert story.held() == {}


def test_three_pods_that_are_seen_in_one_look_are_booked_once():
    """A gang of two and one beyond it, with room for all: 24 GPUs in all, on three open nodes."""
    story = Story(8, 8, 8)
    group_of(story, 3, 8)
    story.rest()
    world = story.scheduler.differ.world
    assert submitted(story) == ["ml/g", "ml/g2"]
    assert sum(piece.devices.bit_count() for ps in world.placements.values() for piece in ps) == 24
    assert placements_seen(story) == 0
    assert not any(
        isinstance(one, ev.NodeMoved) and one.to is NodeState.CORDONED
        for one in story.journal.read()
    )


def test_a_pod_that_comes_while_its_gang_is_bound_does_not_take_the_place_of_one():
    """`a0` is seen while `g0` and `g1` are being bound: they stay the gang, it is beyond."""
    story = Story(8, 8, 8)
    group_of(story, 2, 8)
    scheduler = story.scheduler
    story.server.deliver(scheduler.view, len(story.server.news))

    async def meet() -> None:
        scheduler.beat()
        assert not scheduler.sender.is_idle
        story.server.make("a0", 8, spec=in_group("g"))
        story.server.deliver(scheduler.view, len(story.server.news))
        scheduler.beat()
        await scheduler.rest()

    asyncio.run(meet())
    story.rest()
    assert set(story.bound()) == {"g0", "g1", "a0"}
    assert submitted(story) == ["ml/g", "ml/a0"]
    assert placements_seen(story) == 0


def test_a_restart_finds_the_same_gang_and_the_same_pod_beyond_it():
    """All three are bound: whoever begins again has nothing to tell."""
    story = Story(8, 8, 8)
    group_of(story, 3, 8)
    story.rest()
    before = len([*story.journal.read()])
    story.scheduler = Scheduler(story.server, story.journal)
    story.server.put(pod_group("g", 2))
    story.rest()
    told = [*story.journal.read()][before:]
    assert not any(isinstance(one, ev.JobSubmitted | ev.JobCancelled) for one in told)


def test_a_pod_beyond_the_least_leaves_when_its_gang_has_to_start_again():
    """The gang's pods are gone and made anew, and fit nowhere: the third does not stay alone."""
    story = Story(8, 8, 8)
    group_of(story, 3, 8)
    story.rest()
    for name, node in story.bound().items():
        if name != "g2":
            story.server.finish(("ml", name))
            story.server.put_node(node, 4)
            story.server.make(f"{name}-again", 8, spec=in_group("g"))
    story.rest()
    assert "g2" not in story.bound()


def test_a_pod_beyond_the_least_starts_when_its_gang_has_done_its_work():
    """Two of three are bound and end well; the third has their place, also when they are deleted.

    Before, it was one of two pods of a gang that nobody would ever make whole.
    """
    story = Story(8)
    group_of(story, 3, 4)
    story.rest()
    assert set(story.bound()) == {"g0", "g1"}
    for name in ("g0", "g1"):
        one = story.server.pods["ml", name]
        status = made.pod(name, 4, on="n0", end=100)["status"]
        story.server._put(("ml", name), one | {"status": status})
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())
    assert "g2" in story.bound()
    for name in ("g0", "g1"):
        story.server.finish(("ml", name))
    story.rest()
    assert story.bound() == {"g2": "n0"}
    assert story.held() == {}


@pytest.mark.parametrize("gone", ["k0", "k2"])
def test_a_gang_of_declared_size_is_whole_while_so_many_of_its_pods_run(gone: str):
    """Three pods of a gang of two by annotation: it is whole whichever of them is deleted."""
    story = Story(8, 8, 8)
    for i in range(3):
        story.server.make(f"k{i}", 8, gang="k", size=2, owner=None)
    story.rest()
    assert len(story.bound()) == 3
    assert submitted(story) == ["ml/k", "ml/k2"]
    story.server.finish(("ml", gone))
    story.rest()
    story.scheduler.clock += SEAT_GRACE_MS
    story.rest()
    world = story.scheduler.differ.world
    assert story.scheduler.differ.left == []
    assert partial_gangs.partial_gangs(world).gangs == ()
    story.server.finish(("ml", "k1"))
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())
    story.scheduler.clock += SEAT_GRACE_MS
    story.rest()
    assert [world.job_names[j] for j in story.scheduler.differ.left] == ["ml/k"], "one of two"


def test_a_group_that_is_to_start_with_more_goes_on_when_it_runs():
    """A group of 2 runs, two more pods wait; its object says 4: nobody is stopped for that, and the
    others start as they fit. What has not started waits for all four.
    """
    story = Story(4)
    story.server.put(pod_group("g", 2))
    for i in range(4):
        story.server.make(f"g{i}", 2, spec=in_group("g"), created=i)
    story.rest()
    before = story.bound()
    assert len(before) == 2
    story.server.put(pod_group("g", 4))
    story.rest()
    assert story.bound() == before
    story.server.put_node("n1", 4)
    story.rest()
    assert len(story.bound()) == 4
    assert before.items() < story.bound().items()


def test_a_gang_that_is_made_smaller_while_it_waits_says_whom_it_waits_for():
    """Its Job wants 2 pods of 4 by now, and all are there still; with 2 it starts."""
    story = Story(4)
    story.scheduler.view.awaited.is_read = lambda *_: True
    owner = ("batch/v1", "Job", "j")

    def wants(count: int) -> None:
        template = made.template(2, subdomain="j")
        story.server.put(made.owner(*owner, {
            "completionMode": "Indexed", "parallelism": count, "completions": count,
            "template": template,
        }))  # fmt: skip

    wants(4)
    for i in range(4):
        index = {"batch.kubernetes.io/job-completion-index": str(i)}
        story.server.make(f"j{i}", 2, owner=owner, labels=index, spec={"subdomain": "j"})
    story.rest()
    wants(2)
    story.rest()
    words = story.held()["ml/j"][1]
    assert words.startswith("its gang has 4 pods and wants 2")
    for i in (2, 3):
        story.server.drop(("ml", f"j{i}"))
    story.rest()
    assert set(story.bound()) == {"j0", "j1"}
