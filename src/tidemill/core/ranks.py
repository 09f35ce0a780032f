"""Ranks: what an order that reads jobs makes of one, waiting or running; a smaller goes first."""

from tidemill.core.estimates import total_ms
from tidemill.core.kernel import kernel
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.measures import ONE_PPM

SHORTEST, SMALLEST, ATTAINED = 1, 2, 3  # such orders, by number


@kernel
def rank_of(jobs, shapes, learnt, steps, order, j, running):
    """The rank of a job that has been running for so long now; as ``model.orders``."""
    milli = shapes[jobs[j, JOB.SHAPE], SHAPE.TOTAL_MILLI]
    if order == ATTAINED:
        had, found = (jobs[j, JOB.RAN_MS] + running) * milli // 1000, 0
        for i in range(len(steps)):
            found += had >= steps[i]
        return found
    worked = jobs[j, JOB.SAVED_MS]
    if running != 0:
        done = running * ONE_PPM // (ONE_PPM + jobs[j, JOB.SLOW_PPM])
        worked += done * jobs[j, JOB.SPEED_PPM] // ONE_PPM
    left = total_ms(jobs, shapes, learnt, j, worked) - worked
    return left * milli if order == SMALLEST else left
