"""The rooms of a plan of the whole fleet: emptied, and taken or given back job by job."""

from tidemill.model.columns import JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import NodeState
from tidemill.scheduling.fitting.books import count_used
from tidemill.scheduling.fitting.columns import CALL, PART, REQUEST, SPOT
from tidemill.scheduling.fitting.sweeps import give
from tidemill.scheduling.preemptive_order.columns import PLANNED
from tidemill.scheduling.preemptive_order.kernel import kernel

READY = int(NodeState.READY)


@kernel
def forget_counts(requests):
    """Something has changed that nobody was told of; as ``Requests.forget_ranks``."""
    for i in range(len(requests)):
        requests[i, REQUEST.READ] = -1
        for column in range(REQUEST.TOTAL_AT, REQUEST.HOSTS_SUM):
            requests[i, column] = 0


@kernel
def empty(w, v):
    """Pretend that nothing runs: every working device is free; as ``Snapshot.empty``."""
    nodes, spots, parts, regs = w.nodes, v.spots, v.parts, v.regs
    for n in range(regs[CALL.ROWS]):
        opens = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
        spots[n, SPOT.IS_OPEN] = int(opens)
        spots[n, SPOT.CPU] = nodes[n, NODE.CPU_MILLI]
        spots[n, SPOT.MEMORY] = nodes[n, NODE.MEMORY_MIB]
        spots[n, SPOT.FREE] = (nodes[n, NODE.DEVICES] - nodes[n, NODE.FAILED]) * WHOLE_MILLI
    for i in range(len(parts)):
        parts[i, PART.FREE] = WHOLE_MILLI
        parts[i, PART.SLICES] = 0
    forget_counts(v.requests)
    regs[CALL.TOUCHED] += 1
    regs[CALL.CLEAN] = regs[CALL.TOUCHED]


# What jobs hold -------------------------------------------------------------------------------


@kernel
def give_piece(w, g, role, n, replicas, mask, sign):
    """Give a piece of a role back to its node (1), or take it (-1)."""
    roles = w.roles
    give(
        w.nodes, g.regs, g.touched, g.spots, g.parts, n, replicas, mask,
        roles[role, ROLE.ACCELERATORS], roles[role, ROLE.MILLI], roles[role, ROLE.CPU],
        roles[role, ROLE.MEMORY], sign,
    )  # fmt: skip


@kernel
def move_job(w, g, j, sign):
    """Give back all that a job holds (1), or take it again (-1)."""
    first, p = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE], w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            n, replicas = w.pieces[p, PIECE.NODE], w.pieces[p, PIECE.REPLICAS]
            give_piece(
                w, g, first + w.pieces[p, PIECE.ROLE], n, replicas, w.pieces[p, PIECE.DEVICES], sign
            )
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def move_seat(w, g, given, s, first, count, sign):
    """The same for the pieces of a seat that was found for a job of a shape."""
    role = w.shapes[s, SHAPE.FIRST_ROLE]
    for p in range(first, first + count):
        n, replicas = given[p, PLANNED.NODE], given[p, PLANNED.REPLICAS]
        give_piece(w, g, role, n, replicas, given[p, PLANNED.DEVICES], sign)


# The books of the room in which seats are tried -------------------------------------------------


@kernel
def count_piece(w, d, g, s, role, n, replicas, sign):
    """Count a piece as not used any more (1), or as used (-1); as ``Snapshot.book``."""
    k = w.nodes[n, NODE.KIND]
    milli = sign * replicas * w.roles[role, ROLE.ACCELERATORS] * w.roles[role, ROLE.MILLI]
    if g.spots[n, SPOT.IS_OPEN] != 0:  # what leaves a closed node is free to nobody
        d.free[k] += milli
    q = w.shapes[s, SHAPE.QUEUE]
    count_used(w.at, w.queues, w.quotas, d.used, d.below, d.kept, q, k, -milli)


@kernel
def lift(w, d, g, j, sign):
    """Give back all that a job holds (1), or put it back (-1), with the books."""
    s, p = w.jobs[j, JOB.SHAPE], w.jobs[j, JOB.FIRST_PIECE]
    move_job(w, g, j, sign)
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            role = w.shapes[s, SHAPE.FIRST_ROLE] + w.pieces[p, PIECE.ROLE]
            n, replicas = w.pieces[p, PIECE.NODE], w.pieces[p, PIECE.REPLICAS]
            count_piece(w, d, g, s, role, n, replicas, sign)
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def count_seat(w, d, g, given, s, first, count, sign):
    """Count the pieces of a seat."""
    role = w.shapes[s, SHAPE.FIRST_ROLE]
    for p in range(first, first + count):
        n, replicas = given[p, PLANNED.NODE], given[p, PLANNED.REPLICAS]
        count_piece(w, d, g, s, role, n, replicas, sign)


# Whether it is free -----------------------------------------------------------------------------


@kernel
def is_sound(w, g, n):
    """Whether no more of a node is taken than it has."""
    if g.spots[n, SPOT.CPU] < 0 or g.spots[n, SPOT.MEMORY] < 0:
        return False
    first = w.nodes[n, NODE.FIRST_DEVICE]
    for i in range(first, first + w.nodes[n, NODE.DEVICES]):
        if g.parts[i, PART.FREE] < 0:
            return False
    return True


@kernel
def take_seat(w, g, given, s, first, count):
    """Take a seat, if it is free; whether it is."""
    move_seat(w, g, given, s, first, count, -1)
    for p in range(first, first + count):
        if not is_sound(w, g, given[p, PLANNED.NODE]):
            move_seat(w, g, given, s, first, count, 1)
            return False
    return True


@kernel
def sit_again(w, g, j):
    """Have a job that was lifted sit where it did, if that is free; whether it is."""
    move_job(w, g, j, -1)
    p = w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0 and not is_sound(w, g, w.pieces[p, PIECE.NODE]):
            move_job(w, g, j, 1)
            return False
        p = w.pieces[p, PIECE.NEXT_OF_JOB]
    return True
