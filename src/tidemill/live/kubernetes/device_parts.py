"""Devices by claim (DRA) as books count them: whole ones, and MIG instances as parts of their GPU.

Instances that a driver publishes without the GPU that they are of are there, cut by somebody: they
are the same resource as those of the device plugin (``parts``). Where it publishes both, with
counters that they share, a GPU is cut when a claim asks for it: then an instance is a part of the
whole GPU that it takes, by MIG's geometry. A profile that nobody knows is not booked, and said.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tidemill.live.kubernetes import cel, dra, resources
from tidemill.live.kubernetes.cel import UnknownExpression
from tidemill.live.kubernetes.dra import Device, DeviceClaim, DeviceId, DeviceRequest, DeviceSlice
from tidemill.live.kubernetes.resources import CLAIMED

UNKNOWN = "MIG instances by claim"
MIG_CLASS = "mig.nvidia.com"
"""The class that NVIDIA's driver makes for instances; that of whole GPUs is called as itself."""
CounterSet = tuple[str, str, str]


class PublishedDevices:
    """The accelerators that nodes publish in slices."""

    def __init__(self, slices: Iterable[DeviceSlice]) -> None:
        self._node: dict[DeviceId, str] = {}
        self._device: dict[DeviceId, Device] = {}
        slices = [*slices]
        for one in sorted(slices, key=lambda one: (one.node, one.driver, one.pool)):
            for device in one.published if one.driver in dra.DRIVERS and one.node else ():
                self._node[device.id], self._device[device.id] = one.node, device
        self._given = [one for one in slices if one.driver in dra.DRIVERS and one.node]
        self._whole = {
            found for one in self._device.values() if one.is_whole for found in _counter_sets(one)
        }

    def resource_of(self, device: Device) -> str:
        """As what a device is counted; "": it is a part of which nobody knows how large it is."""
        if device.is_whole:
            return CLAIMED
        if _counter_sets(device) & self._whole:
            return resources.cut_by_claim(device.profile)
        return resources.mig_name(device.profile)

    def by_node(self) -> dict[str, Counter[str]]:
        """What each node has, but for instances that are cut when somebody asks."""
        found = dict[str, Counter[str]]()
        for key, device in self._device.items():
            resource = self.resource_of(device)
            if resource and not resources.is_cut_by_claim(resource):
                found.setdefault(self._node[key], Counter())[resource] += 1
        return found

    def given(self, node: str) -> tuple[tuple[int, int], ...]:
        """How many whole GPUs of a node could be had, and from when on, as a watch saw it; the last
        is so now.
        """
        mine = [one.given or ((0, one.healthy),) for one in self._given if one.node == node]
        moments = sorted({at_ms for given in mine for at_ms, _ in given})
        return tuple(
            (ms, sum([count for at_ms, count in given if at_ms <= ms][-1]
                     for given in mine if given[0][0] <= ms))
            for ms in moments
        )  # fmt: skip

    def type_on(self, node: str) -> str:
        """The GPU type of the first device of a node that says it."""
        types = (self._device[key].gpu_type for key, at in self._node.items() if at == node)
        return next(filter(None, types), "")

    def numbers(self) -> Mapping[DeviceId, tuple[str, int]]:
        """By device that is there: its node, and its number among those of its resource there."""
        found, counts = dict[DeviceId, tuple[str, int]](), Counter[tuple[str, str]]()
        for key, device in self._device.items():
            resource, node = self.resource_of(device), self._node[key]
            if resource and not resources.is_cut_by_claim(resource):
                found[key] = node, counts[node, resource]
                counts[node, resource] += 1
        return found

    def asked(self, claim: DeviceClaim) -> Counter[str]:
        """What a claim holds, or asks for, by resource; ``UNKNOWN``: so many of nobody knows what.

        A device that no slice shows any more is taken for a whole one. Who asks for all devices of
        a node wants as many as the node with the fewest of them has.
        """
        if claim.held:
            known = (self._device.get(key) for key in claim.held)
            return Counter(
                CLAIMED if one is None else self.resource_of(one) or UNKNOWN for one in known
            )
        more = sum(
            self._all_of(one) - 1 for one in _every(claim) if one.device_class in dra.DRIVERS
        )
        parts = Counter(dict(self._wanted(claim.requests)))
        return parts or Counter({CLAIMED: claim.wanted + more})

    def unkept(self, claim: DeviceClaim) -> tuple[str, ...]:
        """What of a claim that waits nobody can say as a number."""
        differ = any(len({*self._on_each(one)}) > 1 for one in _every(claim))
        return (dra.ALL_DIFFER,) if differ and not claim.held else ()

    def _all_of(self, one: DeviceRequest) -> int:
        """How many devices a request for all of a node's means."""
        return max(1, min(self._on_each(one), default=1))

    def _on_each(self, one: DeviceRequest) -> list[int]:
        """How many devices a request matches on each node that has some."""
        return [*Counter(self._node[device.id] for device in self._matching(one)).values()]

    def _wanted(self, requests: Iterable[DeviceRequest]) -> Iterator[tuple[str, int]]:
        """What requests ask for, where that are instances."""
        for one in requests:
            first = one.choices[0] if one.choices else one
            found = {self.resource_of(device) for device in self._matching(first)}
            is_part = bool(found) and not any(map(resources.is_whole_name, found))
            if is_part or first.device_class == MIG_CLASS:
                count = first.count or self._all_of(first)
                yield (found.pop() if len(found) == 1 else "") or UNKNOWN, count

    def _matching(self, one: DeviceRequest) -> list[Device]:
        """The devices that a request may be given, as far as its selectors are understood."""
        is_whole = one.device_class in dra.DRIVERS
        if not one.selectors and one.device_class != MIG_CLASS and not (is_whole and not one.count):
            return []
        try:
            tests = [cel.selector(text) for text in one.selectors]
        except UnknownExpression:
            return []
        some = (d for d in self._device.values() if d.profile or one.device_class != MIG_CLASS)
        found = [device for device in some if all(test.holds(device.facts) for test in tests)]
        if not is_whole or one.count:
            return found
        return [d for d in found if d.is_whole and d.driver == one.device_class]


def _every(claim: DeviceClaim) -> list[DeviceRequest]:
    """The requests of a claim for all devices of a node that match; of a choice the first."""
    firsts = (one.choices[0] if one.choices else one for one in claim.requests)
    return [one for one in firsts if not one.count]


def _counter_sets(device: Device) -> set[CounterSet]:
    return {(name.driver, name.pool, name.counter_set) for name, _ in device.consumes}
