"""Leaks: every bucket that is not useful, with its owner, evidence and fixes."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidemill.ledger import prices, printed
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket
from tidemill.ledger.fix import Fix
from tidemill.ledger.fixes import edits, fixes
from tidemill.ledger.statement import Statement
from tidemill.ledger.touched import contract_word
from tidemill.model.measures import ONE_PPM, count_text
from tidemill.model.reasons import Layer
from tidemill.model.states import Confidence

JOBS_NAMED = 3
CONTRACTS_NAMED = 4
LARGEST = 3  # leaks that always have an entry among the fixes
NO_LOSS = frozenset({Bucket.UNSAVED})  # what the next checkpoint saves is no leak


@dataclass(frozen=True)
class Leak:
    """One bucket of waste; what it rests on and what to do is looked for when it is asked for."""

    statement: Statement = field(repr=False)
    bucket: int
    milli_ms: int
    usd_micro: int
    """What is known of what it cost."""
    unpriced_milli_ms: int
    cost: str
    """What it cost in words: dollars, at least so many, or hours where dollars are unknown."""
    owner: Layer
    confidence: Confidence
    command: str

    @cached_property
    def evidence(self) -> str:
        """Who has most of it."""
        return _evidence(self.statement, self.bucket)

    @cached_property
    def fixes(self) -> tuple[Fix, ...]:
        """What could be done, the best first; never empty."""
        return fixes(self.statement, self.bucket)

    @property
    def is_unpriced(self) -> bool:
        """Whether nobody said a price of any of it."""
        return self.unpriced_milli_ms == self.milli_ms

    @property
    def fix(self) -> Fix:
        """The best of its fixes."""
        return self.fixes[0]


class LeakRemedy(NamedTuple):
    """A fix beside its leak, and what it is predicted to win."""

    leak: Leak
    fix: Fix
    wins_usd_micro: int | None
    """None: advice, or an edit that only a replay can judge."""
    no_more_than: int = 0
    """Which of those before it is a part of it and is predicted to win as much; 0: none."""


def leaks(statement: Statement) -> list[Leak]:
    """All leaks that hold something, the dearest first; the longest where some has no price.

    None where a part of the window was rolled up: what to do follows from single jobs.
    """
    if statement.past is not None:
        return []
    account = statement.total()
    usd = account.usd_micro()
    found = [
        _leak(statement, bucket, usd[bucket])
        for bucket in ABOUT
        if bucket != Bucket.USEFUL and account.milli_ms[bucket]
    ]
    if account.unpriced_milli_ms:
        return sorted(found, key=lambda leak: (-leak.milli_ms, leak.bucket))
    return sorted(found, key=lambda leak: (-leak.usd_micro, leak.bucket))


def remedies(statement: Statement, most: int = 6) -> list[LeakRemedy]:
    """What to do first: predicted wins, the largest first; then advice on the largest leaks.

    Each of the three largest leaks has an entry.
    """
    found = leaks(statement)
    claimed = [
        LeakRemedy(leak, fix, prices.wins_usd_micro(statement, fix))
        for leak in found
        for fix in edits(statement, leak.bucket)
        if prices.is_claimed(statement, fix)
    ]
    claimed.sort(key=lambda r: (-(r.wins_usd_micro or 0), len(r.fix.edits), r.leak.bucket))
    largest = [leak for leak in found if leak.bucket not in NO_LOSS][:LARGEST]
    owed = [leak for leak in largest if all(r.leak is not leak for r in claimed)]
    entries = [LeakRemedy(leak, _unclaimed(leak), None) for leak in owed]
    told = claimed[: max(1, most - len(entries))]
    return [*(r._replace(no_more_than=_part(r, told)) for r in told), *entries]


def _part(whole: LeakRemedy, told: list[LeakRemedy]) -> int:
    """The number of the first that makes some of the same edits, no others, and wins as much."""
    edits, wins = set(whole.fix.edits), whole.wins_usd_micro
    parts = (n for n, r in enumerate(told, 1) if set(r.fix.edits) < edits)
    return next((n for n in parts if told[n - 1].wins_usd_micro == wins), 0)


def _unclaimed(leak: Leak) -> Fix:
    """What to say of a leak for which no win is predicted: the advice, else the first thing."""
    return next((fix for fix in leak.fixes if not fix.edits), leak.fix)


def to_try(statement: Statement, least_ppm: int = 5_000) -> list[LeakRemedy]:
    """Every edit that is proposed, also those whose win only a replay can tell.

    The latter only for leaks of some size. Fixes that make the same edits are told once.
    """
    paid = statement.total().paid_usd_micro
    found: dict[tuple[object, ...], LeakRemedy] = {}
    for leak in leaks(statement):
        for fix in edits(statement, leak.bucket):
            is_claimed = prices.is_claimed(statement, fix)
            is_large = leak.usd_micro * ONE_PPM > paid * least_ppm
            if is_claimed or is_large:
                wins = prices.wins_usd_micro(statement, fix) if is_claimed else None
                found.setdefault(fix.edits, LeakRemedy(leak, fix, wins))
    return sorted(
        found.values(), key=lambda r: (-(r.wins_usd_micro or 0), -r.leak.usd_micro, r.fix.words)
    )


def _leak(statement: Statement, bucket: int, usd_micro: int) -> Leak:
    about, account = ABOUT[bucket], statement.total()
    dimension = "job" if bucket in ALLOCATED else "contract"
    return Leak(
        statement,
        bucket,
        account.milli_ms[bucket],
        usd_micro,
        account.unpriced[bucket],
        _cost(account, bucket, usd_micro),
        about.owner,
        statement.confidence(bucket),
        f"tidemill ledger --bucket {about.key} --by {dimension}",
    )


def _cost(account: Account, bucket: int, usd_micro: int) -> str:
    """As the lines of the ledger have it."""
    if account.has_price(bucket):
        return account.told(printed.about_usd(usd_micro), bucket)
    units = printed.units(account)
    return f"{units.hours(account.hours_in(units.hour)[bucket])} GPU-hours"


def _evidence(statement: Statement, bucket: int) -> str:
    """The largest contributors: jobs where jobs hold it, otherwise contracts."""
    by_job = statement.held_by_jobs(bucket)
    if by_job.any():
        most = statement.jobs_of(bucket, JOBS_NAMED)
        named = ", ".join(f"`{name}` {_hours(amount)}" for name, amount in most)
        jobs = int(np.count_nonzero(by_job))
        return f"{count_text(jobs, 'job')}; most: {named}"
    keys, name = statement.keys("contract")
    sums = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
    for some in statement.near(bucket):
        np.add.at(sums, keys[some], statement.rows.milli_ms[some])
    largest = np.argsort(-sums, kind="stable")[:CONTRACTS_NAMED].tolist()
    named = ", ".join(f"`{name(key)}` {_hours(int(sums[key]))}" for key in largest if sums[key])
    return f"by {contract_word(statement.world)}: {named}"


def _hours(milli_ms: int) -> str:
    return f"{printed.hours_text(milli_ms)} h"
