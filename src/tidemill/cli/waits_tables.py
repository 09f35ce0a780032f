"""Waits and top jobs as tables and lines."""

from collections.abc import Mapping

from rich.table import Table

from tidemill.cli import screen
from tidemill.ledger import printed, waits
from tidemill.ledger.account import CENT_MICRO
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.statement import Statement
from tidemill.ledger.top import PrintedMoney, TopJob, worth_unknown
from tidemill.ledger.waits import WaitDimension, WaitFigures, WaitSpread
from tidemill.model.measures import dollars_text, duration_text, milli_text

NONE = "—"
_FIGURES = (
    ("queue wait", "wait"), ("all waits", "total_wait"), ("submit to end", "completion"),
    ("slowdown", "slowdown"),
)  # fmt: skip
_HEADERS = {"kind": "GPU type", "size": "GPUs requested"}


def line(statement: Statement) -> str:
    """The waits of a statement in a line; or that they are not kept."""
    if not statement.has_waits:
        until = statement.calendar.text(statement.read_from_ms)
        return f"waits: not kept in the hourly books, into which all before {until} was rolled up"
    found = statement.waits.figures()
    if found.wait is None:
        return f"waits: {_no_waits(statement)}"
    mean, p50, p90, p99, longest = _times(found.wait)
    words = (
        f"waits: {screen.count(found.wait.jobs, 'job')}, mean {mean}, p50 {p50}, p90 {p90},"
        f" p99 {p99}, longest {longest}"
    )
    if found.never_started:
        words += f"; {found.never_started:,} never started, counted so far"
    if found.held:
        words += f"; {found.held:,} more held, or waiting for something else than GPUs"
    return words


def _no_waits(statement: Statement) -> str:
    """Why there is no figure of waits."""
    if not statement.tells_submissions:
        return waits.UNTOLD
    if len(statement.waits.job):
        return "all are held"
    words, world = "no job was submitted in this window", statement.world
    waiting = sum(len(world.asking(s)) for s in world.queued)
    still = "waits" if waiting == 1 else "wait"
    return f"{words}; {screen.count(waiting, 'job')} of before {still} still" if waiting else words


def note(statement: Statement) -> str:
    """What the figures of all jobs mean, or why there are none."""
    if statement.waits.figures().wait is None:
        return f"how long jobs waited: {_no_waits(statement)}"
    return rule()


def overall(statement: Statement) -> Table:
    """Every figure of all jobs of the window."""
    found = statement.waits.figures()
    made = screen.table("", "jobs", "of them open", "mean", "p50", "p90", "p99", "longest")
    for title, name in _FIGURES:
        spread: WaitSpread | None = getattr(found, name)
        if spread is None:
            made.add_row(title, "0", *[NONE] * 6)
            continue
        cells = _factors(spread) if name == "slowdown" else _times(spread)
        made.add_row(title, f"{spread.jobs:,}", f"{spread.censored:,}", *cells)
    return made


def outcomes(statement: Statement) -> str:
    """What became of the jobs of the window."""
    found = statement.waits.figures()
    return (
        f"{screen.count(found.jobs, 'job')} submitted: {found.done:,} done, {found.failed:,}"
        f" failed, {found.cancelled:,} cancelled, {found.running:,} running,"
        f" {found.waiting:,} waiting" + (f", {found.held:,} held" if found.held else "")
    )


def groups(statement: Statement, by: WaitDimension, most: int) -> Table:
    """One row per team, user, size, class or GPU type requested; sizes in order."""
    rows = list(statement.waits_by(by).items())
    if by != "size":
        rows.sort(key=lambda row: -row[1].jobs)
    made = screen.table(
        _HEADERS.get(by, by), "jobs", "waiting", "wait: mean", "p50", "p90", "p99", "longest",
        "to end: mean", "p90", "slowdown: p50", "p90",
    )  # fmt: skip
    for key, found in rows[:most]:
        made.add_row(key, *_group(found))
    if len(rows) > most:
        made.add_row(screen.styled("[dim]… and {} more (--most)[/]", f"{len(rows) - most:,}"))
    return made


def rule() -> str:
    """What the figures mean."""
    return (
        f"{waits.RULE}. queue wait: submission to first start; all waits: with those after"
        " interruptions; slowdown: submit to end over the time not waiting, at least 10 s of it"
        " (bounded slowdown), of jobs that started and ended; quantiles by nearest rank"
    )


def no_top(statement: Statement) -> str:
    """Why there is no job to be listed."""
    if not len(statement.holders):
        return "no job held a GPU in this window"
    return (
        "no job is known to have wasted anything: nobody measured what jobs made of the GPUs that"
        " they held (see `tidemill doctor`)"
        if statement.total().of(worth_unknown())
        else "no job wasted anything"
    )


def top(rows: list[TopJob], cents: Mapping[str, PrintedMoney]) -> Table:
    """The jobs that wasted most, and what they paid as it is printed everywhere."""
    made = screen.table(
        "job", "team", "user", "GPUs requested", "GPU-hours", "paid", "wasted", "unknown",
        "largest leak", "known as", right_from=3,
    )  # fmt: skip
    made.columns[8].justify = made.columns[9].justify = "left"
    for row in rows:
        made.add_row(
            row.job, row.team, row.user, milli_text(row.gpu_milli),
            printed.hours_text(row.paid_milli_ms),
            dollars_text(
                None if row.paid_usd_micro is None else cents[row.job].paid * CENT_MICRO
            ),
            _cost(
                None if row.wasted_usd_micro is None else cents[row.job].wasted * CENT_MICRO,
                row.wasted_milli_ms,
            ),
            NONE if row.unknown_usd_micro == 0 else dollars_text(row.unknown_usd_micro),
            f"{ABOUT[row.leak].title} ({_cost(row.leak_usd_micro, row.leak_milli_ms)})",
            row.known,
        )  # fmt: skip
    return made


def _cost(usd_micro: int | None, milli_ms: int) -> str:
    """Dollars to the cent, or the hours where nobody said a price."""
    return printed.cost_text(None, milli_ms) if usd_micro is None else dollars_text(usd_micro)


def _group(found: WaitFigures) -> list[str]:
    cells = [f"{found.jobs:,}", f"{found.waiting:,}"]
    cells += _times(found.wait) if found.wait else [NONE] * 5
    ends = _times(found.completion) if found.completion else [NONE] * 5
    slow = _factors(found.slowdown) if found.slowdown else [NONE] * 5
    return [*cells, ends[0], ends[2], slow[1], slow[2]]


def _times(found: WaitSpread) -> list[str]:
    return [_marked(found, name, duration_text(getattr(found, name))) for name in _STATS]


def _factors(found: WaitSpread) -> list[str]:
    return [_marked(found, name, f"{getattr(found, name) / waits.ONE:,.2f}") for name in _STATS]


def _marked(found: WaitSpread, name: str, text: str) -> str:
    if found.is_untold(name):
        return "unknown"
    return f"≥ {text}" if name in found.at_least else text


_STATS = ("mean", "p50", "p90", "p99", "max")
