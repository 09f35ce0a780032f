"""Who ends when, and what is free then: compiled, over the cluster state and a room.

``follow`` keeps the running jobs in the order of their expected ends from one cycle to the next.
``enough_after`` gives back what they hold, in that order, until a gang of one role fits. Nothing of
the cluster state is written; what is free is the room's.
"""

from tidemill.core.kernel import beside
from tidemill.model.columns import AT, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.states import NodeState
from tidemill.scheduling.backfill.columns import END, VECTORS, Ends, Room

READY = int(NodeState.READY)
PLENTY = 1 << 30
LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century

kernel = beside(__file__, {"ends": Ends, "room": Room}, VECTORS)


@kernel
def expect(jobs, rows, j, now):
    """What a running job has done, and when it is expected to end; whether it outran that.

    Whoever knows the estimates gives it a new total then, and asks again.
    """
    begin = jobs[j, JOB.PLACED_MS] + jobs[j, JOB.STARTUP_MS]
    if jobs[j, JOB.ATTEMPT] > 1:
        begin += jobs[j, JOB.RESTART_MS]
    speed, total = jobs[j, JOB.SPEED_PPM], rows[j, END.TOTAL_MS]
    done = jobs[j, JOB.SAVED_MS] + max(0, now - begin) * speed // ONE_PPM
    left = total - done
    if speed != ONE_PPM:
        left = min(left, LONGEST_MS) * ONE_PPM // max(1, speed)
    rows[j, END.DONE_MS] = done
    rows[j, END.AT_MS] = max(begin, now) + left
    if jobs[j, JOB.IS_LEAVING] != 0:
        rows[j, END.AT_MS] = now
    return total <= max(done, jobs[j, JOB.REACHED_MS])


@kernel
def follow(w, ends, count):
    """Drop who went, add who came; how many there are. Who was placed again did both."""
    jobs, rows, order, found = w.jobs, ends.rows, ends.order, 0
    for i in range(count):
        j = order[i]
        if jobs[j, JOB.FIRST_PIECE] < 0:
            rows[j, END.ATTEMPT] = 0
        else:
            order[found] = j
            found += 1
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        attempt = jobs[j, JOB.ATTEMPT]
        if rows[j, END.ATTEMPT] == attempt or w.shapes[jobs[j, JOB.SHAPE], SHAPE.IS_LASTING] != 0:
            continue
        if rows[j, END.ATTEMPT] == 0:
            order[found] = j
            found += 1
        rows[j, END.ATTEMPT] = attempt
        rows[j, END.TOTAL_MS] = 0  # not asked yet
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
            if rows[up, END.AT_MS] < rows[j, END.AT_MS]:
                break
            if rows[up, END.AT_MS] == rows[j, END.AT_MS] and up <= j:
                break
            order[at] = up
            at -= 1
        order[at] = j


@kernel
def move_piece(w, room, p, sign):
    """Give a piece back to its node in the room (1), or take it again (-1); its GPUs in milli."""
    pieces, nodes = w.pieces, w.nodes
    n, replicas, mask = pieces[p, PIECE.NODE], pieces[p, PIECE.REPLICAS], pieces[p, PIECE.DEVICES]
    s = w.jobs[pieces[p, PIECE.JOB], JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE] + pieces[p, PIECE.ROLE]
    each, first = w.roles[r, ROLE.MILLI], nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            room.device_free[first + d] += sign * each
    milli = replicas * w.roles[r, ROLE.ACCELERATORS] * each
    room.cpu_free[n] += sign * replicas * w.roles[r, ROLE.CPU]
    room.memory_free[n] += sign * replicas * w.roles[r, ROLE.MEMORY]
    room.node_free[n] += sign * milli
    return milli


@kernel
def end_first(w, ends, room, count, sign):
    """Give back what the first so many in the order hold (1), or take it again (-1)."""
    for i in range(count):
        p = w.jobs[ends.order[i], JOB.FIRST_PIECE]
        while p >= 0:
            if w.pieces[p, PIECE.IS_COMING] == 0:
                move_piece(w, room, p, sign)
            p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def hosted_on(nodes, room, n, accelerators, milli, cpu, memory):
    """How many replicas one node can take in the room."""
    if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
        return 0
    if room.is_ok[nodes[n, NODE.GROUP]] == 0 or room.node_free[n] < accelerators * milli:
        return 0
    most = PLENTY
    if cpu > 0:
        most = min(most, room.cpu_free[n] // cpu)
    if memory > 0:
        most = min(most, room.memory_free[n] // memory)
    if most <= 0 or accelerators == 0:
        return max(0, most)
    hosted, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if room.is_barred[d] == 0:
            if milli < WHOLE_MILLI:
                hosted += room.device_free[d] // milli
            elif room.device_free[d] == WHOLE_MILLI:
                hosted += 1
    return min(most, hosted // accelerators)


@kernel
def enough_after(w, ends, room, count, node_count, r, k, short):
    """How many of the first ``count`` must end until a gang fits on one type; -1: not even all.

    ``r``: the row of its role. ``short``: how much more of the type must come free in all. The
    room is left as it was.
    """
    nodes, pieces, hosts = w.nodes, w.pieces, room.hosts
    accelerators, milli = w.roles[r, ROLE.ACCELERATORS], w.roles[r, ROLE.MILLI]
    cpu, memory, wanted = w.roles[r, ROLE.CPU], w.roles[r, ROLE.MEMORY], w.roles[r, ROLE.COUNT]
    total = 0
    for n in range(node_count):
        hosts[n] = hosted_on(nodes, room, n, accelerators, milli, cpu, memory)
        total += hosts[n]
    found, given = -1, 0
    for i in range(count):
        p = w.jobs[ends.order[i], JOB.FIRST_PIECE]
        while p >= 0:
            if pieces[p, PIECE.IS_COMING] == 0:
                n = pieces[p, PIECE.NODE]
                back = move_piece(w, room, p, 1)
                if (
                    nodes[n, NODE.KIND] == k
                    and nodes[n, NODE.STATE] == READY
                    and nodes[n, NODE.IS_SPARE] == 0
                ):
                    short -= back
                total -= hosts[n]
                hosts[n] = hosted_on(nodes, room, n, accelerators, milli, cpu, memory)
                total += hosts[n]
            p = pieces[p, PIECE.NEXT_OF_JOB]
        given = i + 1
        if total >= wanted and short <= 0:
            found = given
            break
    end_first(w, ends, room, given, -1)
    return found
