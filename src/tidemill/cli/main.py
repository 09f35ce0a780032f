"""``tidemill``: the commands, and how errors leave the program.

Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 a check failed (``journal
verify``, ``doctor``, ``unit fit``); 2 what was asked for cannot be used (options, specs, traces);
3 a journal cannot be read or written; 4 an event was refused; 5 a plan was refused; 6 a backend
failed; 130 interrupted. Heavy rooms are imported inside commands, so that ``--help`` answers at
once.
"""

import gc
import sys

import typer

from tidemill import __version__
from tidemill.cli import (
    advise,
    defrag,
    demo,
    doctor,
    fleet,
    journal,
    ledger,
    numbers,
    pending,
    plugins,
    probe,
    report,
    twin,
    unit,
    why,
)
from tidemill.cli.options import takes_journal
from tidemill.cli.screen import complain
from tidemill.model.errors import JournalError, SpecError, TidemillError

app = typer.Typer(
    name="tidemill",
    help="Are you getting useful work out of the accelerators you pay for?\n\n"
    "Tidemill places work, accounts for every paid millisecond as useful or as a named leak, "
    "and explains why jobs wait. New here? Run `tidemill demo`.",
    epilog="Exit codes: 0 done, 1 check failed, 2 cannot be used, 3 journal, 4 event refused, "
    "5 plan refused, 6 backend.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.add_typer(twin.app, name="twin")
app.add_typer(ledger.app, name="ledger")
app.command("advise", epilog=advise.EXAMPLES)(advise.advise)
app.command("why", epilog=why.WHY_EXAMPLES)(takes_journal(why.why))
app.command("pending", epilog=pending.EXAMPLES)(takes_journal(pending.pending))
app.command("fit", epilog=why.FIT_EXAMPLES)(takes_journal(why.fit))
app.command("defrag", epilog=defrag.EXAMPLES)(takes_journal(defrag.defrag))
app.command("fleet", epilog=fleet.EXAMPLES)(takes_journal(fleet.fleet))
app.add_typer(unit.app, name="unit")
app.add_typer(probe.app, name="probe")
app.add_typer(journal.app, name="journal")
app.command("doctor", epilog=doctor.EXAMPLES)(takes_journal(doctor.doctor))
app.command("report", epilog=report.EXAMPLES)(report.report)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidemill {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001 - its callback answers
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Are you getting useful work out of the accelerators you pay for?"""
    numbers.strictly(context.command)
    plugins.load()


_NEW_AT_MOST = 50_000, 20, 50
"""Objects, and looks at the young ones, between looks for garbage in cycles. Nearly everything that
a command makes is needed to its end: with Python's own limits a fifth of an import went into
looking (82,247 jobs, November 2026).
"""


def main() -> None:
    """Run the program; turn errors into words and exit codes."""
    gc.set_threshold(*_NEW_AT_MOST)
    try:
        app()
    except TidemillError as error:
        complain(_placed(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        refused = SpecError(
            f"`{error.filename}`: {(error.strerror or str(error)).lower()}",
            hint="check the path, and whether it may be read or written",
        )
        complain(refused)
        sys.exit(refused.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _placed(error: TidemillError) -> TidemillError:
    """Damage to a journal is told with the number of its intact events, as verify counts them."""
    if not isinstance(error, JournalError):
        return error
    from tidemill.journal import intact
    from tidemill.journal.faults import DamageError

    return intact.placed(error) if isinstance(error, DamageError) else error


if __name__ == "__main__":
    main()
