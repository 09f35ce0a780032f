"""Usable: what the mix of arrivals could have used of what was free, integrated over time.

Explains the free buckets without being one of them: every free milli·ms is *usable* by the mix,
*not usable* by it, or of a kind that nobody has asked for yet. The level at a moment is that of
``scheduling.schedulability`` by contract, a whole number of milli-accelerators, so the integral is
exact. The counting is done by kernels (``core.accounting.usable``); here are the asks and sizes of
the mix, and the sums of all time bins.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.core.accounting.columns import DEMAND, REPLICA, SIZE, USE
from tidemill.ledger.supply import row_of
from tidemill.model.rows import Role
from tidemill.model.tables import I64, grown
from tidemill.model.world import World
from tidemill.scheduling.demand_mix import ASKS_AT_MOST, SIZES_AT_MOST, Ask, Mix


class FreeUse(NamedTuple):
    """Free milli·ms by bin and contract: all, what the mix could use, what nobody asked for."""

    free: I64
    usable: I64
    unasked: I64


class Weighing(NamedTuple):
    """Fields of ``LedgerState``: what kernels weigh the mix with."""

    asks: I64
    sizes: I64
    ask_groups: I64
    ask_kinds: I64
    hosts: I64
    totals: I64
    arrived: I64


class Usable:
    """The mix as kernels read it, and sums per time bin (``USE`` by contract)."""

    def __init__(self) -> None:
        self.sums: dict[int, I64] = {}
        self.mix = Mix()
        self.asks = 0
        """How many asks were taken in."""
        self.weighing = Weighing(
            np.zeros((ASKS_AT_MOST, len(REPLICA)), np.int64),
            np.zeros((SIZES_AT_MOST, len(SIZE)), np.int64),
            np.zeros((ASKS_AT_MOST, 1), np.int64),
            np.zeros((ASKS_AT_MOST, 1), np.int64),
            np.zeros((0, ASKS_AT_MOST), np.int64),
            np.zeros((ASKS_AT_MOST, 0), np.int64),
            np.zeros((0, 1), np.int64),
        )
        self._known = (0, 0, 0)

    def of_bin(self, number: int, contracts: int) -> I64:
        """The sums of a bin."""
        return row_of(self.sums, number, (len(USE), contracts))

    def update(self, world: World, new: Sequence[Role], demands: I64) -> None:
        """Take in new roles, the last ones of ``demands``; contracts, groups and nodes too."""
        known = (world.contract_count, len(world.groups), len(world.kinds))
        if known != self._known or world.node_count > len(self.weighing.hosts):
            self._widen(world, known)
        for role, row in zip(new, demands, strict=True):
            if role.accelerators and not role.profile:
                row[DEMAND.SIZE] = self.mix.size_of(role)
        for i, ask in enumerate(self.mix.asks[self.asks :], start=self.asks):
            self.weighing.asks[i] = ask.replica
            self._allow(world, i, ask)
        self.asks = len(self.mix.asks)
        sizes = self.mix.sizes
        self.weighing.sizes[: len(sizes), : SIZE.ARRIVALS] = np.array(sizes).reshape(-1, 2)

    def _widen(self, world: World, known: tuple[int, int, int]) -> None:
        self._known = known
        contracts, groups, kinds = known
        w = self.weighing
        hosts = w.hosts
        if world.node_count > len(hosts):
            hosts = grown(hosts, world.node_count)
        totals = np.zeros((ASKS_AT_MOST, contracts), np.int64)
        totals[:, : w.totals.shape[1]] = w.totals
        self.weighing = Weighing(
            w.asks, w.sizes, np.zeros((ASKS_AT_MOST, max(1, groups)), np.int64),
            np.zeros((ASKS_AT_MOST, max(1, kinds)), np.int64), hosts, totals,
            np.zeros((kinds, 1), np.int64),
        )  # fmt: skip
        for i, ask in enumerate(self.mix.asks[: self.asks]):
            self._allow(world, i, ask)

    def _allow(self, world: World, i: int, ask: Ask) -> None:
        """Which kinds and groups of nodes an ask may use."""
        w = self.weighing
        for k in range(len(world.kinds)):
            w.ask_kinds[i, k] = ask.may_use(world, k)
        for g, group in enumerate(world.groups):
            is_ok = ask.may_have(world.kinds[group.kind]) and ask.rules.allow(
                group.labels, group.taints
            )
            w.ask_groups[i, g] = is_ok


def by_bin(sums: dict[int, I64], bins: I64, contracts: int) -> FreeUse:
    """The sums as matrices of these bins and contracts."""
    found = np.zeros((len(USE), len(bins), contracts), np.int64)
    for i, number in enumerate(bins.tolist()):
        part = sums.get(number)
        if part is not None:
            found[:, i, : part.shape[1]] = part
    return FreeUse(*found)
