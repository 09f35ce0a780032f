"""Waits on the page: the figures of all jobs, of each team, and over time; and the jobs to look at.

The chart shows, for the jobs submitted in each step, the queue wait that half of them and nine in
ten did not exceed. Jobs that have not started count with the time so far: then it is a lower bound.
"""

from typing import NamedTuple

import numpy as np

from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.printed import about_usd, cost_text
from tidemill.ledger.statement import Statement
from tidemill.ledger.top import top_jobs
from tidemill.ledger.waits import ONE, WaitDimension, WaitFigures, WaitSpread
from tidemill.model.measures import HOUR_MS, count_text, duration_text
from tidemill.report import stages, timeline, words
from tidemill.report.timeline import PLOT_HEIGHT, PLOT_WIDTH, Slot, Tick

MOST_STEPS = 56  # of the chart: four a day over two weeks
MOST_ROWS = 12
MOST_JOBS = 10
NONE = "—"


class SortedCell(NamedTuple):
    """What is written, and by what it is sorted."""

    text: str
    value: int


class WaitsRow(NamedTuple):
    """One team or user."""

    name: str
    jobs: str
    waiting: str
    cells: tuple[SortedCell, ...]
    """Mean, median, p90, p99 and longest wait; mean from submission to the end."""


class Table(NamedTuple):
    """Waits by something."""

    key: str
    title: str
    column: str
    rows: tuple[WaitsRow, ...]
    more: int


class Course(NamedTuple):
    """Waits over time."""

    median: str
    p90: str
    slots: tuple[Slot, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    step: str
    words: str


class WaitsSection(NamedTuple):
    """The section."""

    answer: str
    outcomes: str
    course: Course | None
    tables: tuple[Table, ...]


class WastefulJob(NamedTuple):
    """One job that wasted much."""

    name: str
    team: str
    user: str
    gpus: str
    paid: str
    wasted: str
    leak: str
    style: str


def waits(statement: Statement) -> WaitsSection | None:
    """The section of a statement; None where no job was submitted, or nobody knows when."""
    found = statement.waits.figures()
    if found.wait is None:
        return None
    spread = found.wait
    answer = (
        f"Of {count_text(spread.jobs, 'job')} {_quantile(spread, 'p50')}, and"
        f" {_quantile(spread, 'p90')}; the mean was {_time(spread, 'mean')}, the longest"
        f" {_time(spread, 'max')}."
    )
    outcomes = (
        f"By the end, {found.done:,} of these had finished, {found.failed:,} had failed,"
        f" {found.cancelled:,} had been cancelled, {found.running:,} ran and {found.waiting:,}"
        " waited."
    )
    if found.held:
        held = "was" if found.held == 1 else "were"
        outcomes += (
            f" {count_text(found.held, 'more job')} {held} held, or waited for something else than"
            " GPUs."
        )
    if found.never_started:
        outcomes += f" {found.never_started:,} never started: the time so far counts (≥)."
    tables = [_table(statement, "team", "Waits by team")]
    if any(statement.world.job_users):
        tables.append(_table(statement, "user", "Waits by user"))
    tables.append(_table(statement, "size", "Waits by GPUs requested"))
    return WaitsSection(answer, outcomes, course(statement), tuple(tables))


def jobs(statement: Statement) -> tuple[WastefulJob, ...]:
    """The jobs that wasted most dollars."""
    return tuple(
        WastefulJob(
            row.job, row.team, row.user, words.accelerators(row.gpu_milli),
            words.UNKNOWN if row.paid_usd_micro is None else about_usd(row.paid_usd_micro),
            cost_text(row.wasted_usd_micro, row.wasted_milli_ms),
            f"{ABOUT[row.leak].title} {cost_text(row.leak_usd_micro, row.leak_milli_ms)}",
            stages.style(ABOUT[row.leak].group),
        )
        for row in top_jobs(statement, MOST_JOBS)
    )  # fmt: skip


def course(statement: Statement) -> Course | None:
    """The chart; None where there is no time to show, or nobody waited."""
    rows, start, length = statement.waits, statement.start_ms, statement.length_ms
    if length < 2 * HOUR_MS or not rows.wait_ms.any():
        return None
    step = next(s for s in _STEPS_MS if length // s <= MOST_STEPS or s == _STEPS_MS[-1])
    count = -(-length // step)
    at = (rows.submit_ms - start) // step
    found = [rows.some(at == i).figures().wait for i in range(count)]
    edges = [min(length, i * step) for i in range(count + 1)]
    top = timeline.nice_top(max(s.p90 for s in found if s is not None) / HOUR_MS)
    x = [edge * PLOT_WIDTH / length for edge in edges]
    median, p90 = (
        timeline.steps_path(x, [(getattr(s, name) / HOUR_MS / top) if s else 0.0 for s in found])
        for name in ("p50", "p90")
    )
    moments = [statement.calendar.text(start + edge) for edge in edges]
    slots = tuple(
        Slot(f"{x[i]:.1f}", f"{x[i + 1] - x[i]:.1f}", _slot(moments[i], moments[i + 1], found[i]))
        for i in range(count)
    )
    worst = int(np.argmax([-1 if s is None else s.p90 for s in found]))
    most = found[worst]
    assert most is not None, "somebody waited"
    return Course(
        median, p90, slots, timeline.x_ticks(statement),
        tuple(
            Tick(f"{PLOT_HEIGHT * (1 - i / 4):.1f}", f"{top * i / 4:,.6g}{words.NBSP}h")
            for i in range(5)
        ),
        duration_text(step),
        f"Of those submitted from {moments[worst]} on {_quantile(most, 'p90')}, the most of any"
        " step.",
    )  # fmt: skip


def _slot(start: str, end: str, found: WaitSpread | None) -> str:
    if found is None:
        return f"{start} to {end}: no job was submitted"
    return (
        f"{start} to {end}: {count_text(found.jobs, 'job')}, median {_time(found, 'p50')}, nine in"
        f" ten {_time(found, 'p90')}, longest {_time(found, 'max')}"
    )


def _table(statement: Statement, by: WaitDimension, title: str) -> Table:
    rows = list(statement.waits_by(by).items())
    if by != "size":
        rows.sort(key=lambda row: (-row[1].jobs, row[0]))
    column = "GPUs requested" if by == "size" else by
    shown = tuple(_row(name, found) for name, found in rows[:MOST_ROWS])
    return Table(by, title, column, shown, max(0, len(rows) - MOST_ROWS))


def _row(name: str, found: WaitFigures) -> WaitsRow:
    wait, ends, slow = found.wait, found.completion, found.slowdown
    cells = [_cell(wait, stat) for stat in ("mean", "p50", "p90", "p99", "max")]
    cells.append(_cell(ends, "mean"))
    cells.append(
        SortedCell(NONE, -1) if slow is None else SortedCell(f"{slow.p90 / ONE:,.2f}", slow.p90)
    )
    return WaitsRow(name, f"{found.jobs:,}", f"{found.waiting:,}", tuple(cells))


def _cell(found: WaitSpread | None, stat: str) -> SortedCell:
    return (
        SortedCell(NONE, -1)
        if found is None
        else SortedCell(_time(found, stat), getattr(found, stat))
    )


def _quantile(found: WaitSpread, stat: str) -> str:
    """A median or a ninth tenth as a sentence has it; where it may be larger, from above."""
    most, least = _SHARES[stat]
    time = _time(found, stat).removeprefix(f"≥{words.NBSP}")
    is_bound = stat in found.at_least
    if found.is_untold(stat):
        return f"how long {most} waited at most is unknown yet"
    return f"{least} waited at least {time}" if is_bound else f"{most} waited at most {time}"


_SHARES = {"p50": ("half", "half"), "p90": ("nine in ten", "one in ten")}


def _time(found: WaitSpread, stat: str) -> str:
    if found.is_untold(stat):
        return words.UNKNOWN
    text = duration_text(getattr(found, stat)).replace(" ", words.NBSP)
    return f"≥{words.NBSP}{text}" if stat in found.at_least else text


_STEPS_MS = tuple(HOUR_MS * n for n in (1, 2, 3, 6, 12, 24, 48, 168, 336, 728, 2184, 8760))
