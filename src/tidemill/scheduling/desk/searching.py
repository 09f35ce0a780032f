"""Searches of a cycle for others that make room: by moving, by shrinking, or by being stopped.

A search that finds nobody is settled here, with what may change that, and so is one that finds
whom to stop. Where others may move or shrink it returns a code, and Python does it. Some searches
are left for those who went without before.
"""

from tidemill.core.heaps import rise
from tidemill.core.replay import EVICT
from tidemill.model import codes
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT, JOB, NODE, PIECE
from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.codes import DONE, FAILED, OVER, PREPARE
from tidemill.scheduling.desk.columns import ASK, REG, UNKNOWN, VICTIM
from tidemill.scheduling.desk.failures import note_owed, remember
from tidemill.scheduling.desk.gathering import is_cured
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.moving import find_moves
from tidemill.scheduling.desk.order import WORDS
from tidemill.scheduling.desk.placing import say, tell
from tidemill.scheduling.desk.rights import is_in_vain, is_ready, is_shrinking_in_vain
from tidemill.scheduling.desk.stopping import UNPREPARED, UNSURE, find_victims, is_worth

OVER_LIMIT, BUSY, KEPT_BACK, PROMISED = map(
    int, (Cause.OVER_LIMIT, Cause.BUSY, Cause.KEPT_BACK, Cause.PROMISED)
)
RECLAIMED, PREEMPTED = codes.WHY_CODE[Why.RECLAIMED], codes.WHY_CODE[Why.PREEMPTED]


@kernel
def ask(d, s, code):
    """Come back to Python about a shape that was taken out of the line."""
    d.reg[REG.WHO] = s
    return code


@kernel
def ask_first(d, s, code):
    """Come back to Python about a shape, which stays the first in line."""
    at = d.reg[REG.HEAP]
    d.reg[REG.HEAP] = at + 1  # it stands at the end, where ``leave`` has put it
    rise(d.line, at, WORDS)
    return ask(d, s, code)


@kernel
def note_vain(reg, notes, asks, s):
    """A search for victims was in vain: note when another may be made by time alone."""
    asks[s, ASK.AGAIN_MS] = reg[REG.AGAIN_MS]
    if reg[REG.AGAIN_MS] < FOREVER_MS:
        reg[REG.HAS_QUESTIONS] = 1
    if reg[REG.IS_FINAL] == 0:
        asks[s, ASK.IS_DOUBTED] = 1
        note_owed(notes, asks, s)


@kernel
def may_search(d, s):
    """Whether a shape may look for victims in this cycle; if not, it is owed a search in the next.

    Half of the searches are for those who went without before, so that nobody always does.
    """
    reg, asks = d.reg, d.asks
    if asks[s, ASK.IS_DUE] != 0 or reg[REG.SEARCHES] > 0:
        return True
    if asks[s, ASK.OWED] == 0:
        reg[REG.SERIAL] += 1
        asks[s, ASK.OWED] = reg[REG.SERIAL]
        note_owed(d.notes, asks, s)
    return False


@kernel
def count_search(d, s):
    """A shape that may have a search has it."""
    if d.asks[s, ASK.IS_DUE] != 0:
        d.asks[s, ASK.IS_DUE] = 0
    else:
        d.reg[REG.SEARCHES] -= 1


@kernel
def begin_search(d, s):
    """Whether a shape may look for victims in this cycle; then it does."""
    if not may_search(d, s):
        return False
    count_search(d, s)
    return True


@kernel
def may_be_moved(reg, cause):
    """Whether moving others may be a cure."""
    return reg[REG.MAY_MOVE] != 0 and cause not in (BUSY, KEPT_BACK, OVER_LIMIT)


@kernel
def may_make_room(reg, asks, s, cause):
    """Whether room could be made for a shape at all, by moving others or by stopping them."""
    if not is_cured(cause) and cause != OVER_LIMIT:
        return False
    if asks[s, ASK.DISTURBS_NOBODY] != 0:
        return False
    if may_be_moved(reg, cause):
        return True
    return reg[REG.MAY_RESIZE] != 0 or asks[s, ASK.MAY_EVICT] != 0


@kernel
def is_moving_in_vain(d, s):
    """Whether no moves are to be searched for: too little is free of every type, wherever it is.

    Or this cycle may not search any more.
    """
    asks, first = d.asks, d.asks[s, ASK.FIRST_TYPE]
    if d.reg[REG.MOVES_LEFT] <= 0:
        return True
    for i in range(first, first + asks[s, ASK.TYPES]):
        if d.free[d.types[i]] >= asks[s, ASK.LEAST]:
            return False
    return True


@kernel
def prepare_other(d, s):
    """Come back to Python about a shape that a search met and that it must look at first."""
    other = d.reg[REG.WHO]
    ask_first(d, s, PREPARE)
    return ask(d, other, PREPARE)


@kernel
def search_moves(w, d, g, t, h, s, cause):
    """Who is to move for a shape: OVER if nobody can, or a code for Python."""
    d.reg[REG.MOVE_AGAIN_MS] = FOREVER_MS
    d.reg[REG.HAS_LATER_MOVES] = 0
    if not may_be_moved(d.reg, cause) or is_moving_in_vain(d, s):
        return OVER
    found = find_moves(w, d, g, t, h, s)
    if found == UNPREPARED:
        return prepare_other(d, s)
    return ask(d, s, FAILED) if found != 0 else OVER


@kernel
def search_cuts(w, d, g, s):
    """Who is to shrink for a shape: OVER if nobody can, or a code for Python."""
    d.reg[REG.CUTS] = 0
    if d.reg[REG.MAY_RESIZE] == 0:
        return OVER
    if d.reg[REG.GOING] > 0 or not is_ready(d.reg, d.asks, s):
        return ask(d, s, FAILED)
    return OVER if is_shrinking_in_vain(w, d, g, s) else ask(d, s, FAILED)


@kernel
def note_room_kept(d, s, cause):
    """Neither moves nor cuts help a shape: note what may change that."""
    reg, asks, is_doubted = d.reg, d.asks, 0
    if may_be_moved(reg, cause):
        asks[s, ASK.IS_HEEDING] = 1
        is_doubted = reg[REG.HAS_LATER_MOVES] | int(reg[REG.MOVES_LEFT] <= 0)
        reg[REG.MOVES_LEFT] -= 1
    if reg[REG.MAY_RESIZE] != 0:
        asks[s, ASK.IS_HEEDING] = 1
        is_doubted |= reg[REG.HAS_LATER_CUTS]
    if is_doubted != 0:
        asks[s, ASK.IS_DOUBTED] = 1
        note_owed(d.notes, asks, s)


@kernel
def can_tell(d, count):
    """Whether it can be told that so many are stopped, beside what else one more job brings."""
    reg = d.reg
    if reg[REG.GOING] + count > len(d.going):
        return False
    return reg[REG.EVENTS] + reg[REG.PASSABLES] + count + 4 <= len(d.events)


@kernel
def judge(w, d, g, t, h, s):
    """Whether the chosen are stopped: DONE, OVER if that is not worth it, or a code for Python.

    A claim to a guaranteed quota is a right; preemption may have to be worth it.
    """
    reg, count = d.reg, d.reg[REG.FOUND]
    if count == UNSURE or not can_tell(d, count):
        return ask(d, s, FAILED)
    worth = 1 if reg[REG.REACH] != 0 else is_worth(w, d, g, t, h, s, count)
    if worth == UNSURE:
        return ask(d, s, FAILED)
    if worth == 0:
        reg[REG.AGAIN_MS] = FOREVER_MS
        reg[REG.IS_FINAL] = 0
        return OVER
    return DONE


@kernel
def hold_types(d, s):
    """Let nobody be placed on the types that a shape may use."""
    for i in range(d.asks[s, ASK.FIRST_TYPE], d.asks[s, ASK.FIRST_TYPE] + d.asks[s, ASK.TYPES]):
        d.held[d.types[i]] = 1
        d.reg[REG.IS_HOLDING] = 1


@kernel
def hold_left(w, d, j):
    """Let nobody be placed on the types of what a job holds that is to leave."""
    p = w.jobs[j, JOB.FIRST_PIECE]
    while p >= 0:
        if w.pieces[p, PIECE.IS_COMING] == 0:
            d.held[w.nodes[w.pieces[p, PIECE.NODE], NODE.KIND]] = 1
            d.reg[REG.IS_HOLDING] = 1
        p = w.pieces[p, PIECE.NEXT_OF_JOB]


@kernel
def keep_promise(w, d, s):
    """Room is being made for a shape: nobody is placed where others are still to leave for it."""
    say(d, s, PROMISED)
    hold_types(d, s)
    for i in range(w.at[AT.ACTIVE] if w.at[AT.LEAVING] > 0 else 0):
        j = w.active[i]
        if w.jobs[j, JOB.IS_LEAVING] != 0 and w.jobs[j, JOB.LEAVING_FOR] == s:
            hold_left(w, d, j)


@kernel
def stop_chosen(w, d, h, s):
    """Ask whoever was chosen to stop for the next job of a shape, which nobody may pass."""
    reg = d.reg
    for i in range(reg[REG.FOUND]):
        x = h.chosen[i]
        j, is_reclaimed = h.victims[x, VICTIM.JOB], h.victims[x, VICTIM.IS_RECLAIMED] != 0
        tell(d, EVICT, j, w.jobs[j, JOB.ATTEMPT], RECLAIMED if is_reclaimed else PREEMPTED)
        d.events[reg[REG.EVENTS] - 1, EventColumn.TO] = d.asks[s, ASK.UPCOMING]
        d.going[reg[REG.GOING]] = j
        reg[REG.GOING] += 1
        hold_left(w, d, j)
    d.asks[s, ASK.AGAIN_MS] = FOREVER_MS
    reg[REG.FOUND] = UNKNOWN
    say(d, s, PROMISED)
    hold_types(d, s)


@kernel
def search_victims(w, d, g, t, h, s):
    """Who is to be stopped for a shape: DONE, OVER if nobody is, or a code for Python."""
    reg, asks = d.reg, d.asks
    if asks[s, ASK.MAY_EVICT] == 0:
        reg[REG.AGAIN_MS] = FOREVER_MS
        reg[REG.IS_FINAL] = 1
        return OVER
    if is_in_vain(w, d, g, s):
        return OVER
    if reg[REG.CUTS] > 0:
        return ask(d, s, FAILED)
    reg[REG.FOUND] = find_victims(w, d, g, t, h, s)
    if reg[REG.FOUND] == UNPREPARED:
        return prepare_other(d, s)
    return judge(w, d, g, t, h, s) if reg[REG.FOUND] != 0 else OVER


@kernel
def search(w, d, g, t, h, s, cause):
    """Others may make room for a shape: DONE if they are asked to, OVER if nobody is, or a code.

    Nobody is where no search is left in this cycle, and it is owed one; or where nobody is found.
    Python searches where others may move or shrink.
    """
    reg, asks = d.reg, d.asks
    if not may_search(d, s):
        return OVER
    code = search_moves(w, d, g, t, h, s, cause)
    if code == OVER:
        code = search_cuts(w, d, g, s)
    if code == OVER:
        code = search_victims(w, d, g, t, h, s)
    reg[REG.CUTS] = 0
    if code > OVER:
        return code
    count_search(d, s)
    note_room_kept(d, s, cause)
    if code == DONE:
        stop_chosen(w, d, h, s)
        return DONE
    reg[REG.AGAIN_MS] = min(reg[REG.AGAIN_MS], reg[REG.MOVE_AGAIN_MS])
    note_vain(reg, d.notes, asks, s)
    if asks[s, ASK.IS_DOUBTED] == 0:
        remember(w, d, s, cause)
    return OVER
