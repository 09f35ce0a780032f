"""What the scheduler knows of a cluster: nodes, pods by job, and what changed since it last looked.

It is told of every object that comes, changes or goes (``watching.mirror``), and remembers what has
to be looked at again, so that a look costs what changed. Binds that the server has taken and the
watch has not shown yet are taken as done.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import cluster, groups, jobs, parts
from tidemill.live.kubernetes.budgets import Budget
from tidemill.live.kubernetes.cluster import OwnerKey
from tidemill.live.kubernetes.dra import DeviceClaim, DeviceClass, DeviceId, DeviceSlice
from tidemill.live.kubernetes.groups import PodGroup
from tidemill.live.kubernetes.jobs import KubeJob, TeamRule, UnitKey
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.parts import MachinePart
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import claimed, extras, hosts, pod_news, shapes
from tidemill.live.kubernetes.scheduling.apart import MembersApart
from tidemill.live.kubernetes.scheduling.awaiting import AwaitedOwners
from tidemill.live.kubernetes.scheduling.claiming import ClaimedPods
from tidemill.live.kubernetes.scheduling.extras import ExtraShare
from tidemill.live.kubernetes.scheduling.ordered import OrderedNodes
from tidemill.live.kubernetes.scheduling.ruled import RuledPods, names
from tidemill.live.kubernetes.scheduling.volumes import Volume, VolumeBook, VolumeClaim
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.model.rows import Shape

Key = tuple[str, str]
"""Namespace and name of an object."""


class PodUnit(NamedTuple):
    """Pods that are one job of ours, as the cluster shows them now."""

    key: UnitKey
    job: KubeJob
    pods: tuple[KubePod, ...]


class ClusterView:
    """A cluster, by what changes; ``scheduler``: the name by which pods ask for us."""

    _has_looked = False
    """Whether all that there was in the beginning was looked at."""

    def __init__(self, scheduler: str, team_by: str = "namespace") -> None:
        self.scheduler = scheduler
        self.machines: dict[str, KubeNode] = {}
        self.nodes: dict[str, KubeNode] = {}
        """Machines, or their parts, by what the journal calls them."""
        self._parts_of: dict[str, tuple[KubeNode, ...]] = {}
        """By machine: its parts, the one for pods without accelerators first."""
        self.pods: dict[Key, KubePod] = {}
        self._gone: dict[Key, KubePod] = {}
        """Pods that are gone and were not looked at since."""
        self._units: dict[UnitKey, dict[Key, None]] = {}
        self._unit_of: dict[Key, UnitKey] = {}
        self._owned: dict[tuple[str, str, str], dict[Key, None]] = {}
        """Pods of ours by namespace, kind and name of their owner."""
        self.on_node: dict[str, dict[Key, None]] = {}
        self.crowded: dict[str, None] = {}
        """Machines with as many pods, over or not, as their kubelet takes."""
        self.vacations = Counter[str]()
        """How often a pod on a machine left or changed, or the machine itself did."""
        self._assumed: dict[str, str] = {}
        """By uid: the node that a pod was bound to, until the watch shows it."""
        self.sent: dict[str, str] = {}
        """By uid: the node that a pod is being bound to; whoever sends keeps it."""
        self.volumes, self.ordered = VolumeBook(), OrderedNodes(self.machines)
        self.claimed = ClaimedPods(self.pods, self._take_pod, self.touch, self._cut)
        self.claimed.may_use, self.claimed.job_of = self._may_use, self._unit_of_or_key
        self._budgets: dict[str, dict[str, Budget]] = {}
        """By namespace and name."""
        self.dirty_budgets: set[str] = set()
        """Namespaces whose budgets changed."""
        self._beyond: dict[Key, UnitKey] = {}
        """Pods beyond what their group needs to start: each is a job of its own."""
        self.apart = MembersApart()
        self._groups_of: dict[tuple[str, ...], tuple[PodGroup, ...]] = {}
        self._below: dict[tuple[str, str, str], dict[OwnerKey, tuple[PodTemplate, ...]]] = {}
        """By namespace, kind and name: what the objects that it owns want."""
        self.served: dict[tuple[str, str], ServedKind] = {}
        """By group and kind: where owners of that kind are."""
        self._extras: dict[ExtraShare, None] = {}
        """What was requested of other resources so far: machines are labelled by it."""
        self.awaited = AwaitedOwners()
        self.heeds_scales = False
        """Whether the scale of their owner makes jobs elastic."""
        self.ruled = RuledPods()
        self.cluster = cluster.empty()
        self._rule = TeamRule(team_by, self.cluster)
        self.dirty_nodes: dict[str, None] = {}
        self.dirty_units: dict[UnitKey, None] = {}
        self.dirty_foreign: dict[Key, None] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called when there is something to look at."""

    # What happens -------------------------------------------------------------------------------

    def take(self, kind: ServedKind, key: Key, row: Any, is_gone: bool) -> None:  # noqa: ANN401 - what readers make
        """An object came, changed or is gone."""
        match row:
            case KubePod():
                self._take_pod(key, row, is_gone=is_gone)
            case KubeNode():
                self._take_node(row, is_gone=is_gone)
            case DeviceSlice() | DeviceClass() | DeviceClaim():
                self._take_device(row, is_gone=is_gone)
            case VolumeClaim() | Volume():
                self.volumes.take(row, is_gone=is_gone)
                for one in list(self.ruled.with_volumes):
                    self.touch(one)
            case OwnerObject():
                self.served[kind.group, kind.kind] = kind
                self._take_owner(row, is_gone=is_gone)
            case Budget():
                self._take_budget(key, row, is_gone=is_gone)
            case PodGroup():
                self._take_groups((*key, kind.group), (row,), is_gone=is_gone)
            case list() if row and all(isinstance(one, PodGroup) for one in row):
                self._take_groups((*key, kind.group), row, is_gone=is_gone)
            case _:
                self._take_named(kind.kind, key, row, is_gone=is_gone)

    def _take_named(self, kind: str, key: Key, row: Any, *, is_gone: bool) -> None:  # noqa: ANN401
        """What is only looked up by name."""
        match kind, row:
            case "PriorityClass", (str(), int()):
                self._put(self.cluster.priorities, row[0], row[1], is_gone=is_gone)
            case "Namespace", (str(), dict()):
                is_new = self.cluster.namespaces.get(row[0]) != row[1]
                self._put(self.cluster.namespaces, row[0], row[1], is_gone=is_gone)
                if is_new and not is_gone:
                    self._look_at(row[0])
            case "LocalQueue", _:
                is_new = self.cluster.local_queues.get(key) != row
                self._put(self.cluster.local_queues, key, row, is_gone=is_gone)
                if is_new:
                    self._look_at(key[0])
            case (("ConfigMap" | "NodeClaim"), _):
                self.ordered.take(row, is_gone=is_gone)

    def _take_device(
        self, row: DeviceSlice | DeviceClass | DeviceClaim, *, is_gone: bool
    ) -> None:  # fmt: skip
        match row:
            case DeviceSlice():
                self.claimed.take_slice(row, is_gone=is_gone)
            case DeviceClass():
                if self.claimed.take_class(row, is_gone=is_gone):
                    self.look_at_all()
            case DeviceClaim():
                self.take_claim(row, is_gone=is_gone)

    def assume(self, uid: str, key: Key, node: str) -> None:
        """The server has bound a pod to a node, or says that it is bound there.

        Nobody is told to look: whoever sent the bind says when all answers about the job are there.
        """
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or pod.node:
            return
        self._assumed[uid] = node
        row = self.pods[key] = replace(pod, node=node)
        self._sit(key, node)
        self._stir(key, row, is_gone=False)
        if self.dirty_units:
            self.changed()

    def take_claim(self, row: DeviceClaim, *, is_gone: bool = False) -> None:
        """A claim, or a template of claims, is so now."""
        book, key = self.claimed.book, (row.namespace, row.name)
        before = book.claims.get(key)
        had = set[str]() if before is None else book.machines_of(before)
        for owner in self.claimed.take_claim(row, is_gone=is_gone):
            self._take_owner(owner, is_gone=False)
        now = book.claims.get(key)
        for machine in had - (book.machines_of(now) if now is not None else set()):
            self.vacations[machine] += 1
            self.dirty_nodes.update((part.name, None) for part in self.parts_on(machine))
            self.changed()

    def touch(self, key: Key) -> None:
        """Look at a pod again."""
        if (pod := self.pods.get(key)) is not None:
            self._touch(key, pod)

    def look_at_all(self) -> None:
        """Look at everything again."""
        for key in [key for key, pod in self.pods.items() if self.is_ours(pod)]:
            self._file(key, self.pods[key])
        self.dirty_nodes.update(dict.fromkeys(self.nodes))
        self.dirty_units.update(dict.fromkeys(self._units))
        here = ((key, None) for key, pod in self.pods.items() if not self.is_ours(pod) and pod.node)
        self.dirty_foreign.update(here)
        self.changed()

    @property
    def is_changed(self) -> bool:
        """Whether there is something to look at."""
        return bool(
            self.dirty_nodes or self.dirty_units or self.dirty_foreign or self.dirty_budgets
            or self.claimed.is_due
        )  # fmt: skip

    # What is asked ------------------------------------------------------------------------------

    def _may_use(self, pod: KubePod, machine: str) -> bool:
        """Whether the labels of a machine let a pod be there; ``pod``: as the cluster has it."""
        row = self.machines.get(machine)
        return row is not None and pod.request.selects(row.labels)

    def _unit_of_or_key(self, key: Key) -> UnitKey | Key:
        return self._unit_of.get(key, key)

    def is_ours(self, pod: KubePod) -> bool:
        """Whether a pod asks for us."""
        return pod.request.scheduler == self.scheduler

    def pod(self, key: Key) -> KubePod | None:
        """A pod as it is now, or as it ended if nobody has looked since; None: nobody knows it."""
        return self.pods.get(key) or self._gone.get(key)

    def unit(self, key: UnitKey) -> PodUnit:
        """The pods of a job of ours, and what it requests in all."""
        pods = self.unit_pods(key)
        every = pods
        if others := self.apart.without_gpus(key):
            every = [*pods, *(self.pods[one] for one in others if one in self.pods)]
        return PodUnit(key, jobs.job_of(self.cluster, self._rule, key, every, None), tuple(pods))

    def unit_pods(self, key: UnitKey) -> list[KubePod]:
        """The pods of a job of ours."""
        now, gone = self.pods, self._gone  # one of its name may be another scheduler's by now
        both = ((now.get(one), gone.get(one)) for one in self._units.get(key, ()))
        mine = (pod if pod is not None and self.is_ours(pod) else last for pod, last in both)
        return [pod for pod in mine if pod is not None]

    def all_pods(self, key: UnitKey) -> list[KubePod]:
        """The pods of a job, whoever places them, with GPUs or without."""
        near = (pod for pod in self.pods.values() if pod.namespace == key.namespace)
        return [pod for pod in near if jobs.unit_of(self.cluster, pod) == key]

    def is_on_nodes(self, key: UnitKey) -> bool:
        """Whether a pod of a job of ours is bound."""
        return any(pod.node and not pod.is_over for pod in self.unit_pods(key))

    def pods_on(self, machine: str) -> list[KubePod]:
        """The pods of a machine, whoever placed them."""
        here = self.on_node.get(machine, ())
        return [pod for key in here if (pod := self.pods.get(key)) is not None]

    def parts_on(self, machine: str) -> tuple[KubeNode, ...]:
        """What a machine is cut into."""
        return self._parts_of.get(machine, ())

    def units(self) -> Iterable[UnitKey]:
        """All jobs of ours that have pods."""
        return self._units

    def unit_of(self, key: Key) -> UnitKey | None:
        """The job that a pod of ours belongs to."""
        return self._unit_of.get(key)

    def place_of(self, pod: KubePod) -> str:
        """The node, or the part of one, that a pod sits on."""
        wanted = pod.request.gpu.resource if pod.request.gpu is not None else ""
        mine = self._parts_of.get(pod.node, ())
        if len(mine) == 1:
            return mine[0].name
        able = [part for part in mine if wanted in part.capacity]
        if len(able) > 1:  # by claim: there where its devices are
            given = claimed.given_to(self.claimed.book, pod)
            able.sort(key=lambda part: given.isdisjoint(self.devices_at(part.name)))
        return (able or mine)[0].name if mine else pod.node

    def devices_at(self, place: str) -> tuple[DeviceId, ...]:
        """The devices of a part that are given out by claims, in their order; else none."""
        part = self.nodes.get(place)
        return part.ids if isinstance(part, MachinePart) else ()

    def mask_of(self, pod: KubePod) -> int:
        """The devices that the claims of a pod hold where it sits; 0: nobody says which."""
        ids = self.devices_at(self.place_of(pod))
        if not ids:
            return 0
        given = claimed.given_to(self.claimed.book, pod)
        return sum(1 << bit for bit, one in enumerate(ids) if one in given)

    def shape_of(self, pod: KubePod) -> Shape:
        """What a pod that is not ours holds, of which team it is and what for."""
        ruled = jobs.RuledJob(jobs.unit_of(self.cluster, pod), (pod.labels,), (pod,))
        team = self._rule.team(ruled, "")
        return shapes.of_pod(pod, team, jobs.class_of(self.cluster, self._rule, ruled))

    def budgets_of(self, namespace: str) -> tuple[Budget, ...]:
        """The disruption budgets of a namespace."""
        return tuple(self._budgets.get(namespace, {}).values())

    def set_beyond(self, key: Key, unit: UnitKey | None) -> None:
        """Let a pod of a group be a job of its own; None: a part of its group again."""
        if unit is None:
            self._beyond.pop(key, None)
        else:
            self._beyond[key] = unit
        if (pod := self.pods.get(key)) is not None:
            self._touch(key, pod)
            self._file(key, pod)

    def beyond(self, unit: UnitKey) -> list[Key]:
        """Pods of a group that are jobs of their own."""
        return [key for key, of in self._beyond.items() if of == unit and key in self.pods]

    def beyond_of(self, key: Key) -> UnitKey | None:
        """The group of a pod that is a job of its own."""
        return self._beyond.get(key)

    def looked(self) -> None:
        """Everything was looked at: what is gone is forgotten."""
        self._has_looked = True
        for key in self._gone:
            if key not in self.pods or not self.is_ours(self.pods[key]):
                self._unfile(key)
                self._beyond.pop(key, None)
        if self._gone:
            self.awaited.forget_gone(self.pods)
        self._gone.clear()

    # One kind each ------------------------------------------------------------------------------

    def _take_pod(self, key: Key, row: KubePod, *, is_gone: bool) -> None:
        if row.request.claims and self.is_ours(row):
            row = self.claimed.with_claims(key, row, is_gone=is_gone)
        elif row.own_claim is not None:
            row = self.claimed.with_own(key, row, is_gone=is_gone)
        if row.node and self.sent.get(row.uid) == row.node:
            self.assume(row.uid, key, row.node)  # the watch was quicker than the answer
        before = self.pods.get(key)
        assumed = self._assumed.get(row.uid)
        if assumed is not None:
            if row.node or row.is_over or is_gone:
                del self._assumed[row.uid]
            else:
                row = replace(row, node=assumed)
        if before is not None and before.uid != row.uid and not is_gone:
            self._gone[key] = before.deleted(row.created_ms)
        if is_gone:
            self._gone[key] = row
            before = self.pods.pop(key, None) or before
            self._stand_apart(key, row, is_gone=True)
            self._unplace(key, before)
            self._touch(key, row)
            self._stir(key, row, is_gone=True)
            return
        self._index(key, before, row)

    def _index(self, key: Key, before: KubePod | None, row: KubePod) -> None:
        """Keep a pod, and remember to look at it if anything that counts here is new."""
        self.pods[key] = row
        if before is not None and pod_news.is_same(before, row):
            return
        self._unplace(key, before)
        if row.node:
            self._sit(key, row.node)
        if self.is_ours(row):
            self._file(key, row)
        self._stand_apart(key, row, is_gone=False)
        self._touch(key, row)
        self._stir(key, row, is_gone=False)

    def _stand_apart(self, key: Key, pod: KubePod, *, is_gone: bool) -> None:
        """Look again at the gang that a pod names and is no part of, as it is counted there."""
        unit = None if groups.of_pod(pod) is None else jobs.unit_of(self.cluster, pod)
        is_apart = unit is not None and not is_gone
        is_apart = is_apart and (pod.request.gpu is None or not self.is_ours(pod))
        is_tied = is_apart and self.is_ours(pod) and hosts.is_tied(self.cluster, pod)
        for one in self.apart.take(key, pod, unit if is_apart else None, is_tied=is_tied):
            if one in self._units:
                self.dirty_units[one] = None
                self.changed()

    def _stir(self, key: Key, pod: KubePod, *, is_gone: bool) -> None:
        """Look again at jobs whose rules name a pod, and at those that its rules name."""
        if self._extras and pod.request.extras and (machine := self.machines.get(pod.node)):
            count = extras.units(self._parts_of.get(pod.node, ()))
            if extras.taken_apart(machine, count, (pod,)):
                self._cut(pod.node)
        is_ours = self.is_ours(pod)
        if self.ruled.take(key, pod, is_ours=is_ours, is_gone=is_gone):
            self.dirty_units.update(dict.fromkeys(self._units))
        for unit in self.ruled.named_by(pod):
            if any(one.is_pending and names(one, pod) for one in self.unit_pods(unit)[:1]):
                self.dirty_units[unit] = None

    def _sit(self, key: Key, machine: str) -> None:
        self.on_node.setdefault(machine, {})[key] = None
        self._count(machine)

    def _count(self, machine: str) -> None:
        row, here = self.machines.get(machine), self.on_node.get(machine, ())
        if row is not None and row.most_pods is not None and len(here) >= row.most_pods:
            self.crowded[machine] = None
        elif self.crowded:
            self.crowded.pop(machine, None)

    def _unplace(self, key: Key, before: KubePod | None) -> None:
        if before is not None and before.node:
            self.vacations[before.node] += 1
            here = self.on_node.get(before.node, {})
            here.pop(key, None)
            if not here:
                self.on_node.pop(before.node, None)
            if before.node in self.crowded:
                self._count(before.node)

    def _touch(self, key: Key, pod: KubePod) -> None:
        if self.is_ours(pod):
            self.dirty_units[self._unit_of.get(key) or self._file(key, pod)] = None
        elif pod.node:
            self.dirty_foreign[key] = None
        else:
            return
        self.changed()

    def _file(self, key: Key, pod: KubePod) -> UnitKey:
        """Which job a pod of ours belongs to; pods without GPUs are placed one by one, if they may
        be elsewhere than their gang.
        """
        is_single = pod.request.gpu is None and not hosts.is_tied(self.cluster, pod)
        is_single = is_single or key in self._beyond
        unit = jobs.alone(pod) if is_single else jobs.unit_of(self.cluster, pod)
        before = self._unit_of.get(key)
        if before is not None and pod.node and self._has_looked and jobs.regroups(before, unit):
            unit = before  # what runs goes on as it started, whatever becomes of its group
        if before != unit:
            self._unfile(key)
            self._unit_of[key] = unit
            self._units.setdefault(unit, {})[key] = None
            self.dirty_units[unit] = None
            if pod.request.near:
                self.ruled.file(unit, pod)
            if pod.owner is not None:
                owner = (pod.namespace, pod.owner.kind, pod.owner.name)
                self._owned.setdefault(owner, {})[key] = None
        return unit

    def _unfile(self, key: Key) -> None:
        unit = self._unit_of.pop(key, None)
        if unit is None:
            return
        mine = self._units.get(unit, {})
        mine.pop(key, None)
        if not mine:
            self._units.pop(unit, None)
            self.ruled.unfile(unit)
        self.dirty_units[unit] = None
        pod = self.pod(key)
        if pod is not None and pod.owner is not None:
            owner = (pod.namespace, pod.owner.kind, pod.owner.name)
            here = self._owned.get(owner, {})
            here.pop(key, None)
            if not here:
                self._owned.pop(owner, None)

    def _take_node(self, row: KubeNode, *, is_gone: bool) -> None:
        if is_gone or self.machines.get(row.name) != row:
            self.vacations[row.name] += 1
        self._put(self.machines, row.name, row, is_gone=is_gone)
        self._count(row.name)
        self._cut(row.name)

    def _cut(self, machine: str) -> None:
        """Find the parts of a machine, and remember to look at those that are others now."""
        row = self.machines.get(machine)
        before = {part.name: part for part in self._parts_of.pop(machine, ())}
        made = () if row is None else parts.of_node(row, self.claimed.book.groups(machine))
        if row is not None and self._extras:
            made = self._with_extras(row, made)
        now = {part.name: part for part in made}
        if now:
            self._parts_of[machine] = tuple(now.values())
        for name in before.keys() - now.keys():
            del self.nodes[name]
        self.nodes.update(now)
        news = [*parts.each_changed(before, now)]
        self.dirty_nodes.update(dict.fromkeys(news))
        if news and (before.keys() != now.keys() or any(map(self.devices_at, news))):
            for key in self.on_node.get(machine, ()):  # it may sit on another part, or device
                self.touch(key)
        if news:
            self.changed()

    def heed_extras(self, wanted: Iterable[ExtraShare]) -> set[str]:
        """Label machines by what jobs request of other resources; all such labels."""
        news = [one for one in wanted if one not in self._extras]
        self._extras.update(dict.fromkeys(news))
        for machine in list(self.machines) if news else ():
            self._cut(machine)
        return {one.label for one in self._extras}

    def _with_extras(self, machine: KubeNode, made: Sequence[KubeNode]) -> list[KubeNode]:
        """Parts of a machine with what it has of other resources, as labels."""
        here = (self.pods.get(key) for key in self.on_node.get(machine.name, ()))
        pods, count = [p for p in here if p is not None and not p.is_over], extras.units(made)
        taken = extras.taken_apart(machine, count, pods)
        told = extras.enough_for(machine, count, taken, self._extras)
        return [replace(part, labels={**part.labels, **told}) for part in made]

    def _take_owner(self, row: OwnerObject, *, is_gone: bool) -> None:
        key: OwnerKey = (row.group, row.kind, row.namespace, row.name)
        row = self.claimed.with_templates(key, row, is_gone=is_gone)
        owners: Any = self.cluster.owners
        before = owners.get(key)
        if before == row:
            return
        is_sized = before is not None and before.scale != row.scale
        is_sized |= self.heeds_scales and before is None
        is_sized |= before is not None and before.annotations != row.annotations
        self._put(owners, key, row, is_gone=is_gone)
        if row.owner is not None:
            self._take_part(key, row, is_gone=is_gone)
        named = (row.namespace, row.kind, row.name)
        awaited = self.awaited.came(*named)
        for pod in {**self._owned.get(named, {}), **awaited}:
            if pod in self.pods:
                unit = self._file(pod, self.pods[pod])
                if is_sized or pod in awaited:
                    self.dirty_units[unit] = None
                    self.changed()
        units = [UnitKey(row.namespace, row.group, row.kind, row.name)]
        if row.owner is not None:
            above = row.owner
            units.append(UnitKey(row.namespace, above.group, above.kind, above.name))
        for unit in units:
            if unit in self._units:
                self.dirty_units[unit] = None
                self.changed()

    def _take_part(self, key: OwnerKey, row: OwnerObject, *, is_gone: bool) -> None:
        """What an object above another one wants in all."""
        assert row.owner is not None, "it has one"
        parts: Any = self.cluster.parts
        above = (row.namespace, row.owner.kind, row.owner.name)
        below = self._below.setdefault(above, {})
        self._put(below, key, row.templates, is_gone=is_gone or not row.templates)
        parts[above] = tuple(one for templates in below.values() for one in templates)
        if not below:
            del self._below[above], parts[above]

    def _take_budget(self, key: Key, row: Budget, *, is_gone: bool) -> None:
        here = self._budgets.setdefault(key[0], {})
        if here.get(key[1]) == row and not is_gone:
            return
        self._put(here, key[1], row, is_gone=is_gone)
        self.dirty_budgets.add(key[0])
        self.changed()

    def _take_groups(
        self, key: tuple[str, ...], rows: Iterable[PodGroup], *, is_gone: bool
    ) -> None:
        known: Any = self.cluster.groups
        before = self._groups_of.pop(key, ())
        rows = () if is_gone else tuple(rows)
        if tuple(before) == rows and rows:
            self._groups_of[key] = rows
            return
        for one in before:
            known.pop(one.key, None)
        known.update((one.key, one) for one in rows)
        if rows:
            self._groups_of[key] = rows
        self._look_at(key[0])  # groups are seldom, and pods name them in many ways
        for at in [at for at in self._unit_of if at[0] == key[0]]:
            pod = self.pods.get(at)
            if pod is None or groups.of_pod(pod) is None:
                continue
            if pod.request.gpu is None:
                self._stand_apart(at, pod, is_gone=False)
            if pod.request.gpu is None or jobs.is_of_job(pod):
                self._file(at, pod)

    def _look_at(self, namespace: str) -> None:
        """Look again at all jobs of ours in a namespace."""
        self.dirty_units.update({one: None for one in self._units if one.namespace == namespace})
        self.changed()

    @staticmethod
    def _put(known: Any, key: Any, row: Any, *, is_gone: bool) -> None:  # noqa: ANN401
        if is_gone:
            known.pop(key, None)
        else:
            known[key] = row
