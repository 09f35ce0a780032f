"""The job side of the ledger: stretches of time in which a job held accelerators.

A span is written when its fate is known, as one tuple; from time to time the tuples are cut at bin
edges and added up in one sweep. A *run* span follows the job's checkpoint rhythm (work, stall,
work, …) from ``origin_ms`` and divides accordingly; the others are one bucket.
"""

from typing import NamedTuple

import numpy as np

from tidemill.ledger.buckets import Bucket
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.tables import I64
from tidemill.model.world import World

RUN = -1
"""The mark of a span that follows the checkpoint rhythm instead of being one bucket."""

SWEEP_AT = 200_000  # spans kept before they are added up: some 20 MB


class Window(NamedTuple):
    """The time that a ledger is about, and the width of its bins."""

    start_ms: int = 0
    end_ms: int = FOREVER_MS
    bin_ms: int = FOREVER_MS


class Cells(NamedTuple):
    """Milli × ms per bin, contract, bucket and job; productive time is not divided yet."""

    bin: I64
    contract: I64
    bucket: I64
    job: I64
    milli_ms: I64


Span = tuple[int, int, int, int, int, int, int, int]
"""(start_ms, end_ms, bucket or RUN, job, contract, milli, origin_ms, busy_ppm)"""


class Spans:
    """Spans as they come, and the cells they add up to."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._fresh: list[Span] = []
        self._cells = EMPTY

    def add(self, world: World, span: Span) -> None:
        """Take one span whose fate is known."""
        self._fresh.append(span)
        if len(self._fresh) >= SWEEP_AT:
            self._sweep(world)

    def cells(self, world: World, still_open: list[Span]) -> Cells:
        """Everything so far, with the spans that are still open counted as they are given."""
        self._sweep(world)
        return added(self._cells, cut(world, still_open, self.window))

    def _sweep(self, world: World) -> None:
        if self._fresh:
            self._cells = added(self._cells, cut(world, self._fresh, self.window))
            self._fresh = []


def cut(world: World, spans: list[Span], window: Window) -> Cells:
    """Cut spans at the window's edges and at bin edges, divide run spans, add up."""
    if not spans:
        return EMPTY
    start, end, what, job, contract, milli, origin, busy = np.array(spans, np.int64).T
    start, end = np.maximum(start, window.start_ms), np.minimum(end, window.end_ms)
    keep = end > start
    first = np.where(keep, (start - window.start_ms) // window.bin_ms, 0)
    last = np.where(keep, (end - 1 - window.start_ms) // window.bin_ms, -1)
    row = np.repeat(np.arange(len(spans)), np.maximum(0, last - first + 1))
    nth = np.arange(len(row)) - np.searchsorted(row, row)
    bins = first[row] + nth
    edge = window.start_ms + bins * window.bin_ms
    a = np.maximum(start[row], edge)
    b = np.minimum(end[row], np.minimum(edge, FOREVER_MS - window.bin_ms) + window.bin_ms)
    is_run = what[row] == RUN
    total = (b - a) * milli[row]
    stalled = _stall(world, job[row], b - origin[row]) - _stall(world, job[row], a - origin[row])
    stall = np.where(is_run, stalled * milli[row], 0)
    idle = np.where(is_run, _parts(total - stall, ONE_PPM - busy[row]), 0)
    where = (bins, contract[row], job[row])
    bucket = np.where(is_run, int(Bucket.UNKNOWN), what[row])
    return added(
        _cells(where, bucket, total - stall - idle),
        _cells(where, np.full_like(bucket, Bucket.CHECKPOINT), stall),
        _cells(where, np.full_like(bucket, Bucket.IDLE), idle),
    )


def added(*parts: Cells) -> Cells:
    """Cells with equal bin, contract, bucket and job made one; empty cells dropped."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    keep = columns[4] != 0
    bins, contract, bucket, job, milli_ms = (column[keep] for column in columns)
    if not len(bins):
        return EMPTY
    order = np.lexsort((job, bucket, contract, bins))
    keys = np.stack([bins, contract, bucket, job])[:, order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    starts = np.flatnonzero(is_new)
    sums = np.add.reduceat(milli_ms[order], starts)
    return Cells(*keys[:, starts], sums)


def _cells(where: tuple[I64, I64, I64], bucket: I64, milli_ms: I64) -> Cells:
    bins, contract, job = where
    return Cells(bins, contract, bucket, job, milli_ms)


def _stall(world: World, job: I64, elapsed_ms: I64) -> I64:
    """Checkpoint stall in the first ``elapsed_ms`` of a run; as ``workload.progress.split``."""
    interval, cost = world.jobs.interval_ms[job], world.jobs.cost_ms[job]
    has_rhythm = (interval > 0) & (cost > 0)
    period = np.where(has_rhythm, interval + cost, 1)
    checkpoints, rest = np.divmod(elapsed_ms, period)
    stall = checkpoints * cost + np.maximum(0, rest - interval)
    return np.where(has_rhythm, stall, 0)


def _parts(milli_ms: I64, ppm: I64) -> I64:
    """``milli_ms × ppm / 10⁶`` rounded down, without overflowing 64 bits."""
    whole, rest = np.divmod(milli_ms, ONE_PPM)
    return whole * ppm + rest * ppm // ONE_PPM


EMPTY = Cells(*(np.zeros(0, np.int64) for _ in Cells._fields))
