"""Cut: from spans of jobs to cells, exactly, whatever the bins and the window.

A *run* span follows the job's checkpoint rhythm (work, stall, work, …) from ``origin_ms``; its work
divides into idle and busy time, and busy time that lasted divides by the job's efficiency, after
what neighbours on its devices cost it and what it spent longer on its links than at the best place
for it. Whole numbers cannot be divided by shares without rounding, so each division is
*cumulative*: the part of a stretch up to a moment is rounded down, and the part between two moments
is the difference. The parts of any cut therefore add up to the same whole, and since each division
takes one part off what the division before it left (stall, idle, neighbours, slower links, host,
links, useful, memory-bound; the rest is below the attainable roof, or below peak where nobody knows
that roof) no part is ever negative and none is off by more than a few milli·ms in a stretch. What a
slow rank cost is a part of the links, divided off last.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.core import rhythm
from tidemill.core.accounting.columns import LASTED, NOT_RUNNING, SPAN
from tidemill.ledger import price_periods
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import EMPTY, Cells
from tidemill.model.codes import CONFIDENCE_CODE
from tidemill.model.measured import SAVES, SAYS, high, low, middle
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence
from tidemill.model.tables import I64
from tidemill.model.world import World

_UNKNOWN = CONFIDENCES.index(Confidence.UNKNOWN)
_MEASURED = CONFIDENCE_CODE[Confidence.MEASURED]


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
    stalls: I64
    """Shares of its time that were measured, packed (``model.measured``); 0: none."""
    efficiency: I64
    """Its measured efficiency, packed; 0: not measured."""
    straggler: I64
    """What part of its waits for other ranks is for slow ones, packed; 0: nobody compared them."""


WIDTH = len(SPAN)


class _Places(NamedTuple):
    """In which time bin, and in which price period, each of some spans lies."""

    bin: I64
    period: I64


class _Shares(NamedTuple):
    """How the time at work of spans divides, in ppm, and how that is known."""

    is_measured: NDArray[np.bool_]
    checkpoint_ppm: I64
    host_ppm: I64
    links_ppm: I64
    mfu_ppm: I64
    memory_ppm: I64
    is_known: NDArray[np.bool_]
    """Whether anybody knows the efficiency."""
    confidence: I64
    """As in ``Cells.known``."""


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


def cut(
    world: World, spans: "array[int]", window: Window, unseen: Sequence[tuple[int, int]] = ()
) -> Cells:
    """Cut spans at the window's edges and at bin edges, and divide what ran; not added up.

    ``unseen``: when nobody watched, and so nobody knows what jobs did.
    """
    rows = HeldSpan(*np.frombuffer(spans, np.int64).reshape(-1, WIDTH).T)
    for start_ms, end_ms in unseen:
        rows = _without_sight(rows, start_ms, end_ms)
    changes = price_periods.edges(world.contract_rows)
    rows = _by_period(rows, changes)
    bins, rows = _binned(rows, window)
    is_run = (rows.origin_ms != NOT_RUNNING) & ~_is_undivided(world, rows)
    held = (rows.end_ms - rows.start_ms) * rows.milli
    nobody = np.zeros_like(held)
    places = _Places(bins, price_periods.period_at(changes, rows.start_ms))
    whole = np.where(rows.bucket == LASTED, Bucket.UNKNOWN, rows.bucket)
    plain = _cells(places, rows, whole, held, nobody, ~is_run)
    runs = _Places(*(c[is_run] for c in places))
    parts = plain, *_run_cells(world, runs, HeldSpan(*(c[is_run] for c in rows)))
    return Cells(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_period(rows: HeldSpan, changes: I64) -> HeldSpan:
    """One row for each price period that a span reaches into; as a rule there is one period."""
    if not len(changes):
        return rows
    first, last = np.searchsorted(changes, (rows.start_ms, rows.end_ms - 1), side="right")
    counts = last - first + 1
    row = np.repeat(np.arange(len(counts)), counts)
    nth = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    borders = np.concatenate(([-FOREVER_MS], changes, [FOREVER_MS]))
    columns = HeldSpan(*(column[row] for column in rows))
    return columns._replace(
        start_ms=np.maximum(columns.start_ms, borders[nth]),
        end_ms=np.minimum(columns.end_ms, borders[nth + 1]),
    )


def _is_undivided(world: World, rows: HeldSpan) -> NDArray[np.bool_]:
    """Spans of which nothing is known that divides them: in a history these are nearly all."""
    jobs, job = world.jobs, rows.job
    has_rhythm = (jobs.interval_ms[job] > 0) & (jobs.cost_ms[job] > 0)
    told = rows.slow_ppm | rows.beside_ppm | rows.stalls | rows.efficiency | rows.straggler
    found: NDArray[np.bool_] = (jobs.confidence[job] == _UNKNOWN) & ~has_rhythm
    found &= (rows.busy_ppm == ONE_PPM) & (told == 0)
    return found


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


def _without_sight(rows: HeldSpan, start_ms: int, end_ms: int) -> HeldSpan:
    """The same spans with what lies in a time that nobody watched in a bucket of its own."""
    before = rows._replace(end_ms=np.minimum(rows.end_ms, start_ms))
    after = rows._replace(start_ms=np.maximum(rows.start_ms, end_ms))
    inside = rows._replace(
        start_ms=np.maximum(rows.start_ms, start_ms),
        end_ms=np.minimum(rows.end_ms, end_ms),
        bucket=np.full_like(rows.bucket, Bucket.NOT_OBSERVED),
        origin_ms=np.full_like(rows.bucket, NOT_RUNNING),
    )
    whole = HeldSpan(*(np.concatenate(c) for c in zip(before, inside, after, strict=True)))
    keep = whole.end_ms > whole.start_ms
    return HeldSpan(*(column[keep] for column in whole))


def _run_cells(world: World, places: _Places, rows: HeldSpan) -> list[Cells]:
    if not len(places.bin):
        return [EMPTY]
    shares = _shares(world, rows)
    until, upto = (
        _parts(world, rows, shares, rows.end_ms),
        _parts(world, rows, shares, rows.start_ms),
    )
    part = _Parts(*(b - a for a, b in zip(upto, until, strict=True)))
    is_lasting = rows.bucket == LASTED
    is_known = is_lasting & shares.is_known
    is_told = is_lasting & (shares.is_known | shares.is_measured)
    undivided = np.where(is_lasting, Bucket.UNKNOWN, rows.bucket)
    told = is_told * (part.host + part.links)
    rest = part.busy - is_lasting * (part.beside + part.slow) - told
    below = rest - part.useful
    is_split = shares.memory_ppm >= 0
    everywhere = np.ones(len(places.bin), bool)
    unsaid, measured, use = (
        np.zeros_like(places.bin),
        shares.is_measured * _MEASURED,
        shares.confidence,
    )
    fate = ((rows.stalls & SAVES) != 0) * ~is_lasting * _MEASURED
    return [
        _cells(places, rows, Bucket.CHECKPOINT, part.stall, measured, everywhere),
        _cells(places, rows, Bucket.IDLE, part.idle, unsaid, everywhere),
        _cells(places, rows, undivided, rest, fate, ~is_known),
        _cells(places, rows, Bucket.INTERFERENCE, part.beside, measured, is_lasting),
        _cells(places, rows, Bucket.LINKS, part.slow, unsaid, is_lasting),
        _cells(places, rows, Bucket.HOST, part.host, measured, is_told),
        *_links(places, rows, (upto.links, until.links), measured, is_told),
        _cells(places, rows, Bucket.USEFUL, part.useful, use, is_known),
        _cells(places, rows, Bucket.MEMORY_BOUND, part.memory, use, is_known & is_split),
        _cells(places, rows, Bucket.BELOW_ROOF, below - part.memory, use, is_known & is_split),
        _cells(places, rows, Bucket.BELOW_PEAK, below, use, is_known & ~is_split),
    ]


def _links(
    places: _Places, rows: HeldSpan, links: tuple[I64, I64], known: I64, where: NDArray[np.bool_]
) -> list[Cells]:
    """Waits for other ranks, up to the beginning and the end of each span: those for slow ones."""
    waited = links[1] - links[0]
    if not rows.straggler.any():  # as a rule: nobody compared the ranks of any job
        return [_cells(places, rows, Bucket.LINKS, waited, known, where)]
    share = np.minimum(middle(rows.straggler), ONE_PPM)
    slow = _part(links[1], share, ONE_PPM) - _part(links[0], share, ONE_PPM)
    return [
        _cells(places, rows, Bucket.LINKS, waited - slow, known, where),
        _cells(places, rows, Bucket.STRAGGLER, slow, high(rows.straggler), where),
    ]


def _shares(world: World, rows: HeldSpan) -> _Shares:
    """How the time at work of some spans divides: as measured, or as the job was submitted."""
    jobs, job, use = world.jobs, rows.job, rows.efficiency
    is_measured, has_use = (rows.stalls & SAYS) != 0, use != 0
    host, links = (
        np.where(is_measured, told, given[job])
        for told, given in (
            (middle(rows.stalls), jobs.host_ppm), (low(rows.stalls), jobs.links_ppm)
        )
    )  # fmt: skip
    host = np.minimum(host, ONE_PPM)
    links = np.minimum(links, ONE_PPM - host)
    mfu = np.minimum(np.where(has_use, middle(use), jobs.mfu_ppm[job]), ONE_PPM - host - links)
    memory = np.where(has_use, low(use) - 1, jobs.memory_ppm[job])
    return _Shares(
        is_measured, high(rows.stalls), host, links, mfu,
        np.minimum(memory, ONE_PPM - host - links - mfu),
        has_use | (jobs.confidence[job] != _UNKNOWN), has_use * high(use),
    )  # fmt: skip


def _parts(world: World, rows: HeldSpan, shares: _Shares, at_ms: I64) -> _Parts:
    """How the stretches of some spans divide, from their beginnings up to a moment each."""
    job, origin, held = rows.job, rows.origin_ms, (at_ms - rows.since_ms) * rows.milli
    stalled_ms = _stall_ms(world, job, at_ms - origin) - _stall_ms(
        world, job, rows.since_ms - origin
    )
    stall = np.where(
        shares.is_measured,
        _part(held, np.minimum(shares.checkpoint_ppm, ONE_PPM), ONE_PPM),
        stalled_ms * rows.milli,
    )
    work = held - stall
    idle = _part(work, ONE_PPM - rows.busy_ppm, ONE_PPM)
    busy = work - idle
    host_ppm, links_ppm, mfu_ppm = shares.host_ppm, shares.links_ppm, shares.mfu_ppm
    beside = _part(busy, rows.beside_ppm, ONE_PPM + rows.beside_ppm)
    slow = _part(busy - beside, rows.slow_ppm, ONE_PPM + rows.slow_ppm)
    worked = busy - beside - slow
    host = _part(worked, host_ppm, ONE_PPM)
    links = _part(worked - host, links_ppm, ONE_PPM - host_ppm)
    useful = _part(worked - host - links, mfu_ppm, ONE_PPM - host_ppm - links_ppm)
    below_ppm = ONE_PPM - host_ppm - links_ppm - mfu_ppm
    memory = _part(worked - host - links - useful, np.maximum(0, shares.memory_ppm), below_ppm)
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
    if not share.any():  # as a rule: most jobs say nothing of most shares, and to divide takes long
        return np.zeros_like(amount)
    quotient, rest = np.divmod(amount, np.maximum(1, whole))
    part: I64 = quotient * share + rest * share // np.maximum(1, whole)
    return part


def _cells(
    places: _Places, rows: HeldSpan, bucket: I64 | Bucket, milli_ms: I64, known: I64,
    where: NDArray[np.bool_],
) -> Cells:  # fmt: skip
    buckets = np.broadcast_to(np.asarray(bucket, np.int64), places.bin.shape)
    columns = (places.bin, rows.contract, buckets, rows.job, known, places.period, milli_ms)
    filled = np.flatnonzero(where & (milli_ms != 0))
    return Cells(*(column[filled] for column in columns))
