"""Kueue: workloads that wait for quota, queues and cohorts with their quotas, and flavors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from tidemill.live.kubernetes import fields, pods, resources, ties
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.owners import MOST_PODS, PodTemplate
from tidemill.live.kubernetes.pods import Owner
from tidemill.model.node_rules import Pair

GROUP = "kueue.x-k8s.io"
LEAST_PODS = "kueue.x-k8s.io/job-min-parallelism"
"""The annotation of a Job that may be admitted in part: with how many of its pods at least."""
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
"""Scheduling gates that Kueue takes off when it admits a pod."""


class KueueWorkload(Struct, frozen=True, kw_only=True):
    """What Kueue keeps of one job."""

    namespace: str
    name: str
    owner: Owner | None
    owners: tuple[Owner, ...]
    created_ms: int | None
    templates: tuple[PodTemplate, ...]
    """With as many pods as it may have (all, while it has no quota) and still needs."""
    queue: str
    priority: int
    has_quota: bool
    is_admitted: bool
    admitted_ms: int | None
    waits_since_ms: int | None
    """When it was submitted, or evicted; None: it was evicted, and nobody says when."""
    is_active: bool
    finished_ms: int | None
    succeeded: bool
    reason: str
    message: str
    evicted: str
    charged_to: str = ""
    """The cluster queue of whose quota it holds some."""
    usage: tuple[tuple[str, str, int], ...] = ()
    """What of that, of accelerators: flavor, resource and how many."""
    least: int = 0
    """With how many of its pods with accelerators it may be admitted (`minCount`); 0: with all."""

    @property
    def shown_by(self) -> str:
        """The command that shows it."""
        return f"kubectl describe workloads.{GROUP} -n {self.namespace} {self.name}"


class QuotaOf(NamedTuple):
    """What a queue or a cohort has of one flavor of a resource, of accelerators."""

    flavor: str
    resource: str
    nominal: int
    borrow: int | None
    """The most above that; None: what its cohort has."""
    lend: int | None


class ClusterQueue(Struct, frozen=True):
    """A queue with quotas, as the cluster sees it."""

    name: str
    cohort: str
    quotas: tuple[QuotaOf, ...]
    closed: str = ""
    """Why it lets nothing more in, in words; "": it does."""
    is_strict: bool = False
    """Whether nobody passes the first that waits in it (`StrictFIFO`)."""
    preempts: str = ""
    """By which rules it stops others for its work, in words; "": by none."""


class Cohort(Struct, frozen=True):
    """Queues that borrow from each other, below another cohort or none."""

    name: str
    parent: str
    quotas: tuple[QuotaOf, ...]
    """Of its own, beside those of what is below it."""


class LocalQueue(Struct, frozen=True):
    """The name by which one namespace knows a queue."""

    namespace: str
    name: str
    cluster_queue: str
    closed: str = ""
    """Why it lets nothing more in, in words; "": it does."""


class Flavor(Struct, frozen=True):
    """What a flavor of a resource is: nodes with these labels."""

    name: str
    labels: Mapping[str, str]
    tolerates: tuple[Pair, ...] = ()
    """What it lets pods tolerate."""
    taints: tuple[Pair, ...] = ()
    """What pods have to tolerate by themselves."""


def heads(
    workloads: Iterable[KueueWorkload],
    local: Mapping[tuple[str, str], LocalQueue],
    queues: Iterable[ClusterQueue],
) -> dict[tuple[str, str], KueueWorkload]:
    """Who goes first in queues in which nobody passes, by their local queues."""
    strict, first = {one.name for one in queues if one.is_strict}, dict[str, KueueWorkload]()
    for one in workloads if strict else ():
        queue = local.get((one.namespace, one.queue))
        name = queue.cluster_queue if queue is not None else ""
        waits = one.is_active and not one.has_quota and one.finished_ms is None
        if name in strict and waits and (name not in first or _turn(one) < _turn(first[name])):
            first[name] = one
    return {
        key: first[one.cluster_queue] for key, one in local.items() if one.cluster_queue in first
    }


def _turn(one: KueueWorkload) -> tuple[int, int]:
    """Its place in the order of its queue."""
    return -one.priority, one.waits_since_ms or 0


def read_workload(one: Object) -> KueueWorkload:
    """A Workload."""
    reserved, finished = (fields.condition(one, kind) for kind in ("QuotaReserved", "Finished"))
    admitted, evicted = (fields.condition(one, kind) for kind in ("Admitted", "Evicted"))
    is_over = fields.text(finished, "status") == "True"
    is_admitted = fields.text(admitted, "status") == "True"
    is_evicted = fields.text(evicted, "status") == "True"
    created_ms = fields.moment_ms(one, "metadata", "creationTimestamp")
    evicted_ms = fields.moment_ms(evicted, "lastTransitionTime") if is_evicted else None
    active = fields.inner(one, "spec").get("active")
    return KueueWorkload(
        namespace=fields.text(one, "metadata", "namespace") or "default",
        name=fields.text(one, "metadata", "name"), owner=pods.owner_of(one),
        owners=tuple(
            Owner(
                fields.text(owner, "apiVersion").rpartition("/")[0], fields.text(owner, "kind"),
                fields.text(owner, "name"), fields.text(owner, "uid"),
            )
            for owner in fields.each(one, "metadata", "ownerReferences")
        ),
        created_ms=created_ms, templates=_templates(one),
        queue=fields.text(one, "spec", "queueName"),
        priority=fields.priority(one, "spec", "priority") or 0,
        has_quota=fields.text(reserved, "status") == "True",
        is_admitted=is_admitted,
        admitted_ms=fields.moment_ms(admitted, "lastTransitionTime") if is_admitted else None,
        waits_since_ms=evicted_ms if evicted else created_ms,
        is_active=active is not False,
        finished_ms=fields.moment_ms(finished, "lastTransitionTime") if is_over else None,
        succeeded="Failed" not in fields.text(finished, "reason"),
        reason=fields.text(reserved, "reason") or "Pending",
        message=fields.text(reserved, "message"),
        evicted=fields.text(evicted, "message") * is_evicted,
        charged_to=fields.text(one, "status", "admission", "clusterQueue"),
        usage=tuple(_usage(one)), least=_least(one),
    )  # fmt: skip


def _usage(one: Object) -> Iterator[tuple[str, str, int]]:
    """What its pods are charged, less those that are no longer needed."""
    spared = {
        fields.text(part, "name"): fields.number(part, "count") or 0
        for part in fields.each(one, "status", "reclaimablePods")
    }
    for part in fields.each(one, "status", "admission", "podSetAssignments"):
        count, gone = fields.number(part, "count") or 0, spared.get(fields.text(part, "name"), 0)
        flavors = fields.words(part, "flavors")
        for resource, amount in fields.amounts(part, "resourceUsage").items():
            if resources.is_accelerator(resource):
                held = int(amount) * max(0, count - gone) // count if count else int(amount)
                yield flavors.get(resource, ""), resource, held


def _least(one: Object) -> int:
    """The fewest pods with accelerators that Kueue admits; partial admission is of one pod set."""
    told = [fields.number(part, "minCount") for part in fields.each(one, "spec", "podSets")]
    return max(0, told[0]) if len(told) == 1 and told[0] else 0


def _templates(one: Object) -> tuple[PodTemplate, ...]:
    """Its pods by form: as many as were admitted, less those that are no longer needed."""
    admitted = {
        fields.text(part, "name"): fields.number(part, "count")
        for part in fields.each(one, "status", "admission", "podSetAssignments")
    }
    spared = {
        fields.text(part, "name"): fields.number(part, "count") or 0
        for part in fields.each(one, "status", "reclaimablePods")
    }
    found = []
    for part in fields.each(one, "spec", "podSets"):
        name = fields.text(part, "name") or "main"
        wanted = fields.number(part, "count") or 0
        given = admitted.get(name)
        count = (wanted if given is None else given) - spared.get(name, 0)
        request = pods.request_of(fields.inner(part, "template", "spec"))
        asked = tuple(ties.of_workload(fields.inner(part, "topologyRequest")))
        found.append(PodTemplate(name, min(max(count, 0), MOST_PODS), request, ties=asked))
    return tuple(found)


def read_cluster_queue(one: Object) -> ClusterQueue:
    """A ClusterQueue."""
    cohort = fields.text(one, "spec", "cohort") or fields.text(one, "spec", "cohortName")
    return ClusterQueue(
        fields.text(one, "metadata", "name"), cohort, _quotas(one), _closed(one),
        fields.text(one, "spec", "queueingStrategy") == "StrictFIFO", _preempts(one),
    )  # fmt: skip


def _preempts(one: Object) -> str:
    """By which rules a queue stops others for its work, in words; "": by none."""
    rules = {key: fields.text(one, "spec", "preemption", key) for key in _PREEMPTION}
    return ", ".join(f"{key}: {rule}" for key, rule in rules.items() if rule not in ("", "Never"))


_PREEMPTION = ("withinClusterQueue", "reclaimWithinCohort")


def _closed(one: Object) -> str:
    """Why a queue lets nothing more in, in words; "": it does."""
    policy = fields.text(one, "spec", "stopPolicy")
    if policy not in ("", "None"):
        return f"is stopped (stopPolicy: {policy})"
    active = fields.condition(one, "Active")
    if fields.text(active, "status") != "False":
        return ""
    said = fields.text(active, "message") or fields.text(active, "reason")
    return f"is not active{f': {said}' * bool(said)}"


def read_cohort(one: Object) -> Cohort:
    """A Cohort; in its first version its parent has another name."""
    parent = fields.text(one, "spec", "parentName") or fields.text(one, "spec", "parent")
    return Cohort(fields.text(one, "metadata", "name"), parent, _quotas(one))


def _quotas(one: Object) -> tuple[QuotaOf, ...]:
    found = []
    for group in fields.each(one, "spec", "resourceGroups"):
        for flavor in fields.each(group, "flavors"):
            for resource in fields.each(flavor, "resources"):
                name = fields.text(resource, "name")
                if resources.is_accelerator(name):
                    most = _units(resource.get("borrowingLimit"))
                    lent = _units(resource.get("lendingLimit"))
                    nominal = _units(resource.get("nominalQuota")) or 0
                    of = fields.text(flavor, "name")
                    found.append(QuotaOf(of, name, nominal, most, lent))
    return tuple(found)


def _units(told: object) -> int | None:
    return None if told is None else max(0, int(fields.quantity(told)))


def read_local_queue(one: Object) -> LocalQueue:
    """A LocalQueue."""
    return LocalQueue(
        fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"), fields.text(one, "spec", "clusterQueue"),
        _closed(one),
    )  # fmt: skip


def read_flavor(one: Object) -> Flavor:
    """A ResourceFlavor."""
    taints = (
        pods.taint_pair(*(fields.text(taint, key) for key in ("key", "value", "effect")))
        for taint in fields.each(one, "spec", "nodeTaints")
        if fields.text(taint, "effect") != "PreferNoSchedule"
    )
    return Flavor(
        fields.text(one, "metadata", "name"), fields.words(one, "spec", "nodeLabels"),
        pods.tolerated(fields.inner(one, "spec")), tuple(taints),
    )  # fmt: skip
