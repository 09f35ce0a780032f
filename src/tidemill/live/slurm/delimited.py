"""Text with a header line and one row per line, in chunks of bounded size.

Reads bytes in blocks, cuts them at line ends, decodes them, and gives the rows that have as many
fields as the header, with the numbers of their lines; one whose fields hold line breaks is several
lines (``line_breaks``). What does not fit is refused by its line number. A line
that was there before, letter by letter, is refused too: an export that was joined with itself
would count everything twice.
"""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import polars as pl

from tidemill.live.slurm import line_breaks
from tidemill.live.slurm.refusals import Refusals
from tidemill.model.errors import SpecError

BLOCK_BYTES = 8 << 20
"""About 40,000 rows of sacct: large enough for columns, small enough for any machine."""
LONGEST_LINE_BYTES = 1 << 20
DELIMITERS = ("|", "\x1f", "\t", ";", ",")
"""Guessed in this order from the header; `|` is what sacct prints, `\\x1f` what we ask it for."""


class Header(NamedTuple):
    """The names of the columns, as printed, and what separates them."""

    names: tuple[str, ...]
    delimiter: str
    line: str
    trailing: bool
    """Every line ends in a delimiter (`sacct -p`)."""


class LineChunk(NamedTuple):
    """Some of the lines: their numbers, and one column of text per field of the header."""

    numbers: np.ndarray
    fields: list[pl.Series]


def header_of(line: str, delimiter: str | None = None) -> Header:
    """Read a header line; the delimiter is guessed unless it is given."""
    found = delimiter or next((d for d in DELIMITERS if d in line), None)
    trailing = found is not None and line.endswith(found)
    body = line[: -len(found)] if trailing and found else line
    names = tuple(name.strip() for name in (body.split(found) if found else [body]))
    return Header(names, found or "|", line, trailing)


def blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The bytes in pieces that end at line ends; a line that is too long ends the reading."""
    rest = b""
    while block := stream.read(block_bytes):
        whole, newline, tail = block.rpartition(b"\n")
        if newline:
            yield rest + whole
            rest = tail
            continue
        rest += block
        if len(rest) > max(LONGEST_LINE_BYTES, block_bytes):
            raise SpecError(
                f"a line is longer than {LONGEST_LINE_BYTES >> 20} MiB",
                hint="is this the text of a Slurm command? sacct -P prints one line per job",
            )
    if rest:
        yield rest


def chunks(
    stream: BinaryIO,
    header: Header,
    refusals: Refusals,
    *,
    encoding: str = "utf-8",
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[LineChunk]:
    """The rows after the header, in chunks; ``stream`` stands at the beginning of the file."""
    seen, held = _Seen(), _Lines(pl.Series("line", [], dtype=pl.String), np.array([], np.int64))
    next_number = 1
    for block in blocks(stream, block_bytes):
        lines, numbers, count = _lines(block, next_number, encoding, refusals)
        next_number += count
        chunk, held = _fields(held.before(lines, numbers), header, refusals, seen, may_go_on=True)
        if chunk is not None:
            yield chunk
    chunk, _ = _fields(held, header, refusals, seen)
    if chunk is not None:
        yield chunk


class _Lines(NamedTuple):
    """Lines, and their numbers."""

    texts: pl.Series
    numbers: np.ndarray

    def before(self, texts: pl.Series, numbers: np.ndarray) -> "_Lines":
        """These, and then those."""
        if not len(self.numbers):
            return _Lines(texts, numbers)
        return _Lines(pl.concat([self.texts, texts]), np.concatenate([self.numbers, numbers]))

    def cut(self, place: int) -> tuple["_Lines", "_Lines"]:
        """Those up to a place, and the rest."""
        texts, numbers = self
        return (
            _Lines(texts.head(place), numbers[:place]),
            _Lines(texts.slice(place), numbers[place:]),
        )


def _lines(
    block: bytes, first: int, encoding: str, refusals: Refusals
) -> tuple[pl.Series, np.ndarray, int]:
    """The lines of a block that could be decoded, their numbers, and how many there were."""
    if (plain := _plain_lines(block, encoding)) is not None:
        return plain, np.arange(first, first + len(plain)), len(plain)
    try:
        texts = block.decode(encoding).split("\n")
        count = len(texts)
        numbers = np.arange(first, first + count)
    except UnicodeDecodeError:
        texts, kept = [], []
        raw = block.split(b"\n")
        for number, line in enumerate(raw, start=first):
            try:
                texts.append(line.decode(encoding))
                kept.append(number)
            except UnicodeDecodeError as error:
                found = (
                    f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not {encoding}"
                )
                refusals.add("line", number, found, ENCODING_HINT)
        count, numbers = len(raw), np.array(kept, dtype=np.int64)
    if b"\r" in block:
        texts = [text.removesuffix("\r") for text in texts]
    return pl.Series("line", texts, dtype=pl.String), numbers, count


def _plain_lines(block: bytes, encoding: str) -> pl.Series | None:
    """The same where nothing is special about any line: by the reader of tables, which takes a
    fifth of the time; a table of one column, divided by a letter that does not occur.
    """
    is_special = encoding != "utf-8" or block.startswith(codecs.BOM_UTF8)
    if is_special or b"\r" in block or _UNUSED in block:
        return None
    try:
        table = pl.read_csv(
            block, has_header=False, separator=_UNUSED.decode(), quote_char=None,
            new_columns=["line"], infer_schema=False,
        )  # fmt: skip
    except pl.exceptions.PolarsError:  # a byte that is no text, or no line at all
        return None
    is_whole = table.shape == (block.count(b"\n") + 1, 1)  # it leaves out lines without a letter
    return table["line"] if is_whole and not table["line"].null_count() else None


_UNUSED = b"\x01"


ENCODING_HINT = (
    "write it as UTF-8: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW (if that is what it is), or"
    " export with LC_ALL=C.UTF-8"
)


def _fields(
    found: _Lines, header: Header, refusals: Refusals, seen: "_Seen", *, may_go_on: bool = False
) -> tuple[LineChunk | None, _Lines]:
    """The fields of the lines that have as many as the header. One more than that is split off,
    so that a line that has too many shows it, and one that has too few ends in nothing.

    ``may_go_on``: a row may go on behind the last line; its lines come back as they are.
    """
    lines, numbers = found
    _, nothing = found.cut(len(numbers))
    width = len(header.names) + header.trailing
    split = lines.str.split_exact(header.delimiter, width).struct.unnest().get_columns()
    is_row = ((lines != "") & (lines != header.line)).to_numpy()
    is_short = is_row & split[width - 1].is_null().to_numpy()
    if is_short.any():
        is_short &= ~lines.str.contains(COMPLAINT.pattern).to_numpy()
        whole = line_breaks.joined(lines, numbers, is_short, header.delimiter, width - 1)
        if whole is not None:
            return _fields(_Lines(*whole), header, refusals, seen, may_go_on=may_go_on)
        begun, rest = found.cut(line_breaks.tail(lines, is_short))
        if may_go_on and 0 < rest.texts.str.len_bytes().sum() < LONGEST_LINE_BYTES:
            return _fields(begun, header, refusals, seen)[0], rest
    is_wide = (split[width - 1].is_not_null() & split[width].is_null()).to_numpy()
    for i in np.flatnonzero(is_row & ~is_wide):
        line = lines[int(i)]
        if COMPLAINT.match(line):
            refusals.add("line", int(numbers[i]), f"`{line[:80]}`", COMPLAINT_HINT)
            continue
        count = line.count(header.delimiter) + 1 - header.trailing
        words = f"{count} fields, the header has {len(header.names)}"
        refusals.add("line", int(numbers[i]), words, WIDTH_HINT)
    twice = seen.again(lines) & is_row & is_wide
    for i in np.flatnonzero(twice):
        refusals.add("line", int(numbers[i]), "the same line as an earlier one", TWICE_HINT)
    keep = is_row & is_wide & ~twice
    if not keep.any():
        return None, nothing
    fields = split[: len(header.names)]
    if keep.all():
        return LineChunk(numbers, fields), nothing
    kept = pl.Series(keep)
    return LineChunk(numbers[keep], [column.filter(kept) for column in fields]), nothing


WIDTH_HINT = (
    "a name or comment that holds the delimiter moves all columns; export with "
    "--delimiter=$'\\x1f', or leave that column out"
)
COMPLAINT = re.compile(r"^\w+: (error|fatal): ")
"""How Slurm's commands begin what they complain of."""
COMPLAINT_HINT = (
    "the command complained here, and rows may be missing: run it again, and keep what it says on"
    " the side (2> errors.txt) out of the file"
)
TWICE_HINT = "the file holds an export twice; counted once"


class _Seen:
    """Hashes of all lines so far, 8 bytes each: sorted arrays, merged as they grow."""

    def __init__(self) -> None:
        self._sorted: list[np.ndarray] = []

    def again(self, lines: pl.Series) -> np.ndarray:
        """Which of these lines were there before, here or earlier; then remember them."""
        hashes = lines.hash(seed=7).to_numpy()
        order = np.argsort(hashes, kind="stable")
        ranked = hashes[order]
        first_here = np.ones(len(hashes), dtype=bool)
        first_here[1:] = ranked[1:] != ranked[:-1]
        again = np.zeros(len(hashes), dtype=bool)
        again[order] = ~first_here
        for earlier in self._sorted:
            place = np.minimum(np.searchsorted(earlier, hashes), len(earlier) - 1)
            again |= earlier[place] == hashes
        self._remember(ranked[first_here])
        return again

    def _remember(self, hashes: np.ndarray) -> None:
        if not len(hashes):  # no line of the block was text
            return
        self._sorted.append(hashes)
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            both = np.concatenate([self._sorted[-1], last])
            both.sort(kind="stable")  # merges the two runs
            self._sorted[-1] = both
