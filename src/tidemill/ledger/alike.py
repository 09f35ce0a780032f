"""Alike: jobs of one workload, told by their names, so that a fix can say whom it means.

A generated job is named after its workload and a number of five digits, a copy of a job after the
job and a shorter one. Jobs of one name that save at different intervals are different groups.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model import paging
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
    jobs: int = 1
    example: str = ""
    """One of several jobs, where no spec has a line of them all."""

    @property
    def words(self) -> str:
        """Who they are: ``workload `a` of team `b```, ``12 jobs like `a-1` of team `b```."""
        if self.example:
            return f"{self.jobs:,} jobs like `{self.example}` of team `{self.team}`"
        return f"{self.table} `{self.name}` of team `{self.team}`"


class Groups(NamedTuple):
    """All jobs, each in one group; groups in the order in which they came.

    Where every job has a name of its own there are as many groups as jobs: a group is described
    when somebody asks for it.
    """

    world: World
    of_job: I64
    """The number of the group of each job."""
    first: I64
    """The first job of each group."""
    sizes: I64
    """How many jobs there are in each group."""

    def row(self, number: int) -> Alike:
        """What describes a group."""
        world, j = self.world, int(self.first[number])
        table, name = _described_by(world.job_names[j])
        if table == "job" and self.sizes[number] == 1:
            name = world.job_names[j]  # `model-2` may be the whole name of one job
        interval_ms, cost_ms = world.jobs.interval_ms.item(j), world.jobs.cost_ms.item(j)
        count = self.sizes.item(number)
        example = world.job_names[j] if world.is_observed and count > 1 else ""
        if world.is_observed and count == 1:
            table, name = "job", world.job_names[j]
        team = world.shape_of(j).team
        return Alike(table, name, team, interval_ms, cost_ms, count, example)


def groups(world: World) -> Groups:
    """Jobs by what describes them."""
    count = world.job_count
    if not world.job_names.hold("-"):  # each describes itself
        each = paging.put_away(np.arange(count, dtype=np.int64))
        return Groups(world, each, each, np.broadcast_to(np.int64(1), count))
    numbers = dict[tuple[str, str, int], int]()
    told = (
        numbers.setdefault((*_described_by(name), saving), len(numbers))
        for name, saving in zip(world.job_names, _savings(world).tolist(), strict=True)
    )
    of_job = np.fromiter(told, np.int64, count)
    _, first = np.unique(of_job, return_index=True)
    return Groups(world, of_job, first, np.bincount(of_job))


def _savings(world: World) -> I64:
    """A number for each team, interval and cost of saving that jobs have together."""
    jobs = world.jobs
    shape, *saved = paging.columns((jobs.shape, jobs.interval_ms, jobs.cost_ms), world.job_count)
    found: I64 = world.shapes.queue[shape]
    for column in saved:
        values, numbers = np.unique(column, return_inverse=True)
        found = found * len(values) + numbers
    return found


def _described_by(name: str) -> tuple[str, str]:
    described, _, number = name.rpartition("-")
    if not described or not number.isdecimal():
        return "job", name
    return ("workload" if len(number) >= _DIGITS else "job"), described
