"""Cut: from spans of jobs to cells, exactly, whatever the bins and the window.

A *run* span follows the job's checkpoint rhythm (work, stall, work, …) from ``origin_ms``; its work
divides into idle and busy time, and busy time that lasted divides by the job's efficiency, after
what neighbours on its devices cost it and what it spent longer on its links than at the best place
for it. Whole numbers cannot be divided by shares without rounding, so each division is
*cumulative*: the part of a stretch up to a moment is rounded down, and the part between two moments
is the difference. The parts of any cut therefore add up to the same whole, and since each division
takes one part off what the division before it left (stall, idle, neighbours, slower links, host,
links, useful, memory-bound; the rest is below the attainable roof, or below peak where nobody knows
that roof) no part is ever negative and none is off by more than a few milli·ms in a stretch.
"""

from array import array
from typing import NamedTuple

import numpy as np

from tidemill.core import rhythm
from tidemill.core.accounting.columns import LASTED, NOT_RUNNING, SPAN
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import EMPTY, Cells, added
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence
from tidemill.model.tables import I64
from tidemill.model.world import World

_UNKNOWN = CONFIDENCES.index(Confidence.UNKNOWN)


class Window(NamedTuple):
    """The time that a ledger is about, and the width of its bins."""

    start_ms: int = 0
    end_ms: int = FOREVER_MS
    bin_ms: int = FOREVER_MS


class HeldSpan(NamedTuple):
    """A time in which a job held accelerators of one contract; also the columns of many."""

    start_ms: I64
    end_ms: I64
    bucket: I64
    """Where the work goes, or LASTED."""
    job: I64
    contract: I64
    milli: I64
    origin_ms: I64
    """When the run began, or NOT_RUNNING."""
    since_ms: I64
    """When the stretch of this busy share began: divisions are cumulative from here."""
    busy_ppm: I64
    slow_ppm: I64
    """How much longer its steps took than at the best place for it."""
    beside_ppm: I64
    """How much longer they took because of neighbours on its devices."""


WIDTH = len(SPAN)


class _Parts(NamedTuple):
    """How a stretch divides, cumulative from its beginning, in milli × ms."""

    stall: I64
    idle: I64
    busy: I64
    beside: I64
    slow: I64
    host: I64
    links: I64
    useful: I64
    memory: I64


def cut(world: World, spans: "array[int]", window: Window) -> Cells:
    """Cut spans at the window's edges and at bin edges, divide what ran, add up."""
    rows = HeldSpan(*np.frombuffer(spans, np.int64).reshape(-1, WIDTH).T)
    bins, rows = _binned(rows, window)
    is_run = rows.origin_ms != NOT_RUNNING
    held = (rows.end_ms - rows.start_ms) * rows.milli
    plain = _cells(bins, rows, rows.bucket, held, ~is_run)
    return added(plain, *_run_cells(world, bins[is_run], HeldSpan(*(c[is_run] for c in rows))))


def _binned(rows: HeldSpan, window: Window) -> tuple[I64, HeldSpan]:
    """One row for each bin that a span reaches into, clipped to it."""
    start = np.maximum(rows.start_ms, window.start_ms)
    end = np.minimum(rows.end_ms, window.end_ms)
    first = (start - window.start_ms) // window.bin_ms
    last = (end - 1 - window.start_ms) // window.bin_ms
    counts = np.where(end > start, last - first + 1, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    bins = first[row] + nth
    edge = window.start_ms + bins * window.bin_ms
    next_edge = np.minimum(edge, FOREVER_MS - window.bin_ms) + window.bin_ms
    columns = HeldSpan(*(column[row] for column in rows))
    return bins, columns._replace(
        start_ms=np.maximum(start[row], edge), end_ms=np.minimum(end[row], next_edge)
    )


def _run_cells(world: World, bins: I64, rows: HeldSpan) -> list[Cells]:
    if not len(bins):
        return [EMPTY]
    until, upto = _parts(world, rows, rows.end_ms), _parts(world, rows, rows.start_ms)
    part = _Parts(*(b - a for a, b in zip(upto, until, strict=True)))
    is_lasting = rows.bucket == LASTED
    is_known = is_lasting & (world.jobs.confidence[rows.job] != _UNKNOWN)
    undivided = np.where(is_lasting, Bucket.UNKNOWN, rows.bucket)
    below = part.busy - part.beside - part.slow - part.host - part.links - part.useful
    is_split = world.jobs.memory_ppm[rows.job] >= 0
    everywhere = np.ones(len(bins), bool)
    return [
        _cells(bins, rows, Bucket.CHECKPOINT, part.stall, everywhere),
        _cells(bins, rows, Bucket.IDLE, part.idle, everywhere),
        _cells(
            bins, rows, undivided, part.busy - is_lasting * (part.beside + part.slow), ~is_known
        ),
        _cells(bins, rows, Bucket.INTERFERENCE, part.beside, is_lasting),
        _cells(bins, rows, Bucket.LINKS, part.slow, is_lasting),
        _cells(bins, rows, Bucket.HOST, part.host, is_known),
        _cells(bins, rows, Bucket.LINKS, part.links, is_known),
        _cells(bins, rows, Bucket.USEFUL, part.useful, is_known),
        _cells(bins, rows, Bucket.MEMORY_BOUND, part.memory, is_known & is_split),
        _cells(bins, rows, Bucket.BELOW_ROOF, below - part.memory, is_known & is_split),
        _cells(bins, rows, Bucket.BELOW_PEAK, below, is_known & ~is_split),
    ]


def _parts(world: World, rows: HeldSpan, at_ms: I64) -> _Parts:
    """How the stretches of some spans divide, from their beginnings up to a moment each."""
    jobs, job, origin = world.jobs, rows.job, rows.origin_ms
    stalled_ms = _stall_ms(world, job, at_ms - origin) - _stall_ms(
        world, job, rows.since_ms - origin
    )
    stall = stalled_ms * rows.milli
    work = (at_ms - rows.since_ms) * rows.milli - stall
    idle = _part(work, ONE_PPM - rows.busy_ppm, ONE_PPM)
    busy = work - idle
    host_ppm, links_ppm, mfu_ppm, memory_ppm = (
        column[job].astype(np.int64)
        for column in (jobs.host_ppm, jobs.links_ppm, jobs.mfu_ppm, jobs.memory_ppm)
    )
    beside = _part(busy, rows.beside_ppm, ONE_PPM + rows.beside_ppm)
    slow = _part(busy - beside, rows.slow_ppm, ONE_PPM + rows.slow_ppm)
    worked = busy - beside - slow
    host = _part(worked, host_ppm, ONE_PPM)
    links = _part(worked - host, links_ppm, ONE_PPM - host_ppm)
    useful = _part(worked - host - links, mfu_ppm, ONE_PPM - host_ppm - links_ppm)
    below_ppm = ONE_PPM - host_ppm - links_ppm - mfu_ppm
    memory = _part(worked - host - links - useful, np.maximum(0, memory_ppm), below_ppm)
    return _Parts(stall, idle, busy, beside, slow, host, links, useful, memory)


def _stall_ms(world: World, job: I64, elapsed_ms: I64) -> I64:
    """Checkpoint stall in the first ``elapsed_ms`` of a run; as ``workload.progress.split``."""
    interval, cost = world.jobs.interval_ms[job], world.jobs.cost_ms[job]
    has_rhythm = (interval > 0) & (cost > 0)
    rhythmic = elapsed_ms, np.where(has_rhythm, interval, 1), np.where(has_rhythm, cost, 0)
    since_ms = rhythm.since_checkpoint_ms(*rhythmic)
    stall = rhythm.checkpoints(*rhythmic) * cost + np.maximum(0, since_ms - interval)
    return np.where(has_rhythm, stall, 0)


def _part(amount: I64, share: I64, whole: I64 | int) -> I64:
    """``amount × share / whole`` rounded down, without overflowing 64 bits; 0 of nothing is 0."""
    quotient, rest = np.divmod(amount, np.maximum(1, whole))
    part: I64 = quotient * share + rest * share // np.maximum(1, whole)
    return part


def _cells(
    bins: I64, rows: HeldSpan, bucket: I64 | Bucket, milli_ms: I64, where: np.ndarray
) -> Cells:
    buckets = np.broadcast_to(np.asarray(bucket, np.int64), bins.shape)
    columns = (bins, rows.contract, buckets, rows.job, milli_ms)
    return Cells(*(column[where] for column in columns))
