"""A room that notes, whenever a role is to be placed in it, how the nodes are ranked for it.

The ranks are the scheduler's own: the tournament of the request where it is placed by one, the
sweep's order where it is not, the devices of MIG instances, the score of a plug-in.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import slices
from tidemill.scheduling.fitting import node_ranking
from tidemill.scheduling.fitting.columns import SPOT
from tidemill.scheduling.scores.codes import TIDE
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.scores.tables import BLANK, Tables
from tidemill.scheduling.snapshot import Filled, Snapshot

FEW = 3  # nodes that are named: the winner, and whom it is compared with


class Ranked(NamedTuple):
    """A node, and how well it suits: numbers that are compared one after the other, least first."""

    node: int
    key: tuple[int, ...]
    rank: int = 0
    """Of a score by tables: all of them in one number."""
    ahead: tuple[int, int] = (0, 0)
    """Of ``tide``: by how much less is expected to stay empty, in milli; a price, in grains."""


class Noted(NamedTuple):
    """One attempt to place all replicas of a role on some groups of nodes."""

    role: Role
    is_ok: I64
    scoring: Scoring
    way: str
    """How nodes were ranked: ``scores``, ``plain``, ``fewest``, ``plug-in`` or ``mig``."""
    best: tuple[Ranked, ...]
    """For its first replica; the first of them wins."""
    filled: Filled


class NotingRoom(Snapshot):
    """A room that keeps what was asked of it."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.noted: list[Noted] = []
        self.few: I64 = np.zeros((FEW, 2), np.int64)

    def fill(self, role: Role, is_ok: I64, scoring: Scoring) -> Filled:
        """As the scheduler does; what nodes were compared by is kept."""
        way, best = self._rank(role, is_ok, scoring)
        filled = super().fill(role, is_ok, scoring)
        self.noted.append(Noted(role, is_ok, scoring, way, best, filled))
        return filled

    def _rank(self, role: Role, is_ok: I64, scoring: Scoring) -> tuple[str, tuple[Ranked, ...]]:
        if role.profile:
            return "mig", self._by_slices(role, is_ok)
        if role.count > 1 and role.milli == WHOLE_MILLI and not scoring.spreads:
            return "fewest", self._by_hosts(role, is_ok)
        if scoring.score is not None:
            return "plug-in", self._by_plugin(role, is_ok, scoring)
        if scoring.tables is None:
            return "plain", self._plainly(role, is_ok, scoring)
        return "scores", self._by_tables(role, is_ok, scoring)

    def _by_slices(self, role: Role, is_ok: I64) -> tuple[Ranked, ...]:
        return tuple(
            Ranked(self.axis.node.item(d), (rank, d), d)
            for rank, d in slices.best_devices(self, role, is_ok, FEW)
        )

    def _by_hosts(self, role: Role, is_ok: I64) -> tuple[Ranked, ...]:
        """Nodes that host most of a gang; of equal ones the fullest."""
        spots, hosts = self.ground.spots, self.hosts(role, is_ok)
        keys = sorted(
            (-min(role.count, hosts.item(n)), spots.item(n, SPOT.FREE), n)
            for n in np.flatnonzero(hosts > 0).tolist()
        )
        return tuple(Ranked(n, (hosted, free, n)) for hosted, free, n in keys[:FEW])

    def _by_plugin(self, role: Role, is_ok: I64, scoring: Scoring) -> tuple[Ranked, ...]:
        assert scoring.score is not None, "a plug-in's"
        able = np.flatnonzero(self.hosts(role, is_ok) > 0).tolist()
        scored = [(scoring.score(self.free_node(n), role), n) for n in able]
        scored.sort(key=lambda one: (-one[0], one[1]))
        return tuple(Ranked(n, (n,), score) for score, n in scored[:FEW])

    def _plainly(self, role: Role, is_ok: I64, scoring: Scoring) -> tuple[Ranked, ...]:
        r, ranks = self.request(role, is_ok, scoring), np.zeros(self.rows, np.int64)
        node_ranking.rank_plainly(self.world.matrices, self.ground, r, ranks)
        order = np.argsort(-ranks, kind="stable")[:FEW].tolist()
        found = [(n, ranks.item(n)) for n in order if ranks.item(n) > node_ranking.NOWHERE]
        return tuple(Ranked(n, (-rank, n), rank) for n, rank in found)

    def _by_tables(self, role: Role, is_ok: I64, scoring: Scoring) -> tuple[Ranked, ...]:
        r = self.request(role, is_ok, scoring, is_placed=True)
        tables = BLANK if scoring.tables is None else scoring.tables
        count = node_ranking.best_few(self.world.matrices, self.ground, tables, r, self.few)
        best = self.few[:count].tolist()
        return tuple(Ranked(n, (-rank, n), rank, self._ahead(tables, r, n)) for n, rank in best)

    def _ahead(self, tables: Tables, r: int, n: int) -> tuple[int, int]:
        if TIDE not in tables.codes:
            return (0, 0)
        parts: I64 = np.zeros((1, 2), np.int64)
        node_ranking.look_ahead(self.world.matrices, self.ground, tables, r, n, parts)
        return parts.item(0, 0), parts.item(0, 1)
