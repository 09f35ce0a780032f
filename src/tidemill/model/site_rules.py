"""What a cluster rules beside what nodes have: whom it keeps nodes for, what its partitions allow.

No event tells it; a journal keeps it as a fact beside them, as of the last look.
"""

from typing import NamedTuple


class KeptNodes(NamedTuple):
    """Nodes that a reservation keeps for some jobs, from when to when."""

    name: str
    nodes: tuple[str, ...]
    shown: str
    """The nodes as the cluster writes them: `h[3-5]`."""
    since_ms: int
    until_ms: int | None = None
    """None: for good, or not told."""
    jobs: tuple[str, ...] = ()
    """Waiting jobs that ask for it; whom else it is for is not read."""

    @property
    def words(self) -> str:
        """What that is to all other jobs."""
        return f"reservation {self.name} keeps {self.shown} for others"


class PartitionLimit(NamedTuple):
    """What a partition allows a job, as far as that was told."""

    name: str
    max_nodes: int | None = None
    max_time_ms: int | None = None
    state: str = ""
    """Where it is not `UP`."""
    cluster: str = ""
    """Of several clusters, the one that it is in."""
    since_ms: int = 0
    """When that was first seen."""


class SiteRules(NamedTuple):
    """All of them."""

    reservations: tuple[KeptNodes, ...] = ()
    partitions: tuple[PartitionLimit, ...] = ()

    def moved(self, by_ms: int, *, prefix: str = "", cluster: str = "") -> "SiteRules":
        """The same by another clock, with names of jobs and nodes that begin like this."""
        kept = (
            one._replace(
                nodes=tuple(prefix + name for name in one.nodes),
                since_ms=one.since_ms + by_ms,
                until_ms=None if one.until_ms is None else one.until_ms + by_ms,
                jobs=tuple(prefix + name for name in one.jobs),
            )
            for one in self.reservations
        )
        limits = (one._replace(cluster=cluster or one.cluster) for one in self.partitions)
        return SiteRules(tuple(kept), tuple(limits))

    def keeping(self, job: str, now_ms: int) -> tuple[KeptNodes, ...]:
        """The reservations that keep nodes at a moment, and for others than this job."""
        return tuple(
            one for one in self.reservations
            if job not in one.jobs and one.since_ms <= now_ms
            and (one.until_ms is None or now_ms < one.until_ms)
        )  # fmt: skip


NO_RULES = SiteRules()
