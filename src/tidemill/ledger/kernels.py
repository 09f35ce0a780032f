"""Compiled loop of the ledger: who claims the free accelerators, in the order of the queue."""

from numba import njit


@njit(cache=True)
def claim(
    waiting, total_milli, priority, queue, head, cause, is_promised, shapes,
    may_use, claimed_as, by_priority, contract_kind, borrows, no_demand, dt_ms,
    free, done, out,
):  # fmt: skip
    """Divide ``free`` (per contract) among waiting shapes and add milli x ms to ``out``.

    ``out[contract, bucket, team + 1]``; what nobody claims goes to ``no_demand`` of nobody. The
    order is the scheduler's: promised, below the floor, priority, oldest.
    """
    left = 0
    contracts = len(free)
    for c in range(contracts):
        left += free[c]
    for s in range(shapes):
        done[s] = waiting[s] == 0 or claimed_as[cause[s]] < 0 or total_milli[s] == 0
    while left > 0:
        best = -1
        best_rank = 0
        best_priority = 0
        for s in range(shapes):
            if done[s]:
                continue
            rank = 1
            if is_promised[s]:
                rank = -1
            else:
                for c in range(contracts):
                    if may_use[s, c] and not borrows[queue[s], contract_kind[c]]:
                        rank = 0
            p = -priority[s] if by_priority else 0
            if (
                best < 0
                or rank < best_rank
                or (rank == best_rank and p < best_priority)
                or (rank == best_rank and p == best_priority and head[s] < head[best])
            ):
                best, best_rank, best_priority = s, rank, p
        if best < 0:
            break
        done[best] = True
        demand = waiting[best] * total_milli[best]
        for c in range(contracts):
            if demand > 0 and may_use[best, c] and free[c] > 0:
                part = min(demand, free[c])
                out[c, claimed_as[cause[best]], queue[best] + 1] += part * dt_ms
                free[c] -= part
                demand -= part
                left -= part
    for c in range(contracts):
        if free[c] > 0:
            out[c, no_demand, 0] += free[c] * dt_ms
