"""A namespace that is deleted under gangs, and those whom a disruption budget does not let go."""

from functools import partial
from pathlib import Path

import pytest

from tests.live.kubernetes.scheduling.test_rights import priorities
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import (
    Object,
    container,
    gang,
    gang_notes,
    node,
    pod,
)

JOBS, PODS = "/apis/batch/v1/namespaces/{}/jobs", "/api/v1/namespaces/{}/pods"
POLICY = """
[policy]
min_run = "0s"
preempt_gain_ppm = 0

[[tier]]
name = "rack"
label = "topology.kubernetes.io/rack"
"""


def bound(rig: Cluster, namespace: str, begins: str = "") -> dict[str, str]:
    """Where the pods of a namespace are, of those whose names begin so."""
    return {
        one["metadata"]["name"]: one["spec"]["nodeName"]
        for one in live(rig)
        if one["metadata"]["namespace"] == namespace
        and one["spec"].get("nodeName")
        and one["metadata"]["name"].startswith(begins)
    }


def tied(name: str, workers: int, namespace: str) -> list[Object]:
    """A launcher without GPUs and workers with whole nodes, that have to be in one rack."""
    notes = gang_notes(name, workers + 1, required_topology="rack")
    about: Object = {"metadata": {"annotations": notes}}
    mine: Object = {"schedulerName": OURS, "namespace": namespace}
    made = [pod(f"{name}-launcher", 0, **mine, **about)]
    return made + [pod(f"{name}-{i}", 8, **mine, **about) for i in range(workers)]


def at_rest(rig: Cluster, ours: Process) -> None:
    """Nothing is as it must not be, and the scheduler runs."""
    rig.wait_for("all is right", lambda: not wrong(rig, ours.journal))
    assert ours.process is not None
    assert ours.process.poll() is None


@pytest.fixture
def going(rig: Cluster) -> Cluster:
    """A namespace that is going to be deleted."""
    rig.create("/api/v1/namespaces", {"metadata": {"name": "going"}})
    return rig


def test_a_namespace_that_is_deleted_gives_back_all_that_it_held(going: Cluster, tmp_path: Path):
    """In it a gang runs, one with a launcher is bound in its rack, one waits, one lacks pods, one
    just came; the scheduler is killed meanwhile. Another namespace has the room afterwards.
    """
    rig, policy = going, tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 2}") for i in range(6)))
    mine: Object = {"schedulerName": OURS, "namespace": "going"}
    rig.create(PODS.format("going"), *tied("mpi", 2, "going"))
    rig.create(JOBS.format("going"), gang("runs", 2, 8, **mine), gang("waits", 8, 8, **mine))
    few: Object = {"metadata": {"annotations": gang_notes("few", 3)}}
    rig.create(PODS.format("going"), pod("few-0", 1, **mine, **few))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_for("two gangs are bound", lambda: len(bound(rig, "going")) == 5, 120)
        racks = {int(where[1:]) // 2 for where in bound(rig, "going", "mpi").values()}
        assert len(racks) == 1
        rig.create(JOBS.format("ml"), gang("heir", 6, 8, schedulerName=OURS))
        rig.create(JOBS.format("going"), gang("late", 2, 4, **mine))
        rig.ask("DELETE", "/api/v1/namespaces/going")
        ours.kill()
        ours.start()
        rig.wait_for("the other has it all", lambda: len(bound(rig, "ml", "heir")) == 6, 120)
        at_rest(rig, ours)
        gone = lambda: rig.try_to("GET", "/api/v1/namespaces/going")[0] == 404  # noqa: E731
        rig.wait_for("the namespace is gone", gone)
        assert not in_part(rig)
        assert ours.stop() == 0
    assert not wrong(rig, ours.journal)


def test_pods_are_told_which_budget_keeps_others_from_leaving(rig: Cluster, tmp_path: Path):
    """A gang fills the node, its budget lets nobody go, and a better pod comes: its Event names the
    gang and the budget, and the gang stays. What nobody can mean is told beside that.
    """
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"))
    worse = gang("worse", 2, 4, schedulerName=OURS, priorityClassName="low")
    worse["spec"]["template"]["metadata"] = {"labels": {"app": "worse"}}
    rig.create(JOBS.format("ml"), worse)
    budgets = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets"
    of = {"minAvailable": 2, "selector": {"matchLabels": {"app": "worse"}}}
    rig.create(budgets, {"metadata": {"name": "keep", "namespace": "ml"}, "spec": of})
    odd = pod("odd", 1, schedulerName=OURS)
    odd["spec"]["containers"][0] = container(1_000_000_000, cpu="1E")
    named: Object = {"annotations": {"tidemill/expected-duraton": "2h"}}
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_for("the gang runs", lambda: len(bound(rig, "ml", "worse")) == 2, 120)
        better = pod("better", 8, schedulerName=OURS, priorityClassName="high", metadata=named)
        rig.create(PODS.format("ml"), odd, better)
        for name, words in (
            ("better", "`ml/worse` would be preempted for it, and is not: the PodDisruptionBudget"),
            ("better", "annotation tidemill/expected-duraton is not read"),
            ("odd", "`nvidia.com/gpu` is 1000000000: no number of devices"),
        ):
            rig.wait_for(f"{name} is told {words}", partial(is_told, rig, name, words), 60)
        assert len(bound(rig, "ml")) == 2
        assert ours.has_logged("jobs not placed")
        rig.delete_pod("ml", "odd")
        at_rest(rig, ours)
    rig.ask("DELETE", f"{budgets}/keep")


def is_told(rig: Cluster, name: str, words: str) -> bool:
    """Whether an Event of a pod has these words."""
    found = rig.items("/apis/events.k8s.io/v1/namespaces/ml/events")
    return any(one["regarding"]["name"] == name and words in one["note"] for one in found)
