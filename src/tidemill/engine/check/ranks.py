"""The kernels of the plan checker on orders that read jobs: which of two goes first.

Said again, from the columns and the registers; without the layers.
"""

from tidemill.engine.check.columns import SUM
from tidemill.engine.check.expecting import expected
from tidemill.engine.check.kernel import kernel
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import JobState

RUNNING = int(JobState.RUNNING)
SHORTEST, SMALLEST, ATTAINED = 1, 2, 3  # in ``SUM.ORDER``
FIRST_STEP = int(SUM.FIRST_STEP)


@kernel
def runs_for(jobs, reg, j):
    """For how long a job has been running now; 0: it is not."""
    return reg[SUM.NOW] - jobs[j, JOB.ORIGIN_MS] if jobs[j, JOB.STATE] == RUNNING else 0


@kernel
def rank_of(jobs, shapes, run_times, ratios, reg, j):
    """What an order that reads jobs makes of one: a smaller number goes first."""
    milli, running = shapes[jobs[j, JOB.SHAPE], SHAPE.TOTAL_MILLI], runs_for(jobs, reg, j)
    if reg[SUM.ORDER] == ATTAINED:
        had, rank = (jobs[j, JOB.RAN_MS] + running) * milli // 1000, 0
        for i in range(FIRST_STEP, FIRST_STEP + reg[SUM.STEPS]):
            rank += reg[i] <= had
        return rank
    stretch = running * ONE_PPM // (ONE_PPM + jobs[j, JOB.SLOW_PPM])
    done = jobs[j, JOB.SAVED_MS] + stretch * jobs[j, JOB.SPEED_PPM] // ONE_PPM
    left = expected(jobs, shapes, run_times, ratios, reg, j, done) - done
    return left if reg[SUM.ORDER] == SHORTEST else left * milli


@kernel
def goes_first(jobs, shapes, run_times, ratios, reg, other, j):
    """Whether another job goes before one, in an order that reads jobs.

    Who had lost its patience when it began to wait or to run goes before who had not, in the order
    in which that was.
    """
    its = jobs[other, JOB.SUBMIT_MS] + jobs[other, JOB.RAN_MS] + reg[SUM.PATIENCE_MS]
    mine = jobs[j, JOB.SUBMIT_MS] + jobs[j, JOB.RAN_MS] + reg[SUM.PATIENCE_MS]
    its_is_lost = its <= reg[SUM.NOW] - runs_for(jobs, reg, other)
    is_lost = mine <= reg[SUM.NOW] - runs_for(jobs, reg, j)
    if its_is_lost != is_lost:
        return its_is_lost
    if not is_lost:
        its = rank_of(jobs, shapes, run_times, ratios, reg, other)
        mine = rank_of(jobs, shapes, run_times, ratios, reg, j)
    return its < mine or (its == mine and other < j)
