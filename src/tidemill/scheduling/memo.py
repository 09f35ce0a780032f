"""Memo: what the scheduler remembers between cycles, so that a cycle costs what changed.

Forgetting it changes no placement and no eviction, only their cost: a shape that did not fit cannot
fit before something it needs was freed, and not before a node that changed could host one replica
of it. (The cause that was said may be older than now. And where a policy bounds
the search for victims, who remembers that one was in vain has one more.)
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidemill.model.columns import AT
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobClass, NodeState
from tidemill.model.tables import I64
from tidemill.model.views import Queued
from tidemill.model.world import World
from tidemill.scheduling.desk import failures
from tidemill.scheduling.desk.asks import Asks
from tidemill.scheduling.desk.columns import ASK, UNKNOWN
from tidemill.scheduling.desk.layout import Laid
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.fit import redo
from tidemill.scheduling.known import Known, Sharing, know
from tidemill.scheduling.lines import Lines
from tidemill.scheduling.room import Room
from tidemill.scheduling.scores import scoring
from tidemill.scheduling.scores.scoring import Scoring

if TYPE_CHECKING:
    from tidemill.scheduling.backfill.reservations import Made, Reservation
    from tidemill.scheduling.backfill.running import Running
    from tidemill.scheduling.members import Remembered

Stamp = tuple[int, ...]

FLEET = -1  # in place of a shape: all of them
CHANGED_AT_MOST = 256  # nodes; beyond that some of them surely have room
_READY = int(NodeState.READY)


class Failure(NamedTuple):
    """A shape that did not fit: what was true then, and up to which look it still holds."""

    stamp: Stamp
    cause: Cause
    look: int


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
        self.look = 0
        self.changed: dict[int, int] | None = None
        """By kind, the most that a node that changed since the last look has free."""
        self._read: tuple[World | None, int] = (None, 0)
        self._supply_at: Stamp = ()
        self._lasting_at: Stamp = ()
        self._changes_at: Stamp = ()
        self._room: Room | None = None
        self._empty: tuple[Stamp, Room] | None = None
        self._lasting: tuple[Stamp, Room] | None = None
        self._trial: Room | None = None
        self._planning: Room | None = None
        self.reservations: list[Reservation] = []
        """The backfill reservations of the last cycle, for those who explain it."""
        self.made: Made | None = None
        self.running: Running | None = None
        self.has_refused = False
        """Whether somebody was kept from passing one: a little later it may be let."""
        self.members: Remembered | None = None
        """Who was in the plan of the whole fleet, where a policy has one."""
        self._lines: Lines | None = None
        self._seen: Stamp = ()
        self._decided_ms = 0
        self._evictors_at: Stamp = ()
        self.watches = self._drifts = False
        self._scoring = scoring.PACKING
        self._scoring_at: tuple[Stamp, Policy] | None = None
        self.laid_out = Laid()
        """The columns of the last cycle."""
        self._has_questions = False
        self._fleet_again_ms = FOREVER_MS
        self.cycle = 0
        """The number of the cycle, for what holds in one alone."""
        self._elastic: list[int] = []
        self._shapes_seen = 0

    def room(self, world: World) -> Room:
        """A scratch copy of what is free now; the beginning of a new look."""
        self._look_again(world)
        if self._room is None:
            self._room = Room(world, sweeps=self.sweeps)
        else:
            self._room.refresh(world)
        return self._room

    def trial_room(self, world: World) -> Room:
        """A second scratch copy of what is free now."""
        if self._trial is None:
            self._trial = Room(world, sweeps=self.sweeps)
        else:
            self._trial.refresh(world)
        return self._trial

    def planning_room(self, world: World) -> Room:
        """A scratch room that its user empties."""
        room = self._planning
        if room is None or room.world is not world or room.rows != world.node_count:
            room = self._planning = Room(world, sweeps=self.sweeps)
        return room

    def inherit_scoring(self, other: "Memo") -> None:
        """Begin with the tables that another memo made; they are made anew where they must be."""
        self._scoring, self._scoring_at = other._scoring, other._scoring_at

    def scoring(self, world: World, policy: Policy) -> Scoring:
        """The placement policies and their tables; the same ones until the mix or supply change."""
        stamp = (world.mix_changes, world.node_count, len(world.kinds))
        if self._scoring_at != (stamp, policy):
            self._scoring = scoring.of(world, policy, self._scoring)
            self._scoring_at = (stamp, policy)
        return self._scoring

    def empty_room(self, world: World) -> Room:
        """A scratch copy in which nothing runs; the same one until supply or shares change."""
        stamp = _supply_stamp(world)
        if self._empty is None or self._empty[0] != stamp:
            room = Room(world, sweeps=self.sweeps)
            room.empty()
            self._empty = (stamp, room)
        return self._empty[1]

    def lasting_room(self, world: World) -> Room:
        """A scratch copy in which only services run: what is left when all that ends has ended."""
        stamp = _lasting_stamp(world)
        if self._lasting is None or self._lasting[0] != stamp:
            room = Room(world, sweeps=self.sweeps)
            room.empty()
            for s, jobs in enumerate(world.active):
                shape = world.shape_rows[s]
                if shape.kind is JobClass.INFERENCE:
                    q = int(world.shapes.queue[s])
                    for j in jobs:
                        redo(room, q, shape, world.placements[j])
            self._lasting = (stamp, room)
        return self._lasting[1]

    def outlasts(self, world: World, s: int) -> bool | None:
        """Whether a shape fits beside the services of now; None: not asked yet."""
        self._know_lasting(world)
        found = self.asks.rows.item(s, ASK.OUTLASTS)
        return None if found == UNKNOWN else bool(found)

    def remember_outlasts(self, s: int, fits: bool) -> None:
        """Keep whether a shape fits beside the services, until they change."""
        self.asks.rows[s, ASK.OUTLASTS] = fits

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
        for s in self.asks.unknown(self.waiting(world)):
            self.known(world, s)

    def _know_lasting(self, world: World) -> None:
        rows, stamp = self.rows(world), _lasting_stamp(world)
        if stamp != self._lasting_at:
            rows[:, ASK.OUTLASTS] = UNKNOWN
            self._lasting_at = stamp

    @staticmethod
    def waiting(world: World) -> I64:
        """The shapes that have a waiting job, or those of them that are to be looked at."""
        if isinstance(world.queued, Queued):
            w = world.matrices
            found: I64 = w.queued[: w.at.item(AT.QUEUED)]
            return found
        return np.array(list(world.queued), np.int64)

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

    def nothing_changed(self, world: World) -> bool:
        """Whether nothing that a decision depends on happened since the last call."""
        stamp = (
            world.job_count,
            world.supply_changes,
            int(world.kind_freed.sum()),
            int(world.queue_freed.sum()),
            int(world.kind_taken.sum()) if self.watches else 0,
        )
        same, self._seen = stamp == self._seen, stamp
        if not same or self._drifts:
            return False
        rows = self.rows(world)
        return not failures.is_anybody_owed(rows, len(world.shape_rows))

    def lines(self, policy: Policy) -> Lines:
        """The waiting jobs of each shape in the policy's order."""
        if self._lines is None or self._lines.policy != policy:
            self._lines = Lines(policy)
        return self._lines

    def patience_was_lost(self, world: World, policy: Policy) -> bool:
        """Whether someone lost patience since the last cycle: others may now be held otherwise."""
        lines, since_ms, now_ms = self.lines(policy), self._decided_ms, world.now_ms
        return any(
            since_ms < lines.first_to_lose_patience_ms(world, s) <= now_ms for s in world.queued
        )

    def watch(self, world: World, policy: Policy, is_holding: bool) -> None:
        """At the end of a cycle: whether someone waits who may gain by what others take.

        Fair shares change with what anybody takes; and where past use is counted, with time alone:
        whoever is held now may be first a moment later.
        """
        is_fair = policy.fairness != "none"
        looks = self.waiting(world)
        self.watches = is_fair or bool(failures.somebody_heeds(looks, self.asks.rows, len(looks)))
        self._drifts = is_fair and is_holding and policy.usage_half_life_ms > 0
        self._decided_ms = world.now_ms

    def searches_due(self, world: World, at_most: int) -> int:
        """Mark who went without a search for victims before, longest ago first; how many.

        A cycle begins.
        """
        rows, shapes = self.rows(world), world.matrices.shapes
        due: int = failures.begin_searches(shapes, rows, len(world.shape_rows), at_most)
        return due

    def doubt(self, s: int) -> None:
        """What a search said about a shape may change with time alone: ask again."""
        self.asks.rows[s, ASK.IS_DOUBTED] = 1

    def ask_again_at(self, s: int, at_ms: int) -> None:
        """A search may find more at this moment though nothing changed; FOREVER_MS: it may not.

        What this time is for the whole fleet, where it is planned anew, is kept under ``FLEET``.
        """
        if s == FLEET:
            self._fleet_again_ms = at_ms
        else:
            self.asks.rows[s, ASK.AGAIN_MS] = at_ms
            self._has_questions = self._has_questions or at_ms < FOREVER_MS

    def note_questions(self, are_any: bool) -> None:
        """Whether the compiled cycle wrote down when a search is to be made again."""
        self._has_questions = self._has_questions or are_any

    def is_question_due(self, world: World) -> bool:
        """Whether a search is to be made again though nothing changed."""
        return any(at <= world.now_ms for at in self._questions(world))

    def next_question_ms(self, world: World) -> int:
        """When the next search is to be made again by time alone."""
        return min((at for at in self._questions(world) if at > world.now_ms), default=FOREVER_MS)

    def _questions(self, world: World) -> list[int]:
        """When searches are to be made again, for shapes that wait."""
        found = [self._fleet_again_ms]
        if self._has_questions:
            again: I64 = self.rows(world)[self.waiting(world), ASK.AGAIN_MS]
            found += again[again < FOREVER_MS].tolist()
        return found

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

    # What compiled beats begin with, and leave behind (see ``engine.fold_stretch``).

    def last_decision(self) -> tuple[Stamp, int]:
        """What was seen by the last call of ``nothing_changed``, and when it was decided last."""
        return self._seen, self._decided_ms

    def remember_decision(self, seen: Stamp, decided_ms: int) -> None:
        """A cycle saw this, at this moment."""
        self._seen, self._decided_ms, self.watches = seen, decided_ms, False

    def last_look(self, world: World) -> tuple[int, list[int] | None]:
        """The number of the last look, and the nodes that changed since; None: not known."""
        before, position = self._read
        return self.look, world.changes.since(position) if world is before else None

    def remember_look(self, world: World, look: int, *, is_whole: bool) -> None:
        """Looks were taken; what changes from now on was not looked at, or (not whole) more."""
        self.look, self._read = look, (world if is_whole else None, world.changes.end)

    def failures(self) -> Iterable[tuple[int, Failure]]:
        """The shapes that did not fit, with their stamps, causes and looks."""
        columns = [ASK.FREED, ASK.GIVEN, ASK.SUPPLY_AT, ASK.CAUSE, ASK.FAILED_LOOK]
        for s in np.flatnonzero(self.asks.rows[:, ASK.FAILED]).tolist():
            freed, given, supply, cause, look = self.asks.rows[s, columns].tolist()
            yield s, Failure((freed, given, supply), Cause(cause), look)

    @property
    def limited(self) -> set[int]:
        """Shapes that limits or floors kept off a kind when they did not fit."""
        return set(np.flatnonzero(self.asks.rows[:, ASK.IS_LIMITED]).tolist())

    def recall_failure(self, s: int, stamp: Stamp, cause: Cause, look: int) -> None:
        """A shape did not fit when this was true, as was seen up to a look."""
        self.asks.make(s + 1)
        columns = [
            ASK.FAILED, ASK.FREED, ASK.GIVEN, ASK.SUPPLY_AT, ASK.CAUSE, ASK.FAILED_LOOK,
        ]  # fmt: skip
        self.asks.rows[s, columns] = (1, *stamp, cause, look)

    def may_evict(self, world: World, s: int) -> bool:
        """Whether a shape could ever have a right to another's place: a floor, or a priority."""
        self.know_evictors(world)
        return bool(self.asks.rows[s, ASK.MAY_EVICT])

    def know_evictors(self, world: World) -> None:
        """Write down who could ever have a right to another's place."""
        stamp = (len(world.shape_rows), world.share_changes)
        if stamp != self._evictors_at:
            self.rows(world)[: len(world.shape_rows), ASK.MAY_EVICT] = _evictors(world)
            self._evictors_at = stamp

    def supply_cause(self, world: World, s: int) -> Cause | None:
        """What supply said about this shape, if neither supply nor shares changed since."""
        self._know_supply(world)
        found = self.asks.rows.item(s, ASK.SUPPLY)
        return None if found == UNKNOWN else Cause(found)

    def remember_supply(self, world: World, s: int, cause: Cause) -> None:
        """Keep what supply says about this shape."""
        self._know_supply(world)
        self.asks.rows[s, ASK.SUPPLY] = cause

    def _know_supply(self, world: World) -> None:
        rows, stamp = self.rows(world), _supply_stamp(world)
        if stamp != self._supply_at:
            rows[:, ASK.SUPPLY] = UNKNOWN
            self._supply_at = stamp

    def _look_again(self, world: World) -> None:
        """Note what the nodes that changed since the last look have free."""
        before, position = self._read
        nodes = world.changes.since(position) if world is before else None
        if nodes is None or nodes:
            self.look += 1
            self.changed = None if nodes is None else _most_free(world, nodes)
        self._read = (world, world.changes.end)


def _supply_stamp(world: World) -> Stamp:
    return (world.supply_changes, world.share_changes)


def _lasting_stamp(world: World) -> Stamp:
    return (*_supply_stamp(world), world.lasting_changes)


def _most_free(world: World, nodes: list[int]) -> dict[int, int] | None:
    """By kind, the most that any of these nodes has free; None: too many to look at."""
    if len(nodes) > CHANGED_AT_MOST:
        return None
    most: dict[int, int] = {}
    table = world.nodes
    for n in nodes:
        if table.state.item(n) == _READY and not table.is_spare.item(n):
            k, free = table.kind.item(n), table.free_milli.item(n)
            most[k] = max(free, most.get(k, 0))
    return most


def _evictors(world: World) -> I64:
    """For each shape: whether it is under a floor, or others of its team have less priority."""
    count = len(world.shape_rows)
    queues, priorities = world.shapes.queue[:count], world.shapes.priority[:count]
    lowest = np.full(len(world.queue_rows), FOREVER_MS, np.int64)
    np.minimum.at(lowest, queues, priorities)
    has_floor = np.any(world.floor > 0, axis=1)
    under_floor = np.array([bool(has_floor[list(path)].any()) for path in world.tree.paths], bool)
    found: I64 = (under_floor[queues] | (priorities > lowest[queues])).astype(np.int64)
    return found
