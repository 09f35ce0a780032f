"""What to say when a journal cannot be used: where it is broken, and the command that helps.

SQLite's own errors end here; nobody above this package sees one.
"""

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.journal import files
from tidemill.model.errors import JournalError

_SPACE = "free some space and try again; nothing that was acknowledged is lost"
_ACCESS = "check that you may read and write the file and its folder"
_HINTS = {
    "SQLITE_FULL": _SPACE,
    "SQLITE_IOERR": "look at the health of the disk; nothing that was acknowledged is lost",
    "SQLITE_BUSY": "another program holds the file locked; close it and try again",
    "SQLITE_LOCKED": "another program holds the file locked; close it and try again",
    "SQLITE_READONLY": _ACCESS,
    "SQLITE_CANTOPEN": _ACCESS,
    "SQLITE_PERM": _ACCESS,
    "SQLITE_AUTH": _ACCESS,
    "SQLITE_MISUSE": "a journal is used by the thread that opened it, until it is closed",
    "SQLITE_CONSTRAINT": "an append was interrupted, or another program wrote; open it again",
    "SQLITE_INTERRUPT": "try again; nothing that was acknowledged is lost",
    "SQLITE_NOMEM": "free some memory and try again; nothing that was acknowledged is lost",
}

# What Python itself raises on the way: damaged text, and numbers or sizes that cannot be.
_FROM_PYTHON = (UnicodeDecodeError, OverflowError, MemoryError)

RESTORE = "restore it from a copy: events are kept only with all that came before them"


class AwayError(JournalError):
    """The server that keeps a journal cannot be reached now; it may come back."""


class OtherWriterError(JournalError):
    """Somebody else writes a journal, or wrote since it was opened: open it again, later."""


class DamageError(JournalError):
    """A journal was damaged; all events before ``seq`` may still be intact.

    ``seq`` is where the reader met the damage; ``intact.placed`` says how many are intact.
    """

    def __init__(self, where: str, seq: int, found: str, *, is_after_last: bool = False) -> None:
        intact = f"all {seq:,} events found in it are" if seq else "no event found in it is"
        place = f"; {intact} intact" if is_after_last else ""
        at = "" if is_after_last else f" at event {seq}"
        super().__init__(f"journal `{where}` is broken{at}: {found}{place}", hint=rescue(where))
        self.where = where
        self.seq = seq
        self.found = found


class StrangeFileError(DamageError):
    """A file does not begin as a journal does: another file, or one whose beginning is lost.

    ``is_lost``: no event of a journal was found in it either.
    """

    def __init__(self, where: str, found: str, *, is_lost: bool = False) -> None:
        super().__init__(where, 0, found)
        self.message = f"`{where}` is not a Tidemill journal: {found}"
        self.hint = "check the path" + (
            f"; if it was a journal, {self.hint}" if not is_lost else ""
        )


def rescue(where: str) -> str:
    """The hint for a broken journal: the command that keeps what is intact."""
    path = Path(where)
    if "://" in where or files.is_rolled_up(path):
        return copied(where)
    out = path.with_name(f"{path.stem}-salvaged{path.suffix or '.db'}")
    command = shlex.join(["tidemill", "journal", "salvage", where, str(out)])
    return f"keep what is intact with `{command}`"


def copied(where: str) -> str:
    """The hint where a copy stops at the first damage."""
    command = shlex.join(["tidemill", "journal", "copy", where, "saved.sqlite"])
    return f"keep what is intact with `{command} --keep-prefix`"


@contextmanager
def kindly(where: str, seq: int = 0) -> Iterator[None]:
    """Turn SQLite's errors into ours; ``seq`` is the first event that was being looked at."""
    try:
        yield
    except (sqlite3.Error, *_FROM_PYTHON) as error:
        name = _family(error)
        if name in _HINTS:
            message = f"journal `{where}` cannot be used now: {error}"
            raise JournalError(message, hint=_HINTS[name]) from error
        if name == "SQLITE_NOTADB":
            raise StrangeFileError(where, str(error)) from error
        raise DamageError(where, seq, str(error)) from error


def _family(error: Exception) -> str:
    """The primary name of an error: SQLITE_IOERR for SQLITE_IOERR_FSYNC."""
    if isinstance(error, sqlite3.ProgrammingError):  # raised by Python: a closed or foreign handle
        return "SQLITE_MISUSE"
    if isinstance(error, MemoryError):
        return "SQLITE_NOMEM"
    name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
    return "_".join(name.split("_")[:2])
