"""Pods that are not placed whatever is free wait, and it is known why; gangs are as they say."""

import asyncio
import random
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import (
    CLAIMED,
    Object,
    PretendedServer,
    Scheduler,
)
from tests.live.kubernetes.scheduling.test_any_cluster import check
from tests.rigs.kubernetes import wanted
from tidemill.explain import held_jobs, partial_gangs, said
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling import (
    barring,
    differ,
    estimates,
    keeping,
    saying,
    unknown_types,
)
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.model.rows import Queue, Share


class Story:
    """A pretended cluster of some nodes, and a scheduler on it."""

    def __init__(self, *sizes: int) -> None:
        self.server, self.journal = PretendedServer(random.Random(1)), MemoryJournal()
        for i, size in enumerate(sizes):
            self.server.put_node(f"n{i}", size)
        self.scheduler = Scheduler(self.server, self.journal)

    def rest(self) -> None:
        """Until there is nothing to do; then all is as it must be."""
        self.server.deliver(self.scheduler.view, len(self.server.news))
        asyncio.run(self.scheduler.rest())
        check(self.server, self.journal)

    def ask_again(self) -> None:
        """Until the server was asked whether it would bind now what it refused, and it is done."""

        async def ask() -> None:
            refusals = self.scheduler.refusals
            while self.scheduler.differ.barred:
                refusals.take()
                await asyncio.sleep(0)
            await self.scheduler.rest()

        asyncio.run(ask())

    def bound(self) -> dict[str, str]:
        """The node of each pod that is bound."""
        return {
            name: one["spec"]["nodeName"]
            for (_, name), one in self.server.pods.items()
            if "nodeName" in one["spec"]
        }

    def held(self) -> dict[str, tuple[str, str]]:
        """Jobs that are held: the reason, and the words."""
        found = keeping.held(self.scheduler.differ, made.BEGIN_MS)
        return {one.name: (one.reason, one.words) for one in found}


def pod_group(name: str, least: int | None) -> Object:
    """A pod group of Kubernetes itself; None: each pod by itself."""
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    return made.owner(
        "scheduling.k8s.io/v1alpha2", "PodGroup", name, {"schedulingPolicy": policy}
    )  # fmt: skip


def in_group(name: str) -> Object:
    return {"schedulingGroup": {"podGroupName": name}}


def test_a_pod_whose_group_does_not_exist_yet_waits_for_it_and_says_so():
    """Two pods name a group; it is declared later: until then none is bound, then both are."""
    story = Story(8)
    for i in range(2):
        story.server.make(f"a{i}", 2, spec=in_group("pair"))
    story.rest()
    assert story.bound() == {}
    assert story.held()["ml/pair"][0] == "UnknownGang"
    assert "`ml/pair`" in story.held()["ml/pair"][1]
    assert "an object that is not watched" in story.held()["ml/pair"][1]
    story.scheduler.view.awaited.is_read = lambda *_: True
    story.server.annotate("a0", note="look again")
    story.rest()
    assert "which does not exist yet: it waits for it" in story.held()["ml/pair"][1]
    story.server.put(pod_group("pair", 2))
    story.rest()
    assert set(story.bound()) == {"a0", "a1"}
    assert story.held() == {}


@pytest.mark.parametrize("size", [None, "", "two", "0", "-1", "1e3"])
def test_a_gang_whose_size_is_no_number_waits_and_says_so(size: str | None):
    """Nothing is bound alone for a word that nobody can read."""
    story = Story(8)
    told = {"tidemill/gang": "g"} | ({} if size is None else {"tidemill/gang-size": size})
    story.server.make("g0", 2, annotations=told)
    story.server.make("free", 1)
    story.rest()
    assert set(story.bound()) == {"free"}
    reason, words = story.held()["ml/g"]
    assert reason == "MalformedGang"
    assert "tidemill/gang-size" in words


def test_the_size_of_a_gang_may_be_said_later_and_be_corrected():
    """Two pods name a gang without a size, then with a wrong one, then with the right one."""
    story = Story(8)
    for i in range(2):
        story.server.make(f"g{i}", 2, annotations={"tidemill/gang": "g"})
    story.rest()
    assert story.held()["ml/g"][0] == "MalformedGang"
    for i in range(2):
        story.server.annotate(f"g{i}", gang_size="3")
    story.rest()
    assert story.held()["ml/g"][0] == "WaitingForGang"
    for i in range(2):
        story.server.annotate(f"g{i}", gang_size="2")
    story.rest()
    assert set(story.bound()) == {"g0", "g1"}


def test_an_estimate_that_is_said_while_a_job_waits_is_read():
    """Nothing is free: the job waits; told later that it runs for ten minutes, it does so here."""
    story = Story(8)
    story.server.make("first", 8)
    story.rest()
    story.server.make("p", 1)
    story.rest()
    story.server.annotate("p", expected_duration="10m")
    story.rest()
    j, world = story.scheduler.differ.lives.present("ml/p"), story.scheduler.loop.world
    assert j is not None
    assert world.jobs.estimate_ms[j] == 600_000


def test_members_that_wait_for_the_rest_are_told_how_many_are_there():
    """Two of three pods: held, with both numbers; with the third nothing is held."""
    story = Story(8)
    for i in range(2):
        story.server.make(f"t{i}", 2, gang="trio", size=3)
    story.rest()
    reason, words = story.held()["ml/trio"]
    assert (reason, words[:8]) == ("WaitingForGang", "2 of the")
    assert "3 pods" in words
    story.server.make("t2", 2, gang="trio", size=3)
    story.rest()
    assert len(story.bound()) == 3
    assert story.held() == {}


def test_pods_beyond_the_least_of_a_group_are_placed_as_they_fit():
    """A group of 2 at least with 4 pods of 3 GPUs on 8 + 3: the pair is bound, and a third pod."""
    story = Story(8, 3)
    story.server.put(pod_group("g", 2))
    for i in range(4):
        story.server.make(f"g{i}", 3, spec=in_group("g"), created=i)
    story.rest()
    story.rest()
    assert set(story.bound()) == {"g0", "g1", "g2"}
    story.server.put_node("n2", 3)
    story.rest()
    assert set(story.bound()) == {"g0", "g1", "g2", "g3"}


def test_pods_of_a_group_without_a_gang_are_placed_one_by_one():
    """The basic policy of Kubernetes: each pod by itself."""
    story = Story(4)
    story.server.put(pod_group("loose", None))
    for i in range(3):
        story.server.make(f"l{i}", 2, spec=in_group("loose"))
    story.rest()
    story.rest()
    assert len(story.bound()) == 2


def test_refused_and_gated_pods_are_held_with_their_reason():
    """What is not supported, what requires an unknown tier, and what somebody else gates."""
    story = Story(8)
    by_field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    must = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_field]}}
    story.server.make("tied", 1, annotations={"tidemill/required-topology": "rack"})
    story.server.make("gated", 1, spec={"schedulingGates": [{"name": "example.com/quota"}]})
    story.server.make("fields", 1, spec={"affinity": {"nodeAffinity": must}})
    story.rest()
    held = story.held()
    assert {name: reason for name, (reason, _) in held.items()} == {
        "ml/tied": "UnknownTopology", "ml/gated": "SchedulingGated", "ml/fields": "NotSupported",
    }  # fmt: skip
    assert "example.com/quota" in held["ml/gated"][1]
    assert story.bound() == {}


def test_a_bind_that_is_forbidden_holds_the_job_until_the_server_takes_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """403: one request, not one after another; the rule that lacks is named; then it is bound."""
    monkeypatch.setattr(barring, "FIRST_S", 0.0)
    story = Story(8)
    story.server.forbidden = "binding"
    story.server.make("p", 1)
    story.rest()
    assert len(story.server.asked) == 1
    reason, words = story.held()["ml/p"]
    assert reason == "BindForbidden"
    assert "403 forbidden here" in words
    assert 'resources: ["pods/binding"]' in words
    assert story.scheduler.refusals.barring.forbidden == 1
    story.rest()
    assert len(story.server.asked) == 1, "it is asked about, not bound"
    story.server.forbidden = ""
    story.ask_again()
    assert story.bound() == {"p": "n0"}
    assert story.held() == {}


def test_a_seat_that_nobody_took_yields_to_what_is_seen_on_a_node_that_shrank():
    """8 GPUs become 4: a pod of another's (2), one of a gang of ours (2), and its other seat.

    The pod that was made anew for that seat is not bound there: the gang leaves, and waits whole.
    """
    story = Story(8)
    for i in range(2):
        story.server.make(f"g{i}", 2, gang="g", size=2)
    story.rest()
    story.server.make("other", 2, on="n0")
    story.rest()
    story.server.delete(("ml", "g0"))
    story.server.put_node("n0", 4)
    story.rest()
    assert set(story.bound()) == {"other"}


def test_of_an_indexed_job_with_more_to_do_those_that_run_at_once_are_the_gang():
    """Six completions, two at a time: two pods start together; the third gets the seat of one."""
    story = Story(4)
    spec = {
        "completionMode": "Indexed", "parallelism": 2, "completions": 6,
        "template": made.template(2, subdomain="sweep"),
    }  # fmt: skip
    story.server.put(made.owner("batch/v1", "Job", "sweep", spec))
    of: dict[str, Any] = {"owner": ("batch/v1", "Job", "sweep"), "cpu": "8"}

    def index(i: int) -> dict[str, Any]:
        return of | {
            "labels": {"batch.kubernetes.io/job-completion-index": str(i)},
            "spec": {"schedulerName": "tidemill", "subdomain": "sweep"},
        }

    story.server.make("sweep-0", 2, **index(0))
    story.rest()
    assert story.held()["ml/sweep"][0] == "WaitingForGang"
    story.server.make("sweep-1", 2, **index(1))
    story.rest()
    assert set(story.bound()) == {"sweep-0", "sweep-1"}
    story.server.finish(("ml", "sweep-0"))
    story.server.make("sweep-2", 2, **index(2))
    story.rest()
    assert set(story.bound()) == {"sweep-1", "sweep-2"}


@pytest.mark.parametrize(
    ("annotation", "deadline_s", "wanted_ms"),
    [("2h", 0, 7_200_000), ("90", 0, 90_000), ("2h", 600, 600_000), ("", 600, 600_000),
     ("5m", 600, 300_000), ("soon", 0, 0), ("", 0, 0)],
)  # fmt: skip
def test_pods_say_how_long_they_should_run(annotation: str, deadline_s: int, wanted_ms: int):
    """An annotation, and a deadline as its upper bound; what cannot be read is not guessed at."""
    story = Story(8)
    told = {estimates.EXPECTED: annotation} if annotation else {}
    spec = {"activeDeadlineSeconds": deadline_s} if deadline_s else {}
    story.server.make("p", 1, annotations=told, spec=spec)
    story.rest()
    world = story.scheduler.loop.world
    assert world.jobs.estimate_ms[world.job_number["ml/p"]] == wanted_ms
    assert len(story.scheduler.differ.unread) == (annotation == "soon")


@pytest.mark.parametrize(
    ("of_pods", "of_owner", "wanted_ms"),
    [(("30m", "30m"), "", 1_800_000), (("30m", "45m"), "60", 2_700_000),
     (("", ""), "90", 90_000), (("never", ""), "30m", 0), (("", ""), "", -1),
     (("often", "30m"), "", 1_800_000), (("often", ""), "", -1)],
)  # fmt: skip
def test_jobs_say_how_often_they_save(of_pods: tuple[str, ...], of_owner: str, wanted_ms: int):
    """Pods or their owner; of several the longest; unknown, and not never, where nobody does."""
    story, name = Story(8), estimates.INTERVAL
    owner = ("batch/v1", "Job", "g")
    one = made.owner(*owner, {"parallelism": 2, "completions": 2})
    one["metadata"]["annotations"] = {name: of_owner} if of_owner else {}
    story.server.put(one)
    for i, text in enumerate(of_pods):
        told = {name: text} if text else {}
        story.server.make(f"g-{i}", 1, gang="g", size=2, owner=owner, annotations=told)
    story.rest()
    world = story.scheduler.loop.world
    assert story.bound() == {"g-0": "n0", "g-1": "n0"}
    assert {world.jobs.interval_ms.item(j) for j in world.job_number.values()} == {wanted_ms}
    flaws = [word for words in story.scheduler.differ.unread.values() for word in words]
    assert ["`often`" in flaw for flaw in flaws] == [True] * ("often" in of_pods)


def test_a_quota_of_a_type_that_no_node_has_is_told_with_the_nearest_name():
    """`H10O` is no H100."""
    story = Story(8)
    story.server.make("p", 1)
    story.rest()
    world = story.scheduler.loop.world
    queues = [Queue("ml", (Share("H10O"), Share("H100")))]
    assert unknown_types.of(queues, world) == ("H10O",)
    assert "did you mean `H100`?" in unknown_types.hint(["H10O"], world)
    assert unknown_types.of(queues, Story().scheduler.loop.world) == ()


def test_a_tainted_node_is_called_tainted_and_only_a_cordoned_one_cordoned():
    """A taint by a condition keeps new work away as `kubectl cordon` does; it is said which."""
    story = Story(8, 8)
    pressure = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    tainted = made.node("n0", 8, taints=[pressure])
    tainted["metadata"]["namespace"] = ""
    story.server.nodes["n0"] = tainted
    story.server.put(tainted)
    story.server.put_node("n1", 8, unschedulable=True)
    story.rest()
    said = {one.node: one.words for one in keeping.node_reasons(story.scheduler.differ)}
    assert said == {
        "n0": "tainted node.kubernetes.io/disk-pressure:NoSchedule",
        "n1": "cordoned (spec.unschedulable)",
    }


@pytest.mark.parametrize(
    "resource", ["nvidia.com/vgpu", "example.com/foo", "rdma/hca", "hugepages-2Mi"]
)
def test_a_pod_without_gpus_that_requests_what_is_counted_by_the_gpu_is_held(resource: str):
    """Bound to a node that lacks it, the kubelet would refuse it: it waits, and says what for."""
    story = Story(8)
    containers = [{"name": "main", "resources": {"limits": {resource: "1"}}}]
    story.server.make("a", 0, spec={"containers": containers})
    story.rest()
    assert story.bound() == {}
    ((reason, words),) = story.held().values()
    assert reason == "NotSupported"
    assert resource in words


def test_the_seat_of_a_bare_pod_that_is_gone_is_free_after_a_minute():
    """One of two is deleted: nobody makes it anew. A minute later another job sits there."""
    story = Story(8, 8)
    for i in range(2):
        story.server.make(f"k{i}", 8, gang="k", size=2, owner=None)
    story.rest()
    story.server.finish(("ml", "k0"))
    story.server.make("next", 8)
    story.server.deliver(story.scheduler.view, len(story.server.news))
    asyncio.run(story.scheduler.rest())
    assert "next" not in story.bound(), "somebody may make it anew"
    story.scheduler.clock += differ.SEAT_GRACE_MS
    story.rest()
    world = story.scheduler.differ.world
    assert len(story.bound()) == 2
    assert [world.job_names[j] for j in story.scheduler.differ.left] == ["ml/k"]
    (fact,) = partial_gangs.facts(world, world.job_number["ml/k"])
    assert "1 of 2 replicas are placed" in fact.words
    assert partial_gangs.partial_gangs(world).gangs == (), "it works, and waits for nothing"


def test_pods_that_are_bound_get_an_event_as_far_as_it_costs_little():
    """All of a few; of many at once the first hundred."""
    story = Story(*[8] * 20)
    sender, server = story.scheduler.sender, story.server
    sayer = WaitSayer(server, story.scheduler.differ, said, "tidemill")  # type: ignore[arg-type]
    sender.on_bound = sayer.bound
    for i in range(saying.BINDS_AT_ONCE + 30):
        server.make(f"p{i}", 1)
    story.rest()
    asyncio.run(asyncio.sleep(0))
    told = [one for one in server.happened if one["reason"] == "Scheduled"]
    assert saying.BINDS_AT_ONCE <= len(told) < saying.BINDS_AT_ONCE + 30
    where = story.bound()
    for one in told:
        name = one["regarding"]["name"]
        assert (one["type"], one["note"]) == ("Normal", f"assigned ml/{name} to {where[name]}")


def claims_of(story: Story, name: str, **told: str) -> None:
    """A pod of ours whose only devices are those of a claim, or of one that a template makes."""
    spec = {"schedulerName": "tidemill", "resourceClaims": [{"name": "gpu", **told}]}
    story.server.make(name, 0, spec=spec, owner=None)


def test_a_pod_whose_claim_does_not_exist_waits_for_it_and_says_so():
    """By name, and by a template: what is missing is named, and no number of GPUs is made up."""
    story = Story(8)
    story.server.put_node("d0", 4)
    claims_of(story, "by-name", resourceClaimName="mine")
    claims_of(story, "by-template", resourceClaimTemplateName="many")
    story.rest()
    assert story.held() == {
        "ml/by-name": (
            "WaitingForClaim", "it waits for its devices: ResourceClaim `ml/mine` does not exist"
        ),
        "ml/by-template": (
            "WaitingForClaim",
            "it waits for its devices: ResourceClaimTemplate `ml/many` does not exist",
        ),
    }  # fmt: skip
    (first, _) = keeping.held(story.scheduler.differ, made.BEGIN_MS)
    assert "requests an unknown number of accelerators" in held_jobs.answer(first, 0).words
    sayer = WaitSayer(story.server, story.scheduler.differ, said, "tidemill")  # type: ignore[arg-type]
    for unit in list(story.scheduler.differ.held):
        asyncio.run(sayer.say(unit))
    told = {name: one["conditions"][0]["reason"] for name, one in story.server.told.items()}
    assert told == {"by-name": "WaitingForClaim", "by-template": "WaitingForClaim"}
    story.server.put(wanted.claim_template("many", wanted.claim_spec(2)))
    story.rest()
    reason, words = story.held()["ml/by-template"]
    assert reason == "WaitingForClaim"
    assert words.endswith("no ResourceClaim was made of the template `many` for it yet")
    assert keeping_gpus(story) == {"ml/by-name": 0, "ml/by-template": 2}


def keeping_gpus(story: Story) -> dict[str, int]:
    return {one.name: one.gpus for one in keeping.held(story.scheduler.differ, made.BEGIN_MS)}


def test_pods_that_share_a_claim_are_held_whether_it_is_allocated_or_not():
    """Nothing is free, then all is: both are held; with one of them gone the other is placed."""
    story = Story(8)
    story.server.put_node("d0", 2)
    story.server.make("first", 2, resource=CLAIMED)
    story.rest()
    story.server.make("a", 2, resource=CLAIMED)
    spec = {"schedulerName": "tidemill",
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c-a"}]}  # fmt: skip
    story.server.make("b", 0, spec=spec)
    story.rest()
    assert {reason for reason, _ in story.held().values()} == {"NotSupported"}
    assert {*story.held()} == {"ml/a", "ml/b"}
    story.server.finish(("ml", "first"))
    story.rest()
    assert story.bound() == {}
    assert {*story.held()} == {"ml/a", "ml/b"}
    story.server.finish(("ml", "b"))
    story.rest()
    assert story.bound() == {"a": "d0"}


def apart(name: str, key: str) -> Object:
    """What `Story.make` takes of a pod that is apart from others of its name."""
    rule = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    return {"labels": {"app": name}, "spec": {"affinity": anti}}


@pytest.mark.parametrize(
    ("key", "reason"), [("kubernetes.io/hostname", "Unschedulable"), ("rig/zone", "Waiting")]
)
def test_who_has_to_be_apart_from_pods_everywhere_is_held_and_says_from_whom(key: str, reason: str):
    """By nodes one more would help, by zones not; it is placed when one of the others ends."""
    story = Story(8, 8)
    for name, one in story.server.nodes.items():
        one["metadata"]["labels"]["rig/zone"] = name.replace("n", "z")
        story.server.news.append(("Node", ("", name), one, False))
    for i in range(3):
        story.server.make(f"q-{i}", 1, **apart("q", key))
        story.rest()
    told, words = story.held()["ml/q-2"]
    first = story.bound()["q-0"]
    place = first.replace("n", "z") if "zone" in key else first
    assert told == reason
    assert f"it has to be apart, by `{key}`, from pods that are in each one" in words
    assert f"`{place}` (ml/q-0)" in words
    assert words.endswith(f"it is placed when one of them ends, or on a node with another `{key}`")
    story.server.finish(("ml", "q-0"))
    story.rest()
    assert "ml/q-2" not in story.held()
    assert "q-2" in story.bound()


def test_who_has_to_be_apart_everywhere_goes_to_a_node_that_comes():
    """It was held for the two nodes that there were."""
    story = Story(8, 8)
    for i in range(3):
        story.server.make(f"r-{i}", 1, **apart("r", "kubernetes.io/hostname"))
        story.rest()
    assert "ml/r-2" in story.held()
    story.server.put_node("n2", 8)
    story.rest()
    assert story.bound()["r-2"] == "n2"
