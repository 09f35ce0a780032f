"""Where jobs sit: pieces on nodes, what is free of devices, CPU and memory, and contracts' levels.

Every change to a node is made between ``take_out`` and ``put_back``, which move the node's
accelerators out of and into the levels of its contract; so the levels are right by construction. A
device that carries MIG instances has nothing free by the milli; what its free slices are worth is
in the node's sum, or, where no profile can use them any more, in what is stranded.
"""

from tidemill.core.kernel import kernel
from tidemill.model.columns import (
    AT,
    DEVICE,
    JOB,
    KIND,
    MIG_STATES,
    NODE,
    NONE,
    PIECE,
    ROLE,
    SHAPE,
)
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import Level, NodeState
from tidemill.model.whys import Why

ASKED, BOOTING, READY, UNHEALTHY, CORDONED, DRAINING, REPAIRING, GONE = map(int, NodeState)
LEVEL_BY_STATE = tuple(
    int(Level[state.name]) if state.name in Level.__members__ else int(Level.READY)
    for state in NodeState
)
"""Where the free accelerators of a node are that takes no new work."""
LOST = list(Why).index(Why.NODE_LOST)
"""Why a node is closed that is down while work is still shown on it: it is unhealthy."""
WHOLE = WHOLE_MILLI
DEVICES_AT_MOST = 64


@kernel
def shift(nodes, levels, kinds, n, sign):
    """Add the accelerators of a node to the levels of its contract (1), or remove them (-1)."""
    state, c = nodes[n, NODE.STATE], nodes[n, NODE.CONTRACT]
    if state in (ASKED, GONE):
        return
    free, stranded = sign * nodes[n, NODE.FREE_MILLI], sign * nodes[n, NODE.STRANDED_MILLI]
    levels[c, Level.FAILED] += sign * nodes[n, NODE.FAILED] * WHOLE
    if nodes[n, NODE.IS_UNSEEN] != 0:
        levels[c, Level.UNSEEN] += free + stranded
    elif state == CORDONED and nodes[n, NODE.WHY] == LOST:
        levels[c, Level.UNHEALTHY] += free + stranded
    elif state != READY:
        levels[c, LEVEL_BY_STATE[state]] += free + stranded
    elif nodes[n, NODE.IS_SPARE] != 0:
        levels[c, Level.SPARE] += free + stranded
    else:
        levels[c, Level.READY] += free
        levels[c, Level.STRANDED] += stranded
        kinds[nodes[n, NODE.KIND], KIND.FREE_MILLI] += free


@kernel
def take_out(nodes, levels, kinds, n):
    """Remove the node's accelerators from the levels of its contract, before a change."""
    shift(nodes, levels, kinds, n, -1)


@kernel
def put_back(at, nodes, levels, kinds, log, n):
    """Add the node's accelerators to the levels of its contract, after a change."""
    shift(nodes, levels, kinds, n, 1)
    log[at[AT.LOGGED] % len(log)] = n
    at[AT.LOGGED] += 1


@kernel
def change_slices(at, nodes, devices, slices, n, d, mask, sign):
    """Give an instance its slices (-1) or take them back; what is free and stranded follows."""
    k, before = nodes[n, NODE.KIND], devices[d, DEVICE.SLICES]
    after = before | mask if sign < 0 else before & ~mask
    at[AT.SLICED] += min(after, 1) - min(before, 1)
    devices[d, DEVICE.SLICES] = after
    devices[d, DEVICE.FREE_MILLI] = 0 if after > 0 else WHOLE
    nodes[n, NODE.FREE_MILLI] += slices[k, after] - slices[k, before]
    nodes[n, NODE.STRANDED_MILLI] += slices[k, MIG_STATES + after] - slices[k, MIG_STATES + before]


@kernel
def move_devices(nodes, devices, n, mask, milli, sign):
    """Give devices of a node back (1) or take them (-1), each by so much."""
    first = nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            devices[first + d, DEVICE.FREE_MILLI] += sign * milli


@kernel
def change(w, p, sign):
    """Take what a piece holds (-1), or give it back (1); devices, CPU, memory and levels."""
    pieces, nodes, levels = w.pieces, w.nodes, w.levels
    n, replicas, mask = pieces[p, PIECE.NODE], pieces[p, PIECE.REPLICAS], pieces[p, PIECE.DEVICES]
    j = pieces[p, PIECE.JOB]
    r = w.shapes[w.jobs[j, JOB.SHAPE], SHAPE.FIRST_ROLE] + pieces[p, PIECE.ROLE]
    each = w.roles[r, ROLE.MILLI]
    milli = replicas * w.roles[r, ROLE.ACCELERATORS] * each
    take_out(nodes, levels, w.kinds, n)
    if pieces[p, PIECE.SLICES] != 0:
        d = nodes[n, NODE.FIRST_DEVICE]
        while mask & 1 == 0:
            mask >>= 1
            d += 1
        change_slices(w.at, nodes, w.devices, w.slices, n, d, pieces[p, PIECE.SLICES], sign)
    else:
        move_devices(nodes, w.devices, n, mask, each, sign)
        nodes[n, NODE.FREE_MILLI] += sign * milli
    nodes[n, NODE.CPU_FREE_MILLI] += sign * replicas * w.roles[r, ROLE.CPU]
    nodes[n, NODE.MEMORY_FREE_MIB] += sign * replicas * w.roles[r, ROLE.MEMORY]
    put_back(w.at, nodes, levels, w.kinds, w.log, n)
    levels[nodes[n, NODE.CONTRACT], Level.ALLOCATED] -= sign * milli
    return milli


@kernel
def hang_on_node(pieces, nodes, p, n):
    """A piece is the first in the chain of its node."""
    after = nodes[n, NODE.FIRST_PIECE]
    pieces[p, PIECE.PREVIOUS_ON_NODE] = NONE
    pieces[p, PIECE.NEXT_ON_NODE] = after
    if after >= 0:
        pieces[after, PIECE.PREVIOUS_ON_NODE] = p
    nodes[n, NODE.FIRST_PIECE] = p


@kernel
def take_off_node(pieces, nodes, p):
    """A piece is in the chain of its node no more."""
    before, after = pieces[p, PIECE.PREVIOUS_ON_NODE], pieces[p, PIECE.NEXT_ON_NODE]
    if before >= 0:
        pieces[before, PIECE.NEXT_ON_NODE] = after
    else:
        nodes[pieces[p, PIECE.NODE], NODE.FIRST_PIECE] = after
    if after >= 0:
        pieces[after, PIECE.PREVIOUS_ON_NODE] = before


@kernel
def vacate(w, p, now):
    """A piece that is in no chain of a job any more is given back to its node."""
    at, nodes, pieces = w.at, w.nodes, w.pieces
    n = pieces[p, PIECE.NODE]
    change(w, p, 1)
    w.kinds[nodes[n, NODE.KIND], KIND.FREED] += 1
    take_off_node(pieces, nodes, p)
    if nodes[n, NODE.FIRST_PIECE] < 0:
        nodes[n, NODE.EMPTIED_MS] = now
        if nodes[n, NODE.STATE] != READY:
            at[AT.SUPPLY_CHANGES] += 1
    pieces[p, PIECE.NEXT_OF_JOB] = at[AT.FREE_PIECE]
    at[AT.FREE_PIECE] = p
    at[AT.PIECES] -= 1


@kernel
def is_part(pieces, found, i, p):
    """Whether a piece holds at least what was found, of the same role on the same node."""
    return (
        pieces[p, PIECE.IS_COMING] == 0
        and pieces[p, PIECE.ROLE] == found[i, PIECE.ROLE]
        and pieces[p, PIECE.NODE] == found[i, PIECE.NODE]
        and pieces[p, PIECE.SLICES] == found[i, PIECE.SLICES]
        and pieces[p, PIECE.REPLICAS] >= found[i, PIECE.REPLICAS]
        and found[i, PIECE.DEVICES] & ~pieces[p, PIECE.DEVICES] == 0
    )


@kernel
def cut(at, pieces, nodes, found, i, p):
    """Cut what was found off a piece: a piece of its own, in the chain of no job."""
    part = at[AT.FREE_PIECE]
    at[AT.FREE_PIECE] = pieces[part, PIECE.NEXT_OF_JOB]
    at[AT.PIECES] += 1
    for column in range(pieces.shape[1]):
        pieces[part, column] = pieces[p, column]
    pieces[part, PIECE.REPLICAS] = found[i, PIECE.REPLICAS]
    pieces[part, PIECE.DEVICES] = found[i, PIECE.DEVICES]
    pieces[p, PIECE.REPLICAS] -= found[i, PIECE.REPLICAS]
    pieces[p, PIECE.DEVICES] ^= found[i, PIECE.DEVICES]
    hang_on_node(pieces, nodes, part, pieces[p, PIECE.NODE])
    return part


@kernel
def hang_after(pieces, jobs, j, last, p):
    """Let a piece, or none, come after another one in the chain of a job, or first in it."""
    if last >= 0:
        pieces[last, PIECE.NEXT_OF_JOB] = p
    else:
        jobs[j, JOB.FIRST_PIECE] = p


@kernel
def hang(w, j, count, is_coming):
    """Hang the pieces that were found into the chains of a job and of their nodes; the first.

    Whoever calls has seen to it that ``pieces`` has so many rows that nobody has.
    """
    at, jobs, pieces, found = w.at, w.jobs, w.pieces, w.found
    last, first, p = NONE, NONE, jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        last, p = p, pieces[p, PIECE.NEXT_OF_JOB]
    for i in range(count):
        p = at[AT.FREE_PIECE]
        at[AT.FREE_PIECE] = pieces[p, PIECE.NEXT_OF_JOB]
        for column in range(PIECE.ROLE, PIECE.IS_COMING):
            pieces[p, column] = found[i, column]
        pieces[p, PIECE.JOB] = j
        pieces[p, PIECE.IS_COMING] = is_coming
        pieces[p, PIECE.NEXT_OF_JOB] = NONE
        hang_after(pieces, jobs, j, last, p)
        if i == 0:
            first = p
        last = p
        hang_on_node(pieces, w.nodes, p, pieces[p, PIECE.NODE])
    at[AT.PIECES] += count
    return first


@kernel
def is_in_block(mask, block):
    """Whether all devices of a mask are in one block of so many neighbours."""
    start = NONE
    for d in range(DEVICES_AT_MOST):
        if mask >> d & 1:
            if start < 0:
                start = d // block * block
            elif d >= start + block:
                return False
    return True


@kernel
def hop_of(w, j):
    """The worst hop of a gang: the innermost tier that holds all of it (``model.topology``)."""
    pieces, position, blocks = w.pieces, w.position, w.blocks
    labelled, tiers = w.at[AT.LABELLED], w.at[AT.TIERS]
    first = w.jobs[j, JOB.FIRST_PIECE]
    n, mask, is_one, p = pieces[first, PIECE.NODE], 0, True, first
    while p >= 0:
        is_one = is_one and pieces[p, PIECE.NODE] == n
        mask |= pieces[p, PIECE.DEVICES]
        p = pieces[p, PIECE.NEXT_OF_JOB]
    if not is_one:
        found = 0
        for t in range(labelled):
            is_one, p = True, first
            while p >= 0:
                is_one = is_one and position[t, pieces[p, PIECE.NODE]] == position[t, n]
                p = pieces[p, PIECE.NEXT_OF_JOB]
            found += is_one
        return found
    found = labelled
    for t in range(labelled, tiers):
        if blocks[t] > 0 and not is_in_block(mask, blocks[t]):
            return found
        found = t + 1
    return found
