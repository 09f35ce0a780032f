"""A shadow's report as tables: dollars, buckets, and the jobs that would have started otherwise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidemill.cli import comparison_tables, screen
from tidemill.explain import phrasing
from tidemill.ledger import comparison
from tidemill.ledger.account import CENT_MICRO, rounded
from tidemill.ledger.unknowns import unknowns_of
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text, duration_text, milli_text

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.advise.shadow.comparing import JobStart, ShadowReport
    from tidemill.ledger.account import Account
    from tidemill.ledger.statement import Statement
    from tidemill.model.world import World

NAMES = ("as it was", "modelled")
SHOWN = 10
_TO_A_TENTH = 100
"""GPU-hours from which on tenths are enough."""


NOBODY = (
    "no job of these books is decided by the scheduler whose shadow this is (--shadow-of): nothing"
    " was placed anew, and there is nothing to compare yet"
)


def print_report(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> None:
    """All of it."""
    before, after = sides
    console = screen.out()
    for line in headline(sides, report):
        console.print(line, soft_wrap=True, highlight=False)
    if report.is_of_nobody:
        return
    console.print(comparison_tables.figures(before, after, NAMES))
    unknown = unknowns_of(before), unknowns_of(after)
    console.print(comparison_tables.buckets(before.total(), after.total(), NAMES, unknown))
    for title, some in (("would have started earlier", report.earlier),
                        ("would have started later", report.later)):  # fmt: skip
        if some:
            console.print(_starts(title, some, before.world))
    for text in (*report.notes(), *counted(before), *comparison.warnings(before, after)):
        screen.note(f"note: {text}")


def counted(seen: "Statement") -> list[str]:
    """Of who waits at the end of the books as seen: who holds something, or needs no GPU."""
    from tidemill.explain.partial_gangs import partial_gangs

    said = {
        "as it was with a part of their gang alone: they hold GPUs, and count as still waiting":
            len(partial_gangs(seen.world).gangs),
        "as it was waiting for something else than GPUs, as their scheduler says: not among those"
        " still waiting, and in no queue wait": seen.waits.figures().held,
    }  # fmt: skip
    return [f"{screen.count(count, 'job')} {text}" for text, count in said.items() if count]


def headline(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> list[str]:
    """What it comes to, in a few lines: first the work that was done, then what was lost."""
    if report.is_of_nobody:
        return [NOBODY]
    found = [_worked(sides, report), _lost(sides, report)]
    found += _closed(sides)
    counts = f"{len(report.earlier):,} would have started earlier, {len(report.later):,} later"
    placed = sum(one.shadow_ms is not None for one in report.starts)
    found.append(
        f"of {screen.count(len(report.starts), 'job')} that it decides on, {placed:,} would have"
        f" started by the end of the books; {counts}"
    )
    if report.stopped.words:
        found.append(report.stopped.words)
    unknown = report.unknown
    if unknown.jobs:
        whose = "it works" if unknown.jobs == 1 else "they work"
        taken = "it is taken to go on" if unknown.jobs == 1 else "they are taken to go on"
        found.append(
            f"beside that {_usd(unknown.usd_micro)} would be held by"
            f" {screen.count(unknown.jobs, 'job')} of which nobody has seen how long {whose}:"
            f" {taken}"
        )
    return found


def _worked(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> str:
    """The hours that jobs worked, and what one costs: the figure that may be compared."""
    from tidemill.advise.shadow import comparing

    worked = comparing.worked_milli_ms(sides, report)
    before, *after = (_hours(milli_ms) for milli_ms in worked)
    text = (
        f"GPU-hours that jobs worked: {before} as it was, {_range(after)} with this policy"
        " (modelled"
    )
    if after[0] != after[1]:
        text += "; the more, if jobs of which nobody has seen how long they work go on"
    sides_of = (sides[0], sides[1], sides[1])
    costs = [_per_hour(side.total(), n) for side, n in zip(sides_of, worked, strict=True)]
    known = [one for one in costs if one is not None]
    if len(known) < len(costs):
        return f"{text})"
    return f"{text}); each of them cost {known[0]}, and would have cost {_range(known[:0:-1])}"


def _range(ends: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _per_hour(account: "Account", milli_ms: int) -> str | None:
    if not milli_ms or account.unpriced_milli_ms:
        return None
    return dollars_text(account.paid_usd_micro * MILLI_MS_PER_UNIT_HOUR // milli_ms)


def _lost(sides: "tuple[Statement, Statement]", report: "ShadowReport") -> str:
    """Dollars of what stood still although somebody waited; and whether less is a win."""
    from tidemill.advise.shadow.comparing import stranded_usd_micro

    lost = [stranded_usd_micro(side.total()) for side in sides]
    text = (
        "GPUs that were free while jobs waited, or held by jobs that had not started:"
        f" {_usd(lost[0])} as it was, {_usd(lost[1])} with this policy"
    )
    if report.others_waited:
        text = (
            f"not to be compared, for {screen.count(report.others_waited, 'job')} of other"
            f" schedulers waited too, and that is on the first side alone: {text}"
        )
    else:
        text += f": {_change(lost)}"
    if not report.undone.jobs:
        return text
    undone = (
        f"{screen.count(report.undone.jobs, 'job')} that ended would not have ended by then, and"
        f" {_hours(report.undone.milli_ms)} GPU-hours of work would not be done"
    )
    is_less = lost[0] is not None and lost[1] is not None and lost[1] < lost[0]
    return f"no win: {undone}; {text}" if is_less else f"{text}; and {undone}"


def _closed(sides: "tuple[Statement, Statement]") -> list[str]:
    """Where nodes that somebody closed had work on one side: others were free there instead."""
    from tidemill.advise.shadow.comparing import closed_usd_micro

    before, after = (closed_usd_micro(side.total()) for side in sides)
    if before == after or before is None or after is None:
        return []
    text = (
        "nodes that somebody closed (cordoned, draining) stood empty for"
        f" {dollars_text(before)} as it was, {dollars_text(after)} with this policy: up to that"
        " much of the line above is only which nodes stood empty"
    )
    return [text]


def _hours(milli_ms: int) -> str:
    hours = milli_ms / MILLI_MS_PER_UNIT_HOUR
    return f"{hours:,.1f}" if hours >= _TO_A_TENTH else f"{hours:,.3f}"


def _usd(usd_micro: int | None) -> str:
    return "unknown dollars" if usd_micro is None else dollars_text(usd_micro)


def _change(lost: Sequence[int | None]) -> str:
    before, after = lost
    if before is None or after is None:
        return "what that is worth is unknown, for want of prices"
    if before == after:
        return "no difference"
    change = rounded(after, CENT_MICRO) - rounded(before, CENT_MICRO)  # of what is printed
    if not change:
        return "a difference of less than a cent"
    return f"{dollars_text(abs(change) * CENT_MICRO)} {'less' if change < 0 else 'more'} lost"


def _starts(title: str, some: "Sequence[JobStart]", world: "World") -> "Table":
    made = screen.table(
        "job", "team", "because of", "GPUs", "waited", "would have waited", title=title,
        right_from=3,
    )  # fmt: skip
    for one in some[:SHOWN]:
        seen, shadow = (waited(one, at) for at in (one.seen_ms, one.shadow_ms))
        why = phrasing.label(world, one.cause) if one.cause else ""
        made.add_row(one.name, one.team, why, milli_text(one.milli), seen, shadow)
    if len(some) > SHOWN:
        made.add_row(f"… {len(some) - SHOWN:,} more", "", "", "", "", "")
    return made


def waited(one: "JobStart", at_ms: int | None) -> str:
    """How long it waited; to the end of the books, or until its owner ended it."""
    if at_ms is not None:
        return duration_text(at_ms - one.came_ms)
    waited = duration_text(one.end_ms - one.came_ms)
    return f"{waited}, then cancelled" if one.is_cancelled else f"≥ {waited}"
