"""Who would be stopped for jobs that wait, and is not, since somebody in the cluster keeps them.

To find that out is a search for victims: searches take a small part of the time, and between them
the last answer counts.
"""

import time
from collections.abc import Callable

from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World

EVERY_S, SHARE = 10.0, 40
"""Changed budgets are told no sooner after the last; searches take 1 part in 40 of the time."""

Search = Callable[[World, Policy, int, Cause], str]


class KeptBack:
    """By shape: the words for whom the cluster does not let go."""

    def __init__(self, world: World, search: Search) -> None:
        self._world, self._search = world, search
        self._known: dict[int, tuple[int, str]] = {}
        """With the number of the event by which it was found."""
        self._next_at = self._told_at = 0.0
        self._keepers: dict[int, str] = {}

    def words(self, policy: Policy, s: int, cause: Cause) -> str:
        """Who is kept back from the jobs of a shape, and by whom; "": nobody."""
        world, begun = self._world, time.monotonic()
        if not world.kept:
            self._known.clear()
            return ""
        seq, found = self._known.get(s, (-1, ""))
        if seq == world.seq or begun < self._next_at:
            return found
        found = self._search(world, policy, s, cause)
        self._known[s] = world.seq, found
        ended = time.monotonic()
        self._next_at = ended + SHARE * (ended - begun)
        return found

    def has_changed(self) -> bool:
        """Whether others than before are kept, or by others; asked anew after a while."""
        now = time.monotonic()
        if now < self._told_at + EVERY_S or self._keepers == self._world.keepers:
            return False
        self._told_at, self._keepers = now, dict(self._world.keepers)
        return True
