"""Compiled scores of placement: how well one node suits one replica, by each policy.

``tests/scheduling/score_oracle.py`` says the same in plain Python. A node is its kind, its free CPU
and memory, and the free milli of each working device; a score looks at nothing else but tables that
change rarely (``scores.tables``), so that it stays true until the node changes.
"""

from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.scores.codes import (
    BEST_FIT,
    BITS,
    CLUSTERING,
    DOT_PRODUCT,
    FGD,
    PACK,
    SHARING,
    SPREAD,
    TIDE,
)
from tidemill.scheduling.scores.futures import fragments, waste
from tidemill.scheduling.scores.kernel import kernel
from tidemill.scheduling.scores.tables import ACCELERATORS, CPU, MEMORY, PRICE

PERCENT = 100
ONE_PPM = 1_000_000
PACK_NODE = 1 << 16  # above any node's free milli (64 devices x 1000)
TIDE_ZERO = 1 << 11  # a tide score of 0 in the middle of its 12 bits
UNTOUCHED_MILLI = 20  # what an untouched host is worth: less than a grain, more than noise


@kernel
def bits_after(codes):
    """How many bits follow the first score in a rank, if that one takes long; -1: it does not."""
    if codes[0] != TIDE and codes[0] != FGD:
        return -1
    bits = 0
    for i in range(1, len(codes)):
        bits += BITS[codes[i]]
    return bits


@kernel
def bound(wasted, n, is_untouched, need, milli, cpu, tables):
    """The most that the first score can be on a node that was looked at.

    A placement can win back all of it, but not what is lost for good. And fragments shrink by no
    more than what is taken: what a class could not use before it cannot use after.
    """
    if tables.codes[0] == FGD:
        return step_of(tables.steps, min(wasted[n, 1], need * ONE_PPM))
    rolls, gain = len(tables.draws), wasted[n, 1]
    if need == 0 or milli >= tables.limits[3]:
        gain -= wasted[n, 2]
    most = (need * WHOLE + 1) * rolls * tables.limits[6] // ONE_PPM + 1
    gain -= max(0, wasted[n, 4] - most)
    if cpu > 0 and is_untouched:
        gain -= rolls * UNTOUCHED_MILLI
    return min(TIDE_ZERO + gain // (rolls * tables.limits[4]), 2 * TIDE_ZERO - 1)


@kernel
def rank_node(
    count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu, memory, tables
):
    """As ``rank_one``, of a node whose devices are in the first row of scratch."""
    free, rank = tables.scratch[0], 0
    for code in tables.codes:
        score, _ = score_one(
            code, free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli,
            cpu, memory, tables,
        )  # fmt: skip
        rank = (rank << BITS[code]) + score
    return rank


@kernel
def tightest(free, count, milli):
    """The device with the least room that is enough; -1: none."""
    best = -1
    for d in range(count):
        if free[d] >= milli and (best < 0 or free[d] < free[best]):
            best = d
    return best


@kernel
def score_one(
    code, free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu,
    memory, tables,
):  # fmt: skip
    """The score of one policy, and the device that a fraction would take (-1: no opinion)."""
    need, total = accelerators * milli, 0
    for d in range(count):
        total += free[d]
    largest_cpu, largest_milli = tables.limits[0], tables.limits[1]
    if code == PACK:
        spare = 0
        if milli < WHOLE:
            spare = free[tightest(free, count, milli)] - milli
        return (1 << BITS[PACK]) - 1 - (spare * PACK_NODE + total), -1
    if code == SPREAD:
        return total, -1
    if code == BEST_FIT:
        left = (cpu_free - cpu) * largest_milli + (total - need) * largest_cpu
        whole = 2 * largest_cpu * largest_milli
        return PERCENT * (whole - left) // whole, -1
    if code == DOT_PRODUCT:
        on_cpu = cpu_free / largest_cpu * (cpu / largest_cpu)
        on_milli = total / largest_milli * (need / largest_milli)
        return int(PERCENT * (1.0 - (on_cpu + on_milli) / 2)), -1
    if code == CLUSTERING:
        return clustering(free, count, total, accelerators, milli, largest_milli), -1
    if code == SHARING:
        return sharing(free, count, accelerators, milli), -1
    if code == FGD:
        return fgd(free, count, kind, cpu_free, accelerators, milli, cpu, tables)
    return tide(
        free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu, memory,
        tables,
    )  # fmt: skip


@kernel
def clustering(free, count, total, accelerators, milli, largest_milli):
    """Keep like with like: nodes that hold only fractions, or only whole devices, before others."""
    if accelerators == 0:
        return 0
    has_shared, has_whole = False, False
    for d in range(count):
        if free[d] == 0:
            has_whole = True
        elif free[d] < WHOLE:
            has_shared = True
    same, other = (has_shared, has_whole) if milli < WHOLE else (has_whole, has_shared)
    tier = 0
    if same:
        tier = 50 if other else 75
    elif not other:
        tier = 25
    return tier + 25 * (largest_milli - total) // largest_milli


@kernel
def sharing(free, count, accelerators, milli):
    """Fill devices that are shared already, then used nodes, then the smallest empty node."""
    if accelerators == 0:
        return 0
    whole = whole_of(free, count)
    if whole == count:
        return max(PERCENT // 3 - whole, min(whole, PERCENT // 3))
    if milli < WHOLE:
        d = tightest(free, count, milli)
        if free[d] < WHOLE:
            return PERCENT - free[d] * PERCENT // WHOLE // 10
    return max(PERCENT // 2 - accelerators, PERCENT // 3)


@kernel
def fgd(free, count, kind, cpu_free, accelerators, milli, cpu, tables):
    """Fragmentation gradient descent: 100 sigmoid of the fragments that a placement removes."""
    before = fragments(free, count, kind, cpu_free, tables)
    after = tables.scratch[1]
    best, chosen = -1, -1
    if milli < WHOLE and accelerators > 0:
        for d in range(count):
            after[d] = free[d]
        for d in range(count):
            if free[d] >= milli and is_first(free, d):
                after[d] -= milli
                gain = before - fragments(after, count, kind, cpu_free - cpu, tables)
                after[d] += milli
                score = step_of(tables.steps, gain)
                if score > best:
                    best, chosen = score, d
        return best, chosen
    take_whole(free, count, accelerators, after)
    gain = before - fragments(after, count, kind, cpu_free - cpu, tables)
    return step_of(tables.steps, gain), -1


@kernel
def step_of(steps, gain):
    """How many steps a gain has reached."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) >> 1
        if steps[middle] <= gain:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def is_first(free, d):
    """Whether no device before this one has the same room: equal ones need one look."""
    for e in range(d):
        if free[e] == free[d]:
            return False
    return True


@kernel
def take_whole(free, count, accelerators, after):
    """Write the devices as they are after so many whole ones were taken."""
    left = accelerators
    for d in range(count):
        after[d] = free[d]
        if left > 0 and free[d] == WHOLE:
            after[d] = 0
            left -= 1


@kernel
def tide_parts(
    free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu, memory,
    tables,
):  # fmt: skip
    """What less will stay empty in all rollouts, the price in grains, and the device (-1: any)."""
    rolls = len(tables.draws)
    before = -waste(free, count, kind, cpu_free, memory_free, tables)
    if is_untouched and cpu > 0:
        before += rolls * UNTOUCHED_MILLI
    after, chosen = tables.scratch[1], -1
    take_whole(free, count, accelerators if milli >= WHOLE else 0, after)
    if milli < WHOLE and accelerators > 0:
        best = 0
        for d in range(count):
            if free[d] >= milli and is_first(free, d):
                after[d] -= milli
                value = -waste(after, count, kind, cpu_free - cpu, memory_free - memory, tables)
                after[d] += milli
                if chosen < 0 or value > best:
                    best, chosen = value, d
        after[chosen] -= milli
    else:
        best = -waste(after, count, kind, cpu_free - cpu, memory_free - memory, tables)
    price = lost_hosts(
        whole_of(free, count), whole_of(after, count), kind, cpu_free, cpu, memory_free, memory,
        tables,
    )  # fmt: skip
    return best - before, price, chosen


@kernel
def tide(
    free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu, memory,
    tables,
):  # fmt: skip
    """How much less of the node will stay empty, less the price of scarce hosts; in grains."""
    gain, price, chosen = tide_parts(
        free, count, kind, cpu_free, memory_free, is_untouched, accelerators, milli, cpu, memory,
        tables,
    )  # fmt: skip
    score = TIDE_ZERO + gain // (len(tables.draws) * tables.limits[4]) - price
    return min(max(score, 0), 2 * TIDE_ZERO - 1), chosen


@kernel
def whole_of(free, count):
    """How many devices are whole."""
    whole = 0
    for d in range(count):
        if free[d] == WHOLE:
            whole += 1
    return whole


@kernel
def lost_hosts(whole, left, kind, cpu_free, cpu, memory_free, memory, tables):
    """The dearest class that the node can host with so many whole devices, and cannot after."""
    classes = tables.classes
    for i in range(len(tables.dearest)):
        j = tables.dearest[i]
        if (
            classes[j, ACCELERATORS] <= whole
            and classes[j, CPU] <= cpu_free
            and classes[j, MEMORY] <= memory_free
            and (
                classes[j, ACCELERATORS] > left
                or classes[j, CPU] > cpu_free - cpu
                or classes[j, MEMORY] > memory_free - memory
            )
            and tables.admits[j, kind] != 0
        ):
            return classes[j, PRICE]
    return 0
