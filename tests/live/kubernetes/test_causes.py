"""Why pods wait: each cause made with the real scheduler, and found at the layer that owns it.

The scheduler says nearly the same line of most of them. Every `kubectl` line that is printed beside
a cause is run, and what kubectl exports of the same cluster says the same as what was watched.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes import beside, made
from tests.live.kubernetes.beside import shown
from tests.live.kubernetes.scheduling.test_volumes import MERGE, claim
from tests.live.kubernetes.test_import import world_of
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.definitions import KUEUE, POD_GROUP, kind
from tests.rigs.kubernetes.wanted import GPU, container, gang, node, pod
from tidemill.cli import job_names
from tidemill.explain import commands
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes import groups, translate
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Shape

L1, L2, L3, L4 = Layer
EXPORTED = (
    "nodes,pods,jobs,events,resourcequotas,priorityclasses,"
    "workloads.kueue.x-k8s.io,podgroups.scheduling.x-k8s.io"
)


def in_pool(name: str, gpus: int, pool: str, **spec: Any) -> Object:
    """A pod that selects the nodes of a pool."""
    return pod(name, gpus, nodeSelector={"pool": pool}, **spec)


def in_zone(zone: str) -> Object:
    """A node affinity that is required."""
    wanted = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone, "z0"]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
            }
        }
    }


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PORT = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
MUST = "requiredDuringSchedulingIgnoredDuringExecution"


def near(rule: str, app: str, key: str = HOST) -> Object:
    """The affinity of a pod that is near pods of an app, or apart from them."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {rule: {MUST: [term]}}


def spread(app: str, key: str, **more: Any) -> list[Object]:
    """Constraints of a pod that is spread with those of an app."""
    told = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [told | {"labelSelector": {"matchLabels": {"app": app}}} | more]


def ruled(name: str, gpus: int = 1, *, app: str = "", port: bool = False, **spec: Any) -> Object:
    """A pod of an app with rules about others; ``port``: and with one of its node."""
    labels = {"labels": {"app": app}} if app else {}
    if port:
        spec["containers"] = [container(gpus) | PORT]
    return pod(name, gpus, metadata=labels, **spec)


def using(name: str) -> list[Object]:
    """The volumes of a pod that names a claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


NODES = (
    node("a0", labels={"pool": "a"}),
    node("a1", labels={"pool": "a"}),
    node("t0", labels={"pool": "t"},
         taints=[{"key": "dedicated", "value": "vision", "effect": "NoSchedule"}]),
    node("c0", labels={"pool": "c"}),
    node("d0", labels={"pool": "d"}, advertised=0),
    node("e0", labels={"pool": "e", ZONE: "z2"}),
)  # fmt: skip
PODS = 40
"""Of a gang that is larger than the fleet."""
IN_A: Object = {"nodeSelector": {"pool": "a"}}
IN_E: Object = {"nodeSelector": {"pool": "e"}}
HELD = (
    *(ruled(f"held-{i}", 6, app="held", port=True, affinity=near("podAntiAffinity", "enemy"),
            **IN_A) for i in range(2)),
    ruled("there", 6, app="there", **IN_E), ruled("beside", 2, **IN_E),
)  # fmt: skip
"""Two GPUs are left on each of two nodes, and none on a third."""
WAITING: dict[str, tuple[Object, Layer, Cause, str]] = {
    "ml/busy": (in_pool("busy", 8, "a"), L3, Cause.BUSY, "needs 8 nvidia.com/gpu, and 4 are free"),
    "ml/scattered": (
        in_pool("scattered", 4, "a"), L3, Cause.SCATTERED, "4 .* are free, but at most 2 on one",
    ),
    "ml/no-cpu": (in_pool("no-cpu", 2, "a", cpu="96"), L3, Cause.CPU_BINDS, "not the CPU beside"),
    "ml/large": (pod("large", 16), L4, Cause.IMPOSSIBLE_SIZE, "the largest node has 8"),
    "ml/label": (
        pod("label", 1, nodeSelector={"gpu": "b200"}), L4, Cause.IMPOSSIBLE_LABEL,
        "selects gpu=b200, which no node",
    ),
    "ml/zone": (
        pod("zone", 1, affinity=in_zone("z9")), L4, Cause.IMPOSSIBLE_LABEL, "which no node with",
    ),
    "ml/taint": (
        in_pool("taint", 1, "t"), L4, Cause.IMPOSSIBLE_LABEL, "taint {dedicated: vision} of t0",
    ),
    "ml/cordoned": (in_pool("cordoned", 1, "c"), L2, Cause.NOTHING_READY, "1 cordoned"),
    "ml/plugin": (in_pool("plugin", 1, "d"), L2, Cause.NOTHING_READY, "d0 should have .* plugin"),
    "ml/nobody-s": (
        pod("nobody-s", 1, resource="amd.com/gpu"), L1, Cause.NOTHING_CLAIMED,
        "no node has amd.com/gpu; they have nvidia.com/gpu",
    ),
    "ml/gated": (
        in_pool("gated", 1, "a", schedulingGates=[{"name": "example.com/data"}]), L4,
        Cause.NOT_ELIGIBLE, "held by scheduling gate example.com/data",
    ),
    "ml/port": (
        ruled("port", port=True, **IN_A), L3, Cause.NONE,
        r"free ports.*\(hostPort\); in its way on a[01]: ml/held-[01] \(others on 1 more node\)",
    ),
    "ml/apart": (
        ruled("apart", affinity=near("podAntiAffinity", "held"), **IN_A), L3, Cause.TOPOLOGY,
        r"pod anti-affinity.*\(anti-affinity\); in its way on a[01]: ml/held-[01] ",
    ),
    "ml/enemy": (
        ruled("enemy", app="enemy", **IN_A), L3, Cause.TOPOLOGY,
        r"existing pods anti-affinity.*\(anti-affinity\); in its way on a[01]: ml/held-[01] ",
    ),
    "ml/together": (
        ruled("together", affinity=near("podAffinity", "there")), L3, Cause.TOPOLOGY,
        r"pod affinity rules.*\(pod affinity\); to be beside in e0: ml/there ",
    ),
    "ml/lonely": (
        ruled("lonely", affinity=near("podAffinity", "nobody"), **IN_A), L3, Cause.TOPOLOGY,
        r"pod affinity rules.*\(pod affinity\); it must be beside pods .* of which none is shown",
    ),
    "ml/spread": (
        ruled("spread", app="held", topologySpreadConstraints=spread("held", ZONE)), L3,
        Cause.TOPOLOGY,
        r"\(topology spread\); by its spread it may be in \S+/zone=z2 \(pods there: z1 2, z2 0\)",
    ),
    "ml/few": (
        ruled("few", app="held", topologySpreadConstraints=spread("held", HOST, minDomains=9)), L3,
        Cause.TOPOLOGY, r"topology spread constraints.*\(topology spread\)",
    ),
    "ml/no-claim": (
        ruled("no-claim", volumes=using("nowhere"), **IN_A), L4, Cause.NONE,
        r'persistentvolumeclaim "nowhere" not found.*\(volume\); its volume claims: nowhere',
    ),
    "ml/unbound": (
        ruled("unbound", volumes=using("open"), **IN_A), L4, Cause.NONE,
        r"unbound immediate.*\(volume\); its volume claims: open",
    ),
    "ml/far": (
        ruled("far", volumes=using("far"), **IN_A), L4, Cause.NONE,
        r"olume.*\(volume\); its volume claims: far",
    ),
}  # fmt: skip
"""By job: the pod, who owns its cause, the cause, and what is said of it."""
GONE = r"have `ml/held-[01]` on `a[01]` end, or go elsewhere"
OTHERS: dict[str, tuple[str, str, str]] = {
    "ml/port": ("hostPort", r"in its way on `a[01]`: `ml/held-[01]`", GONE),
    "ml/apart": ("anti-affinity", r"in its way on `a[01]`: `ml/held-[01]`", GONE),
    "ml/enemy": ("anti-affinity", r"in its way on `a[01]`: `ml/held-[01]`", GONE),
    "ml/together": (
        "pod affinity", "it has to be beside `ml/there` in `e0`",
        "wait until what it requests is free in `e0`, beside `ml/there`",
    ),
    "ml/lonely": ("pod affinity", "", "start a pod that its podAffinity names"),
    "ml/spread": (
        "topology spread", "one more pod may be in `topology.kubernetes.io/zone=z2`; pods there:",
        "wait until what it requests is free in `topology.kubernetes.io/zone=z2`",
    ),
    "ml/few": ("topology spread", "", "do what its own scheduler's reason asks for"),
    "ml/no-claim": ("volume", "its volume claim is `nowhere`", "make the volume claim `nowhere`"),
    "ml/unbound": ("volume", "its volume claim is `open`", "have the claim `open` bound"),
    "ml/far": ("volume", "its volume claim is `far`", "free where the volume of its claim `far`"),
}  # fmt: skip
"""Of those that rules about other pods, ports and volumes keep out: by what sort, whom, what ends
it."""
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/ml/persistentvolumeclaims"


class Waiting(NamedTuple):
    """A cluster in which things wait, and what an observer was told of it."""

    rig: Cluster
    answer: SourceAnswer

    def row(self, job: str) -> dict[str, Any]:
        """The one row of a job."""
        (found,) = (row for row in self.answer.attempts.iter_rows(named=True) if row["job"] == job)
        return found


def far_volume() -> Object:
    """A volume of a zone where no node is."""
    in_zone = {"key": ZONE, "operator": "In", "values": ["z9"]}
    where = {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}}
    return {"metadata": {"name": "there"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": where,
        "local": {"path": "/data"}, "claimRef": {"namespace": "ml", "name": "far"},
    }}  # fmt: skip


@pytest.fixture(scope="module")
def waiting(started: Cluster) -> Iterator[Waiting]:
    """Every cause at once."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    started.create(root, KUEUE, POD_GROUP)
    started.add_nodes(*NODES)
    started.kubectl("cordon", "c0")
    pods = "/api/v1/namespaces/ml/pods"
    started.create(pods, *HELD)
    started.wait_until_running("ml", len(HELD))
    started.create(VOLUMES, far_volume())
    far = claim("far", "there")  # its scheduler goes by the mark of who binds claims
    far["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    started.create(CLAIMS, far, claim("open"))
    bound = {"status": {"phase": "Bound"}}
    started.ask("PATCH", f"{CLAIMS}/far/status", bound, kind=MERGE)
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "1"}}}
    started.create("/api/v1/namespaces/web/resourcequotas", quota)
    started.wait_for("the quota counts", lambda: _counts(started))
    started.create("/apis/batch/v1/namespaces/web/jobs", gang("over", 1, 2, namespace="web"))
    started.create("/apis/batch/v1/namespaces/ml/jobs", gang("fleet-sized", PODS, 8))
    started.create(pods, *(one for one, *_ in WAITING.values()))
    started.wait_for("both kinds are served", lambda: _is_served(started))
    started.create("/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads", QUEUED)
    started.create("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ml/podgroups", GROUP)
    label = {"labels": {"scheduling.x-k8s.io/pod-group": "grouped"}}
    for name in ("grouped-0", "grouped-1"):
        started.create(pods, pod(name, 1, nodeSelector={"pool": "a"}, metadata=label,
                                 schedulerName="scheduler-plugins"))  # fmt: skip
    started.wait_for("the scheduler has spoken of all", lambda: _has_spoken(started))
    with KubernetesSource(kubeconfig.find(started.kubeconfig)) as source:
        yield Waiting(started, source.poll(0))
    started.clear()
    for path in (CLAIMS, VOLUMES):
        for row in started.items(path):
            at = f"{path}/{row['metadata']['name']}"
            started.ask("PATCH", at, {"metadata": {"finalizers": None}}, kind=MERGE)
        started.ask("DELETE", path)
    for one in (KUEUE, POD_GROUP):
        started.ask("DELETE", f"{root}/{one['metadata']['name']}")


QUEUED = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Workload",
    "metadata": {"name": "queued", "namespace": "ml"},
    "spec": {
        "queueName": "team",
        "podSets": [{"name": "main", "count": 2, "template": {"spec": pod("x", 4)["spec"]}}],
    },
    "status": {
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "False",
                "reason": "Pending",
                "message": "couldn't assign flavors to pod set main: insufficient unused quota",
                "lastTransitionTime": "2026-11-02T08:00:00Z",
            }
        ]
    },
}
GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "grouped", "namespace": "ml"},
    "spec": {"minMember": 4},
}


def _counts(rig: Cluster) -> bool:
    (quota,) = rig.items("/api/v1/namespaces/web/resourcequotas")
    return bool(quota.get("status", {}).get("hard"))


def _is_served(rig: Cluster) -> bool:
    paths = ("/apis/kueue.x-k8s.io/v1beta1/workloads",
             "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")  # fmt: skip
    return all(rig.try_to("GET", path)[0] == 200 for path in paths)


def _has_spoken(rig: Cluster) -> bool:
    spoken = {
        name
        for name, one in rig.pods("ml").items()
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    }
    events = rig.items("/api/v1/namespaces/web/events")
    is_whole = sum(name.startswith("fleet-sized-") for name in spoken) == PODS
    return (
        is_whole
        and {name.removeprefix("ml/") for name in WAITING} <= spoken
        and any("exceeded quota" in one["message"] for one in events)
    )


@pytest.mark.parametrize("job", sorted(WAITING))
def test_a_cause_is_read_at_the_layer_that_owns_it(waiting: Waiting, job: str):
    """Layer, cause and words, each with the scheduler's own line and a kubectl line that works."""
    _, layer, cause, said = WAITING[job]
    row = waiting.row(job)
    assert row["outcome"] == "waiting"
    assert (Layer(row["reason_layer"]), Cause(row["reason_cause"])) == (layer, cause)
    assert re.search(said, row["reason"]), row["reason"]
    assert row["reason"].startswith(("Unschedulable", "SchedulingGated"))
    assert row["is_eligible"] == (cause is not Cause.NOT_ELIGIBLE)


@pytest.mark.parametrize(
    ("job", "layer", "cause"),
    [
        ("web/over", L4, Cause.OVER_LIMIT_ALWAYS),
        ("ml/fleet-sized", L4, Cause.IMPOSSIBLE_GANG),
        ("ml/queued", L3, Cause.OVER_LIMIT),
        ("ml/grouped", L4, Cause.NONE),
    ],
)
def test_a_gang_s_cause_too(waiting: Waiting, job: str, layer: Layer, cause: Cause):
    """A quota object, a gang larger than the fleet, Kueue's queue, pods that nobody created."""
    rows = [row for row in waiting.answer.attempts.iter_rows(named=True) if row["job"] == job]
    assert (Layer(rows[-1]["reason_layer"]), Cause(rows[-1]["reason_cause"])) == (layer, cause)


def test_every_kubectl_line_of_a_reason_shows_what_it_says(waiting: Waiting):
    """All that reasons and remarks print: the object that they are about, and the words that they
    quote of it.
    """
    lines = set[str]()
    told = [row["reason"] or "" for row in waiting.answer.attempts.iter_rows(named=True)]
    for text in (*told, *waiting.answer.notes):
        for line in re.findall(r"\((kubectl [^)]*)\)", text):
            found = shown(waiting.rig, line)
            assert shlex.split(line.removesuffix(" -o yaml"))[-1] in found, line
            quoted = re.findall(r'^\w+ "(.{20})', text)
            if "resourcequota" in line:  # that it is used up, and not what was said of a pod
                quoted = [f"requests.{GPU}"]
            for words in quoted:
                assert words in found, (line, words)
            lines.add(line)
    assert len(lines) >= len(WAITING) + 3


def test_every_kubectl_line_of_why_shows_its_evidence(waiting: Waiting):
    """Nodes, budgets, the queue, what runs, a quota, a job, what was said of it; and those
    that messages name.
    """
    budget = {"metadata": {"name": "keep"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}  # fmt: skip
    budgets = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets"
    waiting.rig.create(budgets, budget)
    world = world_of(made.node("n0"), made.pod("x", 1, on="n0"))
    pod_of = {"of": " -n ml", "pod": "busy"}
    evidence: list[tuple[commands.Commands, tuple[str, ...]]] = [
        (
            commands.nodes(None),
            ("Name: a0", "Name: d0", "nvidia.com/gpu: 8", "Unschedulable: true"),
        ),
        (commands.budgets(), ("ml keep 1 N/A 0",)),
        (commands.line(world), ("ml busy 0/1 Pending", "ml large 0/1 Pending")),
        (commands.running(), ("ml held-0", "ml held-1")),
        (commands.team(world, "web"), ("requests.nvidia.com/gpu 0 1",)),
        (commands.job(world, "ml/busy"), ("busy Pending <none>", "nvidia.com/gpu:8")),
        (commands.rules(world, "ml/zone"), ("zone <none> map[", "topology.kubernetes.io/zone")),
        (commands.held("ml/busy"), ("FailedScheduling pod/busy", "0/6 nodes are available")),
    ]
    for topic, words in evidence:
        (line,) = (one.line for one in topic if one.on == "kubernetes")
        found = shown(waiting.rig, line)
        for word in words:
            assert word in found, (line, word)
    named = {
        job_names.GANG_OF_POD.format(pod="fleet-sized"): "NAMESPACE OWNER GANG",
        job_names.GANG_OF_POD.format(pod="busy"): "ml <none> <none>",
        job_names.REQUESTS_OF_POD.format(**pod_of): '"nvidia.com/gpu":"8"',
        "kubectl get --raw /readyz": "ok",
        "kubectl get --raw /readyz?verbose": "[+]etcd ok",
    }
    for line, word in named.items():
        assert word in shown(waiting.rig, line), line
    waiting.rig.ask("DELETE", f"{budgets}/keep")


PROVED: dict[str, tuple[str, tuple[str, ...]]] = {
    "ml/large": ("accelerators on one node", ("Name: a0", "nvidia.com/gpu: 8")),
    "ml/label": ("label", ("NAME STATUS ROLES AGE VERSION GPU a0", "NAME TAINTS")),
    "ml/zone": ("label", ("VERSION ZONE a0", " z1 ")),
    "ml/taint": ("label", ("t0 [map[effect:NoSchedule key:dedicated value:vision]]",)),
    "ml/fleet-sized": ("gang", ("Name: a0", "Name: a1", "nvidia.com/gpu: 8")),
    "web/over": ("limit", ("Name: gpus", "requests.nvidia.com/gpu 0 1")),
}
"""Of jobs that can never start: what proves it, and what the lines beside the proof must show."""


@pytest.mark.parametrize("job", sorted(PROVED))
def test_lines_beside_a_proof_show_the_quota_the_nodes_or_the_labels_it_is_about(
    waiting: Waiting, job: str, tmp_path: Path
):
    """Imported from what kubectl printed; what is claimed is shown by its nodes, too."""
    (tmp_path / "any.json").write_text(waiting.rig.kubectl("get", EXPORTED, "-A", "-o", "json"))
    journal = str(tmp_path / "j.sqlite")
    made = tidemill("import", "kubernetes", str(tmp_path / "any.json"), "-j", journal)
    assert made.code == 0, made.err
    facts = json.loads(tidemill("why", job, "-j", journal, "--json").out)["answer"]["evidence"]
    constraint, words = PROVED[job]
    wanted = {constraint: words, "claimed": ("Name: a0", "nvidia.com/gpu: 8")}
    printed = tidemill("why", job, "-j", journal).out
    for name, some in wanted.items():
        (fact,) = (one for one in facts if one["name"] == name)
        told = [one["line"] for one in fact["shown_by"] if one["on"] == "kubernetes"]
        found = " ".join(shown(waiting.rig, line) for line in told)
        for word in some:
            assert word in found, (word, told, found)
        assert all(f"\n  {line}\n" in printed for line in told)


def test_every_line_that_why_prints_shows_the_thing_that_it_stands_beside(
    waiting: Waiting, tmp_path: Path
):
    """Of all that wait together, also of those without pods: one that a quota refuses, and one that
    Kueue keeps.
    """
    (tmp_path / "any.json").write_text(waiting.rig.kubectl("get", EXPORTED, "-A", "-o", "json"))
    journal = str(tmp_path / "j.sqlite")
    made = tidemill("import", "kubernetes", str(tmp_path / "any.json"), "-j", journal)
    assert made.code == 0, made.err
    for job in (*WAITING, "web/over", "ml/fleet-sized", "ml/queued", "ml/grouped"):
        assert beside.check(waiting.rig, job, journal), job


def test_who_is_in_the_way_is_named_with_lines_that_show_them_and_what_ends_it(
    waiting: Waiting, tmp_path: Path
):
    """Other pods, a port, a volume: the scheduler says one word of all of them, and `pending` what
    each is. The fix says whom it is about, with a price.
    """
    (tmp_path / "any.json").write_text(waiting.rig.kubectl("get", EXPORTED, "-A", "-o", "json"))
    journal = str(tmp_path / "j.sqlite")
    made = tidemill("import", "kubernetes", str(tmp_path / "any.json"), "-j", journal)
    assert made.code == 0, made.err
    table = tidemill("pending", "-j", journal, "--limit", "0").out.splitlines()
    for job, (sort, evidence, fix) in OTHERS.items():
        answer = json.loads(tidemill("why", job, "-j", journal, "--json").out)["answer"]
        assert re.search(fix, answer["fix"]["words"]), (job, answer["fix"])
        assert answer["fix"]["usd_micro_per_hour"] == 0, job
        told = [fact for fact in answer["evidence"] if fact["name"] == "in its way"]
        assert len(told) == bool(evidence), (job, told)
        for fact in told:
            assert re.search(evidence, fact["words"]), (job, fact)
            names = re.findall(r"`ml/([^`]+)`", fact["words"])
            found = " ".join(shown(waiting.rig, line) for line in beside.lines(fact))
            assert found, (job, fact)
            assert all(name in found for name in names), (job, names, found)
        (row,) = (line for line in table if re.match(rf"\s*\d+\s+{job}\s", line))
        assert f" {sort} " in row, (job, row)
    causes = [line for line in table if " scheduling " in line or " workload " in line]
    assert {one.strip().split("  ")[0] for one in causes} >= {sort for sort, *_ in OTHERS.values()}


@pytest.mark.parametrize(
    ("dialect", "version"),
    [("scheduling.volcano.sh", "v1beta1"), ("scheduling.run.ai", "v2alpha2")],
)
def test_the_line_of_a_pod_group_shows_it(waiting: Waiting, dialect: str, version: str):
    """Of the dialects that are no part of Kubernetes, and are not served by the fixture."""
    rig, root = waiting.rig, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rig.create(root, kind(dialect, version, "PodGroup", "podgroups"))
    at = f"/apis/{dialect}/{version}/namespaces/ml/podgroups"
    rig.wait_for("it is served", lambda: rig.try_to("GET", at)[0] == 200)
    one = {"apiVersion": f"{dialect}/{version}", "kind": "PodGroup",
           "metadata": {"name": "g", "namespace": "ml"}, "spec": {"minMember": 3}}  # fmt: skip
    rig.create(at, one)
    found = shown(rig, groups.read(one).shown_by)
    rig.ask("DELETE", f"{root}/podgroups.{dialect}")
    assert "Name: g" in found
    assert "Min Member: 3" in found


def test_the_export_of_the_guide_is_what_was_watched(waiting: Waiting, tmp_path: Path):
    """Its loop over all kinds, as it stands there: what the cluster has not leaves no file."""
    guide = (ROOT / "docs" / "guides" / "import-kubernetes.md").read_text()
    (script,) = re.findall(r"```text\n(mkdir -p exported.*?)```", guide, re.DOTALL)
    path = f"{cluster.FOLDER / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "KUBECONFIG": str(waiting.rig.kubeconfig), "HOME": str(tmp_path)}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, check=True)
    names = {one.name for one in (tmp_path / "exported").iterdir()}
    assert {"nodes.json", "pods.json", "workloads.kueue.x-k8s.io.json"} <= names
    assert "rayjobs.ray.io.json" not in names
    past = translate.read([tmp_path / "exported"])
    assert past.refusals == 0
    assert by_job(past.attempts, past.shapes) == by_job(
        waiting.answer.attempts, waiting.answer.shapes
    )


def test_what_kubectl_exports_says_the_same(waiting: Waiting, tmp_path: Path):
    """The files of `kubectl get -o json` and the watch of the same cluster are one history."""
    printed = waiting.rig.kubectl("get", EXPORTED, "-A", "-o", "json")
    (tmp_path / "cluster.json").write_text(printed)
    past = translate.read([tmp_path / "cluster.json"])
    assert past.refusals == 0
    told = waiting.answer
    assert by_job(past.attempts, past.shapes) == by_job(told.attempts, told.shapes)
    assert [one.name for one in past.nodes] == [one.name for one in told.nodes]
    assert past.queues == told.queues


def by_job(attempts: pl.DataFrame, shapes: Sequence[Shape]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each job, with what it requests in place of its number."""
    found = dict[str, list[dict[str, Any]]]()
    for row in attempts.iter_rows(named=True):
        # A pod that a quota refuses is tried again under another name.
        reason = re.sub(r"over-0-\w+", "over-0", row["reason"] or "")
        told = row | {"shape": shapes[row["shape"]], "reason": reason}
        found.setdefault(row["job"], []).append(told)
    return found


def test_nodes_are_seen_as_they_are(waiting: Waiting):
    """Cordoned, and with a device plugin that does not run: out, since when, and said."""
    out = {one.name: [state.name for _, _, state in one.out] for one in waiting.answer.nodes}
    assert out == {
        "a0": [], "a1": [], "c0": ["CORDONED"], "d0": ["UNHEALTHY"], "e0": [], "t0": [],
    }  # fmt: skip
    assert any("`d0` should have 8 GPUs and advertises none" in n for n in waiting.answer.notes)
