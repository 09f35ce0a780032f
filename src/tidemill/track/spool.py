"""Records that could not be sent, on disk until they can be: in order, bounded, one file a process.

A process keeps here what its server did not take, from the first failure on, and sends it when the
server is there again; each record has its number, so that a server which has some of them keeps
none twice. What a process leaves when it ends is sent by the next tracked process of the same user
that reaches the same server, by an observer that listens there, or by ``tidemill ingest send``. A
file whose writer lives is locked (``flock``), and left to it.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from urllib.parse import urlsplit

VARIABLE = "TIDEMILL_TRACK_SPOOL"
MOST_BYTES = 64 << 20
"""Of one process: a record a second fills it in nearly two days."""
MOST_IN_ALL = 1 << 30
"""Of all files for one server, of which the newest then grow no more: a disk that tracking filled
would cost a job its next checkpoint."""
LOOK_EVERY_BYTES = 1 << 20
"""So often a file that grows is compared with all of them."""
LOOK_EVERY_S = 300.0
"""So often a process looks for what others left."""
BATCH_BYTES = 256 << 10
"""Read at once: far more than the longest line, and less than one request may have."""
SUFFIX = ".jsonl"


def folder_of(address: str) -> str | None:
    """Where records for a server wait; None where nothing is to be kept.

    ``TIDEMILL_TRACK_SPOOL``, else a folder of the user's cache.
    """
    root = os.environ.get(VARIABLE)
    if root is None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib takes 5 ms to load
        root = os.path.join(cache, "tidemill", "track")  # noqa: PTH118 - as above
    if not root:
        return None
    parts = urlsplit(address)
    name = f"{parts.scheme}_{parts.hostname}_{parts.port or ''}".rstrip("_")
    return os.path.join(root, re.sub(r"[^A-Za-z0-9._-]", "_", name))  # noqa: PTH118 - as above


class SpoolFile:
    """Lines in a file that this process holds: added at the end, taken away at the front."""

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self._file = file
        self._at = 0
        self.size = os.fstat(file).st_size

    @classmethod
    def open(cls, path: str, flags: int) -> "SpoolFile":
        """Open it and hold it; ``OSError`` where another process does, or it cannot be held."""
        try:
            from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415 - Windows has none
        except ImportError as error:
            raise OSError("files cannot be locked here") from error
        file = os.open(path, os.O_RDWR | flags, 0o600)
        try:
            flock(file, LOCK_EX | LOCK_NB)
            if not os.fstat(file).st_nlink:
                raise OSError("it has just been sent")
        except OSError:
            os.close(file)
            raise
        return cls(path, file)

    def add(self, data: bytes) -> None:
        """Write all of it, or nothing."""
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self.size + written)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += written

    def first(self) -> Sequence[bytes]:
        """The first lines that were not taken away; a line that was never ended is none."""
        lines = os.pread(self._file, BATCH_BYTES, self._at).split(b"\n")
        return [line + b"\n" for line in lines[:-1]]

    def take_away(self, lines: Sequence[bytes]) -> None:
        """These were sent; a file without any more is emptied."""
        self._at += sum(map(len, lines))
        if self._at >= self.size:
            os.ftruncate(self._file, 0)
            self._at = self.size = 0

    def close(self, *, is_sent: bool) -> None:
        """Leave it to others, or remove it."""
        if is_sent:
            with suppress(OSError):
                os.unlink(self.path)  # noqa: PTH108 - as above
        os.close(self._file)


class RecordSpool:
    """The records of one process that its server has not taken; used by one thread."""

    def __init__(
        self,
        folder: str,
        stem: str,
        most_bytes: int = MOST_BYTES,
        most_in_all: int = MOST_IN_ALL,
    ) -> None:
        self._folder = folder
        name = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[-150:].lstrip(".")
        self.path = os.path.join(folder, name + SUFFIX)  # noqa: PTH118 - as above
        self._most_bytes, self._most_in_all = most_bytes, most_in_all
        self._own: SpoolFile | None = None
        self._measured_at = 0
        self._left: LeftRecords | None = None
        self._look_s = 0.0

    @property
    def has_some(self) -> bool:
        """Whether records of this process wait here."""
        return self._own is not None and self._own.size > 0

    def keep(self, lines: Sequence[bytes]) -> None:
        """Keep lines after those that are here, all or none; ``OSError`` where that cannot be."""
        data = b"".join(lines)
        if self._own is None:
            os.makedirs(self._folder, 0o700, exist_ok=True)  # noqa: PTH103 - as above
            self._refuse_over()
            self._own, self._measured_at = SpoolFile.open(self.path, os.O_CREAT), 0
        if self._own.size + len(data) > self._most_bytes:
            raise OSError(f"{self.path} has its {self._most_bytes:,} bytes")
        if self._own.size - self._measured_at >= LOOK_EVERY_BYTES:
            self._refuse_over()
            self._measured_at = self._own.size
        self._own.add(data)

    def first(self) -> Sequence[bytes]:
        """The oldest lines of this process."""
        return self._own.first() if self._own else ()

    def take_away(self, lines: Sequence[bytes]) -> None:
        """The oldest lines were sent."""
        assert self._own is not None, "they came from there"
        self._own.take_away(lines)

    def close(self) -> None:
        """The process ends; what was not sent stays."""
        if self._left is not None:
            self._left.close()
        if self._own is not None:
            own, self._own = self._own, None
            own.close(is_sent=not own.size)

    def left(self) -> "LeftRecords | None":
        """What other processes left, every five minutes; None in between."""
        now_s = monotonic()
        if self._left is None and now_s >= self._look_s:
            self._left, self._look_s = LeftRecords(self._folder), now_s + LOOK_EVERY_S
        if self._left is not None and not self._left.first():
            self._left = None
        return self._left

    def _refuse_over(self) -> None:
        with os.scandir(self._folder) as found:
            size = sum(one.stat().st_size for one in found)
        if size >= self._most_in_all:
            raise OSError(f"{self._folder} has its {self._most_in_all:,} bytes")


class LeftRecords:
    """The records in a folder that processes left which have ended, one file after the other."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))  # noqa: PTH208 - as above
        except OSError:  # nobody ever left anything
            names = []
        self._names = iter(names)
        self._open: SpoolFile | None = None

    def first(self) -> Sequence[bytes]:
        """The first lines that were not taken away; nothing: all is sent, or held by the living."""
        while self._open is not None or self._next():
            assert self._open is not None, "there is one, or the next was opened"
            if lines := self._open.first():
                return lines
            self._open.close(is_sent=True)
            self._open = None
        return ()

    def take_away(self, lines: Sequence[bytes]) -> None:
        """The first lines were sent."""
        assert self._open is not None, "they came from there"
        self._open.take_away(lines)

    def close(self) -> None:
        """Leave the rest to others."""
        if self._open is not None:
            self._open.close(is_sent=False)
            self._open = None

    def _next(self) -> bool:
        """Open the next file that nobody holds."""
        for name in self._names:
            with suppress(OSError):
                self._open = SpoolFile.open(os.path.join(self._folder, name), 0)  # noqa: PTH118 - as above
                return True
        return False
