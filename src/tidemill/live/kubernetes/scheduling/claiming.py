"""Pods of ours that ask for devices by claim, kept up with their claims; and claims of others.

What a pod requests is read again whenever a claim, a template or a class that it names changes.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Protocol

from tidemill.live.kubernetes.cluster import OwnerKey
from tidemill.live.kubernetes.dra import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceId,
    DeviceSlice,
)
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import claimed
from tidemill.live.kubernetes.scheduling.claims import TEMPLATE, ClaimBook, Key
from tidemill.live.kubernetes.scheduling.partitions import Partitions, PodWants, Shelves


class TakePod(Protocol):
    """Keeps a pod that came, changed or is gone."""

    def __call__(self, key: Key, row: KubePod, *, is_gone: bool) -> None: ...


class ClaimedPods:
    """Claims, by who uses them; ``pods``: all that there are, with what claims ask for."""

    def __init__(
        self,
        pods: dict[Key, KubePod],
        take_pod: TakePod,
        touch: Callable[[Key], None],
        cut: Callable[[str], None],
    ) -> None:
        self._pods, self._take_pod, self._touch, self._cut = pods, take_pod, touch, cut
        self.book = ClaimBook()
        self.partitions = Partitions()
        self.book.is_offered, self.book.is_shared = self._is_offered, self._is_shared
        self.is_due = False
        """Whether what is offered of devices that share counters has to be looked at."""
        self.giving: Callable[[], tuple[set[str], set[DeviceId]]] = lambda: (set(), set())
        """Pods that are being given devices, by uid, and those devices."""
        self.may_use: Callable[[KubePod, str], bool] = lambda _, __: True
        """Whether a pod may be on a machine."""
        self.job_of: Callable[[Key], object] = lambda key: key
        """What a pod is a part of."""
        self.comes_first: Callable[[Any], bool] = lambda _: False
        """Whether others left for a job: it is served before all who are older."""
        self._told: dict[Key, KubePod] = {}
        """Pods of ours with claims, as the cluster has them."""
        self._told_owners: dict[OwnerKey, OwnerObject] = {}
        """The same of objects that make such pods."""
        self._users: dict[Key, dict[Key, None]] = {}
        """By claim or template: the pods of ours that name it."""
        self._labelled = 0
        self._ours: dict[str, Key] = {}
        """Pods of ours with claims, by uid; those that are gone as long as a claim names them."""
        self._shown: dict[Key, tuple[Key, ...]] = {}
        """By claim of others: the pods that stand for it."""
        self._promised: dict[Key, None] = {}
        """Claims that were allocated for a pod of ours which was not bound when that was seen."""
        self._own: dict[Key, tuple[Key, KubePod]] = {}
        """By claim that was made for extended resources of a pod: that pod, as the cluster has it.
        """

    def take_slice(self, row: DeviceSlice, *, is_gone: bool) -> None:
        """A slice came, changed or is gone."""
        for machine in sorted(self.book.take_slice(row, is_gone=is_gone)):
            self.partitions.offered.pop(machine, None)
            self._cut_up(machine)
        self._choose_anew()
        self._note()

    def take_class(self, row: DeviceClass, *, is_gone: bool) -> bool:
        """A class came, changed or is gone; whether it gives out other extended resources now."""
        before = self.book.extended
        self.book.take_class(row, is_gone=is_gone)
        self._resolve(self._told)
        self._note()
        return before != self.book.extended

    def take_claim(self, row: DeviceClaim, *, is_gone: bool) -> list[OwnerObject]:
        """A claim, or a template of claims, is so now; owners whose pods ask for something else."""
        key = (row.namespace, row.name)
        before = self.book.take_claim(row, is_gone=is_gone)
        now = self.book.claims.get(key)
        if before == now:
            return []
        self._note()
        self._choose_anew()
        self._resolve(self._users.get(key, ()))
        self._look_at(key)
        devices = before.allocated if before is not None else ()
        for heir in {self.book.holder.get(one, key) for one in devices} - {key}:
            self._look_at(heir)
        for uid in before.reserved if before is not None else ():
            if self._ours.get(uid) not in self._told and uid not in (now.reserved if now else ()):
                self._ours.pop(uid, None)
        is_template = key[1].startswith(TEMPLATE)
        owners = self._told_owners.values() if is_template else ()
        return [one for one in owners if one.namespace == key[0]]

    def with_claims(self, key: Key, row: KubePod, *, is_gone: bool) -> KubePod:
        """A pod of ours with what its claims ask for."""
        self._note()
        names = [*claimed.named(row)]
        shared = {name for name in names if self._is_shared(name)}
        self._told.pop(key, None)
        for name in names:
            users = self._users.setdefault(name, {})
            users.pop(key, None)
            if not is_gone:
                users[key] = None
            elif not users:
                del self._users[name]
        if not is_gone:
            self._told[key] = row
        for name in names:
            if self._is_shared(name) != (name in shared):
                self._resolve(other for other in self._users.get(name, ()) if other != key)
        is_news = row.uid not in self._ours
        self._ours.setdefault(row.uid, key)
        mine = self.book.of_pod(row)
        if is_gone and not any(row.uid in claim.reserved for claim in mine):
            self._ours.pop(row.uid, None)
        for claim in mine if is_news else ():
            self._show((claim.namespace, claim.name))
        found = self.book.resolved(row)
        self._label_machines()
        return found

    def with_own(self, key: Key, row: KubePod, *, is_gone: bool) -> KubePod:
        """A pod with a claim of its own for extended resources, with what that was given."""
        assert row.own_claim is not None, "it has one"
        claim = (row.namespace, row.own_claim.name)
        self._own.pop(claim, None)
        if not is_gone:
            self._own[claim] = key, row
        self._show(claim)
        return claimed.with_own(self.book, row)

    def look(self) -> bool:
        """Offer devices that share counters by what waits now; whether that had to be done."""
        if not self.is_due:
            return False
        self.is_due = False
        machines, pods = self.partitions.look(self.book, self._waiting(), self.giving()[1])
        for machine in machines:
            self._cut_up(machine)
        for key in pods:
            self._touch(key)
        return True

    def wants(self, pods: Iterable[KubePod], *, is_held: bool = False) -> list[PodWants]:
        """What pods of ours wait for by claim, of those that do; or what they hold."""
        found = list[PodWants]()
        for pod in pods:
            key = (pod.namespace, pod.name)
            told = self._told.get(key, pod)
            if asks := self.book.asks_of(told, is_held=is_held):
                found.append(PodWants(key, asks, partial(self.may_use, told)))
        return found

    def shelves(self, freed: AbstractSet[DeviceId], machines: Iterable[str]) -> Shelves:
        """What could be offered of some machines if these devices were given back."""
        held = self.giving()[1] | self.book.holder.keys()
        return self.partitions.shelves(self.book, held - freed, machines)

    def short_of(self, machine: str, pods: Sequence[KubePod], *, of_held: bool = False) -> str:
        """That too few devices are left of those that pods select by claim; "": enough.

        ``of_held``: what is on its way to other pods is left, until claims hold it.
        """
        if not any(pod.request.claims for pod in pods):
            return ""
        sending, giving = self.giving()
        left = {one for claim in self.stale() if sending.isdisjoint(claim.reserved)
                for one in claim.allocated}  # fmt: skip
        taken = self.book.holder.keys() - left
        return self.book.short_of(machine, pods, taken if of_held else taken | giving)

    def lack_of(self, pods: Iterable[KubePod]) -> str:
        """Which counter is too little for one of these pods; "": none."""
        lacks = self.partitions.lacks
        if not lacks:
            return ""
        return next(filter(None, (lacks.get((p.namespace, p.name), "") for p in pods)), "")

    def _is_shared(self, claim: Key) -> bool:
        """Whether several pods of ours name a claim; those of a template have one each."""
        users = () if claim[1].startswith(TEMPLATE) else self._users.get(claim, ())
        return sum(not self._told[key].is_over for key in users if key in self._told) > 1

    def _note(self) -> None:
        self.is_due = self.is_due or self.book.has_counters

    def _is_offered(self, machine: str, device: Device) -> bool:
        offered = self.partitions.offered
        if device.consumes and machine not in offered:  # nobody waits for any of them yet
            offered[machine] = Partitions().of_machine(self.book, machine)
        return not device.consumes or device.id in offered[machine]

    def _waiting(self) -> list[list[PodWants]]:
        """Pods that wait for devices, by job: for whom others left, then the oldest first."""
        sending, _ = self.giving()
        found = dict[object, list[PodWants]]()
        for key, pod in sorted(self._told.items(), key=lambda one: (one[1].created_ms, one[0])):
            now = self._pods.get(key)
            if now is None or not now.is_pending or pod.gates or pod.uid in sending:
                continue
            if wants := self.wants([pod]):
                found.setdefault(self.job_of(key), []).extend(wants)
        first = sorted(found, key=self.comes_first, reverse=True)
        return [found[job] for job in first]

    def with_templates(self, key: OwnerKey, row: OwnerObject, *, is_gone: bool) -> OwnerObject:
        """An owner with what the claims of its pods will ask for."""
        self._told_owners.pop(key, None)
        if not any(part.request.claims for part in row.templates):
            return row
        if not is_gone:
            self._told_owners[key] = row
        found = claimed.with_templates(self.book, row)
        self._label_machines()
        return found

    def stale(self) -> list[DeviceClaim]:
        """Claims that are allocated for pods of ours alone, none of which is bound."""
        found = list[DeviceClaim]()
        for key in list(self._promised):
            claim = self.book.claims.get(key)
            users = claim.reserved if claim is not None else ()
            pods = [self._pods.get(self._ours.get(uid, key)) for uid in users]
            waits = {pod.uid for pod in pods if pod is not None and pod.is_pending}
            if claim is None or not users or waits != {*users}:
                del self._promised[key]
            else:
                found.append(claim)
        return found

    def _show(self, key: Key) -> None:
        """Let pods stand for a claim of others, or none if it is ours, or not allocated."""
        claim = self.book.claims.get(key)
        shown = claimed.as_pods(self.book, claim, self._ours) if claim is not None else {}
        _, own = self._own.get(key, (key, None))
        if claim is not None and own is not None and claimed.held_alone(self.book, claim, own):
            shown = {}
        for name in self._shown.pop(key, ()):
            if name not in shown and (pod := self._pods.get(name)) is not None:
                self._take_pod(name, pod.deleted(pod.created_ms), is_gone=True)
        for name, pod in shown.items():
            self._take_pod(name, pod, is_gone=False)
            self._touch(name)
        if shown:
            self._shown[key] = tuple(shown)
        if claim is not None and claim.reserved and not shown and own is None:
            self._promised[key] = None

    def _look_at(self, key: Key) -> None:
        """A claim is another, or another part of a machine's: who has it is looked at."""
        pod, row = self._own.get(key, (key, None))
        if row is None:
            self._show(key)
        else:
            self._take_pod(pod, row, is_gone=False)
            self._touch(pod)

    def _choose_anew(self) -> None:
        """Where claims leave a choice, pods that wait may ask for something else now."""
        if self.book.choose_anew():
            self._resolve(key for key, pod in self._told.items() if pod.is_pending)

    def _resolve(self, keys: Iterable[Key]) -> None:
        """Read again what pods ask for by claims that are others now, and what they hold."""
        for key in list(keys):
            if (row := self._told.get(key)) is not None:
                self._take_pod(key, row, is_gone=False)
                self._touch(key)

    def _label_machines(self) -> None:
        """Label machines by what was asked for since they were last labelled."""
        if len(self.book.forms) != self._labelled:
            self._labelled = len(self.book.forms)
            for machine in list(self.book.machines()):
                self._cut_up(machine)

    def _cut_up(self, machine: str) -> None:
        """Find the parts of a machine, and on which of them the claims of others sit."""
        self._cut(machine)
        for claim in sorted(self.book.holders_on(machine)):
            self._look_at(claim)
