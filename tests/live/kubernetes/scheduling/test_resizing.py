"""Elastic gangs on a real cluster: smaller instead of stopped, larger when nobody waits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.live.kubernetes.scheduling.test_rights import PODS, priorities
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.definitions import TRAINING
from tests.rigs.kubernetes.scheduled import OURS, Process, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import container, gang, gang_notes, node, replica_set
from tidemill.cli.main import app
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model.states import JobState

Object = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
SETS = "/apis/apps/v1/namespaces/ml/replicasets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/ml/deployments"
STATEFUL = "/apis/apps/v1/namespaces/ml/statefulsets"
TRAININGS = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ml/events"
MERGE = "application/merge-patch+json"
POLICY = """
[policy]
min_run = "0s"
preempt_gain_ppm = 0
grow_after = "1s"
"""


@pytest.fixture
def resizable(rig: Cluster) -> Iterator[Cluster]:
    """A cluster in which the scheduler may resize, with two classes of priority."""
    path = str(ROOT / "deploy" / "kubernetes" / "resize.yaml")
    rig.kubectl("apply", "-f", path)
    priorities(rig)
    yield rig
    rig.kubectl("delete", "-f", path)
    for way in (DEPLOYMENTS, STATEFUL, SETS):
        for one in rig.items(way):
            at = f"{way}/{one['metadata']['name']}?propagationPolicy=Background"
            rig.try_to("DELETE", at)  # a set of a Deployment may be collected by then


def elastic_set(name: str, pods: int, least: int, gpus: int = 1) -> Object:
    """A ReplicaSet whose pods are a gang that works with fewer, too."""
    notes = gang_notes(name, pods, gang_least=str(least))
    return replica_set(name, pods, gpus, notes, schedulerName=OURS, priorityClassName="low")


def elastic_deployment(name: str, pods: int, least: int) -> Object:
    """The same of a Deployment, which has a ReplicaSet between itself and its pods."""
    made = elastic_set(name, pods, least)
    made["kind"] = "Deployment"
    return made


def elastic_stateful(name: str, pods: int, least: int) -> Object:
    """The same of a StatefulSet that makes its pods at once."""
    made = elastic_set(name, pods, least)
    made["kind"] = "StatefulSet"
    made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return made


def elastic_job(name: str, pods: int, least: int, gpus: int = 1) -> Object:
    """An indexed Job that works with fewer pods, too."""
    made = gang(name, pods, gpus, schedulerName=OURS, priorityClassName="low")
    made["spec"]["backoffLimit"] = 100  # pods that are evicted count as failed
    made["metadata"]["annotations"] = {"tidemill/gang-least": str(least)}
    return made


def bound(rig: Cluster, name: str) -> list[str]:
    """Where the pods of a gang are, "-" for those that wait."""
    return sorted(
        one["spec"].get("nodeName", "-")
        for one in live(rig)
        if one["metadata"]["name"].startswith(f"{name}-")
        and "deletionTimestamp" not in one["metadata"]
    )


def at_rest(rig: Cluster, ours: Process, name: str, size: int) -> None:
    """Until a gang has so many pods, all of them bound, and the journal says so."""
    rig.wait_for(
        f"{name} has {size} pods",
        lambda: len(found := bound(rig, name)) == size and "-" not in found, 60,
    )  # fmt: skip
    rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))


def said(rig: Cluster, kind: str) -> list[tuple[str, str]]:
    """Events of ours about objects of a kind: reason and note."""
    return [(one["reason"], one["note"]) for one in rig.items(EVENTS)
            if one["regarding"]["kind"] == kind
            and one.get("reportingController") == OURS]  # fmt: skip


def is_at_work(journal: str) -> bool:
    """Whether the first job of a journal runs."""
    with open_journal(journal) as opened:
        return bool(rebuild(opened).jobs.state[0] == JobState.RUNNING)


def told(journal: str, *command: str) -> str:
    """What a command says of the journal."""
    return CliRunner().invoke(app, [*command, "-j", journal]).output


@pytest.mark.parametrize(
    ("way", "make", "kind", "field"),
    [
        (SETS, elastic_set, "ReplicaSet", "replicas"),
        (JOBS, elastic_job, "Job", "parallelism"),
        (DEPLOYMENTS, elastic_deployment, "Deployment", "replicas"),
        (STATEFUL, elastic_stateful, "StatefulSet", "replicas"),
    ],
)
def test_an_elastic_gang_shrinks_for_another_and_grows_again(
    resizable: Cluster, tmp_path: Path, way: str, make: Any, kind: str, field: str
):
    """Two nodes of 8 full of 16 pods that work with 6: a better gang of 8 takes one node.

    Nobody is stopped, the owner has 8 pods then, and 16 again when the better gang has gone. A gang
    that would need more than 10 of them stops it, whole: never below its least.
    """
    rig, policy = resizable, tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(way, make("wide", 16, 6))
    size = lambda: rig.ask("GET", f"{way}/wide")["spec"][field]  # noqa: E731
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        at_rest(rig, ours, "wide", 16)
        rig.wait_for("it works", lambda: is_at_work(ours.journal))
        rig.create(JOBS, gang("better", 8, 1, schedulerName=OURS, priorityClassName="high"))
        at_rest(rig, ours, "better", 8)
        at_rest(rig, ours, "wide", 8)
        assert size() == 8
        rig.wait_for("it is said", lambda: said(rig, kind) == [
            ("Shrunk", "shrunk from 16 to 8 pods to make room for job `ml/better`")])  # fmt: skip
        assert "Preempted" not in {reason for reason, _ in said(rig, "Pod")}
        rig.wait_for("the journal has it", lambda: "it runs on 8 of the 16 GPUs" in told(
            ours.journal, "why", "ml/wide"))  # fmt: skip
        assert "ml/better" in told(ours.journal, "decision", "ml/better")
        rig.ask("DELETE", f"{JOBS}/better?propagationPolicy=Background")
        at_rest(rig, ours, "wide", 16)
        assert size() == 16
        grown = ("Grown", "grown from 8 to 16 pods: no job waits for what is free")
        rig.wait_for("that is said too", lambda: grown in said(rig, kind))
        rig.create(JOBS, gang("whole", 2, 8, schedulerName=OURS, priorityClassName="high"))
        at_rest(rig, ours, "whole", 2)
        assert {*bound(rig, "wide")} <= {"-"}  # a Job makes failed pods anew after minutes
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def operate(rig: Cluster, name: str) -> None:
    """What the operator of a training job does: pods by number, as many as its scale says."""
    job = rig.ask("GET", f"{TRAININGS}/{name}")
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
    mine = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name,
            "uid": job["metadata"]["uid"], "controller": True}  # fmt: skip
    names = [f"{name}-worker-{i}" for i in range(worker["replicas"])]
    there = [one for one in rig.pods("ml") if one.startswith(f"{name}-worker-")]
    for one in sorted({*names} - {*there}):
        metadata = {"name": one, "namespace": "ml", "ownerReferences": [mine]}
        made = {"metadata": metadata, "spec": worker["template"]["spec"]}
        rig.create(PODS, {"apiVersion": "v1", "kind": "Pod", **made})
    for one in {*there} - {*names}:
        rig.try_to("DELETE", f"{PODS}/{one}")


def test_a_kind_of_another_project_is_resized_by_its_scale(resizable: Cluster, tmp_path: Path):
    """A PyTorchJob of 16 workers that work with 6: its `/scale` says 8 for a better gang, then 16.

    The highest numbers leave; the operator is played here, the rest is real.
    """
    rig, policy = resizable, tmp_path / "policy.toml"
    policy.write_text(POLICY)
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rig.create(definition, TRAINING)
    rig.wait_for("it is served", lambda: rig.try_to("GET", TRAININGS)[0] == 200)
    rig.add_nodes(node("n0"), node("n1"))
    spec = {"containers": [container(1)], "schedulerName": OURS, "priorityClassName": "low",
            "restartPolicy": "Never"}  # fmt: skip
    worker = {"replicas": 16, "template": {"spec": spec}}
    rig.create(TRAININGS, {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "wide", "namespace": "ml"},
        "spec": {"elasticPolicy": {"minReplicas": 6}, "pytorchReplicaSpecs": {"Worker": worker}},
    })  # fmt: skip

    def has(size: int) -> bool:
        operate(rig, "wide")
        found = bound(rig, "wide")
        return len(found) == size and "-" not in found

    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        rig.wait_for("it has 16 pods", lambda: has(16))
        rig.wait_for("it works", lambda: is_at_work(ours.journal))
        rig.create(JOBS, gang("better", 8, 1, schedulerName=OURS, priorityClassName="high"))
        rig.wait_for("it has 8 pods", lambda: has(8))
        at_rest(rig, ours, "better", 8)
        left = {int(name.rpartition("-")[2]) for name in rig.pods("ml") if "worker" in name}
        assert left == {*range(8)}
        rig.ask("DELETE", f"{JOBS}/better?propagationPolicy=Background")
        rig.wait_for("it has 16 pods again", lambda: has(16))
        at_rest(rig, ours, "wide", 16)
        assert ours.stop() == 0
    rig.ask("DELETE", f"{TRAININGS}/wide")
    rig.ask("DELETE", f"{definition}/{TRAINING['metadata']['name']}")


def test_an_elastic_gang_starts_as_large_as_it_fits(resizable: Cluster, tmp_path: Path):
    """12 of 16 GPUs are free: a gang of 16 that works with 6 starts with 12, its owner has 12."""
    rig, policy = resizable, tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(JOBS, gang("first", 4, 1, schedulerName=OURS, priorityClassName="low"))
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        at_rest(rig, ours, "first", 4)
        rig.create(SETS, elastic_set("wide", 16, 6))
        at_rest(rig, ours, "wide", 12)
        rig.wait_for("it works", lambda: is_at_work(ours.journal))
        rig.ask("DELETE", f"{JOBS}/first?propagationPolicy=Background")
        at_rest(rig, ours, "wide", 16)
        assert ours.stop() == 0


def test_a_gang_of_fewer_pods_than_it_works_with_waits(resizable: Cluster, tmp_path: Path):
    """A Deployment made with one pod of a gang that works with 6: nothing is bound, or booked.

    Somebody gives it 6: then it starts as large as it fits, and its number is set.
    """
    rig, policy = resizable, tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"), node("n1"))
    made = elastic_deployment("wide", 16, 6)
    made["spec"]["replicas"] = 1
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        rig.create(DEPLOYMENTS, made)
        said = "the Deployment `ml/wide`, wants 1 pod, and the gang works with 6 at least"
        rig.wait_for(
            "it says why it waits",
            lambda: said in " ".join(told(ours.journal, "why", "ml/wide").split()),
        )
        assert bound(rig, "wide") == ["-"]
        assert wrong(rig, ours.journal) == []
        rig.ask("PATCH", f"{DEPLOYMENTS}/wide/scale", {"spec": {"replicas": 6}}, kind=MERGE)
        at_rest(rig, ours, "wide", 16)
        assert rig.ask("GET", f"{DEPLOYMENTS}/wide")["spec"]["replicas"] == 16
        assert ours.stop() == 0


def test_a_size_that_its_owner_chose_is_kept(resizable: Cluster, tmp_path: Path):
    """Somebody scales a running gang down, then to nothing: it is not set back."""
    rig, policy = resizable, tmp_path / "policy.toml"
    policy.write_text(POLICY.replace("1s", "1h"))
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(SETS, elastic_set("wide", 12, 4))
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        at_rest(rig, ours, "wide", 12)
        rig.wait_for("it works", lambda: is_at_work(ours.journal))
        rig.ask("PATCH", f"{SETS}/wide/scale", {"spec": {"replicas": 7}}, kind=MERGE)
        at_rest(rig, ours, "wide", 7)
        rig.ask("PATCH", f"{SETS}/wide/scale", {"spec": {"replicas": 0}}, kind=MERGE)
        rig.wait_for("nothing is left", lambda: not bound(rig, "wide"))
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert rig.ask("GET", f"{SETS}/wide")["spec"]["replicas"] == 0
        assert ours.stop() == 0


def test_without_the_right_a_gang_keeps_its_size(rig: Cluster, tmp_path: Path):
    """`--may-resize` without the role: said in the log with the rule that lacks; nothing is lost.

    What was begun is called off, and the gang goes on with all of its pods.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    priorities(rig)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(JOBS, elastic_job("wide", 16, 6))
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        at_rest(rig, ours, "wide", 16)
        rig.wait_for("it works", lambda: is_at_work(ours.journal))
        rig.create(JOBS, gang("better", 8, 1, schedulerName=OURS, priorityClassName="high"))
        rig.wait_for("it is said", lambda: ours.has_logged("resize refused"), 60)
        line = next(one for one in ours.lines() if one["event"] == "resize refused")
        assert line["missing_rule"] == (
            'apiGroups: ["batch"], resources: ["jobs"], verbs: ["patch"]'
        )
        assert len(bound(rig, "wide")) == 16
        assert rig.items(PODS)
        assert ours.stop() == 0


def test_pods_that_are_no_gang_run_one_by_one(resizable: Cluster, tmp_path: Path):
    """A ReplicaSet and a Job of two pods each, of which nobody says that they are a gang.

    Three of the four fit: they run, whatever their owners' scales say.
    """
    rig, several = resizable, gang("plain", 2, 1, schedulerName=OURS)
    several["spec"]["completionMode"] = "NonIndexed"
    rig.add_nodes(node("n0", 3))
    rig.create(SETS, replica_set("apart", 2, 1, schedulerName=OURS))
    rig.create(JOBS, several)
    with scheduling(rig, tmp_path, "--may-resize") as ours:
        rig.wait_until_running("ml", 3)
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_a_gang_that_could_be_smaller_and_must_sit_in_one_rack_is_whole(
    resizable: Cluster, tmp_path: Path
):  # fmt: skip
    """It starts with all of its pods, an Event says why, and the next job is served."""
    rig, policy = resizable, tmp_path / "policy.toml"
    rack = "topology.kubernetes.io/rack"
    policy.write_text(f'{POLICY}\n[[tier]]\nname = "rack"\nlabel = "{rack}"\n')
    rig.add_nodes(node("n0", labels={rack: "r0"}), node("n1", labels={rack: "r1"}))
    tied = elastic_job("tied", 2, 1)
    about = tied["spec"]["template"].setdefault("metadata", {})
    about["annotations"] = {"tidemill/gang-least": "1", "tidemill/required-topology": "rack"}
    with scheduling(rig, tmp_path, "--may-resize", "--policy", str(policy)) as ours:
        rig.create(JOBS, tied)
        at_rest(rig, ours, "tied", 2)
        assert len({*bound(rig, "tied")}) == 1
        rig.create(JOBS, gang("next", 2, 1, schedulerName=OURS, priorityClassName="low"))
        at_rest(rig, ours, "next", 2)
        rig.wait_for("it is said", lambda: "UnreadAnnotation" in {
            reason for reason, _ in said(rig, "Pod")})  # fmt: skip
        assert ours.stop() == 0
