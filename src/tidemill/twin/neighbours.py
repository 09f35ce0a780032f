"""Neighbours: how much the twin slows jobs that hold parts of one device.

Off unless jobs state their demand. A gang is as slow as its slowest replica; a neighbour counts
while it runs, for the share of the time in which it is busy. Jobs that stated nothing slow nobody
and are not slowed: that is not known, and within other buckets of the ledger.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from tidemill.model import events as ev
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Demand
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.units.sharing import fluid

Sharing = Literal["time-slice", "mps", "mig", "exclusive"]
Seat = tuple[int, int]
"""A node and one of its devices."""
Seated = Mapping[int, list[int]]
"""Jobs by device of one node."""

_RUNNING = int(JobState.RUNNING)
_OVER = frozenset(int(state) for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED))


class Neighbours:
    """The jobs that stated a demand and are not over, and what each costs the others."""

    def __init__(self, sharing: Sharing) -> None:
        self._is_sliced = sharing == "time-slice"
        self._demands: dict[int, Demand] = {}
        self._nodes: set[int] = set()
        """Nodes on which somebody came, went or fell idle since the last look."""
        self._is_everywhere = False
        """Whether nodes themselves changed: then all are looked at."""
        self._ending: list[int] = []

    def came(self, j: int, demand: Demand) -> None:
        """A job stated what it uses of a device."""
        self._demands[j] = demand

    @property
    def are_any(self) -> bool:
        """Whether such a job waits or runs."""
        return bool(self._demands)

    def note(self, world: World, seen: Iterable[ev.Seen]) -> None:
        """Remember where neighbours may change by what is about to be folded."""
        if not self._demands:
            return
        for event in seen:
            match event:
                case ev.JobFinished(job=j) | ev.JobFailed(job=j) | ev.JobCancelled(job=j):
                    self._note_job(world, j)
                    self._ending.append(j)
                case ev.JobStarted(job=j) | ev.JobEvicted(job=j) | ev.JobMoved(job=j):
                    self._note_job(world, j)
                case ev.ActivitySeen(job=j):
                    self._note_job(world, j)
                case ev.NodeMoved() | ev.DeviceFailed() | ev.ContractEnded():
                    self._is_everywhere = True
                case _:
                    pass

    def changes(self, world: World) -> list[ev.PaceSeen]:
        """What is to be told now: jobs whose pace is not what their neighbours make it."""
        self._forget(world)
        if not self._demands or not (self._nodes or self._is_everywhere):
            return []
        some = range(world.node_count) if self._is_everywhere else sorted(self._nodes)
        self._nodes, self._is_everywhere = set(), False
        seated: dict[int, Seated] = {}
        told: list[ev.PaceSeen] = []
        for j in sorted({j for n in some for j in self._at_work(world, n)}):
            paces = world.paces.get(j)
            now_ppm, beside_ppm = paces[-1][1] if paces else 0, self._slow_ppm(world, j, seated)
            if beside_ppm != now_ppm:
                attempt = world.jobs.attempt.item(j)
                told.append(ev.PaceSeen(world.now_ms, j, attempt, beside_ppm))
        return told

    def _note_job(self, world: World, j: int) -> None:
        if j in self._demands:
            self._nodes.update(piece.node for piece in world.placements.get(j, ()))
            if j in world.moving:
                self._nodes.update(piece.node for piece in world.moving[j].gained)

    def _forget(self, world: World) -> None:
        for j in self._ending:
            if world.jobs.state.item(j) in _OVER:
                self._demands.pop(j, None)
        self._ending.clear()

    def _at_work(self, world: World, n: int) -> Iterator[int]:
        """Running jobs on a node that stated a demand."""
        state = world.jobs.state
        return (j for j in world.aboard[n] if j in self._demands and state.item(j) == _RUNNING)

    def _slow_ppm(self, world: World, j: int, seated: dict[int, Seated]) -> int:
        """By how much a job is slowed: by the worst of its seats."""
        worst = 0
        for n, d in _seats(world, j):
            if n not in seated:
                seated[n] = self._seated(world, n)
            others = list(seated[n][d])
            others.remove(j)  # itself once; another replica of it on the same device counts
            demands = [_at_present(self._demands, world, other) for other in others]
            worst = max(worst, fluid.slow_ppm(self._demands[j], demands, self._is_sliced))
        return worst

    def _seated(self, world: World, n: int) -> Seated:
        """Who sits on which device of a node, once for each replica."""
        seats: defaultdict[int, list[int]] = defaultdict(list)
        for j in sorted(self._at_work(world, n)):
            for at, d in _seats(world, j):
                if at == n:
                    seats[d].append(j)
        return seats


def _at_present(demands: Mapping[int, Demand], world: World, j: int) -> Demand:
    """What a job uses now, on average: nothing while it is idle."""
    busy_ppm, demand = world.jobs.busy_ppm.item(j), demands[j]
    if busy_ppm == ONE_PPM:
        return demand
    return Demand(
        compute_ppm=demand.compute_ppm * busy_ppm // ONE_PPM,
        bandwidth_ppm=demand.bandwidth_ppm * busy_ppm // ONE_PPM,
    )


def _seats(world: World, j: int) -> Iterator[Seat]:
    """Devices of which a job holds a part, once for each replica; MIG instances have walls."""
    roles = world.shape_of(j).roles
    for piece in world.placements[j]:
        role = roles[piece.role]
        if role.milli < WHOLE_MILLI and not role.profile:
            devices, d = piece.devices, 0
            while devices:
                if devices & 1:
                    yield piece.node, d
                devices, d = devices >> 1, d + 1
