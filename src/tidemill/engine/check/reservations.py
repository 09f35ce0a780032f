"""The plan checker on reservations: does whoever passes delay the first that waits?

By the columns, and by the estimates known: the first in the order that does not fit on a type would
fit at some moment if nobody passed it. At that moment, whoever passed it in this plan and is taken
to run on must leave it its room. That is the whole promise of ``easy``, and the first part of the
one of ``conservative``. Said for gangs of one role under orders that do not read run times, where
neither floors nor shares decide who is first; of anything else nothing is said.
"""

from tidemill.compiled import shared
from tidemill.engine.check.columns import END, OF, REG, RULE, YARD
from tidemill.engine.check.expecting import end_if_placed, end_of_active
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.telling import PLACE, tell
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import AT, DEVICE, JOB, NODE, PIECE, QUOTA, ROLE, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import NodeState

READY = int(NodeState.READY)
IS_DELAYED = int(RULE.DELAYED)
PLACED, MOVING = 1, 2  # in ``named``
READ_AT_ONCE = 2048
"""Nodes and running jobs; to read so many takes about as long as to read a plan ten times."""


# What would be free ---------------------------------------------------------------------------


@kernel
def count(nodes, roles, yard, yard_free, hosts, r, n):
    """Count again how many replicas of a role a node would host."""
    k = nodes[n, NODE.KIND]
    if yard[n, YARD.IS_OPEN] == 0 or hosts[k] < 0:
        return
    most, first, whole = roles[r, ROLE.COUNT], nodes[n, NODE.FIRST_DEVICE], 0
    if roles[r, ROLE.ACCELERATORS]:
        for d in range(first, first + nodes[n, NODE.DEVICES]):
            whole += yard_free[d] // roles[r, ROLE.MILLI]
        most = min(most, whole // roles[r, ROLE.ACCELERATORS])
    if roles[r, ROLE.CPU]:
        most = min(most, yard[n, YARD.CPU] // roles[r, ROLE.CPU])
    if roles[r, ROLE.MEMORY]:
        most = min(most, yard[n, YARD.MEMORY] // roles[r, ROLE.MEMORY])
    most = max(0, most)
    hosts[k] += most - yard[n, YARD.HOSTED]
    yard[n, YARD.HOSTED] = most


@kernel
def lay_out(nodes, devices, roles, yard, yard_free, hosts, node_count, r):
    """What is free now, for one role."""
    for n in range(node_count):
        yard[n, YARD.CPU] = nodes[n, NODE.CPU_FREE_MILLI]
        yard[n, YARD.MEMORY] = nodes[n, NODE.MEMORY_FREE_MIB]
        yard[n, YARD.HOSTED] = 0
        yard[n, YARD.IS_OPEN] = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
        first = nodes[n, NODE.FIRST_DEVICE]
        for d in range(first, first + nodes[n, NODE.DEVICES]):
            is_ok = devices[d, DEVICE.IS_FAILED] == 0
            yard_free[d] = devices[d, DEVICE.FREE_MILLI] if is_ok else 0
        count(nodes, roles, yard, yard_free, hosts, r, n)


@kernel
def move(nodes, devices, roles, yard, yard_free, of, n, replicas, mask):
    """Give back what replicas of the role ``of`` hold on a node; fewer than none: take it."""
    sign, first = 1 if replicas > 0 else -1, nodes[n, NODE.FIRST_DEVICE]
    yard[n, YARD.CPU] += replicas * roles[of, ROLE.CPU]
    yard[n, YARD.MEMORY] += replicas * roles[of, ROLE.MEMORY]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1 and devices[first + d, DEVICE.IS_FAILED] == 0:
            yard_free[first + d] += sign * roles[of, ROLE.MILLI]


@kernel
def place(w, p, y, r, e):
    """Take what a row of the plan places."""
    s, first = w.jobs[p.events[e, EventColumn.WHO], JOB.SHAPE], p.events[e, EventColumn.FIRST]
    for i in range(first, first + p.events[e, EventColumn.COUNT]):
        of = w.shapes[s, SHAPE.FIRST_ROLE] + p.event_pieces[i, PieceColumn.ROLE]
        n, mask = p.event_pieces[i, PieceColumn.NODE], p.event_pieces[i, PieceColumn.DEVICES]
        replicas = -p.event_pieces[i, PieceColumn.REPLICAS]
        move(w.nodes, w.devices, w.roles, y.yard, y.yard_free, of, n, replicas, mask)
        count(w.nodes, w.roles, y.yard, y.yard_free, y.hosts, r, n)


@kernel
def give_back(w, y, r, j):
    """Give back what a job holds."""
    first, at = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE], w.jobs[j, JOB.FIRST_PIECE]
    while at >= 0:
        if w.pieces[at, PIECE.IS_COMING] == 0:
            of, n = first + w.pieces[at, PIECE.ROLE], w.pieces[at, PIECE.NODE]
            replicas, mask = w.pieces[at, PIECE.REPLICAS], w.pieces[at, PIECE.DEVICES]
            move(w.nodes, w.devices, w.roles, y.yard, y.yard_free, of, n, replicas, mask)
            count(w.nodes, w.roles, y.yard, y.yard_free, y.hosts, r, n)
        at = w.pieces[at, PIECE.NEXT_OF_JOB]


@kernel
def fits(hosts, wanted):
    """Whether some type hosts the whole gang."""
    for k in range(len(hosts)):
        if hosts[k] >= wanted:
            return True
    return False


# Who ends when --------------------------------------------------------------------------------


@kernel
def ends_before(ends, a, b):
    """Whether one ends before another."""
    if ends[a, END.AT_MS] != ends[b, END.AT_MS]:
        return ends[a, END.AT_MS] < ends[b, END.AT_MS]
    return ends[a, END.JOB] < ends[b, END.JOB]


@kernel
def sink(ends, i, left):
    """Let an entry of the heap sink to where nobody below it ends before it."""
    while 2 * i + 1 < left:
        down = 2 * i + 1
        if down + 1 < left and ends_before(ends, down + 1, down):
            down += 1
        if not ends_before(ends, down, i):
            return
        for column in range(2):
            ends[i, column], ends[down, column] = ends[down, column], ends[i, column]
        i = down


@kernel
def expect(w, reg, named, ends):
    """Who is there, as a heap by when they are expected to end; how many they are."""
    left = w.at[AT.ACTIVE]
    for i in range(left):
        j = w.active[i]
        ends[i, END.JOB] = j
        ends[i, END.AT_MS] = FOREVER_MS
        if named[j] < MOVING:
            ends[i, END.AT_MS] = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
    for i in range(left // 2 - 1, -1, -1):
        sink(ends, i, left)
    return left


@kernel
def fits_at(w, y, r, left):
    """When enough has ended for a role, and what has is given back; -1: never."""
    ends = y.ends
    while left > 0:
        moment = ends[0, END.AT_MS]
        if moment >= FOREVER_MS:
            return -1
        while left > 0 and ends[0, END.AT_MS] == moment:
            give_back(w, y, r, ends[0, END.JOB])
            left -= 1
            ends[0, END.AT_MS] = ends[left, END.AT_MS]
            ends[0, END.JOB] = ends[left, END.JOB]
            sink(ends, 0, left)
        if fits(y.hosts, w.roles[r, ROLE.COUNT]):
            return moment
    return -1


# Who is passed --------------------------------------------------------------------------------


@kernel
def goes_before(jobs, shapes, reg, j, other):
    """Whether a waiting job is looked at before another."""
    if reg[REG.BY_PRIORITY] != 0:
        mine = shapes[jobs[j, JOB.SHAPE], SHAPE.PRIORITY]
        theirs = shapes[jobs[other, JOB.SHAPE], SHAPE.PRIORITY]
        if mine != theirs:
            return mine > theirs
    return j < other


@kernel
def wants_some(shapes, of_role, wants, claimed, s, claims):
    """Whether a shape may use a type that is claimed; with ``claims``: and claim all it may use."""
    first, found = shapes[s, SHAPE.FIRST_ROLE], False
    for r in range(first, first + shapes[s, SHAPE.ROLES]):
        for k in range(len(claimed)):
            if wants[of_role[r, OF.RULE], k]:
                found = found or claimed[k] > 0
                if claims:
                    claimed[k] = 1
    return found


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
    """The first in the order that waits and is passed, of those whose types nobody claimed."""
    found = -1
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        j = w.shapes[s, SHAPE.HEAD]
        while j >= 0 and c.named[j] == PLACED:
            j = w.jobs[j, JOB.NEXT]
        if j < 0 or not goes_before(w.jobs, w.shapes, c.reg, j, last):
            continue
        if wants_some(w.shapes, c.of_role, f.wants, claimed, s, 0):
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
def place_some(w, c, f, p, y, j, r, moment):
    """Take what those get who come before a job (-1), or pass it and end after a moment.

    False: somebody passes it who may not, since it was first passed too long ago.
    """
    passed = w.jobs[j, JOB.PASSED_MS]
    is_overdue = 0 <= passed <= c.reg[REG.NOW] - c.reg[REG.HOLD_AFTER_MS]
    for e in range(c.reg[REG.ROWS]):
        who = p.events[e, EventColumn.WHO]
        if p.events[e, EventColumn.KIND] != PLACE:
            continue
        if goes_before(w.jobs, w.shapes, c.reg, who, j):
            if moment < 0:
                place(w, p, y, r, e)
        elif moment >= 0 and is_overdue:
            if share_types(w.shapes, c.of_role, f.wants, r, w.jobs[who, JOB.SHAPE]):
                return False
        elif moment >= 0:
            end = end_if_placed(w.jobs, w.shapes, w.run_times, w.ratios, c.reg, who)
            if end > moment:
                place(w, p, y, r, e)
    return True


@kernel
def is_delayed(w, c, f, p, y, j):
    """Whether a job would fit at some moment but for those who pass it in this plan."""
    s = w.jobs[j, JOB.SHAPE]
    r = w.shapes[s, SHAPE.FIRST_ROLE]
    wanted = w.roles[r, ROLE.COUNT]
    if f.of_shape[s, 2] == 0 or may_be_limited(
        w.jobs, w.shapes, w.quotas, p.events, c.reg[REG.ROWS], s
    ):
        return False
    for k in range(len(y.hosts)):
        y.hosts[k] = f.wants[c.of_role[r, OF.RULE], k] - 1
    lay_out(w.nodes, w.devices, w.roles, y.yard, y.yard_free, y.hosts, c.reg[REG.NODES], r)
    place_some(w, c, f, p, y, j, r, -1)
    if fits(y.hosts, wanted):
        return False
    moment = fits_at(w, y, r, expect(w, c.reg, c.named, y.ends))
    if moment < 0:
        return False
    if not place_some(w, c, f, p, y, j, r, moment):
        return True
    return not fits(y.hosts, wanted)


@kernel
def is_turn(seq, nodes_there, active_there):
    """Whether it is the turn of a plan to be read for whom it delays.

    Every plan's, on a fleet of up to ``READ_AT_ONCE`` nodes and running jobs.
    """
    return seq % (1 + (nodes_there + active_there) // READ_AT_ONCE) == 0


@kernel
def is_judged(reg):
    """Whether it can be said whom a plan delays that was read; it can if it is plain enough."""
    if reg[REG.JUDGES] == 0 or reg[REG.IS_FLAT] == 0 or reg[REG.SLICED] != 0:
        return False
    return reg[REG.PLACES_ONLY] != 0


@kernel
@shared
def read_passing(w, c, f, p, y):
    """Tell who is delayed by those who pass it in this plan, in which only placing goes on.

    Who makes room, or takes nodes away, changes what was counted on.
    """
    last = -1
    for e in range(c.reg[REG.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            j = p.events[e, EventColumn.WHO]
            c.named[j] += PLACED
            if last < 0 or goes_before(w.jobs, w.shapes, c.reg, last, j):
                last = j
    for k in range(len(y.claimed)):
        y.claimed[k] = 0
    j = next_passed(w, c, f, y.claimed, last) if last >= 0 else -1
    while j >= 0:
        if is_delayed(w, c, f, p, y, j):
            tell(c.reg, c.wrong, IS_DELAYED, 0, j, 0, 0)
        wants_some(w.shapes, c.of_role, f.wants, y.claimed, w.jobs[j, JOB.SHAPE], 1)
        following = next_passed(w, c, f, y.claimed, last)
        j = following if following != j else -1
    for e in range(c.reg[REG.ROWS]):
        if p.events[e, EventColumn.KIND] == PLACE:
            c.named[p.events[e, EventColumn.WHO]] -= PLACED
    return c.reg[REG.WRONGS]
