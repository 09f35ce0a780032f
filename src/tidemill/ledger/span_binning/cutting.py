"""Spans cut at bins, at changes of prices and at what nobody saw; what ran, divided.

``tests/ledger/oracle.py`` says the same millisecond by millisecond.
"""

from tidemill.core import rhythm
from tidemill.core.accounting.columns import LASTED, NOT_RUNNING, SPAN
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.span_binning.kernel import CELL, CUT, PORTION, SHARE, kernel
from tidemill.model import measured
from tidemill.model.codes import CONFIDENCE_CODE
from tidemill.model.columns import JOB
from tidemill.model.measured import SAVES, SAYS
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import CONFIDENCES, Confidence

UNKNOWN = CONFIDENCES.index(Confidence.UNKNOWN)
MEASURED, INFERRED = (CONFIDENCE_CODE[one] for one in (Confidence.MEASURED, Confidence.INFERRED))
MOST_CELLS = 24  # of one part of a span: 12, and as many of silent ranks
BEFORE, UNTIL = range(2)  # rows of ``SpanCutting.parts``

checkpoints, since_checkpoint_ms = (
    kernel(rhythm.checkpoints),
    kernel(rhythm.since_checkpoint_ms),
)
high, middle, low = kernel(measured.high), kernel(measured.middle), kernel(measured.low)


@kernel
def write(c, bucket, milli_ms, known):
    """Write a cell of the span that is cut, unless there is nothing in it."""
    if milli_ms == 0:
        return
    marks, cells, i = c.marks, c.cells, c.marks[CUT.SPAN]
    row = marks[CUT.WRITTEN]
    cells[CELL.BIN, row] = marks[CUT.BIN]
    cells[CELL.CONTRACT, row] = c.spans[i, SPAN.CONTRACT]
    cells[CELL.BUCKET, row] = bucket
    cells[CELL.JOB, row] = c.spans[i, SPAN.JOB]
    cells[CELL.KNOWN, row] = known
    cells[CELL.PERIOD, row] = marks[CUT.PERIOD]
    cells[CELL.MILLI_MS, row] = milli_ms
    marks[CUT.WRITTEN] = row + 1


@kernel
def part_of(amount, share, whole):
    """``amount × share / whole`` rounded down, without overflowing 64 bits; 0 of nothing is 0."""
    if share == 0:  # as a rule: most jobs say nothing of most shares, and to divide takes long
        return 0
    whole = max(1, whole)
    return amount // whole * share + amount % whole * share // whole


@kernel
def has_rhythm(c, j):
    """Whether a job saves from time to time, and stands still for it."""
    return c.jobs[j, JOB.INTERVAL_MS] > 0 and c.jobs[j, JOB.COST_MS] > 0


@kernel
def stall_ms(c, j, elapsed_ms):
    """Checkpoint stall in the first ``elapsed_ms`` of a run; as ``workload.progress.split``."""
    if elapsed_ms == 0 or not has_rhythm(c, j):
        return 0
    interval, cost = c.jobs[j, JOB.INTERVAL_MS], c.jobs[j, JOB.COST_MS]
    since_ms = since_checkpoint_ms(elapsed_ms, interval, cost)
    return checkpoints(elapsed_ms, interval, cost) * cost + max(0, since_ms - interval)


@kernel
def is_undivided(c, i):
    """Whether nothing is known of a span that divides it: in a history of nearly all."""
    spans, j = c.spans, c.spans[i, SPAN.JOB]
    said = spans[i, SPAN.SLOW_PPM] | spans[i, SPAN.BESIDE_PPM] | spans[i, SPAN.STALLS]
    said |= spans[i, SPAN.EFFICIENCY] | spans[i, SPAN.STRAGGLER]
    is_whole = spans[i, SPAN.BUSY_PPM] == ONE_PPM and said == 0
    return is_whole and c.jobs[j, JOB.CONFIDENCE] == UNKNOWN and not has_rhythm(c, j)


@kernel
def know_shares(c, i):
    """How the time at work of a span divides: as measured, or as its job was submitted."""
    jobs, shares, j = c.jobs, c.shares, c.spans[i, SPAN.JOB]
    stalls, use = c.spans[i, SPAN.STALLS], c.spans[i, SPAN.EFFICIENCY]
    host, links, mfu = jobs[j, JOB.HOST_PPM], jobs[j, JOB.LINKS_PPM], jobs[j, JOB.MFU_PPM]
    memory = jobs[j, JOB.MEMORY_PPM]
    is_measured = (stalls & SAYS) != 0
    if is_measured:
        host, links = middle(stalls), low(stalls)
    if use != 0:
        mfu, memory = middle(use), low(use) - 1
    host = min(host, ONE_PPM)
    links = min(links, ONE_PPM - host)
    mfu = min(mfu, ONE_PPM - host - links)
    shares[SHARE.IS_MEASURED] = int(is_measured)
    shares[SHARE.CHECKPOINT] = min(high(stalls), ONE_PPM)
    shares[SHARE.HOST] = host
    shares[SHARE.LINKS] = links
    shares[SHARE.MFU] = mfu
    shares[SHARE.MEMORY] = min(memory, ONE_PPM - host - links - mfu)
    shares[SHARE.IS_KNOWN] = int(use != 0 or jobs[j, JOB.CONFIDENCE] != UNKNOWN)
    shares[SHARE.CONFIDENCE] = high(use) if use != 0 else 0


@kernel
def divide(c, i, at_ms, row):
    """How the stretch of a span divides, from its beginning up to a moment."""
    spans, shares, parts, j = c.spans, c.shares, c.parts, c.spans[i, SPAN.JOB]
    origin_ms, since_ms, milli = (
        spans[i, SPAN.ORIGIN_MS],
        spans[i, SPAN.SINCE_MS],
        c.marks[CUT.MILLI],
    )
    if at_ms == since_ms:  # as a rule, where a span begins
        for part in range(parts.shape[1]):
            parts[row, part] = 0
        return
    host_ppm, links_ppm, mfu_ppm = shares[SHARE.HOST], shares[SHARE.LINKS], shares[SHARE.MFU]
    held = (at_ms - since_ms) * milli
    if shares[SHARE.IS_MEASURED] != 0:
        stall = part_of(held, shares[SHARE.CHECKPOINT], ONE_PPM)
    else:
        stall = (stall_ms(c, j, at_ms - origin_ms) - stall_ms(c, j, since_ms - origin_ms)) * milli
    idle = part_of(held - stall, ONE_PPM - spans[i, SPAN.BUSY_PPM], ONE_PPM)
    busy = held - stall - idle
    beside_ppm, slow_ppm = spans[i, SPAN.BESIDE_PPM], spans[i, SPAN.SLOW_PPM]
    beside = part_of(busy, beside_ppm, ONE_PPM + beside_ppm)
    slow = part_of(busy - beside, slow_ppm, ONE_PPM + slow_ppm)
    worked = busy - beside - slow
    host = part_of(worked, host_ppm, ONE_PPM)
    links = part_of(worked - host, links_ppm, ONE_PPM - host_ppm)
    useful = part_of(worked - host - links, mfu_ppm, ONE_PPM - host_ppm - links_ppm)
    below_ppm = ONE_PPM - host_ppm - links_ppm - mfu_ppm
    below = worked - host - links - useful
    parts[row, PORTION.STALL] = stall
    parts[row, PORTION.IDLE] = idle
    parts[row, PORTION.BUSY] = busy
    parts[row, PORTION.BESIDE] = beside
    parts[row, PORTION.SLOW] = slow
    parts[row, PORTION.HOST] = host
    parts[row, PORTION.LINKS] = links
    parts[row, PORTION.STRAGGLER] = part_of(
        links, min(middle(spans[i, SPAN.STRAGGLER]), ONE_PPM), ONE_PPM
    )
    parts[row, PORTION.USEFUL] = useful
    parts[row, PORTION.MEMORY] = part_of(below, max(0, shares[SHARE.MEMORY]), below_ppm)


@kernel
def grew(c, part):
    """What a part is between the two moments."""
    return c.parts[UNTIL, part] - c.parts[BEFORE, part]


@kernel
def write_lasting(c, i, rest, told):
    """Work that lasted: by what made it slower, and by its efficiency."""
    shares = c.shares
    use, is_split = shares[SHARE.CONFIDENCE], shares[SHARE.MEMORY] >= 0
    if use == MEASURED and c.marks[CUT.IS_SILENT] != 0:
        use = INFERRED
    rest -= grew(c, PORTION.BESIDE) + grew(c, PORTION.SLOW)
    write(c, Bucket.INTERFERENCE, grew(c, PORTION.BESIDE), told)
    write(c, Bucket.LINKS, grew(c, PORTION.SLOW), 0)
    if shares[SHARE.IS_KNOWN] != 0 or shares[SHARE.IS_MEASURED] != 0:
        straggler = grew(c, PORTION.STRAGGLER)
        rest -= grew(c, PORTION.HOST) + grew(c, PORTION.LINKS)
        write(c, Bucket.HOST, grew(c, PORTION.HOST), told)
        write(c, Bucket.LINKS, grew(c, PORTION.LINKS) - straggler, told)
        write(c, Bucket.STRAGGLER, straggler, high(c.spans[i, SPAN.STRAGGLER]))
    if shares[SHARE.IS_KNOWN] == 0:
        write(c, Bucket.UNKNOWN, rest, 0)
        return
    write(c, Bucket.USEFUL, grew(c, PORTION.USEFUL), use)
    below, memory = rest - grew(c, PORTION.USEFUL), grew(c, PORTION.MEMORY)
    if is_split:
        write(c, Bucket.MEMORY_BOUND, memory, use)
        write(c, Bucket.BELOW_ROOF, below - memory, use)
    else:
        write(c, Bucket.BELOW_PEAK, below, use)


@kernel
def write_some(c, i, start_ms, end_ms):
    """Write the cells of a part of a run, of some of its devices (``CUT.MILLI``)."""
    bucket, saves = c.spans[i, SPAN.BUCKET], (c.spans[i, SPAN.STALLS] & SAVES) != 0
    measured_as = INFERRED if c.marks[CUT.IS_SILENT] != 0 else MEASURED
    told = measured_as if c.shares[SHARE.IS_MEASURED] != 0 else 0
    divide(c, i, start_ms, BEFORE)
    divide(c, i, end_ms, UNTIL)
    write(c, Bucket.CHECKPOINT, grew(c, PORTION.STALL), told)
    write(c, Bucket.IDLE, grew(c, PORTION.IDLE), INFERRED if c.marks[CUT.IS_SILENT] != 0 else 0)
    if bucket == LASTED:
        write_lasting(c, i, grew(c, PORTION.BUSY), told)
    else:
        write(c, bucket, grew(c, PORTION.BUSY), measured_as if saves else 0)


@kernel
def write_run(c, i, start_ms, end_ms):
    """Write the cells of a part of a run; those of the devices of silent ranks apart."""
    marks, milli = c.marks, c.spans[i, SPAN.MILLI]
    silent = part_of(milli, low(c.spans[i, SPAN.STRAGGLER]), ONE_PPM)
    marks[CUT.IS_SILENT] = 0
    marks[CUT.MILLI] = milli - silent
    if silent < milli:
        write_some(c, i, start_ms, end_ms)
    if silent > 0:
        marks[CUT.IS_SILENT] = 1
        marks[CUT.MILLI] = silent
        write_some(c, i, start_ms, end_ms)


@kernel
def sight(c, at_ms):
    """Until when it stays as it is that nobody watches, or somebody does; whether nobody does."""
    unseen = c.unseen
    for u in range(len(unseen)):
        if at_ms < unseen[u, 0]:
            return unseen[u, 0], 0
        if at_ms < unseen[u, 1]:
            return unseen[u, 1], 1
    return c.marks[CUT.END_MS], 0


@kernel
def next_price(c, at_ms):
    """Until when prices stay; in which period that is goes to the marks."""
    period, changes = 0, c.changes
    while period < len(changes) and changes[period] <= at_ms:
        period += 1
    c.marks[CUT.PERIOD] = period
    return changes[period] if period < len(changes) else c.marks[CUT.END_MS]


@kernel
def cut_from(c, i):
    """Cut the spans from a number on; the first that was not cut to its end: cells are full."""
    marks, spans, room = c.marks, c.spans, c.cells.shape[1] - MOST_CELLS
    while i < len(spans):
        marks[CUT.SPAN] = i
        is_run = spans[i, SPAN.ORIGIN_MS] != NOT_RUNNING and not is_undivided(c, i)
        if is_run:
            know_shares(c, i)
        whole = Bucket.UNKNOWN if spans[i, SPAN.BUCKET] == LASTED else spans[i, SPAN.BUCKET]
        at_ms = max(spans[i, SPAN.START_MS], marks[CUT.START_MS])
        end_ms = min(spans[i, SPAN.END_MS], marks[CUT.END_MS])
        while at_ms < end_ms:
            if marks[CUT.WRITTEN] > room:
                spans[i, SPAN.START_MS] = at_ms
                return i
            marks[CUT.BIN] = (at_ms - marks[CUT.START_MS]) // marks[CUT.BIN_MS]
            edge_ms = marks[CUT.START_MS] + (marks[CUT.BIN] + 1) * marks[CUT.BIN_MS]
            seen_until, is_unseen = sight(c, at_ms)
            until_ms = min(end_ms, edge_ms, next_price(c, at_ms), seen_until)
            if is_unseen != 0:
                write(c, Bucket.NOT_OBSERVED, (until_ms - at_ms) * spans[i, SPAN.MILLI], 0)
            elif is_run:
                write_run(c, i, at_ms, until_ms)
            else:
                write(c, whole, (until_ms - at_ms) * spans[i, SPAN.MILLI], 0)
            at_ms = until_ms
        i += 1
    return i
