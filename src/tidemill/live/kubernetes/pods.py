"""Pods: what they request, where and when they held it, how they ended, and why they wait.

A pod holds its devices from the moment it is bound (`PodScheduled`) until its last container has
ended. It is *up* when its containers run.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from sys import intern

from msgspec import Struct, json
from msgspec.structs import astuple, replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import (
    containers,
    dra,
    fields,
    pod_amounts,
    pod_rules,
    refusals,
    resources,
)
from tidemill.live.kubernetes.containers import InitStep, LeftPod, StuckPod
from tidemill.live.kubernetes.dra import OwnClaim
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.nodes import NAME
from tidemill.live.kubernetes.pod_rules import PodRule
from tidemill.live.kubernetes.resources import GpuRequest
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.node_rules import ANY, EVERY_TAINT, LabelCondition, LabelTest, NodeRules, Pair

_DISRUPTED = {
    "PreemptionByScheduler": AttemptEnd.PREEMPTED,
    "PreemptionByKubeScheduler": AttemptEnd.PREEMPTED,
    "EvictionByEvictionAPI": AttemptEnd.EVICTED,
    "DeletionByTaintManager": AttemptEnd.NODE_LOST,
    "DeletionByPodGC": AttemptEnd.NODE_LOST,
}
"""Why something else ended a pod, by the reason of its condition `DisruptionTarget`."""
_BY_REASON = {
    "DeadlineExceeded": AttemptEnd.TIMED_OUT,
    "Evicted": AttemptEnd.EVICTED,
    "NodeLost": AttemptEnd.NODE_LOST,
    "NodeShutdown": AttemptEnd.NODE_LOST,
    "Terminated": AttemptEnd.NODE_LOST,
    "NodeAffinity": AttemptEnd.NODE_LOST,
    "Preempting": AttemptEnd.PREEMPTED,
}
"""The same, by the reason of its status."""
MOST_TERMS, MOST_VALUES, LONGEST_KEY = 50, 1_000, 400
_TESTS = {
    "In": LabelTest.IN, "NotIn": LabelTest.NOT_IN, "Exists": LabelTest.EXISTS,
    "DoesNotExist": LabelTest.ABSENT, "Gt": LabelTest.ABOVE, "Lt": LabelTest.BELOW,
}  # fmt: skip
GONE_WITHIN_MS = 2_000
"""When a node was deleted is known by our clock, which the server's whole seconds set."""
NO_EXECUTE = "NoExecute"


class Owner(Struct, frozen=True):
    """Whom an object belongs to."""

    group: str
    kind: str
    name: str
    uid: str = ""


PREEMPTIBLE = "tidemill/preemptible"
"""The annotation by which a pod that nobody would make anew lets itself be stopped: `true`."""
_OF_ONE_NODE = frozenset({"DaemonSet", "Node"})
"""Owners that make a pod anew on the node where it was."""


class Toleration(Struct, frozen=True):
    """Taints that a pod accepts."""

    key: str
    operator: str
    value: str
    effect: str

    def accepts(self, key: str, value: str, effect: str) -> bool:
        """Whether it accepts a taint."""
        if self.effect and self.effect != effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == key
        return self.key == key and self.value == value

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """As the model has it: taints by key and value (``taint_pair``)."""
        value = ANY if self.operator == "Exists" else self.value
        if not self.key:
            return (EVERY_TAINT,) if self.operator == "Exists" else ()
        effects = (self.effect,) if self.effect else ("", NO_EXECUTE)
        return tuple(taint_pair(self.key, value, effect) for effect in effects)


def taint_pair(key: str, value: str, effect: str) -> Pair:
    """A taint as the model has it; one that also stops what runs is told apart by its key."""
    return f"{key}:{effect}" if effect == NO_EXECUTE else key, value


class PodRequest(Struct, frozen=True, kw_only=True, dict=True):
    """What one pod requests, whether it exists or is a template of its owner's.

    Pods of one template share one: what follows from it is kept with it.
    """

    gpu: GpuRequest | None
    cpu_milli: int
    memory_mib: int
    selector: tuple[tuple[str, str], ...]
    terms: tuple[tuple[LabelCondition, ...], ...]
    """Node affinity that is required: any of these, all requirements of it."""
    tolerations: tuple[Toleration, ...]
    scheduler: str
    priority: int
    priority_class: str
    claims: tuple[tuple[str, str], ...]
    """Claims of devices (DRA): names in the pod, and of the claim or `template/NAME`."""
    uncounted: str = ""
    """A resource that is a part of an accelerator of unknown size."""
    also: tuple[str, ...] = ()
    """Further accelerator resources beside the one that counts."""
    unkept: tuple[str, ...] = ()
    """Constraints on its place that Tidemill's own scheduler does not know."""
    extras: tuple[tuple[str, int], ...] = ()
    """Other resources that nodes give out (network cards, huge pages), and how much of each."""
    near: tuple[PodRule, ...] = ()
    """Rules about other pods that must hold."""
    volumes: tuple[str, ...] = ()
    """Claims of volumes, by name; `-NAME`: one that is made for the pod, after its own name."""
    disk_bytes: int = 0
    """Of the node's own disk (`ephemeral-storage`)."""
    may_preempt: bool = True
    """Whether others may be evicted for it; not with `preemptionPolicy: Never`."""
    unread: str = ""
    """Why nobody can read what it requests; "": it is read."""
    devices_on: frozenset[str] | None = None
    """The nodes that have such devices as its claims select, if one has enough of them; None: all
    that have any, or nobody can say."""
    device_types: tuple[str, ...] = ()
    """The GPU types of the nodes that have some; () is any, or unknown."""
    device_words: str = ""
    """By which expressions of its claims; "": it selects none."""
    instead: tuple["PodRequest", ...] = ()
    """What would do as well, by the other choices of its claims (`firstAvailable`)."""
    part_milli: int = 1000
    """How much it has of each of its accelerators: less than all of them by KAI (``kai_parts``)."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels may take it."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        if self.devices_on is not None and labels.get(NAME) not in self.devices_on:
            return False
        return not self.terms or any(
            all(one.holds(labels.get(one.key)) for one in term) for term in self.terms
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(astuple(self))

    @cached_property
    def rules(self) -> NodeRules:
        """Which nodes it may be on."""
        tolerated = {pair for one in self.tolerations for pair in one.pairs}
        return NodeRules(self.selector, tuple(sorted(tolerated)), self.terms)

    @cached_property
    def ports(self) -> frozenset[str]:
        """Ports of the node that it takes (`hostPort`)."""
        return frozenset(rule.port for rule in self.near if rule.port)

    @cached_property
    def label_keys(self) -> set[str]:
        """The labels of nodes that it is placed by."""
        return self.rules.keys | {rule.key for rule in self.near}

    @property
    def is_of_parts(self) -> bool:
        """Whether it has less than all of a GPU: by KAI, or by a claim for which GPUs are cut."""
        is_cut = self.gpu is not None and resources.is_cut_by_claim(self.gpu.resource)
        return is_cut or self.part_milli < WHOLE_MILLI

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Whether it accepts a taint; those that only prefer keep nobody out."""
        if effect == "PreferNoSchedule":
            return True
        return any(one.accepts(key, value, effect) for one in self.tolerations)


class KubePod(Struct, frozen=True, kw_only=True):
    """A pod as the API shows it."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: Owner | None
    created_ms: int
    request: PodRequest
    node: str
    phase: str
    bound_ms: int | None
    up_ms: int | None
    end_ms: int | None
    outcome: AttemptEnd
    gates: tuple[str, ...]
    reason: str
    """Of the condition that says it is not scheduled."""
    message: str
    nominated: str
    scheduling_group: str
    workload: tuple[str, str, str]
    """`spec.workloadRef`: name, pod group, replica key."""
    restarts: int
    seen_ms: int
    subdomain: str
    """Under which name others find it; "": they do not."""
    claim_names: Mapping[str, str]
    if_deleted: AttemptEnd
    """How it ended, if it is gone before it says so itself."""
    leaves_ms: int | None
    """When it will be deleted at the latest; None: nobody asked for that."""
    deleted_ms: int | None = None
    deadline_s: int = 0
    """How long it may run at most (`activeDeadlineSeconds`); 0: nobody says."""
    version: str = ""
    """Of the object; who changes it with another one is refused."""
    stuck: StuckPod | None = None
    """That none of its containers with GPUs runs, though it sits on a node; None: one does, or will
    soon."""
    left: LeftPod | None = None
    """That those have ended while others of its containers go on; None: they have not."""
    init: InitStep | None = None
    """The init container that it is at; None: it is past them, or ended."""
    again: tuple[int, int] | None = None
    """When its containers had all ended, and when they had started again; None: they did not."""
    lacks: tuple[str, ...] = ()
    """Claims that it names and that do not exist, each in words."""
    last_ms: int | None = None
    """When the last export was made that shows it, where later ones do not; None: all do."""
    refusal: str = ""
    """For which reason its node did not take it; "": it did, or nobody says."""
    refused_as: str = ""
    """The same in the kubelet's words."""
    gone_ms: int | None = None
    """By when it was gone, and nobody saw it end; None: that was seen, or it is not known to be."""
    own_claim: OwnClaim | None = None
    """The claim (DRA) that was made for extended resources that it requests."""
    taken_ms: int | None = None
    """When its kubelet took it, by that one's clock; None: nobody says."""
    ended_ms: int | None = None
    """When it ended, by its kubelet's clock (``end_ms``: not before it was bound)."""

    def deleted(self, at_ms: int) -> "KubePod":
        """The pod after it was deleted: over since then, unless it had ended before."""
        if self.is_over and self.end_ms is not None:
            return replace(self, deleted_ms=at_ms)
        return replace(
            self, phase="Failed", end_ms=max(at_ms, self.bound_ms or at_ms),
            outcome=self.if_deleted, deleted_ms=at_ms,
        )  # fmt: skip

    def without_node(self, gone_ms: int) -> "KubePod":
        """The pod after its node was deleted: over since then, whenever it is deleted itself.

        One that sits on a later node of that name, or had ended before, is as it was; so is one
        that says of itself that it ended within a second or two: its own time is the exact one.
        """
        is_other = self.bound_ms is None or self.bound_ms >= gone_ms
        if is_other or (self.end_ms is not None and self.end_ms <= gone_ms + GONE_WITHIN_MS):
            return self
        is_evicted = self.if_deleted in (AttemptEnd.PREEMPTED, AttemptEnd.EVICTED)
        how = self.if_deleted if is_evicted else AttemptEnd.NODE_LOST
        return replace(self, phase="Failed", end_ms=gone_ms, outcome=how)

    def vanished(self, last_ms: int, gone_ms: int) -> "KubePod":
        """The pod, deleted between two moments: over since the first, when it was seen last.

        As an observer takes one that was deleted while nobody watched.
        """
        if self.is_over and self.end_ms is not None and self.gone_ms is None:
            return self
        gone_ms = min(gone_ms, self.gone_ms or gone_ms, max(self.leaves_ms or gone_ms, last_ms))
        return replace(self.deleted(last_ms), last_ms=last_ms, gone_ms=gone_ms)

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a node."""
        return not self.node and not self.is_over

    @property
    def may_be_stopped(self) -> bool:
        """Whether it comes back, on whichever node has room: somebody makes it anew, and not for
        that node alone; or it says so.
        """
        is_made_anew = self.owner is not None and self.owner.kind not in _OF_ONE_NODE
        return is_made_anew or self.annotations.get(PREEMPTIBLE) == "true"

    @property
    def is_bindable(self) -> bool:
        """Whether nothing holds it back: no scheduling gate, and no claim that does not exist."""
        return not self.gates and not self.lacks


def read(one: Object) -> KubePod:
    """A pod."""
    phase, node = fields.text(one, "status", "phase"), intern(fields.text(one, "spec", "nodeName"))
    created_ms = fields.moment_ms(one, "metadata", "creationTimestamp")
    if created_ms is None:
        raise MalformedObjectError("has no creationTimestamp")
    labels, conditions = fields.words(one, "metadata", "labels"), fields.conditions(one)
    scheduled = conditions.get("PodScheduled", {})
    changed_ms = fields.moment_ms(scheduled, "lastTransitionTime")
    told = fields.each(one, "status", "containerStatuses")
    mine = containers.with_devices(one)
    started = [containers.started_ms(status) for status in mine]
    begun = [ms for ms in started if ms is not None]
    bound_ms = None
    if node:
        is_bound = fields.text(scheduled, "status") == "True"
        bound_ms = changed_ms if is_bound else None
        bound_ms = bound_ms or fields.moment_ms(one, "status", "startTime") or created_ms
    is_over = phase in ("Succeeded", "Failed")
    end_ms = _end_ms(one, conditions, told, bound_ms) if is_over else None
    times = (created_ms, bound_ms, end_ms, *begun, changed_ms)
    is_up = bool(begun) and len(begun) == len(started)
    up_ms = max(begun) if is_up else None
    if is_over and not told and not refusals.was_refused(one, conditions):
        up_ms = bound_ms  # whether it ran nobody says: it is not booked as never started
    disrupted = _disrupted(one, conditions)
    return KubePod(
        namespace=intern(fields.text(one, "metadata", "namespace") or "default"),
        name=fields.text(one, "metadata", "name"), uid=fields.text(one, "metadata", "uid"),
        labels=labels,
        annotations=fields.annotations(one),
        owner=owner_of(one), created_ms=created_ms,
        request=request_of(fields.inner(one, "spec"), labels),
        node=node, phase=phase, bound_ms=bound_ms, up_ms=up_ms,
        end_ms=end_ms, outcome=_outcome(one, disrupted, told, phase, node),
        gates=tuple(fields.text(g, "name") for g in fields.each(one, "spec", "schedulingGates")),
        reason=fields.text(scheduled, "reason"), message=fields.text(scheduled, "message"),
        nominated=fields.text(one, "status", "nominatedNodeName"),
        scheduling_group=fields.text(one, "spec", "schedulingGroup", "podGroupName"),
        workload=_workload(fields.inner(one, "spec", "workloadRef")),
        restarts=sum(fields.number(status, "restartCount") or 0 for status in told),
        seen_ms=max(ms for ms in times if ms is not None),
        subdomain=fields.text(one, "spec", "subdomain"),
        claim_names={
            fields.text(c, "name"): fields.text(c, "resourceClaimName")
            for c in fields.each(one, "status", "resourceClaimStatuses")
        },
        if_deleted=disrupted or AttemptEnd.CANCELLED,
        leaves_ms=fields.moment_ms(one, "metadata", "deletionTimestamp"),
        deadline_s=max(0, fields.number(one, "spec", "activeDeadlineSeconds") or 0),
        version=fields.text(one, "metadata", "resourceVersion"),
        stuck=None if is_over or not node else containers.stuck(one, mine),
        left=containers.left(one, mine, end_ms) if node else None,
        init=None if is_over else containers.init_step(one),
        again=None if is_over or not node else containers.again(mine),
        refusal=refusals.lost_race(one),
        refused_as=fields.text(one, "status", "message") if refusals.lost_race(one) else "",
        own_claim=dra.read_own_claim(one),
        taken_ms=fields.moment_ms(one, "status", "startTime"),
        ended_ms=max(_ended_ms(told), default=None) if is_over else None,
    )  # fmt: skip


def _workload(told: Object) -> tuple[str, str, str]:
    """The group of a Workload that a pod names."""
    if not told:
        return "", "", ""
    names = ("name", "podGroup", "podGroupReplicaKey")
    return tuple(fields.text(told, name) for name in names)  # type: ignore[return-value]


def owner_of(one: Object) -> Owner | None:
    """The controller of an object."""
    for owner in fields.each(one, "metadata", "ownerReferences"):
        if fields.flag(owner, "controller"):
            group = fields.text(owner, "apiVersion").rpartition("/")[0]
            return Owner(
                group, fields.text(owner, "kind"), fields.text(owner, "name"),
                fields.text(owner, "uid"),
            )  # fmt: skip
    return None


_ASKS = (
    "initContainers", "affinity", "nodeSelector", "tolerations", "schedulerName", "priority",
    "priorityClassName", "preemptionPolicy", "resourceClaims", "topologySpreadConstraints",
    "resources", "overhead",
)  # fmt: skip
"""What of a spec is a request, beside its volumes and what its containers ask for."""
_OF_CONTAINER = ("resources", "restartPolicy", "ports")
_OF_VOLUME = ("name", "persistentVolumeClaim", "ephemeral")


def request_of(spec: Object, labels: Mapping[str, str] | None = None) -> PodRequest:
    """What a pod of this spec requests; ``labels``: its own. Equal requests are read once."""
    asks = {name: spec[name] for name in _ASKS if name in spec}
    asks["containers"] = _parts(spec.get("containers"), _OF_CONTAINER)
    volumes = _parts(spec.get("volumes"), _OF_VOLUME)
    if isinstance(volumes, list):  # a name alone is of a volume that binds a pod to no place
        volumes = [one for one in volumes if not isinstance(one, dict) or one.keys() - {"name"}]
    asks["volumes"] = volumes
    has_own = "topologySpreadConstraints" in spec and bool(labels)
    return _request(json.encode(asks), json.encode(labels) if has_own else b"{}")


def _parts(told: object, names: tuple[str, ...]) -> object:
    """The objects of a list with these fields alone; what is no such list stays, to be refused."""
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        return told
    return [{name: one[name] for name in names if name in one} for one in told]


@lru_cache(maxsize=4096)
def _request(told: bytes, labels: bytes) -> PodRequest:
    spec: Object = json.decode(told)
    near = pod_rules.read(spec, json.decode(labels))
    amounts = pod_amounts.requested(spec)
    gpus = resources.accelerators(amounts)
    first = min(gpus, default="")
    affinity = fields.inner(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = [conditions_of(term) for term in fields.each(affinity, "nodeSelectorTerms")]
    return PodRequest(
        gpu=GpuRequest(first, gpus[first]) if first else None,
        cpu_milli=resources.cpu_milli(amounts.get("cpu", 0)),
        memory_mib=resources.memory_mib(amounts.get("memory", 0)),
        selector=tuple(sorted(fields.words(spec, "nodeSelector").items())),
        terms=tuple(terms[:MOST_TERMS]),
        tolerations=tuple(map(_toleration, fields.each(spec, "tolerations"))),
        scheduler=fields.text(spec, "schedulerName"),
        priority=fields.priority(spec, "priority") or 0,
        priority_class=fields.text(spec, "priorityClassName"),
        claims=tuple(
            (
                fields.text(claim, "name"),
                fields.text(claim, "resourceClaimName")
                or f"template/{fields.text(claim, 'resourceClaimTemplateName')}",
            )
            for claim in fields.each(spec, "resourceClaims")
        ),
        uncounted=resources.uncounted(amounts),
        also=tuple(sorted(set(gpus) - {first})),
        unkept=(*near.unkept, *_unkept(spec)),
        extras=resources.others(amounts),
        near=tuple(dict.fromkeys(near.rules)),
        volumes=tuple(_volumes(spec)),
        disk_bytes=max(0, math.ceil(amounts.get("ephemeral-storage", 0))),
        may_preempt=fields.text(spec, "preemptionPolicy") != "Never",
    )


def conditions_of(term: Object) -> tuple[LabelCondition, ...]:
    """What one term of a node selector asks of the labels of nodes, and of their names."""
    told = (*fields.each(term, "matchExpressions"), *fields.each(term, "matchFields"))
    return tuple(map(label_condition, told))


def _volumes(spec: Object) -> Iterator[str]:
    for volume in fields.each(spec, "volumes"):
        if name := fields.text(volume, "persistentVolumeClaim", "claimName"):
            yield name
        elif fields.inner(volume, "ephemeral"):
            yield f"-{fields.text(volume, 'name')}"


def _unkept(spec: Object) -> Iterator[str]:
    """Rules that must hold where a pod sits, beside what is read of them here."""
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = fields.each(spec, "affinity", "nodeAffinity", must, "nodeSelectorTerms")
    if any(any(fields.each(term, "matchFields")) for term in terms):
        yield "affinity.nodeAffinity by matchFields"


def label_condition(one: Object) -> LabelCondition:
    """A requirement on the labels of nodes; one that nobody knows is met by none."""
    test = _TESTS.get(fields.text(one, "operator"))
    values = fields.texts(one, "values")[:MOST_VALUES] if test is not None else ()
    return LabelCondition(fields.text(one, "key")[:LONGEST_KEY], test or LabelTest.IN, values)


def tolerated(spec: Object) -> tuple[Pair, ...]:
    """The taints that a spec tolerates, as the model has them."""
    told = map(_toleration, fields.each(spec, "tolerations"))
    return tuple(sorted({pair for one in told for pair in one.pairs}))


def _toleration(one: Object) -> Toleration:
    return Toleration(
        fields.text(one, "key"), fields.text(one, "operator") or "Equal",
        fields.text(one, "value"), fields.text(one, "effect"),
    )  # fmt: skip


def _end_ms(
    one: Object, conditions: Mapping[str, Object], statuses: Sequence[Object], bound_ms: int | None
) -> int | None:
    """When it had ended: its last container, else when something else ended it."""
    times = _ended_ms(statuses)
    if not times:
        for kind in ("DisruptionTarget", "Ready", "ContainersReady"):
            found = fields.moment_ms(conditions.get(kind, {}), "lastTransitionTime")
            if found is not None:
                times.append(found)
                break
    if not times and refusals.lost_race(one):
        refused = fields.moment_ms(one, "status", "startTime")  # the kubelet looked at it then
        times += [refused or bound_ms or 0]
    deleted = fields.moment_ms(one, "metadata", "deletionTimestamp")
    found = max(times, default=deleted)
    return found if found is None or bound_ms is None else max(found, bound_ms)


def _ended_ms(statuses: Iterable[Object]) -> list[int]:
    """When containers ended, as their kubelet says."""
    ended = [fields.moment_ms(status, "state", "terminated", "finishedAt") for status in statuses]
    return [ms for ms in ended if ms is not None]


def _outcome(
    one: Object, disrupted: AttemptEnd | None, statuses: Sequence[Object], phase: str, node: str
) -> AttemptEnd:
    """How it ended, or that it waits or runs."""
    if phase == "Succeeded":
        return AttemptEnd.DONE
    if phase != "Failed":
        return AttemptEnd.RUNNING if node else AttemptEnd.WAITING
    if disrupted:
        return disrupted
    if refusals.lost_race(one) and not statuses:
        return AttemptEnd.REJECTED
    reasons = {fields.text(status, "state", "terminated", "reason") for status in statuses}
    if "OOMKilled" in reasons:
        return AttemptEnd.OUT_OF_MEMORY
    return _BY_REASON.get(fields.text(one, "status", "reason"), AttemptEnd.FAILED)


def _disrupted(one: Object, conditions: Mapping[str, Object]) -> AttemptEnd | None:
    """How something else ended it; None: nothing did."""
    found = conditions.get("DisruptionTarget")
    if found is None or fields.text(found, "status") != "True":
        return None
    if fields.text(found, "reason") == "TerminationByKubelet":  # its node runs out, or shuts down
        return _BY_REASON.get(fields.text(one, "status", "reason"), AttemptEnd.NODE_LOST)
    return _DISRUPTED.get(fields.text(found, "reason"), AttemptEnd.FAILED)
