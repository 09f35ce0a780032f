"""Saving: how often each group of alike jobs should write a checkpoint, by its own books.

Writing stalls a job, and a stop loses what was not written. Stalls go with one over the interval,
losses with the interval, so both are least together where they are equal: after Young (CACM 1974),
``interval = sqrt(2 × stall × time between stops)``. A gang is stopped as often as any of its nodes
is, so the time between stops is that of one accelerator at work, over the size of the job.

How often an accelerator's job is stopped is counted in the group, and as if one stop more had been
seen at the rate of the whole fleet: a job that was never stopped would otherwise never save.
"""

from collections.abc import Iterator, Sequence
from math import isqrt, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger.alike import Alike
from tidemill.ledger.buckets import RAN, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model import paging
from tidemill.model.measures import MINUTE_MS
from tidemill.model.tables import I64

_MINUTES = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480)
STEPS_MS = tuple(minutes * MINUTE_MS for minutes in _MINUTES)
"""Intervals as people write them; the best one is flat around its optimum."""
_ROUNDING = 1e-9  # of sums of floats in another order
_FIRST = 1_000  # groups that are put in order first: as a rule nobody asks for the others
TIMES_AT_MOST = 4  # how far to go from what is done now at once: the model is local


class Saving(NamedTuple):
    """How a group saves now, how it should, and what both cost it in milli·ms."""

    number: int
    """Of the group, among all of the statement."""
    group: Alike
    interval_ms: int
    between_ms: int
    """Time between stops of a job of its size."""
    size_milli: int
    stops: int
    stalls: int
    losses: int
    new_stalls: int
    new_losses: int

    @property
    def is_longer(self) -> bool:
        """Whether it should save less often than now."""
        return self.interval_ms > self.group.interval_ms

    @property
    def win(self) -> int:
        """Milli·ms that are neither stalled nor lost any more."""
        return self.stalls + self.losses - self.new_stalls - self.new_losses


def best(statement: Statement, most: int = 5) -> list[Saving]:
    """A better interval for groups of training jobs that save, those that win most first."""
    world, found = statement.world, statement.groups
    jobs, worked = world.jobs, statement.held_in(*RAN)
    interval, cost, attempt, shape = paging.columns(
        (jobs.interval_ms, jobs.cost_ms, jobs.attempt, jobs.shape), world.job_count
    )
    saves = (interval > 0) & (cost > 0) & (worked > 0)
    stopped = np.where(saves, np.maximum(0, attempt - 1), 0)
    if not stopped.any():
        return []
    milli = world.shapes.total_milli[shape].astype(float)
    sums = [
        np.bincount(found.of_job, np.where(saves, column, 0), len(found.first))
        for column in (
            worked, milli * worked, stopped, statement.held_in(Bucket.CHECKPOINT),
            statement.held_in(Bucket.REWORK),
        )
    ]  # fmt: skip
    usual = float(worked[saves].sum()) / int(stopped.sum())
    each = list[Saving]()
    for number, at_most in _by_what_is_spent(interval[found.first], sums, usual):
        if len(each) >= most and at_most < each[most - 1].win:
            break  # nobody after it has as much to win
        books = _Books(*(float(column[number]) for column in sums))
        each.append(_saving(number, found.row(number), books, usual))
        each = sorted(each, key=lambda one: (-one.win, one.group.name))[:most]
    return each


def _by_what_is_spent(
    intervals_ms: I64, sums: Sequence[NDArray[Any]], usual: float
) -> Iterator[tuple[int, float]]:
    """Groups, those first that spend most on writing and on what was not written; and how much.

    None can win more: it would be as if it did neither.
    """
    numbers = np.flatnonzero(sums[0])
    worked, worked_by_milli, stops, stalls, losses = (column[numbers] for column in sums)
    every = intervals_ms[numbers].astype(float)
    expected = worked_by_milli / ((worked + usual) / (stops + 1)) * every / 2
    most = (stalls + np.maximum(losses, expected)) * (1 + _ROUNDING)
    least = np.partition(most, -_FIRST)[-_FIRST] if len(most) > _FIRST else 0.0
    for some in (most >= least).nonzero()[0], (most < least).nonzero()[0]:
        order = some[np.argsort(-most[some], kind="stable")]
        yield from zip(numbers[order].tolist(), most[order].tolist(), strict=True)


class _Books(NamedTuple):
    """What a group did, in milli·ms (and stops), summed over its jobs."""

    worked: float
    worked_by_milli: float
    stops: float
    stalls: float
    losses: float


def _saving(number: int, group: Alike, books: _Books, usual: float) -> Saving:
    """The best interval of a group; ``usual`` is the work between two stops in the whole fleet."""
    size = books.worked_by_milli / books.worked
    alone = (books.worked + usual) / (books.stops + 1)
    between_ms = int(alone / size)
    best_ms = isqrt(2 * group.cost_ms * between_ms)
    low, high = group.interval_ms // TIMES_AT_MOST, group.interval_ms * TIMES_AT_MOST
    aim_ms = min(max(best_ms, low, 1), high)
    new_ms = min(STEPS_MS, key=lambda ms: abs(log(ms / aim_ms)))
    expected = books.worked / alone * size * group.interval_ms / 2
    choose = max if new_ms > group.interval_ms else min  # the less hopeful of what was seen
    losses = choose(books.losses, expected)
    return Saving(
        number, group, new_ms, between_ms, int(size), int(books.stops), int(books.stalls),
        int(losses), int(books.stalls * group.interval_ms / new_ms),
        int(losses * new_ms / group.interval_ms),
    )  # fmt: skip
