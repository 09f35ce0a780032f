"""Who and what: the ledger by team, kind or contract, the largest first, and the rest as one row.

Money and hours are divided once for all rows, so that each column adds up to the ledger's total.
"""

from typing import NamedTuple

from tidemill.ledger import printed
from tidemill.ledger.account import Account, added, divided, shown_with_parts
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket, Stage
from tidemill.ledger.statement import NOBODY, Dimension, Statement
from tidemill.ledger.touched import contract_word
from tidemill.report import stages, words
from tidemill.report.waterfall import of_width

MOST_ROWS = 20


class BreakdownLine(NamedTuple):
    """One team, kind or contract."""

    name: str
    is_named: bool
    """Whether the name is somebody's; false for nobody and for the others."""
    usd: str
    held: str
    """Hours that jobs held."""
    hours: str
    useful: str
    useful_width: str
    unknown_width: str
    leak: str
    leak_percent: str


class BreakdownTable(NamedTuple):
    """A table with its question."""

    key: str
    title: str
    column: str
    rows: tuple[BreakdownLine, ...]
    usd: str
    held: str
    """Hours that jobs held."""
    hours: str
    useful: str


TITLES: dict[Dimension, tuple[str, str]] = {
    "team": ("By team", "team"),
    "user": ("By user", "user"),
    "kind": ("By GPU type", "GPU type"),
    "contract": ("By contract", "contract"),
    "class": ("By class of work", "class"),
}


def breakdown(statement: Statement, total: Account, dimension: Dimension) -> BreakdownTable:
    """A statement and its total along one dimension."""
    named = _bounded(statement.by(dimension))
    accounts = [account for _, account in named]
    unit = words.unit_micro(total)
    money = divided(total, accounts, unit)
    time = [account.paid_milli_ms for account in accounts]
    units = printed.units(total)
    hours, held = shown_with_parts(time, [a.of(ALLOCATED) for a in accounts], units.hour)
    rows = tuple(
        _row(name, account, account.told(words.usd(usd, unit)), *map(units.hours, amounts))
        for (name, account), usd, *amounts in zip(named, money, held, hours, strict=True)
    )
    title, column = TITLES[dimension]
    if dimension == "contract":
        column = contract_word(statement.world)
        title = f"By {column}"
    return BreakdownTable(
        str(dimension), title, column, rows,
        total.told(words.usd(sum(money), unit)), units.hours(sum(held)), units.hours(sum(hours)),
        words.useful(total.basis_points()[Bucket.USEFUL], total),
    )  # fmt: skip


def _bounded(accounts: dict[str, Account]) -> list[tuple[str, Account]]:
    """The largest, then the others together, then nobody."""
    nobody = accounts.get(NOBODY)
    named = sorted(
        ((name, account) for name, account in accounts.items() if name != NOBODY),
        key=lambda row: (-row[1].paid_money, -row[1].paid_milli_ms, row[0]),
    )
    most, rest = named[:MOST_ROWS], named[MOST_ROWS:]
    if rest:
        most.append((f"{len(rest):,} others", added(account for _, account in rest)))
    return [*most, ("nobody", nobody)] if nobody is not None else most


def _row(name: str, account: Account, usd: str, held: str, hours: str) -> BreakdownLine:
    paid, points = account.paid_milli_ms, account.basis_points()
    useful = account.milli_ms[Bucket.USEFUL]
    unknown = _unknown(account)
    leaks = [b for b in ABOUT if ABOUT[b].group < Stage.UNKNOWN and account.milli_ms[b]]
    most = max(leaks, key=lambda b: (account.milli_ms[b], -b)) if leaks else None
    return BreakdownLine(
        name, not name.endswith(" others") and name != "nobody",
        usd, held, hours, words.useful(points[Bucket.USEFUL], account),
        of_width(useful, paid), of_width(unknown, paid),
        ABOUT[most].title if most is not None else words.UNKNOWN if unknown else "none",
        words.percent(points[most]) if most is not None else "",
    )  # fmt: skip


def _unknown(account: Account) -> int:
    return account.of(stages.members(Stage.UNKNOWN))
