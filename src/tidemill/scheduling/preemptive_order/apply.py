"""Reorder: plan the whole fleet in the policy's order, and stop whoever is not in the plan.

*Who* runs is what ``members`` says; it does not depend on who sits where, so a plan that was
carried out is not undone by the next one (no livelock). *Where*: running members keep their places;
newcomers are fitted around them, in order, where the others were. If that leaves a newcomer out
although the plan has room for it, the places of the plan itself are used, provided that everybody
who has to move loses nothing by it; otherwise the newcomer waits. Running jobs outside the plan
that are in nobody's way stay, and a job is stopped only for a newcomer that goes before it.

SRTF and SRSF as in Muri (SIGCOMM'22), least attained service as in Tiresias (NSDI'19).
"""

from collections.abc import Callable, Set

from tidemill.model.events import Action, AskedEvict, AskedPlace, AskedRelease, CauseChanged, Why
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling.diagnose import supply_cause, where_it_could_be
from tidemill.scheduling.elastic import fit_largest, smallest
from tidemill.scheduling.fit import Fit, Shortage, may_redo, redo, undo
from tidemill.scheduling.fitting.columns import Obstacle
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.preemptive_order import plan
from tidemill.scheduling.preemptive_order.members import Members, One
from tidemill.scheduling.snapshot import Snapshot

_RUNNING = int(JobState.RUNNING)
Change = Callable[[Snapshot, int, Shape, tuple[Piece, ...]], None]
ROUNDS = 4  # how often seats are sought again because somebody must stay for want of an heir


def may_reorder(policy: Policy) -> bool:
    """Whether running jobs are part of the order."""
    return policy.may_reorder and policy.order not in BY_SHAPE


def next_step_ms(world: World, policy: Policy) -> int:
    """When the next running job steps back in the order of attained service, if somebody waits."""
    if not may_reorder(policy) or policy.order != "attained" or not world.queued:
        return FOREVER_MS
    jobs, found_ms = world.jobs, FOREVER_MS
    for j in world.placements:
        milli = world.shapes.total_milli.item(jobs.shape.item(j))
        if jobs.state.item(j) != _RUNNING or not milli:
            continue
        for step in policy.attained_steps_ms:
            at_ms = jobs.origin_ms.item(j) - jobs.ran_ms.item(j) - (-step * WHOLE_MILLI // milli)
            if world.now_ms < at_ms < found_ms:
                found_ms = at_ms
    return found_ms


def reorder(
    world: World,
    policy: Policy,
    memo: Memo,
    leaving: Set[int],
    make: "Callable[[World, Policy, Memo, Members], Reordering] | None" = None,
) -> list[Action]:
    """Whom to place, whom to stop, and why the others wait.

    ``make``: what makes the desk, for whoever wants to look at it at work.
    """
    if memo.at_once is not None:
        memo.at_once.forget()
    memo.members = plan.find(world, policy, memo, leaving, memo.members)
    desk = (make or Reordering)(world, policy, memo, memo.members.found)
    desk.seat()
    memo.know_waiting(world)
    return desk.finish()


class Reordering:
    """One cycle at work, once it is known who is in."""

    def __init__(self, world: World, policy: Policy, memo: Memo, found: Members) -> None:
        self.world, self.policy, self.memo = world, policy, memo
        self.inside, self.shortages = found.inside, found.shortages
        self.newcomers = plan.newcomers(world, found)
        is_leaving = world.jobs.is_leaving.item
        self.outside = [one for one in found.outside if not is_leaving(one.job)]
        self.actions: list[Action] = []
        self.promised: set[int] = set()
        self.placed: set[int] = set()

    def seat(self) -> None:
        """Find seats for the newcomers, ask those in the way to leave, and place who can be."""
        if not self.newcomers:
            return
        self.room = self.memo.trial_room(self.world)
        self.actual = self.memo.room(self.world)
        for j, heir in self.world.leaving_for.items():
            if heir >= 0:
                self._lift(j)
        for one in self.outside:
            self._lift(one.job)
        seated, movers = self._fit_all(), list[One]()
        if len(seated) < len(self.newcomers):
            planned = self._as_planned(seated)
            if planned is not None:
                seated, movers = planned
        if not movers:
            seated = self._without_heirless(seated)
        self._ask(seated, movers)

    def finish(self) -> list[Action]:
        """What was decided, the promises that came to nothing, and why the others wait."""
        world = self.world
        for s, left in sorted(world.promised.items()):
            if not left and s not in self.placed and s not in self.promised:
                self.actions.append(AskedRelease(world.now_ms, s))
        for s in sorted(world.queued):
            cause = self._cause(s)
            if cause is not Cause.NONE and world.shapes.cause.item(s) != cause.value:
                self.actions.append(CauseChanged(world.now_ms, s, cause))
        return self.actions

    # Seats -------------------------------------------------------------------------------------

    def _fit_all(self) -> list[One]:
        """Fit the newcomers in order into what the others leave free."""
        found = ((one, self.fit_newcomer(one)) for one in self.newcomers)
        return [one._replace(pieces=fit.pieces) for one, fit in found if fit.shortage is None]

    def fit_newcomer(self, one: One) -> Fit:
        """Fit one newcomer into what those before it leave free."""
        known, shape = self.memo.known(self.world, one.shape), self.world.shape_rows[one.shape]
        scoring = self.memo.scoring(self.world, self.policy)
        return fit_largest(self.room, known.queue, shape, known.options, scoring)

    def _as_planned(self, seated: list[One]) -> tuple[list[One], list[One]] | None:
        """The newcomers where the plan has them, and who must move for it; None: it costs."""
        world = self.world
        if any(one < self.newcomers[0] for one in self.outside):
            return None
        active = [one for one in self.inside if one.job in world.placements]
        elsewhere = [one for one in active if not _is_there(world, one)]
        movers = [one for one in elsewhere if not world.jobs.is_leaving.item(one.job)]
        if any(cost.lost_ms(world, one.job) for one in movers):
            return None
        self._unseat(seated)
        for one in movers:
            self._lift(one.job)
        settled = self._settle([*elsewhere, *self.newcomers])
        if settled is None:
            for one in movers:
                self._put_back(one.job)
            for one in seated:
                self._change(redo, one.shape, one.pieces)
            return None
        return settled[len(elsewhere) :], movers

    def _settle(self, planned: list[One]) -> list[One] | None:
        """Seat these on the nodes of the plan, on devices that are free there; or nobody."""
        settled: list[One] = []
        for one in planned:
            pieces = _on_free_devices(self.room, self.world, one)
            if pieces is None:
                self._unseat(settled)
                return None
            settled.append(one._replace(pieces=pieces))
            self._change(redo, one.shape, pieces)
        return settled

    def _without_heirless(self, seated: list[One]) -> list[One]:
        """Seats for which nobody must leave who goes before all of the newcomers."""
        stay: set[int] = set()
        for _ in range(ROUNDS):
            heirless = [
                one
                for one in self.outside
                if one.job not in stay and (not seated or one < seated[0])
            ]
            if not heirless:
                break
            self._unseat(seated)
            for one in heirless:
                stay.add(one.job)
                self._put_back(one.job)
            seated = self._fit_all()
        else:
            self._unseat(seated)
            for one in self.outside:
                if one.job not in stay:
                    self._put_back(one.job)
                    stay.add(one.job)
            seated = self._fit_all()
        self.outside = [one for one in self.outside if one.job not in stay]
        return seated

    # Asking ------------------------------------------------------------------------------------

    def _ask(self, seated: list[One], movers: list[One]) -> None:
        """Place whoever's seat is free; ask those in the way of the others to leave.

        They leave for a newcomer that goes before all of them. If every such newcomer could be
        placed at once, the first of them waits a beat, so that room is made in its name. Nobody is
        asked to leave in the beat in which somebody sits down who cannot be stopped again: the
        plan of the fleet is another one then.
        """
        world = self.world
        ready = [one for one in seated if _take(world, self.actual, one)]
        waiting = [one for one in seated if one not in ready]
        leaving = [(one, Why.REORDERED) for one in self.outside if not _take(world, self.room, one)]
        is_settled = all(plan.may_stop(world.shape_rows[one.shape]) for one in ready)
        if waiting and is_settled:
            if leaving and leaving[0][0] < waiting[0]:
                waiting.insert(0, ready.pop(0))
            leaving += [(one, Why.REPACKED) for one in movers]
        else:
            leaving = []
        for one in ready:
            attempt = world.jobs.attempt.item(one.job) + 1
            self.actions.append(AskedPlace(world.now_ms, one.job, attempt, one.pieces))
        for one, why in leaving:
            attempt = world.jobs.attempt.item(one.job)
            self.actions.append(AskedEvict(world.now_ms, one.job, attempt, why, waiting[0].job))
        self.placed.update(one.shape for one in ready)
        self.promised.update(one.shape for one in waiting)

    def _cause(self, s: int) -> Cause:
        if s in self.promised:
            return Cause.PROMISED
        shortage = self.shortages.get(s)
        if shortage is None:
            return Cause.NONE if s in self.placed else Cause.SCATTERED
        supply = supply_cause(self.world, self.memo, s)
        return supply if supply is not Cause.NONE else self._shortage_cause(s, shortage)

    def _shortage_cause(self, s: int, shortage: Shortage) -> Cause:
        role = smallest(self.world.shape_rows[s]).roles[shortage.role]
        found = {why for _, why in where_it_could_be(self.world, role, shortage)}
        return Cause.OVER_LIMIT if found == {Obstacle.LIMIT} else Cause.BUSY

    # The trial room ----------------------------------------------------------------------------

    def _change(self, change: Change, s: int, pieces: tuple[Piece, ...]) -> None:
        change(self.room, self.world.shapes.queue.item(s), self.world.shape_rows[s], pieces)

    def _lift(self, j: int) -> None:
        self._change(undo, self.world.jobs.shape.item(j), self.world.placements[j])

    def _put_back(self, j: int) -> None:
        self._change(redo, self.world.jobs.shape.item(j), self.world.placements[j])

    def _unseat(self, seated: list[One]) -> None:
        for one in seated:
            self._change(undo, one.shape, one.pieces)


def _take(world: World, room: Snapshot, one: One) -> bool:
    """Take a seat if it is free and the books of the teams allow it."""
    shape, q = world.shape_rows[one.shape], world.shapes.queue.item(one.shape)
    is_free = may_redo(room, q, shape, one.pieces)
    if is_free:
        redo(room, q, shape, one.pieces)
    return is_free


def _is_there(world: World, one: One) -> bool:
    """Whether an active job holds as much of the same nodes as the plan gives it."""
    held = sorted((p.role, p.node, p.replicas) for p in world.placements[one.job])
    return held == sorted((p.role, p.node, p.replicas) for p in one.pieces)


def _on_free_devices(room: Snapshot, world: World, one: One) -> tuple[Piece, ...] | None:
    """The planned pieces on devices that are free there now; None: they are not."""
    shape, taken = world.shape_rows[one.shape], dict[int, int]()
    pieces = []
    for piece in one.pieces:
        role, n = shape.roles[piece.role], piece.node
        first, wanted, mask = world.nodes.first_device.item(n), piece.devices.bit_count(), 0
        for d in range(world.nodes.devices.item(n)):
            is_free = room.device_free.item(first + d) >= role.milli
            is_failed = world.devices.is_failed.item(first + d)
            if wanted and is_free and not is_failed and not taken.get(n, 0) >> d & 1:
                mask |= 1 << d
                wanted -= 1
        taken[n] = taken.get(n, 0) | mask
        if wanted or role.milli < WHOLE_MILLI or role.profile:
            return None
        pieces.append(Piece(piece.role, n, piece.replicas, mask))
    return tuple(pieces) if room.could_take(shape, tuple(pieces)) else None
