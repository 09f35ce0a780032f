"""The lives of the twin's jobs: they come, come up, crash or end, and what is asked of them.

``happen`` takes out what is due at a moment and tells it, row by row; it may fold each event at
once (``core.replay``), so that one call is a whole moment. What is rare it leaves to Python, with
a code, and goes on when it is called again. The cluster state is asked whether an attempt is still
the one that was meant.
"""

from tidemill.compiled import shared
from tidemill.core import rhythm
from tidemill.core.fold import RUNNING, STARTING, WAITING
from tidemill.core.progress import run_ms
from tidemill.core.replay import (
    BUSY,
    CANCELLATION,
    EVICT,
    EVICTED,
    FAILURE,
    PASSED,
    PLACED,
    RELEASE,
    SAID_WHY,
    STARTED,
    SUBMITTED,
    fold_one,
)
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.columns import JOB
from tidemill.model.measures import FOREVER_MS, LONGEST_MS, ONE_PPM
from tidemill.twin.event_queue.columns import (
    ACTIVITY,
    ANY_ATTEMPT,
    CLOCK,
    ENTRY,
    HORIZON,
    JOB_END,
    JOB_START,
    LOAD,
    TRUTH,
)
from tidemill.twin.event_queue.heap import pop, push
from tidemill.twin.event_queue.kernel import kernel

MOVED, MOVE, CANCEL, HALF_LIFE, MIX = (
    codes.KIND_CODE[kind]
    for kind in (ev.JobMoved, ev.AskedMove, ev.AskedCancel, ev.HalfLifeSet, ev.MixSampled)
)
CRASHED = codes.WHY_CODE[ev.Why.CRASHED]
LOST_RACE = codes.WHY_CODE[ev.Why.LOST_RACE]
REFUSED = -1  # how slow an attempt comes up that does not: others had its place first
REFUSED_AFTER_MS = 1_000  # a kubelet refuses within a second or two; a bind that is late, sooner
slowed_ms = kernel(rhythm.slowed_ms)
time_ms = kernel(rhythm.time_ms)


# Why ``happen`` came back:
OVER = 0  # the moment is over
RARE = 1  # the first entry of the queue is for Python to take out
SINGLE = 2  # the event after those that were folded is for Python to fold
READ_ON = 3  # more jobs must be read before it is known whether one comes now
FULL = 4  # ``events`` must have more rows


# What an attempt will do ----------------------------------------------------------------------


@kernel
def left_ms(jobs, truths, j, slow_ppm):
    """How long an attempt works, alone on its devices, where it sits."""
    left, speed = max(1, truths[j, TRUTH.WORK_MS] - jobs[j, JOB.SAVED_MS]), jobs[j, JOB.SPEED_PPM]
    if speed != ONE_PPM:
        if left > LONGEST_MS:
            return FOREVER_MS
        left = time_ms(left, speed)
    if slow_ppm != 0:
        if left > LONGEST_MS:
            return FOREVER_MS
        left = slowed_ms(left, slow_ppm)
    return left


@kernel
def push_end(t, j, attempt, origin, rest):
    """How and when an attempt ends that works from a moment on, if nothing else ends it."""
    clock, truths = t.clock, t.truths
    crashed, kind = truths[j, TRUTH.CRASHED], truths[j, TRUTH.ENDING]
    if crashed < truths[j, TRUTH.CRASHES]:
        crash = t.crashes[truths[j, TRUTH.FIRST_CRASH] + crashed]
        if crash < rest:
            rest, kind = max(1, crash), FAILURE
    is_final = kind == FAILURE and crashed >= clock[CLOCK.RETRIES]
    return push(clock, t.entries, origin + rest, JOB_END, j, attempt, kind, int(is_final))


@kernel
def level_ppm(loads, levels, load, at_ms):
    """The busy share at a moment, of a load by the clock."""
    step = at_ms // loads[load, LOAD.STEP_MS] % loads[load, LOAD.STEPS]
    return levels[loads[load, LOAD.FIRST] + step]


@kernel
def push_step(t, load, j, attempt, now):
    """The next step of a load by the clock; on the step for everybody, so that one batch tells."""
    step = t.loads[load, LOAD.STEP_MS]
    at_ms = now - now % step + step
    busy = level_ppm(t.loads, t.levels, load, at_ms)
    push(t.clock, t.entries, at_ms, ACTIVITY, j, attempt, BUSY, busy)


@kernel
def first_load(t, load, j, attempt, now, saved):
    """How busy an attempt is that came up just now; what changes that is pushed."""
    if t.loads[load, LOAD.STEP_MS] > 0:
        push_step(t, load, j, attempt, now)
        return level_ppm(t.loads, t.levels, load, now)
    if saved >= t.loads[load, LOAD.ACTIVE_MS]:
        return 0
    idle_at = now + t.loads[load, LOAD.ACTIVE_MS] - saved
    push(t.clock, t.entries, idle_at, ACTIVITY, j, attempt, BUSY, 0)
    return t.loads[load, LOAD.BUSY_PPM]


# What is due ----------------------------------------------------------------------------------


@kernel
def tell(clock, events, now, kind, who, attempt, value):
    """Write an event that happens now."""
    e = clock[CLOCK.EVENTS]
    for column in range(events.shape[1]):
        events[e, column] = 0
    events[e, EventColumn.AT] = now
    events[e, EventColumn.KIND] = kind
    events[e, EventColumn.WHO] = who
    events[e, EventColumn.ATTEMPT] = attempt
    events[e, EventColumn.VALUE] = value
    clock[CLOCK.EVENTS] += 1


@kernel
def is_there(clock, jobs, truths, j, state, attempt):
    """Whether an attempt is in a state, and was not ended at this very moment."""
    return (
        jobs[j, JOB.STATE] == state
        and jobs[j, JOB.ATTEMPT] == attempt
        and truths[j, TRUTH.ENDED_IN] != clock[CLOCK.BATCH]
    )


@kernel
def is_cancelled(clock, jobs, truths, j):
    """Whether a cancellation meets a job that is not over, nor was ended at this very moment."""
    state = jobs[j, JOB.STATE]
    is_live = state in (WAITING, STARTING, RUNNING)
    return is_live and truths[j, TRUTH.ENDED_IN] != clock[CLOCK.BATCH]


@kernel
def is_evicted(clock, jobs, truths, j, attempt):
    """Whether an attempt was asked to leave, and neither stays nor ended at this very moment."""
    return (
        jobs[j, JOB.STATE] in (STARTING, RUNNING)
        and jobs[j, JOB.ATTEMPT] == attempt
        and jobs[j, JOB.IS_LEAVING] != 0
        and jobs[j, JOB.IS_MOVING] == 0
        and truths[j, TRUTH.ENDED_IN] != clock[CLOCK.BATCH]
    )


@kernel
def end_due(w, t, now):
    """An end, if this attempt is still there to meet it; the first of a moment counts."""
    clock, entries, truths = t.clock, t.entries, t.truths
    j, attempt, serial = entries[0, ENTRY.WHO], entries[0, ENTRY.STAMP], entries[0, ENTRY.SERIAL]
    kind, value = entries[0, ENTRY.KIND], entries[0, ENTRY.VALUE]
    pop(clock, entries)
    if attempt == ANY_ATTEMPT:
        if not is_cancelled(clock, w.jobs, truths, j):
            return
    elif kind == EVICTED:
        if not is_evicted(clock, w.jobs, truths, j, attempt):
            return
    elif not is_there(clock, w.jobs, truths, j, RUNNING, attempt):
        return
    elif truths[j, TRUTH.DUE] != 0 and truths[j, TRUTH.DUE] != serial:
        return  # its pace has changed since this end was foreseen
    truths[j, TRUTH.DUE] = 0
    truths[j, TRUTH.ENDED_IN] = clock[CLOCK.BATCH]
    tell(clock, t.events, now, kind, j, 0 if kind == CANCELLATION else attempt, value)
    if kind == FAILURE:
        t.events[clock[CLOCK.EVENTS] - 1, EventColumn.WHY] = CRASHED
        truths[j, TRUTH.CRASHED] += 1


@kernel
def start_due(w, t, now):
    """A start, if the attempt was not stopped before; and its load, if it is not full.

    Where others had its place first, it is refused instead, and waits again.
    """
    clock, entries, truths, jobs = t.clock, t.entries, t.truths, w.jobs
    j, attempt, slow = entries[0, ENTRY.WHO], entries[0, ENTRY.STAMP], entries[0, ENTRY.VALUE]
    pop(clock, entries)
    if not is_there(clock, jobs, truths, j, STARTING, attempt):
        return
    if slow == REFUSED:
        truths[j, TRUTH.ENDED_IN] = clock[CLOCK.BATCH]
        tell(clock, t.events, now, FAILURE, j, attempt, 0)
        t.events[clock[CLOCK.EVENTS] - 1, EventColumn.WHY] = LOST_RACE
        return
    left = left_ms(jobs, truths, j, slow)
    rest = run_ms(left, jobs[j, JOB.INTERVAL_MS], jobs[j, JOB.COST_MS])
    truths[j, TRUTH.DUE] = 0
    push_end(t, j, attempt, now, rest)
    tell(clock, t.events, now, STARTED, j, attempt, slow)
    load = truths[j, TRUTH.LOAD]
    if load > 0:
        busy = first_load(t, load, j, attempt, now, jobs[j, JOB.SAVED_MS])
        if busy != ONE_PPM:
            tell(clock, t.events, now, BUSY, j, attempt, busy)


@kernel
def activity_due(w, t, now):
    """A change of load of a running attempt; a load by the clock pushes its next step."""
    clock, entries, truths = t.clock, t.entries, t.truths
    j, attempt, busy = entries[0, ENTRY.WHO], entries[0, ENTRY.STAMP], entries[0, ENTRY.VALUE]
    pop(clock, entries)
    if not is_there(clock, w.jobs, truths, j, RUNNING, attempt):
        return
    load = truths[j, TRUTH.LOAD]
    if t.loads[load, LOAD.STEP_MS] > 0:
        push_step(t, load, j, attempt, now)
    if busy != w.jobs[j, JOB.BUSY_PPM]:
        tell(clock, t.events, now, BUSY, j, attempt, busy)


@kernel
def submit(clock, events, now):
    """The next job comes."""
    tell(clock, events, now, SUBMITTED, 0, 0, 0)
    first = clock[CLOCK.CAME] - clock[CLOCK.FIRST]
    events[clock[CLOCK.EVENTS] - 1, EventColumn.FIRST] = first
    clock[CLOCK.CAME] += 1


@kernel
def is_rare(entries, now):
    """Whether the first entry is due at a moment, and for Python to take out."""
    at, rank, kind = entries[0, ENTRY.AT], entries[0, ENTRY.RANK], entries[0, ENTRY.KIND]
    if at != now or rank in (JOB_START, HORIZON):
        return False
    return not (rank == JOB_END and kind != MOVED) and not (rank == ACTIVITY and kind == BUSY)


@kernel
def take_out(w, t, now):
    """Take out the first entry, which is due; False: that is for Python."""
    if is_rare(t.entries, now):
        return False
    rank = t.entries[0, ENTRY.RANK]
    if rank == JOB_END:
        end_due(w, t, now)
    elif rank == JOB_START:
        start_due(w, t, now)
    elif rank == ACTIVITY:
        activity_due(w, t, now)
    else:
        pop(t.clock, t.entries)
        t.clock[CLOCK.WOKE] = 1
    return True


@kernel
def begin_moment(clock, now):
    """Another moment begins; whoever asked to be woken by now is."""
    clock[CLOCK.BATCH] += 1
    clock[CLOCK.WOKE] = int(clock[CLOCK.WAKE_MS] == now)
    if clock[CLOCK.WAKE_MS] <= now:
        clock[CLOCK.WAKE_MS] = FOREVER_MS


@kernel
def wake(clock, wake_ms, horizon_ms, now):
    """A plan asks to be woken; not in the past, and not after the end."""
    wake_ms = max(wake_ms, now)
    if wake_ms < clock[CLOCK.WAKE_MS] and wake_ms < horizon_ms:
        clock[CLOCK.WAKE_MS] = wake_ms


@kernel
@shared
def happen(w, t, now, folds):
    """Tell, and fold if that is asked for, what is due at a moment; why it came back."""
    clock, truths = t.clock, t.truths
    while True:
        while folds != 0 and clock[CLOCK.FOLDED] < clock[CLOCK.EVENTS]:
            if not fold_one(w, t.events, t.event_pieces, t.counts, clock[CLOCK.FOLDED], now):
                return SINGLE
            clock[CLOCK.FOLDED] += 1
        if clock[CLOCK.EVENTS] + 2 > len(t.events):
            return FULL
        if clock[CLOCK.ENTRIES] > 0 and t.entries[0, ENTRY.AT] == now:
            if not take_out(w, t, now):
                return RARE
        elif clock[CLOCK.CAME] < clock[CLOCK.READ]:
            if truths[clock[CLOCK.CAME], TRUTH.AT] != now:
                return OVER
            submit(clock, t.events, now)
        elif clock[CLOCK.IS_EXHAUSTED] != 0:
            return OVER
        else:
            return READ_ON


# What is asked of them ------------------------------------------------------------------------


@kernel
def place(jobs, t, j, attempt, slow_ppm, now):
    """The gang comes up after its start-up time, and its restart time if it ran before.

    Or it is refused. An attempt that was has not run, so that nothing is to be loaded again.
    """
    if t.races[(31 * j + attempt) % len(t.races)] != 0:
        push(t.clock, t.entries, now + REFUSED_AFTER_MS, JOB_START, j, attempt, STARTED, REFUSED)
        return
    wait = jobs[j, JOB.STARTUP_MS]
    if attempt - jobs[j, JOB.RACES] > 1:
        wait += jobs[j, JOB.RESTART_MS]
    wait = int(wait * t.luck[(31 * j + attempt) % len(t.luck)])
    push(t.clock, t.entries, now + wait, JOB_START, j, attempt, STARTED, slow_ppm)


@kernel
def carry_out(jobs, t, i, tiers, now):
    """Push what follows from the actions of a plan, from one on; the first that is for Python."""
    clock, entries, asked = t.clock, t.entries, t.asked
    while i < clock[CLOCK.ASKED]:
        kind, j = asked[i, EventColumn.KIND], asked[i, EventColumn.WHO]
        attempt = asked[i, EventColumn.ATTEMPT]
        if kind == PLACED:
            if tiers > 0 and t.truths[j, TRUTH.TALKS] != 0:
                return i
            place(jobs, t, j, attempt, 0, now)
        elif kind == EVICT:
            push(clock, entries, now + clock[CLOCK.EVICT_MS], JOB_END, j, attempt, EVICTED, 0)
        elif kind == MOVE:
            push(clock, entries, now + clock[CLOCK.EVICT_MS], JOB_END, j, attempt, MOVED, 0)
        elif kind == CANCEL:
            push(clock, entries, now, JOB_END, j, ANY_ATTEMPT, CANCELLATION, 0)
        elif kind not in (SAID_WHY, PASSED, RELEASE, HALF_LIFE, MIX):
            return i
        i += 1
    return i
