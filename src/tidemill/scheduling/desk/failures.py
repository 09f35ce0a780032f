"""What did not fit, and whether it may by now: compiled, for every waiting shape in every cycle."""

from tidemill.model.columns import AT, KIND, QUEUE, QUOTA, SHAPE
from tidemill.model.reasons import Cause
from tidemill.scheduling.desk.columns import ASK, NOTE, REG, UNKNOWN
from tidemill.scheduling.desk.kernel import kernel

BUSY, SCATTERED = int(Cause.BUSY), int(Cause.SCATTERED)


@kernel
def heeds(asks, s):
    """Whether a shape may gain by what others take.

    There are new victims, old ones cannot move any more, or its roles settle elsewhere than they
    did in vain.
    """
    return asks[s, ASK.IS_HEEDING] != 0 or asks[s, ASK.ROLES] > 1 or asks[s, ASK.MAY_EVICT] != 0


@kernel
def freed(asks, types, kinds, s):
    """How often something that a shape may use became free (or was taken, if that may help it)."""
    total = 0
    for i in range(asks[s, ASK.FIRST_TYPE], asks[s, ASK.FIRST_TYPE] + asks[s, ASK.TYPES]):
        total += kinds[types[i], KIND.FREED]
    if heeds(asks, s):
        for k in range(len(kinds)):
            total += kinds[k, KIND.TAKEN]
    return total


@kernel
def given(queues, q):
    """How often a queue, or one above it, got something back."""
    total = 0
    while q >= 0:
        total += queues[q, QUEUE.FREED]
        q = queues[q, QUEUE.PARENT]
    return total


@kernel
def is_within(queues, quotas, q, k, need):
    """Whether a queue, and all that is above it, may use so much more of a type than now."""
    while q >= 0:
        if quotas[q, k, QUOTA.USED] + need > quotas[q, k, QUOTA.LIMIT]:
            return False
        q = queues[q, QUEUE.PARENT]
    return True


@kernel
def is_hopeless(w, d, s, q):
    """Whether all that was freed since the last look is too small for even one replica.

    Only for a shape that nodes alone kept out: no limit, no right to evict, one role, one type.
    And only while its cause is sure to be the same: enough is free in all, or it is not, as before,
    and no limit has been reached meanwhile.
    """
    reg, asks = d.reg, d.asks
    if reg[REG.IS_WHOLE] == 0 or asks[s, ASK.FAILED_LOOK] < reg[REG.LOOK] - 1:
        return False
    if asks[s, ASK.SUPPLY_AT] != w.at[AT.SUPPLY_CHANGES] or asks[s, ASK.TYPES] != 1:
        return False
    cause = asks[s, ASK.CAUSE]
    if cause not in (BUSY, SCATTERED) or asks[s, ASK.IS_LIMITED] != 0 or heeds(asks, s):
        return False
    k, need = d.types[asks[s, ASK.FIRST_TYPE]], asks[s, ASK.NEED]
    if (w.kinds[k, KIND.FREE_MILLI] >= need) != (cause == SCATTERED):
        return False
    return d.changed[k] < asks[s, ASK.REPLICA] and is_within(w.queues, w.quotas, q, k, need)


@kernel
def failure(w, d, s):
    """Why a shape did not fit, if nothing that it needs was freed since; else UNKNOWN."""
    asks, q = d.asks, w.shapes[s, SHAPE.QUEUE]
    if asks[s, ASK.FAILED] == 0 or asks[s, ASK.AGAIN_MS] <= d.reg[REG.NOW]:
        return UNKNOWN
    free, back = freed(asks, d.types, w.kinds, s), given(w.queues, q)
    supply = w.at[AT.SUPPLY_CHANGES]
    is_same = (
        asks[s, ASK.FREED] == free
        and asks[s, ASK.GIVEN] == back
        and asks[s, ASK.SUPPLY_AT] == supply
    )
    if not is_same and not is_hopeless(w, d, s, q):
        return UNKNOWN
    asks[s, ASK.FREED] = free
    asks[s, ASK.GIVEN] = back
    asks[s, ASK.SUPPLY_AT] = supply
    asks[s, ASK.FAILED_LOOK] = d.reg[REG.LOOK]
    return asks[s, ASK.CAUSE]


@kernel
def remember(w, d, s, cause):
    """Do not try a shape again before something that it needs was freed."""
    asks = d.asks
    asks[s, ASK.FAILED] = 1
    asks[s, ASK.CAUSE] = cause
    asks[s, ASK.FREED] = freed(asks, d.types, w.kinds, s)
    asks[s, ASK.GIVEN] = given(w.queues, w.shapes[s, SHAPE.QUEUE])
    asks[s, ASK.SUPPLY_AT] = w.at[AT.SUPPLY_CHANGES]
    asks[s, ASK.FAILED_LOOK] = d.reg[REG.LOOK]


@kernel
def somebody_heeds(looks, asks, count):
    """Whether someone waits who may gain by what others take."""
    for i in range(count):
        if heeds(asks, looks[i]):
            return True
    return False


@kernel
def note_owed(notes, asks, s):
    """Note that a shape may be owed a search, or is doubted: a cycle begins with those alone.

    It is the last of them; who is owed a search for longer stands before it, as a rule.
    """
    if asks[s, ASK.IS_NOTED] != 0:
        return
    asks[s, ASK.IS_NOTED] = 1
    asks[s, ASK.NEXT_OWED] = 0
    if notes[NOTE.FIRST_OWED] == 0:
        notes[NOTE.FIRST_OWED] = s + 1
    else:
        asks[notes[NOTE.LAST_OWED] - 1, ASK.NEXT_OWED] = s + 1
    notes[NOTE.LAST_OWED] = s + 1


@kernel
def is_anybody_owed(notes, asks):
    """Whether somebody is owed a search, or asks again with time alone."""
    s = notes[NOTE.FIRST_OWED] - 1
    while s >= 0:
        if asks[s, ASK.OWED] != 0 or asks[s, ASK.IS_DOUBTED] != 0:
            return True
        s = asks[s, ASK.NEXT_OWED] - 1
    return False


@kernel
def longest_owed(notes, asks):
    """Who of those that are owed a search has been for longest; -1: nobody is."""
    s, first = notes[NOTE.FIRST_OWED] - 1, -1
    while s >= 0:
        since = asks[s, ASK.OWED]
        if since != 0 and (first < 0 or since < asks[first, ASK.OWED]):
            first = s
        s = asks[s, ASK.NEXT_OWED] - 1
    return first


@kernel
def begin_searches(shapes, notes, asks, at_most):
    """Mark who went without a search for victims before, longest ago first; how many."""
    due, s, last, is_in_order = 0, notes[NOTE.FIRST_OWED] - 1, 0, True
    notes[NOTE.FIRST_OWED] = 0
    while s >= 0:
        after = asks[s, ASK.NEXT_OWED] - 1
        asks[s, ASK.IS_DUE] = 0
        asks[s, ASK.IS_DOUBTED] = 0
        asks[s, ASK.IS_NOTED] = 0
        if shapes[s, SHAPE.WAITING] == 0:
            asks[s, ASK.OWED] = 0
        if asks[s, ASK.OWED] != 0:
            is_in_order = is_in_order and asks[s, ASK.OWED] > last
            last = asks[s, ASK.OWED]
            note_owed(notes, asks, s)
        s = after
    s = notes[NOTE.FIRST_OWED] - 1
    while due < at_most:
        first = s if is_in_order else longest_owed(notes, asks)
        if first < 0:
            break
        s = asks[first, ASK.NEXT_OWED] - 1
        asks[first, ASK.OWED] = 0
        asks[first, ASK.IS_DUE] = 1
        due += 1
    return due
