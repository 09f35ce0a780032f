"""What loops, or their profilers, state of their efficiency: an MFU or FLOP/s, and who says so."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tidemill.live.track.records import EfficiencyRecord
from tidemill.model.measures import ONE_PPM


def says(one: EfficiencyRecord) -> bool:
    """Whether it states anything."""
    return one.mfu_ppm is not None or one.mflop_per_s is not None


def source(told: Iterable[EfficiencyRecord]) -> str:
    """Where a loop has its efficiency from, in its last words; empty: it does not say."""
    said = [(one.at_us, one.source) for one in told if says(one) and one.source]
    return max(said)[1] if said else ""


def add(
    efficiencies: Sequence[EfficiencyRecord], gpus: int, last_us: int, edges: NDArray[np.int64],
    sums: dict[str, NDArray[np.float64]],
) -> None:  # fmt: skip
    """Add what a process states to bins of time: it holds from then on, until the process was last
    heard of, and for all of the bin in which it is said.
    """
    told = sorted((e for e in efficiencies if says(e)), key=lambda one: one.at_us)
    if not told:
        return
    at = np.searchsorted(np.array([e.at_us for e in told]), edges[1:], side="left") - 1
    is_told = (at >= 0) & (edges[:-1] < last_us)
    mfus = [_mfu_ppm(e) for e in told]
    is_mfu = is_told & np.array([mfu is not None for mfu in mfus])[at]
    is_rate = is_told & ~is_mfu
    mfu = np.array([mfu or 0 for mfu in mfus], np.float64)[at]
    rate = np.array([e.mflop_per_s or 0 for e in told], np.float64)[at]
    sums["mfu"] += np.where(is_mfu, mfu * gpus, 0)
    sums["counted"] += np.where(is_mfu, gpus, 0)
    sums["rate"] += np.where(is_rate, rate, 0)
    sums["rated"] += np.where(is_rate, gpus, 0)


def _mfu_ppm(one: EfficiencyRecord) -> int | None:
    """The MFU that it says, or FLOP/s over the peak that it counts from; None: FLOP/s alone."""
    if one.mfu_ppm is None and one.mflop_per_s is not None and one.peak_mflop_per_s:
        return one.mflop_per_s * ONE_PPM // one.peak_mflop_per_s
    return one.mfu_ppm
