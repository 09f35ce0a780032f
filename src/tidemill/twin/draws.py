"""The jobs of a workload by chance, as columns: when, how large, how long, how they end.

Drawn at once with numpy, each kind of luck from its own stream.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.measures import HOUR_MS, ONE_PPM
from tidemill.model.states import JobClass
from tidemill.twin import arrival_rate, durations, presets, users
from tidemill.twin.arrivals import Ending
from tidemill.twin.mix import I64, JobMix
from tidemill.twin.spec.tables import WorkloadTable
from tidemill.twin.streams import Streams

_MFU_STEP = 10_000  # efficiencies are told apart by one percent, so that few are different


class Columns(NamedTuple):
    """One row a job of one workload, in order of arrival."""

    at_ms: I64
    work_ms: I64
    size: I64
    estimate_ms: I64
    ending: I64
    crash_ms: I64
    mfu_ppm: I64
    active_ms: I64
    user: I64
    """Its place among the users of the workload; -1: nobody said."""


def draw(
    row: WorkloadTable, mix: JobMix, horizon_ms: int, streams: Streams, week_ms: int = 0
) -> Columns:
    """All jobs of a workload; ``week_ms``: how far into a week the story begins."""
    window_ms = (int(row.start), min(horizon_ms if row.end is None else int(row.end), horizon_ms))
    luck = streams.of(f"arrivals/{row.name}")
    at_ms = arrival_rate.times_ms(luck, row.per_day, window_ms, row.rhythm, week_ms)
    count = len(at_ms)
    size, work_ms = mix.draw(streams.of(f"work/{row.name}"), count)
    ending, crash_ms = _endings(row, work_ms, streams.of(f"endings/{row.name}"))
    luck = streams.of(f"traits/{row.name}")
    mfu_ppm = luck.normal(row.mfu or 0, row.mfu_spread, count)
    most = ONE_PPM - row.host_stall - row.link_stall
    return Columns(
        at_ms,
        work_ms,
        size,
        _estimates(row, work_ms, streams.of(f"estimates/{row.name}")),
        ending,
        crash_ms,
        np.clip(np.rint(mfu_ppm / _MFU_STEP) * _MFU_STEP, 0, most).astype(np.int64),
        _active(row, luck, count),
        users.draw(row, count, streams.of(f"users/{row.name}")),
    )


def _estimates(row: WorkloadTable, work_ms: I64, luck: np.random.Generator) -> I64:
    """What owners say: mostly too much, in whole hours, sometimes nothing; services never."""
    count = len(work_ms)
    guess = row.estimate
    error = luck.lognormal(np.log(guess.median), guess.sigma, count)
    hours = np.ceil(work_ms * error / HOUR_MS)
    is_missing = luck.random(count) * ONE_PPM < guess.missing
    if row.job_class is JobClass.INFERENCE:
        is_missing[:] = True
    return np.where(is_missing, 0, np.minimum(hours, 24 * 365) * HOUR_MS).astype(np.int64)


def _endings(row: WorkloadTable, work_ms: I64, luck: np.random.Generator) -> tuple[I64, I64]:
    """How each job ends, and after how long its first attempt crashes (0: it does not)."""
    known = presets.named(row.preset).published if row.preset else None
    fail = _ppm(row.fail, known.fail_share if known else 0.0)
    cancel = _ppm(row.cancel, known.cancel_share if known else 0.0)
    chance = luck.random(len(work_ms)) * ONE_PPM
    is_failed, is_cancelled = chance < fail, chance >= ONE_PPM - cancel
    ending = np.where(is_failed, Ending.FAILED, np.where(is_cancelled, Ending.CANCELLED, 0))
    is_crashing = luck.random(len(work_ms)) * ONE_PPM < row.crash
    crash_ms = np.where(is_crashing, 1 + luck.random(len(work_ms)) * work_ms, 0)
    return ending.astype(np.int64), crash_ms.astype(np.int64)


def _active(row: WorkloadTable, luck: np.random.Generator, count: int) -> I64:
    """How long each notebook is used before it is forgotten; 0 where that is not modelled."""
    if row.active is None:
        return np.zeros(count, np.int64)
    given = row.active
    times = durations.fit(int(given.median), int(given.mean), int(given.longest))
    return np.maximum(1, times.at(luck.standard_normal(count))).astype(np.int64)


def _ppm(given: int | None, published: float) -> int:
    return round(published * ONE_PPM) if given is None else int(given)
