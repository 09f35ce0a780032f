"""``tidemill``: the commands, and how errors leave the program.

Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 a check failed (``journal
verify``, ``doctor``, ``unit fit``); 2 what was asked for cannot be used (options, specs, traces);
3 a journal cannot be read or written; 4 an event was refused; 5 a plan was refused; 6 a backend
failed; 130 interrupted. Heavy rooms are imported inside commands, so that ``--help`` answers at
once.
"""

import gc
import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from tidemill import __version__
from tidemill.cli import numbers, plugins
from tidemill.cli.options import takes_journal
from tidemill.cli.screen import complain
from tidemill.compiled import collecting
from tidemill.model.errors import JournalError, SpecError, TidemillError


class CommandEntry(NamedTuple):
    """A command: the module that has it, and under which names."""

    module: str
    function: str = ""
    """Empty: a group of commands, the ``app`` of its module."""
    examples: str = "EXAMPLES"
    reads_journal: bool = False


COMMANDS = {
    "demo": CommandEntry("demo", "demo"),
    "import": CommandEntry("imports"),
    "observe": CommandEntry("observe"),
    "schedule": CommandEntry("schedule"),
    "twin": CommandEntry("twin"),
    "ledger": CommandEntry("ledger"),
    "diff": CommandEntry("ledger", "diff", "DIFF_EXAMPLES"),
    "efficiency": CommandEntry("efficiency", "efficiency", reads_journal=True),
    "stragglers": CommandEntry("stragglers", "stragglers", reads_journal=True),
    "underused": CommandEntry("underused", "underused", reads_journal=True),
    "advise": CommandEntry("advise", "advise"),
    "why": CommandEntry("why", "why", "WHY_EXAMPLES", reads_journal=True),
    "decision": CommandEntry("decision", "decision", reads_journal=True),
    "pending": CommandEntry("pending", "pending", reads_journal=True),
    "fit": CommandEntry("why", "fit", "FIT_EXAMPLES", reads_journal=True),
    "defrag": CommandEntry("defrag", "defrag", reads_journal=True),
    "fleet": CommandEntry("fleet", "fleet", reads_journal=True),
    "unit": CommandEntry("unit.commands"),
    "probe": CommandEntry("probe"),
    "prometheus": CommandEntry("prometheus"),
    "ingest": CommandEntry("ingest"),
    "journal": CommandEntry("journal"),
    "doctor": CommandEntry("doctor", "doctor", reads_journal=True),
    "report": CommandEntry("report", "report"),
}
"""In the order in which ``--help`` lists them, groups after commands."""


@cache
def program(only: str = "") -> typer.Typer:
    """The command line: with all commands, or with one and without what the others import."""
    made = typer.Typer(
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
    made.callback()(_root)
    for name in (only,) if only else COMMANDS:
        _add(made, name, COMMANDS[name])
    return made


def _add(app: typer.Typer, name: str, entry: CommandEntry) -> None:
    module = import_module(f"tidemill.cli.{entry.module}")
    if not entry.function:
        app.add_typer(module.app, name=name)
        return
    command = getattr(module, entry.function)
    taking = takes_journal(command) if entry.reads_journal else command
    app.command(name, epilog=getattr(module, entry.examples))(taking)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - ``app``, made when somebody asks for it
    if name != "app":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return program()


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidemill {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001 - its callback answers
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Are you getting useful work out of the accelerators you pay for?"""
    numbers.strictly(context.command)
    plugins.load()


def main() -> None:
    """Run the program; turn errors into words and exit codes."""
    gc.set_threshold(*collecting.NEW_AT_MOST)
    if any("://" in word for word in sys.argv):
        from tidemill.journal.postgres.address import without_passwords

        sys.argv = without_passwords(sys.argv)  # before anybody can print one
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first != "probe":  # nothing else multiplies matrices: threads for that would wait in vain
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    is_completing = any(name.endswith("_COMPLETE") for name in os.environ)
    try:
        command = get_command(program(first if first in COMMANDS and not is_completing else ""))
        numbers.strictly(command)
        command()
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
    from tidemill.journal.faults import DamageError
    from tidemill.journal.sqlite import intact

    return intact.placed(error) if isinstance(error, DamageError) else error


if __name__ == "__main__":
    main()
