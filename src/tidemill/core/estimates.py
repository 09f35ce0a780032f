"""Estimates: how long a job is taken to run, from its owner's guess and from history.

What history says is kept in ``learnt``, in whose first row is what the policy says (``SAID``). The
other rows are classes of jobs, for each queue in turn: the truth over the guess of those that had a
guess, then the run times of those of each size. Of a class it is kept which value the policy's
share of all did not exceed, and the same of those alone that were past each step of ``history``; so
an estimate is a look into a row, and a row is made again when more jobs of its class have ended.
"""

from enum import IntEnum

from tidemill.compiled import shared
from tidemill.core.fold import size_of, step_of
from tidemill.core.kernel import kernel
from tidemill.core.wide import divided
from tidemill.model import history
from tidemill.model.columns import JOB, QUEUE, SHAPE
from tidemill.model.history import SIZES, STEPS
from tidemill.model.measures import FOREVER_MS, ONE_PPM

FEWEST = 20  # as in ``explain.durations``: below this a tenth of the samples is less than two
LONGEST_MS = FOREVER_MS // 4  # that a job is taken to run


class SAID(IntEnum):
    """The first row of ``learnt``."""

    SHARE_PPM = 0  # of past jobs, that ran no longer than an estimate; below 0: owners alone say
    UNKNOWN_MS = 1  # taken where nobody says anything
    NEWS = 2  # how often anything that history says became another


class LEARNT(IntEnum):
    """The other rows of ``learnt``: one class of jobs each."""

    ENDED = 0  # of the queue, when the row was looked at
    COUNT = 1  # jobs of the class
    FIRST = 2  # which value their share did not exceed; 0: too few have ended
    PAST = 3  # from here on: the same of those past each step; 0: there are none


COLUMNS = LEARNT.PAST + STEPS
CLASSES = 1 + SIZES  # of a queue
FIRST, PAST = int(LEARNT.FIRST), int(LEARNT.PAST)
end_of = kernel(history.end_of)


def rows_for(queues: int) -> int:
    """How many rows ``learnt`` has for so many queues."""
    return 1 + CLASSES * queues


# What history says ----------------------------------------------------------------------------


@kernel
def counted(run_times, ratios, q, c, step):
    """How many jobs of a class fell into a step."""
    return ratios[q, step] if c == 0 else run_times[q, c - 1, step]


@kernel
def write(learnt, i, column, value):
    """Write what history says of a class; it is noted if that is news."""
    if learnt[i, column] != value:
        learnt[i, column] = value
        learnt[0, SAID.NEWS] += 1


@kernel
def learn_class(run_times, ratios, learnt, q, c):
    """Write what history says of a class, if more of its jobs have ended.

    Whoever is past a later step ends no sooner: one pass over the steps finds all of it.
    """
    i, total = 1 + CLASSES * q + c, 0
    for step in range(STEPS):
        total += counted(run_times, ratios, q, c, step)
    if total == learnt[i, LEARNT.COUNT]:
        return
    learnt[i, LEARNT.COUNT] = total
    if total < FEWEST:
        return
    gone, at, so_far = 0, -1, 0  # past a step, and up to the step that is reached
    for past in range(-1, STEPS):
        if past >= 0:
            gone += counted(run_times, ratios, q, c, past)
        needed = max(1, -(-(total - gone) * learnt[0, SAID.SHARE_PPM] // ONE_PPM))
        while so_far - gone < needed and gone < total:
            at += 1
            so_far += counted(run_times, ratios, q, c, at)
        column = PAST + past if past >= 0 else FIRST
        write(learnt, i, column, end_of(at) if gone < total else 0)


@kernel
def learn(queues, run_times, ratios, learnt):
    """Know what history says by now."""
    if learnt[0, SAID.SHARE_PPM] < 0:
        return
    for q in range(min(len(queues), len(learnt) // CLASSES)):
        i = 1 + CLASSES * q
        if learnt[i, LEARNT.ENDED] != queues[q, QUEUE.ENDED]:
            learnt[i, LEARNT.ENDED] = queues[q, QUEUE.ENDED]
            for c in range(CLASSES):
                learn_class(run_times, ratios, learnt, q, c)


# What follows from it -------------------------------------------------------------------------


@kernel
def class_of(shapes, learnt, s, guess):
    """The row of the class of a job with such a guess; 0: history says nothing of it."""
    if learnt[0, SAID.SHARE_PPM] < 0:
        return 0
    i = 1 + CLASSES * shapes[s, SHAPE.QUEUE]
    if guess == 0:
        i += 1 + size_of(shapes[s, SHAPE.TOTAL_MILLI])
    return i if i < len(learnt) and learnt[i, FIRST] != 0 else 0


@kernel
def by_guess(value, guess):
    """What a value of a class means for a job: a share of its guess, or a time if it has none."""
    if guess == 0:
        return value
    if guess // ONE_PPM >= LONGEST_MS // value:
        return LONGEST_MS
    return divided(guess, value, ONE_PPM)


@kernel
def longer(learnt, i, guess, total):
    """How long a job is taken to run that outran this.

    As one of those who lasted longer; where history knows none, twice as long.
    """
    found = 0
    if i > 0:
        past = total
        if guess > 0:
            is_far = total // guess >= LONGEST_MS // ONE_PPM
            past = LONGEST_MS if is_far else divided(total, ONE_PPM, guess)
        value = learnt[i, PAST + step_of(max(1, past))]
        if value > 0:
            found = by_guess(value, guess)
    return found if found > total else 2 * total


@kernel
@shared
def total_ms(jobs, shapes, learnt, j, worked_ms):
    """How long a job that has done so much, or ever had, is taken to run in all."""
    s, guess = jobs[j, JOB.SHAPE], jobs[j, JOB.ESTIMATE_MS]
    i, total = class_of(shapes, learnt, s, guess), guess
    if i > 0:
        total = by_guess(learnt[i, FIRST], guess)
    elif guess == 0:
        total = learnt[0, SAID.UNKNOWN_MS]
    total = max(1, min(total, LONGEST_MS))
    while total <= max(worked_ms, jobs[j, JOB.REACHED_MS]):
        total = longer(learnt, i, guess, total)
    return total


@kernel
def end_if_placed(jobs, shapes, learnt, j, now):
    """When a waiting job is expected to end if it is placed now."""
    saved, up = jobs[j, JOB.SAVED_MS], jobs[j, JOB.STARTUP_MS]
    if jobs[j, JOB.ATTEMPT] > 0:
        up += jobs[j, JOB.RESTART_MS]
    return now + up + total_ms(jobs, shapes, learnt, j, saved) - saved
