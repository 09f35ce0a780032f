"""Whatever users write, in whatever combination: the scheduler goes on, and serves everybody else.

Random objects on a pretended API server, of all words by which jobs say how they are to be placed,
many of them absurd; the comparison, the loop and the sender are the real ones.
"""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import GPU, MIG, Object, PretendedServer, Scheduler
from tests.rigs.kubernetes import wanted
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.fields import MalformedObjectError
from tidemill.live.kubernetes.scheduling import allocating, keeping, resizing, sending
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue
from tidemill.model.topology import Tier, Topology

RACK, ZONE, HOST = (
    "topology.kubernetes.io/rack", "topology.kubernetes.io/zone", "kubernetes.io/hostname",
)  # fmt: skip
TIERS = Tier("zone", ZONE), Tier("rack", RACK), Tier("node", "")
RULES = (
    FleetRules((), Topology(TIERS)),
    FleetRules((Queue("ml"), Queue("org"), Queue("sub", parent="org")), Topology(TIERS[:2])),
    FleetRules((Queue("ml"), Queue("sub", parent="ml"))),
    FleetRules(),
)
KEPT = "rig/kept"
"""The taint of a node on which only the plain pod may be."""
NAMES = ("a", "b", "a-0", "x" * 63, "é")
ODD = ("", "0", "-1", "1", "2", "3", "7", "999999", "1e3", "rack", "zone", "node", "nobody", "true",
       "false", "2h30m", "never", "x" * 300, "٣", "a", "b", "\n")  # fmt: skip
WORDS = (
    "tidemill/gang", "tidemill/gang-size", "tidemill/gang-least", "tidemill/required-topology",
    "tidemill/preferred-topology", "tidemill/expected-duration", "tidemill/checkpoint-interval",
    "tidemill/preemptible", "tidemill/drain-by", "tidemill/nonsense",
    "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/pod-group-total-count",
    "scheduling.k8s.io/group-name", "pod-group-name",
)  # fmt: skip
LABELS = (
    "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name", "app", "ray.io/cluster",
    "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name", "volcano.sh/job-name",
)  # fmt: skip
OWNERS = (
    ("batch/v1", "Job"), ("apps/v1", "ReplicaSet"), ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "PyTorchJob"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("ray.io/v1", "RayCluster"), ("batch.volcano.sh/v1alpha1", "Job"),
)  # fmt: skip
GROUPS = (
    "scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1",
    "scheduling.run.ai/v2alpha2",
)  # fmt: skip
COUNTS = (0, 1, 1, 2, 2, 3, 5, 64)
LARGE = (0, 1, 2, 4, 8, 9, 65, 1025, 10**6, 2**31, 2**70, -3)
PRIORITIES = (-(2**31), -1, 0, 1, 10**9, 2**31 - 1, 2**40)


def some(chance: random.Random, words: tuple[str, ...], most: int) -> dict[str, str]:
    """Some of these words, with values that may mean anything."""
    return {key: chance.choice(ODD) for key in chance.sample(words, chance.randint(0, most))}


def about(chance: random.Random) -> dict[str, str]:
    """Annotations; in half of them what is likely to be read."""
    found = some(chance, WORDS, 4)
    if chance.random() < 0.4:
        found |= {"tidemill/gang": chance.choice(NAMES), "tidemill/gang-size": str(
            chance.choice(COUNTS))}  # fmt: skip
    if chance.random() < 0.4:
        found["tidemill/gang-least"] = str(chance.choice(COUNTS))
    if chance.random() < 0.3:
        found["tidemill/required-topology"] = chance.choice(("rack", "zone", "node", RACK, HOST))
    return found


def rule(chance: random.Random) -> Object:
    """What a rule of a pod about others names."""
    key, word = chance.choice((RACK, ZONE, HOST, "nobody", "")), chance.choice(ODD)
    labels = {chance.choice(LABELS): word}
    query = chance.choice(({"matchLabels": labels}, {"matchExpressions": [
        {"key": chance.choice(LABELS), "operator": chance.choice(("In", "Exists", "NotIn", "Odd")),
         "values": [word]}
    ]}, {}))  # fmt: skip
    return {"topologyKey": key, "labelSelector": query, "maxSkew": chance.choice((1, 2, 0, 10**9)),
            "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway"))}  # fmt: skip


def selecting(chance: random.Random) -> Object:
    """A node affinity."""
    word = chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"))
    term = {"key": chance.choice((RACK, HOST, "metadata.name", "pace")), "operator": word,
            "values": [chance.choice(ODD)]}  # fmt: skip
    by = chance.choice(("matchExpressions", "matchFields"))
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {must: {"nodeSelectorTerms": [{by: [term]}] * chance.randint(0, 2)}}}


def spec(chance: random.Random) -> Object:
    """What a pod asks for beside GPUs."""
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    found: Object = {"schedulerName": "tidemill"}
    may: list[Object] = [
        {"subdomain": "s"}, {"nodeSelector": {chance.choice((RACK, "pace")): chance.choice(ODD)}},
        {"priority": chance.choice(PRIORITIES)}, {"preemptionPolicy": "Never"},
        {"priorityClassName": chance.choice(ODD)}, {"affinity": selecting(chance)},
        {"affinity": {"podAffinity": {must: [rule(chance)]}}},
        {"affinity": {"podAntiAffinity": {must: [rule(chance), rule(chance)]}}},
        {"topologySpreadConstraints": [rule(chance) for _ in range(chance.randint(1, 3))]},
        {"schedulingGroup": {"podGroupName": chance.choice(NAMES)}},
        {"workloadRef": {"name": chance.choice(NAMES), "podGroup": chance.choice(NAMES)}},
        {"schedulingGates": [{"name": "example.com/held"}]},
        {"tolerations": [{"key": chance.choice(ODD), "operator": "Equal", "effect": "NoSchedule"}]},
        {"resourceClaims": [{"name": "gpu", chance.choice(("resourceClaimName",
                             "resourceClaimTemplateName")): chance.choice(NAMES)}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": chance.choice(NAMES)}}]},
        {"activeDeadlineSeconds": chance.choice(LARGE)}, {"hostNetwork": True},
        {"runtimeClassName": "odd", "overhead": {"cpu": chance.choice(("1", "x", "-1"))}},
    ]  # fmt: skip
    for one in chance.sample(may, chance.randint(0, 4)):
        found |= one
    return found


def containers(chance: random.Random, gpus: int) -> list[Object]:
    """Containers of a pod: so many GPUs, and more."""
    amounts: Object = {GPU: str(gpus)} if gpus else {}
    if chance.random() < 0.3:
        more = (MIG, "rdma/hca", "hugepages-2Mi", "ephemeral-storage", "cpu", "memory", "odd/one",
                "amd.com/gpu", "nvidia.com/gpu.shared")  # fmt: skip
        much = (*map(str, LARGE), "1e30", "100Ti", "x", "0.5", "1m")
        amounts[chance.choice(more)] = chance.choice(much)
    ports = [{"hostPort": chance.choice((80, 0, 70_000)), "protocol": "TCP"}]
    one: Object = {"name": "main", "resources": {"limits": amounts, "requests": dict(amounts)}}
    return [one | ({"ports": ports} if chance.random() < 0.2 else {})]


def an_owner(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """What makes pods comes, with some of its pods, or fewer, or more."""
    del turn
    version, kind = chance.choice(OWNERS)
    name, count, notes = chance.choice(NAMES), chance.choice(COUNTS), about(chance)
    told, labels = spec(chance), some(chance, LABELS, 2)
    gpus = chance.choice(LARGE) if chance.random() < 0.3 else chance.choice((0, 1, 2, 4, 8))
    template = {"metadata": {"annotations": notes, "labels": labels},
                "spec": told | {"containers": containers(chance, gpus)}}  # fmt: skip
    server.put(made.owner(version, kind, name, wanting(chance, kind, count, template)))
    for i in range(min(max(count + chance.choice((0, 0, 0, -1, 1)), 0), 6)):
        more = {"batch.kubernetes.io/job-completion-index": str(i)} if kind == "Job" else {}
        server.make(
            f"{name}-{i}", 0, owner=(version, kind, name), labels=labels | more, annotations=notes,
            spec=template["spec"], created=chance.randint(0, 9),
        )  # fmt: skip


def wanting(chance: random.Random, kind: str, count: int, template: Object) -> Object:
    """The spec of what makes so many pods."""
    part = {"replicas": count, "template": template, "name": "w"}
    fewer = chance.choice((count, 1, 0))
    master = {"Master": part | {"replicas": 1}} if chance.random() < 0.3 else {}
    return {
        **part, "parallelism": count, "completions": chance.choice((count, count, count + 3, 0)),
        "completionMode": chance.choice(("Indexed", "Indexed", "NonIndexed")),
        "suspend": chance.random() < 0.1, "minAvailable": fewer, "tasks": [part],
        "podManagementPolicy": chance.choice(("Parallel", "OrderedReady")),
        "elasticPolicy": {"minReplicas": fewer}, "pytorchReplicaSpecs": {"Worker": part, **master},
        "replicatedJobs": [part | {"replicas": 1, "template": {"spec": {
            "parallelism": count, "completions": count, "template": template}}}],
        "leaderWorkerTemplate": {"size": count, "workerTemplate": template},
        "headGroupSpec": {"template": template}, "workerGroupSpecs": [part | {"groupName": "w"}],
        "activeDeadlineSeconds": chance.choice((*LARGE, None)), "kind": kind,
    }  # fmt: skip


def bare_pods(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """Pods that nobody owns, alike or not."""
    notes, told, labels = about(chance), spec(chance), some(chance, LABELS, 2)
    name = chance.choice((*NAMES, f"p{turn}"))
    for i in range(chance.randint(1, 4)):
        if chance.random() < 0.3:
            notes, told = about(chance), spec(chance)
        gpus = chance.choice((0, 1, 2, 8))
        server.make(
            f"{name}-{i}" if i else name, 0, owner=None, annotations=notes, labels=labels,
            spec=told | {"containers": containers(chance, gpus)},
            namespace=chance.choice(("ml", "org", "sub")),
        )  # fmt: skip


def a_group(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """A pod group comes, changes, or goes."""
    del turn
    level, count = chance.choice(("rack", "zone", RACK, "nobody", "")), chance.choice(COUNTS)
    told: Object = {"minMember": count, "schedulingPolicy": chance.choice((
        {"basic": {}}, {"gang": {"minCount": count}}))}  # fmt: skip
    may: list[Object] = [
        {"priority": chance.choice(PRIORITIES)}, {"queue": chance.choice(NAMES)},
        {"schedulingConstraints": {"topology": [{"key": level}] * chance.randint(0, 20)}},
        {"topologyConstraint": {"requiredTopologyLevel": level}},
        {"topologyConstraint": {"preferredTopologyLevel": level}},
        {"networkTopology": {"mode": chance.choice(("hard", "soft")),
                             "highestTierAllowed": chance.choice((1, 2, -1))}},
        {"resourceClaims": [{"name": "x"}]}, {"subGroups": [{"name": "s", "minMember": 1}]},
    ]  # fmt: skip
    for one in chance.sample(may, chance.randint(0, 2)):
        told |= one
    one = made.owner(chance.choice(GROUPS), "PodGroup", chance.choice(NAMES), told)
    server.put(one, is_gone=chance.random() < 0.2)


def a_claim(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """A claim of devices, or a template of claims."""
    del turn
    make = chance.choice((wanted.claim, wanted.claim_template))
    words = ("true", 'device.attributes["gpu.nvidia.com"].x == "y"', "device.odd(", "1/0")
    told = wanted.claim_spec(chance.choice((0, 1, 2, 9, 10**6)), *chance.sample(words, 1))
    if chance.random() < 0.3:
        told["devices"]["requests"] = [{"name": "gpu", "firstAvailable": []}]
    one = make(chance.choice(NAMES), told)
    one["metadata"]["uid"] = f"claim-{server.chance.random()}"
    if one["kind"] == "ResourceClaim":
        server._put_claim(one)
    else:
        server.put(one)


def something_changes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """A pod is gone, has ended, is on a node, or says something else."""
    del turn
    if not server.pods:
        return
    key = chance.choice(sorted(server.pods))
    one = server.pods[key]
    match chance.randint(0, 4):
        case 0 | 1:
            server.drop(key)
        case 2:
            server._put(key, one | {"metadata": one["metadata"] | {
                "annotations": one["metadata"]["annotations"] | about(chance),
                "labels": one["metadata"]["labels"] | some(chance, LABELS, 2)}})  # fmt: skip
        case 3:
            server._put(key, one | {"spec": one["spec"] | {"nodeName": chance.choice(
                [*others(server), "nowhere"])}})  # fmt: skip
        case _:
            server._put(key, one | {"status": {"phase": chance.choice(("Succeeded", "Failed"))}})


def a_pod_of_others(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """A pod that another scheduler bound, by whatever name."""
    name = chance.choice((*NAMES, f"f{turn}"))
    if ("ml", name) not in server.pods:
        server.make(name, chance.choice((0, 1, 8)), on=chance.choice(others(server)),
                    owner=None)  # fmt: skip


HAPPENINGS = (an_owner, an_owner, an_owner, bare_pods, bare_pods, a_group, a_group, a_claim,
              something_changes, something_changes, a_pod_of_others)  # fmt: skip


def others(server: PretendedServer) -> list[str]:
    """The nodes that anybody may use."""
    return [name for name in sorted(server.nodes) if name != "kept"]


def deliver(server: PretendedServer, scheduler: Scheduler) -> None:
    """Tell all that changed; what cannot be read at all is no object for whoever watches."""
    while server.news:
        try:
            server.deliver(scheduler.view, 1)
        except MalformedObjectError:
            del server.news[0]


async def turn_of(scheduler: Scheduler) -> None:
    """Look, plan, send, and say what is held, as long as it is told something."""
    differ = scheduler.differ
    for _ in range(4):
        scheduler.refusals.take()
        scheduler.beat()
        for _ in range(400):
            if scheduler.sender.is_idle and scheduler.resizer.is_idle:
                break
            await asyncio.sleep(0)
        for task in scheduler.sender._tasks:
            assert not task.done() or task.exception() is None
        told = *keeping.held(differ, made.BEGIN_MS), *keeping.of_others(differ, made.BEGIN_MS)
        assert all(one.reason for one in told)
        scheduler.server.collect()
        deliver(scheduler.server, scheduler)


def node(server: PretendedServer, name: str, gpus: int, rack: str, **rest: Any) -> None:
    """A node in a rack of a zone."""
    labels = {RACK: rack, ZONE: f"z{rack[-1]}"}
    server.nodes[name] = made.node(name, gpus, labels=labels, **rest)
    server.news.append(("Node", ("", name), server.nodes[name], False))


class Users:
    """Users who write what they like, and a scheduler among them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server, self.journal = PretendedServer(self.chance), MemoryJournal()
        self.server.backs_off = True
        for i in range(4):
            node(self.server, f"n{i}", 8, f"r{i // 2}")
        node(self.server, "kept", 1, "r9", taints=[{"key": KEPT, "effect": "NoSchedule"}])
        self.is_elastic = self.chance.random() < 0.7
        self.objects = dict[tuple[str, ...], Object]()
        """What is there beside pods, nodes and devices."""
        self.scheduler = self.begun(FleetRules())

    def begun(self, rules: FleetRules) -> Scheduler:
        """A scheduler that begins, by these rules."""
        found = Scheduler(self.server, self.journal, Policy(min_run_ms=0, preempt_gain_ppm=0))
        found.differ.rules = rules
        for one in self.objects.values():
            self.server.put(one)
        if self.is_elastic:
            found.let_resize()
        return found

    async def turn(self, turn: int) -> None:
        """Something is written, or several things; sometimes the scheduler begins anew."""
        chance, server = self.chance, self.server
        if chance.random() < 0.3:
            self.scheduler.differ.rules = chance.choice(RULES)
            self.scheduler.backend.look()
        for _ in range(chance.randint(1, 3)):
            chance.choice(HAPPENINGS)(server, chance, turn)
        for kind, key, one, is_gone in server.news:
            if kind not in ("Pod", "Node", "ResourceClaim", "DeviceClass", "ResourceSlice"):
                self.objects.pop((kind, one["apiVersion"], *key), None)
                if not is_gone:
                    self.objects[kind, one["apiVersion"], *key] = one
        deliver(server, self.scheduler)
        await turn_of(self.scheduler)
        if chance.random() < 0.2:
            await self.scheduler.sender.stop()
            self.scheduler = self.begun(self.scheduler.differ.rules)
            await turn_of(self.scheduler)

    async def plain(self) -> str:
        """Where a pod is bound that wants one GPU of a node that nobody else may use."""
        only = {"nodeSelector": {HOST: "kept"}, "schedulerName": "tidemill",
                "tolerations": [{"key": KEPT, "operator": "Exists"}]}  # fmt: skip
        self.server.make("plain", 1, owner=None, namespace="served", spec=only)
        deliver(self.server, self.scheduler)
        await turn_of(self.scheduler)
        found: str = self.server.pods["served", "plain"]["spec"].get("nodeName", "")
        return found


async def story(seed: int) -> None:
    """Some turns of users, and then somebody who wants one GPU."""
    users = Users(seed)
    for turn in range(users.chance.randint(2, 9)):
        await users.turn(turn)
    assert await users.plain() == "kept"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for real servers."""
    for module in (sending, allocating):
        monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)
        monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(resizing, "AGAIN_S", 0.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_users_write_the_scheduler_goes_on_and_serves_others(seed: int):
    """Nothing that anybody writes ends it, and a plain pod that comes then is bound."""
    asyncio.run(story(seed))
