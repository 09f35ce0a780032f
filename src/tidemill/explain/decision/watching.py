"""The scheduler's own cycle once more, with a stop before one job to look at what it sees.

Nothing is decided here and nothing is a copy of a rule: the cycle that decided is run again on the
cluster state as it was, and comes back (``CODE.WATCH``) when the job is the next in line. What is
free then, beside what reservations keep, is copied into a room that notes how nodes were ranked;
after that the cycle goes on, for this job alone, and says what it decides.
"""

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from tidemill.explain.decision.noting import NotingRoom
from tidemill.model import codes
from tidemill.model.batch import EventColumn, cut
from tidemill.model.batch.convert import to_events
from tidemill.model.batch.sheet import Sheet
from tidemill.model.claims import claims_of
from tidemill.model.events import AskedPlace, CauseChanged
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.world import World
from tidemill.scheduling.backfill.reservations import Reservation
from tidemill.scheduling.desk import cycle as desk
from tidemill.scheduling.desk import gathering, searching
from tidemill.scheduling.desk.codes import CODE
from tidemill.scheduling.desk.columns import ASK, LINE, REG
from tidemill.scheduling.fit import Fit
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order.apply import Reordering, may_reorder, reorder
from tidemill.scheduling.preemptive_order.members import One
from tidemill.scheduling.schedule import Cycle
from tidemill.workload import review as workload

_HOLDING = (int(Cause.SCATTERED), int(Cause.OVER_LIMIT))
"""A cause that goes away when others end or move, and one that does when the team uses less."""


_PLACED = codes.KIND_CODE[AskedPlace]


class Sight(NamedTuple):
    """What the scheduler sees when it comes to a job."""

    bare: NotingRoom
    """What is free."""
    beside: NotingRoom
    """The same less what is kept for the reservations that the job would disturb."""
    reserved: tuple[Reservation, ...]
    """The reservations that were made by then on GPU types that the job may use,"""
    disturbed: tuple[Reservation, ...]
    """and those that the job would disturb."""
    looked_before: int
    """Sorts of jobs that it looked at before, in the same cycle,"""
    placed_before: int
    """and jobs that it placed."""


class Watching(NamedTuple):
    """A cycle that was run again up to one job."""

    sight: Sight | None
    """None: the cycle did not come to it."""
    pieces: tuple[Piece, ...]
    """Where the job is placed; nowhere: it waits."""
    cause: Cause
    """Why it waits."""


class WatchedCycle(Cycle):
    """A scheduling cycle that ends with one job."""

    def __init__(
        self, world: World, policy: Policy, memo: Memo, sheet: Sheet, going: Set[int], job: int
    ) -> None:
        super().__init__(world, policy, memo, sheet, going)
        self.job, self.shape, self.sight = job, world.jobs.shape.item(job), None

    sight: Sight | None

    def answer(self, code: int) -> None:
        """Look, where the cycle came back for that; everything else is the scheduler's."""
        s = self.columns.reg.item(REG.WHO)
        if code == CODE.WATCH:
            self._look(s)
        elif code == CODE.SUPPLY and not self._may_matter(s):
            self.columns.asks[s, ASK.SUPPLY] = int(Cause.NONE)
        else:
            super().answer(code)

    def watch(self) -> None:
        """Run the cycle up to the job, and for it."""
        self.begin()
        self.columns.reg[REG.WATCHED] = self.job + 1
        try:
            self.gather()
            self.work_off()
        finally:
            self.columns.reg[REG.WATCHED] = 0

    def _may_matter(self, s: int) -> bool:
        """Whether others are placed otherwise for what supply says about a shape.

        Of those that are behind somebody, or keep nobody back whatever their cause is, it is only
        told; and there may be thousands of them.
        """
        world, columns, reg = self.world, self.columns, self.columns.reg
        q, asks, types = world.shapes.queue.item(s), columns.asks, columns.types
        if s == self.shape:
            return True
        if desk.is_behind(
            reg, world.matrices.queues, asks, types, columns.held, columns.held_teams, s, q
        ):
            return False
        return any(
            searching.may_make_room(reg, asks, s, cause)
            or gathering.may_hold(
                reg, world.matrices.jobs, asks, types, columns.claimed, columns.limited, s, q, cause
            )
            for cause in _HOLDING
        )

    def _look(self, s: int) -> None:
        """Note what is free, then let nobody but this job go on."""
        reg = self.columns.reg
        reg[REG.WATCHED] = 0
        if reg[REG.PENDING]:  # what was claimed before it is made when somebody may pass
            self.columns = self.reservations.make_all(self.columns)
            reg = self.columns.reg
        looked, placed = reg.item(REG.LOOKS) - reg.item(REG.HEAP), reg.item(REG.PLACED)
        disturbed = self.reservations.disturbed_by(s, self.job)
        bare = beside = NotingRoom(self.world)
        bare.take_over(self.room)
        if disturbed:
            self.reservations.keep(disturbed)
            beside = NotingRoom(self.world)
            beside.take_over(self.room)
            self.reservations.let_go(disturbed)
        assert self.columns.line[0, LINE.SHAPE] == s, "whoever is looked at is the first in line"
        reg[REG.HEAP] = 1
        self.sight = Sight(bare, beside, self._reserved(s), tuple(disturbed), looked, placed)

    def _reserved(self, s: int) -> tuple[Reservation, ...]:
        kinds = set(self.memo.known(self.world, s).kinds)
        return tuple(one for one in self.reservations.made() if not kinds.isdisjoint(one.kinds))


class WatchedReordering(Reordering):
    """A plan of the whole fleet that looks at one newcomer."""

    sight: Sight | None = None
    job: int = -1

    def fit_newcomer(self, one: One) -> Fit:
        """As the scheduler does; what is free is noted before."""
        if one.job == self.job:
            room = NotingRoom(self.world)
            room.take_over(self.room)
            before = self.newcomers.index(one)
            self.sight = Sight(room, room, (), (), before, before)
        return super().fit_newcomer(one)


def watch(world: World, policy: Policy, memo: Memo, j: int) -> Watching:
    """Run the cycle again that decides on a waiting job."""
    asked, _ = workload.review(world, policy)
    memo.lines(policy).begin(world)
    leaving, s = claims_of(asked).leaving, world.jobs.shape.item(j)
    if may_reorder(policy):
        return _watch_reordering(world, policy, memo, leaving, j)
    sheet = Sheet()
    one = WatchedCycle(world, policy, memo, sheet, leaving, j)
    one.watch()
    return _watching(one.sight, _pieces(sheet, j), Cause(one.columns.asks.item(s, ASK.SAID)))


def _watch_reordering(
    world: World, policy: Policy, memo: Memo, leaving: Set[int], j: int
) -> Watching:
    desks: list[WatchedReordering] = []

    def make(*given: Any) -> WatchedReordering:  # noqa: ANN401 - as ``Reordering`` is made
        desks.append(WatchedReordering(*given))
        desks[0].job = j
        return desks[0]

    actions, s = reorder(world, policy, memo, leaving, make), world.jobs.shape.item(j)
    said = (a.cause for a in actions if isinstance(a, CauseChanged) and a.shape == s)
    pieces = next((a.pieces for a in actions if isinstance(a, AskedPlace) and a.job == j), ())
    return _watching(desks[0].sight, pieces, next(said, Cause(world.shapes.cause.item(s))))


def _pieces(sheet: Sheet, j: int) -> tuple[Piece, ...]:
    """Where a sheet places a job; a cycle may have placed thousands before it."""
    written = sheet.view()
    kinds, who = written.events[:, EventColumn.KIND], written.events[:, EventColumn.WHO]
    for i in np.flatnonzero((kinds == _PLACED) & (who == j)).tolist():
        (action,) = to_events(cut(written, i, i + 1))
        assert isinstance(action, AskedPlace), "by its kind"
        return action.pieces
    return ()


def _watching(sight: Sight | None, pieces: tuple[Piece, ...], cause: Cause) -> Watching:
    return Watching(sight, pieces, Cause.NONE if pieces else cause)
