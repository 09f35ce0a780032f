"""Pods with `preemptionPolicy: Never`: they wait in front of the queue, and nobody is evicted."""

from tests.live.kubernetes.scheduling.test_evicting import PREEMPTS, Preemption
from tidemill import explain
from tidemill.live.kubernetes.scheduling.running import live_policy


def polite(story: Preemption, *policies: str) -> None:
    """A gang of higher priority comes, each of whose pods says whether it preempts."""
    for i, policy in enumerate(policies):
        spec = {"priority": 1000, "preemptionPolicy": policy}
        story.server.make(f"polite{i}", 8, gang="polite", size=len(policies), spec=spec)
    story.rest()


def test_nobody_is_evicted_for_pods_that_never_preempt():
    """It waits, and `why` does not say that somebody would be preempted for it."""
    story = Preemption()
    polite(story, "Never", "Never")
    assert story.evictions() == []
    assert (story.where("worse"), story.where("polite")) == (["n0", "n1"], ["-", "-"])
    world = story.scheduler.loop.world
    said = explain.why(world, live_policy(PREEMPTS), world.job_number["ml/polite"]).words
    assert "preempted for it" not in said
    assert "next cycle preempts" not in said
    assert "`ml/worse` of less priority may be stopped for others, and nobody is for this" in said
    assert "preemptionPolicy is Never" in said


def test_a_gang_of_which_one_pod_never_preempts_never_does():
    """One of its two pods says so."""
    story = Preemption()
    polite(story, "PreemptLowerPriority", "Never")
    assert story.evictions() == []


def test_pods_that_may_preempt_still_do():
    """The default, as the API server writes it."""
    story = Preemption()
    polite(story, "PreemptLowerPriority", "PreemptLowerPriority")
    assert story.where("polite") == ["n0", "n1"]


def test_pods_that_never_preempt_are_first_when_something_is_free():
    """Before the gang that had the place and is made anew by its owner."""
    story = Preemption()
    polite(story, "Never", "Never")
    for key in [key for key in story.server.pods if key[1].startswith("worse")]:
        story.server.delete(key)
    story.rest()
    assert (story.where("worse"), story.where("polite")) == (["-", "-"], ["n0", "n1"])
    assert story.evictions() == []
