"""What the ranks of a job did, as columns: windows of steps × ranks."""

from typing import NamedTuple

import numpy as np

from tidemill.model.tables import I64
from tidemill.workload.slow.peers import F64

WARM_UP_WINDOWS = 1  # compiling, caches, the first batch
MUCH_LONGER = 3.0  # a window whose steps take so many times the usual is no window of steps
FEWEST_WINDOWS = 8


class RankWindows(NamedTuple):
    """What the ranks of one launch of a job did, in windows of equally many steps."""

    start_us: I64
    end_us: I64
    steps: I64
    """Of each window."""
    own_us: F64
    """Windows × ranks, per step: all but waiting for other ranks and saving; NaN: not known."""
    data_us: F64
    """The part of it that waited for data; NaN: the loop does not tell it apart."""
    other_us: F64
    """The part of it outside of steps."""
    wait_us: F64
    """Windows × ranks, per step: waiting for other ranks; NaN: the loop does not tell it apart."""
    step_us: F64
    """Of each window: from the end of one step to the end of the next, of all ranks; no saving."""
    gpus: I64
    """Of each rank."""
    roles: I64
    """Of each rank: those of equal role do equal work."""


def usable(told: RankWindows) -> RankWindows:
    """Without warm-up, windows in which something else was done, and those few ranks tell of."""
    known = np.isfinite(told.own_us)
    is_good = known.mean(axis=1) > 0.5 if known.size else np.zeros(len(told.steps), bool)
    is_good[:WARM_UP_WINDOWS] = False
    usual = np.median(told.step_us[is_good]) if is_good.any() else 0.0
    is_good &= told.step_us <= MUCH_LONGER * usual
    return told._replace(
        start_us=told.start_us[is_good], end_us=told.end_us[is_good], steps=told.steps[is_good],
        own_us=told.own_us[is_good], data_us=told.data_us[is_good],
        other_us=told.other_us[is_good], wait_us=told.wait_us[is_good],
        step_us=told.step_us[is_good],
    )  # fmt: skip


def window_of(told: RankWindows, kept: RankWindows, at: int) -> int:
    """The number that a window that was kept has among all."""
    return int(np.searchsorted(told.start_us, kept.start_us[at]))
