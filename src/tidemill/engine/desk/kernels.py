"""The compiled cycle: order the waiting, fit each gang, hold, say why; over columns, in place.

The same as ``scheduling.schedule`` while nobody may be evicted, moved or resized, and queues are
flat; that is the oracle, and tests hold the two to the same events. What it places is folded at
once.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.desk.backfill import kernels as backfill
from tidemill.engine.desk.fitting import kernels as fitting
from tidemill.engine.desk.fitting.kernels import (
    BUSY,
    MEMORY_BINDS,
    OVER_LIMIT,
    SCATTERED,
    put,
    search,
    why_not,
)
from tidemill.engine.kernels import (
    CLAIMS,
    DECIDED,
    FIRSTS,
    HAS_REFUSED,
    IS_LOOK_WHOLE,
    IS_LOST,
    IS_SEEN,
    JOBS,
    LOGGED,
    LOOK,
    LOOKED,
    NEVER_PASSED,
    NOW,
    PLACED_NOW,
    QUEUED,
    RESERVED,
    SAID_WHY,
    SEEN_FREED,
    SEEN_JOBS,
    SEEN_QUEUES,
    note,
    place,
    tell,
)
from tidemill.scheduling.backfill import kernels as passing
from tidemill.scheduling.kernels import READY
from tidemill.scheduling.scores import kernels as scores

MADE_OF = (engine, backfill, fitting, passing, scores, *scores.PARTS)
"""What these loops are made of, for those who call them (see ``across``)."""
compiled = across(__file__, *MADE_OF)
inlined = across(__file__, *MADE_OF, inline="always")

BEHIND, RESERVED_FOR = 10, 20  # causes, as in the model; kernels import nothing of it
CHANGED_AT_MOST = 256  # as scheduling.memo


@inlined
def cycle(
    at, rules, jobs, nodes, devices, shapes, levels, used, limit, floor, counts, asks, options,
    trees, queues, aboard, memory, scratch, log, tables, behind, pieces, lines,
):  # fmt: skip
    """Order the waiting, fit each gang, hold or reserve for those who do not fit, say why."""
    if at[QUEUED] == 0:
        return
    freed = counts.freed.sum()
    queue_freed = counts.queue_freed.sum()
    is_same = (
        at[IS_SEEN] == 1 and at[SEEN_JOBS] == at[JOBS] and at[SEEN_FREED] == freed
        and at[SEEN_QUEUES] == queue_freed and at[HAS_REFUSED] == 0
    )  # fmt: skip
    at[IS_SEEN], at[SEEN_JOBS], at[SEEN_FREED], at[SEEN_QUEUES] = 1, at[JOBS], freed, queue_freed
    patience_ms, since_ms, upcoming = rules.patience_ms, jobs.since_ms, scratch.upcoming
    head, queue, kinds, cause_of = shapes.head, shapes.queue, asks.kinds, shapes.cause
    if is_same and not patience_was_lost(at, patience_ms, since_ms, head, queues.queued):
        return
    by_priority, has_floors, priority = rules.by_priority, rules.has_floors, shapes.priority
    keys, candidates, held_in_team = scratch.keys, scratch.candidates, scratch.held
    held_in_team[:] = 0
    held = np.uint64(0)
    at[HAS_REFUSED], at[RESERVED], at[CLAIMS], at[FIRSTS] = 0, 0, 0, 0
    behind.claimed_kinds[0] = 0
    behind.limited_kinds[:] = 0
    look_again(at, nodes, scratch, log)
    found = gather(at, rules, jobs, shapes, used, limit, floor, counts, asks, queues, memory,
                   scratch, behind)  # fmt: skip
    while found > 0:
        was, s = keys[0], candidates[0]
        found = step_forward(keys, candidates, found)
        rank = key(by_priority, has_floors, priority, upcoming, queue, kinds, used, floor, s)
        if rank != was:
            found = line_up(keys, candidates, found, rank, s)
            continue
        q = queue[s]
        if ((held | held_in_team[q]) & kinds[s]) != 0:
            say(at, cause_of, lines, s, asks.supply[s] if asks.supply[s] != 0 else BEHIND)
            continue
        j = upcoming[s]
        if scratch.is_out[s] == 1:
            cause = np.int64(memory.cause[s])
        else:
            is_refused = rules.backfills and backfill.is_refused(
                at, rules, jobs, asks, behind, s, j
            )
            if is_refused and backfill.still_fits(at, used, limit, asks, options, behind, q, s):
                taken = 0
            else:
                taken = search(at, rules, nodes, devices, shapes, used, limit, counts, asks,
                               options, trees, scratch, log, tables, s)  # fmt: skip
                is_refused = is_refused and taken > 0
            if taken > 0 or is_refused:
                if is_refused:
                    if taken > 0:
                        give_up(at, nodes, devices, asks, scratch, log, s, taken)
                    taken = 0
                    backfill.refuse(at, rules, jobs, asks, behind, s, j)
                elif at[RESERVED] + at[CLAIMS] > 0:
                    taken = let_past(
                        at, rules, jobs, nodes, devices, shapes, used, limit, counts, asks,
                        options, trees, aboard, scratch, log, tables, pieces, behind, s, j, taken,
                    )  # fmt: skip
                upcoming[s] = queues.after[j]
                if taken > 0:
                    place(at, jobs, nodes, shapes, levels, used, counts, asks, queues, aboard,
                          scratch, pieces, lines, s, j, taken)  # fmt: skip
                    if at[FIRSTS] > 0:
                        backfill.pass_by(at, jobs, asks, behind, lines, q, s)
                else:
                    say(at, cause_of, lines, s, RESERVED_FOR)
                if steps_on(at, rules, jobs, queues, upcoming, behind, s, taken > 0):
                    rank = key(
                        by_priority, has_floors, priority, upcoming, queue, kinds, used, floor, s
                    )
                    found = line_up(keys, candidates, found, rank, s)
                continue
            cause = why_not(at, rules, nodes, devices, asks, options, trees, scratch, log, s)
            memory.failed[s] = 1
            memory.freed[s] = freed_for(counts.freed, kinds, s)
            memory.queue_freed[s] = counts.queue_freed[q]
            memory.cause[s] = cause
            memory.look[s] = at[LOOK]
            memory.is_limited[s] = scratch.is_limited[0]
        say(at, cause_of, lines, s, cause)
        if not asks.outlasts[s]:
            continue
        if is_guarded(at, rules, jobs, j):
            if is_cured_by_waiting(cause):
                held |= kinds[s]
                if is_over(cause_of, asks.supply, kinds, candidates, found, held):
                    break
            elif cause == OVER_LIMIT:
                held_in_team[q] |= kinds[s]
        elif rules.backfills:
            if is_cured_by_waiting(cause):
                backfill.claim(at, asks, behind, s, j)
            elif cause == OVER_LIMIT:
                backfill.is_limited(at, asks, behind, q, s, j)
    at[DECIDED] = at[NOW]
    if rules.backfills:  # whoever was placed in this cycle is counted on from the next one
        for i in range(at[PLACED_NOW]):
            j = scratch.placed[i]
            backfill.expect(at, rules, jobs, asks, aboard, behind, jobs.shape[j], j)


@compiled
def gather(at, rules, jobs, shapes, used, limit, floor, counts, asks, queues, memory, scratch,
           behind):  # fmt: skip
    """Line up the shapes that are looked at: they may fit, or keep others back; how many.

    With backfill, as ``schedule._Desk``: if nobody may fit, only those who are told another cause.
    """
    found, others, passes = 0, 0, False
    by_priority, has_floors, priority = rules.by_priority, rules.has_floors, shapes.priority
    head, queue, kinds = shapes.head, shapes.queue, asks.kinds
    for i in range(at[QUEUED]):
        s = queues.queued[i]
        scratch.upcoming[s] = head[s]
        behind.tried[s] = 0
        behind.refused_ms[s] = -1
        behind.like_ms[asks.like[s]] = -1
        scratch.is_out[s] = has_failed(
            at, memory, counts, asks, queue, used, limit, scratch.changed, s
        )
        passes = passes or scratch.is_out[s] == 0
    for i in range(at[QUEUED]):
        s = queues.queued[i]
        lost_patience = at[NOW] - jobs.since_ms[head[s]] >= rules.patience_ms
        rank = key(by_priority, has_floors, priority, head, queue, kinds, used, floor, s)
        if not rules.backfills:
            is_seen = scratch.is_out[s] == 0 or lost_patience
        elif scratch.is_out[s] == 0 or shapes.cause[s] != memory.cause[s]:
            is_seen = True
        elif not passes or has_floors:
            is_seen = passes
        else:
            is_seen = False
            may_hold = is_cured_by_waiting(memory.cause[s]) or memory.cause[s] == OVER_LIMIT
            if may_hold and asks.outlasts[s]:
                others = line_up(behind.keys, behind.shapes, others, rank, s)
        if is_seen:
            found = line_up(scratch.keys, scratch.candidates, found, rank, s)
    seen = 0
    while others > 0:
        rank, s = behind.keys[0], behind.shapes[0]
        others = step_forward(behind.keys, behind.shapes, others)
        is_new, q = True, -1
        if memory.cause[s] == OVER_LIMIT:
            q = queue[s]
        for i in range(seen):
            is_new = is_new and (behind.seen_kinds[i] != kinds[s] or behind.seen_queue[i] != q)
        if is_guarded(at, rules, jobs, head[s]):
            found = line_up(scratch.keys, scratch.candidates, found, rank, s)
        elif is_new:
            behind.seen_kinds[seen] = kinds[s]
            behind.seen_queue[seen] = q
            seen += 1
            found = line_up(scratch.keys, scratch.candidates, found, rank, s)
    return found


@inlined
def is_guarded(at, rules, jobs, j):
    """Whether nobody may pass a job any more; as ``scheduling.order.is_guarded``."""
    if not rules.backfills:
        return at[NOW] - jobs.since_ms[j] >= rules.patience_ms
    passed = jobs.passed_ms[j]
    return passed != NEVER_PASSED and at[NOW] - passed >= rules.hold_after_ms


@compiled
def let_past(
    at, rules, jobs, nodes, devices, shapes, used, limit, counts, asks, options, trees, aboard,
    scratch, log, tables, pieces, behind, s, j, taken,
):  # fmt: skip
    """How many pieces a job that was fitted may have without disturbing a reservation; 0: none."""
    if at[CLAIMS] > 0:
        put(nodes, devices, asks, scratch, s, taken, 1)
        backfill.make_all(
            at, rules, jobs, nodes, devices, shapes, used, limit, counts, asks, options, aboard,
            scratch, pieces, behind,
        )  # fmt: skip
        put(nodes, devices, asks, scratch, s, taken, -1)
    end_ms = backfill.end_if_placed(at, rules, jobs, j)
    latest_ms = backfill.disturbs(at, behind, asks.kinds[s], end_ms)
    if latest_ms < 0:
        return taken
    give_up(at, nodes, devices, asks, scratch, log, s, taken)
    backfill.keep_disturbed(at, nodes, devices, log, behind)
    taken = search(at, rules, nodes, devices, shapes, used, limit, counts, asks, options, trees,
                   scratch, log, tables, s)  # fmt: skip
    backfill.let_go_disturbed(at, nodes, devices, log, behind)
    if taken <= 0:
        backfill.refuse(at, rules, jobs, asks, behind, s, j)
        return 0
    return taken


@compiled
def give_up(at, nodes, devices, asks, scratch, log, s, taken):
    """Give back the pieces that were taken for a job that is not let past."""
    put(nodes, devices, asks, scratch, s, taken, 1)
    for i in range(taken):
        note(at, log, scratch.node[i])


@compiled
def steps_on(at, rules, jobs, queues, upcoming, behind, s, was_placed):
    """Go on to the next job of a shape that may have a chance; whether there is one."""
    if not was_placed:
        behind.tried[s] += 1
        if behind.tried[s] >= backfill.PASSERS_AT_MOST:
            return False
    while upcoming[s] >= 0:
        j = upcoming[s]
        if (
            behind.refused_ms[s] < 0
            or backfill.end_if_placed(at, rules, jobs, j) <= behind.refused_ms[s]
        ):
            return True
        behind.tried[s] += 1
        if behind.tried[s] >= backfill.PASSERS_AT_MOST:
            return False
        upcoming[s] = queues.after[j]
    return False


@inlined
def is_over(cause_of, supply, kinds, candidates, found, held):
    """Whether everybody left in the line is behind somebody, and that was said before."""
    for i in range(found):
        s = candidates[i]
        if (held & kinds[s]) == 0:
            return False
        if cause_of[s] != (supply[s] if supply[s] != 0 else BEHIND):
            return False
    return True


@inlined
def line_up(keys, candidates, found, place, s):
    """Put a shape into the line of candidates, a heap by key."""
    i = found
    while i > 0:
        up = (i - 1) >> 1
        if keys[up] <= place:
            break
        keys[i] = keys[up]
        candidates[i] = candidates[up]
        i = up
    keys[i] = place
    candidates[i] = s
    return found + 1


@inlined
def step_forward(keys, candidates, found):
    """Take the first candidate out of the line (read it before)."""
    last = found - 1
    place, s = keys[last], candidates[last]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= last:
            break
        if down + 1 < last and keys[down + 1] < keys[down]:
            down += 1
        if place <= keys[down]:
            break
        keys[i] = keys[down]
        candidates[i] = candidates[down]
        i = down
    keys[i] = place
    candidates[i] = s
    return last


@inlined
def say(at, cause_of, lines, s, cause):
    """Tell why a shape waits, if that changed."""
    if cause_of[s] != cause:
        cause_of[s] = cause
        tell(at, lines, SAID_WHY, s, cause, 0, 0)


@inlined
def is_cured_by_waiting(cause):
    """Causes that go away when running jobs end."""
    return cause >= BUSY and cause <= MEMORY_BINDS


@inlined
def patience_was_lost(at, patience_ms, since_ms, head, queued):
    """Whether someone lost patience since the last cycle."""
    for i in range(at[QUEUED]):
        due = since_ms[head[queued[i]]] + patience_ms
        if at[DECIDED] < due <= at[NOW]:
            return True
    return False


@inlined
def freed_for(freed, kinds, s):
    """How often something that a shape may use became free."""
    total = 0
    for k in range(len(freed)):
        if kinds[s] >> np.uint64(k) & np.uint64(1):
            total += freed[k]
    return total


@inlined
def has_failed(at, memory, counts, asks, queue, used, limit, changed, s):
    """Whether a shape did not fit and nothing it needs was freed since; as ``Memo.failure``."""
    if memory.failed[s] == 0:
        return False
    freed, queue_freed = freed_for(counts.freed, asks.kinds, s), counts.queue_freed[queue[s]]
    if memory.queue_freed[s] != queue_freed or memory.freed[s] != freed:
        if not is_hopeless(at, memory, counts, asks, queue, used, limit, changed, s):
            return False
        memory.freed[s] = freed
        memory.queue_freed[s] = queue_freed
    memory.look[s] = at[LOOK]
    return True


@inlined
def is_hopeless(at, memory, counts, asks, queue, used, limit, changed, s):
    """Whether all that was freed since the last look is too small for even one replica."""
    if at[IS_LOOK_WHOLE] == 0 or memory.look[s] < at[LOOK] - 1 or memory.is_limited[s] == 1:
        return False
    if memory.cause[s] != BUSY and memory.cause[s] != SCATTERED:
        return False
    k = asks.only_kind[s]
    if k < 0:
        return False
    is_enough = counts.free[k] >= asks.need[s]
    if is_enough != (memory.cause[s] == SCATTERED):
        return False
    is_small = changed[k] < asks.accelerators[s] * asks.milli[s]
    return is_small and used[queue[s], k] + asks.need[s] <= limit[queue[s], k]


@inlined
def key(by_priority, has_floors, priority, head, queue, kinds, used, floor, s):
    """The place of a shape's next job in the order, as one number; see ``scheduling.order``."""
    place = 1_000_000 - priority[s] if by_priority else 0
    rank = 1
    if has_floors and not borrows(queue, kinds, used, floor, s):
        rank = 0
    return (np.int64(rank) << 53) + (np.int64(place) << 31) + np.int64(head[s])


@inlined
def borrows(queue, kinds, used, floor, s):
    """Whether the team has its floor of everything the shape may use."""
    q = queue[s]
    for k in range(used.shape[1]):
        if kinds[s] >> np.uint64(k) & np.uint64(1) and used[q, k] < floor[q, k]:
            return False
    return True


@inlined
def look_again(at, nodes, scratch, log):
    """Note the most that a node that changed since the last look has free, by kind."""
    begin, end = at[LOOKED], at[LOGGED]
    if end > begin or at[IS_LOST] == 1 or end > len(log):
        at[LOOK] += 1
        at[IS_LOOK_WHOLE] = at[IS_LOST] == 0 and end <= len(log) and end - begin <= CHANGED_AT_MOST
        scratch.changed[:] = 0
        if at[IS_LOOK_WHOLE]:
            for i in range(begin, end):
                n = log[i]
                if nodes.state[n] == READY and nodes.is_spare[n] == 0:
                    k = nodes.kind[n]
                    scratch.changed[k] = max(scratch.changed[k], nodes.free_milli[n])
    at[IS_LOST] = 0
    at[LOOKED] = end
