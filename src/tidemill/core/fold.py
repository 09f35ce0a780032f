"""The fold of a job's life: what each event does to the columns. The only writer of them.

Events were looked at before (``engine.fold`` refuses those that contradict the state).
"""

from tidemill.core.decay import settle
from tidemill.core.kernel import kernel
from tidemill.core.lines import become_active, cease_active, leave_line, line_up
from tidemill.core.places import change, cut, hang, hang_after, hop_of, is_part, vacate
from tidemill.core.progress import CONTINUOUS, saved_ms, unsaved_ms
from tidemill.core.quotas import gave_back, use
from tidemill.model import figures, measured
from tidemill.model.codes import CONFIDENCE_CODE
from tidemill.model.columns import AT, JOB, KIND, NODE, NONE, PIECE, QUEUE, ROLE, SHAPE
from tidemill.model.history import SIZES, STEPS
from tidemill.model.measured import BACK, SAVES
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import Confidence, JobState
from tidemill.model.tables import NEVER_PASSED
from tidemill.model.topology import NO_HOP

WAITING, STARTING, RUNNING, DONE, FAILED, CANCELLED = map(int, JobState)
UNKNOWN = CONFIDENCE_CODE[Confidence.UNKNOWN]
stalls_of = kernel(measured.stalls_of)
efficiency_of = kernel(measured.efficiency_of)
straggler_of = kernel(measured.straggler_of)
with_figure = kernel(figures.with_figure)
LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century


@kernel
def use_piece(w, j, p, sign):
    """Count a piece as used by the queue of its job, or as used no more."""
    s = w.jobs[j, JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE]
    milli = w.pieces[p, PIECE.REPLICAS] * w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
    k = w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND]
    use(w.at, w.queues, w.quotas, w.kinds, w.shapes[s, SHAPE.QUEUE], k, sign * milli)


@kernel
def hold(w, j, count, is_coming, now):
    """A job takes the pieces that were found for it, and its queue uses them."""
    p, s = hang(w, j, count, is_coming), w.jobs[j, JOB.SHAPE]
    settle(w.at, w.queues, w.quotas, w.shapes[s, SHAPE.QUEUE], now)
    if w.shapes[s, SHAPE.IS_LASTING] != 0:
        w.at[AT.LASTING_CHANGES] += 1
    while p >= 0:
        change(w, p, -1)
        w.kinds[w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND], KIND.TAKEN] += 1
        use_piece(w, j, p, 1)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def release(w, j, is_coming, now):
    """A job gives back all of its pieces, or only those of a place to which it was to move."""
    jobs, pieces = w.jobs, w.pieces
    s = jobs[j, JOB.SHAPE]
    settle(w.at, w.queues, w.quotas, w.shapes[s, SHAPE.QUEUE], now)
    if w.shapes[s, SHAPE.IS_LASTING] != 0:
        w.at[AT.LASTING_CHANGES] += 1
    last, p = NONE, jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        after = pieces[p, PIECE.NEXT_OF_JOB]
        if is_coming == 0 or pieces[p, PIECE.IS_COMING] == is_coming:
            hang_after(pieces, jobs, j, last, after)
            use_piece(w, j, p, -1)
            vacate(w, p, now)
        else:
            last = p
        p = after
    gave_back(w.queues, w.shapes[s, SHAPE.QUEUE])


# What is asked of jobs --------------------------------------------------------------------------


@kernel
def promise(at, shapes, s):
    """Room is made for a shape, by one that leaves."""
    if shapes[s, SHAPE.PROMISED] == 0:
        at[AT.PROMISED] += 1
        shapes[s, SHAPE.PROMISED] = 1
    shapes[s, SHAPE.PROMISED] += 1


@kernel
def unpromise(at, shapes, s):
    """No room is being made for a shape any more."""
    if shapes[s, SHAPE.PROMISED] != 0:
        at[AT.PROMISED] -= 1
        shapes[s, SHAPE.PROMISED] = 0


@kernel
def leave_for(at, jobs, shapes, j, s):
    """A job is asked to leave, for a shape or for nobody."""
    at[AT.LEAVING] += 1
    at[AT.PACE_CHANGES] += 1
    jobs[j, JOB.IS_LEAVING] = 1
    jobs[j, JOB.LEAVING_FOR] = s
    if s >= 0:
        promise(at, shapes, s)


@kernel
def stay(at, jobs, shapes, j):
    """A job is asked for nothing any more; whom it left for has one less to see leave."""
    s = jobs[j, JOB.LEAVING_FOR]
    if s >= 0 and shapes[s, SHAPE.PROMISED] > 1:
        shapes[s, SHAPE.PROMISED] -= 1
    at[AT.LEAVING] -= jobs[j, JOB.IS_LEAVING]
    at[AT.PACE_CHANGES] += jobs[j, JOB.IS_LEAVING]
    jobs[j, JOB.IS_LEAVING] = 0
    jobs[j, JOB.LEAVING_FOR] = NONE
    jobs[j, JOB.IS_MOVING] = 0


@kernel
def idle_no_more(at, jobs, j):
    """A job does something, or runs no more."""
    if jobs[j, JOB.IDLE_MS] != NONE:
        at[AT.IDLE] -= 1
        jobs[j, JOB.IDLE_MS] = NONE


@kernel
def be_busy(at, jobs, j, busy, now):
    """A job is busier or less from now on; idle since it first does nothing."""
    if busy != 0:
        idle_no_more(at, jobs, j)
    elif jobs[j, JOB.IDLE_MS] == NONE:
        at[AT.IDLE] += 1
        jobs[j, JOB.IDLE_MS] = now
    jobs[j, JOB.BUSY_PPM] = busy


@kernel
def dequeue(w, j):
    """A waiting job waits no more; room is made only for those who wait."""
    s = w.jobs[j, JOB.SHAPE]
    leave_line(w.at, w.jobs, w.shapes, w.queued, j)
    if w.shapes[s, SHAPE.WAITING] == 0:
        unpromise(w.at, w.shapes, s)


# Their lives ------------------------------------------------------------------------------------


@kernel
def placed(w, j, count, now):
    """A waiting gang takes its devices, whole: the pieces that were found for it."""
    at, jobs = w.at, w.jobs
    if w.shapes[jobs[j, JOB.SHAPE], SHAPE.PROMISED] == 1:
        unpromise(at, w.shapes, jobs[j, JOB.SHAPE])
    dequeue(w, j)
    become_active(at, jobs, w.shapes, w.active, j)
    hold(w, j, count, 0, now)
    jobs[j, JOB.STATE] = STARTING
    jobs[j, JOB.ATTEMPT] += 1
    jobs[j, JOB.SINCE_MS] = now
    jobs[j, JOB.PLACED_MS] = now
    jobs[j, JOB.PASSED_MS] = NEVER_PASSED
    jobs[j, JOB.BUSY_PPM] = ONE_PPM
    jobs[j, JOB.SPEED_PPM] = ONE_PPM
    if at[AT.TIERS] > 0:
        jobs[j, JOB.HOP] = hop_of(w, j)


@kernel
def started(jobs, j, slow_ppm, now):
    """The gang works from now on."""
    jobs[j, JOB.STATE] = RUNNING
    jobs[j, JOB.SINCE_MS] = now
    jobs[j, JOB.ORIGIN_MS] = now
    jobs[j, JOB.SLOW_PPM] = slow_ppm


@kernel
def vacated(w, j, now):
    """A job holds nothing any more, and is asked for nothing."""
    jobs = w.jobs
    release(w, j, 0, now)
    cease_active(w.at, jobs, w.shapes, w.active, j)
    stay(w.at, jobs, w.shapes, j)
    idle_no_more(w.at, jobs, j)
    jobs[j, JOB.IS_PACED] = 0
    jobs[j, JOB.OVER_MILLI] = 0
    jobs[j, JOB.SAID] = 0  # of what it waited for before it was placed, or while it was in part
    if jobs[j, JOB.STALLS] & SAVES:
        jobs[j, JOB.INTERVAL_MS] = CONTINUOUS  # of the next attempt nobody has said anything yet
    jobs[j, JOB.STALLS] = 0
    jobs[j, JOB.EFFICIENCY] = 0
    jobs[j, JOB.STRAGGLER] = 0
    jobs[j, JOB.FIGURES] = 0
    jobs[j, JOB.HOP] = NO_HOP
    jobs[j, JOB.SLOW_PPM] = 0


@kernel
def step_of(value):
    """The step into which a positive value falls; see ``model.history``."""
    if value < 2:
        return 0
    exponent = 0
    while value >> exponent > 1:
        exponent += 1
    return min(STEPS - 1, 2 * exponent + (value >> (exponent - 1) & 1))


@kernel
def size_of(milli):
    """The class of a gang's size: doublings of whole accelerators, rounded up."""
    whole, size = (milli + 999) // 1000, 0
    while whole > 0:
        whole >>= 1
        size += 1
    return min(SIZES - 1, size)


@kernel
def note_end(jobs, shapes, queues, run_times, ratios, j, by):
    """Count a job that has ended, if it ran at all. Services do not end by themselves.

    ``by``: 1, or -1 for one that is back, and had not ended.
    """
    ran, s = jobs[j, JOB.RAN_MS], jobs[j, JOB.SHAPE]
    if ran == 0 or shapes[s, SHAPE.IS_LASTING] != 0:
        return
    q = shapes[s, SHAPE.QUEUE]
    run_times[q, size_of(shapes[s, SHAPE.TOTAL_MILLI]), step_of(ran)] += by
    guess = jobs[j, JOB.ESTIMATE_MS]
    if guess > 0:
        ratios[q, step_of(max(1, min(ran, LONGEST_MS) * ONE_PPM // guess))] += by
    queues[q, QUEUE.ENDED] += by


@kernel
def ended(w, j, state, now):
    """A job that holds nothing and waits no more has ended."""
    w.jobs[j, JOB.STATE] = state
    w.jobs[j, JOB.SINCE_MS] = now
    w.at[AT.LEFT] += int(j >= w.at[AT.RECENT] and w.jobs[j, JOB.ATTEMPT] > 0)
    note_end(w.jobs, w.shapes, w.queues, w.run_times, w.ratios, j, 1)


@kernel
def is_back(w, j):
    """A job that was cancelled is in no line, and waits: one that never worked since it was
    submitted, any other since it was cancelled.
    """
    note_end(w.jobs, w.shapes, w.queues, w.run_times, w.ratios, j, -1)
    if w.jobs[j, JOB.RAN_MS] == 0:
        w.jobs[j, JOB.SINCE_MS] = w.jobs[j, JOB.SUBMIT_MS]
    w.at[AT.LEFT] -= int(j >= w.at[AT.RECENT] and w.jobs[j, JOB.ATTEMPT] > 0)


@kernel
def finished(w, j, now):
    """A running job is done, and all of it was worth it."""
    w.jobs[j, JOB.RAN_MS] += now - w.jobs[j, JOB.ORIGIN_MS]
    vacated(w, j, now)
    ended(w, j, DONE, now)


@kernel
def work_of(ran_ms, slow_ppm, speed_ppm):
    """How much work, at full speed, a run did that was slowed where it sat, or was smaller."""
    return ran_ms * ONE_PPM // (ONE_PPM + slow_ppm) * speed_ppm // ONE_PPM


@kernel
def saved(jobs, j, now, keeps_all):
    """Count the work of this attempt that lasts: what was saved, or all of it."""
    ran = now - jobs[j, JOB.ORIGIN_MS]
    interval, cost = jobs[j, JOB.INTERVAL_MS], jobs[j, JOB.COST_MS]
    lasting = saved_ms(ran, interval, cost)
    if keeps_all != 0:
        lasting += unsaved_ms(ran, interval, cost)
    slow, speed = jobs[j, JOB.SLOW_PPM], jobs[j, JOB.SPEED_PPM]
    reached = jobs[j, JOB.SAVED_MS] + work_of(ran, slow, speed)
    jobs[j, JOB.REACHED_MS] = max(jobs[j, JOB.REACHED_MS], reached)
    jobs[j, JOB.SAVED_MS] += work_of(lasting, slow, speed)
    jobs[j, JOB.RAN_MS] += ran


@kernel
def secured(jobs, j, covers, now, is_back, is_again):
    """What an attempt did up to a moment is safe; from now on only such news say what is.

    ``is_back``: the rest of it is lost; ``is_again``: it works again after that, and where this
    covers nothing, nobody says from now on what is safe. That a loop goes back, or works again,
    says nothing of what will be safe.
    """
    if covers > jobs[j, JOB.ORIGIN_MS]:
        saved(jobs, j, covers, 1)
        jobs[j, JOB.ORIGIN_MS] = min(covers, now)
    if is_back == 0 and is_again == 0:
        jobs[j, JOB.INTERVAL_MS] = 0
        jobs[j, JOB.COST_MS] = 0
        jobs[j, JOB.STALLS] |= SAVES
    elif is_again != 0 and covers == 0 and jobs[j, JOB.STALLS] & SAVES != 0:
        jobs[j, JOB.INTERVAL_MS] = CONTINUOUS
        jobs[j, JOB.STALLS] ^= SAVES
    is_off = jobs[j, JOB.STALLS] & BACK != 0
    if (is_back != 0 and not is_off) or (is_again != 0 and is_off):
        saved(jobs, j, now, 0)
        jobs[j, JOB.ORIGIN_MS] = now
        jobs[j, JOB.STALLS] ^= BACK


@kernel
def stalled(jobs, j, checkpoint, host, links):
    """How the time of an attempt divides from now on; -1: not told apart, or nobody measures."""
    shares = 0
    if checkpoint >= 0 or host >= 0 or links >= 0:
        shares = stalls_of(max(0, checkpoint), max(0, host), max(0, links))
    jobs[j, JOB.STALLS] = shares + (jobs[j, JOB.STALLS] & (SAVES | BACK))


@kernel
def efficient(jobs, j, mfu, confidence, memory):
    """How well an attempt uses its devices from now on."""
    jobs[j, JOB.EFFICIENCY] = 0
    if confidence != UNKNOWN:
        jobs[j, JOB.EFFICIENCY] = efficiency_of(mfu, confidence, memory)


@kernel
def straggling(jobs, j, share, confidence, silent):
    """What part of an attempt's waits for other ranks is for slow ones, from now on; and which of
    its devices are of ranks that tell nothing.
    """
    jobs[j, JOB.STRAGGLER] = 0
    if confidence != UNKNOWN or silent != 0:
        jobs[j, JOB.STRAGGLER] = straggler_of(share, confidence, silent)


@kernel
def figured(jobs, j, figure, value):
    """What devices measured of an attempt, from now on."""
    jobs[j, JOB.FIGURES] = with_figure(jobs[j, JOB.FIGURES], figure, value)


@kernel
def count_eviction(jobs, j, saved_before):
    """A job was stopped for another: once more in vain, unless more of it lasts than before."""
    jobs[j, JOB.EVICTIONS] += 1
    jobs[j, JOB.FRUITLESS] += 1
    if jobs[j, JOB.SAVED_MS] > saved_before:
        jobs[j, JOB.FRUITLESS] = 1


@kernel
def line_up_again(w, j):
    """A job that was in no line waits, perhaps before others: what is known of the line is old."""
    w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.RETURNS] += 1
    line_up(w.at, w.jobs, w.shapes, w.queued, j)


@kernel
def wait_again(w, j, now):
    """A job that held devices gave them back; it waits again."""
    vacated(w, j, now)
    w.jobs[j, JOB.STATE] = WAITING
    w.jobs[j, JOB.SINCE_MS] = now
    line_up_again(w, j)


@kernel
def evicted(w, j, now):
    """An attempt that was asked to leave has left; one that left for another is counted."""
    jobs, saved_before = w.jobs, w.jobs[j, JOB.SAVED_MS]
    is_for_another = jobs[j, JOB.LEAVING_FOR] >= 0
    if jobs[j, JOB.STATE] == RUNNING:
        saved(jobs, j, now, 0)
    wait_again(w, j, now)
    if is_for_another:
        count_eviction(jobs, j, saved_before)


@kernel
def lose(w, j, count, now):
    """A job gives back the parts of its pieces that were found, and holds the rest."""
    at, jobs, pieces, found = w.at, w.jobs, w.pieces, w.found
    s = jobs[j, JOB.SHAPE]
    settle(at, w.queues, w.quotas, w.shapes[s, SHAPE.QUEUE], now)
    if w.shapes[s, SHAPE.IS_LASTING] != 0:
        at[AT.LASTING_CHANGES] += 1
    for i in range(count):
        last, p = NONE, jobs[j, JOB.FIRST_PIECE]
        while not is_part(pieces, found, i, p):
            last, p = p, pieces[p, PIECE.NEXT_OF_JOB]
        part = p
        if found[i, PIECE.REPLICAS] == pieces[p, PIECE.REPLICAS]:
            hang_after(pieces, jobs, j, last, pieces[p, PIECE.NEXT_OF_JOB])
        else:
            part = cut(at, pieces, w.nodes, found, i, p)
        use_piece(w, j, part, -1)
        vacate(w, part, now)
    gave_back(w.queues, w.shapes[s, SHAPE.QUEUE])


@kernel
def arrive(jobs, pieces, j):
    """A job sits where it was to move to."""
    p = jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        pieces[p, PIECE.IS_COMING] = 0
        p = pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def come_up_again(w, j, now):
    """A job that has moved, or has another size, comes up as its next attempt."""
    jobs = w.jobs
    jobs[j, JOB.STATE] = STARTING
    jobs[j, JOB.ATTEMPT] += 1
    jobs[j, JOB.SINCE_MS] = now
    jobs[j, JOB.PLACED_MS] = now
    jobs[j, JOB.SLOW_PPM] = 0
    jobs[j, JOB.IS_PACED] = 0
    jobs[j, JOB.SAID] = 0
    stay(w.at, jobs, w.shapes, j)
    be_busy(w.at, jobs, j, ONE_PPM, now)
    if w.at[AT.TIERS] > 0:
        jobs[j, JOB.HOP] = hop_of(w, j)
