"""Everything that the files of a cluster hold, read once and joined by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.history.earlier import EARLIER
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import (
    autoscaler,
    budgets,
    device_parts,
    dra,
    fields,
    groups,
    kai_parts,
    kueue,
    moments,
    nodes,
    owners,
    pods,
    pods_as_made,
    resources,
    shared_claims,
)
from tidemill.live.kubernetes.autoscaler import GroupsNow
from tidemill.live.kubernetes.budgets import Budget
from tidemill.live.kubernetes.device_parts import PublishedDevices
from tidemill.live.kubernetes.dra import DeviceClaim
from tidemill.live.kubernetes.extended import ExtendedResources
from tidemill.live.kubernetes.fields import LATEST_MS, Object
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.kueue import (
    ClusterQueue,
    Cohort,
    Flavor,
    KueueWorkload,
    LocalQueue,
)
from tidemill.live.kubernetes.moments import ToldMoment
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod, Owner, PodRequest
from tidemill.live.kubernetes.resources import GpuRequest
from tidemill.live.kubernetes.selected_devices import SelectedDevices
from tidemill.model.rows import SELECTED

ClaimKey = tuple[str, str]
"""Namespace and name."""
Claims = Mapping[ClaimKey, DeviceClaim]
OwnerKey = tuple[str, str, str, str]
"""API group, kind, namespace and name."""
Read = TypeVar("Read")


class ToldObjects(Protocol):
    """Objects, whoever holds them: files, or a copy of what a cluster has now."""

    def read(self, kind: str, groups: Iterable[str], take: Callable[[Object], Read]) -> list[Read]:
        """What a function makes of each object of a kind; what it cannot read is refused."""


class KubeEvent(Struct, frozen=True):
    """An Event: something that a controller says happened to an object."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    at_ms: int
    first_ms: int
    """Since when it is said in these words."""
    count: int
    """How often."""


class Quota(Struct, frozen=True):
    """A ResourceQuota: what a namespace may request of accelerators, and of what is beside them."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int] = {}
    """What its pods request by now, also those that wait; empty: nobody says."""
    is_of_some: bool = False
    """Whether it is of some pods alone (scopes): of a priority class, with a deadline, …"""
    beside: Mapping[str, float] = {}
    """The most of anything else: pods, cores, bytes of memory, …"""
    beside_used: Mapping[str, float] = {}


class Cluster(Struct, frozen=True, kw_only=True):
    """A cluster as files show it, at one moment."""

    nodes: tuple[KubeNode, ...]
    pods: tuple[KubePod, ...]
    owners: Mapping[OwnerKey, OwnerObject]
    parts: Mapping[tuple[str, str, str], tuple[PodTemplate, ...]]
    """By namespace, kind and name: the pods of all objects that it owns."""
    groups: Mapping[GroupKey, PodGroup]
    workloads: tuple[KueueWorkload, ...]
    cluster_queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    local_queues: Mapping[tuple[str, str], LocalQueue]
    flavors: Mapping[str, Flavor]
    happenings: Mapping[tuple[str, str, str], tuple[KubeEvent, ...]]
    """By kind, namespace and name, the youngest last."""
    quotas: tuple[Quota, ...]
    budgets: tuple[Budget, ...]
    priorities: Mapping[str, int]
    namespaces: Mapping[str, Mapping[str, str]]
    """Their labels."""
    devices: Mapping[tuple[str, str, str], tuple[str, int]]
    """By driver, pool and device (DRA): its node and its number there."""
    claims: Claims
    seen_ms: int
    """The youngest time in any object that is believed (``moments``): about when the files were
    made."""
    earlier: Mapping[OwnerKey, tuple[OwnerObject, ...]] = {}
    """Owners whose name another has by now (``owners``), the oldest first."""
    either: Mapping[str, str] = {}
    """Resources that plug-ins of nodes give out, and claims too (``extended``): as what those are
    counted."""
    end_notes: tuple[str, ...] = ()
    """Times that are younger than that, in words."""
    cut: Mapping[str, int] = {}
    """By node: how many whole GPUs claims (DRA) hold instances of."""
    autoscaler: GroupsNow | None = None
    """What cluster-autoscaler says of its node groups; None: it is not there, or not readable."""

    def owner(self, of: Owner | None, namespace: str) -> OwnerObject | None:
        """The object that owns another, if the files have it.

        One of an earlier time, if it is that one; else what has its name now.
        """
        if of is None:
            return None
        key = (of.group, of.kind, namespace, of.name)
        before = (one for one in self.earlier.get(key, ()) if one.uid == of.uid)
        return next(before, self.owners.get(key))

    def last(self, kind: str, namespace: str, name: str, *reasons: str) -> KubeEvent | None:
        """The youngest event of an object with one of these reasons."""
        for found in reversed(self.happenings.get((kind, namespace, name), ())):
            if found.reason in reasons:
                return found
        return None

    def since_ms(self, event: KubeEvent, words: str) -> int:
        """Since when events with such words tell the same of an object: each try has its own."""
        every = self.happenings.get((event.kind, event.namespace, event.name), ())
        return min(
            (one.first_ms for one in every
             if one.reason == event.reason and words in one.message), default=event.first_ms,
        )  # fmt: skip


def empty() -> Cluster:
    """A cluster of which nothing is known yet."""
    return Cluster(
        nodes=(), pods=(), owners={}, parts={}, groups={}, workloads=(), cluster_queues=(),
        cohorts=(), local_queues={}, flavors={}, happenings={}, quotas=(), budgets=(),
        priorities={}, namespaces={}, devices={}, claims={}, seen_ms=0,
    )  # fmt: skip


def read(told: ToldObjects) -> Cluster:
    """All that is known here of these objects; kinds that are not stay behind."""
    every = [
        row
        for kind, rows in owners.KINDS.items()
        for one in rows
        for group in one.groups
        for row in told.read(kind, (group,), owners.reader(kind, group))
    ]
    slices = told.read("ResourceSlice", (dra.GROUP,), dra.read_slice)
    claims = told.read("ResourceClaim", (dra.GROUP,), dra.read_claim)
    claims += told.read("ResourceClaimTemplate", (dra.GROUP,), dra.read_template)
    claims.sort(key=lambda claim: claim.deleted_ms is None)  # of one name, that which is there
    by_claim = {(claim.namespace, claim.name): claim for claim in claims}
    listed = told.read("Node", ("",), nodes.read)
    classes = told.read("DeviceClass", (dra.GROUP,), dra.read_class)
    published = PublishedDevices(slices, classes, {node.name: node.gpu_type for node in listed})
    asking = _Asking(by_claim, published, ExtendedResources(published.classes, listed, published))
    found, before = _in_turn([asking.with_templates(row) for row in every])
    workloads = told.read("Workload", (kueue.GROUP,), kueue.read_workload)
    all_pods = _one_by_one(told.read("Pod", ("",), pods.read))
    all_pods = asking.with_claims(all_pods)
    happenings = _by_object(told)
    added = pods_as_made.AddedTolerations(all_pods, lambda pod: _made_by(pod, found))
    found = {key: added.with_templates(row) for key, row in found.items()}
    grouped = told.read("PodGroup", groups.DIALECTS, groups.read)
    grouped.sort(key=lambda group: group.deleted_ms is None)  # of one name, that which is there
    for inside in told.read("Workload", (groups.CORE,), groups.read_workload):
        grouped += inside
    all_nodes, all_pods = _by_machine(listed, all_pods)
    all_nodes = _with_slices(all_nodes, published)
    all_pods = kai_parts.with_parts(all_pods, all_nodes)
    all_nodes += _coming(told, all_nodes)
    last = moments.last(all_nodes, all_pods, _told_moments(every, happenings, all_pods))
    told_by = filter(None, told.read("ConfigMap", ("",), autoscaler.read))
    status = max(told_by, key=lambda one: one.probed_ms or 0, default=None)  # of files, the newest
    locals_ = told.read("LocalQueue", (kueue.GROUP,), kueue.read_local_queue)
    return Cluster(
        nodes=tuple(all_nodes), pods=tuple(all_pods), owners=found,
        parts=_parts(found), groups={group.key: group for group in grouped},
        workloads=tuple(added.with_templates(asking.with_templates(one)) for one in workloads),
        cluster_queues=tuple(told.read("ClusterQueue", (kueue.GROUP,), kueue.read_cluster_queue)),
        cohorts=tuple(told.read("Cohort", (kueue.GROUP,), kueue.read_cohort)),
        local_queues={(one.namespace, one.name): one for one in locals_},
        flavors={f.name: f for f in told.read("ResourceFlavor", (kueue.GROUP,), kueue.read_flavor)},
        happenings=happenings,
        quotas=tuple(told.read("ResourceQuota", ("",), _quota)),
        budgets=tuple(told.read("PodDisruptionBudget", ("policy",), budgets.read)),
        priorities=dict(told.read("PriorityClass", ("scheduling.k8s.io",), _priority)),
        namespaces=dict(told.read("Namespace", ("",), _namespace)),
        devices=published.numbers(), claims=by_claim, seen_ms=last.at_ms, earlier=before,
        either=asking.extended.either(), cut=published.cut(claims),
        autoscaler=None if status is None else GroupsNow(status, all_nodes, last.at_ms),
        end_notes=tuple(last.said()),
    )  # fmt: skip


def readers() -> dict[tuple[str, str], Callable[[Object], Any]]:
    """By API group and kind: what is made of each object that ``read`` asks for."""
    found = dict[tuple[str, str], Callable[[Object], Any]]()

    class AskedFor:
        """Holds nothing, and remembers what it was asked for."""

        def read(
            self, kind: str, groups: Iterable[str], take: Callable[[Object], Read]
        ) -> list[Read]:
            found.update(((group, kind), take) for group in groups)
            return []

    read(AskedFor())
    return found


def _in_turn(
    every: list[OwnerObject],
) -> tuple[dict[OwnerKey, OwnerObject], dict[OwnerKey, tuple[OwnerObject, ...]]]:
    """Owners by name, and those whose name another has in a later export."""
    mine = dict[OwnerKey, list[OwnerObject]]()
    for row in every:
        mine.setdefault((row.group, row.kind, row.namespace, row.name), []).append(row)
    found, before = dict[OwnerKey, OwnerObject](), dict[OwnerKey, tuple[OwnerObject, ...]]()
    for key, some in mine.items():
        *rest, found[key] = sorted(some, key=lambda row: row.last_ms or LATEST_MS)
        if rest:
            before[key] = tuple(rest)
    return found, before


def _made_by(pod: KubePod, found: Mapping[OwnerKey, OwnerObject]) -> OwnerObject | None:
    """What made a pod, as far as it is there."""
    of = pod.owner
    owner = None if of is None else found.get((of.group, of.kind, pod.namespace, of.name))
    return owner if of is not None and owner is not None and owner.uid == of.uid else None


def _parts(
    found: Mapping[OwnerKey, OwnerObject],
) -> dict[tuple[str, str, str], tuple[PodTemplate, ...]]:
    made = dict[tuple[str, str, str], tuple[PodTemplate, ...]]()
    for row in found.values():
        if row.owner is not None and row.templates:
            above = (row.namespace, row.owner.kind, row.owner.name)
            made[above] = (*made.get(above, ()), *row.templates)
    return made


def _one_by_one(all_pods: list[KubePod]) -> list[KubePod]:
    """Pods; where several had one name, each was gone when the next was made."""
    mine = dict[tuple[str, str], list[KubePod]]()
    for pod in all_pods:
        mine.setdefault((pod.namespace, pod.name), []).append(pod)
    found = list[KubePod]()
    for some in mine.values():
        some.sort(key=lambda pod: pod.created_ms)
        for pod, after in pairwise(some):
            last_ms, made_ms = pod.last_ms, after.created_ms
            found.append(pod if last_ms is None else pod.vanished(last_ms, made_ms))
        found.append(some[-1])
    return found


def _by_machine(
    all_nodes: list[KubeNode], all_pods: list[KubePod]
) -> tuple[list[KubeNode], list[KubePod]]:
    """Nodes and pods; where several machines had one name, the earlier ones are called so.

    Each was gone when the next joined, and pods that were bound before that sat on it.
    """
    mine, joined = dict[str, list[KubeNode]](), dict[str, list[int]]()
    for node in all_nodes:
        mine.setdefault(node.name, []).append(node)
    on = _on_several({name for name, some in mine.items() if len(some) > 1}, all_pods)
    found = list[KubeNode]()
    for name, every in mine.items():
        some = _machines(every, on.get(name, ()))
        for node, after in pairwise(some):
            joined.setdefault(name, []).append(after.created_ms or 0)
            gone_ms = min(node.gone_ms or LATEST_MS, after.created_ms or LATEST_MS)
            count = len(some) - len(joined[name])
            last_ms = min(node.last_ms or node.seen_ms, gone_ms)
            found.append(replace(node.vanished(last_ms, gone_ms), name=name + EARLIER * count))
        found.append(some[-1])
    if not joined:
        return found, all_pods
    return found, [_on_machine(pod, joined.get(pod.node, ())) for pod in all_pods]


def _on_several(names: set[str], all_pods: list[KubePod]) -> dict[str, list[KubePod]]:
    """Pods with accelerators on nodes of some names."""
    found = dict[str, list[KubePod]]()
    for pod in all_pods if names else ():
        if pod.node in names and pod.request.gpu is not None:
            found.setdefault(pod.node, []).append(pod)
    return found


def _machines(some: list[KubeNode], pods: Sequence[KubePod]) -> list[KubeNode]:
    """The machines that had one name, in turn; one that registered again is one, as it is now.

    Its work tells: pods with accelerators that were there before went on there.
    """
    first, *later = sorted(some, key=lambda node: node.created_ms or 0)
    found = [first]
    for node in later:
        joined_ms = node.created_ms or 0
        if any(_goes_on(pod, joined_ms) for pod in pods):
            found[-1] = replace(node, created_ms=found[-1].created_ms)
        else:
            found.append(node)
    return found


def _goes_on(pod: KubePod, joined_ms: int) -> bool:
    """Whether a pod was on its node before a moment, and after it."""
    is_there = pod.bound_ms is not None and pod.bound_ms < joined_ms < (pod.end_ms or LATEST_MS)
    return is_there and pod.outcome is not AttemptEnd.NODE_LOST


def _on_machine(pod: KubePod, joined: Sequence[int]) -> KubePod:
    """A pod, by when later machines of its node's name joined."""
    later = sum((pod.bound_ms or LATEST_MS) < ms for ms in joined)
    return replace(pod, node=pod.node + EARLIER * later) if later else pod


Asking = TypeVar("Asking", OwnerObject, KueueWorkload)


class _Asking:
    """What pods request by claims (DRA), their own or those that they name."""

    def __init__(
        self, claims: Claims, published: PublishedDevices, extended: ExtendedResources
    ) -> None:
        self._claims, self._published, self.extended = claims, published, extended

    def with_claims(self, all_pods: list[KubePod]) -> list[KubePod]:
        """Pods whose accelerators come by claims request so many; a shared claim counts once."""
        users, found = dict[ClaimKey, list[KubePod]](), []
        in_order = sorted(all_pods, key=lambda pod: (pod.created_ms, pod.full_name))
        for pod in in_order:
            for claim in claims_of(pod, self._claims):
                if not claim.name.startswith(dra.TEMPLATE):
                    users.setdefault((claim.namespace, claim.name), []).append(pod)
        turns = shared_claims.turns(users, self._claims)
        for pod in in_order:
            rest, own = self.extended.split(pod.request, pod, self._claims)
            total, unkept, since_ms = Counter[str](), list[str](), list[int | None]()
            selected = list[SelectedDevices]()
            if own is not None:
                total += self._published.asked(own)
                selected += self._published.selected(own)
            for claim in claims_of(pod, self._claims):
                key = shared_claims.key_of(pod)
                mine = turns.get((claim.namespace, claim.name), {key: None})
                if key not in mine:
                    continue
                asked = self._published.asked(claim, is_placed=bool(pod.node))
                since_ms += [mine[key]] * bool(+asked)
                total += asked
                unkept += self._published.unkept(claim) if not pod.node else ()
                selected += self._published.selected(claim)
            request = _selecting(_claiming(rest, total), selected, is_placed=bool(pod.node))
            if unkept:
                request = replace(
                    request, unkept=tuple(dict.fromkeys((*request.unkept, *unkept)))
                )  # fmt: skip
            taken_ms = [ms for ms in since_ms if ms is not None]
            is_later = rest.gpu is None and len(taken_ms) == len(since_ms) > 0
            one = replace(pod, request=request)
            found.append(shared_claims.taken_over(one, max(taken_ms)) if is_later else one)
        return found

    def with_templates(self, one: Asking) -> Asking:
        """An object with pod templates, with what each pod's own claims will ask for."""
        made = tuple(self._with_template(one.namespace, part) for part in one.templates)
        return one if made == one.templates else replace(one, templates=made)

    def _with_template(self, namespace: str, part: PodTemplate) -> PodTemplate:
        rest, own = self.extended.split(part.request)
        if own is None and not part.request.claims:
            return part
        named = [self._claims.get((namespace, name)) for _, name in part.request.claims
                 if name.startswith(dra.TEMPLATE)]  # fmt: skip
        claims = [one for one in (own, *named) if one is not None]
        asked = sum((self._published.asked(one) for one in claims), Counter[str]())
        selected = [one for claim in claims for one in self._published.selected(claim)]
        return replace(part, request=_selecting(_claiming(rest, asked), selected))


def claims_of(pod: KubePod, claims: Claims) -> Iterator[DeviceClaim]:
    """The claims of a pod, or their templates, as far as they are known; of claims each once."""
    if not pod.request.claims and pod.own_claim is None:
        return
    told = set[str]()
    named = [(pod.claim_names.get(inside, ""), name) for inside, name in pod.request.claims]
    named += [(pod.own_claim.name, "")] if pod.own_claim is not None else []
    for made, name in named:
        claim = claims.get((pod.namespace, made)) or claims.get((pod.namespace, name))
        if claim is not None and claim.name not in told:
            told |= set[str]() if claim.name.startswith(dra.TEMPLATE) else {claim.name}
            yield claim


def _claiming(request: PodRequest, total: Counter[str]) -> PodRequest:
    """What a pod requests that has so much by claims: one resource counts, whole devices first."""
    some = sorted(+total, key=lambda one: (not resources.is_whole_name(one), one))
    known = [one for one in some if not device_parts.is_unknown(one)]
    if request.gpu is not None or not some:
        return request
    if not known:
        return replace(request, uncounted=request.uncounted or some[0])
    gpu = GpuRequest(known[0], total[known[0]])
    return replace(request, gpu=gpu, also=(*request.also, *(one for one in some if one != gpu[0])))


def _selecting(
    request: PodRequest, selected: Sequence[SelectedDevices], *, is_placed: bool = False
) -> PodRequest:
    """What a pod requests whose claims select some of the devices that there are.

    Which GPU types those are says it for the books; else nobody can say there what is free of them.
    Where no node has them all, nothing that comes free does.
    """
    if request.gpu is None:
        return request
    selected = [one for one in selected if one.resource == request.gpu.resource]
    if not selected:
        return request
    words = " and ".join(dict.fromkeys(one.words for one in selected))
    places = [one.nodes for one in selected if one.nodes is not None]
    on = frozenset.intersection(*places) if places else None
    types = [frozenset(one.types) for one in selected if one.types]
    doubts = dict.fromkeys(one.words for one in selected if not one.is_exact)
    is_told = not doubts or is_placed or on == frozenset()
    found = replace(
        request, devices_on=on, device_words=words,
        unkept=request.unkept if is_told else (*request.unkept, " and ".join(doubts)),
        device_types=tuple(sorted(frozenset.intersection(*types))) if types else (),
    )  # fmt: skip
    return replace(found, instead=tuple(_instead(found, selected)))


def _instead(request: PodRequest, selected: Sequence[SelectedDevices]) -> Iterator[PodRequest]:
    """The same with each choice of a claim that may have other numbers of devices."""
    choosing = next((one for one in selected if one.choices), None)
    if choosing is None or request.gpu is None:
        return
    others = [one for one in selected if one is not choosing]
    plain = replace(request, gpu=request.gpu._replace(
        each=request.gpu.each - choosing.choices[0].number), devices_on=None, device_types=(),
        unkept=tuple(one for one in request.unkept if SELECTED not in one))  # fmt: skip
    for one in choosing.choices:
        some = [*others, *([one.selected] if one.selected is not None else [])]
        assert plain.gpu is not None, "it has some"
        gpu = plain.gpu._replace(each=plain.gpu.each + one.number)
        yield _selecting(replace(plain, gpu=gpu), some)


def _with_slices(all_nodes: list[KubeNode], published: PublishedDevices) -> list[KubeNode]:
    """Nodes whose accelerators are published in slices (DRA) have those."""
    having, found = published.by_node(), list[KubeNode]()
    for node in all_nodes:
        has = dict(having.get(node.name, {}))
        if not has or node.capacity:
            claimable = has.get(resources.CLAIMED, 0)
            found.append(replace(node, claimable=claimable) if claimable else node)
            continue
        kind = node.gpu_type or published.type_on(node.name)
        labels = node.labels if resources.CLAIMED not in has else {
            **node.labels, resources.BY_CLAIM: "yes",
        }  # fmt: skip
        healthy, given = has, tuple[tuple[int, Mapping[str, int]], ...]()
        if [*has] == [resources.CLAIMED]:
            told = [(ms, {resources.CLAIMED: count}) for ms, count in published.given(node.name)]
            healthy, given = told[-1][1], tuple(told) if node.given else ()
        found.append(replace(
            node, capacity=has, allocatable=healthy, given=given, gpu_type=kind, labels=labels,
        ))  # fmt: skip
    return found


def _coming(told: ToldObjects, all_nodes: list[KubeNode]) -> list[KubeNode]:
    """Machines that Karpenter launched and that are no nodes yet."""
    there = {node.name for node in all_nodes}
    claims = told.read("NodeClaim", ("karpenter.sh",), nodes.read_claim)
    return [
        nodes.of_claim(claim)
        for claim in claims
        if claim.is_launched and claim.capacity and claim.node not in there
    ]


def _by_object(told: ToldObjects) -> dict[tuple[str, str, str], tuple[KubeEvent, ...]]:
    found = dict[tuple[str, str, str], list[KubeEvent]]()
    for one in told.read("Event", ("", "events.k8s.io"), _happening):
        found.setdefault((one.kind, one.namespace, one.name), []).append(one)
    return {key: tuple(sorted(some, key=lambda one: one.at_ms)) for key, some in found.items()}


def _told_moments(
    rows: Iterable[OwnerObject], happenings: Mapping[tuple[str, str, str], Sequence[KubeEvent]],
    all_pods: Iterable[KubePod],
) -> Iterator[ToldMoment]:  # fmt: skip
    """When owners were made, and things happened; what a kubelet tells is by its node's clock."""
    on = {(pod.namespace, pod.name): pod.node for pod in all_pods if pod.node}
    for row in rows:
        if row.created_ms is not None:
            kind = owners.asked_as(row.kind, row.group)
            shown_by = f"kubectl get {kind} -n {row.namespace} {row.name} -o yaml"
            who = f"{row.kind} {row.namespace}/{row.name}"
            yield ToldMoment(row.created_ms, who, shown_by, is_servers=True)
    for (kind, namespace, name), some in happenings.items():
        node = name if kind == "Node" else on.get((namespace, name), "") if kind == "Pod" else ""
        who = f"node {node}" if node else f"an event of {kind} {namespace}/{name}"
        shown_by = f"kubectl get events -n {namespace} --field-selector involvedObject.name={name}"
        yield ToldMoment(some[-1].at_ms, who, shown_by)


def _happening(one: Object) -> KubeEvent:
    about = fields.inner(one, "involvedObject") or fields.inner(one, "regarding")
    times = (
        fields.moment_ms(one, "series", "lastObservedTime"), fields.moment_ms(one, "lastTimestamp"),
        fields.moment_ms(one, "deprecatedLastTimestamp"), fields.moment_ms(one, "eventTime"),
        fields.moment_ms(one, "firstTimestamp"),
        fields.moment_ms(one, "metadata", "creationTimestamp"),
    )  # fmt: skip
    last_ms = next((ms for ms in times if ms is not None), 0)
    begun = (
        fields.moment_ms(one, "firstTimestamp"), fields.moment_ms(one, "deprecatedFirstTimestamp"),
        fields.moment_ms(one, "eventTime"),
    )  # fmt: skip
    return KubeEvent(
        fields.text(about, "kind"), fields.text(about, "namespace") or "default",
        fields.text(about, "name"), fields.text(one, "reason"),
        fields.text(one, "message") or fields.text(one, "note"),
        last_ms, min(last_ms, next((ms for ms in begun if ms is not None), last_ms)),
        max(1, fields.number(one, "count") or fields.number(one, "series", "count") or 1),
    )  # fmt: skip


def _quota(one: Object) -> Quota:
    return Quota(
        fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"),
        _requests(fields.amounts(one, "spec", "hard")),
        _requests(fields.amounts(one, "status", "used")),
        bool(fields.texts(one, "spec", "scopes") or fields.inner(one, "spec", "scopeSelector")),
        fields.amounts(one, "spec", "hard"), fields.amounts(one, "status", "used"),
    )  # fmt: skip


def _requests(amounts: Mapping[str, float]) -> dict[str, int]:
    """Accelerators, of what pods request together."""
    asked = {
        name.removeprefix("requests."): int(amount)
        for name, amount in amounts.items() if name.startswith("requests.")
    }  # fmt: skip
    return {name: count for name, count in asked.items() if resources.is_accelerator(name)}


def _priority(one: Object) -> tuple[str, int]:
    return fields.text(one, "metadata", "name"), fields.priority(one, "value") or 0


def _namespace(one: Object) -> tuple[str, Mapping[str, str]]:
    return fields.text(one, "metadata", "name"), fields.words(one, "metadata", "labels")
