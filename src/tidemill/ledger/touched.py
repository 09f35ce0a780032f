"""Touched: whose a leak is, in dollars: groups of alike jobs, teams that wait, contracts."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger.account import DENOMINATOR
from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, cost_text
from tidemill.model.tables import I64

MOST = 3  # named in a sentence


class Theirs(NamedTuple):
    """Somebody's part of a leak."""

    words: str
    milli_ms: int
    usd_micro: int | None
    """None where nobody said a price of some of it."""

    @property
    def amount(self) -> str:
        """Its dollars, or its hours where dollars are unknown."""
        return cost_text(self.usd_micro, self.milli_ms, 0)


def by_group(
    statement: Statement, bucket: int, jobs: I64 | None = None
) -> list[tuple[int, Theirs]]:
    """Groups of alike jobs and their part of a bucket, the dearest first; only of some jobs."""
    rows, found = statement.rows, statement.groups
    mask = (rows.bucket == bucket) & (rows.job >= 0)
    if jobs is not None:
        mask &= np.isin(rows.job, jobs)
    return _parts(statement, mask, found.of_job[rows.job[mask]], found.words)


def by_contract(statement: Statement, bucket: int) -> list[tuple[int, Theirs]]:
    """Contracts and their part of a bucket, the dearest first."""
    rows = statement.rows
    mask = rows.bucket == bucket
    names = [f"contract `{row.name}`" for row in statement.world.contract_rows]
    return _parts(statement, mask, rows.contract[mask], names)


def by_team(statement: Statement, bucket: int) -> list[tuple[int, Theirs]]:
    """Teams whose jobs waited, or held, and their part of a bucket, the dearest first."""
    rows = statement.rows
    mask = (rows.bucket == bucket) & (rows.team >= 0)
    names = [f"team `{row.name}`" for row in statement.world.queue_rows]
    return _parts(statement, mask, rows.team[mask], names)


def _parts(
    statement: Statement, mask: np.ndarray, keys: I64, names: list[str]
) -> list[tuple[int, Theirs]]:
    hours, usd = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(hours, keys, statement.rows.milli_ms[mask])
    np.add.at(usd, keys, _usd_micro(statement, mask))
    unpriced = np.zeros(len(names), bool)
    unpriced[keys[_is_unpriced(statement, mask)]] = True
    found = np.flatnonzero(hours)
    by = hours if unpriced.any() else usd
    found = found[np.argsort(-by[found], kind="stable")]
    each = zip(*(column[found].tolist() for column in (hours, usd, unpriced)), strict=True)
    return [
        (key, Theirs(names[key], milli_ms, None if is_unpriced else usd_micro))
        for key, (milli_ms, usd_micro, is_unpriced) in zip(found.tolist(), each, strict=True)
    ]


def words(theirs: list[Theirs], most: int = MOST) -> str:
    """The dearest of them with their dollars, and how many more there are."""
    named = ", ".join(f"{t.words} {t.amount}" for t in theirs[:most])
    more = len(theirs) - most
    return named + (f" and {more:,} more" if more > 0 else "")


def known_usd(theirs: Iterable[Theirs]) -> int | None:
    """What some have of a leak together; None where nobody said a price of some of it."""
    each = [part.usd_micro for part in theirs]
    return None if None in each else sum(usd for usd in each if usd is not None)


def hours_text(milli_ms: int) -> str:
    """Accelerator-hours, as sentences have them."""
    return f"{milli_ms / MILLI_MS_PER_UNIT_HOUR:,.1f} accelerator-hours"


def _usd_micro(statement: Statement, mask: np.ndarray) -> I64:
    """Micro-dollars of each row, rounded down: for telling who, never for adding up the books."""
    rates = np.array([r.rate_usd_micro / DENOMINATOR for r in statement.world.contract_rows])
    rows = statement.rows
    return (rows.milli_ms[mask] * rates[rows.contract[mask]]).astype(np.int64)


def _is_unpriced(statement: Statement, mask: np.ndarray) -> NDArray[np.bool_]:
    """Of each row, whether nobody said what its contract costs."""
    contracts = [not row.is_priced for row in statement.world.contract_rows]
    found: NDArray[np.bool_] = np.array(contracts, bool)[statement.rows.contract[mask]]
    return found
