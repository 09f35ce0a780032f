"""Devices by claim (DRA) as books count them: whole ones, and MIG instances as parts of their GPU.

Instances that a driver publishes without the GPU that they are of are there, cut by somebody: they
are the same resource as those of the device plugin (``parts``). Where it publishes both, with
counters that they share, a GPU is cut when a claim asks for it: then an instance is a part of the
whole GPU that it takes, by MIG's geometry. A profile that nobody knows is not booked, and said.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import dra, resources, selected_devices
from tidemill.live.kubernetes.dra import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    DeviceSlice,
)
from tidemill.live.kubernetes.resources import CLAIMED
from tidemill.live.kubernetes.selected_devices import AlikeDevices, DeviceChoice, SelectedDevices
from tidemill.units.mig import geometry as mig

UNKNOWN = "parts of GPUs by claim"
OF_CLASS = "devices of DeviceClass "
"""Before the name of a class that nobody shows, and that tells by no name what it is of."""
MIG_CLASS = "mig.nvidia.com"
"""The class that NVIDIA's driver makes for instances; that of whole GPUs is called as itself."""
_NAMED = (*dra.DRIVERS, MIG_CLASS)
"""Classes that are of accelerators by their names."""
CounterSet = tuple[str, str, str]


class PublishedDevices:
    """The accelerators that nodes publish in slices, and which of them claims ask for."""

    def __init__(
        self, slices: Iterable[DeviceSlice], classes: Iterable[DeviceClass] = (),
        types: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """``types``: the GPU types of nodes that say it themselves."""
        self._types = types or {}
        self.classes = [*classes]
        self._classes = {one.name: one for one in self.classes}
        self._answers: dict[DeviceRequest, _Answer] = {}
        self._chosen: dict[DeviceRequest, SelectedDevices | None] = {}
        self._sorts: dict[str, AlikeDevices] = {}
        self._node: dict[DeviceId, str] = {}
        self._device: dict[DeviceId, Device] = {}
        slices = [*slices]
        self._every = [device for one in slices for device in one.published]
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

    def cut(self, claims: Iterable[DeviceClaim]) -> Counter[str]:
        """By node: of how many whole GPUs claims hold instances, so that nobody has them whole."""
        whole = {name: device for device in self._device.values() if device.is_whole
                 for name in _counter_sets(device)}  # fmt: skip
        held = {key for claim in claims for key in claim.held if key in self._device}
        found = {whole[name].id for key in held if not self._device[key].is_whole
                 for name in _counter_sets(self._device[key]) if name in whole}  # fmt: skip
        return Counter(self._node[key] for key in found)

    def asked(self, claim: DeviceClaim, *, is_placed: bool = False) -> Counter[str]:
        """What a claim holds, or asks for, by resource; what is ``is_unknown`` nobody can count.

        ``is_placed``: for a pod on a node, which has what the claim held last.
        A device that no slice shows any more is taken for a whole one. Who asks for all devices of
        a node wants as many as the node with the fewest of them has.
        """
        if claim.is_allocated or (is_placed and claim.had):
            known = (self._device.get(key) for key in claim.held or claim.had)
            return Counter(
                CLAIMED if one is None else self.resource_of(one) or UNKNOWN for one in known
            )
        found = Counter[str]()
        for one in self._wanted(claim):
            answer = self._answer(one)
            if answer.resource:
                found[answer.resource] += self._number(one)
        return Counter({one: min(count, dra.MOST_DEVICES) for one, count in found.items()})

    def unkept(self, claim: DeviceClaim) -> tuple[str, ...]:
        """What of a claim that waits nobody can say as a number."""
        some = [] if claim.is_allocated else [*self._wanted(claim)]
        differ = any(not one.count and len({*self._answer(one).on_each}) > 1 for one in some)
        is_part = any(one.unkept == dra.OF_CAPACITY for one in some)
        is_tied = bool(some) and bool(claim.unkept)
        return (
            (dra.ALL_DIFFER,) * differ + (dra.OF_CAPACITY,) * is_part
            + (dra.OTHER_CONSTRAINTS,) * is_tied
        )  # fmt: skip

    def selected(self, claim: DeviceClaim) -> Iterator[SelectedDevices]:
        """What a claim selects of the devices that there are of a sort, where that is not all.

        For each of its requests, those for the same together, and for what all have in common.
        """
        forms, choices = Counter[DeviceRequest](), list[list[DeviceRequest]]()
        others = 0
        for some in self._choices(claim):
            if not self._is_of_sort(some[0]):
                others += self._number(some[0])
            elif len(some) > 1:
                choices.append(some)
            else:
                forms[replace(some[0], name="", count=min(some[0].count, 1))] += some[0].count
        wanted = [[replace(one, count=count)] for one, count in forms.items()] + choices
        for some in wanted:
            found = selected_devices.either(
                [DeviceChoice(self._number(one), self._selected(one)) for one in some]
            )
            if found is not None:
                yield found
        if wanted and claim.alike and not claim.unkept:
            yield from self._alike(wanted, claim.alike, others)

    def _is_of_sort(self, one: DeviceRequest) -> bool:
        """Whether a request is for GPUs, or for instances, that are counted."""
        resource = self._answer(one).resource
        return bool(resource) and not is_unknown(resource)

    def _alike(
        self, wanted: Iterable[list[DeviceRequest]], attributes: tuple[str, ...], others: int
    ) -> Iterator[SelectedDevices]:
        """Where devices have attributes in common; ``others``: with so many of another sort."""
        number = sum(self._number(some[0]) for some in wanted)
        every = [one for some in wanted for one in some]
        resource = self._answer(every[0]).resource
        if others:  # which of those are free nobody counts here
            words = selected_devices.alike_words(attributes, number + others)
            yield SelectedDevices(words, None, resource=resource)
        if number > 1:
            devices = {one.id: one for request in every for one in self._matching(request)}
            found = self._of_sort(resource).alike(devices.values(), attributes, number)
            if found is not None:
                yield found

    def _number(self, one: DeviceRequest) -> int:
        """How many devices a request is for; all of a node are as many as the fewest are."""
        return one.count or max(1, min(self._answer(one).on_each, default=1))

    def _selected(self, one: DeviceRequest) -> SelectedDevices | None:
        one = replace(one, name="")
        if one not in self._chosen:
            known = self._classes.get(one.device_class)
            by_class = known.selectors if known is not None else ()
            if known is None and one.device_class in dra.DRIVERS:  # as drivers make theirs
                by_class = (f'device.driver == "{one.device_class}"',)
            shown = " && ".join(one.selectors or by_class)
            sort = self._of_sort(self._answer(one).resource)
            self._chosen[one] = sort.selected((*by_class, *one.selectors), shown, one.count)
        return self._chosen[one]

    def _of_sort(self, resource: str) -> AlikeDevices:
        if resource not in self._sorts:
            every = [one for one in self._device.values() if self.resource_of(one) == resource]
            self._sorts[resource] = AlikeDevices(resource, every, self._node, self._type_of)
        return self._sorts[resource]

    def _type_of(self, node: str) -> str:
        return self._types.get(node) or self.type_on(node)

    def _wanted(self, claim: DeviceClaim) -> Iterator[DeviceRequest]:
        """The requests of a claim that hold something; of a choice the first that a node holds."""
        return (some[0] for some in self._choices(claim))

    def _choices(self, claim: DeviceClaim) -> Iterator[list[DeviceRequest]]:
        """The same, each with all that a node holds instead; of what it was given, as many."""
        for one in claim.requests:
            held = [found for found in one.choices if self._is_held(found)] or [*one.choices[:1]]
            given = next((found for found in one.choices if found.name in claim.answered), None)
            if given is not None:
                held = [given, *(found for found in held
                                 if found.count == given.count and found != given)]  # fmt: skip
            if (held or [one])[0].unkept != dra.ADMIN:
                yield held or [one]

    def _is_held(self, one: DeviceRequest) -> bool:
        """Whether a node has as many devices as a request asks for, whoever holds them."""
        most = max(self._answer(replace(one, count=0)).on_each, default=0)
        return not one.unkept and most >= max(1, one.count)

    def _answer(self, one: DeviceRequest) -> "_Answer":
        """What a request asks for; thousands of claims have a few forms."""
        form = replace(one, name="", count=min(one.count, 1))
        if form not in self._answers:
            found = self._matching(form)
            on_each = Counter(self._node[device.id] for device in found).values()
            self._answers[form] = _Answer(self._resource_asked(form, found), tuple(on_each))
        return self._answers[form]

    def _resource_asked(self, one: DeviceRequest, found: Iterable[Device]) -> str:
        """As what a request is counted that may be given some devices; "": as no accelerator."""
        known, name = self._classes.get(one.device_class), one.device_class
        if known is None and name not in _NAMED:
            if not one.selectors or not self._is_for_accelerators("", one.selectors):
                return f"{OF_CLASS}`{name}`"
        elif known is not None and not self._is_for_accelerators(
            name, (*known.selectors, *one.selectors)
        ):  # fmt: skip
            return ""
        having = {self.resource_of(device) for device in found}
        if having and not any(map(resources.is_whole_name, having)):
            return (having.pop() if len(having) == 1 else "") or UNKNOWN
        if not having and (profile := self._profile_asked(one)):
            return resources.mig_name(profile) or UNKNOWN
        return UNKNOWN if name == MIG_CLASS else CLAIMED

    def _profile_asked(self, one: DeviceRequest) -> str:
        """The one MIG profile of which a request would take instances, if there were any."""
        known = self._classes.get(one.device_class)
        selectors = (*(known.selectors if known is not None else ()), *one.selectors)
        if dra.unknown_in(selectors) or not any("profile" in text for text in selectors):
            return ""
        like = {device.gpu_type: device for device in self._device.values()}
        found = {
            row.name for kind, device in like.items() if (geometry := mig.of_kind(kind)) is not None
            for row in geometry.profiles
            if dra.matches(selectors, dra.as_instance(device, row.name))
        }  # fmt: skip
        return found.pop() if len(found) == 1 else ""

    def _is_for_accelerators(self, name: str, selectors: tuple[str, ...]) -> bool:
        return dra.is_for_accelerators(name, selectors, self._every)

    def _matching(self, one: DeviceRequest) -> list[Device]:
        """The devices that a request may be given, as far as its selectors are understood.

        Whole ones, if there are any; of a class that nobody shows, as it is made by its driver.
        """
        known, is_whole = self._classes.get(one.device_class), one.device_class in dra.DRIVERS
        is_mig = one.device_class == MIG_CLASS
        if known is None and not one.selectors and not is_mig and not (is_whole and not one.count):
            return []
        selectors = (*(known.selectors if known is not None else ()), *one.selectors)
        if dra.unknown_in(selectors):
            return []
        found = [one for one in self._device.values() if dra.matches(selectors, one)]
        if known is None and is_mig:
            return [device for device in found if device.profile]
        if known is None and is_whole and not one.count:
            return [d for d in found if d.is_whole and d.driver == one.device_class]
        return [device for device in found if device.is_whole] or found


class _Answer(NamedTuple):
    """What a request asks for."""

    resource: str
    on_each: tuple[int, ...]
    """How many devices it matches on each node that has some."""


def is_unknown(resource: str) -> bool:
    """Whether nobody knows how much of which accelerators it is, if it is of any."""
    return resource == UNKNOWN or resource.startswith(OF_CLASS)


def _counter_sets(device: Device) -> set[CounterSet]:
    return {(name.driver, name.pool, name.counter_set) for name, _ in device.consumes}
