"""Neighbours: how much the twin slows jobs that hold parts of one device.

Off unless jobs state their demand. A gang is as slow as its slowest replica; a neighbour counts
while it runs, for the share of the time in which it is busy. Jobs that stated nothing slow nobody
and are not slowed: that is not known, and within other buckets of the ledger.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tidemill.model import events as ev
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Demand
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.units.sharing import fluid

Sharing = Literal["time-slice", "mps"]
Seat = tuple[int, int]
"""A node and one of its devices."""

_RUNNING = int(JobState.RUNNING)
_OVER = frozenset(int(state) for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED))


class Neighbours:
    """The jobs that stated a demand and are not over, and what each costs the others."""

    def __init__(self, sharing: Sharing) -> None:
        self._is_sliced = sharing == "time-slice"
        self._demands: dict[int, Demand] = {}

    def came(self, j: int, demand: Demand) -> None:
        """A job stated what it uses of a device."""
        self._demands[j] = demand

    def knows(self, j: int) -> bool:
        """Whether a job stated it."""
        return j in self._demands

    def are_any(self, world: World) -> bool:
        """Whether such a job waits or runs."""
        self._forget(world)
        return bool(self._demands)

    def changes(self, world: World) -> list[ev.PaceSeen]:
        """What is to be told now: jobs whose pace is not what their neighbours make it."""
        if not self._demands:
            return []
        self._forget(world)
        jobs = world.jobs
        wanted = self._paces(world)
        told: list[ev.PaceSeen] = []
        for j in self._running(world):
            paces = world.paces.get(j)
            now_ppm, beside_ppm = paces[-1][1] if paces else 0, wanted.get(j, 0)
            if beside_ppm != now_ppm:
                told.append(ev.PaceSeen(world.now_ms, j, jobs.attempt.item(j), beside_ppm))
        return told

    def _forget(self, world: World) -> None:
        state = world.jobs.state
        for j in [j for j in self._demands if j < world.job_count and state.item(j) in _OVER]:
            del self._demands[j]

    def _running(self, world: World) -> Iterator[int]:
        state = world.jobs.state
        return (j for j in self._demands if j < world.job_count and state.item(j) == _RUNNING)

    def _paces(self, world: World) -> dict[int, int]:
        """By how much each job is slowed: by its worst seat."""
        seats: defaultdict[Seat, list[int]] = defaultdict(list)
        for j in self._running(world):
            for seat in _seats(world, j):
                seats[seat].append(j)
        wanted: dict[int, int] = {}
        for sitting in seats.values():
            if len(sitting) > 1:
                self._slow(world, sitting, wanted)
        return wanted

    def _slow(self, world: World, sitting: Sequence[int], wanted: dict[int, int]) -> None:
        demands = [_at_present(self._demands, world, j) for j in sitting]
        for i, j in enumerate(sitting):
            others = [*demands[:i], *demands[i + 1 :]]
            slow_ppm = fluid.slow_ppm(self._demands[j], others, self._is_sliced)
            wanted[j] = max(wanted.get(j, 0), slow_ppm)


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
