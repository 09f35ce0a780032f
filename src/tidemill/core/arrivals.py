"""What came of late: how many jobs of each shape, and how many of those that were placed have left."""

from tidemill.core.fold import DONE, WAITING
from tidemill.core.kernel import kernel
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.measures import ONE_PPM


@kernel
def note(jobs, shapes, known, first, end):
    """Note how many of these jobs are of each shape; the turnover of them, in millionths.

    That is, of those that were placed, and did not go back into the queue, how many have left.
    """
    left, active = 0, 0
    for s in range(known):
        shapes[s, SHAPE.NOTED] = 0
    for j in range(first, end):
        shapes[jobs[j, JOB.SHAPE], SHAPE.NOTED] += 1
        if jobs[j, JOB.ATTEMPT] > 0:
            left += int(jobs[j, JOB.STATE] >= DONE)
            active += int(jobs[j, JOB.STATE] != WAITING)
    return ONE_PPM * left // max(1, active)
