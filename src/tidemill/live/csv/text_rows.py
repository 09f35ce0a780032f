"""The cells of a table as text, column by column: those of a long table wait on disk.

A table without quotes is cut at the ends of lines and read block by block, so that it is never at
hand as a whole. One with quotes, or with empty lines, is read at once: a line may then be a part of
a cell, and where a row ends is for one reader to say.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from tidemill.live.history.gathered import GatheredRows

LONG_BYTES = 17 << 20
"""From so many on a table is read in blocks."""
_BLOCK_BYTES = 1 << 23
_UNPLAIN = (b'"', b"\n\n", b"\n\r\n")
_MARK = b"\xef\xbb\xbf"  # that a text is UTF-8


class TextRows:
    """The rows of some tables with the same header, one after the other."""

    def __init__(self, tables: Iterable[pl.DataFrame]) -> None:
        self._tables, empty = GatheredRows(), list[pl.Series]()
        self.columns: list[str] = []
        for table in tables:
            self.columns = table.columns
            empty.append(table.select(pl.all_horizontal(pl.all().is_null())).to_series())
            self._tables.add(table)
        self.is_empty = pl.concat(empty)
        """Of each row, whether nothing is in it."""

    def __len__(self) -> int:
        return self._tables.rows

    def __getitem__(self, name: str) -> pl.Series:
        """All cells of a column."""
        return pl.concat([table[name] for table in self._tables.each(name)])


def is_plain(path: Path) -> bool:
    """Whether every line of a file is a row, as far as that can be told without reading it."""
    with path.open("rb") as file:
        last = b""
        while block := file.read(_BLOCK_BYTES):
            if any(mark in block or mark in last + block[:2] for mark in _UNPLAIN):
                return False
            last = block[-2:]
    return True


def blocks(path: Path) -> Iterator[bytes]:
    """A plain file in parts, each of them with its header."""
    with path.open("rb") as file:
        header = file.readline().removeprefix(_MARK)
        while block := file.read(_BLOCK_BYTES):
            yield header + block + file.readline()
