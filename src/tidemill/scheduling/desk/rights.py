"""Who may be stopped for a job that waits; and whether a search for victims is surely in vain.

The same rights for the compiled search (``stopping``) and for the one in Python
(``preemption.select``). In vain: all who may be stopped are counted as gone; if even then no GPU
type has enough hosts, or a maximum quota stays in the way, there is nothing to search.
"""

from tidemill.model.columns import JOB, NODE, PIECE, QUEUE, QUOTA, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState
from tidemill.scheduling.backfill.ends import move_piece
from tidemill.scheduling.desk.columns import ASK, MEMBER, OPTION, REG
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.resizing import count_cuts, lift_cuts
from tidemill.scheduling.fitting.books import count_used, is_over_limit
from tidemill.scheduling.fitting.columns import CALL, REQUEST
from tidemill.scheduling.fitting.sweeps import hosted_by

RUNNING = int(JobState.RUNNING)
OWN = 2  # in ``ASK.MAY_EVICT``: of its own team, those of less priority
DOUBLINGS = 4  # of the protection of a job, one for each time it was stopped


@kernel
def height(queues, q):
    """How many queues there are from one to the top, itself counted."""
    found = 0
    while q >= 0:
        found += 1
        q = queues[q, QUEUE.PARENT]
    return found


@kernel
def above(queues, q, up):
    """The queue so many levels above one."""
    for _ in range(up):
        q = queues[q, QUEUE.PARENT]
    return q


@kernel
def shared_levels(queues, q, other):
    """How many queues, from the top, are above both of two; fewer than there are above either."""
    mine, theirs, shared = height(queues, q), height(queues, other), 0
    while shared < min(mine, theirs) - 1 and above(queues, q, mine - 1 - shared) == above(
        queues, other, theirs - 1 - shared
    ):
        shared += 1
    return shared


@kernel
def borrows(queues, quotas, used, q, other, k):
    """Whether a queue uses more of a type than it is sure of, up to where its path parts from q's.

    One that borrows is safe from others while a queue above it, up to there, does not: what it uses
    then is its branch's own.
    """
    for _ in range(height(queues, other) - shared_levels(queues, q, other)):
        if used[other, k] <= quotas[other, k, QUOTA.FLOOR]:
            return False
        other = queues[other, QUEUE.PARENT]
    return True


@kernel
def is_borrowing(queues, quotas, used, q, other, reach):
    """Whether a queue borrows of some type, and is at most ``reach`` levels away from another."""
    if height(queues, q) - shared_levels(queues, q, other) > reach:
        return False
    for k in range(used.shape[1]):
        if borrows(queues, quotas, used, q, other, k):
            return True
    return False


@kernel
def is_owed(queues, quotas, used, sought, q, other, need):
    """Whether so much more stays within the floor of a queue's branch, on a type that is sought.

    Its branch is the highest queue above it that is not above the other one.
    """
    a = above(queues, q, height(queues, q) - 1 - shared_levels(queues, q, other))
    for k in range(len(sought)):
        if sought[k] != 0 and used[a, k] + need <= quotas[a, k, QUOTA.FLOOR]:
            return True
    return False


@kernel
def find_lenders(w, d, s, reach, need):
    """Write down whose jobs a shape may stop to take back what they borrow; how many they are."""
    q, lends, found = w.shapes[s, SHAPE.QUEUE], d.lends, 0
    for other in range(len(lends)):
        lends[other] = 0
        if reach == 0 or other == q or (d.reg[REG.DEPTH] > 1 and d.inner[other] != 0):
            continue
        if is_borrowing(w.queues, w.quotas, d.used, q, other, reach):
            lends[other] = is_owed(w.queues, w.quotas, d.used, d.sought, q, other, need)
            found += lends[other]
    return found


@kernel
def find_rights(shapes, reg, lends, evictable, s):
    """Write down the shapes that have active jobs which one may stop; how many there are."""
    found, q = 0, shapes[s, SHAPE.QUEUE]
    for t in range(reg[REG.SHAPES]):
        if shapes[t, SHAPE.ACTIVE] == 0 or shapes[t, SHAPE.IS_PREEMPTIBLE] == 0:
            continue
        if shapes[t, SHAPE.QUEUE] == q:
            if reg[REG.MAY_PREEMPT] == 0:
                continue
            if shapes[t, SHAPE.PRIORITY] >= shapes[s, SHAPE.PRIORITY]:
                continue
        elif lends[shapes[t, SHAPE.QUEUE]] == 0:
            continue
        evictable[found] = t
        found += 1
    return found


@kernel
def could_free(shapes, evictable, count, at_most, enough):
    """What the largest jobs of these shapes would free, so many of them; no more than enough."""
    total, left, before = 0, at_most, FOREVER_MS
    while left > 0 and total < enough:
        milli = -1
        for i in range(count):
            size = shapes[evictable[i], SHAPE.TOTAL_MILLI]
            if milli < size < before:
                milli = size
        if milli < 0:
            break
        for i in range(count):
            if shapes[evictable[i], SHAPE.TOTAL_MILLI] == milli:
                taken = min(left, shapes[evictable[i], SHAPE.ACTIVE])
                total += taken * milli
                left -= taken
        before = milli
    return total


@kernel
def until_ms(jobs, j, min_run_ms, evictions_at_most, is_reclaimed):
    """Until when an active job is protected; FOREVER_MS: no passing of time alone will end it.

    That goes for one that has not come up yet, and for one that was stopped too often, which only a
    guaranteed quota may still take back.
    """
    if is_reclaimed == 0 and jobs[j, JOB.FRUITLESS] >= evictions_at_most:
        return FOREVER_MS
    run_ms = min_run_ms << min(DOUBLINGS, jobs[j, JOB.EVICTIONS])
    if run_ms == 0:
        return 0
    return jobs[j, JOB.SINCE_MS] + run_ms if jobs[j, JOB.STATE] == RUNNING else FOREVER_MS


@kernel
def is_going(reg, going, j):
    """Whether a job is asked to go already."""
    for i in range(reg[REG.GOING]):
        if going[i] == j:
            return True
    return False


@kernel
def is_sought(nodes, pieces, sought, p):
    """Whether a job sits on a GPU type that is looked for; its first piece is given."""
    while p >= 0:
        if pieces[p, PIECE.IS_COMING] == 0 and sought[nodes[pieces[p, PIECE.NODE], NODE.KIND]]:
            return True
        p = pieces[p, PIECE.NEXT_OF_JOB]
    return False


@kernel
def find_candidates(w, d, s, rights):
    """Write down the jobs of these shapes that may be stopped now; how many there are.

    When another may be goes into ``REG.AGAIN_MS``; whether that is sure, into ``REG.IS_FINAL``.
    """
    reg, jobs, found = d.reg, w.jobs, 0
    for i in range(rights):
        t = d.evictable[i]
        is_reclaimed = int(w.shapes[t, SHAPE.QUEUE] != w.shapes[s, SHAPE.QUEUE])
        j = w.shapes[t, SHAPE.FIRST_ACTIVE]
        while j >= 0:
            here, j = j, jobs[j, JOB.NEXT]
            if jobs[here, JOB.IS_LEAVING] != 0 or is_going(reg, d.going, here):
                continue
            if not is_sought(w.nodes, w.pieces, d.sought, jobs[here, JOB.FIRST_PIECE]):
                continue
            until = until_ms(
                jobs, here, reg[REG.MIN_RUN_MS], reg[REG.EVICTIONS_AT_MOST], is_reclaimed
            )
            if until > reg[REG.NOW]:
                reg[REG.AGAIN_MS] = min(reg[REG.AGAIN_MS], until)
                if jobs[here, JOB.STATE] != RUNNING:
                    reg[REG.IS_FINAL] = 0
            else:
                d.candidates[found] = here
                found += 1
    return found


@kernel
def lift(w, d, g, j, sign):
    """Take a job out of the room and off the books (1), or put it back (-1); whether that is exact.

    Unnoticed by tournaments: whoever lifts puts back. What MIG instances free depends on those
    beside them.
    """
    q, p, is_exact = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.QUEUE], w.jobs[j, JOB.FIRST_PIECE], True
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            is_exact = is_exact and w.pieces[p, PIECE.SLICES] == 0
            k, milli = (
                w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND],
                move_piece(w, g.spots, g.parts, p, sign),
            )
            count_used(w.at, w.queues, w.quotas, d.used, d.below, d.kept, q, k, -sign * milli)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return is_exact


@kernel
def is_hosted(w, g, r, count):
    """Whether nodes of the room could host so many replicas of a request."""
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    for n in range(g.regs[CALL.ROWS]):
        count -= hosted_by(w, g, r, n, cpu, memory)
        if count <= 0:
            return True
    return False


@kernel
def may_fit_role(w, d, g, q, first, count, need, replicas):
    """Whether nodes could host a role, by itself, on a type that is sought."""
    for o in range(first, first + count):
        k = d.options[o, OPTION.KIND]
        if need != 0 and d.sought[k] == 0:
            continue
        if need != 0 and is_over_limit(w.queues, w.quotas, d.used, q, k, need):
            continue
        if is_hosted(w, g, d.options[o, OPTION.REQUEST], replicas):
            return True
    return False


@kernel
def may_fit(w, d, g, s):
    """Whether nodes could host each role of a shape, by itself, at its smallest size."""
    asks, members, q = d.asks, d.members, w.shapes[s, SHAPE.QUEUE]
    if asks[s, ASK.SIZES] == 0:
        first, count = asks[s, ASK.FIRST_OPTION], asks[s, ASK.OPTIONS]
        return may_fit_role(w, d, g, q, first, count, asks[s, ASK.NEED], asks[s, ASK.COUNT])
    for m in range(asks[s, ASK.FIRST_MEMBER], asks[s, ASK.FIRST_MEMBER] + asks[s, ASK.ROLES]):
        first, count = members[m, MEMBER.FIRST_OPTION], members[m, MEMBER.OPTIONS]
        need, replicas = members[m, MEMBER.NEED], members[m, MEMBER.COUNT]
        if not may_fit_role(w, d, g, q, first, count, need, replicas):
            return False
    return True


@kernel
def may_fit_without(w, d, g, s, many):
    """Whether a shape may fit where all of these candidates are gone, and all cuts are made."""
    is_exact = True
    for i in range(many):
        is_exact = lift(w, d, g, d.candidates[i], 1) and is_exact
    is_exact = lift_cuts(w, d, g, s, many, 1) and is_exact
    fits = may_fit(w, d, g, s)
    lift_cuts(w, d, g, s, many, -1)
    for i in range(many):
        lift(w, d, g, d.candidates[i], -1)
    return fits or not is_exact


@kernel
def find_stoppable(w, d, s, reach, need):
    """Write down who may be stopped on the types that are sought, as far as ``reach``; how many.

    0 also where even the largest of them would not be enough.
    """
    reg, free = d.reg, 0
    lenders = find_lenders(w, d, s, reach, need)
    if lenders == 0 and d.asks[s, ASK.MAY_EVICT] & OWN == 0:
        return 0
    rights = find_rights(w.shapes, reg, d.lends, d.evictable, s)
    for k in range(len(d.sought)):
        if d.sought[k] != 0:
            free += d.free[k]
    lacks = need - free
    at_most = reg[REG.VICTIMS_AT_MOST]
    if rights == 0 or could_free(w.shapes, d.evictable, rights, at_most, lacks) < lacks:
        return 0
    return find_candidates(w, d, s, rights)


@kernel
def may_find(w, d, g, s, reach):
    """Whether stopping jobs may make room on the types that are sought; as far as ``reach``."""
    count = find_stoppable(w, d, s, reach, d.asks[s, ASK.LEAST])
    return count > 0 and may_fit_without(w, d, g, s, count)


@kernel
def seek(quotas, used, asks, types, sought, s, a, need):
    """Write down the types that a shape may use; of a queue, those of which it is owed enough."""
    found = False
    sought[:] = 0
    for i in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
        k = types[i]
        if a < 0 or used[a, k] + need <= quotas[a, k, QUOTA.FLOOR]:
            sought[k] = 1
            found = True
    return found


@kernel
def is_ready(reg, asks, s):
    """Whether it can be counted where a shape could be; it needs GPUs."""
    is_fitted = asks[s, ASK.IS_SIMPLE] != 0 or asks[s, ASK.SIZES] != 0
    return is_fitted and asks[s, ASK.PREPARED] == reg[REG.ROOM_AT] and asks[s, ASK.LEAST] != 0


@kernel
def is_shrinking_in_vain(w, d, g, s):
    """Whether no replicas that elastic jobs could give up are enough for a shape."""
    if count_cuts(w, d, s) == 0:
        return True
    seek(w.quotas, d.used, d.asks, d.types, d.sought, s, -1, d.asks[s, ASK.LEAST])
    return not may_fit_without(w, d, g, s, 0)


@kernel
def is_in_vain(w, d, g, s):
    """Whether no set of jobs that a shape may stop could be enough for it.

    Then ``REG.AGAIN_MS`` is when others may be stopped, and ``REG.IS_FINAL`` whether nothing else
    than that and a change of the cluster state could give another answer.
    """
    reg, asks, need = d.reg, d.asks, d.asks[s, ASK.LEAST]
    reg[REG.AGAIN_MS] = FOREVER_MS
    reg[REG.IS_FINAL] = 1
    if not is_ready(reg, asks, s):
        return False
    a, reach = w.shapes[s, SHAPE.QUEUE], 0
    while a >= 0 and reg[REG.MAY_RECLAIM] != 0:
        reach += 1
        is_owed_some = seek(w.quotas, d.used, asks, d.types, d.sought, s, a, need)
        if is_owed_some and may_find(w, d, g, s, reach):
            return False
        a = w.queues[a, QUEUE.PARENT]
    seek(w.quotas, d.used, asks, d.types, d.sought, s, -1, need)
    return not may_find(w, d, g, s, 0)
