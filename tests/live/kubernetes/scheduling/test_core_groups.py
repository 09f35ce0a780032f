"""Workloads and PodGroups of Kubernetes itself, on a server that has them: read, and placed."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.live.kubernetes.scheduling.test_saying import events, told
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, ready_rig, scheduling
from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.slurm.cluster import quick_folder
from tidemill.cli.main import app
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild

RACK = "topology.kubernetes.io/rack"
PODS = "/api/v1/namespaces/ml/pods"
GROUP = "scheduling.k8s.io/v1alpha2"
POLICY = f"""
[[tier]]
name = "rack"
label = "{RACK}"
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Cluster]:
    """A real Kubernetes with Workloads and PodGroups: a node in rack a, two in b."""
    if reason := cluster.missing():
        pytest.skip(f"this test starts a real Kubernetes, and cannot: {reason}")
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder), *cluster.GROUPS) as found,
    ):
        found.add_nodes(node("n0", rack="a"), node("n1", rack="b"), node("n2", rack="b"))
        yield found


def workload(rig: Cluster, name: str, pods: int, gpus: int, scheduler: str, **more: Any) -> None:
    """A Workload, the PodGroup that its controller would make of it, and its pods."""
    part = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": pods}}} | more
    at = f"/apis/{GROUP}/namespaces/ml"
    rig.create(f"{at}/workloads", {
        "apiVersion": GROUP, "kind": "Workload", "metadata": {"name": name},
        "spec": {"podGroupTemplates": [part]},
    })  # fmt: skip
    ref = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    spec = {key: part[key] for key in part if key != "name"} | {"podGroupTemplateRef": ref}
    rig.create(f"{at}/podgroups", {
        "apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": f"{name}-workers"},
        "spec": spec,
    })  # fmt: skip
    named = {"podGroupName": f"{name}-workers"}
    rig.create(PODS, *(
        pod(f"{name}-{i}", gpus, schedulerName=scheduler, schedulingGroup=named)
        for i in range(pods)
    ))  # fmt: skip


def leave(rig: Cluster, name: str, pods: int) -> None:
    """Delete the pods of a gang."""
    for i in range(pods):
        rig.delete_pod("ml", f"{name}-{i}")


def within(*keys: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def nodes_of(rig: Cluster, begins: str) -> set[str]:
    pods = {name: one for name, one in rig.pods("ml").items() if name.startswith(begins)}
    return {one["spec"].get("nodeName", "") for one in pods.values()}


def test_a_core_group_that_requires_one_rack_is_bound_in_one(rig: Cluster, tmp_path: Path):
    """Two whole nodes in one rack: those of rack b. One by a label that no tier has, and one with
    claims of the group, are held; condition, Event and `why` say it in one word and the same words.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.create("/apis/scheduling.k8s.io/v1/priorityclasses", {
        "metadata": {"name": "high"}, "value": 700})  # fmt: skip
    workload(rig, "train", 2, 8, OURS, **within(RACK), priorityClassName="high")
    workload(rig, "spine", 2, 2, OURS, **within("example.com/spine"))
    claims = [{"name": "x", "resourceClaimName": "shared"}]
    workload(rig, "shared", 2, 2, OURS, resourceClaims=claims)
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_for("the gang is bound", lambda: "" not in nodes_of(rig, "train"), 120)
        assert nodes_of(rig, "train") == {"n1", "n2"}
        rig.wait_for("both are told", lambda: all(told(rig, n)[0] for n in ("spine", "shared")))
        about = lambda: {one["regarding"]["name"].partition("-")[0] for one in events(rig)}  # noqa: E731
        rig.wait_for("there are Events", lambda: about() >= {"spine", "shared"})
        assert ours.stop() == 0
    words = "has to be in one `example.com/spine`; tiers that the policy declares: `rack`"
    assert told(rig, "spine") == ("UnknownTopology", words)
    kept = "resourceClaims of its pod group: not placed by Tidemill's scheduler yet"
    assert told(rig, "shared") == ("NotSupported", kept)
    said = {one["regarding"]["name"].partition("-")[0]: one["note"] for one in events(rig)}
    assert said["spine"] == words
    assert said["shared"] == kept
    for name, line in (("spine", words), ("shared", kept)):
        done = CliRunner().invoke(app, ["why", f"ml/{name}-workers", "-j", ours.journal])
        assert line in " ".join(done.stdout.split())
    with open_journal(ours.journal) as journal:
        world = rebuild(journal)
    shape = world.shape_of(world.job_number["ml/train-workers"])
    assert shape.priority == 700, "its group's, which the API server set by the class"
    for name in ("train", "spine", "shared"):
        leave(rig, name, 2)


def test_a_gang_of_a_core_workload_is_read(rig: Cluster, tmp_path: Path):
    """One job of two pods in one rack, none of which has room for it; the line of kubectl that is
    named shows the group.
    """
    rig.create(PODS, pod("theirs", 8, nodeName="n1"))
    workload(rig, "seen", 2, 8, "nobody", **within(RACK))
    journal = str(tmp_path / "seen.sqlite")
    command = ["observe", "kubernetes", "--kubeconfig", str(rig.kubeconfig), "-j", journal,
               "--once", "--lateness", "0s"]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = CliRunner().invoke(app, ["why", "ml/seen-workers", "-j", journal, "--json"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)["answer"]
    assert answer["asks"] == "2×8 accelerators of any type"
    assert f"at most 1 of its 2 missing pods fit in one {RACK}" in answer["words"]
    shown = rig.kubectl("describe", f"podgroups.{GROUP.partition('/')[0]}", "-n", "ml",
                        "seen-workers")  # fmt: skip
    assert re.search(r"Min Count: +2", shown)
    assert RACK in shown
    leave(rig, "seen", 2)
    rig.delete_pod("ml", "theirs")
