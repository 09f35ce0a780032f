"""What is above a pod: its owner, the owner of that, and so on, by objects and by labels."""

from collections.abc import Callable, Iterator

from tidemill.live.kubernetes import owners
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.pods import KubePod, Owner

LWS = "leaderworkerset.x-k8s.io"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_BY_LABEL = {
    "jobset.sigs.k8s.io/jobset-name": ("jobset.x-k8s.io", "JobSet"),
    "volcano.sh/job-name": ("batch.volcano.sh", "Job"),
    "ray.io/cluster": ("ray.io", "RayCluster"),
}
"""Owners that pods name in a label, for files without the objects between."""


def above(cluster: Cluster, pod: KubePod) -> Iterator[Owner]:
    """All that is above a pod, as far as it is known."""
    above = pod.owner
    for _ in range(owners.DEEPEST):
        if above is None:
            return
        yield above
        owner = cluster.owner(above, pod.namespace)
        above = owner.owner if owner is not None else None


def top(cluster: Cluster, pod: KubePod) -> Owner | None:
    """The topmost owner that is a job, as far as files and labels show it."""
    for label, (group, kind) in _BY_LABEL.items():
        if pod.labels.get(label):
            labelled = Owner(group, kind, pod.labels[label])
            return _climb(cluster, labelled, pod.namespace)
    return None if pod.owner is None else _climb(cluster, pod.owner, pod.namespace)


def unseen(cluster: Cluster, pod: KubePod, is_read: Callable[[str, str], bool]) -> Owner | None:
    """An owner by which pods are one job and which is not there yet; None: all are, or cannot be.

    Pods and their owners come by watches of their own: without the owner a gang is as large as the
    pods that came, or each of them a job. ``is_read``: whether objects of a group and kind are.
    """
    if pod.owner is None:
        return None
    found: Owner | None = pod.owner
    if pod.labels.get(LWS_NAME):
        found = Owner(LWS, "LeaderWorkerSet", pod.labels[LWS_NAME])
    for label, (group, kind) in _BY_LABEL.items():
        if pod.labels.get(label):
            found = Owner(group, kind, pod.labels[label])
    for _ in range(owners.DEEPEST):
        if found is None or not owners.is_gang_kind(found.kind, found.group):
            return None
        owner = cluster.owner(found, pod.namespace)
        if owner is None:
            return found if is_read(found.group, found.kind) else None
        found = owner.owner
    return None


def _climb(cluster: Cluster, found: Owner, namespace: str) -> Owner:
    for _ in range(owners.DEEPEST):
        owner = cluster.owner(found, namespace)
        above = owner.owner if owner is not None else None
        if above is None or not owners.is_gang_kind(above.kind, above.group):
            break
        found = above
    return found
