"""Reading: time goes on, an event is folded, the job that it touched is followed; and so on.

``read`` goes as far through a batch as events are plain (``core.replay``). It comes back to Python
also when time goes on in another bin, when the order must be asked of the scheduler, and when the
spans that it wrote must be taken out; called again, it goes on.
"""

from tidemill.compiled import shared
from tidemill.core.accounting.attempts import follow, most_spans, note_cause
from tidemill.core.accounting.claims import integrate, keep_in_line
from tidemill.core.accounting.columns import MARK, ORDER, STOP
from tidemill.core.accounting.usable import weigh
from tidemill.core.kernel import kernel
from tidemill.core.replay import (
    BUSY,
    CANCELLATION,
    EFFICIENCY,
    EVICTED,
    FAILURE,
    FIGURE,
    FINISHED,
    LATENCY,
    LOAD,
    PLACED,
    SAID_WHY,
    SECURED,
    SEEN,
    STALLS,
    STARTED,
    STRAGGLER,
    SUBMITTED,
    fold_one,
)
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT, JOB, SHAPE


@kernel
@shared
def pass_time(w, b, jobs_known, moment):
    """Let time go on to a moment, as far as one bin and one order reach; 1 if it is there."""
    marks = b.marks
    now, start, end = marks[MARK.NOW_MS], marks[MARK.START_MS], marks[MARK.END_MS]
    if now < start:
        now = min(moment, start)
    while now < min(moment, end):
        number = (now - start) // marks[MARK.BIN_MS]
        until = min(moment, end, start + (number + 1) * marks[MARK.BIN_MS])
        marks[MARK.NOW_MS] = now
        if number != marks[MARK.BIN] or now >= marks[MARK.EDGE_MS]:
            marks[MARK.STOP] = STOP.BIN
            return 0
        until = min(until, marks[MARK.EDGE_MS])
        if not integrate(w, b, until - now):
            marks[MARK.STOP] = STOP.ORDER
            return 0
        if marks[MARK.WEIGHS_MIX] != 0 and w.at[AT.BLIND] == 0:
            weigh(w, b, jobs_known, until - now)
        now = until
    marks[MARK.NOW_MS] = max(moment, marks[MARK.NOW_MS])
    return 1


@kernel
def goes_on(w, b, kind):
    """Whether what is free, and who waits for it, is after an event of this kind what it was.

    Then the time before and after it is added up together. Not where who claims first depends on
    when the last event was: by patience, by past use, or as the scheduler says.
    """
    marks = b.marks
    is_same = kind in (STALLS, EFFICIENCY, SECURED, STRAGGLER, FIGURE, LOAD, LATENCY)
    is_same |= kind == STARTED and len(b.parts) == 0  # a gang that works lacks nothing
    decays = marks[MARK.FAIRNESS] != 0 and w.at[AT.HALF_LIFE_MS] != 0
    return is_same and marks[MARK.ORDER] in (ORDER.OLDEST, ORDER.PRIORITY) and not decays


@kernel
def is_alarm(jobs, marks, kind, j):
    """Whether a stop may be one that people must hear of: Python says it in words."""
    spent = jobs[j, JOB.FRUITLESS] + int(kind == EVICTED)
    return kind in (FAILURE, EVICTED) and spent >= marks[MARK.SPENT_AT]


@kernel
def cause_before(shapes, kind, s):
    """For what a shape waits before an event that may say something else."""
    if kind != SAID_WHY or s < 0 or s >= len(shapes):
        return 0
    return shapes[s, SHAPE.CAUSE]


@kernel
def heed_queue(w, b, kind, who, was, now):
    """An event was folded: who stands in line after it, and who of them asks for accelerators."""
    if kind == SAID_WHY:
        note_cause(w, b, who, was, now)
    elif kind in (SUBMITTED, PLACED, SEEN, FAILURE, CANCELLATION, EVICTED):
        keep_in_line(b.marks, w.shapes, b.claims, w.jobs[who, JOB.SHAPE])


@kernel
def read(w, b, events, event_pieces, counts, e, now):
    """Read the events from ``e`` on; where it stopped, and why (``MARK.STOP``).

    ``counts`` as for ``core.replay.replay``.
    """
    marks, attempts = b.marks, b.attempts
    while e < len(events) and events[e, EventColumn.AT] >= now:
        at, kind, j = (
            events[e, EventColumn.AT],
            events[e, EventColumn.KIND],
            events[e, EventColumn.WHO],
        )
        is_later = at > marks[MARK.NOW_MS] and not goes_on(w, b, kind)
        if is_later and not pass_time(w, b, counts[0, 0], at):
            return e
        is_life = kind in (
            SUBMITTED, PLACED, SEEN, STARTED, FINISHED, FAILURE, CANCELLATION, BUSY, EVICTED,
            STALLS, EFFICIENCY, SECURED, STRAGGLER,
        )  # fmt: skip
        if kind == SUBMITTED:
            j = counts[0, 0]
        if is_life and 0 <= j < counts[0, 0]:
            is_full = marks[MARK.SPANS] + most_spans(marks, attempts, j) > len(b.spans)
            if is_full or marks[MARK.FREE_EARLIER] < 0:
                marks[MARK.STOP] = STOP.FULL
                return e
            if is_alarm(w.jobs, marks, kind, j):
                break
        was = cause_before(w.shapes, kind, j)
        if not fold_one(w, events, event_pieces, counts, e, at):
            break
        marks[MARK.IS_FRESH] = 0
        marks[MARK.EVENT_MS] = at
        now = at
        if is_life:
            follow(w, b, j, 0, now)
        heed_queue(w, b, kind, j, was, now)
        e += 1
    marks[MARK.STOP] = STOP.EVENT
    return e
