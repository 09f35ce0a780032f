"""Pods without GPUs on nodes without GPUs, on a real cluster: a launcher and its gang, drivers."""

from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_extras import where
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, live, over_committed, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang_notes, node, pod

Object = dict[str, Any]
PODS = "/api/v1/namespaces/ml/pods"
POOL = {"pool": "cpu"}
CPU_POOL: Object = {"nodeSelector": POOL, "schedulerName": OURS}


def cpu_node(name: str) -> Object:
    """Four cores, and no GPUs."""
    return node(name, 0, labels=POOL, more={"cpu": 4})


def test_a_gang_and_its_launcher_begin_when_the_pool_of_that_has_room(rig: Cluster, tmp_path: Path):
    """Another scheduler's pod fills the pool: nothing is bound, and both say why. When that ends
    the launcher goes there and the workers to their GPUs.
    """
    rig.add_nodes(node("n0"), cpu_node("cpu0"))
    rig.create(PODS, pod("other", 0, cpu="3500m", nodeName="cpu0"))
    notes: Object = {"metadata": {"annotations": gang_notes("mpi", 3)}}
    workers = (pod(f"worker{i}", 4, schedulerName=OURS, **notes) for i in range(2))
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, pod("launcher", 0, **CPU_POOL, **notes), *workers)
        rig.wait_for("it is said", lambda: told(rig, "launcher")[0] == "Unschedulable")
        rig.wait_for("of the gang too", lambda: told(rig, "worker0")[0] == "Waiting")
        assert "node `cpu0` has 0.5 cores left, and 1 are requested" in told(rig, "launcher")[1]
        assert "a part of its gang (`launcher`) could not begin" in told(rig, "worker0")[1]
        assert where(rig, "worker") == where(rig, "launcher") == {""}
        rig.delete_pod("ml", "other")
        rig.wait_until_running("ml", 3)
        assert where(rig, "launcher") == {"cpu0"}
        assert where(rig, "worker") == {"n0"}
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


def test_no_node_gets_more_drivers_than_it_has_cores_whoever_else_binds(
    rig: Cluster, tmp_path: Path
):
    """20 of one core come to 8 free ones, among them one of another scheduler; the scheduler is
    killed and started again. What waits gets the cores of those that end.
    """
    rig.add_nodes(node("n0"), cpu_node("cpu0"), cpu_node("cpu1"))
    rig.create(PODS, pod("other", 0, nodeName="cpu0"))
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, *(pod(f"driver{i}", 0, **CPU_POOL) for i in range(20)))
        rig.wait_for("some are bound", lambda: where(rig, "driver") > {""})
        ours.kill()
        ours.start()
        rig.wait_until_running("ml", 8)
        rig.wait_for("the rest is told", lambda: _waiting(rig) == 13)
        assert not over_committed(rig)
        done = [one["metadata"]["name"] for one in live(rig) if one["spec"].get("nodeName")]
        for name in done:
            rig.delete_pod("ml", name)
        rig.wait_until_running("ml", 8)
        assert not over_committed(rig)
        assert where(rig, "driver") == {"", "cpu0", "cpu1"}
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


def _waiting(rig: Cluster) -> int:
    names = [one["metadata"]["name"] for one in live(rig) if not one["spec"].get("nodeName")]
    return sum(told(rig, name)[0] == "Unschedulable" for name in names)
