"""``tidemill journal``: take a journal out, put one in, check it, save what can be saved."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import JournalError

if TYPE_CHECKING:
    from tidemill.journal.moments import Calendar

app = typer.Typer(
    help="Journals: export, import, copy, roll up, verify, salvage.",
    epilog=options.example(
        "tidemill journal verify run.sqlite",
        "tidemill journal export run.sqlite run.jsonl.gz",
        "tidemill journal import run.parquet copy.sqlite",
        "tidemill journal copy run.sqlite 'postgresql://user@host/db?journal=run'",
        "tidemill journal salvage broken.sqlite saved.sqlite",
    ),
    no_args_is_help=True,
)

First = Annotated[str, typer.Argument(help="The journal, instead of -j.", metavar="[JOURNAL]")]


@app.command(
    "export",
    epilog=options.example(
        "tidemill journal export run.sqlite run.parquet",
        "tidemill journal export run.sqlite events.csv",
        "tidemill journal export run.jsonl.gz -j run.sqlite",
    ),
)
def export(
    first: First,
    second: Annotated[
        str | None,
        typer.Argument(
            help="A .jsonl, .jsonl.gz, .parquet or .csv file.", metavar="TARGET", show_default=False
        ),
    ] = None,
    journal: options.Named = None,
    force: options.Force = False,
) -> None:
    """Write all events to JSON lines, Parquet or CSV, by the file's ending.

    JSON lines and Parquet can be imported again; CSV is for spreadsheets.
    """
    from tidemill.journal import open_journal
    from tidemill.journal.exchange import export_events

    source, target = options.journal_and("the file to write", first, second, journal)
    with open_journal(source) as opened, screen.progress("exporting") as update:
        count = export_events(opened, target, overwrite=force, on_progress=update)
    screen.note(f"{screen.count(count, 'event')} written to {target}")


@app.command("import", epilog=options.example("tidemill journal import run.jsonl run.sqlite"))
@options.takes_journal
def import_(
    source: Annotated[Path, typer.Argument(help="A .jsonl, .jsonl.gz or .parquet file.")],
    journal: options.Target = options.DEFAULT_JOURNAL,
    keep_prefix: Annotated[
        bool, typer.Option("--keep-prefix", help="Keep what precedes the first bad row.")
    ] = False,
) -> None:
    """Make a journal of exported events; each is checked as if it happened now.

    Where there is a journal already it is refused: nothing is written over one, so there is no
    --force.
    """
    from tidemill.journal.exchange import import_events

    with screen.progress("importing") as update:
        found = import_events(source, journal, keep_prefix=keep_prefix, on_progress=update)
    if found.stopped:
        screen.note(f"stopped early: {found.stopped}")
    screen.note(f"{screen.count(found.events, 'event')} in {journal}")


@app.command(
    "copy",
    epilog=options.example(
        "tidemill journal copy run.sqlite 'postgresql://user@host/db?journal=run'",
        "tidemill journal copy 'postgresql://user@host/db?journal=run' copy.sqlite",
    ),
)
def copy(
    first: First,
    second: Annotated[
        str | None,
        typer.Argument(help="The journal to create.", metavar="TARGET", show_default=False),
    ] = None,
    journal: options.Named = None,
    keep_prefix: Annotated[
        bool, typer.Option("--keep-prefix", help="Keep what precedes the first damage.")
    ] = False,
) -> None:
    """Copy a journal between files and PostgreSQL: events, facts and snapshots, all checked."""
    from tidemill.journal.copying import copy as copy_journal

    source, target = options.journal_and("the journal to create", first, second, journal)
    with screen.progress("copying") as update:
        found = copy_journal(source, target, keep_prefix=keep_prefix, on_progress=update)
    if found.stopped:
        screen.note(f"stopped early: {found.stopped}")
    screen.note(f"{screen.count(found.events, 'event')} copied to {target}")


_BEFORE_ROLLING = (
    "events that are rolled up are gone for good: of their time `why`, `decision`, `pending` and"
    " `fleet` --at, `report`, `efficiency` and `ledger --by job` are refused from then on, and of"
    " the journal as a whole `twin replay`, `underused` and `journal export`; `tidemill journal"
    " copy` keeps them elsewhere, if it runs before"
)


@app.command(
    "roll-up",
    epilog=options.example(
        "tidemill journal roll-up run.sqlite --keep 90d",
        "tidemill ledger run.sqlite --from 0 --to 30d",
    ),
)
@options.takes_journal
def roll_up(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    keep: Annotated[
        str, typer.Option("--keep", help="How much to keep, such as 90d.", metavar="TIME")
    ] = "90d",
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Also where the books take more than these events."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Replace events older than --keep by hourly books that add up to the same; for good.

    The ledger of whole hours stays as it is, by bucket, contract, team, user and class. Refused
    from then on: `why`, `decision`, `pending` and `fleet` at moments before the cut; `report`,
    `efficiency` and `ledger --by job` that reach before it; and `twin replay`, `underused` and
    `journal export`, which need every event. A copy that was made before keeps all of it. Where the
    books would take more than these events nothing is done, unless --anyway says so.
    """
    import msgspec

    from tidemill import api

    keep_ms = screen.span_ms(keep, "--keep") or 0
    moment = _calendar(journal).text
    screen.note(_BEFORE_ROLLING)
    before = _file_bytes(journal)
    with screen.progress("rolling up") as update:
        found = api.roll_up(journal, keep_ms, on_progress=update, is_to_shrink=not anyway)
    if as_json:
        screen.json_out(msgspec.json.encode(found._asdict()))
    elif found.is_larger:
        screen.out().print(
            f"nothing was rolled up, and the journal is as it was: few of the events older than"
            f" {keep} fell into each hour, so books by the hour would take more than they do;"
            " --anyway rolls them up all the same"
        )
    elif not found.gone:
        screen.out().print(f"nothing to roll up: no whole batch of events is older than {keep}")
    else:
        screen.out().print(
            f"{screen.count(found.gone, 'event')} up to {moment(found.up_to_ms)} rolled up into"
            f" {screen.count(found.lines, 'line')} by the hour; left: {found.left:,}"
        )
    if found.gone and before:
        screen.note(_said_sizes(before, _file_bytes(journal)))
    if not as_json:
        screen.note(
            "events are stored in batches of up to 4,096; a batch goes only when all of it is older"
            " than --keep, and the last one stays"
        )


def _file_bytes(journal: str) -> int:
    """What a journal takes on disk, with what SQLite keeps beside it; 0: it is on a server."""
    paths = (Path(journal + ending) for ending in ("", "-wal"))
    return sum(path.stat().st_size for path in paths if path.is_file())


def _said_sizes(before: int, after: int) -> str:
    """That the file is smaller, or that it is not, and why."""
    words = f"the file has {after / 1000:,.0f} KB, before {before / 1000:,.0f} KB"
    if after < before:
        return words
    return (
        f"{words}: few events fell into each hour, and books by the hour take more; what is rolled"
        " up later is smaller where loops or devices are measured, or jobs wait and are tried often"
    )


@app.command("verify", epilog=options.example("tidemill journal verify run.sqlite"))
@options.takes_journal
def verify(
    journal: options.Journal = options.DEFAULT_JOURNAL, as_json: options.Json = False
) -> None:
    """Read everything: checksums, order, and whether the events give a valid cluster state."""
    import msgspec

    from tidemill.journal.verify import verify as read_all

    moment = _calendar(journal).text
    with screen.progress("verifying") as update:
        found = read_all(journal, on_progress=update)
    if as_json:
        fields = {name: getattr(found, name) for name in found._fields if name != "extent"}
        fields["journal"] = None if found.extent is None else found.extent._asdict()
        screen.json_out(msgspec.json.encode(fields | {"is_sound": found.is_sound}))
    else:
        screen.out().print(
            f"{screen.count(found.events, 'event')} up to {moment(found.last_ms)},"
            f" {_snapshots(found.snapshots)}, cluster state {found.digest[:16]}"
        )
        for fault in found.faults:
            at = "" if fault.seq is None else f" at event {fault.seq}"
            screen.out().print(f"broken{at}: {fault.found}", markup=False, soft_wrap=True)
        sound = "sound" if found.extent is None or not found.extent.words else "sound so far"
        screen.out().print(sound if found.is_sound else f"hint: {found.hint}", markup=False)
        if found.extent is not None and found.extent.words:
            screen.out().print(found.extent.words, markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.is_sound else 1)


@app.command("salvage", epilog=options.example("tidemill journal salvage broken.sqlite ok.sqlite"))
def salvage(
    first: Annotated[
        str,
        typer.Argument(help="The broken journal, instead of -j; only read.", metavar="[BROKEN]"),
    ],
    second: Annotated[
        str | None,
        typer.Argument(help="The journal to create.", metavar="TARGET", show_default=False),
    ] = None,
    journal: options.Named = None,
    any_version: Annotated[
        bool,
        typer.Option("--any-version", help="Take a later version for a damaged header."),
    ] = False,
) -> None:
    """Copy everything that is intact before the first fault into a new journal."""
    from tidemill import api
    from tidemill.journal.sqlite.salvage import salvage as save

    broken, target = options.journal_and("the journal to create", first, second, journal)
    with screen.progress("salvaging") as update:
        found = save(broken, target, any_version=any_version, on_progress=update)
    moment = _calendar(target).text
    screen.out().print(
        f"{screen.count(found.kept, 'event')} kept, up to {moment(found.last_ms)}, in {found.out}",
        markup=False,
    )
    screen.out().print(found.why, markup=False, soft_wrap=True)
    if words := api.completeness_of(target).words:
        screen.out().print(words, markup=False, soft_wrap=True)


def _snapshots(number: int | None) -> str:
    return "snapshots unknown" if number is None else screen.count(number, "snapshot")


def _calendar(journal: str) -> "Calendar":
    """How moments of a journal are written, as far as a broken one still says."""
    from tidemill import api
    from tidemill.journal.moments import COUNTED

    try:
        return api.calendar_of(journal)
    except JournalError:
        return COUNTED
