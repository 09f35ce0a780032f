"""Reading CSV files that others wrote: bounded, and exact about where something is wrong.

A ``Row`` turns its cells into numbers and raises a ``SpecError`` with file, row and column. With
``skip_broken`` such rows are left out and counted instead.
"""

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, TypeVar

from tidemill.model.errors import SpecError
from tidemill.twin.spec_errors import nearest, shown
from tidemill.twin.traces.trace import Options

MAX_LINE = 100_000  # characters; the longest line of the known traces has 400
LARGEST = 2**53  # beyond this a number in a CSV has lost its last digits on the way

Made = TypeVar("Made")


class Row(NamedTuple):
    """One line of a file by column; ``number`` counts lines, the header is line 1."""

    path: Path
    number: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """What stands in a column; it must not be empty."""
        return self.cells.get(column) or self.refuse(column, "something")

    def whole(self, column: str, least: int = 0) -> int:
        """A whole number."""
        value = self.number_in(column, least)
        return int(value) if value == int(value) else self.refuse(column, "a whole number")

    def number_in(self, column: str, least: float = 0) -> float:
        """A number, at least this."""
        try:
            value = float(self.cells[column])
        except ValueError:
            self.refuse(column, "a number")
        if not least <= value <= LARGEST:
            self.refuse(column, f"a number from {least:g} to {LARGEST:g}")
        return value

    def refuse(self, column: str, asked: str) -> NoReturn:
        """Raise the error for one cell."""
        raise SpecError(
            f"`{self.path}`, line {self.number}, column `{column}`: asked for {asked};"
            f" found {shown(self.cells.get(column, ''))}",
            hint="mend the row, or leave such rows out with `--skip-broken`",
        )


def each(
    path: Path, columns: tuple[str, ...], options: Options, make: Callable[[Row], Made]
) -> tuple[list[Made], list[str]]:
    """What ``make`` gives for each row, and what was wrong with the rows that were skipped."""
    made: list[Made] = []
    skipped: list[str] = []
    for row in read(path, columns, options):
        try:
            if row is not None and None not in row.cells.values():
                made.append(make(row))
        except SpecError as error:
            if not options.skip_broken:
                raise
            skipped.append(error.message)
    return made, skipped


def read(path: Path, columns: tuple[str, ...], options: Options) -> Iterator[Row]:
    """The rows of a CSV file, which must have these columns."""
    with opened(path) as file:
        lines = csv.reader(_bounded(path, file))
        header = next(lines, [])
        _refuse_unless(path, header, columns)
        for count, cells in enumerate(lines, 1):
            if count > options.rows_at_most:
                raise SpecError(
                    f"`{path}` has more than {options.rows_at_most:,} rows",
                    hint="raise `rows_at_most`, or cut the file",
                )
            if cells:
                cells += [""] * (len(header) - len(cells))
                yield Row(path, lines.line_num, dict(zip(header, cells, strict=False)))
