"""Lending as a part of the ledger's document: names, hours and dollars.

Dollars are the accelerator-time at what the kind cost on average in the window, rounded once a kind
by largest remainders: the lines of a kind add up to its total.
"""

from collections.abc import Sequence

from tidemill.ledger.account import DENOMINATOR, Account, rounded, zero
from tidemill.ledger.lending import Lent
from tidemill.ledger.schema import IdleFloor, LendingPart, Loan
from tidemill.ledger.statement import Statement
from tidemill.model.measures import share_out


def part(statement: Statement, lent: Lent) -> LendingPart:
    """Who lent what to whom, the largest first, and what stood idle behind guarantees."""
    world, accounts = statement.world, statement.by("kind")
    loans: list[Loan] = []
    idle: list[IdleFloor] = []
    for k, kind in enumerate(world.kinds):
        account = accounts.get(kind, zero())
        loans += _loans(kind, k, lent, account, [row.name for row in world.queue_rows])
        idle += _idle(kind, k, lent, account, [row.name for row in world.queue_rows])
    loans.sort(key=lambda loan: -loan.milli_ms)
    idle.sort(key=lambda row: -row.kept_milli_ms - row.unasked_milli_ms)
    return LendingPart(tuple(loans), tuple(idle))


def _loans(kind: str, k: int, lent: Lent, account: Account, names: list[str]) -> list[Loan]:
    found: list[tuple[str | None, str, int]] = [
        (names[lender], names[borrower], milli_ms)
        for (of, lender, borrower), milli_ms in lent.lent.items()
        if of == k
    ]
    found += [(None, names[q], milli_ms) for (of, q), milli_ms in lent.unowned.items() if of == k]
    usd = _usd_micro([milli_ms for _, _, milli_ms in found], account)
    return [Loan(kind, *row, dollars) for row, dollars in zip(found, usd, strict=True)]


def _idle(kind: str, k: int, lent: Lent, account: Account, names: list[str]) -> list[IdleFloor]:
    owners = sorted({q for of, q in (*lent.kept, *lent.unasked) if of == k})
    kept = [lent.kept.get((k, q), 0) for q in owners]
    unasked = [lent.unasked.get((k, q), 0) for q in owners]
    usd = _usd_micro([*kept, *unasked], account)
    return [
        IdleFloor(kind, names[q], kept[i], unasked[i], usd[i], usd[len(owners) + i])
        for i, q in enumerate(owners)
    ]


def _usd_micro(milli_ms: Sequence[int], account: Account) -> Sequence[int | None]:
    if account.unpriced_milli_ms:
        return [None] * len(milli_ms)
    paid = max(1, account.paid_milli_ms)
    total = rounded(sum(milli_ms) * account.paid_money, paid * DENOMINATOR)
    return share_out(total, milli_ms) if sum(milli_ms) else [0] * len(milli_ms)
