"""Quiet shapes: those in line of which looking at them would come nothing, taken out at once.

Of a long line most do not fit, or a reservation keeps them back, and they have been told why. What
is free only gets less in a cycle, so whatever kept one out of it keeps out all of its like; the
first of a like says it for the others. When several were looked at, the rest of the line is read
once, as it stands, and quiet shapes leave it without their turn.

They wait at the end of the line until the cycle is over. Where something happens that may say
otherwise (a job is placed and their like is kept out by something else now, others have other keys,
somebody is to be held behind, Python decides) those whose turn would still come are lined up again.
"""

from tidemill.core.heaps import arrange, goes_before, rise, swap
from tidemill.model.columns import AT, QUEUE, QUOTA, SHAPE
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.columns import ASK, LINE, OPTION, PROMISE, REG, UNKNOWN
from tidemill.scheduling.desk.failures import remember
from tidemill.scheduling.desk.gathering import EASY, may_hold
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.lines import PASSERS_AT_MOST, is_asked, may_end_by
from tidemill.scheduling.desk.order import WORDS
from tidemill.scheduling.desk.placing import is_hosted_beside, keeps_whole_nodes
from tidemill.scheduling.desk.searching import may_make_room
from tidemill.scheduling.desk.shortage import binding_at
from tidemill.scheduling.fitting.columns import CALL
from tidemill.scheduling.fitting.sweeps import is_held

LOOKED_AT, SHARE = 4, 8  # so many are looked at before the rest is read, or one in so many of it
BUSY, PARTIAL, RESERVED = map(int, (Cause.BUSY, Cause.PARTIAL_GANG, Cause.RESERVED))
NOTHING = int(Cause.NONE)
COLUMNS = len(LINE)


# Likes ----------------------------------------------------------------------------------------


@kernel
def is_short(d, s, o):
    """Whether less is free of a type in all than a shape requests."""
    need = d.asks[s, ASK.NEED]
    return need != 0 and need > d.free[d.options[o, OPTION.KIND]]


@kernel
def why_unfit(w, d, g, s, o):
    """Why no shape of a like fits that no nodes hold, if no limit is in its way."""
    count = d.asks[s, ASK.COUNT]
    if not is_short(d, s, o):
        d.reg[REG.VERSION] = g.regs[CALL.TOUCHED]
        return binding_at(d, w, g, o, count)
    is_part_held = count > 1 and is_held(w, g, d.options[o, OPTION.PACKED], 1, 0)
    return PARTIAL if is_part_held else BUSY


@kernel
def is_refused(w, d, g, s, o):
    """Whether the only reservation keeps back whoever of a like ends later than was noted."""
    reg, options, packed = d.reg, d.options, d.options[o, OPTION.PACKED]
    if reg[REG.PENDING] > 0 or reg[REG.PROMISES] != 1:
        return False
    if options[o, OPTION.REFUSED_IN] >= reg[REG.SINCE]:
        return True
    if not keeps_whole_nodes(w, d, g, packed):
        return False
    if is_hosted_beside(w, g, packed, d.asks[s, ASK.COUNT]):
        return False
    options[o, OPTION.REFUSED_IN] = reg[REG.CYCLE]
    options[o, OPTION.REFUSED_AT] = reg[REG.PLACED]
    options[o, OPTION.REFUSED_MS] = d.promises[0, PROMISE.AT_MS]
    return True


@kernel
def why_out(w, d, g, s, o):
    """What keeps a shape and its like out for as long as nobody is placed; UNKNOWN: it may fit."""
    asks, options = d.asks, d.options
    if options[o, OPTION.UNFIT_IN] == d.reg[REG.CYCLE] or is_short(d, s, o):
        return why_unfit(w, d, g, s, o)
    if asks[s, ASK.IS_BINDING] != 0:
        return UNKNOWN
    if not is_held(w, g, options[o, OPTION.PACKED], asks[s, ASK.COUNT], 0):
        return why_unfit(w, d, g, s, o)
    return RESERVED if is_refused(w, d, g, s, o) else UNKNOWN


@kernel
def is_as_it_was(w, d, g):
    """Whether the same keeps every like out of which shapes were taken out of the line."""
    options, o = d.options, d.reg[REG.QUIET_LIKE] - 1
    while o >= 0:
        if why_out(w, d, g, options[o, OPTION.QUIET_SHAPE], o) != options[o, OPTION.QUIET_WHY]:
            return False
        o = options[o, OPTION.NEXT_QUIET] - 1
    return True


@kernel
def like_out(w, d, g, s, o):
    """As ``why_out``, asked once for a like each time that the line is read."""
    options, reg, at = d.options, d.reg, d.reg[REG.QUIET_READ]
    if options[o, OPTION.QUIET_IN] != reg[REG.CYCLE] or options[o, OPTION.QUIET_AT] != at:
        options[o, OPTION.QUIET_IN] = reg[REG.CYCLE]
        options[o, OPTION.QUIET_AT] = at
        options[o, OPTION.QUIET_WHY] = why_out(w, d, g, s, o)
        options[o, OPTION.QUIET_SHAPE] = s
        if options[o, OPTION.QUIET_WHY] != UNKNOWN and options[o, OPTION.NEXT_QUIET] == UNKNOWN:
            options[o, OPTION.NEXT_QUIET] = reg[REG.QUIET_LIKE]
            reg[REG.QUIET_LIKE] = o + 1
    return options[o, OPTION.QUIET_WHY]


# Shapes ---------------------------------------------------------------------------------------


@kernel
def is_unlimited(queues, quotas, used, free, q, k, need):
    """Whether no limit can be in the way of a queue, had it all that is free."""
    while q >= 0:
        if used[q, k] + free[k] + need > quotas[q, k, QUOTA.LIMIT]:
            return False
        q = queues[q, QUEUE.PARENT]
    return True


@kernel
def is_like_others(w, d, s):
    """Whether all that keeps a shape out is what keeps out its like, on one type."""
    asks = d.asks
    return (
        asks[s, ASK.IS_SIMPLE] != 0
        and asks[s, ASK.OPTIONS] == 1
        and asks[s, ASK.SIZES] == 0
        and asks[s, ASK.PREPARED] == d.reg[REG.ROOM_AT]
        and w.shapes[s, SHAPE.PROMISED] == 0
    )


@kernel
def is_waiting_quietly(w, d, s, o):
    """Whether a reservation keeps back all jobs of a shape that may be asked."""
    reg, asks, latest = d.reg, d.asks, d.options[o, OPTION.REFUSED_MS]
    if asks[s, ASK.TAKEN] >= PASSERS_AT_MOST:
        return False
    if may_end_by(w.jobs, w.shapes, d.learnt, reg, asks, s, latest):
        return False
    reg[REG.HAS_REFUSED] = 1
    return True


@kernel
def is_out_quietly(w, d, s, q, cause):
    """Whether nothing follows from it that a shape does not fit; then it is remembered."""
    reg, asks = d.reg, d.asks
    if asks[s, ASK.SUPPLY] != NOTHING:
        return False
    is_searched = may_make_room(reg, asks, s, cause)
    if is_searched and (
        asks[s, ASK.IS_DUE] != 0 or reg[REG.SEARCHES] > 0 or asks[s, ASK.OWED] == 0
    ):
        return False
    if may_hold(reg, w.jobs, asks, d.types, d.claimed, d.limited, s, q, cause):
        return False
    asks[s, ASK.IS_LIMITED] = 0
    if not is_searched:
        remember(w, d, s, cause)
    return True


@kernel
def is_quiet(w, d, g, s):
    """Whether nothing would come of looking at a shape, now or later in this cycle."""
    asks, q, cause = d.asks, w.shapes[s, SHAPE.QUEUE], d.asks[s, ASK.OUT]
    if cause != UNKNOWN:
        return cause == asks[s, ASK.SAID] and not may_hold(
            d.reg, w.jobs, asks, d.types, d.claimed, d.limited, s, q, cause
        )
    if not is_like_others(w, d, s):
        return False
    o, need = asks[s, ASK.FIRST_OPTION], asks[s, ASK.NEED]
    k = d.options[o, OPTION.KIND]
    if need != 0 and (
        d.closed[k] != 0 or not is_unlimited(w.queues, w.quotas, d.used, d.free, q, k, need)
    ):
        return False
    cause = like_out(w, d, g, s, o)
    if cause == UNKNOWN or cause != asks[s, ASK.SAID]:
        return False
    if cause == RESERVED:
        return is_waiting_quietly(w, d, s, o)
    return is_out_quietly(w, d, s, q, cause)


# The line -------------------------------------------------------------------------------------


@kernel
def may_be_quiet(w, reg):
    """Whether this is a cycle in which likes say it for all of them."""
    return (
        not is_asked(reg)
        and reg[REG.IS_PLAIN] != 0
        and reg[REG.IS_SLICED] == 0
        and reg[REG.FAIRNESS] == 0
        and reg[REG.BACKFILL] <= EASY
        and reg[REG.IS_HOLDING] == 0
        and reg[REG.IS_HOLDING_TEAMS] == 0
        and reg[REG.WATCHED] == 0
        and w.at[AT.KEEPS] == 0
    )


@kernel
def copy(line, i, to):
    """Write an entry to another place."""
    for c in range(COLUMNS):
        line[to, c] = line[i, c]


@kernel
def place_of(line, i):
    """Where a quiet shape waits: from the end of the line, after a row for the one looked at."""
    return len(line) - 2 - i


@kernel
def take_out_quiet(w, d, g):
    """Take quiet shapes out of the line."""
    reg, line, i, left = d.reg, d.line, 0, d.reg[REG.HEAP]
    if not may_be_quiet(w, reg):
        return
    reg[REG.QUIET_READ] += 1
    while i < left:
        if line[i, LINE.PLACED] >= reg[REG.KEYED] and is_quiet(w, d, g, line[i, LINE.SHAPE]):
            left -= 1
            swap(line, i, left)
        else:
            i += 1
    for i in range(reg[REG.HEAP] - 1, left - 1, -1):
        copy(line, i, place_of(line, reg[REG.QUIET]))
        reg[REG.QUIET] += 1
    reg[REG.HEAP] = left
    arrange(line, left, WORDS)


@kernel
def read_next_at(reg, seen):
    """When so many were looked at, the line is read for quiet shapes."""
    return seen + max(LOOKED_AT, reg[REG.HEAP] // SHARE)


@kernel
def is_remembered(d, s):
    """Whether it was remembered of a shape, when it was taken out of the line, why it is out."""
    reg, asks, cause = d.reg, d.asks, d.asks[s, ASK.SAID]
    return (
        asks[s, ASK.OUT] == UNKNOWN and cause != RESERVED and not may_make_room(reg, asks, s, cause)
    )


@kernel
def line_up_quiet(d):
    """Line up those quiet shapes again whose turn would come after the one that is looked at."""
    reg, line, asks, now = d.reg, d.line, d.asks, len(d.line) - 1
    while reg[REG.QUIET] > 0:
        reg[REG.QUIET] -= 1
        i, at = place_of(line, reg[REG.QUIET]), reg[REG.HEAP]
        if goes_before(line, now, i, WORDS):
            if is_remembered(d, line[i, LINE.SHAPE]):
                asks[line[i, LINE.SHAPE], ASK.FAILED] = 0
            copy(line, i, at)
            rise(line, at, WORDS)
            reg[REG.HEAP] = at + 1
    forget_likes(d)


@kernel
def forget_likes(d):
    """No shape is taken out of the line any more by what keeps out its like."""
    o = d.reg[REG.QUIET_LIKE] - 1
    while o >= 0:
        after = d.options[o, OPTION.NEXT_QUIET] - 1
        d.options[o, OPTION.NEXT_QUIET] = UNKNOWN
        o = after
    d.reg[REG.QUIET_LIKE] = 0


@kernel
def follow(w, d, g):
    """A job was placed: quiet shapes stay so if the same keeps them out."""
    reg = d.reg
    if reg[REG.QUIET] > 0 and (reg[REG.KEYED] == reg[REG.PLACED] or not is_as_it_was(w, d, g)):
        line_up_quiet(d)
