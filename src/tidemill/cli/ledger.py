"""``tidemill ledger``: where every paid millisecond went."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS

if TYPE_CHECKING:
    from tidemill.ledger.buckets import Bucket as BucketOf
    from tidemill.ledger.schema import LendingPart
    from tidemill.ledger.statement import Dimension, Statement

app = typer.Typer(
    help="Where every paid millisecond went: paid, down to useful.",
    epilog=options.example(
        "tidemill ledger out/demo.sqlite",
        "tidemill ledger --by team",
        "tidemill ledger --bucket idle --by job",
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
        "--by", help="Break down by team, user, pool, contract, kind, class, job or time."
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
    most: Annotated[int, typer.Option("--most", min=1, help="Rows of a breakdown.")] = 20,
    as_tree: Annotated[bool, typer.Option("--tree", help="Show stages and their parts.")] = False,
    lending: Annotated[
        bool, typer.Option("--lending", help="Who lent what to whom, and idle guarantees.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Where every paid millisecond went: paid, down to useful."""
    if context.invoked_subcommand is not None:
        return
    dimension, only = _dimension(by), _bucket(bucket)
    statement = _read(journal, start, end, bins)
    lent = read_lending(journal, statement) if lending else None
    if as_json:
        print_json(statement, dimension, lent, journal)
    elif lent is not None:
        _print_lending(lent, most)
    elif dimension is not None or only is not None:
        _print_breakdown(statement, dimension or "job", only, most)
    else:
        _print_lines(statement, as_tree)


@app.command(
    "diff",
    epilog=options.example("tidemill ledger diff fifo.sqlite priority.sqlite"),
)
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
    """What changed between two ledgers, bucket by bucket; A may be named with -j instead."""
    import msgspec

    from tidemill.cli import ledger_tables
    from tidemill.ledger.buckets import ABOUT
    from tidemill.ledger.difference import difference

    before, after = options.journal_and("the journal after", first, second, journal)
    found = difference(
        _read(before, start, end, None).total(), _read(after, start, end, None).total()
    )
    if as_json:
        rows = [
            change._asdict() | {"bucket": ABOUT[change.bucket].key, "milli_ms": change.milli_ms}
            for change in found
        ]
        screen.json_out(msgspec.json.encode(rows), before, after)
        return
    screen.out().print(f"{after} minus {before}")
    screen.out().print(ledger_tables.changes(found))


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


def _bucket(key: str | None) -> "BucketOf | None":
    from tidemill.ledger.buckets import BY_KEY

    if key is not None and key not in BY_KEY:
        raise SpecError(f"--bucket is `{key}`", hint=f"one of: {', '.join(BY_KEY)}")
    return None if key is None else BY_KEY[key]


def _print_lines(statement: "Statement", as_tree: bool) -> None:
    from tidemill.cli import ledger_tables

    console = screen.out()
    moment = statement.calendar.text
    span = f"{moment(statement.start_ms)} to {moment(statement.end_ms)}"
    console.print(screen.styled("[bold]ledger[/] {}", span))
    ledger_tables.print_ledger(statement, as_tree)
    if (unusable := ledger_tables.unusable(statement)) is not None:
        screen.note(unusable)
    screen.note(ledger_tables.footnote())


def _print_breakdown(
    statement: "Statement", by: "Dimension", only: "BucketOf | None", most: int
) -> None:
    from tidemill.cli import ledger_tables

    screen.out().print(ledger_tables.breakdown(by, statement, only, most))


def print_json(
    statement: "Statement",
    by: "Dimension | None",
    lending: "LendingPart | None" = None,
    *journals: str,
) -> None:
    """The ledger as JSON; with how complete the journal is, where it was read from one."""
    import msgspec

    from tidemill.ledger.document import document

    screen.json_out(
        msgspec.json.format(msgspec.json.encode(document(statement, by, lending)), indent=2),
        *journals,
    )
