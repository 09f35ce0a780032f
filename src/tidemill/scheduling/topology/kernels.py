"""Compiled loops of topology: what each domain can host, and how a gang is divided over domains.

Plain integer loops over columns; ``tests/scheduling/topology_oracle.py`` says the same in plain
Python. Tiers outside the node are 0 (outermost) up to ``tiers - 1``; the row after them is of the
nodes themselves. Ties go to the lower number.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.scheduling import kernels as scheduling
from tidemill.scheduling.kernels import PLENTY, READY, WHOLE, devices_hosting

compiled = across(__file__, scheduling)
sorting = across(__file__, scheduling, allocates=True)

MOST = (1 << 24) - 1  # above the replicas of any role (ten million): more is all the same
FREE_BITS = 38  # milli free in a domain: 200,000 nodes of 64 devices need 34


@compiled
def blocks_hosting(free, is_failed, first, count, block, wanted, milli, each):
    """How many groups the devices of one node can host, each inside one block of devices."""
    hosted = 0
    for start in range(first, first + count, block):
        inside = 0
        for d in range(start, min(start + block, first + count)):
            if is_failed[d] == 0:
                if milli < WHOLE:
                    inside += free[d] // milli
                elif free[d] == WHOLE:
                    inside += 1
        hosted += inside // (each if milli < WHOLE else wanted)
    return hosted


@compiled
def survey(
    state, is_spare, group, first_device, devices, is_failed,
    is_ok, cpu_free, memory_free, node_free, device_free,
    rows, accelerators, milli, cpu, memory, block, each, scopes, scope, hosts,
):  # fmt: skip
    """Write into ``hosts`` how many groups of ``each`` replicas every node can take.

    With ``block``, each group is inside one block of so many devices; without, ``each`` is 1. Only
    nodes whose ``scopes`` is ``scope`` count (-1: all).
    """
    need = accelerators * milli
    for n in range(rows):
        hosts[n] = 0
        if state[n] != READY or is_spare[n] != 0 or is_ok[group[n]] == 0 or node_free[n] < need:
            continue
        if scope >= 0 and scopes[n] != scope:
            continue
        most = PLENTY
        if cpu > 0:
            most = min(most, cpu_free[n] // cpu)
        if memory > 0:
            most = min(most, memory_free[n] // memory)
        if most <= 0:
            continue
        if block > 0 and accelerators > 0:
            inside = blocks_hosting(
                device_free, is_failed, first_device[n], devices[n], block, accelerators * each,
                milli, each,
            )  # fmt: skip
            hosts[n] = min(most // each, inside)
        else:
            on_devices = devices_hosting(
                device_free, is_failed, first_device[n], devices[n], accelerators, milli
            )
            hosts[n] = min(most, on_devices) // each


@compiled
def gather(hosts, node_free, rows, position, parent, domains, ratio, cap, free):
    """Write into ``cap`` and ``free`` what each domain of each tier can host, and has free.

    A tier with a ratio counts in groups of so many of what its parts count in: ``ratio[t]`` parts
    of a group are to sit in one domain of tier ``t``. The last row is of the nodes.
    """
    tiers = len(domains)
    for n in range(rows):
        cap[tiers, n] = min(MOST, hosts[n]) // ratio[tiers]
        free[tiers, n] = node_free[n]
    for t in range(tiers - 1, -1, -1):
        for d in range(domains[t]):
            cap[t, d] = 0
            free[t, d] = 0
        if t == tiers - 1:
            for n in range(rows):
                if hosts[n] > 0:
                    cap[t, position[t, n]] += cap[tiers, n]
                    free[t, position[t, n]] += node_free[n]
        else:
            for d in range(domains[t + 1]):
                cap[t, parent[t + 1, d]] += cap[t + 1, d]
                free[t, parent[t + 1, d]] += free[t + 1, d]
        for d in range(domains[t]):
            cap[t, d] = min(MOST, cap[t, d]) // ratio[t]


@sorting
def divide(cap, free, rows, position, parent, domains, ratio, top, want, quota):
    """Divide ``want`` groups of tier ``top`` over its domains, those over theirs, down to nodes.

    At each step the tightest domain that hosts all that is left takes it; where there is none, the
    largest is filled: fewest domains, and the tighter one among equals (less free, lower number).
    ``quota`` gets what each domain takes.
    """
    tiers = len(domains)
    for t in range(top, tiers + 1):
        count = rows if t == tiers else domains[t]
        for d in range(count):
            quota[t, d] = 0
        number = 0
        able = np.empty(count, np.int64)
        for d in range(count):
            if cap[t, d] > 0:
                if t > top:
                    above = position[t - 1, d] if t == tiers else parent[t, d]
                    if quota[t - 1, above] == 0:
                        continue
                able[number] = d
                number += 1
        able = able[:number]
        keys = np.empty(number, np.int64)
        for i in range(number):
            d = able[i]
            keys[i] = ((MOST - cap[t, d]) << FREE_BITS) + free[t, d]
        able = able[np.argsort(keys, kind="mergesort")]
        around = np.zeros(number, np.int64)
        if t > top:
            for i in range(number):
                around[i] = position[t - 1, able[i]] if t == tiers else parent[t, able[i]]
            order = np.argsort(around, kind="mergesort")
            able, around = able[order], around[order]
        start = 0
        while start < number:
            end = start + 1
            while end < number and around[end] == around[start]:
                end += 1
            left = want
            if t > top:
                left = quota[t - 1, around[start]] * ratio[t - 1]
            i = start
            while left > 0 and i < end:
                if cap[t, able[i]] < left:
                    quota[t, able[i]] = cap[t, able[i]]
                    left -= cap[t, able[i]]
                    i += 1
                    continue
                last = i
                while last + 1 < end and cap[t, able[last + 1]] >= left:
                    last += 1
                while last > i and cap[t, able[last - 1]] == cap[t, able[last]]:
                    last -= 1
                quota[t, able[last]] = left
                left = 0
            start = end


@compiled
def pick_whole(mask, first, count, block, wanted, is_failed, free):
    """Add the devices of one group to a mask: of the tightest block that has them all."""
    best = -1
    best_left = 0
    for start in range(0, count, block):
        inside = 0
        for d in range(start, min(start + block, count)):
            taken = mask >> np.uint64(d) & np.uint64(1)
            if is_failed[first + d] == 0 and free[first + d] == WHOLE and taken == 0:
                inside += 1
        if inside >= wanted and (best < 0 or inside < best_left):
            best = start
            best_left = inside
    for d in range(best, min(best + block, count)):
        taken = mask >> np.uint64(d) & np.uint64(1)
        if wanted > 0 and is_failed[first + d] == 0 and free[first + d] == WHOLE and taken == 0:
            mask |= np.uint64(1) << np.uint64(d)
            wanted -= 1
    return mask


@compiled
def block_for_shares(left, first, count, block, milli, each, is_failed):
    """The first device of the block whose devices have least left and hold a group of shares."""
    best = -1
    best_left = 0
    for start in range(0, count, block):
        inside = 0
        for d in range(start, min(start + block, count)):
            if is_failed[first + d] == 0:
                inside += left[d] // milli
        if inside >= each and (best < 0 or inside < best_left):
            best = start
            best_left = inside
    return best


@compiled
def pieces(
    quota, rows, ratio, each, block, accelerators, milli, first_device, devices, is_failed,
    device_free, left, out_node, out_replicas, out_mask,
):  # fmt: skip
    """Write the pieces of a role whose ``quota`` of groups each node takes; return how many.

    ``left`` is scratch: a number for each device of a node.
    """
    count = 0
    for n in range(rows):
        groups = quota[n] * ratio
        if groups == 0:
            continue
        first = first_device[n]
        width = devices[n]
        size = block if block > 0 else width
        if accelerators > 0 and milli < WHOLE:
            for d in range(width):
                left[d] = device_free[first + d]
            for _ in range(groups):
                start = block_for_shares(left, first, width, size, milli, each, is_failed)
                for _ in range(each):
                    best = -1
                    for d in range(start, min(start + size, width)):
                        if is_failed[first + d] == 0 and left[d] >= milli:
                            if best < 0 or left[d] < left[best]:
                                best = d
                    left[best] -= milli
                    out_node[count] = n
                    out_replicas[count] = 1
                    out_mask[count] = np.uint64(1) << np.uint64(best)
                    count += 1
            continue
        mask = np.uint64(0)
        if accelerators > 0:
            for _ in range(groups):
                mask = pick_whole(
                    mask, first, width, size, accelerators * each, is_failed, device_free
                )
        out_node[count] = n
        out_replicas[count] = groups * each
        out_mask[count] = mask
        count += 1
    return count
