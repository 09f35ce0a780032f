"""Sizes of elastic jobs: who could give up replicas for another, and who may have more.

As ``resize`` says; Python makes what is asked for. Here it is found out whether it is to be asked.
"""

from tidemill.core.replay import EVICT, PLACED, SAID_WHY
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.states import JobState
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.fitting.books import count_used
from tidemill.scheduling.fitting.columns import PART, SPOT

RUNNING = int(JobState.RUNNING)
MOVE = codes.KIND_CODE[ev.AskedMove]
NOBODYS = tuple(
    sorted(
        int(cause)
        for cause in NEVER | {Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY}
    )
)
"""Causes of jobs that room on the nodes there are does not help; as ``resize.NOBODYS``."""
DEVICES = 64
UNTOLD = -1


# Shrinking ------------------------------------------------------------------------------------


@kernel
def elastic_role(shapes, roles, other):
    """The role of an elastic shape whose replicas may be more or fewer."""
    r = shapes[other, SHAPE.FIRST_ROLE]
    while roles[r, ROLE.LEAST] == 0:
        r += 1
    return r


@kernel
def surplus(w, j, other):
    """How many replicas a job of an elastic shape has above its least."""
    r = elastic_role(w.shapes, w.roles, other)
    p, found = w.jobs[j, JOB.FIRST_PIECE], -w.roles[r, ROLE.LEAST]
    while p >= 0:
        if w.shapes[other, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE] == r:
            found += w.pieces[p, PIECE.REPLICAS]
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return found


@kernel
def may_ask(shapes, s, other):
    """Whether jobs of an elastic shape may be asked to shrink for another shape.

    Within a team, whoever is no more important; of others the search itself knows.
    """
    if shapes[other, SHAPE.IS_ELASTIC] == 0 or shapes[other, SHAPE.ACTIVE] == 0:
        return False
    is_own = shapes[other, SHAPE.QUEUE] == shapes[s, SHAPE.QUEUE]
    return not is_own or shapes[other, SHAPE.PRIORITY] <= shapes[s, SHAPE.PRIORITY]


@kernel
def count_cuts(w, d, s):
    """How many jobs could give up replicas for a shape, in ``REG.CUTS`` too."""
    reg, jobs = d.reg, w.jobs
    reg[REG.CUTS] = 0
    reg[REG.HAS_LATER_CUTS] = 0
    for other in range(reg[REG.SHAPES]):
        j = w.shapes[other, SHAPE.FIRST_ACTIVE] if may_ask(w.shapes, s, other) else -1
        while j >= 0:
            if jobs[j, JOB.IS_LEAVING] == 0:
                if jobs[j, JOB.STATE] != RUNNING:
                    reg[REG.HAS_LATER_CUTS] = 1
                elif surplus(w, j, other) > 0:
                    reg[REG.CUTS] += 1
            j = jobs[j, JOB.NEXT]
    return reg[REG.CUTS]


@kernel
def lift_cut(w, d, g, p, q, r, replicas, sign):
    """Take some replicas of a piece out of the room and off the books (1), or put them back (-1).

    Unnoticed by tournaments: whoever lifts puts back.
    """
    n, left = w.pieces[p, PIECE.NODE], replicas * w.roles[r, ROLE.ACCELERATORS]
    mask, first = w.pieces[p, PIECE.DEVICES], w.nodes[n, NODE.FIRST_DEVICE]
    milli = left * w.roles[r, ROLE.MILLI]
    for i in range(DEVICES - 1, -1, -1):
        if left > 0 and mask >> i & 1:
            g.parts[first + i, PART.FREE] += sign * w.roles[r, ROLE.MILLI]
            left -= 1
    g.spots[n, SPOT.FREE] += sign * milli
    g.spots[n, SPOT.CPU] += sign * replicas * w.roles[r, ROLE.CPU]
    g.spots[n, SPOT.MEMORY] += sign * replicas * w.roles[r, ROLE.MEMORY]
    k = w.nodes[n, NODE.KIND]
    count_used(w.at, w.queues, w.quotas, d.used, d.below, d.kept, q, k, -sign * milli)


@kernel
def lift_cuts_of(w, d, g, j, other, sign):
    """The same with as many replicas of each piece of a job as it could give up in all; at most
    as much may come free of any node. Whether that is exact.
    """
    most, r, is_exact = surplus(w, j, other), elastic_role(w.shapes, w.roles, other), True
    p = w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.shapes[other, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE] == r and most > 0:
            if w.pieces[p, PIECE.SLICES] != 0:
                is_exact = False
            else:
                replicas = min(most, w.pieces[p, PIECE.REPLICAS])
                lift_cut(w, d, g, p, w.shapes[other, SHAPE.QUEUE], r, replicas, sign)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return is_exact


@kernel
def is_among(candidates, many, j):
    """Whether a job is one of the first so many candidates."""
    for i in range(many):
        if candidates[i] == j:
            return True
    return False


@kernel
def lift_cuts(w, d, g, s, many, sign):
    """The same for all jobs that could give up replicas for a shape (``REG.CUTS``), except those
    of the first so many candidates: these are gone.
    """
    jobs, is_exact = w.jobs, True
    if d.reg[REG.CUTS] == 0:
        return True
    for other in range(d.reg[REG.SHAPES]):
        j = w.shapes[other, SHAPE.FIRST_ACTIVE] if may_ask(w.shapes, s, other) else -1
        while j >= 0:
            may_shrink = jobs[j, JOB.IS_LEAVING] == 0 and jobs[j, JOB.STATE] == RUNNING
            if may_shrink and not is_among(d.candidates, many, j):
                is_exact = lift_cuts_of(w, d, g, j, other, sign) and is_exact
            j = jobs[j, JOB.NEXT]
    return is_exact


# Growing --------------------------------------------------------------------------------------


@kernel
def count_growable(w, d, now, after):
    """How many jobs below their full size have worked for so long; ``REG.GROW_MS``: when the next
    will have. Only those at full size have full speed.
    """
    reg, jobs, ready = d.reg, w.jobs, 0
    reg[REG.GROW_MS] = FOREVER_MS
    for other in range(reg[REG.SHAPES]):
        j = w.shapes[other, SHAPE.FIRST_ACTIVE] if w.shapes[other, SHAPE.IS_ELASTIC] != 0 else -1
        while j >= 0:
            is_at_work = jobs[j, JOB.IS_LEAVING] == 0 and jobs[j, JOB.STATE] == RUNNING
            if is_at_work and jobs[j, JOB.SPEED_PPM] < ONE_PPM:
                due = jobs[j, JOB.ORIGIN_MS] + after
                if due <= now:
                    ready += 1
                else:
                    reg[REG.GROW_MS] = min(reg[REG.GROW_MS], due)
            j = jobs[j, JOB.NEXT]
    return ready


@kernel
def decides_about_room(d):
    """Whether the plan so far places, stops or moves anybody."""
    for e in range(d.reg[REG.EVENTS]):
        if d.events[e, EventColumn.KIND] in (PLACED, EVICT, MOVE):
            return True
    return False


@kernel
def cause_of(w, d, s):
    """Why a shape waits, as the plan so far says, or as is known."""
    found = w.shapes[s, SHAPE.CAUSE]
    for e in range(d.reg[REG.EVENTS]):
        if d.events[e, EventColumn.KIND] == SAID_WHY and d.events[e, EventColumn.WHO] == s:
            found = d.events[e, EventColumn.WHY]
    return found


@kernel
def uncontested(w, d):
    """The types for which nobody waits who could use them, in ``sought``; how many.

    ``UNTOLD``: it is not known of somebody what it could use.
    """
    found, sought, asks = 0, d.sought, d.asks
    for k in range(len(sought)):
        sought[k] = 1
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        if asks[s, ASK.IS_KNOWN] == 0:
            return UNTOLD
        if cause_of(w, d, s) not in NOBODYS:
            for c in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
                sought[d.types[c]] = 0
    for k in range(len(sought)):
        found += sought[k]
    return found
