"""The tree of queues: who is above whom, and what each is sure of with everything below it.

Rows say what people wrote; ``grown`` reads the shape of the tree off them, ``amounts`` the numbers
that every check uses. A queue is sure of its floor, and of at least what the queues below it are
sure of together. It may use that and as much more as it may borrow, within its limit. What it does
not lend of its floor it keeps back.
"""

from collections.abc import Mapping, Sequence
from operator import add
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Queue
from tidemill.model.tables import I64

MAX_DEPTH = 32  # company, division, group, project, person: five; no tree people keep has 32


class Tree(NamedTuple):
    """The shape of the tree; without parents every queue is a path of its own."""

    paths: tuple[tuple[int, ...], ...] = ()
    """Each queue and everything above it, itself first."""
    upward: tuple[int, ...] = ()
    """All queues, those below before those above."""
    weights: tuple[int, ...] = ()
    is_leaf: tuple[bool, ...] = ()
    depth: int = 0
    keeps: bool = False
    """Whether any queue keeps something back."""


class Amounts(NamedTuple):
    """By queue and kind, in milli."""

    floor: I64
    """What a queue and everything below it are sure of."""
    limit: I64
    """What they may use together: the limit, or the floor and what may be borrowed."""
    guard: I64
    """What of the floor is lent to nobody outside."""


def grown(rows: Sequence[Queue], number: Mapping[str, int]) -> Tree:
    """The tree that rows describe; every parent must be known and no path a ring."""
    parents = [number[row.parent] if row.parent else -1 for row in rows]
    paths = tuple(_path(parents, q) for q in range(len(rows)))
    inner = set(parents)
    return Tree(
        paths,
        tuple(sorted(range(len(rows)), key=lambda q: (-len(paths[q]), q))),
        tuple(row.weight for row in rows),
        tuple(q not in inner for q in range(len(rows))),
        max(map(len, paths), default=0),
        any(share.lend_milli < FOREVER_MS for row in rows for share in row.shares),
    )


def amounts(rows: Sequence[Queue], tree: Tree, kind_number: Mapping[str, int]) -> Amounts:
    """What the queues are sure of, may use and keep, from the leaves up."""
    kinds = range(len(kind_number))
    floor, guard = [[0 for _ in kinds] for _ in rows], [[0 for _ in kinds] for _ in rows]
    limit = [[FOREVER_MS for _ in kinds] for _ in rows]
    for q in tree.upward:  # a floor holds the sum of those below until its own turn comes
        for share in rows[q].shares:
            k = kind_number[share.kind]
            sure = floor[q][k] = max(share.floor_milli, floor[q][k])
            limit[q][k] = min(share.limit_milli, sure + share.borrow_milli)
            guard[q][k] = max(0, sure - share.lend_milli)
        if len(tree.paths[q]) > 1:
            above = floor[tree.paths[q][1]]
            above[:] = map(add, above, floor[q])
    shape = (len(rows), len(kind_number))
    return Amounts(*(np.array(one, np.int64).reshape(shape) for one in (floor, limit, guard)))


def summed(tree: Tree, used: I64) -> I64:
    """The use of every queue with everything below it, from that of the leaves."""
    sums = used.copy()
    if not sums.any():
        return sums
    sums[[not leaf for leaf in tree.is_leaf]] = 0
    for q in tree.upward:
        if len(tree.paths[q]) > 1:
            sums[tree.paths[q][1]] += sums[q]
    return sums


def kept(tree: Tree, guard: I64, used: I64) -> tuple[I64, I64]:
    """What the queues below each keep back of what is free, and what all together do, by kind."""
    below, total = np.zeros_like(used), np.zeros(used.shape[1], np.int64)
    for q in tree.upward:
        own = np.maximum(guard[q] - used[q], below[q])
        if len(tree.paths[q]) > 1:
            below[tree.paths[q][1]] += own
        else:
            total += own
    return below, total


def _path(parents: Sequence[int], q: int) -> tuple[int, ...]:
    path = [q]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return tuple(path)
