"""Compiled loop of the ledger: what is paid and in no job's hands, and who claims it."""

import numpy as np

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.kernels import (
    BUSY_PPM,
    FAILED,
    FINISHED,
    PASSED,
    PLACED,
    SAID_MIX,
    SAID_WHY,
    STARTED,
    SUBMITTED,
    link,
    unlink,
)

compiled = across(__file__, engine, allocates=True)


@compiled
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


@compiled
def rehost(
    which, first_ask, asks, ask, may_use, state, is_spare, group, contract, first_device, devices,
    cpu_free, memory_free, device_free, is_failed, ready, whole, hosts, totals,
):  # fmt: skip
    """Count anew how many replicas of each ask from ``first_ask`` on these nodes host.

    ``ask`` has a row each: accelerators, milli, CPU, memory. ``hosts[n, i]`` and the sums by
    contract ``totals[i, c]`` are kept up to date; ``tests/ledger`` says the same in plain Python.
    """
    for n in which:
        takes_work = state[n] == ready and is_spare[n] == 0
        whole_free = 0
        if takes_work:
            for d in range(first_device[n], first_device[n] + devices[n]):
                if is_failed[d] == 0 and device_free[d] == whole:
                    whole_free += 1
        for i in range(first_ask, asks):
            most = 0
            if takes_work and may_use[i, group[n]]:
                most = whole_free // ask[i, 0]
                if ask[i, 1] < whole:
                    most = 0
                    for d in range(first_device[n], first_device[n] + devices[n]):
                        if is_failed[d] == 0:
                            most += device_free[d] // ask[i, 1]
                if ask[i, 2] > 0:
                    most = min(most, cpu_free[n] // ask[i, 2])
                if ask[i, 3] > 0:
                    most = min(most, memory_free[n] // ask[i, 3])
            totals[i, contract[n]] += most - hosts[n, i]
            hosts[n, i] = most


@compiled
def weigh(
    dt_ms, is_changed, ready, size, arrivals, sizes, ask, may_ask, contracts, kind, levels, totals,
    came, usable, sums,
):  # fmt: skip
    """Add ``dt_ms`` of what is free, usable and unasked, by contract, to the rows of ``sums``.

    ``usable`` is what arrivals could use, on the mean; found anew where something changed. ``size``
    has a row each: ask, replicas. A size counts where a whole gang of it fits on the kind. ``came``
    becomes the arrivals that may use each kind; where it is 0 what is free is unasked.
    """
    if is_changed:
        for k in range(len(came)):
            came[k] = 0
        for c in range(contracts):
            usable[c] = 0
        for z in range(sizes):
            i = size[z, 0]
            for k in range(len(came)):
                if arrivals[z] == 0 or may_ask[i, k] == 0:
                    continue
                came[k] += arrivals[z]
                hosted = 0
                for c in range(contracts):
                    if kind[c] == k:
                        hosted += totals[i, c]
                if hosted >= size[z, 1]:
                    for c in range(contracts):
                        if kind[c] == k:
                            usable[c] += arrivals[z] * totals[i, c] * ask[i, 0] * ask[i, 1]
        for c in range(contracts):
            if came[kind[c]] > 0:
                usable[c] //= came[kind[c]]
    for c in range(contracts):
        free = levels[c, ready] * dt_ms
        sums[0, c] += free
        sums[1, c] += usable[c] * dt_ms
        if came[kind[c]] == 0:
            sums[2, c] += free


ALLOCATED = 0  # Level.ALLOCATED; ``ready`` is given
LASTED, NOT_RUNNING = -1, -1  # as in ledger.cut


@compiled
def follow(
    i, now_ms, edge_ms, counts, start_ms, end_ms, starting, restart, rework, lines, pieces,
    jobs_shape, interval_ms, cost_ms, node_contract, node_kind, replica_milli, first, count, after,
    last, since_ms, origin_ms, attempt, spans, written, cut_short,
    contracts, shapes, by_priority, ready, not_launched, no_demand,
    levels, is_running, is_reserved, count_milli, launched_milli, kind,
    waiting, priority, queue, head, cause, is_promised,
    first_role, role_milli, role_rule, may_use, used, floor,
    bucket_of_level, claimed_as, free, keys, who, paid, unheld,
):  # fmt: skip
    """Follow a story from event ``i`` up to a bin's edge; return where and when it stopped.

    ``counts``: whether the time belongs to the window. Spans of jobs are written into ``spans``;
    ``written[0]`` says how many there are.
    """
    while i < len(lines.kind):
        at_ms = lines.at_ms[i]
        if at_ms > now_ms:
            until_ms = min(at_ms, edge_ms)
            if counts and until_ms > now_ms:
                integrate(
                    until_ms - now_ms, contracts, shapes, by_priority, ready, not_launched,
                    no_demand, levels, is_running, is_reserved, count_milli, launched_milli, kind,
                    waiting, priority, queue, head, cause, is_promised, first_role, role_milli,
                    role_rule, may_use, used, floor, bucket_of_level, claimed_as, free, keys, who,
                    paid, unheld,
                )  # fmt: skip
            now_ms = until_ms
            if at_ms > edge_ms:
                return i, now_ms
        j = lines.subject[i]
        what = lines.kind[i]
        if what == SAID_WHY:
            cause[j] = lines.number[i]
        elif what == SUBMITTED:
            link(waiting, head, after, last, jobs_shape[j], j)
        elif what == PLACED:
            s = jobs_shape[j]
            unlink(waiting, head, after, last, s, j)
            first[j] = lines.first[i]
            count[j] = lines.pieces[i]
            attempt[j] = lines.number[i]
            since_ms[j] = now_ms
            origin_ms[j] = NOT_RUNNING
            hold(j, s, pieces, first, count, node_contract, node_kind, replica_milli, levels,
                 used, queue, ready, 1)  # fmt: skip
        elif what != SAID_MIX and what != PASSED:
            s = jobs_shape[j]
            bucket, safe_ms = LASTED, now_ms
            if what == STARTED:
                bucket = starting if attempt[j] == 1 else restart
            elif what != FINISHED:
                safe_ms = last_safe_ms(origin_ms[j], now_ms, interval_ms[j], cost_ms[j])
                if start_ms <= now_ms < end_ms and interval_ms[j] >= 0:
                    cut_short[0] += 1
            write_spans(j, s, bucket, since_ms[j], safe_ms, start_ms, end_ms, pieces, first, count,
                        node_contract, replica_milli, origin_ms, spans, written)  # fmt: skip
            write_spans(j, s, rework, safe_ms, now_ms, start_ms, end_ms, pieces, first, count,
                        node_contract, replica_milli, origin_ms, spans, written)  # fmt: skip
            if what == STARTED:
                since_ms[j] = now_ms
                origin_ms[j] = now_ms
            else:
                hold(j, s, pieces, first, count, node_contract, node_kind, replica_milli, levels,
                     used, queue, ready, -1)  # fmt: skip
                count[j] = 0
                if what == FAILED and lines.pieces[i] == 0:
                    link(waiting, head, after, last, s, j)
                elif what != FINISHED and waiting[s] == 0:
                    head[s] = j
        i += 1
    return i, now_ms


@compiled
def hold(j, s, pieces, first, count, node_contract, node_kind, replica_milli, levels, used, queue,
         ready, sign):  # fmt: skip
    """Count what a job takes (sign 1) or gives back (-1)."""
    for p in range(first[j], first[j] + count[j]):
        n = pieces.node[p]
        milli = sign * pieces.replicas[p] * replica_milli[s]
        levels[node_contract[n], ready] -= milli
        levels[node_contract[n], ALLOCATED] += milli
        used[queue[s], node_kind[n]] += milli


@compiled
def last_safe_ms(origin_ms, now_ms, interval_ms, cost_ms):
    """Up to when an interruption took nothing back; as ``workload.progress.safe_ms``."""
    if interval_ms < 0:
        return now_ms
    if interval_ms == 0:
        return origin_ms
    return now_ms - (now_ms - origin_ms) % (interval_ms + cost_ms)


@compiled
def write_spans(j, s, bucket, begin_ms, until_ms, start_ms, end_ms, pieces, first, count,
                node_contract, replica_milli, origin_ms, spans, written):  # fmt: skip
    """One span for each contract that the job held accelerators of, if it is in the window."""
    if begin_ms >= until_ms or until_ms <= start_ms or begin_ms >= end_ms:
        return
    begin = written[0]
    for p in range(first[j], first[j] + count[j]):
        c = node_contract[pieces.node[p]]
        milli = pieces.replicas[p] * replica_milli[s]
        row = begin
        while row < written[0] and spans[row, 4] != c:
            row += 1
        if milli == 0:
            continue
        if row < written[0]:
            spans[row, 5] += milli
            continue
        spans[row, 0] = begin_ms
        spans[row, 1] = until_ms
        spans[row, 2] = bucket
        spans[row, 3] = j
        spans[row, 4] = c
        spans[row, 5] = milli
        spans[row, 6] = origin_ms[j]
        spans[row, 7] = begin_ms if origin_ms[j] < 0 else origin_ms[j]
        spans[row, 8] = BUSY_PPM if origin_ms[j] >= 0 else 0
        written[0] += 1
