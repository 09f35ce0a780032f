"""Files of records, read line by line: the good lines count, the others are told."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from tidemill.live.track.records import TrackRecord, UnusableRecord, parse
from tidemill.live.track.seen import SeenRecords, SeqGap
from tidemill.model.errors import SpecError
from tidemill.track.format import LONGEST_LINE

SUFFIX = ".jsonl"
PACKED = ".jsonl.gz"
MOST_REFUSED = 1000
"""Refused lines that are kept with their reasons; the rest is counted."""


class RefusedLine(NamedTuple):
    """A line that is no record, and why."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        return f"`{self.path}`, line {self.line}: {self.why}"


class Readings(NamedTuple):
    """What there is in files of records."""

    records: list[TrackRecord]
    """Each once, in the order of the files."""
    refused: list[RefusedLine]
    """Lines that are no records, the first thousand."""
    gaps: list[SeqGap]
    """Numbers that are missing, below the highest of their run."""
    refused_in_all: int = 0
    repeated: int = 0
    """Records that came again, and were passed over."""
    truncated: tuple[Path, ...] = ()
    """Files that end within a line: their writer was killed, or is writing."""


class TrackReader:
    """Reads records one after the other; afterwards it knows what was refused and what is missing.

    Memory follows the number of runs and gaps, not of records. A reader that is given several files
    passes over what it has read from another one.
    """

    def __init__(self) -> None:
        self.refused: list[RefusedLine] = []
        self.refused_in_all = 0
        self.repeated = 0
        self.truncated: list[Path] = []
        self.seen = SeenRecords()
        """Which records have been read, by run, rank and number."""

    def stream(self, path: Path | str) -> Iterator[TrackRecord]:
        """The records of a file, or of all files in a folder, each once."""
        for one in files_of(Path(path)):
            with _opened(one) as file:
                try:
                    for number, line in _lines(file):
                        record = self._record(one, number, line)
                        if record is not None:
                            yield record
                except EOFError:  # a packed file whose end is missing
                    self.truncated.append(one)
                except (gzip.BadGzipFile, zlib.error) as error:
                    raise SpecError(
                        f"`{one}` cannot be unpacked: {error}",
                        hint="it is damaged, or not packed with gzip: give it without `.gz`",
                    ) from error

    def stream_from(self, path: Path, offset: int) -> Iterator[tuple[TrackRecord | None, int]]:
        """The records of the whole lines of a file from a place on, and the place after each.

        None: a line that is no record, or one that was read before.
        """
        with path.open("rb") as file:
            file.seek(offset)
            for number, line in _lines(file):
                if not line.endswith(b"\n") and len(line) <= LONGEST_LINE:
                    return  # its writer is writing
                yield self._record(path, number, line), file.tell()

    def gaps(self) -> list[SeqGap]:
        """Numbers that are missing so far."""
        return self.seen.gaps()

    def _record(self, path: Path, number: int, line: bytes) -> TrackRecord | None:
        """The record of a line; None where it was refused, is there already, or is only begun."""
        try:
            record = parse(line)
        except UnusableRecord as error:
            if line.endswith(b"\n") or len(line) > LONGEST_LINE:
                self._refuse(RefusedLine(path, number, str(error)))
            else:
                self.truncated.append(path)
            return None
        if not self.seen.add(record.run, record.rank, record.seq):
            self.repeated += 1
            return None
        return record

    def _refuse(self, refused: RefusedLine) -> None:
        self.refused_in_all += 1
        if len(self.refused) < MOST_REFUSED:
            self.refused.append(refused)


def read(path: Path | str) -> Readings:
    """All records of a file or of the files in a folder, what was refused, and what is missing."""
    reader = TrackReader()
    records = list(reader.stream(path))
    return Readings(
        records, reader.refused, reader.gaps(), reader.refused_in_all, reader.repeated,
        tuple(reader.truncated),
    )  # fmt: skip


def files_of(path: Path) -> list[Path]:
    """The files of records under a path: itself, or those of a folder in the order of names."""
    if path.is_dir():
        return sorted(found for found in path.iterdir() if found.name.endswith((SUFFIX, PACKED)))
    if not path.exists():
        raise SpecError(
            f"`{path}` does not exist",
            hint="give the folder that TIDEMILL_TRACK named in the job, or one file in it",
        )
    return [path]


def _opened(path: Path) -> BinaryIO:
    """A file of records as it is, or packed with gzip."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(file: BinaryIO) -> Iterable[tuple[int, bytes]]:
    """Lines with their numbers; of one that is too long, a piece that says so and no more."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(LONGEST_LINE)
        if line.strip():
            yield number, line
