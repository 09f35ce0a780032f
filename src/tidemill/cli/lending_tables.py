"""Who lent what to whom, as tables."""

from rich.table import Table

from tidemill.cli import screen
from tidemill.ledger.schema import LendingPart
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text

UNOWNED = "(no guaranteed quota)"


def loans(part: LendingPart, most: int) -> Table:
    """One row for each lender, borrower and kind; the largest first."""
    made = screen.table(
        "lender",
        "borrower",
        "GPU type",
        "hours",
        "dollars",
        title="who lent what to whom",
        right_from=3,
    )
    for loan in part.loans[:most]:
        lender = UNOWNED if loan.lender is None else loan.lender
        made.add_row(
            lender, loan.borrower, loan.kind, _hours(loan.milli_ms),
            dollars_text(loan.usd_micro),
        )  # fmt: skip
    _add_rest(made, len(part.loans), most)
    return made


def idle(part: LendingPart, most: int) -> Table:
    """One row for each owner and kind of floors that were free, and neither used nor lent."""
    made = screen.table(
        "owner", "GPU type", "kept by lending limits", "dollars", "not requested", "dollars",
        title="idle behind guarantees", right_from=2,
    )  # fmt: skip
    for row in part.idle[:most]:
        made.add_row(
            row.owner, row.kind, _hours(row.kept_milli_ms),
            dollars_text(row.kept_usd_micro), _hours(row.unasked_milli_ms),
            dollars_text(row.unasked_usd_micro),
        )  # fmt: skip
    _add_rest(made, len(part.idle), most)
    return made


def summary(part: LendingPart) -> str:
    """The sums in one line."""
    lent = sum(loan.milli_ms for loan in part.loans if loan.lender is not None)
    unowned = sum(loan.milli_ms for loan in part.loans if loan.lender is None)
    stood = sum(row.kept_milli_ms + row.unasked_milli_ms for row in part.idle)
    return (
        f"borrowed: {_hours(lent + unowned)} hours, {_hours(lent)} of them from unused guaranteed"
        " quotas and"
        f" {_hours(unowned)} from capacity that is in no guaranteed quota; idle behind guarantees:"
        f" {_hours(stood)} hours"
    )


def _hours(milli_ms: int) -> str:
    tenths = (milli_ms * 20 + MILLI_MS_PER_UNIT_HOUR) // (2 * MILLI_MS_PER_UNIT_HOUR)
    return f"{tenths // 10:,}.{tenths % 10}"


def _add_rest(made: Table, rows: int, most: int) -> None:
    if rows > most:
        made.add_row(screen.styled("[dim]… and {} more (--most)[/]", f"{rows - most:,}"))
    if not rows:
        made.add_row(screen.styled("[dim]nothing[/]"))
