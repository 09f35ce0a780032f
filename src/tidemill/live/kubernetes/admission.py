"""Kueue's queues as what lets work in, beside teams that are namespaces or labels.

Where teams are cluster queues these are that themselves. What is used up is counted by the
workloads that hold quota, as Kueue does: also by those whose pods wait for nodes, or are not made.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import cohorts
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.kueue import ClusterQueue, QuotaOf
from tidemill.model.admission import (
    NO_ADMISSION,
    Admission,
    Entrance,
    QueueRule,
    QuotaFlavor,
    UsedQuota,
)
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import COHORT, OF_FLAVOR, QUOTA_QUEUE, Queue, Share


def of(
    cluster: Cluster, kinds: cohorts.Kinds, teams: str, admitted: Iterable[str], notes: list[str]
) -> Admission:
    """All of them; ``teams``: what those are. Work goes through local queues of its namespace."""
    names = list(
        dict.fromkeys(one.flavor for queue in cluster.cluster_queues for one in queue.quotas)
    )
    if not names:
        return NO_ADMISSION
    named = _RowNames(teams, is_of_many=len(names) > 1)
    rows, said = list[Queue](), notes if teams != "queue" else []
    for name in names:
        rows += _queues(cluster, kinds, named, name, said)
    known = {one.name for one in cluster.cluster_queues}
    entrances = (
        Entrance(namespace, name, named.team(local.cluster_queue), local.closed)
        for (namespace, name), local in sorted(cluster.local_queues.items())
        if teams == "namespace" and local.cluster_queue in known
    )
    return Admission(
        tuple(rows), tuple(_used(cluster, kinds, named)), tuple(entrances), tuple(admitted),
        tuple(_flavors(cluster, named)),
        tuple(
            QueueRule(named.team(one.name), one.closed, one.is_strict, one.preempts)
            for one in cluster.cluster_queues if one.closed or one.is_strict or one.preempts
        ),
        tuple(sorted({row.name for row in rows if len(_limited(row)) > 1})),
    )  # fmt: skip


def row_name(cluster_queue: str, teams: str) -> str:
    """What a cluster queue is called among teams."""
    return cluster_queue if teams == "queue" else f"{QUOTA_QUEUE}{cluster_queue}"


class _RowNames(NamedTuple):
    """What queues and cohorts are called."""

    teams: str
    is_of_many: bool
    """Whether there are several flavors: a quota is of one of them, and so is its row."""

    def team(self, cluster_queue: str) -> str:
        """A queue, as shapes name it."""
        return row_name(cluster_queue, self.teams)

    def row(self, name: str, flavor: str) -> str:
        """The row of a queue, or of a cohort, for a flavor."""
        if not self.is_of_many:
            return name if name.startswith(COHORT) else self.team(name)
        name = name if name.startswith(COHORT) else f"{QUOTA_QUEUE}{name}"
        return f"{name}{OF_FLAVOR}{flavor}"


def _queues(
    cluster: Cluster, kinds: cohorts.Kinds, named: _RowNames, flavor: str, notes: list[str]
) -> Iterator[Queue]:
    """The queues with quota of a flavor, below their cohorts; those above come first."""
    mine = [
        replace(one, quotas=its) for one in cluster.cluster_queues
        if (its := _of_flavor(one.quotas, flavor))
    ]  # fmt: skip
    above = [replace(one, quotas=_of_flavor(one.quotas, flavor)) for one in cluster.cohorts]
    names = {one.name: one for one in mine}
    for row in cohorts.queues(mine, above, cluster.flavors, kinds, notes, admits=True):
        name, parent = named.row(row.name, flavor), row.parent and named.row(row.parent, flavor)
        # what a queue does not lend bounds others' quotas (``cohorts``), and keeps no nodes free
        shares = tuple(replace(share, lend_milli=FOREVER_MS) for share in row.shares)
        if row.name in names and name != row.name:
            shares += _closed(cluster, kinds, names[row.name], shares)
        yield Queue(name, shares, parent)


def _limited(row: Queue) -> list[Share]:
    """The GPU types of which a queue has some, and a quota counts all of them together: each row is
    of one flavor.
    """
    return [share for share in row.shares if share.limit_milli]


def _of_flavor(quotas: tuple[QuotaOf, ...], flavor: str) -> tuple[QuotaOf, ...]:
    return tuple(one for one in quotas if one.flavor == flavor)


def _closed(
    cluster: Cluster, kinds: cohorts.Kinds, queue: ClusterQueue, shares: tuple[Share, ...]
) -> tuple[Share, ...]:
    """The GPU types that a queue has no quota for: Kueue lets no such work in.

    (As a team it may have work beside Kueue.)
    """
    if cohorts.own(queue.quotas, cluster.flavors, kinds, admits=True).unread:
        return ()
    other = {kind for kind, _, _ in kinds} - {share.kind for share in shares}
    return tuple(Share(kind, 0, 0) for kind in sorted(other))


def _used(cluster: Cluster, kinds: cohorts.Kinds, named: _RowNames) -> Iterator[UsedQuota]:
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
        found = Counter[tuple[str, str]]()
        for one in queue.quotas:
            # what a quota of several types has used counts for each of them
            for kind in cohorts.own((one,), cluster.flavors, kinds, admits=True).nominal:
                found[one.flavor, kind] += usage[queue.name, one.flavor, one.resource]
        for (flavor, kind), count in found.items():
            yield UsedQuota(named.row(queue.name, flavor), kind, count * WHOLE_MILLI)


def _flavors(cluster: Cluster, named: _RowNames) -> Iterator[QuotaFlavor]:
    """What queues admit work by, in their order."""
    for queue in cluster.cluster_queues:
        for name in dict.fromkeys(one.flavor for one in queue.quotas):
            told = cluster.flavors.get(name)
            if told is not None:
                yield QuotaFlavor(
                    named.team(queue.name), name, named.row(queue.name, name),
                    tuple(sorted(told.labels.items())), told.tolerates, told.taints,
                )  # fmt: skip
