"""The scheduler's beat: order the waiting, fit each gang, make room for the entitled, say why.

1. *Order*: whoever stays within its team's floor first, then by priority, then the oldest.
2. *Fit*: the whole gang or nothing. Equal jobs are one shape: when the first does not fit, the
   others are not tried, and none of them again until something they need was freed.
3. *Make room*: an entitled or higher job that does not fit may evict (``victims``).
4. *Hold*: behind a job that the starvation guard protects, or for which room is being made, nobody
   passes who wants the same accelerators. So every job that can fit finally runs. One that a
   maximum quota keeps out holds back only jobs under that quota.
5. *Say why*: the cause of each shape that still waits, when it changed.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model.events import (
    Action,
    AskedEvict,
    AskedMove,
    AskedPlace,
    AskedRelease,
    SaidWhy,
    Why,
)
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Role, Shape
from tidemill.model.world import World
from tidemill.scheduling import moves, order, resize, shares, victims
from tidemill.scheduling import reorder as reordering
from tidemill.scheduling.backfill.reservations import Reservations
from tidemill.scheduling.clearing import Hunt
from tidemill.scheduling.diagnose import diagnose, fits_when_others_end, supply_cause
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.fit import Fit, redo, short_again
from tidemill.scheduling.known import Known
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.victims import Stop

CURED_BY_WAITING = frozenset(
    {
        Cause.BUSY,
        Cause.PARTIAL_GANG,
        Cause.SCATTERED,
        Cause.CPU_BINDS,
        Cause.MEMORY_BINDS,
        Cause.KEPT_BACK,
        Cause.TOPOLOGY,
    }
)
"""Causes that go away when running jobs end; behind such a job a queue may be held."""
MOVE_SHARE = 4  # of the searches of a cycle, one in so many may look for moves, which cost most
CURED_BY_MOVING = CURED_BY_WAITING - {Cause.BUSY, Cause.KEPT_BACK}
CURED_BY_EVICTION = CURED_BY_WAITING | {Cause.OVER_LIMIT}


def schedule(world: World, policy: Policy, memo: Memo, stop: Stop) -> list[Action]:
    """Whom to place, whom to evict, and why the others wait."""
    if not world.queued:
        return []
    memo.lines(policy).begin(world)
    if (
        memo.nothing_changed(world)
        and not memo.has_refused
        and not memo.is_question_due(world)
        and not memo.patience_was_lost(world, policy)
        and not reordering.may_reorder(policy)
    ):
        return []
    if reordering.may_reorder(policy):
        return reordering.reorder(world, policy, memo, stop)
    return _Desk(world, policy, memo, stop).decide()


class _Next(NamedTuple):
    """The next waiting job of a shape, with its place in the order."""

    key: order.Key
    shape: int
    placed: int
    """How many were placed when the key was made; later the key may be out of date."""


class _Desk:
    """One cycle at work."""

    def __init__(self, world: World, policy: Policy, memo: Memo, stop: Stop) -> None:
        self.world, self.policy, self.memo, self.stop = world, policy, memo, stop
        self.room = memo.room(world)
        self.fair = Fair(world, policy)
        self.scoring = memo.scoring(world, policy)
        self.actions: list[Action] = []
        self.said: dict[int, int] = {}
        """By shape: the last cause that this cycle told."""
        self.lines = memo.lines(policy)
        self.placed = 0
        self.reservations = Reservations(world, policy, memo, self.room)
        self.unfit: set[tuple[Role, ...]] = set()
        self.held: set[int] = set()
        self.leaving: set[int] = set()
        self.held_in_team: set[tuple[int, int]] = set()
        self.due = memo.searches_due(world, (policy.searches_per_cycle + 1) // 2)
        self.searches = policy.searches_per_cycle - len(self.due)
        self.move_searches = max(1, policy.searches_per_cycle // MOVE_SHARE)
        self.again_ms = FOREVER_MS

    def decide(self) -> list[Action]:
        heap = [self._next(s) for s in self._candidates()]
        heapq.heapify(heap)
        while heap:
            item = heapq.heappop(heap)
            s = item.shape
            is_out_of_date = item.placed != self.placed and self._key(s) != item.key
            if is_out_of_date or (self._try(s) and self._step_on(s)):
                heapq.heappush(heap, self._next(s))
        self.memo.watch(self.world, self.policy, bool(self.held or self.held_in_team))
        self.memo.reservations = self.reservations.found
        self.memo.has_refused = self.reservations.has_refused
        return self.actions

    def _candidates(self) -> list[int]:
        """The shapes that are looked at: they may fit, or keep others back."""
        world, causes = self.world, self.memo.failures_now(self.world)
        if self._has_backfill():
            return self._with_reservations(causes)
        return [
            s
            for s, cause in causes.items()
            if cause is None or self.lines.first_to_lose_patience_ms(world, s) <= world.now_ms
        ]

    def _with_reservations(self, causes: dict[int, Cause | None]) -> list[int]:
        """Whoever may fit, or is told another cause; and if somebody may, who keeps others back.

        Where keys do not change in a cycle, only the first of those who may use the same kinds has
        a reservation under ``easy``, and only the first few under ``conservative``. Of those whom a
        limit keeps out, only the first of a team can be the first to be passed under it.
        """
        world, said = self.world, self.world.shapes.cause
        found = [s for s, cause in causes.items() if cause is None or said.item(s) != cause.value]
        if None not in causes.values():
            return found
        if self.fair.mode != "none" or (world.floor > 0).any():
            return list(causes)
        others, looked_at = [], frozenset(found)
        for s, cause in causes.items():
            if s in looked_at:
                continue
            may_hold = cause in CURED_BY_WAITING or cause is Cause.OVER_LIMIT
            if may_hold and fits_when_others_end(world, self.memo, s):
                others.append((self.lines.head(world, s), s))
        return found + self._first_reserved(sorted(others), causes)

    def _first_reserved(
        self, others: list[tuple[order.Head, int]], causes: dict[int, Cause | None]
    ) -> list[int]:
        """Of these shapes, in order, those that have a reservation or are the first under a limit;
        and whoever the starvation guard protects.
        """
        world, policy, left = self.world, self.policy, self.policy.reservations_at_most
        found, firsts = list[int](), set[tuple[int, tuple[int, ...]]]()
        for (_, j), s in others:
            known, is_limited = self.memo.known(world, s), causes[s] is Cause.OVER_LIMIT
            first = (known.queue if is_limited else -1, known.kinds)
            is_first = first not in firsts
            if not is_limited and policy.backfill != "easy":
                is_first = left > 0
            if order.is_guarded(world, policy, j):
                found.append(s)
            elif is_first:
                found.append(s)
                firsts.add(first)
                left -= not is_limited
        return found

    def _next(self, s: int) -> _Next:
        return _Next(self._key(s), s, self.placed)

    def _key(self, s: int) -> order.Key:
        known, head = self.memo.known(self.world, s), self.lines.head(self.world, s)
        return order.key_at(self.fair, self.room.used, known, s, head)

    def _step_on(self, s: int) -> bool:
        """Go on to the next job of a shape that may have a chance; whether there is one."""
        while self.lines.take(self.world, s):
            if not self.reservations.is_refused(s, self.lines.head(self.world, s)[1]):
                return True
            if not self.reservations.may_try_next(s):
                return False
        return False

    def _try(self, s: int) -> bool:
        """Place the next job of a shape; if it cannot be, deal with that and return False."""
        world, known = self.world, self.memo.known(self.world, s)
        j = self.lines.head(world, s)[1]
        if self._is_behind(known):
            supply = supply_cause(world, self.memo, s)
            self._say(s, supply if supply is not Cause.NONE else Cause.BEHIND)
            return False
        failure = self.memo.failure(world, s) if s not in world.promised else None
        if failure is not None:
            self._say(s, failure)
            self._hold_behind(s, j, failure)
            return False
        found = self._fit(s, known)
        if found.shortage is None:
            pieces = self.reservations.let_past(s, j, found.pieces)
            if not pieces:
                self._say(s, Cause.RESERVED)
                return self.reservations.may_try_next(s)
            attempt = int(world.jobs.attempt[j]) + 1
            self.actions.append(AskedPlace(world.now_ms, j, attempt, pieces))
            self.actions += self.reservations.passed_by(s)
            self.placed += 1
            return True
        cause = diagnose(world, self.memo, self.room, s, found.shortage)
        self._not_placed(s, j, cause)
        return False

    def _fit(self, s: int, known: Known) -> Fit:
        """Fit the next job of a shape; not again what did not fit for another team in this cycle.

        What is free only gets less in a cycle. What a team's limit says is asked anew.
        """
        shape = self.world.shape_rows[s]
        like = _like(shape)
        if like in self.unfit:
            return short_again(self.room, known.queue, shape, known.options)
        found = fit_largest(self.room, known.queue, shape, known.options, self.scoring)
        if like and found.shortage is not None and found.shortage.is_of_nodes:
            self.unfit.add(like)
        return found

    def _not_placed(self, s: int, j: int, cause: Cause) -> None:
        world = self.world
        if world.promised.get(s, 0) > 0:
            self._say(s, Cause.PROMISED)
            self._hold(s, [v for v, heir in world.leaving_for.items() if heir == s])
            return
        if s in world.promised and not self.lines.has_taken(s):
            self.actions.append(AskedRelease(world.now_ms, s))
            self._say(s, cause)
            return
        if self._may_make_room(s, cause):
            if not self._may_search(s):
                self._say(s, cause)
                self._hold_behind(s, j, cause)
                return
            leaving = self._make_room(s, j, cause)
            if leaving:
                self._say(s, Cause.PROMISED)
                self._hold(s, leaving)
                return
        self.memo.remember_failure(world, s, cause)
        self._say(s, cause)
        self._hold_behind(s, j, cause)

    def _may_make_room(self, s: int, cause: Cause) -> bool:
        """Whether room could be made for a shape at all, by moving others or by stopping them."""
        if cause not in CURED_BY_EVICTION:
            return False
        if self.policy.may_move and cause in CURED_BY_MOVING:
            return True
        if self.policy.may_resize and self.memo.elastic_shapes(self.world):
            return True
        return self.memo.may_evict(self.world, s)

    def _make_room(self, s: int, j: int, cause: Cause) -> list[int]:
        """Ask others to shrink, else to move, else to stop; who was asked."""
        self.memo.ask_again_at(s, FOREVER_MS)
        self.again_ms = FOREVER_MS
        world, lent = self.world, list[victims.Victim]()
        if self.policy.may_resize:
            kinds = self.memo.known(world, s).kinds
            hunt = Hunt(world, self.policy, self.memo, self.room, s, kinds)
            self.memo.heed_taken(s)
            lent, is_final = resize.cuts(hunt, self._stop().leaving)
            if not is_final:
                self.memo.doubt(s)
            given = resize.shrink(hunt, lent) if lent else []
            if given:
                return self._ask_to_shrink(given, j)
        asked = self._move(s, j, cause) or self._evict(s, j, lent)
        if not asked:
            self.memo.ask_again_at(s, self.again_ms)
        return asked

    def _ask_to_shrink(self, given: Sequence[victims.Victim], j: int) -> list[int]:
        asked = resize.asked(self.world, given, j)
        self.actions += asked
        self.leaving.update(action.job for action in asked)
        return [action.job for action in asked]

    def _move(self, s: int, j: int, cause: Cause) -> list[int]:
        """Move others elsewhere; their new places are taken at once, in this cycle too."""
        world, now_ms = self.world, self.world.now_ms
        if not self.policy.may_move or cause not in CURED_BY_MOVING:
            return []
        self.memo.heed_taken(s)
        if self.move_searches <= 0:
            self.memo.doubt(s)
            return []
        self.move_searches -= 1
        found = moves.plan(world, self.policy, self.memo, self.room, s, self._stop())
        if not found.is_final:
            self.memo.doubt(s)
        self.again_ms = found.again_ms
        for victim, gained in found.movers:
            attempt = int(world.jobs.attempt[victim.job])
            self.actions.append(
                AskedMove(now_ms, victim.job, attempt, Why.MOVED, gained, victim.pieces, j)
            )
            redo(self.room, victim.queue, victim.shape, gained)
            self.leaving.add(victim.job)
        return [mover.victim.job for mover in found.movers]

    def _stop(self) -> Stop:
        """The price of stopping jobs; whoever this plan asks to go already is not asked again."""
        return self.stop._replace(leaving=self.stop.leaving | self.leaving)

    def _may_search(self, s: int) -> bool:
        """Whether a shape may look for victims in this cycle; if not, it has a place in the next.

        Half of the searches are for those who went without before, so that nobody always does.
        """
        if s in self.due:
            self.due.discard(s)
            return True
        if self.searches > 0:
            self.searches -= 1
            return True
        self.memo.owe_search(s)
        return False

    def _evict(self, s: int, j: int, lent: Sequence[victims.Victim]) -> list[int]:
        world = self.world
        if not self.memo.may_evict(world, s):
            return []
        stop = self._stop()._replace(lent=tuple(lent))
        found = victims.choose(world, self.policy, self.memo, self.room, s, stop)
        if not found.is_final:
            self.memo.doubt(s)
        self.again_ms = min(self.again_ms, found.again_ms)
        given = [victim for victim in found.victims if victim.why is Why.SHRUNK]
        stopped = [victim for victim in found.victims if victim.why is not Why.SHRUNK]
        self.actions += [
            AskedEvict(world.now_ms, v.job, int(world.jobs.attempt[v.job]), v.why, j)
            for v in stopped
        ]
        jobs = [victim.job for victim in stopped]
        self.leaving.update(jobs)
        return jobs + self._ask_to_shrink(given, j)

    def _is_behind(self, known: Known) -> bool:
        """Whether somebody who may not be passed wants the same accelerators."""
        if self.held and not self.held.isdisjoint(known.kinds):
            return True
        return bool(self.held_in_team) and shares.are_under(
            self.world, known.queue, known.kinds, self.held_in_team
        )

    def _hold_behind(self, s: int, j: int, cause: Cause) -> None:
        """Let nobody pass a job that the starvation guard protects, unless waiting is no cure.

        Before that, with backfill: a reservation. A job that a limit keeps out, whatever else it
        lacks, has none and is in the way of those alone who are under that limit.
        """
        is_limited = cause is Cause.OVER_LIMIT
        is_guarded = order.is_guarded(self.world, self.policy, j)
        if not (is_limited or cause in CURED_BY_WAITING):
            return
        if not (is_guarded or self._has_backfill()):
            return
        if not fits_when_others_end(self.world, self.memo, s):
            return
        if is_limited:
            limits = shares.limits_on(
                self.world, self.room.used, s, self.memo.known(self.world, s).kinds
            )
            if is_guarded:
                self.held_in_team |= limits
            else:
                self.reservations.is_limited(s, j, limits)
        elif is_guarded:
            self._hold(s)
        else:
            self.reservations.claim(s, j)

    def _has_backfill(self) -> bool:
        return self.policy.backfill != "none"

    def _hold(self, s: int, leaving: Sequence[int] = ()) -> None:
        """Keep others off the kinds of a shape, and off whatever those who leave for it held."""
        world = self.world
        self.held.update(self.memo.known(world, s).kinds)
        for j in leaving:
            self.held.update(int(world.nodes.kind[piece.node]) for piece in world.placements[j])

    def _say(self, s: int, cause: Cause) -> None:
        if self.said.get(s, self.world.shapes.cause.item(s)) != cause.value:
            self.said[s] = cause.value
            self.actions.append(SaidWhy(self.world.now_ms, s, cause))


def _like(shape: Shape) -> tuple[Role, ...]:
    """The same for all shapes that fit wherever this one does, whosoever they are; or nothing."""
    only = shape.roles[0]
    is_tied = bool(shape.bonds or only.bonds or shape.parallelism or only.profile)
    return shape.roles if len(shape.roles) == 1 and not only.least and not is_tied else ()
