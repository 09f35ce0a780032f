"""Kernels of the sketch: a queue drained in order into what running jobs give back.

``tests/explain/test_sketch.py`` says the same in plain Python.
"""

from tidemill.core.heaps import leave, rise
from tidemill.core.kernel import beside
from tidemill.explain.queue_drain.columns import (
    DUE,
    FORM,
    HOST,
    NEED,
    PARCEL,
    PLAY,
    SIZES,
    VECTORS,
    WAITER,
    QueueDrain,
)
from tidemill.model.columns import QUEUE
from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.fitting.books import count_used, is_over_limit, limit_on
from tidemill.scheduling.fitting.kernel import CALLS

kernel = beside(__file__, {"s": QueueDrain}, VECTORS, calls=CALLS)
MUCH = 1 << 60


@kernel
def total(s, r):
    """What all replicas of a role need, in milli."""
    return s.needs[r, NEED.ACCELERATORS] * s.needs[r, NEED.MILLI] * s.needs[r, NEED.REPLICAS]


@kernel
def may_host(s, n, k, r):
    """Whether a node is of this kind and takes such work."""
    is_so = s.hosts[n, HOST.IS_OPEN] and s.hosts[n, HOST.KIND] == k
    return is_so and s.may_use[s.needs[r, NEED.RULE], s.hosts[n, HOST.GROUP]]


@kernel
def hosted_on(s, n, r):
    """How many replicas of a role one node hosts."""
    whole, milli = s.hosts[n, HOST.WHOLE], s.needs[r, NEED.MILLI]
    if s.needs[r, NEED.ACCELERATORS] == 0:
        most = s.needs[r, NEED.REPLICAS]
    elif milli < WHOLE:
        most = whole * (WHOLE // milli) + s.hosts[n, HOST.PART] // milli
    else:
        most = whole // s.needs[r, NEED.ACCELERATORS]
    if s.needs[r, NEED.CPU] > 0:
        most = min(most, s.hosts[n, HOST.CPU] // s.needs[r, NEED.CPU])
    if s.needs[r, NEED.MEMORY] > 0:
        most = min(most, s.hosts[n, HOST.MEMORY] // s.needs[r, NEED.MEMORY])
    return most


@kernel
def count_free(s, n, sign):
    """Count what is free of a node that takes work, or count it no more (-1)."""
    if s.hosts[n, HOST.IS_OPEN]:
        k, whole = s.hosts[n, HOST.KIND], s.hosts[n, HOST.WHOLE]
        s.free[k] += sign * (whole * WHOLE + s.hosts[n, HOST.PART])
        s.sizes[k, whole] += sign


@kernel
def move(s, p, sign):
    """Take a parcel of its node (-1) or give it back (1)."""
    n = s.parcels[p, PARCEL.HOST]
    count_free(s, n, -1)
    s.hosts[n, HOST.WHOLE] += sign * s.parcels[p, PARCEL.WHOLE]
    s.hosts[n, HOST.PART] += sign * s.parcels[p, PARCEL.PART]
    if s.hosts[n, HOST.PART] < 0:
        s.hosts[n, HOST.WHOLE] -= 1
        s.hosts[n, HOST.PART] += WHOLE
    elif s.hosts[n, HOST.PART] >= WHOLE:
        s.hosts[n, HOST.WHOLE] += 1
        s.hosts[n, HOST.PART] -= WHOLE
    s.hosts[n, HOST.CPU] += sign * s.parcels[p, PARCEL.CPU]
    s.hosts[n, HOST.MEMORY] += sign * s.parcels[p, PARCEL.MEMORY]
    count_free(s, n, 1)


@kernel
def write(s, n, replicas, r, last):
    """Write a parcel; return where the next one goes."""
    milli = replicas * s.needs[r, NEED.ACCELERATORS] * s.needs[r, NEED.MILLI]
    s.parcels[last, PARCEL.HOST] = n
    s.parcels[last, PARCEL.WHOLE] = milli // WHOLE
    s.parcels[last, PARCEL.PART] = milli % WHOLE
    s.parcels[last, PARCEL.CPU] = replicas * s.needs[r, NEED.CPU]
    s.parcels[last, PARCEL.MEMORY] = replicas * s.needs[r, NEED.MEMORY]
    return last + 1


@kernel
def is_taken(s, n, first, last):
    """Whether one of these parcels is of this node."""
    for p in range(first, last):
        if s.parcels[p, PARCEL.HOST] == n:
            return True
    return False


@kernel
def fill(s, k, r, first):
    """Choose nodes of one kind for a role; write parcels from ``first`` on, return where they end.

    Nodes that host most go first, then the tightest for one replica. -1 when it does not fit.
    """
    left, last, most, best, tightest = s.needs[r, NEED.REPLICAS], first, 0, -1, MUCH
    for n in range(len(s.hosts)):
        if may_host(s, n, k, r):
            hosted = hosted_on(s, n, r)
            most = max(most, hosted)
            room = s.hosts[n, HOST.WHOLE] * WHOLE + s.hosts[n, HOST.PART]
            if hosted > 0 and room < tightest:
                best, tightest = n, room
    if most == 0:
        return -1
    if left == 1:
        return write(s, best, 1, r, last)
    for turn in range(2):
        least = 1 if turn else min(most, left)
        for n in range(len(s.hosts)):
            if left == 0:
                break
            if may_host(s, n, k, r):
                hosted = min(left, hosted_on(s, n, r))
                if hosted >= least and not is_taken(s, n, first, last):
                    last = write(s, n, hosted, r, last)
                    left -= hosted
    return last if left == 0 else -1


@kernel
def could_fit(s, k, r):
    """Whether enough is free of a kind in all, and in large enough blocks; a quick no."""
    each = s.needs[r, NEED.ACCELERATORS]
    if each == 0:
        return True
    if total(s, r) > s.free[k]:
        return False
    if s.needs[r, NEED.MILLI] < WHOLE:
        return True
    hosted = 0
    for size in range(each, SIZES):
        hosted += s.sizes[k, size] * (size // each)
    return hosted >= s.needs[r, NEED.REPLICAS]


@kernel
def helps(s, k, r):
    """Whether a node that was given something back hosts a replica; many nodes surely do."""
    if s.play[PLAY.FREED] == len(s.freed):
        return True
    for i in range(s.play[PLAY.FREED]):
        if may_host(s, s.freed[i], k, r) and hosted_on(s, s.freed[i], r) > 0:
            return True
    return False


@kernel
def book(w, s, q, k, milli):
    """Count what a queue and all above it use."""
    count_used(w.at, w.queues, w.quotas, s.used, s.below, s.kept, q, k, milli)


@kernel
def put_role(w, s, f, q, r, first):
    """Put a role on the first kind that has room for all of it; where its parcels end, or -1."""
    rule, need = s.needs[r, NEED.RULE], total(s, r)
    is_single = s.forms[f, FORM.LAST] - s.forms[f, FORM.FIRST] == 1
    for i in range(s.choices.shape[1]):
        k = s.choices[rule, i]
        if k < 0:
            continue
        was_stuck = s.stuck[f, k]
        s.stuck[f, k] = 0
        if is_over_limit(w.queues, w.quotas, s.used, q, k, need):
            s.forms[f, FORM.IS_LIMITED] = 1
        elif could_fit(s, k, r):
            if was_stuck and not helps(s, k, r):
                s.stuck[f, k] = 1
                continue
            last = fill(s, k, r, first)
            if last >= 0:
                s.needs[r, NEED.KIND] = k
                book(w, s, q, k, need)
                for p in range(first, last):
                    move(s, p, -1)
                return last
            s.stuck[f, k] = is_single
    return -1


@kernel
def put(w, s, f, q):
    """Put a whole job where there is room; where its parcels end, or -1: nothing has changed."""
    begun = s.play[PLAY.PARCELS]
    last = begun
    s.forms[f, FORM.IS_LIMITED] = 0
    for r in range(s.forms[f, FORM.FIRST], s.forms[f, FORM.LAST]):
        found = put_role(w, s, f, q, r, last)
        if found < 0:
            for p in range(begun, last):
                move(s, p, 1)
            for done in range(s.forms[f, FORM.FIRST], r):
                book(w, s, q, s.needs[done, NEED.KIND], -total(s, done))
            return -1
        last = found
    return last


@kernel
def is_behind(w, s, f, q):
    """Whether somebody who lost patience waits for the same."""
    for r in range(s.forms[f, FORM.FIRST], s.forms[f, FORM.LAST]):
        for i in range(s.choices.shape[1]):
            k = s.choices[s.needs[r, NEED.RULE], i]
            if k < 0:
                continue
            if s.held[k]:
                return True
            a = q
            while a >= 0:
                if s.held_under[a, k]:
                    return True
                a = w.queues[a, QUEUE.PARENT]
    return False


@kernel
def hold(w, s, f, q):
    """Nobody passes a job of this form; if a limit keeps it out, nobody under that limit."""
    for r in range(s.forms[f, FORM.FIRST], s.forms[f, FORM.LAST]):
        for i in range(s.choices.shape[1]):
            k = s.choices[s.needs[r, NEED.RULE], i]
            if k >= 0 and s.forms[f, FORM.IS_LIMITED]:
                s.held_under[limit_on(w.queues, w.quotas, s.used, q, k, total(s, r)), k] = 1
            elif k >= 0:
                s.held[k] = 1


@kernel
def begin(s, j, last):
    """A job starts on the parcels that were written; it ends on a round time."""
    now, step = s.play[PLAY.NOW], s.waiters[j, WAITER.STEP_MS]
    s.waiters[j, WAITER.START_MS] = now
    s.waiters[j, WAITER.FIRST] = s.play[PLAY.PARCELS]
    s.waiters[j, WAITER.LAST] = last
    s.play[PLAY.PARCELS] = last
    finish = now + s.waiters[j, WAITER.LENGTH_MS]
    if finish <= s.play[PLAY.HORIZON]:
        more = step - 1 if step == s.play[PLAY.GRID_MS] else step // 2
        i = s.play[PLAY.ENDS]
        s.play[PLAY.ENDS] += 1
        s.heap[i, 0] = (finish + more) // step * step
        s.heap[i, 1] = j
        rise(s.heap, i, 2)


@kernel
def try_one(w, s, j):
    """Start a job if it is its turn and there is room; whether it starts.

    One that follows its like fails as that did.
    """
    f, q, now = s.waiters[j, WAITER.FORM], s.waiters[j, WAITER.QUEUE], s.play[PLAY.NOW]
    if is_behind(w, s, f, q):
        s.stuck[f][:] = 0
        return False
    if s.forms[f, FORM.FAILED_MS] != now:
        last = put(w, s, f, q)
        if last >= 0:
            s.stuck[f][:] = 0
            begin(s, j, last)
            return True
        s.forms[f, FORM.FAILED_MS] = now
    if now - s.waiters[j, WAITER.SINCE_MS] >= s.play[PLAY.PATIENCE_MS]:
        hold(w, s, f, q)
    return False


@kernel
def start_all(w, s):
    """Start what fits, in order; whether the play is over."""
    s.held[:] = 0
    for q in range(len(s.held_under)):
        s.held_under[q][:] = 0
    kept = 0
    for i in range(s.play[PLAY.LEFT]):
        j = s.alive[i]
        if not try_one(w, s, j):
            s.alive[kept] = j
            kept += 1
        elif j == s.play[PLAY.TARGET]:
            return True
    s.play[PLAY.LEFT] = kept
    return kept == 0


@kernel
def note_freed(s, n):
    """Note a node that was given something back."""
    if s.play[PLAY.FREED] < len(s.freed):
        s.freed[s.play[PLAY.FREED]] = n
        s.play[PLAY.FREED] += 1


@kernel
def give_back(w, s, first, last, q):
    """Give parcels back, off the books."""
    for p in range(first, last):
        n = s.parcels[p, PARCEL.HOST]
        move(s, p, 1)
        milli = s.parcels[p, PARCEL.WHOLE] * WHOLE + s.parcels[p, PARCEL.PART]
        book(w, s, q, s.hosts[n, HOST.KIND], -milli)
        note_freed(s, n)


@kernel
def next_ms(s):
    """When something is given back next."""
    later = MUCH
    if s.play[PLAY.NEXT_DUE] < len(s.due):
        later = min(later, s.due[s.play[PLAY.NEXT_DUE], DUE.AT_MS])
    if s.play[PLAY.NEXT_COME] < len(s.coming):
        later = min(later, s.coming[s.play[PLAY.NEXT_COME], 0])
    if s.play[PLAY.ENDS] > 0:
        later = min(later, s.heap[0, 0])
    return later


@kernel
def go_on(w, s, now):
    """What is given back until now."""
    s.play[PLAY.NOW], s.play[PLAY.FREED] = now, 0
    e = s.play[PLAY.NEXT_DUE]
    while e < len(s.due) and s.due[e, DUE.AT_MS] <= now:
        give_back(w, s, s.due[e - 1, DUE.LAST] if e else 0, s.due[e, DUE.LAST], s.due[e, DUE.QUEUE])
        e += 1
    s.play[PLAY.NEXT_DUE] = e
    while s.play[PLAY.ENDS] > 0 and s.heap[0, 0] <= now:
        j = s.heap[0, 1]
        leave(s.heap, s.play[PLAY.ENDS], 2)
        s.play[PLAY.ENDS] -= 1
        first, last = s.waiters[j, WAITER.FIRST], s.waiters[j, WAITER.LAST]
        give_back(w, s, first, last, s.waiters[j, WAITER.QUEUE])
    c = s.play[PLAY.NEXT_COME]
    while c < len(s.coming) and s.coming[c, 0] <= now:
        n = s.coming[c, 1]
        if not s.hosts[n, HOST.IS_OPEN]:
            s.hosts[n, HOST.IS_OPEN] = 1
            count_free(s, n, 1)
            note_freed(s, n)
        c += 1
    s.play[PLAY.NEXT_COME] = c


@kernel
def drain(w, s):
    """Start waiting jobs in order as room comes; write when each starts."""
    for n in range(len(s.hosts)):
        count_free(s, n, 1)
    while not start_all(w, s):
        later = next_ms(s)
        if later > s.play[PLAY.HORIZON]:
            return
        go_on(w, s, later)
