"""Parts of a machine: what it has of one resource, which is what the loop counts as a node.

A machine whose devices are all whole is one node. MIG instances and shares (time-slicing, MPS) are
cut before anybody asks for them, and the device plugin gives them out one by one: they are counted
one by one too, as accelerators of a kind of their own (`1G.10GB OF H100`, `1/4 OF H100`). A machine
that has several resources is several nodes, `NAME` and `NAME/RESOURCE`, and its CPU, memory and
price are divided among them by the devices that are behind each. Devices that are given out by
claims (DRA) are parts too, and known one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.history import cut_gpus
from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes import resources
from tidemill.live.kubernetes.dra import DeviceId
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.scheduling.claims import BY_CLAIM, DeviceGroup
from tidemill.model.measures import WHOLE_MILLI, share_out
from tidemill.model.rows import MAX_DEVICES, RESOURCE

BETWEEN = "/"
"""Between the name of a machine and that of a part; no node of Kubernetes has one in its name."""


class MachinePart(KubeNode, frozen=True, kw_only=True):
    """The units of one resource that a machine has, as a node by itself."""

    resource: str
    unit: Fraction
    """How many devices one of its units is."""
    ids: tuple[DeviceId, ...] = ()
    """Its devices, in the order in which plans number them; empty: the machine gives them out."""

    @property
    def whole_type(self) -> str:
        """The GPU type of the devices that its units are, or are parts of."""
        return self.gpu_type.rpartition(" of ")[2]

    @property
    def devices(self) -> int:
        """How many units it has."""
        return min(max(self.advertised(self.capacity), self.expected), MAX_DEVICES)

    def advertised(self, amounts: Mapping[str, int]) -> int:
        """How many units are advertised."""
        return min(amounts.get(self.resource, 0), MAX_DEVICES)


def seen(of: SeenNode, part: KubeNode, machine: SeenNode) -> SeenNode:
    """A part, or a whole machine, as the books have it: what one of its units is, and of what."""
    if not isinstance(part, MachinePart):
        return replace(of, machine=machine)
    whole = replace(machine, gpu_type=machine.gpu_type or part.whole_type)
    return replace(of, machine=whole, unit=part.unit.as_integer_ratio())


def machine(name: str) -> str:
    """The machine that a node, or a part of one, is of."""
    return name.partition(BETWEEN)[0]


def by_resource(part: KubeNode) -> KubeNode:
    """A part, or a whole machine, that says which resource it advertises, as types do not."""
    if len(part.capacity) != 1:
        return part
    return replace(part, labels={**part.labels, RESOURCE: min(part.capacity)})


def of_node(node: KubeNode, groups: Sequence[DeviceGroup] = ()) -> list[KubeNode]:
    """The parts of a machine, the one that has its pods without accelerators first.

    ``groups``: what it publishes for claims. Where the device plugin advertises devices too, those
    of claims count only if the machine is known to have as many together.
    """
    names = sorted(node.capacity, key=lambda one: (not node.is_whole(one), one))
    count = sum(len(group.devices) for group in groups)
    if names and node.expected < node.advertised(node.capacity) + count:
        groups = ()
    if not groups and (not names or (len(names) == 1 and node.is_whole(names[0]))):
        return [node]
    behind = _behind(node, count if groups else 0)
    sizes = [_size(group) for group in groups]
    hosts = _hosts(node, [*(behind[one] for one in names), *sizes])
    is_only = len(names) + len(groups) == 1
    found: list[KubeNode] = [
        _part(node, one, behind[one], next(hosts), is_only=is_only) for one in names
    ]
    for group in groups:
        name = _free_name(node, group, {part.name for part in found})
        found.append(_claimed(node, group, name, next(hosts)))
    return found


class _Host(NamedTuple):
    """What a part has of the CPU and the memory of its machine."""

    cpu_milli: int
    memory_mib: int


def _hosts(node: KubeNode, sizes: Sequence[Fraction]) -> Iterator[_Host]:
    """The host of each part, by the devices behind it: together they are all of the machine's, so
    that a pod that requests all of it fits.
    """
    scale = lcm(*(size.denominator for size in sizes))
    weights = [int(size * scale) for size in sizes]
    if not any(weights):
        weights = [1] * len(sizes)
    cpu, memory = share_out(node.cpu_milli, weights), share_out(node.memory_mib, weights)
    yield from (_Host(*one) for one in zip(cpu, memory, strict=True))


def _size(group: DeviceGroup) -> Fraction:
    """How many whole devices a group of them is."""
    milli = cut_gpus.instance_milli(group.gpu_type, group.profile) if group.profile else WHOLE_MILLI
    return Fraction(len(group.devices) * (milli or WHOLE_MILLI), WHOLE_MILLI)


def _free_name(node: KubeNode, group: DeviceGroup, taken: set[str]) -> str:
    """The machine's own where that is free, else with the profile, or a number."""
    if node.name not in taken and not group.profile:
        return node.name
    base = f"{node.name}{BETWEEN}{group.profile or group.gpu_type or 'claims'}"
    tries = (base, *(f"{base}-{i}" for i in range(2, len(taken) + 3)))
    return next(one for one in tries if one not in taken)


def _claimed(node: KubeNode, group: DeviceGroup, name: str, host: _Host) -> MachinePart:
    """Devices that are given out by claims, as a node by itself."""
    told = {name: getattr(node, name) for name in KubeNode.__struct_fields__}
    has = {resources.CLAIMED: len(group.devices)}
    of = group.gpu_type or node.gpu_type or "GPU"
    return MachinePart(**told | {
        "name": name, "capacity": has, "allocatable": has,
        "labels": {**node.labels, **dict(group.labels)}, "taints": (*node.taints, BY_CLAIM),
        **host._asdict(),
        "gpu_type": cut_gpus.type_of(of, group.profile), "profile": "",
        "expected": 0, "resource": resources.CLAIMED,
        "unit": _size(group) / len(group.devices),
        "ids": tuple(device.id for device in group.devices)[:MAX_DEVICES],
    })  # fmt: skip


def kind(node: KubeNode, resource: str) -> str:
    """What the books call the units of a resource."""
    found = cut_gpus.type_of(node.gpu_type or "GPU", node.profile_of(resource))
    count = node.shares(resource)
    if count > 1:
        return f"1/{count} of {found}"
    return f"share of {found}" if resource.endswith(resources.SHARED) else found


def _behind(node: KubeNode, claimed: int) -> dict[str, Fraction]:
    """How many devices are behind each resource: whole ones, and of the others by their size."""
    sizes = {one: count * node.size(one) for one, count in node.capacity.items()}
    whole = {one: size for one, size in sizes.items() if node.is_whole(one)}
    rest = {one: size for one, size in sizes.items() if one not in whole}
    cut = Fraction(node.devices - claimed) - sum(whole.values())
    return whole | (cut_gpus.behind(rest, cut) if cut > 0 else rest)


def _part(
    node: KubeNode, resource: str, behind: Fraction, host: _Host, *, is_only: bool
) -> MachinePart:
    units, is_plain = node.capacity[resource], node.is_whole(resource)
    suffix = resource.rpartition("/")[2]
    told = {name: getattr(node, name) for name in KubeNode.__struct_fields__}
    return MachinePart(**told | {
        "name": node.name if is_only or is_plain else f"{node.name}{BETWEEN}{suffix}",
        "capacity": {resource: units},
        "allocatable": {resource: min(node.allocatable.get(resource, 0), units)},
        **host._asdict(),
        "gpu_type": kind(node, resource), "profile": "", "expected": 0,
        "box": f"{node.box} {suffix}" if node.box and not (is_only or is_plain) else node.box,
        "resource": resource,
        "unit": behind / min(units, MAX_DEVICES) if units else Fraction(1),
    })  # fmt: skip


def each_changed(before: Mapping[str, KubeNode], now: Mapping[str, KubeNode]) -> Iterator[str]:
    """Parts that came, went, or are others than they were; heartbeats do not count."""
    for name in {**before, **now}:
        was, is_ = before.get(name), now.get(name)
        if was is None or is_ is None or replace(was, seen_ms=0) != replace(is_, seen_ms=0):
            yield name
