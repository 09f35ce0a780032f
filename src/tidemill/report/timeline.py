"""Use over time: how many accelerators were in each stage, stacked, in at most ``MOST_BINS`` steps.

Reads the statement's rows; the mean of a bin is drawn as a step, because that is what is known.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.journal.moments import Calendar
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, GROUP_TITLES, Stage
from tidemill.ledger.statement import Statement
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, WHOLE_MILLI, duration_text
from tidemill.report import stages, words

MOST_BINS = 200  # about five pixels a step on paper; finer would only make the file larger
MOST_TICKS = 7  # as many day labels as fit beside each other on a phone
PLOT_WIDTH = 1000
PLOT_HEIGHT = 240

_STEPS_MS = (
    *(n * MINUTE_MS for n in (1, 5, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 3, 7, 14, 28, 91, 182, 365, 3650)),
)

Floats = NDArray[np.float64]


class Area(NamedTuple):
    """One stage's band."""

    key: str
    title: str
    style: str
    path: str
    share: str


class Tick(NamedTuple):
    """A place on an axis and what is written there."""

    at: str
    label: str
    anchor: str = "middle"


class Slot(NamedTuple):
    """One bin, and what to say when it is pointed at."""

    x: str
    width: str
    words: str


class Timeline(NamedTuple):
    """The stacked areas, the axes and a sentence about them."""

    areas: tuple[Area, ...]
    """From the bottom of the stack (useful) to its top."""
    slots: tuple[Slot, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    step: str
    words: str
    """Between what and what the useful share lay."""


class _Bins(NamedTuple):
    """Mean accelerators by stage and bin, and the edges of the bins."""

    means: Floats
    edges_ms: list[int]


def timeline(statement: Statement, total: Account) -> Timeline | None:
    """The chart of a statement; None when it was read in one piece, with no time to show."""
    bins = _bins(statement)
    if bins is None:
        return None
    top = nice_top(float(bins.means.sum(axis=0).max()))
    shares = _shares(total)
    moments = [statement.calendar.text(ms) for ms in bins.edges_ms]
    return Timeline(
        _areas(bins, top, shares),
        _slots(bins, moments),
        x_ticks(statement),
        _y_ticks(top),
        duration_text(bins.edges_ms[1] - bins.edges_ms[0]),
        _useful(bins, moments),
    )


def _bins(statement: Statement) -> _Bins | None:
    start, end, width = statement.start_ms, statement.end_ms, statement.bin_ms
    count = -(-(end - start) // width)
    if count < 2 or not len(statement.rows.bin):
        return None
    merged = -(-count // MOST_BINS)
    width *= merged
    count = -(-(end - start) // width)
    edges = [min(end, start + i * width) for i in range(count + 1)]
    group_of = np.array([ABOUT[bucket].group for bucket in range(len(ABOUT))], np.int64)
    sums = np.zeros((len(Stage), count), np.int64)
    rows = statement.rows
    np.add.at(sums, (group_of[rows.bucket], rows.bin // merged), rows.milli_ms)
    return _Bins(sums / np.diff(np.array(edges)) / WHOLE_MILLI, edges)


def _shares(total: Account) -> dict[Stage, str]:
    """The stages' shares of the whole window, as the ledger prints them."""
    points = total.basis_points()
    return {g: words.percent(sum(points[b] for b in stages.members(g))) for g in Stage}


def _areas(bins: _Bins, top: float, shares: dict[Stage, str]) -> tuple[Area, ...]:
    x = _scaled(bins.edges_ms)
    base = np.zeros(bins.means.shape[1])
    found = []
    for group in reversed(Stage):
        means = bins.means[group]
        if not means.any():
            continue
        path = _band(x, _y(base, top), _y(base + means, top))
        title, style = GROUP_TITLES[group], stages.style(group)
        found.append(Area(group.name.lower(), title, style, path, shares[group]))
        base = base + means
    return tuple(found)


def _band(x: list[float], lower: list[float], upper: list[float]) -> str:
    """The closed outline between two step lines: along the upper one, back along the lower."""
    way = [f"M{_n(x[0])} {_n(upper[0])}", *_steps(upper, x[1:])]
    way += [f"V{_n(lower[-1])}", *_steps(lower[::-1], x[:-1][::-1])]
    return "".join(way) + "Z"


def _steps(levels: list[float], ends: list[float]) -> list[str]:
    """Go along levels, each up to its end; equal neighbours are one stretch."""
    way: list[str] = []
    for i, (level, end) in enumerate(zip(levels, ends, strict=True)):
        is_last = i + 1 == len(levels)
        if is_last or levels[i + 1] != level:
            way.append(f"H{_n(end)}" + ("" if is_last else f"V{_n(levels[i + 1])}"))
    return way


def _slots(bins: _Bins, moments: list[str]) -> tuple[Slot, ...]:
    x, found = _scaled(bins.edges_ms), []
    for i in range(bins.means.shape[1]):
        column = bins.means[:, i]
        paid = float(column.sum())
        parts = [
            f"{GROUP_TITLES[group]} {column[group] / paid:.1%}"
            for group in reversed(Stage)
            if column[group] > 0
        ]
        text = f"{moments[i]} to {moments[i + 1]}: {paid:,.0f} paid; " + ", ".join(parts)
        found.append(Slot(_n(x[i]), _n(x[i + 1] - x[i]), text if paid else f"{moments[i]}: 0 paid"))
    return tuple(found)


def _useful(bins: _Bins, moments: list[str]) -> str:
    """The lowest and the highest useful share of what was paid, and when."""
    paid = bins.means.sum(axis=0)
    where = np.flatnonzero(paid > 0)
    useful = bins.means[Stage.USEFUL][where] / paid[where]
    if not useful.any():
        return "None of it is known to have been useful."
    points = (useful * 10_000).round().astype(int).tolist()
    (low, low_at), (high, high_at) = (
        (words.percent(points[i]), moments[int(where[i])])
        for i in (int(useful.argmin()), int(useful.argmax()))
    )
    return f"The useful share lay between {low} ({low_at}) and {high} ({high_at})."


def x_ticks(statement: Statement) -> tuple[Tick, ...]:
    """Round moments of the window, by the calendar's own clock."""
    start_ms, end_ms, calendar = statement.start_ms, statement.end_ms, statement.calendar
    length = end_ms - start_ms
    step = next((s for s in _STEPS_MS if length // s < MOST_TICKS), _STEPS_MS[-1])
    midnight = start_ms - calendar.since_midnight_ms(start_ms)
    if calendar.begins is None:  # every third day is a day whose number is a multiple of three
        midnight = 0
    first = midnight - (midnight - start_ms) // step * step
    moments = list(range(first, end_ms + 1, step))[:MOST_TICKS]
    return tuple(_tick(ms, (ms - start_ms) / length, step, calendar) for ms in moments)


def _tick(ms: int, part: float, step: int, calendar: Calendar) -> Tick:
    is_day = step >= DAY_MS or calendar.since_midnight_ms(ms) == 0
    label = calendar.day(ms) if is_day else calendar.clock(ms)
    anchor = "end" if part > 0.97 else "middle"
    return Tick(f"{part * 100:.3f}%", label, anchor)


def _y_ticks(top: float) -> tuple[Tick, ...]:
    values = [top * i / 4 for i in range(5)]
    return tuple(Tick(_n(PLOT_HEIGHT * (1 - v / top)), f"{v:,.6g}") for v in values)


def nice_top(most: float) -> float:
    """The smallest round number, in four round parts, that is not below the most."""
    power = 1.0
    while power * 40 < most:
        power *= 10
    return next(
        (power * n for n in (4, 6, 8, 10, 12, 16, 20, 24, 32, 40) if power * n >= most), most
    )


def steps_path(x: list[float], shares: list[float]) -> str:
    """The outline of a step line over the axis; shares of the height, one for each step."""
    upper = [round(PLOT_HEIGHT * (1 - share), 1) for share in shares]
    return _band(x, [float(PLOT_HEIGHT)] * len(shares), upper)


def _scaled(edges_ms: list[int]) -> list[float]:
    length = edges_ms[-1] - edges_ms[0]
    return [(ms - edges_ms[0]) * PLOT_WIDTH / length for ms in edges_ms]


def _y(levels: Floats, top: float) -> list[float]:
    down: list[float] = (PLOT_HEIGHT * (1 - levels / top)).round(1).tolist()
    return down


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
