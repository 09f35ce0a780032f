"""Reckoning: fixes whose worth follows from the ledger's own numbers, one rule each.

What is claimed here is claimed before any replay, so it is little: only dollars that need not be
paid any more, or useful time of work that the window's end cut off. Accelerator time that is won
back while nothing waits for it is not a dollar won, and no dollars are claimed for it.
"""

import numpy as np

from tidemill.ledger import printed, release, touched
from tidemill.ledger.account import DENOMINATOR, rounded
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.fix import Edit, Fix
from tidemill.ledger.saving import Saving
from tidemill.ledger.statement import Statement
from tidemill.model import paging
from tidemill.model.measures import (
    HOUR_MS,
    MINUTE_MS,
    ONE_PPM,
    WHOLE_MILLI,
    count_text,
    duration_text,
)
from tidemill.model.states import ACTIVE, JobClass, JobState
from tidemill.model.tables import I64

# Fitted on the examples, the demo and generated fleets with a seed below 100; the rule of what is
# held out, and figures of it, are in bench/fixes.py and docs/concepts/fixes.md.
LEAST_PPM = 2_000  # of what is paid: less is not worth a change
LUCK_PPM = 20_000  # of what is useful: so much a replay of a small fleet moves by luck alone
RETURN_AFTER_MS = 10 * MINUTE_MS  # long enough for the next job of a batch to come
RETURN_SHARE = 4  # of what empty nodes cost beyond that, a quarter is claimed: not all are empty
CULL_AFTER_MS = HOUR_MS
USED_SHARE = 4  # of time that is freed while jobs wait, a quarter is claimed to be used


def release_contracts(statement: Statement) -> list[Fix]:
    """Fewer accelerators where the contract is hardly ever full."""
    free = dict(touched.by_contract(statement, Bucket.NO_DEMAND).each())
    return [_released(statement, found, free[found.c]) for found in release.cuts(statement)]


def _released(statement: Statement, cut: release.SmallerContract, free: touched.Theirs) -> Fix:
    row = statement.world.contract_rows[cut.c]
    kept = row.count - cut.devices
    what = f"renew {kept:,} instead of {row.count:,} accelerators of contract `{row.name}`"
    if cut.is_noticed:
        when = f"the mean need then fills {release.FULL_PERCENT} % of them"
        costs = "longer waits in busy hours; a replay tells how much longer"
    else:
        when = f"all but one hour in a hundred needed at most {kept:,}"
        costs = "longer waits in one hour of a hundred"
    return Fix(
        what,
        f"{when}; whole nodes, guaranteed quotas and twice the largest gang are kept",
        (free.words,),
        f"{touched.hours_text(free.milli_ms)} of it free with nothing waiting",
        free.usd_micro,
        (Edit("contract", row.name, "count", kept, row.count),),
        saves_usd_micro=min(cut.usd_micro, free.usd_micro or 0),
        costs=costs,
    )


def return_sooner(statement: Statement) -> list[Fix]:
    """Empty nodes that are paid by the hour go back sooner."""
    now_ms = statement.policy.return_idle_after_ms
    contracts = statement.world.contracts
    free = touched.by_contract(statement, Bucket.NO_DEMAND)
    paid = free.some(
        (contracts.is_elastic[free.keys] != 0) & (contracts.committed_milli[free.keys] == 0)
    )
    usd_micro = touched.known_usd(paid)
    if now_ms <= RETURN_AFTER_MS or not usd_micro:
        return []
    new = duration_text(RETURN_AFTER_MS)
    return [
        Fix(
            f"give empty on-demand and spot nodes back after {new} instead of"
            f" {duration_text(now_ms)}",
            f"a {_ORDINALS[RETURN_SHARE]} of what they cost while nothing waited, in proportion to"
            " the time",
            tuple(theirs.words for theirs in paid),
            f"free with nothing waiting: {touched.words(paid)}",
            usd_micro,
            (_policy("return_idle_after", RETURN_AFTER_MS, now_ms),),
            saves_usd_micro=usd_micro * (now_ms - RETURN_AFTER_MS) // now_ms // RETURN_SHARE,
            costs="a node that is needed again must boot first",
        )
    ]


def cull(statement: Statement) -> list[Fix]:
    """Notebooks that nobody uses any more end; nodes that this empties need not be paid."""
    world, count = statement.world, statement.world.job_count
    is_open = np.array([s.kind is JobClass.INTERACTIVE for s in world.shape_rows] or [False])
    jobs = np.flatnonzero(is_open[paging.column(world.jobs.shape, count)])
    theirs = touched.by_group(statement, Bucket.IDLE, jobs)
    if statement.policy.cull_idle_after_ms or not theirs:
        return []
    freed = _culled(statement, jobs)
    cuts = [
        release.cut(statement, c, release.whole_nodes(statement, c, freed[:, c]), is_noticed=False)
        for c in release.reserved(statement)
    ]
    cuts = [cut for cut in cuts if cut.devices]
    rows = world.contract_rows
    fewer = "".join(
        f", and renew {rows[cut.c].count - cut.devices:,} instead of {rows[cut.c].count:,}"
        f" accelerators of contract `{rows[cut.c].name}`"
        for cut in cuts
    )
    after = duration_text(CULL_AFTER_MS)
    return [
        Fix(
            f"end interactive jobs that were idle for {after}{fewer}",
            f"idle time of interactive jobs beyond the first {after}; dollars for whole nodes that"
            " it frees in nine of ten busy hours, and useful time where training waits at the end",
            (*(part.words for part in theirs),
             *(f"contract `{rows[cut.c].name}`" for cut in cuts)),
            f"idle: {touched.words(theirs)}",
            touched.known_usd(theirs),
            (
                _policy("cull_idle_after", CULL_AFTER_MS, 0),
                *(Edit("contract", rows[cut.c].name, "count", rows[cut.c].count - cut.devices,
                       rows[cut.c].count) for cut in cuts),
            ),
            saves_milli_ms=int(freed.sum()),
            saves_usd_micro=sum(cut.usd_micro for cut in cuts),
            adds_useful_milli_ms=_used(statement, freed),
            costs="a user who comes back later starts a new session",
        )
    ]  # fmt: skip


def save_better(statement: Statement, bucket: int) -> list[Fix]:
    """Another checkpoint interval for each group of jobs that loses by its own."""
    return [
        _saved(statement, found, bucket)
        for found in statement.savings
        if found.win > 0 and found.is_longer == (bucket == Bucket.CHECKPOINT)
    ]


def _saved(statement: Statement, found: Saving, bucket: int) -> Fix:
    group = found.group
    jobs = np.flatnonzero(statement.groups.of_job == found.number)
    theirs = touched.known_usd(touched.by_group(statement, bucket, jobs))
    now, new = duration_text(group.interval_ms), duration_text(found.interval_ms)
    saves_usd_micro, useful = _worth(statement, jobs, found.win)
    size = f"{found.size_milli / WHOLE_MILLI:,.3g}"
    price = "more time lost at each stop" if found.is_longer else "more time spent saving"
    return Fix(
        f"{group.words} saves every {new} instead of every {now}",
        f"Young's rule for a save of {duration_text(group.cost_ms)} and a stop every"
        f" {duration_text(found.between_ms)} at its size of {size}; dollars only for time on"
        " contracts paid by the hour, useful time only of jobs that the window cut off",
        (group.words,),
        f"{count_text(found.stops, 'stop')} that lost work; saving costs"
        f" {touched.hours_text(found.stalls)}, stops {touched.hours_text(found.losses)}",
        theirs,
        (Edit(group.table, group.name, "checkpoint.every", new.replace(" ", ""),
              now.replace(" ", "")),),
        saves_milli_ms=found.win,
        saves_usd_micro=saves_usd_micro,
        adds_useful_milli_ms=useful,
        costs=f"{price}: counted in the win",
        price_usd_micro=0,
    )  # fmt: skip


def fewer_spares(statement: Statement) -> list[Fix]:
    """Hot spares are not needed where as much is free anyway."""
    fixes = []
    spare = dict(touched.by_contract(statement, Bucket.BY_DESIGN).each())
    free = dict(touched.by_contract(statement, Bucket.NO_DEMAND).each())
    for c in release.reserved(statement):
        row = statement.world.contract_rows[c]
        each = row.node.devices
        mean = free[c].milli_ms // (WHOLE_MILLI * max(1, statement.length_ms)) if c in free else 0
        devices = min(row.spares * each, release.room(statement, c) // each * each)
        if c not in spare or mean < 2 * each or not devices:
            continue
        cut = release.cut(statement, c, devices, is_noticed=True)
        paid = int(statement.paid[:, c].sum()) * row.spares * each // row.count
        fixes.append(
            Fix(
                f"renew {row.count - devices:,} instead of {row.count:,} accelerators of contract"
                f" `{row.name}`, and keep {row.spares - devices // each} hot spares instead of"
                f" {row.spares}",
                "what so many nodes cost, spare or standing in for others; claimed where two nodes"
                " or more are free on average",
                (f"contract `{row.name}`",),
                f"of {touched.hours_text(paid)} paid for {row.spares * each:,} spares"
                f" {printed.hours_text(spare[c].milli_ms)} were spare, in the others they stood in;"
                f" beside them {mean:,} accelerators were free with nothing waiting, on average",
                spare[c].usd_micro,
                (
                    Edit("contract", row.name, "count", row.count - devices, row.count),
                    Edit("contract", row.name, "spares", row.spares - devices // each, row.spares),
                ),
                saves_usd_micro=cut.usd_micro,
                costs="after a failure in a busy hour the gang waits for a node to come free",
            )
        )
    return fixes


def raise_limits(statement: Statement) -> list[Fix]:
    """A higher maximum quota for the teams that it kept from free accelerators."""
    fixes = []
    world = statement.world
    for q, theirs in touched.by_team(statement, Bucket.QUOTA).each():
        queue = world.queue_rows[q]
        for share in queue.shares:
            there = sum(row.count for row in world.contract_rows if row.kind == share.kind)
            limit = share.limit_milli // WHOLE_MILLI
            blocked = min(_blocked(statement, q, share.kind), there - limit)
            if blocked <= 0:
                continue
            fixes.append(
                Fix(
                    f"raise the maximum quota of team `{queue.name}` from {limit:,} to"
                    f" {limit + blocked:,} `{share.kind}`",
                    "what it was kept from in the ninth of ten hours in which it was; shortens"
                    " waits, and wins dollars only where work would not have ended in the window",
                    (theirs.words,),
                    f"its jobs waited beside {touched.hours_text(theirs.milli_ms)} that were free",
                    theirs.usd_micro,
                    (Edit("team", queue.name, f"maximum.{share.kind}", limit + blocked, limit),),
                    costs="other teams find less free to borrow",
                )
            )
    return fixes


def _blocked(statement: Statement, q: int, kind: str) -> int:
    """Whole accelerators of a GPU type that a team was kept from, in nine of ten such hours."""
    rows, world = statement.rows, statement.world
    alike = [c for c, row in enumerate(world.contract_rows) if row.kind == kind]
    mask = (rows.bucket == Bucket.QUOTA) & (rows.team == q) & np.isin(rows.contract, alike)
    by_bin = statement.by_bin_and_contract(mask).sum(axis=1)
    if not by_bin.any():
        return 0
    each = max(world.contract_rows[c].node.devices for c in alike)
    lengths = np.array([statement.bin_length_ms(n) for n in statement.bins.tolist()], np.int64)
    milli = int(np.percentile((by_bin // lengths)[by_bin > 0], 90))
    return -(-milli // (each * WHOLE_MILLI)) * each


def wins_usd_micro(statement: Statement, fix: Fix) -> int | None:
    """What a fix is predicted to win in dollars of the window; None where nothing is claimed.

    Useful time counts as what a useful hour costs: so much less must be paid for the same.
    """
    account = statement.total()
    if not fix.is_predicted or account.unpriced_milli_ms:
        return None
    useful = account.milli_ms[Bucket.USEFUL]
    value = account.paid_usd_micro * fix.adds_useful_milli_ms // useful if useful else 0
    return (fix.saves_usd_micro or 0) + value


def is_claimed(statement: Statement, fix: Fix) -> bool:
    """Whether a win is predicted that is worth a change and larger than the luck of a replay."""
    account = statement.total()
    least = account.paid_usd_micro * LEAST_PPM // ONE_PPM
    luck = account.milli_ms[Bucket.USEFUL] * LUCK_PPM // ONE_PPM
    is_large = (fix.saves_usd_micro or 0) > least or fix.adds_useful_milli_ms > luck
    return bool(fix.edits) and is_large


def _worth(statement: Statement, jobs: I64, milli_ms: int) -> tuple[int, int]:
    """Of time that some jobs get back: dollars not paid any more, and useful time added.

    Time on contracts by the hour is not paid any more; a job that the window cut off does more.
    """
    rows, world = statement.rows, statement.world
    mine = np.isin(rows.job, jobs)
    held = int(rows.milli_ms[mine].sum())
    by_hour = np.flatnonzero(world.contracts.committed_milli[: world.contract_count] == 0)
    elastic = statement.select(mine & np.isin(rows.contract, by_hour))
    usd = rounded(elastic.paid_money * milli_ms, DENOMINATOR * max(1, held))
    is_cut = np.isin(world.jobs.state[jobs], [int(state) for state in (*ACTIVE, JobState.WAITING)])
    cut = statement.select(mine & np.isin(rows.job, jobs[is_cut]))
    useful = cut.milli_ms[Bucket.USEFUL] * milli_ms // max(1, held)
    return usd, useful


def _culled(statement: Statement, jobs: I64) -> I64:
    """Idle milli·ms by bin and contract, less the first hour of each job."""
    rows, world = statement.rows, statement.world
    mask = (rows.bucket == Bucket.IDLE) & np.isin(rows.job, jobs)
    idle = int(rows.milli_ms[mask].sum())
    idlers = np.unique(rows.job[mask])
    kept = int(world.shapes.total_milli[world.jobs.shape[idlers]].sum()) * CULL_AFTER_MS
    share = max(0.0, 1 - kept / max(1, idle))
    freed: I64 = (statement.by_bin_and_contract(mask) * share).astype(np.int64)
    return freed


def _used(statement: Statement, freed: I64) -> int:
    """Useful time that freed time adds where training still waits at the end of the window."""
    world = statement.world
    kinds = {
        kind
        for s in world.queued
        if world.shape_rows[s].kind is JobClass.TRAINING
        for role in world.shape_rows[s].roles
        for kind in (role.kinds or world.kinds)
    }
    waits = [c for c, row in enumerate(world.contract_rows) if row.kind in kinds]
    if not waits:
        return 0
    account = statement.select(np.isin(statement.rows.contract, waits))
    held = account.of(ALLOCATED)
    return (
        int(freed[:, waits].sum()) * account.milli_ms[Bucket.USEFUL] // max(1, held) // USED_SHARE
    )


def _policy(field: str, value_ms: int, was_ms: int) -> Edit:
    was = duration_text(was_ms).replace(" ", "") if was_ms else None
    return Edit("policy", "", field, duration_text(value_ms).replace(" ", ""), was)


_ORDINALS = {4: "quarter"}
