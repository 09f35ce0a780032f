"""A shadow's report as tables: dollars, buckets, and the jobs that would have started otherwise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidemill.cli import comparison_tables, screen
from tidemill.explain import phrasing
from tidemill.ledger import comparison
from tidemill.model.measures import dollars_text, duration_text

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.advise.shadow.comparing import JobStart, ShadowReport
    from tidemill.ledger.statement import Statement
    from tidemill.model.world import World

NAMES = ("as it was", "modelled")
SHOWN = 10


def print_report(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> None:
    """All of it."""
    before, after = sides
    console = screen.out()
    for line in headline(sides, report):
        console.print(line, soft_wrap=True, highlight=False)
    console.print(comparison_tables.figures(comparison.compare(before, after), *NAMES))
    console.print(comparison_tables.buckets(before.total(), after.total(), NAMES))
    for title, some in (("would have started earlier", report.earlier),
                        ("would have started later", report.later)):  # fmt: skip
        if some:
            console.print(_starts(title, some, before.world))
    for text in (*report.notes(), *comparison.warnings(before, after)):
        screen.note(f"note: {text}")


def headline(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> list[str]:
    """What it comes to, in a few lines."""
    from tidemill.advise.shadow.comparing import stranded_usd_micro

    lost = [stranded_usd_micro(side.total()) for side in sides]
    unknown = report.unknown
    free = (
        "GPUs that were free while jobs waited, or held by jobs that had not started:"
        f" {_usd(lost[0])} as it was, {_usd(lost[1])} with this policy"
    )
    counts = f"{len(report.earlier):,} would have started earlier, {len(report.later):,} later"
    found = [
        f"{free} (modelled): {_change(lost)}",
        f"of {screen.count(len(report.starts), 'job')} that it would have placed, {counts}",
    ]
    if unknown.jobs:
        found.append(
            f"{_usd(unknown.usd_micro)} of it would be held by"
            f" {screen.count(unknown.jobs, 'job')} of which nobody has seen how long they work:"
            " they are taken to go on"
        )
    return found


def _usd(usd_micro: int | None) -> str:
    return "unknown dollars" if usd_micro is None else dollars_text(usd_micro)


def _change(lost: Sequence[int | None]) -> str:
    before, after = lost
    if before is None or after is None:
        return "what that is worth is unknown, for want of prices"
    if before == after:
        return "no difference"
    word = "less" if after < before else "more"
    return f"{dollars_text(abs(after - before))} {word} lost"


def _starts(title: str, some: "Sequence[JobStart]", world: "World") -> "Table":
    made = screen.table(
        "job", "team", "because of", "GPUs", "waited", "would have waited", title=title,
        right_from=3,
    )  # fmt: skip
    for one in some[:SHOWN]:
        seen, shadow = (
            f"≥ {duration_text(one.end_ms - one.came_ms)}" if at is None
            else duration_text(at - one.came_ms)
            for at in (one.seen_ms, one.shadow_ms)
        )  # fmt: skip
        why = phrasing.label(world, one.cause) if one.cause else ""
        made.add_row(one.name, one.team, why, f"{one.milli / 1000:g}", seen, shadow)
    if len(some) > SHOWN:
        made.add_row(f"… {len(some) - SHOWN:,} more", "", "", "", "", "")
    return made
