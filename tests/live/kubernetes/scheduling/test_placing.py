"""Pods that ask for us are bound on a real cluster: gangs whole, others counted, all of it told."""

from pathlib import Path

from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def nodes_of(rig: Cluster, *names: str) -> dict[str, str]:
    """The node of each pod whose name begins so; "": it waits."""
    return {
        name: one["spec"].get("nodeName", "")
        for name, one in rig.pods("ml").items()
        if name.startswith(names)
    }


def test_pods_and_gangs_are_bound_whole_beside_pods_of_others(rig: Cluster, tmp_path: Path):
    """Of 4 nodes of 8: a pod of kube-scheduler's, three of ours and a gang of 2 × 8 fit.

    A gang of 5 × 8 fits nowhere: none of its pods is bound. The journal has what the cluster has.
    """
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    rig.create(PODS, pod("other", 3))
    rig.wait_until_running("ml", 1)
    rig.create(PODS, *(pod(f"p{i}", 2, schedulerName=OURS) for i in range(3)))
    rig.create(PODS, pod("host", 0, schedulerName=OURS))
    rig.create(JOBS, gang("fits", 2, 8, schedulerName=OURS))
    rig.create(JOBS, gang("never", 5, 8, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--usd-per-hour", "2.50") as ours:
        rig.wait_until_running("ml", 7)
        assert ours.stop() == 0
    assert all(nodes_of(rig, "p", "host", "fits").values())
    assert not any(nodes_of(rig, "never").values())
    assert wrong(rig, ours.journal) == []


def test_a_gang_by_annotation_waits_for_all_of_its_pods(rig: Cluster, tmp_path: Path):
    """Two pods of a gang of three wait; with the third all of them are bound."""

    def member(i: int) -> dict[str, object]:
        told = {"annotations": {"tidemill/gang": "trio", "tidemill/gang-size": "3"}}
        return pod(f"trio-{i}", 4, schedulerName=OURS, metadata=told)

    rig.add_nodes(node("n0"), node("n1"))
    rig.create(PODS, member(0), member(1), pod("single", 1, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        assert nodes_of(rig, "trio") == {"trio-0": "", "trio-1": ""}
        rig.create(PODS, member(2))
        rig.wait_until_running("ml", 4)
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_what_ends_makes_room_and_is_told_as_it_ended(rig: Cluster, tmp_path: Path):
    """A node of 8: of two pods with 8 each the second starts when the first ends."""
    rig.add_nodes(node("n0"))
    rig.create(PODS, pod("first", 8, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        rig.create(PODS, pod("second", 8, schedulerName=OURS))
        rig.annotate("ml", "first", ends="Succeeded")
        rig.wait_for("second runs", lambda: rig.phases("ml")["second"] == "Running")
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_once_places_what_fits_and_stops(rig: Cluster, tmp_path: Path):
    """With --once it ends by itself, with everything placed that fits."""
    rig.add_nodes(node("n0"))
    rig.create(PODS, *(pod(f"p{i}", 4, schedulerName=OURS) for i in range(3)))
    with scheduling(rig, tmp_path, "--once") as ours:
        assert ours.process is not None
        assert ours.process.wait(120) == 0
    assert sorted(map(bool, nodes_of(rig, "p").values())) == [False, True, True]
    assert wrong(rig, ours.journal) == []
