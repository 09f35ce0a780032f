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

from tidemill.core import order as core
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Shape
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.backfill.keeping import Sliced, keep_slices, kept, let_slices_go
from tidemill.scheduling.backfill.running import Running
from tidemill.scheduling.desk import placing
from tidemill.scheduling.desk.columns import ASK, PROMISE, REG, Desk
from tidemill.scheduling.desk.cycle import PASSERS_AT_MOST
from tidemill.scheduling.desk.layout import renewed
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fit import redo, undo
from tidemill.scheduling.fitting import keeping
from tidemill.scheduling.fitting.columns import KEPT, KEPT_COLUMNS
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.room import ALL_BITS, Room
from tidemill.scheduling.topology import place, wishes

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

    def __init__(self, world: World, policy: Policy, memo: Memo, room: Room, columns: Desk) -> None:
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
                Piece(0, row[KEPT.NODE], row[KEPT.REPLICAS], row[KEPT.DEVICES] & ALL_BITS)
                for row in rows
            )
            self.found.append(Reservation(job, kinds, at_ms, pieces))
        return self.found

    def claim(self, s: int, j: int) -> None:
        """A job that does not fit shall have a reservation, if the policy has one for it."""
        kinds = list(self.memo.known(self.world, s).kinds)
        if self.policy.backfill == "easy":
            if self.columns.claimed[kinds].any():
                return
        elif not self.columns.reg[REG.CLAIMS_LEFT]:
            return
        placing.claim(self.world.matrices, self.columns, s, j)

    def is_limited(self, s: int, j: int, limits: frozenset[tuple[int, int]]) -> None:
        """A job that limits keep out has no reservation; the first of its team on its kinds is
        passed by whoever is placed under the same limits after it.
        """
        known, columns = self.memo.known(self.world, s), self.columns
        mine = (known.queue, list(known.kinds))
        if not columns.limited[mine].any():
            columns.limited[mine] = 1
            first = columns.reg.item(REG.LIMITS)
            columns.limit_rows[first : first + len(limits)] = sorted(limits)
            columns.reg[REG.LIMITS] = first + len(limits)
            placing.note_first(columns, self.world.matrices.jobs, s, j, first, len(limits))

    def let_past(self, s: int, j: int, pieces: Pieces) -> Pieces:
        """Where a job that was fitted may sit without disturbing whoever goes before it.

        The pieces as they are, others, or none; the room is left accordingly. What was claimed is
        made.
        """
        if not self.made():
            return pieces
        world, room = self.world, self.room
        shape, q = world.shape_rows[s], world.shapes.queue.item(s)
        end_ms, known = self._end_if_placed_ms(j), self.memo.known(world, s)
        disturbed = [
            one for one in self.found
            if one.at_ms < end_ms and not set(one.kinds).isdisjoint(known.kinds)
        ]  # fmt: skip
        if not disturbed:
            return pieces
        undo(room, q, shape, pieces)
        self._keep(disturbed)
        scoring = self.memo.scoring(world, self.policy)
        found = fit_largest(room, q, shape, known.options, scoring)
        self._let_go(disturbed)
        if found.shortage is not None:
            self._refuse(s, max(one.at_ms for one in disturbed))
        return found.pieces

    def is_refused(self, s: int, j: int) -> bool:
        """Whether a job is known not to be let past: one of its like was not that ends no later.

        What is free only gets less in a cycle, and what is kept only more.
        """
        return self._end_if_placed_ms(j) > self.columns.asks.item(s, ASK.REFUSED_MS)

    def may_try_next(self, s: int) -> bool:
        """Whether the next job of a shape may be asked, too: it may be shorter."""
        row = self.columns.asks[s]
        row[ASK.TRIED] += 1
        return bool(row[ASK.TRIED] < PASSERS_AT_MOST)

    def _refuse(self, s: int, later_ms: int) -> None:
        """No job of this shape, nor of its like now, is let past that ends later than this."""
        row, reg = self.columns.asks[s], self.columns.reg
        row[ASK.REFUSED_MS], reg[REG.HAS_REFUSED] = later_ms, 1
        if row[ASK.IS_SIMPLE]:
            placing.refuse(self.columns, s, later_ms)

    # Reservations ------------------------------------------------------------------------------

    def make_all(self, columns: Desk) -> Desk:
        """Make what was claimed; the same again if nothing that it depends on changed."""
        self.columns = columns
        world, before = self.world, tuple(self.made())
        rows = columns.claims[: columns.reg.item(REG.PENDING)].tolist()
        claims = tuple((s, j) for s, j in rows)
        stamp = (
            int(world.kind_freed.sum()), int(world.kind_taken.sum()), world.supply_changes,
            world.share_changes, int(world.ended.sum()), len(world.leaving_for),
            self.room.used.tobytes(), claims, before,
        )  # fmt: skip
        last = self.memo.made
        if last is None or last.stamp != stamp or world.now_ms >= last.until_ms:
            running = self._read_running()
            for s, j in claims:
                made = self._make(running, s, j)
                if made is not None:
                    self.found.append(made)
            until_ms = next((end for end in running.ends_ms.tolist() if end > world.now_ms), 0)
            self.memo.made = Made(stamp, until_ms, tuple(self.found))
        else:
            self.found = list(last.found)
        left = self.policy.reservations_at_most - len(self.found)
        columns.reg[REG.CLAIMS_LEFT], columns.reg[REG.PENDING] = left, 0
        self.columns = self._laid_out(columns)
        return self.columns

    def _laid_out(self, columns: Desk) -> Desk:
        """The columns with these reservations in them."""
        reg, first, promises = columns.reg, 0, columns.promises
        if len(self.found) > len(promises):
            promises = np.zeros((2 * len(self.found), len(PROMISE)), np.int64)
        for row, one in zip(promises, self.found, strict=False):
            row[: PROMISE.IS_DISTURBED] = (one.job, one.at_ms, first, len(one.pieces))
            first += len(one.pieces)
        reg[REG.PROMISES] = len(self.found)
        reg[REG.IS_SLICED] = any(piece.slices for one in self.found for piece in one.pieces)
        if self.found and not reg[REG.IS_SLICED]:
            shapes = (self.world.shape_of(one.job) for one in self.found)
            rows = [kept(s, one.pieces) for s, one in zip(shapes, self.found, strict=True)]
            promised = columns.promised
            if first > len(promised):
                promised = np.zeros((2 * first, KEPT_COLUMNS), np.int64)
            np.concatenate(rows, out=promised[:first])
            columns = renewed(columns, promised=promised)
        return renewed(columns, promises=promises)

    def _make(self, running: Running, s: int, j: int) -> Reservation | None:
        options = self._within_limit(s) if self._is_simple(s) else ()
        if self._is_simple(s) and (options or not self._wishes(s)):
            ended, pieces = self._pass_over(running, s, options)
        else:
            ended, pieces = self._halve(running, s)
        if not pieces:
            return None
        at_ms = running.ends_ms.item(ended - 1)
        return Reservation(j, self.memo.known(self.world, s).kinds, at_ms, pieces)

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

    # In one pass -------------------------------------------------------------------------------

    def _is_simple(self, s: int) -> bool:
        """Whether a shape has one role of one size, and neither bonds nor kept room bind it.

        And no device is cut, or to be cut: the pass knows no slices. Wishes alone bind
        nobody: whoever has some fits when it would without them.
        """
        world, shape = self.world, self.world.shape_rows[s]
        if world.sliced or shape.roles[0].profile:
            return False
        if len(shape.roles) > 1 or shape.elastic_role is not None:
            return False
        wish = self._wishes(s)
        if wish and (wish.is_binding or len(self.memo.known(world, s).options[0]) > 1):
            return False
        if world.tree.keeps:
            return False
        return all(_is_whole(world.shape_of(one.job)) for one in self.found)

    def _wishes(self, s: int) -> wishes.Wishes | None:
        """How a shape wishes to be tied; None: it does not."""
        topology = self.world.topology
        return wishes.of(topology, self.world.shape_rows[s]) if topology.tiers else None

    def _within_limit(self, s: int) -> tuple[Option, ...]:
        """The kinds that a limit does not keep a team of one role off now."""
        world, known, need = self.world, self.memo.known(self.world, s), self._need(s)
        return tuple(
            option
            for option in known.options[0]
            if not need
            or shares.within_limit(world, self.room.used, known.queue, option.kind, need)
        )

    def _need(self, s: int) -> int:
        return self.world.shape_rows[s].roles[0].total_milli

    def _pass_over(
        self, running: Running, s: int, options: tuple[Option, ...]
    ) -> tuple[int, Pieces]:
        """How many must end until a shape fits on one of its kinds, and where it does then."""
        room, is_barred = self.room, self._barred()
        after = [running.enough_after(room, s, option, is_barred) for option in options]
        able = [(ended, o) for o, ended in enumerate(after) if ended > 0]
        if not able:
            return 0, ()
        ended, o = min(able)
        running.end_first(room, ended, 1)
        self._keep(self.found)
        pieces = self._seat(s, options[o])
        self._let_go(self.found)
        running.end_first(room, ended, -1)
        return ended, pieces

    def _seat(self, s: int, option: Option) -> Pieces:
        """Where a shape that fits on one kind sits, as it wishes if it can; nothing is taken."""
        shape, wish = self.world.shape_rows[s], self._wishes(s)
        role = shape.roles[0]
        if wish is not None:
            tied = place.fill(self.room, role, option.is_ok, wish.ladders[0], place.ANYWHERE)
            if tied.placed:
                return tuple(Piece(0, *one) for one in tied.placed)
        spreads = wish is None and self.memo.scoring(self.world, self.policy).spreads
        filled = self.room.sweep(role, option.is_ok, spreads=spreads)
        pieces = tuple(Piece(0, *one) for one in filled.placed)
        self.room.give(shape, pieces)
        return pieces

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
        self._keep(self.found)
        scoring = self.memo.scoring(self.world, self.policy)
        found = fit_largest(self.room, known.queue, shape, known.options, scoring)
        undo(self.room, known.queue, shape, found.pieces)
        self._let_go(self.found)
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

    def _keep(self, those: list[Reservation]) -> None:
        """Take what reservations need and is free now out of the room."""
        for one in those:
            shape = self.world.shape_of(one.job)
            cut = tuple(piece for piece in one.pieces if piece.slices)
            if one.job not in self._kept:
                rest = tuple(piece for piece in one.pieces if not piece.slices) if cut else None
                self._kept[one.job] = kept(shape, one.pieces if rest is None else rest)
            rows = self._kept[one.job]
            keeping.keep(self.world.matrices, self.room.ground, rows, 0, len(rows))
            if cut:
                self._sliced[one.job] = keep_slices(self.room, shape, cut)

    def _let_go(self, those: list[Reservation]) -> None:
        for one in reversed(those):
            let_slices_go(self.room, self._sliced.pop(one.job, []))
            rows = self._kept[one.job]
            keeping.let_go(self.world.matrices, self.room.ground, rows, 0, len(rows))

    def _barred(self) -> I64:
        """Devices that nobody else may count on: failed, or reserved whole."""
        world = self.world
        is_barred: I64 = world.devices.is_failed[: world.device_count].copy()
        for one in self.found:
            for piece in one.pieces:
                first = world.nodes.first_device.item(piece.node)
                for d in range(piece.devices.bit_length()):
                    is_barred[first + d] |= piece.devices >> d & 1
        return is_barred

    def _end_if_placed_ms(self, j: int) -> int:
        """When a waiting job is expected to end if it is placed now."""
        world, saved_ms = self.world, self.world.jobs.saved_ms.item(j)
        total_ms = self.estimates.total_ms(world, j, saved_ms)
        end_ms: int = core.end_if_placed(world.matrices.jobs, j, total_ms, world.now_ms)
        return end_ms


def _is_whole(shape: Shape) -> bool:
    """Whether a shape keeps whole devices and nothing else."""
    return all(
        role.milli == WHOLE_MILLI
        and not role.cpu_milli
        and not role.memory_mib
        and not role.profile
        for role in shape.roles
    )
