"""Top jobs by waste: whose accelerators cost most without becoming useful work, and on what.

Waste is what a job's own accelerators cost in buckets that are known not to be useful: starting,
idle, lost, stalled, or working below what they could. Time of unknown worth is unknown, no waste.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import DENOMINATOR, Account, divided, rounded, shown
from tidemill.ledger.buckets import ABOUT, Stage
from tidemill.ledger.statement import NOBODY, Dimension, Statement
from tidemill.ledger.waits import UNKNOWN_USER
from tidemill.model.states import CONFIDENCES, Confidence, mostly


class TopJob(NamedTuple):
    """One job: what it cost, what of that was wasted or of unknown worth, and its largest leak."""

    job: str
    team: str
    user: str
    gpu_milli: int
    """What it requests; an elastic job may run on less."""
    paid_milli_ms: int
    """What it held, for how long."""
    paid_usd_micro: int | None
    """These are None where nobody said a price of some of it."""
    wasted_usd_micro: int | None
    unknown_usd_micro: int | None
    leak: int
    leak_usd_micro: int | None
    wasted_milli_ms: int
    leak_milli_ms: int
    known: Confidence
    """How most of what it wasted is known."""


def top_jobs(statement: Statement, most: int = 10) -> list[TopJob]:
    """The jobs that wasted most dollars, the worst first; ties in the order of the journal.

    Hours instead of dollars where some of the fleet has no price.
    """
    rows, rates = statement.rows, statement.prices.rates
    by_hours = statement.total().unpriced_milli_ms > 0
    wasted: dict[int, int] = {}
    is_mine = (rows.job >= 0) & np.isin(rows.bucket, wasted_buckets())
    for period, c in np.ndindex(*rates.shape):
        mask = is_mine & (rows.contract == c) & (rows.period == period)
        sums = np.zeros(statement.world.job_count, np.int64)
        np.add.at(sums, rows.job[mask], rows.milli_ms[mask])
        for j in np.flatnonzero(sums).tolist():
            wasted[j] = wasted.get(j, 0) + int(sums[j]) * (1 if by_hours else int(rates[period, c]))
    worst = sorted((j for j in wasted if wasted[j]), key=lambda j: (-wasted[j], j))[:most]
    return [_top(statement, j) for j in worst]


def wasted_buckets() -> list[int]:
    """What is known not to be useful."""
    return [b for b in ABOUT if Stage.NOT_OBSERVED < ABOUT[b].group < Stage.UNKNOWN]


def worth_unknown() -> list[int]:
    """Of what nobody knows, or not yet, what came of it."""
    return [b for b in ABOUT if ABOUT[b].group in (Stage.NOT_OBSERVED, Stage.UNKNOWN)]


class PrintedMoney(NamedTuple):
    """What a job (user, class) paid, and wasted of it, in whole units of money."""

    paid: int
    wasted: int


def in_units(
    statement: Statement, unit_micro: int, by: Dimension = "job"
) -> dict[str, PrintedMoney]:
    """What each job paid and wasted in units of so many micro-dollars: the same in every table.

    Paid as a breakdown of the ledger prints it, so that all of it adds up to the ledger's total;
    wasted so that it adds up, and is no more than was paid.
    """
    found = statement.by(by)
    paid = divided(statement.total(), found.values(), unit_micro)
    amounts = [
        0 if name == NOBODY else sum(account.money[bucket] for bucket in wasted_buckets())
        for name, account in found.items()
    ]
    wasted = shown(amounts, DENOMINATOR * unit_micro, at_most=paid)
    return dict(zip(found, map(PrintedMoney, paid, wasted), strict=True))


def _top(statement: Statement, j: int) -> TopJob:
    world, account = statement.world, statement.select(statement.rows.job == j)
    amounts = account.milli_ms if account.unpriced_milli_ms else account.money
    leak = max(wasted_buckets(), key=lambda bucket: (amounts[bucket], -bucket))
    shape = world.shape_of(j)
    return TopJob(
        world.job_names[j], shape.team, world.job_users[j] or UNKNOWN_USER, shape.total_milli,
        account.paid_milli_ms, _usd(account, ABOUT), _usd(account, wasted_buckets()),
        _usd(account, worth_unknown()), leak, _usd(account, [leak]), account.of(wasted_buckets()),
        account.milli_ms[leak], _known(statement, j),
    )  # fmt: skip


def _known(statement: Statement, j: int) -> Confidence:
    rows = statement.rows
    mine = (rows.job == j) & np.isin(rows.bucket, wasted_buckets())
    sums = np.bincount(statement.known_as[mine], rows.milli_ms[mine], len(CONFIDENCES))
    return mostly(dict(zip(CONFIDENCES, sums.tolist(), strict=True)))


def _usd(account: Account, buckets: Collection[int]) -> int | None:
    if account.unpriced_milli_ms:
        return None
    return rounded(sum(account.money[bucket] for bucket in buckets), DENOMINATOR)
