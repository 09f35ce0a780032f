"""Compiled fit: a gang on the nodes that suit it, through trees; or why it does not fit.

As ``scheduling.fit`` with ``scheduling.room``, over the World's own columns: what is taken is taken
from them, and ``put`` gives it back.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.kernels import IS_LOST, IS_SCORED, LOGGED, LOOKED, WASTED, move, note
from tidemill.scheduling.kernels import count_hosts, fill, rank_all, rank_some, take_devices
from tidemill.scheduling.scores import kernels as scores
from tidemill.scheduling.scores.kernels import fill_one

compiled = across(__file__, engine, scores, *scores.PARTS)
inlined = across(__file__, engine, scores, *scores.PARTS, inline="always")

# Causes, as in the model; kernels import nothing of it.
OVER_LIMIT = 9
BUSY, PARTIAL_GANG, SCATTERED, CPU_BINDS, MEMORY_BINDS = range(12, 17)
LIMIT, SHORT, UNFIT = range(3)


@compiled
def put(nodes, devices, asks, scratch, s, count, sign):
    """Give back the pieces that were taken for a job (1), or take them again (-1)."""
    milli = asks.accelerators[s] * asks.milli[s]
    for i in range(count):
        replicas = scratch.replicas[i]
        move(nodes, devices, scratch.node[i], scratch.devices[i], asks.milli[s], replicas * milli,
             replicas * asks.cpu[s], replicas * asks.memory[s], sign)  # fmt: skip


@compiled
def search(
    at, rules, nodes, devices, shapes, used, limit, counts, asks, options, trees, scratch, log,
    tables, s,
):  # fmt: skip
    """Take the devices of the next job of a shape, and return its pieces in the scratch; or 0."""
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
            return found
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
                return found
            scratch.obstacle[o] = UNFIT
    return 0


@inlined
def why_not(at, rules, nodes, devices, asks, options, trees, scratch, log, s):
    """The cause for which a shape was not placed, after ``search``."""
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
