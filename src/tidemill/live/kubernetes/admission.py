"""Kueue's queues as what lets work in, beside teams that are namespaces or labels.

Where teams are cluster queues these are that themselves. What is used up is counted by the
workloads that hold quota, as Kueue does: also by those whose pods wait for nodes, or are not made.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tidemill.live.kubernetes import cohorts
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.model.admission import NO_ADMISSION, Admission, Entrance, UsedQuota
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import QUOTA_QUEUE, Queue, Share


def of(
    cluster: Cluster, kinds: cohorts.Kinds, teams: str, admitted: Iterable[str], notes: list[str]
) -> Admission:
    """All of them; ``teams``: what those are. Work goes through local queues of its namespace."""
    if not cluster.cluster_queues:
        return NO_ADMISSION
    is_same, told = teams == "queue", (cluster.cluster_queues, cluster.cohorts, cluster.flavors)
    rows = cohorts.queues(*told, kinds, [] if is_same else notes)
    if not is_same:
        rows = [_closed(cluster, kinds, row) for row in rows]
    entrances = (
        Entrance(namespace, name, row_name(local.cluster_queue, teams))
        for (namespace, name), local in sorted(cluster.local_queues.items())
        if teams == "namespace" and local.cluster_queue in {one.name for one in told[0]}
    )
    return Admission(
        tuple(rows), tuple(_used(cluster, kinds, teams)), tuple(entrances), tuple(admitted)
    )


def row_name(cluster_queue: str, teams: str) -> str:
    """What a cluster queue is called among teams."""
    return cluster_queue if teams == "queue" else f"{QUOTA_QUEUE}{cluster_queue}"


def _closed(cluster: Cluster, kinds: cohorts.Kinds, row: Queue) -> Queue:
    """A queue with nothing of the GPU types that it has no quota for: Kueue lets no such work in.

    (As a team it may have work beside Kueue.) A cohort is as it was.
    """
    found = next((one for one in cluster.cluster_queues if one.name == row.name), None)
    if found is None:
        return row
    its = {share.kind for share in row.shares}
    if cohorts.own(found.quotas, cluster.flavors, kinds).unread:
        return replace(row, name=f"{QUOTA_QUEUE}{row.name}")
    other = sorted({kind for kind, _, _ in kinds} - its)
    shares = (*row.shares, *(Share(kind, 0, 0) for kind in other))
    return replace(row, name=f"{QUOTA_QUEUE}{row.name}", shares=shares)


def _used(cluster: Cluster, kinds: cohorts.Kinds, teams: str) -> Iterator[UsedQuota]:
    """What is charged to each queue of each GPU type that it has quota for; none: no workload is
    shown, and nobody knows.
    """
    if not cluster.workloads:
        return
    usage = Counter[tuple[str, str, str]]()
    for workload in cluster.workloads:
        if workload.has_quota and workload.finished_ms is None:
            for flavor, resource, count in workload.usage:
                usage[workload.charged_to, flavor, resource] += count
    for queue in cluster.cluster_queues:
        found = Counter[str]()
        for one in queue.quotas:
            for kind in cohorts.own((one,), cluster.flavors, kinds).nominal:
                found[kind] += usage[queue.name, one.flavor, one.resource]
        for kind, count in sorted(found.items()):
            yield UsedQuota(row_name(queue.name, teams), kind, count * WHOLE_MILLI)
