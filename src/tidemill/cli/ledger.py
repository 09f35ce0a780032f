"""``tidemill ledger``: where every paid millisecond went."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS

if TYPE_CHECKING:
    from tidemill.ledger.schema import LendingPart
    from tidemill.ledger.statement import Dimension, Statement
    from tidemill.ledger.waits import WaitDimension

app = typer.Typer(
    help="Where every paid millisecond went: paid, down to useful.",
    epilog=options.example(
        "tidemill ledger out/demo.sqlite",
        "tidemill ledger --by team",
        "tidemill ledger --bucket idle --by job",
        "tidemill ledger --waits --by user",
        "tidemill ledger --top 10",
        "tidemill ledger --from 7d --to 14d --previous",
        "tidemill ledger --by team --csv > teams.csv",
        "tidemill ledger --lending",
        "tidemill ledger --from 2d --to 3d --json",
        "tidemill ledger diff before.sqlite after.sqlite",
    ),
    cls=options.JournalGroup,
    subcommand_metavar="[JOURNAL] | diff A B",
    invoke_without_command=True,
)

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        help="Break down by team, user, pool, contract, kind (GPU type), class, job or time.",
    ),
]
Bucket = Annotated[
    str | None, typer.Option("--bucket", help="Only this bucket, such as idle or rework.")
]


@app.callback()
@options.takes_journal_before_commands
def ledger(
    context: typer.Context,
    journal: options.Journal = options.DEFAULT_JOURNAL,
    by: By = None,
    bucket: Bucket = None,
    start: options.Start = None,
    end: options.End = None,
    bins: Annotated[
        str | None, typer.Option("--bins", help="Width of time bins for --by time, such as 6h.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Most rows of a breakdown.")] = 20,
    as_tree: Annotated[bool, typer.Option("--tree", help="Show stages and their parts.")] = False,
    lending: Annotated[
        bool, typer.Option("--lending", help="Who lent what to whom, and idle guarantees.")
    ] = False,
    waits: Annotated[
        bool,
        typer.Option("--waits", help="How long jobs waited; --by team, user, size, class, kind."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, help="List this many jobs that wasted the most dollars."),
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", help="Compare with the window of this length before it.")
    ] = False,
    as_csv: options.Csv = False,
    as_json: options.Json = False,
) -> None:
    """Where every paid millisecond went: paid, down to useful."""
    if context.invoked_subcommand is not None:
        return
    asked = _Asked(by, bucket, start, end, waits, top, lending, previous, as_json, as_csv)
    asked.refuse_contradictions()
    if previous:
        _print_previous(journal, start, end, as_json)
        return
    only = _bucket(bucket)
    grouped = None if waits else _dimension(by)
    statement = _read(journal, start, end, bins)
    lent = read_lending(journal, statement) if lending else None
    if as_json:
        print_json(statement, _dimension_if_any(by), lent, journal, top=top)
    elif as_csv:
        _print_csv(statement, asked)
    elif waits:
        _print_waits(statement, by, most)
    elif top is not None:
        _print_top(statement, top)
    elif lent is not None:
        _print_lending(lent, most)
    elif grouped is not None or only is not None:
        _print_breakdown(statement, grouped or "job", only, most)
    else:
        _print_lines(statement, as_tree, journal)


DIFF_EXAMPLES = options.example("tidemill ledger diff fifo.sqlite priority.sqlite")


@app.command("diff", epilog=DIFF_EXAMPLES)
def diff(
    first: Annotated[str, typer.Argument(help="The journal before.", metavar="[A]")],
    second: Annotated[
        str | None, typer.Argument(help="The journal after.", metavar="B", show_default=False)
    ] = None,
    journal: options.Named = None,
    start: options.Start = None,
    end: options.End = None,
    as_json: options.Json = False,
) -> None:
    """What changed between two ledgers: money, waits, jobs, buckets; A may be named with -j.

    `tidemill ledger diff` and `tidemill diff` are the same command.
    """
    before, after = options.journal_and("the journal after", first, second, journal)
    sides = (_read(before, start, end, None), _read(after, start, end, None))
    _print_comparison(sides, (before, after), as_json, before, after)


class _Asked(NamedTuple):
    """What was asked for, to find what does not go together."""

    by: str | None
    bucket: str | None
    start: str | None
    end: str | None
    waits: bool
    top: int | None
    lending: bool
    previous: bool
    as_json: bool
    as_csv: bool

    def refuse_contradictions(self) -> None:
        """One question at a time, and one form of answer."""
        questions = {
            "--waits": self.waits, "--top": self.top is not None, "--lending": self.lending,
            "--bucket": self.bucket is not None, "--previous": self.previous,
        }  # fmt: skip
        given = [name for name, is_given in questions.items() if is_given]
        if len(given) > 1 and not self.as_json:
            raise SpecError(
                f"{given[0]} and {given[1]} ask two different questions",
                hint="ask one question at a time",
            )
        if self.as_json and self.as_csv:
            raise SpecError("--json and --csv are two forms", hint="give one of them")
        if self.previous and (self.start is None or self.end is None):
            raise SpecError(
                "--previous needs a window; found "
                + ("no --from" if self.start is None else "no --to"),
                hint="give both, such as --from 7d --to 14d --previous",
            )
        if self.as_csv and (self.lending or self.previous or self.bucket is not None):
            raise SpecError(f"{given[0]} has no CSV", hint="give --json instead")


def _print_previous(journal: str, start: str | None, end: str | None, as_json: bool) -> None:
    """A window beside the one of the same length before it."""
    from tidemill import api

    assert start is not None, "refused above"
    assert end is not None, "refused above"
    calendar = api.calendar_of(journal)
    start_ms, end_ms = calendar.ms(start, "--from"), calendar.ms(end, "--to")
    before_ms = start_ms - (end_ms - start_ms)
    if before_ms < 0:
        raise SpecError(
            f"the window before {calendar.text(start_ms)} would begin before the journal does,"
            f" at {calendar.text(0)}",
            hint="give a later --from, or a shorter window",
        )
    this = _read(journal, start, end, None)
    earlier = _read(journal, f"{before_ms}ms", f"{start_ms}ms", None)
    moment = calendar.text
    names = (f"from {moment(before_ms)}", f"from {moment(start_ms)}")
    _print_comparison((earlier, this), names, as_json, journal)


def _print_comparison(
    sides: "tuple[Statement, Statement]",
    names: tuple[str, str],
    as_json: bool,
    *journals: str,
) -> None:
    """Both sides; windows of one journal hold different work, and nobody wonders."""
    import msgspec

    from tidemill.cli import comparison_tables
    from tidemill.ledger import comparison
    from tidemill.ledger.difference import difference_document
    from tidemill.ledger.unknowns import unknowns_of

    before, after = sides
    if as_json:
        found = difference_document(before, after, names)
        screen.json_out(msgspec.json.format(msgspec.json.encode(found), indent=2), *journals)
        return
    console = screen.out()
    console.print(comparison_tables.figures(before, after, names))
    unknown = unknowns_of(before), unknowns_of(after)
    console.print(comparison_tables.buckets(before.total(), after.total(), names, unknown))
    screen.note(
        "≥, ≤, ~: at least, at most, either; because some jobs were still open, the efficiency of"
        " some work is unknown, or some hours have no price"
    )
    for text in comparison.warnings(before, after) if len(journals) > 1 else []:
        screen.note(f"note: {text}")


def _print_waits(statement: "Statement", by: str | None, most: int) -> None:
    from tidemill.cli import waits_tables

    group = _wait_dimension(by)
    console = screen.out()
    console.print(waits_tables.outcomes(statement))
    if group is None:
        console.print(waits_tables.overall(statement))
    else:
        console.print(waits_tables.groups(statement, group, most))
    screen.note(waits_tables.note(statement))


def _print_top(statement: "Statement", most: int) -> None:
    from tidemill.cli import waits_tables
    from tidemill.ledger.account import CENT_MICRO
    from tidemill.ledger.top import in_units, top_jobs

    statement.refuse_past("--top")
    rows = top_jobs(statement, most)
    if not rows:
        screen.out().print(waits_tables.no_top(statement))
        return
    screen.out().print(waits_tables.top(rows, in_units(statement, CENT_MICRO)))
    screen.note(
        "wasted: what a job's own accelerators cost in buckets that are known not to be useful;"
        " time of unknown worth is not counted as waste"
    )


def _print_csv(statement: "Statement", asked: _Asked) -> None:
    from tidemill.ledger import records

    if asked.waits:
        rows = records.waits(statement, _wait_dimension(asked.by))
    elif asked.top is not None:
        statement.refuse_past("--top")
        rows = records.top(statement, asked.top)
    elif (dimension := _dimension(asked.by)) is not None:
        rows = records.breakdown(statement, dimension)
    else:
        rows = records.lines(statement)
    screen.csv_out(rows)


def _wait_dimension(by: str | None) -> "WaitDimension | None":
    from tidemill.ledger.waits import WAIT_DIMENSIONS

    found = next((known for known in WAIT_DIMENSIONS if known == by), None)
    if by is not None and found is None:
        hint = f"waits are by {', '.join(WAIT_DIMENSIONS)}"
        raise SpecError(f"--waits --by `{by}`", hint=hint)
    return found


def _dimension_if_any(by: str | None) -> "Dimension | None":
    """For JSON, which has waits too: a size is a group of jobs, but no part of the bill."""
    return None if by == "size" else _dimension(by)


def read_lending(journal: str, statement: "Statement") -> "LendingPart":
    """Who lent what to whom in the window of a statement."""
    from tidemill import api
    from tidemill.ledger import lending_part

    with screen.progress("who lent what to whom") as update:
        lent = api.read_lending(
            journal, start_ms=statement.start_ms, end_ms=statement.end_ms, on_progress=update
        )
    return lending_part.part(statement, lent)


def _print_lending(lent: "LendingPart", most: int) -> None:
    from tidemill.cli import lending_tables

    console = screen.out()
    console.print(lending_tables.loans(lent, most))
    console.print(lending_tables.idle(lent, most))
    console.print(lending_tables.summary(lent))


def _read(journal: str, start: str | None, end: str | None, bins: str | None) -> "Statement":
    return read_window(journal, start, end, screen.span_ms(bins, "--bins"))


def read_window(
    journal: str, start: str | None, end: str | None, bin_ms: int | None = None
) -> "Statement":
    """The ledger of a window as typed; a window with nothing in it is refused."""
    from tidemill import api
    from tidemill.cli.moment import note_extent

    calendar = api.calendar_of(journal)
    start_ms = 0 if start is None else calendar.ms(start, "--from")
    end_ms = None if end is None else calendar.ms(end, "--to")
    if bin_ms == 0:
        raise SpecError("--bins is 0", hint="give the width of a time bin, such as 6h")
    if end_ms is not None and end_ms <= start_ms:
        raise SpecError(f"--to {end} is not after --from {start or 0}", hint="swap them")
    note_extent(journal)
    with screen.progress("reading the journal") as update:
        statement = api.read_statement(
            journal,
            start_ms=start_ms,
            end_ms=FOREVER_MS if end_ms is None else end_ms,
            bin_ms=bin_ms,
            on_progress=update,
        )
    if statement.end_ms <= start_ms:
        raise SpecError(
            f"nothing was paid for after {calendar.text(start_ms)}",
            hint=f"the journal ends at {calendar.text(statement.world.now_ms)}",
        )
    return statement


def _dimension(by: str | None) -> "Dimension | None":
    from tidemill.ledger.statement import DIMENSIONS

    found = next((known for known in DIMENSIONS if known == by), None)
    if by is not None and found is None:
        raise SpecError(f"--by is `{by}`", hint=f"one of: {', '.join(DIMENSIONS)}")
    return found


def _bucket(key: str | None) -> "int | None":
    from tidemill.ledger.buckets import BY_KEY

    if key is not None and key not in BY_KEY:
        raise SpecError(f"--bucket is `{key}`", hint=f"one of: {', '.join(BY_KEY)}")
    return None if key is None else BY_KEY[key]


def _print_lines(statement: "Statement", as_tree: bool, journal: str) -> None:
    from tidemill.cli import ledger_tables
    from tidemill.cli.suggested import located
    from tidemill.explain import supply

    console = screen.out()
    moment = statement.calendar.text
    span = f"{moment(statement.start_ms)} to {moment(statement.end_ms)}"
    console.print(screen.styled("[bold]ledger[/] {}", span))
    ledger_tables.print_ledger(statement, as_tree)
    console.print(ledger_tables.fixes(statement, journal), soft_wrap=True)
    ledger_tables.print_alarms(statement)
    if (unusable := ledger_tables.unusable(statement)) is not None:
        screen.note(located(unusable, journal))
    if words := supply.unlisted_words(statement.world):
        screen.note(f"at least this is paid for; {words}")
    screen.note(ledger_tables.footnote(statement))


def _print_breakdown(
    statement: "Statement", by: "Dimension", only: "int | None", most: int
) -> None:
    from tidemill.cli import ledger_tables
    from tidemill.ledger.unknowns import unknowns_of

    screen.out().print(ledger_tables.breakdown(by, statement, only, most))
    if only is not None and (unknown := unknowns_of(statement).get(only)):
        screen.note(f"unknown rather than zero: {unknown}")
    if by in _HOURS_OF and only is None:
        screen.note(_HOURS_OF[by])
    if by == "class" and (count := statement.called_otherwise()):
        screen.note(CLASSES.format(screen.count(count, "job")))


CLASSES = (
    "classes as jobs were submitted: {} said while running to be a service (tidemill.track), and"
    " counts there as whatever it was submitted as"
)
_HOURS_OF: "dict[Dimension, str]" = {
    "team": "hours of a team: what its jobs held, and what stood free beside its waiting jobs;"
    " (nobody): free with nothing waiting, or not taking work",
    "user": "hours of a user: what their jobs held; all that no job held is (nobody)'s, also what"
    " stood free beside waiting jobs, which `--by team` gives to the team",
    "class": "hours of a class: what its jobs held; all that no job held is (nobody)'s",
    "job": "hours of a job: what it held; all that no job held is (nobody)'s",
}


def print_json(
    statement: "Statement",
    by: "Dimension | None",
    lending: "LendingPart | None" = None,
    *journals: str,
    top: int | None = None,
) -> None:
    """The ledger as JSON; with how complete the journal is, where it was read from one."""
    import msgspec

    from tidemill.ledger.document import document

    screen.json_out(
        msgspec.json.format(
            msgspec.json.encode(document(statement, by, lending, most_jobs=top or 10)), indent=2
        ),
        *journals,
    )
