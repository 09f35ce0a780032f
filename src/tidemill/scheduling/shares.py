"""Shares: what a queue is sure of, what it borrows, what it may never exceed. Per kind.

Queues form a tree, and every rule holds at every level of it: what a queue uses counts for all that
is above it. A placement is *entitled* at a level when it stays within the floor there, and
*borrowed* above it. Whoever is entitled goes before whoever borrows, and may take borrowed room
back (reclaim): the contest between two jobs is that of the two branches where their paths part. A
queue may keep a part of its floor from being lent; nothing is placed that would touch it.

Every question costs the depth of the tree, and kernels answer it (``fitting.books``).
"""

from collections.abc import Iterable, Set
from typing import NamedTuple, Protocol

import numpy as np

from tidemill.model.tables import I64
from tidemill.model.tree import kept
from tidemill.model.world import World
from tidemill.scheduling.desk import order
from tidemill.scheduling.fitting import books as fitting


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


def within_limit(world: World, q: int, k: int, milli: int) -> bool:
    """Whether the queue, and all that is above it, may use this much more of the kind now."""
    w, used = world.matrices, np.ascontiguousarray(world.used)
    return not fitting.is_over_limit(w.queues, w.quotas, used, q, k, milli)


def limits_on(world: World, used: I64, s: int, kinds: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The (queue, kind) whose limits keep a shape out; where none does on a kind, its own queue."""
    q, need = world.shapes.queue.item(s), max(r.total_milli for r in world.shape_rows[s].roles)
    w, milli = world.matrices, np.ascontiguousarray(used)
    return frozenset((fitting.limit_on(w.queues, w.quotas, milli, q, k, need), k) for k in kinds)


def are_under(world: World, q: int, kinds: Iterable[int], limits: Set[tuple[int, int]]) -> bool:
    """Whether a queue's use of some of these kinds counts under one of these (queue, kind)."""
    return any((a, k) in limits for a in world.tree.paths[q] for k in kinds)


def most_milli(world: World, q: int, k: int) -> tuple[int, int]:
    """The most that a queue may ever use of a kind by limits alone, and whose limit that is."""
    return min((int(world.limit[a, k]), a) for a in world.tree.paths[q])


def allow(world: World, books: Books, free: I64, q: int, k: int, milli: int) -> bool:
    """Whether maximum quotas, and what others keep back, leave a queue this much more."""
    w = world.matrices
    is_barred: bool = fitting.is_barred(
        w.at, w.queues, w.quotas, *_columns(books), np.ascontiguousarray(free), q, k, milli
    )
    return not is_barred


def kept_after(world: World, books: Books, q: int, k: int, milli: int) -> int:
    """What would be kept back of a kind if the queue used this much more of it."""
    w = world.matrices
    found: int = fitting.kept_after(w.queues, w.quotas, *_columns(books), q, k, milli)
    return found


def _columns(books: Books) -> tuple[I64, I64, I64]:
    """Books as kernels take them: a column of the state's quotas is strided."""
    return (
        np.ascontiguousarray(books.used),
        np.ascontiguousarray(books.below),
        np.ascontiguousarray(books.kind_kept),
    )


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
