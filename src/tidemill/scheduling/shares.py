"""Shares: what a queue is sure of, what it borrows, what it may never exceed. Per kind.

Queues form a tree, and every rule holds at every level of it: what a queue uses counts for all that
is above it. A placement is *entitled* at a level when it stays within the floor there, and
*borrowed* above it. Whoever is entitled goes before whoever borrows, and may take borrowed room
back (reclaim): the contest between two jobs is that of the two branches where their paths part. A
queue may keep a part of its floor from being lent; nothing is placed that would touch it.

Every question costs the depth of the tree. Without parents each path is the queue itself.
"""

from collections.abc import Iterable, Set
from typing import NamedTuple, Protocol

import numpy as np

from tidemill.model.tables import I64
from tidemill.model.tree import kept
from tidemill.model.world import World
from tidemill.scheduling.desk import order


class Books(Protocol):
    """What queues use, and what they keep back of what is free."""

    @property
    def used(self) -> I64:
        """By queue and kind; with all that is below it."""

    @property
    def below(self) -> I64:
        """What the queues below each one keep back."""

    @property
    def kind_kept(self) -> I64:
        """What all queues together keep back, by kind."""


def within_limit(world: World, used: I64, q: int, k: int, milli: int) -> bool:
    """Whether the queue, and all that is above it, may use this much more of the kind."""
    limit = world.limit
    return all(used[a, k] + milli <= limit[a, k] for a in world.tree.paths[q])


def binding(world: World, used: I64, q: int, k: int, milli: int) -> int:
    """The highest queue whose limit keeps this much out; -1: none."""
    limit = world.limit
    over = [a for a in world.tree.paths[q] if used[a, k] + milli > limit[a, k]]
    return over[-1] if over else -1


def limits_on(world: World, used: I64, s: int, kinds: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The (queue, kind) whose limits keep a shape out; where none does on a kind, its own queue."""
    q, need = world.shapes.queue.item(s), max(r.total_milli for r in world.shape_rows[s].roles)
    found = ((binding(world, used, q, k, need), k) for k in kinds)
    return frozenset((q if a < 0 else a, k) for a, k in found)


def are_under(world: World, q: int, kinds: Iterable[int], limits: Set[tuple[int, int]]) -> bool:
    """Whether a queue's use of some of these kinds counts under one of these (queue, kind)."""
    return any((a, k) in limits for a in world.tree.paths[q] for k in kinds)


def most_milli(world: World, q: int, k: int) -> tuple[int, int]:
    """The most that a queue may ever use of a kind by limits alone, and whose limit that is."""
    return min((int(world.limit[a, k]), a) for a in world.tree.paths[q])


def leaves_kept(world: World, books: Books, free: int, q: int, k: int, milli: int) -> bool:
    """Whether placing this much leaves free what other queues keep back of their floors.

    Where less is free than is kept (nodes broke), it must come out of what is kept for it.
    """
    if not world.tree.keeps:
        return True
    kept = int(books.kind_kept[k])
    return kept_after(world, books, q, k, milli) + milli <= max(free, kept)


def allow(world: World, books: Books, free: int, q: int, k: int, milli: int) -> bool:
    """Whether maximum quotas, and what others keep back, leave a queue this much more."""
    is_within = within_limit(world, books.used, q, k, milli)
    return is_within and leaves_kept(world, books, free, q, k, milli)


def kept_after(world: World, books: Books, q: int, k: int, milli: int) -> int:
    """What would be kept back of a kind if the queue used this much more of it."""
    change, guard, used, below = 0, world.guard, books.used, books.below
    for a in world.tree.paths[q]:
        need, under = int(guard[a, k] - used[a, k]), int(below[a, k])
        change = max(need - milli, under + change) - max(need, under)
    return int(books.kind_kept[k]) + change


class Idle(NamedTuple):
    """The books of a World in which nothing runs."""

    used: I64
    below: I64
    kind_kept: I64


def when_idle(world: World) -> Idle:
    """What would be kept back if nobody used anything."""
    nothing = np.zeros_like(world.used)
    return Idle(nothing, *kept(world.tree, world.guard, nothing))


# Rights ---------------------------------------------------------------------------------------


def standing(world: World, used: I64, q: int, kinds: tuple[int, ...]) -> int:
    """The rank of a queue by its floors, as the kernels of the cycle say: smaller goes first."""
    w, types = world.matrices, np.array(kinds, np.int64)
    found: int = order.standing(
        w.queues, w.quotas, np.ascontiguousarray(used), types, 0, len(kinds), q, world.tree.depth
    )
    return found
