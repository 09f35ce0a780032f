"""Reading files that others wrote: bounded, and exact about where something is wrong.

A ``TraceRow`` turns its cells into numbers and raises a ``SpecError`` with file, line and column.
With ``skip_broken`` such rows are left out and counted instead.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, TypeVar

from tidemill.model import names
from tidemill.model.decoding import nearest, shown
from tidemill.model.errors import SpecError
from tidemill.model.measures import decimal_number
from tidemill.twin.traces.options import Options

MAX_LINE = 100_000  # characters; the longest line of the known traces has 400
MAX_CHARACTERS = 2_000_000_000  # unpacked; a thousand times the largest known trace
MAX_BROKEN_SHOWN = 20
LARGEST = 2**53  # beyond this a number in a CSV has lost its last digits on the way

Made = TypeVar("Made")


class TraceRow(NamedTuple):
    """One line of a file by column; the header is line 1."""

    path: Path
    line: int
    places: dict[str, int]
    """Where each column stands."""
    cells: list[str]

    def cell(self, column: str) -> str:
        """What a column says as it stands there; "": there is none, or the line ends before it."""
        place, cells = self.places.get(column, -1), self.cells
        return cells[place] if 0 <= place < len(cells) else ""

    def text(self, column: str) -> str:
        """What stands in a column: something, not too much of it, and nothing that is invisible."""
        found = self.cell(column).strip()
        if not 0 < len(found) <= names.LONGEST:
            self.refuse(column, f"between 1 and {names.LONGEST} characters")
        if names.fault(found):
            self.refuse(column, names.ASKED)
        return found

    def whole(self, column: str, least: int = 0) -> int:
        """A whole number, at least this."""
        value = self.number(column, least)
        if value != int(value):
            self.refuse(column, "a whole number")
        return int(value)

    def number(self, column: str, least: float = 0) -> float:
        """A number, at least this."""
        try:
            value = decimal_number(self.cell(column))
        except ValueError:
            self.refuse(column, "a number")
        if not least <= value <= LARGEST:
            self.refuse(column, f"a number from {least:g} to {LARGEST:g}")
        return value

    def ms(self, column: str, least_ms: int = 0) -> int:
        """Seconds, as milliseconds."""
        return max(least_ms, round(self.number(column) * 1000))

    def user(self) -> str:
        """Who submitted the job, where the file has a column `user`; else nobody said."""
        return self.text("user") if self.cell("user").strip() else ""

    def refuse(self, column: str, asked: str) -> NoReturn:
        """Raise the error for one cell."""
        raise SpecError(
            f"`{self.path}`, line {self.line}, column `{column}`: expected {asked};"
            f" found {shown(self.cell(column))}",
            hint="mend the row, or leave such rows out with `--skip-broken`",
        )


class Names:
    """Names that must be different from each other."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def of(self, row: TraceRow, column: str) -> str:
        """The name in a column, refused if an earlier row has it."""
        name = row.text(column)
        if name in self._lines:
            row.refuse(column, f"a name of its own (line {self._lines[name]} has it)")
        self._lines[name] = row.line
        return name


def each(
    path: Path, columns: tuple[str, ...], options: Options, make: Callable[[TraceRow], Made]
) -> tuple[list[Made], int, tuple[str, ...]]:
    """What ``make`` gives for each row, how many rows were skipped, and why the first of them."""
    made: list[Made] = []
    broken: list[str] = []
    skipped = 0
    for row in read(path, columns, options):
        try:
            made.append(make(row))
        except SpecError as error:
            if not options.skip_broken:
                raise
            skipped += 1
            if len(broken) < MAX_BROKEN_SHOWN:
                broken.append(error.message)
    return made, skipped, tuple(broken)


def read(path: Path, columns: tuple[str, ...], options: Options) -> Iterator[TraceRow]:
    """The rows of a CSV file (plain or gzip), which must have these columns."""
    with opened(path) as file:
        lines = csv.reader(_bounded(path, file))
        header = [name.strip() for name in next(lines, [])]
        _refuse_unless(path, header, columns)
        places = {name: place for place, name in enumerate(header)}
        for count, cells in enumerate(lines, 1):
            if count > options.rows_at_most:
                raise SpecError(
                    f"`{path}` has more than {options.rows_at_most:,} rows",
                    hint="cut the file, and import it part by part",
                )
            if len(cells) > len(header):
                raise SpecError(
                    f"`{path}`, line {lines.line_num} has {len(cells):,} cells; the header has"
                    f" {len(header):,}",
                    hint="quote cells that hold a comma, or name the missing columns",
                )
            if cells:
                yield TraceRow(path, lines.line_num, places, cells)


def header_of(path: Path) -> list[str]:
    """The column names of a CSV file."""
    with opened(path) as file:
        return [name.strip() for name in next(csv.reader(_bounded(path, file)), [])]


def refuse_empty(path: Path, count: int, what: str) -> None:
    """A file that holds nothing is a mistake."""
    if not count:
        hint = "check that it is the whole file, with its header"
        raise SpecError(f"`{path}` holds no {what}", hint=hint)


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """A text file, unpacked if need be; every way in which reading may fail is one error."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="")
        ) as file:
            yield file
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError(f"`{path}` cannot be read: {reason}", hint="check the path") from error
    except (EOFError, zlib.error) as error:
        raise SpecError(f"`{path}` is cut off, or damaged", hint="fetch the file again") from error
    except (UnicodeDecodeError, csv.Error) as error:
        is_text = isinstance(error, csv.Error)
        why = "a cell of it has no end, or a sign that is no text" if is_text else "it is not UTF-8"
        raise SpecError(
            f"`{path}` is not a table of text: {why}", hint="see `tidemill twin formats`"
        ) from error


def _bounded(path: Path, file: IO[str]) -> Iterator[str]:
    line = length = 0
    while text := file.readline(MAX_LINE + 1):
        line += 1
        length += len(text)
        if length > MAX_CHARACTERS:
            raise SpecError(
                f"`{path}` holds more than {MAX_CHARACTERS:,} characters, unpacked",
                hint="cut the file, and import it part by part",
            )
        if len(text) > MAX_LINE:
            raise SpecError(
                f"`{path}`, line {line} is longer than {MAX_LINE:,} characters",
                hint="is this a table with one row per line? see `tidemill twin formats`",
            )
        yield text


def _refuse_unless(path: Path, header: list[str], columns: tuple[str, ...]) -> None:
    missing = [column for column in columns if column not in header]
    if not header:
        raise SpecError(f"`{path}` is empty", hint="fetch the file again")
    doubled = next((name for name in header if name and header.count(name) > 1), None)
    if doubled is not None:
        raise SpecError(
            f"`{path}` has {header.count(doubled)} columns called `{doubled}`; which is meant?",
            hint="give each column a name of its own",
        )
    if missing:
        raise SpecError(
            f"`{path}` has no column `{missing[0]}`; found {', '.join(header)[:200]}",
            hint=nearest(missing[0], header),
        )
