"""Bands: from the waits of one job in several simulated futures to p10, p50 and p90.

The middle is that of the futures. Around it the band has two sources, as independent errors add up
(the root of the sum of squares, of logarithms): how far the futures differ, and how far the truth
was from the middle where nothing in a future could know it: who comes, what breaks, which jobs are
of a new kind. The second was measured once, by ``python -m bench bands``, on the first 60 % of the
demo and of three traces. Each side is then as much wider or narrower as earlier forecasts of the
same fleet should have been (``track_record``); docs/concepts/explain.md has what it all gave on
what was held out.
"""

from collections.abc import Collection, Sequence
from math import exp, hypot, log
from typing import NamedTuple

from tidemill.explain.answers import Band
from tidemill.model.measures import MINUTE_MS

# Fitted 2026-11 to the least interval score on that first part, the four stories weighing the same.
EARLIER, LATER = 0.4, 1.1
"""How far p10 and p90 are from the middle where all futures nearly agree, in logarithms: a wait of
ten hours may be one of 7, or of 30. Newcomers and faults make waits longer, hence the second."""
SPREAD = 0.6
"""How much of the distance of p10 and p90 in the futures is added to that."""
OF_FARTHEST = {3: 1.51, 5: 1.10, 11: 0.81}
"""That distance, over the distance of the farthest of so many futures, were they normal."""


class Sides(NamedTuple):
    """How much wider than usual a fleet's bands are on either side, or narrower."""

    early: float = 1.0
    late: float = 1.0
    outcomes: int = 0
    """Of how many earlier forecasts it is known what came of them, and how many lay in a usual
    band."""
    held: int = 0


USUAL = Sides()


class BandReach(NamedTuple):
    """A middle and how far the band reaches from it on either side, in logarithms of minutes."""

    middle: float
    early: float
    late: float


def reach(waits_ms: Sequence[int]) -> BandReach:
    """The middle of waits in several futures, and the usual band around it."""
    first, *_, last = known = sorted(waits_ms)
    middle = logarithm(known[len(known) // 2])
    spread = SPREAD * OF_FARTHEST[len(known)]
    return BandReach(
        middle,
        hypot(EARLIER, spread * (middle - logarithm(first))),
        hypot(LATER, spread * (logarithm(last) - middle)),
    )


def band(
    waits_ms: Sequence[int | None], horizon_ms: int, sides: Sides = USUAL,
    certain_ms: Collection[range] = (),
) -> Band:  # fmt: skip
    """The band of waits; None is later than ``horizon_ms``, in the waits and in the band.

    All three are on the minute, the middle too: a finer one could lie outside its own band.
    A wait that is the same in every future and lies in ``certain_ms`` depends on nothing that is
    drawn, and has no band.
    """
    known = [horizon_ms if ms is None else ms for ms in waits_ms]
    one = waits_ms[0]
    if min(known) == max(known) and (one is None or any(one in part for part in certain_ms)):
        return Band(one, one, one)
    found = reach(known)
    ends = (
        _wait_ms(found.middle - sides.early * found.early), sorted(known)[len(known) // 2],
        _wait_ms(found.middle + sides.late * found.late),
    )  # fmt: skip
    return Band(*(None if ms >= horizon_ms else _on_the_minute(ms) for ms in ends))


def logarithm(ms: int) -> float:
    """Of a wait in minutes, and one."""
    return log(1 + ms / MINUTE_MS)


def _wait_ms(value: float) -> float:
    """The wait that has a logarithm."""
    return (exp(value) - 1) * MINUTE_MS


def _on_the_minute(ms: float) -> int:
    """The nearest minute that is not now."""
    return max(1, round(ms / MINUTE_MS)) * MINUTE_MS
