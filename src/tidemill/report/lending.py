"""Lending on the page: who lent what to whom, and what stood idle behind guarantees."""

from typing import NamedTuple

from tidemill.ledger.account import CENT_MICRO, rounded
from tidemill.ledger.schema import LendingPart
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR
from tidemill.report import words

MOST_ROWS = 20


class LoanRow(NamedTuple):
    """One lender, borrower and kind; no lender: capacity that no floor owns."""

    lender: str | None
    borrower: str
    kind: str
    hours: str
    usd: str


class IdleRow(NamedTuple):
    """The floor of one owner and kind that was free, and neither used nor lent."""

    owner: str
    kind: str
    kept: str
    unasked: str
    usd: str


class LendingSection(NamedTuple):
    """The section: both tables cut to the largest rows, and the sums of all."""

    loans: tuple[LoanRow, ...]
    idle: tuple[IdleRow, ...]
    lent: str
    unowned: str
    stood: str
    more: int


def lending(part: LendingPart) -> LendingSection:
    """The section of a part of the ledger's document."""
    loans = tuple(
        LoanRow(loan.lender, loan.borrower, loan.kind, _hours(loan.milli_ms), _usd(loan.usd_micro))
        for loan in part.loans[:MOST_ROWS]
    )
    idle = tuple(
        IdleRow(
            row.owner, row.kind, _hours(row.kept_milli_ms), _hours(row.unasked_milli_ms),
            _usd(
                None
                if row.kept_usd_micro is None or row.unasked_usd_micro is None
                else row.kept_usd_micro + row.unasked_usd_micro
            ),
        )
        for row in part.idle[:MOST_ROWS]
    )  # fmt: skip
    return LendingSection(
        loans, idle,
        _hours(sum(loan.milli_ms for loan in part.loans if loan.lender is not None)),
        _hours(sum(loan.milli_ms for loan in part.loans if loan.lender is None)),
        _hours(sum(row.kept_milli_ms + row.unasked_milli_ms for row in part.idle)),
        max(0, len(part.loans) - MOST_ROWS) + max(0, len(part.idle) - MOST_ROWS),
    )  # fmt: skip


def _hours(milli_ms: int) -> str:
    return words.hours(rounded(milli_ms * 10, MILLI_MS_PER_UNIT_HOUR))


def _usd(usd_micro: int | None) -> str:
    return words.UNKNOWN if usd_micro is None else words.cents(rounded(usd_micro, CENT_MICRO))
