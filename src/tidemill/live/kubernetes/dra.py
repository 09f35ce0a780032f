"""Dynamic resource allocation: devices that nodes publish in slices, and claims that hold them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import cel, fields, resources
from tidemill.live.kubernetes.cel import DeviceFacts, UnknownExpression
from tidemill.live.kubernetes.fields import Object

GROUP = "resource.k8s.io"
DRIVERS = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "neuron.aws.com", "tpu.google.com")
"""Drivers whose devices are accelerators."""
_WHOLE = ("gpu", "amdgpu", "")
"""Types of devices that are whole, as drivers say it; others are parts (`mig`) or something else.
"""
MOST_DEVICES = 10_000
FINALIZER = "resource.kubernetes.io/delete-protection"
"""On a claim that is allocated, as the API's own controllers expect it."""

TEMPLATE = "template/"
"""With which the names of templates begin here, so that they are no claims."""

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""


class CounterName(NamedTuple):
    """A counter that devices of a pool share."""

    driver: str
    pool: str
    counter_set: str
    counter: str


class Device(Struct, frozen=True):
    """A device as its driver publishes it."""

    driver: str
    pool: str
    name: str
    facts: DeviceFacts
    gpu_type: str
    profile: str
    """The MIG profile that it is an instance of; "": it is whole, or no accelerator."""
    is_whole: bool
    consumes: tuple[tuple[CounterName, Fraction], ...]
    """What it takes of the counters that it shares with other devices of its pool."""
    is_tainted: bool
    may_be_shared: bool = False
    """Whether several claims may have it at once, each a part of its capacity."""
    all_of_it: tuple[tuple[str, Any], ...] = ()
    """That capacity, as its driver publishes it."""

    @property
    def id(self) -> DeviceId:
        """By what claims name it."""
        return self.driver, self.pool, self.name

    @property
    def is_accelerator(self) -> bool:
        """Whether it is one, or an instance of one."""
        return self.driver in DRIVERS


ADMIN = "adminAccess"
"""A request that looks on: it holds nothing."""
OF_CAPACITY = "capacity of a part of a device"
ALL_DIFFER = "allocationMode All on machines that have different numbers of them"
"""Why nobody can say how many devices such a claim wants."""
OTHER_CONSTRAINTS = "constraints other than matchAttribute of all requests"
MOST_CHOICES = 8
"""As many as the API server lets a request have."""


class DeviceRequest(Struct, frozen=True):
    """One request of a claim."""

    name: str
    device_class: str
    selectors: tuple[str, ...]
    count: int
    """0: all that match."""
    unkept: str
    """What of it is not understood here; "": nothing."""
    choices: tuple["DeviceRequest", ...] = ()
    """Instead of all that: the first of these for which there are devices (`firstAvailable`)."""


class DeviceClass(Struct, frozen=True):
    """What many claims have in common."""

    name: str
    selectors: tuple[str, ...]
    config: tuple[Object, ...]
    extended: str = ""
    """The extended resource that its devices are too; "": none but by its own name."""
    created_ms: int = 0


class OwnClaim(Struct, frozen=True):
    """The claim that a scheduler made for what a pod requests as extended resources."""

    name: str
    resources: tuple[str, ...]
    """What of its request comes by it."""


class DeviceSlice(Struct, frozen=True):
    """Devices that a driver publishes for one node, in order."""

    node: str
    driver: str
    pool: str
    name: str = ""
    generation: int = 0
    slices: int = 1
    """How many slices its pool has in this generation."""
    published: tuple[Device, ...] = ()
    """Its devices, whatever they are."""
    shared: tuple[tuple[CounterName, Fraction], ...] = ()
    """How much there is of the counters that it tells of."""
    given: tuple[tuple[int, int], ...] = ()
    """How many whole accelerators could be had, and from when on, as a watch saw it."""

    @property
    def healthy(self) -> int:
        """Its whole accelerators that can be had: no taint keeps claims off them."""
        return sum(
            one.is_accelerator and one.is_whole and not one.is_tainted for one in self.published
        )


class DeviceClaim(Struct, frozen=True, kw_only=True):
    """Devices that somebody holds or wants."""

    namespace: str
    name: str
    held: tuple[tuple[str, str, str], ...]
    """Driver, pool and device."""
    holders: tuple[str, ...]
    """Names of the pods that use it."""
    uid: str = ""
    version: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    alike: tuple[str, ...] = ()
    """Attributes that all of its devices have to have in common."""
    unkept: str = ""
    config: tuple[Object, ...] = ()
    is_allocated: bool = False
    allocated: tuple[DeviceId, ...] = ()
    """All devices that it was given, of any driver."""
    shared: tuple[DeviceId, ...] = ()
    """Those of which it was given a part of their capacity."""
    reserved: tuple[str, ...] = ()
    """Uids of those who use it."""
    answered: tuple[str, ...] = ()
    """The requests that its devices were given for, by name: `REQUEST`, or `REQUEST/CHOICE`."""
    is_only_pods: bool = True
    """Whether only pods use it."""
    is_protected: bool = False
    """Whether it has the finalizer of claims that are allocated."""
    is_leaving: bool = False
    had: tuple[DeviceId, ...] = ()
    """Accelerators that it held before a watch saw that it does not any more: those whose pods are
    leaving still do in the books."""
    deleted_ms: int | None = None

    def deleted(self, at_ms: int) -> "DeviceClaim":
        """The claim after it was deleted."""
        return replace(self, is_allocated=False, held=(), had=self.held or self.had,
                       deleted_ms=at_ms)  # fmt: skip

    def after(self, before: "DeviceClaim | None") -> "DeviceClaim":
        """The claim as a watch shows it now, after how it did before."""
        if before is None or before.uid != self.uid or self.is_allocated:
            return self
        return replace(self, had=before.held or before.had)


def read_slice(one: Object) -> DeviceSlice:
    """A ResourceSlice."""
    spec = fields.inner(one, "spec")
    driver, pool = fields.text(spec, "driver"), fields.text(spec, "pool", "name")
    return DeviceSlice(
        fields.text(spec, "nodeName"), driver, pool, fields.text(one, "metadata", "name"),
        generation=fields.number(spec, "pool", "generation") or 0,
        slices=fields.number(spec, "pool", "resourceSliceCount") or 1,
        published=tuple(
            _device(driver, pool, device) for device in fields.each(spec, "devices")
        )[:MOST_DEVICES],
        shared=tuple(
            one for told in fields.each(spec, "sharedCounters")
            for one in _counters(driver, pool, fields.text(told, "name"), told)
        ),
    )  # fmt: skip


def _device(driver: str, pool: str, told: Object) -> Device:
    basic = fields.inner(told, "basic") or told
    kind = _attribute(basic, "productName") or _attribute(basic, "model")
    sort, profile = _attribute(basic, "type"), _attribute(basic, "profile")
    return Device(
        driver, pool, fields.text(told, "name"),
        DeviceFacts(driver, _attributes(driver, basic), _capacity(driver, basic)),
        resources.short_name(kind) if kind else "", profile if sort == "mig" else "",
        sort in _WHOLE,
        tuple(
            one for told in fields.each(basic, "consumesCounters")
            for one in _counters(driver, pool, fields.text(told, "counterSet"), told)
        ),
        any(fields.text(t, "effect") != "None" for t in fields.each(basic, "taints")),
        is_divided := fields.flag(basic, "allowMultipleAllocations"),
        tuple(_published(basic)) if is_divided else (),
    )  # fmt: skip


def _published(device: Object) -> Iterator[tuple[str, Any]]:
    for name, told in fields.inner(device, "capacity").items():
        yield name, told.get("value") if isinstance(told, dict) else told


def _attributes(driver: str, device: Object) -> dict[str, dict[str, cel.Value]]:
    found = dict[str, dict[str, cel.Value]]()
    for key, told in fields.inner(device, "attributes").items():
        domain, _, name = key.rpartition("/")
        for kind, value in told.items() if isinstance(told, dict) else ():
            made = cel.value(kind, value)
            if made is not None:
                found.setdefault(domain or driver, {})[name] = made
    return found


def _capacity(driver: str, device: Object) -> dict[str, dict[str, cel.ExactAmount]]:
    found = dict[str, dict[str, cel.ExactAmount]]()
    for key, told in fields.inner(device, "capacity").items():
        domain, _, name = key.rpartition("/")
        made = cel.value("quantity", told.get("value") if isinstance(told, dict) else told)
        if made is not None:
            found.setdefault(domain or driver, {})[name] = made
    return found


def _counters(
    driver: str, pool: str, counter_set: str, told: Object
) -> Iterator[tuple[CounterName, Fraction]]:
    """The counters of a set, with their amounts."""
    for counter, amount in fields.inner(told, "counters").items():
        made = cel.value("quantity", amount.get("value") if isinstance(amount, dict) else amount)
        if isinstance(made, cel.ExactAmount):
            yield CounterName(driver, pool, counter_set, counter), made.amount


def _attribute(device: Object, name: str) -> str:
    """A string among the attributes of a device, whose names may carry a domain."""
    for key, value in fields.inner(device, "attributes").items():
        if key.rpartition("/")[2] == name:
            return fields.text(value, "string") if isinstance(value, dict) else ""
    return ""


def read_claim(one: Object) -> DeviceClaim:
    """A ResourceClaim."""
    given = fields.inner(one, "status", "allocation")
    rows = [row for row in fields.each(given, "devices", "results")
            if not fields.flag(row, ADMIN)]  # fmt: skip
    allocated = tuple(dict.fromkeys(map(_device_id, rows)))  # parts of one device are one
    users = list(fields.each(one, "status", "reservedFor"))
    pods = [user for user in users if fields.text(user, "resource") == "pods"]
    spec = fields.inner(one, "spec")
    return DeviceClaim(
        namespace=fields.text(one, "metadata", "namespace") or "default",
        name=fields.text(one, "metadata", "name"),
        held=tuple(device for device in allocated if device[0] in DRIVERS),
        holders=tuple(fields.text(user, "name") for user in pods),
        uid=fields.text(one, "metadata", "uid"),
        version=fields.text(one, "metadata", "resourceVersion"),
        is_allocated=bool(given), allocated=allocated,
        shared=tuple(_device_id(row) for row in rows if fields.text(row, "shareID")),
        reserved=tuple(fields.text(user, "uid") for user in users),
        answered=tuple(fields.text(r, "request") for r in fields.each(given, "devices", "results")),
        is_only_pods=len(pods) == len(users),
        is_protected=FINALIZER in fields.texts(one, "metadata", "finalizers"),
        is_leaving=bool(fields.text(one, "metadata", "deletionTimestamp")),
        **_asked(spec),
    )  # fmt: skip


def read_template(one: Object) -> DeviceClaim:
    """A ResourceClaimTemplate: what claims made of it want."""
    spec = fields.inner(one, "spec", "spec")
    return DeviceClaim(
        namespace=fields.text(one, "metadata", "namespace") or "default",
        name=TEMPLATE + fields.text(one, "metadata", "name"), held=(), holders=(),
        **_asked(spec),
    )  # fmt: skip


def read_class(one: Object) -> DeviceClass:
    """A DeviceClass."""
    return DeviceClass(
        fields.text(one, "metadata", "name"), _selectors(fields.inner(one, "spec")),
        tuple(fields.each(one, "spec", "config")), fields.text(one, "spec", "extendedResourceName"),
        fields.moment_ms(one, "metadata", "creationTimestamp") or 0,
    )  # fmt: skip


def read_own_claim(pod: Object) -> OwnClaim | None:
    """The claim of a pod that stands for extended resources; None: it has none."""
    told = fields.inner(pod, "status", "extendedResourceClaimStatus")
    name = fields.text(told, "resourceClaimName")
    mapped = (fields.text(one, "resourceName") for one in fields.each(told, "requestMappings"))
    return OwnClaim(name, tuple(sorted(set(mapped)))) if name else None


def _device_id(told: Object) -> DeviceId:
    return fields.text(told, "driver"), fields.text(told, "pool"), fields.text(told, "device")


def _asked(spec: Object) -> dict[str, Any]:
    """What a claim asks for, and what of that is not understood here."""
    alike, unkept = list[str](), ""
    names = {fields.text(one, "name") for one in fields.each(spec, "devices", "requests")}
    for one in fields.each(spec, "devices", "constraints"):
        attribute = fields.text(one, "matchAttribute")
        if not attribute or names - {*(fields.texts(one, "requests") or names)}:
            unkept = OTHER_CONSTRAINTS
        alike.append(attribute)
    return {
        "requests": tuple(map(_request, fields.each(spec, "devices", "requests"))),
        "alike": tuple(alike), "unkept": unkept,
        "config": tuple(fields.each(spec, "devices", "config")),
    }  # fmt: skip


def _request(told: Object) -> DeviceRequest:
    name, some = fields.text(told, "name"), list(fields.each(told, "firstAvailable"))
    if not some:
        is_old = "deviceClassName" in told  # as v1beta1 has it
        return _exact(name, told if is_old else fields.inner(told, "exactly"))
    choices = tuple(_exact(f"{name}/{fields.text(one, 'name')}", one) for one in some)
    return DeviceRequest(name, "", (), 0, "", choices[:MOST_CHOICES])


def _exact(name: str, exact: Object) -> DeviceRequest:
    mode = fields.text(exact, "allocationMode")
    unkept = ""
    if not exact:
        unkept = "a request without `exactly`"
    elif fields.flag(exact, ADMIN):
        unkept = ADMIN
    elif fields.inner(exact, "capacity"):
        unkept = OF_CAPACITY
    elif mode not in ("", "ExactCount", "All"):
        unkept = f"allocationMode {mode}"
    count = 0 if mode == "All" else max(1, fields.number(exact, "count") or 1)
    return DeviceRequest(
        name, fields.text(exact, "deviceClassName"), _selectors(exact),
        min(count, MOST_DEVICES), unkept,
    )  # fmt: skip


def _selectors(told: Object) -> tuple[str, ...]:
    return tuple(fields.text(one, "cel", "expression") for one in fields.each(told, "selectors"))


def first_held(
    choices: Iterable[DeviceRequest], holds: Callable[[DeviceRequest], bool]
) -> DeviceRequest | None:
    """The first of several requests (`firstAvailable`) that a machine holds; None: none does."""
    return next((one for one in choices if holds(one)), None)


def unknown_in(selectors: Iterable[str]) -> str:
    """What of these expressions is not understood here; "": all of it is."""
    for text in selectors:
        try:
            cel.selector(text)
        except UnknownExpression as error:
            return str(error)
    return ""


def matches(selectors: Iterable[str], device: Device) -> bool:
    """Whether all of these expressions, which are understood, hold of a device."""
    return all(cel.selector(one).holds(device.facts) for one in selectors)


def as_instance(device: Device, profile: str) -> Device:
    """What a driver would publish of a GPU if it were cut so; what it can do is as of the whole."""
    mine = {**device.facts.attributes.get(device.driver, {}), "type": "mig", "profile": profile}
    attributes = {**device.facts.attributes, device.driver: mine}
    return replace(device, facts=device.facts._replace(attributes=attributes), profile=profile)


def alike(devices: Iterable[Device], attributes: tuple[str, ...]) -> dict[object, list[Device]]:
    """Devices by the values of attributes that they must have in common; those without: none."""
    found = dict[object, list[Device]]()
    for device in devices:
        values = []
        for attribute in attributes:
            domain, _, name = attribute.rpartition("/")
            values.append(device.facts.attributes.get(domain, {}).get(name))
        if None not in values:
            found.setdefault(tuple(values), []).append(device)
    return found


def is_for_accelerators(
    device_class: str, selectors: Sequence[str], devices: Iterable[Device]
) -> bool:
    """Whether a request is for accelerators: by the first device that it may be given.

    Where there is none, by the driver that its class or its expressions name.
    """
    is_read = not unknown_in(selectors)
    first = next((one for one in devices if is_read and matches(selectors, one)), None)
    if first is not None:
        return first.is_accelerator
    return any(driver in one for one in (device_class, *selectors) for driver in DRIVERS)
