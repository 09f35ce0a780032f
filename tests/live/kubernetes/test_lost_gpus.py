"""GPUs that a node under watch stops to advertise: out of service from then on, and no longer."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import explain
from tidemill.model import events as ev
from tidemill.model.policy import Policy

PLUGIN: dict[str, Any] = {"capacity": {"nvidia.com/gpu": "8"}}
"""The device plugin counts two as unhealthy: capacity says 8, allocatable less."""
LABEL: dict[str, Any] = {"labels": {"nvidia.com/gpu.count": "8"}}
WAYS = pytest.mark.parametrize("how", [PLUGIN, LABEL, {}], ids=["capacity", "label", "before"])


def lost(gpus: int, at: int, how: dict[str, Any] = PLUGIN, **rest: Any) -> Object:
    """The node, advertising so many at a second."""
    return node("n0", gpus, at=at, **how, **rest)


def devices(cluster: WatchedCluster) -> list[tuple[int, str, int]]:
    """Seconds, what happened, and to which device."""
    return [(one.at_ms // 1000, type(one).__name__, one.device)
            for one in cluster.observer.journal.read()
            if isinstance(one, (ev.DeviceFailed, ev.DeviceRepaired))]  # fmt: skip


@WAYS
@pytest.mark.parametrize("looked", [(130, 150, 190, 230, 300, 360), (360,)])
def test_what_is_not_advertised_is_unhealthy_until_it_is_again(
    how: dict[str, Any], looked: tuple[int, ...]
):
    """Two of 8 are gone from second 100 to 250, whatever says that there were 8; 2 are at work."""
    before = node("n0", at=0, labels=how.get("labels", {}))
    cluster = WatchedCluster(before, pod("runs", 2, on="n0"))
    cluster.look(70)
    told = {100: 6, 250: 8}
    for at in sorted({*told, *looked}):
        if at in told:
            cluster.told(at, lost(told[at], at, how))
        if at in looked:
            cluster.look(at)
    assert devices(cluster) == [
        (100, "DeviceFailed", 6), (100, "DeviceFailed", 7),
        (250, "DeviceRepaired", 6), (250, "DeviceRepaired", 7),
    ]  # fmt: skip
    assert cluster.seconds() == {
        "UNHEALTHY": 2 * 150, "NO_DEMAND": 6 * 300 - 2 * 150, "UNKNOWN": 2 * 300,
    }  # fmt: skip
    assert cluster.observer.books().total().paid_milli_ms == 8 * 300 * 1_000_000


def test_what_pods_still_hold_is_booked_and_fails_when_they_leave():
    """Pods hold all 8 of which 2 are sick: one of 4 ends, and 2 of its GPUs are free."""
    stays, ends = pod("stays", 4, on="n0"), pod("ends", 4, on="n0")
    cluster = WatchedCluster(node("n0", at=0), stays, ends)
    cluster.look(70)
    cluster.told(100, lost(6, 100))
    cluster.look(200)
    assert (devices(cluster), cluster.seconds()) == ([], {"UNKNOWN": 8 * 140})
    cluster.told(210, pod("ends", 4, on="n0", end=210))
    cluster.look(310)
    assert [one[:2] for one in devices(cluster)] == [(210, "DeviceFailed")] * 2
    assert cluster.seconds() == {
        "UNKNOWN": 8 * 210 + 4 * 40, "UNHEALTHY": 2 * 40, "NO_DEMAND": 2 * 40,
    }  # fmt: skip


def test_a_pod_on_a_gpu_that_was_taken_for_lost_has_it():
    """Six are advertised, and pods hold seven: the seventh works, whoever says otherwise."""
    cluster = WatchedCluster(node("n0", at=0), pod("a", 4, on="n0"))
    cluster.look(70)
    cluster.told(100, lost(6, 100), pod("b", 3, on="n0", created=90, bound=101))
    cluster.look(200)
    assert devices(cluster) == [
        (100, "DeviceFailed", 6), (100, "DeviceFailed", 7), (101, "DeviceRepaired", 6),
    ]  # fmt: skip
    assert cluster.seconds("ml/b") == {"UNKNOWN": 3 * (140 - 101)}
    cluster.told(210, pod("b", 3, on="n0", created=90, bound=101, end=210))
    cluster.look(300)
    assert cluster.seconds()["UNHEALTHY"] == 2 * 1 + 1 * (210 - 101) + 2 * (240 - 210)


def test_a_node_that_advertises_none_with_a_pod_on_it_is_unhealthy_but_for_what_the_pod_holds():
    """Then the pod leaves, and the whole node is; all of it is back at once."""
    cluster = WatchedCluster(node("n0", at=0), pod("runs", 2, on="n0"))
    cluster.look(70)
    cluster.told(100, lost(0, 100))
    cluster.look(200)
    cluster.told(210, pod("runs", 2, on="n0", end=210))
    cluster.look(300)
    cluster.told(310, lost(8, 310))
    cluster.look(400)
    assert cluster.seconds()["UNHEALTHY"] == 6 * 110 + 8 * 100
    assert cluster.seconds()["NO_DEMAND"] == 6 * 100 + 8 * 30


def test_a_node_that_has_no_gpus_any_more_is_paid_and_has_lost_all():
    """Its driver is gone, and with it resource and labels; the machine is there. A node that never
    had any is none of the fleet.
    """
    none: Object = {"amounts": {"nvidia.com/gpu": None}, "labels": {"nvidia.com/gpu.product": ""}}
    cluster = WatchedCluster(node("n0", at=0), node("cpu", at=0, **none), pod("x", on="n0", end=50))
    cluster.look(70)
    cluster.told(100, node("n0", at=100, **none))
    cluster.look(200, 300)
    cluster.told(310, node("n0", at=310))
    cluster.look(400)
    assert [row.name for row in cluster.observer.world.node_rows] == ["n0"]
    assert cluster.seconds() == {"UNKNOWN": 50, "UNHEALTHY": 8 * 210, "NO_DEMAND": 8 * 130 - 50}


def test_a_killed_observer_has_the_same_books():
    """It knows the journal alone: that the node had 8 says no label."""
    cluster = WatchedCluster(node("n0", at=0), pod("runs", 2, on="n0"))
    cluster.look(70)
    cluster.told(100, node("n0", 6, at=100))
    cluster.look(200)
    cluster.observer.restart()
    again = WatchedCluster(node("n0", 6, at=210), pod("runs", 2, on="n0"))
    again.observer = cluster.observer
    again.look(300)
    again.told(310, node("n0", at=310))
    again.look(400)
    assert again.seconds()["UNHEALTHY"] == 2 * 210


def test_units_that_are_not_advertised_are_unhealthy_too():
    """A quarter of the time-sliced units of a node is not shown from second 100 on."""
    shared = {"labels": {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"},
              "capacity": {"nvidia.com/gpu": "8"}}  # fmt: skip
    cluster = WatchedCluster(lost(8, 0, shared))
    cluster.look(70)
    cluster.told(100, lost(6, 100, shared))
    cluster.look(200)
    assert cluster.seconds() == {"UNHEALTHY": 20, "NO_DEMAND": 2 * 140 - 20}


def test_why_says_what_is_not_advertised_and_how_to_see_it():
    """Two of 8 are at work; a pod of 7 waits for two that are lost, and the books say the same."""
    cluster = WatchedCluster(node("n0", at=0), pod("waits", 7), pod("runs", 2, on="n0"))
    cluster.look(70)
    cluster.told(100, lost(6, 100))
    for at in (130, 400):  # before and after the books tell it
        cluster.look(at)
        found = cluster.why("ml/waits")
        assert "2 not advertised on 1 node (`n0`: advertises 6 of 8 GPUs)" in found.words
        assert "2 accelerators more (kubectl describe node n0)" in found.words
        assert explain.board(cluster.now_known(), Policy()).free_milli == 4000


def published(count: int, tainted: int = 0) -> Object:
    """Devices of a node in a slice, the last of them tainted by their driver."""
    told: list[Object] = [
        {"name": f"gpu-{i}", "basic": {"attributes": {
            "productName": {"string": "NVIDIA H100 80GB HBM3"}, "type": {"string": "gpu"},
        }}}
        for i in range(count)
    ]  # fmt: skip
    for one in told[count - tainted :]:
        one["basic"]["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}]
    return made.owner("resource.k8s.io/v1", "ResourceSlice", "s", {
        "driver": "gpu.nvidia.com", "nodeName": "n0", "pool": {"name": "n0"}, "devices": told,
    })  # fmt: skip


@pytest.mark.parametrize("sick", [published(6), published(8, 2)], ids=["gone", "tainted"])
def test_devices_that_a_driver_publishes_no_more_are_unhealthy(sick: Object):
    """By claim (DRA): two of 8 vanish from their slice, or get a taint, from second 100 to 250."""
    cluster = WatchedCluster(node("n0", at=0, amounts={"nvidia.com/gpu": None}), published(8))
    cluster.look(70)
    cluster.told(100, sick)
    cluster.look(130, 200)
    cluster.told(250, published(8))
    cluster.look(300, 360)
    assert [one[:2] for one in devices(cluster)] == [
        (100, "DeviceFailed"), (100, "DeviceFailed"),
        (250, "DeviceRepaired"), (250, "DeviceRepaired"),
    ]  # fmt: skip
    assert cluster.seconds() == {"UNHEALTHY": 2 * 150, "NO_DEMAND": 8 * 300 - 2 * 150}
