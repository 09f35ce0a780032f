"""Who may be stopped for a job that waits; and whether a search for victims is surely in vain.

The same rights for the compiled search (``stopping``) and for the one in Python
(``preemption.select``). In vain: all who may be stopped are counted as gone; if even then no GPU
type has enough hosts, or a maximum quota stays in the way, there is nothing to search.
"""

from tidemill.model.columns import DEVICE, JOB, NODE, PIECE, QUEUE, QUOTA, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.states import JobState, NodeState
from tidemill.scheduling.desk.columns import ASK, GAIN, OPTION, REG
from tidemill.scheduling.desk.kernel import kernel

RUNNING, READY = int(JobState.RUNNING), int(NodeState.READY)
WHOLE = WHOLE_MILLI
PLENTY = 1 << 30
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
def gain(w, gains, gained, relief, j, sign):
    """Count what a job holds as free (1), or not any more (-1); whether that can be counted.

    What MIG instances free depends on those beside them.
    """
    t, p = w.jobs[j, JOB.SHAPE], w.jobs[j, JOB.FIRST_PIECE]
    is_plain = True
    while p >= 0:
        here, p = p, w.pieces[p, PIECE.NEXT_OF_JOB]
        if w.pieces[here, PIECE.IS_COMING] != 0:
            continue
        is_plain = is_plain and w.pieces[here, PIECE.SLICES] == 0
        r = w.shapes[t, SHAPE.FIRST_ROLE] + w.pieces[here, PIECE.ROLE]
        n, replicas = w.pieces[here, PIECE.NODE], sign * w.pieces[here, PIECE.REPLICAS]
        milli = replicas * w.roles[r, ROLE.ACCELERATORS] * w.roles[r, ROLE.MILLI]
        gains[n, GAIN.MILLI] += milli
        gains[n, GAIN.CPU] += replicas * w.roles[r, ROLE.CPU]
        gains[n, GAIN.MEMORY] += replicas * w.roles[r, ROLE.MEMORY]
        first, mask = w.nodes[n, NODE.FIRST_DEVICE], w.pieces[here, PIECE.DEVICES]
        for i in range(w.nodes[n, NODE.DEVICES]):
            if mask >> i & 1:
                gained[first + i] += sign * w.roles[r, ROLE.MILLI]
        a, k = w.shapes[t, SHAPE.QUEUE], w.nodes[n, NODE.KIND]
        while a >= 0:
            relief[a, k] += milli
            a = w.queues[a, QUEUE.PARENT]
    return is_plain


@kernel
def hosted_on(nodes, devices, gained, n, accelerators, milli):
    """How many replicas the devices of a node could host with what is gained."""
    hosted, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for i in range(first, first + nodes[n, NODE.DEVICES]):
        if devices[i, DEVICE.IS_FAILED] == 0:
            free = devices[i, DEVICE.FREE_MILLI] + gained[i]
            hosted += free // milli if milli < WHOLE else int(free == WHOLE)
    return hosted // accelerators


@kernel
def is_hosted(nodes, devices, roles, oks, gains, gained, r, o):
    """Whether nodes could host all replicas of a role with what is gained, for one option."""
    left, cpu, memory = roles[r, ROLE.COUNT], roles[r, ROLE.CPU], roles[r, ROLE.MEMORY]
    accelerators, milli = roles[r, ROLE.ACCELERATORS], roles[r, ROLE.MILLI]
    for n in range(len(gains)):
        if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
            continue
        if oks[o, nodes[n, NODE.GROUP]] == 0:
            continue
        if nodes[n, NODE.FREE_MILLI] + gains[n, GAIN.MILLI] < accelerators * milli:
            continue
        most = PLENTY
        if cpu > 0:
            most = min(most, (nodes[n, NODE.CPU_FREE_MILLI] + gains[n, GAIN.CPU]) // cpu)
        if memory > 0:
            most = min(most, (nodes[n, NODE.MEMORY_FREE_MIB] + gains[n, GAIN.MEMORY]) // memory)
        if most > 0:
            left -= min(most, hosted_on(nodes, devices, gained, n, accelerators, milli))
        if left <= 0:
            return True
    return False


@kernel
def is_limited(queues, quotas, used, relief, q, k, need):
    """Whether a maximum quota keeps so much out though some of what is used is given back."""
    while q >= 0:
        if used[q, k] - relief[q, k] + need > quotas[q, k, QUOTA.LIMIT]:
            return True
        q = queues[q, QUEUE.PARENT]
    return False


@kernel
def may_fit_without(w, d, s, count):
    """Whether a shape may fit where all of these candidates are gone."""
    asks, q, is_plain, fits = d.asks, w.shapes[s, SHAPE.QUEUE], True, False
    for i in range(count):
        if not gain(w, d.gains, d.gained, d.relief, d.candidates[i], 1):
            is_plain = False
    first = asks[s, ASK.FIRST_OPTION]
    for o in range(first, first + asks[s, ASK.OPTIONS]):
        k = d.options[o, OPTION.KIND]
        if fits or d.sought[k] == 0:
            continue
        if is_limited(w.queues, w.quotas, d.used, d.relief, q, k, asks[s, ASK.NEED]):
            continue
        r = w.shapes[s, SHAPE.FIRST_ROLE]
        fits = is_hosted(w.nodes, w.devices, w.roles, d.oks, d.gains, d.gained, r, o)
    for i in range(count):
        gain(w, d.gains, d.gained, d.relief, d.candidates[i], -1)
    return fits or not is_plain


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
def may_find(w, d, s, reach):
    """Whether stopping jobs may make room on the types that are sought; as far as ``reach``."""
    count = find_stoppable(w, d, s, reach, d.asks[s, ASK.NEED])
    return count > 0 and may_fit_without(w, d, s, count)


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
def is_in_vain(w, d, s):
    """Whether no set of jobs that a shape may stop could be enough for it.

    Then ``REG.AGAIN_MS`` is when others may be stopped, and ``REG.IS_FINAL`` whether nothing else
    than that and a change of the cluster state could give another answer.
    """
    reg, asks, need = d.reg, d.asks, d.asks[s, ASK.NEED]
    reg[REG.AGAIN_MS] = FOREVER_MS
    reg[REG.IS_FINAL] = 1
    if asks[s, ASK.IS_SIMPLE] == 0 or need == 0:
        return False
    a, reach = w.shapes[s, SHAPE.QUEUE], 0
    while a >= 0 and reg[REG.MAY_RECLAIM] != 0:
        reach += 1
        is_owed_some = seek(w.quotas, d.used, asks, d.types, d.sought, s, a, need)
        if is_owed_some and may_find(w, d, s, reach):
            return False
        a = w.queues[a, QUEUE.PARENT]
    seek(w.quotas, d.used, asks, d.types, d.sought, s, -1, need)
    return not may_find(w, d, s, 0)
