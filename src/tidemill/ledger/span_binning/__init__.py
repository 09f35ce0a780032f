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
slow rank cost is a part of the links, divided off last. Kernels do it (``cutting``).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.engine.fold.batch import columns_of
from tidemill.ledger import price_periods
from tidemill.ledger.cells import Cells
from tidemill.ledger.span_binning import cutting
from tidemill.ledger.span_binning.kernel import CELL, CUT, PORTION, SHARE, SpanCutting
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World


class Window(NamedTuple):
    """The time that a ledger is about, and the width of its bins."""

    start_ms: int = 0
    end_ms: int = FOREVER_MS
    bin_ms: int = FOREVER_MS


def cut(
    world: World, spans: I64, window: Window, unseen: Sequence[tuple[int, int]] = ()
) -> Iterator[Cells]:
    """Cut spans at the window's edges and at bin edges, and divide what ran; not added up.

    ``unseen``: when nobody watched, and so nobody knows what jobs did. The spans are used up.
    """
    marks: I64 = np.zeros(len(CUT), np.int64)
    marks[[CUT.START_MS, CUT.END_MS, CUT.BIN_MS]] = window
    c = SpanCutting(
        columns_of(world).jobs, spans, np.array(unseen, np.int64).reshape(-1, 2),
        price_periods.edges(world.contract_rows), np.zeros((len(CELL), 0), np.int64), marks,
        np.zeros(len(SHARE), np.int64), np.zeros((2, len(PORTION)), np.int64),
    )  # fmt: skip
    i, room = 0, 2 * len(spans) + cutting.MOST_CELLS
    while i < len(spans):
        marks[CUT.WRITTEN] = 0
        c = c._replace(cells=np.empty((len(CELL), room), np.int64))
        i = int(cutting.cut_from(c, i))
        yield Cells(*c.cells[:, : marks[CUT.WRITTEN]])
