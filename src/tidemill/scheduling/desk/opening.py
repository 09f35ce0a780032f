"""A cycle begins and ends: what is new since the last, the desk wiped, the room as the fleet is.

Compiled, since every beat begins so, and most have nothing to decide.
"""

from tidemill.core.estimates import SAID, learn
from tidemill.core.order import guarded_from
from tidemill.model.columns import AT, KIND, NODE, QUEUE, QUOTA, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import NodeState
from tidemill.scheduling.desk.columns import ASK, NOTE, REG
from tidemill.scheduling.desk.failures import begin_searches, is_anybody_owed, somebody_heeds
from tidemill.scheduling.desk.fair_shares import rank_all
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.lines import is_asked, read_line
from tidemill.scheduling.fitting.columns import CALL
from tidemill.scheduling.fitting.sweeps import copy_changed

READY = int(NodeState.READY)
MOVE_SHARE = 4  # of the searches of a cycle, one in so many may look for moves, which cost most
CHANGED_AT_MOST = 256  # nodes; beyond that some of them surely have room


# What is new ----------------------------------------------------------------------------------


@kernel
def note(notes, column, value):
    """Note a number; whether it is another than before."""
    is_same = notes[column] == value
    notes[column] = value
    return not is_same


@kernel
def has_changed(w, d, jobs_came):
    """Whether anything that a decision depends on happened since the last call."""
    notes, freed, taken, given = d.notes, 0, 0, 0
    for k in range(len(w.kinds)):
        freed += w.kinds[k, KIND.FREED]
        taken += w.kinds[k, KIND.TAKEN]
    for q in range(len(w.queues)):
        given += w.queues[q, QUEUE.FREED]
    is_new = note(notes, NOTE.JOBS, jobs_came)
    is_new |= note(notes, NOTE.SUPPLY, w.at[AT.SUPPLY_CHANGES])
    is_new |= note(notes, NOTE.FREED, freed)
    is_new |= note(notes, NOTE.GIVEN, given)
    is_new |= note(notes, NOTE.TAKEN, taken if notes[NOTE.WATCHES] != 0 else 0)
    return is_new or notes[NOTE.DRIFTS] != 0 or is_anybody_owed(notes, d.asks)


@kernel
def is_question_due(d, now):
    """Whether a search is to be made again though nothing changed."""
    if d.notes[NOTE.FLEET_AGAIN_MS] <= now:
        return True
    if d.notes[NOTE.HAS_QUESTIONS] != 0:
        for i in range(d.reg[REG.LOOKS]):
            if d.asks[d.looks[i], ASK.AGAIN_MS] <= now:
                return True
    return False


@kernel
def next_question(looks, asks, notes, count, now):
    """When the next search is to be made again by time alone, for so many that wait."""
    found = FOREVER_MS
    if now < notes[NOTE.FLEET_AGAIN_MS]:
        found = notes[NOTE.FLEET_AGAIN_MS]
    if notes[NOTE.HAS_QUESTIONS] != 0:
        for i in range(count):
            again = asks[looks[i], ASK.AGAIN_MS]
            if now < again < found:
                found = again
    return found


@kernel
def is_patience_lost(w, d, now):
    """Whether someone lost patience since the last cycle: others may now be held otherwise.

    Of each line the one who loses it first; Python says it where it is asked.
    """
    reg, since, patience = d.reg, d.notes[NOTE.DECIDED_MS], d.reg[REG.PATIENCE_MS]
    for i in range(reg[REG.LOOKS]):
        s = d.looks[i]
        if reg[REG.BY_SHAPE] != 0:
            lost = guarded_from(w.jobs, w.shapes[s, SHAPE.HEAD], 0, 1, patience, 0)
        else:
            read_line(w.jobs, w.shapes, d.steps, d.learnt, reg, d.asks, s)
            lost = d.asks[s, ASK.PATIENCE_MS]
        if since < lost <= now:
            return True
    return False


@kernel
def is_guard_new(w, d, now):
    """Whether the starvation guard protects somebody since the last cycle: nobody passes it now."""
    reg, since = d.reg, d.notes[NOTE.DECIDED_MS]
    backfills, by_shape = reg[REG.BACKFILL], reg[REG.BY_SHAPE]
    for i in range(reg[REG.LOOKS]):
        j = w.shapes[d.looks[i], SHAPE.HEAD]
        at_ms = guarded_from(
            w.jobs, j, backfills, by_shape, reg[REG.PATIENCE_MS], reg[REG.HOLD_AFTER_MS]
        )
        if since < at_ms <= now:
            return True
    return False


@kernel
def may_be_let(w, d, now):
    """Whether somebody may be let past who was kept from passing, though nothing was freed.

    Not as long as the same is reserved: whoever would have run for too long still would. Something
    else may be when nodes changed, or somebody did not end as expected.
    """
    reg, at = d.reg, w.at
    if d.notes[NOTE.HAS_REFUSED] == 0:
        return False
    if reg[REG.STANDS] == 0 or now >= reg[REG.NEXT_END_MS]:
        return True
    if reg[REG.BY_SHAPE] == 0 or reg[REG.FAIRNESS] != 0:  # who is first may be another by now
        return True
    if reg[REG.MADE_OF] != at[AT.LOGGED] or reg[REG.MADE_PACE] != at[AT.PACE_CHANGES]:
        return True
    return is_guard_new(w, d, now)


@kernel
def is_news(w, d, jobs_came, now):
    """Whether a cycle has anything to decide: if not, the last one's decisions stand."""
    is_new = has_changed(w, d, jobs_came)
    if is_new or may_be_let(w, d, now) or is_question_due(d, now):
        return True
    return not is_asked(d.reg) and is_patience_lost(w, d, now)


# Beginning ------------------------------------------------------------------------------------


@kernel
def look_again(w, d):
    """Note what the nodes that changed since the last look have free."""
    notes, first, end = d.notes, d.notes[NOTE.READ], w.at[AT.LOGGED]
    notes[NOTE.READ] = end
    is_known = first >= w.at[AT.LOG_FIRST] and end - first <= len(w.log)
    if is_known and first == end:
        return
    notes[NOTE.LOOK] += 1
    notes[NOTE.IS_WHOLE] = 0
    for k in range(len(d.changed)):
        d.changed[k] = 0
    if not is_known or end - first > CHANGED_AT_MOST:
        return
    notes[NOTE.IS_WHOLE] = 1
    for i in range(first, end):
        n = w.log[i % len(w.log)]
        if w.nodes[n, NODE.STATE] == READY and w.nodes[n, NODE.IS_SPARE] == 0:
            k = w.nodes[n, NODE.KIND]
            d.changed[k] = max(d.changed[k], w.nodes[n, NODE.FREE_MILLI])


@kernel
def refresh_room(w, g):
    """Have the nodes of a room be as they are: what changed, and what was tried in it."""
    regs, logged = g.regs, w.at[AT.LOGGED]
    clean, read = regs[CALL.CLEAN], regs[CALL.READ]
    if read < w.at[AT.LOG_FIRST] or logged - read > len(w.log):
        clean, read = regs[CALL.TOUCHED] - len(g.touched), logged  # all of them
    copy_changed(w.nodes, w.devices, w.log, regs, g.touched, g.spots, g.parts, clean, read, logged)
    regs[CALL.READ] = logged
    regs[CALL.CLEAN] = regs[CALL.TOUCHED]


@kernel
def refresh(w, d, g):
    """Start again from the fleet as it is: what changed there, and what was tried in the room."""
    refresh_room(w, g)
    keeps = w.at[AT.KEEPS] != 0
    for k in range(len(d.free)):
        d.free[k] = w.kinds[k, KIND.FREE_MILLI]
        if keeps:
            d.kept[k] = w.kinds[k, KIND.KEPT_MILLI]
        for q in range(len(d.used)):
            d.used[q, k] = w.quotas[q, k, QUOTA.USED]
            if keeps:
                d.below[q, k] = w.quotas[q, k, QUOTA.BELOW]


@kernel
def wipe(d):
    """Wipe off what the last cycle left."""
    reg = d.reg
    for k in range(len(d.held)):
        d.held[k] = 0
        d.claimed[k] = 0
        for q in range(len(d.limited)):
            d.limited[q, k] = 0
            d.held_teams[q, k] = 0
    reg[REG.HEAP] = 0
    reg[REG.PLACED] = 0
    reg[REG.KEYED] = 0
    reg[REG.EVENTS] = 0
    reg[REG.EVENT_PIECES] = 0
    reg[REG.PENDING] = 0
    reg[REG.PROMISES] = 0
    reg[REG.PASSABLES] = 0
    reg[REG.LIMITS] = 0
    reg[REG.HAS_REFUSED] = 0
    reg[REG.IS_SLICED] = 0
    reg[REG.IS_HOLDING] = 0
    reg[REG.IS_HOLDING_TEAMS] = 0
    reg[REG.GOING] = 0
    reg[REG.HAS_QUESTIONS] = 0
    reg[REG.HALTED] = 0


@kernel
def know_history(w, d):
    """Know what history says by now; what was reserved stands no more if that is news."""
    before = d.learnt[0, SAID.NEWS]
    learn(w.queues, w.run_times, w.ratios, d.learnt)
    if d.learnt[0, SAID.NEWS] != before:
        d.reg[REG.STANDS] = 0


@kernel
def begin(w, d, g, now):
    """Begin a cycle."""
    reg, notes, most = d.reg, d.notes, d.reg[REG.SEARCHES_AT_MOST]
    look_again(w, d)
    refresh(w, d, g)
    wipe(d)
    notes[NOTE.CYCLE] += 1
    reg[REG.NOW] = now
    reg[REG.CYCLE] = notes[NOTE.CYCLE]
    reg[REG.SINCE] = notes[NOTE.CYCLE]
    reg[REG.LOOK] = notes[NOTE.LOOK]
    reg[REG.IS_WHOLE] = notes[NOTE.IS_WHOLE]
    reg[REG.CLAIMS_LEFT] = reg[REG.RESERVATIONS_AT_MOST]
    know_history(w, d)
    rank_all(w, d)
    due = begin_searches(w.shapes, notes, d.asks, (most + 1) // 2)
    reg[REG.SEARCHES] = most - due
    reg[REG.MOVES_LEFT] = max(1, most // MOVE_SHARE)


@kernel
def close(d):
    """A cycle is over: note whether someone waits who may gain by what others take.

    Fair shares change with what anybody takes; and where past use is counted, with time alone:
    whoever is held now may be first a moment later.
    """
    reg, notes = d.reg, d.notes
    notes[NOTE.HAS_QUESTIONS] |= reg[REG.HAS_QUESTIONS]
    notes[NOTE.HAS_REFUSED] = reg[REG.HAS_REFUSED]
    notes[NOTE.DECIDED_MS] = reg[REG.NOW]
    is_fair = reg[REG.FAIRNESS] != 0
    heeds = is_fair or somebody_heeds(d.looks, d.asks, reg[REG.LOOKS])
    is_holding = reg[REG.IS_HOLDING] != 0 or reg[REG.IS_HOLDING_TEAMS] != 0
    notes[NOTE.WATCHES] = int(heeds)
    notes[NOTE.DRIFTS] = int(is_fair and reg[REG.COUNTS_PAST] != 0 and is_holding)
