"""Gangs of several roles, or of several sizes: fitted role by role, as large as they fit.

As ``fit`` and ``elastic`` say in Python, over rows (``MEMBER``). Whatever was found sits in the
room and is on the books; its pieces are in ``Desk.seats``.
"""

from tidemill.compiled import shared
from tidemill.model.columns import NODE
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.columns import ASK, MEMBER, OPTION, REG, SEATING, UNKNOWN
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.placing import (
    ANYWHERE,
    UNSURE,
    book,
    keep_disturbed,
    let_disturbed_go,
    obstacle,
)
from tidemill.scheduling.fitting.books import APART, KEPT_OFF, LIMIT, SHORT, UNFIT
from tidemill.scheduling.fitting.columns import OUT, REQUEST
from tidemill.scheduling.fitting.ladders import fill_tied
from tidemill.scheduling.fitting.node_ranking import seat
from tidemill.scheduling.fitting.sweeps import NO_CPU, NO_MEMORY, give, give_all, is_held

TIED, SCORED, PACKED = range(3)  # how roles are placed
OVER_LIMIT, BUSY, PARTIAL, KEPT_BACK, TOPOLOGY = map(
    int,
    (Cause.OVER_LIMIT, Cause.BUSY, Cause.PARTIAL_GANG, Cause.KEPT_BACK, Cause.TOPOLOGY),
)
CPU_BINDS, MEMORY_BINDS, HOST_BINDS, SCATTERED = map(
    int, (Cause.CPU_BINDS, Cause.MEMORY_BINDS, Cause.HOST_BINDS, Cause.SCATTERED)
)


# Fitting --------------------------------------------------------------------------------------


@kernel
def fit_on_all(w, d, g, t, m, q):
    """Place a single replica on the best node of all types that nothing bars it from; or 0."""
    members, options, able = d.members, d.options, 0
    first, count = members[m, MEMBER.FIRST_OPTION], members[m, MEMBER.OPTIONS]
    for o in range(first, first + count):
        able += obstacle(w, d, q, options[o, OPTION.KIND], members[m, MEMBER.NEED]) == UNFIT
    if able < 2:
        return 0
    if able < count:
        return UNSURE
    return max(0, seat(w, g, t, members[m, MEMBER.TOGETHER], 1))


@kernel
def fit_on_type(w, d, g, t, m, o, how):
    """Place all replicas of a role on one type: the pieces, or minus what fits, less one."""
    members, r = d.members, d.options[o, OPTION.PACKED]
    if how == TIED:
        first, count = members[m, MEMBER.FIRST_RUNG], members[m, MEMBER.RUNGS]
        found = fill_tied(w, g, d.rungs, r, first, count, 0, ANYWHERE)
        if found > 0:
            give_all(w, g, r, found, -1)
        return found
    if how == SCORED:
        r = d.options[o, OPTION.REQUEST]
    return seat(w, g, t, r, members[m, MEMBER.COUNT])


@kernel
def fit_role(w, d, g, t, m, q, how):
    """Place all replicas of a role on the first of its types that has room: the pieces.

    0: on none; what keeps it off each is in ``OPTION.OBSTACLE``. ``UNSURE``: Python must say.
    """
    members, options, found = d.members, d.options, 0
    if how == SCORED and members[m, MEMBER.TOGETHER] >= 0:
        found = fit_on_all(w, d, g, t, m, q)
        if found != 0:
            return found
    first = members[m, MEMBER.FIRST_OPTION]
    for o in range(first, first + members[m, MEMBER.OPTIONS]):
        why = obstacle(w, d, q, options[o, OPTION.KIND], members[m, MEMBER.NEED])
        if why == UNFIT:
            found = fit_on_type(w, d, g, t, m, o, how)
            if found > 0:
                return found
            if how == TIED and -found - 1 >= members[m, MEMBER.COUNT]:
                why = APART
        options[o, OPTION.OBSTACLE] = why
    return 0


@kernel
def note_seats(d, g, role, first, count):
    """Write down where the pieces of a role are that were found last."""
    seats = d.seats
    for i in range(count):
        seats[first + i, SEATING.ROLE] = role
        seats[first + i, SEATING.NODE] = g.out[i, OUT.NODE]
        seats[first + i, SEATING.REPLICAS] = g.out[i, OUT.REPLICAS]
        seats[first + i, SEATING.DEVICES] = g.out[i, OUT.DEVICES]


@kernel
def unseat(w, d, g, s, q, count):
    """Take so many pieces of a gang out of the room, and off the books."""
    members, options, seats, requests = d.members, d.options, d.seats, g.requests
    for i in range(count):
        m, n = d.asks[s, ASK.FIRST_MEMBER] + seats[i, SEATING.ROLE], seats[i, SEATING.NODE]
        r, replicas = (
            options[members[m, MEMBER.FIRST_OPTION], OPTION.PACKED],
            seats[i, SEATING.REPLICAS],
        )
        accelerators, milli = requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI]
        give(
            w.nodes, g.regs, g.touched, g.spots, g.parts, n, replicas, seats[i, SEATING.DEVICES],
            accelerators, milli, requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY], 1,
        )  # fmt: skip
        book(w, d, q, w.nodes[n, NODE.KIND], -replicas * accelerators * milli)


@kernel
def fit_roles(w, d, g, t, s, q, size, how):
    """Place all roles of a gang at one size, one after the other: the pieces, or as ``fit_role``.

    ``REG.SHORT``: the role that did not fit.
    """
    asks, members, found = d.asks, d.members, 0
    first = asks[s, ASK.FIRST_MEMBER] + size * asks[s, ASK.ROLES]
    for role in range(asks[s, ASK.ROLES]):
        count = fit_role(w, d, g, t, first + role, q, how)
        if count <= 0:
            unseat(w, d, g, s, q, found)
            d.reg[REG.SHORT] = first + role
            return count
        note_seats(d, g, role, found, count)
        book(w, d, q, w.nodes[g.out[0, OUT.NODE], NODE.KIND], members[first + role, MEMBER.NEED])
        found += count
    return found


@kernel
def fit_size(w, d, g, t, s, q, size):
    """Place a gang at one of its sizes, as it wishes to be tied if it can; as ``fit_roles``.

    Where one role was put may break up the nodes that the next one needs whole: then it is packed.
    """
    asks = d.asks
    if asks[s, ASK.RUNGS] > 0:
        found = fit_roles(w, d, g, t, s, q, size, TIED)
        if found != 0 or asks[s, ASK.IS_BINDING] != 0:
            return found
        return fit_roles(w, d, g, t, s, q, size, PACKED)
    found = fit_roles(w, d, g, t, s, q, size, SCORED)
    if found == 0 and asks[s, ASK.ROLES] > 1 and d.reg[REG.SCORES] != 0:
        return fit_roles(w, d, g, t, s, q, size, PACKED)
    return found


@kernel
@shared
def fit_largest(w, d, g, t, s, q):
    """Place a gang as large as it fits: the pieces; 0: not at its smallest size; or ``UNSURE``.

    By halving: what fits with some number of replicas fits with fewer.
    """
    low, high = 0, d.asks[s, ASK.SIZES] - 1
    found = fit_size(w, d, g, t, s, q, high)
    if found != 0 or high == 0:
        return found
    found, high = fit_size(w, d, g, t, s, q, 0), high - 1
    while found > 0 and low < high:
        middle = (low + high + 1) // 2
        unseat(w, d, g, s, q, found)
        tried = fit_size(w, d, g, t, s, q, middle)
        if tried == 0:
            high = middle - 1
            found = fit_size(w, d, g, t, s, q, low)
        else:
            low, found = middle, tried
    return found


@kernel
def fit_gang_beside(w, d, g, t, s, q):
    """As ``fit_largest``, beside the reservations that would be disturbed."""
    keep_disturbed(w, d, g)
    found = fit_largest(w, d, g, t, s, q)
    let_disturbed_go(w, d, g)
    return found


# Why not --------------------------------------------------------------------------------------


@kernel
def binding(w, d, g, m, o):
    """Enough GPUs are free, yet a role does not fit: what would have to be ignored?

    Beside the other roles it did not: alone it may, and then nothing has to be.
    """
    r, count = d.options[o, OPTION.PACKED], d.members[m, MEMBER.COUNT]
    if g.requests[r, REQUEST.ACCELERATORS] == 0:
        return CPU_BINDS if g.requests[r, REQUEST.CPU] > 0 else MEMORY_BINDS
    if is_held(w, g, r, count, NO_CPU):
        return CPU_BINDS
    if is_held(w, g, r, count, NO_MEMORY):
        return MEMORY_BINDS
    return HOST_BINDS if is_held(w, g, r, count, NO_CPU | NO_MEMORY) else SCATTERED


@kernel
def hosts_any(w, d, g, m):
    """Whether some of a role would fit on a type of which too little is free for all of it."""
    first = d.members[m, MEMBER.FIRST_OPTION]
    for o in range(first, first + d.members[m, MEMBER.OPTIONS]):
        is_short = d.options[o, OPTION.OBSTACLE] == SHORT and d.options[o, OPTION.HOLDS] != 0
        if is_short and is_held(w, g, d.options[o, OPTION.PACKED], 1, 0):
            return True
    return False


@kernel
def is_of_nodes(d, m):
    """Whether nodes alone stood in the way of a role, whosever its gang is."""
    first = d.members[m, MEMBER.FIRST_OPTION]
    for o in range(first, first + d.members[m, MEMBER.OPTIONS]):
        if d.options[o, OPTION.OBSTACLE] not in (SHORT, UNFIT):
            return False
    return True


@kernel
def shortage_of_role(w, d, g, s):
    """Why a gang waits, of which a role (``REG.SHORT``) did not fit; as ``diagnose`` says.

    ``ASK.IS_LIMITED``: whether quotas kept it off a type.
    """
    options, m, limits, apart, keeps, unfit = d.options, d.reg[REG.SHORT], 0, 0, 0, UNKNOWN
    others, is_limited = 0, 0
    first, count = d.members[m, MEMBER.FIRST_OPTION], d.members[m, MEMBER.OPTIONS]
    for o in range(first, first + count):
        why = options[o, OPTION.OBSTACLE]
        is_limited += why in (LIMIT, KEPT_OFF)
        if options[o, OPTION.HOLDS] == 0:
            continue
        limits += why == LIMIT
        others += why != LIMIT
        apart += why == APART
        keeps += why == KEPT_OFF
        if why == UNFIT and unfit == UNKNOWN:
            unfit = o
    d.asks[s, ASK.IS_LIMITED] = int(is_limited > 0)
    if limits > 0 and others == 0:
        return OVER_LIMIT
    if apart > 0:
        return TOPOLOGY
    if unfit != UNKNOWN:
        return binding(w, d, g, m, unfit)
    if keeps > 0:
        return KEPT_BACK
    return PARTIAL if d.members[m, MEMBER.COUNT] > 1 and hosts_any(w, d, g, m) else BUSY
