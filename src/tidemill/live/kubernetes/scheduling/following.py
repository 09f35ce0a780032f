"""Why jobs wait may change though nothing that could let them start did: it is looked at anew.

The scheduler tries a job again when something was freed that could help it. What others took since
then may make another cause of it, which `why` finds by a look that remembers nothing; so the same
look is made here, at a bounded rate, and pods are told where the cause is another one.
"""

import time
from collections.abc import Callable, Mapping

from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World

EVERY_S = 10.0
"""A look is made no sooner after the last one,"""
SHARE = 40
"""and no sooner than so many times as long as that took: looks take 1 part in 40 of the time."""

Look = Callable[[World, Policy], Mapping[int, Cause]]


class CauseFollower:
    """The causes that a new look found, where they are others than the scheduler said last."""

    def __init__(self, world: World, look: Look) -> None:
        self._world, self._look = world, look
        self._next_at, self._seq = 0.0, -1
        self.found: dict[int, Cause] = {}
        """By shape."""

    def follow(self, policy: Policy) -> list[int]:
        """The shapes that wait for another cause than at the last look, if one is due."""
        begun, world = time.monotonic(), self._world
        if begun < self._next_at or world.seq == self._seq or not world.queued:
            return []
        found = {
            s: cause for s, cause in self._look(world, policy).items() if self._is_news(s, cause)
        }
        before, self.found, self._seq = self.found, found, world.seq
        ended = time.monotonic()
        self._next_at = max(begun + EVERY_S, ended + SHARE * (ended - begun))
        changed = before.items() ^ found.items()
        return sorted({s for s, _ in changed})

    def forget(self, s: int) -> None:
        """The scheduler has looked at this shape itself."""
        self.found.pop(s, None)

    def _is_news(self, s: int, cause: Cause) -> bool:
        """Whether a cause is another one; room that is being made for somebody is no cause here."""
        told = Cause(self._world.shapes.cause.item(s))
        return (
            cause is not told and Cause.NONE not in (cause, told) and s not in self._world.promised
        )
