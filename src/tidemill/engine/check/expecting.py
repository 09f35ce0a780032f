"""How long a job is taken to run, and when it ends: by its owner's guess and what history told.

Said again, without the layers' tables: history is counts over steps of half doublings.
"""

from tidemill.compiled import shared
from tidemill.engine.check.columns import SUM
from tidemill.engine.check.kernel import kernel
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.measures import FOREVER_MS, ONE_PPM

FEWEST = 20  # jobs of which history must tell before it is asked
STEPS, SIZES = 88, 16
LARGEST_MS = 1 << 60
LONGEST_MS = 1 << 42  # of which a share in ppm can be taken
UNTOLD = -1


@kernel
def end_of(step):
    """The first value above a step: 2, 2, 3, 4, 6, 8, 12, 16 …"""
    return 2 if step < 2 else (1 << step // 2) * (3 + step % 2) // 2


@kernel
def step_of(value):
    """The step into which a value falls."""
    for step in range(STEPS):
        if value < end_of(step):
            return step
    return STEPS - 1


@kernel
def reached(run_times, ratios, q, size, guess, share, past):
    """The end of the step by which this share of those past a step is reached; 0: there is none.

    Of the truth over the guess of past jobs; or, without a guess, of how long they ran.
    """
    total = 0
    for step in range(past + 1, STEPS):
        total += ratios[q, step] if guess else run_times[q, size, step]
    needed, so_far = max(1, -(-total * share // ONE_PPM)), 0
    for step in range(past + 1, STEPS):
        so_far += ratios[q, step] if guess else run_times[q, size, step]
        if so_far >= needed:
            return end_of(step)
    return 0


@kernel
def told(jobs, shapes, run_times, ratios, reg, j):
    """The size of a job's like if history tells of it, else UNTOLD."""
    if reg[SUM.LEARNS] == 0:
        return UNTOLD
    s, size, total = jobs[j, JOB.SHAPE], 0, 0
    q, whole = shapes[s, SHAPE.QUEUE], -(-shapes[s, SHAPE.TOTAL_MILLI] // 1000)
    while whole >> size:
        size += 1
    size = min(SIZES - 1, size)
    for step in range(STEPS):
        total += ratios[q, step] if jobs[j, JOB.ESTIMATE_MS] else run_times[q, size, step]
    return size if total >= FEWEST else UNTOLD


@kernel
def times(value, ppm):
    """A product in ppm that does not overflow."""
    if ppm > 0 and value > (1 << 62) // ppm:
        return LARGEST_MS
    return value * ppm // ONE_PPM


@kernel
@shared
def expected(jobs, shapes, run_times, ratios, reg, j, done):
    """How long a job that has done so much is taken to run in all."""
    size, guess = told(jobs, shapes, run_times, ratios, reg, j), jobs[j, JOB.ESTIMATE_MS]
    q, share = shapes[jobs[j, JOB.SHAPE], SHAPE.QUEUE], reg[SUM.SHARE_PPM]
    per_step, total = guess or ONE_PPM, guess or reg[SUM.UNKNOWN_MS] or 1
    if size != UNTOLD:
        total = times(per_step, reached(run_times, ratios, q, size, guess, share, -1))
    total, done = max(1, min(total, LARGEST_MS)), max(done, jobs[j, JOB.REACHED_MS])
    while total <= done:
        longer = 0
        if size != UNTOLD:
            past = total // per_step * ONE_PPM + total % per_step * ONE_PPM // per_step
            step = step_of(max(1, past))
            longer = times(per_step, reached(run_times, ratios, q, size, guess, share, step))
        total = longer if longer > total else 2 * total
    return total


@kernel
def end_from(jobs, shapes, run_times, ratios, reg, j, begin, speed):
    """When a job that began then is expected to end."""
    now = reg[SUM.NOW]
    done = jobs[j, JOB.SAVED_MS] + max(0, now - begin) * speed // ONE_PPM
    left = expected(jobs, shapes, run_times, ratios, reg, j, done) - done
    if speed != ONE_PPM:
        left = min(left, LONGEST_MS) * ONE_PPM // speed
    return max(begin, now) + left


@kernel
def end_of_active(jobs, shapes, run_times, ratios, reg, j):
    """When a job that is there is expected to end; FOREVER_MS: it is a service."""
    begin, speed = jobs[j, JOB.PLACED_MS] + jobs[j, JOB.STARTUP_MS], jobs[j, JOB.SPEED_PPM]
    if shapes[jobs[j, JOB.SHAPE], SHAPE.IS_LASTING] != 0:
        return FOREVER_MS
    if jobs[j, JOB.IS_LEAVING] != 0:
        return reg[SUM.NOW]
    if jobs[j, JOB.ATTEMPT] > 1:
        begin += jobs[j, JOB.RESTART_MS]
    return end_from(jobs, shapes, run_times, ratios, reg, j, begin, max(1, speed))


@kernel
def end_if_placed(jobs, shapes, run_times, ratios, reg, j):
    """When a waiting job is expected to end if it is placed now."""
    begin = reg[SUM.NOW] + jobs[j, JOB.STARTUP_MS]
    if jobs[j, JOB.ATTEMPT] > 0:
        begin += jobs[j, JOB.RESTART_MS]
    return end_from(jobs, shapes, run_times, ratios, reg, j, begin, ONE_PPM)
