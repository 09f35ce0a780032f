"""Extended resources that are given out by claim (DRA): `nvidia.com/gpu` where no plug-in has it.

A DeviceClass may say which extended resource its devices are, and is one by its own name. Who gives
a pod such devices makes a claim for them and names it in the pod's status: that claim is the pod's
own. Where nodes advertise the resource through a device plug-in a pod may have it there as well.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from tidemill.live.kubernetes import device_parts, dra, resources
from tidemill.live.kubernetes.device_parts import PublishedDevices
from tidemill.live.kubernetes.dra import DeviceClaim, DeviceClass, DeviceRequest
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the extended resource that every class is."""
ClaimKey = tuple[str, str]
"""Namespace and name."""


def by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class of each extended resource: of several the youngest, as the API has it."""
    found = dict[str, str]()
    for one in sorted(classes, key=lambda one: (-one.created_ms, one.name)):
        found[IMPLICIT + one.name] = one.name
        if one.extended:
            found.setdefault(one.extended, one.name)
    return found


def amounts(request: PodRequest) -> dict[str, int]:
    """What a pod requests of resources that nodes give out, or claims."""
    gpu = request.gpu
    return dict(request.extras) | ({gpu.resource: gpu.each} if gpu is not None else {})


def advertised(nodes: Iterable[KubeNode]) -> set[str]:
    """The resources that device plug-ins of nodes have."""
    return {name for node in nodes for name in (*node.capacity, *node.extras)}


def without(request: PodRequest, names: Collection[str]) -> PodRequest:
    """The rest of a request."""
    gpu = request.gpu
    return replace(
        request, gpu=None if gpu is not None and gpu.resource in names else gpu,
        also=tuple(one for one in request.also if one not in names),
        extras=tuple(one for one in request.extras if one[0] not in names),
    )  # fmt: skip


class ExtendedResources:
    """What pods request as extended resources, as the claims that are made for it."""

    def __init__(
        self, classes: Iterable[DeviceClass], nodes: Iterable[KubeNode], published: PublishedDevices
    ) -> None:
        self._class, self._plugins = by_resource(classes), advertised(nodes)
        self._published = published
        self._known: dict[PodRequest, set[str]] = {}

    def either(self) -> Mapping[str, str]:
        """Accelerators that plug-ins have and claims too: as what those are counted."""
        both = self._plugins & self._class.keys()
        some = [name for name in sorted(both) if resources.is_accelerator(name)]
        counted = {name: [*self._published.asked(self._claim({name: 1}))] for name in some}
        return {
            name: told[0] for name, told in counted.items()
            if told and not device_parts.is_unknown(told[0])
        }  # fmt: skip

    def split(
        self, request: PodRequest, pod: KubePod | None = None,
        claims: Mapping[ClaimKey, DeviceClaim] | None = None,
    ) -> tuple[PodRequest, DeviceClaim | None]:  # fmt: skip
        """What a pod requests without what comes by a claim of its own, and what that asks for.

        None: nothing does, or the claim is one of ``claims``.
        """
        own = pod.own_claim if pod is not None else None
        names = self._by_claim_alone(request) if own is None else {*own.resources}
        if not names:
            return request, None
        rest, mine = without(request, names), amounts(request)
        if pod is not None and own is not None and (pod.namespace, own.name) in (claims or {}):
            return rest, None
        return rest, self._claim({name: mine[name] for name in sorted(names) if name in mine})

    def _by_claim_alone(self, request: PodRequest) -> set[str]:
        """What of a request no plug-in has and a class gives out; many pods have few requests."""
        if request not in self._known:
            self._known[request] = {
                name for name in amounts(request) if name not in self._plugins
                and (name in self._class or name.startswith(IMPLICIT))
            }  # fmt: skip
        return self._known[request]

    def _claim(self, wanted: Mapping[str, int]) -> DeviceClaim:
        """The claim that is made for so much."""
        return DeviceClaim(
            namespace="", name="", held=(), holders=(),
            requests=tuple(
                DeviceRequest(name, self._class_of(name), (), count, "")
                for name, count in wanted.items()
            ),
        )  # fmt: skip

    def _class_of(self, name: str) -> str:
        """The class of a resource; of one that nobody shows its own name tells what it is of."""
        if name in self._class or not resources.is_whole_name(name):
            return self._class.get(name, name.removeprefix(IMPLICIT))
        return dra.DRIVERS[0]
