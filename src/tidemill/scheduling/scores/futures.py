"""Compiled rollouts: how much of one node will stay empty when it is fed the demand to come.

``tests/scheduling/score_oracle.py`` says the same in plain Python (``waste``). A node only ever
gets fuller while it is played out, so a class that it cannot host is never placed again: the draws
of that class are crossed out, at the start for all rollouts at once, as bits of words.
"""

import numpy as np

from tidemill.model.measures import WHOLE_MILLI as WHOLE
from tidemill.scheduling.scores.kernel import kernel
from tidemill.scheduling.scores.tables import ACCELERATORS, CPU, MEMORY, MILLI, WEIGHT

NO_DEVICE = 1 << 29
THOUSAND = 1000
SEED, MULTIPLIER = 0x4BF29CE484222325, 0x4F1BBCDD  # the latter: below half of 2^32, and odd
HALF, LOW, SHIFT = 32, (1 << 32) - 1, 29
ZERO, ONE, BOTH = np.uint64(0), np.uint64(1), np.uint64(3)
PRIME = np.uint64(67)
POSITION = np.zeros(67, np.int64)
"""The position of a single bit: the powers of two below 2^64 differ modulo 67."""
for _i in range(64):
    POSITION[(1 << _i) % 67] = _i


@kernel
def waste(free, count, kind, cpu_free, memory_free, tables):
    """What all rollouts together leave empty of a node; equal states share one answer.

    Where work leaves again, demand does not fill every hole before the next departure makes
    another: there, what is in pieces now counts too.
    """
    key = state_key(free, count, kind, cpu_free, memory_free, tables.scratch[2])
    return waste_of(key, count, kind, cpu_free, memory_free, tables)


@kernel
def waste_of(key, count, kind, cpu_free, memory_free, tables):
    """As ``waste``, of a node whose key was just made: its devices, in order, are in scratch.

    A state is known by a 62-bit hash: two of a million states share one with a chance of 1e-7. Each
    has a pair of places in the table, and the older of two gives way.
    """
    known = tables.known
    i = key & (len(known) - 2)
    if known[i, 0] == key:
        return known[i, 1]
    if known[i + 1, 0] == key:
        return known[i + 1, 1]
    known[i + 1, 0], known[i + 1, 1] = known[i, 0], known[i, 1]
    known[i, 0] = key
    left = play_out(tables.scratch[2], count, kind, cpu_free, memory_free, tables)
    known[i, 1] = left + weighed(tables.scratch[2], count, kind, cpu_free, tables)
    return known[i, 1]


@kernel
def weighed(free, count, kind, cpu_free, tables):
    """What fragments count for beside what rollouts leave; all rollouts together."""
    if tables.limits[6] == 0:
        return 0
    now = fragments(free, count, kind, cpu_free, tables) // THOUSAND
    return now * len(tables.draws) * tables.limits[6] // (THOUSAND * THOUSAND)


@kernel
def state_key(free, count, kind, cpu_free, memory_free, ordered):
    """A hash of a node's state in which the order of its devices does not count; never 0."""
    for d in range(count):
        e = d
        while e > 0 and ordered[e - 1] > free[d]:
            ordered[e] = ordered[e - 1]
            e -= 1
        ordered[e] = free[d]
    key = stir(stir(stir(SEED, cpu_free), memory_free), kind * WHOLE + count)
    for d in range(count):
        key = stir(key, ordered[d])
    return key | 1


@kernel
def stir(key, value):
    """One more number in a hash; nothing overflows, so that it is the same interpreted.

    A step of multiply-with-carry (Marsaglia 1994) on 63 bits; the shift mixes its halves.
    """
    key ^= value
    key = (key & LOW) * MULTIPLIER + (key >> HALF)
    return key ^ (key >> SHIFT)


@kernel
def play_out(ordered, count, kind, cpu_free, memory_free, tables):
    """Feed the node each sequence of the mix, alone; add up the milli that stay empty.

    Draws come in pairs; of those that fit the one that leaves the least on its device is placed: a
    fleet has the choice between several who wait, and sends each where it fits best. Devices come
    sorted; those with too little for any class are out of the game, whole ones are only counted.
    """
    classes, draws = tables.classes, tables.draws
    least_cpu, least_milli = tables.limits[2], tables.limits[3]
    at_start, whole_at_start, first = 0, 0, count
    for d in range(count - 1, -1, -1):
        at_start += ordered[d]
        if ordered[d] == WHOLE:
            whole_at_start += 1
        if ordered[d] >= least_milli:
            first = d
    rolls = len(draws)
    shared_at_start = count - whole_at_start - first
    if first == count or cpu_free < least_cpu:
        return at_start * rolls
    open_turns(ordered[count - 1], whole_at_start, kind, cpu_free, memory_free, tables)
    turns, words = tables.still_open, tables.turns.shape[1] // rolls
    shared, sum_left = tables.scratch[3], 0
    for r in range(rolls):
        cpu, memory, total, whole, parts = (
            cpu_free, memory_free, at_start, whole_at_start, shared_at_start,
        )  # fmt: skip
        for d in range(parts):
            shared[d] = ordered[first + d]
        w, word = 0, turns[r * words]
        while True:
            while word == ZERO and w + 1 < words:
                w += 1
                word = turns[r * words + w]
            if word == ZERO:
                break
            i = POSITION[(word & (~word + ONE)) % PRIME] & ~1
            best, least, chosen = -1, NO_DEVICE, -1
            for q in range(i, i + 2):
                if (word >> np.uint64(q)) & ONE == ZERO:
                    continue
                j = draws[r, 64 * w + q]
                need, wanted, left, d = classes[j, MILLI], classes[j, ACCELERATORS], NO_DEVICE, -1
                if classes[j, CPU] <= cpu and classes[j, MEMORY] <= memory:
                    if wanted == 0:
                        left = WHOLE - 1
                    elif need >= WHOLE:
                        if wanted <= whole:
                            left = 0
                    else:
                        d = 0
                        while d < parts and shared[d] < need:
                            d += 1
                        if d < parts:
                            left = shared[d] - need
                        elif whole > 0:
                            left = WHOLE - need
                if left == NO_DEVICE:
                    word &= ~tables.turns[j, r * words + w]
                elif left < least:
                    best, least, chosen = j, left, d
            word &= ~(BOTH << np.uint64(i))
            if best < 0:
                continue
            cpu -= classes[best, CPU]
            memory -= classes[best, MEMORY]
            total -= classes[best, ACCELERATORS] * classes[best, MILLI]
            if chosen < 0:
                whole -= classes[best, ACCELERATORS]
            else:
                parts, whole = share(shared, parts, whole, chosen, least, least_milli)
            if whole + parts == 0 or cpu < least_cpu:
                break
        sum_left += total
    return sum_left


@kernel
def open_turns(most_milli, whole, kind, cpu_free, memory_free, tables):
    """Write into ``still_open`` the draws of all rollouts whose class the node can host now."""
    classes, admits, turns, found = tables.classes, tables.admits, tables.turns, tables.still_open
    for k in range(len(found)):
        found[k] = ZERO
    for j in range(tables.limits[5]):
        if (
            classes[j, CPU] > cpu_free
            or classes[j, MEMORY] > memory_free
            or admits[j, kind] == 0
        ):  # fmt: skip
            continue
        if classes[j, ACCELERATORS] > 0:
            if classes[j, MILLI] > most_milli:
                continue
            if classes[j, MILLI] >= WHOLE and classes[j, ACCELERATORS] > whole:
                continue
        for k in range(len(found)):
            found[k] |= turns[j, k]


@kernel
def share(shared, parts, whole, d, left, least_milli):
    """Take a fraction of the ``d``-th shared device, or of a whole one if there are not so many.

    The devices stay sorted; one with too little left for anybody leaves the game.
    """
    if d == parts:
        whole -= 1
        parts += 1
    while d > 0 and shared[d - 1] > left:
        shared[d] = shared[d - 1]
        d -= 1
    shared[d] = left
    if left < least_milli:
        parts -= 1
        for e in range(d, parts):
            shared[e] = shared[e + 1]
    return parts, whole


@kernel
def fragments(free, count, kind, cpu_free, tables):
    """The free milli that a task of the mix could not use here, in millionths (FGD, section 4)."""
    total, lost = 0, 0
    for d in range(count):
        total += free[d]
    for j in range(len(tables.classes)):
        useless = total
        wanted = tables.classes[j, ACCELERATORS]
        if wanted > 0 and tables.admits[j, kind] != 0 and cpu_free >= tables.classes[j, CPU]:
            able, small = 0, 0
            for d in range(count):
                if free[d] >= tables.classes[j, MILLI]:
                    able += 1
                else:
                    small += free[d]
            if able >= wanted:
                useless = small
        lost += tables.classes[j, WEIGHT] * useless
    return lost
