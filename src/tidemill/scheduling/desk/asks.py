"""Asks: the rows of ``Desk.asks``, one per shape, written when a shape is first looked at.

What a row says of nodes holds until there are new groups of nodes or contracts; what it remembers
of failures holds until something was freed (``failures``).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Role, Shape
from tidemill.model.tables import I64, grown
from tidemill.model.topology import Topology
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity
from tidemill.scheduling.desk import gangs
from tidemill.scheduling.desk.columns import ASK, OPTION, UNKNOWN
from tidemill.scheduling.elastic import smallest
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting.columns import RUNG
from tidemill.scheduling.scores.scoring import PACKING, Scoring
from tidemill.scheduling.shape_eligibility import Known
from tidemill.scheduling.snapshot import Snapshot
from tidemill.scheduling.topology import constraints, place
from tidemill.scheduling.topology.constraints import Rung

ROWS = 64  # to begin with


class Request(NamedTuple):
    """What the rows of one like are about."""

    role: Role
    option: Option


class LikeRows(NamedTuple):
    """The number of a like, the row of its first option, and how many it has."""

    number: int
    first: int
    options: int


class Asks:
    """The rows, and the pools that they point into."""

    def __init__(self) -> None:
        self.rows: I64 = np.zeros((0, len(ASK)), np.int64)
        self.types: I64 = np.zeros(ROWS, np.int64)
        self.options: I64 = np.zeros((ROWS, len(OPTION)), np.int64)
        self.rungs: I64 = np.zeros((1, 1), np.int64)
        self.requests: list[Request] = []
        """By row of ``options``: what is asked for, and where it may be."""
        self.gangs = gangs.GangRows()
        self._rooms: tuple[object, ...] = ()
        self._room_at = 0
        self._ladders: dict[tuple[object, ...], tuple[int, int]] = {}
        self._type_end = 0
        self._sets: dict[tuple[int, ...], tuple[int, int]] = {}
        self._likes: dict[tuple[object, ...], LikeRows] = {}
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
        self.gangs.forget()

    @property
    def sets(self) -> int:
        """How many sets of types shapes may use."""
        return len(self._sets)

    def unprepared(self, first: int, end: int) -> list[int]:
        """Of these shapes, those whose rows are not written, or have no rows in the room."""
        rows = self.rows[first:end]
        is_fitted = (rows[:, ASK.IS_SIMPLE] != 0) | (rows[:, ASK.SIZES] != 0)
        is_lost = is_fitted & (rows[:, ASK.PREPARED] != self._room_at)
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
        row[ASK.LEAST] = smallest(shape).total_milli
        row[ASK.TYPE_SET], row[ASK.FIRST_TYPE] = self._types(known.kinds)
        row[ASK.TYPES] = len(known.kinds)
        key = like(shape)
        row[ASK.IS_SIMPLE] = bool(key and known.options[0])
        row[ASK.SIZES] = len(gangs.sizes(shape)) if all(known.options) else 0
        row[ASK.OPTIONS] = 0
        if row[ASK.IS_SIMPLE]:
            found = self._like(world, key, role, known.options[0])
            row[ASK.LIKE], row[ASK.FIRST_OPTION] = found.number, found.first
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

    def judge(self, world: World, s: int) -> None:
        """Write again which GPU types contracts could ever hold a shape on."""
        shape = world.shape_rows[s]
        simple, gang = like(shape), _gang(shape)
        for r, role in enumerate(smallest(shape).roles):
            for key in (simple, (*gang, r)):
                if key in self._likes:
                    self._judge(world, role, self._likes[key].first, self._likes[key].options)

    def _judge(self, world: World, role: Role, first: int, count: int) -> None:
        rows = self.options[first : first + count]
        kinds = rows[:, OPTION.KIND].tolist()
        rows[:, OPTION.HOLDS] = contract_capacity.holding(world, role, kinds)

    def _like(
        self, world: World, key: tuple[object, ...], role: Role, options: Iterable[Option]
    ) -> LikeRows:
        """The rows of a like's options."""
        found = self._likes.get(key)
        if found is None:
            first = len(self.requests)
            self.requests += [Request(role, option) for option in options]
            if len(self.requests) > len(self.options):
                self.options = grown(self.options, len(self.requests))
            rows = self.options[first : len(self.requests)]
            rows[:] = UNKNOWN
            rows[:, OPTION.KIND] = [request.option.kind for request in self.requests[first:]]
            found = self._likes[key] = LikeRows(len(self._likes), first, len(rows))
            self._judge(world, role, first, len(rows))
        return found

    def room_at(self, room: Snapshot, scoring: Scoring, topology: Topology) -> int:
        """A number that is another when requests have other rows in the room, or other wishes."""
        room.heed(scoring)
        stamp = (room.requests, room.requests.generation, scoring.names, topology)
        if stamp != self._rooms:
            self._rooms = stamp
            self._room_at += 1
            self._ladders.clear()
            self.gangs.forget()
            self.rungs = np.zeros((8, int(RUNG.RATIO) + topology.labelled + 1), np.int64)
        return self._room_at

    def is_fitted(self, s: int) -> bool:
        """Whether kernels fit a shape whose row is written."""
        return bool(self.rows[s, ASK.IS_SIMPLE] or self.rows[s, ASK.SIZES])

    def prepare(self, world: World, s: int, room: Snapshot, scoring: Scoring, known: Known) -> None:
        """Write the requests of a shape's options, and how its replicas wish to be tied."""
        shape, row = world.shape_rows[s], self.rows[s]
        replicas = sum(role.count for role in shape.roles)
        room.make_pieces(replicas)
        self.gangs.make_seats(replicas)
        if row[ASK.IS_SIMPLE]:
            self._prepare_simple(world, s, room, scoring)
        else:
            self._prepare_gang(world, s, room, scoring, known)
        row[ASK.PREPARED] = self._room_at

    def _prepare_simple(self, world: World, s: int, room: Snapshot, scoring: Scoring) -> None:
        shape, row = world.shape_rows[s], self.rows[s]
        role, first, count = shape.roles[0], int(row[ASK.FIRST_OPTION]), int(row[ASK.OPTIONS])
        options = tuple(request.option for request in self.requests[first : first + count])
        self._request(role, first, options, room, scoring)
        row[ASK.TOGETHER] = _together(role, options, room, scoring)
        wish = constraints.of(world.topology, shape) if world.topology.tiers else None
        row[ASK.RUNGS] = row[ASK.IS_BINDING] = 0
        if wish is not None:
            key = like(shape)
            row[ASK.FIRST_RUNG], row[ASK.RUNGS] = self._ladder(key, wish.ladders[0])
            row[ASK.IS_BINDING] = wish.is_binding
            member = self._member(role, first, options, (key, wish.ladders[0]), room, scoring)
            row[ASK.FIRST_MEMBER] = self.gangs.first(key)
            if row[ASK.FIRST_MEMBER] < 0:
                row[ASK.FIRST_MEMBER] = self.gangs.write(key, [member])

    def _prepare_gang(
        self, world: World, s: int, room: Snapshot, scoring: Scoring, known: Known
    ) -> None:
        """The same for a gang that is fitted role by role, at each of its sizes.

        One of which some roles are to be in one domain is fitted by Python.
        """
        shape, row = world.shape_rows[s], self.rows[s]
        key = _gang(shape)
        wish = constraints.of(world.topology, shape) if world.topology.tiers else None
        if wish is not None and wish.scopes:
            row[ASK.SIZES] = 0
            return
        row[ASK.RUNGS], row[ASK.IS_BINDING] = wish is not None, wish is not None and wish.is_binding
        row[ASK.FIRST_MEMBER] = self.gangs.first(key)
        if row[ASK.FIRST_MEMBER] < 0:
            members = [
                member
                for size in gangs.sizes(shape)
                for member in self._members(world, key, size, room, scoring, known)
            ]
            row[ASK.FIRST_MEMBER] = self.gangs.write(key, members)

    def _members(
        self, world: World, key: tuple[object, ...], size: Shape, room: Snapshot, scoring: Scoring,
        known: Known,
    ) -> Iterator[tuple[int, ...]]:  # fmt: skip
        """The rows of a gang at one of its sizes."""
        wish = constraints.of(world.topology, size) if world.topology.tiers else None
        for r, (role, options) in enumerate(zip(size.roles, known.options, strict=True)):
            first = self._like(world, (*key, r), role, options).first
            self._request(role, first, options, room, scoring)
            ladder = () if wish is None else wish.ladders[r]
            tie = ((*key, r, role.count), ladder)
            yield self._member(role, first, options, tie, room, scoring)

    def _member(
        self, role: Role, first: int, options: tuple[Option, ...],
        tie: tuple[tuple[object, ...], tuple[Rung, ...]], room: Snapshot, scoring: Scoring,
    ) -> tuple[int, ...]:  # fmt: skip
        """One role as a row (``MEMBER``); ``tie``: its ladder, and by what that is known."""
        together = _together(role, options, room, scoring)
        rungs = self._ladder(*tie) if tie[1] else (0, 0)
        return (role.count, role.total_milli, first, len(options), together, *rungs)

    def _request(
        self, role: Role, first: int, options: tuple[Option, ...], room: Snapshot, scoring: Scoring
    ) -> None:
        """Write the requests of a role's options, from one row on."""
        for o, option in enumerate(options, start=first):
            self.options[o, OPTION.REQUEST] = room.request(
                role, option.is_ok, scoring, is_placed=True
            )
            self.options[o, OPTION.PACKED] = room.request(role, option.is_ok, PACKING)

    def _ladder(self, key: tuple[object, ...], ladder: tuple[Rung, ...]) -> tuple[int, int]:
        """Where the rungs of a role begin in the pool, and how many they are."""
        found = self._ladders.get(key)
        if found is None:
            first = sum(count for _, count in self._ladders.values())
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


def _together(role: Role, options: tuple[Option, ...], room: Snapshot, scoring: Scoring) -> int:
    """The request of a single replica on all its types at once; UNKNOWN: each type by itself."""
    is_any = role.count == 1 and not role.kinds and scoring.tables is not None
    if not is_any or len(options) < 2 or options[0].kind < 0:
        return UNKNOWN
    return room.request(role, room.together(options), scoring, is_placed=True)


def _gang(shape: Shape) -> tuple[object, ...]:
    """The same for all gangs that are fitted role by role, and fit wherever this one does."""
    return ("gang", shape.roles, shape.bonds, shape.parallelism)


def like(shape: Shape) -> tuple[object, ...]:
    """The same for all shapes that fit wherever this one does, whosoever they are; or nothing."""
    only = shape.roles[0]
    if len(shape.roles) > 1 or only.least or only.profile:
        return ()
    return (only, shape.bonds, shape.parallelism)
