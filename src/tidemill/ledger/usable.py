"""Usable: what the mix of arrivals could have used of what was free, integrated over time.

Explains the free buckets without being one of them: every free milli·ms is *usable* by the mix,
*not usable* by it, or of a kind that nobody has asked for yet. The level at a moment is that of
``scheduling.schedulability`` by contract, a whole number of milli-accelerators, so the integral is
exact. Only nodes that changed are counted again.
"""

from typing import NamedTuple

import numpy as np

from tidemill.ledger import kernels
from tidemill.ledger.supply import row_of
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import Level, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.mix import ASKS_AT_MOST, SIZES_AT_MOST, Ask, Mix

_READY = int(NodeState.READY)


class FreeUse(NamedTuple):
    """Free milli·ms by bin and contract: all, what the mix could use, what nobody asked for."""

    free: I64
    usable: I64
    unasked: I64


class Usable:
    """Sums per time bin; a row of each is free, usable and unasked by contract."""

    def __init__(self) -> None:
        self.sums: dict[int, I64] = {}
        self.mix = Mix()
        self._hosts: I64 = np.zeros((0, ASKS_AT_MOST), np.int64)
        self._totals: I64 = np.zeros((ASKS_AT_MOST, 0), np.int64)
        self._ask: I64 = np.zeros((ASKS_AT_MOST, 4), np.int64)
        self._size: I64 = np.zeros((SIZES_AT_MOST, 2), np.int64)
        self._may_use: I64 = np.zeros((ASKS_AT_MOST, 0), np.int64)
        self._may_ask: I64 = np.zeros((ASKS_AT_MOST, 0), np.int64)
        self._known = (0, 0, 0)
        self._asks = self._sizes = self._jobs = 0
        self._read = 0
        self._level: I64 = np.zeros(0, np.int64)
        self._came: I64 = np.zeros(0, np.int64)

    def integrate(self, world: World, bin_number: int, dt_ms: int) -> None:
        """Count the World as it is for this long."""
        is_new = self._learn(world)
        changed = world.changes.since(self._read)
        self._read = world.changes.end
        if changed is None:
            changed = list(range(world.node_count))
        if changed:
            self._rehost(world, np.array(changed), 0)
        kernels.weigh(
            dt_ms, is_new or len(changed) > 0, int(Level.READY), self._size, self.mix.arrivals,
            self._sizes, self._ask, self._may_ask, world.contract_count, world.contracts.kind,
            world.levels, self._totals, self._came, self._level,
            row_of(self.sums, bin_number, (3, world.contract_count)),
        )  # fmt: skip

    def _learn(self, world: World) -> bool:
        """Take in new arrivals, asks, contracts, groups and nodes; whether there were any."""
        known = (world.contract_count, len(world.groups), len(world.kinds))
        is_wider = known != self._known or world.node_count > len(self._hosts)
        if world.job_count == self._jobs and not is_wider:
            return False
        self._jobs = world.job_count
        self.mix.update(world)
        if is_wider:
            self._widen(world, known)
        if len(self.mix.asks) > self._asks:
            self._take_in(world, self._asks)
        if len(self.mix.sizes) > self._sizes:
            self._size[: len(self.mix.sizes)] = self.mix.sizes
            self._sizes = len(self.mix.sizes)
        return True

    def _widen(self, world: World, known: tuple[int, int, int]) -> None:
        self._known = known
        contracts, groups, kinds = known
        if world.node_count > len(self._hosts):
            hosts = np.zeros((max(world.node_count, 2 * len(self._hosts)), ASKS_AT_MOST), np.int64)
            hosts[: len(self._hosts)] = self._hosts
            self._hosts = hosts
        totals = np.zeros((ASKS_AT_MOST, contracts), np.int64)
        totals[:, : self._totals.shape[1]] = self._totals
        self._totals = totals
        self._may_use = np.zeros((ASKS_AT_MOST, max(1, groups)), np.int64)
        self._may_ask = np.zeros((ASKS_AT_MOST, max(1, kinds)), np.int64)
        self._level, self._came = np.zeros(contracts, np.int64), np.zeros(kinds, np.int64)
        for i, ask in enumerate(self.mix.asks[: self._asks]):
            self._allow(world, i, ask)

    def _take_in(self, world: World, first: int) -> None:
        """Ask every node about the asks from this one on."""
        for i, ask in enumerate(self.mix.asks[first:], start=first):
            self._ask[i] = ask[:4]
            self._allow(world, i, ask)
        self._asks = len(self.mix.asks)
        self._rehost(world, np.arange(world.node_count), first)

    def _allow(self, world: World, i: int, ask: Ask) -> None:
        """Which kinds and groups of nodes an ask may use."""
        for k, kind in enumerate(world.kinds):
            self._may_ask[i, k] = not ask.kinds or kind in ask.kinds
        for g, group in enumerate(world.groups):
            self._may_use[i, g] = self._may_ask[i, group.kind] and set(ask.labels) <= group.labels

    def _rehost(self, world: World, which: I64, first: int) -> None:
        nodes, devices = world.nodes, world.devices
        kernels.rehost(
            which, first, self._asks, self._ask, self._may_use, nodes.state, nodes.is_spare,
            nodes.group, nodes.contract, nodes.first_device, nodes.devices, nodes.cpu_free_milli,
            nodes.memory_free_mib, devices.free_milli, devices.is_failed, _READY, WHOLE_MILLI,
            self._hosts, self._totals,
        )  # fmt: skip


def by_bin(sums: dict[int, I64], bins: I64, contracts: int) -> FreeUse:
    """The sums as matrices of these bins and contracts."""
    found = np.zeros((3, len(bins), contracts), np.int64)
    for i, number in enumerate(bins.tolist()):
        part = sums.get(number)
        if part is not None:
            found[:, i, : part.shape[1]] = part
    return FreeUse(*found)
