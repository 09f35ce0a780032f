"""Leaks: every bucket that is not useful, with its owner, evidence, cheapest fix and price.

A fix says at most how much of the leak it could win back (``recoverable``) and what it costs; both
are modelled from the ledger itself by the rule written beside each fix, and say so. The advice that
is proven by replaying history is another room's work.
"""

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model.measures import (
    DAY_MS,
    HOUR_MS,
    MILLI_MS_PER_UNIT_HOUR,
    dollars_text,
    duration_text,
)
from tidemill.model.reasons import Layer
from tidemill.model.states import Confidence


class Fix(NamedTuple):
    """What to do, what it would win back at most, what it costs, and how that was reckoned."""

    words: str
    recoverable_ppm: int
    price_usd_micro: int | None
    """Over the window; None when unknown, 0 when it costs nothing but a setting."""
    rule: str


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
        won = self.usd_micro * self.fix.recoverable_ppm // 1_000_000
        return won - (self.fix.price_usd_micro or 0)


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
    """The leaks whose fixes win back most after their price."""
    worth = [leak for leak in leaks(statement) if leak.net_usd_micro > 0]
    return sorted(worth, key=lambda leak: (-leak.net_usd_micro, leak.bucket))[:most]


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
        _FIXES[bucket](statement, account),
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


# Fixes: one function a bucket. Each returns words with this ledger's own numbers. -----------------


def _fix(words: str, recoverable_ppm: int, rule: str, price: int | None = 0) -> "_Rule":
    return lambda statement, account: Fix(words, recoverable_ppm, price, rule)


def _launch_sooner(statement: Statement, account: Account) -> Fix:
    return Fix(
        "launch what is paid for: the contract runs, its nodes do not exist",
        1_000_000,
        0,
        "all of it is paid and nothing runs on it",
    )


def _release(statement: Statement, account: Account) -> Fix:
    """The free accelerators that nobody wanted at any time could have been left unbought."""
    window_ms = max(1, statement.end_ms - statement.start_ms)
    mean = rounded(account.milli_ms[Bucket.NO_DEMAND] * 1000, window_ms * 1000 * 1000)
    return Fix(
        f"let about {mean // 2:,} accelerators go when their contracts end, or lend them off-peak",
        500_000,
        0,
        f"on average {mean:,} are free with nothing waiting; half of that leaves room for peaks",
    )


def _checkpoint_better(statement: Statement, account: Account) -> Fix:
    """Young's rule: interval = sqrt(2 × cost × mean time between interruptions)."""
    jobs, count = statement.world.jobs, statement.world.job_count
    attempts = int(jobs.attempt[:count].sum())
    stops = max(1, attempts - int((jobs.attempt[:count] > 0).sum()))
    ran_ms = sum(amount for _, amount in statement.jobs_of(Bucket.REWORK, 50)) // 1000
    training = jobs.interval_ms[:count] > 0
    cost_ms = int(np.median(jobs.cost_ms[:count][training])) if training.any() else 60_000
    spread_ms = max(HOUR_MS, (statement.end_ms - statement.start_ms) * 50 // stops)
    interval_ms = isqrt(2 * max(1_000, cost_ms) * spread_ms)
    return Fix(
        f"checkpoint every {duration_text(interval_ms)}: {stops:,} attempts were cut short",
        500_000,
        rounded(account.money[Bucket.CHECKPOINT], 4 * DENOMINATOR),
        f"Young's rule at a stall of {duration_text(cost_ms)}; half the rework for a quarter more"
        f" checkpoint stall ({_hours(ran_ms)} of rework in the worst 50 jobs)",
    )


def _cull(statement: Statement, account: Account) -> Fix:
    return Fix(
        "cancel interactive jobs that are idle for an hour (`cull_idle_after = \"1h\"`), and let"
        " services give back what the night does not need",
        600_000,
        0,
        "most idle time is in long stretches; the first hour and daily peaks stay",
    )


def _spares(statement: Statement, account: Account) -> Fix:
    rate = statement.total().paid_money
    window_ms = max(1, statement.end_ms - statement.start_ms)
    days = rounded(window_ms, DAY_MS)
    per_node = rounded(rate * 8000 * window_ms, DENOMINATOR * max(1, account.paid_milli_ms))
    return Fix(
        "repair faster, or keep one node more as a spare so that gangs do not wait for repairs",
        300_000,
        per_node,
        f"price: one node of eight at the mean rate for {days} days, {dollars_text(per_node, 0)}",
    )


_Rule = Callable[[Statement, Account], Fix]

_FIXES: dict[Bucket, _Rule] = {
    Bucket.NOT_LAUNCHED: _launch_sooner,
    Bucket.NOT_READY: _fix(
        "keep images warm and boot in parallel", 500_000, "half of the boot time is image pulls"
    ),
    Bucket.UNHEALTHY: _spares,
    Bucket.CORDONED: _fix(
        "uncordon what nobody repairs; give every cordon an owner and an end",
        700_000,
        "a cordon has no price but the forgotten ones cost in full",
    ),
    Bucket.DRAINING: _fix(
        "drain at the next checkpoint instead of at a deadline",
        500_000,
        "accelerators of a draining node that are free already cannot be used",
    ),
    Bucket.NO_DEMAND: _release,
    Bucket.FRAGMENTED: _fix(
        "pack (`placement = \"pack\"`), ask for sizes that divide a node, and give jobs the CPU"
        " share that goes with their accelerators",
        500_000,
        "free accelerators that no waiting job could use as they lie",
    ),
    Bucket.TOPOLOGY: _fix("prefer instead of require a topology level", 500_000, "not filled yet"),
    Bucket.QUOTA: _fix(
        "raise the limit of the team that waits: others are not using it",
        900_000,
        "free accelerators that only a limit keeps a waiting job from",
    ),
    Bucket.HELD: _fix(
        "let short jobs pass while a gang gathers its nodes (backfill), or shorten `patience`",
        600_000,
        "free accelerators kept for a gang that cannot start yet",
    ),
    Bucket.BY_DESIGN: _fix(
        "lend spares to work that can leave at once", 500_000, "spares are idle on purpose"
    ),
    Bucket.STARTING: _fix(
        "keep images and data warm; start the gang's slowest member first",
        500_000,
        "time between getting the accelerators and the first step",
    ),
    Bucket.IDLE: _cull,
    Bucket.REWORK: _checkpoint_better,
    Bucket.RESTART: _fix(
        "restart in place and load checkpoints in parallel",
        400_000,
        "time from being placed again to working again",
    ),
    Bucket.CHECKPOINT: _fix(
        "write checkpoints asynchronously", 800_000, "only the copy to the host remains a stall"
    ),
    Bucket.STRAGGLER: _fix("swap the slow node", 800_000, "not filled yet"),
    Bucket.HOST: _fix(
        "more loader workers, or more CPU per accelerator",
        500_000,
        "share of the step in which the accelerator waits for its host, as modelled per job",
    ),
    Bucket.LINKS: _fix(
        "overlap communication with compute; keep tensor parallelism inside a node",
        300_000,
        "share of the step spent in collectives, as modelled per job",
    ),
    Bucket.INTERFERENCE: _fix("do not share saturated axes", 800_000, "not filled yet"),
    Bucket.STRANDED: _fix("choose another layout", 800_000, "not filled yet"),
    Bucket.BELOW_ROOFLINE: _fix(
        "larger batches, fused kernels, a lower precision where the model allows it",
        100_000,
        "a tenth of the gap is common without touching the model; price is engineering time",
        None,
    ),
    Bucket.UNKNOWN: _fix(
        "report step times (MFU): this time worked, but nobody knows how well",
        0,
        "unknown is not a loss, and not useful either",
    ),
    Bucket.UNSAVED: _fix("nothing: it is saved with the next checkpoint", 0, "still running"),
}
