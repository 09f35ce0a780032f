"""Leaks: every bucket that is not useful, with its owner, evidence, cheapest fix and price.

A fix says how much it could win back at most and what it costs, by the rule written beside it: the
whole leak unless this ledger itself says less. It is an upper bound, not a forecast; what a change
would really win is known only by replaying history with it.
"""

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model.measures import (
    HOUR_MS,
    MILLI_MS_PER_UNIT_HOUR,
    MINUTE_MS,
    SECOND_MS,
    dollars_text,
    duration_text,
)
from tidemill.model.reasons import Layer
from tidemill.model.states import Confidence, JobClass


class Fix(NamedTuple):
    """What to do, what it would win back at most, what it costs, and how that was reckoned."""

    words: str
    rule: str
    at_most_usd_micro: int
    price_usd_micro: int | None
    """Over the window; None when unknown, 0 when it costs nothing but a setting."""


class Leak(NamedTuple):
    """One bucket of waste."""

    bucket: Bucket
    milli_ms: int
    usd_micro: int
    owner: Layer
    confidence: Confidence
    evidence: str
    command: str
    fix: Fix

    @property
    def net_usd_micro(self) -> int:
        """What the fix would win back at most, less its price (an unknown price counts as none)."""
        return self.fix.at_most_usd_micro - (self.fix.price_usd_micro or 0)


def leaks(statement: Statement) -> list[Leak]:
    """All leaks that hold something, the dearest first."""
    account = statement.total()
    usd = account.usd_micro()
    found = [
        _leak(statement, account, bucket, usd[bucket])
        for bucket in Bucket
        if bucket is not Bucket.USEFUL and account.milli_ms[bucket]
    ]
    return sorted(found, key=lambda leak: (-leak.usd_micro, leak.bucket))


def top_fixes(statement: Statement, most: int = 5) -> list[Leak]:
    """The fixes that could win back most after their price; those of unknown price last."""
    worth = [leak for leak in leaks(statement) if leak.net_usd_micro > 0]
    return sorted(
        worth,
        key=lambda leak: (leak.fix.price_usd_micro is None, -leak.net_usd_micro, leak.bucket),
    )[:most]


def _leak(statement: Statement, account: Account, bucket: Bucket, usd_micro: int) -> Leak:
    about = ABOUT[bucket]
    return Leak(
        bucket,
        account.milli_ms[bucket],
        usd_micro,
        about.owner,
        _confidence(statement, bucket),
        _evidence(statement, account, bucket),
        f"tidemill ledger --bucket {about.key} --by job",
        _FIXES[bucket](statement, account, bucket),
    )


def _confidence(statement: Statement, bucket: Bucket) -> Confidence:
    """A bucket that jobs' efficiencies divide is known as well as most of its time is."""
    if bucket not in (Bucket.HOST, Bucket.LINKS, Bucket.BELOW_ROOFLINE, Bucket.USEFUL):
        return ABOUT[bucket].confidence
    known = statement.confidence_of(bucket)
    return max(known, key=lambda c: (known[c], c)) if known else ABOUT[bucket].confidence


def _evidence(statement: Statement, account: Account, bucket: Bucket) -> str:
    """The largest contributors: jobs where jobs hold it, otherwise contracts and claimants."""
    jobs = statement.jobs_of(bucket, 3)
    if jobs:
        named = ", ".join(f"`{name}` {_hours(amount)}" for name, amount in jobs)
        count = len(np.unique(statement.rows.job[statement.rows.bucket == bucket]))
        return f"{count} jobs; most: {named}"
    mask = statement.rows.bucket == bucket
    contracts = np.unique(statement.rows.contract[mask]).tolist()
    named = ", ".join(
        f"`{statement.world.contract_rows[c].name}` "
        + _hours(int(statement.rows.milli_ms[mask & (statement.rows.contract == c)].sum()))
        for c in contracts[:4]
    )
    return f"{_hours(account.milli_ms[bucket])} of {named}"


def _hours(milli_ms: int) -> str:
    return f"{rounded(milli_ms, MILLI_MS_PER_UNIT_HOUR):,} h"


# Fixes: one rule a bucket. Each speaks with this ledger's own numbers. ----------------------------

_Rule = Callable[[Statement, Account, Bucket], Fix]


def _all_of_it(words: str, rule: str, price: int | None = 0) -> _Rule:
    """A fix that could win back the whole leak."""
    return lambda statement, account, bucket: Fix(words, rule, _usd(account, bucket), price)


def _nothing(words: str, rule: str) -> _Rule:
    """Something that is not a loss, or that nothing need be done about."""
    return lambda statement, account, bucket: Fix(words, rule, 0, 0)


def _release(statement: Statement, account: Account, bucket: Bucket) -> Fix:
    """What was free in every time bin could have been left unbought without anyone noticing."""
    never_wanted = 0
    usd_micro = 0
    rows, bins = statement.rows, sorted(statement.paid)
    for c, row in enumerate(statement.world.contract_rows):
        mask = (rows.bucket == bucket) & (rows.contract == c)
        free = [int(rows.milli_ms[mask & (rows.bin == number)].sum()) for number in bins]
        milli = min(f // statement.bin_length_ms(n) for f, n in zip(free, bins, strict=True))
        never_wanted += milli
        usd_micro += rounded(
            milli * (statement.end_ms - statement.start_ms) * row.usd_micro_per_hour, DENOMINATOR
        )
    return Fix(
        f"do not renew {never_wanted // 1000:,} accelerators: that many were free with nothing"
        " waiting in every part of this window; lend the rest off-peak",
        "the smallest mean of any time bin, per contract, for the whole window",
        usd_micro,
        0,
    )


def _cull(statement: Statement, account: Account, bucket: Bucket) -> Fix:
    """Interactive jobs that nobody uses can go; idle services cannot, or not so simply."""
    interactive = statement.by("class").get(JobClass.INTERACTIVE)
    usd_micro = _usd(interactive, bucket) if interactive else 0
    others = dollars_text(_usd(account, bucket) - usd_micro, 0)
    return Fix(
        'cancel interactive jobs that are idle for an hour (`cull_idle_after = "1h"`)',
        f"all idle time of interactive jobs; the other {others} is services below their peak",
        usd_micro,
        0,
    )


def _checkpoint_better(statement: Statement, account: Account, bucket: Bucket) -> Fix:
    """Young's rule: interval = sqrt(2 × stall × mean time between interruptions)."""
    jobs, count = statement.world.jobs, statement.world.job_count
    placed = jobs.attempt[:count] > 0
    stops = max(1, int((jobs.attempt[:count][placed] - 1).sum()))
    saving = (jobs.interval_ms[:count] > 0) & placed
    stall_ms = int(np.median(jobs.cost_ms[:count][saving])) if saving.any() else MINUTE_MS
    running = statement.mean_running_training()
    between_ms = max(HOUR_MS, (statement.end_ms - statement.start_ms) * running // stops)
    interval_ms = isqrt(2 * max(SECOND_MS, stall_ms) * between_ms)
    usual_ms = int(np.median(jobs.interval_ms[:count][saving])) if saving.any() else 0
    more = max(0, usual_ms - interval_ms)
    price = rounded(account.money[Bucket.CHECKPOINT] * more, DENOMINATOR * max(1, interval_ms))
    return Fix(
        f"checkpoint every {duration_text(interval_ms)} (usual now: {duration_text(usual_ms)}),"
        f" and where jobs never checkpoint, begin to: {stops:,} attempts were cut short",
        f"Young's rule: a stall of {duration_text(stall_ms)}, {running} training jobs at a time,"
        f" one interruption a job in {duration_text(between_ms)}; the price is more stall",
        _usd(account, bucket),
        price,
    )


def _spares(statement: Statement, account: Account, bucket: Bucket) -> Fix:
    """One more spare node, at the mean rate, for the whole window."""
    window_ms = max(1, statement.end_ms - statement.start_ms)
    devices = max((row.node.devices for row in statement.world.contract_rows), default=1)
    price = rounded(
        account.paid_money * devices * 1000 * window_ms,
        DENOMINATOR * max(1, account.paid_milli_ms),
    )
    return Fix(
        "repair faster, or keep one node more as a spare so that gangs do not wait for repairs",
        f"price: one node of {devices} at the mean rate, {dollars_text(price, 0)}",
        _usd(account, bucket),
        price,
    )


def _usd(account: Account, bucket: Bucket) -> int:
    return rounded(account.money[bucket], DENOMINATOR)


_NOT_FILLED = "no layer can see this yet"

_FIXES: dict[Bucket, _Rule] = {
    Bucket.NOT_LAUNCHED: _all_of_it(
        "launch what is paid for: the contract runs, its nodes do not exist",
        "all of it is paid and nothing can run on it",
    ),
    Bucket.NOT_READY: _all_of_it(
        "keep images warm and boot in parallel", "time between launch and Ready"
    ),
    Bucket.UNHEALTHY: _spares,
    Bucket.CORDONED: _all_of_it(
        "uncordon what nobody repairs; give every cordon an owner and an end",
        "a cordon costs nothing to lift; a forgotten one costs its nodes in full",
    ),
    Bucket.DRAINING: _all_of_it(
        "drain at the next checkpoint instead of at a deadline (shorter `drain`)",
        "accelerators of draining nodes that are free already but take no work",
    ),
    Bucket.NO_DEMAND: _release,
    Bucket.FRAGMENTED: _all_of_it(
        'pack (`placement = "pack"`), ask for sizes that divide a node, and give jobs no more CPU'
        " than goes with their accelerators",
        "free accelerators that no waiting job could use as they lie",
    ),
    Bucket.TOPOLOGY: _all_of_it("prefer a topology level instead of requiring it", _NOT_FILLED),
    Bucket.QUOTA: _all_of_it(
        "raise the limit of the team that waits: nobody else is using this",
        "free accelerators that only a limit keeps a waiting job from",
    ),
    Bucket.HELD: _all_of_it(
        "let short jobs pass while a gang gathers its nodes, or ask for smaller gangs",
        "free accelerators kept for, or too few for, a gang that cannot start yet",
    ),
    Bucket.BY_DESIGN: _all_of_it(
        "lend spares to work that can leave at once", "spares that were never needed in the window"
    ),
    Bucket.STARTING: _all_of_it(
        "keep images and data warm; bring the gang's slowest member up first",
        "time between getting the accelerators and the first step",
    ),
    Bucket.IDLE: _cull,
    Bucket.REWORK: _checkpoint_better,
    Bucket.RESTART: _all_of_it(
        "restart in place and load checkpoints in parallel",
        "time from being placed again to working again",
    ),
    Bucket.CHECKPOINT: _all_of_it(
        "write checkpoints asynchronously", "the accelerators wait while a checkpoint is written"
    ),
    Bucket.STRAGGLER: _all_of_it("swap the slow node", _NOT_FILLED),
    Bucket.HOST: _all_of_it(
        "more loader workers, or more CPU per accelerator",
        "share of the step in which the accelerator waits for its host, as each job tells",
        None,
    ),
    Bucket.LINKS: _all_of_it(
        "overlap communication with compute; keep tensor parallelism inside a node",
        "share of the step spent in collectives, as each job tells",
        None,
    ),
    Bucket.INTERFERENCE: _all_of_it("do not share saturated axes", _NOT_FILLED),
    Bucket.STRANDED: _all_of_it("choose another layout", _NOT_FILLED),
    Bucket.BELOW_ROOFLINE: _all_of_it(
        "larger batches, fused kernels, a lower precision where the model allows it",
        "between what the silicon could do and model FLOPs; nobody reaches all of it",
        None,
    ),
    Bucket.UNKNOWN: _nothing(
        "report step times (MFU): this time worked, but nobody knows how well",
        "unknown is not a loss, and not useful either",
    ),
    Bucket.UNSAVED: _nothing("nothing: the next checkpoint saves it", "still running"),
}
