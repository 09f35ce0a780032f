"""Compiled loops of placement: how many replicas each node can host, and which nodes to take.

Plain integer loops over columns; ``tests/scheduling/oracle.py`` says the same in plain Python. A
request is ``accelerators`` devices with ``milli`` free on each (1000: whole; less: one device).
Ties always go to the lower node number.
"""

import numpy as np

from tidemill.compiled import across

compiled = across(__file__)
inlined = across(__file__, inline="always")

READY = 2  # NodeState.READY; kernels import nothing of the model
WHOLE = 1000
PLENTY = 1 << 30
NOWHERE = -(1 << 62)  # the rank of a node that cannot host the request
TIGHTNESS = 1 << 22  # above any node's free milli (64 devices x 1000): tightest device first


@compiled
def devices_hosting(free, is_failed, first, count, accelerators, milli):
    """How many replicas the devices of one node can host."""
    if accelerators == 0:
        return PLENTY
    hosted = 0
    for d in range(first, first + count):
        if is_failed[d] == 0:
            if milli < WHOLE:
                hosted += free[d] // milli
            elif free[d] == WHOLE:
                hosted += 1
    return hosted // accelerators


@compiled
def count_hosts(
    state, is_spare, group, first_device, devices, is_failed,
    is_ok, cpu_free, memory_free, node_free, device_free,
    rows, accelerators, milli, cpu, memory, hosts,
):  # fmt: skip
    """Write into ``hosts`` how many replicas each node can take; return the sum."""
    total = 0
    need = accelerators * milli
    for n in range(rows):
        hosts[n] = 0
        if state[n] != READY or is_spare[n] != 0 or is_ok[group[n]] == 0 or node_free[n] < need:
            continue
        most = PLENTY
        if cpu > 0:
            most = min(most, cpu_free[n] // cpu)
        if memory > 0:
            most = min(most, memory_free[n] // memory)
        if most > 0:
            on_devices = devices_hosting(
                device_free, is_failed, first_device[n], devices[n], accelerators, milli
            )
            most = min(most, on_devices)
        hosts[n] = most
        total += most
    return total


@inlined
def looseness(n, node_free, first_device, devices, is_failed, device_free, milli):
    """How much would be left beside one replica: the smaller, the better the fit."""
    if milli >= WHOLE:
        return node_free[n]
    tightest = WHOLE
    for d in range(first_device[n], first_device[n] + devices[n]):
        if is_failed[d] == 0 and device_free[d] >= milli:
            tightest = min(tightest, device_free[d] - milli)
    return tightest * TIGHTNESS + node_free[n]


@compiled
def take_devices(n, replicas, accelerators, milli, first_device, devices, is_failed, device_free):
    """Take devices of one node for replicas that fit there; return the mask."""
    mask = np.uint64(0)
    first = first_device[n]
    if milli < WHOLE:
        best = -1
        for d in range(first, first + devices[n]):
            if is_failed[d] == 0 and device_free[d] >= milli:
                if best < 0 or device_free[d] < device_free[best]:
                    best = d
        device_free[best] -= milli
        return np.uint64(1) << np.uint64(best - first)
    wanted = replicas * accelerators
    for d in range(first, first + devices[n]):
        if wanted > 0 and is_failed[d] == 0 and device_free[d] == WHOLE:
            device_free[d] = 0
            mask |= np.uint64(1) << np.uint64(d - first)
            wanted -= 1
    return mask


@compiled
def best_single(
    hosts, rows, spreads, milli, node_free, first_device, devices, is_failed, device_free
):
    """The node for one more replica: the tightest when packing, the emptiest when spreading."""
    best = -1
    best_score = 0
    for n in range(rows):
        if hosts[n] > 0:
            if spreads:
                score = -node_free[n]
            else:
                score = looseness(
                    n, node_free, first_device, devices, is_failed, device_free, milli
                )
            if best < 0 or score < best_score:
                best = n
                best_score = score
    return best


@inlined
def hosts_one(n, first_device, devices, is_failed, device_free, accelerators, milli):
    """Whether the devices of a node can host one replica; stops looking as soon as they can."""
    left = accelerators
    for d in range(first_device[n], first_device[n] + devices[n]):
        if left == 0:
            break
        if is_failed[d] == 0 and device_free[d] >= milli:
            left -= 1
    return left == 0


@compiled
def find_one(
    state, is_spare, group, first_device, devices, is_failed,
    is_ok, cpu_free, memory_free, node_free, device_free,
    rows, accelerators, milli, cpu, memory, spreads,
):  # fmt: skip
    """The node for a single replica in one pass: as ``count_hosts`` and ``best_single``."""
    need = accelerators * milli
    best = -1
    best_score = 0
    for n in range(rows):
        if (
            state[n] != READY or is_spare[n] != 0 or is_ok[group[n]] == 0 or node_free[n] < need
            or cpu_free[n] < cpu or memory_free[n] < memory
        ):  # fmt: skip
            continue
        if spreads:
            score = -node_free[n]
        elif milli >= WHOLE:
            score = node_free[n]
        else:
            score = looseness(n, node_free, first_device, devices, is_failed, device_free, milli)
        if best >= 0 and score >= best_score:
            continue
        if hosts_one(n, first_device, devices, is_failed, device_free, accelerators, milli):
            best = n
            best_score = score
    return best


@compiled
def fill(
    state, is_spare, group, first_device, devices, is_failed,
    is_ok, cpu_free, memory_free, node_free, device_free,
    rows, accelerators, milli, cpu, memory, count, spreads,
    hosts, out_node, out_replicas, out_mask,
):  # fmt: skip
    """Place ``count`` replicas or none; return the number of pieces, or minus what would fit.

    Packing takes the nodes that host most first (fewest nodes), the tighter ones among equals, and
    for the rest of the gang the tightest node that hosts it. Spreading gives one to each in turn.
    """
    if count == 1:
        n = find_one(
            state, is_spare, group, first_device, devices, is_failed,
            is_ok, cpu_free, memory_free, node_free, device_free,
            rows, accelerators, milli, cpu, memory, spreads,
        )  # fmt: skip
        if n < 0:
            return -1
        out_node[0] = n
        out_replicas[0] = 1
        out_mask[0] = take_devices(
            n, 1, accelerators, milli, first_device, devices, is_failed, device_free
        )
        cpu_free[n] -= cpu
        memory_free[n] -= memory
        node_free[n] -= accelerators * milli
        return 1
    total = count_hosts(
        state, is_spare, group, first_device, devices, is_failed,
        is_ok, cpu_free, memory_free, node_free, device_free,
        rows, accelerators, milli, cpu, memory, hosts,
    )  # fmt: skip
    if total < count:
        return -min(total, PLENTY) - 1
    pieces = 0
    left = count
    one_by_one = spreads or milli < WHOLE
    while left > 0:
        if left == 1 or one_by_one:
            n = best_single(
                hosts, rows, spreads, milli, node_free, first_device, devices, is_failed,
                device_free,
            )  # fmt: skip
            batch = 1
        else:
            n = best_for_many(hosts, rows, left, node_free)
            batch = min(left, hosts[n])
        out_node[pieces] = n
        out_replicas[pieces] = batch
        out_mask[pieces] = take_devices(
            n, batch, accelerators, milli, first_device, devices, is_failed, device_free
        )
        cpu_free[n] -= batch * cpu
        memory_free[n] -= batch * memory
        node_free[n] -= batch * accelerators * milli
        hosts[n] -= batch
        left -= batch
        pieces += 1
    return pieces


@compiled
def best_for_many(hosts, rows, left, node_free):
    """The node that hosts most of what is left of a gang; the tighter one among equals."""
    best = -1
    best_hosts = 0
    for n in range(rows):
        h = min(hosts[n], left)
        if h > best_hosts or (h == best_hosts and h > 0 and node_free[n] < node_free[best]):
            best = n
            best_hosts = h
    return best


@compiled
def give(n, replicas, mask, accelerators, milli, cpu, memory, first_device, cpu_free, memory_free,
         node_free, device_free, sign):  # fmt: skip
    """Give a piece back to a node (sign 1), or take it again (sign -1)."""
    first = first_device[n]
    d = first
    while mask != 0:
        if mask & np.uint64(1):
            device_free[d] += sign * milli
        mask >>= np.uint64(1)
        d += 1
    cpu_free[n] += sign * replicas * cpu
    memory_free[n] += sign * replicas * memory
    node_free[n] += sign * replicas * accelerators * milli


@compiled
def copy_nodes(
    which, count, first_device, devices, state, is_spare, cpu_from, memory_from,
    node_from, device_from, is_open, cpu_free, memory_free, node_free, device_free,
):  # fmt: skip
    """Copy the first ``count`` nodes of ``which``; move those that differed to its front."""
    differ = 0
    for i in range(count):
        n = which[i]
        opens = state[n] == READY and is_spare[n] == 0
        same = is_open[n] == opens and node_free[n] == node_from[n]
        same = same and cpu_free[n] == cpu_from[n] and memory_free[n] == memory_from[n]
        for d in range(first_device[n], first_device[n] + devices[n]):
            same = same and device_free[d] == device_from[d]
            device_free[d] = device_from[d]
        is_open[n] = opens
        cpu_free[n] = cpu_from[n]
        memory_free[n] = memory_from[n]
        node_free[n] = node_from[n]
        if not same:
            which[differ] = n
            differ += 1
    return differ


@inlined
def rank_one(
    n, state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free, memory_free,
    node_free, device_free, accelerators, milli, cpu, memory, spreads,
):  # fmt: skip
    """How well a node suits one replica, the higher the better; ``NOWHERE``: it cannot host it."""
    if state[n] != READY or is_spare[n] != 0 or is_ok[group[n]] == 0:
        return NOWHERE
    if node_free[n] < accelerators * milli or cpu_free[n] < cpu or memory_free[n] < memory:
        return NOWHERE
    if not hosts_one(n, first_device, devices, is_failed, device_free, accelerators, milli):
        return NOWHERE
    if spreads:
        return node_free[n]
    return -looseness(n, node_free, first_device, devices, is_failed, device_free, milli)


@compiled
def play_all(rank, winner):
    """Play the whole tournament: ``winner[1]`` wins, ``winner[0]`` nodes could host it."""
    size = len(rank)
    winner[0] = 0
    for n in range(size):
        winner[0] += rank[n] > NOWHERE
        winner[size + n] = n
    for i in range(size - 1, 0, -1):
        left, right = winner[2 * i], winner[2 * i + 1]
        winner[i] = left if rank[left] >= rank[right] else right


@compiled
def play_one(rank, winner, n, now):
    """Give one node another rank and play its matches again; as ``play_all``."""
    winner[0] += int(now > NOWHERE) - int(rank[n] > NOWHERE)
    rank[n] = now
    i = (len(rank) + n) >> 1
    while i > 0:
        left, right = winner[2 * i], winner[2 * i + 1]
        best = left if rank[left] >= rank[right] else right
        if best == winner[i] and best != n:
            break
        winner[i] = best
        i >>= 1


@compiled
def rank_all(
    rank, winner, rows, state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free,
    memory_free, node_free, device_free, accelerators, milli, cpu, memory, spreads,
):  # fmt: skip
    """Rank every node and play the tournament; return the winner, or -1."""
    for n in range(len(rank)):
        rank[n] = NOWHERE
        if n < rows:
            rank[n] = rank_one(
                n, state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free,
                memory_free, node_free, device_free, accelerators, milli, cpu, memory, spreads,
            )  # fmt: skip
    play_all(rank, winner)
    return int(winner[1]) if rank[winner[1]] > NOWHERE else -1


@compiled
def rank_some(
    rank, winner, which, state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free,
    memory_free, node_free, device_free, accelerators, milli, cpu, memory, spreads,
):  # fmt: skip
    """Rank some nodes again and play only their matches; as ``rank_all``."""
    for n in which:
        now = rank_one(
            n, state, is_spare, group, first_device, devices, is_failed, is_ok, cpu_free,
            memory_free, node_free, device_free, accelerators, milli, cpu, memory, spreads,
        )  # fmt: skip
        if now != rank[n]:
            play_one(rank, winner, n, now)
    return int(winner[1]) if rank[winner[1]] > NOWHERE else -1


@compiled
def fill_one(
    rank, winner, which, is_new, state, is_spare, group, first_device, devices, is_failed, is_ok,
    cpu_free, memory_free, node_free, device_free, rows, accelerators, milli, cpu, memory, spreads,
    out_mask,
):  # fmt: skip
    """Place one replica through its tournament: return the node, or -1; as ``fill`` for one."""
    if is_new:
        n = rank_all(
            rank, winner, rows, state, is_spare, group, first_device, devices, is_failed, is_ok,
            cpu_free, memory_free, node_free, device_free, accelerators, milli, cpu, memory,
            spreads,
        )  # fmt: skip
    else:
        n = rank_some(
            rank, winner, which, state, is_spare, group, first_device, devices, is_failed, is_ok,
            cpu_free, memory_free, node_free, device_free, accelerators, milli, cpu, memory,
            spreads,
        )  # fmt: skip
    if n >= 0:
        out_mask[0] = take_devices(
            n, 1, accelerators, milli, first_device, devices, is_failed, device_free
        )
        cpu_free[n] -= cpu
        memory_free[n] -= memory
        node_free[n] -= accelerators * milli
    return n
