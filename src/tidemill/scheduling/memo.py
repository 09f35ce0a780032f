"""Memo: what the scheduler remembers between cycles, so that a cycle costs what changed.

Forgetting it changes no placement and no eviction, only their cost: a shape that did not fit cannot
fit before something it needs was freed, and not before a node that changed could host one replica
of it. (The cause that was said may be older than now. And where a policy bounds
the search for victims, who remembers that one was in vain has one more.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobClass, NodeState
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.fit import redo
from tidemill.scheduling.known import Known, know
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


@dataclass(slots=True)
class Failure:
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
        self._known_at: Stamp = ()
        self._failed: dict[int, Failure] = {}
        self._causes: dict[int, Cause | None] = {}
        self._causes_at: Stamp = ()
        self.limited: set[int] = set()
        """Shapes that limits or floors kept off a kind when they did not fit."""
        self._look = 0
        self._changed: dict[int, int] | None = None
        self._read: tuple[World | None, int] = (None, 0)
        self._supply: dict[int, tuple[Stamp, Cause]] = {}
        self._room: Room | None = None
        self._empty: tuple[Stamp, Room] | None = None
        self._lasting: tuple[Stamp, Room] | None = None
        self._outlasted: dict[int, bool] = {}
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
        self._evictors: list[bool] = []
        self._evictors_at: Stamp = ()
        self.watches = self._drifts = False
        self._scoring = scoring.PACKING
        self._scoring_at: tuple[Stamp, Policy] | None = None
        self._owed: dict[int, None] = {}
        self._doubted: set[int] = set()
        self._heeding: set[int] = set()
        self._again_ms: dict[int, int] = {}
        """By shape: when a search for room that was in vain may find some by time alone."""
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
        stamp = (*_supply_stamp(world), world.lasting_changes)
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
            self._outlasted.clear()
        return self._lasting[1]

    def outlasts(self, world: World, s: int) -> bool | None:
        """Whether a shape fits beside the services of now; None: not asked yet."""
        self.lasting_room(world)
        return self._outlasted.get(s)

    def remember_outlasts(self, s: int, fits: bool) -> None:
        """Keep whether a shape fits beside the services, until they change."""
        self._outlasted[s] = fits

    def known(self, world: World, s: int) -> Known:
        """The kinds and groups that a shape may use."""
        stamp = (len(world.groups), world.contract_count)
        if self._known_at != stamp:
            self._known.clear()
            self._known_at = stamp
        known = self._known.get(s)
        if known is None:
            known = self._known[s] = know(world, s)
        return known

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
        return same and not self._owed and not self._doubted and not self._drifts

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
        self.watches = is_fair or any(self._heeds_taken(world, s) for s in world.queued)
        self._drifts = is_fair and is_holding and policy.usage_half_life_ms > 0
        self._decided_ms = world.now_ms

    def searches_due(self, world: World, at_most: int) -> set[int]:
        """Who went without a search for victims before, longest ago first; a cycle begins."""
        due = [s for s in self._owed if s in world.queued][:at_most]
        self._owed = {s: None for s in self._owed if s in world.queued and s not in due}
        self._doubted.clear()
        return set(due)

    def owe_search(self, s: int) -> None:
        """A shape went without a search in this cycle."""
        self._owed[s] = None

    def doubt(self, s: int) -> None:
        """What a search said about a shape may change with time alone: ask again."""
        self._doubted.add(s)

    def ask_again_at(self, s: int, at_ms: int) -> None:
        """A search may find more at this moment though nothing changed; FOREVER_MS: it may not.

        What this time is for the whole fleet, where it is planned anew, is kept under ``FLEET``.
        """
        if at_ms >= FOREVER_MS:
            self._again_ms.pop(s, None)
        else:
            self._again_ms[s] = at_ms

    def is_question_due(self, world: World) -> bool:
        """Whether a search is to be made again though nothing changed."""
        return any(at <= world.now_ms for at in self._questions(world))

    def next_question_ms(self, world: World) -> int:
        """When the next search is to be made again by time alone."""
        return min((at for at in self._questions(world) if at > world.now_ms), default=FOREVER_MS)

    def _questions(self, world: World) -> list[int]:
        return [at for s, at in self._again_ms.items() if s in world.queued or s == FLEET]

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
        self._heeding.add(s)

    def failure(self, world: World, s: int) -> Cause | None:
        """Why the shape did not fit, if nothing that it needs was freed since."""
        found = self._failed.get(s)
        if found is None or self._again_ms.get(s, FOREVER_MS) <= world.now_ms:
            return None
        stamp = self._stamp(world, s)
        if found.stamp != stamp and not self._is_still_hopeless(world, s, found, stamp):
            return None
        found.stamp, found.look = stamp, self._look
        return found.cause

    def failures_now(self, world: World) -> dict[int, Cause | None]:
        """Why each waiting shape did not fit; None: it may, or room was promised to it.

        Where nothing was freed since this was asked last, only those are looked at who could fit
        then, or are new.
        """
        stamp = (
            int(world.kind_freed.sum()), int(world.queue_freed.sum()), world.supply_changes,
            world.share_changes, int(world.kind_taken.sum()) if self.watches else -1,
        )  # fmt: skip
        known = self._causes if stamp == self._causes_at else {}
        found: dict[int, Cause | None] = {}
        for s in world.queued:
            is_due = self._again_ms.get(s, FOREVER_MS) <= world.now_ms
            cause = None if s in world.promised or is_due else known.get(s)
            if cause is not None:
                self._failed[s].look = self._look
            elif s not in world.promised:
                cause = self.failure(world, s)
            found[s] = cause
        self._causes, self._causes_at = found, stamp
        return found

    def remember_failure(self, world: World, s: int, cause: Cause) -> None:
        """Do not try this shape again before something that it needs was freed."""
        if s in self._doubted:
            return
        self._failed[s] = Failure(self._stamp(world, s), cause, self._look)

    def remember_limit(self, s: int, is_limited: bool) -> None:
        """Keep whether limits or floors kept the shape off a kind: what teams free may help it."""
        if is_limited:
            self.limited.add(s)
        else:
            self.limited.discard(s)

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
        return self._look, world.changes.since(position) if world is before else None

    def remember_look(self, world: World, look: int, *, is_whole: bool) -> None:
        """Looks were taken; what changes from now on was not looked at, or (not whole) more."""
        self._look, self._read = look, (world if is_whole else None, world.changes.end)

    def failures(self) -> Iterable[tuple[int, Failure]]:
        """The shapes that did not fit, with their stamps, causes and looks."""
        return self._failed.items()

    def recall_failure(self, s: int, stamp: Stamp, cause: Cause, look: int) -> None:
        """A shape did not fit when this was true, as was seen up to a look."""
        self._failed[s] = Failure(stamp, cause, look)

    def may_evict(self, world: World, s: int) -> bool:
        """Whether a shape could ever have a right to another's place: a floor, or a priority."""
        stamp = (len(world.shape_rows), world.share_changes)
        if stamp != self._evictors_at:
            self._evictors, self._evictors_at = _evictors(world), stamp
        return self._evictors[s]

    def supply_cause(self, world: World, s: int) -> Cause | None:
        """What supply said about this shape, if neither supply nor shares changed since."""
        found = self._supply.get(s)
        return found[1] if found and found[0] == _supply_stamp(world) else None

    def remember_supply(self, world: World, s: int, cause: Cause) -> None:
        """Keep what supply says about this shape."""
        self._supply[s] = (_supply_stamp(world), cause)

    def _stamp(self, world: World, s: int) -> Stamp:
        known, total, given_back = self.known(world, s), 0, 0
        for k in known.kinds:
            total += world.kind_freed.item(k)
        if self._heeds_taken(world, s):
            total += int(world.kind_taken.sum())
        for a in world.tree.paths[known.queue]:
            given_back += world.queue_freed.item(a)
        return (total, given_back, world.supply_changes)

    def _is_still_hopeless(self, world: World, s: int, found: Failure, stamp: Stamp) -> bool:
        """Whether all that was freed since the last look is too small for even one replica.

        Only for a shape that nodes alone kept out: no limit, no right to evict, one role, one kind.
        And only while its cause is sure to be the same: enough is free in all, or it is not, as
        before, and no limit has been reached meanwhile.
        """
        if self._changed is None or found.look < self._look - 1 or found.stamp[2] != stamp[2]:
            return False
        if found.cause not in NODES_KEPT_OUT or s in self.limited or self._heeds_taken(world, s):
            return False
        role, known = world.shape_rows[s].roles[0], self.known(world, s)
        if len(known.kinds) > 1:
            return False
        k, need = known.kinds[0], role.total_milli
        is_enough = world.kind_free_milli[k] >= need
        if is_enough != (found.cause is Cause.SCATTERED):
            return False
        is_small = self._changed.get(k, 0) < role.replica_milli
        return is_small and shares.within_limit(world, world.used, known.queue, k, need)

    def _look_again(self, world: World) -> None:
        """Note what the nodes that changed since the last look have free."""
        before, position = self._read
        nodes = world.changes.since(position) if world is before else None
        if nodes is None or nodes:
            self._look += 1
            self._changed = None if nodes is None else _most_free(world, nodes)
        self._read = (world, world.changes.end)

    def _heeds_taken(self, world: World, s: int) -> bool:
        """Whether a shape may gain by what others take.

        There are new victims, old ones cannot move any more, or its roles settle elsewhere than
        they did in vain.
        """
        if s in self._heeding or len(world.shape_rows[s].roles) > 1:
            return True
        return self.may_evict(world, s)


NODES_KEPT_OUT = frozenset({Cause.BUSY, Cause.SCATTERED})
"""Causes of a shape of which no node hosts a replica, or too few nodes do."""


def _supply_stamp(world: World) -> Stamp:
    return (world.supply_changes, world.share_changes)


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


def _evictors(world: World) -> list[bool]:
    """For each shape: whether it is under a floor, or others of its team have less priority."""
    count = len(world.shape_rows)
    queues, priorities = world.shapes.queue[:count].tolist(), world.shapes.priority[:count].tolist()
    lowest: dict[int, int] = {}
    for q, priority in zip(queues, priorities, strict=True):
        lowest[q] = min(priority, lowest.get(q, priority))
    has_floor: list[bool] = np.any(world.floor > 0, axis=1).tolist()
    under_floor = [any(has_floor[a] for a in path) for path in world.tree.paths]
    return [
        under_floor[q] or priority > lowest[q]
        for q, priority in zip(queues, priorities, strict=True)
    ]
