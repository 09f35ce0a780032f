"""Called: the roll call of ``calling`` laid out, and what it found as the plan has it.

Of most who are in nobody asks more than that they are: their rows become objects when somebody
looks at them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from tidemill.model.columns import AT, JOB, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobState
from tidemill.model.tables import I64, grown
from tidemill.model.views import MASK, Queued
from tidemill.model.world import World
from tidemill.scheduling.desk.layout import ranks
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import Obstacle, Shortage
from tidemill.scheduling.preemptive_order import calling
from tidemill.scheduling.preemptive_order.columns import OPTIONS, PLANNED, ROLL, TERM, WANT
from tidemill.scheduling.preemptive_order.members import Members, One
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from tidemill.scheduling.memo import Memo

ENTRIES_AT_MOST = 1 << 14  # on the roll: with more, a line for each shape is quicker
_WAITING = int(JobState.WAITING)


Called = tuple[Members, int, bool]
"""Who is in, when to ask again, and whether all of them may be stopped again at this moment."""


class Inside(Sequence[One]):
    """Who is in, in order, with planned pieces."""

    def __init__(self, rows: I64, seats: I64) -> None:
        self._rows, self._seats = rows, seats

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, i: int) -> One: ...
    @overload
    def __getitem__(self, i: slice) -> list[One]: ...
    def __getitem__(self, i: int | slice) -> One | list[One]:
        if isinstance(i, slice):
            return self._ones(self._rows[i])
        return self._ones(self._rows[i : i + 1 or None])[0]

    def __iter__(self) -> Iterator[One]:
        return iter(self._ones(self._rows))

    def not_active(self, world: World) -> list[One]:
        """Those of them that hold nothing now."""
        state = world.matrices.jobs[self._rows[:, ROLL.JOB], JOB.STATE]
        return self._ones(self._rows[state == _WAITING])

    def _ones(self, rows: I64) -> list[One]:
        return [
            One(((0,), first, second, j), j, s, self._pieces(at, at + count))
            for first, second, j, s, _, at, count in rows.tolist()
        ]

    def _pieces(self, first: int, end: int) -> tuple[Piece, ...]:
        rows = self._seats[first:end].tolist()
        return tuple(Piece(0, n, replicas, mask & MASK) for n, replicas, mask in rows)


class RollCall:
    """The columns of roll calls of one cluster state, and what is known of its shapes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._steps: I64 = np.array(policy.attained_steps_ms, np.int64)
        self._terms: I64 = np.zeros(len(TERM), np.int64)
        self._roll: I64 = np.zeros((0, len(ROLL)), np.int64)
        self._seats: I64 = np.zeros((0, len(PLANNED)), np.int64)
        self._known: tuple[object, ...] = ()
        self._shapes = 0
        self._wants: I64 = np.zeros((0, WANT.FIRST + OPTIONS), np.int64)
        self._shortages: dict[int, Shortage] = {}

    def call(self, world: World, memo: "Memo", room: Snapshot) -> Called | None:
        """Who is in, in a room that is empty; None, and it must be emptied again: more decides."""
        w, policy, terms = world.matrices, self.policy, self._terms
        entries = w.at.item(AT.ACTIVE) + int(w.shapes[: len(world.shape_rows), SHAPE.WAITING].sum())
        if entries > ENTRIES_AT_MOST or not isinstance(world.queued, Queued):
            return None
        self._know(world, memo, room)
        if entries > len(self._roll):
            self._roll = np.zeros((2 * entries, len(ROLL)), np.int64)
        if room.devices > len(self._seats):
            self._seats = np.zeros((room.devices, len(PLANNED)), np.int64)
        terms[:] = (
            world.now_ms, ranks(policy), policy.patience_ms, policy.min_run_ms,
            policy.evictions_at_most, FOREVER_MS, 1,
        )  # fmt: skip
        learnt = memo.lines(policy).estimates.learnt(world)
        count = calling.call_all(
            w, room.ground, learnt, self._roll, self._seats, self._wants, self._steps, terms
        )
        if count == calling.NOT_SIMPLE:
            return None
        found = self._found(world, self._roll[:count][::-1])
        return found, terms.item(TERM.AGAIN_MS), bool(terms[TERM.IS_LASTING])

    def _found(self, world: World, rows: I64) -> Members:
        is_in = rows[:, ROLL.SEATS] > 0
        out = rows[~is_in & (rows[:, ROLL.IS_ACTIVE] != 0)].tolist()
        outside = [
            One(((0,), first, second, j), j, s, world.placements[j])
            for first, second, j, s, *_ in out
        ]
        without = np.flatnonzero(self._wants[:, WANT.IS_OUT]).tolist()
        shortages = {s: self._shortages[s] for s in without}
        return Members(Inside(rows[is_in], self._seats.copy()), outside, shortages)

    def _know(self, world: World, memo: "Memo", room: Snapshot) -> None:
        """Know what each shape asks for; again if nodes, or the rows of requests, are others."""
        known = (room, len(world.groups), world.contract_count)
        if known != self._known:
            self._known, self._shapes = known, 0
        count = len(world.shape_rows)
        if count > len(self._wants):
            self._wants = grown(self._wants, count)
        for s in range(self._shapes, count):
            shape, options = world.shape_rows[s], memo.known(world, s).options
            self._wants[s] = 0
            if _is_simple(shape, options):
                self._wants[s, WANT.IS_SIMPLE] = 1
                self._wants[s, WANT.COUNT] = shape.roles[0].count
                self._wants[s, WANT.OPTIONS] = len(options[0])
                for i, option in enumerate(options[0], start=WANT.FIRST):
                    self._wants[s, i] = room.request(shape.roles[0], option.is_ok, PACKING)
                self._shortages[s] = unfit(options[0])
        self._shapes = count


def _is_simple(shape: Shape, options: tuple[tuple[Option, ...], ...]) -> bool:
    """Whether only nodes decide: one role of one size, on whole or shared devices."""
    only = shape.roles[0]
    is_one = len(shape.roles) == 1 and not (only.least or only.profile)
    is_held = only.accelerators > 0 and len(options[0]) <= OPTIONS
    return is_one and is_held and not (shape.bonds or only.bonds)


def unfit(options: tuple[Option, ...]) -> Shortage:
    """No GPU type has the nodes."""
    return Shortage(0, tuple((option, Obstacle.UNFIT, 0) for option in options))
