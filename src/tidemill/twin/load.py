"""How much work a spec asks for, against what it pays for: the sum that says whether it queues.

Offered load: every job starts when it arrives and is never disturbed. Above 100 % for hours means a
queue for hours. Nothing is scheduled here, so it costs a second or two.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.twin import fleet, generate
from tidemill.twin.arrivals import Arrival
from tidemill.twin.spec_tables import Spec


class Asked(NamedTuple):
    """What one team asks for of one set of kinds (empty: any), within the horizon."""

    team: str
    kinds: tuple[str, ...]
    jobs: int
    accelerator_hours: float


class Load(NamedTuple):
    """Work asked for and accelerators there; ``hourly`` is the offered load, hour by hour."""

    asked: tuple[Asked, ...]
    accelerators: dict[str, int]
    hourly: tuple[float, ...]

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return sum(part.jobs for part in self.asked)

    @property
    def share(self) -> float:
        """Work asked for over what could be done in the time, spares left out."""
        room = sum(self.accelerators.values()) * len(self.hourly)
        return sum(part.accelerator_hours for part in self.asked) / room


def measure(spec: Spec) -> Load:
    """The load of a spec on the most accelerators it has at once."""
    kinds = sorted({row.kind for row in spec.contracts})
    there = {kind: fleet.at_once(fleet.usable(spec.contracts, (kind,))) for kind in kinds}
    return _measure(generate.stream(spec), there, int(spec.twin.horizon))


def _measure(coming: Iterable[Arrival], there: dict[str, int], horizon_ms: int) -> Load:
    levels = _Levels(-(-horizon_ms // HOUR_MS))
    sums: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    for arrival in coming:
        shape, end_ms = arrival.job.shape, min(arrival.at_ms + arrival.work_ms, horizon_ms)
        accelerators = shape.total_milli / WHOLE_MILLI
        part = sums.setdefault((shape.team, shape.roles[0].kinds), [0, 0.0])
        part[0] += 1
        part[1] += accelerators * (end_ms - arrival.at_ms) / HOUR_MS
        levels.add(arrival.at_ms, end_ms, accelerators)
    asked = tuple(
        Asked(team, kinds, int(jobs), hours)
        for (team, kinds), (jobs, hours) in sorted(sums.items())
    )
    return Load(asked, there, levels.over(max(1, sum(there.values()))))


class _Levels:
    """The average level of each hour, from spans of any length in constant time each."""

    def __init__(self, hours: int) -> None:
        self._change = np.zeros(hours + 1)
        self._parts = np.zeros(hours + 1)

    def add(self, start_ms: int, end_ms: int, level: float) -> None:
        """Add a level from start to end: whole hours as a change, the rest as parts of an hour."""
        first, into_first = divmod(start_ms, HOUR_MS)
        last, into_last = divmod(end_ms, HOUR_MS)
        self._change[first] += level
        self._change[last] -= level
        self._parts[first] -= level * into_first / HOUR_MS
        self._parts[last] += level * into_last / HOUR_MS

    def over(self, whole: float) -> tuple[float, ...]:
        """Every hour as a share of the whole."""
        levels = (np.cumsum(self._change) + self._parts)[:-1]
        return tuple((levels / whole).tolist())
