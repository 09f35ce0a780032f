"""``@kernel``: a function over spans, the jobs that held them, and the cells that they become."""

from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from tidemill import compiled
from tidemill.core.kernel import whole_of
from tidemill.model.tables import I64


class CELL(IntEnum):
    """The rows of ``SpanCutting.cells``: columns of ``ledger.cells.Cells``, each without gaps."""

    BIN = 0
    CONTRACT = 1
    BUCKET = 2
    JOB = 3
    KNOWN = 4
    PERIOD = 5
    MILLI_MS = 6


class CUT(IntEnum):
    """Single numbers."""

    START_MS = 0  # of the window
    END_MS = 1
    BIN_MS = 2
    WRITTEN = 3  # cells so far
    SPAN = 4  # the one that is cut,
    BIN = 5  # and where the part of it lies that is written:
    PERIOD = 6
    MILLI = 7  # of it, those that are divided
    IS_SILENT = 8  # whether those are of ranks that tell nothing


class SHARE(IntEnum):
    """How the time at work of a span divides, in ppm, and how that is known."""

    IS_MEASURED = 0
    CHECKPOINT = 1
    HOST = 2
    LINKS = 3
    MFU = 4
    MEMORY = 5  # -1: nobody knows the attainable roof
    IS_KNOWN = 6  # whether anybody knows the efficiency
    CONFIDENCE = 7  # as in ``Cells.known``


class PORTION(IntEnum):
    """How a stretch divides, cumulative from its beginning, in milli × ms."""

    STALL = 0
    IDLE = 1
    BUSY = 2
    BESIDE = 3
    SLOW = 4
    HOST = 5
    LINKS = 6
    STRAGGLER = 7
    USEFUL = 8
    MEMORY = 9


class SpanCutting(NamedTuple):
    """Spans on their way to cells; scratch beside them."""

    jobs: I64
    spans: I64
    """As ``core.accounting.columns.SPAN`` says; what is cut off is cut off here too."""
    unseen: I64
    """From when to when nobody watched, in order."""
    changes: I64
    """When prices change, in order."""
    cells: I64
    marks: I64
    shares: I64
    parts: I64
    """Up to where a part begins, and up to where it ends."""


_PACKAGE = Path(__file__).parents[2]
kernel = compiled.folder(
    Path(__file__).parent,
    _PACKAGE / "model",
    _PACKAGE / "core",
    _PACKAGE / "ledger" / "buckets.py",
    dimensions=lambda _: 0,
    whole={"c": whole_of(SpanCutting, ("changes", "marks", "shares"))},
)
"""Compile this, unless the process runs interpreted."""
