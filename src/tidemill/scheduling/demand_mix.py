"""The mix: what has been asked for so far, as a few requests and how often each arrived.

One *ask* is what one replica wants of one node; one *size* is an ask and how many replicas make the
gang. Every role that asks for accelerators counts once an arrival of its job; MIG instances do not,
their room is counted by the profile (``slices.survey``). The table is bounded: when it is full,
asks that differ only in CPU and memory are counted with the first of their kind.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model import paging
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.node_rules import NodeRules
from tidemill.model.rows import OF, Role, Shape
from tidemill.model.tables import I64
from tidemill.model.world import World

ASKS_AT_MOST = 64  # a node that changed is asked about each: half a microsecond
SIZES_AT_MOST = 512


class Ask(NamedTuple):
    """What one replica wants of one node."""

    accelerators: int
    milli: int
    cpu_milli: int
    memory_mib: int
    kinds: tuple[str, ...]
    rules: NodeRules

    @property
    def replica_milli(self) -> int:
        """Accelerator-milli of one replica."""
        return self.accelerators * self.milli

    def may_have(self, kind: str) -> bool:
        """Whether it may be on a GPU type: a share of a GPU is none of what is a part already."""
        if not self.kinds:
            return self.milli == WHOLE_MILLI or OF not in kind
        return kind in self.kinds

    def may_use(self, world: World, k: int) -> bool:
        """Whether it may be on a GPU type, and some nodes of it have the labels that it selects:
        who selects another instance type asks for none of these.
        """
        return self.may_have(world.kinds[k]) and any(
            group.kind == k and self.rules.allow(group.labels) for group in world.groups
        )

    @property
    def replica(self) -> tuple[int, int, int, int]:
        """Its amounts alone."""
        return self.accelerators, self.milli, self.cpu_milli, self.memory_mib

    @property
    def per_node(self) -> tuple[int, int]:
        """Only its accelerators: whole ones, or thousandths of one."""
        return self.accelerators, self.milli


class Size(NamedTuple):
    """A gang: which ask, and how many replicas of it (an elastic one: the fewest)."""

    ask: int
    replicas: int


class Mix:
    """Asks, sizes and arrivals of everything submitted to one World; grows with it."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.sizes: list[Size] = []
        self.arrivals: I64 = np.zeros(SIZES_AT_MOST, np.int64)
        self.left_out = 0
        """Roles of arrivals for which the table had no place."""
        self._ask_number: dict[Ask, int] = {}
        self._plain_number: dict[Ask, int] = {}
        self._size_number: dict[Size, int] = {}
        self._sizes_of: list[tuple[int, ...]] = []
        self._jobs = 0

    def update(self, world: World) -> None:
        """Count the jobs submitted since the last look."""
        for shape in world.shape_rows[len(self._sizes_of) :]:
            self._sizes_of.append(self._sizes(shape))
        shapes = paging.column(world.jobs.shape[self._jobs :], world.job_count - self._jobs)
        if len(shapes) == 1:
            self._count(int(shapes[0]), 1)
        else:
            for s, jobs in enumerate(np.bincount(shapes).tolist()):
                if jobs:
                    self._count(s, jobs)
        self._jobs = world.job_count

    def _count(self, s: int, jobs: int) -> None:
        for i in self._sizes_of[s]:
            if i < 0:
                self.left_out += jobs
            else:
                self.arrivals[i] += jobs

    def _sizes(self, shape: Shape) -> tuple[int, ...]:
        return tuple(
            self.size_of(role) for role in shape.roles if role.accelerators and not role.profile
        )

    def size_of(self, role: Role) -> int:
        """The number of a role's size, a new one if it is new; -1: the table has no place."""
        size = Size(self._ask(role), role.fewest)
        known = self._size_number.get(size)
        if known is None:
            if size.ask < 0 or len(self.sizes) == SIZES_AT_MOST:
                return -1
            known = self._size_number[size] = len(self.sizes)
            self.sizes.append(size)
        return known

    def _ask(self, role: Role) -> int:
        ask = Ask(
            role.accelerators, role.milli, role.cpu_milli, role.memory_mib, role.kinds, role.rules
        )
        known = self._ask_number.get(ask)
        if known is not None:
            return known
        plain = ask._replace(cpu_milli=0, memory_mib=0)
        if len(self.asks) == ASKS_AT_MOST:
            return self._plain_number.get(plain, -1)
        number = self._ask_number[ask] = len(self.asks)
        self._plain_number.setdefault(plain, number)
        self.asks.append(ask)
        return number
