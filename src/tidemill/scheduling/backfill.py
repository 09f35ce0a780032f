"""Backfill: who does not fit now gets a reservation, and others may pass that do not disturb it.

A *reservation* is the earliest moment at which a waiting job fits, by the expected ends of what
runs, and the devices on which it fits then: running jobs are given back in the order of their ends
in a scratch room until the whole gang fits. Whoever comes after it in the order may pass if it is
taken to end by then, or fits beside the devices that are kept.

``easy`` (Lifka, JSSPP'95): one reservation for each kind of accelerator, for the first in the order
that does not fit on it. ``conservative``: one for each of the first ``reservations_at_most`` that
do not fit. A later reservation does not count on the end of a job that is itself only reserved.

Reservations are not kept from cycle to cycle: they follow from the World. They are looked for only
when somebody could pass, so a queue in which nobody fits costs nothing.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import JobClass
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fit import redo, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.room import Room

PASSERS_AT_MOST = 32  # jobs of one shape that are asked in one cycle whether they are short enough

Pieces = tuple[Piece, ...]
Kept = tuple[Shape, Pieces]
"""Devices that are free now and kept, as a shape of their own."""


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

    def __init__(self, world: World, policy: Policy, memo: Memo, room: Room) -> None:
        self.world, self.policy, self.memo, self.room = world, policy, memo, room
        self.estimates: Estimates = memo.lines(policy).estimates
        self.found: list[Reservation] = []
        self.has_refused = False
        """Whether somebody who fits was not let past."""
        self._claims: list[tuple[int, int]] = []
        self._kinds: set[int] = set()
        self._tried: dict[int, int] = {}
        self._ends: list[tuple[int, int]] | None = None

    def claim(self, s: int, j: int) -> None:
        """A job that does not fit shall have a reservation, if the policy has one for it."""
        kinds = self.memo.known(self.world, s).kinds
        if self.policy.backfill == "easy":
            if not self._kinds.isdisjoint(kinds):
                return
            self._kinds.update(kinds)
        elif len(self._claims) + len(self.found) >= self.policy.reservations_at_most:
            return
        self._claims.append((s, j))

    def let_past(self, s: int, j: int, pieces: Pieces) -> Pieces:
        """Where a job that was fitted may sit without disturbing whoever goes before it.

        The pieces as they are, others, or none; the room is left accordingly.
        """
        if not self._claims and not self.found:
            return pieces
        world, room = self.world, self.room
        shape, q = world.shape_rows[s], world.shapes.queue.item(s)
        undo(room, q, shape, pieces)
        self._make_all()
        end_ms = self._end_if_placed_ms(j)
        kinds = self.memo.known(world, s).kinds
        disturbed = [
            one for one in self.found
            if one.at_ms < end_ms and not set(one.kinds).isdisjoint(kinds)
        ]  # fmt: skip
        if not disturbed:
            redo(room, q, shape, pieces)
            return pieces
        kept = [self._keep(one) for one in disturbed]
        options, scoring = self.memo.known(world, s).options, self.memo.scoring(world, self.policy)
        found = fit_largest(room, q, shape, options, scoring)
        for part in kept:
            self._free(part)
        self.has_refused = self.has_refused or found.shortage is not None
        return found.pieces

    def may_try_next(self, s: int) -> bool:
        """Whether the next job of a shape may be asked, too: it may be shorter."""
        self._tried[s] = self._tried.get(s, 0) + 1
        return self._tried[s] < PASSERS_AT_MOST

    # Reservations ------------------------------------------------------------------------------

    def _make_all(self) -> None:
        """Make what was claimed; the same again if nothing that it depends on changed."""
        if not self._claims:
            return
        world, claims, before = self.world, tuple(self._claims), tuple(self.found)
        stamp = (
            sum(world.kind_freed), sum(world.kind_taken), world.supply_changes,
            world.share_changes, sum(world.ended), len(world.leaving_for),
            self.room.used.tobytes(), claims, before,
        )  # fmt: skip
        last = self.memo.made
        if last is None or last.stamp != stamp or world.now_ms >= last.until_ms:
            for s, j in claims:
                made = self._make(s, j)
                if made is not None:
                    self.found.append(made)
            until_ms = next((end for end, _ in self._expected_ends() if end > world.now_ms), 0)
            self.memo.made = Made(stamp, until_ms, tuple(self.found))
        else:
            self.found = list(last.found)
        self._claims.clear()

    def _make(self, s: int, j: int) -> Reservation | None:
        """Give back what ends first until the job fits: as few as need be, by halving."""
        ends = self._expected_ends()
        given, high = 0, len(ends)
        pieces = self._fit_after(s, ends, given, high)
        if not pieces:
            self._give(ends, high, 0)
            return None
        given, low = high, 0
        while high - low > 1:
            middle = (low + high) // 2
            found = self._fit_after(s, ends, given, middle)
            given = middle
            if found:
                high, pieces = middle, found
            else:
                low = middle
        self._give(ends, given, 0)
        return Reservation(j, self.memo.known(self.world, s).kinds, ends[high - 1][0], pieces)

    def _fit_after(self, s: int, ends: list[tuple[int, int]], given: int, wanted: int) -> Pieces:
        """Where a shape fits once so many have ended, beside what is reserved already."""
        self._give(ends, given, wanted)
        known, shape = self.memo.known(self.world, s), self.world.shape_rows[s]
        kept = [self._keep(one) for one in self.found]
        scoring = self.memo.scoring(self.world, self.policy)
        found = fit_largest(self.room, known.queue, shape, known.options, scoring)
        undo(self.room, known.queue, shape, found.pieces)
        for part in kept:
            self._free(part)
        return found.pieces

    def _give(self, ends: list[tuple[int, int]], given: int, wanted: int) -> None:
        """Have so many of those that end given back, whatever it was before."""
        world = self.world
        for i in (*range(given, wanted), *range(given - 1, wanted - 1, -1)):
            j = ends[i][1]
            s = world.jobs.shape.item(j)
            change = undo if wanted > given else redo
            change(self.room, world.shapes.queue.item(s), world.shape_rows[s], world.placements[j])

    def _keep(self, one: Reservation) -> list[Kept]:
        """Take what a reservation needs and is free now out of the room."""
        world, room = self.world, self.room
        shape, kept = world.shape_of(one.job), list[Kept]()
        for piece in one.pieces:
            role, n = shape.roles[piece.role], piece.node
            first = world.nodes.first_device.item(n)
            mask = 0
            for d in range(piece.devices.bit_length()):
                is_free = room.device_free.item(first + d) >= role.milli
                mask |= (is_free and piece.devices >> d & 1) << d
            cpu = min(piece.replicas * role.cpu_milli, max(0, room.cpu_free.item(n)))
            memory = min(piece.replicas * role.memory_mib, max(0, room.memory_free.item(n)))
            stand_in = Role(accelerators=mask.bit_count(), milli=role.milli, cpu_milli=cpu,
                            memory_mib=memory)  # fmt: skip
            part = (Shape(shape.team, (stand_in,)), (Piece(0, n, 1, mask),))
            room.take(*part)
            kept.append(part)
        return kept

    def _free(self, kept: list[Kept]) -> None:
        for part in reversed(kept):
            self.room.give(*part)

    # Ends --------------------------------------------------------------------------------------

    def _end_if_placed_ms(self, j: int) -> int:
        """When a waiting job is expected to end if it is placed now."""
        jobs = self.world.jobs
        up_ms = jobs.startup_ms.item(j) + (jobs.restart_ms.item(j) if jobs.attempt.item(j) else 0)
        left_ms = self.estimates.left_ms(self.world, j, jobs.saved_ms.item(j))
        return self.world.now_ms + up_ms + left_ms

    def _expected_ends(self) -> list[tuple[int, int]]:
        """Active jobs that end, by when they are expected to; those that leave, now."""
        if self._ends is None:
            world = self.world
            active = [
                j
                for j in world.placements
                if world.shape_rows[world.jobs.shape.item(j)].kind is not JobClass.INFERENCE
                and j not in world.moving
            ]
            ends = expected_ends(world, self.estimates, np.array(active, np.int64))
            self._ends = sorted(zip(ends.tolist(), active, strict=True))
        return self._ends


def expected_ends(world: World, estimates: Estimates, active: I64) -> I64:
    """When active jobs are expected to end."""
    jobs, now_ms = world.jobs, world.now_ms
    up_ms = jobs.startup_ms[active] + np.where(jobs.attempt[active] > 1, jobs.restart_ms[active], 0)
    begin_ms = jobs.placed_ms[active] + up_ms
    speed_ppm = jobs.speed_ppm[active].astype(np.int64)
    worked_ms = np.maximum(0, now_ms - begin_ms) * speed_ppm // ONE_PPM
    done_ms = jobs.saved_ms[active] + worked_ms
    left_ms = np.array(
        [
            estimates.left_ms(world, j, done)
            for j, done in zip(active.tolist(), done_ms.tolist(), strict=True)
        ],
        np.int64,
    )
    ends: I64 = np.maximum(begin_ms, now_ms) + left_ms * ONE_PPM // np.maximum(1, speed_ppm)
    return np.where(jobs.is_leaving[active] != 0, now_ms, ends)
