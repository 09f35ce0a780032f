"""Records in files: one writer per file, whole lines only, bounded in all.

Each process writes files of its own (``JOB-rankR-RUN-0000.jsonl``, then ``-0001`` …), so no two
writers share one, and what a killed process left can end within a line but never in the middle of
somebody else's.

Lines are in the kernel's hands when ``send`` returns: killing the process loses none of them. They
are on disk (``fsync``) half a minute later at the latest, and when a file is full or closed: that
is what a crash of the machine may lose.
"""

import os
import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from tidemill.track.outlets import first_lines

PART_BYTES = 64 << 20
"""Of one file. A record a second fills it in about two days."""
MOST_PARTS = 16
"""Files of one process: a gibibyte, then the oldest is removed. A disk that tracking filled would
cost the job its next checkpoint."""
FSYNC_EVERY_S = 30.0
BATCH_BYTES = 64 << 10
"""Of one write: what fits on a disk that is nearly full should not wait for the rest."""


class FileOutlet:
    """Appends lines to the files of one process."""

    longest_pause_s = 5.0
    lost_why = "files over the bound were removed"
    spool = None

    def __init__(
        self, folder: str, stem: str, part_bytes: int = PART_BYTES, most_parts: int = MOST_PARTS
    ) -> None:
        self.lost = 0
        self._folder = folder
        self._stem = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[-150:].lstrip(".")
        self._part_bytes = part_bytes
        self._lines = deque([0], maxlen=most_parts + 1)  # of each part, the newest last
        self._file = -1
        self._part = -1
        self._size = 0
        self._is_torn = False
        self._synced_s = monotonic()

    def path(self, part: int) -> str:
        """Where a part is."""
        return os.path.join(self._folder, f"{self._stem}-{part:04d}.jsonl")  # noqa: PTH118 - pathlib takes 5 ms to load

    def send(self, lines: Sequence[bytes], within_s: float) -> int:  # noqa: ARG002 - see ``Outlet``
        """Append the first lines, all of them or none."""
        if self._file < 0 or self._size >= self._part_bytes or not os.fstat(self._file).st_nlink:
            self._next_part()
        batch = first_lines(lines, len(lines), BATCH_BYTES)
        data = b"".join(batch)
        self._append(b"\n" + data if self._is_torn else data)
        self._is_torn = False
        self._lines[-1] += len(batch)
        if monotonic() - self._synced_s >= FSYNC_EVERY_S:
            self._sync()
        return len(batch)

    def hang_up(self) -> None:
        """A write that hangs cannot be helped."""

    def close(self) -> None:
        """Sync and close; what was sent is on disk."""
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _append(self, data: bytes) -> None:
        """Write all of it; where that fails, take back what was written of it."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            if written:
                self._is_torn = True
                with suppress(OSError):
                    os.ftruncate(self._file, self._size)
                    self._is_torn = False
            raise
        self._size += written

    def _next_part(self) -> None:
        self.close()
        os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103 - as above
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self.path(self._part + 1), flags, 0o644)
        self._part += 1
        self._size, self._is_torn, self._synced_s = 0, False, monotonic()
        if self._part:
            self._lines.append(0)
        if len(self._lines) == self._lines.maxlen:
            self.lost += self._lines.popleft()
            with suppress(OSError):
                os.unlink(self.path(self._part - len(self._lines)))  # noqa: PTH108 - as above

    def _sync(self) -> None:
        self._synced_s = monotonic()
        os.fsync(self._file)
