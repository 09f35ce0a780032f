"""What would be free for one role: now, and after some have gone or come.

What is free now is kept from one plan to the next: only nodes that changed since are read again
(the state's log of changed nodes says which). Whatever a question takes or gives back is undone
when it was answered, so its cost grows with the plan, not with the fleet.
"""

from tidemill.engine.check.columns import SUM, UPKEEP, YARD
from tidemill.engine.check.kernel import kernel
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import AT, DEVICE, JOB, NODE, PIECE, ROLE, SHAPE
from tidemill.model.states import NodeState

READY = int(NodeState.READY)


@kernel
def count(nodes, roles, yard, yard_free, hosts, kept, r, n):
    """Count again how many replicas of a role a node would host."""
    k = nodes[n, NODE.KIND]
    if yard[n, YARD.IS_OPEN] == 0 or hosts[k] < 0:
        return
    most, first, whole = kept[UPKEEP.WANTED], nodes[n, NODE.FIRST_DEVICE], 0
    if roles[r, ROLE.ACCELERATORS]:
        for d in range(first, first + nodes[n, NODE.DEVICES]):
            if yard_free[d] >= roles[r, ROLE.MILLI]:
                whole += yard_free[d] // roles[r, ROLE.MILLI]
        most = min(most, whole // roles[r, ROLE.ACCELERATORS]) if whole else 0
    if roles[r, ROLE.CPU] and most:
        most = min(most, yard[n, YARD.CPU] // roles[r, ROLE.CPU])
    if roles[r, ROLE.MEMORY] and most:
        most = min(most, yard[n, YARD.MEMORY] // roles[r, ROLE.MEMORY])
    most = max(0, most)
    hosts[k] += most - yard[n, YARD.HOSTED]
    yard[n, YARD.HOSTED] = most


@kernel
def lay_node(nodes, devices, roles, yard, yard_free, hosts, kept, r, n):
    """What is free of a node now, for one role."""
    k = nodes[n, NODE.KIND]
    if hosts[k] >= 0:
        hosts[k] -= yard[n, YARD.HOSTED]
    yard[n, YARD.CPU] = nodes[n, NODE.CPU_FREE_MILLI]
    yard[n, YARD.MEMORY] = nodes[n, NODE.MEMORY_FREE_MIB]
    yard[n, YARD.HOSTED] = 0
    yard[n, YARD.IS_OPEN] = nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0
    yard[n, YARD.IS_TOUCHED] = 0
    first = nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        is_ok = devices[d, DEVICE.IS_FAILED] == 0
        yard_free[d] = devices[d, DEVICE.FREE_MILLI] if is_ok else 0
    count(nodes, roles, yard, yard_free, hosts, kept, r, n)


@kernel
def lay_out(w, c, f, y, r, rule):
    """What is free now, for one role: nodes that changed since the last plan are read again."""
    kept, node_count, read_to = y.kept, c.reg[SUM.NODES], w.at[AT.LOGGED]
    since = kept[UPKEEP.LAID_TO]
    is_known = since >= w.at[AT.LOG_FIRST] and read_to - since <= len(w.log)
    if kept[UPKEEP.LAID] == node_count and kept[UPKEEP.ROLE] == r and is_known:
        for i in range(since, read_to):
            n = w.log[i % len(w.log)]
            lay_node(w.nodes, w.devices, w.roles, y.yard, y.yard_free, y.hosts, y.kept, r, n)
    else:
        for k in range(len(y.hosts)):
            y.hosts[k] = f.wants[rule, k] - 1
        for n in range(node_count):
            y.yard[n, YARD.HOSTED] = 0
            lay_node(w.nodes, w.devices, w.roles, y.yard, y.yard_free, y.hosts, y.kept, r, n)
    kept[UPKEEP.LAID_TO] = read_to
    kept[UPKEEP.LAID] = node_count
    kept[UPKEEP.ROLE] = r
    kept[UPKEEP.TOUCHED] = 0


@kernel
def clear_up(w, y, r):
    """Undo what was taken and given back since it was laid out."""
    for i in range(y.kept[UPKEEP.TOUCHED]):
        n = y.touched[i]
        lay_node(w.nodes, w.devices, w.roles, y.yard, y.yard_free, y.hosts, y.kept, r, n)
    y.kept[UPKEEP.TOUCHED] = 0


@kernel
def move(w, y, r, of, n, replicas, mask):
    """Give back what replicas of the role ``of`` hold on a node; fewer than none: take it."""
    sign, first = 1 if replicas > 0 else -1, w.nodes[n, NODE.FIRST_DEVICE]
    if y.yard[n, YARD.IS_TOUCHED] == 0:
        y.yard[n, YARD.IS_TOUCHED] = 1
        y.touched[y.kept[UPKEEP.TOUCHED]] = n
        y.kept[UPKEEP.TOUCHED] += 1
    y.yard[n, YARD.CPU] += replicas * w.roles[of, ROLE.CPU]
    y.yard[n, YARD.MEMORY] += replicas * w.roles[of, ROLE.MEMORY]
    for d in range(w.nodes[n, NODE.DEVICES]):
        if mask >> d & 1 and w.devices[first + d, DEVICE.IS_FAILED] == 0:
            y.yard_free[first + d] += sign * w.roles[of, ROLE.MILLI]
    count(w.nodes, w.roles, y.yard, y.yard_free, y.hosts, y.kept, r, n)


@kernel
def place(w, p, y, r, e):
    """Take what a row of the plan places."""
    s, first = w.jobs[p.events[e, EventColumn.WHO], JOB.SHAPE], p.events[e, EventColumn.FIRST]
    for i in range(first, first + p.events[e, EventColumn.COUNT]):
        of = w.shapes[s, SHAPE.FIRST_ROLE] + p.event_pieces[i, PieceColumn.ROLE]
        n, mask = p.event_pieces[i, PieceColumn.NODE], p.event_pieces[i, PieceColumn.DEVICES]
        move(w, y, r, of, n, -p.event_pieces[i, PieceColumn.REPLICAS], mask)


@kernel
def give_back(w, y, r, j):
    """Give back what a job holds."""
    first, at = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE], w.jobs[j, JOB.FIRST_PIECE]
    while at >= 0:
        if w.pieces[at, PIECE.IS_COMING] == 0:
            of, n = first + w.pieces[at, PIECE.ROLE], w.pieces[at, PIECE.NODE]
            move(w, y, r, of, n, w.pieces[at, PIECE.REPLICAS], w.pieces[at, PIECE.DEVICES])
        at = w.pieces[at, PIECE.NEXT_OF_JOB]


@kernel
def fits(hosts, wanted):
    """Whether some type hosts the whole gang."""
    for k in range(len(hosts)):
        if hosts[k] >= wanted:
            return True
    return False
