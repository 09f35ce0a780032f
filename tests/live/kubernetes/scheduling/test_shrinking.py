"""Gangs at work that their owner makes smaller: seats that nobody is to have are free."""

import asyncio

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling import test_owners as owned
from tests.live.kubernetes.scheduling.pretended import Object, Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story, in_group, pod_group
from tidemill.live.kubernetes.scheduling import differ

SET = ("apps/v1", "ReplicaSet", "rs")


def job(size: int) -> Object:
    return owned.job("g", size)


def replica_set(size: int) -> Object:
    return made.owner("apps/v1", "ReplicaSet", "rs", {"replicas": size})


def make(story: Story, number: int) -> None:
    """A pod of the Job, by its number."""
    owned.make(story, number, ("batch/v1", "Job", "g"), {})


def gang(size: int, nodes: int) -> Story:
    """A Job of so many pods of 2 GPUs at work, each on a node of its own."""
    story = Story(*[2] * nodes)
    story.server.put(job(size))
    for i in range(size):
        make(story, i)
    story.rest()
    assert len(story.bound()) == size
    return story


def wait(story: Story) -> None:
    """Until all is done that can be, whatever is held."""
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())


@pytest.mark.parametrize("left", [3, 1])
def test_seats_beyond_what_an_owner_wants_are_free_when_their_pods_are_gone(left: int):
    """A Job of four is made smaller: others sit there as soon as its pods have left."""
    story = gang(4, 4)
    for i in range(4):
        story.server.make(f"next{i}", 2)
    story.server.put(job(left))
    wait(story)
    assert len(story.bound()) == 4, "its pods are still there"
    for i in range(left, 4):
        story.server.finish(("ml", f"g-{i}"))
    story.rest()
    assert {f"g-{i}" for i in range(left)} <= {*story.bound()}
    assert len(story.bound()) == 4


def test_an_owner_that_is_seen_late_frees_seats_when_it_is_seen():
    """The pod is gone first: its seat is kept, since an owner may make another."""
    story = gang(2, 2)
    story.server.finish(("ml", "g-1"))
    story.server.make("next", 2)
    wait(story)
    assert {*story.bound()} == {"g-0"}
    story.server.put(job(1))
    story.rest()
    assert {*story.bound()} == {"g-0", "next"}


def test_a_pod_that_is_replaced_has_its_seat_also_in_a_gang_that_was_made_smaller():
    """Of three, one too many leaves, and one is made anew: two seats are kept."""
    story = gang(3, 3)
    story.server.put(job(2))
    story.server.finish(("ml", "g-2"))
    story.server.finish(("ml", "g-1"))
    for i in range(2):
        story.server.make(f"next{i}", 2)
    wait(story)
    assert len({*story.bound()} - {"g-0"}) == 1
    make(story, 1)
    story.rest()
    assert {"g-0", "g-1"} <= {*story.bound()}
    assert len(story.bound()) == 3


def test_a_gang_that_shrank_and_grows_again_is_whole_again():
    """Three, two, three: it starts anew with all three, as any gang that is made larger."""
    story = gang(3, 3)
    story.server.put(job(2))
    story.server.finish(("ml", "g-2"))
    story.rest()
    story.server.put(job(3))
    make(story, 2)
    wait(story)
    assert {("g-0", "eviction"), ("g-1", "eviction")} <= {*story.server.asked}
    for key in list(story.server.pods):
        story.server.finish(key)
    for i in range(3):
        make(story, i)
    story.rest()
    assert len(story.bound()) == 3


@pytest.mark.parametrize("is_first", [True, False])
def test_a_gang_that_shrank_while_the_scheduler_was_down_is_as_large_as_its_pods(is_first: bool):
    """The journal has three seats, the cluster two pods and an owner that wants two; or before."""
    story = gang(3, 3)
    if is_first:
        story.server.put(job(2))
        story.server.finish(("ml", "g-2"))
        story.rest()
    else:
        story.server.finish(("ml", "g-2"))
    story.server.make("next", 2)
    story.scheduler = Scheduler(story.server, story.journal)
    story.server.put(job(2))
    story.rest()
    assert {*story.bound()} == {"g-0", "g-1", "next"}


def test_a_gang_of_a_replica_set_that_shrank_gives_its_seat_away_after_a_minute():
    """Nobody knows whether another owner has pods of the gang: it may make one."""
    story = Story(2, 2, 2)
    story.server.put(replica_set(3))
    for i in range(3):
        story.server.make(f"r{i}", 2, gang="rs", size=3, owner=SET)
    story.rest()
    story.server.put(replica_set(2))
    story.server.finish(("ml", "r1"))
    story.server.make("next", 2)
    wait(story)
    assert {*story.bound()} == {"r0", "r2"}
    story.scheduler.clock += differ.SEAT_GRACE_MS
    story.rest()
    assert {*story.bound()} == {"r0", "r2", "next"}


def test_a_gang_of_a_replica_set_that_replaces_a_pod_keeps_its_seat():
    """It wants three as before: after ten minutes the seat is still kept."""
    story = Story(2, 2, 2)
    story.server.put(replica_set(3))
    for i in range(3):
        story.server.make(f"r{i}", 2, gang="rs", size=3, owner=SET)
    story.rest()
    story.server.finish(("ml", "r1"))
    story.server.make("next", 2)
    wait(story)
    story.scheduler.clock += 10 * differ.SEAT_GRACE_MS
    wait(story)
    assert {*story.bound()} == {"r0", "r2"}
    story.server.make("r3", 2, gang="rs", size=3, owner=SET)
    story.rest()
    assert {*story.bound()} == {"r0", "r2", "r3"}


def test_a_group_of_which_a_pod_beyond_the_gang_stays_gives_the_seat_away():
    """Two start together, a third follows; one of the two leaves, and two pods are wanted."""
    story = Story(2, 2, 2)
    story.server.put(pod_group("g", 2))
    story.server.put(replica_set(3))
    for i in range(3):
        story.server.make(f"g{i}", 2, spec=in_group("g"), owner=SET, created=i)
    story.rest()
    story.rest()
    assert len(story.bound()) == 3
    story.server.put(replica_set(2))
    story.server.finish(("ml", "g0"))
    story.server.make("next", 2)
    wait(story)
    story.scheduler.clock += differ.SEAT_GRACE_MS
    story.rest()
    assert {*story.bound()} == {"g1", "g2", "next"}
