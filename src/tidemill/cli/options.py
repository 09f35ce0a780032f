"""Options that several commands share."""

from typing import Annotated

import typer

Journal = Annotated[
    str,
    typer.Option(
        "--journal", "-j", envvar="TIDEMILL_JOURNAL", help="The journal to read.", metavar="PATH"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
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

DEFAULT_JOURNAL = "tidemill.sqlite"


def example(*lines: str) -> str:
    """Examples for ``--help``: one command a line."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  $ {line}" for line in lines)
