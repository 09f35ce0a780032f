"""Devices by claim, on a real cluster: allocated by the scheduler, each once, and taken back."""

from collections import Counter
from pathlib import Path

import pytest

from tests.live.kubernetes.scheduling.test_devices import message
from tests.live.kubernetes.scheduling.test_placing import JOBS, PODS, nodes_of
from tests.rigs.kubernetes.claimed import CLAIMS, TEMPLATES, allocated, publish, wrong_claims
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import (
    claim,
    claim_spec,
    claim_template,
    claiming,
    device,
    gang,
    node,
    pod,
)


@pytest.fixture
def machines(rig: Cluster) -> Cluster:
    """Two machines whose 4 GPUs each are given out by claim, and one with a device plugin."""
    sizes = {"n0": "80Gi", "n1": "141Gi"}
    publish(rig, {name: [device(f"gpu-{d}", memory=size) for d in range(4)]
                  for name, size in sizes.items()})  # fmt: skip
    rig.add_nodes(node("plugin", 4))
    return rig


def test_pods_and_gangs_get_devices_by_claim(machines: Cluster, tmp_path: Path):
    """A gang of 3 × 2 by template, a pod by a claim of its own with a selector, one by plugin.

    The devices of a claim of kube-scheduler's are respected; a pod that wants more than is left
    waits. Each device is in one claim. A selector that is not understood is named on its pod.
    """
    rig = machines
    rig.create(TEMPLATES, claim_template("two", claim_spec(2)), claim_template("one", claim_spec()))
    there = {"kubernetes.io/hostname": "n1"}
    rig.create(PODS, pod("other", 0, nodeSelector=there, **claiming(template="one")))
    rig.wait_until_running("ml", 1)
    large = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'
    odd = claim("odd", claim_spec(1, 'device.driver.find("gpu.*") != ""'))
    rig.create(CLAIMS, claim("mine", claim_spec(1, large)), odd)
    rig.create(PODS, pod("odd", 0, schedulerName=OURS, **claiming(claim="odd")))
    rig.create(PODS, pod("large", 0, schedulerName=OURS, **claiming(claim="mine")),
               pod("plain", 4, schedulerName=OURS))  # fmt: skip
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 3)
        rig.create(JOBS, gang("pairs", 3, 0, schedulerName=OURS, **claiming(template="two")))
        rig.wait_until_running("ml", 6)
        rig.create(PODS, pod("late", 0, schedulerName=OURS, **claiming(template="two")))
        rig.wait_for("it is told", lambda: bool(message(rig, "late")))
        rig.wait_for("so is the odd one", lambda: ".find()" in message(rig, "odd"))
        assert ours.stop() == 0
    where = nodes_of(rig, "large", "plain", "late")
    assert where == {"large": "n1", "plain": "plugin", "late": ""}
    assert wrong_claims(rig) == []
    assert Counter(pool for some in allocated(rig).values() for pool, _ in some).total() == 8
    assert allocated(rig)["mine"][0][0] == "n1"


def test_claims_left_by_a_killed_scheduler_are_used_or_taken_back(
    machines: Cluster, tmp_path: Path
):
    """A claim allocated for a pod that was never bound: the pod gets its devices anew, elsewhere.

    One of a pod that does not fit any more is taken back, so that another can have the devices.
    """
    rig = machines
    rig.create(CLAIMS, claim("left", claim_spec(4)))
    rig.create(PODS, pod("late", 0, schedulerName=OURS, **claiming(claim="left")))
    uid = rig.pods("ml")["late"]["metadata"]["uid"]
    results = [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n0", "device": f"gpu-{d}"}
               for d in range(4)]  # fmt: skip
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "late", "uid": uid}],
    }
    rig.ask("PATCH", f"{CLAIMS}/left/status", {"status": status},
            kind="application/merge-patch+json")  # fmt: skip
    for name in ("n0", "n1"):
        rig.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}},
                kind="application/merge-patch+json")  # fmt: skip
    with scheduling(rig, tmp_path) as ours:
        rig.wait_for("it is taken back", lambda: not allocated(rig))
        rig.ask("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": False}},
                kind="application/merge-patch+json")  # fmt: skip
        rig.wait_until_running("ml", 1)
        assert ours.stop() == 0
    assert nodes_of(rig, "late") == {"late": "n1"}
    assert {pool for pool, _ in allocated(rig)["left"]} == {"n1"}
    assert wrong_claims(rig) == []


def test_the_first_of_several_requests_that_is_free_is_allocated(machines: Cluster, tmp_path: Path):
    """Large devices rather than any: four pods get those of n1, the next two get small ones.

    The claim says which request was answered, as kube-scheduler writes it.
    """
    rig = machines
    large = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'
    any_of = {"name": "any", "deviceClassName": "gpu.nvidia.com", "count": 1}
    choices = [{**any_of, "name": "large", "selectors": [{"cel": {"expression": large}}]}, any_of]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": choices}]}}
    rig.create(TEMPLATES, claim_template("best", spec))
    with scheduling(rig, tmp_path) as ours:
        for i in range(6):
            rig.create(PODS, pod(f"p{i}", 0, schedulerName=OURS, **claiming(template="best")))
            rig.wait_until_running("ml", i + 1)
        assert ours.stop() == 0
    where = nodes_of(rig, *(f"p{i}" for i in range(6)))
    assert [where[f"p{i}"] for i in range(6)] == ["n1"] * 4 + ["n0"] * 2
    assert wrong_claims(rig) == []
    answered = Counter(
        row["request"]
        for one in rig.items(CLAIMS)
        for row in one["status"]["allocation"]["devices"]["results"]
    )
    assert answered == {"gpu/large": 4, "gpu/any": 2}
