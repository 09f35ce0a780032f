"""The sums of a plan, compared with what there is; they are zero again afterwards."""

from tidemill.engine.check.columns import BRANCH, ON, RULE, SUM, TAKES
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.telling import ABOUT, CANCEL, EVICT, MOVE, NODES, PLACE, tell
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import DEVICE, JOB, KIND, NODE, QUOTA, SHAPE
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import NodeState

READY = int(NodeState.READY)
IS_CLOSED, IS_CPU, IS_MEMORY, IS_DEVICE, IS_SLICE, IS_CUT = map(
    int, (RULE.CLOSED, RULE.CPU, RULE.MEMORY, RULE.DEVICE, RULE.SLICE, RULE.CUT)
)
IS_LIMIT, IS_KEPT, IS_JOB_TWICE, IS_NODE_TWICE, IS_AT_ONCE = map(
    int, (RULE.LIMIT, RULE.KEPT, RULE.JOB_TWICE, RULE.NODE_TWICE, RULE.AT_ONCE)
)


@kernel
def finish_device(reg, wrong, nodes, devices, on_device, e, n, d):
    """Compare what is taken of a device with what is free; and forget it."""
    i = nodes[n, NODE.FIRST_DEVICE] + d
    milli, mask = on_device[i, TAKES.MILLI], on_device[i, TAKES.SLICES]
    is_failed, has = devices[i, DEVICE.IS_FAILED] != 0, devices[i, DEVICE.SLICES]
    if milli and (is_failed or milli > devices[i, DEVICE.FREE_MILLI]):
        tell(reg, wrong, IS_DEVICE, e, n, d, 0)
    is_whole = devices[i, DEVICE.FREE_MILLI] == WHOLE_MILLI
    for bit in range(9 if mask else 0):
        if mask >> bit & 1 == 0:
            continue
        if is_failed or (on_device[i, TAKES.TWICE] | has) >> bit & 1:
            tell(reg, wrong, IS_SLICE, e, n, d, bit)
        elif milli or not (has or is_whole):
            tell(reg, wrong, IS_CUT, e, n, d, 0)
    on_device[i, TAKES.MILLI] = 0
    on_device[i, TAKES.SLICES] = 0
    on_device[i, TAKES.TWICE] = 0


@kernel
def finish_node(reg, wrong, nodes, devices, on_node, on_device, e, n):
    """Compare what is taken of a node with what it has; and forget it."""
    if on_node[n, ON.IS_PLACED] == 0:
        return
    if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
        tell(reg, wrong, IS_CLOSED, e, n, 0, 0)
    if on_node[n, ON.CPU] > nodes[n, NODE.CPU_FREE_MILLI]:
        tell(reg, wrong, IS_CPU, e, n, 0, 0)
    if on_node[n, ON.MEMORY] > nodes[n, NODE.MEMORY_FREE_MIB]:
        tell(reg, wrong, IS_MEMORY, e, n, 0, 0)
    for d in range(nodes[n, NODE.DEVICES]):
        finish_device(reg, wrong, nodes, devices, on_device, e, n, d)
    if on_node[n, ON.NAMED] > 0:
        tell(reg, wrong, IS_AT_ONCE, e, n, 0, 0)
    on_node[n, ON.CPU] = 0
    on_node[n, ON.MEMORY] = 0
    on_node[n, ON.IS_PLACED] = 0


@kernel
def kept(quotas, on_team, lends, queue, k, after):
    """What queues do not lend of their floors, before the plan or after it; from the leaves up."""
    total = 0
    for q in range(len(queue)):
        queue[q, BRANCH.BELOW] = 0
    for i in range(len(queue)):
        q, keeps = queue[i, BRANCH.UPWARD], 0
        used = quotas[q, k, QUOTA.USED] + after * on_team[q, k]
        if lends[q, k] >= 0:
            keeps = max(0, quotas[q, k, QUOTA.FLOOR] - lends[q, k]) - used
        keeps = max(keeps, queue[q, BRANCH.BELOW])
        if queue[q, BRANCH.PARENT] >= 0:
            queue[queue[q, BRANCH.PARENT], BRANCH.BELOW] += keeps
        else:
            total += keeps
    return total


@kernel
def finish_kept(reg, wrong, kinds, quotas, on_team, lends, queue, k):
    """What queues do not lend of their floors must stay free for them, or not get less."""
    taken = 0
    for q in range(len(queue)):
        if queue[q, BRANCH.PARENT] < 0:
            taken += on_team[q, k]
    if taken:
        free = max(kinds[k, KIND.FREE_MILLI], kept(quotas, on_team, lends, queue, k, 0))
        if kept(quotas, on_team, lends, queue, k, 1) + taken > free:
            tell(reg, wrong, IS_KEPT, 0, 0, taken, k)


@kernel
def finish_team(reg, wrong, quotas, on_team, queue, e, q, forgets):
    """Compare what a queue and those above it take with their limits; or forget it."""
    while q >= 0:
        for k in range(on_team.shape[1]):
            milli = on_team[q, k]
            if forgets:
                on_team[q, k] = 0
            elif milli and quotas[q, k, QUOTA.USED] + milli > quotas[q, k, QUOTA.LIMIT]:
                tell(reg, wrong, IS_LIMIT, e, q, k, 0)
                on_team[q, k] = -milli  # it is told once
        q = queue[q, BRANCH.PARENT]


@kernel
def forget_leaving(leaving, queue, q):
    """What a queue and those above it lose is forgotten."""
    while q >= 0:
        for k in range(leaving.shape[1]):
            leaving[q, k] = 0
        q = queue[q, BRANCH.PARENT]


@kernel
def finish_name(reg, wrong, on_node, named, kind, who, e):
    """Nothing is asked twice of a job or of a node."""
    if kind in (PLACE, EVICT, MOVE, CANCEL):
        if named[who] > 1:
            tell(reg, wrong, IS_JOB_TWICE, e, who, 0, 0)
        named[who] = 0
    if ABOUT[kind] == NODES:
        if on_node[who, ON.NAMED] > 1:
            tell(reg, wrong, IS_NODE_TWICE, e, who, 0, 0)
        on_node[who, ON.NAMED] = 0


@kernel
def finish(w, c, p):
    """Compare all sums with what there is, and leave them at zero."""
    reg, wrong, events, rows = c.reg, c.wrong, p.events, c.reg[SUM.ROWS]
    for e in range(rows):
        first = events[e, EventColumn.FIRST]
        for i in range(first, first + events[e, EventColumn.COUNT]):
            n = p.event_pieces[i, PieceColumn.NODE]
            finish_node(reg, wrong, w.nodes, w.devices, c.on_node, c.on_device, e, n)
    for k in range(c.on_team.shape[1] if reg[SUM.PLACED] and reg[SUM.KEEPS] else 0):
        finish_kept(reg, wrong, w.kinds, w.quotas, c.on_team, c.lends, c.queue, k)
    for forgets in range(2 if reg[SUM.PLACED] else 0):
        for e in range(rows):
            if events[e, EventColumn.COUNT]:
                s = w.jobs[events[e, EventColumn.WHO], JOB.SHAPE]
                q = w.shapes[s, SHAPE.QUEUE]
                finish_team(reg, wrong, w.quotas, c.on_team, c.queue, e, q, forgets)
    for e in range(rows):
        kind, who = events[e, EventColumn.KIND], events[e, EventColumn.WHO]
        finish_name(reg, wrong, c.on_node, c.named, kind, who, e)
        if kind in (EVICT, MOVE):
            q = w.shapes[w.jobs[who, JOB.SHAPE], SHAPE.QUEUE]
            forget_leaving(c.leaving, c.queue, q)
