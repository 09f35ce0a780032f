"""Resources beside GPUs (network cards, huge pages): counted as nodes have them, on a real cluster.

No kubelet refuses a pod here: what each node has given out is counted by hand.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod

Object = dict[str, Any]
PODS, JOBS = "/api/v1/namespaces/ml/pods", "/apis/batch/v1/namespaces/ml/jobs"
NIC = "rdma/hca"


def with_nics(made: Object, count: int, resource: str = NIC) -> Object:
    """A pod, or a Job, whose container requests so many of another resource too."""
    spec = made["spec"]["template"]["spec"] if made["kind"] == "Job" else made["spec"]
    for one in spec["containers"]:
        for amounts in one["resources"].values():
            amounts[resource] = str(count)
    return made


def used(rig: Cluster, resource: str = NIC) -> Counter[str]:
    """What pods hold of a resource, by node."""
    found = Counter[str]()
    for one in live(rig):
        limits = one["spec"]["containers"][0]["resources"].get("limits", {})
        found[one["spec"].get("nodeName", "")] += int(limits.get(resource, 0))
    return found


def where(rig: Cluster, name: str) -> set[str]:
    """The nodes of the pods whose names begin so."""
    return {one["spec"].get("nodeName", "") for one in live(rig)
            if one["metadata"]["name"].startswith(name)}  # fmt: skip


def test_pods_with_network_cards_are_placed_where_there_are_enough(rig: Cluster, tmp_path: Path):
    """One node has 8 cards for its 8 GPUs, one has 2, one has none.

    A gang of 8 pods with a card each goes to the first; a pod with 4 GPUs and a card to the second,
    one without cards anywhere; two cards per GPU nobody can have, and that is said.
    """
    rig.add_nodes(node("n0", more={NIC: 8}), node("n1", more={NIC: 2}), node("n2"))
    rig.create(JOBS, with_nics(gang("ring", 8, 1, schedulerName=OURS), 1))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 8)
        assert where(rig, "ring-") == {"n0"}
        rig.create(PODS, with_nics(pod("half", 4, schedulerName=OURS), 1))
        rig.create(PODS, with_nics(pod("greedy", 1, schedulerName=OURS), 2))
        rig.wait_until_running("ml", 9)
        assert where(rig, "half") == {"n1"}
        rig.wait_for("it is said", lambda: told(rig, "greedy")[0] == "NoSuchNode")
        assert "rdma/hca: 2 or more per accelerator" in told(rig, "greedy")[1]
        rig.create(PODS, pod("plain", 8, schedulerName=OURS))
        rig.wait_for("it is bound", lambda: where(rig, "plain") == {"n2"})
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert used(rig) == Counter({"n0": 8, "n1": 1, "": 2})
        assert ours.stop() == 0


def test_what_others_take_beyond_their_share_is_not_given_out_again(rig: Cluster, tmp_path: Path):
    """A pod of another scheduler holds 4 of 8 cards and no GPU: then only 4 pods have one each.

    Each of ours that asks for a card and two GPUs finds one; when the other pod is gone, pods with
    a card for each GPU do too.
    """
    rig.add_nodes(node("n0", more={NIC: 8}))
    other = with_nics(pod("other", 0, nodeName="n0"), 4)
    rig.create(PODS, other)
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, *(with_nics(pod(f"two{i}", 2, schedulerName=OURS), 1) for i in range(2)))
        rig.wait_for("both are bound", lambda: where(rig, "two") == {"n0"})
        rig.create(PODS, with_nics(pod("one", 1, schedulerName=OURS), 1))
        rig.wait_for("it is said", lambda: told(rig, "one")[0] == "NoSuchNode")
        rig.ask("DELETE", f"{PODS}/other?gracePeriodSeconds=0")
        rig.wait_for("it is bound", lambda: where(rig, "one") == {"n0"})
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert used(rig) == Counter({"n0": 3})
        assert ours.stop() == 0
