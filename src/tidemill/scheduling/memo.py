"""Memo: what the scheduler remembers between cycles, so that a cycle costs what changed.

Forgetting it changes no placement and no eviction, only their cost: a shape that did not fit cannot
fit before something it needs was freed, and not before a node that changed could host one replica
of it. (The cause that was said may be older than now. And where a policy bounds
the search for victims, who remembers that one was in vain has one more.)
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidemill.model.columns import AT, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.tables import I64, grown
from tidemill.model.views import Queued
from tidemill.model.world import World
from tidemill.scheduling.desk import failures, opening, rights
from tidemill.scheduling.desk.asks import Asks
from tidemill.scheduling.desk.columns import ASK, NOTE, UNKNOWN
from tidemill.scheduling.desk.layout import Laid, ranks
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.lasting import LastingRoom
from tidemill.scheduling.pending_queues import PendingQueues
from tidemill.scheduling.scores import scoring
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.shape_eligibility import Known, Like, Likes, Sharing, know
from tidemill.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from tidemill.scheduling.backfill.expected_ends import Running
    from tidemill.scheduling.backfill.reservations import Made, Reservation
    from tidemill.scheduling.preemptive_order.at_once import AtOnce
    from tidemill.scheduling.preemptive_order.plan import Remembered

Stamp = tuple[int, ...]

FLEET = -1  # in place of a shape: all of them


class Memo:
    """One per loop; may be dropped at any time."""

    def __init__(self, *, sweeps: bool = False) -> None:
        self.sweeps = sweeps
        """Whether its rooms answer by sweeps over the nodes alone (see ``Room.fill``)."""
        self._known: dict[int, Known] = {}
        self._shared: dict[Sharing, Option] = {}
        self._known_at: Stamp = ()
        self.asks = Asks()
        """What is remembered of each shape."""
        self.forgets = False
        """Whether what did not fit is tried again in every cycle."""
        self.notes: I64 = np.zeros(len(NOTE), np.int64)
        """Single numbers that are kept from one cycle to the next."""
        self.notes[[NOTE.JOBS, NOTE.READ]] = -1
        self.notes[NOTE.FLEET_AGAIN_MS] = FOREVER_MS
        self.changed: I64 = np.zeros(0, np.int64)
        """By kind, the most that a node that changed since the last look has free."""
        self._world: World | None = None
        self._supply_at: Stamp = ()
        self._lasting_at: Stamp = ()
        self._changes_at: Stamp = ()
        self._room: Snapshot | None = None
        self._empty: tuple[Stamp, Snapshot] | None = None
        self._lasting: tuple[Stamp, LastingRoom] | None = None
        self._trial: Snapshot | None = None
        self._planning: Snapshot | None = None
        self.reservations: list[Reservation] = []
        """The backfill reservations of the last cycle, for those who explain it."""
        self.made: Made | None = None
        self.running: Running | None = None
        self.members: Remembered | None = None
        """Who was in the plan of the whole fleet, where a policy has one."""
        self.at_once: AtOnce | None = None
        """What such plans are made with in one call."""
        self._lines: PendingQueues | None = None
        self._evictors_at: Stamp = ()
        self._scoring = scoring.PACKING
        self._roles = scoring.KnownRoles()
        self._scoring_at: tuple[Stamp, Policy] | None = None
        self.laid_out = Laid()
        """The columns of the last cycle."""
        self._elastic: list[int] = []
        self._shapes_seen = 0
        self._likes = Likes()
        self._supply_of: dict[Like, Cause] = {}
        self._outlasts_of: dict[Like, bool] = {}
        self._under_floor: tuple[Stamp, NDArray[np.bool_]] | None = None

    def room(self, world: World) -> Snapshot:
        """A scratch copy of what is free now."""
        self._room = self._refreshed(world, self._room)
        return self._room

    def room_to_begin(self, world: World) -> Snapshot:
        """The same; but what changed is copied when a cycle begins (``desk.opening``)."""
        if self._room is None:
            self._room = Snapshot(world, sweeps=self.sweeps)
        else:
            self._room.lay_out(world)
        if world is not self._world:
            self._world, self.notes[NOTE.READ] = world, -1
        if len(self.changed) < len(world.kinds):
            self.changed = grown(self.changed, len(world.kinds))
        return self._room

    def trial_room(self, world: World) -> Snapshot:
        """A second scratch copy of what is free now."""
        self._trial = self._refreshed(world, self._trial)
        return self._trial

    def _refreshed(self, world: World, room: Snapshot | None) -> Snapshot:
        if room is None:
            return Snapshot(world, sweeps=self.sweeps)
        room.refresh(world)
        return room

    def planning_room(self, world: World) -> Snapshot:
        """A scratch room that its user empties."""
        room = self._planning
        is_known = room is not None and room.world is world and room.rows == world.node_count
        if room is None or not is_known or room.used.shape != world.used.shape:
            room = self._planning = Snapshot(world, sweeps=self.sweeps)
        return room

    def inherit_scoring(self, other: "Memo") -> None:
        """Begin with the tables that another memo made; they are made anew where they must be."""
        self._scoring, self._scoring_at = other._scoring, other._scoring_at

    def scoring(self, world: World, policy: Policy) -> Scoring:
        """The placement policies and their tables; the same ones until the mix or supply change."""
        stamp = (world.mix_changes, world.node_count, len(world.kinds))
        if self._scoring_at != (stamp, policy):
            self._scoring = scoring.of(world, policy, self._scoring, self._roles)
            self._scoring_at = (stamp, policy)
        return self._scoring

    def empty_room(self, world: World) -> Snapshot:
        """A scratch copy in which nothing runs; the same one until supply or shares change."""
        stamp = _supply_stamp(world)
        if self._empty is None or self._empty[0] != stamp:
            room = Snapshot(world, sweeps=self.sweeps)
            room.empty()
            self._empty = (stamp, room)
        return self._empty[1]

    def lasting_room(self, world: World) -> Snapshot:
        """A scratch copy in which only services run: what is left when all that ends has ended."""
        stamp = _supply_stamp(world)
        if self._lasting is None or self._lasting[0] != stamp:
            self._lasting = (stamp, LastingRoom(world, sweeps=self.sweeps))
        return self._lasting[1].update(world)

    def outlasts(self, world: World, s: int) -> bool | None:
        """Whether a shape fits beside the services of now; None: not asked yet."""
        self._know_lasting(world)
        found = self.asks.rows.item(s, ASK.OUTLASTS)
        if found != UNKNOWN:
            return bool(found)
        known = self._outlasts_of.get(self._likes.of(world, s))
        if known is not None:
            self.asks.rows[s, ASK.OUTLASTS] = known
        return known

    def remember_outlasts(self, world: World, s: int, fits: bool) -> None:
        """Keep whether a shape and its like fit beside the services, until they change."""
        self._outlasts_of[self._likes.of(world, s)] = fits
        self.asks.rows[self._likes.all(world, s), ASK.OUTLASTS] = fits

    def like(self, world: World, s: int) -> Like:
        """What the like of a shape have in common: they fit wherever one of them does."""
        return self._likes.of(world, s)

    def rows(self, world: World) -> I64:
        """What is remembered, with a row for every shape."""
        self.asks.make(len(world.shape_rows))
        return self.asks.rows

    def know_changes(self, world: World) -> None:
        """What supply says, and what fits beside services, is asked again when that changed."""
        if self.forgets:
            self.asks.rows[:, ASK.FAILED] = 0
        stamp = (
            len(world.shape_rows), len(world.groups), world.contract_count, *_lasting_stamp(world)
        )  # fmt: skip
        if stamp != self._changes_at:
            self._know_supply(world)
            self._know_lasting(world)
            self.know_evictors(world)
            self._forget_known(world)
            self._changes_at = stamp

    def know_waiting(self, world: World) -> None:
        """Write the rows of all waiting shapes that were not looked at, or not since new nodes."""
        self.know_changes(world)
        shapes, count = self.waiting(world)
        for s in self.asks.unknown(shapes[:count]):
            self.known(world, s)

    def _know_lasting(self, world: World) -> None:
        rows, stamp = self.rows(world), _lasting_stamp(world)
        if stamp != self._lasting_at:
            rows[:, ASK.OUTLASTS] = UNKNOWN
            self._outlasts_of.clear()
            self._lasting_at = stamp

    @staticmethod
    def waiting(world: World) -> tuple[I64, int]:
        """The shapes that have a waiting job, or those of them that are to be looked at.

        And how many they are: the array may be longer.
        """
        if isinstance(world.queued, Queued):
            w = world.matrices
            return w.queued, w.at.item(AT.QUEUED)
        shapes: I64 = np.array(list(world.queued), np.int64)
        return shapes, len(shapes)

    def _forget_known(self, world: World) -> None:
        stamp = (len(world.groups), world.contract_count)
        if self._known_at != stamp:
            self._known.clear()
            self._shared.clear()
            self.asks.forget_nodes()
            self._known_at = stamp

    def known(self, world: World, s: int) -> Known:
        """The kinds and groups that a shape may use."""
        self._forget_known(world)
        known = self._known.get(s)
        if known is None:
            known = self._known[s] = know(world, s, self._shared)
            self.write(world, s, known)
        return known

    def write(self, world: World, s: int, known: Known) -> None:
        """Write the row of a shape that was looked at."""
        self.rows(world)
        self.asks.write(world, s, known)

    def lines(self, policy: Policy) -> PendingQueues:
        """The waiting jobs of each shape in the policy's order."""
        if self._lines is None or self._lines.policy != policy:
            self._lines = PendingQueues(policy)
        return self._lines

    def patience_was_lost(self, world: World, policy: Policy) -> bool:
        """Whether someone lost patience since the last cycle: others may now be held otherwise.

        In an order that Python is asked about; the others kernels know (``desk.opening``).
        """
        if policy.order in BY_SHAPE or ranks(policy):
            return False
        lines, since_ms, now_ms = self.lines(policy), self.notes.item(NOTE.DECIDED_MS), world.now_ms
        return any(
            since_ms < lines.first_to_lose_patience_ms(world, s) <= now_ms for s in world.queued
        )

    def doubt(self, s: int) -> None:
        """What a search said about a shape may change with time alone: ask again."""
        self.asks.rows[s, ASK.IS_DOUBTED] = 1
        failures.note_owed(self.notes, self.asks.rows, s)

    def ask_again_at(self, s: int, at_ms: int) -> None:
        """A search may find more at this moment though nothing changed; FOREVER_MS: it may not.

        What this time is for the whole fleet, where it is planned anew, is kept under ``FLEET``.
        """
        if s == FLEET:
            self.notes[NOTE.FLEET_AGAIN_MS] = at_ms
        else:
            self.asks.rows[s, ASK.AGAIN_MS] = at_ms
            self.notes[NOTE.HAS_QUESTIONS] |= at_ms < FOREVER_MS

    def next_question_ms(self, world: World) -> int:
        """When the next search is to be made again by time alone."""
        looks, count = self.waiting(world)
        rows, now_ms = self.rows(world), world.now_ms
        return int(opening.next_question(looks, rows, self.notes, count, now_ms))

    def elastic_shapes(self, world: World) -> list[int]:
        """The shapes that have an elastic role, in the order in which they came."""
        rows = world.shape_rows
        if self._shapes_seen > len(rows):
            self._elastic, self._shapes_seen = [], 0
        for s in range(self._shapes_seen, len(rows)):
            if rows[s].elastic_role is not None:
                self._elastic.append(s)
        self._shapes_seen = len(rows)
        return self._elastic

    def heed_taken(self, s: int) -> None:
        """A shape may gain by what others take: others may move, or be smaller, since."""
        self.asks.rows[s, ASK.IS_HEEDING] = 1

    def is_doubted(self, s: int) -> bool:
        """Whether what a search said about a shape in this cycle may change with time alone."""
        return bool(self.asks.rows[s, ASK.IS_DOUBTED])

    def remember_limit(self, s: int, is_limited: bool) -> None:
        """Keep whether limits or floors kept the shape off a kind: what teams free may help it."""
        self.asks.rows[s, ASK.IS_LIMITED] = is_limited

    def may_evict(self, world: World, s: int) -> bool:
        """Whether a shape could ever have a right to another's place: a floor, or a priority."""
        self.know_evictors(world)
        return bool(self.asks.rows[s, ASK.MAY_EVICT])

    def know_evictors(self, world: World) -> None:
        """Write down who could ever have a right to another's place."""
        stamp = (len(world.shape_rows), world.share_changes)
        if stamp != self._evictors_at:
            count, queues = len(world.shape_rows), world.shapes.queue
            priorities = world.shapes.priority[:count]
            lowest = np.full(len(world.queue_rows), FOREVER_MS, np.int64)
            np.minimum.at(lowest, queues[:count], priorities)
            has_lower = priorities > lowest[queues[:count]]
            under_floor = self._queues_under_floor(world)[queues[:count]]
            may_preempt = world.matrices.shapes[:count, SHAPE.MAY_PREEMPT] != 0
            rows = self.rows(world)
            rows[:count, ASK.MAY_EVICT] = (under_floor + rights.OWN * has_lower) * may_preempt
            rows[:count, ASK.DISTURBS_NOBODY] = ~may_preempt
            self._evictors_at = stamp

    def _queues_under_floor(self, world: World) -> NDArray[np.bool_]:
        """For each queue: whether it, or one above it, has a guaranteed quota."""
        stamp = (world.share_changes, len(world.queue_rows))
        if self._under_floor is None or self._under_floor[0] != stamp:
            has_floor = np.any(world.floor > 0, axis=1)
            found = [bool(has_floor[list(path)].any()) for path in world.tree.paths]
            self._under_floor = (stamp, np.array(found, bool))
        return self._under_floor[1]

    def supply_cause(self, world: World, s: int) -> Cause | None:
        """What supply said about this shape or its like, if nothing of that changed since."""
        self._know_supply(world)
        found = self.asks.rows.item(s, ASK.SUPPLY)
        if found != UNKNOWN:
            return Cause(found)
        known = self._supply_of.get(self._likes.of(world, s))
        if known is not None:
            self.asks.rows[s, ASK.SUPPLY] = known
        return known

    def remember_supply(self, world: World, s: int, cause: Cause) -> None:
        """Keep what supply says about this shape, and its like."""
        self._know_supply(world)
        self._supply_of[self._likes.of(world, s)] = cause
        self.asks.rows[self._likes.all(world, s), ASK.SUPPLY] = cause

    def _know_supply(self, world: World) -> None:
        rows, stamp = self.rows(world), _supply_stamp(world)
        if stamp != self._supply_at:
            rows[:, ASK.SUPPLY] = UNKNOWN
            self._supply_of.clear()
            self._supply_at = stamp


def _supply_stamp(world: World) -> Stamp:
    return (world.supply_changes, world.share_changes)


def _lasting_stamp(world: World) -> Stamp:
    return (*_supply_stamp(world), world.lasting_changes)
