"""Compiled loop of the sketch: a queue drained in order into what running jobs give back.

Plain integers over columns; ``tests/explain/test_sketch.py`` says the same in plain Python. A role
is a row: accelerators, milli, replicas, CPU, memory, rule. A piece is a row: node, whole devices,
thousandths, CPU, memory.
"""

import heapq

import numpy as np

from tidemill.compiled import across

compiled = across(__file__)
with_lists = across(__file__, allocates=True)

WHOLE = 1000
SIZES = 65  # a node has at most 64 devices


@compiled
def hosts_on(n, role, r, whole, part, cpu, memory):
    """How many replicas of a role one node hosts."""
    if role[r, 0] == 0:
        most = role[r, 2]
    elif role[r, 1] < WHOLE:
        most = whole[n] * (WHOLE // role[r, 1]) + part[n] // role[r, 1]
    else:
        most = whole[n] // role[r, 0]
    if role[r, 3] > 0:
        most = min(most, cpu[n] // role[r, 3])
    if role[r, 4] > 0:
        most = min(most, memory[n] // role[r, 4])
    return most


@compiled
def move(piece, p, sign, is_open, kind, whole, part, cpu, memory, free, count):
    """Take a piece of a node (sign -1) or give it back (1); what is free of each kind follows."""
    n = piece[p, 0]
    if is_open[n]:
        free[kind[n]] -= whole[n] * WHOLE + part[n]
        count[kind[n], whole[n]] -= 1
    whole[n] += sign * piece[p, 1]
    part[n] += sign * piece[p, 2]
    if part[n] < 0:
        whole[n] -= 1
        part[n] += WHOLE
    elif part[n] >= WHOLE:
        whole[n] += 1
        part[n] -= WHOLE
    cpu[n] += sign * piece[p, 3]
    memory[n] += sign * piece[p, 4]
    if is_open[n]:
        free[kind[n]] += whole[n] * WHOLE + part[n]
        count[kind[n], whole[n]] += 1


@compiled
def fill(k, role, r, may_use, is_open, kind, group, whole, part, cpu, memory, piece, first):
    """Choose nodes of one kind for a role; write pieces from ``first`` on, return where they end.

    Nodes that host most go first, then the tightest for one replica. -1 when it does not fit.
    """
    left, last, most = role[r, 2], first, 0
    best, tightest = -1, 1 << 60
    for n in range(len(is_open)):
        if is_open[n] and kind[n] == k and may_use[role[r, 5], group[n]]:
            hosted = hosts_on(n, role, r, whole, part, cpu, memory)
            most = max(most, hosted)
            room = whole[n] * WHOLE + part[n]
            if hosted > 0 and room < tightest:
                best, tightest = n, room
    if most == 0:
        return -1
    if left == 1:
        return write(best, 1, role, r, piece, last)
    for least in (min(most, left), 1):
        for n in range(len(is_open)):
            if left == 0:
                break
            if is_open[n] and kind[n] == k and may_use[role[r, 5], group[n]]:
                hosted = min(left, hosts_on(n, role, r, whole, part, cpu, memory))
                taken = False
                for p in range(first, last):
                    taken = taken or piece[p, 0] == n
                if hosted >= least and not taken:
                    last = write(n, hosted, role, r, piece, last)
                    left -= hosted
    return last if left == 0 else -1


@compiled
def write(n, replicas, role, r, piece, last):
    """Write a piece; return where the next one goes."""
    piece[last, 0] = n
    milli = replicas * role[r, 0] * role[r, 1]
    piece[last, 1] = milli // WHOLE
    piece[last, 2] = milli % WHOLE
    piece[last, 3] = replicas * role[r, 3]
    piece[last, 4] = replicas * role[r, 4]
    return last + 1


@compiled
def could_fit(k, role, r, free, count):
    """Whether enough is free of a kind in all, and in large enough blocks; a quick no."""
    if role[r, 0] == 0:
        return True
    if role[r, 0] * role[r, 1] * role[r, 2] > free[k]:
        return False
    if role[r, 1] < WHOLE:
        return True
    hosted = 0
    for size in range(role[r, 0], SIZES):
        hosted += count[k, size] * (size // role[r, 0])
    return hosted >= role[r, 2]


@compiled
def within(q, k, milli, used, limit, paths):
    """Whether a queue and all above it may use this much more."""
    for a in paths[q]:
        if a >= 0 and used[a, k] + milli > limit[a, k]:
            return False
    return True


@compiled
def binding(q, k, milli, used, limit, paths):
    """The highest queue on the path whose limit keeps this much out; else the queue itself."""
    found = q
    for a in paths[q]:
        if a >= 0 and used[a, k] + milli > limit[a, k]:
            found = a
    return found


@compiled
def book(q, k, milli, used, paths):
    """Count what a queue and all above it use."""
    for a in paths[q]:
        if a >= 0:
            used[a, k] += milli


@with_lists
def drain(
    times, target, is_open, kind, group, whole, part, cpu, memory, end_ms, end_piece, end_queue,
    piece, come_ms, come_node, job, shape_role, role, option, may_use, used, limit, paths, start_ms,
):  # fmt: skip
    """Start waiting jobs in order as room comes; write when each starts (-1: not by the horizon).

    ``times``: now, horizon, patience, grid. ``end_ms`` and ``come_ms`` ascend. ``job`` has a row
    each, in order: shape, queue, waiting since, length, step. It ends on the nearest multiple of
    its step; where that is the grid, on the next. ``piece`` has room for those of all that waits
    after those of what runs. Stops when ``target`` has started (-1: when all have).
    """
    now, horizon, patience, grid = times
    kinds, waiting = used.shape[1], len(job)
    free, count = np.zeros(kinds, np.int64), np.zeros((kinds, SIZES), np.int64)
    for n in range(len(is_open)):
        if is_open[n]:
            free[kind[n]] += whole[n] * WHOLE + part[n]
            count[kind[n], whole[n]] += 1
    alive = np.arange(waiting)
    left, last_piece = waiting, end_piece[len(end_ms)]
    new_first, new_last = np.zeros(waiting, np.int64), np.zeros(waiting, np.int64)
    ends = [(now, np.int64(-1))]
    ends.pop()
    failed, was_limited = np.full(len(shape_role), -1), np.zeros(len(shape_role), np.bool_)
    # kinds that did not host a shape when last looked at; not looked at is not stuck
    stuck = np.zeros((len(shape_role), kinds), np.bool_)
    freed = np.zeros(len(is_open), np.int64)
    held, look, e, c = np.zeros(kinds, np.bool_), 0, 0, 0
    held_under = np.zeros(used.shape, np.bool_)  # by a limit: of whom, and of which kind
    chosen = np.zeros(64, np.int64)
    while True:
        # start what fits, in order
        held[:] = False
        held_under[:] = False
        kept = 0
        for i in range(left):
            j = alive[i]
            s, q = job[j, 0], job[j, 1]
            first, end = shape_role[s, 0], shape_role[s, 1]
            is_behind = False
            for r in range(first, end):
                for k in option[role[r, 5]]:
                    is_behind = is_behind or (k >= 0 and held[k])
                    for a in paths[q]:
                        is_behind = is_behind or (k >= 0 and a >= 0 and held_under[a, k])
            if is_behind:
                stuck[s] = False
            # one that follows its like fails as that did
            fits, is_limited = False, failed[s] == now and was_limited[s]
            if not is_behind and failed[s] != now:
                fits, at = True, last_piece
                for r in range(first, end):
                    found = -1
                    for k in option[role[r, 5]]:
                        if k < 0 or found >= 0:
                            continue
                        need = role[r, 0] * role[r, 1] * role[r, 2]
                        was_stuck = stuck[s, k]
                        stuck[s, k] = False
                        if not within(q, k, need, used, limit, paths):
                            is_limited = True
                        elif could_fit(k, role, r, free, count):
                            if was_stuck and not helps(
                                k, role, r, freed, look, may_use, is_open, kind, group,
                                whole, part, cpu, memory,
                            ):  # fmt: skip
                                stuck[s, k] = True
                                continue
                            found = fill(
                                k, role, r, may_use, is_open, kind, group, whole, part, cpu,
                                memory, piece, at,
                            )  # fmt: skip
                            stuck[s, k] = found < 0 and end - first == 1
                            if found >= 0:
                                chosen[r - first] = k
                                book(q, k, need, used, paths)
                                for p in range(at, found):
                                    move(piece, p, -1, is_open, kind, whole, part, cpu, memory,
                                         free, count)  # fmt: skip
                                at = found
                    if found < 0:
                        for p in range(last_piece, at):
                            move(piece, p, 1, is_open, kind, whole, part, cpu, memory, free,
                                 count)  # fmt: skip
                        for done in range(first, r):
                            need = role[done, 0] * role[done, 1] * role[done, 2]
                            book(q, chosen[done - first], -need, used, paths)
                        fits = False
                        break
                if fits:
                    new_first[j], new_last[j] = last_piece, at
                    last_piece = at
            if fits:
                stuck[s] = False
                start_ms[j] = now
                finish = now + job[j, 3]
                if finish <= horizon:
                    step = job[j, 4]
                    finish = (finish + (step - 1 if step == grid else step // 2)) // step * step
                    heapq.heappush(ends, (finish, np.int64(j)))
                if j == target:
                    return
                continue
            if not is_behind:
                failed[s], was_limited[s] = now, is_limited
                if now - job[j, 2] >= patience:
                    for r in range(first, end):
                        need = role[r, 0] * role[r, 1] * role[r, 2]
                        for k in option[role[r, 5]]:
                            if k >= 0 and is_limited:
                                held_under[binding(q, k, need, used, limit, paths), k] = True
                            elif k >= 0:
                                held[k] = True
            alive[kept] = j
            kept += 1
        left = kept
        if left == 0:
            return
        # go on to the next moment at which something is given back
        later = horizon + 1
        if e < len(end_ms):
            later = min(later, end_ms[e])
        if c < len(come_ms):
            later = min(later, come_ms[c])
        if len(ends) > 0:
            later = min(later, ends[0][0])
        if later > horizon:
            return
        now, look = later, 0
        while e < len(end_ms) and end_ms[e] <= now:
            for p in range(end_piece[e], end_piece[e + 1]):
                look = give_back(piece, p, end_queue[e], is_open, kind, whole, part, cpu, memory,
                                  free, count, used, paths, freed, look)  # fmt: skip
            e += 1
        while len(ends) > 0 and ends[0][0] <= now:
            j = heapq.heappop(ends)[1]
            for p in range(new_first[j], new_last[j]):
                look = give_back(piece, p, job[j, 1], is_open, kind, whole, part, cpu, memory,
                                  free, count, used, paths, freed, look)  # fmt: skip
        while c < len(come_ms) and come_ms[c] <= now:
            n = come_node[c]
            if not is_open[n]:
                is_open[n] = True
                free[kind[n]] += whole[n] * WHOLE + part[n]
                count[kind[n], whole[n]] += 1
                if look < len(freed):
                    freed[look] = n
                    look += 1
            c += 1


@compiled
def give_back(piece, p, q, is_open, kind, whole, part, cpu, memory, free, count, used, paths,
               freed, look):  # fmt: skip
    """Give one piece back, off the books, and note its node; return how many were noted."""
    n = piece[p, 0]
    move(piece, p, 1, is_open, kind, whole, part, cpu, memory, free, count)
    book(q, kind[n], -(piece[p, 1] * WHOLE + piece[p, 2]), used, paths)
    if look < len(freed):
        freed[look] = n
        return look + 1
    return look


@compiled
def helps(k, role, r, freed, look, may_use, is_open, kind, group, whole, part, cpu, memory):
    """Whether a node that was given something back hosts a replica; many nodes surely do."""
    if look == len(freed):
        return True
    for i in range(look):
        n = freed[i]
        if is_open[n] and kind[n] == k and may_use[role[r, 5], group[n]]:
            if hosts_on(n, role, r, whole, part, cpu, memory) > 0:
                return True
    return False
