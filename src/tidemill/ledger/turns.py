"""Turns: in which order waiting shapes claim what is free, as the scheduler's own order says.

Kernels know the orders by themselves, after guaranteed quotas and fair shares; one of a plug-in is
asked of ``scheduling.order`` for each moment at which more than one could claim. The moment is that
of the last event: nothing has changed since.
"""

import numpy as np

from tidemill.core.accounting.columns import ORDER, LedgerState
from tidemill.core.fair_shares import WORTH
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling import order
from tidemill.scheduling.desk.layout import FAIRNESS, ranks, sharing_of
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.pending_queues import PendingQueues
from tidemill.scheduling.shape_eligibility import Known, know


def order_of(policy: Policy) -> ORDER:
    """The order that kernels go by."""
    if policy.order not in BY_SHAPE:
        return ORDER.READ if ranks(policy) else ORDER.ASKED
    return ORDER.PRIORITY if policy.order == "priority" else ORDER.OLDEST


def fairness_of(policy: Policy) -> int:
    """The measure by which kernels compare teams; 0: by none, or they ask for the whole order."""
    return 0 if order_of(policy) == ORDER.ASKED else FAIRNESS[policy.fairness]


def with_shares(b: LedgerState, world: World, policy: Policy) -> LedgerState:
    """The columns by which fair shares are counted, as teams and the fleet are now."""
    sharing, kinds = sharing_of(world), len(world.kinds)
    worth = np.zeros((kinds, len(WORTH)), np.int64)
    Fair(world, policy).write_worth(worth)
    past, used = np.zeros((2, len(sharing), kinds), np.int64)
    fair = np.zeros(len(sharing), np.int64)
    return b._replace(sharing=sharing, fair=fair, worth=worth, past=past, used=used)


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
