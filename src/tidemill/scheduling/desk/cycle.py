"""The compiled part of a cycle: the line of those who are looked at, one after the other.

``work_off`` goes through the line that ``gathering`` made. What is common is done here: who is
behind somebody, what failed before and still does, who is placed, for whom others are stopped or
kept back. For everything else it returns a code, with the shape in ``REG.WHO``; Python does that
over the same columns and calls again.
"""

from tidemill.compiled import shared
from tidemill.core.estimates import end_if_placed
from tidemill.core.heaps import goes_before, leave, rise
from tidemill.core.replay import RELEASE
from tidemill.model.columns import QUEUE, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.codes import (
    DONE,
    FIT,
    MAKE,
    OUTLASTS,
    OVER,
    PREPARE,
    STEP,
    SUPPLY,
    TELL,
    WATCH,
)
from tidemill.scheduling.desk.columns import ASK, LINE, OPTION, REG, UNKNOWN
from tidemill.scheduling.desk.failures import failure, remember
from tidemill.scheduling.desk.fair_shares import rank_again
from tidemill.scheduling.desk.gathering import is_guarded, may_hold
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.lines import PASSERS_AT_MOST, is_asked, step_on
from tidemill.scheduling.desk.order import WORDS, enter, write_key
from tidemill.scheduling.desk.placing import (
    BARRED,
    NO_NODES,
    UNSURE,
    claim,
    fit,
    fit_beside,
    has_space,
    latest_disturbed,
    note_first,
    obstacle,
    place,
    place_gang,
    refuse,
    say,
    settle_books,
    tell,
    try_to_fit,
)
from tidemill.scheduling.desk.quiet import (
    LOOKED_AT,
    copy,
    follow,
    forget_likes,
    line_up_quiet,
    read_next_at,
    take_out_quiet,
)
from tidemill.scheduling.desk.reserving import READY, is_fitted, make_all
from tidemill.scheduling.desk.reserving import UNPREPARED as UNPREPARED_CLAIM
from tidemill.scheduling.desk.role_by_role import (
    TIED,
    fit_gang_beside,
    fit_largest,
    fit_roles,
    is_of_nodes,
    shortage_of_role,
    unseat,
)
from tidemill.scheduling.desk.searching import (
    ask,
    ask_first,
    hold_types,
    keep_promise,
    may_make_room,
    search,
)
from tidemill.scheduling.desk.shortage import shortage
from tidemill.scheduling.fitting.books import UNFIT, limit_on
from tidemill.scheduling.fitting.columns import CALL

OVER_LIMIT, BEHIND, BUSY, KEPT_BACK, RESERVED = map(
    int, (Cause.OVER_LIMIT, Cause.BEHIND, Cause.BUSY, Cause.KEPT_BACK, Cause.RESERVED)
)
NOTHING = int(Cause.NONE)


# What is known of them ------------------------------------------------------------------------


@kernel
def is_behind(reg, queues, asks, types, held, held_teams, s, q):
    """Whether somebody who may not be passed wants the same GPUs."""
    if reg[REG.IS_HOLDING] == 0 and reg[REG.IS_HOLDING_TEAMS] == 0:
        return False
    first, count = asks[s, ASK.FIRST_TYPE], asks[s, ASK.TYPES]
    for i in range(first, first + count):
        if held[types[i]] != 0:
            return True
    while q >= 0 and reg[REG.IS_HOLDING_TEAMS] != 0:
        for i in range(first, first + count):
            if held_teams[q, types[i]] != 0:
                return True
        q = queues[q, QUEUE.PARENT]
    return False


@kernel
def is_unfit(w, d, s, q):
    """Whether a shape surely does not fit.

    No nodes held a request of its like in this cycle, and what is free only gets less; or it is
    kept off every type whichever nodes there are.
    """
    asks, options = d.asks, d.options
    if asks[s, ASK.IS_SIMPLE] == 0:
        return False
    first = asks[s, ASK.FIRST_OPTION]
    if options[first, OPTION.UNFIT_IN] == d.reg[REG.CYCLE]:
        return True
    for o in range(first, first + asks[s, ASK.OPTIONS]):
        if obstacle(w, d, q, options[o, OPTION.KIND], asks[s, ASK.NEED]) == UNFIT:
            return False
    return True


@kernel
def end_of_next(w, d, s):
    """When the next job of a shape is expected to end if it is placed now."""
    j = d.asks[s, ASK.UPCOMING]
    return end_if_placed(w.jobs, w.shapes, d.learnt, j, d.reg[REG.NOW])


@kernel
def is_refused(w, d, s):
    """Whether the next job of a shape has no place beside what is reserved, if it disturbs that.

    Another of its like had none that ends no later. What is free only gets less in a cycle, and
    what is reserved only more; and in cycles since then both may be the same.
    """
    reg, asks, options, o = d.reg, d.asks, d.options, d.asks[s, ASK.FIRST_OPTION]
    if is_asked(reg) or asks[s, ASK.OPTIONS] != 1:
        return False
    if options[o, OPTION.REFUSED_IN] < reg[REG.SINCE]:
        return False
    return end_of_next(w, d, s) > options[o, OPTION.REFUSED_MS]


@kernel
def is_kept_back(w, d, s, q):
    """Whether a reservation surely keeps the next job of a shape back.

    It kept back another of its like that ends no later; since then nobody was placed, and no
    reservation claimed. Of a simple shape ``is_unfit`` has asked what else may be in its way.
    """
    o = d.asks[s, ASK.FIRST_OPTION]
    if d.reg[REG.PENDING] > 0 or d.options[o, OPTION.REFUSED_AT] != d.reg[REG.PLACED]:
        return False
    if not is_refused(w, d, s):
        return False
    if d.asks[s, ASK.IS_SIMPLE] != 0:
        return True
    return obstacle(w, d, q, d.options[o, OPTION.KIND], d.asks[s, ASK.NEED]) == UNFIT


@kernel
def keep_back(w, d, s, latest):
    """A reservation keeps the next job of a shape back, and whoever ends later than this.

    One after it may be shorter.
    """
    asks = d.asks
    d.reg[REG.HAS_REFUSED] = 1
    say(d, s, RESERVED)
    asks[s, ASK.REFUSED_MS] = latest
    asks[s, ASK.TRIED] += 1
    if asks[s, ASK.TRIED] < PASSERS_AT_MOST and step_on(w, d, s):
        enter(w, d, s)


@kernel
def why_not(w, d, g, s):
    """Why a shape waits that no nodes hold, or of which a role did not fit (``REG.SHORT``)."""
    d.reg[REG.VERSION] = g.regs[CALL.TOUCHED]
    if d.reg[REG.SHORT] == UNKNOWN:
        return shortage(w, d, g, s)
    cause, supply = shortage_of_role(w, d, g, s), d.asks[s, ASK.SUPPLY]
    return cause if supply == NOTHING else supply


@kernel
def settle(w, d, g, t, h, s):
    """A shape that no nodes hold: why, and what follows from it; DONE, OVER, or a code."""
    reg, asks = d.reg, d.asks
    if asks[s, ASK.SUPPLY] == UNKNOWN:
        return ask_first(d, s, SUPPLY)
    cause = why_not(w, d, g, s)
    reg[REG.CAUSE] = cause
    reg[REG.FOUND] = UNKNOWN
    if w.shapes[s, SHAPE.PROMISED] > 1:
        line_up_quiet(d)
        keep_promise(w, d, s)
        return DONE
    if w.shapes[s, SHAPE.PROMISED] == 1 and asks[s, ASK.TAKEN] == 0:
        tell(d, RELEASE, s, 0, 0)
        say(d, s, cause)
        return DONE
    if may_make_room(reg, asks, s, cause):
        code = search(w, d, g, t, h, s, cause)
        if code == DONE or reg[REG.FOUND] > 0:  # who is behind it, or may search too, has its turn
            line_up_quiet(d)
        return code
    remember(w, d, s, cause)
    return OVER


@kernel
def is_out_of_date(w, d):
    """Whether the key of the first in line is another by now; then it takes its new place."""
    line, count = d.line, d.reg[REG.HEAP]
    if line[0, LINE.PLACED] >= d.reg[REG.KEYED]:
        return False
    s = line[0, LINE.SHAPE]
    write_key(w, d, line, count, s)
    if not goes_before(line, 0, count, WORDS) and not goes_before(line, count, 0, WORDS):
        return False
    leave(line, count, WORDS)
    write_key(w, d, line, count - 1, s)
    rise(line, count - 1, WORDS)
    return True


@kernel
def hold_under(w, d, s, j):
    """Keep others back, or let them pass, who are under the limits that keep a shape out."""
    reg, asks, q, first = d.reg, d.asks, w.shapes[s, SHAPE.QUEUE], d.reg[REG.LIMITS]
    guards, end = is_guarded(reg, w.jobs, j), first
    for i in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
        k = d.types[i]
        a = limit_on(w.queues, w.quotas, d.used, q, k, asks[s, ASK.NEED])
        if guards:
            d.held_teams[a, k] = 1
            reg[REG.IS_HOLDING_TEAMS] = 1
        else:
            d.limited[q, k] = 1
            d.limit_rows[end, 0] = a
            d.limit_rows[end, 1] = k
            end += 1
    if not guards:
        reg[REG.LIMITS] = end
        note_first(d, w.jobs, s, j, first, end - first)
    return OVER


@kernel
def hold(w, d, s, cause):
    """Keep others back behind a shape that does not fit, or reserve for it; a code if Python must.

    Whoever the starvation guard protects keeps everybody off its types. A job that a limit keeps
    out has no reservation, and is in the way of those alone who are under that limit.
    """
    reg, asks, j = d.reg, d.asks, d.asks[s, ASK.UPCOMING]
    if asks[s, ASK.OUTLASTS] == UNKNOWN:
        reg[REG.HALTED] = s + 1
        return ask(d, s, OUTLASTS)
    if asks[s, ASK.OUTLASTS] == 0:
        return OVER
    line_up_quiet(d)
    if cause == OVER_LIMIT:
        return hold_under(w, d, s, j)
    if not is_guarded(reg, w.jobs, j):
        claim(w, d, s, j)
        return OVER
    hold_types(d, s)
    return OVER


@kernel
def go_on(w, d, g, s):
    """After a job was placed, the next of its shape lines up; a code if Python must say who."""
    follow(w, d, g)
    rank_again(w, d, w.shapes[s, SHAPE.QUEUE])
    if is_asked(d.reg):
        return ask(d, s, STEP)
    if step_on(w, d, s):
        enter(w, d, s)
    return DONE


@kernel
def make(w, d, g, t, e, s):
    """Make what was claimed before a shape may pass, which is the first in line again after it."""
    why = make_all(w, d, g, t, e)
    other = d.reg[REG.WHO]
    ask_first(d, s, MAKE)
    if why == UNPREPARED_CLAIM:
        return ask(d, other, PREPARE)
    return MAKE if why != READY else DONE


@kernel
def is_plain(d, s):
    """Whether the next job of a shape is fitted and placed here.

    Not where it matters who comes after it, and Python says that.
    """
    reg, asks = d.reg, d.asks
    if not is_fitted(asks, s) or reg[REG.IS_PLAIN] == 0 or reg[REG.IS_SLICED] != 0:
        return False
    if not is_asked(reg):
        return True
    return (
        reg[REG.PENDING] == 0 and reg[REG.PROMISES] == 0 and asks[s, ASK.REFUSED_MS] == FOREVER_MS
    )


@kernel
def fit_beside_others(w, d, g, t, e, s, q, latest):
    """A job fits: place it beside the reservations that it would disturb, if it fits there too.

    The last of them begins at ``latest``. DONE, or a code.
    """
    if d.reg[REG.PENDING] > 0:
        return make(w, d, g, t, e, s)
    count = 0 if is_refused(w, d, s) else fit_beside(w, d, g, t, s, q)
    if count == UNSURE:
        return ask(d, s, FIT)
    if count <= 0:
        refuse(d, s, latest)
        keep_back(w, d, s, latest)
        return DONE
    settle_books(w, d, g, s, q)
    place(w, d, g, s, q, count)
    return go_on(w, d, g, s)


@kernel
def settle_unfit(w, d, g, t, h, s, why):
    """No place was found for the first in line: why, and what follows; DONE, OVER, or a code."""
    asks, options = d.asks, d.options
    if why == BARRED and asks[s, ASK.IS_BINDING] != 0:
        fit_roles(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE], 0, TIED)
        if is_of_nodes(d, d.reg[REG.SHORT]):
            d.reg[REG.SHORT] = UNKNOWN
            why = NO_NODES
    if why == BARRED:
        return settle(w, d, g, t, h, s)
    if why != NO_NODES:
        return ask(d, s, FIT)
    for o in range(asks[s, ASK.FIRST_OPTION], asks[s, ASK.FIRST_OPTION] + asks[s, ASK.OPTIONS]):
        options[o, OPTION.UNFIT_IN] = d.reg[REG.CYCLE]
    return settle(w, d, g, t, h, s)


@kernel
def latest_before(w, d, s):
    """When the last reservation begins that the next job of a shape disturbs; -1: none is."""
    if d.reg[REG.PROMISES] == 0:
        return -1
    return latest_disturbed(w, d, s, end_of_next(w, d, s))


@kernel
def fit_gang(w, d, g, t, h, e, s, q):
    """As ``fit_first``, for a gang that is fitted role by role."""
    count = fit_largest(w, d, g, t, s, q)
    if count == 0:
        return settle(w, d, g, t, h, s)
    if count > 0 and d.reg[REG.PENDING] > 0:
        unseat(w, d, g, s, q, count)
        return make(w, d, g, t, e, s)
    latest = latest_before(w, d, s)
    if count > 0 and latest >= 0:
        unseat(w, d, g, s, q, count)
        count = fit_gang_beside(w, d, g, t, s, q)
        if count == 0:
            refuse(d, s, latest)
            keep_back(w, d, s, latest)
            return DONE
    if count == UNSURE:
        return ask(d, s, FIT)
    place_gang(w, d, s, q, count)
    return go_on(w, d, g, s)


@kernel
def fit_first(w, d, g, t, h, e, s, q):
    """Fit the first in line and place it, or settle why not; DONE, OVER, or a code.

    Where it disturbs reservations, or some are to be made before it, it does not sit where it
    would without them: then it only counts whether it fits at all.
    """
    if not is_plain(d, s):
        return ask(d, s, FIT)
    if d.asks[s, ASK.SIZES] > 0:
        return fit_gang(w, d, g, t, h, e, s, q)
    reg, latest, is_first = d.reg, -1, d.reg[REG.PENDING] == 0
    if is_first and reg[REG.PROMISES] > 0:
        latest = latest_disturbed(w, d, s, end_of_next(w, d, s))
        is_first = latest < 0
    if not is_first:
        count = try_to_fit(w, d, g, t, s, q)
        if count > 0:
            return fit_beside_others(w, d, g, t, e, s, q, latest)
        return settle_unfit(w, d, g, t, h, s, count)
    count = fit(w, d, g, t, s, q)
    if count <= 0:
        return settle_unfit(w, d, g, t, h, s, count)
    settle_books(w, d, g, s, q)
    place(w, d, g, s, q, count)
    return go_on(w, d, g, s)


@kernel
def has_no_type(w, d, s):
    """A shape of one role may use no type that there is: supply says why. A code if Python must."""
    supply = d.asks[s, ASK.SUPPLY]
    if supply == UNKNOWN:
        return ask_first(d, s, SUPPLY)
    if supply == NOTHING or w.shapes[s, SHAPE.PROMISED] != 0:
        return ask(d, s, FIT)
    d.reg[REG.CAUSE] = supply
    d.asks[s, ASK.IS_LIMITED] = 0
    remember(w, d, s, supply)
    return OVER


@kernel
def try_first(w, d, g, t, h, e, s, q):
    """The first in line, whom nobody holds back: why it does not fit, in ``REG.CAUSE``.

    A code if Python must say; DONE if there is nothing more to do about it.
    """
    asks = d.asks
    d.reg[REG.CAUSE] = UNKNOWN
    d.reg[REG.SHORT] = UNKNOWN
    if w.shapes[s, SHAPE.PROMISED] == 0:
        d.reg[REG.CAUSE] = failure(w, d, s)
    if d.reg[REG.CAUSE] != UNKNOWN:
        return OVER
    if asks[s, ASK.TYPES] == 0 and asks[s, ASK.ROLES] == 1 and not is_fitted(asks, s):
        return has_no_type(w, d, s)
    if is_fitted(asks, s) and asks[s, ASK.PREPARED] != d.reg[REG.ROOM_AT]:
        return ask_first(d, s, PREPARE)
    if is_unfit(w, d, s, q):
        return settle(w, d, g, t, h, s)
    if not is_kept_back(w, d, s, q):
        return fit_first(w, d, g, t, h, e, s, q)
    keep_back(w, d, s, d.options[asks[s, ASK.FIRST_OPTION], OPTION.REFUSED_MS])
    return DONE


@kernel
def hold_halted(w, d):
    """Go on with whoever Python was asked about before it could be held behind; a code, or OVER."""
    s, d.reg[REG.HALTED] = d.reg[REG.HALTED] - 1, 0
    return hold(w, d, s, d.reg[REG.CAUSE])


@kernel
def deal_with(w, d, g, t, h, e, s, q):
    """Place the first in line, say why it waits, or hold behind it; above OVER: a code."""
    reg, asks = d.reg, d.asks
    if reg[REG.WATCHED] == asks[s, ASK.UPCOMING] + 1:
        return ask_first(d, s, WATCH)
    if is_behind(reg, w.queues, asks, d.types, d.held, d.held_teams, s, q):
        if asks[s, ASK.SUPPLY] == UNKNOWN:
            return ask_first(d, s, SUPPLY)
        say(d, s, BEHIND if asks[s, ASK.SUPPLY] == NOTHING else asks[s, ASK.SUPPLY])
        return DONE
    code = try_first(w, d, g, t, h, e, s, q)
    if code != OVER:
        return code
    cause = reg[REG.CAUSE]
    say(d, s, cause)
    if may_hold(reg, w.jobs, asks, d.types, d.claimed, d.limited, s, q, cause):
        return hold(w, d, s, cause)
    return DONE


@kernel
@shared
def work_off(w, d, g, t, h, e):
    """Go through the line until it is empty, or until Python must do something."""
    reg, line, code, seen, quiet_at = d.reg, d.line, DONE, 0, LOOKED_AT
    if reg[REG.HALTED] != 0:
        code = hold_halted(w, d)
    while code <= OVER and reg[REG.HEAP] > 0:
        if seen >= quiet_at:
            take_out_quiet(w, d, g)
            quiet_at = read_next_at(reg, seen)
            continue
        if not has_space(d, g):
            code = TELL
            break
        if is_out_of_date(w, d):
            continue
        s = line[0, LINE.SHAPE]
        leave(line, reg[REG.HEAP], WORDS)
        reg[REG.HEAP] -= 1
        seen += 1
        if reg[REG.QUIET] > 0:
            copy(line, reg[REG.HEAP], len(line) - 1)
        going = reg[REG.GOING]
        code = deal_with(w, d, g, t, h, e, s, w.shapes[s, SHAPE.QUEUE])
        if reg[REG.IS_HOLDING] + reg[REG.IS_HOLDING_TEAMS] != 0 or reg[REG.GOING] != going:
            line_up_quiet(d)
    if code > OVER:
        line_up_quiet(d)
    reg[REG.QUIET] = 0
    forget_likes(d)
    return max(code, OVER)
