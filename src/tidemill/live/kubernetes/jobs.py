"""Jobs: which pods are one job, what it requests in all, whose it is and what it is for.

Pods that work together are one job, a gang, with its pods as replicas: those of one JobSet,
training job, Ray cluster, Volcano job, group of a LeaderWorkerSet, pod group, or of an indexed Job
all of whose pods run at once; and those of Jobs that name a gang in an annotation of ours. A Job
with one pod at a time is one job, its later pods are further attempts. Every other pod is a job.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import (
    admission,
    groups,
    job_roles,
    job_rules,
    kai_parts,
    kueue,
    owner_chain,
    owners,
    ties,
    unmade,
    wanted,
    workloads,
)
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.job_roles import JobRole
from tidemill.live.kubernetes.job_rules import JobRules
from tidemill.live.kubernetes.kueue import KueueWorkload
from tidemill.live.kubernetes.owner_chain import LWS, LWS_GROUP, LWS_NAME
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.ties import Tie
from tidemill.live.kubernetes.workloads import Workloads
from tidemill.model.errors import SpecError
from tidemill.model.states import JobClass

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
_INTERACTIVE = {("component", "singleuser-server"), ("app", "jupyterhub")}
_QUEUES = ("kai.scheduler/queue", "runai/queue", "volcano.sh/queue-name")


class UnitKey(Struct, frozen=True, order=True, cache_hash=True):
    """What makes several pods one job."""

    namespace: str
    group: str
    kind: str
    name: str
    part: str = ""

    @property
    def shown(self) -> str:
        """What people call it."""
        return f"{self.namespace}/{self.name}" + (f"-{self.part}" if self.part else "")


class KubeJob(Struct, frozen=True, kw_only=True):
    """A job: a gang, or one pod at a time."""

    key: UnitKey
    name: str
    team: str
    job_class: JobClass
    submit_ms: int | None
    roles: tuple[JobRole, ...]
    least: int
    """With how many of its pods it works."""
    priority: int
    is_suspended: bool
    is_preemptible: bool
    may_preempt: bool
    """Not if one of its pods says that nobody is to be evicted for it."""
    end: tuple[AttemptEnd, int] | None
    owner: OwnerObject | None
    groups: tuple[PodGroup, ...]
    """Pod groups that its pods name, of those that are known."""
    workload: KueueWorkload | None
    beyond: tuple[KubePod, ...] = ()
    """Pods that its group does not need, and that no node can hold (``beyond``)."""
    templates: tuple[PodTemplate, ...] = ()
    """The pods that are wanted, as whoever makes them describes them; none: nobody does."""
    quota: str = ""
    """The cluster queue of Kueue's that admits it, as it is called beside teams; "": none, or that
    is its team."""
    life: int = 1
    """Which of several objects it is that had its name after each other."""

    @property
    def pods(self) -> tuple[KubePod, ...]:
        """All that exist."""
        return tuple(pod for role in self.roles for pod in role.pods)

    @property
    def requests(self) -> Iterator[PodRequest]:
        """What its pods request; of a job without any, what those with accelerators would."""
        if self.pods:
            yield from (pod.request for pod in self.pods)
        else:
            yield from (one.request for one in self.templates if one.request.gpu is not None)

    @property
    def group(self) -> PodGroup | None:
        """The first of its pod groups; nearly always there is one, or none."""
        return next(iter(self.groups), None)

    @property
    def ties(self) -> tuple[Tie, ...]:
        """In which places all of its pods have to be, or should: by them, or by their group."""
        told = [tie for pod in self.pods for tie in ties.of_pod(pod.annotations)]
        if not told:  # none are made yet, or those that are do not say it
            asked = (*self.templates, *(self.workload.templates if self.workload else ()))
            told = [tie for one in asked for tie in one.ties]
        return tuple(dict.fromkeys((*told, *(tie for one in self.groups for tie in one.ties))))

    @property
    def exclusive(self) -> str:
        """The annotation by which parts of it have places for themselves, whose pods are made one
        after the other; "": none. A pod alone has rules that say the same.
        """
        above = (self.owner.annotations,) if self.owner is not None else ()
        notes = (*(pod.annotations for pod in self.pods), *above)
        told = (ties.exclusive(one) for one in notes) if self.size > 1 else ()
        return next(filter(None, told), "")

    @property
    def unkept(self) -> tuple[str, ...]:
        """What its pod groups require that nobody here keeps, by name."""
        return groups.unkept(self.groups)

    @property
    def size(self) -> int:
        """Pods in all."""
        return sum(role.count for role in self.roles)

    def needed(self, role: JobRole) -> int:
        """How many pods of a role it still needs at once: those that ended well are not made again.

        Of what no owner describes, those count that are there.
        """
        if not self.ends_pod_by_pod:
            return role.count
        return self.at_once(role.count, self.done(role))

    @property
    def has_lost_pods(self) -> bool:
        """Whether its owner made pods before those that are known, which are gone and forgotten."""
        if self.owner is None or not self.pods or any(pod.gone_ms for pod in self.pods):
            return False  # an earlier export has them
        # a Job counts pods that are being deleted as failed; a JobSet deletes all when it restarts
        failed = sum(
            (pod.is_over and pod.outcome is not AttemptEnd.DONE) or pod.leaves_ms is not None
            for pod in self.pods
        )
        return self.owner.remade > (0 if self.owner.kind == "JobSet" else failed)

    @property
    def is_outlived(self) -> bool:
        """Whether its owner says that it is over, and a pod of it still holds accelerators."""
        holds = (pod.node and not pod.is_over and pod.request.gpu for pod in self.pods)
        return self.end is not None and any(holds)

    @property
    def kubectl_kind(self) -> str:
        """What kubectl calls the kind of object that it is."""
        return owners.asked_as(self.key.kind, self.key.group)

    @property
    def is_made_at_once(self) -> bool:
        """Whether its pods never wait to be made: each group of a LeaderWorkerSet is made at once,
        and anew when one of its pods fails.
        """
        return self.key.group == LWS and bool(self.pods)

    @property
    def ends_pod_by_pod(self) -> bool:
        """Whether its owner says how many pods it wants, and a pod that ended well is one less."""
        owner = self.owner
        return owner is not None and bool(owner.templates) and owner.group not in (wanted.RAY, LWS)

    def done(self, role: JobRole) -> int:
        """How many pods of a role ended well; a Job also counts those that are deleted by now."""
        told = self.owner.succeeded if self.owner is not None and len(self.roles) == 1 else 0
        return max(told, sum(pod.outcome is AttemptEnd.DONE for pod in role.pods))

    def at_once(self, count: int, done: int) -> int:
        """How many of so many pods run at once after some are done: a Job may have more to do."""
        completions = self.owner.completions if self.owner is not None else 0
        return max(min(count, completions - done) if completions else count - done, 1)


class TeamRule:
    """How jobs are told apart by teams: by namespace, by a label, by queue, or by a file's rules.

    Such a file may say what a job is for, too.
    """

    def __init__(self, told: str, cluster: Cluster) -> None:
        by, _, path = told.partition(":")
        self._rules = job_rules.read(path) if by == job_rules.FILE and path else JobRules()
        told = self._rules.team_by if by == job_rules.FILE and path else told
        self.by, _, self.label = told.partition(":")
        if self.by not in ("namespace", "label", "queue") or (self.by == "label") != bool(
            self.label
        ):
            raise SpecError(
                f"--team-by is `{told}`",
                hint="namespace, queue, label:KEY such as label:team, or file:RULES.toml",
            )
        self._cluster = cluster

    def team(self, job: "RuledJob", queue: str) -> str:
        """The team of a job."""
        if ruled := self._ruled(job)[0]:
            return ruled
        if self.by == "label":
            told = (*job.labels, self._cluster.namespaces.get(job.key.namespace, {}))
            return next((one[self.label] for one in told if one.get(self.label)), "unknown")
        if self.by == "queue" and queue:
            local = self._cluster.local_queues.get((job.key.namespace, queue))
            return local.cluster_queue if local and local.cluster_queue else queue
        return job.key.namespace

    def quota(self, namespace: str, queue: str) -> str:
        """The cluster queue of a local queue of Kueue's, where teams are something else."""
        local = self._cluster.local_queues.get((namespace, queue))
        if self.by == "queue" or local is None or not local.cluster_queue:
            return ""
        return admission.row_name(local.cluster_queue, self.by)

    def job_class(self, job: "RuledJob") -> JobClass | None:
        """What a job is for, if a rule says it."""
        return self._ruled(job)[1]

    def _ruled(self, job: "RuledJob") -> tuple[str, JobClass | None]:
        if not self._rules.rule:
            return "", None
        mine = [(job.key.kind, job.key.name)]
        for pod in job.pods[:1]:
            above = ((one.kind, one.name) for one in owner_chain.above(self._cluster, pod))
            mine += [("Pod", pod.name), *above]
        return self._rules.find(job.key.namespace, mine, job.labels)


class RuledJob(NamedTuple):
    """What rules are asked about; ``labels`` of its owner and pods, the owner first."""

    key: UnitKey
    labels: Sequence[Mapping[str, str]] = ()
    pods: Sequence[KubePod] = ()


class _Life(NamedTuple):
    """An object that is a job, as far as it is there, and its pods."""

    pods: list[KubePod]
    owner: OwnerObject | None

    @property
    def created_ms(self) -> int:
        """When the first of it was made."""
        told = self.owner.created_ms if self.owner is not None else None
        times = [pod.created_ms for pod in self.pods] + ([told] if told is not None else [])
        return min(times, default=0)


def jobs_of(cluster: Cluster, rule: TeamRule, *, looks_back: bool = True) -> Iterator[KubeJob]:
    """All jobs that request accelerators, or that may.

    ``looks_back``: all is known that had a name, and each such object is a job. (Whoever watches
    tells of one at a time, and by the journal whether that was over.)
    """
    units = dict[UnitKey, list[KubePod]]()
    for pod in kai_parts.without_reservations(cluster.pods):
        units.setdefault(unit_of(cluster, pod), []).append(pod)
    known = Workloads(cluster)
    for key, pods in units.items():
        lives = _lives(cluster, key, pods) if looks_back else [_present(cluster, key, pods)]
        *before, last = [one for one in lives if one.pods or _waits_alone(cluster, one.owner)]
        told = [_job(cluster, rule, key, one, None) for one in before]
        told.append(_job(cluster, rule, key, last, _workload(cluster, known, key, last.pods)))
        yield from _numbered(told)
    owned = {(pod.namespace, pod.owner.kind, pod.owner.name) for pod in cluster.pods if pod.owner}
    for (group, kind, namespace, name), owner in cluster.owners.items():
        key = UnitKey(namespace, group, kind, name)
        if key in units or (namespace, kind, name) in owned or not _stands_alone(cluster, owner):
            continue
        workload = known.of_job(namespace, [(kind, name)])
        lives = _lives(cluster, key, []) if looks_back else [_present(cluster, key, [])]
        yield from _numbered([
            _job(cluster, rule, key, one, workload if one.owner is owner else None)
            for one in lives if _waits_alone(cluster, one.owner)
        ])  # fmt: skip
    for owner in unmade.rest_of(cluster):
        key = UnitKey(owner.namespace, owner.group, owner.kind, owner.name)
        is_told = key in units or (
            _stands_alone(cluster, owner) and (owner.namespace, owner.kind, owner.name) not in owned
        )
        if not is_told:
            yield _job(cluster, rule, key, _Life([], owner), None)
    for rest, above in known.waiting():
        yield _of_workload(cluster, rule, rest, above)


def _numbered(told: Iterable[KubeJob]) -> Iterator[KubeJob]:
    """Jobs that had one name after each other; one without accelerators does not count."""
    life = 0
    for job in told:
        life += bool(job.roles)
        yield replace(job, life=life) if life > 1 else job


def _present(cluster: Cluster, key: UnitKey, pods: list[KubePod]) -> _Life:
    """What has a name now, with these pods."""
    return _Life(pods, cluster.owners.get((key.group, key.kind, key.namespace, key.name)))


def _lives(cluster: Cluster, key: UnitKey, pods: list[KubePod]) -> list[_Life]:
    """The objects that had a name after each other, each with its pods; nearly always one.

    Pods that one object made, one after the other, are attempts of one job. A pod that nothing owns
    is made once.
    """
    present = _present(cluster, key, []).owner
    last = present.uid if present is not None else ""
    every = [*cluster.earlier.get((key.group, key.kind, key.namespace, key.name), ())]
    every += [present] if present is not None else []
    found = {one.uid: _Life([], one) for one in every}
    for pod in pods:
        uid = _uid(cluster, key, pod) or last
        found.setdefault(uid, _Life([], None)).pods.append(pod)
    return sorted(found.values(), key=lambda one: one.created_ms)


def _uid(cluster: Cluster, key: UnitKey, pod: KubePod) -> str:
    """Of the object that a pod's job is; "": nobody says."""
    if key == alone(pod):
        return pod.owner.uid if pod.owner is not None else pod.uid
    of = (key.group, key.kind, key.name)
    above = owner_chain.above(cluster, pod)
    return next((one.uid for one in above if (one.group, one.kind, one.name) == of), "")


def _workload(
    cluster: Cluster, known: Workloads, key: UnitKey, pods: Sequence[KubePod]
) -> KueueWorkload | None:
    """Kueue's workload of a job."""
    names = ((key.kind, key.name), *(("Pod", pod.name) for pod in pods))
    found = known.of_job(key.namespace, names)
    if found is not None or not pods:
        return found
    is_alone = key == alone(pods[0])
    return known.of_owners(pods[0], owner_chain.above(cluster, pods[0]), is_alone=is_alone)


def unit_of(cluster: Cluster, pod: KubePod) -> UnitKey:
    """Which job a pod belongs to."""
    labels, namespace = pod.labels, pod.namespace
    if labels.get(LWS_NAME):
        part = labels.get(LWS_GROUP, "0")
        return UnitKey(namespace, LWS, "LeaderWorkerSet", labels[LWS_NAME], part)
    top, grouped = owner_chain.top(cluster, pod), groups.of_pod(pod)
    is_job = top is not None and owners.is_job(top.kind, top.group)
    is_told = is_job and grouped is not None and _spans_jobs(cluster, pod, grouped)
    if top is not None and owners.is_gang_kind(top.kind, top.group) and not is_told:
        key = UnitKey(namespace, top.group, top.kind, top.name)
        if not is_job or grouped:
            return key
        owner = cluster.owner(top, namespace)
        if owner is None:
            return key if JOB_INDEX in labels and pod.subdomain else alone(pod)
        is_one = owner.is_gang or sum(part.count for part in owner.templates) <= 1
        return key if is_one else alone(pod)
    if grouped:
        return UnitKey(namespace, grouped[0], "PodGroup", grouped[2])
    return alone(pod)


def regroups(before: UnitKey, now: UnitKey) -> bool:
    """Whether pods that were a gang by their Job are one by a pod group now, or vice versa."""
    return {before.kind, now.kind} == {"Job", "PodGroup"}


def is_of_job(pod: KubePod) -> bool:
    """Whether a Job made a pod."""
    return pod.owner is not None and owners.is_job(pod.owner.kind, pod.owner.group)


def _spans_jobs(cluster: Cluster, pod: KubePod, told: GroupKey) -> bool:
    """Whether the gang that a pod of a Job names is more than the pods of that Job: Jobs cannot
    say so, and a group says it by needing more than one of them makes.
    """
    if told[0] == groups.OWN:
        return True
    group = groups.find(cluster.groups, told)
    owner = cluster.owner(pod.owner, pod.namespace) if pod.owner is not None else None
    if group is None or owner is None:
        return False
    return group.least > sum(part.count for part in owner.templates) > 0


def alone(pod: KubePod) -> UnitKey:
    """The key of a pod that is a job by itself."""
    return alone_named((pod.namespace, pod.name))


def alone_named(pod: tuple[str, str]) -> UnitKey:
    """The same, by its namespace and name."""
    return UnitKey(pod[0], "", "Pod", pod[1])


def names_above(cluster: Cluster, pod: KubePod) -> list[str]:
    """What a pod belongs to, directly or not, by namespace and name, its gang among them."""
    top, gang = owner_chain.top(cluster, pod), unit_of(cluster, pod)
    names = [
        one.name for one in (*owner_chain.above(cluster, pod), *([top] if top is not None else []))
    ]
    shown = [f"{pod.namespace}/{name}" for name in names]
    return list(dict.fromkeys([*shown, *([gang.shown] if gang != alone(pod) else [])]))


def class_of(cluster: Cluster, rule: TeamRule, job: RuledJob) -> JobClass:
    """What a job is for: by a rule, or by the kinds of its owners, whoever says so first."""
    if (ruled := rule.job_class(job)) is not None:
        return ruled
    key, pods = job.key, job.pods
    for pod in pods[:1]:
        if "notebook-name" in pod.labels or not _INTERACTIVE.isdisjoint(pod.labels.items()):
            return JobClass.INTERACTIVE
        if "serving.kserve.io/inferenceservice" in pod.labels:
            return JobClass.INFERENCE
    found = owners.class_of(key.kind, key.group)
    if found is not None:
        return found
    last = None
    for above in owner_chain.above(cluster, pods[0]) if pods else ():
        last = owners.class_of(above.kind, above.group) or last
    return last or JobClass.TRAINING


def _stands_alone(cluster: Cluster, owner: OwnerObject) -> bool:
    """Whether an owner without pods is a job, and not a part of another."""
    if not owners.is_gang_kind(owner.kind, owner.group) or owner.kind == "LeaderWorkerSet":
        return False
    above = owner.owner
    return (
        above is None
        or not owners.is_gang_kind(above.kind, above.group)
        or (cluster.owner(above, owner.namespace) is None)
    )


def _waits_alone(cluster: Cluster, owner: OwnerObject | None) -> bool:
    """Whether an owner without pods is a job that waits for accelerators, or did."""
    if owner is None or not _stands_alone(cluster, owner):
        return False
    is_shown = owner.end is None or owner.deleted_ms is not None
    return is_shown and any(part.request.gpu for part in owner.templates)


def job_of(
    cluster: Cluster,
    rule: TeamRule,
    key: UnitKey,
    pods: list[KubePod],
    workload: KueueWorkload | None,
) -> KubeJob:
    """The job that these pods are."""
    return _job(cluster, rule, key, _present(cluster, key, pods), workload)


def _job(
    cluster: Cluster,
    rule: TeamRule,
    key: UnitKey,
    life: _Life,
    workload: KueueWorkload | None,
) -> KubeJob:
    pods, owner = life
    named = {one for pod in pods if (one := groups.of_pod(pod)) is not None}
    found = (groups.find(cluster.groups, one) for one in sorted(named))
    known = [group for group in found if group is not None]
    is_alone = bool(pods) and key == alone(pods[0])  # beyond what its group needs
    mine, gangs = (set[GroupKey](), []) if is_alone else (named, known)
    templates = wanted.templates(cluster, (key.namespace, key.kind, key.name), pods, owner, mine)
    roles = job_roles.of_pods(templates, pods)
    labels = [one.labels for one in (owner, *pods) if one is not None]
    if owner is None and pods:
        above = (cluster.owner(one, key.namespace) for one in owner_chain.above(cluster, pods[0]))
        labels += [one.labels for one in above if one is not None]
    queue, ruled = _queue(labels, known, workload), RuledJob(key, labels, pods)
    least = wanted.least(owner, gangs, roles, templates)
    if (local := _queue_of_kueue(labels, workload)) and (workload is not None or not pods):
        least = wanted.least_by_kueue(owner, workload, roles, least)
    return KubeJob(
        key=key, name=key.shown, team=rule.team(ruled, queue),
        job_class=class_of(cluster, rule, ruled),
        submit_ms=_submit_ms(key, pods, owner, workload),
        roles=roles, least=least,
        priority=_priority(cluster, known, roles, workload),
        is_suspended=owner is not None and owner.is_suspended and workload is None,
        is_preemptible=all(pod.is_over or _may_be_stopped(cluster, pod) for pod in pods),
        may_preempt=all(pod.request.may_preempt for pod in pods),
        end=owner.end if owner is not None else None, owner=owner,
        groups=tuple(known), workload=workload, templates=templates,
        quota=rule.quota(key.namespace, local),
    )  # fmt: skip


def _submit_ms(
    key: UnitKey, pods: list[KubePod], owner: OwnerObject | None, workload: KueueWorkload | None
) -> int | None:
    """When a job was submitted: by its owner, by Kueue's workload, or by its first pod."""
    if workload is not None and pods and key == alone(pods[0]):
        return workloads.submit_ms(workload, pods[0])
    told = owner.created_ms if owner is not None else None
    told = told if told is not None else workload.created_ms if workload else None
    created = [pod.created_ms for pod in pods]
    return min([*created, *([told] if told is not None else [])], default=None)


def _of_workload(
    cluster: Cluster, rule: TeamRule, workload: KueueWorkload, above: OwnerObject | None
) -> KubeJob:
    """What a workload of Kueue's has no pods for: it waits for quota, or for them to be made."""
    owner = next(iter(workload.owners), None)
    key = UnitKey(
        workload.namespace, owner.group if owner else kueue.GROUP,
        owner.kind if owner else "Workload", owner.name if owner else workload.name,
    )  # fmt: skip
    roles = job_roles.of_pods(workload.templates, [])
    ruled = RuledJob(key, [above.labels] if above is not None else [])
    return KubeJob(
        key=key, name=key.shown, team=rule.team(ruled, workload.queue),
        job_class=class_of(cluster, rule, ruled), submit_ms=workload.waits_since_ms,
        roles=roles, least=wanted.least_by_kueue(above, workload, roles, 0),
        priority=workload.priority, is_suspended=not workload.is_active, is_preemptible=True,
        may_preempt=all(role.request.may_preempt for role in roles),
        end=None, owner=None, groups=(), workload=workload, templates=workload.templates,
        quota=rule.quota(key.namespace, workload.queue),
    )  # fmt: skip


def _queue(
    labels: Iterable[Mapping[str, str]], known: list[PodGroup], workload: KueueWorkload | None
) -> str:
    if workload is not None and workload.queue:
        return workload.queue
    for one in labels:
        for key in (kueue.QUEUE_LABEL, *_QUEUES):
            if one.get(key):
                return one[key]
    return next((group.queue for group in known if group.queue), "")


def _queue_of_kueue(labels: Iterable[Mapping[str, str]], workload: KueueWorkload | None) -> str:
    """The local queue through which a job goes; "": it does not go through Kueue."""
    told = (one[kueue.QUEUE_LABEL] for one in labels if one.get(kueue.QUEUE_LABEL))
    return workload.queue if workload is not None and workload.queue else next(told, "")


def _priority(
    cluster: Cluster, known: list[PodGroup], roles: tuple[JobRole, ...],
    workload: KueueWorkload | None,
) -> int:  # fmt: skip
    """Of its pod group, where that has one, as Kubernetes does; else of its pods."""
    if (told := groups.priority(known, cluster.priorities)) is not None:
        return told
    for role in roles:
        for pod in role.pods:
            name = pod.request.priority_class
            return pod.request.priority or cluster.priorities.get(name, 0)
    return workload.priority if workload is not None else 0


def _may_be_stopped(cluster: Cluster, pod: KubePod) -> bool:
    """Whether a pod comes back, and no budget keeps it from being evicted now."""
    return pod.may_be_stopped and not any(
        not one.allows and one.selects(pod.namespace, pod.labels) for one in cluster.budgets
    )
