"""Compiled loops of backfill: when enough has ended, and what is kept free.

Plain integer loops over columns, in place; nothing is allocated, so the compiled cycle may call
them too. Running work is one row per job, its pieces are neighbours, and every piece carries what
one replica asks for. (``ends`` says the same over the cluster state; this goes with stretches.)
"""

import numpy as np

from tidemill.compiled import across
from tidemill.scheduling import kernels as scheduling
from tidemill.scheduling.kernels import PLENTY, READY, devices_hosting, give

compiled = across(__file__, scheduling)
inlined = across(__file__, scheduling, inline="always")

DEVICES = 64  # of one node: a mask is one number


@inlined
def hosted_on(
    n, state, is_spare, group, first_device, devices, is_barred, is_ok, cpu_free, memory_free,
    node_free, device_free, accelerators, milli, cpu, memory,
):  # fmt: skip
    """How many replicas one node can take; as ``scheduling.kernels.count_hosts`` for one."""
    if state[n] != READY or is_spare[n] != 0 or is_ok[group[n]] == 0:
        return 0
    if node_free[n] < accelerators * milli:
        return 0
    most = PLENTY
    if cpu > 0:
        most = min(most, cpu_free[n] // cpu)
    if memory > 0:
        most = min(most, memory_free[n] // memory)
    if most <= 0:
        return 0
    return min(
        most,
        devices_hosting(device_free, is_barred, first_device[n], devices[n], accelerators, milli),
    )


@compiled
def end_first(
    begin, end, sign, order, first, pieces, node, replicas, mask, accelerators, milli, cpu, memory,
    first_device, cpu_free, memory_free, node_free, device_free,
):  # fmt: skip
    """Give back what the rows from ``begin`` to ``end`` of the order hold (1), or take it (-1)."""
    for i in range(begin, end):
        row = order[i]
        for p in range(first[row], first[row] + pieces[row]):
            give(node[p], replicas[p], mask[p], accelerators[p], milli[p], cpu[p], memory[p],
                 first_device, cpu_free, memory_free, node_free, device_free, sign)  # fmt: skip


@compiled
def enough_after(
    count, order, first, pieces, node, replicas, mask, accelerators_of, milli_of, cpu_of,
    memory_of, state, is_spare, group, kind, first_device, devices, is_barred, is_ok, cpu_free,
    memory_free, node_free, device_free, rows, accelerators, milli, cpu, memory, wanted, k, short,
    hosts,
):  # fmt: skip
    """How many of the first ``count`` must end until a gang fits on one kind; -1: not even all.

    ``short``: how much more of the kind must come free in all. The columns are left as they were.
    """
    total = 0
    for n in range(rows):
        hosts[n] = hosted_on(
            n, state, is_spare, group, first_device, devices, is_barred, is_ok, cpu_free,
            memory_free, node_free, device_free, accelerators, milli, cpu, memory,
        )  # fmt: skip
        total += hosts[n]
    found = -1
    given = 0
    for i in range(count):
        row = order[i]
        for p in range(first[row], first[row] + pieces[row]):
            n = node[p]
            give(n, replicas[p], mask[p], accelerators_of[p], milli_of[p], cpu_of[p], memory_of[p],
                 first_device, cpu_free, memory_free, node_free, device_free, 1)  # fmt: skip
            if kind[n] == k and state[n] == READY and is_spare[n] == 0:
                short -= replicas[p] * accelerators_of[p] * milli_of[p]
            now = hosted_on(
                n, state, is_spare, group, first_device, devices, is_barred, is_ok, cpu_free,
                memory_free, node_free, device_free, accelerators, milli, cpu, memory,
            )  # fmt: skip
            total += now - hosts[n]
            hosts[n] = now
        given = i + 1
        if total >= wanted and short <= 0:
            found = given
            break
    end_first(0, given, -1, order, first, pieces, node, replicas, mask, accelerators_of, milli_of,
              cpu_of, memory_of, first_device, cpu_free, memory_free, node_free,
              device_free)  # fmt: skip
    return found


@compiled
def keep(
    count, node, mask, milli, cpu, memory, first_device, cpu_free, memory_free, node_free,
    device_free, kept_part, kept_cpu, kept_memory,
):  # fmt: skip
    """Take what pieces need and is free now, and write down what that was, device by device.

    Of a device that somebody else has a part of, the rest is taken: it will be needed, too.
    """
    for i in range(count):
        n = node[i]
        bits = mask[i]
        d = 0
        while bits != 0:
            kept_part[i * DEVICES + d] = 0
            if bits & np.uint64(1):
                at = first_device[n] + d
                kept_part[i * DEVICES + d] = min(milli[i], max(0, device_free[at]))
                device_free[at] -= kept_part[i * DEVICES + d]
                node_free[n] -= kept_part[i * DEVICES + d]
            bits >>= np.uint64(1)
            d += 1
        kept_cpu[i] = min(cpu[i], max(0, cpu_free[n]))
        kept_memory[i] = min(memory[i], max(0, memory_free[n]))
        cpu_free[n] -= kept_cpu[i]
        memory_free[n] -= kept_memory[i]


@compiled
def let_go(
    count, node, mask, first_device, cpu_free, memory_free, node_free, device_free, kept_part,
    kept_cpu, kept_memory,
):  # fmt: skip
    """Give back what was kept."""
    for i in range(count):
        n = node[i]
        bits = mask[i]
        d = 0
        while bits != 0:
            device_free[first_device[n] + d] += kept_part[i * DEVICES + d]
            node_free[n] += kept_part[i * DEVICES + d]
            bits >>= np.uint64(1)
            d += 1
        cpu_free[n] += kept_cpu[i]
        memory_free[n] += kept_memory[i]
