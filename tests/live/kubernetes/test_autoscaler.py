"""cluster-autoscaler's status, beside why jobs wait: node groups are full, back off or grow."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes import made
from tests.live.kubernetes.conftest import Source
from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import reason, world_of
from tests.live.kubernetes.test_reasons import FULL, SAID
from tests.rigs.kubernetes import wanted
from tests.rigs.kubernetes.cluster import Cluster, RigError
from tidemill.live.kubernetes import autoscaler, reasons, translate
from tidemill.live.kubernetes.fleet_now import WhyPending
from tidemill.model.errors import SpecError
from tidemill.model.reasons import Cause

Object = dict[str, Any]
SHOWN = f"(kubectl get cm -n kube-system {autoscaler.NAME} -o yaml)"
NO_ACTIVITY = "status: NoActivity"
SCALING = "status: InProgress"
STOCKOUT = """status: Backoff
    backoffInfo:
      errorCode: OutOfResource
      errorMessage: "no p5.48xlarge\\n in us-east-1a (try again later)\""""


def group(
    name: str, ready: int, target: int, most: int, up: str = NO_ACTIVITY, health: str = "Healthy"
) -> str:
    """One of `nodeGroups`, as cluster-autoscaler 1.30 and later write it."""
    return f"""
- name: {name}
  health:
    status: {health}
    nodeCounts:
      registered:
        total: {ready}
        ready: {ready}
        notStarted: 0
      longUnregistered: 0
      unregistered: {target - ready}
    cloudProviderTarget: {target}
    minSize: 0
    maxSize: {most}
    lastProbeTime: "2026-11-02T09:00:00.558615784Z"
  scaleUp:
    {up}
    lastProbeTime: "2026-11-02T09:00:00.558615784Z"
  scaleDown:
    status: NoCandidates"""


def status(*groups: str, probed: str = "2026-11-02T09:00:00.558615784Z") -> Object:
    """The ConfigMap, as kubectl prints it."""
    told = f"""time: 2026-11-02 09:00:00.558615784 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    lastProbeTime: "{probed}"
  scaleUp:
    status: NoActivity
nodeGroups:{"".join(groups) or " []"}
"""
    return config_map(told)


def config_map(
    told: str, name: str = autoscaler.NAME, namespace: str = autoscaler.NAMESPACE
) -> Object:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"status": told},
            "metadata": {"name": name, "namespace": namespace}}  # fmt: skip


IN_A = {"pool": "gpu-a"}
NODES = (node("n0", labels=IN_A), node("n1", labels=IN_A), *FULL)
WAITS = pod("x", 4, message=SAID)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (group("gpu-a", 2, 2, 2), "is at its maximum (2 of 2)"),
        (group("gpu-a", 2, 3, 8, SCALING), "is scaling up: 2 of 3 nodes are Ready"),
        (group("gpu-a", 2, 3, 3, SCALING), "is scaling up: 2 of 3 nodes are Ready, its maximum"),
        (
            group("gpu-a", 2, 2, 8, STOCKOUT),
            "backs off after OutOfResource: no p5.48xlarge in us-east-1a (try again later)",
        ),
        (group("gpu-a", 2, 2, 8, "status: Backoff"), "backs off after a scale-up that failed"),
        (group("gpu-a", 2, 2, 8, health="Unhealthy"), "is Unhealthy and not scaled up"),
        (group("gpu-a", 2, 2, 8), "is not scaling up (2 of at most 8)"),
    ],
)
def test_what_a_node_group_does_stands_beside_the_reason(one: str, words: str):
    """Full, growing, backing off or idle; the cause stays, and the line that shows it follows."""
    found = reason(world_of(*NODES, WAITS, status(one)), "ml/x")
    assert found[:2] == reason(world_of(*NODES, WAITS), "ml/x")[:2]
    assert f"; the autoscaler's node group `gpu-a` {words} {SHOWN}" in found[2]
    assert found[2].endswith("(kubectl describe pod -n ml x)")


def test_groups_whose_nodes_would_not_take_the_job_are_left_out():
    """A group without GPUs, one of smaller nodes, one with a taint; one without nodes is unsure."""
    taint = [{"key": "team", "value": "b", "effect": "NoSchedule"}]
    others = [
        node("c0", labels={"pool": "cpu"}, amounts={"nvidia.com/gpu": None}),
        node("s0", 2, labels={"pool": "small"}), node("t0", labels={"pool": "b"}, taints=taint),
    ]  # fmt: skip
    rest = [group(name, 1, 2, 9, SCALING) for name in ("cpu", "small", "b", "empty")]
    busy = [*NODES, *others, pod("s", 2, on="s0"), pod("t", 8, on="t0")]
    said = reason(world_of(*busy, WAITS, status(*rest, group("gpu-a", 2, 2, 2))), "ml/x")[2]
    assert f"node group `gpu-a` is at its maximum (2 of 2) {SHOWN}" in said
    said = reason(world_of(*busy, WAITS, status(*rest)), "ml/x")[2]
    assert "node group `empty` (no node of it is known) is scaling up" in said
    assert "autoscaler" not in reason(world_of(*busy, WAITS, status(*rest[:3])), "ml/x")[2]


@pytest.mark.parametrize(
    ("called", "name", "labels"),
    [
        (
            "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/gke-c-40ce-grp",
            "gke-c-40ce-x7k2", {},
        ),
        ("aks-gpu-12345678-vmss", "aks-gpu-12345678-vmss00000a", {}),
        (
            "eks-gpu-2cc1b7a4-0c7e-4f0a-9d3e-5a1b2c3d4e5f", "ip-10-0-0-1.ec2.internal",
            {"eks.amazonaws.com/nodegroup": "gpu"},
        ),
        ("MachineDeployment/default/md-0", "n0", {"cluster.x-k8s.io/deployment-name": "md-0"}),
    ],
)  # fmt: skip
def test_groups_are_found_as_clouds_name_them(called: str, name: str, labels: dict[str, str]):
    """The node is known to be of the group, so nothing is said of none being known."""
    world = world_of(
        node(name, labels=labels), pod("runs", 8, on=name), WAITS, status(group(called, 1, 1, 1))
    )
    assert f"`{called.rpartition('/')[2]}` is at its maximum (1 of 1)" in reason(world, "ml/x")[2]


def triggered(why: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "x"}, "reason": why,
        "message": "as it was", "lastTimestamp": made.moment(9),
    }  # fmt: skip


def test_nobody_is_told_to_wait_for_a_node_that_cannot_come():
    """A scale-up was triggered and then failed: the status counts, not what was begun."""
    event = triggered("TriggeredScaleUp")
    failed = status(group("gpu-a", 2, 2, 8, STOCKOUT))
    said = reason(world_of(*NODES, WAITS, event, failed), "ml/x")[2]
    assert "backs off" in said
    assert "is adding nodes" not in said
    assert "is adding nodes" in reason(world_of(*NODES, WAITS, event, status()), "ml/x")[2]
    both = reason(world_of(*NODES, WAITS, triggered("NotTriggerScaleUp"), failed), "ml/x")[2]
    assert "no node it may add would help; the autoscaler's node group" in both


def test_an_old_status_is_told_by_its_date_alone():
    """Nodes were seen at 9:00; what the autoscaler last wrote at 8:40 is no news of its groups."""
    old = status(group("gpu-a", 2, 3, 8, SCALING), probed="2026-11-02T08:40:00Z")
    said = reason(world_of(*NODES, WAITS, old), "ml/x")[2]
    assert f"the last status of cluster-autoscaler is of 2026-11-02 08:40 UTC {SHOWN}" in said
    assert "scaling up" not in said


def test_another_node_would_not_help_a_job_that_is_held():
    """Nothing of node groups where a gate, not room, keeps it."""
    gated = pod("x", 4, spec={"schedulingGates": [{"name": "example.com/wait"}]}, message="Gated",
                reason="SchedulingGated")  # fmt: skip
    world = world_of(*NODES, gated, status(group("gpu-a", 2, 2, 2)))
    assert reason(world, "ml/x")[1] == Cause.NOT_ELIGIBLE
    assert "autoscaler" not in reason(world, "ml/x")[2]


LEGACY = """Cluster-autoscaler status at 2023-11-24 04:28:19.546750398 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=7 unready=0 notStarted=0 registered=7 longUnregistered=0)
               LastProbeTime:      2023-11-24 04:28:19.408724799 +0000 UTC m=+48988.192673876
"""


@pytest.mark.parametrize(
    "told", [LEGACY, "", "[" * 3000, "a: 1", "autoscalerStatus: Running\nnodeGroups: 7"]
)
def test_what_is_not_understood_is_said_and_not_guessed(told: str):
    """The text of before 1.30, nothing, and what is no status: one remark, and no object less."""
    past = translate.translate(made.taken(*NODES, WAITS, config_map(told)))
    assert past.refusals == 0
    (note,) = past.notes
    assert "is not understood" in note
    assert note.endswith(SHOWN)
    assert "autoscaler" not in "".join(past.attempts["reason"].drop_nulls())


def test_other_config_maps_are_not_read():
    """Files may hold all of a cluster; only one of them counts."""
    past = translate.translate(made.taken(*NODES, config_map("a: [", "other")))
    assert (past.refusals, past.notes) == (0, ())


def test_how_to_see_it_is_never_cut_off():
    """Where a long reason leaves no room for the node group, that is left away."""
    long = WhyPending(Cause.BUSY, reasons.L3, "w" * 300)
    also = f"the autoscaler's node group {'g' * 150} {SHOWN}"
    found = reasons.told(long, "Unschedulable", "said", "kubectl y", also)
    assert found == reasons.told(long, "Unschedulable", "said", "kubectl y")
    assert found.endswith("(kubectl y)")


def test_the_guide_exports_what_pending_and_why_tell(tmp_path: Path):
    """The list that the guide's line writes, imported from a folder beside the others."""
    guide = (ROOT / "docs/guides/import-kubernetes.md").read_text()
    assert f"get configmap -A --field-selector metadata.name={autoscaler.NAME} -o json" in guide
    (tmp_path / "cluster.json").write_text(json.dumps(made.listed(*NODES, WAITS)))
    one = status(group("gpu-a", 2, 2, 2))
    (tmp_path / "autoscaler.json").write_text(json.dumps(made.listed(one)))
    journal = str(tmp_path / "kube.sqlite")
    done = tidemill("import", "kubernetes", str(tmp_path), "--usd-per-hour", "2", "-j", journal)
    assert done.code == 0, done.err
    for asked in (("pending", journal), ("why", "ml/x", "-j", journal)):
        printed = re.sub(r"\s+", " ", tidemill(*asked).out)
        assert "node group `gpu-a` is at its maximum (2 of 2)" in printed, printed


def test_of_files_with_several_the_newest_counts():
    """One that an autoscaler in another namespace left behind says nothing any more."""
    old = status(group("gpu-a", 2, 2, 2), probed="2026-11-02T08:50:00Z")
    new = _in("autoscaling", status(group("gpu-a", 2, 3, 8, SCALING)))
    for both in ((old, new), (new, old)):
        said = reason(world_of(*NODES, WAITS, *both), "ml/x")[2]
        assert "is scaling up" in said
        assert f"(kubectl get cm -n autoscaling {autoscaler.NAME} -o yaml)" in said


@pytest.mark.parametrize("name", ["a/b", "Kube", "-a", "a" * 64, "a?b"])
def test_what_cannot_be_a_namespace_is_refused(watcher: Source, name: str):
    """It would be part of an address."""
    with pytest.raises(SpecError, match="--autoscaler-namespace"):
        watcher(autoscaler_namespace=name)


def test_a_fleet_file_names_it_by_its_key(tmp_path: Path):
    """`autoscaler_namespace` of [[kubernetes]] is what `--autoscaler-namespace` is."""
    (tmp_path / "kubeconfig").write_text(json.dumps({
        "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}]}))  # fmt: skip
    file = tmp_path / "fleet.toml"
    file.write_text('[[kubernetes]]\nkubeconfig = "kubeconfig"\nautoscaler_namespace = "a/b"\n')
    ran = tidemill("observe", "--config", str(file), "--once")
    assert ran.code != 0
    assert "`autoscaler_namespace` of [[kubernetes]] is `a/b`" in " ".join(ran.err.split())


@pytest.mark.parametrize("namespace", ["", "autoscaling"])
def test_a_real_server_gives_the_observer_that_one_alone(
    rig: Cluster, watcher: Source, namespace: str
):
    """By its role, in whatever namespace: watched as it changes, its kubectl line runs, another
    ConfigMap is forbidden, and one in another namespace does not count.
    """
    here, there = namespace or "kube-system", "kube-system" if namespace else "ml"
    rig.try_to("POST", "/api/v1/namespaces", {"metadata": {"name": here}})
    root = f"/api/v1/namespaces/{here}/configmaps"
    elsewhere = f"/api/v1/namespaces/{there}/configmaps"
    rig.add_nodes(wanted.node("n0", labels={"pool": "gpu-a"}))
    rig.create("/api/v1/namespaces/ml/pods", wanted.pod("runs", 8))
    rig.wait_until_running("ml", 1)
    rig.create("/api/v1/namespaces/ml/pods", wanted.pod("x", 4))
    source = watcher(autoscaler_namespace=namespace)

    def said() -> str:
        answer = source.poll(0)
        assert answer.notes == ()
        rows = answer.attempts.iter_rows(named=True)
        return next(row["reason"] or "" for row in rows if row["job"] == "ml/x")

    rig.wait_for("the scheduler has spoken", lambda: "Insufficient" in said())
    assert "autoscaler" not in said()
    now = rig.ask("GET", "/api/v1/nodes/n0")["metadata"]["creationTimestamp"]
    rig.create(elsewhere, _in(there, status(group("gpu-a", 1, 1, 1), probed=now)))
    rig.create(root, _in(here, status(group("gpu-a", 1, 2, 8, SCALING), probed=now)),
               config_map("a", "other", here))  # fmt: skip
    try:
        rig.wait_for("it grows", lambda: "is scaling up: 1 of 2 nodes are Ready" in said())
        full = _in(here, status(group("gpu-a", 1, 1, 1), probed=now))
        rig.ask("PUT", f"{root}/{autoscaler.NAME}", full)
        rig.wait_for("it is full", lambda: "`gpu-a` is at its maximum (1 of 1)" in said())
        (line,) = re.findall(r"\(kubectl (get cm [^)]*)\)", said())
        assert "maxSize: 1" in rig.kubectl(*shlex.split(line))
        me = "--as=system:serviceaccount:tidemill:observer"
        assert "maxSize: 1" in rig.kubectl(*shlex.split(line), me)
        with pytest.raises(RigError, match='configmaps "other" is forbidden'):
            rig.kubectl("get", "cm", "-n", here, "other", me)
    finally:
        rig.ask("DELETE", f"{elsewhere}/{autoscaler.NAME}")
        for name in (autoscaler.NAME, "other"):
            rig.ask("DELETE", f"{root}/{name}")
    rig.wait_for("it is gone", lambda: "autoscaler" not in said())


def _in(namespace: str, one: Object) -> Object:
    one["metadata"]["namespace"] = namespace
    return one
