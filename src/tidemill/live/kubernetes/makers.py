"""Makers of a gang's pods: a pod group may need more of them than anybody makes.

Jobs and their like make pods, and a pod group counts them; nothing keeps the two numbers alike. A
gang that lacks pods that nobody makes starts on no node of the world.
"""

from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.owners import OwnerObject

_NAMED = 3


def of_too_few(cluster: Cluster, job: KubeJob) -> list[OwnerObject]:
    """Who makes the pods of a gang, if all of these are known, and make fewer than it needs.

    Not if another may make the others: one in its namespace that has no pods yet.
    """
    if job.key.kind != "PodGroup" or not job.groups or not job.pods:
        return []
    found = [cluster.owner(pod.owner, pod.namespace) for pod in job.pods]
    mine = {(one.kind, one.name): one for one in found if one is not None}
    needed = min(job.least, job.size)
    if None in found or sum(map(_makes, mine.values())) >= needed or _has_other(cluster, job):
        return []
    return [mine[key] for key in sorted(mine)]


def said(some: list[OwnerObject]) -> str:
    """That nobody makes the others, and what to do."""
    if not some:
        return ""
    names = ", ".join(f"{one.kind} {one.name}" for one in some[:_NAMED])
    names += f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
    do, it = ("makes", "it") if len(some) == 1 else ("make", "these")
    return (
        f", and nobody makes them: {names} {do} {sum(map(_makes, some)):,} (have its pod group need"
        f" no more, or have {it} make more)"
    )


def _makes(owner: OwnerObject) -> int:
    return sum(part.count for part in owner.makes or owner.templates)


def _has_other(cluster: Cluster, job: KubeJob) -> bool:
    """Whether somebody in its namespace has no pods yet that may be of this gang."""
    with_pods = {pod.owner.uid for pod in cluster.pods if pod.owner is not None}
    return any(
        owner.namespace == job.key.namespace and owner.end is None and owner.uid not in with_pods
        and any(part.request.gpu is not None for part in owner.makes or owner.templates)
        for owner in cluster.owners.values()
    )  # fmt: skip
