"""What will be free when a reservation begins, kept from one cycle to the next by what changed.

Who waits longest mostly waits for many cycles, and what has to end until it fits is nearly the same
in each of them. So what comes back from them is kept by node, beside what the node can host then.
Nodes that changed are counted again; whoever came or is put off is taken in by its node; and the
last that has to end is looked for from where it was, to and fro.

Most of what happens changes nothing of it: who ends before the reservation begins was counted on,
and who passes and ends before it gives back what it took. As long as that is so on every node that
can host something then, the same have to end, and the gang sits where it would have
(``TALLY.IS_SAME``).
"""

from tidemill.model.columns import AT, DEVICE, JOB, NODE, PIECE
from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.backfill.columns import ENDING, REGAINED, TALLY
from tidemill.scheduling.backfill.ends import is_there, kernel, move_piece, sort_more
from tidemill.scheduling.fitting.columns import BITS, CALL, OUT, PART, REQUEST, SPOT
from tidemill.scheduling.fitting.sweeps import (
    READY,
    bit,
    count_hosts,
    hosted_by,
    hosting_from,
    note_hosted,
)

LEAST = 16  # who waits for fewer to end is reserved for anew each time


@kernel
def lend(w, g, ends, n, sign):
    """Give the room what comes back to a node (1), or take it again (-1), unnoticed."""
    spots, back, first = g.spots, ends.back, w.nodes[n, NODE.FIRST_DEVICE]
    if back[n, REGAINED.FREE] == 0 and back[n, REGAINED.CPU] == 0 and back[n, REGAINED.MEMORY] == 0:
        return
    spots[n, SPOT.FREE] += sign * back[n, REGAINED.FREE]
    spots[n, SPOT.CPU] += sign * back[n, REGAINED.CPU]
    spots[n, SPOT.MEMORY] += sign * back[n, REGAINED.MEMORY]
    for d in range(first, first + w.nodes[n, NODE.DEVICES]):
        g.parts[d, PART.FREE] += sign * ends.back_parts[d, PART.FREE]


@kernel
def whole_devices(nodes, devices, parts, n):
    """The mask of the devices of a node of which nobody holds anything."""
    mask, first = 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if devices[first + d, DEVICE.IS_FAILED] == 0 and parts[first + d, PART.FREE] == WHOLE:
            mask |= bit(d)
    return mask


@kernel
def note_then(tally, back, spots, n, whole):
    """Note what is free of a node then; if that is something else, all of it is to be asked."""
    is_same = (
        back[n, REGAINED.THEN_FREE] == spots[n, SPOT.FREE]
        and back[n, REGAINED.THEN_WHOLE] == whole
        and back[n, REGAINED.THEN_CPU] == spots[n, SPOT.CPU]
        and back[n, REGAINED.THEN_MEMORY] == spots[n, SPOT.MEMORY]
    )
    if not is_same:
        tally[TALLY.IS_SAME] = 0
    back[n, REGAINED.THEN_FREE] = spots[n, SPOT.FREE]
    back[n, REGAINED.THEN_WHOLE] = whole
    back[n, REGAINED.THEN_CPU] = spots[n, SPOT.CPU]
    back[n, REGAINED.THEN_MEMORY] = spots[n, SPOT.MEMORY]


@kernel
def count_then(w, g, ends, n):
    """Count again what a node can host then."""
    tally, back, r = ends.tally, ends.back, ends.tally[TALLY.KEPT] - 1
    lend(w, g, ends, n, 1)
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    before, now = back[n, REGAINED.HOSTED], hosted_by(w, g, r, n, cpu, memory)
    if now > 0:
        note_then(tally, back, g.spots, n, whole_devices(w.nodes, w.devices, g.parts, n))
    lend(w, g, ends, n, -1)
    if now == before:
        return
    tally[TALLY.IS_SAME] = 0
    tally[TALLY.HOSTED] += now - before
    back[n, REGAINED.HOSTED] = now
    if (before > 0) != (now > 0):
        ends.later[0, n // BITS] ^= 1 << n % BITS


@kernel
def count_back(nodes, back, tally, n):
    """Count what comes back to a node of the type that is looked for, if it takes work."""
    is_open = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
    is_counted = is_open and nodes[n, NODE.KIND] == tally[TALLY.KEPT_KIND]
    now = back[n, REGAINED.FREE] if is_counted else 0
    tally[TALLY.BACK] += now - back[n, REGAINED.COUNTED]
    back[n, REGAINED.COUNTED] = now


@kernel
def has_ended(jobs, rows, tally, j):
    """Whether a job is expected to have ended when the last did that has to."""
    if not is_there(jobs, rows, j) or rows[j, ENDING.AT_MS] > tally[TALLY.LAST_MS]:
        return False
    return rows[j, ENDING.AT_MS] < tally[TALLY.LAST_MS] or j <= tally[TALLY.LAST_JOB]


@kernel
def collect(w, g, ends, n):
    """Collect anew what comes back to a node."""
    back, back_parts, first = ends.back, ends.back_parts, w.nodes[n, NODE.FIRST_DEVICE]
    back[n, REGAINED.FREE] = 0
    back[n, REGAINED.CPU] = 0
    back[n, REGAINED.MEMORY] = 0
    for d in range(first, first + w.nodes[n, NODE.DEVICES]):
        back_parts[d, PART.FREE] = 0
    p = w.nodes[n, NODE.FIRST_PIECE]
    while p >= 0:
        j = w.pieces[p, PIECE.JOB]
        if w.pieces[p, PIECE.IS_COMING] == 0 and has_ended(w.jobs, ends.rows, ends.tally, j):
            move_piece(w, back, back_parts, p, 1)
        p = w.pieces[p, PIECE.NEXT_ON_NODE]
    count_back(w.nodes, back, ends.tally, n)
    count_then(w, g, ends, n)


@kernel
def end_one(w, g, ends, j, sign):
    """Have what a job holds come back (1), or not any more (-1)."""
    p = w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            n = w.pieces[p, PIECE.NODE]
            move_piece(w, ends.back, ends.back_parts, p, sign)
            count_back(w.nodes, ends.back, ends.tally, n)
            count_then(w, g, ends, n)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def keep_anew(w, g, ends, r, k, room_at):
    """Begin to keep what will be free for a request on a type: nobody has ended yet."""
    tally, back, h = ends.tally, ends.back, g.requests[r, REQUEST.HOSTS_ROW]
    for d in range(len(ends.back_parts)):
        ends.back_parts[d, PART.FREE] = 0
    tally[TALLY.HOSTED] = count_hosts(w, g, r)
    for n in range(g.regs[CALL.ROWS]):
        for column in range(back.shape[1]):
            back[n, column] = 0
        back[n, REGAINED.HOSTED] = g.hosts[h, n]
        if g.hosts[h, n] > 0:
            note_then(tally, back, g.spots, n, whole_devices(w.nodes, w.devices, g.parts, n))
    for i in range(g.hosting.shape[1]):
        ends.later[0, i] = g.hosting[h, i]
    tally[TALLY.KEPT] = r + 1
    tally[TALLY.KEPT_KIND] = k
    tally[TALLY.KEPT_ROOM] = room_at
    tally[TALLY.BACK] = 0
    tally[TALLY.LAST_MS] = -1
    tally[TALLY.LAST_JOB] = -1
    tally[TALLY.IS_SAME] = 0


@kernel
def is_kept(w, g, ends, r, k, room_at):
    """Whether what will be free for a request is kept, and the nodes are known that changed."""
    at, tally, rows = w.at, ends.tally, g.regs[CALL.ROWS]
    if tally[TALLY.KEPT] != r + 1 or tally[TALLY.KEPT_KIND] != k:
        return False
    if tally[TALLY.KEPT_ROOM] != room_at or tally[TALLY.LAST_MS] > tally[TALLY.UNTIL_MS]:
        return False
    changed = at[AT.LOGGED] - tally[TALLY.KEPT_LOG]
    touched = g.regs[CALL.TOUCHED] - tally[TALLY.KEPT_TOUCH]
    if tally[TALLY.KEPT_LOG] < at[AT.LOG_FIRST] or changed > min(len(w.log), rows // 4):
        return False
    return 0 <= touched <= min(len(g.touched), rows // 2)


@kernel
def follow_late(w, g, ends):
    """Whoever was put off ends later, or not at all by then."""
    for i in range(ends.tally[TALLY.LATE]):
        p = w.jobs[ends.late[i], JOB.FIRST_PIECE]
        while p >= 0:
            collect(w, g, ends, w.pieces[p, PIECE.NODE])
            p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def follow_nodes(w, g, ends):
    """Count nodes again that changed, in the cluster state or in the room."""
    tally = ends.tally
    for i in range(tally[TALLY.KEPT_LOG], w.at[AT.LOGGED]):
        collect(w, g, ends, w.log[i % len(w.log)])
    follow_late(w, g, ends)
    for i in range(tally[TALLY.KEPT_TOUCH], g.regs[CALL.TOUCHED]):
        count_then(w, g, ends, g.touched[i % len(g.touched)])


@kernel
def keep_up(w, g, ends, r, k, room_at):
    """Have what will be free for a request on a type, with the last that has to end as it was."""
    tally = ends.tally
    if is_kept(w, g, ends, r, k, room_at):
        follow_nodes(w, g, ends)
    else:
        keep_anew(w, g, ends, r, k, room_at)
    tally[TALLY.LATE] = 0
    tally[TALLY.KEPT_LOG] = w.at[AT.LOGGED]
    tally[TALLY.KEPT_TOUCH] = g.regs[CALL.TOUCHED]


@kernel
def ended_by_then(rows, order, tally):
    """How many of those who are sorted have ended when the last did that has to."""
    first, end = 0, tally[TALLY.NEAR]
    while first < end:
        middle = (first + end) // 2
        at_ms = rows[order[middle], ENDING.AT_MS]
        is_ended = at_ms < tally[TALLY.LAST_MS] or (
            at_ms == tally[TALLY.LAST_MS] and order[middle] <= tally[TALLY.LAST_JOB]
        )
        if is_ended:
            first = middle + 1
        else:
            end = middle
    return first


@kernel
def is_enough(tally, wanted, short):
    """Whether a gang fits then, and so much has come back of its type."""
    return tally[TALLY.HOSTED] >= wanted and tally[TALLY.BACK] >= short


@kernel
def end_fewer(w, g, ends, ended, wanted, short):
    """Of those who have ended, how many have to, if not all."""
    while ended > 1:
        j = ends.order[ended - 1]
        end_one(w, g, ends, j, -1)
        if not is_enough(ends.tally, wanted, short):
            ends.tally[TALLY.IS_BOUND] = int(ends.tally[TALLY.HOSTED] < wanted)
            end_one(w, g, ends, j, 1)
            break
        ended -= 1
    return ended


@kernel
def end_more(w, g, ends, ended, wanted, short):
    """How many have to end, if more; -1: it does not fit when all have."""
    tally = ends.tally
    while ended == 0 or not is_enough(tally, wanted, short):
        if ended == tally[TALLY.NEAR] and not sort_more(w, ends):
            return -1
        tally[TALLY.IS_BOUND] = int(tally[TALLY.HOSTED] < wanted)
        end_one(w, g, ends, ends.order[ended], 1)
        ended += 1
    return ended


@kernel
def is_same(jobs, rows, tally, wanted, short):
    """Whether the same have to end as before.

    Nothing changed on nodes that can host something then, too few could be hosted without the last,
    and that is who it was.
    """
    j = tally[TALLY.LAST_JOB]
    if tally[TALLY.IS_SAME] == 0 or tally[TALLY.IS_BOUND] == 0 or tally[TALLY.GANG] != wanted:
        return False
    if tally[TALLY.BACK] < short or not is_there(jobs, rows, j):
        return False
    return rows[j, ENDING.AT_MS] == tally[TALLY.LAST_MS]


@kernel
def enough_then(w, g, ends, wanted, short):
    """How many of those who run must end until a gang fits; -1: not even all.

    As ``ends.enough_after``, of what is kept.
    """
    tally, ended = ends.tally, ended_by_then(ends.rows, ends.order, ends.tally)
    if is_same(w.jobs, ends.rows, tally, wanted, short):
        tally[TALLY.WANTED] = max(ended, tally[TALLY.WANTED] - (tally[TALLY.WANTED] >> 4))
        return ended
    tally[TALLY.IS_SAME] = 0
    tally[TALLY.IS_BOUND] = 0
    if is_enough(tally, wanted, short):
        ended = end_fewer(w, g, ends, ended, wanted, short)
    ended = end_more(w, g, ends, ended, wanted, short)
    if ended < 0:
        tally[TALLY.KEPT] = 0
        return -1
    tally[TALLY.LAST_JOB] = ends.order[ended - 1]
    tally[TALLY.LAST_MS] = ends.rows[ends.order[ended - 1], ENDING.AT_MS]
    tally[TALLY.WANTED] = max(ended, tally[TALLY.WANTED] - (tally[TALLY.WANTED] >> 4))
    tally[TALLY.GANG] = wanted
    return ended


# Where it sits then ---------------------------------------------------------------------------


@kernel
def best_then(g, ends, left):
    """The node that can host most of what is left of a gang; the tighter one among equals."""
    back, later, rows, best, best_hosts = ends.back, ends.later, g.regs[CALL.ROWS], -1, 0
    n = hosting_from(later, 0, 0, rows)
    while n < rows:
        hosted = min(back[n, REGAINED.HOSTED], left)
        if hosted > best_hosts or (
            hosted == best_hosts > 0
            and back[n, REGAINED.THEN_FREE] < back[best, REGAINED.THEN_FREE]
        ):
            best = n
            best_hosts = hosted
        n = hosting_from(later, 0, n + 1, rows)
    return best


@kernel
def put_then(back, out, i, n, replicas, accelerators):
    """Write one piece: on the first devices that are free as a whole then."""
    left, mask, d = replicas * accelerators, 0, 0
    while left > 0:
        if back[n, REGAINED.THEN_WHOLE] >> d & 1:
            mask |= bit(d)
            left -= 1
        d += 1
    out[i, OUT.NODE] = n
    out[i, OUT.REPLICAS] = replicas
    out[i, OUT.DEVICES] = mask
    back[n, REGAINED.NOW] = back[n, REGAINED.HOSTED]
    back[n, REGAINED.HOSTED] = 0


@kernel
def fill_then(g, ends, left):
    """Where a gang of whole devices sits that fits then; how many pieces it has.

    As ``sweeps.fill`` without spreading: on the nodes that host most, the tighter ones among
    equals; for one last replica on the tightest.
    """
    back, later, i, rows = ends.back, ends.later, 0, g.regs[CALL.ROWS]
    accelerators = g.requests[ends.tally[TALLY.KEPT] - 1, REQUEST.ACCELERATORS]
    while left > 0:
        n, at_least = best_then(g, ends, left), min(left - 1, 1)
        hosted, free = min(back[n, REGAINED.HOSTED], left), back[n, REGAINED.THEN_FREE]
        while n < rows and left > at_least and hosted <= left:
            is_as_good = min(back[n, REGAINED.HOSTED], left) == hosted
            if is_as_good and back[n, REGAINED.THEN_FREE] == free:
                put_then(back, g.out, i, n, hosted, accelerators)
                left -= hosted
                i += 1
            n = hosting_from(later, 0, n + 1, rows)
    for piece in range(i):
        n = g.out[piece, OUT.NODE]
        back[n, REGAINED.HOSTED] = back[n, REGAINED.NOW]
    return i


@kernel
def lend_hosts(w, g, ends, sign):
    """Give the room what is free then on nodes that can host something (1), or take it again."""
    r, rows = ends.tally[TALLY.KEPT] - 1, g.regs[CALL.ROWS]
    h, n = g.requests[r, REQUEST.HOSTS_ROW], hosting_from(ends.later, 0, 0, rows)
    while n < rows:
        lend(w, g, ends, n, sign)
        hosted = ends.back[n, REGAINED.NOW]
        if sign > 0:
            ends.back[n, REGAINED.NOW] = g.hosts[h, n]
            hosted = ends.back[n, REGAINED.HOSTED]
        note_hosted(g.requests, g.hosts, g.hosting, r, n, hosted)
        n = hosting_from(ends.later, 0, n + 1, rows)
