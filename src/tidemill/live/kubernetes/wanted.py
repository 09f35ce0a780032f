"""What a gang wants: its pods by form, and with how many of those it works."""

from tidemill.live.kubernetes import groups, job_roles, pods_as_made
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.groups import GroupKey, PodGroup
from tidemill.live.kubernetes.job_roles import JobRole
from tidemill.live.kubernetes.kueue import LEAST_PODS, KueueWorkload
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod

OwnerName = tuple[str, str, str]
"""Namespace, kind and name."""
RAY = "ray.io"
_ROLE_LABELS = (
    "training.kubeflow.org/replica-type", "volcano.sh/task-spec",
    "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/group", "ray.io/node-type",
)  # fmt: skip
"""Labels in which a pod names the template that it was made of."""


def templates(
    cluster: Cluster,
    key: OwnerName,
    pods: list[KubePod],
    owner: OwnerObject | None,
    mine: set[GroupKey],
) -> tuple[PodTemplate, ...]:
    """The pods that a job wants, by form; empty: nobody says, and those that exist count."""
    parts = cluster.parts.get(key, ())
    if owner is not None and owner.templates:
        parts = owner.templates
    if parts:
        return tuple(_as_made(part, parts, pods) for part in parts)
    if not mine:
        return ()
    found = (groups.find(cluster.groups, one) for one in mine)
    told = sum(group.least for group in found if group is not None)
    totals = [pod.annotations.get(one, "") for pod in pods for one in groups.TOTALS]
    most = max([told, *(int(one) for one in totals if one.isdecimal() and len(one) < 7)])
    alive = [pod for pod in pods if not pod.is_over]
    forms = {pod.request for pod in alive or pods if pod.request.gpu}
    if most > (len(alive) or job_roles.most_at_once(pods)) and len(forms) == 1:
        return (PodTemplate("worker", most, forms.pop()),)
    return ()


def _as_made(part: PodTemplate, parts: tuple[PodTemplate, ...], pods: list[KubePod]) -> PodTemplate:
    """A template as its pods are (``pods_as_made``): those may have GPUs that it does not name.

    By claims (DRA), or because somebody adds them when pods are made.
    """
    if not pods:
        return part
    named = [pod for pod in pods if _roles(pod)]
    mine = [pod for pod in named if part.name.lower() in _roles(pod)]
    if part.request.gpu is None:
        mine = pods if not named and len(parts) == 1 else mine
        return pods_as_made.of(part, mine) if len({pod.request.gpu for pod in mine}) == 1 else part
    own = job_roles.form(part.request)
    if not mine:  # of pods that nobody names, and of roles like this one
        alike = {one.name.lower() for one in parts if job_roles.form(one.request) == own}
        mine = [pod for pod in pods if not _roles(pod) or _roles(pod) & alike]
    others = [job_roles.form(one.request) for one in parts if one.request.gpu is not None]
    forms = dict.fromkeys([own] if named else others)
    mine = [pod for pod in mine if job_roles.nearest(pod, forms) == own]
    return pods_as_made.of(part, mine)


def _roles(pod: KubePod) -> set[str]:
    """What a pod calls the template that it was made of."""
    return {name.lower() for key in _ROLE_LABELS if (name := pod.labels.get(key))}


def least(
    owner: OwnerObject | None,
    known: list[PodGroup],
    roles: tuple[JobRole, ...],
    templates: tuple[PodTemplate, ...],
) -> int:
    """With how many of its pods with GPUs a gang works; with all of them, if nobody says less.

    Ray's work with fewer than their group lets start, and whichever those are.
    """
    size, is_ray = sum(role.count for role in roles), owner is not None and owner.group == RAY
    both = sum(group.least for group in known), owner.least if owner is not None else 0
    told = min(both) if is_ray and all(both) else both[0] or both[1]
    if not told:  # pods that work by themselves, and are not made yet, come one by one
        return 1 if owner is not None and not owner.is_gang else size
    # pods without GPUs are a part of what was told; all that a template does not name may have some
    bare = sum(part.count for part in templates if part.request.gpu is None)
    others = min(bare, max(0, sum(part.count for part in templates) - size))
    return min(max(told - others, 1), size) if len(roles) == 1 or is_ray else size


def least_by_kueue(
    owner: OwnerObject | None, workload: KueueWorkload | None, roles: tuple[JobRole, ...], told: int
) -> int:
    """The same of a job that Kueue has to admit: it does so whole, whatever its pods could work
    with (``told``), unless the job may be admitted in part. What is missing once it is admitted
    comes as without Kueue.
    """
    size = sum(role.count for role in roles)
    if workload is not None and workload.has_quota:
        return told or (1 if owner is not None and not owner.is_gang else size)
    said = owner.annotations.get(LEAST_PODS, "") if owner is not None else ""
    fewest = workload.least if workload is not None else int(said) if said.isdecimal() else 0
    return min(fewest, size) if fewest and len(roles) == 1 else size
