"""Why a shape that no nodes hold waits: as ``diagnose`` says, compiled, over columns."""

from tidemill.model.columns import SHAPE
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.columns import ASK, OPTION, REG, UNKNOWN
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.placing import obstacle
from tidemill.scheduling.fitting.books import KEPT_OFF, LIMIT, SHORT, UNFIT
from tidemill.scheduling.fitting.columns import REQUEST
from tidemill.scheduling.fitting.sweeps import NO_CPU, NO_MEMORY, is_held

OVER_LIMIT, BUSY, PARTIAL, KEPT_BACK = map(
    int, (Cause.OVER_LIMIT, Cause.BUSY, Cause.PARTIAL_GANG, Cause.KEPT_BACK)
)
CPU_BINDS, MEMORY_BINDS, HOST_BINDS, SCATTERED = map(
    int, (Cause.CPU_BINDS, Cause.MEMORY_BINDS, Cause.HOST_BINDS, Cause.SCATTERED)
)
NOTHING = int(Cause.NONE)


@kernel
def binding(w, g, r, count):
    """Enough GPUs are free, yet it does not fit: what would have to be ignored?"""
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    if g.requests[r, REQUEST.ACCELERATORS] == 0:
        return CPU_BINDS if cpu > 0 else MEMORY_BINDS
    if cpu > 0 and is_held(w, g, r, count, NO_CPU):
        return CPU_BINDS
    if memory > 0 and is_held(w, g, r, count, NO_MEMORY):
        return MEMORY_BINDS
    if cpu > 0 and memory > 0 and is_held(w, g, r, count, NO_CPU | NO_MEMORY):
        return HOST_BINDS
    return SCATTERED


@kernel
def binding_at(d, w, g, o, count):
    """What binds on one type, in the room as it is."""
    options = d.options
    if options[o, OPTION.BINDING_AT] != d.reg[REG.VERSION]:
        options[o, OPTION.BINDING] = binding(w, g, options[o, OPTION.PACKED], count)
        options[o, OPTION.BINDING_AT] = d.reg[REG.VERSION]
    return options[o, OPTION.BINDING]


@kernel
def hosts_part(w, d, g, s, q):
    """Whether a part of a gang would fit on a type of which too little is free for all of it."""
    asks, options = d.asks, d.options
    first, count = asks[s, ASK.FIRST_OPTION], asks[s, ASK.OPTIONS]
    for o in range(first, first + count):
        why = obstacle(w, d, q, options[o, OPTION.KIND], asks[s, ASK.NEED])
        is_short = why == SHORT and options[o, OPTION.HOLDS] != 0
        if is_short and is_held(w, g, options[o, OPTION.PACKED], 1, 0):
            return True
    return False


@kernel
def shortage(w, d, g, s):
    """Why a shape that no nodes hold waits.

    As ``diagnose`` says of the obstacles on each type that could ever hold it.
    """
    asks, options = d.asks, d.options
    q, count = w.shapes[s, SHAPE.QUEUE], asks[s, ASK.OPTIONS]
    limits, others, unfit, keeps, is_limited = 0, 0, UNKNOWN, False, False
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + count):
        why = obstacle(w, d, q, options[o, OPTION.KIND], asks[s, ASK.NEED])
        is_limited = is_limited or why in (LIMIT, KEPT_OFF)
        if options[o, OPTION.HOLDS] == 0:
            continue
        limits += why == LIMIT
        others += why != LIMIT
        keeps = keeps or why == KEPT_OFF
        if why == UNFIT and unfit == UNKNOWN:
            unfit = o
    asks[s, ASK.IS_LIMITED] = is_limited
    if asks[s, ASK.SUPPLY] != NOTHING:
        return asks[s, ASK.SUPPLY]
    if limits > 0 and others == 0:
        return OVER_LIMIT
    if unfit != UNKNOWN:
        return binding_at(d, w, g, unfit, asks[s, ASK.COUNT])
    if keeps:
        return KEPT_BACK
    return PARTIAL if asks[s, ASK.COUNT] > 1 and hosts_part(w, d, g, s, q) else BUSY
