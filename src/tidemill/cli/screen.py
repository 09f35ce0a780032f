"""What people see: tables on stdout, progress and errors on stderr, plain when piped."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from tidemill.model.errors import SpecError, TidemillError
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, duration_ms

PLAIN_WIDTH = 120


def out() -> Console:
    """Where data goes; wide enough for tables when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def err() -> Console:
    """Where everything else goes."""
    return Console(stderr=True, highlight=False)


def complain(error: TidemillError) -> None:
    """An error: what was asked, what was found, what to do."""
    console = err()
    console.print(f"[bold red]error:[/] {escape(error.message)}", soft_wrap=True)
    if error.hint:
        console.print(f"[bold]hint:[/] {escape(error.hint)}", soft_wrap=True)


def note(text: str) -> None:
    """A remark that is not data."""
    err().print(escape(text), soft_wrap=True)


def json_out(data: bytes) -> None:
    """JSON, as it is."""
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.flush()


def count(number: int, noun: str) -> str:
    """A number of things: ``1 job``, ``2,000 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; gives the function to call with (done, of how much)."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield update


def table(*headers: str, title: str = "", right_from: int = 1) -> Table:
    """A table whose columns from ``right_from`` on hold numbers."""
    made = Table(title=title or None, title_justify="left", title_style="bold", box=None)
    for i, header in enumerate(headers):
        justify: JustifyMethod = "right" if i >= right_from else "left"
        made.add_column(header, justify=justify, header_style="dim", no_wrap=i >= right_from)
    return made


def moment_text(ms: int) -> str:
    """A moment of the story for people: day and time of day."""
    days, rest = divmod(ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    return f"day {days} {hours:02d}:{rest // MINUTE_MS:02d}"


def moment_ms(text: str | None, option: str) -> int | None:
    """A moment as people type it: ``3d12h`` after the start."""
    if text is None:
        return None
    try:
        return duration_ms(text)
    except ValueError as error:
        raise SpecError(
            f"{option} is `{text}`, which is not a time",
            hint="give the time since the start of the journal, such as 3d12h or 90m",
        ) from error
