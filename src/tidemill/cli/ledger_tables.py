"""The ledger as tables: lines from paid to useful, a tree, breakdowns, a difference."""

from typing import NamedTuple

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tidemill.cli import screen, waits_tables
from tidemill.cli.suggested import located
from tidemill.ledger import leaks as leaking
from tidemill.ledger import pricing, ratios
from tidemill.ledger.account import CENT_MICRO, DENOMINATOR, Account, added, divided, rounded
from tidemill.ledger.buckets import ABOUT, ALLOCATED, GROUP_TITLES, Bucket, Stage
from tidemill.ledger.free import free, total
from tidemill.ledger.statement import Dimension, Statement
from tidemill.ledger.unknowns import is_busy_told, is_useful_unknown, known_ways, unknowns_of
from tidemill.model import names
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text, share_out

UNKNOWN_USEFUL = "useful: unknown, because no job says how efficient it was (report step times)"


def hours(tenths: int) -> str:
    """Tenths of accelerator-hours, printed."""
    sign = "-" if tenths < 0 else ""
    return f"{sign}{abs(tenths) // 10:,}.{abs(tenths) % 10}"


def cents(amount: int) -> str:
    """Cents, printed as dollars."""
    return dollars_text(amount * CENT_MICRO)


def percent(points: int) -> str:
    """Basis points, printed as percent."""
    sign = "-" if points < 0 else ""
    return f"{sign}{abs(points) // 100}.{abs(points) % 100:02d} %"


def print_ledger(statement: Statement, as_tree: bool = False) -> None:
    """The ledger and its summary, as every command shows them."""
    console = screen.out()
    console.print(tree(statement.total()) if as_tree else lines(statement))
    for line in summary(statement):
        console.print(line)


def lines(statement: Statement) -> Table:
    """The additive ledger: every line, and the totals they add up to, in three units."""
    account = statement.total()
    made = screen.table(
        "where it went", "hours", "of hours", "H100 hours", "dollars", "of dollars",
        "owner", "known as",
    )  # fmt: skip
    made.columns[6].justify = made.columns[7].justify = "left"
    columns = (
        account.tenths_of_hours(), account.basis_points(), account.h100_tenths_of_hours(),
        account.cents(), account.dollar_points(),
    )  # fmt: skip
    paid = _amounts([c and sum(c) for c in columns])
    made.add_row("paid", *_told(account, paid), style="bold")
    for bucket in ABOUT:
        if bucket == Bucket.USEFUL and is_useful_unknown(account):
            made.add_row("  useful", "unknown", "", "", "", "", "workload", "unknown")
        elif account.milli_ms[bucket] or bucket == Bucket.USEFUL:
            made.add_row(
                f"  {ABOUT[bucket].title}",
                *_told(account, _amounts([c and c[bucket] for c in columns]), bucket),
                ABOUT[bucket].owner.name.lower(),
                statement.confidence(bucket),
                style="bold green" if bucket == Bucket.USEFUL else "",
            )
    return made


def _amounts(amounts: "list[int | list[int] | None]") -> tuple[str, ...]:
    """Tenths of hours, basis points, tenths of H100 hours, cents, basis points."""
    shown = (hours, percent, hours, cents, percent)
    absent = ("", "", "unknown", "", "—")  # capability of an unknown kind; a share of no dollars
    return tuple(
        show(amount) if isinstance(amount, int) else instead
        for show, amount, instead in zip(shown, amounts, absent, strict=True)
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
    free_hours = whole.free_milli_ms / MILLI_MS_PER_UNIT_HOUR
    share = whole.unusable_milli_ms / whole.free_milli_ms
    usd_micro = rounded(whole.unusable_money, DENOMINATOR) if whole.is_priced else None
    cost = "" if usd_micro is None else f" (it cost {dollars_text(usd_micro)})"
    return (
        f"of {free_hours:,.1f} free accelerator-hours {share:.2%}"
        f" of the time{cost} could not have been used by jobs like"
        " those that arrived (inferred; see `tidemill fleet`)"
    )


def footnote(statement: Statement) -> str:
    """What this ledger cannot know."""
    found = unknowns_of(statement)
    names = ", ".join(ABOUT[bucket].title for bucket in found)
    return f"not measured, so unknown rather than zero: {names}"


def tree(account: Account) -> Tree:
    """The ledger as a tree: stages, then buckets."""
    money, points = account.cents(), account.basis_points()
    root = Tree(screen.styled("[bold]paid[/]  {}", account.told(cents(sum(money)))))
    for group in Stage:
        inside = [b for b in ABOUT if ABOUT[b].group is group and account.milli_ms[b]]
        if not inside:
            continue
        share = sum(points[b] for b in inside)
        cost = cents(sum(money[b] for b in inside))
        branch = root.add(_branch(GROUP_TITLES[group], account.told_of(cost, inside), share))
        if len(inside) > 1:
            for b in inside:
                cost = account.told(cents(money[b]), b)
                branch.add(_branch(ABOUT[b].title, cost, points[b]))
    return root


def _branch(title: str, cost: str, points: int) -> Text:
    return screen.styled("{}  {}  [dim]{}[/]", title, cost, percent(points))


def breakdown(name: Dimension, statement: Statement, bucket: int | None, most: int) -> Table:
    """One row per key and one for the rest: they add up to the total, as the ledger prints it."""
    accounts = {_key(name, key, statement): row for key, row in statement.by(name).items()}
    total = statement.total()
    columns = zip(*_columns(total, [*accounts.values()], bucket), strict=True)
    rows = [
        _PrintedRow(key, account, *amounts)
        for (key, account), amounts in zip(accounts.items(), columns, strict=True)
        if bucket is None or account.milli_ms[bucket]
    ]
    if name != "time":
        rows.sort(key=lambda row: -_weight(row.account, bucket))
    shown = [*rows[:most], *_rest(rows[most:])]
    if bucket is not None:
        made = screen.table(name, "hours", "dollars", title=ABOUT[bucket].title)
    else:
        made = screen.table(name, "hours", "dollars", "allocated", "useful", "$ per useful hour")
    for row in shown:
        cost = row.account.told(cents(row.cents), bucket)
        made.add_row(row.key, hours(row.tenths), cost, *_shares(row.account, bucket))
    paid = total.told(cents(sum(row.cents for row in shown)), bucket)
    summed = (hours(sum(row.tenths for row in shown)), paid)
    made.add_row("paid" if bucket is None else "total", *summed, *_shares(total, bucket),
                 style="bold")  # fmt: skip
    return made


class _PrintedRow(NamedTuple):
    """A key of a breakdown and what is printed of it: tenths of hours, and cents."""

    key: str
    account: Account
    tenths: int
    cents: int


def _rest(rows: list[_PrintedRow]) -> list[_PrintedRow]:
    """What is not shown by itself, as one row."""
    if not rows:
        return []
    account = added(row.account for row in rows)
    amounts = sum(row.tenths for row in rows), sum(row.cents for row in rows)
    return [_PrintedRow(f"… and {len(rows):,} more (--most)", account, *amounts)]


def _columns(
    total: Account, parts: list[Account], bucket: int | None
) -> tuple[list[int], list[int]]:
    """Tenths of hours and cents of each part, divided so that they add up to the total's."""
    if bucket is None:
        time = [account.paid_milli_ms for account in parts]
        tenths = sum(total.tenths_of_hours())
        return share_out(tenths, time), divided(total, parts, CENT_MICRO)
    time = [account.milli_ms[bucket] for account in parts]
    money = [account.money[bucket] for account in parts]
    tenths, paid = total.tenths_of_hours()[bucket], total.cents()[bucket]
    return share_out(tenths, time), share_out(paid, money)


def _shares(account: Account, bucket: int | None) -> tuple[str, ...]:
    """Allocated and useful of the hours, and what a useful hour costs."""
    if bucket is not None:
        return ()
    paid, useful = max(1, account.paid_milli_ms), ratios.usd_micro_per_useful_hour(account)
    return (
        percent(account.of(ALLOCATED) * 10_000 // paid),
        useful_share(account),
        dollars_text(useful) if useful is not None else "—",
    )


def useful_share(account: Account) -> str:
    """Useful of the hours: at least that where some efficiency is unknown, unknown where all is."""
    if is_useful_unknown(account):
        return "unknown"
    share = percent(account.milli_ms[Bucket.USEFUL] * 10_000 // max(1, account.paid_milli_ms))
    return f"≥ {share}" if ratios.goodput(account).is_lower_bound else share


def summary(statement: Statement) -> list[str]:
    """The headline: the question and its answer in numbers."""
    account = statement.total()
    point = ratios.idle_point_usd_micro_per_year(account, statement.end_ms - statement.start_ms)
    answer = [UNKNOWN_USEFUL] if is_useful_unknown(account) else _useful(account)
    made = [*answer, _utilisation(statement), waits_tables.line(statement)]
    if point is not None:
        cost = account.told(dollars_text(point, 0))
        made.append(f"one idle percentage point of this fleet costs {cost} a year")
    made += pricing.words(statement)
    return [*made, statement.source.words] if statement.source.is_simulated else made


def _useful(account: Account) -> list[str]:
    goodput = ratios.goodput(account)
    assert goodput.program is not None, "known, or there would be nothing to say"
    paid, useful = (
        ratios.usd_micro_per_paid_hour(account),
        ratios.usd_micro_per_useful_hour(account),
    )
    words = "at least " if goodput.is_lower_bound else ""
    words += f"{percent(account.basis_points()[Bucket.USEFUL])} of the hours paid for"
    points = account.dollar_points()
    if points is not None:
        words += f", {percent(points[Bucket.USEFUL])} of the dollars"
    if paid is not None and useful is not None:
        at_most = "at most " if goodput.is_lower_bound else ""
        words += f"; an hour costs {dollars_text(paid)}, a useful hour {at_most}"
        words += dollars_text(useful)
    steps = (
        f"goodput (of hours): scheduling {float(goodput.scheduling):.1%}"
        f" × runtime {float(goodput.runtime):.1%}"
        f" × program {'≥ ' * goodput.is_lower_bound}{float(goodput.program):.1%}"
    )
    return [f"useful: {words}", steps]


def _utilisation(statement: Statement) -> str:
    """All three of the hours paid for, how each is known, and which of them misleads."""
    account, known = statement.total(), known_ways(statement)
    seen = ratios.utilisation(account)
    allocation = f"allocation {float(seen.allocation):.1%} ({known.allocation})"
    occupancy = f"occupancy {float(seen.occupancy):.1%} ({known.occupancy})"
    if not is_busy_told(statement):
        occupancy = f"occupancy ≤ {float(seen.occupancy):.1%} (not measured for all jobs)"
    mark = "≥ " if ratios.goodput(account).is_lower_bound else ""
    mfu = "unknown" if seen.mfu is None else f"{mark}{float(seen.mfu):.1%} ({known.mfu})"
    words = f"utilisation (of hours): {allocation}, {occupancy}, MFU {mfu}"
    found = ratios.misleading(account)
    return words if found is None else f"{words}; misleading here is {found.words}"


def fixes(statement: Statement, journal: str, most: int = 6) -> Text:
    """What to do first: predicted wins, then what to measure about the largest leaks."""
    if statement.past is not None:
        since = statement.calendar.text(statement.read_from_ms)
        return Text(f"before {since}: from hourly books, in which there are no single jobs; what to"
                    " do first is told of windows that begin later")  # fmt: skip
    made = Text("what to do first", style="bold")
    how = "predicted, not replayed"
    if statement.source.is_simulated:
        how += "; `tidemill advise SPEC` replays each"
    made.append(f" ({how})", style="not bold")
    for number, remedy in enumerate(leaking.remedies(statement, most), 1):
        made.append(f"\n{number}. ", style="not bold")
        made.append(names.visible(_headline(remedy), one_line=True), style="not bold")
        for line in _details(remedy, journal):
            shown = names.visible(line, one_line=True)
            made.append(f"\n   {shown}", style="not bold dim")
    return made


def _headline(remedy: leaking.LeakRemedy) -> str:
    leak, fix, wins = remedy
    of = f"{ABOUT[leak.bucket].title}, {leak.cost}"
    won = "no win predicted" if wins is None else f"wins {dollars_text(wins, 0)}"
    return f"{fix.words} ({won}; {of})"


def _details(remedy: leaking.LeakRemedy, journal: str) -> list[str]:
    fix = remedy.fix
    typed = [f"type: {edit.text}" for edit in fix.edits]
    measured = [] if typed else [f"measure first: {located(fix.measure, journal)}"]
    return [*typed, f"because: {fix.evidence}", f"costs: {fix.costs}", *measured]


def _weight(account: Account, bucket: int | None) -> int:
    return account.milli_ms[bucket] if bucket is not None else account.paid_milli_ms


def _key(name: Dimension, key: str, statement: Statement) -> str:
    return statement.calendar.text(int(key)) if name == "time" else key


def print_alarms(statement: Statement) -> None:
    """The jobs that were preempted too often in the window."""
    names = statement.world.job_names
    screen.alarms([(names[j], text) for j, text in statement.alarms.items()])
