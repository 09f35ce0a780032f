"""Asks: the rows of ``Desk.asks``, one per shape, written when a shape is first looked at.

What a row says of nodes holds until there are new groups of nodes or contracts; what it remembers
of failures holds until something was freed (``failures``).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Role, Shape
from tidemill.model.tables import I64, grown
from tidemill.model.topology import Topology
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import ASK, OPTION, UNKNOWN
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting.columns import RUNG
from tidemill.scheduling.scores.scoring import PACKING, Scoring
from tidemill.scheduling.shape_eligibility import Known
from tidemill.scheduling.snapshot import Snapshot
from tidemill.scheduling.topology import constraints, place
from tidemill.scheduling.topology.constraints import Wishes

ROWS = 64  # to begin with


class Request(NamedTuple):
    """What the rows of one like are about."""

    role: Role
    option: Option


class Asks:
    """The rows, and the pools that they point into."""

    def __init__(self) -> None:
        self.rows: I64 = np.zeros((0, len(ASK)), np.int64)
        self.types: I64 = np.zeros(ROWS, np.int64)
        self.options: I64 = np.zeros((ROWS, len(OPTION)), np.int64)
        self.rungs: I64 = np.zeros((1, 1), np.int64)
        self.requests: list[Request] = []
        """By row of ``options``: what is asked for, and where it may be."""
        self._rooms: tuple[object, ...] = ()
        self._room_at = 0
        self._ladders: dict[tuple[object, ...], tuple[int, int]] = {}
        self._type_end = 0
        self._sets: dict[tuple[int, ...], tuple[int, int]] = {}
        self._likes: dict[tuple[object, ...], tuple[int, int]] = {}
        self.make(ROWS)

    def make(self, count: int) -> None:
        """Make room for so many shapes."""
        had = len(self.rows)
        if count <= had:
            return
        self.rows = grown(self.rows, count)
        self.rows[had:, ASK.AGAIN_MS] = FOREVER_MS
        self.rows[had:, [ASK.SUPPLY, ASK.OUTLASTS, ASK.LIKE]] = UNKNOWN

    def forget_nodes(self) -> None:
        """There are new groups of nodes, or new contracts: what shapes may use is another."""
        self.rows[:, ASK.IS_KNOWN] = 0
        self._type_end = 0
        self._sets.clear()
        self._likes.clear()
        self._ladders.clear()
        self.requests.clear()

    @property
    def sets(self) -> int:
        """How many sets of types shapes may use."""
        return len(self._sets)

    def unprepared(self, first: int, end: int) -> list[int]:
        """Of these shapes, those whose rows are not written, or have no rows in the room."""
        rows = self.rows[first:end]
        is_lost = (rows[:, ASK.IS_SIMPLE] != 0) & (rows[:, ASK.PREPARED] != self._room_at)
        found: list[int] = (first + np.flatnonzero(is_lost | (rows[:, ASK.IS_KNOWN] == 0))).tolist()
        return found

    def unknown(self, shapes: I64) -> list[int]:
        """Of these shapes, those whose rows are not written."""
        found: list[int] = shapes[self.rows[shapes, ASK.IS_KNOWN] == 0].tolist()
        return found

    def write(self, world: World, s: int, known: Known) -> None:
        """Write what a shape asks for, and what it may use."""
        shape, row = world.shape_rows[s], self.rows[s]
        role = shape.roles[0]
        row[ASK.ROLES], row[ASK.COUNT] = len(shape.roles), role.count
        row[ASK.NEED] = max(each.total_milli for each in shape.roles)
        row[ASK.REPLICA] = role.replica_milli
        row[ASK.TYPE_SET], row[ASK.FIRST_TYPE] = self._types(known.kinds)
        row[ASK.TYPES] = len(known.kinds)
        key = like(shape)
        row[ASK.IS_SIMPLE] = bool(key and known.options[0])
        if row[ASK.IS_SIMPLE]:
            row[ASK.LIKE], row[ASK.FIRST_OPTION] = self._like(key, role, known.options[0])
            row[ASK.OPTIONS] = len(known.options[0])
        row[ASK.IS_KNOWN], row[ASK.PREPARED] = 1, 0

    def _types(self, kinds: tuple[int, ...]) -> tuple[int, int]:
        """The number of a set of types, and where it begins in the pool."""
        found = self._sets.get(kinds)
        if found is None:
            end = self._type_end + len(kinds)
            if end > len(self.types):
                self.types = grown(self.types, end)
            self.types[self._type_end : end] = kinds
            found = self._sets[kinds] = (len(self._sets), self._type_end)
            self._type_end = end
        return found

    def _like(
        self, key: tuple[object, ...], role: Role, options: Iterable[Option]
    ) -> tuple[int, int]:
        """The number of a like, and the row of its first option."""
        found = self._likes.get(key)
        if found is None:
            first = len(self.requests)
            self.requests += [Request(role, option) for option in options]
            if len(self.requests) > len(self.options):
                self.options = grown(self.options, len(self.requests))
            rows = self.options[first : len(self.requests)]
            rows[:] = UNKNOWN
            rows[:, OPTION.KIND] = [request.option.kind for request in self.requests[first:]]
            found = self._likes[key] = (len(self._likes), first)
        return found

    def room_at(self, room: Snapshot, scoring: Scoring, topology: Topology) -> int:
        """A number that is another when requests have other rows in the room, or other wishes."""
        room.heed(scoring)
        stamp = (room.requests, room.requests.generation, scoring.names, topology)
        if stamp != self._rooms:
            self._rooms = stamp
            self._room_at += 1
            self._ladders.clear()
            self.rungs = np.zeros((8, int(RUNG.RATIO) + topology.labelled + 1), np.int64)
        return self._room_at

    def prepare(self, world: World, s: int, room: Snapshot, scoring: Scoring) -> None:
        """Write the requests of a simple shape's options, and how its replicas wish to be tied."""
        shape, row = world.shape_rows[s], self.rows[s]
        role, first, count = shape.roles[0], int(row[ASK.FIRST_OPTION]), int(row[ASK.OPTIONS])
        options = [request.option for request in self.requests[first : first + count]]
        for o, option in enumerate(options, start=first):
            self.options[o, OPTION.REQUEST] = room.request(
                role, option.is_ok, scoring, is_placed=True
            )
            self.options[o, OPTION.PACKED] = room.request(role, option.is_ok, PACKING)
        row[ASK.TOGETHER] = UNKNOWN
        is_any = role.count == 1 and not role.kinds and scoring.tables is not None
        if is_any and len(options) > 1 and options[0].kind >= 0:
            is_ok = room.together(tuple(options))
            row[ASK.TOGETHER] = room.request(role, is_ok, scoring, is_placed=True)
        wish = constraints.of(world.topology, shape) if world.topology.tiers else None
        row[ASK.RUNGS] = row[ASK.IS_BINDING] = 0
        if wish is not None:
            row[ASK.FIRST_RUNG], row[ASK.RUNGS] = self._ladder(like(shape), wish)
            row[ASK.IS_BINDING] = wish.is_binding
        row[ASK.PREPARED] = self._room_at

    def _ladder(self, key: tuple[object, ...], wish: Wishes) -> tuple[int, int]:
        """Where the rungs of a like begin in the pool, and how many they are."""
        found = self._ladders.get(key)
        if found is None:
            first = sum(count for _, count in self._ladders.values())
            ladder = wish.ladders[0]
            if first + len(ladder) > len(self.rungs):
                self.rungs = grown(self.rungs, first + len(ladder))
            rows = place.rungs(ladder)
            self.rungs[first : first + len(ladder)] = rows[: len(ladder)]
            found = self._ladders[key] = (first, len(ladder))
        return found

    def mark_unfit(self, s: int, cycle: int) -> None:
        """No nodes hold a request of this like, nor will in this cycle."""
        row = self.rows[s]
        first = int(row[ASK.FIRST_OPTION])
        self.options[first : first + int(row[ASK.OPTIONS]), OPTION.UNFIT_IN] = cycle


def like(shape: Shape) -> tuple[object, ...]:
    """The same for all shapes that fit wherever this one does, whosoever they are; or nothing."""
    only = shape.roles[0]
    if len(shape.roles) > 1 or only.least or only.profile:
        return ()
    return (only, shape.bonds, shape.parallelism)
