"""Sharing as two flows: what jobs lose beside others when only their shares of the axes are known.

In whole ppm, for the twin. Time-slicing divides the device's time max-min fairly: nobody gets more
than it uses, and those who want more than their part get equal parts of what is left, less the
switches. MPS divides each axis: where the wishes for it add up to more than there is, the part of
each job's time that is spent on that axis is stretched by their sum.
"""

from collections.abc import Sequence

from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Demand

SLICED_PPM = 937_500
"""What is left of a device whose contexts take turns: 1.95 ms of work for 0.13 ms of switching
(``calibration``); two tenants that both fill an H200 keep 46 % each, measured."""


def slow_ppm(mine: Demand, others: Sequence[Demand], is_sliced: bool) -> int:
    """How much longer a job takes beside these neighbours than alone."""
    if not others:
        return 0
    return _sliced(mine, others) if is_sliced else _beside(mine, others)


def _busy(demand: Demand) -> int:
    return max(demand.compute_ppm, demand.bandwidth_ppm)


def _sliced(mine: Demand, others: Sequence[Demand]) -> int:
    wanted = _busy(mine)
    if wanted == 0:
        return 0
    left, waiting = SLICED_PPM, len(others) + 1
    for busy in sorted((*map(_busy, others), wanted)):
        part = left // waiting
        if busy > part:  # from here on everybody gets an equal part
            return 0 if wanted <= part else wanted * ONE_PPM // part - ONE_PPM
        left -= busy
        waiting -= 1
    return 0


def _beside(mine: Demand, others: Sequence[Demand]) -> int:
    compute = mine.compute_ppm + sum(other.compute_ppm for other in others)
    bandwidth = mine.bandwidth_ppm + sum(other.bandwidth_ppm for other in others)
    stretched = mine.compute_ppm * max(0, compute - ONE_PPM)
    stretched += mine.bandwidth_ppm * max(0, bandwidth - ONE_PPM)
    return stretched // ONE_PPM
