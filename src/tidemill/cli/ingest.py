"""``tidemill ingest serve``: take the records of training jobs over HTTP."""

import os
import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError

app = typer.Typer(
    no_args_is_help=True, help="Take records that training jobs send.",
    epilog=options.example("tidemill ingest serve out/spool"),
)  # fmt: skip
EXAMPLES = options.example(
    "tidemill ingest serve out/spool",
    "tidemill ingest serve out/spool --host 0.0.0.0 --port 9000 --token-file token",
)
VARIABLE = "TIDEMILL_TOKEN"


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
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    screen.note(f"listening on {server.url}, records go to {folder}; stop with Ctrl-C")
    while not stopped.wait(1.0):  # in slices: a handler runs between them at the latest
        pass
    stop()
    taken = server.spool.taken
    screen.note(f"stopped; {taken:,} record{'' if taken == 1 else 's'} taken")


def token_of(path: Path | None) -> str:
    """The token; never an option, where everybody on the machine could read it."""
    if path is None:
        return os.environ.get(VARIABLE, "")
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise SpecError(f"`{path}` holds no token", hint="write one line of letters and digits")
    return token
