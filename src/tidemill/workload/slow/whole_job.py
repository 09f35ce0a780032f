"""A whole job that takes longer than it did, and no single rank explains it."""

from collections.abc import Iterator, Sequence
from math import log, log1p
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64
from tidemill.workload.slow import peers
from tidemill.workload.slow.columns import FEWEST_WINDOWS, RankWindows, window_of
from tidemill.workload.slow.peers import F64, SlowRule

NOISES = 4.0  # what counts is so many times what steps differ from one window to the next


class SlowJob(NamedTuple):
    """A whole job that takes longer than it did, and no single rank explains it."""

    first: int
    last: int
    slow_ppm: int
    before_us: int
    after_us: int
    own_ppm: int | None
    """Of what a step takes longer, the ranks' own time; the rest is waiting for each other."""
    lost_gpu_us: int


class SlowMember(NamedTuple):
    """A rank that is slow by itself, and in which windows."""

    rank: int
    first: int
    last: int


def find(
    told: RankWindows, kept: RankWindows, suspects: Sequence[SlowMember], rule: SlowRule
) -> SlowJob | None:
    """Where steps take longer than they did before, to the end or for long, and no rank is why."""
    if len(kept.steps) < FEWEST_WINDOWS:
        return None
    gate = log1p(rule.gate_ppm / ONE_PPM)
    logs = np.log(np.maximum(kept.step_us, 1.0))
    smooth = peers.smooth(logs[:, None], rule.smoothed)[:, 0]
    noise = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / np.sqrt(2)
    best: SlowJob | None = None
    for first, after in _rises(smooth, gate, rule.least_windows):
        before, during = np.arange(first), np.arange(first, after)
        excess = float(np.median(logs[during]) - np.median(logs[before]))
        if excess < max(gate, NOISES * noise):
            continue
        made = _of_job(told, kept, before, during)
        if _is_explained(kept, suspects, before, during, gate):
            continue
        if best is None or made.lost_gpu_us > best.lost_gpu_us:
            best = made
    return best


def _rises(smooth: F64, gate: float, least: int) -> Iterator[tuple[int, int]]:
    """Stretches above what was usual before them, each with enough windows before and in it."""
    at = least
    while at < len(smooth):
        usual = float(np.median(smooth[:at]))
        if smooth[at] > usual + gate:
            below = np.flatnonzero(smooth[at:] < usual + gate / 2)
            end = at + (int(below[0]) if len(below) else len(smooth) - at)
            if end - at >= least:
                yield at, end
            at = end
        at += 1


def _of_job(told: RankWindows, kept: RankWindows, before: I64, during: I64) -> SlowJob:
    was, now = (peers.typical(kept.step_us[at]) for at in (before, during))
    own_was, own_now = (peers.typical(kept.own_us[at]) for at in (before, during))
    own_ppm = None
    if np.isfinite(kept.wait_us[during]).any() and kept.own_us.shape[1] > 1:
        own_ppm = round(ONE_PPM * min(1.0, max(0.0, (own_now - own_was) / max(now - was, 1.0))))
    lost = np.maximum(0.0, kept.step_us[during] - was) * kept.steps[during]
    return SlowJob(
        window_of(told, kept, int(during[0])), window_of(told, kept, int(during[-1])),
        round(ONE_PPM * (now / was - 1)), round(was), round(now), own_ppm,
        round(float(lost.sum())) * int(kept.gpus.sum()),
    )  # fmt: skip


def _is_explained(
    kept: RankWindows, suspects: Sequence[SlowMember], before: I64, during: I64, gate: float
) -> bool:
    """Whether suspects were slow meanwhile, and the other ranks' own work takes what it did."""
    meanwhile = [
        min(one.last, int(during[-1])) - max(one.first, int(during[0])) >= len(during) / 3
        for one in suspects
    ]
    if not any(meanwhile):
        return False
    others = np.delete(kept.own_us, [one.rank for one in suspects], axis=1)
    return log(peers.typical(others[during]) / max(1.0, peers.typical(others[before]))) < gate
