"""Pieces of a plan: what each takes of its node, and whether it may be there."""

from tidemill.engine.check.columns import BRANCH, OF, ON, RULE, SUM, TAKES
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.telling import tell
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.columns import JOB, NODE, ROLE, SHAPE
from tidemill.model.measures import WHOLE_MILLI

IS_KIND, IS_LABELS, IS_DEVICES, IS_SLICES, IS_NO_ROLE = map(
    int, (RULE.KIND, RULE.LABELS, RULE.DEVICES, RULE.SLICES, RULE.NO_ROLE)
)


@kernel
def is_legal(axes, of_role, roles, r, k, mask):
    """Whether an instance of a role's profile may take these slices of a device of this type.

    An instance of ``c`` compute slices takes a run of memory slices that begins at a multiple of
    its length, and the compute slice under its first memory slice and the ``c - 1`` after it must
    exist. Bit 8 of the mask are the media engines, which a ``+me`` instance takes.
    """
    if of_role[r, OF.COMPUTE] == 0 or mask <= 0:
        return False
    run, start, length = mask & 0xFF, 0, 0
    while start < 8 and not run >> start & 1:
        start += 1
    while run >> (start + length) & 1:
        length += 1
    return (
        length > 0
        and run == ((1 << length) - 1) << start
        and length * WHOLE_MILLI == roles[r, ROLE.MILLI] * axes[k, 0]
        and start % length == 0
        and start + of_role[r, OF.COMPUTE] <= axes[k, 1]
        and mask >> 8 == of_role[r, OF.MEDIA]
    )


@kernel
def take_devices(nodes, on_device, n, mask, milli):
    """Take devices of a node; how many of them it has, times 64, and the last of them."""
    there, last, first = 0, 0, nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            there, last = there + 1, d
            on_device[first + d, TAKES.MILLI] += milli
    return there * 64 + last


@kernel
def take_slices(nodes, on_device, n, d, mask):
    """Take slices of a device."""
    i = nodes[n, NODE.FIRST_DEVICE] + d
    on_device[i, TAKES.TWICE] |= on_device[i, TAKES.SLICES] & mask
    on_device[i, TAKES.SLICES] |= mask


@kernel
def bits(mask):
    """How many bits of a mask are set."""
    found = 0
    for d in range(64):
        found += mask >> d & 1
    return found


@kernel
def use(on_team, queue, q, k, milli):
    """A queue takes this much more of a type; for all that is above it too."""
    while q >= 0:
        on_team[q, k] += milli
        q = queue[q, BRANCH.PARENT]


@kernel
def take_piece(w, c, f, p, e, i, r):
    """Add up what a piece takes, and tell what is wrong with it by itself."""
    j, replicas = p.events[e, EventColumn.WHO], p.event_pieces[i, PieceColumn.REPLICAS]
    n, mask = p.event_pieces[i, PieceColumn.NODE], p.event_pieces[i, PieceColumn.DEVICES]
    slices = p.event_pieces[i, PieceColumn.SLICES]
    k, rule, milli = w.nodes[n, NODE.KIND], c.of_role[r, OF.RULE], w.roles[r, ROLE.MILLI]
    if f.wants[rule, k] == 0:
        tell(c.reg, c.wrong, IS_KIND, e, j, n, 0)
    if f.may_use[rule, c.on_node[n, ON.LOOK]] == 0:
        tell(c.reg, c.wrong, IS_LABELS, e, j, n, 0)
    held, is_sliced = bits(mask), c.of_role[r, OF.IS_SLICED] != 0
    taken = take_devices(w.nodes, c.on_device, n, mask, 0 if is_sliced else milli)
    there = taken >> 6
    if held != replicas * w.roles[r, ROLE.ACCELERATORS] or replicas < 1 or there < held:
        tell(c.reg, c.wrong, IS_DEVICES, e, j, n, held)
    if is_sliced or slices != 0:
        if there:
            take_slices(w.nodes, c.on_device, n, taken & 63, slices)
        legal = is_legal(f.axes, c.of_role, w.roles, r, k, slices)
        if replicas != 1 or not legal:
            tell(c.reg, c.wrong, IS_SLICES, e, j, i, 0)
    c.on_node[n, ON.CPU] += replicas * w.roles[r, ROLE.CPU]
    c.on_node[n, ON.MEMORY] += replicas * w.roles[r, ROLE.MEMORY]
    c.on_node[n, ON.IS_PLACED] = 1
    c.reg[SUM.PLACED] += 1
    use(c.on_team, c.queue, w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.QUEUE], k, there * milli)


@kernel
def take_pieces(w, c, f, p, e, count):
    """Add up the first so many pieces of a row of the plan."""
    j, first = p.events[e, EventColumn.WHO], p.events[e, EventColumn.FIRST]
    s = w.jobs[j, JOB.SHAPE]
    for i in range(first, first + count):
        role = p.event_pieces[i, PieceColumn.ROLE]
        if role < 0 or role >= w.shapes[s, SHAPE.ROLES]:
            tell(c.reg, c.wrong, IS_NO_ROLE, e, j, role, 0)
        else:
            take_piece(w, c, f, p, e, i, w.shapes[s, SHAPE.FIRST_ROLE] + role)
