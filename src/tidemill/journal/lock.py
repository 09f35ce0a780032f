"""One writer: a lock beside the journal, held by whoever writes and gone when that process is.

The lock is an ``flock`` on a file of its own: to open and close the journal itself would drop the
locks that SQLite keeps on it. Readers take no lock.
"""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from tidemill.journal.faults import OtherWriterError
from tidemill.model.errors import JournalError

# A look (``is_held``) keeps the lock for microseconds, and a writer that leaves takes its file
# along; a writer that stays is still there after all of these.
_TRIES = 10
_PAUSE_S = 0.005
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK  # neither another's file nor a pipe is opened


class WriterLock:
    """The right to write one journal."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._path = _beside(journal)
        self._file: int | None = None

    def take(self) -> None:
        """Become the writer, or say who is."""
        for _ in range(_TRIES):
            file = self._open()
            self._refuse_foreign(file)
            if self._is_ours(file):
                self._file = file
                _sign(file)
                return
            writer = _signature(file)
            os.close(file)
            time.sleep(_PAUSE_S)
        raise OtherWriterError(
            f"journal `{self._journal}` is being written by {writer}",
            hint="a journal has one writer at a time: stop that one, or write to another file",
        )

    def release(self) -> None:
        """Let the next one write; the file goes while the lock is held, so none is left behind."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._not_ours("is a link") from error
            raise JournalError(
                f"journal `{self._journal}` cannot be written: {error.strerror}",
                hint="check that you may write in its folder",
            ) from error

    def _refuse_foreign(self, file: int) -> None:
        """A lock holds the number of a process and nothing else: what else is there is not ours."""
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        text = os.pread(file, 21, 0) if is_file else b"?"
        if text and not text.isdigit():
            os.close(file)
            raise self._not_ours("holds something else than a lock")

    def _not_ours(self, found: str) -> JournalError:
        return JournalError(
            f"`{self._path}` {found}; the lock of journal `{self._journal}` has this name",
            hint="move it away, or write to another file",
        )

    def _is_ours(self, file: int) -> bool:
        """Locked, and still the file that others will find under the name."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._path.stat().st_ino == os.fstat(file).st_ino
        except (BlockingIOError, FileNotFoundError):
            return False


def is_held(journal: Path) -> bool:
    """Whether somebody writes this journal now."""
    try:
        file = os.open(_beside(journal), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _beside(journal: Path) -> Path:
    return journal.with_name(journal.name + ".lock")


def _sign(file: int) -> None:
    os.truncate(file, 0)
    os.pwrite(file, str(os.getpid()).encode(), 0)


def _signature(file: int) -> str:
    text = os.pread(file, 20, 0)
    return f"process {text.decode()}" if text.isdigit() else "another process"
