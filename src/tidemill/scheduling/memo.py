"""Memo: what the scheduler remembers between cycles, so that a cycle costs what changed.

Forgetting it changes no placement and no eviction, only their cost: a shape that did not fit cannot
fit before something it needs was freed. (The cause that was said for it may be older than now. And
where a policy bounds the search for victims, who remembers that one was in vain has one more.)
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from tidemill.model.reasons import Cause
from tidemill.model.states import JobClass
from tidemill.model.world import World
from tidemill.scheduling import eligible
from tidemill.scheduling.fit import Options
from tidemill.scheduling.room import Room

Stamp = tuple[int, ...]


class Known(NamedTuple):
    """What does not change about a shape until there are new groups of nodes."""

    options: Options
    kinds: tuple[int, ...]
    queue: int
    priority: int


class Memo:
    """One per loop; may be dropped at any time."""

    def __init__(self, loops: ModuleType | None = None) -> None:
        self._loops = loops
        self._known: dict[int, Known] = {}
        self._groups = -1
        self._failed: dict[int, tuple[Stamp, Cause]] = {}
        self._supply: dict[int, tuple[Stamp, Cause]] = {}
        self._room: Room | None = None
        self._empty: tuple[Stamp, Room] | None = None
        self._lasting: tuple[Stamp, Room] | None = None
        self._outlasted: dict[int, bool] = {}
        self._seen: Stamp = ()
        self._decided_ms = 0
        self._evictors: list[bool] = []
        self._evictors_at: Stamp = ()
        self._watches = False
        self._owed: dict[int, None] = {}
        self._doubted: set[int] = set()

    def room(self, world: World) -> Room:
        """A scratch copy of what is free now."""
        if self._room is None:
            self._room = Room(world, self._loops)
        else:
            self._room.refresh(world)
        return self._room

    def empty_room(self, world: World) -> Room:
        """A scratch copy in which nothing runs; the same one until supply or shares change."""
        stamp = _supply_stamp(world)
        if self._empty is None or self._empty[0] != stamp:
            room = Room(world, self._loops)
            room.empty()
            self._empty = (stamp, room)
        return self._empty[1]

    def lasting_room(self, world: World) -> Room:
        """A scratch copy in which only services run: what is left when all that ends has ended."""
        stamp = (*_supply_stamp(world), world.lasting_changes)
        if self._lasting is None or self._lasting[0] != stamp:
            room = Room(world, self._loops)
            room.empty()
            for s, jobs in enumerate(world.active):
                shape = world.shape_rows[s]
                if shape.kind is JobClass.INFERENCE:
                    for j in jobs:
                        room.take(shape, world.placements[j])
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
        if self._groups != len(world.groups):
            self._known.clear()
            self._groups = len(world.groups)
        known = self._known.get(s)
        if known is None:
            known = self._known[s] = _know(world, s)
        return known

    def nothing_changed(self, world: World) -> bool:
        """Whether nothing that a decision depends on happened since the last call."""
        stamp = (
            world.job_count,
            world.supply_changes,
            sum(world.kind_freed),
            sum(world.queue_freed),
            sum(world.kind_taken) if self._watches else 0,
        )
        same, self._seen = stamp == self._seen, stamp
        return same and not self._owed and not self._doubted

    def patience_was_lost(self, world: World, patience_ms: int) -> bool:
        """Whether someone lost patience since the last cycle: others may now be held otherwise."""
        oldest = (world.jobs.since_ms.item(world.waiting[s][0]) for s in world.queued)
        return any(self._decided_ms < since + patience_ms <= world.now_ms for since in oldest)

    def watch(self, world: World) -> None:
        """At the end of a cycle: whether someone waits who may gain by what others take."""
        self._watches = any(self._heeds_taken(world, s) for s in world.queued)
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

    def failure(self, world: World, s: int) -> Cause | None:
        """Why the shape did not fit, if nothing that it needs was freed since."""
        found = self._failed.get(s)
        return found[1] if found and found[0] == self._stamp(world, s) else None

    def remember_failure(self, world: World, s: int, cause: Cause) -> None:
        """Do not try this shape again before something that it needs was freed."""
        if s in self._doubted:
            return
        self._failed[s] = (self._stamp(world, s), cause)

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
        known, total = self.known(world, s), 0
        for k in known.kinds:
            total += world.kind_freed[k]
        if self._heeds_taken(world, s):
            total += sum(world.kind_taken)
        return (total, world.queue_freed[known.queue], world.supply_changes)

    def _heeds_taken(self, world: World, s: int) -> bool:
        """Whether a shape may gain by what others take.

        There are new victims, old ones cannot move any more, or its roles settle elsewhere than
        they did in vain.
        """
        return self.may_evict(world, s) or len(world.shape_rows[s].roles) > 1


def _supply_stamp(world: World) -> Stamp:
    return (world.supply_changes, world.share_changes)


def _know(world: World, s: int) -> Known:
    roles = world.shape_rows[s].roles
    options = tuple(
        eligible.options(world, role) if role.accelerators else (eligible.anywhere(world, role),)
        for role in roles
    )
    kinds = {option.kind for role in options for option in role}
    if -1 in kinds:
        kinds = set(range(len(world.kinds)))
    q, priority = int(world.shapes.queue[s]), int(world.shapes.priority[s])
    return Known(options, tuple(sorted(kinds)), q, priority)


def _evictors(world: World) -> list[bool]:
    """For each shape: whether its team has a floor, or others of its team a lower priority."""
    count = len(world.shape_rows)
    queues, priorities = world.shapes.queue[:count].tolist(), world.shapes.priority[:count].tolist()
    lowest: dict[int, int] = {}
    for q, priority in zip(queues, priorities, strict=True):
        lowest[q] = min(priority, lowest.get(q, priority))
    has_floor: list[bool] = np.any(world.floor > 0, axis=1).tolist()
    return [
        has_floor[q] or priority > lowest[q] for q, priority in zip(queues, priorities, strict=True)
    ]
