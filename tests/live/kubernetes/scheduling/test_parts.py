"""Machines whose devices are cut or shared: each resource is counted by itself, all of it paid."""

from fractions import Fraction

import pytest

from tests.live.kubernetes import made
from tidemill.live.kubernetes import nodes, parts
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.parts import MachinePart
from tidemill.live.prices.rules import Price

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
WHOLE, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


def node(
    gpus: int | None, amounts: dict[str, int | None], labels: dict[str, str] | None = None
) -> KubeNode:
    """An H100 node that advertises this."""
    told = {key: None if count is None else str(count) for key, count in amounts.items()}
    told[WHOLE] = None if gpus is None else str(gpus)
    return nodes.read(made.node("n", amounts=told, labels=labels or {}))


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        (node(8, {}), [("n", "H100", 8)]),
        (
            node(4, {SMALL: 21, LARGE: 2}),
            [
                ("n", "H100", 4),
                ("n/mig-1g.10gb", "1g.10gb of H100", 21),
                ("n/mig-3g.40gb", "3g.40gb of H100", 2),
            ],
        ),
        (node(None, {SMALL: 7}), [("n", "1g.10gb of H100", 7)]),
        (
            node(7, {}, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}),
            [("n", "1g.10gb of H100", 7)],
        ),
        (node(32, {}, {f"{WHOLE}.replicas": "4"}), [("n", "1/4 of H100", 32)]),
        (node(None, {SHARED: 32}, {f"{WHOLE}.replicas": "4"}), [("n", "1/4 of H100", 32)]),
        (
            node(
                None, {SMALL + ".shared": 14, LARGE: 1},
                {f"{SMALL}.replicas": "2", f"{WHOLE}.count": "2"},
            ),
            [
                ("n/mig-1g.10gb.shared", "1/2 of 1g.10gb of H100", 14),
                ("n/mig-3g.40gb", "3g.40gb of H100", 1),
            ],
        ),
    ],
)  # fmt: skip
def test_each_resource_of_a_machine_is_a_part_with_a_kind_of_its_own(
    machine: KubeNode, found: list[tuple[str, str, int]]
):
    """Whole devices keep the name of the machine; what is cut or shared is counted by units."""
    assert [(one.name, one.gpu_type, one.devices) for one in parts.of_node(machine)] == found


@pytest.mark.parametrize(
    "machine",
    [
        node(4, {SMALL: 28}, {f"{WHOLE}.count": "8"}),
        node(1, {SMALL: 5, LARGE: 3}, {f"{WHOLE}.count": "4"}),
        node(None, {SHARED: 12}, {f"{WHOLE}.replicas": "3"}),
        node(None, {LARGE: 2}),
    ],
)
def test_the_units_of_a_machine_are_all_of_its_devices(machine: KubeNode):
    """What units stand for adds up to the devices; so does their price, and CPU is divided."""
    found = parts.of_node(machine)
    assert all(isinstance(one, MachinePart) for one in found)
    mine = [one for one in found if isinstance(one, MachinePart)]
    assert sum((one.unit * one.devices for one in mine), Fraction()) == machine.devices
    assert sum(one.cpu_milli for one in mine) <= machine.cpu_milli
    of_device = Price(420_000_000)
    cost = sum(of_device.scaled(one.unit).usd_micro * one.devices for one in mine)
    assert abs(cost - 420_000_000 * machine.devices) <= sum(one.devices for one in mine)


def test_units_that_are_not_healthy_are_missing():
    """7 instances of which 5 are allocatable: two have failed."""
    (part,) = parts.of_node(
        nodes.read(made.node("n", amounts={WHOLE: None, SMALL: "5"}, capacity={SMALL: "7"}))
    )
    assert (part.devices, part.advertised(part.allocatable)) == (7, 5)
