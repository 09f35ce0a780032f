"""Two ledgers as tables: the figures that decide, then every bucket, with what they add up to."""

from collections.abc import Collection, Iterator

from rich.table import Table

from tidemill.cli import screen
from tidemill.cli.ledger_tables import percent
from tidemill.ledger import comparison, difference, printed
from tidemill.ledger.account import Account, rounded
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.comparison import Compared, Side, Unit
from tidemill.ledger.statement import Statement
from tidemill.model.measures import duration_text

UNKNOWN = "unknown"
Unknown = tuple[Collection[int], Collection[int]]


def figures(before: Statement, after: Statement, names: tuple[str, str]) -> Table:
    """Money, waits and what became of the jobs, on both sides; amounts as the ledgers show them,
    and their difference is that of what is printed.
    """
    made, accounts = screen.table("", *names, "difference"), (before.total(), after.total())
    units = _units(*accounts)
    for row, is_spread in _told(comparison.compare(before, after)):
        if is_spread:
            text = _side(row.before, row.unit)
            change = UNKNOWN if row.before.value is None else SAME
            made.add_row(f"{row.title} and quantiles", text, text, change)
            continue
        if row.unit in ("usd_micro", "milli_ms"):
            made.add_row(row.title, *_amounts(row, units, accounts))
            continue
        texts = [_side(row.before, row.unit), _side(row.after, row.unit)]
        made.add_row(row.title, *texts, _change(row.change, row.unit))
    return made


def _units(before: Account, after: Account) -> printed.Units:
    """Decimals for both: those of the larger one."""
    return printed.units_of(
        max(before.paid_milli_ms, after.paid_milli_ms),
        max(before.paid_usd_micro, after.paid_usd_micro),
    )


def _amounts(
    row: Compared, units: printed.Units, accounts: tuple[Account, Account]
) -> Iterator[str]:
    """Dollars or hours of both sides, and their difference as printed."""
    show, unit = (
        (units.dollars, units.usd_micro) if row.unit == "usd_micro" else (units.hours, units.hour)
    )
    each = [rounded(side.value or 0, unit) for side in (row.before, row.after)]
    if row.key == "useful_hours":
        each = [account.hours_in(unit)[Bucket.USEFUL] for account in accounts]
    yield _marked(row.before, show(each[0]))
    yield _marked(row.after, show(each[1]))
    yield _marked(row.change, _signed(show(each[1] - each[0])))


_OF_SPREADS = ("ms", "milli")
SAME = "no difference"


def _told(rows: list[Compared]) -> Iterator[tuple[Compared, bool]]:
    """The figures that say something, each with whether it stands for its whole spread.

    Left out are those that are nothing, or unknown, on both sides, and quantiles that are the
    largest of few; of a spread that reads the same on both sides the mean is left. JSON has all.
    """
    said = {row.key: row for row in rows}
    for row in rows:
        spread, _, name = row.key.rpartition("_")
        if row.unit not in _OF_SPREADS:
            is_nothing = not row.before.value and row.key.startswith(("jobs_", "usd_per"))
            if not is_nothing or row.before != row.after:
                yield row, False
            continue
        is_same = all(_reads_same(said[key]) for key in said if key.startswith(f"{spread}_"))
        most = said[f"{spread}_max"]
        is_most = (row.before, row.after) == (most.before, most.after)
        if name == "mean" or (not is_same and (name == "max" or not is_most)):
            yield row, is_same


def _reads_same(row: Compared) -> bool:
    return _side(row.before, row.unit) == _side(row.after, row.unit)


def buckets(
    before: Account, after: Account, names: tuple[str, str], unknown: Unknown = ((), ())
) -> Table:
    """Where it went on both sides; every column adds up to its first line, as printed.

    ``unknown``: buckets of each side that are empty because nobody can say.
    """
    made = screen.table("where it went", *names, "difference", "hours", "of hours")
    units = _units(before, after)
    columns = [
        *difference.sides(before, after, units.usd_micro),
        difference.hours(before, after, units.hour), difference.basis_points(before, after),
    ]  # fmt: skip
    shown: list[int | None] = [None]
    shown += [b for b in ABOUT if before.milli_ms[b] or after.milli_ms[b]]
    for b in shown:
        first, second, longer, points = (sum(c) if b is None else c[b] for c in columns)
        is_told = [b not in side for side in unknown]
        is_known = all(is_told) and difference.is_comparable(before, after, b)
        made.add_row(
            "paid" if b is None else f"  {ABOUT[b].title}",
            before.told(units.dollars(first), b) if is_told[0] else UNKNOWN,
            after.told(units.dollars(second), b) if is_told[1] else UNKNOWN,
            _signed(units.dollars(second - first)) if is_known else UNKNOWN,
            _signed(units.hours(longer)) if all(is_told) else UNKNOWN,
            _signed(percent(points)) if all(is_told) else UNKNOWN,
            style="bold" if b is None else "",
        )  # fmt: skip
    return made


def _side(side: Side, unit: Unit) -> str:
    return UNKNOWN if side.value is None else _marked(side, _text(side.value, unit))


def _change(change: Side, unit: Unit) -> str:
    return UNKNOWN if change.value is None else _marked(change, _signed(_text(change.value, unit)))


def _marked(side: Side, text: str) -> str:
    """An amount with what it is a bound of; unknown where it is."""
    if side.value is None:
        return UNKNOWN
    mark = {(True, True): "~ ", (True, False): "≥ ", (False, True): "≤ "}.get(side[1:], "")
    return mark + text


def _text(value: int, unit: Unit) -> str:
    if unit == "ms":
        return duration_text(value)
    return f"{value:,}" if unit == "jobs" else f"{value / 1000:,.2f}"


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"
