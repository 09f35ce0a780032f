"""Kernels that cut spans: into bins and price periods, and what ran by what it did."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.core.accounting.columns import LASTED, NOT_RUNNING, SPAN
from tidemill.core.kernel import beside
from tidemill.core.progress import checkpoints, since_checkpoint_ms
from tidemill.ledger import buckets
from tidemill.ledger.buckets import Bucket
from tidemill.model import measured
from tidemill.model.codes import CONFIDENCE_CODE
from tidemill.model.columns import JOB
from tidemill.model.measured import SAVES, SAYS
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence
from tidemill.model.tables import I64

CELLS_OF_RUN = 12  # that a span has in one bin and price period at most
_UNKNOWN = CONFIDENCES.index(Confidence.UNKNOWN)
_MEASURED = CONFIDENCE_CODE[Confidence.MEASURED]


class CELL(IntEnum):
    """The rows of ``cells``; as ``cells.Cells`` has them."""

    BIN = 0
    CONTRACT = 1
    BUCKET = 2
    JOB = 3
    KNOWN = 4
    PERIOD = 5
    MILLI_MS = 6


class SHARE(IntEnum):
    """How the time at work of a span divides, in ppm, and how that is known."""

    IS_MEASURED = 0
    CHECKPOINT = 1
    HOST = 2
    LINKS = 3
    MFU = 4
    MEMORY = 5  # -1: nobody knows
    IS_KNOWN = 6  # whether anybody knows the efficiency,
    KNOWN = 7  # and how; as in ``Cells.known``


class PART(IntEnum):
    """How a stretch divides, cumulative from its beginning, in milli × ms."""

    STALL = 0
    IDLE = 1
    BUSY = 2
    BESIDE = 3
    SLOW = 4
    HOST = 5
    LINKS = 6
    USEFUL = 7
    MEMORY = 8


class PLACE(IntEnum):
    """How far spans were cut."""

    SPAN = 0
    FROM_MS = 1  # from where on it is still to be cut
    BIN = 2  # that it is cut into now,
    PERIOD = 3  # and the price period; as ``price_periods`` numbers them
    CELLS = 4  # that are written


class Cutting(NamedTuple):
    """Spans and their cells, as kernels take them."""

    spans: I64
    cells: I64  # by ``CELL``
    changes: I64  # when prices change
    shares: I64  # of the span that is cut
    parts: I64  # of it up to the beginning and to the end of a bin
    place: I64


kernel = beside(__file__, {"c": Cutting}, ("changes", "shares", "place"), calls=(buckets.__file__,))
high, middle, low = (kernel(one) for one in (measured.high, measured.middle, measured.low))


@kernel
def part_of(amount, share, whole):
    """``amount × share / whole`` rounded down, without overflowing 64 bits; 0 of nothing is 0."""
    if share == 0:
        return 0
    quotient, rest = divmod(amount, max(1, whole))
    return quotient * share + rest * share // max(1, whole)


@kernel
def has_rhythm(jobs, j):
    """Whether a job stalls to save."""
    return jobs[j, JOB.INTERVAL_MS] > 0 and jobs[j, JOB.COST_MS] > 0


@kernel
def stalled_ms(jobs, j, elapsed):
    """Checkpoint stall in the first ``elapsed`` of a run; as ``workload.progress.split``."""
    if not has_rhythm(jobs, j):
        return 0
    interval, cost = jobs[j, JOB.INTERVAL_MS], jobs[j, JOB.COST_MS]
    since = since_checkpoint_ms(elapsed, interval, cost)
    return checkpoints(elapsed, interval, cost) * cost + max(0, since - interval)


@kernel
def is_divided(jobs, c, i):
    """Whether a span ran, and anything is known that divides it: in a history of few."""
    spans, j = c.spans, c.spans[i, SPAN.JOB]
    if spans[i, SPAN.ORIGIN_MS] == NOT_RUNNING:
        return False
    told = spans[i, SPAN.SLOW_PPM] | spans[i, SPAN.BESIDE_PPM] | spans[i, SPAN.STALLS]
    told |= spans[i, SPAN.EFFICIENCY] | spans[i, SPAN.STRAGGLER]
    is_told = told != 0 or spans[i, SPAN.BUSY_PPM] != ONE_PPM
    return is_told or jobs[j, JOB.CONFIDENCE] != _UNKNOWN or has_rhythm(jobs, j)


@kernel
def note_shares(jobs, c, i):
    """Write how a span divides: as measured, or as the job was submitted."""
    shares, stalls, use = c.shares, c.spans[i, SPAN.STALLS], c.spans[i, SPAN.EFFICIENCY]
    j, is_measured = c.spans[i, SPAN.JOB], (stalls & SAYS) != 0
    host = min(middle(stalls) if is_measured else jobs[j, JOB.HOST_PPM], ONE_PPM)
    links = low(stalls) if is_measured else jobs[j, JOB.LINKS_PPM]
    links = min(links, ONE_PPM - host)
    mfu = middle(use) if use != 0 else jobs[j, JOB.MFU_PPM]
    mfu = min(mfu, ONE_PPM - host - links)
    memory = low(use) - 1 if use != 0 else jobs[j, JOB.MEMORY_PPM]
    shares[SHARE.IS_MEASURED] = is_measured
    shares[SHARE.CHECKPOINT] = min(high(stalls), ONE_PPM)
    shares[SHARE.HOST] = host
    shares[SHARE.LINKS] = links
    shares[SHARE.MFU] = mfu
    shares[SHARE.MEMORY] = min(memory, ONE_PPM - host - links - mfu)
    shares[SHARE.IS_KNOWN] = use != 0 or jobs[j, JOB.CONFIDENCE] != _UNKNOWN
    shares[SHARE.KNOWN] = high(use) if use != 0 else 0


@kernel
def divide(jobs, c, i, row, moment):
    """Write how the stretch of a span divides, from its beginning up to a moment."""
    spans, shares, parts, j = c.spans, c.shares, c.parts, c.spans[i, SPAN.JOB]
    since, origin, milli = spans[i, SPAN.SINCE_MS], spans[i, SPAN.ORIGIN_MS], spans[i, SPAN.MILLI]
    held = (moment - since) * milli
    if shares[SHARE.IS_MEASURED] != 0:
        stall = part_of(held, shares[SHARE.CHECKPOINT], ONE_PPM)
    else:
        stall = stalled_ms(jobs, j, moment - origin) - stalled_ms(jobs, j, since - origin)
        stall *= milli
    idle = part_of(held - stall, ONE_PPM - spans[i, SPAN.BUSY_PPM], ONE_PPM)
    busy, rest = held - stall - idle, ONE_PPM
    parts[row, PART.STALL], parts[row, PART.IDLE], parts[row, PART.BUSY] = stall, idle, busy
    beside = spans[i, SPAN.BESIDE_PPM]
    parts[row, PART.BESIDE] = part_of(busy, beside, ONE_PPM + beside)
    left, slow = busy - parts[row, PART.BESIDE], spans[i, SPAN.SLOW_PPM]
    parts[row, PART.SLOW] = part_of(left, slow, ONE_PPM + slow)
    left -= parts[row, PART.SLOW]
    parts[row, PART.HOST] = part_of(left, shares[SHARE.HOST], rest)
    left, rest = left - parts[row, PART.HOST], rest - shares[SHARE.HOST]
    parts[row, PART.LINKS] = part_of(left, shares[SHARE.LINKS], rest)
    left, rest = left - parts[row, PART.LINKS], rest - shares[SHARE.LINKS]
    parts[row, PART.USEFUL] = part_of(left, shares[SHARE.MFU], rest)
    left, rest = left - parts[row, PART.USEFUL], rest - shares[SHARE.MFU]
    parts[row, PART.MEMORY] = part_of(left, max(0, shares[SHARE.MEMORY]), rest)


@kernel
def put(c, i, bucket, sure, amount):
    """Write a cell, unless it is empty."""
    if amount == 0:
        return
    cells, n = c.cells, c.place[PLACE.CELLS]
    cells[CELL.BIN, n] = c.place[PLACE.BIN]
    cells[CELL.CONTRACT, n] = c.spans[i, SPAN.CONTRACT]
    cells[CELL.BUCKET, n] = bucket
    cells[CELL.JOB, n] = c.spans[i, SPAN.JOB]
    cells[CELL.KNOWN, n] = sure
    cells[CELL.PERIOD, n] = c.place[PLACE.PERIOD]
    cells[CELL.MILLI_MS, n] = amount
    c.place[PLACE.CELLS] += 1


@kernel
def between(parts, column):
    """What lies between the two moments up to which something was divided."""
    return parts[1, column] - parts[0, column]


@kernel
def put_links(c, i, sure):
    """Write the waits for other ranks, and of them those for slow ones."""
    straggler, parts = c.spans[i, SPAN.STRAGGLER], c.parts
    share = min(middle(straggler), ONE_PPM)
    slow = part_of(parts[1, PART.LINKS], share, ONE_PPM)
    slow -= part_of(parts[0, PART.LINKS], share, ONE_PPM)
    put(c, i, Bucket.LINKS, sure, between(parts, PART.LINKS) - slow)
    put(c, i, Bucket.STRAGGLER, high(straggler), slow)


@kernel
def put_lasting(c, i, sure):
    """Write the busy time of a span that lasted."""
    parts, shares = c.parts, c.shares
    beside, slow = between(parts, PART.BESIDE), between(parts, PART.SLOW)
    put(c, i, Bucket.INTERFERENCE, sure, beside)
    put(c, i, Bucket.LINKS, 0, slow)
    rest = between(parts, PART.BUSY) - beside - slow
    if shares[SHARE.IS_KNOWN] != 0 or shares[SHARE.IS_MEASURED] != 0:
        put(c, i, Bucket.HOST, sure, between(parts, PART.HOST))
        put_links(c, i, sure)
        rest -= between(parts, PART.HOST) + between(parts, PART.LINKS)
    if shares[SHARE.IS_KNOWN] == 0:
        put(c, i, Bucket.UNKNOWN, 0, rest)
        return
    known, useful = shares[SHARE.KNOWN], between(parts, PART.USEFUL)
    put(c, i, Bucket.USEFUL, known, useful)
    if shares[SHARE.MEMORY] < 0:
        put(c, i, Bucket.BELOW_PEAK, known, rest - useful)
        return
    memory = between(parts, PART.MEMORY)
    put(c, i, Bucket.MEMORY_BOUND, known, memory)
    put(c, i, Bucket.BELOW_ROOF, known, rest - useful - memory)


@kernel
def put_run(jobs, c, i, start, end):
    """Write the cells of a part of a span that ran."""
    divide(jobs, c, i, 0, start)
    divide(jobs, c, i, 1, end)
    sure = c.shares[SHARE.IS_MEASURED] * _MEASURED
    put(c, i, Bucket.CHECKPOINT, sure, between(c.parts, PART.STALL))
    put(c, i, Bucket.IDLE, 0, between(c.parts, PART.IDLE))
    if c.spans[i, SPAN.BUCKET] == LASTED:
        put_lasting(c, i, sure)
        return
    fate = _MEASURED if (c.spans[i, SPAN.STALLS] & SAVES) != 0 else 0
    put(c, i, c.spans[i, SPAN.BUCKET], fate, between(c.parts, PART.BUSY))


@kernel
def put_whole(c, i, start, end):
    """Write the one cell of a part of a span of which nothing is known that divides it."""
    bucket = c.spans[i, SPAN.BUCKET]
    bucket = Bucket.UNKNOWN if bucket == LASTED else bucket
    put(c, i, bucket, 0, (end - start) * c.spans[i, SPAN.MILLI])


@kernel
def next_edge(c, moment, start, width):
    """Note in which bin and price period a moment is; when the first of them ends."""
    period, number = 0, (moment - start) // width
    while period < len(c.changes) and c.changes[period] <= moment:
        period += 1
    c.place[PLACE.BIN], c.place[PLACE.PERIOD] = number, period
    edge = min(start + number * width, FOREVER_MS - width) + width
    return min(edge, c.changes[period]) if period < len(c.changes) else edge


@kernel
def cut_one(w, c, i, start, end, width):
    """Cut a span at all edges, from where it was left; whether there was room for all of it."""
    place, last = c.place, min(c.spans[i, SPAN.END_MS], end)
    moment = max(c.spans[i, SPAN.START_MS], start, place[PLACE.FROM_MS])
    is_run = is_divided(w.jobs, c, i)
    if is_run:
        note_shares(w.jobs, c, i)
    while moment < last:
        if place[PLACE.CELLS] + CELLS_OF_RUN > c.cells.shape[1]:
            place[PLACE.FROM_MS] = moment
            return False
        until = min(last, next_edge(c, moment, start, width))
        if is_run:
            put_run(w.jobs, c, i, moment, until)
        else:
            put_whole(c, i, moment, until)
        moment = until
    place[PLACE.FROM_MS] = 0
    return True


@kernel
def cut_spans(w, c, start, end, width):
    """Cut the spans that are left into bins of a window, while there is room; whether none is."""
    while c.place[PLACE.SPAN] < len(c.spans):
        if not cut_one(w, c, c.place[PLACE.SPAN], start, end, width):
            return False
        c.place[PLACE.SPAN] += 1
    return True
