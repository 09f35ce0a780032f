"""Preemption takes whole jobs or nobody: budgets and the server are asked about all of them first.

On a pretended server, whose budgets count as the real ones do; ``test_rights`` has the real one.
"""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object, PretendedServer, Scheduler
from tests.live.kubernetes.scheduling.test_any_cluster import check
from tidemill import explain
from tidemill.explain.decision import stopped
from tidemill.explain.said import spared as spared_words
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling.kept_back import KeptBack
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause

PREEMPTS = Policy(min_run_ms=0, preempt_gain_ppm=0)


def budget(allowed: int, **labels: str) -> Object:
    """A disruption budget as its controller leaves it."""
    return made.owner(
        "policy/v1", "PodDisruptionBudget", "keep", {"selector": {"matchLabels": labels}},
        status={"disruptionsAllowed": allowed},
    )  # fmt: skip


class Preemption:
    """Two nodes full of a gang of two (8 GPUs each), and a better gang that comes."""

    def __init__(self, **rest: Any) -> None:
        self.server, self.journal = PretendedServer(random.Random(1)), MemoryJournal()
        for i in range(2):
            self.server.put_node(f"n{i}", 8)
            self.server.make(f"worse{i}", 8, gang="worse", size=2, labels={"app": "worse"}, **rest)
        self.scheduler = Scheduler(self.server, self.journal, PREEMPTS)
        self.rest()

    def better_comes(self) -> None:
        """A gang of higher priority that needs both nodes."""
        for i in range(2):
            self.server.make(f"better{i}", 8, gang="better", size=2, spec={"priority": 1000})
        self.rest()

    def rest(self) -> None:
        """Until there is nothing to do; then all is as it must be."""
        self.server.deliver(self.scheduler.view, len(self.server.news))
        asyncio.run(self.scheduler.rest())
        check(self.server, self.journal)

    def where(self, name: str) -> list[str]:
        """Where the pods of a gang are."""
        return sorted(
            one["spec"].get("nodeName", "-")
            for (_, pod), one in self.server.pods.items()
            if pod.startswith(name)
        )

    def evictions(self) -> list[str]:
        """Pods that were evicted, or asked to be."""
        return [pod for pod, what in self.server.asked if what == "eviction"]


def test_a_better_gang_takes_the_place_of_a_whole_one():
    """Without a budget both pods of the worse gang leave, once each."""
    story = Preemption()
    story.better_comes()
    assert story.where("better") == ["n0", "n1"]
    assert story.where("worse") == ["-", "-"]
    assert len(story.evictions()) == 2


def test_a_policy_that_lets_jobs_be_stopped_sooner_does_so_at_once():
    """Nobody is stopped in the first ten minutes; when the policy says at once, it happens."""
    story = Preemption()
    story.scheduler.loop.follow(live_policy(replace(PREEMPTS, min_run_ms=600_000)))
    story.better_comes()
    assert story.evictions() == []
    story.scheduler.loop.follow(live_policy(PREEMPTS))
    story.scheduler.backend.look()
    story.rest()
    assert story.where("better") == ["n0", "n1"]


def test_a_budget_that_lets_half_of_a_gang_go_keeps_all_of_it():
    """One of two may go: nobody is asked to. When the budget lets both go, both do."""
    story = Preemption()
    story.server.put(budget(1, app="worse"))
    story.better_comes()
    assert story.evictions() == []
    assert (story.where("worse"), story.where("better")) == (["n0", "n1"], ["-", "-"])
    story.server.put(budget(2, app="worse"))
    story.rest()
    assert (story.where("worse"), story.where("better")) == (["-", "-"], ["n0", "n1"])


def test_a_budget_that_comes_later_is_kept_and_one_that_goes_is_forgotten():
    """Budgets are watched: not those of the moment at which a job came."""
    story = Preemption()
    story.server.put(budget(0, app="worse"))
    story.better_comes()
    assert story.evictions() == []
    story.server.put(budget(0, app="worse"), is_gone=True)
    story.rest()
    assert story.where("better") == ["n0", "n1"]


def test_a_budget_that_is_not_told_yet_still_keeps_a_gang_whole():
    """The watch is late: the server refuses the second in a dry run, and nobody was evicted.

    The victims go on, as before; their preemptor waits, and is promised nothing.
    """
    story = Preemption()
    late = budget(0, app="worse")
    story.server.budgets["ml", "keep"] = late  # the server knows it, and tells nobody
    story.better_comes()
    assert story.evictions() == []
    assert story.where("worse") == ["n0", "n1"]
    world = story.scheduler.loop.world
    j = world.job_number["ml/worse"]
    assert not world.jobs.is_leaving[j]
    assert not dict(world.promised)
    assert story.scheduler.sender.counts.given_back == 1


def test_who_may_not_evict_leaves_everybody_where_they_are():
    """403 for evictions: the plan is called off, whole."""
    story = Preemption()
    story.server.forbidden = "eviction"
    story.better_comes()
    assert story.evictions() == []
    assert story.where("worse") == ["n0", "n1"]


def test_bare_pods_are_not_preempted_unless_they_say_so():
    """Nobody would make them again."""
    gang = {"tidemill/gang": "worse", "tidemill/gang-size": "2"}
    story = Preemption(owner=None)
    story.better_comes()
    assert story.where("worse") == ["n0", "n1"]
    story = Preemption(owner=None, annotations=gang | {"tidemill/preemptible": "true"})
    story.better_comes()
    assert story.where("better") == ["n0", "n1"]


def test_what_was_begun_is_brought_to_its_end_after_a_restart(monkeypatch: pytest.MonkeyPatch):
    """Killed after one of two evictions: the next scheduler evicts the other, budget or not."""
    story = Preemption()
    for i in range(2):
        story.server.make(f"better{i}", 8, gang="better", size=2, spec={"priority": 1000})
    story.server.deliver(story.scheduler.view, len(story.server.news))
    dead = story.scheduler.sender
    monkeypatch.setattr(dead, "evict", lambda *_, **__: None)  # it dies before it sends the rest
    story.scheduler.beat()
    story.server.delete(("ml", "worse0"))
    story.server.put(budget(1, app="worse"))
    story.scheduler = Scheduler(story.server, story.journal, PREEMPTS)
    story.rest()
    assert story.where("better") == ["n0", "n1"]
    assert story.where("worse") == ["-", "-"]


def test_all_who_go_are_named_where_a_budget_keeps_some_of_them():
    """Two jobs fill the nodes, a budget keeps one: without it both are stopped, and both named."""
    story = Preemption(owner=None)
    for name in ("worse0", "worse1"):
        story.server.finish(("ml", name))
    for name in ("kept", "loose"):
        story.server.make(name, 8, labels={"app": name})
    story.rest()
    story.server.put(budget(0, app="kept"))
    story.better_comes()
    world = story.scheduler.loop.world
    said = explain.why(world, live_policy(PREEMPTS), world.job_number["ml/better"]).words
    assert "`ml/kept` would be preempted for it, and is not: the PodDisruptionBudget" in said
    assert "or delete it: then `ml/kept` and `ml/loose` are preempted for it" in said


def test_the_budget_that_spares_a_job_is_named():
    """`why` of the better gang says which budget keeps the worse one, by namespace and name."""
    story = Preemption()
    story.server.put(budget(1, app="worse"))
    story.better_comes()
    world = story.scheduler.loop.world
    assert world.keepers == {0: "the PodDisruptionBudget `ml/keep`"}
    said = explain.why(world, live_policy(PREEMPTS), world.job_number["ml/better"]).words
    assert (
        "`ml/worse` would be preempted for it, and is not: the PodDisruptionBudget `ml/keep`"
        in said
    )
    assert (
        "or: let more pods go under the PodDisruptionBudget `ml/keep`, or delete it: then"
        " `ml/worse` is preempted for it"
    ) in said
    s = world.jobs.shape.item(world.job_number["ml/better"])
    words = KeptBack(world, spared_words).words(live_policy(PREEMPTS), s, Cause.BUSY)
    assert words.startswith("`ml/worse` would be preempted for it, and is not: the PodDisruption")
    told = explain.eta(world, live_policy(PREEMPTS), world.job_number["ml/better"])
    assert (told.verdict, told.wait and told.wait.p50_ms) == ("unknown", None)
    story.server.put(budget(2, app="worse"))
    story.rest()
    assert story.scheduler.loop.world.keepers == {}
    assert story.where("better") == ["n0", "n1"]


def test_who_was_preempted_says_so_until_its_owner_makes_new_pods(monkeypatch: pytest.MonkeyPatch):
    """The books call it cancelled while it has no pods; `why` says for whom it was stopped."""
    story = Preemption()
    for i in range(2):
        story.server.make(f"better{i}", 8, gang="better", size=2, spec={"priority": 1000})
    monkeypatch.setattr(story.server, "make", lambda *_, **__: None)  # its owner is slow
    story.rest()
    world = story.scheduler.differ.world
    world.cluster_kinds = {"": "kubernetes"}
    told = stopped.stopped(story.journal, world, world.job_number["ml/worse"], None)
    assert told is not None
    assert told.detail == "preempted"
    assert told.words.startswith("job `ml/worse` has no pods now: it was preempted ")
    assert told.words.endswith(" ago for `ml/better` of team `ml`, and no new ones were made yet")
    assert stopped.stopped(story.journal, world, world.job_number["ml/better"], None) is None


def test_why_names_the_node_that_a_running_gang_lost_and_says_what_comes_of_it():
    """Three of four pods are left, until its owner makes the fourth again: then all are stopped."""
    server, journal = PretendedServer(random.Random(1)), MemoryJournal()
    for i in range(4):
        server.put_node(f"n{i}", 8)
        server.make(f"t{i}", 8, gang="t", size=4)
    scheduler = Scheduler(server, journal)
    asyncio.run(scheduler.rest())
    server.news.append(("Node", ("", "n3"), server.nodes.pop("n3"), True))
    server.deliver(scheduler.view, 1)
    scheduler.beat()
    world = scheduler.loop.world
    world.scheduler = "tidemill"
    said = explain.why(world, Policy(), world.job_number["ml/t"]).words
    assert "3 of 4 replicas are placed, on `n0`, `n1` and `n2`; the others ended, or are" in said
    assert "gone with `n3`, which left the cluster at that moment: nobody here knows" in said
    assert "when its owner makes pods in their place, the scheduler stops the whole gang" in said
    assert "(pods without an owner: delete the others too, and make all anew)" in said
    asyncio.run(scheduler.rest())
    assert [one for one in server.asked if one[1] == "eviction"] == [
        (f"t{i}", "eviction") for i in range(3)
    ]
