"""What of a quota is used up, as whoever keeps it counts: also by work that waits."""

from typing import NamedTuple


class QuotaUse(NamedTuple):
    """One quota of a team, of accelerators of one kind."""

    team: str
    kind: str
    name: str
    used: int
    hard: int

    @property
    def left(self) -> int:
        """How many may be requested yet."""
        return max(0, self.hard - self.used)
