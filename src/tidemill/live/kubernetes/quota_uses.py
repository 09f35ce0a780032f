"""What is used up of quotas that bind a namespace: its own, and those of Kueue's queues.

What is beyond the first is refused, and what is beyond the others waits. Those are counted by the
workloads that hold some. What a cohort lends is not: of a queue in one only its own quota and what
it may borrow at most are a bound.
"""

from collections import Counter
from collections.abc import Iterator

from tidemill.live.kubernetes import cohorts, quotas
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.quota_use import KUEUE, QuotaUse


def of(cluster: Cluster, kinds: cohorts.Kinds) -> tuple[QuotaUse, ...]:
    """Of each namespace."""
    return (*quotas.used(cluster.quotas, kinds), *_of_kueue(cluster, kinds))


def _of_kueue(cluster: Cluster, kinds: cohorts.Kinds) -> tuple[QuotaUse, ...]:
    """Of each namespace and GPU type the queue of which most is left."""
    by_queue = {name: tuple(_of_queue(cluster, kinds, name)) for name in _names(cluster)}
    most = dict[tuple[str, str], QuotaUse]()
    for (namespace, name), local in sorted(cluster.local_queues.items()):
        for kind, taken, hard in by_queue.get(local.cluster_queue, ()):
            found = QuotaUse(namespace, kind, name, taken, hard, f"{KUEUE}{local.cluster_queue}")
            known = most.setdefault((namespace, kind), found)
            if found.left > known.left:
                most[namespace, kind] = found
    return tuple(most[key] for key in sorted(most))


def _names(cluster: Cluster) -> list[str]:
    return sorted({one.cluster_queue for one in cluster.local_queues.values()})


def _of_queue(cluster: Cluster, kinds: cohorts.Kinds, name: str) -> Iterator[tuple[str, int, int]]:
    """The GPU types of a queue: what is taken of each, and all that it may have."""
    queue = next((one for one in cluster.cluster_queues if one.name == name), None)
    if queue is None:
        return
    taken, hard = Counter[str](), Counter[str]()
    usage = Counter[tuple[str, str]]()
    for workload in cluster.workloads:
        if workload.has_quota and workload.finished_ms is None and workload.charged_to == name:
            for flavor, resource, count in workload.usage:
                usage[flavor, resource] += count
    unbounded = set[str]()
    for one in queue.quotas:
        own = cohorts.own((one,), cluster.flavors, kinds)
        for kind, milli in own.nominal.items():
            hard[kind] += milli // WHOLE_MILLI + (one.borrow or 0) * bool(queue.cohort)
            taken[kind] += usage[one.flavor, one.resource]
            if queue.cohort and one.borrow is None:
                unbounded.add(kind)
    for kind in sorted(hard):
        if kind not in unbounded:
            yield kind, taken[kind], hard[kind]
