"""Known: what does not change about a shape until there are new groups of nodes; who is like it."""

from typing import NamedTuple

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import Options

Sharing = tuple[int, bytes]
"""A kind, and the groups of it that may be used."""


Like = tuple[int, int]
"""The number of a request, and the queue that asks for it where quotas bound anybody."""


class Likes:
    """Which shapes ask for the same: they differ in whose they are, and who goes first."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of: list[int] = []
        self._column: I64 = np.zeros(0, np.int64)
        """The same, as far as somebody asked for all."""
        self._bounds: tuple[tuple[int, ...], bool] = ((), True)

    def of(self, world: World, s: int) -> Like:
        """What the like of a shape have in common: what nodes and quotas mean to them."""
        if len(self._of) > len(world.shape_rows):
            self._of.clear()
            self._column = self._column[:0]
        for shape in world.shape_rows[len(self._of) :]:
            asked = (shape.roles, shape.bonds, shape.parallelism, shape.speedup)
            self._of.append(self._numbers.setdefault(asked, len(self._numbers)))
        return self._of[s], world.shapes.queue.item(s) if self._is_bounded(world) else -1

    def all(self, world: World, s: int) -> I64:
        """The shapes that are like one."""
        number, q = self.of(world, s)
        if len(self._column) != len(self._of):
            self._column = np.array(self._of, np.int64)
        is_like = self._column == number
        if q >= 0:
            is_like &= world.shapes.queue[: len(is_like)] == q
        return np.flatnonzero(is_like)

    def _is_bounded(self, world: World) -> bool:
        """Whether any queue has a maximum quota, or keeps something back."""
        stamp = (world.share_changes, len(world.queue_rows), len(world.kinds))
        if self._bounds[0] != stamp:
            has_limits = bool((world.limit < FOREVER_MS).any())
            self._bounds = (stamp, has_limits or bool(world.tree.keeps))
        return self._bounds[1]


class Known(NamedTuple):
    """The kinds and groups that a shape may use, and whose it is."""

    options: Options
    kinds: tuple[int, ...]
    queue: int
    priority: int


def know(world: World, s: int, shared: dict[Sharing, Option] | None = None) -> Known:
    """Look at a shape for the first time.

    Options of the same groups are one object, whosoever they are: ``shared`` holds those there are,
    and what is known of nodes for one request is known for all like it.
    """
    roles, shared = world.shape_rows[s].roles, {} if shared is None else shared
    options = tuple(
        tuple(shared.setdefault((option.kind, option.is_ok.tobytes()), option) for option in found)
        for found in (
            eligibility.options(world, role)
            if role.accelerators
            else (eligibility.anywhere(world, role),)
            for role in roles
        )
    )
    kinds = {option.kind for role in options for option in role}
    if -1 in kinds:
        kinds = set(range(len(world.kinds)))
    q, priority = int(world.shapes.queue[s]), int(world.shapes.priority[s])
    return Known(options, tuple(sorted(kinds)), q, priority)
