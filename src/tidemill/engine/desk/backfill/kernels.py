"""Compiled backfill, ``easy`` by given estimates: as ``scheduling.backfill``, over columns.

Active jobs are entries of one list, by when they are expected to end; it is put in order when a
reservation is made, and entries of those who have gone are dropped then.
"""

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.kernels import (
    CLAIMS,
    ENDS,
    FIRSTS,
    HAS_REFUSED,
    MADE,
    MADE_CLAIMS,
    MADE_FREED,
    MADE_TAKEN,
    MADE_UNTIL,
    NEVER_PASSED,
    NOW,
    PASSED,
    PLACED_NOW,
    RESERVED,
    RESERVED_PIECES,
    RUNNING,
    STARTING,
    move,
    note,
    tell,
)
from tidemill.scheduling import kernels as scheduling
from tidemill.scheduling.backfill import kernels as loops
from tidemill.scheduling.backfill.kernels import DEVICES, end_first, enough_after, keep, let_go
from tidemill.scheduling.kernels import fill

compiled = across(__file__, engine, scheduling, loops)

LONGEST = 1 << 60  # a quarter of FOREVER_MS, as ``scheduling.estimates``
PASSERS_AT_MOST = 32  # as ``scheduling.backfill.reservations``


@compiled
def left_ms(rules, jobs, j, worked):
    """How much longer a job that has done so much is taken to run; as ``Estimates.left_ms``."""
    total = jobs.estimate_ms[j]
    if total == 0:
        total = rules.unknown_run_ms
    total = max(1, min(total, LONGEST))
    reached = max(worked, jobs.reached_ms[j])
    while total <= reached:
        total *= 2
    return total - worked


@compiled
def end_if_placed(at, rules, jobs, j):
    """When a waiting job is expected to end if it is placed now."""
    up = jobs.startup_ms[j]
    if jobs.attempt[j] > 0:
        up += jobs.restart_ms[j]
    return at[NOW] + up + left_ms(rules, jobs, j, jobs.saved_ms[j])


@compiled
def expected_end(at, rules, jobs, j):
    """When an active job is expected to end."""
    begin = jobs.placed_ms[j] + jobs.startup_ms[j]
    if jobs.attempt[j] > 1:
        begin += jobs.restart_ms[j]
    done = jobs.saved_ms[j] + max(0, at[NOW] - begin)
    return max(begin, at[NOW]) + left_ms(rules, jobs, j, done)


@compiled
def expect(at, rules, jobs, asks, aboard, behind, s, j):
    """A job was placed: put its end on the list, and what its pieces ask for beside them."""
    if at[ENDS] == len(behind.end_job):
        sort_ends(at, rules, jobs, behind)
    i = at[ENDS]
    behind.end_job[i] = j
    behind.end_at_ms[i] = expected_end(at, rules, jobs, j)
    behind.end_attempt[i] = jobs.attempt[j]
    at[ENDS] = i + 1
    at[MADE_CLAIMS] = -1  # the reservations that were made did not count on it
    for p in range(aboard.first[j], aboard.first[j] + aboard.pieces[j]):
        behind.accelerators[p] = asks.accelerators[s]
        behind.milli[p] = asks.milli[s]
        behind.cpu[p] = asks.cpu[s]
        behind.memory[p] = asks.memory[s]


@compiled
def sort_ends(at, rules, jobs, behind):
    """Bring the list up to this moment: by end, then by number, without those who have gone."""
    kept = 0
    for i in range(at[ENDS]):
        j, attempt, end = behind.end_job[i], behind.end_attempt[i], behind.end_at_ms[i]
        if (jobs.state[j] != STARTING and jobs.state[j] != RUNNING) or jobs.attempt[j] != attempt:
            continue
        if end <= at[NOW]:
            end = expected_end(at, rules, jobs, j)
        to = kept
        while to > 0 and (
            behind.end_at_ms[to - 1] > end
            or (behind.end_at_ms[to - 1] == end and behind.end_job[to - 1] > j)
        ):
            behind.end_at_ms[to] = behind.end_at_ms[to - 1]
            behind.end_job[to] = behind.end_job[to - 1]
            behind.end_attempt[to] = behind.end_attempt[to - 1]
            to -= 1
        behind.end_at_ms[to] = end
        behind.end_job[to] = j
        behind.end_attempt[to] = attempt
        kept += 1
    at[ENDS] = kept


@compiled
def claim(at, asks, behind, s, j):
    """The first job that does not fit on its kinds shall have a reservation."""
    kinds = asks.kinds[s]
    if (behind.claimed_kinds[0] & kinds) == 0:
        behind.claimed_kinds[0] |= kinds
        behind.claim_shape[at[CLAIMS]] = s
        behind.claim_job[at[CLAIMS]] = j
        at[CLAIMS] += 1
        note_first(at, behind, j, kinds, -1)


@compiled
def is_limited(at, asks, behind, q, s, j):
    """The first job of a team that a limit keeps off its kinds: its team alone passes it."""
    kinds = asks.kinds[s]
    if (behind.limited_kinds[q] & kinds) == 0:
        behind.limited_kinds[q] |= kinds
        note_first(at, behind, j, kinds, q)


@compiled
def note_first(at, behind, j, kinds, q):
    """Whoever is placed after this job on these kinds, of this team or (-1) of any, passes it."""
    behind.first_job[at[FIRSTS]] = j
    behind.first_kinds[at[FIRSTS]] = kinds
    behind.first_queue[at[FIRSTS]] = q
    at[FIRSTS] += 1


@compiled
def pass_by(at, jobs, asks, behind, lines, q, s):
    """A job of this shape was placed: whoever is before it on its kinds has been passed."""
    for i in range(at[FIRSTS]):
        j = behind.first_job[i]
        if behind.first_queue[i] >= 0 and behind.first_queue[i] != q:
            continue
        if (behind.first_kinds[i] & asks.kinds[s]) != 0 and jobs.passed_ms[j] == NEVER_PASSED:
            jobs.passed_ms[j] = at[NOW]
            tell(at, lines, PASSED, j, 0, 0, 0)


@compiled
def make_all(
    at, rules, jobs, nodes, devices, shapes, used, limit, counts, asks, options, aboard, scratch,
    pieces, behind,
):  # fmt: skip
    """Make what was claimed; the same again if nothing was placed or ended since."""
    freed, taken = counts.freed.sum(), counts.taken.sum()
    is_same = (
        at[RESERVED] == 0 and at[MADE_CLAIMS] == at[CLAIMS] and at[MADE_FREED] == freed
        and at[MADE_TAKEN] == taken and at[NOW] < at[MADE_UNTIL]
    )  # fmt: skip
    for c in range(at[CLAIMS]):
        is_same = is_same and behind.made_shape[c] == behind.claim_shape[c]
        is_same = is_same and behind.made_job[c] == behind.claim_job[c]
    if is_same:
        at[RESERVED] = at[MADE]
    else:
        is_first = at[RESERVED] == 0
        if is_first:
            at[RESERVED_PIECES] = 0
        sort_ends(at, rules, jobs, behind)
        for c in range(at[CLAIMS]):
            s, j = behind.claim_shape[c], behind.claim_job[c]
            reserve(at, rules, nodes, devices, shapes, used, limit, counts, asks, options, aboard,
                    scratch, pieces, behind, s, j)  # fmt: skip
            behind.made_shape[c] = s
            behind.made_job[c] = j
        at[MADE_CLAIMS] = at[CLAIMS] if is_first else -1
        at[MADE_FREED], at[MADE_TAKEN], at[MADE] = freed, taken, at[RESERVED]
        at[MADE_UNTIL] = behind.end_at_ms[0] if at[ENDS] > 0 else 0
    at[CLAIMS] = 0


@compiled
def reserve(
    at, rules, nodes, devices, shapes, used, limit, counts, asks, options, aboard, scratch, pieces,
    behind, s, j,
):  # fmt: skip
    """Find the fewest ends after which a shape fits on one of its kinds, and where it does then."""
    q, need, wanted = shapes.queue[s], asks.need[s], asks.replicas[s]
    accelerators, milli = asks.accelerators[s], asks.milli[s]
    cpu, memory = asks.cpu[s], asks.memory[s]
    rows, best, chosen = len(scratch.hosts), -1, -1
    for o in range(asks.first_option[s], asks.first_option[s + 1]):
        k, short = options.kind[o], 0
        if need > 0:
            if used[q, k] + need > limit[q, k]:
                continue
            short = need - counts.free[k]
        ended = enough_after(
            at[ENDS], behind.end_job, aboard.first, aboard.pieces, pieces.node, pieces.replicas,
            pieces.devices, behind.accelerators, behind.milli, behind.cpu, behind.memory,
            nodes.state, nodes.is_spare, nodes.group, nodes.kind, nodes.first_device,
            nodes.devices, devices.is_failed, options.is_ok[o], nodes.cpu_free_milli,
            nodes.memory_free_mib, nodes.free_milli, devices.free_milli, rows, accelerators, milli,
            cpu, memory, wanted, k, short, scratch.hosts,
        )  # fmt: skip
        if ended > 0 and (best < 0 or ended < best):
            best, chosen = ended, o
    if best < 0:
        return
    turn(best, 1, nodes, devices, aboard, pieces, behind)
    first = at[RESERVED_PIECES]
    found = fill(
        nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
        devices.is_failed, options.is_ok[chosen], nodes.cpu_free_milli, nodes.memory_free_mib,
        nodes.free_milli, devices.free_milli, rows, accelerators, milli, cpu, memory, wanted,
        rules.spreads, scratch.hosts, behind.node[first:], behind.replicas[first:],
        behind.mask[first:],
    )  # fmt: skip
    for p in range(first, first + found):
        replicas = behind.replicas[p]
        move(nodes, devices, behind.node[p], behind.mask[p], milli,
             replicas * accelerators * milli, replicas * cpu, replicas * memory, 1)  # fmt: skip
        behind.kept_milli[p] = milli
        behind.wanted_cpu[p] = replicas * cpu
        behind.wanted_memory[p] = replicas * memory
    turn(best, -1, nodes, devices, aboard, pieces, behind)
    if found <= 0:
        return
    r = at[RESERVED]
    behind.job[r] = j
    behind.kinds[r] = asks.kinds[s]
    behind.at_ms[r] = behind.end_at_ms[best - 1]
    behind.first[r] = first
    behind.pieces[r] = found
    at[RESERVED] = r + 1
    at[RESERVED_PIECES] = first + found


@compiled
def turn(count, sign, nodes, devices, aboard, pieces, behind):
    """Give back what the first so many to end hold (1), or take it again (-1)."""
    end_first(
        0, count, sign, behind.end_job, aboard.first, aboard.pieces, pieces.node, pieces.replicas,
        pieces.devices, behind.accelerators, behind.milli, behind.cpu, behind.memory,
        nodes.first_device, nodes.cpu_free_milli, nodes.memory_free_mib, nodes.free_milli,
        devices.free_milli,
    )  # fmt: skip


@compiled
def disturbs(at, behind, kinds, end_ms):
    """Mark the reservations that a job which ends then could disturb; the last moment, or -1."""
    latest = -1
    for r in range(at[RESERVED]):
        behind.is_disturbed[r] = behind.at_ms[r] < end_ms and (behind.kinds[r] & kinds) != 0
        if behind.is_disturbed[r]:
            latest = max(latest, behind.at_ms[r])
    return latest


@compiled
def is_refused(at, rules, jobs, asks, behind, s, j):
    """Whether a job that asks for the same and ends no later was not let past in this cycle.

    What is free only gets less in a cycle, and what is kept only more.
    """
    like_ms = behind.like_ms[asks.like[s]]
    return like_ms >= 0 and at[CLAIMS] == 0 and end_if_placed(at, rules, jobs, j) > like_ms


@compiled
def still_fits(at, used, limit, asks, options, behind, q, s):
    """Whether a shape fits for sure, as its like did: nothing was placed since, and no limit."""
    need = asks.need[s]
    for o in range(asks.first_option[s], asks.first_option[s + 1]):
        if need > 0 and used[q, options.kind[o]] + need > limit[q, options.kind[o]]:
            return False
    return behind.like_placed[asks.like[s]] == at[PLACED_NOW]


@compiled
def refuse(at, rules, jobs, asks, behind, s, j):
    """Note that a job which fits was not let past, and until when that goes for its like."""
    at[HAS_REFUSED] = 1
    like = asks.like[s]
    latest = disturbs(at, behind, asks.kinds[s], end_if_placed(at, rules, jobs, j))
    behind.refused_ms[s] = latest
    behind.like_placed[like] = at[PLACED_NOW]
    if behind.like_ms[like] < 0 or latest < behind.like_ms[like]:
        behind.like_ms[like] = latest


@compiled
def keep_disturbed(at, nodes, devices, log, behind):
    """Take what the marked reservations need and is free now."""
    for r in range(at[RESERVED]):
        if behind.is_disturbed[r]:
            i, count = behind.first[r], behind.pieces[r]
            keep(
                count, behind.node[i:], behind.mask[i:], behind.kept_milli[i:],
                behind.wanted_cpu[i:], behind.wanted_memory[i:], nodes.first_device,
                nodes.cpu_free_milli, nodes.memory_free_mib, nodes.free_milli, devices.free_milli,
                behind.kept_part[i * DEVICES :], behind.kept_cpu[i:], behind.kept_memory[i:],
            )  # fmt: skip
            for p in range(i, i + count):
                note(at, log, behind.node[p])


@compiled
def let_go_disturbed(at, nodes, devices, log, behind):
    """Give it back."""
    for r in range(at[RESERVED] - 1, -1, -1):
        if behind.is_disturbed[r]:
            i, count = behind.first[r], behind.pieces[r]
            let_go(
                count, behind.node[i:], behind.mask[i:], nodes.first_device,
                nodes.cpu_free_milli, nodes.memory_free_mib, nodes.free_milli, devices.free_milli,
                behind.kept_part[i * DEVICES :], behind.kept_cpu[i:], behind.kept_memory[i:],
            )  # fmt: skip
            for p in range(i, i + count):
                note(at, log, behind.node[p])
