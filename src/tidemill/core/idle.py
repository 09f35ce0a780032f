"""Idle work: which interactive jobs nobody has used for too long, and when the next will be one.

``workload.review`` and the compiled loop ask here; what is asked of those jobs, they say.
"""

from tidemill.core.kernel import kernel
from tidemill.model.columns import AT, JOB, NONE, SHAPE
from tidemill.model.measures import FOREVER_MS


@kernel
def due_at(jobs, shapes, j, after):
    """When a job is to be cancelled if it stays idle; FOREVER_MS: never, or it leaves already."""
    if jobs[j, JOB.IDLE_MS] == NONE or jobs[j, JOB.IS_LEAVING] != 0:
        return FOREVER_MS
    if shapes[jobs[j, JOB.SHAPE], SHAPE.IS_INTERACTIVE] == 0:
        return FOREVER_MS
    return jobs[j, JOB.IDLE_MS] + after


@kernel
def next_due(w, after, now, last):
    """The job after another, by number, that is to be cancelled by now; -1: there is none."""
    found = -1
    for i in range(w.at[AT.ACTIVE] if w.at[AT.IDLE] > 0 else 0):
        j = w.active[i]
        if j > last and (found < 0 or j < found) and due_at(w.jobs, w.shapes, j, after) <= now:
            found = j
    return found


@kernel
def next_due_at(w, after, now):
    """When the next job is to be cancelled that is not to be by now."""
    found = FOREVER_MS
    for i in range(w.at[AT.ACTIVE] if w.at[AT.IDLE] > 0 else 0):
        due = due_at(w.jobs, w.shapes, w.active[i], after)
        if now < due < found:
            found = due
    return found
