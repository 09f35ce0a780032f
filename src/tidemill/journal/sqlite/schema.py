"""The SQLite file: how it is made, opened and recognised.

Write-ahead logging, so that readers never wait for the writer. ``application_id`` marks the file as
a journal, ``user_version`` counts the versions of what is in it. Facts and snapshots carry
checksums too: what was damaged is not believed.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from tidemill.journal import files
from tidemill.journal.faults import StrangeFileError, kindly
from tidemill.journal.sqlite import wal
from tidemill.model.errors import JournalError

VERSION = 2
ROLLED_UP = files.ROLLED_UP  # the same, of which the first events were rolled up
PAGE_BYTES = 4096  # SQLite's default, and what salvage expects; 8 and 16 KiB were not faster
BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps next to its file
BUSY_S = 5.0  # how long to wait for a program that is not ours and holds the file locked

Sync = Literal["full", "normal", "off"]
"""When the disk is waited for. full: at each append. normal: at each checkpoint, so that a power
loss may take the last appends (a crash of the process does not). off: never, for files that are
made anew and synced once at the end."""

_TABLES = """
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY, events INTEGER NOT NULL, first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL, added BLOB, body BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshots (
    seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, layout INTEGER NOT NULL,
    digest TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE facts (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL);
"""


ROLLED_TABLES = (
    """CREATE TABLE IF NOT EXISTS rolled (
    seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, crc INTEGER NOT NULL, names BLOB,
    layout INTEGER NOT NULL, digest TEXT NOT NULL, state BLOB NOT NULL, ledger BLOB NOT NULL,
    told INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS books (
    seq INTEGER PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL)""",
    f"PRAGMA user_version={ROLLED_UP}",
)


def create(path: Path) -> None:
    """Make an empty journal; it appears under its name whole or not at all."""
    refuse_remains(path)
    with (
        files.fresh(path) as part,
        kindly(str(path)),
        closing(sqlite3.connect(part, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA synchronous=off")  # it is synced whole, before it has a name
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute(f"PRAGMA application_id={files.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(_TABLES)


def refuse_remains(path: Path) -> None:
    """Refuse to begin a journal beside what SQLite left of another one: it would be read as ours.

    A write-ahead file without its journal may hold the only copy of somebody's last events.
    """
    for suffix in BESIDE:
        rest = path.with_name(path.name + suffix)
        if os.path.lexists(rest):
            raise JournalError(
                f"`{rest}` is left over from a journal `{path}` that is gone",
                hint="move it away if it is needed, remove it if it is not, or use another name",
            )


def connect(path: Path, sync: Sync, where: str) -> sqlite3.Connection:
    """Open an existing file, called ``where`` in messages; nothing has been read from it yet.

    SQLite wants to write beside a file even to read it. In a folder where it may not, a journal at
    rest is opened as one that nobody can change; see ``readable`` for one that is not at rest.
    """
    mode = "mode=rw" if may_write_beside(path) else "mode=ro&immutable=1"
    address = f"{path.absolute().as_uri()}?{mode}"
    with kindly(where):
        connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_S)
        try:
            connection.execute(f"PRAGMA synchronous={sync}")
        except BaseException:
            connection.close()
            raise
    return connection


def may_write_beside(path: Path) -> bool:
    """Whether files may be made in the folder of this one; not on a read-only mount."""
    return os.access(path.parent, os.W_OK | os.X_OK)


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Where a journal can be read: where it is, or a copy of it that is removed afterwards.

    A copy is needed where a write-ahead file was left in a folder that cannot be written: only
    SQLite can put the two together, and it would do so there.
    """
    if may_write_beside(path) or not wal.is_in_use(path):
        yield path
        return
    try:
        with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
            for file in (path, wal.beside(path)):
                shutil.copyfile(file, Path(folder) / file.name)
            yield Path(folder) / path.name
    except OSError as error:
        raise JournalError(
            f"journal `{path}` has a write-ahead file in a folder that cannot be written, and could"
            f" not be copied to {tempfile.gettempdir()}: {error.strerror or error}",
            hint="copy the journal and its `-wal` file to a folder with room, and read it there",
        ) from error


def check(connection: sqlite3.Connection, where: str) -> int:
    """The version of a journal; a file that is none, or of a later version, is refused."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if mark != files.APPLICATION_ID or version < 1:
        empty = "" if Path(where).stat().st_size else "it is empty, "
        raise StrangeFileError(where, f"{empty}its application id is {mark}, its version {version}")
    refuse_newer(version, where)
    return int(version)


def refuse_newer(version: int, where: str, otherwise: str = "") -> None:
    """Refuse a journal whose form is of a later version; ``otherwise`` adds to the hint."""
    if version > ROLLED_UP:
        raise JournalError(
            f"journal `{where}` has version {version}; this Tidemill knows version {ROLLED_UP}",
            hint=f"use the newer Tidemill that wrote it{otherwise}",
        )


def cut(path: Path) -> str:
    """Whether the file at rest was cut short within a page, which SQLite would fill with zeros."""
    size = path.stat().st_size
    is_cut = size % PAGE_BYTES and not wal.is_in_use(path)
    return f"the file ends within a page, at byte {size}" if is_cut else ""
