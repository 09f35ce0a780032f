"""Attempts: what each job does with the accelerators that it holds, written as spans of time.

Work since the last checkpoint is provisional: its span is written only when its fate is known (a
checkpoint or the finish saves it, a stop makes it rework). A span that lies outside the window is
not written at all.
"""

from tidemill.core.accounting.columns import (
    EARLIER,
    HELD,
    HOLD,
    LASTED,
    MARK,
    NEVER,
    NOT_RUNNING,
    PHASE,
    SPAN,
)
from tidemill.core.fold import DONE, RUNNING, STARTING, WAITING
from tidemill.core.kernel import kernel
from tidemill.core.progress import CONTINUOUS, safe_ms
from tidemill.model.columns import AT, JOB, NODE, NONE, PIECE, ROLE, SHAPE
from tidemill.model.measured import BACK, SAVES
from tidemill.model.reasons import Cause

_, WAITS, HOLDS, ENDED, OFF = map(int, PHASE)
NOT_ELIGIBLE = int(Cause.NOT_ELIGIBLE)


@kernel
def asks(w, j):
    """Whether a job in the queue waits for accelerators: it is not held, as far as anybody says."""
    jobs = w.jobs
    return jobs[j, JOB.IS_HELD] == 0 and w.shapes[jobs[j, JOB.SHAPE], SHAPE.CAUSE] != NOT_ELIGIBLE


@kernel
def phase_of(state, is_off):
    """What a job in a state is doing, as far as waits go."""
    if state == WAITING:
        return OFF if is_off else WAITS
    return HOLDS if state in (STARTING, RUNNING) else ENDED


@kernel
def note_wait(attempts, j, state, is_off, now, until):
    """A job was touched by an event and is in this state now; what comes later does not count.

    A gang of which a part is placed still waits. ``is_off``: it does not ask for accelerators.
    """
    if now > until:
        return
    phase = phase_of(state, is_off)
    was = attempts[j, HELD.PHASE]
    if phase == was:
        return
    attempts[j, HELD.PHASE] = phase
    since = attempts[j, HELD.ENDED_MS] if was == ENDED else now
    if was == WAITS:
        attempts[j, HELD.BALANCE_MS] += now
    elif was == OFF:
        note_off(attempts, j, now)
    elif was == HOLDS:
        attempts[j, HELD.HELD_MS] += now
    if phase == WAITS:  # one that was cancelled, and is back, waited all the time
        attempts[j, HELD.BALANCE_MS] -= since
    elif phase == OFF:
        note_off(attempts, j, -since)
    if phase == HOLDS:
        attempts[j, HELD.FIRST_MS] = min(attempts[j, HELD.FIRST_MS], now)
        attempts[j, HELD.HELD_MS] -= now
    elif phase == ENDED:
        attempts[j, HELD.ENDED_MS] = now
        attempts[j, HELD.OUTCOME] = state


@kernel
def note_off(attempts, j, ms):
    """A job asks for no accelerators from a moment on (below zero), or did not up to one.

    After its first start nobody needs to know it: then only the time in which it asked counts.
    """
    if attempts[j, HELD.FIRST_MS] == NEVER:
        attempts[j, HELD.OFF_MS] += ms
        if attempts[j, HELD.BALANCE_MS] == 0:
            attempts[j, HELD.IS_LATE] = 1


@kernel
def note_cause(w, b, s, was, now):
    """The cause for which a shape waits has changed: its jobs may ask now, or ask no more."""
    if (was == NOT_ELIGIBLE) == (w.shapes[s, SHAPE.CAUSE] == NOT_ELIGIBLE):
        return
    j = w.shapes[s, SHAPE.HEAD] if w.shapes[s, SHAPE.WAITING] > 0 else NONE
    while j >= 0:
        note_wait(b.attempts, j, WAITING, not asks(w, j), now, b.marks[MARK.END_MS])
        j = w.jobs[j, JOB.NEXT]


@kernel
def is_partial(w, j):
    """Whether another scheduler has placed fewer replicas of a gang than it works with."""
    s, missing = w.jobs[j, JOB.SHAPE], 0
    first = w.shapes[s, SHAPE.FIRST_ROLE]
    for r in range(first, first + w.shapes[s, SHAPE.ROLES]):
        lacks = w.roles[r, ROLE.LEAST] or w.roles[r, ROLE.COUNT]
        p = w.jobs[j, JOB.FIRST_PIECE]
        while p >= 0:
            if first + w.pieces[p, PIECE.ROLE] == r:
                lacks -= w.pieces[p, PIECE.REPLICAS]
            p = w.pieces[p, PIECE.NEXT_OF_JOB]
        missing += max(0, lacks) * w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
    return missing > w.jobs[j, JOB.OVER_MILLI]  # what others hold as well is there, and not booked


@kernel
def hold_piece(marks, attempts, holds, j, c, milli):
    """An attempt holds so much more of a contract."""
    h = attempts[j, HELD.FIRST_HOLD]
    while h >= 0:
        if holds[h, HOLD.CONTRACT] == c:
            holds[h, HOLD.MILLI] += milli
            return
        h = holds[h, HOLD.NEXT]
    h = marks[MARK.FREE_HOLD]
    marks[MARK.FREE_HOLD] = holds[h, HOLD.NEXT]
    holds[h, HOLD.CONTRACT] = c
    holds[h, HOLD.MILLI] = milli
    holds[h, HOLD.NEXT] = attempts[j, HELD.FIRST_HOLD]
    attempts[j, HELD.FIRST_HOLD] = h


@kernel
def open_attempt(w, b, j, now):
    """A job holds the accelerators of its place from now on; it has not come up yet."""
    attempts = b.attempts
    for column in range(HELD.FIRST_MS):
        attempts[j, column] = 0
    attempts[j, HELD.ATTEMPT] = w.jobs[j, JOB.ATTEMPT]
    attempts[j, HELD.ORIGIN_MS] = NOT_RUNNING
    attempts[j, HELD.SINCE_MS] = now
    attempts[j, HELD.FIRST_HOLD] = NONE
    attempts[j, HELD.FIRST_EARLIER] = NONE
    first, p = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE], w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        r = first + w.pieces[p, PIECE.ROLE]
        milli = w.pieces[p, PIECE.REPLICAS] * w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
        if milli > 0 and w.pieces[p, PIECE.IS_COMING] == 0:
            c = w.nodes[w.pieces[p, PIECE.NODE], NODE.CONTRACT]
            hold_piece(b.marks, attempts, b.holds, j, c, milli)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def forget_earlier(marks, attempts, earlier, j):
    """The earlier stretches of a run were written, or never will be."""
    i = attempts[j, HELD.FIRST_EARLIER]
    while i >= 0:
        after = earlier[i, EARLIER.NEXT]
        earlier[i, EARLIER.NEXT] = marks[MARK.FREE_EARLIER]
        marks[MARK.FREE_EARLIER] = i
        i = after
    attempts[j, HELD.FIRST_EARLIER] = NONE
    attempts[j, HELD.EARLIER] = 0


@kernel
def forget_attempt(marks, attempts, holds, earlier, j):
    """A job holds nothing any more."""
    h = attempts[j, HELD.FIRST_HOLD]
    while h >= 0:
        after = holds[h, HOLD.NEXT]
        holds[h, HOLD.NEXT] = marks[MARK.FREE_HOLD]
        marks[MARK.FREE_HOLD] = h
        h = after
    forget_earlier(marks, attempts, earlier, j)
    attempts[j, HELD.ATTEMPT] = 0


@kernel
def write_held(
    marks, attempts, holds, spans, j, begin, end, bucket, origin, since, busy, beside, stalls, use,
    straggler,
):  # fmt: skip
    """One span for each contract that an attempt holds accelerators of, if it is in the window.

    ``stalls``, ``use`` and ``straggler``: what was measured of it, packed (``model.measured``).
    """
    if begin >= end or end <= marks[MARK.START_MS] or begin >= marks[MARK.END_MS]:
        return
    h = attempts[j, HELD.FIRST_HOLD]
    while h >= 0:
        row = marks[MARK.SPANS]
        spans[row, SPAN.START_MS] = begin
        spans[row, SPAN.END_MS] = end
        spans[row, SPAN.BUCKET] = bucket
        spans[row, SPAN.JOB] = j
        spans[row, SPAN.CONTRACT] = holds[h, HOLD.CONTRACT]
        spans[row, SPAN.MILLI] = holds[h, HOLD.MILLI]
        spans[row, SPAN.ORIGIN_MS] = origin
        spans[row, SPAN.SINCE_MS] = since
        spans[row, SPAN.BUSY_PPM] = busy
        spans[row, SPAN.SLOW_PPM] = attempts[j, HELD.SLOW_PPM] if origin != NOT_RUNNING else 0
        spans[row, SPAN.BESIDE_PPM] = beside
        spans[row, SPAN.STALLS] = stalls
        spans[row, SPAN.EFFICIENCY] = use
        spans[row, SPAN.STRAGGLER] = straggler
        marks[MARK.SPANS] = row + 1
        h = holds[h, HOLD.NEXT]


@kernel
def write_start(marks, attempts, holds, spans, j, now):
    """What an attempt held before it came up."""
    bucket = marks[MARK.STARTING] if attempts[j, HELD.ATTEMPT] == 1 else marks[MARK.RESTART]
    since = attempts[j, HELD.SINCE_MS]
    write_held(
        marks, attempts, holds, spans, j, since, now, bucket, NOT_RUNNING, since, 0, 0, 0, 0,
        0,
    )  # fmt: skip


@kernel
def write_stretch(
    marks, attempts, holds, spans, j, start, end, safe, otherwise, busy, beside, stalls, use,
    straggler,
):  # fmt: skip
    """A stretch of a run: what lasts of it, up to a moment, and what the rest is."""
    origin = attempts[j, HELD.ORIGIN_MS]
    safe = min(end, max(start, safe))
    write_held(
        marks, attempts, holds, spans, j, start, safe, LASTED, origin, start, busy, beside,
        stalls, use, straggler,
    )  # fmt: skip
    write_held(
        marks, attempts, holds, spans, j, safe, end, otherwise, origin, start, busy, beside,
        stalls, use, straggler,
    )  # fmt: skip


@kernel
def write_run(marks, attempts, holds, earlier, spans, j, safe, otherwise, now):
    """All stretches of a run: what lasts of them, up to a moment, and what the rest is."""
    i = attempts[j, HELD.FIRST_EARLIER]
    while i >= 0:
        write_stretch(
            marks, attempts, holds, spans, j, earlier[i, EARLIER.START_MS],
            earlier[i, EARLIER.END_MS], safe, otherwise, earlier[i, EARLIER.BUSY_PPM],
            earlier[i, EARLIER.BESIDE_PPM], earlier[i, EARLIER.STALLS],
            earlier[i, EARLIER.EFFICIENCY], earlier[i, EARLIER.STRAGGLER],
        )  # fmt: skip
        i = earlier[i, EARLIER.NEXT]
    write_stretch(
        marks, attempts, holds, spans, j, attempts[j, HELD.SINCE_MS], now, safe, otherwise,
        attempts[j, HELD.BUSY_PPM], attempts[j, HELD.BESIDE_PPM], attempts[j, HELD.STALLS],
        attempts[j, HELD.EFFICIENCY], attempts[j, HELD.STRAGGLER],
    )  # fmt: skip


@kernel
def safe_until(jobs, attempts, j, now):
    """Up to when an interruption could take nothing back."""
    origin, interval = attempts[j, HELD.ORIGIN_MS], jobs[j, JOB.INTERVAL_MS]
    if attempts[j, HELD.STALLS] & SAVES:
        return origin
    return origin + safe_ms(now - origin, interval, jobs[j, JOB.COST_MS])


@kernel
def is_saving_untold(jobs, shapes, attempts, j):
    """Whether nobody knows what a stop loses: it trains, and nobody says whether it saves."""
    return (
        jobs[j, JOB.INTERVAL_MS] == CONTINUOUS
        and shapes[jobs[j, JOB.SHAPE], SHAPE.IS_TRAINING] != 0
        and attempts[j, HELD.STALLS] & SAVES == 0
    )


@kernel
def is_back(attempts, j):
    """Whether the loop of an attempt went back, and does not work again yet."""
    return attempts[j, HELD.STALLS] & BACK != 0


@kernel
def write_back(marks, attempts, holds, spans, j, now):
    """What an attempt held since its loop went back: it comes up again."""
    since = attempts[j, HELD.ORIGIN_MS]
    write_held(
        marks, attempts, holds, spans, j, since, now, marks[MARK.RESTART], NOT_RUNNING, since, 0, 0,
        0, 0, 0,
    )  # fmt: skip


@kernel
def end_attempt(jobs, shapes, b, j, keeps, now):
    """An attempt is over: what it did lasts, what was not saved is lost, or nobody knows."""
    marks, attempts = b.marks, b.attempts
    if attempts[j, HELD.IS_RUNNING] == 0:
        write_start(marks, attempts, b.holds, b.spans, j, now)
    elif is_back(attempts, j):
        write_back(marks, attempts, b.holds, b.spans, j, now)
    else:
        safe, otherwise = now, marks[MARK.REWORK]
        if keeps == 0:
            safe = safe_until(jobs, attempts, j, now)
            if is_saving_untold(jobs, shapes, attempts, j):
                safe, otherwise = attempts[j, HELD.ORIGIN_MS], marks[MARK.UNKNOWN]
        write_run(marks, attempts, b.holds, b.earlier, b.spans, j, safe, otherwise, now)
        is_inside = marks[MARK.START_MS] <= now < marks[MARK.END_MS]
        tells = jobs[j, JOB.INTERVAL_MS] != CONTINUOUS or attempts[j, HELD.STALLS] & SAVES != 0
        if keeps == 0 and is_inside and tells:
            marks[MARK.CUT_SHORT] += 1
    forget_attempt(marks, attempts, b.holds, b.earlier, j)


@kernel
def save_run(jobs, b, j, now):
    """An attempt saved all its work out of its rhythm: it lasts up to the save, a stall."""
    marks, attempts, earlier = b.marks, b.attempts, b.earlier
    began, origin = now - jobs[j, JOB.COST_MS], attempts[j, HELD.ORIGIN_MS]
    i = attempts[j, HELD.FIRST_EARLIER]
    while i >= 0:
        start, end = earlier[i, EARLIER.START_MS], min(earlier[i, EARLIER.END_MS], began)
        write_held(
            marks, attempts, b.holds, b.spans, j, start, end, LASTED, origin, start,
            earlier[i, EARLIER.BUSY_PPM], earlier[i, EARLIER.BESIDE_PPM],
            earlier[i, EARLIER.STALLS], earlier[i, EARLIER.EFFICIENCY],
            earlier[i, EARLIER.STRAGGLER],
        )  # fmt: skip
        i = earlier[i, EARLIER.NEXT]
    start = attempts[j, HELD.SINCE_MS]
    write_held(
        marks, attempts, b.holds, b.spans, j, start, began, LASTED, origin, start,
        attempts[j, HELD.BUSY_PPM], attempts[j, HELD.BESIDE_PPM], attempts[j, HELD.STALLS],
        attempts[j, HELD.EFFICIENCY], attempts[j, HELD.STRAGGLER],
    )  # fmt: skip
    write_held(
        marks, attempts, b.holds, b.spans, j, began, now, marks[MARK.CHECKPOINT], NOT_RUNNING,
        began, 0, 0, 0, 0, 0,
    )  # fmt: skip
    forget_earlier(marks, attempts, earlier, j)
    attempts[j, HELD.ORIGIN_MS] = jobs[j, JOB.ORIGIN_MS]


@kernel
def secure_earlier(b, j, covers):
    """Earlier stretches of a run last up to a moment; what of them came after waits on."""
    marks, attempts, earlier = b.marks, b.attempts, b.earlier
    before, i = NONE, attempts[j, HELD.FIRST_EARLIER]
    while i >= 0:
        after, start = earlier[i, EARLIER.NEXT], earlier[i, EARLIER.START_MS]
        write_held(
            marks, attempts, b.holds, b.spans, j, start, min(earlier[i, EARLIER.END_MS], covers),
            LASTED, attempts[j, HELD.ORIGIN_MS], start, earlier[i, EARLIER.BUSY_PPM],
            earlier[i, EARLIER.BESIDE_PPM], earlier[i, EARLIER.STALLS],
            earlier[i, EARLIER.EFFICIENCY], earlier[i, EARLIER.STRAGGLER],
        )  # fmt: skip
        earlier[i, EARLIER.START_MS] = max(start, covers)
        if earlier[i, EARLIER.END_MS] > covers:
            before = i
        else:
            earlier[i, EARLIER.NEXT] = marks[MARK.FREE_EARLIER]
            marks[MARK.FREE_EARLIER] = i
            attempts[j, HELD.EARLIER] -= 1
            if before >= 0:
                earlier[before, EARLIER.NEXT] = after
            else:
                attempts[j, HELD.FIRST_EARLIER] = after
        i = after


@kernel
def secure_run(jobs, b, j):
    """Whoever runs an attempt says that it is safe up to a moment: that much of it lasts."""
    attempts, covers = b.attempts, jobs[j, JOB.ORIGIN_MS]
    secure_earlier(b, j, covers)
    start = attempts[j, HELD.SINCE_MS]
    write_held(
        b.marks, attempts, b.holds, b.spans, j, start, covers, LASTED, attempts[j, HELD.ORIGIN_MS],
        start, attempts[j, HELD.BUSY_PPM], attempts[j, HELD.BESIDE_PPM], attempts[j, HELD.STALLS],
        attempts[j, HELD.EFFICIENCY], attempts[j, HELD.STRAGGLER],
    )  # fmt: skip
    attempts[j, HELD.SINCE_MS] = max(start, covers)
    attempts[j, HELD.ORIGIN_MS] = covers


@kernel
def lose_run(jobs, shapes, b, j, now):
    """Its loop went back to what was safe, or works again after that: what was since is lost, or
    nobody knows.
    """
    marks, attempts = b.marks, b.attempts
    origin, lost = attempts[j, HELD.ORIGIN_MS], marks[MARK.REWORK]
    if is_saving_untold(jobs, shapes, attempts, j):
        lost = marks[MARK.UNKNOWN]
    if is_back(attempts, j):
        write_back(marks, attempts, b.holds, b.spans, j, now)
    else:
        write_run(marks, attempts, b.holds, b.earlier, b.spans, j, origin, lost, now)
    forget_earlier(marks, attempts, b.earlier, j)
    attempts[j, HELD.STALLS] ^= BACK
    attempts[j, HELD.SINCE_MS] = now
    attempts[j, HELD.ORIGIN_MS] = jobs[j, JOB.ORIGIN_MS]


@kernel
def keep_earlier(marks, attempts, earlier, j, now):
    """A run goes on with another busy share or pace; what came before waits for its fate."""
    i = marks[MARK.FREE_EARLIER]
    marks[MARK.FREE_EARLIER] = earlier[i, EARLIER.NEXT]
    earlier[i, EARLIER.START_MS] = attempts[j, HELD.SINCE_MS]
    earlier[i, EARLIER.END_MS] = now
    earlier[i, EARLIER.BUSY_PPM] = attempts[j, HELD.BUSY_PPM]
    earlier[i, EARLIER.BESIDE_PPM] = attempts[j, HELD.BESIDE_PPM]
    earlier[i, EARLIER.STALLS] = attempts[j, HELD.STALLS]
    earlier[i, EARLIER.EFFICIENCY] = attempts[j, HELD.EFFICIENCY]
    earlier[i, EARLIER.STRAGGLER] = attempts[j, HELD.STRAGGLER]
    earlier[i, EARLIER.NEXT] = attempts[j, HELD.FIRST_EARLIER]
    attempts[j, HELD.FIRST_EARLIER] = i
    attempts[j, HELD.EARLIER] += 1


@kernel
def is_same(attempts, j, busy, beside, stalls, use, straggler):
    """Whether the time of a run goes on dividing as before."""
    return (
        busy == attempts[j, HELD.BUSY_PPM]
        and beside == attempts[j, HELD.BESIDE_PPM]
        and stalls == attempts[j, HELD.STALLS]
        and use == attempts[j, HELD.EFFICIENCY]
        and straggler == attempts[j, HELD.STRAGGLER]
    )


@kernel
def go_on(jobs, shapes, b, j, now):
    """A gang has come up, has saved its work, or how its time divides has changed."""
    marks, attempts = b.marks, b.attempts
    busy, beside = jobs[j, JOB.BUSY_PPM], attempts[j, HELD.PACE_PPM]
    stalls, use, straggler = jobs[j, JOB.STALLS], jobs[j, JOB.EFFICIENCY], jobs[j, JOB.STRAGGLER]
    if attempts[j, HELD.IS_RUNNING] != 0:
        is_told = stalls & SAVES != 0
        if (attempts[j, HELD.STALLS] ^ stalls) & BACK:
            lose_run(jobs, shapes, b, j, now)
        elif is_told and attempts[j, HELD.ORIGIN_MS] != jobs[j, JOB.ORIGIN_MS]:
            secure_run(jobs, b, j)
        attempts[j, HELD.STALLS] |= stalls & SAVES
    if attempts[j, HELD.IS_RUNNING] == 0:
        write_start(marks, attempts, b.holds, b.spans, j, now)
        attempts[j, HELD.IS_RUNNING] = 1
        attempts[j, HELD.ORIGIN_MS] = jobs[j, JOB.ORIGIN_MS]
        attempts[j, HELD.SLOW_PPM] = jobs[j, JOB.SLOW_PPM]
    elif attempts[j, HELD.ORIGIN_MS] != jobs[j, JOB.ORIGIN_MS]:
        save_run(jobs, b, j, now)
    elif is_same(attempts, j, busy, beside, stalls, use, straggler):
        return
    elif jobs[j, JOB.INTERVAL_MS] == CONTINUOUS and not is_saving_untold(jobs, shapes, attempts, j):
        write_run(marks, attempts, b.holds, b.earlier, b.spans, j, now, marks[MARK.REWORK], now)
    else:
        keep_earlier(marks, attempts, b.earlier, j, now)
    attempts[j, HELD.SINCE_MS] = now
    attempts[j, HELD.BUSY_PPM] = busy
    attempts[j, HELD.BESIDE_PPM] = beside
    attempts[j, HELD.STALLS] = stalls
    attempts[j, HELD.EFFICIENCY] = use
    attempts[j, HELD.STRAGGLER] = straggler


@kernel
def follow(w, b, j, keeps, now):
    """An event touched a job; ``keeps``: a move that ends with it keeps what was not saved."""
    marks, attempts, jobs = b.marks, b.attempts, w.jobs
    state, was = jobs[j, JOB.STATE], attempts[j, HELD.ATTEMPT]
    is_active = state in (STARTING, RUNNING)
    waits = state == STARTING and w.at[AT.SEEN] > 0 and is_partial(w, j)
    is_off = state == WAITING and not asks(w, j)
    note_wait(attempts, j, WAITING if waits else state, is_off, now, marks[MARK.END_MS])
    if was == 0:
        if is_active:
            open_attempt(w, b, j, now)
    elif is_active and was != jobs[j, JOB.ATTEMPT]:
        marks[MARK.STOPPED] += 1
        end_attempt(jobs, w.shapes, b, j, keeps, now)
        open_attempt(w, b, j, now)
    elif state == RUNNING:
        go_on(jobs, w.shapes, b, j, now)
    elif is_active:  # still coming up, and seen to hold something else
        end_attempt(jobs, w.shapes, b, j, 0, now)
        open_attempt(w, b, j, now)
    else:
        if state == WAITING:
            marks[MARK.STOPPED] += 1
        end_attempt(jobs, w.shapes, b, j, 1 if state == DONE else 0, now)


@kernel
def most_spans(marks, attempts, j):
    """How many spans the next event of a job may write."""
    return 2 * (attempts[j, HELD.EARLIER] + 2) * marks[MARK.CONTRACTS]


@kernel
def write_open(w, b, i):
    """Write what the active jobs from the ``i``-th on did up to now; up to which there was room."""
    marks, attempts, now = b.marks, b.attempts, b.marks[MARK.NOW_MS]
    while i < w.at[AT.ACTIVE]:
        j = w.active[i]
        if marks[MARK.SPANS] + most_spans(marks, attempts, j) > len(b.spans):
            return i
        if attempts[j, HELD.IS_RUNNING] == 0:
            write_start(marks, attempts, b.holds, b.spans, j, now)
        elif is_back(attempts, j):
            write_back(marks, attempts, b.holds, b.spans, j, now)
        else:
            safe = safe_until(w.jobs, attempts, j, now)
            write_run(
                marks, attempts, b.holds, b.earlier, b.spans, j, safe, marks[MARK.UNSAVED], now
            )  # fmt: skip
        i += 1
    return i
