"""What each node could host, and placing a gang by sweeping over all nodes.

A request is ``accelerators`` devices with ``milli`` free on each (1000: whole; less: one device).
Ties always go to the lower node number. ``tests/scheduling/oracle.py`` says the same in plain
Python.
"""

from tidemill.model.columns import DEVICE, NODE
from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.model.states import NodeState
from tidemill.scheduling.fitting.columns import BITS, CALL, FILTER, OUT, PART, REQUEST, SPOT
from tidemill.scheduling.fitting.kernel import kernel

READY = int(NodeState.READY)
PLENTY = 1 << 30
TIGHTNESS = 1 << 22  # above any node's free milli (64 devices x 1000): tightest device first
NO_CPU, NO_MEMORY = 1, 2  # what of a request is no matter
LAST_BIT = 63
STATE, SPARE, RULES, FREE, CPU, MEMORY, DEVICES, PASSED = map(int, FILTER)
SIGN = -(1 << LAST_BIT)


@kernel
def bit(d):
    """The mask of one device."""
    return SIGN if d == LAST_BIT else 1 << d


@kernel
def touch(regs, touched, spots, n):
    """Note that something of a node has changed in the room."""
    if regs[CALL.IS_UNSEEN] != 0:
        return
    i = regs[CALL.TOUCHED]
    touched[i % len(touched)] = n
    regs[CALL.TOUCHED] = i + 1
    spots[n, SPOT.CHANGED] += 1


@kernel
def give(
    nodes, regs, touched, spots, parts, n, replicas, mask, accelerators, milli, cpu, memory, sign
):
    """Give a piece back to its node (1), or take it (-1)."""
    first = nodes[n, NODE.FIRST_DEVICE]
    for d in range(nodes[n, NODE.DEVICES]):
        if mask >> d & 1:
            parts[first + d, PART.FREE] += sign * milli
    spots[n, SPOT.FREE] += sign * replicas * accelerators * milli
    spots[n, SPOT.CPU] += sign * replicas * cpu
    spots[n, SPOT.MEMORY] += sign * replicas * memory
    touch(regs, touched, spots, n)


@kernel
def give_all(w, g, r, count, sign):
    """Give back the pieces that were found for a request (1), or take them (-1)."""
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    for i in range(count):
        give(
            w.nodes, g.regs, g.touched, g.spots, g.parts, g.out[i, OUT.NODE],
            g.out[i, OUT.REPLICAS], g.out[i, OUT.DEVICES], accelerators, milli, cpu, memory, sign,
        )  # fmt: skip


@kernel
def on_device(parts, d, milli):
    """How many parts of so much one device can give; only an untouched one is given whole."""
    free = parts[d, PART.FREE]
    return free // milli if milli < WHOLE else int(free == WHOLE)


@kernel
def on_devices(devices, parts, first, count, accelerators, milli):
    """How many replicas the devices of one node can host."""
    if accelerators == 0:
        return PLENTY
    hosted = 0
    for d in range(first, first + count):
        if devices[d, DEVICE.IS_FAILED] == 0:
            hosted += on_device(parts, d, milli)
    return hosted // accelerators


@kernel
def removed_by(nodes, spots, oks, r, n, need, cpu, memory):
    """The first filter that a node does not pass; ``DEVICES``: only that is left to be asked."""
    if nodes[n, NODE.STATE] != READY:
        return STATE
    if nodes[n, NODE.IS_SPARE] != 0:
        return SPARE
    if oks[r, nodes[n, NODE.GROUP]] == 0:
        return RULES
    if spots[n, SPOT.FREE] < need:
        return FREE
    if spots[n, SPOT.CPU] < cpu:
        return CPU
    if spots[n, SPOT.MEMORY] < memory:
        return MEMORY
    return DEVICES


@kernel
def is_able(nodes, spots, oks, r, n, need, cpu, memory):
    """Whether a node may take a request, and has enough in all for one replica."""
    return removed_by(nodes, spots, oks, r, n, need, cpu, memory) == DEVICES


@kernel
def most_beside(spots, n, cpu, memory):
    """How many replicas CPU and memory of a node allow."""
    most = PLENTY
    if cpu > 0:
        most = min(most, spots[n, SPOT.CPU] // cpu)
    if memory > 0:
        most = min(most, spots[n, SPOT.MEMORY] // memory)
    return most


@kernel
def hosted_by(w, g, r, n, cpu, memory):
    """How many replicas of a request a node could take, with this CPU and memory."""
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    if not is_able(w.nodes, g.spots, g.oks, r, n, accelerators * milli, cpu, memory):
        return 0
    first, devices = w.nodes[n, NODE.FIRST_DEVICE], w.nodes[n, NODE.DEVICES]
    hosted = on_devices(w.devices, g.parts, first, devices, accelerators, milli)
    return min(most_beside(g.spots, n, cpu, memory), hosted)


@kernel
def note_hosted(requests, hosts, hosting, r, n, now):
    """Write how many replicas of a request a node could take, in its row of ``hosts``."""
    h = requests[r, REQUEST.HOSTS_ROW]
    before = hosts[h, n]
    if before == now:
        return
    requests[r, REQUEST.HOSTS_SUM] += now - before
    hosts[h, n] = now
    if (before > 0) != (now > 0):
        hosting[h, n // BITS] ^= 1 << n % BITS


@kernel
def first_bit(word, n):
    """The first node from a number on whose bit is set in the word of that number; -1: none."""
    left = word >> n % BITS
    if left == 0:
        return -1
    while left & 1 == 0:
        left >>= 1
        n += 1
    return n


@kernel
def hosting_from(hosting, h, n, rows):
    """The first node from a number on that could take a replica; ``rows``: there is none."""
    while n < rows:
        found = first_bit(hosting[h, n // BITS], n)
        if found >= 0:
            return found
        n += BITS - n % BITS
    return rows


@kernel
def host_beside(g, h, n):
    """The first node from a number on that could take a replica and is not reserved as a whole.

    The number of all nodes: there is none.
    """
    rows = g.regs[CALL.ROWS]
    while n < rows:
        found = first_bit(g.hosting[h, n // BITS] & ~g.reserved[n // BITS], n)
        if found >= 0:
            return found
        n += BITS - n % BITS
    return rows


@kernel
def count_again(w, g, r, n):
    """Count again how many replicas of a request a node could take, in its row of ``hosts``."""
    requests = g.requests
    now = hosted_by(w, g, r, n, requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY])
    note_hosted(requests, g.hosts, g.hosting, r, n, now)


@kernel
def count_hosts(w, g, r):
    """How many replicas of a request each node could take, in its row of ``hosts``; the sum.

    What was touched since it was asked before is counted again; or all nodes.
    """
    requests, hosts, touched, size = g.requests, g.hosts, g.touched, g.regs[CALL.TOUCHED]
    h, since = requests[r, REQUEST.HOSTS_ROW], requests[r, REQUEST.HOSTS_AT]
    rows = g.regs[CALL.ROWS]
    requests[r, REQUEST.HOSTS_AT] = size + 1
    if h == 0 or since == 0 or size + 1 - since > min(len(touched), rows // 2):
        requests[r, REQUEST.HOSTS_SUM] = 0
        for n in range(rows):
            hosts[h, n] = 0
        for i in range(g.hosting.shape[1]):
            g.hosting[h, i] = 0
        for n in range(rows):
            count_again(w, g, r, n)
    else:
        for i in range(since - 1, size):
            count_again(w, g, r, touched[i % len(touched)])
    return requests[r, REQUEST.HOSTS_SUM]


@kernel
def hosts_one(nodes, devices, parts, n, accelerators, milli):
    """Whether the devices of a node can host one replica; stops looking as soon as they can."""
    left, first = accelerators, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if left == 0:
            break
        if devices[d, DEVICE.IS_FAILED] == 0 and parts[d, PART.FREE] >= milli:
            left -= 1
    return left == 0


@kernel
def filter_all(w, g, r, verdicts):
    """The filter that removes each node from those that could take a request; or ``PASSED``."""
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    for n in range(g.regs[CALL.ROWS]):
        found = removed_by(w.nodes, g.spots, g.oks, r, n, accelerators * milli, cpu, memory)
        if found == DEVICES and hosts_one(w.nodes, w.devices, g.parts, n, accelerators, milli):
            found = PASSED
        verdicts[n] = found


@kernel
def is_short(w, g, r, count, cpu, memory, ignored):
    """Whether too few could be taken when all nodes were last counted, and since.

    What was counted then, and all that nodes could take that were touched since, is at least what
    all could take.
    """
    requests, touched, size = g.requests, g.touched, g.regs[CALL.TOUCHED]
    total, since = requests[r, REQUEST.TOTAL + ignored], requests[r, REQUEST.TOTAL_AT + ignored] - 1
    if not 0 <= since <= size <= since + min(len(touched), g.regs[CALL.ROWS] // 2):
        return False  # it is not known, or would take as long as to count again
    for i in range(since, size):
        if total >= count:
            break
        total += hosted_by(w, g, r, touched[i % len(touched)], cpu, memory)
    if total >= count:
        return False
    requests[r, REQUEST.TOTAL + ignored] = total
    requests[r, REQUEST.TOTAL_AT + ignored] = size + 1
    return True


@kernel
def is_held(w, g, r, count, ignored):
    """Whether nodes could take so many replicas of a request; some things of it may be no matter.

    One that could take a single one is asked first.
    """
    requests, total = g.requests, 0
    cpu = 0 if ignored & NO_CPU else requests[r, REQUEST.CPU]
    memory = 0 if ignored & NO_MEMORY else requests[r, REQUEST.MEMORY]
    first, rows = requests[r, REQUEST.HOST + ignored], g.regs[CALL.ROWS]
    if count == 1 and first < rows and hosted_by(w, g, r, first, cpu, memory) > 0:
        return True
    if ignored == 0 and requests[r, REQUEST.HOSTS_ROW] != 0:
        return count_hosts(w, g, r) >= count
    if is_short(w, g, r, count, cpu, memory, ignored):
        return False
    for n in range(rows):
        total += hosted_by(w, g, r, n, cpu, memory)
        if total >= count:
            requests[r, REQUEST.HOST + ignored] = n
            return True
    requests[r, REQUEST.TOTAL + ignored] = total
    requests[r, REQUEST.TOTAL_AT + ignored] = g.regs[CALL.TOUCHED] + 1
    return False


@kernel
def looseness(nodes, devices, spots, parts, n, milli):
    """How much would be left beside one replica: the smaller, the better the fit."""
    if milli >= WHOLE:
        return spots[n, SPOT.FREE]
    tightest, first = WHOLE, nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if devices[d, DEVICE.IS_FAILED] == 0 and parts[d, PART.FREE] >= milli:
            tightest = min(tightest, parts[d, PART.FREE] - milli)
    return tightest * TIGHTNESS + spots[n, SPOT.FREE]


@kernel
def take_devices(nodes, devices, parts, n, replicas, accelerators, milli):
    """Take devices of one node for replicas that fit there; return the mask."""
    mask, first = 0, nodes[n, NODE.FIRST_DEVICE]
    if milli < WHOLE:
        best = -1
        for d in range(first, first + nodes[n, NODE.DEVICES]):
            if devices[d, DEVICE.IS_FAILED] != 0 or parts[d, PART.FREE] < milli:
                continue
            if best < 0 or parts[d, PART.FREE] < parts[best, PART.FREE]:
                best = d
        parts[best, PART.FREE] -= milli
        return bit(best - first)
    wanted = replicas * accelerators
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        if wanted > 0 and devices[d, DEVICE.IS_FAILED] == 0 and parts[d, PART.FREE] == WHOLE:
            parts[d, PART.FREE] = 0
            mask |= bit(d - first)
            wanted -= 1
    return mask


@kernel
def put(g, r, i, n, replicas, mask):
    """Write one piece of what was found, whose devices are taken, and take the rest of it."""
    requests, spots = g.requests, g.spots
    g.out[i, OUT.NODE] = n
    g.out[i, OUT.REPLICAS] = replicas
    g.out[i, OUT.DEVICES] = mask
    need = requests[r, REQUEST.ACCELERATORS] * requests[r, REQUEST.MILLI]
    spots[n, SPOT.FREE] -= replicas * need
    spots[n, SPOT.CPU] -= replicas * requests[r, REQUEST.CPU]
    spots[n, SPOT.MEMORY] -= replicas * requests[r, REQUEST.MEMORY]
    touch(g.regs, g.touched, spots, n)


@kernel
def put_some(w, g, r, i, n, replicas):
    """Put replicas on a node that hosts them, on the devices that fit best."""
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    mask = take_devices(w.nodes, w.devices, g.parts, n, replicas, accelerators, milli)
    put(g, r, i, n, replicas, mask)


@kernel
def find_one(w, g, r, spreads):
    """The node for one more replica, of those that are counted to host some; or -1.

    The tightest, or the emptiest when spreading.
    """
    best, best_score, milli = -1, 0, g.requests[r, REQUEST.MILLI]
    h, rows = g.requests[r, REQUEST.HOSTS_ROW], g.regs[CALL.ROWS]
    n = hosting_from(g.hosting, h, 0, rows)
    while n < rows:
        if spreads != 0:
            score = -g.spots[n, SPOT.FREE]
        else:
            score = looseness(w.nodes, w.devices, g.spots, g.parts, n, milli)
        if best < 0 or score < best_score:
            best = n
            best_score = score
        n = hosting_from(g.hosting, h, n + 1, rows)
    return best


@kernel
def best_for_many(spots, hosts, hosting, h, rows, left):
    """The node that hosts most of what is left of a gang; the tighter one among equals."""
    best, best_hosts = -1, 0
    n = hosting_from(hosting, h, 0, rows)
    while n < rows:
        hosted = min(hosts[h, n], left)
        if hosted > best_hosts or (
            hosted == best_hosts and spots[n, SPOT.FREE] < spots[best, SPOT.FREE]
        ):
            best = n
            best_hosts = hosted
        n = hosting_from(hosting, h, n + 1, rows)
    return best


@kernel
def put_hosted(w, g, r, i, n, replicas):
    """Put replicas on a node that was counted to host them."""
    put_some(w, g, r, i, n, replicas)
    left = g.hosts[g.requests[r, REQUEST.HOSTS_ROW], n] - replicas
    note_hosted(g.requests, g.hosts, g.hosting, r, n, left)


@kernel
def put_many(w, g, r, left):
    """Fill nodes with a gang, the best first; how many pieces there are then.

    Nodes that host as much and have as little free as the best come one after the other, so they
    are all filled in one pass. One last replica is left to ``find_one``.
    """
    i, spots, hosts, rows = 0, g.spots, g.hosts, g.regs[CALL.ROWS]
    h = g.requests[r, REQUEST.HOSTS_ROW]
    while left > 1:
        n = best_for_many(spots, hosts, g.hosting, h, rows, left)
        hosted, free = min(hosts[h, n], left), spots[n, SPOT.FREE]
        while n < rows and left > 1 and hosted <= left:
            if min(hosts[h, n], left) == hosted and spots[n, SPOT.FREE] == free:
                put_hosted(w, g, r, i, n, hosted)
                left -= hosted
                i += 1
            n = hosting_from(g.hosting, h, n + 1, rows)
    if left == 1:
        put_hosted(w, g, r, i, find_one(w, g, r, 0), 1)
        i += 1
    return i


@kernel
def fill(w, g, r, count, spreads):
    """Place ``count`` replicas or none; return the number of pieces, or minus what would fit.

    Packing takes the nodes that host most first (fewest nodes), the tighter ones among equals, and
    for the rest of the gang the tightest node that hosts it. Spreading gives one to each in turn.
    """
    total = count_hosts(w, g, r)
    if total < count:
        return -min(total, PLENTY) - 1
    if spreads == 0 and g.requests[r, REQUEST.MILLI] >= WHOLE:
        return put_many(w, g, r, count)
    for i in range(count):
        put_hosted(w, g, r, i, find_one(w, g, r, spreads), 1)
    return count


@kernel
def copy_node(nodes, devices, regs, touched, spots, parts, n):
    """Copy a node of the cluster state into the room; note it if it differed."""
    opens = int(nodes[n, NODE.STATE] == READY and nodes[n, NODE.IS_SPARE] == 0)
    same = (
        spots[n, SPOT.IS_OPEN] == opens
        and spots[n, SPOT.FREE] == nodes[n, NODE.FREE_MILLI]
        and spots[n, SPOT.CPU] == nodes[n, NODE.CPU_FREE_MILLI]
        and spots[n, SPOT.MEMORY] == nodes[n, NODE.MEMORY_FREE_MIB]
    )
    first = nodes[n, NODE.FIRST_DEVICE]
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        same = same and parts[d, PART.FREE] == devices[d, DEVICE.FREE_MILLI]
        parts[d, PART.FREE] = devices[d, DEVICE.FREE_MILLI]
        parts[d, PART.SLICES] = devices[d, DEVICE.SLICES]
    spots[n, SPOT.IS_OPEN] = opens
    spots[n, SPOT.FREE] = nodes[n, NODE.FREE_MILLI]
    spots[n, SPOT.CPU] = nodes[n, NODE.CPU_FREE_MILLI]
    spots[n, SPOT.MEMORY] = nodes[n, NODE.MEMORY_FREE_MIB]
    if not same:
        touch(regs, touched, spots, n)


@kernel
def copy_changed(nodes, devices, log, regs, touched, spots, parts, clean, read, logged):
    """Copy what changed in the cluster state since ``read``, and in the room since ``clean``.

    If that is not known of the room any more, all nodes.
    """
    now, size = regs[CALL.TOUCHED], len(touched)
    if now - clean > size // 2:  # what is noted meanwhile takes places in the ring
        for n in range(regs[CALL.ROWS]):
            copy_node(nodes, devices, regs, touched, spots, parts, n)
        return
    for i in range(clean, now):
        copy_node(nodes, devices, regs, touched, spots, parts, touched[i % size])
    for i in range(read, logged):
        copy_node(nodes, devices, regs, touched, spots, parts, log[i % len(log)])
