"""Members: who runs if the whole fleet is planned anew in the policy's order, job by job.

In a room in which nothing runs but what may not be stopped, every job, waiting or running, is
fitted in order; whoever fits is in. This depends on the jobs, their order and the nodes, never on
who sits where now.
"""

import heapq
from collections.abc import Set
from typing import NamedTuple

from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import JobClass, NodeState
from tidemill.model.world import World
from tidemill.scheduling import order, protection
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.fit import Fit, Shortage, redo
from tidemill.scheduling.fitting.columns import Obstacle
from tidemill.scheduling.memo import FLEET, Memo
from tidemill.scheduling.pending_queues import PendingQueues
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.preemptive_order.at_once import is_unbooked, keys_change
from tidemill.scheduling.preemptive_order.members import Members, One
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot

_READY = int(NodeState.READY)


_Item = tuple[order.Key, int, int, order.Place]
Called = tuple[Members, int, bool]
"""Who is in, when to ask again, and whether all of them may be stopped again at this moment."""


class Remembered(NamedTuple):
    """Who was in at one moment, to be asked again at the same moment."""

    policy: Policy
    stamp: tuple[int, ...]
    found: Members
    is_lasting: bool
    """Whether all of them can be stopped again; else who sits where does matter to the others."""


def find(
    world: World, policy: Policy, memo: Memo, leaving: Set[int], last: Remembered | None
) -> Remembered:
    """Fit every job that may be moved, and every waiting one, in order.

    When at the same moment nobody came, nobody ended and no node changed, the same are in: whoever
    was stopped since was not in, or lost nothing by it.
    """
    waiting = int(world.shapes.waiting[list(world.queued)].sum())
    stamp = (
        world.now_ms, world.job_count, len(world.placements) + waiting, world.supply_changes,
        world.share_changes, sum(heir < 0 for heir in world.leaving_for.values()),
    )  # fmt: skip
    is_new = last is None or stamp != last.stamp or policy != last.policy
    if last is None or is_new or not last.is_lasting or leaving:
        found, again_ms, is_lasting = call_one_by_one(world, policy, memo, leaving)
        memo.ask_again_at(FLEET, again_ms)
        return Remembered(policy, stamp, found, is_lasting)
    inside, outside, shortages = last.found
    still = [one for one in outside if one.job in world.placements]
    return Remembered(policy, stamp, Members(inside, still, shortages), is_lasting=True)


def newcomers(world: World, found: Members) -> list[One]:
    """Those who are in and hold nothing now."""
    return [one for one in found.inside if one.job not in world.placements]


def call_one_by_one(
    world: World, policy: Policy, memo: Memo, leaving: Set[int] = frozenset()
) -> Called:
    """Who is in; whatever decides about that."""
    roll = _Roll(world, policy, memo, leaving)
    found = roll.call()
    is_lasting = all(_may_stop_again(world, policy, one) for one in found.inside)
    return found, roll.again_ms, is_lasting


def _may_stop_again(world: World, policy: Policy, one: One) -> bool:
    """Whether a job that is placed may be stopped at the same moment: it is not protected then."""
    jobs = world.jobs
    is_costly = bool(jobs.startup_ms.item(one.job) or jobs.restart_ms.item(one.job))
    return may_stop(world.shape_rows[one.shape]) and not (policy.min_run_ms and is_costly)


class _Roll:
    """All jobs, called in order."""

    def __init__(self, world: World, policy: Policy, memo: Memo, leaving: Set[int]) -> None:
        self.world, self.policy, self.memo = world, policy, memo
        self.lines: PendingQueues = memo.lines(policy)
        self.room: Snapshot = memo.planning_room(world)
        self.room.empty()
        self.inside: list[One] = []
        self.outside: list[One] = []
        self.shortages: dict[int, Shortage] = {}
        self.fair = Fair(world, policy)
        self.keys_change = keys_change(world, policy)
        self.is_unbooked = is_unbooked(world, policy)
        self.heap: list[_Item] = []
        self.again_ms = FOREVER_MS
        for s, jobs in enumerate(world.active):
            shape = world.shape_rows[s]
            for j in jobs:
                if _stays(world, j, shape) or self._is_protected(j):
                    redo(self.room, world.shapes.queue.item(s), shape, world.placements[j])
                elif world.leaving_for.get(j, 0) >= 0 and j not in leaving:
                    self.heap.append(self._item(s, j))
        self.heap += [self._next(s) for s in world.queued]
        heapq.heapify(self.heap)

    def _is_protected(self, j: int) -> bool:
        """Whether a job may not be stopped yet; one that loses nothing by it always may."""
        until_ms = protection.until_ms(self.world, self.policy, j, Why.REORDERED)
        if until_ms <= self.world.now_ms or not cost.lost_ms(self.world, j):
            return False
        self.again_ms = min(self.again_ms, until_ms)
        return True

    def call(self) -> Members:
        while self.heap:
            key, j, s, place = heapq.heappop(self.heap)
            if s in self.shortages:
                self._leave_out(key, j, s)
            elif self.keys_change and (now := self._key(s, place, j)) != key:
                heapq.heappush(self.heap, (now, j, s, place))  # its team was given something
            else:
                self._try(key, j, s)
        return Members(self.inside, self.outside, self.shortages)

    def _try(self, key: order.Key, j: int, s: int) -> None:
        world, known = self.world, self.memo.known(self.world, s)
        shape = world.shape_rows[s]
        found = (
            _sweep(self.room, shape.roles[0], known.options[0])
            if self._is_simple(shape)
            else fit_largest(self.room, known.queue, shape, known.options, PACKING)
        )
        if found.shortage is not None:
            self.shortages[s] = found.shortage
            self._leave_out(key, j, s)
            return
        self.inside.append(One(key, j, s, found.pieces))
        if j not in world.placements and self.lines.take(world, s):
            heapq.heappush(self.heap, self._next(s))

    def _is_simple(self, shape: Shape) -> bool:
        """Whether only nodes decide: one role of one size, and books that nobody reads."""
        only = shape.roles[0]
        is_one = len(shape.roles) == 1 and not (only.least or only.profile)
        return self.is_unbooked and is_one and not (shape.bonds or only.bonds)

    def _leave_out(self, key: order.Key, j: int, s: int) -> None:
        if j in self.world.placements:
            self.outside.append(One(key, j, s, self.world.placements[j]))

    def _next(self, s: int) -> _Item:
        place, j = self.lines.head(self.world, s)
        return self._key(s, place, j), j, s, place

    def _item(self, s: int, j: int) -> _Item:
        place = order.place_of(self.world, self.policy, self.lines.estimates, j)
        return self._key(s, place, j), j, s, place

    def _key(self, s: int, place: order.Place, j: int) -> order.Key:
        if self.keys_change:
            known = self.memo.known(self.world, s)
            return order.ranked(self.fair, self.room.used, known, (place, j))
        return ((0,), *place, j)  # no floors and no shares: all teams stand alike


def _sweep(room: Snapshot, role: Role, options: tuple[Option, ...]) -> Fit:
    """As ``fit`` for one role where neither limits nor shares are kept."""
    for option in options:
        placed = room.sweep(role, option.is_ok).placed
        if placed:
            return Fit(tuple(Piece(0, *place) for place in placed), None)
    return Fit((), Shortage(0, tuple((option, Obstacle.UNFIT, 0) for option in options)))


def _stays(world: World, j: int, shape: Shape) -> bool:
    """Whether a job stays where it is whatever the order says."""
    state = world.nodes.state
    return (
        not may_stop(shape)
        or j in world.kept
        or any(state.item(piece.node) != _READY for piece in world.placements[j])
    )


def may_stop(shape: Shape) -> bool:
    """Whether the order may stop a job of this shape: preemptible, and no service."""
    return shape.is_preemptible and shape.kind is not JobClass.INFERENCE
