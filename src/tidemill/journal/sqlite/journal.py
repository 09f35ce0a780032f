"""A journal in an SQLite file: one row per batch of events, one transaction per append.

Opening looks at little: the header, the tables, whether the last rows follow from each other, and
whether damage ended the write-ahead file. Reading checks every row that it passes.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self

from tidemill.journal import codec, files, lock, snapshots
from tidemill.journal.base import Journal
from tidemill.journal.codec import Tail
from tidemill.journal.faults import DamageError, kindly
from tidemill.journal.kept import Kept
from tidemill.journal.snapshots import Stored
from tidemill.journal.sqlite import schema, wal
from tidemill.journal.sqlite.version1 import EventRows
from tidemill.journal.sqlite.version2 import BatchRows, Made
from tidemill.model.batch import Batch
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World

_SNAPSHOTS = "SELECT seq FROM snapshots ORDER BY seq DESC"
_SNAPSHOT = "SELECT seq, crc, layout, digest, body FROM snapshots WHERE seq = ?"
_PUT_SNAPSHOT = "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM snapshots WHERE seq = ?"
_FACTS = "SELECT key, value, crc FROM facts ORDER BY key"
_PUT_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"


_KEPT: dict[int, type[Kept]] = {form.version: form for form in (EventRows, BatchRows)}


class SqliteJournal(Journal):
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

    def append(self, events: Sequence[Event]) -> None:
        """Keep these events in one transaction; they are on the disk when this returns."""
        if events:
            self.claim()
            codec.checked(events, self._tail)
            self._put(lambda dictionary: codec.in_columns(events, self._tail, dictionary))

    def append_batch(self, batch: Batch) -> None:
        """The same for events in columns."""
        if len(batch.events):
            self.claim()
            codec.checked_batch(batch, self._tail)
            self._put(lambda dictionary: codec.named(batch, dictionary))

    def _put(self, made: Made) -> None:
        kept = self._kept
        assert isinstance(kept, BatchRows), "whoever is the writer writes this version"
        try:
            with self._transaction() as connection:
                tail = kept.put(connection, self._tail, made)
        except BaseException:
            kept.forget()
            raise
        self._tail = tail

    def read(self, start: int = 0) -> Iterator[Event]:
        """The events from number ``start`` to what is the end now; each is checked."""
        assert start >= 0, start
        return self._kept.read(start, len(self))

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The same in columns, as they are kept."""
        assert start >= 0, start
        return self._kept.batches(start, len(self))

    def __len__(self) -> int:
        if self._is_writer:
            return self._tail.seq
        return self._kept.count()

    def save_snapshot(self, world: World, *, is_last: bool = False) -> None:
        """Keep the World as it is now, and forget the snapshots that are not needed any more."""
        self.claim()
        snapshots.refuse_future(world, self._tail.seq)
        stored = snapshots.pack(world, self._kept.tail_at(world.seq).crc)
        with self._transaction() as connection:
            there = {world.seq, *(seq for (seq,) in connection.execute(_SNAPSHOTS))}
            worn = snapshots.worn(there, self._tail.seq, is_last=is_last)
            gone = {*worn, world.seq}  # before the new one comes, which then takes their pages
            connection.executemany(_FORGET, [(seq,) for seq in sorted(gone)])
            if world.seq not in worn:
                connection.execute(_PUT_SNAPSHOT, stored)

    def latest_snapshot(self, up_to_ms: int | None = None) -> World | None:
        """The newest snapshot that is intact and was taken of these events."""
        for seq in self.snapshot_numbers(up_to_ms):
            stored = self.stored_snapshot(seq)
            if stored is None or not self.is_of_these_events(stored):
                continue
            world = snapshots.unpack(stored)
            if world is not None and (up_to_ms is None or world.now_ms <= up_to_ms):
                return world
        return None

    def snapshot_numbers(self, up_to_ms: int | None = None) -> list[int]:
        """After how many events there are snapshots, newest first, usable or not."""
        if up_to_ms is None:
            rows = self._ask(_SNAPSHOTS, seq=len(self))
        else:
            rows = self._ask(self._kept.snapshots_up_to, (up_to_ms,), seq=len(self))
        return [seq for (seq,) in rows]

    def stored_snapshot(self, seq: int) -> Stored | None:
        """The snapshot after so many events, as it is kept; None if its writer forgot it."""
        found = self._ask(_SNAPSHOT, (seq,), seq=len(self))
        return Stored._make(found[0]) if found else None

    def is_of_these_events(self, stored: Stored) -> bool:
        """Whether the last event before a snapshot is the one it was taken after."""
        try:
            return self._kept.tail_at(stored.seq).crc == stored.crc
        except DamageError:
            return False

    def page_faults(self) -> list[str]:
        """What SQLite finds wrong in the structure of its file."""
        found = self._ask("PRAGMA quick_check(3)")
        return [str(text).rpartition("***\n")[2] for (text,) in found if text != "ok"]

    def meta(self, key: str) -> str | None:
        """A small fact about this journal; None if it was never set."""
        return self.facts().get(key)

    def facts(self) -> dict[str, str]:
        """Every small fact; one that was damaged is an error."""
        rows = self._ask(_FACTS, seq=len(self))
        for key, value, crc in rows:
            if codec.fact_sum(str(key), str(value)) != crc:
                raise DamageError(self.where, len(self), f"the fact `{key}` was damaged")
        return {key: value for key, value, _ in rows}

    def set_meta(self, key: str, value: str) -> None:
        """Keep a small fact."""
        self.claim()
        with self._transaction() as connection:
            connection.execute(_PUT_FACT, (key, value, codec.fact_sum(key, value)))

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

    def _refuse_old(self) -> None:
        if self._kept.version != schema.VERSION:
            raise JournalError(
                f"journal `{self.where}` has version {self._kept.version}, which this Tidemill"
                f" reads but does not write; it writes version {schema.VERSION}",
                hint="export it to .jsonl.gz with `tidemill journal export`, import that, and write"
                " to the new journal",
            )

    def _refuse_if_grown(self) -> None:
        tail = self._kept.end()
        if tail != self._tail:
            raise JournalError(
                f"journal `{self.where}` had {self._tail.seq} events when it was opened for this"
                f" writer, and has {tail.seq} now",
                hint="open it again, rebuild the cluster state, and go on from there",
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
