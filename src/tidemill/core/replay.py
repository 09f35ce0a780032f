"""Many events folded at once: the plain life of jobs, straight from the columns of a batch.

``replay`` goes on as long as events are of that sort and may be; where one is not, it stops before
it, and whoever called folds that one event by itself (``engine.fold``), which refuses it in words
or does what is rare. So both say the same of every event, and only one of them says it at length.
"""

from tidemill.compiled import shared
from tidemill.core.fold import (
    CANCELLED,
    FAILED,
    RUNNING,
    STARTING,
    WAITING,
    be_busy,
    dequeue,
    efficient,
    figured,
    leave_for,
    secured,
    stalled,
    straggling,
    unpromise,
    wait_again,
)
from tidemill.core.fold import ended as end
from tidemill.core.fold import evicted as evict
from tidemill.core.fold import finished as finish
from tidemill.core.fold import placed as place
from tidemill.core.fold import saved as save
from tidemill.core.fold import started as start
from tidemill.core.kernel import kernel
from tidemill.core.lines import line_up
from tidemill.core.places import ASKED, GONE, READY
from tidemill.core.quotas import gave_back
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import (
    AT,
    DEVICE,
    IN_A_LINE,
    JOB,
    KIND,
    NODE,
    NONE,
    PIECE,
    ROLE,
    SHAPE,
)
from tidemill.model.measures import ONE_PPM
from tidemill.model.reasons import Cause
from tidemill.model.tables import NEVER_PASSED

(
    SUBMITTED, PLACED, STARTED, FINISHED, FAILURE, CANCELLATION, BUSY, SAID_WHY, PASSED, WOKE,
    EVICT, EVICTED, RELEASE, SEEN, STALLS, EFFICIENCY, SECURED, STRAGGLER,
    FIGURE, DEVICE_ERROR, LOAD, LATENCY, CANCEL, HOST_USE,
) = (
    codes.KIND_CODE[kind]
    for kind in (
        ev.JobSubmitted, ev.AskedPlace, ev.JobStarted, ev.JobFinished, ev.JobFailed,
        ev.JobCancelled, ev.ActivitySeen, ev.CauseChanged, ev.JobPassed, ev.Woke, ev.AskedEvict,
        ev.JobEvicted, ev.AskedRelease, ev.PlacementSeen, ev.StallsSeen, ev.EfficiencySeen,
        ev.CheckpointSeen, ev.StragglerSeen, ev.FigureSeen, ev.DeviceErrorSeen,
        ev.LoadSeen, ev.LatencySeen, ev.AskedCancel, ev.HostUseSeen,
    )
)  # fmt: skip
CAUSES = len(Cause)
LOST_RACE = codes.WHY_CODE[ev.Why.LOST_RACE]
COUNTS = 5  # jobs that came, rows of jobs that are written, nodes; shapes that came, rows of those


@kernel
def is_named(event_pieces, first, i, n):
    """Whether a node was named by an earlier piece of the same placement."""
    for earlier in range(first, i):
        if event_pieces[earlier, PieceColumn.NODE] == n:
            return True
    return False


@kernel
def takes_work(nodes, n, cpu, memory):
    """Whether a node takes new work, and has so much CPU and memory left."""
    if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
        return False
    return nodes[n, NODE.CPU_FREE_MILLI] >= cpu and nodes[n, NODE.MEMORY_FREE_MIB] >= memory


@kernel
def takes_all(w, event_pieces, first, i, r):
    """Whether the node of a piece has CPU and memory for it, and for those on it before.

    ``r``: the first role of the gang.
    """
    n, cpu, memory = event_pieces[i, PieceColumn.NODE], 0, 0
    for p in range(first, i + 1):
        if event_pieces[p, PieceColumn.NODE] == n:
            role = r + event_pieces[p, PieceColumn.ROLE]
            cpu += event_pieces[p, PieceColumn.REPLICAS] * w.roles[role, ROLE.CPU]
            memory += event_pieces[p, PieceColumn.REPLICAS] * w.roles[role, ROLE.MEMORY]
    return takes_work(w.nodes, n, cpu, memory)


@kernel
def milli_before(w, event_pieces, first, i, r, n, d):
    """What earlier pieces of a gang take of a device; ``r``: its first role."""
    taken = 0
    for p in range(first, i):
        if event_pieces[p, PieceColumn.NODE] == n and event_pieces[p, PieceColumn.DEVICES] >> d & 1:
            taken += w.roles[r + event_pieces[p, PieceColumn.ROLE], ROLE.MILLI]
    return taken


@kernel
def is_free(w, event_pieces, first, i, r):
    """Whether the devices that a piece holds are there, whole and free, as many as it asks for.

    Beside those that the gang, whose first role is ``r``, has taken with earlier pieces.
    """
    nodes, devices, role = w.nodes, w.devices, r + event_pieces[i, PieceColumn.ROLE]
    n, replicas = event_pieces[i, PieceColumn.NODE], event_pieces[i, PieceColumn.REPLICAS]
    mask, milli = event_pieces[i, PieceColumn.DEVICES], w.roles[role, ROLE.MILLI]
    if nodes[n, NODE.STATE] in (ASKED, GONE) or replicas < 1:
        return False
    held, start, again = 0, nodes[n, NODE.FIRST_DEVICE], is_named(event_pieces, first, i, n)
    for d in range(64):
        if mask >> d & 1:
            held += 1
            if d >= nodes[n, NODE.DEVICES] or devices[start + d, DEVICE.IS_FAILED] != 0:
                return False
            taken = milli_before(w, event_pieces, first, i, r, n, d) if again else 0
            if devices[start + d, DEVICE.FREE_MILLI] < taken + milli:
                return False
    return held == replicas * w.roles[role, ROLE.ACCELERATORS]


@kernel
def are_free(w, events, event_pieces, node_count, e, s):
    """Whether all pieces of a placement are on nodes that are there, and free; none is slices.

    What was seen may be on nodes that take no work.
    """
    is_seen, r = events[e, EventColumn.KIND] == SEEN, w.shapes[s, SHAPE.FIRST_ROLE]
    first = events[e, EventColumn.FIRST]
    for i in range(first, first + events[e, EventColumn.COUNT]):
        n, role = event_pieces[i, PieceColumn.NODE], event_pieces[i, PieceColumn.ROLE]
        if n < 0 or n >= node_count or role < 0 or role >= w.shapes[s, SHAPE.ROLES]:
            return False
        if event_pieces[i, PieceColumn.SLICES] != 0 or w.roles[r + role, ROLE.IS_SLICED] != 0:
            return False
        if not is_free(w, event_pieces, first, i, r):
            return False
        if not is_seen and not takes_all(w, event_pieces, first, i, r):
            return False
    return True


@kernel
def replicas_of(events, event_pieces, e, role):
    """How many replicas of a role a placement has."""
    found, first = 0, events[e, EventColumn.FIRST]
    for i in range(first, first + events[e, EventColumn.COUNT]):
        if event_pieces[i, PieceColumn.ROLE] == role:
            found += event_pieces[i, PieceColumn.REPLICAS]
    return found


@kernel
def speed_if_whole(w, events, event_pieces, node_count, e):
    """The speed of a gang that is placed whole, on nodes where that is free; 0: it is not.

    Less than full where it is elastic and smaller. What is more than that (slices, a speed-up of
    its own) is not wrong, but looked at one event at a time.
    """
    s, speed = w.jobs[events[e, EventColumn.WHO], JOB.SHAPE], ONE_PPM
    is_elastic, r = w.shapes[s, SHAPE.IS_ELASTIC], w.shapes[s, SHAPE.FIRST_ROLE]
    if is_elastic not in (0, IN_A_LINE) or (is_elastic and events[e, EventColumn.KIND] == SEEN):
        return 0
    if not are_free(w, events, event_pieces, node_count, e, s):
        return 0
    for role in range(w.shapes[s, SHAPE.ROLES]):
        replicas, most = replicas_of(events, event_pieces, e, role), w.roles[r + role, ROLE.COUNT]
        if replicas > most or replicas < (w.roles[r + role, ROLE.LEAST] or most):
            return 0
        if replicas < most:
            speed = ONE_PPM * replicas // most
    return speed


@kernel
def find(found, event_pieces, first, count):
    """Hand the pieces of an event to the fold."""
    for i in range(count):
        found[i, PIECE.ROLE] = event_pieces[first + i, PieceColumn.ROLE]
        found[i, PIECE.NODE] = event_pieces[first + i, PieceColumn.NODE]
        found[i, PIECE.REPLICAS] = event_pieces[first + i, PieceColumn.REPLICAS]
        found[i, PIECE.DEVICES] = event_pieces[first + i, PieceColumn.DEVICES]
        found[i, PIECE.SLICES] = event_pieces[first + i, PieceColumn.SLICES]


@kernel
def is_plain(jobs, j, attempt):
    """Whether an active attempt is the one that is meant, and nothing rare is kept of it."""
    return (
        jobs[j, JOB.STATE] in (STARTING, RUNNING)
        and jobs[j, JOB.ATTEMPT] == attempt
        and jobs[j, JOB.IS_MOVING] == 0
        and jobs[j, JOB.IS_PACED] == 0
    )


@kernel
def stop(w, j, state, now):
    """A running attempt is over; the job waits again, or has ended in this state."""
    save(w.jobs, j, now, 0)
    wait_again(w, j, now)
    if state != WAITING:
        dequeue(w, j)
        end(w, j, state, now)


@kernel
def take_submission(w, counts, now):
    """A job whose row is written waits; False: its row is not, or its shape is new and has none."""
    jobs, j = w.jobs, counts[0, 0]
    if j >= counts[0, 1]:
        return False
    s = jobs[j, JOB.SHAPE]
    if s > counts[0, 3] or s >= counts[0, 4]:
        return False
    counts[0, 3] = max(counts[0, 3], s + 1)
    jobs[j, JOB.SUBMIT_MS] = now
    jobs[j, JOB.SINCE_MS] = now
    line_up(w.at, jobs, w.shapes, w.queued, j)
    counts[0, 0] += 1
    return True


@kernel
def take_placement(w, events, event_pieces, counts, e, now):
    """A waiting job takes its pieces, if they are what it asked for and free."""
    jobs, j, count = w.jobs, events[e, EventColumn.WHO], events[e, EventColumn.COUNT]
    if w.at[AT.PIECES] + count > len(w.pieces) or count > len(w.found):
        return False
    if jobs[j, JOB.STATE] != WAITING or jobs[j, JOB.ATTEMPT] + 1 != events[e, EventColumn.ATTEMPT]:
        return False
    speed = speed_if_whole(w, events, event_pieces, counts[0, 2], e)
    if speed == 0:
        return False
    find(w.found, event_pieces, events[e, EventColumn.FIRST], count)
    place(w, j, count, now)
    jobs[j, JOB.SPEED_PPM] = speed
    if events[e, EventColumn.KIND] == SEEN:
        w.at[AT.SEEN] += 1
        jobs[j, JOB.OVER_MILLI] = events[e, EventColumn.VALUE]
    return True


@kernel
def take_measure(jobs, events, e, now):
    """What somebody measured of a running attempt, or that its work is safe up to a moment."""
    kind, j, value = (
        events[e, EventColumn.KIND],
        events[e, EventColumn.WHO],
        events[e, EventColumn.VALUE],
    )
    if not is_plain(jobs, j, events[e, EventColumn.ATTEMPT]) or jobs[j, JOB.STATE] != RUNNING:
        return False
    if kind == STALLS:
        stalled(jobs, j, events[e, EventColumn.WHY], events[e, EventColumn.TO], value)
    elif kind == EFFICIENCY:
        efficient(jobs, j, value, events[e, EventColumn.WHY], events[e, EventColumn.TO])
    elif kind == STRAGGLER:
        straggling(jobs, j, value, events[e, EventColumn.WHY], events[e, EventColumn.TO])
    elif kind == FIGURE:
        figured(jobs, j, events[e, EventColumn.WHY], value)
    elif kind in (LOAD, LATENCY, HOST_USE):
        return True  # no state follows from it
    elif value <= now:
        secured(jobs, j, value, now, events[e, EventColumn.WHY], events[e, EventColumn.TO])
    else:
        return False
    return True


@kernel
def take_news(w, events, e, now):
    """What an attempt that was placed does: it comes up, is busier or less, is done, or dies.

    Waiting jobs are cancelled here, too. One that moves, or is paced by neighbours, is for Python.
    """
    jobs, kind, j = w.jobs, events[e, EventColumn.KIND], events[e, EventColumn.WHO]
    attempt, value = events[e, EventColumn.ATTEMPT], events[e, EventColumn.VALUE]
    if kind == STARTED:
        if jobs[j, JOB.STATE] != STARTING or jobs[j, JOB.ATTEMPT] != attempt:
            return False
        start(jobs, j, value, now)
        return True
    if kind == CANCELLATION:
        attempt = jobs[j, JOB.ATTEMPT]
        if jobs[j, JOB.STATE] == WAITING:
            dequeue(w, j)
            end(w, j, CANCELLED, now)
            gave_back(w.queues, w.shapes[jobs[j, JOB.SHAPE], SHAPE.QUEUE])
            return True
    if not is_plain(jobs, j, attempt) or jobs[j, JOB.STATE] != RUNNING:
        return False
    if kind == FINISHED:
        finish(w, j, now)
        return True
    if kind == BUSY:
        be_busy(w.at, jobs, j, value, now)
        return True
    if kind == FAILURE and events[e, EventColumn.WHY] == LOST_RACE:
        return False  # it is counted, and rare
    if kind == FAILURE:
        stop(w, j, FAILED if value != 0 else WAITING, now)
        return True
    stop(w, j, CANCELLED, now)
    gave_back(w.queues, w.shapes[jobs[j, JOB.SHAPE], SHAPE.QUEUE])
    return True


@kernel
def take_eviction(w, j, attempt, now):
    """An attempt that was asked to leave has left."""
    if not is_plain(w.jobs, j, attempt) or w.jobs[j, JOB.IS_LEAVING] == 0:
        return False
    evict(w, j, now)
    return True


@kernel
def take_cancel(w, j):
    """A job is asked to stop for good; it holds its devices until it is seen to be gone."""
    jobs = w.jobs
    if jobs[j, JOB.STATE] not in (STARTING, RUNNING) or jobs[j, JOB.IS_LEAVING] != 0:
        return False
    leave_for(w.at, jobs, w.shapes, j, NONE)
    return True


@kernel
def take_wish(w, events, counts, e):
    """An attempt is asked to leave, for somebody who waits or for nobody; or to stop for good."""
    jobs, j, heir = w.jobs, events[e, EventColumn.WHO], events[e, EventColumn.TO]
    if events[e, EventColumn.KIND] == CANCEL:
        return take_cancel(w, j)
    if not is_plain(jobs, j, events[e, EventColumn.ATTEMPT]) or jobs[j, JOB.IS_LEAVING] != 0:
        return False
    if heir != NONE and not (0 <= heir < counts[0, 0] and jobs[heir, JOB.STATE] == WAITING):
        return False
    leave_for(w.at, jobs, w.shapes, j, jobs[heir, JOB.SHAPE] if heir >= 0 else NONE)
    return True


@kernel
def take_release(w, counts, s):
    """Room is made for a shape no more, if it was."""
    if s < 0 or s >= counts[0, 3] or w.shapes[s, SHAPE.PROMISED] == 0:
        return False
    unpromise(w.at, w.shapes, s)
    return True


@kernel
def take_other(w, counts, kind, who):
    """What is of no job: a release, or an error of a node's device, from which nothing follows."""
    if kind == DEVICE_ERROR:
        return 0 <= who < counts[0, 2]
    return take_release(w, counts, who)


@kernel
def take_saying(w, events, counts, e, now):
    """Why a shape waits, or that a job was passed for the first time."""
    jobs, who, cause = w.jobs, events[e, EventColumn.WHO], events[e, EventColumn.WHY]
    if events[e, EventColumn.KIND] == SAID_WHY:
        if who < 0 or who >= counts[0, 3] or cause < 0 or cause >= CAUSES:
            return False
        w.shapes[who, SHAPE.CAUSE] = cause
        return True
    if who < 0 or who >= counts[0, 0] or jobs[who, JOB.STATE] != WAITING:
        return False
    if jobs[who, JOB.PASSED_MS] != NEVER_PASSED:
        return False
    jobs[who, JOB.PASSED_MS] = now
    return True


@kernel
@shared
def fold_one(w, events, event_pieces, counts, e, now):
    """Fold one event, if it is plain and may be; 1 if it was, else 0."""
    kind = events[e, EventColumn.KIND]
    if kind == WOKE:
        return 1
    if kind == SUBMITTED:
        return int(take_submission(w, counts, now))
    if kind in (SAID_WHY, PASSED):
        return int(take_saying(w, events, counts, e, now))
    if kind in (RELEASE, DEVICE_ERROR):
        return int(take_other(w, counts, kind, events[e, EventColumn.WHO]))
    if events[e, EventColumn.WHO] < 0 or events[e, EventColumn.WHO] >= counts[0, 0]:
        return 0
    if kind in (EVICT, CANCEL):
        return int(take_wish(w, events, counts, e))
    if kind in (PLACED, SEEN):
        return int(take_placement(w, events, event_pieces, counts, e, now))
    if kind == EVICTED:
        j, attempt = events[e, EventColumn.WHO], events[e, EventColumn.ATTEMPT]
        return int(take_eviction(w, j, attempt, now))
    if kind in (STALLS, EFFICIENCY, SECURED, STRAGGLER, FIGURE, LOAD, LATENCY, HOST_USE):
        return int(take_measure(w.jobs, events, e, now))
    is_news = kind in (STARTED, FINISHED, FAILURE, CANCELLATION, BUSY)
    return int(is_news and take_news(w, events, e, now))


@kernel
def replay(w, events, event_pieces, counts, e, now):
    """Fold the events from ``e`` on; where it stopped: the first that is not plain, or the end.

    ``counts``: see ``COUNTS``.
    """
    while e < len(events) and events[e, EventColumn.AT] >= now:
        now = events[e, EventColumn.AT]
        if not fold_one(w, events, event_pieces, counts, e, now):
            return e
        e += 1
    return e


@kernel
def uses(kinds):
    """How often anything was taken or given back."""
    found = 0
    for k in range(len(kinds)):
        found += kinds[k, KIND.TAKEN] + kinds[k, KIND.FREED]
    return found


@kernel
def replay_use(w, events, event_pieces, counts, e, now):
    """As ``replay``, but also stop when time goes on after something was taken or given back."""
    before = uses(w.kinds)
    while e < len(events) and events[e, EventColumn.AT] >= now:
        if events[e, EventColumn.AT] > now and uses(w.kinds) != before:
            return e
        now = events[e, EventColumn.AT]
        if not fold_one(w, events, event_pieces, counts, e, now):
            return e
        e += 1
    return e
