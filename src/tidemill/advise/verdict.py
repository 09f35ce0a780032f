"""Verdicts: whether a change makes a useful hour cheaper, or whether chance alone may have.

A change is compared with the spec as it is on several seeds, each on the same jobs and failures
with and without it. It moves which job sits on the node that breaks, so that even a change without
any effect gives a difference; how large is seen in how much the differences differ from seed to
seed. What is called a win is cheaper on every seed, and on average by more than this noise: the
one-sided limit of 95 % by Student's t. One seed alone says nothing of the noise. There the band is
2 %, which changes without effect reached on 64 accelerators (``docs/concepts/fixes.md``).
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from tidemill.advise.replay import Outcome
from tidemill.ledger.prices import LUCK_PPM
from tidemill.model.measures import ONE_PPM

Verdict = Literal["wins", "loses", "no clear difference"]

SAME_PPM = 1_000  # of the dollars per useful hour: less is not worth a change, however certain
_T_95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833)
"""Student's t at 95 %, one-sided, for 2, 3, … 10 seeds."""


def change_ppm(before: Outcome, after: Outcome | None) -> int | None:
    """By how much a useful hour is dearer (above 0) or cheaper; None where that is not known."""
    was = before.usd_micro_per_useful_hour
    now = None if after is None else after.usd_micro_per_useful_hour
    return None if was is None or now is None else (now - was) * ONE_PPM // was


def noise_ppm(changes_ppm: Sequence[int]) -> int:
    """How far from nothing the mean of these differences must be, not to be chance."""
    count = len(changes_ppm)
    if count < 2:
        return LUCK_PPM
    return max(SAME_PPM, math.ceil(_T_95[count - 2] * stdev(changes_ppm) / math.sqrt(count)))


def of(changes_ppm: Sequence[int]) -> Verdict:
    """What differences in the price of a useful hour say, one for each seed."""
    if changes_ppm and abs(fmean(changes_ppm)) > noise_ppm(changes_ppm):
        if all(change < 0 for change in changes_ppm):
            return "wins"
        if all(change > 0 for change in changes_ppm):
            return "loses"
    return "no clear difference"
