"""Lines: who is next of a shape, in orders by shape and in those that read what each job is like.

In an order by shape the oldest is the first. In the others a job has a place of its own: 0 and when
it lost its patience, or 1 and its rank; then the oldest first. A place does not change while a job
waits, but for patience; so the first of a line by rank, and who loses patience first, are known
until the line is another one, or history says otherwise. Orders of plug-ins are asked in Python.
"""

from tidemill.core.estimates import SAID, end_if_placed
from tidemill.core.heads import LAST, is_line, note_line, read_from, weigh
from tidemill.core.order import guarded_from
from tidemill.core.ranks import rank_of
from tidemill.model.columns import JOB, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState
from tidemill.scheduling.desk.columns import ASK, REG
from tidemill.scheduling.desk.kernel import kernel

LINE = ASK.LINE_NEWS  # where the columns of a line begin
PASSERS_AT_MOST = 32  # jobs of one shape that are asked in one cycle whether they are short enough
READ_AT_MOST = 2 * PASSERS_AT_MOST  # of a line, for how soon one of it ends
ADDED_AT_MOST = 8  # to a line since it was read; for more it is read anew
WAITING = int(JobState.WAITING)


@kernel
def is_asked(reg):
    """Whether Python says who is next of a shape."""
    return reg[REG.BY_SHAPE] == 0 and reg[REG.RANKS] == 0


@kernel
def lost_at(jobs, reg, j):
    """When a job loses its patience if it goes on waiting, in an order that reads jobs."""
    return guarded_from(jobs, j, 0, 0, reg[REG.PATIENCE_MS], 0)


@kernel
def read_line(jobs, shapes, steps, learnt, reg, asks, s):
    """Know the first of a line by rank and by patience, and how soon one of it would end."""
    ranks, patience_ms = reg[REG.RANKS], reg[REG.PATIENCE_MS]
    j = read_from(jobs, shapes, learnt, asks, LINE, s)
    if asks[s, ASK.BEST_RANK] == LAST:
        asks[s, ASK.SHORTEST_MS] = FOREVER_MS
    while j >= 0:
        weigh(jobs, shapes, steps, learnt, asks, LINE, ranks, patience_ms, s, j)
        ends_in = end_if_placed(jobs, shapes, learnt, j, 0)
        asks[s, ASK.SHORTEST_MS] = min(asks[s, ASK.SHORTEST_MS], ends_in)
        j = jobs[j, JOB.NEXT]


@kernel
def write_first(w, d, s):
    """Write who is first of a shape's line, and its place in the policy's own order."""
    reg, asks, shapes, head = d.reg, d.asks, w.shapes, w.shapes[s, SHAPE.HEAD]
    if reg[REG.BY_SHAPE] != 0:
        asks[s, ASK.UPCOMING] = head
        asks[s, ASK.FIRST] = 1
        asks[s, ASK.SECOND] = -shapes[s, SHAPE.PRIORITY] if reg[REG.BY_PRIORITY] != 0 else 0
        if reg[REG.BACKFILL] == 0:
            asks[s, ASK.PATIENCE_MS] = w.jobs[head, JOB.SINCE_MS] + reg[REG.PATIENCE_MS]
    elif reg[REG.RANKS] != 0:
        read_line(w.jobs, shapes, d.steps, d.learnt, reg, asks, s)
        is_lost = asks[s, ASK.PATIENCE_MS] <= reg[REG.NOW]
        asks[s, ASK.UPCOMING] = asks[s, ASK.IMPATIENT] if is_lost else asks[s, ASK.BEST]
        asks[s, ASK.FIRST] = 0 if is_lost else 1
        asks[s, ASK.SECOND] = asks[s, ASK.PATIENCE_MS] if is_lost else asks[s, ASK.BEST_RANK]


@kernel
def goes_after(first, second, j, asks, s):
    """Whether a place is after that of the job of a shape that is looked at."""
    if first != asks[s, ASK.FIRST]:
        return first > asks[s, ASK.FIRST]
    if second != asks[s, ASK.SECOND]:
        return second > asks[s, ASK.SECOND]
    return j > asks[s, ASK.UPCOMING]


@kernel
def next_place(jobs, shapes, steps, learnt, reg, asks, s):
    """Who comes after the job of a shape that is looked at, in an order that reads jobs; or -1."""
    found, best_first, best_second, j = -1, 2, 0, shapes[s, SHAPE.HEAD]
    while j >= 0:
        first, second = 0, lost_at(jobs, reg, j)
        if second > reg[REG.NOW]:
            first, second = 1, rank_of(jobs, shapes, learnt, steps, reg[REG.RANKS], j, 0)
        is_sooner = first < best_first or (first == best_first and second < best_second)
        if is_sooner and goes_after(first, second, j, asks, s):
            found, best_first, best_second = j, first, second
        j = jobs[j, JOB.NEXT]
    if found >= 0:
        asks[s, ASK.FIRST] = best_first
        asks[s, ASK.SECOND] = best_second
    return found


@kernel
def take_next(w, d, s):
    """Go on to the next of a shape's line; whether there is one."""
    asks = d.asks
    asks[s, ASK.TAKEN] += 1
    if d.reg[REG.BY_SHAPE] != 0:
        j = w.jobs[asks[s, ASK.UPCOMING], JOB.NEXT]
    else:
        j = next_place(w.jobs, w.shapes, d.steps, d.learnt, d.reg, asks, s)
    if j >= 0:
        asks[s, ASK.UPCOMING] = j
    return j >= 0


@kernel
def read_on(jobs, shapes, learnt, asks, s):
    """Read a line of an order by shape from where it was read to, if it is not read far enough."""
    last = asks[s, ASK.LINE_LAST]
    j = shapes[s, SHAPE.HEAD] if last < 0 else jobs[last, JOB.NEXT]
    while j >= 0 and asks[s, ASK.LINE_READ] < READ_AT_MOST:
        ends_in = end_if_placed(jobs, shapes, learnt, j, 0)
        if ends_in < asks[s, ASK.SHORTEST_MS]:
            asks[s, ASK.SHORTEST_MS] = ends_in
            asks[s, ASK.SHORTEST] = j
        asks[s, ASK.LINE_LAST] = j
        asks[s, ASK.LINE_READ] += 1
        j = jobs[j, JOB.NEXT]
    note_line(shapes, learnt, asks, LINE, s)


@kernel
def read_anew(jobs, shapes, learnt, asks, s):
    """Read the first of a line."""
    asks[s, ASK.LINE_LAST] = -1
    asks[s, ASK.LINE_READ] = 0
    asks[s, ASK.SHORTEST_MS] = FOREVER_MS
    asks[s, ASK.SHORTEST] = shapes[s, SHAPE.HEAD]
    read_on(jobs, shapes, learnt, asks, s)


@kernel
def is_followed(jobs, shapes, learnt, asks, s):
    """Whether it is known who came to a line since it was read, and so how many left it.

    Those are taken out of the number that was read, wherever they stood.
    """
    is_as_said = asks[s, ASK.LINE_NEWS] == learnt[0, SAID.NEWS] and asks[s, ASK.LINE_LENGTH] > 0
    if not is_as_said or asks[s, ASK.LINE_RETURNS] != shapes[s, SHAPE.RETURNS]:
        return False
    added, j = 0, shapes[s, SHAPE.TAIL]
    while j >= 0 and j != asks[s, ASK.LINE_TAIL] and added < ADDED_AT_MOST:
        j = jobs[j, JOB.PREVIOUS]
        added += 1
    if j < 0 or j != asks[s, ASK.LINE_TAIL] or jobs[asks[s, ASK.LINE_LAST], JOB.STATE] != WAITING:
        return False
    asks[s, ASK.LINE_READ] -= asks[s, ASK.LINE_LENGTH] + added - shapes[s, SHAPE.WAITING]
    return True


@kernel
def may_end_by(jobs, shapes, learnt, reg, asks, s, moment):
    """Whether some of a shape's line may end by a moment, were they placed now; if not, none does.

    In an order by shape, of the first of it: they are more than may be asked in one cycle. Who of
    them ends soonest is known while others come and go; when that one left, the line is read again
    only if it matters. A line for which room is being made is always read.
    """
    if reg[REG.BY_SHAPE] == 0:
        return asks[s, ASK.SHORTEST_MS] <= moment - reg[REG.NOW]
    if not is_line(shapes, learnt, asks, LINE, s):
        if shapes[s, SHAPE.PROMISED] == 0 and is_followed(jobs, shapes, learnt, asks, s):
            read_on(jobs, shapes, learnt, asks, s)
        else:
            read_anew(jobs, shapes, learnt, asks, s)
    if asks[s, ASK.SHORTEST_MS] > moment - reg[REG.NOW]:
        return False
    if jobs[asks[s, ASK.SHORTEST], JOB.STATE] != WAITING:
        read_anew(jobs, shapes, learnt, asks, s)
    return asks[s, ASK.SHORTEST_MS] <= moment - reg[REG.NOW]


@kernel
def step_on(w, d, s):
    """Go on to the next job of a shape that may have a chance; whether there is one."""
    reg, asks, now, latest = d.reg, d.asks, d.reg[REG.NOW], d.asks[s, ASK.REFUSED_MS]
    is_bound = latest < FOREVER_MS and asks[s, ASK.TAKEN] < PASSERS_AT_MOST
    if is_bound and not may_end_by(w.jobs, w.shapes, d.learnt, reg, asks, s, latest):
        return False
    while take_next(w, d, s):
        end = end_if_placed(w.jobs, w.shapes, d.learnt, asks[s, ASK.UPCOMING], now)
        if end <= asks[s, ASK.REFUSED_MS]:
            return True
        asks[s, ASK.TRIED] += 1
        if asks[s, ASK.TRIED] >= PASSERS_AT_MOST:
            return False
    return False
