"""What of a quota is used up, as whoever keeps it counts: also by work that waits."""

from typing import NamedTuple

PODS, CORES, MEMORY = "pods", "cpu_milli", "memory_mib"
"""Kinds of quotas that are of no accelerators."""


class QuotaUse(NamedTuple):
    """One quota of a team, of accelerators of one kind, or of what pods need beside them."""

    team: str
    kind: str
    name: str
    used: int
    hard: int
    keeper: str = ""
    """A queue of Kueue's, in journals of before those were facts of their own (``admission``)."""

    kinds: tuple[str, ...] = ()
    """The GPU types that it counts together, where these are several; ``kind`` is then the name of
    their resource.
    """

    @property
    def left(self) -> int:
        """How many may be requested yet."""
        return max(0, self.hard - self.used)
