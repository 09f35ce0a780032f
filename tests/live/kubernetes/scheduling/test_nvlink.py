"""Gangs within one NVLink domain of a real cluster: by the label that the driver sets."""

from pathlib import Path

from tests.live.kubernetes.scheduling.test_placing import PODS, nodes_of
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang_notes, node, pod

CLIQUE = "nvidia.com/gpu.clique"
POLICY = f"""
[policy]
backfill = "none"
[[tier]]
name = "nvlink"
label = "{CLIQUE}"
"""
DOMAINS = {"n0": "a", "n1": "b", "n2": "a", "n3": "b", "n4": "c"}


def members(name: str, **notes: str) -> list[Object]:
    """Two pods of a gang, each with a whole node of 4 GPUs."""
    told = {"annotations": gang_notes(name, 2, **notes)}
    return [pod(f"{name}{i}", 4, schedulerName=OURS, metadata=told) for i in range(2)]


def test_a_gang_is_in_one_nvlink_domain_or_waits_for_one(rig: Cluster, tmp_path: Path):
    """Domain `a` has a node free, `b` two, `c` its only one: a tied gang is in `b`; the next waits
    though two nodes are free, and one that is not tied has them.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(*(node(name, 4, labels={CLIQUE: at}) for name, at in DOMAINS.items()))
    rig.create(PODS, pod("theirs", 4, nodeName="n0"))
    rig.wait_until_running("ml", 1)
    rig.create(PODS, *members("tight", required_topology="nvlink"))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 3)
        assert {*nodes_of(rig, "tight").values()} == {"n1", "n3"}
        rig.create(PODS, *members("late", required_topology="nvlink"))
        rig.wait_for("it is told", lambda: told(rig, "late")[0] == "WaitingForTopology")
        rig.create(PODS, *members("loose"))
        rig.wait_until_running("ml", 5)
        assert {*nodes_of(rig, "loose").values()} == {"n2", "n4"}
        assert {*nodes_of(rig, "late").values()} == {""}
        rig.ask("DELETE", f"{PODS}/theirs?gracePeriodSeconds=0")
        rig.ask("DELETE", f"{PODS}/loose0?gracePeriodSeconds=0")
        rig.ask("DELETE", f"{PODS}/loose1?gracePeriodSeconds=0")
        rig.wait_until_running("ml", 4)
        assert {*nodes_of(rig, "late").values()} == {"n0", "n2"}
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
