"""Compiled loop of the ledger: what is paid and in no job's hands, and who claims it."""

import numpy as np
from numba import njit


@njit(cache=True)
def integrate(
    dt_ms, contracts, shapes, by_priority, ready, not_launched, no_demand,
    levels, is_running, is_reserved, count_milli, launched_milli, kind,
    waiting, priority, queue, head, cause, is_promised,
    first_role, role_milli, role_rule, may_use, used, floor,
    bucket_of_level, claimed_as, free, keys, who, paid, unheld,
):  # fmt: skip
    """Add ``dt_ms`` of the World as it is to ``paid[c]`` and ``unheld[c, bucket, team + 1]``.

    Free accelerators are claimed by waiting shapes in the scheduler's order (promised, below the
    floor, priority, oldest), role by role, contract by contract; what nobody claims goes to
    ``no_demand`` of nobody (team 0). ``free``, ``keys`` and ``who`` are scratch.
    """
    left = 0
    for c in range(contracts):
        launched = 0
        for level in range(levels.shape[1]):
            milli = levels[c, level]
            launched += milli
            if bucket_of_level[level] >= 0:
                unheld[c, bucket_of_level[level], 0] += milli * dt_ms
        paid_now = launched_milli[c]
        if is_reserved[c] and is_running[c]:
            paid_now = count_milli[c]
        paid[c] += paid_now * dt_ms
        unheld[c, not_launched, 0] += (paid_now - launched) * dt_ms
        free[c] = levels[c, ready]
        left += free[c]
    claimants = 0
    if left > 0:
        for s in range(shapes):
            if waiting[s] == 0 or claimed_as[cause[s]] < 0:
                continue
            finds_some = False
            rank = 2
            for r in range(first_role[s], first_role[s + 1]):
                for c in range(contracts):
                    if may_use[role_rule[r], c]:
                        if free[c] > 0:
                            finds_some = True
                        if used[queue[s], kind[c]] < floor[queue[s], kind[c]]:
                            rank = 1
            if finds_some:
                if is_promised[s]:
                    keys[claimants] = head[s]
                else:  # two bits of rank, 22 of priority (a million either way), 31 of age
                    place = 1_000_000 - priority[s] if by_priority else 0
                    keys[claimants] = (rank << 53) + (place << 31) + head[s]
                who[claimants] = s
                claimants += 1
    for i in np.argsort(keys[:claimants]):
        s = who[i]
        bucket = claimed_as[cause[s]]
        for r in range(first_role[s], first_role[s + 1]):
            demand = waiting[s] * role_milli[r]
            for c in range(contracts):
                if demand > 0 and free[c] > 0 and may_use[role_rule[r], c]:
                    part = min(demand, free[c])
                    unheld[c, bucket, queue[s] + 1] += part * dt_ms
                    free[c] -= part
                    demand -= part
                    left -= part
        if left == 0:
            break
    for c in range(contracts):
        unheld[c, no_demand, 0] += free[c] * dt_ms
