"""What was measured beside the ledger, on the page: steps, requests, and what devices did.

Those that held most come first; a page has room for some. Where the jobs of a window were rolled up
the rows are teams.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidemill.ledger import efficiency, served_text
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.efficiency import HeldRow
from tidemill.ledger.measured import FIGURES
from tidemill.ledger.statement import Statement
from tidemill.model.loads import LoadFigure
from tidemill.report import words

SHOWN = 20


class MeasuredTable(NamedTuple):
    """A table: what a row is, its other columns, the rows, and how many more there are."""

    column: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    more: int
    legend: str


def services(statement: Statement) -> MeasuredTable | None:
    """What services were asked for; None: nobody counted requests."""
    found = _held(statement, LoadFigure.SEEN_MS, LoadFigure.SEEN_MS)
    some = [row for row in found.rows if row.measured.load is not None]
    return _table(
        found, some, served_text.LOAD_TITLES, lambda row: served_text.load_cells(row, _idle(row)),
        served_text.LOAD_LEGEND,
    )  # fmt: skip


def steps(statement: Statement) -> MeasuredTable | None:
    """What training loops did; None: nobody counted steps."""
    found = _held(statement, LoadFigure.STEPPED_MS, LoadFigure.STEPPED_MS)
    some = [row for row in found.rows if row.measured.steps is not None]
    titles, legend = served_text.STEP_TITLES, served_text.STEP_LEGEND
    return _table(found, some, titles, served_text.step_cells, legend)


def devices(statement: Statement) -> MeasuredTable | None:
    """What devices did under the jobs that held most; None: nobody measured."""
    found = _held(statement, FIGURES, np.iinfo(np.int64).max)
    some = [row for row in found.rows if row.measured.figures]
    figures = served_text.figures_of(some)
    titles = tuple(served_text.DEVICE_TITLES[figure] for figure in figures)
    return _table(
        found, some, titles,
        lambda row: [served_text.figure_text(row.measured.figures, one) for one in figures],
        served_text.DEVICE_LEGEND,
    )  # fmt: skip


class _Held(NamedTuple):
    column: str
    rows: list[HeldRow]
    more: int


def _held(statement: Statement, first: int, last: int) -> _Held:
    """The jobs of which something between two numbers of ``what`` was measured."""
    told = statement.measured
    jobs = told.job[(told.what >= first) & (told.what <= last)]
    if len(jobs) and jobs.min() < 0:  # rolled up: the jobs are forgotten
        return _Held("team", list(efficiency.efficiencies(statement, "team").rows), 0)
    every, held = np.unique(jobs), statement.held_by_jobs()
    largest = every[np.argsort(-held[every], kind="stable")]
    rows = [efficiency.of_job(statement, j) for j in largest[:SHOWN].tolist()]
    return _Held("job", rows, max(0, len(every) - SHOWN))


def _table(
    found: _Held,
    rows: Sequence[HeldRow],
    titles: tuple[str, ...],
    cells: Callable[[HeldRow], list[str]],
    legend: str,
) -> MeasuredTable | None:
    if not rows:
        return None
    made = tuple((row.key, tuple(cells(row))) for row in rows)
    return MeasuredTable(found.column, titles, made, found.more, legend)


def _idle(row: HeldRow) -> str:
    figure = row.figure([Bucket.IDLE])
    if figure.milli_ms is None:
        return served_text.UNKNOWN
    return words.share(efficiency.ratio(figure, row.held_milli_ms) or Fraction(0))
