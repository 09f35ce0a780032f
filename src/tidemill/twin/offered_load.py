"""How much work a spec asks for, against what it pays for: the sum that says whether it queues.

Offered load: every job starts when it arrives and is never disturbed. Above 100 % for hours means a
queue for hours. Nothing is scheduled here, so it costs a second or two.

A total hides a GPU type that is short while another is idle. So the load is also told for each
``TypeLoad`` of the fleet: one type, or the types that some jobs may choose from. A part carries all
work that can run nowhere else.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.twin import fleet, generate
from tidemill.twin.arrivals import Arrival
from tidemill.twin.spec.tables import ContractTable, Spec

Kinds = tuple[str, ...]


class TeamLoad(NamedTuple):
    """What one team asks for of one set of GPU types (empty: any), within the horizon."""

    team: str
    kinds: Kinds
    jobs: int
    accelerator_hours: float


class TypeLoad(NamedTuple):
    """GPU types, the work that only they can do, and what they could do in the time."""

    kinds: Kinds
    accelerators: int
    accelerator_hours: float
    paid_hours: float
    hourly: tuple[float, ...]

    @property
    def share(self) -> float:
        """Work over what could be done; 0 where there is neither, without end where no room."""
        if not self.paid_hours:
            return float("inf") if self.accelerator_hours else 0.0
        return self.accelerator_hours / self.paid_hours

    @property
    def busiest(self) -> float:
        """The offered load of the busiest hour."""
        return max(self.hourly, default=0.0)


class Load(NamedTuple):
    """Work asked for and accelerators there; ``hourly`` is the offered load, hour by hour."""

    asked: tuple[TeamLoad, ...]
    accelerators: dict[str, int]
    hourly: tuple[float, ...]
    parts: tuple[TypeLoad, ...]
    """Each GPU type, then the sets of types between which jobs choose; the last is the fleet."""
    late: tuple[str, ...] = ()
    """Jobs that come after the horizon, and do not count."""

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return sum(part.jobs for part in self.asked)

    @property
    def short(self) -> tuple[TypeLoad, ...]:
        """The parts that cannot do their work, also when what smaller short ones lack is left out.

        Work that a short type cannot do is not done by the others, so a set of types is short only
        if the work that could be done is more than its types could do.
        """
        found: list[TypeLoad] = []
        lack: dict[Kinds, float] = {}
        for part in sorted(self.parts, key=lambda part: len(part.kinds)):
            within = sum(hours for kinds, hours in lack.items() if set(kinds) < set(part.kinds))
            over = part.accelerator_hours - within - part.paid_hours
            if over > 1e-6:
                found.append(part)
                lack[part.kinds] = over
        return tuple(part for part in self.parts if part in found)

    @property
    def share(self) -> float:
        """Work asked for over what could be done in the time, hot spares left out."""
        return self.parts[-1].share


def measure(spec: Spec) -> Load:
    """The load of a spec on the accelerators that it pays for, hour by hour."""
    kinds = sorted({row.kind for row in spec.contracts})
    there = {kind: fleet.at_once(fleet.usable(spec.contracts, (kind,))) for kind in kinds}
    horizon_ms = int(spec.twin.horizon)
    asked, levels, late = _sums(generate.stream(spec), horizon_ms)
    choices = sorted({asking for asking in levels if len(asking) > 1 and set(asking) != {*kinds}})
    parts = tuple(
        _part(choice, spec.contracts, levels, horizon_ms)
        for choice in (*((kind,) for kind in kinds), *choices)
    )
    if len(kinds) != 1:
        parts += (_part(tuple(kinds), spec.contracts, levels, horizon_ms),)
    return Load(asked, there, parts[-1].hourly, parts, late)


def _sums(
    coming: Iterable[Arrival], horizon_ms: int
) -> tuple[tuple[TeamLoad, ...], dict[Kinds, "_Levels"], tuple[str, ...]]:
    """What is asked for by team and types; by types also over time."""
    levels: dict[Kinds, _Levels] = {}
    sums: dict[tuple[str, Kinds], list[float]] = {}
    late: list[str] = []
    for arrival in coming:
        if arrival.at_ms > horizon_ms:
            late.append(arrival.job.name)
            continue
        shape, end_ms = arrival.job.shape, min(arrival.at_ms + arrival.work_ms, horizon_ms)
        kinds = tuple(sorted(shape.roles[0].kinds))
        accelerators = shape.total_milli / WHOLE_MILLI
        part = sums.setdefault((shape.team, kinds), [0, 0.0])
        part[0] += 1
        part[1] += accelerators * (end_ms - arrival.at_ms) / HOUR_MS
        if kinds not in levels:
            levels[kinds] = _Levels(horizon_ms)
        levels[kinds].add(arrival.at_ms, end_ms, accelerators)
    asked = tuple(
        TeamLoad(team, kinds, int(jobs), hours)
        for (team, kinds), (jobs, hours) in sorted(sums.items())
    )
    return asked, levels, tuple(late)


def _part(
    kinds: Kinds, contracts: Iterable[ContractTable], levels: dict[Kinds, "_Levels"], end_ms: int
) -> TypeLoad:
    rows = fleet.usable(contracts, kinds)
    everything = {row.kind for row in contracts} <= set(kinds)
    work, room = _Levels(end_ms), _Levels(end_ms)
    for asking, level in levels.items():
        if set(asking) <= set(kinds) and (asking or everything):
            work.add_all(level)
    for row in rows:
        count = fleet.given(row)
        last_ms = end_ms if row.end is None else min(end_ms, int(row.end))
        if row.start < last_ms:
            room.add(int(row.start), last_ms, count)
    done, paid = work.hours(), room.hours()
    over = np.divide(done, paid, out=np.where(done > 0, np.inf, 0.0), where=paid > 0)
    return TypeLoad(
        kinds, fleet.at_once(rows), float(done.sum()), float(paid.sum()), tuple(over.tolist())
    )


class _Levels:
    """The average level of each hour, from spans of any length in constant time each."""

    def __init__(self, end_ms: int) -> None:
        self._hours = -(-end_ms // HOUR_MS)
        self._change = np.zeros(self._hours + 1)
        self._parts = np.zeros(self._hours + 1)

    def add(self, start_ms: int, end_ms: int, level: float) -> None:
        """Add a level from start to end: whole hours as a change, the rest as parts of an hour."""
        first, into_first = divmod(start_ms, HOUR_MS)
        last, into_last = divmod(end_ms, HOUR_MS)
        self._change[first] += level
        self._change[last] -= level
        self._parts[first] -= level * into_first / HOUR_MS
        self._parts[last] += level * into_last / HOUR_MS

    def add_all(self, other: "_Levels") -> None:
        """Add everything that another has."""
        self._change += other._change
        self._parts += other._parts

    def hours(self) -> NDArray[np.float64]:
        """Accelerator-hours in each hour."""
        return np.maximum(0.0, np.cumsum(self._change) + self._parts)[:-1]
