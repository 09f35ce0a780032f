"""Why a job waits, or the rest of one whose pods are bound in part: the first word that counts."""

from typing import NamedTuple

from tidemill.journal import deciders
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import (
    beyond,
    fleet_now,
    in_the_way,
    kueue,
    makers,
    queue_limits,
    reasons,
    ties,
    unmet,
)
from tidemill.live.kubernetes.cluster import Cluster, KubeEvent
from tidemill.live.kubernetes.fleet_now import FleetNow, OnePlace, WhyPending
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.kueue import KueueWorkload
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import count_text
from tidemill.model.reasons import NEVER, Cause, Layer

_NAMED = 3


class PendingReason(NamedTuple):
    """Why a job waits, as its history keeps it."""

    words: str
    cause: Cause
    layer: Layer
    is_eligible: bool = True
    since_ms: int | None = None
    """Since when it is said; None: it is known of now alone."""


def why(cluster: Cluster, fleet: FleetNow, job: KubeJob) -> PendingReason | None:
    """Why what is missing of a job has no place; None: nobody says, and nothing shows it."""
    waits = [pod for pod in job.pods if pod.is_pending]
    gated = next((pod for pod in waits if pod.gates), None)
    if gated is not None and not set(gated.gates) & set(kueue.GATES):
        gates = ", ".join(gated.gates)
        held = WhyPending(Cause.NOT_ELIGIBLE, Layer.WORKLOAD, f"held by scheduling gate {gates}")
        shown = (
            f"kubectl get pod -n {gated.namespace} {gated.name} -o yaml"  # describe has no gates
        )
        return _made(held, "SchedulingGated", gated.message, shown, is_eligible=False)
    if job.is_suspended:
        held = WhyPending(Cause.NOT_ELIGIBLE, Layer.WORKLOAD, "suspended by its owner")
        return _made(held, "Suspended", "", _shown_owner(job), is_eligible=False)
    workload = job.workload
    if workload is not None and not workload.is_active:
        held = WhyPending(Cause.NOT_ELIGIBLE, Layer.WORKLOAD, "its workload is deactivated")
        return _made(held, "Kueue", workload.message, workload.shown_by, is_eligible=False)
    if workload is not None and not workload.has_quota and not workload.message:
        return _behind(fleet, workload)
    if workload is not None and not workload.has_quota:
        found = reasons.by_kueue(workload.reason, workload.message)
        return _made(found, "Kueue", workload.message, workload.shown_by)
    if workload is not None and not workload.is_admitted and not waits:
        found = WhyPending(
            Cause.NOTHING_LAUNCHED, Layer.PROVISIONING, "has quota; admission checks go on"
        )
        return _made(found, "Kueue", workload.message, workload.shown_by)
    if waits:
        kept_out = _unmade(cluster, job, waits) or _limited(cluster, job)
        return kept_out or _of_pods(cluster, fleet, job, waits)
    made = _not_up(cluster, job) or _refused(cluster, job) or _limited(cluster, job)
    return made or _incomplete(cluster, job)


def _behind(fleet: FleetNow, workload: KueueWorkload) -> PendingReason:
    """Of what Kueue has not looked at: who goes first, where nobody passes."""
    head = fleet.heads.get((workload.namespace, workload.queue))
    if head is None or head == workload:
        words = f"Kueue has not decided: it waits in its queue ({workload.shown_by})"
        return PendingReason(words, Cause.NONE, Layer.SCHEDULING)
    words = f"nobody passes in its queue (StrictFIFO), and {head.namespace}/{head.name} goes first"
    found = WhyPending(Cause.BEHIND, Layer.SCHEDULING, words)
    return _made(found, "Kueue", "", workload.shown_by)


_STUCK = {
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImagePull": "its image cannot be pulled",
    "InvalidImageName": "the name of its image is none",
    "ErrImageNeverPull": "its image is not on the node, and it says never to pull it",
    "CrashLoopBackOff": "its containers end soon after they start, again and again",
    "CreateContainerConfigError": "what its container needs (a secret, a config map) is not there",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be started",
}
"""Why no container of a pod that sits on a node runs, by the kubelet's word."""


_SLOW_MS = 5 * 60_000
"""How long an init container may run before it is a reason why its pod does not: most take less."""


def _not_up(cluster: Cluster, job: KubeJob) -> PendingReason | None:
    """A job all of whose pods sit somewhere, and one of them does not run."""
    alive = [pod for pod in job.pods if not pod.is_over]
    for how in (_stuck, _left, _without_volume, _at_init):
        found = (how(cluster, pod) for pod in alive)
        if (first := next(filter(None, found), None)) is not None:
            return first
    return None


def _stuck(_: Cluster, pod: KubePod) -> PendingReason | None:
    """By what the kubelet says of its containers."""
    if pod.stuck is None:
        return None
    words = _STUCK.get(pod.stuck.reason, "none of its containers runs that have GPUs")
    found = WhyPending(Cause.NONE, Layer.WORKLOAD, f"{words}; {_HOLDS}")
    also = pod.stuck.last_end
    return _made(found, pod.stuck.reason, pod.stuck.message, _shown(pod), also=also)


_HOLDS = "it holds its GPUs, and nothing runs on them"


def _left(_: Cluster, pod: KubePod) -> PendingReason | None:
    """Its work has ended, and another container keeps it there."""
    if pod.left is None:
        return None
    found = WhyPending(
        Cause.NONE, Layer.WORKLOAD, f"what ran on its GPUs {pod.left.words}; {_HOLDS}"
    )
    return _made(found, "Ended", "", _shown(pod))


def _without_volume(cluster: Cluster, pod: KubePod) -> PendingReason | None:
    """A volume cannot be attached or mounted, by the last word about it."""
    failed = cluster.last("Pod", pod.namespace, pod.name, *reasons.VOLUMES)
    if failed is None or not pod.node or pod.up_ms is not None or pod.init is not None:
        return None
    if failed.at_ms < max(pod.bound_ms or 0, cluster.seen_ms - _SAID_AGAIN_MS):
        return None  # of another pod of that name, or tried again since with success
    found = WhyPending(Cause.NONE, Layer.WORKLOAD, f"a volume of it cannot be mounted; {_HOLDS}")
    made = _made(found, failed.reason, failed.message, _shown(pod))
    return made._replace(since_ms=failed.first_ms)


_SAID_AGAIN_MS = 10 * 60_000
"""The kubelet tries to mount again after at most two minutes, and says each time that it failed."""


def _at_init(cluster: Cluster, pod: KubePod) -> PendingReason | None:
    """An init container runs for long, and the others wait for it."""
    if pod.init is None or not pod.node or cluster.seen_ms - pod.init.since_ms < _SLOW_MS:
        return None
    words = f"its init container `{pod.init.name}` still runs, and the others wait for it; {_HOLDS}"
    shown = f"kubectl logs -n {pod.namespace} {pod.name} -c {pod.init.name}"
    made = _made(WhyPending(Cause.NONE, Layer.WORKLOAD, words), "Init", "", shown)
    return made._replace(since_ms=pod.init.since_ms)


def _limited(cluster: Cluster, job: KubeJob) -> PendingReason | None:
    """A job that a limit of its queue keeps out, by its scheduler's word."""
    limit = queue_limits.of_job(cluster, job)
    return None if limit is None else _made(limit.found, limit.reason, limit.said, limit.shown_by)


def _unmade(cluster: Cluster, job: KubeJob, waits: list[KubePod]) -> PendingReason | None:
    """A gang that needs pods that nobody makes: no room, and no node, starts it."""
    if not makers.of_too_few(cluster, job):
        return None
    first = min(waits, key=lambda pod: (not pod.message, pod.created_ms, pod.name))
    return _incomplete(cluster, job, first.reason, first.message)


def _of_pods(
    cluster: Cluster, fleet: FleetNow, job: KubeJob, waits: list[KubePod]
) -> PendingReason | None:
    """By the pod that waits longest, held against the nodes."""
    refused = [pod for pod in waits if pod.reason in reasons.REFUSALS]
    first = min(refused or waits, key=lambda pod: (not pod.message, pod.created_ms, pod.name))
    if refused:
        held = WhyPending(Cause.NOT_ELIGIBLE, Layer.WORKLOAD, reasons.REFUSALS[first.reason])
        return _made(held, first.reason, first.message, _shown(first), is_eligible=False)
    role = next(role for role in job.roles if first in role.pods)
    bound = sum(bool(pod.node) and not pod.is_over for pod in role.pods)
    size = beyond.least(job, role)
    missing = max(1, size - bound)
    event = cluster.last("Pod", first.namespace, first.name, "FailedScheduling")
    said = first.message or (event.message if event else "")
    on = sorted({pod.node for pod in job.pods if pod.node and not pod.is_over})
    labels = tuple(one for one in ties.required(job.ties) if "/" in one)  # others are our tiers
    where = OnePlace(labels, tuple(on)) if labels else fleet_now.ANYWHERE
    facts = _by_facts(fleet, first, missing, size, where)
    found, by_line = _being_emptied(cluster, first) or facts, reasons.by_message(said)
    if found is None or not found.is_sure:
        found = reasons.by_message(said, beside_room=found is not None) or found
    if by_line is not None and _is_of_job(by_line) and not _is_never(facts):
        found = by_line
    race = _lost_race(job, event)
    if race is not None and (found is None or found.cause in (Cause.NONE, Cause.LOST_RACE)):
        return race
    group = job.group
    shown = _shown(first)
    if facts is not None and not facts.is_sure and found is facts and group and group.message:
        found = reasons.by_message(f"gang {group.message}") or found
        said, shown = group.message, group.shown_by
    is_of_gang = by_line is not None and by_line.cause is Cause.PARTIAL_GANG
    if (found is facts or is_of_gang) and not _is_never(facts):
        quoted = (first.reason, said) if is_of_gang else ("", "")
        lacks = _incomplete(cluster, job, *quoted, also=_silent(first, said))
        if lacks is not None:
            return _refused(cluster, job) or lacks
    if found is None:
        return None
    also = _scaling(cluster, first, found.cause) or _silent(first, said)
    near = in_the_way.words(fleet, first, found) or unmet.by_pods(fleet, first)
    more = beyond.words(fleet, job, role, size)
    also = "; ".join(filter(None, (also, near, _raced(job), more)))
    made = _made(found, first.reason or "Pending", said, shown, also=also)
    is_said = not found.is_of_facts or (by_line is not None and by_line.cause is found.cause)
    if event is None or not is_said or event.message != said:
        return made
    return made._replace(since_ms=event.first_ms)


def _by_facts(
    fleet: FleetNow, pod: KubePod, missing: int, size: int, where: OnePlace
) -> WhyPending | None:
    """What nodes and pods show: that no room does, or how much there is."""
    if (never := unmet.by_devices(fleet, pod.request)) is not None:
        return never
    facts = reasons.by_facts(fleet, pod.request, missing, size, where)
    return facts if _is_never(facts) else unmet.by_labels(fleet, pod) or facts


def _is_of_job(found: WhyPending) -> bool:
    """Whether a line counts whatever is free: about what the job itself lacks, such as a volume,
    or a place that its scheduler gave it and that others took.
    """
    lacks = (found.cause, found.layer) == (Cause.NONE, Layer.WORKLOAD)
    return lacks or found.cause is Cause.LOST_RACE


def _is_never(facts: WhyPending | None) -> bool:
    return facts is not None and facts.cause in NEVER


def _lost_race(job: KubeJob, event: KubeEvent | None) -> PendingReason | None:
    """That nodes refused pods of a job, for others had their GPUs; or the server, to bind one."""
    refused = [pod for pod in job.pods if pod.outcome is AttemptEnd.REJECTED]
    if refused:
        last = max(refused, key=lambda pod: (pod.end_ms or 0, pod.name))
        found = reasons.lost_race({pod.node for pod in refused}, len(refused))
        made = _made(found, last.refusal, last.refused_as, _shown(last))
        return made._replace(since_ms=last.end_ms)
    by_line = reasons.by_message(event.message) if event is not None else None
    if event is None or by_line is None or by_line.cause is not Cause.LOST_RACE:
        return None
    shown = f"kubectl describe pod -n {event.namespace} {event.name}"
    found = reasons.lost_race(reasons.assigned(event.message), event.count)
    return _made(found, "SchedulerError", event.message, shown)._replace(since_ms=event.first_ms)


def _raced(job: KubeJob) -> str:
    """The same, beside what keeps it out now."""
    refused = [pod for pod in job.pods if pod.outcome is AttemptEnd.REJECTED]
    return reasons.lost_race({p.node for p in refused}, len(refused)).words if refused else ""


def _refused(cluster: Cluster, job: KubeJob) -> PendingReason | None:
    """A job of which pods were not made: a quota of its namespace, or a webhook, refused them."""
    failed = cluster.last(job.key.kind, job.key.namespace, job.key.name, "FailedCreate")
    if failed is None or failed.at_ms < max((pod.created_ms for pod in job.pods), default=0):
        return None
    if (words := "exceeded quota") in failed.message:
        shown = f"kubectl describe resourcequota -n {job.key.namespace}"
        mine = [one for one in cluster.quotas if one.namespace == job.key.namespace]
        found = reasons.by_quota(failed.message, mine)
        made = _made(found, "FailedCreate", failed.message, shown)
        return made._replace(since_ms=cluster.since_ms(failed, words))
    words = "some of its pods are refused" if job.pods else "its pods are refused, so it has none"
    refused = WhyPending(Cause.NONE, Layer.WORKLOAD, words)
    return _made(refused, "FailedCreate", failed.message, _shown_owner(job))


def _incomplete(
    cluster: Cluster, job: KubeJob, reason: str = "", said: str = "", also: str = ""
) -> PendingReason | None:
    """A gang that does not start because somebody has yet to create some of its pods."""
    wanted = sum(map(job.needed, job.roles))
    needed = min(job.least or wanted, wanted)
    missing = needed - sum(not pod.is_over for pod in job.pods)
    if missing <= 0:
        return None
    do = "does" if missing == 1 else "do"
    words = f"{missing:,} of the {count_text(needed, 'pod')} that it needs to start {do} not exist"
    too_few = makers.of_too_few(cluster, job)
    words += makers.said(too_few)
    cause = Cause.NOT_ELIGIBLE if too_few else Cause.NONE
    found = WhyPending(cause, Layer.WORKLOAD, words, is_of_facts=True)
    of = job.workload or job.group
    shown = _shown_owner(job) if of is None else of.shown_by
    return _made(found, reason or "Pending", said, shown, also=also, is_eligible=not too_few)


def _being_emptied(cluster: Cluster, pod: KubePod) -> WhyPending | None:
    """That its scheduler has chosen a node for a pod and stops others there, which go on."""
    leaving = [
        one.full_name for one in cluster.pods
        if pod.nominated and one.node == pod.nominated and not one.is_over
        and one.leaves_ms is not None and one.request.gpu is not None
    ]  # fmt: skip
    if not leaving:
        return None
    names = ", ".join(leaving[:_NAMED]) + (", …" if len(leaving) > _NAMED else "")
    words = f"its scheduler has chosen {pod.nominated} for it, where {names} must end first"
    return WhyPending(Cause.PROMISED, Layer.SCHEDULING, words, is_of_facts=True)


def _silent(pod: KubePod, said: str) -> str:
    """That a scheduler of its own has said nothing of a pod: it may not run."""
    named = pod.request.scheduler
    if said or pod.reason or named in ("", deciders.DEFAULT):
        return ""
    return f"its scheduler `{named}` has said nothing of it: does it run?"


def _scaling(cluster: Cluster, pod: KubePod, cause: Cause) -> str:
    """What autoscalers do for a pod; how node groups are now counts more than what was begun."""
    groups = cluster.autoscaler
    now = groups.words(pod.request) if groups and cause in reasons.OF_NODES else ""
    found = cluster.last("Pod", pod.namespace, pod.name, *reasons.SCALING)
    if found is None or (now and found.reason == "TriggeredScaleUp"):
        return now
    return "; ".join(filter(None, (reasons.SCALING[found.reason], now)))


def _shown(pod: KubePod) -> str:
    return f"kubectl describe pod -n {pod.namespace} {pod.name}"


def _shown_owner(job: KubeJob) -> str:
    if (job.key.group, job.key.kind) == (kueue.GROUP, "PodGroup"):  # its groups are no objects
        return f"kubectl get pods -n {job.key.namespace} -l {kueue.POD_GROUP}={job.key.name}"
    return f"kubectl describe {job.kubectl_kind} -n {job.key.namespace} {job.key.name}"


def _made(
    found: WhyPending, scheduler: str, said: str, shown: str, *, also: str = "",
    is_eligible: bool = True,
) -> PendingReason:  # fmt: skip
    words = reasons.told(found, scheduler, said, shown, also)
    return PendingReason(words, found.cause, found.layer, is_eligible)
