"""A journal in an SQLite file: one row per batch of events, one transaction per append.

Opening looks at little: the header, the tables, whether the last rows follow from each other, and
whether damage ended the write-ahead file. Reading checks every row that it passes.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self

from tidemill.journal import files, lock
from tidemill.journal.batch_rows import BatchRows
from tidemill.journal.codec import Tail
from tidemill.journal.faults import DamageError, kindly
from tidemill.journal.kept import Kept
from tidemill.journal.rolled_up import RolledUp
from tidemill.journal.snapshots import Stored
from tidemill.journal.sqlite import schema, wal
from tidemill.journal.sqlite.version1 import EventRows
from tidemill.journal.table_journal import TableJournal, Writing
from tidemill.model.errors import JournalError

_KEPT: dict[int, type[Kept]] = {
    EventRows.version: EventRows,
    schema.VERSION: BatchRows,
    schema.ROLLED_UP: BatchRows,
}

_PIECE_BYTES = 1 << 20  # of a snapshot that is written


class SqliteJournal(TableJournal):
    """Reads at once; the first write takes the lock that makes it the writer."""

    def __init__(self, path: Path, *, sync: schema.Sync = "full", check_ends: bool = True) -> None:
        self.where = str(path)
        _refuse_unreadable(path)
        real = path.resolve()
        _refuse_damage(real, self.where)
        self._lock = lock.WriterLock(real)
        self._is_writer = False
        self._connection: Connection | None = None
        self._copies = ExitStack()
        try:
            self._connection = schema.connect(
                self._copies.enter_context(schema.readable(real)), sync, self.where
            )
            with kindly(self.where):
                version = schema.check(self._connection, self.where)
                self._kept: Kept = _KEPT[version](self.where, self._ask)
                self._begin()
                if check_ends and (found := schema.cut(real)):
                    raise DamageError(self.where, 0, found)
                self._tail = self._kept.end() if check_ends else Tail()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, *, sync: schema.Sync = "full") -> Self:
        """Make a new journal and open it; one that another process just made is opened."""
        maker = lock.WriterLock(path.resolve())
        maker.take()
        try:
            if not path.exists():
                files.refuse(path, option="")  # a link that leads nowhere
                schema.create(path)
        finally:
            maker.release()
        return cls(path, sync=sync)

    def storage_faults(self) -> list[str]:
        """What SQLite finds wrong in the structure of its file."""
        found = self._ask("PRAGMA quick_check(3)")
        return [str(text).rpartition("***\n")[2] for (text,) in found if text != "ok"]

    def is_being_written(self) -> bool:
        """Whether somebody holds the lock beside the file."""
        return lock.is_held(Path(self.where).resolve())

    def claim(self) -> None:
        """Take the writer's lock; refused if the journal has grown since it was opened."""
        if self._is_writer:
            return
        self._open()
        self._refuse_old()
        self._lock.take()
        try:
            with kindly(self.where):
                self._open().execute("PRAGMA journal_mode=WAL")
                self._refuse_if_grown()
        except BaseException:
            self._lock.release()
            raise
        self._is_writer = True

    def close(self) -> None:
        """Let go of the file, then of the right to write it."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                with kindly(self.where):
                    connection.close()
        finally:
            self._copies.close()
            self._lock.release()
            self._is_writer = False

    def _ask(
        self, statement: str, values: tuple[object, ...] = (), *, seq: int = 0
    ) -> list[tuple[Any, ...]]:
        with kindly(self.where, seq):
            return self._open().execute(statement, values).fetchall()

    def _has_rolled(self) -> bool:
        return self._ask("PRAGMA user_version")[0][0] >= schema.ROLLED_UP

    def _make_room_for_rolled(self, writing: Writing) -> None:
        for statement in schema.ROLLED_TABLES:
            writing.execute(statement)

    def roll_up(self, rolled: RolledUp, book: bytes) -> None:
        """Put this in the place of the events before it, and give the disk back what is free."""
        super().roll_up(rolled, book)
        with suppress(JournalError):  # somebody reads: what is free is used again instead
            self._ask("VACUUM")

    def _put_snapshot(self, writing: Writing, stored: Stored) -> None:
        """Piece by piece: a value that a statement is given is there twice more while it runs."""
        empty = "INSERT INTO snapshots VALUES (?, ?, ?, ?, zeroblob(?))"
        writing.execute(empty, (*stored[:-1], len(stored.body)))
        with self._open().blobopen("snapshots", "body", stored.seq) as kept:
            body = memoryview(stored.body)
            for first in range(0, len(body), _PIECE_BYTES):
                kept.write(body[first : first + _PIECE_BYTES])

    def _refuse_old(self) -> None:
        if self._kept.version != schema.VERSION:
            raise JournalError(
                f"journal `{self.where}` has version {self._kept.version}, which this Tidemill"
                f" reads but does not write; it writes version {schema.VERSION}",
                hint="export it to .jsonl.gz with `tidemill journal export`, import that, and write"
                " to the new journal",
            )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        connection = self._open()
        with kindly(self.where, self._tail.seq):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _open(self) -> Connection:
        if self._connection is None:
            raise JournalError(f"journal `{self.where}` is closed", hint="open it again")
        return self._connection


def _refuse_damage(path: Path, where: str) -> None:
    """Look at the write-ahead file before SQLite does, unless a writer is changing it just now."""
    if not lock.is_held(path) and (found := wal.damage(path)) and not lock.is_held(path):
        raise DamageError(where, 0, found)


def _refuse_unreadable(path: Path) -> None:
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise JournalError(f"`{path}` is not a journal: {found}", hint="give the path of a file")
