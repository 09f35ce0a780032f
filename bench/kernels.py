"""Compiled loops of the benchmarks: arrivals and departures, placed by the scheduler's own loops.

Requests come one after the other, each of one class; when more than so much is held, what was
placed leaves again, whoever it is. The loops that place are the scheduler's; what is here is only
what feeds them.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.scheduling.kernels import NOWHERE, READY, find_one, give, hosts_one, take_devices
from tidemill.scheduling.kernels import fill_one as fill_packed
from tidemill.scheduling.scores import kernels as scores
from tidemill.scheduling.scores.kernels import fill_one as fill_scored
from tidemill.scheduling.scores.kernels import rank_one, take

compiled = across(__file__, scores, *scores.PARTS)

PACKED, SCORED, PACKED_SCAN, SCORED_SCAN = range(4)


@compiled
def churn(how, coming, leaving, most_milli, asks, nodes, trees, held, tables):
    """Place all that comes, one by one; return how many were placed, and how many are still held.

    Goes on from what ``held`` says is there: its last row counts requests held, milli, and how
    far ``touched`` is written.
    """
    for i in range(len(coming)):
        while held.counts[1] > most_milli:
            leave(leaving[i] % held.counts[0], asks, nodes, trees, held)
        c = coming[i]
        n = place(how, c, asks, nodes, trees, held, tables)
        if n >= 0:
            k = held.counts[0]
            held.node[k], held.mask[k], held.ask[k] = n, nodes.out_mask[0], c
            held.counts[0] += 1
            held.counts[1] += asks[c, 0] * asks[c, 1]
            held.counts[3] += 1
            touch(n, nodes, trees, held)
    return held.counts[3]


@compiled
def touch(n, nodes, trees, held):
    """Note that a node changed."""
    nodes.changed[n] += 1
    trees.touched[held.counts[2]] = n
    held.counts[2] += 1


@compiled
def leave(k, asks, nodes, trees, held):
    """What was placed as the ``k``-th goes; the last one takes its row."""
    c, n = held.ask[k], held.node[k]
    give(
        n, 1, held.mask[k], asks[c, 0], asks[c, 1], asks[c, 2], asks[c, 3], nodes.first_device,
        nodes.cpu_free, nodes.memory_free, nodes.node_free, nodes.device_free, 1,
    )  # fmt: skip
    held.counts[0] -= 1
    held.counts[1] -= asks[c, 0] * asks[c, 1]
    last = held.counts[0]
    held.node[k], held.mask[k], held.ask[k] = held.node[last], held.mask[last], held.ask[last]
    touch(n, nodes, trees, held)


@compiled
def place(how, c, asks, nodes, trees, held, tables):
    """Place one request of a class by its tournament, or by a look at every node."""
    accelerators, milli, cpu, memory = asks[c, 0], asks[c, 1], asks[c, 2], asks[c, 3]
    rows = len(nodes.cpu_free)
    if how == PACKED_SCAN:
        n = find_one(
            nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
            nodes.is_failed, nodes.is_ok, nodes.cpu_free, nodes.memory_free, nodes.node_free,
            nodes.device_free, rows, accelerators, milli, cpu, memory, False,
        )  # fmt: skip
        if n >= 0:
            nodes.out_mask[0] = take_devices(
                n, 1, accelerators, milli, nodes.first_device, nodes.devices, nodes.is_failed,
                nodes.device_free,
            )  # fmt: skip
            settle(n, accelerators * milli, cpu, memory, nodes)
        return n
    if how == SCORED_SCAN:
        n = best_of_all(rows, accelerators, milli, cpu, memory, nodes, tables)
        if n >= 0:
            nodes.out_mask[0] = take(
                n, nodes.kind, nodes.first_device, nodes.devices, nodes.is_failed,
                nodes.cpu_total, nodes.cpu_free, nodes.memory_free, nodes.device_free,
                accelerators, milli, cpu, memory, tables,
            )  # fmt: skip
            settle(n, accelerators * milli, cpu, memory, nodes)
        return n
    is_new = trees.read[c] < 0
    count = 0 if is_new else since(trees, c, held.counts[2], nodes.changed)
    trees.read[c] = held.counts[2]
    which = trees.which[:count]
    if how == PACKED:
        return fill_packed(
            trees.rank[c], trees.winner[c], which, is_new, nodes.state, nodes.is_spare,
            nodes.group, nodes.first_device, nodes.devices, nodes.is_failed, nodes.is_ok,
            nodes.cpu_free, nodes.memory_free, nodes.node_free, nodes.device_free, rows,
            accelerators, milli, cpu, memory, False, nodes.out_mask,
        )  # fmt: skip
    return fill_scored(
        trees.rank[c], trees.winner[c], trees.is_exact[c], which, is_new, nodes.state,
        nodes.is_spare, nodes.group, nodes.kind, nodes.first_device, nodes.devices,
        nodes.is_failed, nodes.is_ok, nodes.cpu_total, nodes.cpu_free, nodes.memory_free,
        nodes.node_free, nodes.device_free, nodes.changed, nodes.wasted, rows, accelerators,
        milli, cpu, memory, tables, nodes.out_mask,
    )  # fmt: skip


@compiled
def settle(n, need, cpu, memory, nodes):
    """Count what a replica takes of its node beside devices."""
    nodes.cpu_free[n] -= cpu
    nodes.memory_free[n] -= memory
    nodes.node_free[n] -= need


@compiled
def since(trees, c, end, changed):
    """Write the nodes that changed since the tree of a class was asked, each once."""
    count = 0
    for t in range(trees.read[c], end):
        n = trees.touched[t]
        if trees.seen[c, n] != changed[n]:
            trees.seen[c, n] = changed[n]
            trees.which[count] = n
            count += 1
    return count


@compiled
def best_of_all(rows, accelerators, milli, cpu, memory, nodes, tables):
    """The node of the highest score, by asking each that can host the request."""
    best, highest = -1, NOWHERE
    for n in range(rows):
        if nodes.state[n] != READY or nodes.is_spare[n] != 0 or nodes.is_ok[nodes.group[n]] == 0:
            continue
        if nodes.cpu_free[n] < cpu or nodes.memory_free[n] < memory:
            continue
        if hosts_one(
            n, nodes.first_device, nodes.devices, nodes.is_failed, nodes.device_free,
            accelerators, milli,
        ):  # fmt: skip
            now = rank_one(
                n, nodes.kind, nodes.first_device, nodes.devices, nodes.is_failed,
                nodes.cpu_total, nodes.cpu_free, nodes.memory_free, nodes.device_free,
                accelerators, milli, cpu, memory, tables,
            )  # fmt: skip
            if now > highest:
                best, highest = n, now
    return np.int64(best)
