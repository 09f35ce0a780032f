"""Two ledgers as tables: the figures that decide, then every bucket, with what they add up to."""

from collections.abc import Collection

from rich.table import Table

from tidemill.cli import screen
from tidemill.cli.ledger_tables import cents, hours, percent
from tidemill.ledger import comparison, difference
from tidemill.ledger.account import CENT_MICRO, Account, rounded
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.comparison import Side, Unit
from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text, duration_text

UNKNOWN = "unknown"
Unknown = tuple[Collection[int], Collection[int]]


def figures(before: Statement, after: Statement, names: tuple[str, str]) -> Table:
    """Money, waits and what became of the jobs, on both sides; amounts as the ledgers show them."""
    made, accounts = screen.table("", *names, "difference"), (before.total(), after.total())
    tenths = [a.tenths_of_hours()[Bucket.USEFUL] for a in accounts]
    tenths.append(tenths[1] - tenths[0])  # of what stands beside it, as printed
    for row in comparison.compare(before, after):
        texts = [_side(row.before, row.unit), _side(row.after, row.unit)]
        texts.append(_change(row.change, row.unit))
        if row.key == "useful_hours":
            found = (row.before, row.after, row.change)
            shown = [*map(hours, tenths[:2]), _signed(hours(tenths[2]))]
            texts = [_marked(side, text) for side, text in zip(found, shown, strict=True)]
        made.add_row(row.title, *texts)
    return made


def buckets(
    before: Account, after: Account, names: tuple[str, str], unknown: Unknown = ((), ())
) -> Table:
    """Where it went on both sides; every column adds up to its first line, as printed.

    ``unknown``: buckets of each side that are empty because nobody can say.
    """
    made = screen.table("where it went", *names, "difference", "hours", "of hours")
    columns = [
        *difference.sides(before, after, CENT_MICRO), difference.tenths_of_hours(before, after),
        difference.basis_points(before, after),
    ]  # fmt: skip
    shown: list[int | None] = [None]
    shown += [b for b in ABOUT if before.milli_ms[b] or after.milli_ms[b]]
    for b in shown:
        first, second, tenths, points = (sum(c) if b is None else c[b] for c in columns)
        is_told = [b not in side for side in unknown]
        is_known = all(is_told) and difference.is_comparable(before, after, b)
        made.add_row(
            "paid" if b is None else f"  {ABOUT[b].title}",
            before.told(cents(first), b) if is_told[0] else UNKNOWN,
            after.told(cents(second), b) if is_told[1] else UNKNOWN,
            _signed(cents(second - first)) if is_known else UNKNOWN,
            _signed(hours(tenths)) if all(is_told) else UNKNOWN,
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
    match unit:
        case "usd_micro":
            return dollars_text(value)
        case "milli_ms":
            sign = -1 if value < 0 else 1
            return hours(sign * rounded(abs(value) * 10, MILLI_MS_PER_UNIT_HOUR))
        case "ms":
            return duration_text(value)
        case "jobs":
            return f"{value:,}"
        case "milli":
            return f"{value / 1000:,.2f}"


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"
