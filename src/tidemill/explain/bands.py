"""Bands: from the waits of one job in several simulated futures to p10, p50 and p90.

The middle is that of the futures. Around it the band has two sources, as independent errors add up
(the root of the sum of squares, of logarithms): how far the futures differ, and how far the truth
was from the middle where nothing in a future could know it: who comes, what breaks, which jobs are
of a new kind. The second was measured once, by ``python -m bench bands``, on the first 60 % of the
demo and of three traces; docs/concepts/explain.md has what it gave on the rest.

A wait that is the same in every future depends on nothing that is drawn, and has no band.
"""

from collections.abc import Sequence
from math import exp, hypot, log

from tidemill.explain.answers import Band
from tidemill.model.measures import MINUTE_MS

# Fitted 2026-11 to the least interval score on that first part, the four stories weighing the same.
EARLIER, LATER = 0.5, 1.2
"""How far p10 and p90 are from the middle where all futures nearly agree, in logarithms: a wait of
ten hours may be one of six, or of 33. Newcomers and faults make waits longer, hence the second."""
SPREAD = 0.75
"""How much of the distance to the earliest and to the latest future is added to that."""


def band(waits_ms: Sequence[int | None], reach_ms: int) -> Band:
    """The band of waits; None is later than ``reach_ms``, in the waits and in the band."""
    known = sorted(reach_ms if ms is None else ms for ms in waits_ms)
    if known[0] == known[-1]:
        return Band(*(waits_ms[0],) * 3)
    middle = known[len(known) // 2]
    early = hypot(EARLIER, SPREAD * (_log(middle) - _log(known[0])))
    late = hypot(LATER, SPREAD * (_log(known[-1]) - _log(middle)))
    found = (_moved(middle, -early), middle, _moved(middle, late))
    return Band(*(None if ms >= reach_ms else ms for ms in found))


def _log(ms: int) -> float:
    return log(1 + ms / MINUTE_MS)


def _moved(ms: int, by: float) -> int:
    """A wait so much longer, or shorter, by logarithms; on the minute, and not yet now."""
    minutes = exp(_log(ms) + by) - 1
    return max(1, round(minutes)) * MINUTE_MS
