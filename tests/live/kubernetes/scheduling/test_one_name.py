"""Several things of one namespace and name: each is a job of its own, and is called so for good."""

import itertools

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object, Scheduler
from tests.live.kubernetes.scheduling.test_holding import Story

LABEL = "scheduling.x-k8s.io/pod-group"


def group(name: str, least: int) -> Object:
    return made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": least})


def apply(story: Story, order: tuple[str, ...] = ("one", "annotated", "grouped")) -> None:
    """A pod `tri`, a gang `tri` by annotation, and a pod group `tri`, each of two GPUs or four."""
    for what in order:
        if what == "one":
            story.server.make("tri", 2)
        elif what == "annotated":
            for i in "ab":
                story.server.make(f"tri{i}", 2, gang="tri", size=2)
        else:
            for i in "cd":
                story.server.make(f"tri{i}", 1, labels={LABEL: "tri"})


def clear(story: Story) -> None:
    for key in [*story.server.pods]:
        story.server.drop(key)


def names(story: Story) -> list[str]:
    """The names of the jobs that are there."""
    lives = story.scheduler.differ.lives
    return sorted(lives.name(unit) for unit in story.scheduler.view.units())


def test_three_things_of_one_name_are_made_and_deleted_again_and_again():
    """In every order, with the scheduler beginning anew between: all five pods run each time."""
    story = Story(8)
    story.server.put(group("tri", 2))
    for order in itertools.permutations(("one", "annotated", "grouped")):
        for what in order:
            apply(story, (what,))
            story.rest()
        assert len(story.bound()) == 5
        before = names(story)
        assert len({*before}) == 3
        story.scheduler = Scheduler(story.server, story.journal)
        story.server.put(group("tri", 2))
        story.rest()
        assert names(story) == before
        assert len(story.bound()) == 5
        assert not [what for _, what in story.server.asked if what == "eviction"]
        clear(story)
        story.rest()


def test_a_restart_calls_jobs_of_one_name_as_before():
    """Which of them came first nobody shows any more: the journal keeps what each is called."""
    story = Story(8)
    story.server.put(group("tri", 2))
    for order in (("grouped",), ("annotated",), ("one",)):
        apply(story, order)
        story.rest()
    called = {
        unit: story.scheduler.differ.lives.name(unit) for unit in story.scheduler.view.units()
    }
    assert sorted(called.values()) == ["ml/tri", "ml/tri (Pod)", "ml/tri (PodGroup)"]
    story.server.pods = dict(reversed(story.server.pods.items()))
    story.scheduler = Scheduler(story.server, story.journal)
    story.server.put(group("tri", 2))
    story.rest()
    lives = story.scheduler.differ.lives
    assert {unit: lives.name(unit) for unit in story.scheduler.view.units()} == called
    assert len(story.bound()) == 5
    assert not [what for _, what in story.server.asked if what == "eviction"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_pod_of_another_scheduler_has_the_name_of_a_gang_of_ours(is_first: bool):
    """Both hold what they hold, whoever came first; neither ends the other."""
    story = Story(8)
    if is_first:
        story.server.make("tri", 3, on="n0")
        story.rest()
    apply(story, ("annotated",))
    story.rest()
    if not is_first:
        story.server.make("tri", 3, on="n0")
        story.rest()
    for _ in range(2):
        story.scheduler.view.look_at_all()
        story.rest()
    assert len(story.bound()) == 3
    assert len(story.scheduler.loop.world.job_names) == 2
    story.server.drop(("ml", "tri"))
    story.rest()
    story.server.make("late", 4)
    story.rest()
    assert len(story.bound()) == 3


def test_long_names_that_begin_alike_are_several():
    """Three gangs whose names are alike in their first 200 letters: three jobs."""
    story = Story(8)
    for i in range(3):
        for k in range(2):
            story.server.make(f"p{i}{k}", 1, gang="x" * 240 + str(i), size=2)
    story.rest()
    assert len(story.bound()) == 6
    assert len({*names(story)}) == 3
    assert max(map(len, names(story))) <= 200


def test_a_pod_that_is_made_anew_for_another_scheduler_is_that_ones():
    """Ours is deleted, and one of its name is bound by others, before anybody looks."""
    story = Story(8)
    story.server.make("web", 2)
    story.rest()
    story.server.drop(("ml", "web"))
    story.server.make("web", 3, on="n0")
    story.server.make("next", 5)
    story.rest()
    assert {*story.bound()} == {"web", "next"}
    world = story.scheduler.loop.world
    assert sum(len(pieces) for pieces in world.placements.values()) == 2


def test_a_pod_that_is_made_anew_without_its_rules_keeps_nobody_away():
    """A pod that had to be apart from others is replaced, unseen, by one of its name that has not;
    that one goes: others are placed as if the first had never been.
    """
    story, must = Story(8), "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    apart = {"schedulerName": "tidemill", "affinity": {"podAntiAffinity": {must: [term]}}}
    story.server.make("web", 2, spec=apart)
    story.rest()
    story.server.make("web", 2)  # as a watch tells it that was lost meanwhile
    story.rest()
    story.server.make("next", 1, labels={"a": "b"})
    story.rest()
    story.server.drop(("ml", "web"))
    story.rest()
    story.server.make("last", 1, labels={"a": "b"})
    story.rest()
    assert {*story.bound()} == {"next", "last"}
