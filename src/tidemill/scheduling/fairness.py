"""Fairness: which team goes first among those that only borrow.

The *share* of a queue is what it uses above its floor, divided by its weight. Over unlike
accelerators that takes a common measure, and there are two:

- ``drf``: the largest of its shares of the kinds (dominant-resource fairness, Ghodsi et al.,
  NSDI'11). No exchange rate is needed; a scarce kind is as dear as a common one.
- ``bill``: its share of what the fleet costs by the hour, all kinds together at what they are paid.
  Prices rather than FLOP/s: every contract has one, and work that cannot use the FLOP/s of a newer
  kind still takes away what was paid for it.

Shares are compared from the top of the tree down, so that a large faculty does not win by having
many groups. Past use counts by its decayed mean (see ``core.decay``) beside what is used now: who
used much lately yields to who used little, and after a few half-lives it is forgotten.
"""

import numpy as np

from tidemill.core import fair_shares
from tidemill.core.fair_shares import WORTH
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.desk.layout import FAIRNESS

ONE = 1_000_000_000_000
"""A whole fleet as a share: fine enough to tell a thousandth of a device in a million apart."""


class Fair:
    """The measure of one moment: what the kinds are worth, and what queues used lately."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy, self.mode = world, policy, policy.fairness
        queues, kinds = len(world.queue_rows), len(world.kinds)
        self._past: I64 = np.zeros((queues, kinds), np.int64)
        self._worth: I64 = np.zeros((kinds, len(WORTH)), np.int64)
        self._has_past: set[int] = set()
        if self.mode != "none":
            self.write_worth(self._worth)

    def write_worth(self, worth: I64) -> None:
        """Write what a thousandth of each kind counts as a share."""
        for k, (counts, whole) in enumerate(_worth(self.world, self.mode)):
            worth[k] = (*divmod(counts, whole), whole)

    def rank(self, used: I64, q: int) -> tuple[int, ...]:
        """The shares of a queue and of all above it, from the top down; smaller goes first."""
        if self.mode == "none":
            return ()
        return tuple(self.share(used, a) for a in reversed(self.world.tree.paths[q]))

    def share(self, used: I64, a: int) -> int:
        """What a queue uses above its floor, now and lately, by the common measure and weight."""
        w, weight = self.world.matrices, self.world.tree.weights[a]
        if self.world.half_life_ms and a not in self._has_past:
            self._has_past.add(a)
            fair_shares.count_past(w.at, w.queues, w.quotas, self._past, a, self.world.now_ms)
        milli = np.ascontiguousarray(used)  # a column of the quotas is not, and kernels take it so
        found: int = fair_shares.share_of(
            w.quotas, milli, self._past, self._worth, a, weight, FAIRNESS[self.mode]
        )
        return found


def _worth(world: World, mode: str) -> list[tuple[int, int]]:
    """For each kind: what a milli of it counts, over what the whole counts."""
    count = world.contract_count
    kinds, launched = world.contracts.kind[:count].tolist(), world.contracts.launched_milli[:count]
    milli, cost = [0] * len(world.kinds), [0] * len(world.kinds)
    rates = world.contracts.rate_usd_micro[:count].tolist()
    for k, there, rate in zip(kinds, launched.tolist(), rates, strict=True):
        milli[k] += there
        cost[k] += there * rate
    if mode == "drf":
        return [(ONE, max(1, there)) for there in milli]
    bill = sum(cost)
    if not bill:  # nothing is paid for: a device is a device
        return [(ONE, max(1, sum(milli)))] * len(milli)
    return [(ONE * c // max(1, m), bill) for c, m in zip(cost, milli, strict=True)]
