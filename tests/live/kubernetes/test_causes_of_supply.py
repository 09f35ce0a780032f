"""Why pods wait where the fleet itself lacks something: made on a real API server, and read there.

Devices that fell out, memory beside GPUs, a race that was lost, nodes that autoscalers add or do
not. What other programs would write (a kubelet, cluster-autoscaler, Karpenter) is written for them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes import beside
from tests.live.kubernetes.beside import shown
from tests.live.kubernetes.test_autoscaler import NO_ACTIVITY, SCALING, group, status
from tests.live.kubernetes.test_causes import in_pool
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.definitions import NODE_CLAIM
from tests.rigs.kubernetes.wanted import GPU, gang, node
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes import autoscaler
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.model.reasons import Cause, Layer

L1, L2, L3, L4 = Layer
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
PODS, EVENTS = "/api/v1/namespaces/ml/pods", "/api/v1/namespaces/ml/events"
STATUS = "/api/v1/namespaces/kube-system/configmaps"
EXPORTED = "nodes,pods,replicasets,events,nodeclaims.karpenter.sh"
TAKEN = "Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 8, capacity: 8"


def unhealthy(name: str, healthy: int) -> Object:
    """A node some of whose devices its device plugin has taken out."""
    found = node(name, labels={"pool": name})
    found["status"]["allocatable"] = found["status"]["capacity"] | {GPU: str(healthy)}
    return found


def hungry(name: str, memory: str, pool: str) -> Object:
    """A pod of one GPU and so much memory."""
    found = in_pool(name, 1, pool)
    resources = found["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts["memory"] = memory
    return found


NODES = (
    unhealthy("u", 6),
    *(node(name, labels={"pool": name}) for name in ("m", "r", "g", "n")),
)
HELD = (hungry("fat", "1000Gi", "m"), in_pool("all-g", 8, "g"), in_pool("all-n", 8, "n"))
WAITING: dict[str, tuple[Object, Layer, Cause, str]] = {
    "ml/unhealthy": (
        in_pool("unhealthy", 8, "u"), L2, Cause.NOT_ENOUGH_READY,
        "requests 8 nvidia.com/gpu on one node; at most 6 of a node are healthy",
    ),
    "ml/no-memory": (
        hungry("no-memory", "100Gi", "m"), L3, Cause.MEMORY_BINDS, "not the memory beside them",
    ),
    "ml/growing": (
        in_pool("growing", 4, "g"), L3, Cause.BUSY,
        "node group `g` is scaling up: 1 of 2 nodes are Ready",
    ),
    "ml/not-grown": (
        in_pool("not-grown", 4, "n"), L3, Cause.BUSY,
        "no node it may add would help; the autoscaler's node group `n` is at its maximum",
    ),
    "ml/coming": (
        in_pool("coming", 8, "k"), L2, Cause.NOTHING_READY, "takes work: 0 cordoned, 1 not Ready",
    ),
}  # fmt: skip
"""By job: the pod, who owns its cause, the cause, and what is said of it."""


class Waiting(NamedTuple):
    """A cluster in which things wait, and what an observer was told of it."""

    rig: Cluster
    answer: SourceAnswer

    def row(self, job: str) -> dict[str, Any]:
        """The last row of a job."""
        return [row for row in self.answer.attempts.iter_rows(named=True) if row["job"] == job][-1]


@pytest.fixture(scope="module")
def waiting(started: Cluster) -> Iterator[Waiting]:
    """Every cause at once."""
    rig = started
    rig.create(CRDS, NODE_CLAIM)
    rig.add_nodes(*NODES)
    rig.create(PODS, *HELD)
    rig.wait_until_running("ml", len(HELD))
    _lose_a_race(rig)
    rig.create(PODS, *(one for one, *_ in WAITING.values()))
    rig.wait_for("claims are served", lambda: rig.try_to("GET", CLAIMS)[0] == 200)
    _add_by_karpenter(rig)
    rig.wait_for("the scheduler has spoken of all", lambda: _has_spoken(rig))
    _add_by_autoscaler(rig)
    with KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source:
        yield Waiting(rig, source.poll(0))
    rig.ask("DELETE", f"{STATUS}/{autoscaler.NAME}")
    rig.clear()
    rig.ask("DELETE", f"{CRDS}/{NODE_CLAIM['metadata']['name']}")


def _lose_a_race(rig: Cluster) -> None:
    """A kubelet refuses one of two pods, which was bound to its node; the other waits."""
    wanted = gang("raced", 2, 2, nodeSelector={"pool": "r"}, schedulerName="another")
    rig.create("/apis/batch/v1/namespaces/ml/jobs", wanted)
    rig.wait_for("its pods are there", lambda: len(_raced(rig)) == 2)
    name = min(_raced(rig))
    target = {"apiVersion": "v1", "kind": "Node", "name": "r"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    rig.ask("POST", f"{PODS}/{name}/binding", binding)
    rig.wait_for("kwok let it run", lambda: rig.phases("ml")[name] == "Running")
    refused = {"phase": "Failed", "reason": f"OutOf{GPU}", "message": TAKEN}
    never_ran = {"containerStatuses": None, "conditions": None}
    rig.ask(
        "PATCH", f"{PODS}/{name}/status", {"status": refused | never_ran},
        kind="application/merge-patch+json",
    )  # fmt: skip


def _raced(rig: Cluster) -> list[str]:
    return [name for name in rig.pods("ml") if name.startswith("raced-")]


def _add_by_karpenter(rig: Cluster) -> None:
    """A machine that was launched, and is no node yet."""
    labels = {"pool": "k", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    amounts = {GPU: "8", "cpu": "96", "memory": "1024Gi", "pods": "110"}
    launched = {"type": "Launched", "status": "True", "reason": "Launched",
                "lastTransitionTime": "2026-11-02T08:00:00Z"}  # fmt: skip
    rig.create(CLAIMS, {
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "gpu-x7k2", "labels": labels}, "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [launched]},
    })  # fmt: skip


def _add_by_autoscaler(rig: Cluster) -> None:
    """What cluster-autoscaler says: events of pods, and its status."""
    for name, why in (("growing", "TriggeredScaleUp"), ("not-grown", "NotTriggerScaleUp")):
        now = rig.pods("ml")[name]["metadata"]["creationTimestamp"]
        rig.create(EVENTS, {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.1"},
            "involvedObject": {"kind": "Pod", "namespace": "ml", "name": name}, "reason": why,
            "message": "as it was", "type": "Normal", "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": "cluster-autoscaler"},
        })  # fmt: skip
    now = rig.ask("GET", "/api/v1/nodes/g")["metadata"]["creationTimestamp"]
    rig.try_to("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    groups = (group("g", 1, 2, 8, SCALING), group("n", 1, 1, 1, NO_ACTIVITY))
    rig.create(STATUS, status(*groups, probed=now))


def _has_spoken(rig: Cluster) -> bool:
    spoken = {
        name
        for name, one in rig.pods("ml").items()
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    }
    return {name.removeprefix("ml/") for name in WAITING} <= spoken


@pytest.mark.parametrize("job", sorted(WAITING))
def test_a_cause_is_read_at_the_layer_that_owns_it(waiting: Waiting, job: str):
    """Layer, cause and words, with the scheduler's own line."""
    _, layer, cause, said = WAITING[job]
    row = waiting.row(job)
    assert row["outcome"] == "waiting"
    assert (Layer(row["reason_layer"]), Cause(row["reason_cause"])) == (layer, cause), row["reason"]
    assert said in row["reason"], row["reason"]
    assert row["reason"].startswith("Unschedulable")


def test_a_race_that_was_lost_is_told(waiting: Waiting):
    """By the pod that its node refused; what waits would fit."""
    row = waiting.row("ml/raced")
    assert (Layer(row["reason_layer"]), Cause(row["reason_cause"])) == (L3, Cause.LOST_RACE), row
    assert "lost a race for the GPUs of node `r` once" in row["reason"]
    assert row["reason"].startswith(f'OutOf{GPU} "{TAKEN[:40]}')


def test_every_kubectl_line_of_a_reason_shows_what_it_says(waiting: Waiting):
    """The pod, or the status of the autoscaler, and the words that are quoted."""
    lines = set[str]()
    for text in (row["reason"] or "" for row in waiting.answer.attempts.iter_rows(named=True)):
        for line in re.findall(r"\((kubectl [^)]*)\)", text):
            found = shown(waiting.rig, line)
            is_status = autoscaler.NAME in line
            quoted = ["nodeGroups:"] if is_status else re.findall(r'^\S+ "(.{20})', text)
            assert all(words in found for words in quoted), (line, found)
            lines.add(line)
    assert len(lines) == len(WAITING) + 2, "each pod, the refused one, and the status"


@pytest.fixture(scope="module")
def journal(waiting: Waiting, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The books of what kubectl exported of it."""
    folder: Path = tmp_path_factory.mktemp("exported")
    printed = waiting.rig.kubectl("get", EXPORTED, "-A", "-o", "json")
    (folder / "any.json").write_text(printed)
    told = waiting.rig.kubectl("get", "cm", "-n", "kube-system", autoscaler.NAME, "-o", "json")
    (folder / "autoscaler.json").write_text(
        json.dumps({"kind": "List", "items": [json.loads(told)]})
    )
    made = tidemill("import", "kubernetes", str(folder), "-j", str(folder / "j.sqlite"))
    assert made.code == 0, made.err
    return str(folder / "j.sqlite")


@pytest.mark.parametrize("job", sorted([*WAITING, "ml/raced"]))
def test_every_line_of_why_shows_the_thing_that_it_stands_beside(
    waiting: Waiting, journal: str, job: str
):
    """Nodes and machines that come, the pod and what it requests, the queue."""
    assert beside.check(waiting.rig, job, journal) >= 3


BY_BOOKS = {
    "ml/unhealthy": ("not_enough_ready", "unadvertised"),
    "ml/no-memory": ("memory_binds", "memory_binds"),
    "ml/growing": ("busy", "busy"),
    "ml/not-grown": ("busy", "busy"),
    "ml/raced": ("lost_race", "none"),
    "ml/coming": ("nothing_ready", "booting"),
}


@pytest.mark.parametrize("job", BY_BOOKS)
def test_the_books_find_the_same(journal: str, waiting: Waiting, job: str):
    """The cause, and what of the fleet is behind it."""
    del waiting
    answer = json.loads(tidemill("why", job, "-j", journal, "--json").out)["answer"]
    assert (answer["cause"], answer["detail"]) == BY_BOOKS[job], answer["words"]


def test_a_machine_that_comes_is_waited_for_and_shown_by_its_claim(waiting: Waiting, journal: str):
    """It is no node yet, so the list of nodes does not show it; and nobody can repair it."""
    answer = json.loads(tidemill("why", "ml/coming", "-j", journal, "--json").out)["answer"]
    assert answer["fix"]["words"] == (
        "wait for the node of `nodeclaim/gpu-x7k2`, which is launched and has not joined yet: 8"
        " accelerators (kubectl describe nodeclaims.karpenter.sh gpu-x7k2)"
    )
    (line,) = re.findall(r"\((kubectl [^)]*)\)", answer["fix"]["words"])
    assert "nvidia.com/gpu: 8" in shown(waiting.rig, line)
    for name in ("claimed", "ready"):
        (fact,) = (one for one in answer["evidence"] if one["name"] == name)
        told = [line for line in beside.lines(fact) if "nodeclaims" in line]
        assert [" gpu-x7k2 " in f" {shown(waiting.rig, line)} " for line in told] == [True]
