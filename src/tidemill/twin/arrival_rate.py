"""When jobs arrive: by chance, more by day than by night, more in the week than on its end.

A Poisson process whose rate follows the clock, drawn by thinning (Lewis and Shedler, 1979):
arrivals at the highest rate, each kept with the chance that its hour deserves. Time 0 is a Monday,
midnight, or as far into a week as the calendar of the spec says.
"""

import numpy as np

from tidemill.model.measures import DAY_MS, HOUR_MS, ONE_PPM
from tidemill.twin.durations import F64
from tidemill.twin.mix import I64
from tidemill.twin.spec.tables import ArrivalRhythm


def times_ms(
    luck: np.random.Generator,
    per_day: float,
    window_ms: tuple[int, int],
    rhythm: ArrivalRhythm,
    week_ms: int = 0,
) -> I64:
    """Arrival times within a window, in order."""
    start_ms, end_ms = window_ms
    highest = float(intensity(_one_week(), rhythm).max())
    expected = per_day * highest * max(0, end_ms - start_ms) / DAY_MS
    candidates = np.sort(luck.uniform(start_ms, end_ms, luck.poisson(expected)))
    is_kept = luck.random(len(candidates)) * highest < intensity(candidates + week_ms, rhythm)
    return candidates[is_kept].astype(np.int64)


def intensity(at_ms: F64, rhythm: ArrivalRhythm) -> F64:
    """The rate at each moment, as a multiple of its average over a week."""
    hour = at_ms / HOUR_MS % 24
    swing, weekend = rhythm.swing / ONE_PPM, rhythm.weekend / ONE_PPM
    by_day = 1 + swing * np.cos(2 * np.pi * (hour - rhythm.peak_hour) / 24)
    is_weekend = at_ms // DAY_MS % 7 >= 5
    by_week = np.where(is_weekend, weekend, 1.0) * 7 / (5 + 2 * weekend)
    rate: F64 = by_day * by_week
    return rate


def _one_week() -> F64:
    return np.arange(7 * 24 * 4) * float(HOUR_MS) / 4
