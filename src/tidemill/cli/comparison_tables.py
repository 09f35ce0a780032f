"""Two ledgers as tables: the figures that decide, then every bucket, with what they add up to."""

from rich.table import Table

from tidemill.cli import screen
from tidemill.cli.ledger_tables import cents, hours, percent
from tidemill.ledger import difference
from tidemill.ledger.account import CENT_MICRO, Account, rounded
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.comparison import Compared, Side, Unit
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text, duration_text

UNKNOWN = "unknown"


def figures(found: list[Compared], before: str, after: str) -> Table:
    """Money, waits and what became of the jobs, on both sides."""
    made = screen.table("", before, after, "difference")
    for row in found:
        sides = (_side(row.before, row.unit), _side(row.after, row.unit))
        made.add_row(row.title, *sides, _change(row.change, row.unit))
    return made


def buckets(before: Account, after: Account, names: tuple[str, str]) -> Table:
    """Where it went on both sides; every column adds up to its first line, as printed."""
    made = screen.table("where it went", *names, "difference", "hours", "of hours")
    columns = [
        *difference.sides(before, after, CENT_MICRO), difference.tenths_of_hours(before, after),
        difference.basis_points(before, after),
    ]  # fmt: skip
    shown: list[int | None] = [None]
    shown += [b for b in ABOUT if before.milli_ms[b] or after.milli_ms[b]]
    for b in shown:
        first, second, tenths, points = (sum(c) if b is None else c[b] for c in columns)
        is_known = difference.is_comparable(before, after, b)
        made.add_row(
            "paid" if b is None else f"  {ABOUT[b].title}", before.told(cents(first), b),
            after.told(cents(second), b), _signed(cents(second - first)) if is_known else UNKNOWN,
            _signed(hours(tenths)),
            _signed(percent(points)), style="bold" if b is None else "",
        )  # fmt: skip
    return made


def _side(side: Side, unit: Unit) -> str:
    if side.value is None:
        return UNKNOWN
    mark = "≥ " if side.is_lower_bound else "≤ " if side.is_upper_bound else ""
    return mark + _text(side.value, unit)


def _change(change: Side, unit: Unit) -> str:
    if change.value is None:
        return UNKNOWN
    mark = {(True, True): "~ ", (True, False): "≥ ", (False, True): "≤ "}.get(change[1:], "")
    return mark + _signed(_text(change.value, unit))


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
