"""Reservations: when and where a job that does not fit will, and who may pass it.

A *reservation* is the earliest moment at which a waiting job fits, by the expected ends of what
runs, and the devices on which it fits then: running jobs are given back in the order of their ends
in a scratch room until the whole gang fits. Whoever comes after it in the order may pass if it is
taken to end by then, or fits beside the devices that are kept.

``easy`` (Lifka, JSSPP'95): one reservation for each kind of accelerator, for the first in the order
that does not fit on it. ``conservative``: one for each of the first ``reservations_at_most`` that
do not fit. A later reservation does not count on the end of a job that is itself only reserved.

Reservations are not kept from cycle to cycle: they follow from the World. They are looked for only
when somebody could pass, so a queue in which nobody fits costs nothing. A gang of one role is
looked for in one compiled pass over what ends; others by halving, one whole fit at a time.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.backfill.expected_ends import Running
from tidemill.scheduling.backfill.holds import Sliced, keep_slices, kept, let_slices_go
from tidemill.scheduling.desk import layout, placing, reserving
from tidemill.scheduling.desk.columns import ASK, PROMISE, REG, Desk
from tidemill.scheduling.desk.lines import PASSERS_AT_MOST
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fit import redo, undo
from tidemill.scheduling.fitting import keeping
from tidemill.scheduling.fitting.columns import KEPT, KEPT_COLUMNS
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.snapshot import ALL_BITS, Snapshot

Pieces = tuple[Piece, ...]


class Reservation(NamedTuple):
    """A waiting job, when it is expected to fit, and where."""

    job: int
    kinds: tuple[int, ...]
    at_ms: int
    pieces: Pieces


class Made(NamedTuple):
    """Reservations as they were made, what they depend on, and until when nothing ends."""

    stamp: tuple[object, ...]
    until_ms: int
    found: tuple[Reservation, ...]


class Reservations:
    """The reservations of one cycle."""

    def __init__(
        self, world: World, policy: Policy, memo: Memo, room: Snapshot, columns: Desk
    ) -> None:
        self.world, self.policy, self.memo, self.room = world, policy, memo, room
        self.columns = columns
        self.estimates: Estimates = memo.lines(policy).estimates
        self.found: list[Reservation] = []
        self._kept: dict[int, I64] = {}
        self._sliced: dict[int, list[Sliced]] = {}
        self.running = self._running_of()
        self._has_read = False

    def made(self) -> list[Reservation]:
        """The reservations of this cycle, those too that kernels made."""
        columns, world = self.columns, self.world
        for job, at_ms, first, count, _ in columns.promises[
            len(self.found) : columns.reg.item(REG.PROMISES)
        ].tolist():
            kinds = self.memo.known(world, world.jobs.shape.item(job)).kinds
            rows = columns.promised[first : first + count].tolist()
            pieces = tuple(
                Piece(
                    row[KEPT.ROLE], row[KEPT.NODE], row[KEPT.REPLICAS], row[KEPT.DEVICES] & ALL_BITS
                )
                for row in rows
            )
            self.found.append(Reservation(job, kinds, at_ms, pieces))
        return self.found

    def let_past(self, s: int, j: int, pieces: Pieces) -> Pieces:
        """Where a job that was fitted may sit without disturbing whoever goes before it.

        The pieces as they are, others, or none; the room is left accordingly. What was claimed is
        made.
        """
        if not self.made():
            return pieces
        world, room = self.world, self.room
        shape, q = world.shape_rows[s], world.shapes.queue.item(s)
        disturbed, known = self.disturbed_by(s, j), self.memo.known(world, s)
        if not disturbed:
            return pieces
        undo(room, q, shape, pieces)
        self.keep(disturbed)
        scoring = self.memo.scoring(world, self.policy)
        found = fit_largest(room, q, shape, known.options, scoring)
        self.let_go(disturbed)
        if found.shortage is not None:
            placing.refuse(self.columns, s, max(one.at_ms for one in disturbed))
        return found.pieces

    def disturbed_by(self, s: int, j: int) -> list[Reservation]:
        """Those of which a job would hold GPU types beyond the moment at which they begin."""
        end_ms, kinds = self._end_ms(j), set(self.memo.known(self.world, s).kinds)
        return [
            one for one in self.made()
            if one.at_ms < end_ms and not kinds.isdisjoint(one.kinds)
        ]  # fmt: skip

    def is_refused(self, s: int, j: int) -> bool:
        """Whether a job is known not to be let past: one of its like was not that ends no later.

        What is free only gets less in a cycle, and what is kept only more.
        """
        return self._end_ms(j) > self.columns.asks.item(s, ASK.REFUSED_MS)

    def may_try_next(self, s: int) -> bool:
        """Whether the next job of a shape may be asked, too: it may be shorter."""
        row = self.columns.asks[s]
        row[ASK.TRIED] += 1
        return bool(row[ASK.TRIED] < PASSERS_AT_MOST)

    # Reservations ------------------------------------------------------------------------------

    def make_all(self, columns: Desk) -> Desk:
        """Make what was claimed; the same again if nothing that it depends on changed."""
        self.columns = columns
        world, before = self.world, tuple(self.made())
        rows = columns.claims[: columns.reg.item(REG.PENDING)].tolist()
        claims = tuple((s, j) for s, j, _ in rows)
        stamp = (
            int(world.kind_freed.sum()), int(world.kind_taken.sum()), world.supply_changes,
            world.share_changes, int(world.ended.sum()), len(world.leaving_for),
            self.room.used.tobytes(), claims, before,
        )  # fmt: skip
        last = self.memo.made
        if last is None or last.stamp != stamp or world.now_ms >= last.until_ms:
            running = self._read_running()
            for s, j in claims:
                self._make(running, s, j)
            until_ms = next((end for end in running.ends_ms.tolist() if end > world.now_ms), 0)
            self.memo.made = Made(stamp, until_ms, tuple(self.found))
        else:
            self.found = list(last.found)
        left = self.policy.reservations_at_most - len(self.found)
        columns.reg[REG.CLAIMS_LEFT], columns.reg[REG.PENDING] = left, 0
        self.columns = self._laid_out(self.columns)
        return self.columns

    def _laid_out(self, columns: Desk, more: int = 0) -> Desk:
        """The columns with these reservations in them, and room for one of so many pieces more."""
        reg, first, promises = columns.reg, 0, columns.promises
        if len(self.found) >= len(promises):
            promises = np.zeros((2 * len(self.found) + 1, len(PROMISE)), np.int64)
        for row, one in zip(promises, self.found, strict=False):
            row[: PROMISE.IS_DISTURBED] = (one.job, one.at_ms, first, len(one.pieces))
            first += len(one.pieces)
        reg[REG.PROMISES], reg[REG.STANDS], reg[REG.MADE_FIRST] = len(self.found), 0, 0
        reg[REG.IS_SLICED] = any(piece.slices for one in self.found for piece in one.pieces)
        promised = columns.promised
        if first + more > len(promised):
            promised = np.zeros((2 * (first + more), KEPT_COLUMNS), np.int64)
        if self.found and not reg[REG.IS_SLICED]:
            shapes = (self.world.shape_of(one.job) for one in self.found)
            rows = [kept(s, one.pieces) for s, one in zip(shapes, self.found, strict=True)]
            np.concatenate(rows, out=promised[:first])
        return layout.renewed(columns, promises=promises, promised=promised)

    def _make(self, running: Running, s: int, j: int) -> None:
        """Make a reservation, if the job will fit at all."""
        if not self._make_at_once(running, s, j):
            ended, pieces = self._halve(running, s)
            if pieces:
                kinds = self.memo.known(self.world, s).kinds
                self.found.append(Reservation(j, kinds, running.ends_ms.item(ended - 1), pieces))

    def _make_at_once(self, running: Running, s: int, j: int) -> bool:
        """The same in one compiled pass over what ends; False: it knows no shape like this."""
        world, memo, columns = self.world, self.memo, self.columns
        if not columns.asks[s, ASK.IS_SIMPLE]:
            return False
        scoring, known = memo.scoring(world, self.policy), memo.known(world, s)
        memo.asks.prepare(world, s, self.room, scoring, known)
        columns = self._laid_out(layout.with_pools(columns, memo), columns.asks.item(s, ASK.COUNT))
        self.columns = columns
        if not reserving.may_reserve(world.matrices, columns, s):
            return False
        w, ground = world.matrices, self.room.ground
        reserving.reserve(w, columns, ground, running.columns, s, j, running.count)
        self.made()
        return True

    def _running_of(self) -> Running:
        """What runs, as was known last."""
        before = self.memo.running
        if before is None or before.world is not self.world:
            before = None
        if before is None or before.estimates is not self.estimates:
            before = Running(self.world, self.estimates)
        self.memo.running = before
        return before

    def _read_running(self) -> Running:
        """What runs, as of now."""
        if not self._has_read:
            self._has_read = True
            self.running.read()
        return self.running

    # By halving --------------------------------------------------------------------------------

    def _halve(self, running: Running, s: int) -> tuple[int, Pieces]:
        """The same for any shape: as few as need be, a whole fit each time."""
        given = high = running.count
        pieces = self._fit_after(s, running, 0, high)
        low = 0
        while pieces and high - low > 1:
            middle = (low + high) // 2
            found = self._fit_after(s, running, given, middle)
            given = middle
            if found:
                high, pieces = middle, found
            else:
                low = middle
        self._give(running, given, 0)
        return high, pieces

    def _fit_after(self, s: int, running: Running, given: int, wanted: int) -> Pieces:
        """Where a shape fits once so many have ended, beside what is reserved already."""
        self._give(running, given, wanted)
        known, shape = self.memo.known(self.world, s), self.world.shape_rows[s]
        self.keep(self.found)
        scoring = self.memo.scoring(self.world, self.policy)
        found = fit_largest(self.room, known.queue, shape, known.options, scoring)
        undo(self.room, known.queue, shape, found.pieces)
        self.let_go(self.found)
        return found.pieces

    def _give(self, running: Running, given: int, wanted: int) -> None:
        """Have so many of those that end given back, whatever it was before."""
        world = self.world
        if not world.sliced:
            running.give_back(self.room, given, wanted)
            return
        jobs = running.jobs
        for i in (*range(given, wanted), *range(given - 1, wanted - 1, -1)):
            j = jobs[i]
            s = world.jobs.shape.item(j)
            change = undo if wanted > given else redo
            change(self.room, world.shapes.queue.item(s), world.shape_rows[s], world.placements[j])

    # Keeping -----------------------------------------------------------------------------------

    def keep(self, those: list[Reservation]) -> None:
        """Take what reservations need and is free now out of the room."""
        for one in those:
            shape = self.world.shape_of(one.job)
            cut = tuple(piece for piece in one.pieces if piece.slices)
            if one.job not in self._kept:
                rest = tuple(piece for piece in one.pieces if not piece.slices) if cut else None
                self._kept[one.job] = kept(shape, one.pieces if rest is None else rest)
            rows = self._kept[one.job]
            keeping.keep(self.world.matrices, self.room.ground, rows, len(rows))
            if cut:
                self._sliced[one.job] = keep_slices(self.room, shape, cut)

    def let_go(self, those: list[Reservation]) -> None:
        """Give back what was kept for them."""
        for one in reversed(those):
            let_slices_go(self.room, self._sliced.pop(one.job, []))
            rows = self._kept[one.job]
            keeping.let_go(self.world.matrices, self.room.ground, rows, len(rows))

    def _end_ms(self, j: int) -> int:
        """When a waiting job is expected to end if it is placed now."""
        return self.estimates.end_if_placed_ms(self.world, j)
