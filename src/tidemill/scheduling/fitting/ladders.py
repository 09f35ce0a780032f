"""Gangs that are tied to domains: what each domain can host, and how a gang is divided over them.

Tiers outside the node are 0 (outermost) up to ``tiers - 1``; the row after them is of the nodes
themselves. Ties go to the lower number. ``tests/scheduling/topology_oracle.py`` says the same in
plain Python.
"""

from tidemill.compiled import shared
from tidemill.core.heaps import sort
from tidemill.model.columns import DEVICE, NODE
from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.fitting.columns import CALL, OUT, PART, REQUEST, RUNG, SORT, SPOT
from tidemill.scheduling.fitting.kernel import kernel
from tidemill.scheduling.fitting.sweeps import (
    bit,
    count_hosts,
    hosting_from,
    is_able,
    most_beside,
    on_device,
    on_devices,
)

MOST = (1 << 24) - 1  # above the replicas of any role (ten million): more is all the same
FREE_BITS = 38  # milli free in a domain: 200,000 nodes of 64 devices need 34
COLUMNS = len(SORT)


@kernel
def in_blocks(devices, parts, first, count, block, wanted, milli, each):
    """How many groups the devices of one node can host, each inside one block of devices."""
    hosted = 0
    for start in range(first, first + count, block):
        inside = 0
        for d in range(start, min(start + block, first + count)):
            if devices[d, DEVICE.IS_FAILED] == 0:
                inside += on_device(parts, d, milli)
        hosted += inside // (each if milli < WHOLE else wanted)
    return hosted


@kernel
def forget_able(g):
    """Forget which nodes could take something, and what."""
    tiers = len(g.domains)
    for i in range(g.regs[CALL.ABLE]):
        n = g.able[i]
        g.spots[n, SPOT.HOSTS] = 0
        g.caps[tiers, n] = 0
        g.gaps[tiers, n] = 0
        g.portions[tiers, n] = 0
    g.regs[CALL.ABLE] = 0


@kernel
def note_able(regs, able, spots, n, groups):
    """A node could take so many groups."""
    spots[n, SPOT.HOSTS] = groups
    if groups > 0:
        able[regs[CALL.ABLE]] = n
        regs[CALL.ABLE] += 1


@kernel
def survey_loose(w, g, r):
    """How many replicas every node could take, as they are counted already; the sum."""
    total, h, rows = count_hosts(w, g, r), g.requests[r, REQUEST.HOSTS_ROW], g.regs[CALL.ROWS]
    n = hosting_from(g.hosting, h, 0, rows)
    while n < rows:
        note_able(g.regs, g.able, g.spots, n, g.hosts[h, n])
        n = hosting_from(g.hosting, h, n + 1, rows)
    return total


@kernel
def survey(w, g, r, block, each, tier, domain):
    """How many groups of ``each`` replicas every node could take, in ``SPOT.HOSTS``; the sum.

    With ``block``, each group is inside one block of so many devices; without, ``each`` is 1. Only
    nodes in this domain of a tier count (ANYWHERE: all). Those that could take some are listed in
    ``able``; of all others nothing is looked at any more.
    """
    nodes, spots, parts, total = w.nodes, g.spots, g.parts, 0
    forget_able(g)
    if block == 0 and domain < 0:
        return survey_loose(w, g, r)
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    cpu, memory = g.requests[r, REQUEST.CPU], g.requests[r, REQUEST.MEMORY]
    for n in range(g.regs[CALL.ROWS]):
        if domain >= 0:
            inside = w.position[tier, n] if tier < len(g.domains) else n
            if inside != domain:
                continue
        if not is_able(nodes, spots, g.oks, r, n, accelerators * milli, cpu, memory):
            continue
        most = most_beside(spots, n, cpu, memory)
        first, count = nodes[n, NODE.FIRST_DEVICE], nodes[n, NODE.DEVICES]
        if block > 0 and accelerators > 0:
            hosted = in_blocks(
                w.devices, parts, first, count, block, accelerators * each, milli, each
            )
            most = min(most // each, hosted)
        else:
            most = min(most, on_devices(w.devices, parts, first, count, accelerators, milli))
            most //= each
        note_able(g.regs, g.able, spots, n, most)
        total += most
    return total


@kernel
def gather(w, g, rungs, u):
    """Write into ``caps`` and ``gaps`` what each domain of each tier can host, and has free.

    A tier with a ratio counts in groups of so many of what its parts count in: ``ratio`` parts of
    a group are to sit in one domain of the tier. The last row is of the nodes.
    """
    caps, gaps, spots, tiers, count = g.caps, g.gaps, g.spots, len(g.domains), g.regs[CALL.ABLE]
    for i in range(count):
        n = g.able[i]
        caps[tiers, n] = min(MOST, spots[n, SPOT.HOSTS]) // rungs[u, RUNG.RATIO + tiers]
        gaps[tiers, n] = spots[n, SPOT.FREE]
    for tier in range(tiers - 1, -1, -1):
        for c in range(g.domains[tier]):
            caps[tier, c] = 0
            gaps[tier, c] = 0
        if tier == tiers - 1:
            for i in range(count):
                n = g.able[i]
                caps[tier, w.position[tier, n]] += caps[tiers, n]
                gaps[tier, w.position[tier, n]] += spots[n, SPOT.FREE]
        else:
            for c in range(g.domains[tier + 1]):
                caps[tier, g.parent[tier + 1, c]] += caps[tier + 1, c]
                gaps[tier, g.parent[tier + 1, c]] += gaps[tier + 1, c]
        for c in range(g.domains[tier]):
            caps[tier, c] = min(MOST, caps[tier, c]) // rungs[u, RUNG.RATIO + tier]


@kernel
def around(w, g, tier, c):
    """The domain one tier further out that a domain, or a node, is in."""
    return w.position[tier - 1, c] if tier == len(g.domains) else g.parent[tier, c]


@kernel
def share_out(caps, portions, sorting, tier, start, end, left):
    """Give ``left`` groups to the domains in these rows.

    At each step the tightest that hosts all that is left takes it; where there is none, the
    largest is filled: fewest domains, and the tighter one among equals (less free, lower number).
    """
    i = start
    while left > 0 and i < end:
        c = sorting[i, SORT.DOMAIN]
        if caps[tier, c] < left:
            portions[tier, c] = caps[tier, c]
            left -= caps[tier, c]
            i += 1
            continue
        last = i
        while last + 1 < end and caps[tier, sorting[last + 1, SORT.DOMAIN]] >= left:
            last += 1
        least = caps[tier, sorting[last, SORT.DOMAIN]]
        while last > i and caps[tier, sorting[last - 1, SORT.DOMAIN]] == least:
            last -= 1
        portions[tier, sorting[last, SORT.DOMAIN]] = left
        left = 0


@kernel
def line_up(w, g, tier, top):
    """Sort the domains of a tier that may take something, by what they are in; how many."""
    caps, gaps, portions, sorting, found = g.caps, g.gaps, g.portions, g.sorting, 0
    is_last = tier == len(g.domains)
    for i in range(g.regs[CALL.ABLE] if is_last else g.domains[tier]):
        c = g.able[i] if is_last else i
        portions[tier, c] = 0
        if caps[tier, c] <= 0:
            continue
        outer = around(w, g, tier, c) if tier > top else 0
        if tier > top and portions[tier - 1, outer] == 0:
            continue
        sorting[found, SORT.AROUND] = outer
        sorting[found, SORT.KEY] = ((MOST - caps[tier, c]) << FREE_BITS) + gaps[tier, c]
        sorting[found, SORT.DOMAIN] = c
        found += 1
    sort(sorting, found, COLUMNS)
    return found


@kernel
def divide(w, g, rungs, u):
    """Divide the groups of a rung over the domains of its top tier, those over theirs, to nodes.

    ``portions`` gets what each domain takes.
    """
    portions, sorting, top = g.portions, g.sorting, rungs[u, RUNG.TOP]
    for tier in range(top, len(g.domains) + 1):
        count, start = line_up(w, g, tier, top), 0
        while start < count:
            end, outer = start + 1, sorting[start, SORT.AROUND]
            while end < count and sorting[end, SORT.AROUND] == outer:
                end += 1
            left = rungs[u, RUNG.WANT]
            if tier > top:
                left = portions[tier - 1, outer] * rungs[u, RUNG.RATIO + tier - 1]
            share_out(g.caps, portions, sorting, tier, start, end, left)
            start = end


@kernel
def pick_whole(devices, parts, mask, first, count, block, wanted):
    """Add the devices of one group to a mask: of the tightest block that has them all."""
    best, best_left = -1, 0
    for start in range(0, count, block):
        inside = 0
        for d in range(start, min(start + block, count)):
            if (
                devices[first + d, DEVICE.IS_FAILED] == 0
                and parts[first + d, PART.FREE] == WHOLE
                and mask >> d & 1 == 0
            ):
                inside += 1
        if inside >= wanted and (best < 0 or inside < best_left):
            best = start
            best_left = inside
    for d in range(best, min(best + block, count)):
        if (
            wanted > 0
            and devices[first + d, DEVICE.IS_FAILED] == 0
            and parts[first + d, PART.FREE] == WHOLE
            and mask >> d & 1 == 0
        ):
            mask |= bit(d)
            wanted -= 1
    return mask


@kernel
def block_for_shares(devices, sorting, first, count, block, milli, each):
    """The first device of the block whose devices have least left and hold a group of shares."""
    best, best_left = -1, 0
    for start in range(0, count, block):
        inside = 0
        for d in range(start, min(start + block, count)):
            if devices[first + d, DEVICE.IS_FAILED] == 0:
                inside += sorting[d, SORT.KEY] // milli
        if inside >= each and (best < 0 or inside < best_left):
            best = start
            best_left = inside
    return best


@kernel
def pick_share(devices, sorting, first, start, end, milli):
    """The tightest device for one share."""
    best = -1
    for d in range(start, end):
        left = sorting[d, SORT.KEY]
        if devices[first + d, DEVICE.IS_FAILED] != 0 or left < milli:
            continue
        if best < 0 or left < sorting[best, SORT.KEY]:
            best = d
    return best


@kernel
def write_shares(w, g, r, i, n, groups, each, block):
    """Write the pieces of groups of shares on a node; how many pieces there are then."""
    sorting, milli, first = g.sorting, g.requests[r, REQUEST.MILLI], w.nodes[n, NODE.FIRST_DEVICE]
    width = w.nodes[n, NODE.DEVICES]
    for d in range(width):
        sorting[d, SORT.KEY] = g.parts[first + d, PART.FREE]
    for _ in range(groups):
        start = block_for_shares(w.devices, sorting, first, width, block, milli, each)
        for _ in range(each):
            best = pick_share(w.devices, sorting, first, start, min(start + block, width), milli)
            sorting[best, SORT.KEY] -= milli
            g.out[i, OUT.NODE] = n
            g.out[i, OUT.REPLICAS] = 1
            g.out[i, OUT.DEVICES] = bit(best)
            i += 1
    return i


@kernel
def write_pieces(w, g, rungs, r, u):
    """Write the pieces of a role, by the portions of nodes; how many. Nothing is taken."""
    portions, tiers, count = g.portions, len(g.domains), 0
    accelerators, milli = g.requests[r, REQUEST.ACCELERATORS], g.requests[r, REQUEST.MILLI]
    each = rungs[u, RUNG.EACH]
    for i in range(g.regs[CALL.ABLE]):
        n = g.able[i]
        groups = portions[tiers, n] * rungs[u, RUNG.RATIO + tiers]
        if groups == 0:
            continue
        first, width = w.nodes[n, NODE.FIRST_DEVICE], w.nodes[n, NODE.DEVICES]
        block = rungs[u, RUNG.BLOCK] if rungs[u, RUNG.BLOCK] > 0 else width
        if accelerators > 0 and milli < WHOLE:
            count = write_shares(w, g, r, count, n, groups, each, block)
            continue
        mask = 0
        if accelerators > 0:
            for _ in range(groups):
                mask = pick_whole(
                    w.devices, g.parts, mask, first, width, block, accelerators * each
                )
        g.out[count, OUT.NODE] = n
        g.out[count, OUT.REPLICAS] = groups * each
        g.out[count, OUT.DEVICES] = mask
        count += 1
    return count


@kernel
def total_of(g, tier):
    """What all domains of a tier host together."""
    total, is_last = 0, tier == len(g.domains)
    for i in range(g.regs[CALL.ABLE] if is_last else g.domains[tier]):
        total += g.caps[tier, g.able[i] if is_last else i]
    return total


@kernel
@shared
def fill_tied(w, g, rungs, r, first, count, tier, domain):
    """Where all replicas of a role go by the first rung that holds: the number of pieces.

    Or minus how many fit loose, less one. The room is not changed.
    """
    block, each = -1, -1
    g.regs[CALL.SOUGHT] += 1
    for u in range(first, first + count):
        if rungs[u, RUNG.BLOCK] != block or rungs[u, RUNG.EACH] != each:
            block, each = rungs[u, RUNG.BLOCK], rungs[u, RUNG.EACH]
            survey(w, g, r, block, each, tier, domain)
        gather(w, g, rungs, u)
        if total_of(g, rungs[u, RUNG.TOP]) >= rungs[u, RUNG.WANT]:
            divide(w, g, rungs, u)
            return write_pieces(w, g, rungs, r, u)
    return -min(survey(w, g, r, 0, 1, tier, domain), MOST) - 1
