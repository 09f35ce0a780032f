"""What was measured of jobs beside their buckets: requests, steps, and figures of devices.

Reads batches of events. Loads are amounts and add up; figures of devices hold from one event to the
next, and are averaged over the time and the GPUs that they hold for. Neither divides any time.
"""

from typing import Final, NamedTuple

import numpy as np

from tidemill.ledger.books import MeasuredLines, added_up
from tidemill.ledger.span_binning import Window
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.columns import JOB
from tidemill.model.figures import DeviceFigure, figure_of
from tidemill.model.loads import LENGTHS
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

LATENCIES: Final = 16
"""The first number of ``what`` that is a latency; those below are loads."""
FIGURES: Final = 32
"""The first number of ``what`` that is a figure of devices."""
_GATHERED = 100_000
_LOAD, _LATENCY, _FIGURE = (
    codes.KIND_CODE[kind] for kind in (ev.LoadSeen, ev.LatencySeen, ev.FigureSeen)
)
_ENDS = tuple(
    codes.KIND_CODE[kind]
    for kind in (ev.JobFinished, ev.JobFailed, ev.JobEvicted, ev.JobCancelled, ev.PlacementSeen)
)
"""After these nobody measures an attempt any more."""
_RUNNING = int(JobState.RUNNING)
_NOT_MEASURED = -1


class MeasuredRows(NamedTuple):
    """Amounts by bin, team, job and what was measured; jobs and teams as in ``LedgerRows``.

    A figure of devices is its value times GPU-seconds, and ``weight`` those; of the time that a
    load was seen, or tokens or steps were counted, ``weight`` is the GPU-seconds that were held in
    it.
    """

    bin: I64
    team: I64
    job: I64
    what: I64
    bound: I64
    amount: I64
    weight: I64


class MeasuredSums:
    """Adds up what events say of a window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._sums = _nothing(5)
        """Bin, job, what, bound, and the amount: of figures the value times milliseconds."""
        self._held = _nothing(4)
        """Bin, job, what, and for how long a figure held, in ms."""
        self._open = _nothing(4)
        """Job, figure, since when, value: what holds now."""
        self._parts, self._times = list[list[I64]](), list[list[I64]]()
        """What was read and is not added up yet."""
        self._gathered = 0

    def count(self, batch: Batch) -> None:
        """Take in the events of a batch."""
        events = batch.events
        kind = events[:, EventColumn.KIND]
        is_load, is_latency = kind == _LOAD, kind == _LATENCY
        if is_load.any() or is_latency.any():
            self._add(events[is_load], 0, 0)
            self._add(events[is_latency], LATENCIES, 1)
        is_figure = kind == _FIGURE
        if is_figure.any() or len(self._open[0]):
            self._go_on(events, np.flatnonzero(is_figure), np.flatnonzero(np.isin(kind, _ENDS)))

    def begin(self, world: World, at_ms: int) -> None:
        """Go on from a state: what its jobs said last holds since a moment."""
        jobs = world.matrices.jobs[: world.job_count]
        told = np.flatnonzero((jobs[:, JOB.FIGURES] != 0) & (jobs[:, JOB.STATE] == _RUNNING))
        found = [
            (j, int(figure), at_ms, value)
            for j in told.tolist()
            for figure in DeviceFigure
            if (value := figure_of(jobs.item(j, JOB.FIGURES), figure)) >= 0
        ]
        self._open = [*np.array(found, np.int64).reshape(-1, 4).T]

    def rows(self, world: World, now_ms: int) -> MeasuredRows:
        """All that was measured up to now."""
        self._close(now_ms)
        self._add_up()
        bins, job, what, bound, amount = self._sums
        team = world.shapes.queue[world.jobs.shape[job]].astype(np.int64)
        milli = world.shapes.total_milli[world.jobs.shape[job]].astype(np.float64)
        weight = np.zeros_like(amount)
        is_seen = np.isin(what, [int(one) for one in LENGTHS])
        weight[is_seen] = np.rint(amount[is_seen] * milli[is_seen] / 1e6)
        is_figure = what >= FIGURES
        amount = amount.copy()
        amount[is_figure] = np.rint(amount[is_figure] * milli[is_figure] / 1e6)
        weight[is_figure] = np.rint(self._held_for(is_figure) * milli[is_figure] / 1e6)
        return MeasuredRows(bins, team, job, what, bound, amount, weight)

    def hand_over(self, world: World, now_ms: int) -> MeasuredRows:
        """The same; it is then forgotten."""
        found = self.rows(world, now_ms)
        self._sums, self._held = _nothing(5), _nothing(4)
        return found

    def _held_for(self, is_figure: np.ndarray) -> I64:
        """How long each of these rows held: sums and times have the same keys in one order."""
        assert len(self._held[0]) == int(is_figure.sum()), "each figure has its time"
        return self._held[3]

    def _add(self, rows: I64, first: int, has_bound: int) -> None:
        """Amounts that begin in the window, in their bins."""
        window, at = self._window, rows[:, EventColumn.AT]
        inside = rows[(at >= window.start_ms) & (at < window.end_ms)]
        bins = (inside[:, EventColumn.AT] - window.start_ms) // window.bin_ms
        bound = inside[:, EventColumn.TO] * has_bound
        what = first + inside[:, EventColumn.WHY]
        self._gather([bins, inside[:, EventColumn.WHO], what, bound, inside[:, EventColumn.VALUE]])

    def _gather(self, more: list[I64]) -> None:
        self._parts.append(more)
        self._gathered += len(more[0])
        if self._gathered > _GATHERED:
            self._add_up()

    def _add_up(self) -> None:
        """One row for each key."""
        joined = [np.concatenate(part) for part in zip(self._sums, *self._parts, strict=True)]
        self._sums = added_up(joined[:4], joined[4:])
        held = [np.concatenate(part) for part in zip(self._held, *self._times, strict=True)]
        self._held = added_up(held[:3], held[3:])
        self._parts, self._times, self._gathered = [], [], 0

    def _go_on(self, events: I64, figures: I64, ends: I64) -> None:
        """Levels that were told in a batch, and those that ended with their attempts."""
        e = EventColumn
        told = [events[figures, c] for c in (e.WHO, e.WHY, e.AT, e.VALUE)]
        every = [np.concatenate(pair) for pair in zip(self._open, told, strict=True)]
        index = np.concatenate([np.full(len(self._open[0]), -1), figures])
        known = np.unique(every[0] * FIGURES + every[1])
        for figure in np.unique(known % FIGURES).tolist():
            jobs = known[known % FIGURES == figure] // FIGURES
            some = ends[np.isin(events[ends, e.WHO], jobs)]
            over = [events[some, e.WHO], np.full(len(some), figure), events[some, e.AT],
                    np.full(len(some), _NOT_MEASURED)]  # fmt: skip
            every = [np.concatenate(pair) for pair in zip(every, over, strict=True)]
            index = np.concatenate([index, some])
        order = np.lexsort((index, every[1], every[0]))
        job, figure, at, value = (column[order] for column in every)
        is_next = np.zeros(len(job), bool)
        is_next[:-1] = (job[1:] == job[:-1]) & (figure[1:] == figure[:-1])
        until = np.where(is_next, np.append(at[1:], 0), 0)
        lasted = is_next & (value >= 0)
        self._hold(job[lasted], figure[lasted], at[lasted], until[lasted], value[lasted])
        still = ~is_next & (value >= 0)
        self._open = [column[still] for column in (job, figure, at, value)]

    def _close(self, now_ms: int) -> None:
        """Count what holds now, up to now."""
        job, figure, since, value = self._open
        self._hold(job, figure, since, np.full(len(job), now_ms, np.int64), value)
        self._open = [job, figure, np.maximum(since, now_ms), value]

    def _hold(self, job: I64, figure: I64, since: I64, until: I64, value: I64) -> None:
        """A figure held so long: what of that lies in the window, by its bins."""
        window = self._window
        start, end = np.maximum(since, window.start_ms), np.minimum(until, window.end_ms)
        first = (start - window.start_ms) // window.bin_ms
        last = (end - 1 - window.start_ms) // window.bin_ms
        count = np.where(end > start, last - first + 1, 0)
        each = np.repeat(np.arange(len(job)), count)
        if not len(each):
            return
        number = first[each] + np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        low = window.start_ms + number * min(window.bin_ms, FOREVER_MS)
        held = np.minimum(end[each], low + window.bin_ms) - np.maximum(start[each], low)
        what = FIGURES + figure[each]
        self._times.append([number, job[each], what, held])
        self._gather([number, job[each], what, np.zeros_like(held), value[each] * held])


def _nothing(columns: int) -> list[I64]:
    return [np.zeros(0, np.int64) for _ in range(columns)]


def past_rows(lines: MeasuredLines, first_holder: int) -> MeasuredRows:
    """What was rolled up, as rows: ``first_holder`` less the number of a holder is its job."""
    return MeasuredRows(
        lines.bin, lines.team, first_holder - lines.holder, lines.what, lines.bound, lines.amount,
        lines.weight,
    )  # fmt: skip
