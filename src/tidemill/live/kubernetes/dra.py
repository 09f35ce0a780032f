"""Dynamic resource allocation: devices that nodes publish in slices, and claims that hold them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tidemill.live.kubernetes import fields, resources
from tidemill.live.kubernetes.fields import Object

GROUP = "resource.k8s.io"
DRIVERS = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "neuron.aws.com", "tpu.google.com")
"""Drivers whose devices are accelerators."""
_WHOLE = ("gpu", "")
"""Types of devices that are whole; others are parts (`mig`) or something else."""
MOST_DEVICES = 10_000


class DeviceSlice(Struct, frozen=True):
    """Whole accelerators that a driver publishes for one node, in order."""

    node: str
    driver: str
    pool: str
    devices: tuple[str, ...]
    gpu_type: str
    parts: int
    """Devices that are parts of others, and are not counted."""


class DeviceClaim(Struct, frozen=True):
    """Devices that somebody holds or wants."""

    namespace: str
    name: str
    wanted: int
    held: tuple[tuple[str, str, str], ...]
    """Driver, pool and device."""
    holders: tuple[str, ...]
    """Names of the pods that use it."""


def read_slice(one: Object) -> DeviceSlice:
    """A ResourceSlice."""
    spec = fields.inner(one, "spec")
    names, kinds, parts = list[str](), list[str](), 0
    for device in fields.each(spec, "devices"):
        basic = fields.inner(device, "basic") or device
        if _attribute(basic, "type") not in _WHOLE:
            parts += 1
            continue
        names.append(fields.text(device, "name"))
        kinds.append(_attribute(basic, "productName") or _attribute(basic, "model"))
    kind = next(filter(None, kinds), "")
    return DeviceSlice(
        fields.text(spec, "nodeName"), fields.text(spec, "driver"),
        fields.text(spec, "pool", "name"), tuple(names[:MOST_DEVICES]),
        resources.short_name(kind) if kind else "", parts,
    )  # fmt: skip


def _attribute(device: Object, name: str) -> str:
    """A string among the attributes of a device, whose names may carry a domain."""
    for key, value in fields.inner(device, "attributes").items():
        if key.rpartition("/")[2] == name:
            return fields.text(value, "string") if isinstance(value, dict) else ""
    return ""


def read_claim(one: Object) -> DeviceClaim:
    """A ResourceClaim."""
    held = tuple(
        (fields.text(row, "driver"), fields.text(row, "pool"), fields.text(row, "device"))
        for row in fields.each(one, "status", "allocation", "devices", "results")
        if fields.text(row, "driver") in DRIVERS
    )
    holders = tuple(
        fields.text(user, "name")
        for user in fields.each(one, "status", "reservedFor")
        if fields.text(user, "resource") == "pods"
    )
    return DeviceClaim(
        fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"), wanted(fields.inner(one, "spec")), held, holders,
    )  # fmt: skip


def read_template(one: Object) -> DeviceClaim:
    """A ResourceClaimTemplate: what claims made of it want."""
    return DeviceClaim(
        fields.text(one, "metadata", "namespace") or "default",
        f"template/{fields.text(one, 'metadata', 'name')}",
        wanted(fields.inner(one, "spec", "spec")), (), (),
    )  # fmt: skip


def wanted(spec: Object) -> int:
    """How many accelerators a claim asks for; classes of other devices count none."""
    total = 0
    for request in fields.each(spec, "devices", "requests"):
        exact = fields.inner(request, "exactly") or request
        kind = fields.text(exact, "deviceClassName")
        if kind in DRIVERS:
            total += max(1, fields.number(exact, "count") or 1)
    return min(total, MOST_DEVICES)


def masks(slices: Iterable[DeviceSlice]) -> Mapping[tuple[str, str, str], tuple[str, int]]:
    """By driver, pool and device: its node, and its number among the node's devices."""
    found = dict[tuple[str, str, str], tuple[str, int]]()
    counts = dict[str, int]()
    for one in sorted(slices, key=lambda one: (one.node, one.driver, one.pool)):
        for device in one.devices if one.driver in DRIVERS and one.node else ():
            number = counts.get(one.node, 0)
            counts[one.node] = number + 1
            found[one.driver, one.pool, device] = (one.node, number)
    return found
