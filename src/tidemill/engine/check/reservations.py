"""The plan checker on reservations: does whoever passes delay the first that waits?

By the columns, and by the estimates known: the first in the order that does not fit on a type would
fit at some moment if nobody passed it. At that moment, whoever passed it in this plan and is taken
to run on must leave it its room. That is the whole promise of ``easy``, and the first part of the
one of ``conservative``. Said for gangs whose replicas are all alike (of several roles: where only
one type will do, since each role may be on another), under orders that do not read run times, where
neither floors nor shares decide who is first; of anything else nothing is said.
"""

from tidemill.compiled import shared
from tidemill.engine.check.columns import END, GANG, OF, RULE, SUM, UPKEEP
from tidemill.engine.check.endings import expect, first_of, is_true
from tidemill.engine.check.expecting import end_if_placed
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.telling import PLACE, tell
from tidemill.engine.check.yards import clear_up, fits, give_back, lay_out, place
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT, JOB, QUOTA, SHAPE
from tidemill.model.measures import FOREVER_MS

IS_DELAYED = int(RULE.DELAYED)
PLACED = 1  # in ``named``; with what ``endings`` writes there
READ_AT_ONCE = 2048
"""Nodes and running jobs; to read so many takes about as long as to read a plan ten times."""


@kernel
def fits_at(w, reg, y, r, until):
    """When enough has ended for a role, and what has is given back; -1: not before a moment."""
    ends, kept, is_kept = y.ends, y.kept, y.kept[UPKEEP.IS_STEADY] != 0
    i, new = kept[UPKEEP.FIRST], kept[UPKEEP.END]
    at = first_of(kept, ends, i, new)
    while at >= 0 and ends[at, END.AT_MS] < until:
        moment = ends[at, END.AT_MS]
        while at >= 0 and ends[at, END.AT_MS] == moment:
            j = ends[at, END.JOB]
            if not is_kept or is_true(w, reg, j, moment):
                give_back(w, y, r, j)
            if at < kept[UPKEEP.END]:
                i += 1
            else:
                new += 1
            at = first_of(kept, ends, i, new)
        if fits(y.hosts, kept[UPKEEP.WANTED]):
            return moment
    return -1


# Who is passed --------------------------------------------------------------------------------


@kernel
def goes_before(jobs, shapes, reg, j, other):
    """Whether a waiting job is looked at before another."""
    if reg[SUM.BY_PRIORITY] != 0:
        mine = shapes[jobs[j, JOB.SHAPE], SHAPE.PRIORITY]
        theirs = shapes[jobs[other, JOB.SHAPE], SHAPE.PRIORITY]
        if mine != theirs:
            return mine > theirs
    return j < other


@kernel
def wants_some(shapes, of_role, wants, claimed, s, is_claimed):
    """Whether a shape may use a type that somebody has claimed, or that nobody has."""
    first = shapes[s, SHAPE.FIRST_ROLE]
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        for k in range(len(claimed)):
            if wants[of_role[r, OF.RULE], k] and claimed[k] == is_claimed:
                return True
    return False


@kernel
def claim(shapes, of_role, wants, claimed, s):
    """Who comes after this shape is not the first on any type that it may use."""
    first = shapes[s, SHAPE.FIRST_ROLE]
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        for k in range(len(claimed)):
            if wants[of_role[r, OF.RULE], k]:
                claimed[k] = 1


@kernel
def share_types(shapes, of_role, wants, r, s):
    """Whether a role and a shape may use the same GPU type."""
    first, mine = shapes[s, SHAPE.FIRST_ROLE], of_role[r, OF.RULE]
    for other in range(first, first + shapes[s, SHAPE.ROLES]):
        for k in range(wants.shape[1]):
            if wants[mine, k] and wants[of_role[other, OF.RULE], k]:
                return True
    return False


@kernel
def next_passed(w, c, f, claimed, last):
    """The first in the order that waits and is passed, of those with a type nobody claimed."""
    found = -1
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        j = w.shapes[s, SHAPE.HEAD]
        while j >= 0 and c.named[j] == PLACED:
            j = w.jobs[j, JOB.NEXT]
        if j < 0 or not goes_before(w.jobs, w.shapes, c.reg, j, last):
            continue
        if not wants_some(w.shapes, c.of_role, f.wants, claimed, s, 0):
            continue
        if found < 0 or goes_before(w.jobs, w.shapes, c.reg, j, found):
            found = j
    return found


@kernel
def may_be_limited(jobs, shapes, quotas, events, rows, s):
    """Whether its team's limit may keep a gang off a type that it may use: then nothing is said."""
    q, more = shapes[s, SHAPE.QUEUE], shapes[s, SHAPE.TOTAL_MILLI]
    for e in range(rows):
        if events[e, EventColumn.KIND] == PLACE:
            other = jobs[events[e, EventColumn.WHO], JOB.SHAPE]
            if shapes[other, SHAPE.QUEUE] == q:
                more += shapes[other, SHAPE.TOTAL_MILLI]
    for k in range(quotas.shape[1]):
        if quotas[q, k, QUOTA.USED] + more > quotas[q, k, QUOTA.LIMIT]:
            return True
    return False


@kernel
def is_overdue(jobs, reg, j):
    """Whether a job was first passed so long ago that nobody may pass it any more."""
    return 0 <= jobs[j, JOB.PASSED_MS] <= reg[SUM.NOW] - reg[SUM.HOLD_AFTER_MS]


@kernel
def place_earlier(w, c, p, y, j, r):
    """Take what those get who come before a job."""
    for e in range(c.reg[SUM.ROWS]):
        is_placed, who = p.events[e, EventColumn.KIND] == PLACE, p.events[e, EventColumn.WHO]
        if is_placed and goes_before(w.jobs, w.shapes, c.reg, who, j):
            place(w, p, y, r, e)


@kernel
def is_passer(w, c, p, e, j):
    """Whether this row of the plan places somebody who comes after a job."""
    if p.events[e, EventColumn.KIND] != PLACE:
        return False
    return not goes_before(w.jobs, w.shapes, c.reg, p.events[e, EventColumn.WHO], j)


@kernel
def last_end(w, c, f, p, j, r):
    """When the last of those ends who pass a job; FOREVER_MS: one passes it who may not at all."""
    found, is_late = -1, is_overdue(w.jobs, c.reg, j)
    for e in range(c.reg[SUM.ROWS]):
        who = p.events[e, EventColumn.WHO]
        if not is_passer(w, c, p, e, j):
            continue
        if not is_late:
            end = end_if_placed(w.jobs, w.shapes, w.run_times, w.ratios, c.reg, who)
            found = max(found, end)
        elif share_types(w.shapes, c.of_role, f.wants, r, w.jobs[who, JOB.SHAPE]):
            return FOREVER_MS
    return found


@kernel
def place_passers(w, c, p, y, j, r, moment):
    """Take what those get who pass a job and end after a moment."""
    for e in range(c.reg[SUM.ROWS]):
        who = p.events[e, EventColumn.WHO]
        if is_passer(w, c, p, e, j) and (
            end_if_placed(w.jobs, w.shapes, w.run_times, w.ratios, c.reg, who) > moment
        ):
            place(w, p, y, r, e)


@kernel
def are_in_the_way(w, c, f, p, y, j, r):
    """Whether a job would fit at some moment but for those who pass it.

    Only ends before the last of theirs are looked at: whoever ends before a job fits delays it not.
    """
    wanted = y.kept[UPKEEP.WANTED]
    place_earlier(w, c, p, y, j, r)
    if fits(y.hosts, wanted):
        return False
    until = last_end(w, c, f, p, j, r)
    expect(w, c.reg, c.named, y.kept, y.ends, until)
    moment = fits_at(w, c.reg, y, r, until)
    if moment < 0:
        return False
    if is_overdue(w.jobs, c.reg, j):
        return True
    place_passers(w, c, p, y, j, r, moment)
    return not fits(y.hosts, wanted)


@kernel
def is_delayed(w, c, f, p, y, j):
    """Whether a job would fit at some moment but for those who pass it in this plan."""
    s = w.jobs[j, JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE]
    wanted, types = f.of_shape[s, GANG.REPLICAS], 0
    for k in range(f.wants.shape[1]):
        types += f.wants[c.of_role[r, OF.RULE], k]
    if wanted == 0 or (types > 1 and w.shapes[s, SHAPE.ROLES] > 1):
        return False
    if may_be_limited(w.jobs, w.shapes, w.quotas, p.events, c.reg[SUM.ROWS], s):
        return False
    y.kept[UPKEEP.WANTED] = wanted
    lay_out(w, c, f, y, r, c.of_role[r, OF.RULE])
    found = are_in_the_way(w, c, f, p, y, j, r)
    clear_up(w, y, r)
    return found


@kernel
def is_turn(seq, nodes_there, active_there):
    """Whether it is the turn of a plan to be read for whom it delays.

    Every plan's, on a fleet of up to ``READ_AT_ONCE`` nodes and running jobs.
    """
    return seq % (1 + (nodes_there + active_there) // READ_AT_ONCE) == 0


@kernel
def is_judged(at, reg):
    """Whether it can be said whom a plan delays that was read.

    It can if it is plain enough, and room is made for nobody.
    """
    if at[AT.PROMISED] != 0 or at[AT.LEAVING] != 0:
        return False
    if reg[SUM.JUDGES] == 0 or reg[SUM.IS_FLAT] == 0 or reg[SUM.SLICED] != 0:
        return False
    return reg[SUM.PLACES_ONLY] != 0


@kernel
@shared
def read_passing(w, c, f, p, y):
    """Tell who is delayed by those who pass it in this plan, in which only placing goes on.

    Who makes room, or takes nodes away, changes what was counted on.
    """
    last = -1
    for e in range(c.reg[SUM.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            j = p.events[e, EventColumn.WHO]
            c.named[j] += PLACED
            if last < 0 or goes_before(w.jobs, w.shapes, c.reg, last, j):
                last = j
    for k in range(len(y.claimed)):
        y.claimed[k] = 0
    j = next_passed(w, c, f, y.claimed, last) if last >= 0 else -1
    while j >= 0:
        s = w.jobs[j, JOB.SHAPE]
        is_first = not wants_some(w.shapes, c.of_role, f.wants, y.claimed, s, 1)
        if is_first and is_delayed(w, c, f, p, y, j):
            tell(c.reg, c.wrong, IS_DELAYED, 0, j, 0, 0)
        claim(w.shapes, c.of_role, f.wants, y.claimed, s)
        j = next_passed(w, c, f, y.claimed, last)
    for e in range(c.reg[SUM.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            c.named[p.events[e, EventColumn.WHO]] -= PLACED
    return c.reg[SUM.WRONGS]
