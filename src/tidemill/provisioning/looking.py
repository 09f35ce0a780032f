"""A look at the nodes: which to launch, to give back, to keep spare, to mind.

Compiled, since somebody looks once a minute while anybody waits, and seldom finds anything to ask
for: ``is_quiet`` says so, and when to look again. ``review`` asks the same functions one by one.
"""

from tidemill.model.batch import PieceColumn
from tidemill.model.columns import AT, CONTRACT, JOB, KIND, NODE, PIECE, SHAPE
from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.model.states import NodeState
from tidemill.provisioning.columns import BOUGHT, LOOK
from tidemill.provisioning.kernel import kernel

CURED_BY_NODES = frozenset(
    {
        Cause.NOTHING_LAUNCHED,
        Cause.NOTHING_READY,
        Cause.NOT_ENOUGH_READY,
        Cause.BUSY,
        Cause.PARTIAL_GANG,
        Cause.SCATTERED,
        Cause.BEHIND,
        Cause.RESERVED,
        Cause.KEPT_BACK,
    }
)
"""Causes that one more node would help against."""
REPAIRED_WHEN_EMPTY = frozenset({Why.DEVICE_LOST, Why.MAINTENANCE})
RETURNED_WHEN_EMPTY = frozenset({Why.SURPLUS, Why.CONTRACT_END})

ASKED, BOOTING, READY, UNHEALTHY, CORDONED, DRAINING = (
    int(state)
    for state in (
        NodeState.ASKED, NodeState.BOOTING, NodeState.READY, NodeState.UNHEALTHY,
        NodeState.CORDONED, NodeState.DRAINING,
    )
)  # fmt: skip
_WHYS = list(Why)
SPOT_RECLAIM = _WHYS.index(Why.SPOT_RECLAIM)
CURED = sum(1 << int(cause) for cause in CURED_BY_NODES)
EMPTIED_FOR = sum(1 << _WHYS.index(why) for why in REPAIRED_WHEN_EMPTY | RETURNED_WHEN_EMPTY)


# Demand ---------------------------------------------------------------------------------------


@kernel
def unmet_milli(w, u, k, now):
    """What has waited long enough for accelerators of a kind, and more nodes would serve."""
    found = 0
    for i in range(w.at[AT.QUEUED]):
        s = w.queued[i]
        waited = now - w.jobs[w.shapes[s, SHAPE.HEAD], JOB.SINCE_MS]
        if waited >= u.look[LOOK.SCALE_UP_MS] and CURED >> w.shapes[s, SHAPE.CAUSE] & 1:
            found += u.wants[s, k] * w.shapes[s, SHAPE.WAITING]
    return found


@kernel
def nodes_missing(w, u, c, now):
    """How many more nodes of this contract would serve what has waited long enough.

    Below zero: how many could be given back without being missed. One number for both, so that
    nothing is returned only to be launched again.
    """
    k, node_milli = w.contracts[c, CONTRACT.KIND], u.bought[c, BOUGHT.NODE_MILLI]
    coming = w.contracts[c, CONTRACT.ASKED_NODES]
    for n in range(u.look[LOOK.NODES]):
        if w.nodes[n, NODE.CONTRACT] == c and w.nodes[n, NODE.STATE] <= BOOTING:
            coming += 1
    free = w.kinds[k, KIND.FREE_MILLI] - w.kinds[k, KIND.KEPT_MILLI]
    short = unmet_milli(w, u, k, now) - coming * node_milli - free
    return -(-short // node_milli)


@kernel
def nodes_to_launch(w, u, c, missing, now):
    """All nodes of the contract; of an elastic one, those that have been missing long enough."""
    if now >= u.bought[c, BOUGHT.RELEASE_MS]:
        return 0
    have = w.contracts[c, CONTRACT.NODES] + w.contracts[c, CONTRACT.ASKED_NODES]
    wanted = u.bought[c, BOUGHT.NODES] - have
    if w.contracts[c, CONTRACT.IS_ELASTIC] != 0:
        wanted = min(wanted, missing)
    return max(0, wanted)


# Nodes ----------------------------------------------------------------------------------------


@kernel
def use(u, event_pieces, count):
    """Mark the nodes that the pieces of a plan use, and no others."""
    u.look[LOOK.STAMP] += 1
    for p in range(count):
        u.used[event_pieces[p, PieceColumn.NODE]] = u.look[LOOK.STAMP]


@kernel
def is_well(nodes, n):
    """Whether a node takes work, or would if it were no spare."""
    is_whole = nodes[n, NODE.FAILED] == nodes[n, NODE.UNADVERTISED]  # which no repair brings back
    return nodes[n, NODE.STATE] == READY and is_whole


@kernel
def is_left_alone(u, nodes, n):
    """Whether nobody sits on a node, nor is about to."""
    return nodes[n, NODE.FIRST_PIECE] < 0 and u.used[n] != u.look[LOOK.STAMP]


@kernel
def spares_lacking(w, u, c):
    """How many nodes of a contract are lacking beside its spares; below zero: are too many."""
    in_use, nodes = 0, w.nodes
    for n in range(u.look[LOOK.NODES]):
        if nodes[n, NODE.CONTRACT] == c and nodes[n, NODE.IS_SPARE] == 0:
            in_use += int(nodes[n, NODE.STATE] in (ASKED, BOOTING, READY, CORDONED))
    return u.bought[c, BOUGHT.NODES] - u.bought[c, BOUGHT.SPARES] - in_use


@kernel
def turn_spares(w, u, c):
    """Find spares to put to use where nodes were lost, or empty nodes to keep spare; how many."""
    if u.bought[c, BOUGHT.SPARES] == 0:
        return 0
    nodes, lacking, count, end = w.nodes, spares_lacking(w, u, c), 0, u.look[LOOK.NODES]
    for i in range(end):
        n = i if lacking > 0 else end - 1 - i  # the first spares are used, the last nodes are kept
        if count < abs(lacking) and nodes[n, NODE.CONTRACT] == c and is_well(nodes, n):
            is_spare = nodes[n, NODE.IS_SPARE] != 0
            if is_spare if lacking > 0 else not is_spare and is_left_alone(u, nodes, n):
                u.minded[count] = n
                count += 1
    return count


@kernel
def return_idle(w, u, c, unneeded, now):
    """Find nodes of elastic contracts that have been empty long enough; how many. No spares."""
    u.look[LOOK.WAKE_MS], nodes, count = FOREVER_MS, w.nodes, 0
    if w.contracts[c, CONTRACT.IS_ELASTIC] == 0:
        return 0
    for n in range(u.look[LOOK.NODES]):
        is_kept = nodes[n, NODE.IS_SPARE] != 0 or nodes[n, NODE.ASKED] > 0
        if nodes[n, NODE.CONTRACT] != c or is_kept or not is_well(nodes, n):
            continue
        if not is_left_alone(u, nodes, n):
            continue
        due = nodes[n, NODE.EMPTIED_MS] + u.look[LOOK.RETURN_MS]
        if due <= now and count < unneeded:
            u.minded[count] = n
            count += 1
            continue
        if due <= now:
            due = now + u.look[LOOK.AGAIN_MS]
        u.look[LOOK.WAKE_MS] = min(u.look[LOOK.WAKE_MS], due)
    return count


@kernel
def does_anybody_stay(w, n):
    """Whether anybody on a node was not asked to leave it."""
    p = w.nodes[n, NODE.FIRST_PIECE]
    while p >= 0:
        if w.jobs[w.pieces[p, PIECE.JOB], JOB.IS_LEAVING] == 0:
            return True
        p = w.pieces[p, PIECE.NEXT_ON_NODE]
    return False


@kernel
def minded_at(w, n, now):
    """When a node is to be repaired, drained, emptied or given back by itself; now, or later."""
    nodes = w.nodes
    state, why, deadline = nodes[n, NODE.STATE], nodes[n, NODE.WHY], nodes[n, NODE.DEADLINE_MS]
    is_due = False
    if state == READY:
        is_due = nodes[n, NODE.FAILED] > nodes[n, NODE.UNADVERTISED]
    elif nodes[n, NODE.ASKED] != 0 or (state != UNHEALTHY and state != DRAINING):
        is_due = False
    elif state == UNHEALTHY:
        is_due = nodes[n, NODE.FIRST_PIECE] < 0  # others may show work on it: that ends first
    elif nodes[n, NODE.FIRST_PIECE] < 0:
        is_due = EMPTIED_FOR >> why & 1 != 0
    elif why != SPOT_RECLAIM:
        if now < deadline:
            return deadline
        is_due = does_anybody_stay(w, n)
    return now if is_due else FOREVER_MS


@kernel
def mind_nodes(w, u, now):
    """Find the nodes that are to be minded now; how many."""
    u.look[LOOK.WAKE_MS], count = FOREVER_MS, 0
    for n in range(u.look[LOOK.NODES]):
        at = minded_at(w, n, now)
        if at <= now:
            u.minded[count] = n
            count += 1
        else:
            u.look[LOOK.WAKE_MS] = min(u.look[LOOK.WAKE_MS], at)
    return count


@kernel
def is_quiet(w, u, now):
    """Whether there is nothing to ask for; then also when to look again."""
    wake, is_elastic = FOREVER_MS, False
    for c in range(u.look[LOOK.CONTRACTS]):
        if w.contracts[c, CONTRACT.IS_RUNNING] == 0:
            continue
        missing = 0
        if w.contracts[c, CONTRACT.IS_ELASTIC] != 0:
            is_elastic = True
            missing = nodes_missing(w, u, c, now)
        if nodes_to_launch(w, u, c, missing, now) > 0 or turn_spares(w, u, c) > 0:
            return False
        if return_idle(w, u, c, -missing, now) > 0:
            return False
        wake = min(wake, u.look[LOOK.WAKE_MS])
    if mind_nodes(w, u, now) > 0:
        return False
    wake = min(wake, u.look[LOOK.WAKE_MS])
    if is_elastic and w.at[AT.QUEUED] > 0:
        wake = min(wake, now + u.look[LOOK.AGAIN_MS])
    u.look[LOOK.WAKE_MS] = wake
    return True
