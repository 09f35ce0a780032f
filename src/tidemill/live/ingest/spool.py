"""Records that were taken, in files: whole lines, each record once, on disk before the answer.

Requests that come while the disk is being waited for are written together and share one ``fsync``.
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from tidemill.live.track.reader import SUFFIX, TrackReader, files_of
from tidemill.live.track.records import UnusableRecord, parse
from tidemill.live.track.seen import SeenRecords
from tidemill.model.errors import SpecError

PART_BYTES = 256 << 20
LOCK_NAME = "writer.lock"
STEM = "records-"


class RefusedRecord(NamedTuple):
    """A line of a request that was not taken: its number from 1, and why."""

    line: int
    why: str


class Taken(NamedTuple):
    """What became of the lines of one request."""

    accepted: int
    repeated: int
    refused: tuple[RefusedRecord, ...]


class _Batch:
    """The lines of one request, until they are on disk."""

    __slots__ = ("error", "is_done", "lines", "taken")

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.lines = lines
        self.is_done = False
        self.taken = Taken(0, 0, ())
        self.error: OSError | None = None


class Spool:
    """A folder of records with one writer."""

    def __init__(self, folder: Path | str, part_bytes: int = PART_BYTES) -> None:
        self.folder = Path(folder)
        self._part_bytes = part_bytes
        self._queue: list[_Batch] = []
        self._queue_lock, self._write_lock = Lock(), Lock()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = _locked(self.folder)
        _cut_torn_ends(self.folder)
        self.taken = 0
        """How many records were kept since the spool was opened."""
        self._seen = _seen_in(self.folder)
        self._part = _next_number(self.folder)
        self._file, self._size = -1, 0

    def take(self, lines: Sequence[bytes]) -> Taken:
        """Keep the records among these lines that are new; they are on disk when this returns.

        ``OSError`` where they cannot be kept: nothing of them is, and they may be sent again.
        """
        batch = _Batch(lines)
        with self._queue_lock:
            self._queue.append(batch)
        with self._write_lock:  # whoever is first writes for all who wait here
            if not batch.is_done:
                self._write_queue()
        if batch.error is not None:
            raise batch.error
        return batch.taken

    def close(self) -> None:
        """Release the folder."""
        with self._write_lock:
            for file in (self._file, self._lock_file):
                if file >= 0:
                    os.close(file)
            self._file = self._lock_file = -1

    def _write_queue(self) -> None:
        with self._queue_lock:
            batches, self._queue = self._queue, []
        new: list[tuple[tuple[str, int, int], bytes]] = []
        in_batch: set[tuple[str, int, int]] = set()
        for batch in batches:
            batch.taken = self._sift(batch.lines, in_batch, new)
        error = None
        try:
            self._append(b"".join(line for _, line in new))
        except OSError as failed:
            error = failed
        else:
            self.taken += len(new)
            for key, _ in new:
                with suppress(SpecError):  # a run of gaps: its reader passes over what came twice
                    self._seen.add(*key)
        for batch in batches:
            batch.error, batch.is_done = error, True

    def _sift(
        self,
        lines: Sequence[bytes],
        in_batch: set[tuple[str, int, int]],
        new: list[tuple[tuple[str, int, int], bytes]],
    ) -> Taken:
        """Sort lines into new records, those that are there already, and what is none."""
        accepted, repeated, refused = 0, 0, []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = parse(line)
            except UnusableRecord as error:
                refused.append(RefusedRecord(number, str(error)))
                continue
            key = record.run, record.rank, record.seq
            if key in in_batch or self._seen.has(*key):
                repeated += 1
                continue
            in_batch.add(key)
            new.append((key, line.strip() + b"\n"))
            accepted += 1
        return Taken(accepted, repeated, tuple(refused))

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._file < 0 or self._size >= self._part_bytes:
            self._next_part()
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
            os.fsync(self._file)
        except OSError:
            try:
                os.ftruncate(self._file, self._size)
            except OSError:
                self._drop_file()  # the next goes to a new part: this one may end within a line
            raise
        self._size += written

    def _next_part(self) -> None:
        self._drop_file()
        path = self.folder / f"{STEM}{self._part:06d}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._part += 1
        self._size = 0

    def _drop_file(self) -> None:
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


def _locked(folder: Path) -> int:
    """Hold the folder for one writer; the lock goes with the process."""
    file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise SpecError(
            f"`{folder}` is written by another server", hint="stop it, or give another folder"
        ) from error
    return file


def _next_number(folder: Path) -> int:
    """Of the next file: above all that are there, of which the oldest may have been removed."""
    numbers = (path.stem.removeprefix(STEM) for path in files_of(folder))
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)


def _cut_torn_ends(folder: Path) -> None:
    """Remove what a killed server left of a line: its sender was never told that it is kept."""
    for path in files_of(folder):
        with path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            kept = size
            while kept:
                begin = max(0, kept - 65_536)
                file.seek(begin)
                at = file.read(kept - begin).rfind(b"\n")
                kept = begin + at + 1 if at >= 0 else begin
                if at >= 0:
                    break
            if kept < size:
                file.truncate(kept)


def _seen_in(folder: Path) -> SeenRecords:
    reader = TrackReader()
    for _ in reader.stream(folder):
        pass
    return reader.seen
