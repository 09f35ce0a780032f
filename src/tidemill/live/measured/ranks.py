"""The ranks of a launch beside each other: from the stretches of each to common windows of steps.

Stretches are cut by each rank's own clock, steps are numbered alike on all of them: so ranks are
compared over the same steps, and clocks that differ do not matter. What a rank spent up to the end
of a step is read off the sum of its stretches; a window is so long that where exactly a stretch was
cut within a step does not matter either.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.live.measured.loops import Launch
from tidemill.live.measured.processes import Process
from tidemill.live.track.records import StepsRecord
from tidemill.workload.slow.columns import RankWindows
from tidemill.workload.slow.peers import F64

CUTS = 20
"""A window is so many times as long as what a cut may be wrong by: five percent at each end."""
LEAST_STRETCHES = 2
LEAST_STEPS = 2
MOST_CELLS = 4_000_000
"""Windows times ranks; a longer launch has longer windows."""
FEWEST_WINDOWS, MOST_WINDOWS = 20, 1000
_WORK = ("mflop", "tokens", "samples")


class RankPlace(NamedTuple):
    """A rank of a launch and where it ran."""

    rank: int
    node: str
    """The machine; empty: nobody said."""
    local_rank: int | None
    """Which of the processes on that machine."""
    gpus_visible: str
    """As the process was told; empty: nobody said."""


class LaunchRanks(NamedTuple):
    """A launch as the detector reads it, with the names of its columns."""

    job: str
    world: int | None
    """How many ranks it has, as it says."""
    places: tuple[RankPlace, ...]
    windows: RankWindows


def of_launch(launch: Launch) -> LaunchRanks:
    """The ranks of a launch that use GPUs and told steps, over common windows of steps.

    Where several processes call themselves one rank, nobody says who is in step with whom: one of
    all is left.
    """
    told = sorted(
        (one for one in launch.processes if one.gpus and any(s.steps for s in _told(one))),
        key=lambda one: one.rank,
    )
    if len({one.rank for one in told}) < len(told):
        told = told[:1]
    worlds = [one.began.world for one in told if one.began is not None and one.began.world]
    places = tuple(_place(one) for one in told)
    return LaunchRanks(launch.job, max(worlds, default=None), places, _windows(told))


def _place(process: Process) -> RankPlace:
    began = process.began
    if began is None:
        return RankPlace(process.rank, "", None, "")
    node = began.ids.get("node") or began.host or ""
    return RankPlace(process.rank, node, began.local_rank, began.ids.get("gpus_visible", ""))


def _told(process: Process) -> list[StepsRecord]:
    return [*process.earlier, *process.stretches]


class _RankSums:
    """What a rank spent up to the end of each of its stretches in which a step ended."""

    def __init__(self, process: Process) -> None:
        parts = _told(process)
        is_end = np.array([part.steps > 0 for part in parts])
        self.first_step = next(part.first_step or 0 for part in parts if part.steps)
        self.last_step = np.array([part.last_step for part in parts if part.steps], np.float64)
        if (np.diff(self.last_step) <= 0).any():  # it went back to a checkpoint: count them
            counted = np.cumsum([part.steps for part in parts if part.steps])
            self.last_step = self.first_step - 1.0 + counted
        ends = np.array([part.until_us for part in parts if part.steps], np.float64)
        self.begun_us, self.until_us = float(parts[0].from_us), ends
        self.stretch_us = float(np.median([part.until_us - part.from_us for part in parts]))

        def summed(*names: str) -> F64:
            amounts = [sum(getattr(part, name) or 0 for name in names) for part in parts]
            return np.cumsum(np.array(amounts, np.float64))[is_end]

        self.own = summed("compute_us", "data_us", "other_us")
        self.other = summed("other_us")
        self.data = summed("data_us") if _tells(parts, "data_us") else None
        self.wait = summed("communication_us") if _tells(parts, "communication_us") else None
        self.work = {name: summed(name) for name in _WORK if _always(parts, name)}
        self.role = "" if process.began is None else process.began.role or ""

    def at(self, sums: F64, edges: F64) -> F64:
        """A sum at the ends of steps; NaN outside of what was told."""
        steps = np.concatenate(([self.first_step - 1.0], self.last_step))
        found: F64 = np.interp(edges, steps, np.concatenate(([0.0], sums)))
        found[(edges < steps[0]) | (edges > steps[-1])] = np.nan
        return found


def _windows(told: Sequence[Process]) -> RankWindows:
    ranks = [_RankSums(process) for process in told]
    edges = _edges(ranks)
    steps = np.diff(edges)
    per_step = np.maximum(steps, 1.0)[:, None]
    count = len(ranks)

    def column(sums: Sequence[F64 | None]) -> F64:
        made = np.full((len(edges), count), np.nan)
        for r, (rank, sum_of) in enumerate(zip(ranks, sums, strict=True)):
            if sum_of is not None:
                made[:, r] = rank.at(sum_of, edges)
        found: F64 = np.diff(made, axis=0) / per_step
        return found

    own, wait = column([rank.own for rank in ranks]), column([rank.wait for rank in ranks])
    times = [rank.at(rank.until_us - rank.begun_us, edges) + rank.begun_us for rank in ranks]
    at_us = _median_known(np.stack(times, axis=1)) if ranks else np.zeros(len(edges))
    step_us = own + np.where(np.isfinite(wait), wait, 0.0)
    factor = _equal_work(own, ranks, column)
    roles = {role: number for number, role in enumerate(sorted({rank.role for rank in ranks}))}
    return RankWindows(
        at_us[:-1].astype(np.int64), at_us[1:].astype(np.int64), steps.astype(np.int64),
        own * factor, column([rank.data for rank in ranks]),
        column([rank.other for rank in ranks]), wait, _median_known(step_us * factor),
        np.array([process.gpus for process in told], np.int64),
        np.array([roles[rank.role] for rank in ranks], np.int64),
    )  # fmt: skip


def _edges(ranks: Sequence[_RankSums]) -> F64:
    """The numbers of the steps at which windows begin and end: those that all ranks did."""
    if not ranks:
        return np.zeros(1)
    first = max(rank.first_step - 1 for rank in ranks)
    last = min(int(rank.last_step[-1]) for rank in ranks)
    if last <= first:
        return np.array([float(first)])
    span_us = float(np.median([rank.until_us[-1] - rank.begun_us for rank in ranks]))
    stretch_us = float(np.median([rank.stretch_us for rank in ranks]))
    step_us = span_us / (last - first)
    wanted_us = max(
        CUTS * min(stretch_us, step_us), LEAST_STRETCHES * stretch_us, LEAST_STEPS * step_us
    )
    most = min(MOST_WINDOWS, max(FEWEST_WINDOWS, MOST_CELLS // len(ranks)))
    count = int(max(1, min(most, span_us // wanted_us, last - first)))
    return np.unique(np.round(np.linspace(first, last, count + 1)))


def _equal_work(
    own: F64, ranks: Sequence[_RankSums], column: Callable[[Sequence[F64 | None]], F64]
) -> F64:
    """What times are multiplied by to be those of steps that all do equally much.

    By what the loops say of their work; one where not all ranks say that.
    """
    for name in _WORK:
        if ranks and all(name in rank.work for rank in ranks):
            work = column([rank.work[name] for rank in ranks])
            known = work[np.isfinite(work)]
            usual = float(np.median(known)) if len(known) else 0.0
            if usual > 0 and float(known.min()) > usual / 100:
                factor: F64 = usual / work
                return factor
    return np.ones_like(own)


def _median_known(values: F64) -> F64:
    """Of each row; 0 where nothing is known."""
    found = np.zeros(len(values))
    is_any = np.isfinite(values).any(axis=1)
    if is_any.any():
        found[is_any] = np.nanmedian(values[is_any], axis=1)
    return found


def _tells(parts: Sequence[StepsRecord], name: str) -> bool:
    return any(getattr(part, name) is not None for part in parts)


def _always(parts: Sequence[StepsRecord], name: str) -> bool:
    return all(getattr(part, name) is not None for part in parts if part.steps)
