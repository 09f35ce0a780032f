"""``tidemill ingest``: take the records of training jobs over HTTP; send what could not be."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.cli.stopping import StopSignals
from tidemill.model.errors import BackendError, SpecError

if TYPE_CHECKING:
    from tidemill.live.ingest import IngestServer

app = typer.Typer(
    no_args_is_help=True, help="Take records that training jobs send.",
    epilog=options.example(
        "tidemill ingest serve out/spool", "tidemill ingest send http://observer:8787"
    ),
)  # fmt: skip
EXAMPLES = options.example(
    "tidemill ingest serve out/spool",
    "tidemill ingest serve out/spool --host 0.0.0.0 --port 9000 --token-file token",
)
SENDING = options.example(
    "tidemill ingest send http://observer:8787",
    "TIDEMILL_TRACK_SPOOL=/scratch/spool tidemill ingest send http://observer:8787",
)
VARIABLE = "TIDEMILL_TOKEN"
SEND_S = 30.0
"""How long one request may take; nobody's job waits for it."""


@app.callback()
def ingest() -> None:
    """Take records that training jobs send."""


@app.command(epilog=EXAMPLES)
def serve(
    folder: Annotated[Path, typer.Argument(help="Where the records are kept.", metavar="FOLDER")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port to listen on; 0 takes a free one.")
    ] = 8787,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file that holds the token; also as ${VARIABLE}.", metavar="PATH"),
    ] = None,
) -> None:
    """Take the records of `tidemill.track` over HTTP until stopped, each once, in FOLDER.

    A record is on disk before its sender is told. Jobs send here with
    TIDEMILL_TRACK=http://HOST:PORT, and the token in TIDEMILL_TOKEN where one is set.
    """
    from tidemill.live.ingest import serve as start

    server, stop = start(folder, host, port, token_of(token_file))
    take_left(server)
    with StopSignals() as stopped:
        screen.note(f"listening on {server.url}, records go to {folder}; stop with Ctrl-C")
        stopped.wait()
        stop()
    screen.note(f"stopped; {screen.count(server.spool.taken, 'record')} taken")


@app.command(epilog=SENDING)
def send(
    to: Annotated[
        str,
        typer.Argument(help="The server, as jobs had it in TIDEMILL_TRACK.", metavar="URL"),
    ],
) -> None:
    """Send what ended jobs could not: records that wait on this machine because URL was down.

    They wait in ~/.cache/tidemill/track, or where TIDEMILL_TRACK_SPOOL says. The next tracked job
    that reaches the server, and an observer that listens on this machine, do the same. Files of
    jobs that still run are left to them. The token is taken from TIDEMILL_TOKEN.
    """
    from tidemill.track.http import HttpOutlet, TokenError
    from tidemill.track.spool import LeftRecords, folder_of

    try:
        outlet = HttpOutlet.to(to)
    except ValueError as error:
        raise SpecError(str(error), hint="such as http://observer:8787") from error
    folder, sent = folder_of(to), 0
    left = LeftRecords(folder or "")
    try:
        while lines := left.first():
            taken = outlet.send(lines, SEND_S)
            left.take_away(lines[:taken])
            sent += taken
    except OSError as error:
        again = "try again when the server answers"
        if isinstance(error, TokenError):
            again = f"set {VARIABLE} to the token that the server was started with, and try again"
        raise BackendError(
            f"{to} did not take the records: {error}; {screen.count(sent, 'record')} sent before",
            hint=f"the rest waits in {folder}: {again}",
        ) from error
    finally:
        left.close()
        outlet.close()
    refused = f", {outlet.lost:,} refused ({outlet.lost_why})" if outlet.lost else ""
    screen.note(f"{screen.count(sent, 'record')} sent from {folder}{refused}")


def take_left(server: "IngestServer") -> None:
    """Take what jobs left on this machine while this server was down, and say so."""
    from tidemill.live import ingest

    try:
        found = ingest.take_left(server)
    except OSError as error:
        screen.note(f"records that jobs left on this machine cannot be taken: {error}")
        return
    if found:
        screen.note(f"{screen.count(found, 'record')} taken that jobs left while nobody listened")


def token_of(path: Path | None) -> str:
    """The token; never an option, where everybody on the machine could read it."""
    if path is None:
        return os.environ.get(VARIABLE, "")
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise SpecError(f"`{path}` holds no token", hint="write one line of letters and digits")
    return token
