"""Gangs that may be smaller, and whose owner wants fewer pods than they work with, or makes none.

The pods of an owner are made and taken away by the tests; its scale is the pretended server's.
"""

import asyncio

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling.resizing import LONGEST_MS

SIZE, LEAST = 4, 2


def owner(kind: str, replicas: int) -> Object:
    return made.owner("apps/v1", kind, "set", {"replicas": replicas})


def make(story: Story, kind: str, i: int) -> None:
    """A pod of the owner, by its number: it wants a node for itself."""
    told = {"tidemill/gang-least": str(LEAST)}
    story.server.make(
        f"set-{i}", 8, gang="g", size=SIZE, owner=("apps/v1", kind, "set"), annotations=told
    )  # fmt: skip


def scaled(story: Story, kind: str, before: int, now: int) -> None:
    """Somebody gives the owner another number of pods, and it has them."""
    story.server.put(owner(kind, now))
    for i in range(now, before):
        story.server.drop(("ml", f"set-{i}"))
    for i in range(before, now):
        make(story, kind, i)


def elastic(kind: str, replicas: int, nodes: int = 4) -> Story:
    """A cluster with so many nodes of 8, and an elastic gang of which so many pods are there."""
    story = Story(*[8] * nodes)
    story.scheduler.let_resize()
    scaled(story, kind, 0, replicas)
    return story


def wait(story: Story, ms: int = 0) -> None:
    """So long, and until all is done that can be, whatever is held."""
    story.scheduler.clock += ms
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())


def booked(story: Story) -> int:
    """How many pods' places the books hold."""
    placements = story.scheduler.loop.world.placements
    return sum(piece.replicas for pieces in placements.values() for piece in pieces)


def is_below(kind: str) -> tuple[str, str]:
    says = f"its owner, the {kind} `ml/set`, wants 1 pod, and the gang works with 2 at least"
    return "WaitingForGang", f"{says}: it starts when that many are wanted"


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_below_its_least_nothing_of_a_gang_starts_and_at_it_as_much_as_fits(kind: str):
    """Made with one pod: it waits, and holds nothing; with two of three nodes free it has three."""
    story = elastic(kind, 1, nodes=3)
    story.rest()
    assert story.bound() == {}
    assert booked(story) == 0
    assert story.held() == {"ml/g": is_below(kind)}
    scaled(story, kind, 1, 2)
    wait(story)
    assert ("set", "3") in story.server.asked
    make(story, kind, 2)
    story.rest()
    assert len(story.bound()) == booked(story) == 3
    assert story.held() == {}


def test_a_gang_that_waits_and_is_made_smaller_than_its_least_does_not_start_when_there_is_room():
    """One node of four is free at first: nothing starts; of one pod nothing starts either."""
    story = elastic("StatefulSet", 4, nodes=4)
    for i in range(3):
        story.server.make(f"first-{i}", 8, on=f"n{i}")
    story.rest()
    assert booked(story) == 3
    scaled(story, "StatefulSet", 4, 1)
    story.rest()
    for i in range(3):
        story.server.drop(("ml", f"first-{i}"))
    story.rest()
    assert story.bound() == {}
    assert booked(story) == 0
    assert story.held() == {"ml/g": is_below("StatefulSet")}


def test_a_gang_whose_owner_makes_no_more_pods_starts_with_those_there_after_two_minutes():
    """Two pods, four places: nobody makes the others (a quota), and the places are free then."""
    story = elastic("StatefulSet", 2)
    wait(story)
    assert ("set", "4") in story.server.asked
    assert len(story.bound()) == 2
    assert booked(story) == 4
    wait(story, LONGEST_MS // 2)
    assert booked(story) == 4
    wait(story, LONGEST_MS)
    wait(story)
    assert booked(story) == 2
    assert story.server.owners["statefulsets", "set"]["spec"]["replicas"] == 2
    story.rest()


def test_a_gang_that_is_made_smaller_than_its_least_while_it_starts_is_taken_back():
    """Two of four places have pods when its owner wants one: that one is evicted, and waits."""
    story = elastic("StatefulSet", 2)
    story.server.forbidden = "scale"
    wait(story)
    assert booked(story) == 4
    scaled(story, "StatefulSet", 2, 1)
    wait(story)
    assert ("set-0", "eviction") in story.server.asked
    assert booked(story) == 0
