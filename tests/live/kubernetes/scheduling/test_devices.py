"""Devices that are cut or shared are placed on a real cluster, each resource by itself."""

from pathlib import Path

from tests.cli.shell import tidemill
from tests.live.kubernetes.scheduling.test_placing import JOBS, PODS, nodes_of
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill.explain import inventory
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model.world import World

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
    world = world_of(str(ours.journal))
    kinds = {row.kind: row.usd_micro_per_hour for row in world.contract_rows}
    assert kinds == {
        "H100": 2_000_000, "1G.10GB OF H100": 266_667, "3G.40GB OF H100": 1_066_667,
        "1/4 OF H100": 500_000,
    }  # fmt: skip
    told = tmp_path / "told.json"
    told.write_text(rig.kubectl("get", "nodes,pods,jobs", "-A", "-o", "json"))
    seen, given = str(tmp_path / "seen.sqlite"), str(tmp_path / "given.sqlite")
    access = ("--kubeconfig", str(rig.kubeconfig), "--once", "--lateness", "0s")
    assert tidemill("observe", "kubernetes", *access, "-j", seen).code == 0
    assert tidemill("import", "kubernetes", str(told), "-j", given).code == 0
    counts = [gpus(world), *(gpus(world_of(one)) for one in (seen, given))]
    assert counts == [{"H100": (4, 4), "1G.10GB OF H100": (0.933, 0.933),
                       "3G.40GB OF H100": (1.066, 1.066), "1/4 OF H100": (2, 2)}] * 3  # fmt: skip
    assert [inventory.states(one) for one in (world, world_of(seen))] == [{"ready": 2}] * 2


def world_of(where: str) -> World:
    """The cluster state of a journal."""
    with open_journal(where) as journal:
        return rebuild(journal)


def gpus(world: World) -> dict[str, tuple[float, float]]:
    """By kind: GPUs that are paid, and in use."""
    rows = inventory.contracts(world)
    return {row.kind: (row.paid_milli / 1000, row.in_use_milli / 1000) for row in rows}
