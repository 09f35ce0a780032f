"""Who is looked at in a cycle: whoever may fit, or keeps others back, lined up by key."""

from tidemill.core.heaps import leave
from tidemill.core.order import guarded_from
from tidemill.model.columns import SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.codes import KNOW, OUTLASTS, OVER
from tidemill.scheduling.desk.columns import ASK, LINE, REG, UNKNOWN
from tidemill.scheduling.desk.failures import failure
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.lines import write_first
from tidemill.scheduling.desk.order import WORDS, enter, insert, note_standings

OVER_LIMIT, BUSY, KEPT_BACK, TOPOLOGY = map(
    int, (Cause.OVER_LIMIT, Cause.BUSY, Cause.KEPT_BACK, Cause.TOPOLOGY)
)
NONE, EASY = 0, 1  # sorts of backfill


@kernel
def is_cured(cause):
    """Whether a cause goes away when running jobs end."""
    return BUSY <= cause <= KEPT_BACK or cause == TOPOLOGY


@kernel
def is_guarded(reg, jobs, j):
    """Whether the starvation guard protects a waiting job: nobody may pass it any more."""
    backfills, by_shape = reg[REG.BACKFILL], reg[REG.BY_SHAPE]
    patience, hold_after = reg[REG.PATIENCE_MS], reg[REG.HOLD_AFTER_MS]
    return guarded_from(jobs, j, backfills, by_shape, patience, hold_after) <= reg[REG.NOW]


@kernel
def may_hold(reg, jobs, asks, types, claimed, limited, s, q, cause):
    """Whether a shape that does not fit may keep others back now, or be passed by them."""
    is_limited = cause == OVER_LIMIT
    if not is_limited and not is_cured(cause):
        return False
    if is_guarded(reg, jobs, asks[s, ASK.UPCOMING]):
        return asks[s, ASK.OUTLASTS] != 0
    if reg[REG.BACKFILL] == NONE or asks[s, ASK.OUTLASTS] == 0:
        return False
    if not is_limited and reg[REG.BACKFILL] != EASY:
        return reg[REG.CLAIMS_LEFT] > 0
    first = asks[s, ASK.FIRST_TYPE]
    for i in range(first, first + asks[s, ASK.TYPES]):
        if is_limited and limited[q, types[i]] != 0:
            return False
        if not is_limited and claimed[types[i]] != 0:
            return False
    return True


# Who is looked at -----------------------------------------------------------------------------


@kernel
def look_at(w, d):
    """Write down, of every waiting shape, who is next and why it is out; whether somebody is not.

    (In an order that Python is asked about, it has written who is next.)
    """
    reg, asks, shapes, passes = d.reg, d.asks, w.shapes, False
    for i in range(reg[REG.LOOKS]):
        s = d.looks[i]
        write_first(w, d, s)
        asks[s, ASK.TAKEN] = 0
        asks[s, ASK.TRIED] = 0
        asks[s, ASK.REFUSED_MS] = FOREVER_MS
        asks[s, ASK.SAID] = shapes[s, SHAPE.CAUSE]
        asks[s, ASK.OUT] = UNKNOWN
        if shapes[s, SHAPE.PROMISED] == 0:
            asks[s, ASK.OUT] = failure(w, d, s)
        passes = passes or asks[s, ASK.OUT] == UNKNOWN
    return passes


@kernel
def enter_other(d, others, s):
    """A shape that may keep others back lines up in the second line."""
    at, asks = d.reg[REG.RESERVABLE], d.asks
    first, second = asks[s, ASK.FIRST], asks[s, ASK.SECOND]
    insert(others, at, 0, 0, first, second, asks[s, ASK.UPCOMING], s)
    d.reg[REG.RESERVABLE] = at + 1


@kernel
def enter_first(w, d, others):
    """Of those who may keep others back, those that have a reservation or are the first under a
    limit line up; and whoever the starvation guard protects.
    """
    reg, asks, firsts = d.reg, d.asks, d.firsts
    left, count = reg[REG.RESERVATIONS_AT_MOST], reg[REG.RESERVABLE]
    anybody = len(firsts) - 1
    while count > 0:
        s = others[0, LINE.SHAPE]
        leave(others, count, WORDS)
        count -= 1
        is_limited = asks[s, ASK.OUT] == OVER_LIMIT
        q, some = w.shapes[s, SHAPE.QUEUE] if is_limited else anybody, asks[s, ASK.TYPE_SET]
        is_first = firsts[q, some] != reg[REG.CYCLE]
        if not is_limited and reg[REG.BACKFILL] != EASY:
            is_first = left > 0
        if is_guarded(reg, w.jobs, asks[s, ASK.UPCOMING]):
            enter(w, d, s)
        elif is_first:
            enter(w, d, s)
            firsts[q, some] = reg[REG.CYCLE]
            if not is_limited:
                left -= 1


@kernel
def gather(w, d):
    """Line up the shapes that are looked at: they may fit, or keep others back.

    With backfill: whoever may fit, or is told another cause; and if somebody may fit, who keeps
    others back. Where keys do not change in a cycle, only the first of those who may use the same
    types has a reservation under ``easy``, and only the first few under ``conservative``. Of those
    whom a limit keeps out, only the first of a team can be the first to be passed under it.
    """
    reg, asks = d.reg, d.asks
    reg[REG.HEAP] = 0
    reg[REG.RESERVABLE] = 0
    for i in range(reg[REG.LOOKS]):
        if asks[d.looks[i], ASK.IS_KNOWN] == 0:
            reg[REG.WHO] = d.looks[i]
            return KNOW
    passes = look_at(w, d)
    note_standings(w, d)
    is_everybody = passes and reg[REG.KEYS_CHANGE] != 0
    for i in range(reg[REG.LOOKS]):
        s = d.looks[i]
        cause = asks[s, ASK.OUT]
        if reg[REG.BACKFILL] == NONE:
            if cause == UNKNOWN or asks[s, ASK.PATIENCE_MS] <= reg[REG.NOW]:
                enter(w, d, s)
        elif cause == UNKNOWN or cause != asks[s, ASK.SAID] or is_everybody:
            enter(w, d, s)
        elif passes and (is_cured(cause) or cause == OVER_LIMIT):
            if asks[s, ASK.OUTLASTS] == UNKNOWN:
                reg[REG.WHO] = s
                return OUTLASTS
            if asks[s, ASK.OUTLASTS] != 0:
                enter_other(d, d.others, s)
    enter_first(w, d, d.others)
    return OVER
