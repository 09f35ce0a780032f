"""Rows of a source while it is read: nobody asks anything of them before all are there.

What all rows of a table say alike is kept once. Of long histories the columns wait in a file
without a name, one after the other, and come back column by column. Where there is no place for
such a file, or it has no more, they wait in memory.
"""

import io
import os
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import polars as pl

from tidemill.journal import spilling

Kinds = Mapping[str, Any]
"""The type of each column, by its name."""
MOST_IN_MEMORY = 1 << 16
"""Rows that wait in memory: a source that is asked every minute never has more."""


class _Packed(NamedTuple):
    """Where in the file a column of some rows is."""

    first: int
    size: int


class GatheredRows:
    """Tables of one kind, one after the other; ``frame`` has the rows of all, and is made once."""

    def __init__(self) -> None:
        self._counts = list[int]()
        self._alike = list[dict[str, Any]]()
        self._columns = list[dict[str, pl.Series | _Packed]]()
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, rows: pl.DataFrame) -> None:
        """Take a table; what all of its rows say alike is kept once."""
        if not len(rows):
            return
        alike = {column.name: column[0] for column in rows if _is_alike(column)}
        self._counts.append(len(rows))
        self._alike.append(alike)
        is_long = sum(self._counts) > MOST_IN_MEMORY
        rest = rows.drop(*alike)
        self._columns.append({one.name: self._put(one) if is_long else one for one in rest})

    def say(self, first: int, name: str, value: object) -> None:
        """A column of tables from one of them on, in which all rows say this."""
        for alike in self._alike[first:]:
            alike[name] = value

    def frame(self, kinds: Kinds) -> pl.DataFrame:
        """All rows, with these columns; one in which all are alike takes no memory."""
        if not self._counts:
            return pl.DataFrame(schema=kinds)
        alike = {
            name: pl.lit(value, kinds[name])
            for name, value in self._alike[0].items()
            if all(name in other and other[name] == value for other in self._alike)
        }
        rest = [self._whole(name, kind) for name, kind in kinds.items() if name not in alike]
        if not rest:
            rest = [pl.repeat(None, sum(self._counts), dtype=pl.Null, eager=True).alias(_NOTHING)]
        found = pl.DataFrame(rest).with_columns(**alike).select(*kinds)
        if self._file is not None:
            self._file.close()
        self._counts, self._alike, self._columns, self._file = [], [], [], None
        return found

    def _whole(self, name: str, kind: pl.DataType) -> pl.Series:
        """A column of all rows."""
        parts = list[pl.Series]()
        for count, alike, columns in zip(self._counts, self._alike, self._columns, strict=True):
            if name in alike:
                parts.append(pl.repeat(alike[name], count, dtype=kind, eager=True).alias(name))
            else:
                part = columns.pop(name)
                parts.append(self._got(part) if isinstance(part, _Packed) else part)
        return pl.concat(parts, rechunk=True)

    def _put(self, column: pl.Series) -> pl.Series | _Packed:
        """A column in the file, if there is place; else as it is."""
        packed = io.BytesIO()
        column.to_frame().write_ipc(packed)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=spilling.FOLDER, buffering=0)  # noqa: SIM115
            first = self._file.seek(0, os.SEEK_END)
            if self._file.write(packed.getbuffer()) < packed.tell():
                return column
        except OSError:
            return column
        return _Packed(first, packed.tell())

    def _got(self, part: _Packed) -> pl.Series:
        assert self._file is not None, "it was put there"
        self._file.seek(part.first)
        return pl.read_ipc(self._file.read(part.size)).to_series()


_NOTHING = ""


def _is_alike(column: pl.Series) -> bool:
    if column.null_count():
        return column.null_count() == len(column)
    return bool((column == column[0]).all())
