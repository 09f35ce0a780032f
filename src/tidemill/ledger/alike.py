"""Alike: jobs of one workload, told by their names, so that a fix can say whom it means.

A generated job is named after its workload and a number of five digits, a copy of a job after the
job and a shorter one. Jobs of one name that save at different intervals are different groups.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.tables import I64
from tidemill.model.world import World

_DIGITS = 5  # of the number of a generated job: see ``twin.generate``


class Alike(NamedTuple):
    """Some jobs of one team that one line of a spec describes."""

    table: str
    """``workload`` or ``job``: where a spec has them."""
    name: str
    team: str
    interval_ms: int
    cost_ms: int

    @property
    def words(self) -> str:
        """Who they are: ``workload `a` of team `b```."""
        return f"{self.table} `{self.name}` of team `{self.team}`"


class Groups(NamedTuple):
    """All jobs, each in one group."""

    rows: list[Alike]
    of_job: I64
    """The number of the group of each job."""
    words: list[str]
    """Who they are; where every job has a name of its own there are as many as jobs."""


def groups(world: World) -> Groups:
    """Jobs by what describes them; groups in the order in which they came."""
    jobs, count = world.jobs, world.job_count
    queues = world.shapes.queue[jobs.shape[:count]].tolist()
    intervals, costs = jobs.interval_ms[:count].tolist(), jobs.cost_ms[:count].tolist()
    numbers: dict[tuple[str, str, int, int, int], int] = {}
    keys = [
        (*_described_by(name), *more)
        for name, more in zip(
            world.job_names, zip(queues, intervals, costs, strict=True), strict=True
        )
    ]
    of_job = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    first = dict(zip(of_job[::-1].tolist(), range(count - 1, -1, -1), strict=True))
    sizes = np.bincount(of_job, minlength=len(numbers)).tolist()
    rows = []
    for (table, described, queue, *saving), number in numbers.items():
        name = described
        if table == "job" and sizes[number] == 1:  # `model-2` may be the whole name of one job
            name = world.job_names[first[number]]
        rows.append(Alike(table, name, world.queue_rows[queue].name, *saving))
    return Groups(rows, of_job, [row.words for row in rows])


def _described_by(name: str) -> tuple[str, str]:
    described, _, number = name.rpartition("-")
    if not described or not number.isdecimal():
        return "job", name
    return ("workload" if len(number) >= _DIGITS else "job"), described
