"""Owners: whose a pod is, what its owner wants in all, and how that ended.

A job is what somebody submitted: the topmost owner that Tidemill knows (a JobSet and not its Jobs,
a RayJob and not its RayCluster). One row per kind says where the templates are.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import fields, pods, ties
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.pods import Owner, PodRequest, Toleration
from tidemill.live.kubernetes.ties import Tie
from tidemill.model.states import JobClass

DEEPEST = 8
"""Owners above owners; more is a circle."""
MOST_PODS = 100_000


class PodTemplate(Struct, frozen=True):
    """So many pods of one form."""

    name: str
    count: int
    request: PodRequest
    added: tuple[tuple[Toleration, str], ...] = ()
    """What of its tolerations admission adds (``pods_as_made``), and a pod that shows it."""
    ties: tuple[Tie, ...] = ()
    """In which places all of them have to be, or should."""


class OwnerObject(Struct, frozen=True, kw_only=True):
    """An object that makes pods, or makes objects that do."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    created_ms: int | None
    owner: Owner | None
    templates: tuple[PodTemplate, ...]
    least: int
    """With how many of its pods it works; 0: with all."""
    is_gang: bool
    """Whether its pods work together or not at all."""
    is_suspended: bool
    end: tuple[AttemptEnd, int] | None
    size: int = 0
    """Of what is made several times (LeaderWorkerSet): pods of each group."""
    deleted_ms: int | None = None
    deadline_s: int = 0
    """How long it may run at most (`activeDeadlineSeconds`); 0: nobody says."""
    completions: int = 0
    """How many of its pods have to succeed, where that is more than run at once; 0: it is not."""
    succeeded: int = 0
    """How many of its pods have, as a Job says."""
    remade: int = 0
    """How often it made pods in the place of others, as a Job (pods that failed) or JobSet says."""
    scale: int = -1
    """How many pods its scale says (`/scale`, or `parallelism` of a Job); -1: it has none."""
    last_ms: int | None = None
    """When the last export was made that shows it, where later ones do not; None: all do."""
    makes: tuple[PodTemplate, ...] = ()
    """Pods that it makes, where each is a job by itself."""
    is_in_turn: bool = False
    """Whether it makes a pod only when the one before is ready (a StatefulSet, if not told)."""

    def deleted(self, at_ms: int) -> "OwnerObject":
        """The object after it was deleted: over since then, unless it had ended before."""
        return replace(self, end=self.end or (AttemptEnd.CANCELLED, at_ms), deleted_ms=at_ms)

    def vanished(self, last_ms: int, gone_ms: int) -> "OwnerObject":
        """The object, gone by a moment and last seen before: over since it was seen last."""
        del gone_ms
        return replace(self.deleted(last_ms), last_ms=last_ms)


class _Kind(Struct, frozen=True):
    groups: tuple[str, ...]
    templates: Callable[[Object], Iterator[PodTemplate]]
    job_class: JobClass
    is_gang: Callable[[Object], bool] = lambda _: True
    least: Callable[[Object], int] = lambda _: 0
    suspend: tuple[str, ...] = ("spec", "suspend")
    scale: Callable[[Object], int] = lambda _: -1
    makes: Callable[[Object], Iterator[PodTemplate]] = lambda _: iter(())


def _replicas(one: Object, default: int = 1) -> int:
    found = fields.number(one, "replicas")
    return min(max(default if found is None else found, 0), MOST_PODS)


def _template(name: str, count: int, spec: Object) -> PodTemplate:
    return _pods_of(name, count, fields.inner(spec, "template"))


def _pods_of(name: str, count: int, template: Object) -> PodTemplate:
    return PodTemplate(
        name, count, pods.request_of(fields.inner(template, "spec")),
        ties=tuple(ties.of_pod(fields.words(template, "metadata", "annotations"))),
    )  # fmt: skip


def _scale(one: Object) -> int:
    return _replicas(fields.inner(one, "spec"))


def _scale_of_job(one: Object) -> int:
    found = fields.number(one, "spec", "parallelism")
    return 1 if found is None else min(max(found, 0), MOST_PODS)


def _scale_of_training(one: Object) -> int:
    """Of its workers, which is what the training operator's `/scale` sets; -1: it has none."""
    for key, roles in sorted(fields.inner(one, "spec").items()):
        if key.endswith("ReplicaSpecs") and isinstance(roles, dict) and "Worker" in roles:
            return _replicas(fields.inner(roles, "Worker"))
    return -1


def _nothing(one: Object) -> Iterator[PodTemplate]:  # noqa: ARG001 - as every row's function is called
    yield from ()


def _of_job(one: Object) -> Iterator[PodTemplate]:
    count = fields.number(one, "spec", "parallelism")
    yield _template("worker", 1 if count is None else max(0, count), fields.inner(one, "spec"))


def _is_indexed(one: Object) -> bool:
    """Whether the pods of a Job find each other by name and number: those that run at once.

    Numbered pods without a `subdomain` cannot call each other: each works by itself (a sweep).
    """
    spec = fields.inner(one, "spec")
    return (
        fields.text(spec, "completionMode") == "Indexed"
        and bool(fields.text(spec, "template", "spec", "subdomain"))
        and (fields.number(spec, "parallelism") or 1) > 1
    )


def _completions(one: Object) -> int:
    """How many pods of a Job have to succeed, where fewer run at once; 0: all do."""
    spec = fields.inner(one, "spec")
    told = fields.number(spec, "completions") or 0
    return told if told > (fields.number(spec, "parallelism") or 1) else 0


def _of_job_set(one: Object) -> Iterator[PodTemplate]:
    for part in fields.each(one, "spec", "replicatedJobs"):
        spec = fields.inner(part, "template", "spec")
        each = fields.number(spec, "parallelism")
        count = _replicas(part) * (1 if each is None else max(0, each))
        yield _template(fields.text(part, "name") or "worker", min(count, MOST_PODS), spec)


def _of_training(one: Object) -> Iterator[PodTemplate]:
    """`pytorchReplicaSpecs`, `tfReplicaSpecs`, `mpiReplicaSpecs` and so on."""
    for key, roles in sorted(fields.inner(one, "spec").items()):
        if key.endswith("ReplicaSpecs") and isinstance(roles, dict):
            for name in sorted(roles):
                role = fields.inner(roles, name)
                yield _template(name.lower(), _replicas(role), role)


def _least_of_training(one: Object) -> int:
    policy = fields.inner(one, "spec", "runPolicy", "schedulingPolicy")
    elastic = fields.number(one, "spec", "elasticPolicy", "minReplicas")
    return max(fields.number(policy, "minAvailable") or elastic or 0, 0)


def _of_ray(one: Object) -> Iterator[PodTemplate]:
    spec = fields.inner(one, "spec", "rayClusterSpec") or fields.inner(one, "spec")
    spec = fields.inner(spec, "rayClusterConfig") or spec
    head = fields.inner(spec, "headGroupSpec")
    if head:
        yield _template("head", 1, head)
    for part in fields.each(spec, "workerGroupSpecs"):
        count = _replicas(part, 0) * max(fields.number(part, "numOfHosts") or 1, 1)
        yield _template(fields.text(part, "groupName") or "worker", min(count, MOST_PODS), part)


def _least_of_ray(one: Object) -> int:
    """The head and the least workers of a cluster that scales itself; a ready one needs no worker.

    Ray gives work to the workers that there are, and to others when they come.
    """
    spec = fields.inner(one, "spec", "rayClusterSpec") or fields.inner(one, "spec")
    spec = fields.inner(spec, "rayClusterConfig") or spec
    if any(fields.text(one, "status", *way, "state") == "ready" for way in _RAY_STATES):
        return 1
    if not fields.flag(spec, "enableInTreeAutoscaling"):
        return 0
    workers = sum(
        max(fields.number(part, "minReplicas") or 0, 0)
        * max(fields.number(part, "numOfHosts") or 1, 1)
        for part in fields.each(spec, "workerGroupSpecs")
    )
    return 1 + min(workers, MOST_PODS)


_RAY_STATES = ((), ("rayClusterStatus",), ("activeServiceStatus", "rayClusterStatus"))
"""Where a cluster, a job and a service of Ray's say how the cluster is."""


def _of_volcano(one: Object) -> Iterator[PodTemplate]:
    for part in fields.each(one, "spec", "tasks"):
        yield _template(fields.text(part, "name") or "task", _replicas(part), part)


def _least_of_volcano(one: Object) -> int:
    return max(fields.number(one, "spec", "minAvailable") or 0, 0)


def _of_leader_worker_set(one: Object) -> Iterator[PodTemplate]:
    """Of one group: a leader and its workers."""
    spec = fields.inner(one, "spec", "leaderWorkerTemplate")
    size = max(fields.number(spec, "size") or 1, 1)
    worker = fields.inner(spec, "workerTemplate")
    leader = fields.inner(spec, "leaderTemplate")
    yield _pods_of("leader", 1, leader if fields.inner(leader, "spec") else worker)
    if size > 1:
        yield _pods_of("worker", min(size - 1, MOST_PODS), worker)


_TRAINING, _INFERENCE, _INTERACTIVE = (
    JobClass.TRAINING,
    JobClass.INFERENCE,
    JobClass.INTERACTIVE,
)
_SUSPENDED_POLICY = ("spec", "runPolicy", "suspend")


def _training(least: Callable[[Object], int] = _least_of_training) -> _Kind:
    return _Kind(
        ("kubeflow.org",), _of_training, _TRAINING, least=least, suspend=_SUSPENDED_POLICY,
        scale=_scale_of_training,
    )  # fmt: skip


def _loose(*groups: str, job_class: JobClass = _INFERENCE) -> _Kind:
    """A kind whose pods work each by itself."""
    return _Kind(groups, _nothing, job_class, is_gang=lambda _: False)


def _scaled(*groups: str) -> _Kind:
    """The same, with a scale."""
    return replace(_loose(*groups), scale=_scale)


def _of_replicas(one: Object) -> Iterator[PodTemplate]:
    yield _template("worker", _scale(one), fields.inner(one, "spec"))


KINDS: dict[str, tuple[_Kind, ...]] = {
    "Job": (
        _Kind(("batch",), _of_job, _TRAINING, is_gang=_is_indexed, scale=_scale_of_job),
        _Kind(("batch.volcano.sh",), _of_volcano, _TRAINING, least=_least_of_volcano),
    ),
    "CronJob": (_loose("batch", job_class=_TRAINING),),
    "JobSet": (_Kind(("jobset.x-k8s.io",), _of_job_set, _TRAINING),),
    "TrainJob": (_Kind(("trainer.kubeflow.org",), _nothing, _TRAINING),),
    **{
        kind: (_training(),)
        for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
    "RayCluster": (_Kind(("ray.io",), _of_ray, _TRAINING, least=_least_of_ray),),
    "RayJob": (_Kind(("ray.io",), _of_ray, _TRAINING, least=_least_of_ray),),
    "RayService": (_Kind(("ray.io",), _of_ray, _INFERENCE, least=_least_of_ray),),
    "LeaderWorkerSet": (_Kind(("leaderworkerset.x-k8s.io",), _of_leader_worker_set, _INFERENCE),),
    "Deployment": (_scaled("apps"),),
    "ReplicaSet": (replace(_scaled("apps"), makes=_of_replicas),),
    "StatefulSet": (replace(_scaled("apps"), makes=_of_replicas),),
    "DaemonSet": (_loose("apps"),),
    "InferenceService": (_loose("serving.kserve.io"),),
    "LLMInferenceService": (_loose("serving.kserve.io"),),
    "Notebook": (_loose("kubeflow.org", job_class=_INTERACTIVE),),
    "Workflow": (_loose("argoproj.io", job_class=_TRAINING),),
}
"""By kind: the API groups that have it, and where its pods are described.

A CronJob makes Jobs, and each of those is a job of its own: it stands here for its class alone.
"""
STOPS_AT = frozenset({"CronJob", "Workflow", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
                      "InferenceService", "LLMInferenceService", "Notebook"})  # fmt: skip
"""Owners that are no job themselves: what they make is."""
_ENDS = {
    "Complete": AttemptEnd.DONE, "Completed": AttemptEnd.DONE, "Succeeded": AttemptEnd.DONE,
    "Failed": AttemptEnd.FAILED,
}  # fmt: skip
_PHASES = {
    "Completed": AttemptEnd.DONE, "SUCCEEDED": AttemptEnd.DONE, "FAILED": AttemptEnd.FAILED,
    "Failed": AttemptEnd.FAILED, "Aborted": AttemptEnd.CANCELLED,
    "Terminated": AttemptEnd.CANCELLED, "STOPPED": AttemptEnd.CANCELLED,
}  # fmt: skip


def reader(kind: str, group: str) -> Callable[[Object], OwnerObject]:
    """How objects of a kind are read."""
    (row,) = (row for row in KINDS[kind] if group in row.groups)

    def read(one: Object) -> OwnerObject:
        templates = tuple(row.templates(one))
        return OwnerObject(
            group=group, kind=kind,
            namespace=fields.text(one, "metadata", "namespace") or "default",
            name=fields.text(one, "metadata", "name"), uid=fields.text(one, "metadata", "uid"),
            labels=fields.words(one, "metadata", "labels"),
            annotations=fields.annotations(one),
            created_ms=fields.moment_ms(one, "metadata", "creationTimestamp"),
            owner=pods.owner_of(one), templates=templates, least=row.least(one),
            is_gang=row.is_gang(one), is_suspended=fields.flag(one, *row.suspend),
            end=_end(one),
            deadline_s=max(0, fields.number(one, "spec", "activeDeadlineSeconds") or 0),
            completions=_completions(one) if is_job(kind, group) else 0, scale=row.scale(one),
            succeeded=max(0, fields.number(one, "status", "succeeded") or 0)
            if is_job(kind, group) else 0,
            makes=tuple(row.makes(one)), remade=_remade(kind, one),
            is_in_turn=kind == "StatefulSet"
            and fields.text(one, "spec", "podManagementPolicy") != "Parallel",
        )  # fmt: skip

    return read


def asked_as(kind: str, group: str) -> str:
    """What kubectl calls objects of a kind: with its group, for several have a `job`."""
    return f"{kind.lower()}s.{group}" if group else kind.lower()


def _remade(kind: str, one: Object) -> int:
    key = {"Job": "failed", "JobSet": "restarts"}.get(kind, "")
    return max(0, fields.number(one, "status", key) or 0) if key else 0


def class_of(kind: str, group: str) -> JobClass | None:
    """What work of a kind is for; None: this kind is not known."""
    for row in KINDS.get(kind, ()):
        if group in row.groups:
            return row.job_class
    return None


def is_gang_kind(kind: str, group: str) -> bool:
    """Whether all pods below an object of this kind are one job."""
    return kind not in STOPS_AT and class_of(kind, group) is not None


def is_job(kind: str, group: str) -> bool:
    """Whether a kind is Kubernetes' own Job: its pods may be a part of a gang, or run in turns."""
    return (group, kind) == ("batch", "Job")


def _end(one: Object) -> tuple[AttemptEnd, int] | None:
    """How it ended, and when."""
    told_ms = fields.moment_ms(one, "status", "completionTime") or fields.moment_ms(
        one, "status", "endTime"
    )
    for kind, outcome in _ENDS.items():
        found = fields.condition(one, kind)
        if fields.text(found, "status") == "True":
            at_ms = told_ms or fields.moment_ms(found, "lastTransitionTime")
            is_late = fields.text(found, "reason") == "DeadlineExceeded"
            how = AttemptEnd.TIMED_OUT if is_late else outcome
            return (how, at_ms) if at_ms is not None else None
    phase = _phase(one)
    at_ms = told_ms or _state_ms(one)
    return (_PHASES[phase], at_ms) if phase in _PHASES and at_ms is not None else None


def _phase(one: Object) -> str:
    """Of kinds that have no conditions: Volcano's jobs, and Ray's."""
    status = fields.inner(one, "status")
    if isinstance(status.get("state"), dict):
        return fields.text(status, "state", "phase")
    return fields.text(status, "jobStatus")


def _state_ms(one: Object) -> int | None:
    if isinstance(fields.inner(one, "status").get("state"), dict):
        return fields.moment_ms(one, "status", "state", "lastTransitionTime")
    return None
