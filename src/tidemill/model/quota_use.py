"""What of a quota is used up, as whoever keeps it counts: also by work that waits."""

from typing import NamedTuple

PODS, CORES, MEMORY = "pods", "cpu_milli", "memory_mib"
"""Kinds of quotas that are of no accelerators."""
KUEUE = "kueue:"
"""Before the name of the cluster queue that keeps a quota: what is beyond waits."""


class QuotaUse(NamedTuple):
    """One quota of a team, of accelerators of one kind, or of what pods need beside them."""

    team: str
    kind: str
    name: str
    used: int
    hard: int
    keeper: str = ""
    """Who keeps it; "": the API server, which makes no pod beyond it."""

    kinds: tuple[str, ...] = ()
    """The GPU types that it counts together, where these are several; ``kind`` is then the name of
    their resource.
    """

    @property
    def left(self) -> int:
        """How many may be requested yet."""
        return max(0, self.hard - self.used)
