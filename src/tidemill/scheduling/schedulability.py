"""Schedulability: how many jobs of each size fit now, and how many if what is free lay together.

Fragmentation by its effect (C31). For one size, a gang of replicas that each want ``a``
accelerators of one node:

- *now*: the replicas that nodes which take work could host, each node by itself, by the gang;
- *consolidated*: the same if the free accelerators (and the free CPU and memory) could be put on
  any of these nodes; no arrangement of what is free hosts more;
- *usable*: the accelerators of those replicas, where at least one whole gang fits; otherwise none.

Weighted by arrivals, the usable parts of all sizes give one number: draw a job from the arrivals at
random; this share of what is free could be taken by jobs like it. Of several clusters each is
weighed by its own arrivals, and no gang is in two. Columns only: 12,500 nodes take milliseconds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.node_rules import NodeRules, Pair
from tidemill.model.rows import CLUSTER
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.demand_mix import Ask, Mix

SIZES_SHOWN = 16
_SMALLEST = (1, 2, 4, 8, 16, 32, 64)  # of one node; shown as far as a node is that large


class Fits(NamedTuple):
    """One size on one lot, by its accelerators alone; ``arrivals`` asked for it so far."""

    accelerators: int
    milli: int
    replicas: int
    arrivals: int
    now: int
    consolidated: int


class FreeLot(NamedTuple):
    """The free accelerators of one kind, in one pool or in all (``pool`` empty)."""

    kind: str
    pool: str
    free_milli: int
    nodes: int
    """Nodes that have some of it."""
    arrivals: int
    """Roles of arrivals that may use this kind."""
    usable_milli: int | None
    """What the mix could use now; None where nobody has ever asked for this kind."""
    consolidated_milli: int | None
    """What it could use if the same accelerators lay together."""
    sizes: tuple[Fits, ...]


def survey(world: World, tolerates: tuple[Pair, ...] = ()) -> tuple[FreeLot, ...]:
    """Every kind that has nodes which take work, and its pools where there are several.

    ``tolerates``: the taints that everybody tolerates who asks for accelerators.
    """
    mix = Mix()
    mix.update(world)
    found = _Fleet(world, tolerates)
    rows: list[FreeLot] = []
    for k in sorted(set(found.kind.tolist()), key=lambda k: world.kinds[k]):
        pools = np.flatnonzero(found.kind == k)
        whole = _lot(found, mix, k, "", pools)
        parts = [_lot(found, mix, k, found.pool[p], pools[pools == p]) for p in pools.tolist()]
        if len({*found.clusters[k]}) > 1:
            usable = sum(part.usable_milli or 0 for part in parts)
            consolidated = sum(part.consolidated_milli or 0 for part in parts)
            whole = whole._replace(usable_milli=usable, consolidated_milli=consolidated)
        rows += [whole, *(parts if len(parts) > 1 else ())]
    return tuple(rows)


class Hosting(NamedTuple):
    """Replicas of one ask that each lot hosts, now and if what is free lay together."""

    now: I64
    free: tuple[I64, ...]
    """Free accelerator-milli, CPU and memory on nodes that the ask may use, per lot."""
    empty: I64
    """Replicas that those nodes would host if nothing ran."""


class _Fleet:
    """The nodes that take work, sorted by lot (kind and pool), as columns."""

    def __init__(self, world: World, tolerates: tuple[Pair, ...]) -> None:
        self.plain = NodeRules(tolerates=tolerates)
        """The rules of a size that nobody asked for."""
        nodes, rows = world.nodes, world.node_count
        self.world = world
        lots = sorted({(group.kind, group.pool) for group in world.groups})
        number = {lot: i for i, lot in enumerate(lots)}
        lot_of = np.array([number[group.kind, group.pool] for group in world.groups], np.int64)
        takes = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
        here = np.flatnonzero(takes)
        lot = lot_of[nodes.group[here]] if len(here) else np.zeros(0, np.int64)
        order = np.argsort(lot, kind="stable")
        self.here: I64 = here[order]
        present, self.starts = np.unique(lot[order], return_index=True)
        self.kind: I64 = np.array([lots[i][0] for i in present.tolist()], np.int64)
        self.pool = [lots[i][1] for i in present.tolist()]
        self.group = nodes.group[self.here]
        self.free_milli = nodes.free_milli[self.here]
        self.cpu_free = nodes.cpu_free_milli[self.here]
        self.memory_free = nodes.memory_free_mib[self.here]
        self.cpu, self.memory = nodes.cpu_milli[self.here], nodes.memory_mib[self.here]
        self.working = (nodes.devices[self.here] - nodes.failed[self.here]).astype(np.int64)
        self.clusters: dict[int, list[str]] = {}
        """By kind, the clusters of its pools, where nodes say theirs."""
        self._cluster_of = dict[tuple[int, str], str]()
        for kind, pool, labels, _ in world.groups:
            if of := dict(labels).get(CLUSTER, ""):
                self._cluster_of[kind, pool] = of
        for kind, pool in zip(self.kind.tolist(), self.pool, strict=True):
            self.clusters.setdefault(kind, []).append(self._cluster_of.get((kind, pool), ""))
        self._cluster = np.array([
            self._cluster_of.get(lot, "")
            for lot in zip(self.kind.tolist(), self.pool, strict=True)
        ], object)  # fmt: skip
        self._slots: dict[int, I64] = {}
        self._hosting: dict[Ask, Hosting] = {}
        self._may_use = dict[tuple[Ask, int], bool]()

    def sums(self, column: I64) -> I64:
        """A column added up by lot."""
        return np.add.reduceat(column, self.starts)

    def by_cluster(self, lots: I64) -> list[I64]:
        """Lots, those of each cluster together: no gang is in two."""
        own = self._cluster[lots]
        return [lots[own == of] for of in sorted(set(own.tolist()))]

    def is_elsewhere(self, ask: Ask, k: int, pool: str) -> bool:
        """Whether those who ask for it are of another cluster than a pool."""
        own, asked = self._cluster_of.get((k, pool), ""), dict(ask.rules.labels).get(CLUSTER, "")
        return bool(own and asked) and own != asked

    def may_use(self, ask: Ask, k: int) -> bool:
        """Whether an ask may be on nodes of a kind, whatever is free there."""
        if (ask, k) not in self._may_use:
            self._may_use[ask, k] = ask.may_use(self.world, k)
        return self._may_use[ask, k]

    def hosting(self, ask: Ask) -> Hosting:
        """What every lot hosts of an ask."""
        found = self._hosting.get(ask)
        if found is None:
            found = self._hosting[ask] = self._ask(ask)
        return found

    def _ask(self, ask: Ask) -> Hosting:
        is_ok = self._flags(ask)[self.group]
        now = np.where(is_ok, self._slots_of(ask.milli) // ask.accelerators, 0)
        empty = np.where(is_ok, self.working * (WHOLE_MILLI // ask.milli) // ask.accelerators, 0)
        for asked, free, whole in (
            (ask.cpu_milli, self.cpu_free, self.cpu),
            (ask.memory_mib, self.memory_free, self.memory),
        ):
            if asked:
                now, empty = np.minimum(now, free // asked), np.minimum(empty, whole // asked)
        free_of = tuple(
            self.sums(np.where(is_ok, column, 0))
            for column in (self.free_milli, self.cpu_free, self.memory_free)
        )
        return Hosting(self.sums(now), free_of, self.sums(empty))

    def _flags(self, ask: Ask) -> NDArray[np.bool_]:
        world = self.world
        return np.array([
            ask.may_have(world.kinds[g.kind])
            and ask.rules.allow(g.labels, g.taints)
            for g in world.groups
        ], np.bool_)  # fmt: skip

    def _slots_of(self, milli: int) -> I64:
        """Free devices of each node that count for an ask, or parts of devices."""
        if milli not in self._slots:
            world = self.world
            free = world.devices.free_milli[: world.device_count]
            parts = (free // milli).astype(np.int64)
            parts[world.devices.is_failed[: world.device_count] != 0] = 0
            first = world.nodes.first_device[: world.node_count]
            self._slots[milli] = np.add.reduceat(parts, first)[self.here]
        return self._slots[milli]


def _lot(fleet: _Fleet, mix: Mix, k: int, pool: str, lots: I64) -> FreeLot:
    kind = fleet.world.kinds[k]
    everywhere = np.flatnonzero(fleet.kind == k)
    arrivals = usable = consolidated = 0
    for i, size in enumerate(mix.sizes):
        ask, came = mix.asks[size.ask], int(mix.arrivals[i])
        if not came or fleet.is_elsewhere(ask, k, pool):
            continue
        if fleet.may_use(ask, k):
            arrivals += came
            hosting = fleet.hosting(ask)
            if int(hosting.now[everywhere].sum()) >= size.replicas:
                usable += came * int(hosting.now[lots].sum()) * ask.replica_milli
            if together(hosting, ask, everywhere) >= size.replicas:
                consolidated += came * together(hosting, ask, lots) * ask.replica_milli
    has_some = fleet.sums((fleet.free_milli > 0).astype(np.int64))
    return FreeLot(
        kind, pool, int(fleet.sums(fleet.free_milli)[lots].sum()), int(has_some[lots].sum()),
        arrivals,
        usable // arrivals if arrivals else None, consolidated // arrivals if arrivals else None,
        tuple(_fits(fleet, kind, size, lots) for size in _shown(fleet, mix, k, pool)),
    )  # fmt: skip


def together(hosting: Hosting, ask: Ask, lots: I64) -> int:
    """Replicas that lots would host if what is free could be put on any of their nodes."""
    accelerators, cpu, memory = (int(column[lots].sum()) for column in hosting.free)
    most = int(hosting.empty[lots].sum())
    if ask.milli < WHOLE_MILLI:
        most = min(most, accelerators // ask.milli)
    else:
        most = min(most, accelerators // WHOLE_MILLI // ask.accelerators)
    if ask.cpu_milli:
        most = min(most, cpu // ask.cpu_milli)
    if ask.memory_mib:
        most = min(most, memory // ask.memory_mib)
    return most


_Shown = tuple[int, int, int, int]


def _shown(fleet: _Fleet, mix: Mix, k: int, pool: str) -> list[_Shown]:
    """The sizes to show (accelerators, milli, replicas, arrivals): plain, and most asked."""
    largest = int(np.maximum.reduceat(fleet.working, fleet.starts)[fleet.kind == k].max())
    found = {(a, WHOLE_MILLI, 1): 0 for a in _SMALLEST if a <= largest}
    plain = set(found)
    for i, size in enumerate(mix.sizes):
        ask = mix.asks[size.ask]
        if fleet.may_use(ask, k) and not fleet.is_elsewhere(ask, k, pool):
            key = (*ask.per_node, size.replicas)
            found[key] = found.get(key, 0) + int(mix.arrivals[i])
    asked = sorted(set(found) - plain, key=lambda key: (-found[key], key))
    keys = [*plain, *(key for key in asked[: SIZES_SHOWN - len(plain)] if found[key])]
    return sorted(
        ((*key, found[key]) for key in keys), key=lambda row: (row[0] * row[1] * row[2], row)
    )


def _fits(fleet: _Fleet, kind: str, shown: _Shown, lots: I64) -> Fits:
    accelerators, milli, replicas, _ = shown
    ask = Ask(accelerators, milli, 0, 0, (kind,), fleet.plain)
    hosting = fleet.hosting(ask)
    parts = fleet.by_cluster(lots)
    now = sum(int(hosting.now[part].sum()) // replicas for part in parts)
    return Fits(*shown, now, sum(together(hosting, ask, part) // replicas for part in parts))
