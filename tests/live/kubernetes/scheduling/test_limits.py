"""What kubelets refuse and GPUs do not show (pods per node, disk, ports), on a real cluster.

No kubelet is here to refuse anything: where pods are is what is compared.
"""

from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_extras import where
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod

Object = dict[str, Any]
PODS, JOBS = "/api/v1/namespaces/ml/pods", "/apis/batch/v1/namespaces/ml/jobs"
DISK, GIB = "ephemeral-storage", 2**30


def on(name: str) -> Object:
    """Pods that are only for one node."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}, "schedulerName": OURS}


def with_port(made: Object, port: int) -> Object:
    """A pod, or a Job, whose container has a port of its node."""
    spec = made["spec"]["template"]["spec"] if made["kind"] == "Job" else made["spec"]
    spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return made


def with_disk(made: Object, gib: int) -> Object:
    """A pod that requests so much of the disk of its node."""
    for amounts in made["spec"]["containers"][0]["resources"].values():
        amounts[DISK] = f"{gib}Gi"
    return made


def test_a_node_gets_no_more_pods_than_its_kubelet_takes(rig: Cluster, tmp_path: Path):
    """Two of three, one of them of another scheduler; the rest go elsewhere, or wait and say so."""
    rig.add_nodes(node("n0", more={"pods": 3}), node("n1"))
    rig.create(PODS, pod("other", 0, nodeName="n0"))
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, *(pod(f"one{i}", 1, **on("n0")) for i in range(3)))
        rig.wait_until_running("ml", 3)
        rig.create(PODS, *(pod(f"free{i}", 1, schedulerName=OURS) for i in range(3)))
        rig.wait_for("others are elsewhere", lambda: where(rig, "free") == {"n1"})
        names = [f"one{i}" for i in range(3)]
        (left,) = [name for name in names if where(rig, name) == {""}]
        rig.wait_for("it is said", lambda: told(rig, left)[0] != "")
        rig.delete_pod("ml", "other")
        rig.wait_for("it is bound", lambda: where(rig, left) == {"n0"})
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


def test_no_two_pods_have_one_port_of_a_node(rig: Cluster, tmp_path: Path):
    """Each on a node of its own; who finds none waits; gangs that fill their nodes share nothing.

    Of a gang whose pods could meet on a node nobody says where they do not: it is not placed.
    """
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    rig.create(JOBS, with_port(gang("wide", 2, 8, schedulerName=OURS), 29500))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 2)
        for i in range(2):
            rig.create(PODS, with_port(pod(f"hn{i}", 1, schedulerName=OURS), 29500))
        rig.wait_until_running("ml", 4)
        assert len(where(rig, "wide-") | where(rig, "hn0") | where(rig, "hn1")) == 4
        rig.create(PODS, with_port(pod("more", 1, schedulerName=OURS), 29500))
        rig.create(PODS, with_port(pod("another", 1, schedulerName=OURS), 29501))
        rig.create(JOBS, with_port(gang("narrow", 2, 1, schedulerName=OURS), 29502))
        rig.wait_for("another port is free", lambda: where(rig, "another") != {""})
        rig.wait_for("it is said", lambda: told(rig, "more")[0] != "")
        rig.wait_for("that too", lambda: "hostPort 29502/TCP" in told(rig, "narrow-")[1])
        assert where(rig, "more") == where(rig, "narrow-") == {""}
        rig.delete_pod("ml", "hn0")
        rig.wait_for("its port is free", lambda: where(rig, "more") != {""})
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


def test_a_pod_is_not_bound_where_its_disk_is_not(rig: Cluster, tmp_path: Path):
    """More than the node has, or than others left of it: it waits, and says how much is left."""
    rig.add_nodes(node("n0", more={DISK: 10 * GIB}))
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, with_disk(pod("huge", 1, schedulerName=OURS), 100))
        rig.wait_for("it is said", lambda: told(rig, "huge")[0] == "BindRefused")
        assert "10.0 GiB of ephemeral-storage left, and 100.0 are" in told(rig, "huge")[1]
        rig.create(PODS, with_disk(pod("first", 1, schedulerName=OURS), 8))
        rig.wait_until_running("ml", 1)
        rig.create(PODS, with_disk(pod("second", 1, schedulerName=OURS), 8))
        rig.wait_for("it is said", lambda: "2.0 GiB of" in told(rig, "second")[1])
        rig.delete_pod("ml", "first")
        rig.wait_for("it is bound", lambda: where(rig, "second") == {"n0"})
        assert where(rig, "huge") == {""}
        assert ours.stop() == 0
