"""Devices that are cut or shared are placed on a real cluster, each resource by itself."""

from pathlib import Path

from tests.live.kubernetes.scheduling.test_placing import JOBS, PODS, nodes_of
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild

SMALL, LARGE, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared"


def message(rig: Cluster, name: str) -> str:
    """What a pod that waits is told."""
    conditions = rig.pods("ml")[name]["status"].get("conditions", ())
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def test_mig_instances_and_shares_are_placed_beside_whole_devices(rig: Cluster, tmp_path: Path):
    """A machine with 4 GPUs, 7 + 2 instances, and one whose 2 GPUs are 8 shares take what fits.

    Of pods of another scheduler the instances are counted; what asks for a resource that is used up
    waits, although other devices are free. The journal has what the cluster has.
    """
    mixed = node("n0", 4, more={SMALL: 7, LARGE: 2})
    cut = node("n1", 2, advertised=0, more={SHARED: 8}, labels={"nvidia.com/gpu.replicas": "4"})
    rig.add_nodes(mixed, cut)
    rig.create(PODS, pod("other", 5, resource=SMALL))
    rig.wait_until_running("ml", 1)
    rig.create(PODS, pod("whole", 4, schedulerName=OURS), pod("two", 2, resource=SMALL,
                                                              schedulerName=OURS))  # fmt: skip
    rig.create(JOBS, gang("pair", 2, 1, resource=LARGE, schedulerName=OURS),
               gang("shares", 4, 2, resource=SHARED, schedulerName=OURS))  # fmt: skip
    with scheduling(rig, tmp_path, "--usd-per-hour", "2.00") as ours:
        rig.wait_until_running("ml", 9)
        rig.create(PODS, pod("late", 1, resource=SMALL, schedulerName=OURS))
        rig.wait_for("it is told why it waits", lambda: bool(message(rig, "late")))
        assert ours.stop() == 0
    assert set(nodes_of(rig, "whole", "two", "pair").values()) == {"n0"}
    assert set(nodes_of(rig, "shares").values()) == {"n1"}
    assert nodes_of(rig, "late") == {"late": ""}
    assert wrong(rig, ours.journal) == []
    with open_journal(str(ours.journal)) as journal:
        world = rebuild(journal)
    kinds = {row.kind: row.usd_micro_per_hour for row in world.contract_rows}
    assert kinds == {
        "H100": 2_000_000, "1G.10GB OF H100": 266_667, "3G.40GB OF H100": 1_066_667,
        "1/4 OF H100": 500_000,
    }  # fmt: skip
