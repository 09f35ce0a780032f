"""The ledger as tables: lines from paid to useful, a tree, breakdowns, a difference."""

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tidemill.cli import screen, waits_tables
from tidemill.cli.suggested import located
from tidemill.ledger import leaks as leaking
from tidemill.ledger import ratios
from tidemill.ledger.account import DENOMINATOR, Account, rounded
from tidemill.ledger.buckets import ABOUT, ALLOCATED, GROUP_TITLES, NOT_PRODUCED, Bucket, Group
from tidemill.ledger.free import free, total
from tidemill.ledger.statement import Dimension, Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, dollars_text

CENT_MICRO = 10_000
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
    """The additive ledger: every line, and the total they add up to, in four units."""
    account = statement.total()
    made = screen.table(
        "where it went", "hours", "H100 hours", "dollars", "share", "owner", "known as"
    )
    made.columns[5].justify = made.columns[6].justify = "left"
    capable = account.h100_tenths_of_hours()
    columns = (account.tenths_of_hours(), capable or [], account.cents(), account.basis_points())
    total, able, money, share = (sum(column) for column in columns)
    made.add_row("paid", *_amounts(total, able if capable else None, money, share), style="bold")
    for bucket in Bucket:
        if bucket is Bucket.USEFUL and is_useful_unknown(account):
            made.add_row("  useful", "unknown", "", "", "", "workload", "unknown")
        elif account.milli_ms[bucket] or bucket is Bucket.USEFUL:
            total, able, money, share = (column[bucket] if column else 0 for column in columns)
            made.add_row(
                f"  {ABOUT[bucket].title}",
                *_amounts(total, able if capable else None, money, share),
                ABOUT[bucket].owner.name.lower(),
                statement.confidence(bucket),
                style="bold green" if bucket is Bucket.USEFUL else "",
            )
    return made


def _amounts(tenths: int, capable: int | None, money: int, points: int) -> tuple[str, ...]:
    known = "unknown" if capable is None else hours(capable)
    return (hours(tenths), known, cents(money), percent(points))


def is_useful_unknown(account: Account) -> bool:
    """Whether work was done but no job says how well: then useful is unknown, not zero."""
    return not account.milli_ms[Bucket.USEFUL] and account.milli_ms[Bucket.UNKNOWN] > 0


def unusable(statement: Statement) -> str | None:
    """What arrivals could not have used of what was free; None where nothing is to be said."""
    rows = free(statement)
    whole = None if rows is None else total(rows)
    if whole is None or not whole.unusable_milli_ms:
        return None
    free_hours = whole.free_milli_ms / MILLI_MS_PER_UNIT_HOUR
    share = whole.unusable_milli_ms / whole.free_milli_ms
    usd_micro = rounded(whole.unusable_money, DENOMINATOR)
    return (
        f"of {free_hours:,.1f} free accelerator-hours {share:.2%}"
        f" ({dollars_text(usd_micro)}) could not have been used by jobs like those that arrived"
        " (inferred; see `tidemill fleet`)"
    )


def footnote() -> str:
    """What this ledger cannot know yet."""
    names = ", ".join(ABOUT[bucket].title for bucket in NOT_PRODUCED)
    return f"not measured yet, so unknown rather than zero: {names}"


def tree(account: Account) -> Tree:
    """The ledger as a tree: stages, then buckets."""
    money, points = account.cents(), account.basis_points()
    root = Tree(screen.styled("[bold]paid[/]  {}", cents(sum(money))))
    for group in Group:
        inside = [b for b in Bucket if ABOUT[b].group is group and account.milli_ms[b]]
        if not inside:
            continue
        total, share = sum(money[b] for b in inside), sum(points[b] for b in inside)
        branch = root.add(_branch(GROUP_TITLES[group], total, share))
        if len(inside) > 1:
            for b in inside:
                branch.add(_branch(ABOUT[b].title, money[b], points[b]))
    return root


def _branch(title: str, money: int, points: int) -> Text:
    return screen.styled("{}  {}  [dim]{}[/]", title, cents(money), percent(points))


def breakdown(name: Dimension, statement: Statement, bucket: Bucket | None, most: int) -> Table:
    """One row a key: what it was paid, allocated and useful; or what it put into one bucket."""
    accounts = {_key(name, key, statement): row for key, row in statement.by(name).items()}
    rows = sorted(accounts.items(), key=lambda row: -_weight(row[1], bucket))
    if name == "time":
        rows = list(accounts.items())
    if bucket is not None:
        made = screen.table(name, "hours", "dollars", title=ABOUT[bucket].title)
        rows = [row for row in rows if row[1].milli_ms[bucket]]
        for key, account in rows[:most]:
            made.add_row(key, hours(account.tenths_of_hours()[bucket]),
                         cents(account.cents()[bucket]))  # fmt: skip
    else:
        made = screen.table(name, "hours", "dollars", "allocated", "useful", "$ per useful hour")
        for key, account in rows[:most]:
            made.add_row(*_row(key, account))
    if len(rows) > most:
        made.add_row(screen.styled("[dim]… and {} more (--most)[/]", f"{len(rows) - most:,}"))
    return made


def summary(statement: Statement) -> list[str]:
    """The headline: the question and its answer in numbers."""
    account = statement.total()
    point = ratios.idle_point_usd_micro_per_year(account, statement.end_ms - statement.start_ms)
    answer = [UNKNOWN_USEFUL] if is_useful_unknown(account) else _useful(account)
    idle = f"one idle percentage point of this fleet costs {dollars_text(point, 0)} a year"
    return [*answer, _utilisation(account), waits_tables.line(statement), idle]


def _useful(account: Account) -> list[str]:
    goodput = ratios.goodput(account)
    paid, useful = (
        ratios.usd_micro_per_paid_hour(account),
        ratios.usd_micro_per_useful_hour(account),
    )
    words = "at least " if goodput.is_lower_bound else ""
    words += f"{float(goodput.overall):.2%} of what was paid"
    if paid is not None and useful is not None:
        words += f"; an hour costs {dollars_text(paid)}, a useful hour {dollars_text(useful)}"
    steps = (
        f"goodput: scheduling {float(goodput.scheduling):.1%}"
        f" × runtime {float(goodput.runtime):.1%} × program {float(goodput.program):.1%}"
    )
    return [f"useful: {words}", steps]


def _utilisation(account: Account) -> str:
    seen = ratios.utilisation(account)
    known = f"allocation {float(seen.allocation):.1%}, occupancy {float(seen.occupancy):.1%}"
    if is_useful_unknown(account):
        return f"utilisation: {known}, MFU unknown"
    return f"utilisation: {known}, MFU {float(seen.mfu):.1%}; misleading here is {seen.misleading}"


def fixes(statement: Statement, journal: str, most: int = 6) -> Text:
    """What to do first: predicted wins, then what to measure about the largest leaks."""
    made = Text("what to do first", style="bold")
    made.append(" (predicted, not replayed; `tidemill advise SPEC` replays each)", style="not bold")
    for number, remedy in enumerate(leaking.remedies(statement, most), 1):
        made.append(f"\n{number}. ", style="not bold")
        made.append(_headline(remedy), style="not bold")
        for line in _details(remedy, journal):
            made.append(f"\n   {line}", style="not bold dim")
    return made


def _headline(remedy: leaking.Remedy) -> str:
    leak, fix, wins = remedy
    of = f"{ABOUT[leak.bucket].title}, {dollars_text(leak.usd_micro, 0)}"
    won = "no win predicted" if wins is None else f"wins {dollars_text(wins, 0)}"
    return f"{fix.words} ({won}; {of})"


def _details(remedy: leaking.Remedy, journal: str) -> list[str]:
    fix = remedy.fix
    typed = [f"type: {edit.text}" for edit in fix.edits]
    measured = [] if typed else [f"measure first: {located(fix.measure, journal)}"]
    return [*typed, f"because: {fix.evidence}", f"costs: {fix.costs}", *measured]


def _weight(account: Account, bucket: Bucket | None) -> int:
    return account.milli_ms[bucket] if bucket is not None else account.paid_milli_ms


def _row(key: str, account: Account) -> tuple[str, ...]:
    useful = ratios.usd_micro_per_useful_hour(account)
    paid = max(1, account.paid_milli_ms)
    return (
        key, hours(sum(account.tenths_of_hours())), cents(sum(account.cents())),
        percent(account.of(ALLOCATED) * 10_000 // paid),
        percent(account.milli_ms[Bucket.USEFUL] * 10_000 // paid),
        dollars_text(useful) if useful is not None else "—",
    )  # fmt: skip


def _key(name: Dimension, key: str, statement: Statement) -> str:
    return statement.calendar.text(int(key)) if name == "time" else key
