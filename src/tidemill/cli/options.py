"""Options that several commands share, and the one way in which a command is given a journal.

A journal is named by its path (or its address in PostgreSQL) alone, by ``-j/--journal``, or by
``$TIDEMILL_JOURNAL``; see ``takes_journal``. Two different ones are refused: nobody should have to
know which of them wins.
"""

import inspect
import os
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from typer.core import TyperGroup

from tidemill.model.errors import SpecError

Choice = TypeVar("Choice", bound=StrEnum)
DEFAULT_JOURNAL = "tidemill.sqlite"
VARIABLE = "TIDEMILL_JOURNAL"

_TO_READ = f"The journal to read; also as ${VARIABLE}, else {DEFAULT_JOURNAL}."
_TO_WRITE = f"The journal to write; also as ${VARIABLE}, else {DEFAULT_JOURNAL}."

Journal = Annotated[str, typer.Option("--journal", "-j", help=_TO_READ, metavar="PATH|URL")]
JournalIfAny = Annotated[
    str | None,
    typer.Option("--journal", "-j", help=f"A journal to look into; also as ${VARIABLE}.",
                 metavar="PATH|URL"),
]  # fmt: skip
Target = Annotated[str, typer.Option("--journal", "-j", help=_TO_WRITE, metavar="PATH|URL")]
Named = Annotated[str | None, typer.Option("--journal", "-j", help=_TO_READ, metavar="PATH|URL")]
"""For a command that has another path beside its journal; see ``journal_and``."""
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run, in the same journal.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of tables.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", help="Look at this moment (3d12h, or a date) instead of the end.", metavar="TIME"
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--from", help="Begin here: 3d12h, or a date (default: the start).", metavar="TIME"
    ),
]
End = Annotated[
    str | None,
    typer.Option("--to", help="End here: 3d12h, or a date (default: the end).", metavar="TIME"),
]

_PLAIN = Annotated[
    str | None,
    typer.Argument(metavar="JOURNAL", help="The journal, instead of -j.", show_default=False),
]
_BEFORE_COMMANDS = Annotated[str | None, typer.Option(hidden=True)]
_PARAMETER = "journal_path"
_HIDDEN_OPTION = "--journal-path"


def example(*lines: str) -> str:
    """Examples for ``--help``: one command a line."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  $ {line}" for line in lines)


def one_of(text: str, option: str, kind: type[Choice]) -> Choice:
    """What an option names, of a few words."""
    try:
        return kind(text)
    except ValueError as error:
        *others, last = kind
        raise SpecError(
            f"{option} is `{text[:50]}`", hint=f"it is {', '.join(others)} or {last}"
        ) from error


def takes_journal(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a ``journal``, which may then be given by its path alone too."""
    return _with_path(command, _PLAIN)


def takes_variable(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose ``journal`` is given by ``-j`` or the variable; its arguments are others."""
    return _with_path(command, None)


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command some of whose parameters are groups of options: named tuples with one per field.

    Each such field is an option of the command; what was given is handed over as the tuple.
    """
    signature = inspect.signature(command)
    groups = {name: _options_of(p.annotation) for name, p in signature.parameters.items()}

    @wraps(command)
    def taking(*args: Any, **told: Any) -> None:  # noqa: ANN401 - whatever the command takes
        for name, fields in groups.items():
            if fields:
                given = {field.name: told.pop(field.name) for field in fields}
                told[name] = signature.parameters[name].annotation(**given)
        command(*args, **told)

    apart = [one for p in signature.parameters.values() for one in groups[p.name] or [p]]
    taking.__signature__ = signature.replace(parameters=apart)  # type: ignore[attr-defined]
    taking.__annotations__ = {one.name: one.annotation for one in apart}
    return taking


def _options_of(group: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - whatever annotates
    """The fields of a named tuple that are options; of anything else none."""
    if not (isinstance(group, type) and issubclass(group, tuple)):
        return []
    anywhere, defaults = inspect.Parameter.POSITIONAL_OR_KEYWORD, group._field_defaults  # type: ignore[attr-defined]
    return [
        inspect.Parameter(name, anywhere, default=defaults[name], annotation=annotation)
        for name, annotation in group.__annotations__.items()
        if hasattr(annotation, "__metadata__")
    ]


def takes_journal_before_commands(command: Callable[..., None]) -> Callable[..., None]:
    """The same for the callback of a ``JournalGroup``."""
    return _with_path(command, _BEFORE_COMMANDS)


def which(path: str | None, named: str | None, default: str | None = DEFAULT_JOURNAL) -> str | None:
    """The journal that was meant: by its path, by ``-j``, by the variable, or the default."""
    if path is not None and named is not None and not _is_same(path, named):
        raise SpecError(
            f"two journals were given: `{path}` and, with --journal, `{named}`",
            hint="give one of them",
        )
    return path or named or _from_variable() or default


def _from_variable() -> str | None:
    """The journal that the variable names; a password in it is never shown."""
    found = os.environ.get(VARIABLE)
    if found and "://" in found:
        from tidemill.journal.postgres.address import visible

        return visible(found)
    return found


class Two(NamedTuple):
    """A journal, and the other path that a command takes beside it."""

    journal: str
    other: str


def journal_and(other: str, first: str, second: str | None, named: str | None) -> Two:
    """``JOURNAL OTHER``, or ``OTHER`` alone with the journal named elsewhere.

    ``other`` says in messages what the other path is.
    """
    if second is None:
        found = which(None, named, default=None)
        if found is None:
            raise SpecError(
                f"only one path was given, `{first}`, and no journal",
                hint=f"give the journal, then {other}; or name the journal with -j",
            )
        return Two(found, first)
    return Two(which(first, named) or first, second)


class JournalGroup(TyperGroup):
    """A group of commands that is a command itself, and takes a journal by its path alone.

    What stands where a command would and is none is the path of a journal.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Take the path out of the words, and leave the rest to Typer."""
        _, rest, _ = self.make_parser(ctx).parse_args(list(args))
        if rest and rest[0] not in self.commands and not ctx.resilient_parsing:
            before = args[: len(args) - len(rest)]
            args = [*before, *rest[1:], _HIDDEN_OPTION, rest[0]]
        return super().parse_args(ctx, args)


def _with_path(command: Callable[..., None], kind: Any) -> Callable[..., None]:  # noqa: ANN401
    signature = inspect.signature(command)
    named = signature.parameters["journal"]

    @wraps(command)
    def taking(*args: Any, **told: Any) -> None:  # noqa: ANN401 - whatever the command takes
        path = told.pop(_PARAMETER, None)
        told["journal"] = which(path, told["journal"], named.default)
        command(*args, **told)

    optional = named.replace(default=None, annotation=_or_none(named.annotation))
    told_so = [optional if p is named else p for p in signature.parameters.values()]
    if kind is not None:
        keyword = inspect.Parameter.KEYWORD_ONLY
        told_so.append(inspect.Parameter(_PARAMETER, keyword, default=None, annotation=kind))
    taking.__signature__ = signature.replace(parameters=told_so)  # type: ignore[attr-defined]
    taking.__annotations__ = {one.name: one.annotation for one in told_so}
    return taking


def _or_none(annotation: Any) -> Any:  # noqa: ANN401 - an Annotated of a text
    return Annotated[annotation.__origin__ | None, *annotation.__metadata__]


def _is_same(one: str, other: str) -> bool:
    return one == other or Path(one).resolve() == Path(other).resolve()
