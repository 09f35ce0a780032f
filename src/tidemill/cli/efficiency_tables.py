"""What jobs held, as tables: a row per job, user, team or class; one job with its attempts."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from tidemill.cli import screen
from tidemill.ledger import host_use, printed, served_text
from tidemill.ledger.account import rounded, shown, shown_with_parts
from tidemill.ledger.attempts import HeldAttempt
from tidemill.ledger.buckets import ABOUT, ALLOCATED, BELOW, OCCUPIED, Bucket
from tidemill.ledger.efficiency import Efficiencies, HeldFigure, HeldRow, user_of
from tidemill.ledger.statement import NOBODY, Statement
from tidemill.ledger.top import PrintedMoney, in_units, wasted_buckets, worth_unknown
from tidemill.model.figures import DeviceFigure
from tidemill.model.measures import (
    ONE_PPM,
    UNKNOWN_DOLLARS,
    WHOLE_MILLI,
    amount_text,
    count_text,
    duration_text,
    milli_text,
)
from tidemill.model.states import Confidence
from tidemill.model.whys import Why

MARKS = {
    Confidence.MEASURED: "m",
    Confidence.INFERRED: "i",
    Confidence.MODELLED: "e",
    Confidence.ASSUMED: "a",
    Confidence.SIMULATED: "s",
    Confidence.UNKNOWN: "?",
}
LEGEND = (
    "shares of the GPU-hours held; m measured, i inferred, e modelled (estimated), a assumed,"
    " s simulated, ? unknown: nobody measured it; ≥ at least: not measured of all. wasted: what is"
    " known not to be useful, and the letter how most of it is known"
)
HOST_LEGEND = (
    "as the cluster's accounting says: CPU time over CPUs x elapsed; the most memory that a step"
    " used over what was requested"
)
UNKNOWN = "?"


class _Column(NamedTuple):
    title: str
    buckets: tuple[int, ...]


COLUMNS = (
    _Column("starting", (Bucket.STARTING, Bucket.RESTART)),
    _Column("idle", (Bucket.IDLE,)),
    _Column("saving", (Bucket.CHECKPOINT,)),
    _Column("rework", (Bucket.REWORK,)),
    _Column("data wait", (Bucket.HOST,)),
    _Column("comm.", (Bucket.LINKS,)),
    _Column("below peak", (*sorted(BELOW), Bucket.STRAGGLER, Bucket.INTERFERENCE)),
    _Column("not known", (Bucket.UNKNOWN, Bucket.UNSAVED, Bucket.NOT_OBSERVED)),
    _Column("useful", (Bucket.USEFUL,)),
)
"""The shares that a row shows; every bucket that a job can hold is in one of them."""


def headline(statement: Statement, found: Efficiencies, money: Sequence[PrintedMoney]) -> str:
    """What jobs held of what was paid for."""
    total, paid = found.total, statement.total()
    if not total.held_milli_ms:
        seen = "was seen to hold" if paid.milli_ms[Bucket.NOT_OBSERVED] else "held"
        return f"no job {seen} a GPU in this window"
    units = printed.units(total.account)
    free = paid.milli_ms[Bucket.NOT_OBSERVED] - total.account.milli_ms[Bucket.NOT_OBSERVED]
    share = "at least " * (free > 0) + f"{total.held_milli_ms / paid.paid_milli_ms:.1%}"
    held = units.hours(rounded(total.held_milli_ms, units.hour))
    cost = total.account.told(units.dollars(sum(usd.paid for usd in money)))
    price = " (price unknown)" if cost == UNKNOWN_DOLLARS else f" for {cost}"
    words = (
        f"{screen.count(total.jobs, 'job')} held {held} GPU-hours{price},"
        f" {share} of what was paid for"
    )
    return f"{words}; {statement.source.words}" if statement.source.is_simulated else words


MOST_EXACT = 100_000
"""Jobs up to which each costs what `ledger` prints, to the cent; of more it would take long."""


def printed_money(statement: Statement, found: Efficiencies) -> list[PrintedMoney]:
    """What each row cost and wasted as the ledger prints it; the rest is what the others did.

    A team's row in the ledger has free GPUs in it too: those of teams are rounded by themselves.
    """
    units = printed.units(found.total.account)
    listed = [*found.rows, *([] if found.rest is None else [found.rest])]
    if found.by == "team" or statement.world.job_count > MOST_EXACT:
        paid = [row.account.paid_money for row in listed]
        each = shown_with_parts(paid, [row.wasted_money for row in listed], units.money)
        return [PrintedMoney(*both) for both in zip(*each, strict=True)]
    told = in_units(statement, units.usd_micro, found.by)
    told.pop(NOBODY, None)
    made = [told.pop(row.key) for row in found.rows]
    if found.rest is not None:
        paid_rest, wasted_rest = (sum(amounts) for amounts in zip(*told.values(), strict=True))
        made.append(PrintedMoney(paid_rest, wasted_rest))
    return made


def rows(found: Efficiencies, money: Sequence[PrintedMoney]) -> Table:
    """One row per key, the rest, and all of them: amounts add up to the last row's."""
    units = printed.units(found.total.account)
    listed = [*found.rows, *([] if found.rest is None else [found.rest])]
    hours = shown([row.held_milli_ms for row in listed], units.hour)
    is_job = found.by == "job"
    first = (found.by, "user", "elapsed", "of limit") if is_job else (found.by, "jobs")
    titles = [column.title for column in COLUMNS]
    made = screen.table(*first, "GPU-hours", *titles, "cost", "wasted")
    if is_job:
        made.columns[1].justify = "left"
    for row, of_hours, usd in zip(listed, hours, money, strict=True):
        made.add_row(
            row.key, *_who(row, is_job), units.hours(of_hours), *_shares(row),
            *_money(row, units.dollars(usd.paid), units.dollars(usd.wasted)),
        )  # fmt: skip
    paid, wasted = sum(usd.paid for usd in money), sum(usd.wasted for usd in money)
    made.add_row(
        "all jobs", *_who(found.total, is_job), units.hours(sum(hours)), *_shares(found.total),
        *_money(found.total, units.dollars(paid), units.dollars(wasted)), style="bold",
    )  # fmt: skip
    return made


def loads(found: Efficiencies) -> Table | None:
    """What services were asked for, a row for each that counted requests; None: nobody did."""
    some = [row for row in found.rows if row.measured.load is not None]
    told = [(row.key, served_text.load_cells(row, _idle(row))) for row in some]
    if found.total.measured.load is not None:
        told.append((_ALL, served_text.load_cells(found.total, "")))
    return _counted(found.by, served_text.LOAD_TITLES, told) if some else None


def steps(found: Efficiencies) -> Table | None:
    """What training loops did, a row for each that counted steps; None: nobody did."""
    some = [row for row in found.rows if row.measured.steps is not None]
    told = [(row.key, served_text.step_cells(row)) for row in some]
    if found.total.measured.steps is not None:
        told.append((_ALL, served_text.step_cells(found.total)))
    return _counted(found.by, served_text.STEP_TITLES, told) if some else None


_ALL = "all that counted"


def _counted(by: str, titles: Sequence[str], told: Sequence[tuple[str, list[str]]]) -> Table:
    """Rows, and all of them where there are several."""
    made = screen.table(by, *titles)
    for key, cells in told:
        if key != _ALL:
            made.add_row(key, *cells)
        elif len(told) > 2:
            made.add_row(key, *cells, style="bold")
    return made


def _idle(row: HeldRow) -> str:
    return _share(row, row.figure([Bucket.IDLE]))


def devices(found: Efficiencies) -> Table | None:
    """What devices and nodes measured; None: nobody did."""
    some = [row for row in found.rows if row.measured.figures]
    figures = served_text.figures_of(some)
    if not some:
        return None
    titles = [served_text.DEVICE_TITLES[figure] for figure in figures]
    made = screen.table(found.by, "GPU-hours", *titles)
    units = printed.units(found.total.account)
    for row in some:
        told = [served_text.figure_text(row.measured.figures, figure) for figure in figures]
        made.add_row(row.key, units.hours(rounded(row.held_milli_ms, units.hour)), *told)
    return made


def measured_lines(row: HeldRow) -> list[str]:
    """What was measured of one job beside its buckets, a line each."""
    figures, load, found = row.measured.figures, row.measured.load, list[str]()
    if load is not None:
        cells = dict(zip(served_text.LOAD_TITLES, served_text.load_cells(row, _idle(row)),
                         strict=True))  # fmt: skip
        told = ", ".join(f"{title} {text}" for title, text in cells.items())
        found.append(f"asked for (measured): {told}")
    if row.facts is not None and row.facts.mfu_source is not None:
        found.append(f"MFU, as its loop says: {row.facts.mfu_source}")
    if row.measured.steps is not None:
        pairs = zip(served_text.STEP_TITLES, served_text.step_cells(row), strict=True)
        found.append(f"done (measured): {', '.join(f'{title} {text}' for title, text in pairs)}")
    if figures:
        shown_figures = served_text.figures_of([row])
        told = ", ".join(
            f"{served_text.DEVICE_TITLES[figure]} {served_text.figure_text(figures, figure)}"
            for figure in shown_figures
        )
        found.append(f"devices (measured): {told}")
    if hint := _storage_hint(row):
        found.append(hint)
    return found


MUCH_IDLE, MUCH_WAIT = 100_000, 50_000
"""Shares in millionths: a tenth of the GPU-time idle while the CPUs of the nodes waited for input
or output for a twentieth of theirs is more than logging and checkpoints make."""


def _storage_hint(row: HeldRow) -> str:
    """That idle GPUs may have waited for storage, where nobody measured what they waited for."""
    idle, waited = row.figure([Bucket.IDLE]), row.measured.figures.get(DeviceFigure.IO_WAIT, 0)
    is_told = row.figure([Bucket.HOST]).milli_ms is not None
    is_unasked = row.measured.load is not None  # a service waits for requests
    if is_told or is_unasked or waited < MUCH_WAIT or _ppm(row, idle) < MUCH_IDLE:
        return ""
    return (
        f"its GPUs stood idle for {_percent(_ppm(row, idle))} of the time, and the CPUs of its"
        f" nodes waited for input or output for {waited / 10_000:.0f} %: they probably waited for"
        " storage (inferred; `tidemill.track` in the loop measures it)"
    )


def _money(row: HeldRow, cost: str, wasted: str) -> tuple[str, str]:
    """What it cost and wasted, as far as prices are known."""
    figure, told = row.wasted, row.account.told_of(wasted, wasted_buckets())
    if figure.milli_ms is None:
        return row.account.told(cost), UNKNOWN
    if told == UNKNOWN_DOLLARS:
        return row.account.told(cost), told
    least = "≥ " * (row.may_waste_more and not told.startswith("≥"))
    return row.account.told(cost), f"{least}{told} {MARKS[figure.confidence]}"


def job_lines(statement: Statement, row: HeldRow) -> list[str]:
    """Who a job is, what it requested and what it used of that."""
    facts = row.facts
    assert facts is not None, "it is one job"
    gpus = facts.gpu_milli / WHOLE_MILLI
    requested = [count_text(gpus, "GPU")]
    if facts.cpu_milli is not None:
        requested.append(
            f"{amount_text(facts.cpu_milli, 'CPU')} (used: {_used(facts.host.cpu_ppm)})"
        )
    if facts.memory_mib is not None:
        most = _used(facts.host.memory_ppm, " at its peak")
        requested.append(f"{facts.memory_mib / 1024:,.1f} GiB of memory (used: {most})")
    elapsed = "unknown" if facts.elapsed_ms is None else duration_text(facts.elapsed_ms)
    limit = "nobody said"
    if facts.asked_ms is not None:
        used = "" if facts.asked_ppm is None else f", of which {_percent(facts.asked_ppm)} was used"
        limit = f"{duration_text(facts.asked_ms)} per attempt{used}"
    return [
        f"job `{row.key}` of team `{facts.team}`, user {user_of(facts)}, {facts.job_class}",
        f"requested: {', '.join(requested)}",
        f"elapsed: {elapsed} in {screen.count(facts.attempts, 'attempt')}; time asked for: {limit}",
        *([statement.source.words] if statement.source.is_simulated else []),
    ]


def _used(ppm: int | None, more: str = "") -> str:
    """A share of what a job had of its hosts, as their cluster's accounting says."""
    return "unknown" if ppm is None else f"{_percent(ppm)}{more}"


def hosts(found: Efficiencies) -> Table | None:
    """What jobs used of their CPUs and memory, as `seff` tells it; None: nobody says."""
    some = [(row.key, row.facts) for row in found.rows if row.facts is not None]
    if all(one.host == host_use.NOTHING for _, one in some):
        return None
    made = screen.table(found.by, "CPUs", "CPU efficiency", "memory", "memory efficiency")
    for key, facts in some:
        cpus = UNKNOWN if facts.cpu_milli is None else milli_text(facts.cpu_milli)
        memory = UNKNOWN if facts.memory_mib is None else f"{facts.memory_mib / 1024:,.1f} GiB"
        used = facts.host
        made.add_row(key, cpus, _used(used.cpu_ppm), memory, _used(used.memory_ppm))
    return made


def parts(row: HeldRow) -> Table:
    """Every bucket of what one job held, with how it is known."""
    units = printed.units(row.account)
    usd = [rounded(amount, units.money) for amount in row.account.money]
    made = screen.table("where it went", "GPU-hours", "of hours held", "dollars", "known as")
    made.columns[4].justify = "left"
    made.add_row(
        "held", units.hours(rounded(row.held_milli_ms, units.hour)), "100.00 %",
        row.account.told(units.dollars(rounded(row.account.paid_money, units.money))),
        style="bold",
    )  # fmt: skip
    for bucket, about in ABOUT.items():
        if bucket not in ALLOCATED and not row.account.milli_ms[bucket]:
            continue
        figure = row.figure([bucket])
        if figure.milli_ms is None:
            made.add_row(f"  {about.title}", "", "unknown", "", row.unknown[bucket])
        elif figure.milli_ms or figure.confidence is not Confidence.UNKNOWN:
            made.add_row(
                f"  {about.title}", units.hours(rounded(figure.milli_ms, units.hour)),
                _percent(_ppm(row, figure)),
                row.account.told(units.dollars(usd[bucket]), bucket), figure.confidence,
            )  # fmt: skip
    return made


def use(row: HeldRow) -> str:
    """Occupancy and MFU of what one job held, how they are known, and which of them misleads."""
    busy, mfu = row.occupancy, row.mfu
    most = row.account.of({*OCCUPIED, Bucket.NOT_OBSERVED})
    at_most = _percent(rounded(most * ONE_PPM, max(1, row.held_milli_ms)))
    is_in_part = row.measured.is_busy_seen or row.account.milli_ms[Bucket.IDLE] > 0
    untold = f"nobody measured{' all of the time' * is_in_part} when its GPUs were busy"
    words = (
        f"at most {at_most} ({'not all was observed' if row.is_busy_told else untold})"
        if busy.milli_ms is None
        else f"{at_most} ({busy.confidence})"
    )
    sign = "at least " if row.is_lower_bound else ""
    known = (
        "unknown"
        if mfu.milli_ms is None
        else f"{sign}{_percent(_ppm(row, mfu))} ({mfu.confidence})"
    )
    found = row.misleading
    told = "" if found is None else f"; misleading here is {found.words}"
    return f"while it held them: occupancy {words}, MFU {known}{told}"


def attempts(statement: Statement, job: HeldRow, found: Sequence[HeldAttempt]) -> Table:
    """One row per attempt of a job; one that nobody saw come up did so at a time unknown."""
    made = screen.table(
        "attempt", "began", "came up after", "held for", "GPU-hours", "wasted", "useful", "ended",
        "nodes",
    )  # fmt: skip
    made.columns[1].justify = made.columns[7].justify = made.columns[8].justify = "left"
    made.columns[8].no_wrap = False
    units = printed.units_of(sum(sum(one.milli_ms) for one in found))
    for one in found:
        end_ms = statement.end_ms if one.end_ms is None else one.end_ms
        held = sum(one.milli_ms)
        up = "never" if one.up_ms is None else duration_text(one.up_ms - one.start_ms)
        made.add_row(
            f"{one.number}", statement.calendar.text(one.start_ms),
            up if job.is_up_told(one.start_ms, one.up_ms) else UNKNOWN,
            duration_text(end_ms - one.start_ms), units.hours(rounded(held, units.hour)),
            _wasted(job, one, held), _useful(one, held), _end(one), _named(one.nodes),
        )  # fmt: skip
    return made


def _wasted(job: HeldRow, one: HeldAttempt, held: int) -> str:
    """Wasted of what an attempt held: at least that where more of its job may be."""
    wasted = sum(one.milli_ms[bucket] for bucket in wasted_buckets())
    may_be_more = job.wasted.milli_ms is None or job.may_waste_more
    if may_be_more and not wasted:
        return UNKNOWN
    return ("≥ " if may_be_more else "") + _of(wasted, held)


def _useful(one: HeldAttempt, held: int) -> str:
    """Useful of what an attempt held: at least that where some is unknown."""
    unknown = sum(one.milli_ms[bucket] for bucket in worth_unknown())
    useful = one.milli_ms[Bucket.USEFUL]
    if unknown and not useful:
        return UNKNOWN
    return ("≥ " if unknown else "") + _of(useful, held)


def _end(one: HeldAttempt) -> str:
    return f"{one.outcome}: {Why(one.why).words}" if one.why else one.outcome


def _named(nodes: tuple[str, ...], most: int = 3) -> str:
    more = f" and {len(nodes) - most:,} more" if len(nodes) > most else ""
    return ", ".join(nodes[:most]) + more


def _of(part: int, whole: int) -> str:
    return _percent(rounded(part * ONE_PPM, whole)) if whole else ""


def _who(row: HeldRow, is_job: bool) -> tuple[str, ...]:
    if not is_job:
        return (f"{row.jobs:,}",)
    facts = row.facts
    if facts is None:
        return ("", "", "")
    elapsed = UNKNOWN if facts.elapsed_ms is None else duration_text(facts.elapsed_ms)
    used = UNKNOWN if facts.asked_ppm is None else f"{facts.asked_ppm / 10_000:.0f} %"
    return (user_of(facts), elapsed, used)


def _shares(row: HeldRow) -> list[str]:
    return [
        "≥ " * bool(figure.milli_ms and row.may_be_more(column.buckets)) + _share(row, figure)
        for column in COLUMNS
        for figure in [_figure(row, column)]
    ]


def _figure(row: HeldRow, column: _Column) -> HeldFigure:
    """What a column shows; how much is not known is always known."""
    if Bucket.UNKNOWN in column.buckets:
        return HeldFigure(row.account.of(column.buckets), Confidence.UNKNOWN)
    return row.figure(column.buckets)


def _share(row: HeldRow, figure: HeldFigure) -> str:
    if figure.milli_ms is None:
        return UNKNOWN
    if not figure.milli_ms and figure.confidence is Confidence.UNKNOWN:
        return "0.0"  # of what nobody knows there is nothing
    return f"{_ppm(row, figure) / 10_000:.1f} {MARKS[figure.confidence]}"


def _ppm(row: HeldRow, figure: HeldFigure) -> int:
    return rounded((figure.milli_ms or 0) * ONE_PPM, max(1, row.held_milli_ms))


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.2f} %"
