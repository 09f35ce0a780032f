"""Devices by claim (DRA): what machines publish, what claims ask for, and who holds what.

A claim's requests are read into what the loop counts: so many accelerators of a part of a machine
whose devices match its selectors. Which machines have such devices is a label that they are given
here; which device it is, is decided by the plan. Whatever of a claim is not understood is named.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.history import cut_gpus
from tidemill.live.kubernetes import dra, extended
from tidemill.live.kubernetes.dra import (
    CounterName,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    DeviceSlice,
)
from tidemill.live.kubernetes.nodes import Taint
from tidemill.live.kubernetes.pods import KubePod, PodRequest, Toleration
from tidemill.live.kubernetes.resources import CLAIMED, GpuRequest
from tidemill.model.measures import WHOLE_MILLI, count_text
from tidemill.model.rows import BY_CLAIM as BY_CLAIM_KEY

Key = tuple[str, str]
"""Namespace and name."""
BY_CLAIM = Taint(BY_CLAIM_KEY, "", "NoSchedule")
"""Of parts whose devices are given out by claims: who requests devices otherwise has none there."""
TOLERATED = Toleration(BY_CLAIM.key, "Exists", "", "")
MATCH = "match"
TEMPLATE = dra.TEMPLATE
"""Before the name of a template of claims."""
LONGEST_FORM = 160


class DeviceForm(NamedTuple):
    """What a device has to be like: all of these expressions hold."""

    device_class: str
    selectors: tuple[str, ...]
    alike: tuple[str, ...] = ()
    number: int = 0
    """With ``alike``: so many that have those attributes in common."""

    def holds(self, device: Device) -> bool:
        """Whether a device is so."""
        return dra.matches(self.selectors, device)

    @property
    def label(self) -> str:
        """The label of what has such devices, as people read it in `why`; two forms have two."""
        where = " and ".join(" ".join(one.split()) for one in self.selectors)
        same = f", {self.number} with the same {', '.join(self.alike)}" if self.alike else ""
        words = f"devices of class {self.device_class}{same}: {where}"
        if len(words) <= LONGEST_FORM:
            return words
        digest = hashlib.blake2b(words.encode(), digest_size=4).hexdigest()
        return f"{words[: LONGEST_FORM - 10]}… {digest}"

    def of_part(self, devices: Iterable[Device]) -> bool:
        """Whether a part of a machine can take it, as far as its devices go."""
        matching = [device for device in devices if self.holds(device)]
        if not self.alike:
            return bool(matching)
        return any(len(some) >= self.number for some in dra.alike(matching, self.alike).values())


class DeviceGroup(NamedTuple):
    """Devices of one machine that are of one type; claims may ask for some of them alone."""

    gpu_type: str
    profile: str
    devices: tuple[Device, ...]
    labels: tuple[tuple[str, str], ...]


class ClaimBook:
    """Slices, classes and claims of a cluster, as they are now."""

    def __init__(self) -> None:
        self.claims: dict[Key, DeviceClaim] = {}
        """Templates too, as `template/NAME`."""
        self.classes: dict[str, DeviceClass] = {}
        self.forms: dict[DeviceForm, None] = {}
        """Everything that was asked for so far: machines are labelled by it."""
        self._slices: dict[str, DeviceSlice] = {}
        self._published: dict[str, tuple[Device, ...]] = {}
        """By machine, in the order of their pools and names."""
        self._where: dict[DeviceId, tuple[str, Device]] = {}
        self._counters: dict[str, dict[CounterName, Fraction]] = {}
        """By machine: how much there is of the counters that its devices share."""
        self.is_offered: Callable[[str, Device], bool] = _if_alone
        """Whether a device may be given out beside all others of its machine that are."""
        self.is_shared: Callable[[Key], bool] = lambda _: False
        """Whether several pods wait for one claim."""
        self.holder: dict[DeviceId, Key] = {}
        """The claim that a device was given to; of those that have parts of it the first."""
        self._holders: dict[DeviceId, dict[Key, None]] = {}
        self.extended: dict[str, str] = {}
        """The class that each extended resource is given out of."""
        self._counted: dict[DeviceForm, bool] = {}
        self._picked: dict[tuple[DeviceRequest, ...], DeviceRequest] = {}
        """By what there is to choose from: what is chosen now, for all claims alike."""

    # What happens -------------------------------------------------------------------------------

    def take_slice(self, row: DeviceSlice, *, is_gone: bool) -> set[str]:
        """A slice came, changed or is gone; the machines that have other devices now."""
        before = self._slices.pop(row.name, None)
        if not is_gone:
            self._slices[row.name] = row
        touched = {one.node for one in (before, row) if one is not None and one.node}
        for machine in touched:
            self._read(machine)
        return touched

    def _read(self, machine: str) -> None:
        self._counted.clear()
        self._counters.pop(machine, None)
        for device in self._published.pop(machine, ()):
            self._where.pop(device.id, None)
        mine = [one for one in self._slices.values() if one.node == machine]
        found = list[Device]()
        for driver, pool in sorted({(one.driver, one.pool) for one in mine}):
            some = [one for one in mine if (one.driver, one.pool) == (driver, pool)]
            newest = max(one.generation for one in some)
            some = [one for one in some if one.generation == newest]
            if len(some) == some[0].slices:  # else the rest of the pool is still to come
                found += [device for one in some for device in one.published]
                shared = dict(counter for one in some for counter in one.shared)
                self._counters.setdefault(machine, {}).update(shared)
        if found:
            self._published[machine] = tuple(
                sorted(found, key=lambda d: (d.driver, d.pool, _natural(d.name)))
            )
        self._where.update((device.id, (machine, device)) for device in found)

    def take_class(self, row: DeviceClass, *, is_gone: bool) -> None:
        """A class came, changed or is gone."""
        self.classes.pop(row.name, None)
        if not is_gone:
            self.classes[row.name] = row
        self.extended = extended.by_resource(self.classes.values())

    def take_claim(self, row: DeviceClaim, *, is_gone: bool) -> DeviceClaim | None:
        """A claim or a template came, changed or is gone; what it was before."""
        key = (row.namespace, row.name)
        before = self.claims.get(key)
        if before is not None and not is_gone and _is_older(row, before):
            return before
        self._let_go(key, before.allocated if before is not None else (),
                     () if is_gone else row.allocated)  # fmt: skip
        if is_gone:
            self.claims.pop(key, None)
            return before
        self.claims[key] = row
        for device in row.allocated:
            self._holders.setdefault(device, {})[key] = None
            if device not in row.shared or device not in self.holder:
                self.holder[device] = key
        return before

    def _let_go(self, key: Key, had: Iterable[DeviceId], has: Sequence[DeviceId]) -> None:
        """A claim does not hold devices any more; who else has one, or a part of it, still does."""
        for device in had:
            others = self._holders.get(device, {})
            if device in has:
                continue
            others.pop(key, None)
            if not others:
                self._holders.pop(device, None)
                self.holder.pop(device, None)
            elif self.holder.get(device) == key:
                self.holder[device] = next(iter(others))

    # What machines have -------------------------------------------------------------------------

    def machines(self) -> Iterable[str]:
        """All that publish devices."""
        return self._published

    def published(self, machine: str) -> tuple[Device, ...]:
        """Every device of a machine that may be given out, of any driver."""
        return tuple(one for one in self._published.get(machine, ()) if not one.is_tainted)

    def groups(self, machine: str) -> list[DeviceGroup]:
        """The accelerators of a machine, by what they are, and which requests they can serve."""
        all_of_it = self.published(machine)
        beside = [one for one in all_of_it if not one.is_accelerator]
        given = self._labels(form for form in self.forms if form.of_part(beside))
        grouped = dict[tuple[str, str], list[Device]]()
        for device in all_of_it:
            if device.is_accelerator and self.is_offered(machine, device):
                grouped.setdefault((device.gpu_type, device.profile), []).append(device)
        return [
            DeviceGroup(
                gpu_type, profile, tuple(some),
                (*given, *self._labels(form for form in self.forms if form.of_part(some))),
            )
            for (gpu_type, profile), some in grouped.items()
        ]  # fmt: skip

    @staticmethod
    def _labels(forms: Iterable[DeviceForm]) -> tuple[tuple[str, str], ...]:
        return tuple((form.label, MATCH) for form in forms)

    def held_on(self, claim: DeviceClaim) -> dict[str, tuple[DeviceId, ...]]:
        """By machine: the accelerators that a claim holds; of those that have parts of a device the
        first has it.
        """
        found = dict[str, list[DeviceId]]()
        for one in claim.allocated:
            machine, device = self._where.get(one, ("", None))
            if one in claim.shared and self.holder.get(one) != (claim.namespace, claim.name):
                continue
            if device is not None and device.is_accelerator:
                found.setdefault(machine, []).append(one)
        return {machine: tuple(mine) for machine, mine in found.items()}

    def machines_of(self, claim: DeviceClaim) -> set[str]:
        """The machines of which a claim holds devices, of any driver."""
        return {self._where[one][0] for one in claim.allocated if one in self._where}

    @property
    def has_counters(self) -> bool:
        """Whether devices share any."""
        return any(self._counters.values())

    def counters_of(self, machine: str) -> dict[CounterName, Fraction]:
        """How much there is of the counters that devices of a machine share."""
        return dict(self._counters.get(machine, {}))

    def fit(self, machine: str, devices: Iterable[DeviceId]) -> bool:
        """Whether devices, and those that are held, consume no more than there is."""
        wanted = {*devices, *(one.id for one in self._published.get(machine, ())
                              if one.id in self.holder)}  # fmt: skip
        left = self.counters_of(machine)
        for one in wanted:
            for name, amount in self._where[one][1].consumes if one in self._where else ():
                left[name] = left.get(name, Fraction(-1)) - amount
        return all(amount >= 0 for amount in left.values())

    def machine_of(self, device: DeviceId) -> str:
        """The machine that publishes a device; "": none does."""
        return self._where[device][0] if device in self._where else ""

    def device(self, device: DeviceId) -> Device | None:
        """A device as it is published; None: nobody does."""
        return self._where[device][1] if device in self._where else None

    def shares_counters(self, device: DeviceId) -> bool:
        """Whether a device consumes of counters that others use too."""
        return device in self._where and bool(self._where[device][1].consumes)

    def size_of(self, device: DeviceId) -> Fraction:
        """How much of a whole device one is."""
        known = self._where[device][1] if device in self._where else None
        if known is None or not known.profile:
            return Fraction(1)
        milli = cut_gpus.instance_milli(known.gpu_type, known.profile)
        return Fraction(milli or WHOLE_MILLI, WHOLE_MILLI)

    def asks_of(self, pod: KubePod, *, is_held: bool = False) -> tuple[tuple[DeviceForm, int], ...]:
        """What the claims of a pod that are not allocated ask for, and how many; none: unclear.

        ``is_held``: those that are.
        """
        asked = [one for claim in self.of_pod(pod) if claim.is_allocated == is_held
                 for one in self._asked(claim)]  # fmt: skip
        return () if any(problem for *_, problem in asked) else tuple(
            (form, count) for form, count, _ in asked
        )  # fmt: skip

    def short_of(self, machine: str, pods: Iterable[KubePod], taken: Set[DeviceId]) -> str:
        """That a machine has too few devices left of those that the claims of pods select, in
        words; "": enough, or they select all accelerators of a sort, which the plan counts.
        ``taken``: by whom else.
        """
        asked = [one for pod in pods for one in self._asked_by(pod).items()]
        all_of_it = self.published(machine)
        mine = [one for one in all_of_it
                if one.is_accelerator and self.is_offered(machine, one)]  # fmt: skip
        asks = [one for one in asked if self._is_accelerator(one[0])]
        is_counted = not any(form.alike or _selects_some(form, mine) for form, _ in asks)
        said = "" if is_counted else _short_of(machine, mine, asks, taken)
        beside = [one for one in all_of_it if not one.is_accelerator]
        others = [one for one in asked if not self._is_accelerator(one[0])]
        return said or _short_of(machine, beside, others, taken)

    def _asked_by(self, pod: KubePod) -> dict[DeviceForm, int]:
        """How many of which devices a pod waits for by claim."""
        found = dict[DeviceForm, int]()
        for form, count in self.asks_of(pod):
            found[form] = found.get(form, 0) + count
        return found

    def holders_on(self, machine: str) -> set[Key]:
        """The claims that hold devices of a machine."""
        mine = self._published.get(machine, ())
        return {self.holder[device.id] for device in mine if device.id in self.holder}

    # What pods ask for --------------------------------------------------------------------------

    def names_of(self, pod: KubePod) -> list[tuple[str, Key | None]]:
        """The claims of a pod, by its own names for them; None: not made yet."""
        return [
            (inside, self._named(pod.namespace, inside, told, pod.claim_names))
            for inside, told in pod.request.claims
        ]

    @staticmethod
    def _named(
        namespace: str, inside: str, told: str, made: Mapping[str, str]
    ) -> Key | None:  # fmt: skip
        if made.get(inside):
            return namespace, made[inside]
        return None if told.startswith(TEMPLATE) else (namespace, told)

    def of_pod(self, pod: KubePod) -> list[DeviceClaim]:
        """The claims of a pod that exist."""
        keys = [key for _, key in self.names_of(pod) if key is not None]
        keys += [(pod.namespace, pod.own_claim.name)] if pod.own_claim is not None else []
        return [self.claims[key] for key in keys if key in self.claims]

    def resolved(self, pod: KubePod) -> KubePod:
        """A pod of ours with what its claims ask for; one whose claims are not made is held."""
        request = self.request(pod.namespace, pod.request, pod.claim_names, pod.uid)
        lacks = () if pod.node else tuple(self._lacks(pod))
        return replace(pod, request=request, lacks=lacks)

    def _lacks(self, pod: KubePod) -> Iterator[str]:
        """Claims of a pod that do not exist, in words."""
        told = dict(pod.request.claims)
        for inside, key in self.names_of(pod):
            if key in self.claims:
                continue
            template = told[inside].removeprefix(TEMPLATE)
            if key is not None:
                yield f"ResourceClaim `{key[0]}/{key[1]}` does not exist"
            elif (pod.namespace, told[inside]) in self.claims:
                yield f"no ResourceClaim was made of the template `{template}` for it yet"
            else:
                yield f"ResourceClaimTemplate `{pod.namespace}/{template}` does not exist"

    def request(
        self, namespace: str, asked: PodRequest, made: Mapping[str, str] | None = None,
        uid: str = "",
    ) -> PodRequest:  # fmt: skip
        """What claims ask for, in a request; what of them is not understood, in ``unkept``."""
        total, forms, unkept = 0, dict[DeviceForm, bool](), list[str]()
        for inside, told in asked.claims:
            key = self._named(namespace, inside, told, made or {})
            claim = self.claims.get(key) if key is not None else None
            wanted = claim or self.claims.get((namespace, told))
            is_shared = key is not None and self.is_shared(key)
            if claim is not None and ({*claim.reserved} - {uid} or (
                is_shared and not claim.reserved
            )):  # fmt: skip
                unkept.append(f"claim `{claim.name}` is used by other pods too")
            elif claim is not None and claim.is_allocated and not claim.reserved:
                unkept.append(f"claim `{claim.name}` is allocated already")
            if wanted is None:
                continue
            for form, count, problem in self._asked(wanted):
                is_ours = self._is_accelerator(form)
                forms[form] = is_ours
                total += count if is_ours else 0
                unkept += [f"claim `{wanted.name}`: {problem}"] if problem else []
        mine = {form.selectors for form, is_ours in forms.items() if is_ours}
        if len(mine) > 1:
            unkept.append("claims for accelerators that differ")
        self.forms.update(dict.fromkeys(forms))
        labels = ((form.label, MATCH) for form in forms)
        return replace(
            asked, gpu=GpuRequest(CLAIMED, total) if total else asked.gpu,
            selector=tuple(sorted({*asked.selector, *labels})),
            tolerations=(*asked.tolerations, TOLERATED),
            also=(*asked.also, *([asked.gpu.resource] if asked.gpu and total else [])),
            unkept=tuple(dict.fromkeys((*asked.unkept, *unkept))),
        )  # fmt: skip

    def _asked(self, claim: DeviceClaim) -> Iterator[tuple[DeviceForm, int, str]]:
        """The requests of a claim: what, how many, and what is not understood."""
        rows = [(one, *self._form(one)) for one in self.requests(claim)]
        counts = [
            one.count or (0 if problem else self._all_of(form)) for one, form, problem in rows
        ]
        for (one, form, problem), count in zip(rows, counts, strict=True):
            said = problem or claim.unkept
            if said:
                yield DeviceForm(one.device_class, ()), max(one.count, 1), said
                continue
            if not count:
                said = dra.ALL_DIFFER
            if claim.alike:
                total = sum(
                    n for (_, other, _), n in zip(rows, counts, strict=True) if other == form
                )
                form = form._replace(alike=claim.alike, number=total)  # noqa: PLW2901 - as asked
            yield form, max(count, 1), said

    def _form(self, one: DeviceRequest) -> tuple[DeviceForm, str]:
        """What a request asks a device to be like, and what of that is not understood."""
        found = self.classes.get(one.device_class)
        selectors = (*(found.selectors if found else ()), *one.selectors)
        problem = one.unkept or dra.unknown_in(selectors)
        if found is None:
            problem = problem or f"DeviceClass `{one.device_class}` is not there"
        return DeviceForm(one.device_class, selectors), problem

    def requests(self, claim: DeviceClaim) -> tuple[DeviceRequest, ...]:
        """The requests of a claim; of those with a choice what it was given, or what is chosen."""
        return tuple(self._chosen(claim, one) if one.choices else one for one in claim.requests)

    def _chosen(self, claim: DeviceClaim, one: DeviceRequest) -> DeviceRequest:
        given = next((choice for choice in one.choices if choice.name in claim.answered), None)
        if given is not None:
            return given
        if one.choices not in self._picked:
            self._picked[one.choices] = self._pick(one.choices)
        return self._picked[one.choices]

    def choose_anew(self) -> bool:
        """Choose again between requests, by what is free now; whether any choice is another."""
        before = dict(self._picked)
        self._picked = {choices: self._pick(choices) for choices in before}
        return self._picked != before

    def _pick(self, choices: tuple[DeviceRequest, ...]) -> DeviceRequest:
        """The first that a machine has enough free devices for; else that one has them at all."""
        known = {one: form for one in choices for form, problem in (self._form(one),)
                 if not problem}  # fmt: skip
        for is_free in (True, False):
            holds = partial(self._is_held, known, is_free=is_free)
            if (found := dra.first_held(known, holds)) is not None:
                return found
        return next(iter(known), choices[0])

    def _is_held(
        self, forms: Mapping[DeviceRequest, DeviceForm], one: DeviceRequest, *, is_free: bool
    ) -> bool:
        """Whether any machine has what a request asks for, or has it free."""
        return any(
            self._has(machine, forms[one], one.count, is_free=is_free)
            for machine in self._published
        )

    def _has(self, machine: str, form: DeviceForm, count: int, *, is_free: bool) -> bool:
        """Whether a machine has so many such devices, or such that nobody holds."""
        mine = [one for one in self.published(machine) if form.holds(one)]
        left = [one for one in mine if one.id not in self.holder] if is_free else mine
        return len(left) >= (count or len(mine)) > 0

    def _all_of(self, form: DeviceForm) -> int:
        """How many devices every machine that has such has; 0: not all of them the same."""
        counts = {
            sum(form.holds(device) for device in self.published(machine))
            for machine in self._published
        } - {0}
        return counts.pop() if len(counts) == 1 else 0

    def form_of(self, claim: DeviceClaim, request: str) -> tuple[DeviceForm, int]:
        """What one request of a claim asks for, and how many."""
        asked = zip(self.requests(claim), self._asked(claim), strict=True)
        for one, (form, count, _) in asked:
            if one.name == request:
                return form, count
        raise AssertionError(f"claim {claim.name} has no request {request}")

    def is_accelerators(self, claim: DeviceClaim, request: str) -> bool:
        """Whether a request is for what the loop counts."""
        return self._is_accelerator(self.form_of(claim, request)[0])

    def _is_accelerator(self, form: DeviceForm) -> bool:
        if form not in self._counted:
            devices = (device for _, device in self._where.values())
            self._counted[form] = dra.is_for_accelerators(
                form.device_class, form.selectors, devices
            )
        return self._counted[form]


def _if_alone(machine: str, device: Device) -> bool:  # noqa: ARG001 - of any machine
    return device.is_whole or not device.consumes


def _short_of(
    machine: str, devices: Iterable[Device], asks: list[tuple[DeviceForm, int]],
    taken: Set[DeviceId],
) -> str:  # fmt: skip
    """The first ask for which too few of some devices of a machine are left, in words: of several
    that ask alike, by what is free before any of them has some.
    """
    free = [device for device in devices if device.id not in taken]
    at_first = [*free]
    # those first for whom there are fewest
    asks = sorted(asks, key=lambda one: (sum(map(one[0].holds, free)), one[0].label))
    for form, count in asks:
        able = [device for device in free if form.holds(device)]
        able.sort(key=lambda device: sum(other.holds(device) for other, _ in asks))
        some = _most_alike(form, able)
        if len(some) < count:
            found, words = len(some), f"{count} are requested"
            before = len(_most_alike(form, filter(form.holds, at_first)))
            every = [more for other, more in asks if other == form]
            if before < sum(every) > count:
                found = before
                words = (
                    f"{sum(every)} are requested by {count_text(len(every), 'pod')} of its"
                    " gang together"
                )
            return (
                f"of the devices that its claim selects ({form.label}) node `{machine}` has"
                f" {found} free, and {words}"
            )
        for device in some[:count]:
            free.remove(device)
    return ""


def _most_alike(form: DeviceForm, able: Iterable[Device]) -> list[Device]:
    """Of devices that a form may have, the most that have in common what it says."""
    return max(dra.alike(able, form.alike).values(), key=len, default=[])


def _selects_some(form: DeviceForm, devices: Iterable[Device]) -> bool:
    """Whether of devices of one sort some are as asked for, and others are not."""
    found = dict[tuple[str, str], set[bool]]()
    for one in devices:
        found.setdefault((one.gpu_type, one.profile), set()).add(form.holds(one))
    return any(len(answers) > 1 for answers in found.values())


def _is_older(row: DeviceClaim, known: DeviceClaim) -> bool:
    """Whether a watch tells what an answer has shown to be past."""
    told, had = row.version, known.version
    return row.uid == known.uid and told.isdecimal() and had.isdecimal() and int(told) < int(had)


def _natural(name: str) -> tuple[int, str]:
    """`gpu-2` before `gpu-10`."""
    return len(name), name
