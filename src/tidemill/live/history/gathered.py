"""Rows of a history while nobody asks anything of them: long ones wait on disk, table by table.

What all rows of a table say alike is kept once. Of long histories the columns wait in a file
without a name, one after the other, and come back column by column. Where there is no place for
such a file, or it has no more, they wait in memory. ``by_range`` puts rows together that belong
together: so a history is put in order range by range of names, and never as a whole.
"""

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Self

import polars as pl

from tidemill.journal import spilling

Kinds = Mapping[str, Any]
"""The type of each column, by its name."""
MOST_IN_MEMORY = 1 << 16
"""Rows that wait in memory: a source that is asked every minute never has more."""
AT_ONCE = 100_000
"""Rows of a long history that are put in order at one time: some 100 MiB while they are."""
_ASKED_EVERY = 64
"""One of so many names is looked at to find ranges of about equal size."""


class _Packed(NamedTuple):
    """Where in the file a column of some rows is."""

    first: int
    size: int


class GatheredRows:
    """Tables of one kind, one after the other; ``frame`` has the rows of all, and is made once."""

    def __init__(self) -> None:
        self.rows = 0
        self._counts = list[int]()
        self._alike = list[dict[str, Any]]()
        self._columns = list[dict[str, pl.Series | _Packed]]()
        self._kinds = dict[str, Any]()
        self._file = _TableFile()

    @classmethod
    def of(cls, tables: Iterable[pl.DataFrame]) -> Self:
        """These tables."""
        made = cls()
        for table in tables:
            made.add(table)
        return made

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, rows: pl.DataFrame) -> None:
        """Take a table; what all of its rows say alike is kept once."""
        self._kinds |= {name: kind for name, kind in rows.schema.items() if name not in self._kinds}
        if not len(rows):
            return
        alike = {column.name: column[0] for column in rows if _is_alike(column)}
        self.rows += len(rows)
        self._counts.append(len(rows))
        self._alike.append(alike)
        rest = rows.drop(*alike)
        is_long = self.rows > MOST_IN_MEMORY
        self._columns.append({one.name: self._put(one) if is_long else one for one in rest})

    def say(self, first: int, name: str, value: object) -> None:
        """A column of tables from one of them on, in which all rows say this."""
        for alike in self._alike[first:]:
            alike[name] = value

    def each(self, *names: str, kinds: Kinds | None = None) -> Iterator[pl.DataFrame]:
        """The tables one after the other, with these columns, or all that any of them has."""
        kinds = kinds or self._kinds
        asked = names or tuple(kinds)
        for count, alike, columns in zip(self._counts, self._alike, self._columns, strict=True):
            told = {
                name: self._got(columns[name])
                if name in columns
                else pl.repeat(alike.get(name), count, dtype=kinds[name], eager=True)
                for name in asked
            }
            yield pl.DataFrame(told)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.each()

    def whole(self) -> pl.DataFrame:
        """The rows of all tables; they stay here too."""
        tables = [*self.each()]
        return pl.concat(tables, rechunk=True) if tables else pl.DataFrame(schema=self._kinds)

    def changed(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> "GatheredRows":
        """The same with each table made into another."""
        return GatheredRows.of(change(table) for table in self.each())

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
        self.drop()
        return found

    def drop(self) -> None:
        """Nobody asks for them any more."""
        self._file.close()
        self.rows, self._counts, self._alike, self._columns = 0, [], [], []

    def _whole(self, name: str, kind: pl.DataType) -> pl.Series:
        """A column of all rows."""
        parts = list[pl.Series]()
        for count, alike, columns in zip(self._counts, self._alike, self._columns, strict=True):
            if name in alike:
                parts.append(pl.repeat(alike[name], count, dtype=kind, eager=True).alias(name))
            else:
                parts.append(self._got(columns.pop(name)))
        return pl.concat(parts, rechunk=True)

    def _put(self, column: pl.Series) -> pl.Series | _Packed:
        """A column in the file, if there is place; else as it is."""
        return self._file.put(column.to_frame()) or column

    def _got(self, part: pl.Series | _Packed) -> pl.Series:
        return part if isinstance(part, pl.Series) else self._file.get(part).to_series()


class _TableFile:
    """A file without a name for tables, made when the first is put there."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def put(self, table: pl.DataFrame) -> _Packed | None:
        """Where the table is from now on; None: there is no place."""
        packed = io.BytesIO()
        table.write_ipc(packed)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=spilling.FOLDER, buffering=0)  # noqa: SIM115
            first = self._file.seek(0, os.SEEK_END)
            if self._file.write(packed.getbuffer()) < packed.tell():
                return None
        except OSError:
            return None
        return _Packed(first, packed.tell())

    def get(self, part: _Packed) -> pl.DataFrame:
        assert self._file is not None, "it was put there"
        self._file.seek(part.first)
        return pl.read_ipc(self._file.read(part.size))

    def __del__(self) -> None:
        self.close()  # a table that nobody drops goes with its last reader

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class WaitingTables:
    """Tables that wait on disk to be taken out once, all together."""

    def __init__(self) -> None:
        self._tables = list[pl.DataFrame | _Packed]()
        self._file = _TableFile()

    def __len__(self) -> int:
        return len(self._tables)

    def add(self, table: pl.DataFrame) -> None:
        """One more."""
        self._tables.append(self._file.put(table) or table)

    def take(self) -> pl.DataFrame:
        """The rows of all, in the order in which they came."""
        each = (one if isinstance(one, pl.DataFrame) else self._file.get(one)
                for one in self._tables)  # fmt: skip
        found = pl.concat(each, rechunk=True)
        self._tables = []
        self._file.close()
        return found


Tables = GatheredRows | Sequence[pl.DataFrame]
"""A long table in parts, which may be asked for again and again."""


def columns_of(tables: Tables, *names: str) -> Iterator[pl.DataFrame]:
    """The tables one after the other, with these columns."""
    if isinstance(tables, GatheredRows):
        yield from tables.each(*names)
    else:
        yield from (table.select(names) for table in tables)


def by_range(
    tables: Iterable[pl.DataFrame], names: Iterable[pl.Series], rows: int, key: str
) -> list[WaitingTables]:
    """Rows by ranges of a key, in its order: those of one range together, as they came.

    ``names``: the keys of all rows, to choose the ranges by; ``rows``: how many there are.
    """
    some = pl.concat([one.gather_every(_ASKED_EVERY) for one in names]).sort()
    count = -(-rows // AT_ONCE)
    edges = [some[len(some) * i // count] for i in range(1, count)]
    ranges = [WaitingTables() for _ in range(count)]
    for table in tables:
        code = pl.sum_horizontal(pl.lit(0), *((pl.col(key) >= edge) for edge in edges))
        parts = table.with_columns(_range=code).partition_by(
            "_range", maintain_order=True, as_dict=True, include_key=False
        )
        for (i,), part in parts.items():
            ranges[int(i)].add(part)
    return ranges


_NOTHING = ""


def _is_alike(column: pl.Series) -> bool:
    if column.null_count() or column.dtype.is_nested():
        return column.null_count() == len(column)
    return bool((column == column[0]).all())
