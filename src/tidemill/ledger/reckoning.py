"""Reckoning: fixes whose worth and price follow from the ledger's own numbers, one rule each."""

from math import isqrt
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.model.measures import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    WHOLE_MILLI,
    dollars_text,
    duration_text,
)
from tidemill.model.states import JobClass, Terms


class Fix(NamedTuple):
    """What to do, what it would win back at most, what it costs, and how that was reckoned."""

    words: str
    rule: str
    at_most_usd_micro: int
    price_usd_micro: int | None
    """Over the window; None when unknown, 0 when it costs nothing but a setting."""


def release(statement: Statement, bucket: Bucket) -> Fix:
    """What was free in every time bin could have been left unbought without anyone noticing."""
    free = statement.by_bin_and_contract(statement.rows.bucket == bucket)
    lengths_ms = np.array([statement.bin_length_ms(n) for n in statement.bins.tolist()], np.int64)
    unwanted, cost = 0, 0
    for c, row in enumerate(statement.world.contract_rows):
        is_paid = statement.paid[:, c] > 0
        if row.terms is Terms.RESERVED and is_paid.any():
            milli = int((free[is_paid, c] // lengths_ms[is_paid]).min())
            devices = milli // WHOLE_MILLI
            unwanted += devices
            paid_ms = int(lengths_ms[is_paid].sum())
            cost += devices * WHOLE_MILLI * paid_ms * row.usd_micro_per_hour
    when = "on average over this window" if len(lengths_ms) == 1 else "in every part of it"
    return Fix(
        f"do not renew {unwanted:,} reserved accelerators: that many were free with nothing"
        f" waiting {when}; return on-demand ones sooner, and lend the rest off-peak",
        "whole reserved accelerators: the smallest mean of any time bin in which they were paid",
        min(rounded(cost, DENOMINATOR), usd_micro(statement.total(), bucket)),
        0,
    )


def cull(statement: Statement, bucket: Bucket) -> Fix:
    """Interactive jobs that nobody uses can go; idle services cannot, or not so simply."""
    interactive = statement.by("class").get(JobClass.INTERACTIVE)
    all_idle = usd_micro(statement.total(), bucket)
    theirs = min(all_idle, usd_micro(interactive, bucket) if interactive else 0)
    others = dollars_text(all_idle - theirs, 0)
    return Fix(
        'cancel interactive jobs that are idle for an hour (`cull_idle_after = "1h"`)',
        f"all idle time of interactive jobs; the other {others} is services below their peak"
        " and training that waits",
        theirs,
        0,
    )


def checkpoint_better(statement: Statement, bucket: Bucket) -> Fix:
    """Young's rule: interval = sqrt(2 × stall × mean time between interruptions)."""
    account, stops = statement.total(), statement.cut_short
    jobs, count = statement.world.jobs, statement.world.job_count
    saving = (jobs.interval_ms[:count] > 0) & (jobs.attempt[:count] > 0)
    stall_ms = int(np.median(jobs.cost_ms[:count][saving])) if saving.any() else MINUTE_MS
    usual_ms = int(np.median(jobs.interval_ms[:count][saving])) if saving.any() else 0
    running = _mean_running_training(statement)
    between_ms = max(HOUR_MS, statement.length_ms * running // max(1, stops))
    interval_ms = isqrt(2 * max(SECOND_MS, stall_ms) * between_ms)
    more = max(0, usual_ms - interval_ms)
    price = rounded(account.money[Bucket.CHECKPOINT] * more, DENOMINATOR * interval_ms)
    return Fix(
        f"{_how_to_save(usual_ms, interval_ms)}: {stops:,} attempt{'s'[: stops != 1]} cut short",
        f"Young's rule: a stall of {duration_text(stall_ms)}, {running} training jobs at a time,"
        f" one interruption a job in {duration_text(between_ms)}; the price is more stall",
        usd_micro(account, bucket),
        price,
    )


def _how_to_save(usual_ms: int, interval_ms: int) -> str:
    best = duration_text(interval_ms)
    if not usual_ms:
        return f"checkpoint, about every {best}; no job does"
    usual = duration_text(usual_ms)
    if usual_ms <= interval_ms:
        return (
            f"stop jobs at their next checkpoint, not at once; saving every {usual} is often"
            f" enough where it is done ({best} would do)"
        )
    return f"checkpoint every {best} (usual now: {usual}), also where jobs never do"


def _mean_running_training(statement: Statement) -> int:
    """How many training jobs held accelerators at a time, on average; at least one."""
    world, count = statement.world, statement.world.job_count
    training = np.flatnonzero(world.jobs.interval_ms[:count] >= 0)
    size_milli = world.shapes.total_milli[world.jobs.shape[training]]
    ran_ms = statement.held_by_jobs()[training] // np.maximum(1, size_milli)
    return max(1, int(ran_ms.sum()) // max(1, statement.length_ms))


def spares(statement: Statement, bucket: Bucket) -> Fix:
    """One more spare node, at the mean rate, for the whole window."""
    account = statement.total()
    devices = max((row.node.devices for row in statement.world.contract_rows), default=1)
    price = rounded(
        account.paid_money * devices * WHOLE_MILLI * statement.length_ms,
        DENOMINATOR * max(1, account.paid_milli_ms),
    )
    return Fix(
        "repair faster, or keep one node more as a spare so that gangs do not wait for repairs",
        f"price: one node of {devices} at the mean rate, {dollars_text(price, 0)}",
        usd_micro(account, bucket),
        price,
    )


def usd_micro(account: Account, bucket: Bucket) -> int:
    """What a bucket cost, as its line on the ledger says."""
    return account.usd_micro()[bucket]
