"""Open what a Slurm command printed, whichever it was, and read it as rows or as columns.

``open_output`` looks at the first bytes: JSON, a header line with delimiters, or scontrol's
`Key=value`. The reading is lazy and bounded; what could not be read is in ``refusals``.
"""

import gzip
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import tzinfo
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from msgspec import Struct

from tidemill.live import foreign
from tidemill.live.slurm import blocks, delimited, frames, json_rows, times
from tidemill.live.slurm.columns import TEXT_TABLES, Output, table_of
from tidemill.live.slurm.json_records import JsonDocument
from tidemill.live.slurm.refusals import Refusals
from tidemill.live.slurm.text_tables import RowFrame, TextReader, no_zone
from tidemill.model.errors import SpecError

ROWS_AT_ONCE = 10_000
"""Rows of JSON and scontrol per frame of columns."""
LONGEST_HEADER = 64 << 10
RECORD_HINT = "the record is left out; the command's own --json may say more"
JSON_HINT = "the record is left out; the same command without --json may say it"


class SlurmReading(ABC):
    """One output of Slurm that is being read, once: by ``rows`` or by ``frames``.

    ``output`` says which it is (of JSON only after the first row). ``refusals`` and ``unread``
    (columns that nothing is made of) are whole when the reading is.
    """

    is_json = False

    def __init__(self, stream: BinaryIO, zone: tzinfo | None) -> None:
        self.refusals = Refusals()
        self.output: Output | None = None
        self.unread: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = ()
        """Of delimited text: the header, as printed."""
        self.errors: tuple[str, ...] = ()
        """What the command itself said went wrong (`errors` in its JSON)."""
        self.wanted: frozenset[str] | None = None
        """What of jobs in delimited text is of use to whoever reads; None: all of it."""
        self._stream, self._zone = stream, zone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def second_hours(self) -> int:
        """Times that were taken as the second that the clock showed, which was put back."""
        return 0

    def rows(self) -> Iterator[Any]:
        """Every row (one of ``rows``), in the order of the output."""
        for found in self._found():
            if isinstance(found, RowFrame):
                yield from frames.rows_of(found.makes, found.frame)
            else:
                yield found

    def frames(self) -> Iterator[RowFrame]:
        """The rows as columns, in chunks of one kind each."""
        found = self._found()
        while some := list(islice(found, 1)):
            if isinstance(some[0], RowFrame):
                yield some[0]
            else:  # a text is all frames, everything else all rows
                yield from _frames([*some, *islice(found, ROWS_AT_ONCE - 1)])

    @abstractmethod
    def _found(self) -> Iterator[RowFrame | Struct]:
        """What is read, as rows or as frames of them."""


def _frames(some: list[Any]) -> Iterator[RowFrame]:
    for kind in dict.fromkeys(type(row) for row in some):
        yield RowFrame(kind, frames.frame_of_rows(kind, [row for row in some if type(row) is kind]))


class _TextReading(SlurmReading):
    """Delimited text."""

    def __init__(self, stream: BinaryIO, reader: TextReader, encoding: str) -> None:
        super().__init__(stream, None)
        self.refusals, self.unread, self.output = (
            reader.refusals,
            reader.unread,
            reader.table.output,
        )
        self.columns = reader.header.names
        self._reader, self._encoding = reader, encoding

    @property
    def second_hours(self) -> int:
        return self._reader.second_hours

    def _found(self) -> Iterator[RowFrame | Struct]:
        return self._reader.frames(self._stream, encoding=self._encoding, wanted=self.wanted)


class _JsonReading(SlurmReading):
    is_json = True

    def _found(self) -> Iterator[RowFrame | Struct]:
        document = JsonDocument(self._stream, self.refusals)
        for key, number, record in document.records():
            if key in {"errors", "warnings"}:
                self.errors += (str(record),) if key == "errors" else ()
                continue
            output = json_rows.output_of(key, record) if isinstance(record, dict) else None
            if output is None:
                self.refusals.add("record", number, f"a record of `{key}`, which is not read", "")
                continue
            self.output = output
            try:
                made = list(json_rows.ROWS[output](record))
            except (ValueError, TypeError, AttributeError) as error:
                named = record.get("job_id", record.get("name", "?"))
                self.refusals.add("record", number, f"`{named}` of {output}: {error}", JSON_HINT)
            else:
                yield from made


class _BlockReading(SlurmReading):
    def _found(self) -> Iterator[RowFrame | Struct]:
        for record in blocks.records(self._lines()):
            self.output = blocks.FIRST_KEYS.get(record.pairs[0][0])
            if self.output is None:
                message = f"`{record.pairs[0][0]}=`, which opens no record that is read"
                self.refusals.add("record", record.number, message)
                continue
            try:
                yield blocks.ROWS[self.output](record, self._zone)
            except ValueError as error:
                if str(error) == times.NO_ZONE:
                    key, found = next(pair for pair in record.pairs if times.is_in_iso(pair[1]))
                    where = f"{key} of `{record.pairs[0][1]}` ({self.output})"
                    raise no_zone(where, found) from None
                self.refusals.add(
                    "record", record.number, f"(line {record.line}) {error}", RECORD_HINT
                )

    def _lines(self) -> Iterator[str]:
        for block in delimited.blocks(self._stream):
            for line in block.removeprefix(MARK).split(b"\n"):
                yield line.decode("utf-8", "replace").rstrip("\r")


MARK = b"\xef\xbb\xbf"
"""What some editors put before UTF-8."""


def open_output(
    source: Path | str | bytes | BinaryIO,
    *,
    zone: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> SlurmReading:
    """Open a file, bytes or a stream that can be rewound; a context manager, which closes it.

    ``zone``: of times that were printed without one. ``delimiter``: of text, guessed otherwise.
    """
    stream = _stream(source)
    try:
        where = times.zone_of(zone) if zone else None
        return _recognised(stream, where, delimiter, encoding)
    except BaseException:
        stream.close()
        raise


def _stream(source: Path | str | bytes | BinaryIO) -> BinaryIO:
    if isinstance(source, Path | str):
        return _opened(Path(source))
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _recognised(
    stream: BinaryIO, zone: tzinfo | None, delimiter: str | None, encoding: str
) -> SlurmReading:
    """The reading for what this stream begins with."""
    begin = stream.read(LONGEST_HEADER)
    stream.seek(0)
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SpecError(
            "the file is in UTF-16", hint="iconv -f UTF-16 -t UTF-8 FILE, or encode it as UTF-8"
        )
    text = begin.removeprefix(MARK).lstrip()
    if text.startswith(b"{"):
        return _JsonReading(stream, zone)
    first = text.partition(b"\n")[0].decode(encoding, "replace").rstrip("\r")
    if first.partition("=")[0] in blocks.FIRST_KEYS or blocks.NOTHING.fullmatch(first):
        return _BlockReading(stream, zone)
    header = delimited.header_of(first, delimiter)
    table = table_of(header.names)
    if table is None:
        raise _unknown(first, header)
    reader = TextReader(table, header, zone, Refusals())
    is_marked = begin.startswith(MARK)
    return _TextReading(stream, reader, "utf-8-sig" if is_marked else encoding)


def _opened(path: Path) -> BinaryIO:
    foreign.refuse(path, "slurm")
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        return cast(BinaryIO, gzip.open(path)) if is_packed else path.open("rb")
    except OSError as error:
        message = f"`{path}` cannot be read: {error.strerror}"
        raise SpecError(message, hint="give a file that a Slurm command printed") from None


def _unknown(first: str, header: delimited.Header) -> SpecError:
    shown = first if len(first) <= 80 else f"{first[:77]}…"
    if not first:
        return SpecError(
            "the file is empty",
            hint="Slurm's commands print something also where there is nothing: run the command"
            " again and look at what it complains of (some know no --json)",
        )
    if delimited.COMPLAINT.match(first):
        return SpecError(
            f"the file begins with a complaint of the command: `{shown}`",
            hint=delimited.COMPLAINT_HINT,
        )
    if len(header.names) == 1 and {"JOBID", "NODELIST", "JobID"} & {*first.split()}:
        return SpecError(
            f"the columns are padded with blanks, so names are cut off: `{shown}`",
            hint="print them with delimiters: sacct -P, squeue -o '%i|%T|…' or --json",
        )
    known = ", ".join(sorted({t.output.value for t in TEXT_TABLES}))
    return SpecError(
        f"no output of Slurm that this reads begins with `{shown}`",
        hint=f"the header line is needed (no -n); known are {known}, scontrol show …, and --json",
    )
