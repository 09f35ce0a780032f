"""A table in a text file: its cells, and what is wrong with the text where it is none."""

import csv
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tidemill.live import foreign
from tidemill.live.csv import parquet, text_rows
from tidemill.live.csv.text_rows import TextRows
from tidemill.model.errors import SpecError

LARGEST_BYTES = 4 * 1024**3
_COUNTED_BYTES = 16 * 1024**2
"""Of texts that are no longer than so the cells of each line are counted (0.3 s)."""
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How texts of UTF-16 begin."""
_SAID = re.compile(rb"sep=([,;\t|])\r?$", re.IGNORECASE)
_SIGNS = ",;\t|"
_IN_UTF_8 = (
    "save it as CSV UTF-8, or: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW (if that is what it was"
    " written in)"
)
_UNMARKED = "this looks like UTF-16 without its mark: iconv -f UTF-16LE -t UTF-8 FILE > NEW"


class _Text(NamedTuple):
    """A table before it is read."""

    path: Path
    source: Path | bytes
    parted_by: str
    is_said: bool
    """Whether the first line says what parts the cells, as spreadsheets write and hide it."""
    is_packed: bool

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """The cells of each line with their row, as long as the text is no longer than counted."""
        read = self.source
        if isinstance(read, Path):
            read = _opened(read, self.is_packed, _COUNTED_BYTES + 1)
        if len(read) > _COUNTED_BYTES:
            return
        text = io.StringIO(read.decode("utf-8-sig", "replace"), newline="")
        reader = csv.reader(text, delimiter=self.parted_by)
        first = 0 if self.is_said else 1
        try:
            yield from ((row, cells) for row, cells in enumerate(reader, first) if row and cells)
        except csv.Error:
            return


def read(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """All cells as text, and what to say of them; also of a table in Parquet.

    A comma, semicolon, tab or bar parts them, whichever the header has.
    """
    if parquet.is_parquet(path):
        return parquet.read(path), []
    ((rows, notes),) = _tables(path)
    return rows, notes


def read_long(path: Path) -> tuple[TextRows, list[str]]:
    """The same of a table that may be long: its cells wait on disk."""
    notes = list[str]()
    if parquet.is_parquet(path):
        return TextRows([parquet.read(path)]), notes

    def tables() -> Iterator[pl.DataFrame]:
        for rows, said in _tables(path, in_blocks=True):
            notes.extend(said)
            yield rows

    return TextRows(tables()), notes


def _tables(path: Path, *, in_blocks: bool = False) -> Iterator[tuple[pl.DataFrame, list[str]]]:
    """A table; ``in_blocks``: some rows of a long one at a time, if lines are rows."""
    try:
        text = _text(path)
        is_long = in_blocks and _is_long(text)
        for some in text_rows.blocks(path) if is_long else (text.source,):
            rows = pl.read_csv(
                some, separator=text.parted_by, infer_schema=False,
                truncate_ragged_lines=False, skip_lines=int(text.is_said),
            )  # fmt: skip
            if not len(rows):
                raise SpecError(
                    f"`{path}` has a header and no rows", hint="export at least one row"
                )
            yield rows, [] if is_long else _short(text, rows)
    except foreign.CUT_OFF as error:
        raise foreign.cut_off(path) from error
    except UnicodeError as error:
        raise SpecError(f"`{path}` is no text in UTF-8 or UTF-16", hint=_IN_UTF_8) from error
    except pl.exceptions.PolarsError as error:
        raise _no_table(text, str(error)) from error
    except OSError as error:
        if "end of file" in str(error):
            raise foreign.cut_off(path) from error
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="give the path of a CSV file"
        ) from error


def _is_long(text: _Text) -> bool:
    """Whether a table is read in blocks."""
    is_plain = not text.is_packed and not text.is_said and isinstance(text.source, Path)
    if not is_plain or text.path.stat().st_size < text_rows.LONG_BYTES:
        return False
    return text_rows.is_plain(text.path)


def _text(path: Path) -> _Text:
    """A table before it is read; what is no text is refused."""
    size = path.stat().st_size
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    head = _opened(path, is_packed, 1 << 16).removeprefix(b"\xef\xbb\xbf")
    foreign.refuse(path, "csv")
    if not head.strip():
        raise SpecError(f"`{path}` is empty", hint="export a table with a header and rows")
    if size > LARGEST_BYTES:
        raise SpecError(
            f"`{path}` has {size:,} bytes; at most {LARGEST_BYTES:,} are read at once",
            hint="cut it by date, and import each part into a journal of its own",
        )
    source: Path | bytes = path
    if head.startswith(_WIDE):
        source = _opened(path, is_packed).decode("utf-16").encode()
        head = source[: 1 << 16]
    if not _is_text(head.partition(b"\n")[0]):
        way = _UNMARKED if head[1::2][:4] == b"\0\0\0\0" else _IN_UTF_8
        raise SpecError(
            f"`{path}` is no table in text: its first line is not UTF-8",
            hint=f"give a CSV file, as it is or packed with gzip; {way}",
        )
    if b"\n" not in head and b"\r" in head.strip():  # as old spreadsheets end lines
        source = _opened(path, is_packed).replace(b"\r", b"\n")
        head = source[: 1 << 16]
    line, _, rest = head.partition(b"\n")
    said = _SAID.match(line)
    line = rest.partition(b"\n")[0] if said else line
    parted_by = said[1].decode() if said else _parted_by(line.decode("utf-8", "replace"))
    return _Text(path, source, parted_by, said is not None, is_packed)


def _no_table(text: _Text, fault: str) -> SpecError:
    """What is wrong with a text that is not read as a table."""
    path, header = text.path, list[str]()
    if "utf" in fault.lower():
        return SpecError(f"`{path}` is no text in UTF-8", hint=_IN_UTF_8)
    hint = "every line needs as many cells as the first, and a text with a quote two of them"
    if "end of file" in fault:
        return foreign.cut_off(path)
    for row, cells in text.lines():
        header = header or cells
        if len(cells) > len(header):
            if header[0].startswith("#"):
                hint = "the first line has to be the header: remove what stands before it"
            cells_of = f"{len(cells)} cells, the header {len(header)}"
            return SpecError(
                f"`{path}` is no table: row {row} has {cells_of}",
                hint=foreign.hint(path, "csv") or hint,
            )
    quotes = "quotes that are opened in one cell and not closed before its end"
    return SpecError(f"`{path}` is no table: it has {quotes}", hint=f'look for a lone "; {hint}')


def _short(text: _Text, rows: pl.DataFrame) -> list[str]:
    """Lines with fewer cells than the header, in words: a file was cut off, or cells were lost."""
    if not rows[:, -1].null_count():
        return []
    wide = len(rows.columns)
    short = [row for row, cells in text.lines() if len(cells) < wide and any(cells)]
    if not short:
        return []
    named = ", ".join(map(str, short[:5])) + (" …" if len(short) > 5 else "")
    which = f"row {named} has" if len(short) == 1 else f"rows {named} have"
    return [f"{which} fewer cells than the header: nothing is said in the last columns there"]


def _opened(path: Path, is_packed: bool, most: int = -1) -> bytes:
    with gzip.open(path, "rb") if is_packed else path.open("rb") as file:
        return file.read(most)


def _is_text(line: bytes) -> bool:
    """Whether a line is text in UTF-8; the last letter may be cut off."""
    try:
        line[:-3].decode()
    except UnicodeDecodeError as error:
        return error.end == len(line) - 3 and error.reason == "unexpected end of data"
    return b"\0" not in line


def _parted_by(line: str) -> str:
    """What parts the cells of a header, outside of quotes."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_SIGNS, key=bare.count)
