"""Lines: the waiting jobs of each shape in the policy's own order, kept so that nobody sorts them.

Jobs of one shape are alike to ``fit`` but not to an order that reads run times. While a job waits,
its rank does not change; so a line is a heap to which new jobs are added, and a job that has gone
is dropped when it comes up. A line is made anew from the World when a job of the shape came back,
or when history says something else of it. A second heap knows who loses patience next.
"""

import heapq

from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import order
from tidemill.scheduling.estimates import Estimates

_WAITING = int(JobState.WAITING)


class PendingQueues:
    """One per memo and policy. A cycle begins with ``begin``; what it takes comes back then."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.estimates = Estimates(policy)
        self._is_by_shape = policy.order in BY_SHAPE
        self._lines: dict[int, _Line] = {}
        self._taken: dict[int, int] = {}
        self._next: dict[int, int] = {}
        """By shape: who is next after those that were taken, where the oldest is the first."""

    def begin(self, world: World) -> None:
        """A new cycle: nobody has been taken out of a line yet."""
        if not self._is_by_shape:
            for s in self._taken:
                self._lines[s].put_back(world)
        self._taken.clear()
        self._next.clear()

    def head(self, world: World, s: int) -> order.Head:
        """Who is next in the line of a shape; there must be somebody."""
        if self._is_by_shape:
            j = self._next.get(s)
            if j is None:
                j = world.shapes.head.item(s)
            return order.place_of(world, self.policy, self.estimates, j), j
        return self._line(world, s).head(world)

    def take(self, world: World, s: int) -> bool:
        """Take the head out for the rest of this cycle; return whether somebody is left."""
        self._taken[s] = self._taken.get(s, 0) + 1
        if self._is_by_shape:
            self._next[s] = world.next_waiting(self._next.get(s, world.shapes.head.item(s)))
        else:
            self._line(world, s).take(world)
        return self._taken[s] < len(world.waiting[s])

    def first_to_lose_patience_ms(self, world: World, s: int) -> int:
        """When the first of a line loses (or lost) patience."""
        if self._is_by_shape:
            return order.loses_patience_at_ms(world, self.policy, world.shapes.head.item(s))
        return self._line(world, s).first_to_lose_patience_ms(world)

    def _line(self, world: World, s: int) -> "_Line":
        line, stamp = self._lines.get(s), (world.returns.item(s), self.estimates.news(world))
        if line is None or line.stamp != stamp:
            taken = line.taken if line is not None else set[int]()
            line = self._lines[s] = _Line(self.policy, self.estimates, stamp)
            line.taken = taken
        line.add_new(world, s)
        return line


class _Line:
    """The waiting jobs of one shape."""

    def __init__(self, policy: Policy, estimates: Estimates, stamp: tuple[int, int]) -> None:
        self._policy, self._estimates = policy, estimates
        self.stamp = stamp
        """How many had come back to wait, and what history had said."""
        self.taken: set[int] = set()
        self._by_rank: list[tuple[int, int]] = []
        self._by_patience: list[tuple[int, int]] = []
        self._known = 0

    def add_new(self, world: World, s: int) -> None:
        if self._known == world.job_count:
            return
        for j in reversed(world.waiting[s]):
            if j < self._known:
                break
            self._push(world, j)
        self._known = world.job_count

    def head(self, world: World) -> order.Head:
        lost_at_ms, j = self._top(world, self._by_patience)
        if lost_at_ms <= world.now_ms:
            return (0, lost_at_ms), j
        rank, j = self._top(world, self._by_rank)
        return (1, rank), j

    def take(self, world: World) -> None:
        self.taken.add(self.head(world)[1])

    def put_back(self, world: World) -> None:
        """Whoever was taken and still waits is in line again."""
        for j in self.taken:
            if world.jobs.state.item(j) == _WAITING:
                self._push(world, j)
        self.taken.clear()

    def first_to_lose_patience_ms(self, world: World) -> int:
        return self._top(world, self._by_patience)[0]

    def _push(self, world: World, j: int) -> None:
        rank = order.rank(world, self._policy, self._estimates, j, 0)
        heapq.heappush(self._by_rank, (rank, j))
        lost_at_ms = order.loses_patience_at_ms(world, self._policy, j)
        heapq.heappush(self._by_patience, (lost_at_ms, j))

    def _top(self, world: World, heap: list[tuple[int, int]]) -> tuple[int, int]:
        while world.jobs.state.item(heap[0][1]) != _WAITING or heap[0][1] in self.taken:
            heapq.heappop(heap)
        return heap[0]
