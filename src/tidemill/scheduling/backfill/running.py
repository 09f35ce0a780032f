"""Running work by its expected end, kept from cycle to cycle so that only what changed costs.

A row a job that is active and ends; rows stay where they are, ``order`` holds them by expected end.
An expected end stays where it is until it has passed (see ``estimates``), so the order of the last
cycle is nearly the order of this one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model import tables
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Piece, Role
from tidemill.model.states import JobClass
from tidemill.model.tables import I64, U64
from tidemill.model.world import World
from tidemill.scheduling.backfill.keeping import compiled
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.estimates import Basis, Estimates
from tidemill.scheduling.room import Room

FEWEST_ROWS = 16


class Held(NamedTuple):
    """Columns of pieces: where they are, and what one replica asks for."""

    node: I64
    replicas: I64
    mask: U64
    accelerators: I64
    milli: I64
    cpu: I64
    memory: I64


class _Rows(NamedTuple):
    """Columns of jobs (-1: nobody): their pieces, what is thought of them, the order of ends."""

    job: I64
    first: I64
    pieces: I64
    total_ms: I64
    order: I64
    done_ms: I64
    end_ms: I64
    outrun: I64


class Running:
    """What runs, by when it is expected to end."""

    def __init__(self, world: World, estimates: Estimates) -> None:
        self.world, self.estimates = world, estimates
        self._loops = compiled()
        self._known: dict[int, tuple[Piece, ...]] = {}
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._by_shape: dict[int, dict[int, int]] = {}
        self._bases: dict[int, Basis] = {}
        self._outran: set[int] = set()
        self._ended = -1
        self._take_rows(tables.blank(_Rows, 0))
        self._make_rows(FEWEST_ROWS)
        self._allocate_pieces(4 * FEWEST_ROWS)

    @property
    def ends_ms(self) -> I64:
        """The expected ends in order."""
        ends: I64 = self.end_ms[self.order[: self.count]]
        return ends

    @property
    def jobs(self) -> list[int]:
        """The jobs in the order of their expected ends."""
        found: list[int] = self.job[self.order[: self.count]].tolist()
        return found

    def read(self) -> None:
        """Bring everything up to this moment."""
        self._follow()
        if self.estimates.reads_history:
            self._learn()
        outrun = self._expect()
        if outrun:
            for row in self._outrun[:outrun].tolist():
                self._estimate(row)
            self._expect()
        self.count = len(self._rows)
        for j in self.world.moving:
            if j in self._rows:
                self.end_ms[self._rows[j]] = FOREVER_MS
                self.count -= 1
        self._loops.sort_again(self.order, len(self.order), self.end_ms, self.job)

    def enough_after(self, room: Room, role: Role, option: Option, is_barred: I64) -> int:
        """How many must end until a gang fits on one kind; -1: not even all."""
        world, nodes, need = self.world, self.world.nodes, role.total_milli
        short = need - room.kind_free[option.kind] if need else 0
        found: int = self._loops.enough_after(
            self.count, self.order, self.first, self.pieces, *self.held, nodes.state,
            nodes.is_spare, nodes.group, nodes.kind, nodes.first_device, nodes.devices, is_barred,
            option.is_ok, *room.columns, world.node_count, role.accelerators, role.milli,
            role.cpu_milli, role.memory_mib, role.count, option.kind, short, room.hosts,
        )  # fmt: skip
        return found

    def end_first(self, room: Room, count: int, sign: int) -> None:
        """Give back what the first so many hold (1), or take it again (-1); off the books."""
        self._loops.end_first(
            0, count, sign, self.order, self.first, self.pieces, *self.held,
            self.world.nodes.first_device, *room.columns,
        )  # fmt: skip

    # Rows --------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Add who came, drop who went; who was moved or resized did both."""
        placements, known = self.world.placements, self._known
        for j, pieces in placements.items():
            if known.get(j) is not pieces:
                self._drop(j)
                self._add(j, pieces)
        if len(known) != len(placements):
            for j in [j for j in known if j not in placements]:
                self._drop(j)

    def _add(self, j: int, pieces: tuple[Piece, ...]) -> None:
        world = self.world
        self._known[j] = pieces
        s = world.jobs.shape.item(j)
        shape = world.shape_rows[s]
        if shape.kind is JobClass.INFERENCE:
            return
        if self._end + len(pieces) > len(self.held.node):
            self._compact(len(pieces))
        if not self._free:
            self._make_rows(2 * len(self.job))
        row = self._rows[j] = self._free.pop()
        self.job[row], self.first[row], self.pieces[row] = j, self._end, len(pieces)
        self._by_shape.setdefault(s, {})[row] = j
        for piece in pieces:
            role = shape.roles[piece.role]
            self._write(
                (piece.node, piece.replicas, piece.devices, role.accelerators, role.milli,
                 role.cpu_milli, role.memory_mib)
            )  # fmt: skip
        self.total_ms[row] = 0  # not asked yet

    def _drop(self, j: int) -> None:
        self._known.pop(j, None)
        row = self._rows.pop(j, None)
        if row is not None:
            del self._by_shape[self.world.jobs.shape.item(j)][row]
            self.job[row] = -1
            self._outran.discard(row)
            self._free.append(row)

    def _write(self, piece: Sequence[int]) -> None:
        columns: Sequence[NDArray[Any]] = self.held
        for column, value in zip(columns, piece, strict=True):
            column[self._end] = value
        self._end += 1

    def _make_rows(self, count: int) -> None:
        """Make room for so many jobs; who is there stays."""
        table: _Rows = tables.blank(_Rows, count)
        table.job[:], table.order[:], table.end_ms[:] = -1, np.arange(count), FOREVER_MS
        had = len(self.job)
        for column, before in zip(table, self._table, strict=True):
            column[:had] = before
        self._take_rows(table)
        self._free = [*range(count - 1, had - 1, -1)]

    def _take_rows(self, table: "_Rows") -> None:
        self._table = table
        self.job, self.first, self.pieces, self.total_ms, self.order = table[:5]
        self._done_ms, self.end_ms, self._outrun = table[5:]

    def _allocate_pieces(self, pieces: int) -> None:
        self.held: Held = tables.blank(Held, pieces)
        self._end = 0

    def _compact(self, more: int) -> None:
        """Move the pieces that are still held together."""
        rows = [*self._rows.values()]
        old: Sequence[NDArray[Any]] = self.held
        size = int(self.pieces[rows].sum()) + more
        self._allocate_pieces(max(2 * size, len(old[0])))
        for row in rows:
            first, count = self.first.item(row), self.pieces.item(row)
            for p in range(first, first + count):
                self._write([int(column[p]) for column in old])
            self.first[row] = self._end - count

    # Ends --------------------------------------------------------------------------------------

    def _expect(self) -> int:
        jobs = self.world.jobs
        found: int = self._loops.expect(
            self.world.now_ms, len(self.job), self.job, self.total_ms, jobs.placed_ms,
            jobs.startup_ms, jobs.restart_ms, jobs.attempt, jobs.saved_ms, jobs.reached_ms,
            jobs.speed_ppm, jobs.is_leaving, self._done_ms, self.end_ms, self._outrun,
        )  # fmt: skip
        return found

    def _estimate(self, row: int) -> None:
        """Ask how long a job is taken to run in all, having done what it has."""
        j, estimates = self.job.item(row), self.estimates
        total_ms = estimates.total_ms(self.world, j, self._done_ms.item(row))
        self.total_ms[row] = total_ms
        if estimates.reads_history and total_ms != estimates.first_ms(self.world, j):
            self._outran.add(row)

    def _learn(self) -> None:
        """Ask again about those of whom history says something else by now."""
        ended = int(self.world.ended.sum())
        if ended == self._ended:
            return
        self._ended = ended
        for s, rows in self._by_shape.items():
            if not rows:
                continue
            basis = self.estimates.basis(self.world, s)
            is_news = self._bases.get(s) != basis
            self._bases[s] = basis
            for row in rows if is_news else self._outran.intersection(rows):
                self.total_ms[row] = 0
                self._outran.discard(row)
