"""Jobs held for a counter of shared devices: who is stopped for them, and who is not."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.live.kubernetes.scheduling.pretended import (
    CLAIMED,
    Object,
    PretendedServer,
    Scheduler,
    results_of,
)
from tests.live.kubernetes.scheduling.test_evicting import PREEMPTS, budget
from tests.live.kubernetes.scheduling.test_partitions import over_consumed
from tests.live.kubernetes.scheduling.test_placing import PODS
from tests.live.kubernetes.scheduling.test_rights import POLICY, preempted, priorities
from tests.rigs.kubernetes.claimed import API, TEMPLATES, allocated, wrong_claims
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import (
    WHOLE,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    node,
    of_profile,
    partitioned,
    replica_set,
)
from tidemill.explain import said
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling import allocating, cutting, keeping
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue, Share
from tidemill.model.states import JobState

ONE = of_profile("1g.10gb")


class Cut:
    """Machines whose GPUs are cut when somebody asks, and a scheduler that may preempt."""

    def __init__(self, *gpus: int, policy: Policy = PREEMPTS) -> None:
        self.server, self.journal = PretendedServer(random.Random(1)), MemoryJournal()
        for i, count in enumerate(gpus):
            self.server.put_node(f"c{i}", count)
        self.scheduler = Scheduler(self.server, self.journal, policy)
        self.rest()

    def comes(
        self, name: str, like: str, priority: int = 0, *, count: int = 1, pods: int = 1,
        namespace: str = "ml", labels: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """A job whose pods want so many such devices each."""
        for i in range(pods):
            self.server.make(
                f"{name}-{i}", count, resource=CLAIMED, annotations={"rig/devices": like},
                spec={"priority": priority}, namespace=namespace, labels=labels or {},
                gang=name if pods > 1 else "", size=pods,
            )  # fmt: skip
        self.rest()

    def rest(self) -> None:
        """Until there is nothing to do; then no counter is over-consumed, no gang in part."""
        self.server.deliver(self.scheduler.view, len(self.server.news))
        asyncio.run(self.scheduler.rest())
        asyncio.run(self.scheduler.rest())
        used = dict[str, list[str]]()
        for claim in self.server.claims.values():
            for row in results_of(claim):
                used.setdefault(row["pool"], []).append(row["device"])
        assert {m: over_consumed(some) for m, some in used.items() if over_consumed(some)} == {}

    def running(self) -> Counter[str]:
        """How many pods of each job are bound."""
        return Counter(name.rpartition("-")[0] for (_, name), one in self.server.pods.items()
                       if one["spec"].get("nodeName"))  # fmt: skip

    def evicted(self) -> list[str]:
        return [pod for pod, what in self.server.asked if what == "eviction"]

    def held(self) -> dict[str, str]:
        return {unit.shown: why.reason for unit, why in self.scheduler.differ.held.items()}


def test_a_better_job_has_a_whole_gpu_cut_for_it():
    """Two GPUs are held whole; an instance of more priority comes: one of them is stopped, once.

    The victim waits afterwards, and its place is not given back to it.
    """
    story = Cut(2)
    story.comes("a", WHOLE)
    story.comes("b", WHOLE)
    story.comes("small", ONE, 10)
    assert story.running()["small"] == 1
    assert len(story.evicted()) == 1
    assert story.running()["a"] + story.running()["b"] == 1
    world = story.scheduler.loop.world
    waits = [name for name, j in world.job_number.items()
             if world.jobs.state[j] == JobState.WAITING]  # fmt: skip
    assert len(waits) == 1, "in the queue: a whole one is on offer, which the other holds"


def test_nobody_else_is_stopped_while_the_cluster_keeps_the_claim_of_who_left(
    monkeypatch: pytest.MonkeyPatch,
):
    """The controllers take minutes to delete it: the job waits for that, and is placed then.

    Not for ever: after ten minutes somebody else is stopped, whose claim is taken back at once.
    """
    monkeypatch.setattr(allocating, "MOST_TRIES", 2)  # of devices that are held
    for late_ms, stopped in ((5 * 60_000, 1), (11 * 60_000, 2)):
        story = Cut(2)
        story.comes("a", WHOLE)
        story.comes("b", WHOLE)
        story.server.is_late = True
        story.comes("small", ONE, 10)
        story.rest()
        story.server.is_late = stopped > 1
        story.scheduler.clock += late_ms
        story.server.make("wakes", 0)
        story.rest()
        assert len(story.evicted()) == stopped
        assert story.running()["small"] == 0
        story.server.take_back()
        story.rest()
        assert (story.running()["small"], len(story.evicted())) == (1, stopped)


def test_who_was_bound_a_moment_ago_is_stopped_once_that_is_known():
    """The pod runs before the answer to its bind has come, and a better job waits by then.

    Who runs is searched for again when the answer is there, not a minute later.
    """
    story = Cut(1)

    async def slow_answer() -> int:
        server, scheduler = story.server, story.scheduler
        server.slow = asyncio.Event()
        story.server.make("a-0", 1, resource=CLAIMED, annotations={"rig/devices": WHOLE})
        story.server.make("small-0", 1, resource=CLAIMED, annotations={"rig/devices": ONE},
                          spec={"priority": 10})  # fmt: skip
        later = [one for one in server.news if "small-0" in one[1][1]]
        server.news = [one for one in server.news if "small-0" not in one[1][1]]
        server.deliver(scheduler.view, len(server.news))
        for _ in range(3):
            scheduler.beat()
            for _ in range(20):  # the sender gives devices, and binds
                await asyncio.sleep(0)
            server.news += later
            later = []
            server.deliver(scheduler.view, len(server.news))
        assert story.evicted() == [], "whether it runs is not sure"
        server.slow.set()
        await scheduler.rest()
        return scheduler.clock

    assert asyncio.run(slow_answer()) < cutting.AGAIN_MS
    assert story.running()["small"] == 1
    assert story.evicted() == ["a-0"]


def test_whoever_is_stopped_is_told_even_if_its_pods_are_gone_at_once():
    """The pod has left the cluster before anybody looks: it gets its Event all the same."""
    story = Cut(1)
    sayer = WaitSayer(story.server, story.scheduler.differ, said, "tidemill")  # type: ignore[arg-type]
    story.comes("a", WHOLE)
    story.comes("small", ONE, 10)
    assert story.evicted() == ["a-0"]
    assert ("ml", "a-0") not in story.scheduler.view.pods

    async def tell() -> None:
        world, (asked,) = story.scheduler.loop.world, story.scheduler.backend.stopped
        for one in story.scheduler.sender.evicting:
            sayer.happened(one.pods, *keeping.stopped_words(world, asked))
        await sayer.stop()

    asyncio.run(tell())
    (told,) = (one for one in story.server.happened if one["reason"] == "Preempted")
    assert told["regarding"]["name"] == "a-0"
    assert "make room for job `ml/small-0`" in told["note"]


def test_a_better_job_has_instances_stopped_for_a_whole_gpu():
    """Nine instances on two GPUs; a whole one is wanted: those of the GPU with fewer leave."""
    story = Cut(2)
    for i in range(9):
        story.comes(f"small{i}", ONE)
    story.comes("wide", WHOLE, 10)
    assert story.running()["wide"] == 1
    assert len(story.evicted()) == 2
    assert sum(story.running().values()) == 1 + 7


def test_who_has_no_right_stops_nobody():
    """The same priority; another team; a job that was started just now (`min_run`)."""
    for policy, priority, namespace in (
        (PREEMPTS, 0, "ml"), (PREEMPTS, 10, "web"), (Policy(preempt_gain_ppm=0), 10, "ml"),
    ):  # fmt: skip
        story = Cut(1, policy=policy)
        story.comes("a", WHOLE)
        story.comes("small", ONE, priority, namespace=namespace)
        assert story.evicted() == []
        assert story.held() == {f"{namespace}/small-0": "WaitingForCounter"}


def test_a_budget_a_quota_and_a_gang_that_could_not_be_whole_stop_nobody():
    """All that is needed may go, or nobody; and nobody for a job that would not start then."""
    story = Cut(1)
    story.server.put(budget(0, app="a"))
    story.comes("a", WHOLE, labels={"app": "a"})
    story.comes("small", ONE, 10)
    assert story.evicted() == []
    story = Cut(1)
    story.scheduler.differ.rules = FleetRules(
        (Queue("ml", (Share("1G.10GB OF H100", 0, 2000),)),)
    )  # fmt: skip
    story.comes("a", WHOLE)
    story.comes("small", ONE, 10, pods=3)
    assert story.evicted() == []
    story = Cut(1)
    story.comes("a", WHOLE)
    story.comes("many", ONE, 10, pods=8)
    assert story.evicted() == []
    story.comes("seven", ONE, 10, pods=7)
    assert story.running() == {"seven": 7}


def test_the_cheapest_leave_and_nobody_who_would_only_be_moved():
    """Of a lower and a higher priority the lower leaves; who finds a device elsewhere stays."""
    story = Cut(2)
    story.comes("low", WHOLE, 1)
    story.comes("mid", WHOLE, 5)
    story.comes("small", ONE, 10)
    assert [one.rpartition("-")[0] for one in story.evicted()] == ["low"]
    story = Cut(2)
    story.comes("a", ONE, 1)
    story.comes("b", WHOLE, 1)
    story.comes("two", WHOLE, 10, count=2)
    assert story.running() == {"two": 1}


def test_on_many_machines_a_set_is_tried_where_the_victims_are(monkeypatch: pytest.MonkeyPatch):
    """As if there were more machines than are tried: one victim leaves, nobody is moved."""
    monkeypatch.setattr(cutting, "MOST_MACHINES", 1)
    story = Cut(1, 1, 1)
    for name in "abc":
        story.comes(name, WHOLE)
    story.comes("small", ONE, 10)
    assert len(story.evicted()) == 1
    assert sum(story.running().values()) == 3
    assert story.running()["small"] == 1


def test_random_jobs_come_to_rest_and_counters_are_never_over_consumed():
    """Sizes, counts, priorities and gangs at random: rest comes, with the checks of ``rest``.

    None is sent where its devices are not: then its bind would be refused.
    """
    for seed in range(6):
        chance = random.Random(seed)
        story = Cut(*(chance.randint(1, 2) for _ in range(2)))
        for i in range(12):
            like = chance.choice([WHOLE, ONE, of_profile("2g.20gb"), of_profile("3g.40gb")])
            story.comes(f"j{i}", like, chance.choice([0, 0, 5, 10]),
                        pods=chance.choice([1, 1, 2]))  # fmt: skip
        for name, count in story.running().items():
            wanted_pods = sum(pod.startswith(f"{name}-") for _, pod in story.server.pods)
            assert count == wanted_pods, f"seed {seed}: {name} is bound in part"
        assert {*story.held().values()} <= {"WaitingForCounter"}, f"seed {seed}"


def small(name: str, template: str, priority: str) -> Object:
    """A ReplicaSet of one pod with a claim, made again when it is evicted."""
    return replica_set(name, 1, 0, schedulerName=OURS, priorityClassName=priority,
                       **claiming(template=template))  # fmt: skip


def test_a_gpu_is_cut_for_a_better_job_on_a_real_cluster(rig: Cluster, tmp_path: Path):
    """Both GPUs of a machine are held whole; a better job wants an instance: one of them leaves.

    It gets an Event that says for whom; the counters are never over-consumed; when the better one
    is gone the other comes back.
    """
    sets = "/apis/apps/v1/namespaces/ml/replicasets"
    before = preempted(rig).keys()
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.create(f"{API}/deviceclasses", device_class())
    rig.add_nodes(node("n0", 2, advertised=0))
    rig.create(f"{API}/resourceslices", *partitioned("n0", 2))
    rig.create(TEMPLATES, claim_template("whole", claim_spec(1, WHOLE)),
               claim_template("1g", claim_spec(1, ONE)))  # fmt: skip

    def bound(name: str) -> int:
        return sum(pod["metadata"]["name"].startswith(f"{name}-") and
                   bool(pod["spec"].get("nodeName")) and
                   "deletionTimestamp" not in pod["metadata"]
                   for pod in rig.items(PODS))  # fmt: skip

    try:
        with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
            rig.create(sets, small("a", "whole", "low"), small("b", "whole", "low"))
            rig.wait_for("both have a GPU", lambda: bound("a") == bound("b") == 1)
            rig.create(sets, small("better", "1g", "high"))
            rig.wait_for("a GPU is cut", lambda: bound("better") == 1)
            rig.wait_for("one is left", lambda: bound("a") + bound("b") == 1)
            rig.wait_for("it is told", lambda: len(preempted(rig).keys() - before) == 1)
            (note,) = (said for name, said in preempted(rig).items() if name not in before)
            assert "priority 1000 is above 1" in note
            given = [device for some in allocated(rig).values() for _, device in some]
            assert over_consumed(given) == []
            rig.ask("DELETE", f"{sets}/better?propagationPolicy=Background")
            rig.wait_for("it is whole again", lambda: bound("a") == bound("b") == 1)
            assert ours.stop() == 0
    finally:
        for one in rig.items(sets):
            rig.ask("DELETE", f"{sets}/{one['metadata']['name']}?propagationPolicy=Background")
    assert wrong_claims(rig) == []
