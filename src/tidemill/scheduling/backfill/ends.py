"""Who ends when, and what is free then: compiled, over the cluster state and a room.

``follow`` keeps the running jobs in the order of their expected ends from one cycle to the next.
``enough_after`` gives back what they hold, in that order, until a gang of one role fits. Nothing of
the cluster state is written; what is free is the room's.
"""

from tidemill.core.kernel import beside
from tidemill.model.columns import AT, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import ONE_PPM
from tidemill.scheduling.backfill.columns import ENDING, VECTORS, Ends
from tidemill.scheduling.fitting import columns as fitting
from tidemill.scheduling.fitting.books import count_used
from tidemill.scheduling.fitting.columns import CALL, PART, REQUEST, SPOT, Ground
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.fitting.sweeps import READY, is_able, most_beside, on_device, touch

LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century

kernel = beside(
    __file__,
    {"ends": Ends, "g": Ground},
    (*VECTORS, *fitting.VECTORS),
    matrices=fitting.MATRICES,
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
def sort_again(rows, order, count):
    """Sort by (end, job) in place; costs what changed, since they were in order before."""
    for i in range(1, count):
        j = order[i]
        at = i
        while at > 0:
            up = order[at - 1]
            if rows[up, ENDING.AT_MS] < rows[j, ENDING.AT_MS]:
                break
            if rows[up, ENDING.AT_MS] == rows[j, ENDING.AT_MS] and up <= j:
                break
            order[at] = up
            at -= 1
        order[at] = j


@kernel
def sort_all(rows, order, count):
    """The same where many are out of order: far ones change places first (Shell's sort)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 1:
        for i in range(gap, count):
            j = order[i]
            at = i
            while at >= gap and rows[order[at - gap], ENDING.AT_MS] > rows[j, ENDING.AT_MS]:
                order[at] = order[at - gap]
                at -= gap
            order[at] = j
        gap //= 3
    sort_again(rows, order, count)


@kernel
def move_piece(w, g, p, sign):
    """Give a piece back to its node in the room (1), or take it again (-1); its GPUs in milli.

    Unnoticed by tournaments: whoever gives takes back.
    """
    pieces, nodes, spots = w.pieces, w.nodes, g.spots
    n, replicas, mask = pieces[p, PIECE.NODE], pieces[p, PIECE.REPLICAS], pieces[p, PIECE.DEVICES]
    s = w.jobs[pieces[p, PIECE.JOB], JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE] + pieces[p, PIECE.ROLE]
    each, first = w.roles[r, ROLE.MILLI], nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            g.parts[first + d, PART.FREE] += sign * each
    milli = replicas * w.roles[r, ROLE.ACCELERATORS] * each
    spots[n, SPOT.CPU] += sign * replicas * w.roles[r, ROLE.CPU]
    spots[n, SPOT.MEMORY] += sign * replicas * w.roles[r, ROLE.MEMORY]
    spots[n, SPOT.FREE] += sign * milli
    return milli


@kernel
def end_first(w, ends, g, count, sign):
    """Give back what the first so many in the order hold (1), or take it again (-1)."""
    for i in range(count):
        p = w.jobs[ends.order[i], JOB.FIRST_PIECE]
        while p >= 0:
            if w.pieces[p, PIECE.IS_COMING] == 0:
                move_piece(w, g, p, sign)
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
                k, milli = w.nodes[n, NODE.KIND], sign * move_piece(w, g, p, sign)
                touch(g.regs, g.touched, g.spots, n)
                if g.spots[n, SPOT.IS_OPEN] != 0:
                    free[k] += milli
                count_used(w.at, w.queues, w.quotas, used, below, kept, q, k, -milli)
            p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def hosted_on(nodes, spots, parts, requests, oks, barred, r, n):
    """How many replicas one node can take in the room, on devices that nobody is barred from."""
    accelerators, milli = requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI]
    cpu, memory = requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY]
    if not is_able(nodes, spots, oks, r, n, accelerators * milli, cpu, memory):
        return 0
    most = most_beside(spots, n, cpu, memory)
    if most <= 0 or accelerators == 0:
        return max(0, most)
    hosted, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if barred[d] == 0:
            hosted += on_device(parts, d, milli)
    return min(most, hosted // accelerators)


@kernel
def enough_after(w, ends, g, barred, count, r, wanted, k, short, stays):
    """How many of the first ``count`` must end until a gang fits on one type; -1: not even all.

    ``r``: the request of each of the ``wanted`` replicas. ``short``: how much more of the type must
    come free in all. The room is left as it was, unless it fits then, and it ``stays`` (1).
    """
    nodes, pieces, spots = w.nodes, w.pieces, g.spots
    total = 0
    for n in range(g.regs[CALL.ROWS]):
        spots[n, SPOT.HOSTS] = hosted_on(nodes, spots, g.parts, g.requests, g.oks, barred, r, n)
        total += spots[n, SPOT.HOSTS]
    found, given = -1, 0
    for i in range(count):
        p = w.jobs[ends.order[i], JOB.FIRST_PIECE]
        while p >= 0:
            if pieces[p, PIECE.IS_COMING] == 0:
                n = pieces[p, PIECE.NODE]
                back = move_piece(w, g, p, 1)
                if (
                    nodes[n, NODE.KIND] == k
                    and nodes[n, NODE.STATE] == READY
                    and nodes[n, NODE.IS_SPARE] == 0
                ):
                    short -= back
                total -= spots[n, SPOT.HOSTS]
                now = hosted_on(nodes, spots, g.parts, g.requests, g.oks, barred, r, n)
                spots[n, SPOT.HOSTS] = now
                total += now
            p = pieces[p, PIECE.NEXT_OF_JOB]
        given = i + 1
        if total >= wanted and short <= 0:
            found = given
            break
    if found < 0 or stays == 0:
        end_first(w, ends, g, given, -1)
    return found
