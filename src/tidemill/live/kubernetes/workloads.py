"""Kueue's workloads: whose they are, and what of them is not there as pods yet.

The pods of a Job that is no gang are jobs of their own, and have one workload together: what is
missing of that waits.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import pods_as_made
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.kueue import KueueWorkload
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod, Owner

NAMED_IN = "kueue.x-k8s.io/workload"
"""The annotation in which Kueue writes the workload of a pod."""
STARTS_WITHIN_MS = 60_000
"""A controller makes the pods of a Job within seconds of its admission. Pods that come later
replace others, or follow them."""

_Name = tuple[str, str]
"""Kind and name."""


class Workloads:
    """The workloads of a cluster, and which pods there are of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_name = dict[tuple[str, str, str], KueueWorkload]()
        for one in cluster.workloads:
            self._by_name[one.namespace, "Workload", one.name] = one
            for owner in one.owners:
                self._by_name[one.namespace, owner.kind, owner.name] = one
        self._whole = set[int]()
        self._pods = dict[int, list[KubePod]]()

    def of_job(self, namespace: str, names: Iterable[_Name]) -> KueueWorkload | None:
        """The workload of a job with these names, which is all that there is of it."""
        found = self._find(namespace, names)
        self._whole.add(id(found))
        return found

    def of_owners(
        self, pod: KubePod, above: Iterable[Owner], *, is_alone: bool
    ) -> KueueWorkload | None:
        """The workload of what owns a pod; ``is_alone``: there may be other pods of it."""
        if not self._by_name:  # as nearly always
            return None
        names = [("Workload", pod.annotations.get(NAMED_IN, ""))]
        names += [(one.kind, one.name) for one in above]
        found = self._find(pod.namespace, names)
        if found is not None and is_alone:
            self._pods.setdefault(id(found), []).append(pod)
        elif found is not None:
            self._whole.add(id(found))
        return found

    def waiting(self) -> Iterator[tuple[KueueWorkload, OwnerObject | None]]:
        """Workloads that are not over, with those templates alone that lack pods, and of whom."""
        for one in self._cluster.workloads:
            if id(one) in self._whole or one.finished_ms is not None:
                continue
            owner = self._cluster.owner(next(iter(one.owners), None), one.namespace)
            if owner is not None and owner.end is not None:
                continue
            pods = self._pods.get(id(one), [])
            missing = tuple(_missing(one, part, pods, owner) for part in one.templates)
            if not pods or any(part.count for part in missing):
                yield replace(one, templates=missing), owner

    def _find(self, namespace: str, names: Iterable[_Name]) -> KueueWorkload | None:
        found = (self._by_name.get((namespace, *name)) for name in names)
        return next((one for one in found if one is not None), None)


def _missing(
    workload: KueueWorkload, part: PodTemplate, pods: list[KubePod], owner: OwnerObject | None
) -> PodTemplate:
    """A template, with as many pods as are still to be made of it at once."""
    is_one = len(workload.templates) == 1
    mine = [pod for pod in pods if is_one or pod.request.gpu == part.request.gpu]
    done = sum(pod.outcome is AttemptEnd.DONE for pod in mine if pod.is_over)
    in_all = max(part.count, owner.completions if owner is not None else 0)
    at_once = min(part.count, in_all - done)
    alive = sum(not pod.is_over for pod in mine)
    same = [pod for pod in mine if pod.request.gpu == part.request.gpu]
    return pods_as_made.of(replace(part, count=max(at_once - alive, 0)), same)


def submit_ms(workload: KueueWorkload, pod: KubePod) -> int:
    """Since when a pod of a workload is wanted: for those made at its admission, before that."""
    admitted_ms, since_ms = workload.admitted_ms, workload.waits_since_ms
    if admitted_ms is None or since_ms is None:
        return pod.created_ms
    is_first = abs(pod.created_ms - admitted_ms) <= STARTS_WITHIN_MS
    return min(pod.created_ms, since_ms) if is_first else pod.created_ms
