"""GPUs that a device plugin does not advertise any more: nobody is placed on them, or stopped."""

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.kubernetes.scheduling.pretended import PretendedServer, Scheduler
from tests.live.kubernetes.scheduling.test_any_cluster import (
    a_pod_ends,
    a_pod_is_deleted,
    check,
    gpus_get_sick_or_well,
)
from tests.live.kubernetes.scheduling.test_evicting import PREEMPTS
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.model.states import NodeState

HIGH: dict[str, Any] = {"spec": {"priority": 1000, "schedulerName": "tidemill"}}


class Full(Story):
    """A node of 8 GPUs with two pods of 4, of which four GPUs become unhealthy."""

    def __init__(self) -> None:
        super().__init__(8)
        self.server.make("a", 4)
        self.server.make("b", 4)
        self.rest()
        self.server.put_node("n0", 8, sick=4)
        self.rest()

    @property
    def failed(self) -> int:
        """How many GPUs of the node are failed by the books."""
        world = self.scheduler.loop.world
        return world.nodes.failed.item(world.node_count - 1)

    @property
    def state(self) -> NodeState:
        """The state of the node, in its present life."""
        world = self.scheduler.loop.world
        return NodeState(world.nodes.state.item(world.node_count - 1))


def test_what_gets_free_of_unhealthy_gpus_is_not_given_out():
    """8 GPUs, 4 of them allocatable, two pods of 4: one leaves, and the next pod waits."""
    story = Full()
    assert story.bound() == {"a": "n0", "b": "n0"}
    story.server.finish(("ml", "a"))
    story.rest()
    assert (story.failed, story.state) == (4, NodeState.READY)
    story.server.make("c", 4)
    story.rest()
    assert story.bound() == {"b": "n0"}
    story.server.put_node("n0", 8)
    story.rest()
    assert story.bound() == {"b": "n0", "c": "n0"}
    assert story.failed == 0


def test_gpus_that_get_well_while_all_are_in_use_are_counted_again():
    """They never were free: nothing has failed, and the next pod is bound when one leaves."""
    story = Full()
    assert story.state is NodeState.CORDONED
    story.server.put_node("n0", 8)
    story.rest()
    story.server.finish(("ml", "a"))
    story.server.make("c", 4)
    story.rest()
    assert story.bound() == {"b": "n0", "c": "n0"}


def test_nobody_is_stopped_for_a_job_that_would_need_the_unhealthy_gpus():
    """A pod of 8 with a high priority: with all of them gone only 4 would be left."""
    story = Full()
    story.scheduler.loop.follow(live_policy(PREEMPTS))
    story.server.make("wide", 8, **HIGH)
    story.rest()
    assert story.bound() == {"a": "n0", "b": "n0"}
    assert "eviction" not in {what for _, what in story.server.asked}
    story.server.finish(("ml", "a"))
    story.rest()
    assert story.bound() == {"b": "n0"}


def test_gpus_that_get_sick_while_a_bind_is_on_its_way_are_counted_before_it_is_sent():
    """The plan is older than the news: the pod waits, and is not bound to what is gone."""
    story = Story(8)
    server, scheduler = story.server, story.scheduler
    server.make("a", 4, on="n0")
    story.rest()
    story.server.make("b", 4)
    sent = scheduler.sender.bind

    def late(seats: object) -> None:
        server.put_node("n0", 8, sick=4)
        server.deliver(scheduler.view, len(server.news))
        sent(seats)  # type: ignore[arg-type]

    scheduler.sender.bind = late  # type: ignore[method-assign]
    story.rest()
    assert story.bound() == {"a": "n0"}


def test_a_gang_whose_last_gpu_got_sick_on_the_way_is_placed_elsewhere_as_a_whole():
    """Three pods of four would hold their GPUs for as long as the fourth has none."""
    story = Story(8, 8)
    server, scheduler = story.server, story.scheduler
    for i in range(4):
        server.make(f"g-{i}", 2, gang="g", size=4)
    story.rest()
    (before,) = set(story.bound().values())
    sent = scheduler.sender.bind

    def late(seats: object) -> None:
        server.put_node(before, 8, sick=1)
        server.deliver(scheduler.view, len(server.news))
        sent(seats)  # type: ignore[arg-type]
        scheduler.sender.bind = sent  # type: ignore[method-assign]

    scheduler.sender.bind = late  # type: ignore[method-assign]
    server.delete(("ml", "g-3"))
    story.rest()
    (after,) = set(story.bound().values())
    assert (len(story.bound()), after) == (4, "n1" if before == "n0" else "n0")


def a_pod_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    server.make(f"p{turn}", chance.choice((1, 2, 4)))


HAPPENINGS = (
    a_pod_comes, a_pod_comes, a_pod_comes, a_pod_ends, a_pod_is_deleted, gpus_get_sick_or_well,
)  # fmt: skip


async def story_of_one_node(seed: int) -> None:
    """Pods come and go on a node that is mostly full, and GPUs of it get sick and well."""
    chance, journal = random.Random(seed), MemoryJournal()
    server = PretendedServer(chance)
    server.put_node("n0", 8)
    scheduler = Scheduler(server, journal)
    for turn in range(chance.randint(4, 16)):
        chance.choice(HAPPENINGS)(server, chance, turn)
        server.deliver(scheduler.view, chance.randint(0, len(server.news)))
        await scheduler.rest()
        check(server, journal)
        size = server.size("n0", of="allocatable")
        free = size - sum(
            int(one["metadata"]["annotations"]["rig/gpus"]) for one in server.pods.values()
            if one["spec"].get("nodeName")
        )  # fmt: skip
        waits = [one for one in server.pods.values() if not one["spec"].get("nodeName")]
        wanted = [int(one["metadata"]["annotations"]["rig/gpus"]) for one in waits]
        assert free < min(wanted, default=9), "what is well is used"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_pod_is_bound_beyond_what_is_allocatable(seed: int):
    """Whatever gets sick and well, and whoever comes and goes; and no GPU that is well is idle."""
    asyncio.run(story_of_one_node(seed))
