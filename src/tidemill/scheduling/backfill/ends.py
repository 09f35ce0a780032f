"""Who ends when, and what is free then: compiled, over the cluster state and a room.

``catch_up`` keeps the running jobs by their expected ends from one cycle to the next, at the cost
of what changed: an end stays where it is until it has passed, and only the next of them are sorted.
``enough_after`` gives back what they hold, in that order, until a gang of one role fits. Nothing of
the cluster state is written; what is free is the room's.
"""

from tidemill.core.estimates import SAID, total_ms
from tidemill.core.kernel import beside
from tidemill.model.columns import AT, DEVICE, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.scheduling.backfill.columns import ENDING, NEAR_AT_LEAST, TALLY, VECTORS, Ends
from tidemill.scheduling.fitting import columns as fitting
from tidemill.scheduling.fitting.books import count_used
from tidemill.scheduling.fitting.columns import PART, REQUEST, SPOT, Ground
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.fitting.sweeps import (
    READY,
    count_again,
    is_able,
    most_beside,
    note_hosted,
    on_device,
    touch,
)

LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century

kernel = beside(
    __file__,
    {"ends": Ends, "g": Ground},
    (*VECTORS, *fitting.VECTORS),
    matrices=(*fitting.MATRICES, "learnt"),
    calls=CALLS,
)


@kernel
def expect(jobs, rows, j, now):
    """What a running job has done, and when it is expected to end; whether it outran that.

    Whoever knows the estimates gives it a new total then, and asks again.
    """
    begin = jobs[j, JOB.PLACED_MS] + jobs[j, JOB.STARTUP_MS]
    if jobs[j, JOB.ATTEMPT] > 1:
        begin += jobs[j, JOB.RESTART_MS]
    speed, total = jobs[j, JOB.SPEED_PPM], rows[j, ENDING.TOTAL_MS]
    done = jobs[j, JOB.SAVED_MS] + max(0, now - begin) * speed // ONE_PPM
    left = total - done
    if speed != ONE_PPM:
        left = min(left, LONGEST_MS) * ONE_PPM // max(1, speed)
    rows[j, ENDING.DONE_MS] = done
    rows[j, ENDING.AT_MS] = max(begin, now) + left
    if jobs[j, JOB.IS_LEAVING] != 0:
        rows[j, ENDING.AT_MS] = now
    return total <= max(done, jobs[j, JOB.REACHED_MS])


@kernel
def follow(w, ends, count):
    """Drop who went, add who came; how many there are. Who was placed again did both."""
    jobs, rows, order, found = w.jobs, ends.rows, ends.order, 0
    for i in range(count):
        j = order[i]
        if jobs[j, JOB.FIRST_PIECE] < 0:
            rows[j, ENDING.ATTEMPT] = 0
        else:
            order[found] = j
            found += 1
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        attempt = jobs[j, JOB.ATTEMPT]
        if (
            rows[j, ENDING.ATTEMPT] == attempt
            or w.shapes[jobs[j, JOB.SHAPE], SHAPE.IS_LASTING] != 0
        ):
            continue
        if rows[j, ENDING.ATTEMPT] == 0:
            order[found] = j
            found += 1
        rows[j, ENDING.ATTEMPT] = attempt
        rows[j, ENDING.TOTAL_MS] = 0  # not asked yet
    return found


@kernel
def expect_all(w, ends, count, now):
    """When every running job is expected to end; how many outran what was thought of them."""
    jobs, rows, order, found = w.jobs, ends.rows, ends.order, 0
    for i in range(count):
        if expect(jobs, rows, order[i], now):
            ends.outrun[found] = order[i]
            found += 1
    return found


@kernel
def goes_before(rows, j, other):
    """Whether a job is expected to end before another; the lower number among equals."""
    if rows[j, ENDING.AT_MS] != rows[other, ENDING.AT_MS]:
        return rows[j, ENDING.AT_MS] < rows[other, ENDING.AT_MS]
    return j < other


@kernel
def sort_again(rows, order, first, end):
    """Sort a part of the order in place; costs what changed, since it was in order before."""
    for i in range(first + 1, end):
        j = order[i]
        at = i
        while at > first and goes_before(rows, j, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = j


@kernel
def sort_all(rows, order, first, end):
    """The same where many are out of order: far ones change places first (Shell's sort)."""
    gap = 1
    while gap < (end - first) // 3:
        gap = 3 * gap + 1
    while gap > 1:
        for i in range(first + gap, end):
            j = order[i]
            at = i
            while at >= first + gap and goes_before(rows, j, order[at - gap]):
                order[at] = order[at - gap]
                at -= gap
            order[at] = j
        gap //= 3
    sort_again(rows, order, first, end)


# By what changed ------------------------------------------------------------------------------


@kernel
def is_there(jobs, rows, j):
    """Whether the attempt of a job that is known of still runs."""
    return jobs[j, JOB.FIRST_PIECE] >= 0 and rows[j, ENDING.ATTEMPT] == jobs[j, JOB.ATTEMPT]


@kernel
def estimate(jobs, shapes, learnt, rows, j, now):
    """How long a job is taken to run in all, and when it ends then."""
    expect(jobs, rows, j, now)
    done = rows[j, ENDING.DONE_MS]
    rows[j, ENDING.TOTAL_MS] = total_ms(jobs, shapes, learnt, j, done)
    expect(jobs, rows, j, now)


@kernel
def enter(ends, j):
    """Put a job in its place, by its end."""
    rows, order, tally = ends.rows, ends.order, ends.tally
    last, at = tally[TALLY.COUNT], tally[TALLY.NEAR]
    tally[TALLY.COUNT] = last + 1
    if rows[j, ENDING.AT_MS] > tally[TALLY.UNTIL_MS]:
        order[last] = j
        return
    order[last] = order[at]
    tally[TALLY.NEAR] = at + 1
    while at > 0 and goes_before(rows, j, order[at - 1]):
        order[at] = order[at - 1]
        at -= 1
    order[at] = j


@kernel
def drop_among(w, ends, first, end):
    """Drop who went of those in these places; where those end who stay."""
    rows, order, found = ends.rows, ends.order, first
    for i in range(first, end):
        j = order[i]
        if is_there(w.jobs, rows, j):
            order[found] = j
            found += 1
        else:
            rows[j, ENDING.ATTEMPT] = 0
    return found


@kernel
def drop_near(w, ends):
    """Drop who went of those who are sorted."""
    order, tally = ends.order, ends.tally
    near, count = tally[TALLY.NEAR], tally[TALLY.COUNT]
    found = drop_among(w, ends, 0, near)
    for i in range(min(near - found, count - near)):
        order[found + i] = order[count - 1 - i]
    tally[TALLY.NEAR] = found
    tally[TALLY.COUNT] = count - near + found


@kernel
def drop_far(w, ends):
    """Drop who went of those who end later."""
    tally = ends.tally
    tally[TALLY.COUNT] = drop_among(w, ends, tally[TALLY.NEAR], tally[TALLY.COUNT])


@kernel
def leave_far(ends, j):
    """Take a job out of those who end later."""
    order, tally = ends.order, ends.tally
    last, at = tally[TALLY.COUNT] - 1, tally[TALLY.NEAR]
    while order[at] != j:
        at += 1
    order[at] = order[last]
    tally[TALLY.COUNT] = last


@kernel
def near_until(ends, first, count):
    """A moment by which about as many of these end as are sorted already, or a few more."""
    rows, order, few = ends.rows, ends.order, ends.outrun
    samples, more = min(64, len(few)), max(first, NEAR_AT_LEAST)
    if count <= 2 * more or count < samples:
        return FOREVER_MS
    for i in range(samples):
        at = i
        at_ms = rows[order[first + i * (count // samples)], ENDING.AT_MS]
        while at > 0 and few[at - 1] > at_ms:
            few[at] = few[at - 1]
            at -= 1
        few[at] = at_ms
    return few[samples * more // count]


@kernel
def sort_more(w, ends):
    """Sort the next of those who end later; whether there are any."""
    drop_far(w, ends)
    rows, order, tally = ends.rows, ends.order, ends.tally
    first, count = tally[TALLY.NEAR], tally[TALLY.COUNT]
    until, end = near_until(ends, first, count - first), first
    for i in range(first, count):
        j = order[i]
        if rows[j, ENDING.AT_MS] <= until:
            order[i] = order[end]
            order[end] = j
            end += 1
    sort_all(rows, order, first, end)
    tally[TALLY.NEAR] = end
    tally[TALLY.UNTIL_MS] = until
    return end > first


@kernel
def sort_fewer(rows, order, tally):
    """Of many who are sorted, those who end later need not be."""
    near = max(2 * tally[TALLY.WANTED], NEAR_AT_LEAST)
    if tally[TALLY.NEAR] <= 4 * near:
        return
    until = rows[order[near - 1], ENDING.AT_MS]
    while near < tally[TALLY.NEAR] and rows[order[near], ENDING.AT_MS] == until:
        near += 1
    if near < tally[TALLY.NEAR]:
        tally[TALLY.NEAR] = near
        tally[TALLY.UNTIL_MS] = until


@kernel
def note_read(w, ends, learnt, count):
    """Everybody was read, and is sorted."""
    tally, drifting = ends.tally, 0
    for i in range(count):
        drifting += w.jobs[ends.order[i], JOB.SPEED_PPM] != ONE_PPM
    tally[TALLY.COUNT] = count
    tally[TALLY.NEAR] = count
    tally[TALLY.UNTIL_MS] = FOREVER_MS
    tally[TALLY.READ] = w.at[AT.LOGGED]
    tally[TALLY.PACE_CHANGES] = w.at[AT.PACE_CHANGES]
    tally[TALLY.DRIFTING] = drifting
    tally[TALLY.KEPT] = 0
    tally[TALLY.NEWS] = learnt[0, SAID.NEWS]


@kernel
def read_all(w, ends, learnt, now):
    """Read everybody who runs, and sort them; asked anew how long, where history says otherwise."""
    count = follow(w, ends, ends.tally[TALLY.COUNT])
    if ends.tally[TALLY.NEWS] != learnt[0, SAID.NEWS]:
        for i in range(count):
            ends.rows[ends.order[i], ENDING.TOTAL_MS] = 0
    for i in range(expect_all(w, ends, count, now)):
        estimate(w.jobs, w.shapes, learnt, ends.rows, ends.outrun[i], now)
    sort_all(ends.rows, ends.order, 0, count)
    note_read(w, ends, learnt, count)


@kernel
def take_in(w, ends, learnt, j, now):
    """Take in a job that runs, unless it is known of, or is a service."""
    jobs, rows = w.jobs, ends.rows
    before = rows[j, ENDING.ATTEMPT]
    if before == jobs[j, JOB.ATTEMPT] or w.shapes[jobs[j, JOB.SHAPE], SHAPE.IS_LASTING] != 0:
        return
    rows[j, ENDING.ATTEMPT] = jobs[j, JOB.ATTEMPT]
    rows[j, ENDING.TOTAL_MS] = 0
    estimate(jobs, w.shapes, learnt, rows, j, now)
    ends.tally[TALLY.DRIFTING] += jobs[j, JOB.SPEED_PPM] != ONE_PPM
    if before == 0:
        enter(ends, j)
    elif rows[j, ENDING.AT_MS] <= ends.tally[TALLY.UNTIL_MS]:
        leave_far(ends, j)  # an attempt before this one stands there still
        enter(ends, j)


@kernel
def is_to_be_read(w, ends, learnt):
    """Whether everybody must be read again: ends moved, or it is not known who came."""
    at, tally = w.at, ends.tally
    if tally[TALLY.NEWS] != learnt[0, SAID.NEWS]:
        return True
    if at[AT.LEAVING] > 0 or at[AT.SEEN] > 0 or tally[TALLY.DRIFTING] > 0:
        return True
    if tally[TALLY.READ] < 0 or tally[TALLY.PACE_CHANGES] != at[AT.PACE_CHANGES]:
        return True
    missed = at[AT.LOGGED] - tally[TALLY.READ]
    return tally[TALLY.READ] < at[AT.LOG_FIRST] or missed > min(len(w.log), at[AT.ACTIVE] + 64)


@kernel
def take_in_newcomers(w, ends, learnt, now):
    """Take in whoever sits on a node that changed."""
    for i in range(ends.tally[TALLY.READ], w.at[AT.LOGGED]):
        p = w.nodes[w.log[i % len(w.log)], NODE.FIRST_PIECE]
        while p >= 0:
            take_in(w, ends, learnt, w.pieces[p, PIECE.JOB], now)
            p = w.pieces[p, PIECE.NEXT_ON_NODE]
    ends.tally[TALLY.READ] = w.at[AT.LOGGED]


@kernel
def note_late(late, tally, j):
    """Note that a job is put off; of too many it is not known who they were."""
    if tally[TALLY.LATE] < len(late):
        late[tally[TALLY.LATE]] = j
        tally[TALLY.LATE] += 1
    else:
        tally[TALLY.KEPT] = 0


@kernel
def put_off(w, ends, learnt, now):
    """Whoever should have ended by now is taken to run for longer."""
    order, tally = ends.order, ends.tally
    while tally[TALLY.NEAR] > 0 or (tally[TALLY.COUNT] > 0 and sort_more(w, ends)):
        j = order[0]
        if ends.rows[j, ENDING.AT_MS] > now:
            break
        estimate(w.jobs, w.shapes, learnt, ends.rows, j, now)
        note_late(ends.late, tally, j)
        at = 1
        while at < tally[TALLY.NEAR] and goes_before(ends.rows, order[at], j):
            order[at - 1] = order[at]
            at += 1
        order[at - 1] = j
        if ends.rows[j, ENDING.AT_MS] > tally[TALLY.UNTIL_MS]:
            tally[TALLY.NEAR] -= 1  # it is the last of those who are sorted


@kernel
def catch_up(w, ends, learnt, now):
    """Bring everything up to this moment; what history says by now is in ``learnt``."""
    if is_to_be_read(w, ends, learnt):
        read_all(w, ends, learnt, now)
        return
    sort_fewer(ends.rows, ends.order, ends.tally)
    drop_near(w, ends)
    if ends.tally[TALLY.COUNT] > 2 * w.at[AT.ACTIVE] + NEAR_AT_LEAST:
        drop_far(w, ends)
    take_in_newcomers(w, ends, learnt, now)
    put_off(w, ends, learnt, now)


# What is free then ----------------------------------------------------------------------------


@kernel
def move_piece(w, spots, parts, p, sign):
    """Give a piece back to its node (1), or take it again (-1); its GPUs in milli.

    Unnoticed by tournaments: whoever gives takes back.
    """
    pieces, nodes = w.pieces, w.nodes
    n, replicas, mask = pieces[p, PIECE.NODE], pieces[p, PIECE.REPLICAS], pieces[p, PIECE.DEVICES]
    s = w.jobs[pieces[p, PIECE.JOB], JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE] + pieces[p, PIECE.ROLE]
    each, first = w.roles[r, ROLE.MILLI], nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            parts[first + d, PART.FREE] += sign * each
    milli = replicas * w.roles[r, ROLE.ACCELERATORS] * each
    spots[n, SPOT.CPU] += sign * replicas * w.roles[r, ROLE.CPU]
    spots[n, SPOT.MEMORY] += sign * replicas * w.roles[r, ROLE.MEMORY]
    spots[n, SPOT.FREE] += sign * milli
    return milli


@kernel
def end_first(w, ends, g, count, sign, r):
    """Give back what the first so many in the order hold (1), or take it again (-1).

    What nodes could take of a request is counted again.
    """
    for i in range(count):
        p = w.jobs[ends.order[i], JOB.FIRST_PIECE]
        while p >= 0:
            if w.pieces[p, PIECE.IS_COMING] == 0:
                move_piece(w, g.spots, g.parts, p, sign)
                count_again(w, g, r, w.pieces[p, PIECE.NODE])
            p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def give_back(w, ends, g, used, below, kept, free, start, end, sign):
    """Give back what some in the order hold (1), or take it again (-1); on the books too."""
    for i in range(start, end):
        j = ends.order[i]
        q, p = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.QUEUE], w.jobs[j, JOB.FIRST_PIECE]
        while p >= 0:
            if w.pieces[p, PIECE.IS_COMING] == 0:
                n = w.pieces[p, PIECE.NODE]
                k, milli = w.nodes[n, NODE.KIND], sign * move_piece(w, g.spots, g.parts, p, sign)
                touch(g.regs, g.touched, g.spots, n)
                if g.spots[n, SPOT.IS_OPEN] != 0:
                    free[k] += milli
                count_used(w.at, w.queues, w.quotas, used, below, kept, q, k, -milli)
            p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def hosted_on(w, g, barred, r, n):
    """How many replicas one node can take in the room, on devices that nobody is barred from."""
    requests, nodes = g.requests, w.nodes
    accelerators, milli = requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI]
    cpu, memory = requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY]
    if not is_able(nodes, g.spots, g.oks, r, n, accelerators * milli, cpu, memory):
        return 0
    most = most_beside(g.spots, n, cpu, memory)
    if most <= 0 or accelerators == 0:
        return max(0, most)
    hosted, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if barred[d] == 0 and w.devices[d, DEVICE.IS_FAILED] == 0:
            hosted += on_device(g.parts, d, milli)
    return min(most, hosted // accelerators)


@kernel
def count_beside(w, g, barred, r, n):
    """Count again what a node could take of a request on devices that nobody is barred from."""
    note_hosted(g.requests, g.hosts, g.hosting, r, n, hosted_on(w, g, barred, r, n))


@kernel
def enough_after(w, ends, g, barred, count, r, wanted, k, short, stays):
    """How many of the first ``count`` must end until a gang fits on one type; -1: not even all.

    ``r``: the request of each of the ``wanted`` replicas, which are counted by node. ``short``: how
    much more of the type must come free in all. The room is left as it was, unless it fits then,
    and it ``stays`` (1).
    """
    nodes, pieces, requests, found, given = w.nodes, w.pieces, g.requests, -1, 0
    while given < min(count, ends.tally[TALLY.COUNT]):
        if given == ends.tally[TALLY.NEAR] and not sort_more(w, ends):
            break
        p = w.jobs[ends.order[given], JOB.FIRST_PIECE]
        while p >= 0:
            if pieces[p, PIECE.IS_COMING] == 0:
                n = pieces[p, PIECE.NODE]
                back = move_piece(w, g.spots, g.parts, p, 1)
                if (
                    nodes[n, NODE.KIND] == k
                    and nodes[n, NODE.STATE] == READY
                    and nodes[n, NODE.IS_SPARE] == 0
                ):
                    short -= back
                count_beside(w, g, barred, r, n)
            p = pieces[p, PIECE.NEXT_OF_JOB]
        given += 1
        if requests[r, REQUEST.HOSTS_SUM] >= wanted and short <= 0:
            found = given
            break
    wanted = ends.tally[TALLY.WANTED]
    ends.tally[TALLY.WANTED] = max(given, wanted - (wanted >> 4))
    if found < 0 or stays == 0:
        end_first(w, ends, g, given, -1, r)
    return found
