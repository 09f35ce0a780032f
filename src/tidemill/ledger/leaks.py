"""Leaks: every bucket that is not useful, with its owner, evidence, cheapest fix and price."""

from typing import NamedTuple

import numpy as np

from tidemill.ledger import fixes
from tidemill.ledger.account import rounded
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket
from tidemill.ledger.reckoning import Fix
from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR
from tidemill.model.reasons import Layer
from tidemill.model.states import Confidence

JOBS_NAMED = 3
CONTRACTS_NAMED = 4


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
        _leak(statement, bucket, account.milli_ms[bucket], usd[bucket])
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


def _leak(statement: Statement, bucket: Bucket, milli_ms: int, usd_micro: int) -> Leak:
    about = ABOUT[bucket]
    dimension = "job" if bucket in ALLOCATED else "contract"
    return Leak(
        bucket,
        milli_ms,
        usd_micro,
        about.owner,
        statement.confidence(bucket),
        _evidence(statement, bucket),
        f"tidemill ledger --bucket {about.key} --by {dimension}",
        fixes.fix(statement, bucket),
    )


def _evidence(statement: Statement, bucket: Bucket) -> str:
    """The largest contributors: jobs where jobs hold it, otherwise contracts."""
    by_job = statement.held_by_jobs(bucket)
    if by_job.any():
        most = statement.jobs_of(bucket, JOBS_NAMED)
        named = ", ".join(f"`{name}` {_hours(amount)}" for name, amount in most)
        return f"{np.count_nonzero(by_job):,} jobs; most: {named}"
    rows, contracts = statement.rows, statement.world.contract_rows
    sums = np.zeros(len(contracts), np.int64)
    mask = rows.bucket == bucket
    np.add.at(sums, rows.contract[mask], rows.milli_ms[mask])
    largest = np.argsort(-sums, kind="stable")[:CONTRACTS_NAMED].tolist()
    named = ", ".join(f"`{contracts[c].name}` {_hours(int(sums[c]))}" for c in largest if sums[c])
    return f"by contract: {named}"


def _hours(milli_ms: int) -> str:
    tenths = rounded(10 * milli_ms, MILLI_MS_PER_UNIT_HOUR)
    return f"{tenths // 10:,}.{tenths % 10} h"
