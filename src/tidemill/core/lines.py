"""Who waits, and who is active: chains of jobs by shape, and the vectors of both.

A shape's waiting jobs are a chain in the order of their numbers, oldest first; its active jobs are
another, in no order. A job is in one of them at most, so both go through the same columns.
"""

from tidemill.core.kernel import kernel
from tidemill.model.columns import AT, JOB, NONE, SHAPE
from tidemill.model.reasons import Cause

HELD = Cause.NOT_ELIGIBLE + 1  # as ``JOB.SAID``


@kernel
def line_up(at, jobs, shapes, queued, j):
    """A job waits: in its place by number; nearly always the last one.

    It is sought from both ends: whoever waits again is often one of the oldest.
    """
    s = jobs[j, JOB.SHAPE]
    before = shapes[s, SHAPE.TAIL] if shapes[s, SHAPE.WAITING] > 0 else NONE
    first, after = shapes[s, SHAPE.HEAD], NONE
    while before > j and first < j:
        after = before
        before = jobs[before, JOB.PREVIOUS]
        first = jobs[first, JOB.NEXT]
    if before > j:
        after = first
        before = jobs[first, JOB.PREVIOUS]
    jobs[j, JOB.PREVIOUS] = before
    jobs[j, JOB.NEXT] = after
    if before >= 0:
        jobs[before, JOB.NEXT] = j
    else:
        shapes[s, SHAPE.HEAD] = j
    if after >= 0:
        jobs[after, JOB.PREVIOUS] = j
    else:
        shapes[s, SHAPE.TAIL] = j
    if shapes[s, SHAPE.WAITING] == 0:
        shapes[s, SHAPE.PLACE] = at[AT.QUEUED]
        queued[at[AT.QUEUED]] = s
        at[AT.QUEUED] += 1
    shapes[s, SHAPE.WAITING] += 1
    at[AT.WAITING] += 1


@kernel
def say(jobs, shapes, j, said):
    """Its own scheduler says from now on why a job waits (``JOB.SAID``), and whether it is held."""
    s, is_held = jobs[j, JOB.SHAPE], int(said == HELD)
    shapes[s, SHAPE.HELD] += is_held - jobs[j, JOB.IS_HELD]
    shapes[s, SHAPE.SAID] += int(said != 0) - int(jobs[j, JOB.SAID] != 0)
    jobs[j, JOB.IS_HELD] = is_held
    jobs[j, JOB.SAID] = said


@kernel
def leave_line(at, jobs, shapes, queued, j):
    """A job waits no more. Of a shape whose last one left, the head stays as it was."""
    s = jobs[j, JOB.SHAPE]
    before, after = jobs[j, JOB.PREVIOUS], jobs[j, JOB.NEXT]
    if before >= 0:
        jobs[before, JOB.NEXT] = after
    elif after >= 0:
        shapes[s, SHAPE.HEAD] = after
    if after >= 0:
        jobs[after, JOB.PREVIOUS] = before
    elif before >= 0:
        shapes[s, SHAPE.TAIL] = before
    shapes[s, SHAPE.WAITING] -= 1
    say(jobs, shapes, j, 0)
    at[AT.WAITING] -= 1
    if shapes[s, SHAPE.WAITING] == 0:
        at[AT.QUEUED] -= 1
        last = queued[at[AT.QUEUED]]
        queued[shapes[s, SHAPE.PLACE]] = last
        shapes[last, SHAPE.PLACE] = shapes[s, SHAPE.PLACE]


@kernel
def become_active(at, jobs, shapes, active, j):
    """A job that is in no line holds devices from now on."""
    s = jobs[j, JOB.SHAPE]
    first = shapes[s, SHAPE.FIRST_ACTIVE] if shapes[s, SHAPE.ACTIVE] > 0 else NONE
    jobs[j, JOB.PREVIOUS] = NONE
    jobs[j, JOB.NEXT] = first
    if first >= 0:
        jobs[first, JOB.PREVIOUS] = j
    shapes[s, SHAPE.FIRST_ACTIVE] = j
    shapes[s, SHAPE.ACTIVE] += 1
    jobs[j, JOB.PLACE] = at[AT.ACTIVE]
    active[at[AT.ACTIVE]] = j
    at[AT.ACTIVE] += 1


@kernel
def cease_active(at, jobs, shapes, active, j):
    """A job holds nothing any more."""
    s = jobs[j, JOB.SHAPE]
    before, after = jobs[j, JOB.PREVIOUS], jobs[j, JOB.NEXT]
    if before >= 0:
        jobs[before, JOB.NEXT] = after
    else:
        shapes[s, SHAPE.FIRST_ACTIVE] = after
    if after >= 0:
        jobs[after, JOB.PREVIOUS] = before
    shapes[s, SHAPE.ACTIVE] -= 1
    at[AT.ACTIVE] -= 1
    last = active[at[AT.ACTIVE]]
    active[jobs[j, JOB.PLACE]] = last
    jobs[last, JOB.PLACE] = jobs[j, JOB.PLACE]
