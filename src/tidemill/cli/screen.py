"""What people see: tables on stdout, progress and errors on stderr, plain when piped.

Everything that is printed goes through a ``Screen``: square brackets are text and not markup, and
characters that would steer a terminal are spelt out. Style is given with ``styled``, whose words
come from the program and whose values may come from anybody.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, JustifyMethod, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from tidemill.cli.suggested import located_json
from tidemill.model import names
from tidemill.model.errors import SpecError, TidemillError
from tidemill.model.measures import count_text, duration_ms

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_WIDTH = 120
NAME_WIDTH = 40
_PADDING = 2
_UNBOUND = 100_000

# In UTF-8: what JSON leaves as it is although a terminal may obey it (C1 controls, direction).
_HARMFUL_JSON = re.compile(
    b"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]"
)


class Screen(Console):
    """A console that takes text as text."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as rich has them
        """Print; a table that does not fit makes the screen as wide as it needs."""
        needed = [thing.needed_width(self) for thing in objects if isinstance(thing, OneLineTable)]
        if max(needed, default=0) > self.width:
            self.width = max(needed)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as rich has them
        """The text with every harmful character spelt out."""
        return super().render_str(names.visible(text), **options)


ALARMS_SHOWN = 5


def out() -> Console:
    """Where data goes; wide enough for tables when it is not a terminal."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Screen(width=width, highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Where everything else goes."""
    return Screen(stderr=True, highlight=False, markup=False, emoji=False)


def styled(words: str, *values: object) -> Text:
    """Words with style, such as ``[bold]{}[/]``, around values that are shown as they are."""
    shown = (escape(names.visible(str(value), one_line=True)) for value in values)
    return Text.from_markup(words.format(*shown), emoji=False)


def complain(error: TidemillError) -> None:
    """An error: what was asked, what was found, what to do."""
    console = err()
    for style, word, text in (("bold red", "error:", error.message), ("bold", "hint:", error.hint)):
        if text:
            console.print(Text.assemble((word, style), " ", names.visible(text)), soft_wrap=True)


def note(text: str) -> None:
    """A remark that is not data."""
    err().print(text, soft_wrap=True)


def alarms(found: Sequence[tuple[str, str]]) -> None:
    """What is said of jobs that were preempted too often: the first few of them."""
    for job, text in found[:ALARMS_SHOWN]:
        out().print(f"job `{job}`: {text}", markup=False, soft_wrap=True)
    if len(found) > ALARMS_SHOWN:
        note(f"and {count(len(found) - ALARMS_SHOWN, 'more alarm')}; --json has all of them")


def json_out(data: bytes, *journals: str, at: str | None = None) -> None:
    """JSON; characters that a terminal may obey are written as escapes, which reads the same.

    An object that was read from journals says last of all how complete they are. Commands that it
    suggests name the journal, and the moment where one was asked for.
    """
    if len(journals) == 1:
        data = located_json(data, journals[0], at)
    if journals and data.startswith(b"{"):
        data = data.rstrip()[:-1].rstrip() + b"," + _extents(journals) + b"}"
    sys.stdout.buffer.write(_HARMFUL_JSON.sub(_json_escape, data) + b"\n")
    sys.stdout.flush()


def _json_escape(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())


def _extents(journals: tuple[str, ...]) -> bytes:
    """``"journal": …`` of one journal, ``"journals": […]`` of several."""
    import msgspec

    from tidemill import api

    found = [api.completeness_of(journal)._asdict() for journal in journals]
    if len(found) == 1:
        return b'"journal":' + msgspec.json.encode(found[0])
    return b'"journals":' + msgspec.json.encode(found)


def csv_out(rows: Sequence[Mapping[str, object]]) -> None:
    """Records as CSV, with a header; what is unknown is an empty cell."""
    if not rows:
        return
    written = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    written.writeheader()
    for row in rows:
        written.writerow({
            key: names.visible(value, one_line=True) if isinstance(value, str) else value
            for key, value in row.items()
        })  # fmt: skip
    sys.stdout.flush()


count = count_text


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; gives the function to call with (done, of how much)."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task(names.visible(title, one_line=True), total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        with _telling_of_compiling(bar):
            yield update


@contextmanager
def _telling_of_compiling(bar: "Progress") -> Iterator[None]:
    """While something is compiled for a new machine, a bar of its own says how far that is."""
    from tidemill.compiled import ahead

    task = bar.add_task("compiling for this machine, once", total=None, visible=False)

    def tell(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, visible=done < total)

    ahead.on_progress.append(tell)
    try:
        yield
    finally:
        ahead.on_progress.remove(tell)


class OneLineTable(Table):
    """A table in which a cell of text is one line, whatever line breaks a name holds.

    Names and numbers are never cut short: it is as wide as its first column (up to NAME_WIDTH) and
    its numbers need, if need be wider than the screen. Other text is wrapped.
    """

    def needed_width(self, console: Console) -> int:
        """How wide it must be for names, words and numbers to be whole.

        Columns that wrap are narrowed from the widest on until all fit: so each of them has to have
        room for as much as any of them needs, or for all that it holds.
        """
        sizes = [
            self._size(console, column, is_first=i == 0) for i, column in enumerate(self.columns)
        ]
        wraps = [not column.no_wrap for column in self.columns]
        level = max((least for (_, least), may in zip(sizes, wraps, strict=True) if may), default=0)
        return sum(
            (min(most, level) if may else most) + _PADDING
            for (most, _), may in zip(sizes, wraps, strict=True)
        )

    def _size(self, console: Console, column: Column, is_first: bool) -> tuple[int, int]:
        """How wide a column is with all that it holds, and how wide it has to be."""
        unbound = console.options.update(width=_UNBOUND)
        found = [
            Measurement.get(console, unbound, part) for part in (column.header, *column._cells)
        ]
        most = max(measured.maximum for measured in found)
        least = most if is_first else max(measured.minimum for measured in found)
        column.min_width = min(least, NAME_WIDTH)
        return most, column.min_width

    def add_row(
        self,
        *cells: RenderableType | None,
        **options: Any,  # noqa: ANN401 - as rich has them
    ) -> None:
        """Add one row."""
        one_line = (names.visible(c, one_line=True) if isinstance(c, str) else c for c in cells)
        super().add_row(*one_line, **options)


def table(*headers: str, title: str = "", right_from: int = 1) -> Table:
    """A table whose columns from ``right_from`` on hold numbers."""
    made = OneLineTable(title=title or None, title_justify="left", title_style="bold", box=None)
    for i, header in enumerate(headers):
        justify: JustifyMethod = "right" if i >= right_from else "left"
        made.add_column(header, justify=justify, header_style="dim", no_wrap=i >= right_from)
    return made


def span_ms(text: str | None, option: str) -> int | None:
    """A length of time as people type it: ``6h``."""
    if text is None:
        return None
    try:
        return duration_ms(text)
    except ValueError as error:
        raise SpecError(
            f"{option} is `{text}`, which is not a length of time", hint="such as 6h or 90m"
        ) from error
