"""The ledger as tables: lines from paid to useful, a tree, breakdowns, a difference."""

from fractions import Fraction
from typing import NamedTuple

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tidemill.cli import screen, waits_tables
from tidemill.cli.suggested import located
from tidemill.journal.source import Source
from tidemill.ledger import leaks as leaking
from tidemill.ledger import missing, pricing, printed, ratios
from tidemill.ledger.account import (
    DENOMINATOR,
    Account,
    added,
    divided,
    rounded,
    shown,
    shown_with_parts,
)
from tidemill.ledger.buckets import ABOUT, ALLOCATED, GROUP_TITLES, Bucket, Stage
from tidemill.ledger.free import free, total
from tidemill.ledger.statement import Dimension, Statement
from tidemill.ledger.unknowns import (
    is_all_listed,
    is_busy_told,
    is_loss_told,
    is_useful_unknown,
    is_work_seen,
    known_ways,
    unknowns_of,
)
from tidemill.model import names
from tidemill.model.measures import MINUTE_MS, dollars_text, duration_text
from tidemill.model.states import Confidence

NOTHING_YET = (
    "nothing to tell yet: no time passed in these books, so what is paid for, what it costs and how"
    " well it is used are unknown"
)
UNKNOWN_USEFUL = "useful: unknown, because nobody says how efficient the work was that lasted"
UNSEEN_USEFUL = "useful: unknown, because nobody was seen to work, and"


def percent(points: int) -> str:
    """Basis points, printed as percent."""
    sign = "-" if points < 0 else ""
    return f"{sign}{abs(points) // 100}.{abs(points) % 100:02d} %"


def print_ledger(statement: Statement, as_tree: bool = False) -> None:
    """The ledger and its summary, as every command shows them."""
    console = screen.out()
    if not statement.total().paid_milli_ms:
        console.print(NOTHING_YET)
        return
    console.print(tree(statement.total()) if as_tree else lines(statement))
    for line in summary(statement):
        console.print(line)
    if statement.others_waited_ms and statement.total().milli_ms[Bucket.NO_DEMAND]:
        waited = duration_text(statement.others_waited_ms)
        console.print(
            f"for {waited} pods waited for other schedulers, in no queue here: what was free then"
            " may have had demand"
        )

    if statement.unadvertised and statement.total().milli_ms[Bucket.NO_DEMAND]:
        many = screen.count(statement.unadvertised, "GPU")
        console.print(
            f"{many} of nodes that take work are not advertised; since when nobody says: what was"
            " free in these hours is at most what it seems"
        )


def lines(statement: Statement) -> Table:
    """The additive ledger: every line, and the totals they add up to, in three units."""
    account = statement.total()
    made = screen.table(
        "where it went", "hours", "of hours", "H100 hours", "dollars", "of dollars",
        "owner", "known as",
    )  # fmt: skip
    made.columns[6].justify = made.columns[7].justify = "left"
    units = printed.units(account)
    columns = (
        account.hours_in(units.hour), account.basis_points(), account.h100_hours_in(units.hour),
        account.in_units(units.usd_micro), account.dollar_points(),
    )  # fmt: skip
    paid = _amounts([c and sum(c) for c in columns], units)
    made.add_row("paid", *_told(account, paid), style="bold")
    for bucket in ABOUT:
        if bucket == Bucket.USEFUL and is_useful_unknown(account):
            made.add_row("  useful", "unknown", "", "", "", "", "workload", "unknown")
        elif account.milli_ms[bucket] or bucket == Bucket.USEFUL:
            made.add_row(
                f"  {ABOUT[bucket].title}",
                *_told(account, _amounts([c and c[bucket] for c in columns], units), bucket),
                ABOUT[bucket].owner.name.lower(),
                statement.confidence(bucket),
                style="bold green" if bucket == Bucket.USEFUL else "",
            )
    return made


def _amounts(amounts: "list[int | list[int] | None]", units: printed.Units) -> tuple[str, ...]:
    """Hours, basis points, H100 hours, dollars, basis points."""
    forms = (units.hours, percent, units.hours, units.dollars, percent)
    absent = ("", "", "unknown", "", "—")  # capability of an unknown kind; a share of no dollars
    return tuple(
        show(amount) if isinstance(amount, int) else instead
        for show, amount, instead in zip(forms, amounts, absent, strict=True)
    )


def _told(account: Account, amounts: tuple[str, ...], bucket: int | None = None) -> tuple[str, ...]:
    """The same with dollars that are unknown, or known in part, said so."""
    *time, usd, share = amounts
    is_known = account.has_price(bucket)
    return (*time, account.told(usd, bucket), share if is_known else "—")


def unusable(statement: Statement) -> str | None:
    """What arrivals could not have used of what was free; None where nothing is to be said."""
    rows = free(statement)
    whole = None if rows is None else total(rows)
    if whole is None or not whole.unusable_milli_ms:
        return None
    units = printed.units_of(whole.free_milli_ms)
    unused, free_hours = (
        units.hours(rounded(milli_ms, units.hour))
        for milli_ms in (whole.unusable_milli_ms, whole.free_milli_ms)
    )
    share = whole.unusable_milli_ms / whole.free_milli_ms
    usd_micro = rounded(whole.unusable_money, DENOMINATOR) if whole.is_priced else None
    cost = "" if usd_micro is None else f", {dollars_text(usd_micro)}"
    return (
        f"jobs like those that arrived could not have used {unused} of the {free_hours}"
        f" accelerator-hours that were free ({share:.2%}{cost}; inferred, see `tidemill fleet`)"
    )


def footnote(statement: Statement) -> str:
    """What this ledger cannot know."""
    found = unknowns_of(statement)
    names = "; ".join(ABOUT[bucket].title for bucket in found)
    return f"not measured, so unknown rather than zero: {names}"


def tree(account: Account) -> Tree:
    """The ledger as a tree: stages, then buckets."""
    units, points = printed.units(account), account.basis_points()
    money = account.in_units(units.usd_micro)
    root = Tree(screen.styled("[bold]paid[/]  {}", account.told(units.dollars(sum(money)))))
    for group in Stage:
        inside = [b for b in ABOUT if ABOUT[b].group is group and account.milli_ms[b]]
        if not inside:
            continue
        share = sum(points[b] for b in inside)
        cost = units.dollars(sum(money[b] for b in inside))
        branch = root.add(_branch(GROUP_TITLES[group], account.told_of(cost, inside), share))
        if len(inside) > 1:
            for b in inside:
                cost = account.told(units.dollars(money[b]), b)
                branch.add(_branch(ABOUT[b].title, cost, points[b]))
    return root


def _branch(title: str, cost: str, points: int) -> Text:
    return screen.styled("{}  {}  [dim]{}[/]", title, cost, percent(points))


def breakdown(name: Dimension, statement: Statement, bucket: int | None, most: int) -> Table:
    """One row per key and one for the rest: they add up to the total, as the ledger prints it."""
    accounts = statement.by(name)
    total = statement.total()
    units = printed.units(total)
    columns = zip(*_columns(total, [*accounts.values()], bucket, units), strict=True)
    rows = [
        _PrintedRow(_key(name, key, statement), account, *amounts)
        for (key, account), amounts in zip(accounts.items(), columns, strict=True)
        if bucket is None or account.milli_ms[bucket]
    ]
    if name != "time":
        rows.sort(key=lambda row: -_weight(row.account, bucket))
    listed = [*rows[:most], *_rest(rows[most:])]
    if bucket is not None:
        made = screen.table(name, "hours", "dollars", title=ABOUT[bucket].title)
    else:
        made = screen.table(
            name, "hours held", "hours", "dollars", "allocated", "useful", "$ per useful hour"
        )
    for row in [*listed, _summed("paid" if bucket is None else "total", listed, total)]:
        held = () if bucket is not None else (units.hours(row.held),)
        cost = row.account.told(units.dollars(row.money), bucket)
        hours = units.hours(row.time)
        if not row.time and bucket in unknowns_of(statement):
            hours = cost = "unknown"
        made.add_row(row.key, *held, hours, cost, *_shares(row.account, bucket))
    made.rows[-1].style = "bold"
    return made


class _PrintedRow(NamedTuple):
    """A key of a breakdown and what is printed of it, in the units of the table."""

    key: str
    account: Account
    held: int
    time: int
    money: int


def _rest(rows: list[_PrintedRow]) -> list[_PrintedRow]:
    """What is not shown by itself, as one row."""
    if not rows:
        return []
    account = added(row.account for row in rows)
    return [_summed(f"… and {len(rows):,} more (--most)", rows, account)]


def _summed(key: str, rows: list[_PrintedRow], account: Account) -> _PrintedRow:
    """A row for all of these, with the sums of what is printed of them."""
    return _PrintedRow(
        key, account, sum(row.held for row in rows), sum(row.time for row in rows),
        sum(row.money for row in rows),
    )  # fmt: skip


def _columns(
    total: Account, parts: list[Account], bucket: int | None, units: printed.Units
) -> tuple[list[int], list[int], list[int]]:
    """What each part held, its hours and its dollars, so that they add up to the total's."""
    if bucket is None:
        paid_for = [account.paid_milli_ms for account in parts]
        allocated = [account.of(ALLOCATED) for account in parts]
        time, held = shown_with_parts(paid_for, allocated, units.hour)
        return held, time, divided(total, parts, units.usd_micro)
    hours, paid = total.hours_in(units.hour)[bucket], total.in_units(units.usd_micro)[bucket]
    time = shown([account.milli_ms[bucket] for account in parts], units.hour, hours)
    money = shown([account.money[bucket] for account in parts], units.money, paid)
    return time, time, money


def _shares(account: Account, bucket: int | None) -> tuple[str, ...]:
    """Allocated and useful of the hours, and what a useful hour costs."""
    if bucket is not None:
        return ()
    seen, useful = ratios.utilisation(account), ratios.usd_micro_per_useful_hour(account)
    return (
        ratios.between(seen.allocation, seen.allocation_most, _percent),
        useful_share(account),
        "—" if useful is None else _as_known(account, dollars_text(useful), "≤ "),
    )


def _percent(ratio: Fraction) -> str:
    return percent(rounded(ratio.numerator * 10_000, ratio.denominator))


def useful_share(account: Account) -> str:
    """Useful of the hours: at least that where some efficiency is unknown, unknown where all is."""
    if is_useful_unknown(account):
        return "unknown"
    points = rounded(account.milli_ms[Bucket.USEFUL] * 10_000, max(1, account.paid_milli_ms))
    return _as_known(account, percent(points), "≥ ")


def _as_known(account: Account, text: str, bound: str) -> str:
    """A figure that rests on what was useful: bounded where that is, assumed where that is."""
    found = ratios.goodput(account)
    return bound * found.is_lower_bound + text + found.assumed


def summary(statement: Statement) -> list[str]:
    """The headline: the question and its answer in numbers."""
    account = statement.total()
    point = ratios.idle_point_usd_micro_per_year(account, statement.end_ms - statement.start_ms)
    answer = [_no_useful(statement)] if is_useful_unknown(account) else _useful(statement)
    made = [*answer, _utilisation(statement), waits_tables.line(statement)]
    if point is not None:
        cost = account.told(dollars_text(point, 0))
        made.append(f"one idle percentage point of this fleet costs {cost} a year")
    made += pricing.words(statement)
    return [*made, statement.source.words] if statement.source.is_simulated else made


def _no_useful(statement: Statement) -> str:
    """Why nobody knows what was useful, and what to do."""
    if not is_work_seen(statement.total()):
        unseen = ratios.utilisation(statement.total()).not_observed
        return f"{UNSEEN_USEFUL} {float(unseen):.1%} of the hours were not observed"
    advice = missing.words(statement) if statement.world.is_observed else "report step times"
    return f"{UNKNOWN_USEFUL} ({advice})" if advice else UNKNOWN_USEFUL


def _useful(statement: Statement) -> list[str]:
    account = statement.total()
    goodput = ratios.goodput(account)
    assert goodput.program is not None, "known, or there would be nothing to say"
    assert goodput.runtime is not None, "as work was seen"
    paid, useful = (
        ratios.usd_micro_per_paid_hour(account),
        ratios.usd_micro_per_useful_hour(account),
    )
    share = f"{percent(account.basis_points()[Bucket.USEFUL])} of the hours paid for"
    points = account.dollar_points()
    if points is not None:
        share += f" and {percent(points[Bucket.USEFUL])} of the dollars"
    words = _as_known(account, share, "at least ")
    if paid is not None and useful is not None:
        words += f"; an hour costs {dollars_text(paid)}, a useful hour"
        words += f" {_as_known(account, dollars_text(useful), 'at most ')}"
    program = "≥ " * goodput.is_program_bound + _tenths(goodput.program)
    program = f"program {program}{goodput.assumed}"
    scheduling = ratios.between(goodput.scheduling, goodput.scheduling_most, _tenths)
    after = "; what comes after scheduling, of those observed" * (goodput.not_observed > 0)
    steps = (
        f"goodput (of hours{after}): scheduling {scheduling}"
        f" × runtime {_runtime(statement, goodput.runtime)}"
        f" × {program if goodput.runtime else 'program: nothing worked'}"
    )
    return [f"useful: {words}", steps]


def _runtime(statement: Statement, ratio: Fraction) -> str:
    """At most that where not all that was lost is known; unknown where none of it is."""
    if is_loss_told(statement):
        return _tenths(ratio)
    return "unknown" if ratio == 1 else f"≤ {float(ratio):.1%}"


def _tenths(ratio: Fraction) -> str:
    return f"{float(ratio):.1%}"


def _utilisation(statement: Statement) -> str:
    """All three of the hours paid for, how each is known, and which of them misleads."""
    account, known = statement.total(), known_ways(statement)
    seen = ratios.utilisation(account)
    unseen = f"{float(seen.not_observed):.1%} not observed" if seen.not_observed else ""
    share = ratios.between(seen.allocation, seen.allocation_most, _tenths)
    allocation = f"allocation {share} ({unseen or known.allocation})"
    if not is_all_listed(statement):
        allocation = f"allocation ≤ {_tenths(seen.allocation_most)} (not all nodes are listed)"
    share = ratios.between(seen.occupancy, seen.occupancy_most, _tenths)
    occupancy = f"occupancy {share} ({unseen or known.occupancy})"
    if not is_busy_told(statement):
        occupancy = f"occupancy ≤ {_tenths(seen.occupancy_most)} (not measured for all jobs)"
    goodput = ratios.goodput(account)
    mark, way = "≥ " * goodput.is_lower_bound, str(known.mfu)
    if known.mfu is not Confidence.ASSUMED:  # most of it is known so; some may not be
        way += goodput.assumed
    mfu = "unknown" if seen.mfu is None else f"{mark}{float(seen.mfu):.1%} ({way})"
    words = f"utilisation (of hours): {allocation}, {occupancy}, MFU {mfu}"
    found = ratios.misleading(account)
    return words if found is None else f"{words}; misleading here is {found.words}"


def fixes(statement: Statement, journal: str, most: int = 6) -> Text:
    """What to do first: predicted wins, then what to measure about the largest leaks."""
    if statement.past is not None:
        since = statement.calendar.text(statement.read_from_ms)
        return Text(f"before {since}: from hourly books, in which there are no single jobs; what to"
                    " do first is told of windows that begin later")  # fmt: skip
    if not statement.total().paid_milli_ms:
        return Text("what to do first: import or observe again when jobs have run for some time")
    made = Text("what to do first", style="bold")
    how = "predicted, not replayed"
    if statement.world.is_observed:
        how = "advice; what it wins shows when it is done"
    if statement.source.is_simulated and statement.source is not Source.SHADOW:
        how += "; `tidemill advise SPEC` replays each"
    made.append(f" ({how})", style="not bold")
    for number, remedy in enumerate(leaking.remedies(statement, most), 1):
        made.append(f"\n{number}. ", style="not bold")
        headline = _headline(remedy, is_advice=statement.world.is_observed)
        made.append(names.visible(headline, one_line=True), style="not bold")
        for line in _details(remedy, journal):
            shown = names.visible(line, one_line=True)
            made.append(f"\n   {shown}", style="not bold dim")
    return made


def _headline(remedy: leaking.LeakRemedy, *, is_advice: bool) -> str:
    leak, fix, wins, part = remedy
    of = f"{ABOUT[leak.bucket].title}, {leak.cost}"
    if wins is None and is_advice:
        return f"{fix.words} ({of})"
    won = "no win predicted" if wins is None else f"wins {printed.about_usd(wins)}"
    won += f", no more than {part} alone" if part else ""
    return f"{fix.words} ({won}; {of})"


def _details(remedy: leaking.LeakRemedy, journal: str) -> list[str]:
    fix = remedy.fix
    typed = [f"type: {edit.text}" for edit in fix.edits]
    measured = [] if typed else [f"measure first: {located(fix.measure, journal)}"]
    return [*typed, f"because: {fix.evidence}", f"costs: {fix.costs}", *measured]


def _weight(account: Account, bucket: int | None) -> int:
    return account.milli_ms[bucket] if bucket is not None else account.paid_milli_ms


def _key(name: Dimension, key: str, statement: Statement) -> str:
    if name != "time":
        return key
    return statement.calendar.text(int(key), with_seconds=statement.bin_ms % MINUTE_MS != 0)


def print_alarms(statement: Statement) -> None:
    """The jobs that were preempted too often in the window."""
    names = statement.world.job_names
    screen.alarms([(names[j], text) for j, text in statement.alarms.items()])
