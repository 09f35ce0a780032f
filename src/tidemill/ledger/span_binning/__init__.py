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
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.core.accounting.columns import NOT_RUNNING, SPAN
from tidemill.engine.fold.batch import columns_of
from tidemill.ledger import price_periods
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import Cells, PackedCells, packed
from tidemill.ledger.span_binning.kernels import CELL, PART, PLACE, SHARE, Cutting, cut_spans
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World

_CELLS_AT_ONCE = 1 << 17  # 7 MB


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


def cut(
    world: World, spans: "array[int]", window: Window, unseen: Sequence[tuple[int, int]] = ()
) -> Iterator[PackedCells]:
    """Cut spans at the edges of the window, of bins and of price periods, and divide what ran.

    Not all at once: cells that are alike in all but the amount may be in several parts.

    ``unseen``: when nobody watched, and so nobody knows what jobs did.
    """
    changes = price_periods.edges(world.contract_rows)
    rows = np.frombuffer(spans, np.int64).reshape(-1, WIDTH)
    for start_ms, end_ms in unseen:
        rows = np.stack(_without_sight(HeldSpan(*rows.T), start_ms, end_ms), axis=1)
    cells: I64 = np.empty((len(CELL), _CELLS_AT_ONCE), np.int64)
    shares, parts = np.zeros(len(SHARE), np.int64), np.zeros((2, len(PART)), np.int64)
    place: I64 = np.zeros(len(PLACE), np.int64)
    cutting, w = Cutting(rows, cells, changes, shares, parts, place), columns_of(world)
    is_over = False
    while not is_over:
        place[PLACE.CELLS] = 0
        is_over = cut_spans(w, cutting, *window)
        yield packed(Cells(*cells[:, : place[PLACE.CELLS]]))


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
