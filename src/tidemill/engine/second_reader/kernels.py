"""The compiled loop of the second reader: every event of a story against what is left so far."""

import numpy as np

from tidemill.compiled import across

compiled = across(__file__)

SUBMITTED, PLACED, STARTED, FINISHED, SAID_WHY, FAILED, CANCELLED = range(7)
WAITING, STARTING, RUNNING, DONE = range(4)
READY = 2
WHOLE = 1000


@compiled
def read(
    lines, pieces, shape, nodes, is_failed, queue, roles, may_use, limit, used, state, attempt,
    cpu_free, memory_free, device_free, first, count, last_ms,
):  # fmt: skip
    """Return the first event that breaks a promise and which, or (0, 0)."""
    for i in range(len(lines.kind)):
        if lines.at_ms[i] < last_ms:
            return i, 9
        last_ms = lines.at_ms[i]
        kind = lines.kind[i]
        j = lines.subject[i]
        if kind == SUBMITTED:
            state[j] = WAITING
        elif kind == STARTED:
            if state[j] != STARTING or attempt[j] != lines.number[i]:
                return i, 9
            state[j] = RUNNING
        elif kind == FINISHED or kind == FAILED or kind == CANCELLED:
            if state[j] != RUNNING or attempt[j] != lines.number[i]:
                return i, 9
            state[j] = WAITING if kind == FAILED and lines.pieces[i] == 0 else DONE
            role = roles[shape[j]]
            for p in range(first[j], first[j] + count[j]):
                settle(pieces, p, role, nodes, queue[shape[j]], used, cpu_free, memory_free,
                       device_free, 1)  # fmt: skip
        elif kind == PLACED:
            wrong = 0
            if state[j] != WAITING:
                wrong = 1
            elif lines.number[i] != attempt[j] + 1:
                wrong = 2
            if wrong:
                return i, wrong
            state[j] = STARTING
            attempt[j] += 1
            first[j] = lines.first[i]
            count[j] = lines.pieces[i]
            wrong = read_place(
                lines, i, pieces, shape[j], nodes, is_failed, queue[shape[j]],
                roles[shape[j]], may_use, limit, used, cpu_free, memory_free, device_free,
            )  # fmt: skip
            if wrong:
                return i, wrong
    return 0, 0


@compiled
def read_place(
    lines, i, pieces, s, nodes, is_failed, q, role, may_use, limit, used, cpu_free,
    memory_free, device_free,
):  # fmt: skip
    """Take what a placement takes, and return what is wrong with it, or 0."""
    replicas = 0
    kind = -1
    for p in range(lines.first[i], lines.first[i] + lines.pieces[i]):
        n = pieces.node[p]
        if nodes.state[n] != READY or nodes.is_spare[n] != 0 or may_use[s, nodes.group[n]] == 0:
            return 3
        if kind >= 0 and nodes.kind[n] != kind and role[0] > 0:
            return 7
        kind = nodes.kind[n]
        replicas += pieces.replicas[p]
        settle(pieces, p, role, nodes, q, used, cpu_free, memory_free, device_free, -1)
        held = 0
        mask = pieces.devices[p]
        d = nodes.first_device[n]
        while mask != 0:
            if mask & np.uint64(1):
                held += 1
                if is_failed[d] != 0 or device_free[d] < 0:
                    return 4
            mask >>= np.uint64(1)
            d += 1
        if d > nodes.first_device[n] + nodes.devices[n] or held != pieces.replicas[p] * role[0]:
            return 4
        if cpu_free[n] < 0 or memory_free[n] < 0:
            return 5
        if role[0] > 0 and used[q, kind] > limit[q, kind]:
            return 8
    return 0 if replicas == role[4] else 6


@compiled
def settle(pieces, p, role, nodes, q, used, cpu_free, memory_free, device_free, sign):
    """Give back what a piece holds (sign 1), or take it (-1)."""
    n = pieces.node[p]
    mask = pieces.devices[p]
    d = nodes.first_device[n]
    while mask != 0:
        if mask & np.uint64(1) and d < len(device_free):
            device_free[d] += sign * role[1]
        mask >>= np.uint64(1)
        d += 1
    replicas = pieces.replicas[p]
    cpu_free[n] += sign * replicas * role[2]
    memory_free[n] += sign * replicas * role[3]
    used[q, nodes.kind[n]] -= sign * replicas * role[0] * role[1]
