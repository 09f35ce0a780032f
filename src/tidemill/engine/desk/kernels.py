"""The compiled cycle: order the waiting, fit each gang, hold, say why; over columns, in place.

The same as ``scheduling.schedule`` while nobody may be evicted, moved or resized, and queues are
flat; that is the oracle, and tests hold the two to the same events. What it places is folded at
once.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.kernels import (
    DECIDED,
    IS_LOOK_WHOLE,
    IS_LOST,
    IS_SCORED,
    IS_SEEN,
    JOBS,
    LOGGED,
    LOOK,
    LOOKED,
    NOW,
    QUEUED,
    SAID_WHY,
    SEEN_FREED,
    SEEN_JOBS,
    SEEN_QUEUES,
    WASTED,
    move,
    note,
    place,
    tell,
)
from tidemill.scheduling.kernels import (
    READY,
    count_hosts,
    fill,
    rank_all,
    rank_some,
    take_devices,
)
from tidemill.scheduling.scores import kernels as scores
from tidemill.scheduling.scores.kernels import fill_one

compiled = across(__file__, engine, scores, *scores.PARTS)
inlined = across(__file__, engine, scores, *scores.PARTS, inline="always")

# Causes, as in the model; kernels import nothing of it.
OVER_LIMIT, BEHIND = 9, 10
BUSY, PARTIAL_GANG, SCATTERED, CPU_BINDS, MEMORY_BINDS = range(12, 17)
LIMIT, SHORT, UNFIT = range(3)
CHANGED_AT_MOST = 256  # as scheduling.memo


@inlined
def cycle(
    at, rules, jobs, nodes, devices, shapes, levels, used, limit, floor, counts, asks, options,
    trees, queues, aboard, memory, scratch, log, tables, pieces, lines,
):  # fmt: skip
    """Order the waiting, fit each gang, hold behind those who lost patience, say why."""
    if at[QUEUED] == 0:
        return
    freed = counts.freed.sum()
    queue_freed = counts.queue_freed.sum()
    is_same = (
        at[IS_SEEN] == 1 and at[SEEN_JOBS] == at[JOBS] and at[SEEN_FREED] == freed
        and at[SEEN_QUEUES] == queue_freed
    )  # fmt: skip
    at[IS_SEEN], at[SEEN_JOBS], at[SEEN_FREED], at[SEEN_QUEUES] = 1, at[JOBS], freed, queue_freed
    patience_ms, since_ms = rules.patience_ms, jobs.since_ms
    head, queue, kinds, cause_of = shapes.head, shapes.queue, asks.kinds, shapes.cause
    if is_same and not patience_was_lost(at, patience_ms, since_ms, head, queues.queued):
        return
    by_priority, has_floors, priority = rules.by_priority, rules.has_floors, shapes.priority
    keys, candidates, held_in_team = scratch.keys, scratch.candidates, scratch.held
    held_in_team[:] = 0
    held = np.uint64(0)
    found = 0
    look_again(at, nodes, scratch, log)
    for i in range(at[QUEUED]):
        s = queues.queued[i]
        scratch.is_out[s] = has_failed(
            at, memory, counts, asks, queue, used, limit, scratch.changed, s
        )
        if scratch.is_out[s] == 0 or at[NOW] - since_ms[head[s]] >= patience_ms:
            rank = key(by_priority, has_floors, priority, head, queue, kinds, used, floor, s)
            found = line_up(keys, candidates, found, rank, s)
    while found > 0:
        was, s = keys[0], candidates[0]
        found = step_forward(keys, candidates, found)
        rank = key(by_priority, has_floors, priority, head, queue, kinds, used, floor, s)
        if rank != was:
            found = line_up(keys, candidates, found, rank, s)
            continue
        q = queue[s]
        if ((held | held_in_team[q]) & kinds[s]) != 0:
            say(at, cause_of, lines, s, asks.supply[s] if asks.supply[s] != 0 else BEHIND)
            continue
        j = head[s]
        if scratch.is_out[s] == 1:
            cause = np.int64(memory.cause[s])
        else:
            cause = fit(
                at, rules, jobs, nodes, devices, shapes, levels, used, limit, counts, asks,
                options, trees, queues, aboard, scratch, log, tables, pieces, lines, s, j,
            )  # fmt: skip
            if cause == 0:
                if shapes.waiting[s] > 0:
                    rank = key(
                        by_priority, has_floors, priority, head, queue, kinds, used, floor, s
                    )
                    found = line_up(keys, candidates, found, rank, s)
                continue
            memory.failed[s] = 1
            memory.freed[s] = freed_for(counts.freed, kinds, s)
            memory.queue_freed[s] = counts.queue_freed[q]
            memory.cause[s] = cause
            memory.look[s] = at[LOOK]
            memory.is_limited[s] = scratch.is_limited[0]
        say(at, cause_of, lines, s, cause)
        if at[NOW] - since_ms[j] >= patience_ms:
            if is_cured_by_waiting(cause):
                if asks.outlasts[s]:
                    held |= kinds[s]
                    if is_over(cause_of, asks.supply, kinds, candidates, found, held):
                        break
            elif cause == OVER_LIMIT:
                held_in_team[q] |= kinds[s]
    at[DECIDED] = at[NOW]


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
def fit(
    at, rules, jobs, nodes, devices, shapes, levels, used, limit, counts, asks, options, trees,
    queues, aboard, scratch, log, tables, pieces, lines, s, j,
):  # fmt: skip
    """Place the next job of a shape and return 0, or the cause for which it cannot be placed."""
    q = shapes.queue[s]
    need = asks.need[s]
    first, last = asks.first_option[s], asks.first_option[s + 1]
    scratch.is_limited[0] = 0
    if at[IS_SCORED] == 1 and asks.together[s] >= 0:
        t = asks.together[s]
        bring_together(options, trees, used, limit, t, first, last, need, q)
        found = take_by_score(
            at, nodes, devices, asks, trees, scratch, log, tables, t, trees.is_ok[t], s
        )
        if found > 0:
            place(at, jobs, nodes, shapes, levels, used, counts, asks, queues, aboard, scratch,
                  pieces, lines, s, j, found)  # fmt: skip
            return 0
    for o in range(first, last):
        k = options.kind[o]
        if need > 0 and used[q, k] + need > limit[q, k]:
            scratch.obstacle[o] = LIMIT
            scratch.is_limited[0] = 1
        elif k >= 0 and need > counts.free[k]:
            scratch.obstacle[o] = SHORT
        else:
            if at[IS_SCORED] == 1 and options.scored[o] >= 0:
                found = take_by_score(
                    at, nodes, devices, asks, trees, scratch, log, tables, options.scored[o],
                    options.is_ok[o], s,
                )  # fmt: skip
            else:
                found = take(at, rules, nodes, devices, asks, options, trees, scratch, log, s, o)
            if found > 0:
                place(at, jobs, nodes, shapes, levels, used, counts, asks, queues, aboard,
                      scratch, pieces, lines, s, j, found)  # fmt: skip
                return 0
            scratch.obstacle[o] = UNFIT
    if asks.supply[s] != 0:
        return np.int64(asks.supply[s])
    return shortage(at, rules, nodes, devices, asks, options, trees, scratch, log, s)


@inlined
def take(at, rules, nodes, devices, asks, options, trees, scratch, log, s, o):
    """Take the devices of a whole gang and write its pieces into the scratch, or return 0."""
    t = options.tree[o]
    accelerators, milli, count = asks.accelerators[s], asks.milli[s], asks.replicas[s]
    cpu, memory = asks.cpu[s], asks.memory[s]
    rows = aboard_rows(scratch)
    if t < 0:
        found = fill(
            nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
            devices.is_failed, options.is_ok[o], nodes.cpu_free_milli, nodes.memory_free_mib,
            nodes.free_milli, devices.free_milli, rows, accelerators, milli, cpu, memory, count,
            rules.spreads, scratch.hosts, scratch.node, scratch.replicas, scratch.devices,
        )  # fmt: skip
        for i in range(found):
            note(at, log, scratch.node[i])
        return max(0, found)
    for i in range(count):
        n = winner_of(at, rules, nodes, devices, trees, log, rows, options.is_ok[o], t,
                      accelerators, milli, cpu, memory)  # fmt: skip
        if i == 0 and trees.winner[t, 0] < count:
            return 0
        scratch.node[i] = n
        scratch.replicas[i] = 1
        scratch.devices[i] = take_devices(
            n, 1, accelerators, milli, nodes.first_device, nodes.devices, devices.is_failed,
            devices.free_milli,
        )  # fmt: skip
        nodes.cpu_free_milli[n] -= cpu
        nodes.memory_free_mib[n] -= memory
        nodes.free_milli[n] -= accelerators * milli
        note(at, log, n)
    return count


@compiled
def take_by_score(at, nodes, devices, asks, trees, scratch, log, tables, t, is_ok, s):
    """The same as ``take``, replica by replica, each on the node with the highest score."""
    accelerators, milli, count = asks.accelerators[s], asks.milli[s], asks.replicas[s]
    cpu, memory, rows = asks.cpu[s], asks.memory[s], len(scratch.hosts)
    for i in range(count):
        forget_waste(at, trees, log)
        read, end = trees.read[t], at[LOGGED]
        trees.read[t] = end
        is_new = read < 0 or end > len(log) or end - read > rows
        if is_new:
            read = end = 0
        n = fill_one(
            trees.rank[t], trees.winner[t], trees.is_exact[t], log[read:end], is_new, nodes.state,
            nodes.is_spare, nodes.group, nodes.kind, nodes.first_device, nodes.devices,
            devices.is_failed, is_ok, nodes.cpu_milli, nodes.cpu_free_milli,
            nodes.memory_free_mib, nodes.free_milli, devices.free_milli, trees.touched,
            trees.wasted, rows, accelerators, milli, cpu, memory, tables, scratch.devices[i:],
        )  # fmt: skip
        if n < 0:
            for e in range(i):
                move(nodes, devices, scratch.node[e], scratch.devices[e], milli,
                     accelerators * milli, cpu, memory, 1)  # fmt: skip
                note(at, log, scratch.node[e])
            return 0
        scratch.node[i] = n
        scratch.replicas[i] = 1
        note(at, log, n)
    return count


@compiled
def bring_together(options, trees, used, limit, t, first, last, need, q):
    """Let a tree compare all kinds that the team's limits leave to a single replica.

    A kind of which too little is free needs no mention: none of its nodes has room.
    """
    mask = np.uint64(0)
    for o in range(first, last):
        k = options.kind[o]
        if need == 0 or used[q, k] + need <= limit[q, k]:
            mask |= np.uint64(1) << np.uint64(o - first)
    if trees.mask[t] != mask:
        trees.mask[t] = mask
        trees.read[t] = -1
        for g in range(trees.is_ok.shape[1]):
            trees.is_ok[t, g] = 0
            for o in range(first, last):
                if mask >> np.uint64(o - first) & np.uint64(1):
                    trees.is_ok[t, g] |= options.is_ok[o, g]


@compiled
def forget_waste(at, trees, log):
    """Forget what was known of the waste on nodes that changed since."""
    begin, end = at[WASTED], at[LOGGED]
    at[WASTED] = end
    if end > len(log):
        trees.wasted[:, 0] = -1
    else:
        for i in range(begin, end):
            trees.wasted[log[i], 0] = -1


@inlined
def aboard_rows(scratch):
    """How many nodes there are."""
    return len(scratch.hosts)


@compiled
def winner_of(at, rules, nodes, devices, trees, log, rows, is_ok, t, accelerators, milli, cpu,
              memory):  # fmt: skip
    """The best node for one replica, through the tree of the request; -1: none can host it."""
    read, end = trees.read[t], at[LOGGED]
    trees.read[t] = end
    if read < 0 or end > len(log) or end - read > rows:
        return rank_all(
            trees.rank[t], trees.winner[t], rows, nodes.state, nodes.is_spare, nodes.group,
            nodes.first_device, nodes.devices, devices.is_failed, is_ok, nodes.cpu_free_milli,
            nodes.memory_free_mib, nodes.free_milli, devices.free_milli, accelerators, milli, cpu,
            memory, rules.spreads,
        )  # fmt: skip
    return rank_some(
        trees.rank[t], trees.winner[t], log[read:end], nodes.state, nodes.is_spare, nodes.group,
        nodes.first_device, nodes.devices, devices.is_failed, is_ok, nodes.cpu_free_milli,
        nodes.memory_free_mib, nodes.free_milli, devices.free_milli, accelerators, milli, cpu,
        memory, rules.spreads,
    )  # fmt: skip


@inlined
def forget_log(at, trees, log):
    """Begin the log of changes again when it is half full, with what was not looked at yet."""
    end = at[LOGGED]
    if end < len(log) // 2:
        return
    fresh = end - at[LOOKED]
    if end > len(log):
        at[IS_LOST] = 1
        fresh = 0
    for i in range(fresh):
        log[i] = log[at[LOOKED] + i]
    for t in range(len(trees.read)):
        trees.read[t] = fresh if trees.read[t] == end and end <= len(log) else -1
    if at[WASTED] != end or end > len(log):
        trees.wasted[:, 0] = -1
    at[WASTED] = fresh
    at[LOOKED] = 0
    at[LOGGED] = fresh


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


@inlined
def shortage(at, rules, nodes, devices, asks, options, trees, scratch, log, s):
    """The cause for which a shape that supply could host does not fit now."""
    first, last = asks.first_option[s], asks.first_option[s + 1]
    is_limited = last > first
    for o in range(first, last):
        is_limited = is_limited and scratch.obstacle[o] == LIMIT
    if is_limited:
        return OVER_LIMIT
    cpu, memory, count = asks.cpu[s], asks.memory[s], asks.replicas[s]
    for o in range(first, last):
        if scratch.obstacle[o] == UNFIT:
            if asks.accelerators[s] == 0:
                return CPU_BINDS if cpu > 0 else MEMORY_BINDS
            if options.bare[o] >= 0 and count > hosting(
                at, rules, nodes, devices, asks, options, trees, scratch, log, s, o, options.bare[o]
            ):
                return SCATTERED
            if hosted(nodes, devices, asks, options, scratch, s, o, 0, memory) >= count:
                return CPU_BINDS
            if hosted(nodes, devices, asks, options, scratch, s, o, cpu, 0) >= count:
                return MEMORY_BINDS
            if hosted(nodes, devices, asks, options, scratch, s, o, 0, 0) >= count:
                return CPU_BINDS
            return SCATTERED
    if count > 1:
        for o in range(first, last):
            if scratch.obstacle[o] == SHORT:
                if options.tree[o] >= 0:
                    found = hosting(at, rules, nodes, devices, asks, options, trees, scratch, log,
                                    s, o, options.tree[o])  # fmt: skip
                else:
                    found = hosted(nodes, devices, asks, options, scratch, s, o, cpu, memory)
                if found > 0:
                    return PARTIAL_GANG
    return BUSY


@compiled
def hosting(at, rules, nodes, devices, asks, options, trees, scratch, log, s, o, t):
    """How many nodes host a replica, through a tree: the request's, or the one of its devices."""
    cpu = asks.cpu[s] if t == options.tree[o] else 0
    memory = asks.memory[s] if t == options.tree[o] else 0
    winner_of(at, rules, nodes, devices, trees, log, aboard_rows(scratch), options.is_ok[o], t,
              asks.accelerators[s], asks.milli[s], cpu, memory)  # fmt: skip
    return trees.winner[t, 0]


@compiled
def hosted(nodes, devices, asks, options, scratch, s, o, cpu, memory):
    """How many replicas would fit on one kind if they asked for this CPU and memory."""
    return count_hosts(
        nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
        devices.is_failed, options.is_ok[o], nodes.cpu_free_milli, nodes.memory_free_mib,
        nodes.free_milli, devices.free_milli, aboard_rows(scratch), asks.accelerators[s],
        asks.milli[s], cpu, memory, scratch.hosts,
    )  # fmt: skip
