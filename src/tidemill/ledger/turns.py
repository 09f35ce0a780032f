"""Turns: in which order waiting shapes claim what is free, as the scheduler's own order says.

Kernels know two orders by themselves (oldest first, and by priority, both after guaranteed quotas);
every other one, and fair shares, are asked of ``scheduling.order`` for each moment at which more
than one could claim. The moment is that of the last event: nothing has changed since.
"""

from tidemill.core.accounting.columns import ORDER
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling import order
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.pending_queues import PendingQueues
from tidemill.scheduling.shape_eligibility import Known, know


def order_of(policy: Policy) -> ORDER:
    """The order that kernels go by."""
    if policy.fairness != "none" or policy.order not in BY_SHAPE:
        return ORDER.ASKED
    return ORDER.PRIORITY if policy.order == "priority" else ORDER.OLDEST


class Turns:
    """Asks the scheduler whose turn it is."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lines = PendingQueues(policy)
        self._known: dict[int, Known] = {}
        self._known_at = (0, 0)

    def ask(self, world: World) -> list[int]:
        """The shapes that wait, whose turn is first first."""
        known_at = (len(world.groups), len(world.kinds))
        if known_at != self._known_at:
            self._known_at, self._known = known_at, {}
        self._lines.begin(world)
        fair = Fair(world, self._policy)
        return sorted(world.queued, key=lambda s: self._key(world, fair, s))

    def _key(self, world: World, fair: Fair, s: int) -> order.Key:
        known = self._known.get(s)
        if known is None:
            known = self._known[s] = know(world, s)
        return order.key_at(fair, world.used, known, s, self._lines.head(world, s))
