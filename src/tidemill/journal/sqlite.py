"""A journal in an SQLite file: one row an event, one transaction an append.

Opening looks at little: the header, the tables, whether the last rows follow from each other, and
whether damage ended the write-ahead file. Reading checks every row that it passes.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Self

from tidemill.journal import codec, files, lock, schema, snapshots, wal
from tidemill.journal.base import Journal
from tidemill.journal.codec import Row, Tail
from tidemill.journal.faults import DamageError, kindly
from tidemill.journal.snapshots import Stored
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World

PAGE_ROWS = 1_000  # read at once: no reader holds back a checkpoint for longer than this takes
MOST_EVENTS = 2**48  # ten million a second for a year; a larger number is damage

_TAKE = "SELECT seq, at_ms, kind, body, crc FROM events WHERE seq >= ? AND seq < ? ORDER BY seq"
_PUT = "INSERT INTO events (seq, at_ms, kind, body, crc) VALUES (?, ?, ?, ?, ?)"
_ENDS = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)"  # each from its end
_SNAPSHOTS = "SELECT seq FROM snapshots ORDER BY seq DESC"
_SNAPSHOTS_UP_TO = """SELECT seq FROM snapshots AS s WHERE seq = 0
    OR (SELECT at_ms FROM events WHERE seq = s.seq - 1) <= ? ORDER BY seq DESC"""
_SNAPSHOT = "SELECT seq, crc, layout, digest, body FROM snapshots WHERE seq = ?"
_PUT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM snapshots WHERE seq = ?"
_FACTS = "SELECT key, value, crc FROM facts ORDER BY key"
_PUT_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"


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
                schema.check(self._connection, self.where)
                if check_ends and (found := schema.cut(real)):
                    raise DamageError(self.where, 0, found)
                self._tail = self._checked_tail() if check_ends else Tail()
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
        if not events:
            return
        self.claim()
        rows = codec.rows(events, self._tail)
        with self._transaction() as connection:
            connection.executemany(_PUT, rows)
        self._tail = codec.tail_after(rows[-1])

    def read(self, start: int = 0) -> Iterator[Event]:
        """The events from number ``start`` to what is the end now; each is checked."""
        assert start >= 0, start
        return self._read(start, len(self))

    def __len__(self) -> int:
        if self._is_writer:
            return self._tail.seq
        with kindly(self.where):
            last = self._open().execute(_ENDS).fetchone()[1]
        if last is not None and last >= MOST_EVENTS:
            raise DamageError(self.where, 0, f"the last event has the number {last}")
        return 0 if last is None else int(last) + 1

    def save_snapshot(self, world: World) -> None:
        """Keep the World as it is now, and forget the snapshots that are not needed any more."""
        self.claim()
        snapshots.refuse_future(world, self._tail.seq)
        stored = snapshots.pack(world, self._tail_before(world.seq).crc)
        with self._transaction() as connection:
            connection.execute(_PUT_SNAPSHOT, stored)
            kept = [seq for (seq,) in connection.execute(_SNAPSHOTS)]
            worn = snapshots.worn(kept, self._tail.seq)
            connection.executemany(_FORGET, [(seq,) for seq in worn])

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
        with kindly(self.where, len(self)):
            if up_to_ms is None:
                rows = self._open().execute(_SNAPSHOTS).fetchall()
            else:
                rows = self._open().execute(_SNAPSHOTS_UP_TO, (up_to_ms,)).fetchall()
        return [seq for (seq,) in rows]

    def stored_snapshot(self, seq: int) -> Stored | None:
        """The snapshot after so many events, as it is kept; None if its writer forgot it."""
        with kindly(self.where, len(self)):
            found = self._open().execute(_SNAPSHOT, (seq,)).fetchone()
        return None if found is None else Stored._make(found)

    def is_of_these_events(self, stored: Stored) -> bool:
        """Whether the last event before a snapshot is the one it was taken after."""
        if stored.seq == 0:
            return stored.crc == Tail().crc
        rows = self._rows(stored.seq - 1, stored.seq)
        return bool(rows) and codec.tail_after(rows[0]).crc == stored.crc

    def page_faults(self) -> list[str]:
        """What SQLite finds wrong in the structure of its file."""
        with kindly(self.where):
            found = self._open().execute("PRAGMA quick_check(3)").fetchall()
        return [str(text).rpartition("***\n")[2] for (text,) in found if text != "ok"]

    def meta(self, key: str) -> str | None:
        """A small fact about this journal; None if it was never set."""
        return self.facts().get(key)

    def facts(self) -> dict[str, str]:
        """Every small fact; one that was damaged is an error."""
        with kindly(self.where, len(self)):
            rows = self._open().execute(_FACTS).fetchall()
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

    def _read(self, start: int, end: int) -> Iterator[Event]:
        tail = self._tail_before(min(start, end))
        for first in range(start, end, PAGE_ROWS):
            last = min(first + PAGE_ROWS, end)
            events, tail, found = codec.events_in(self._rows(first, last), tail)
            yield from events
            if found or tail.seq < last:
                raise DamageError(self.where, tail.seq, found or "it is missing")

    def _rows(self, first: int, last: int) -> list[Row]:
        with kindly(self.where, first):
            return self._open().execute(_TAKE, (first, last)).fetchall()

    def _tail_before(self, seq: int) -> Tail:
        if seq == 0:
            return Tail()
        rows = self._rows(seq - 1, seq)
        if not rows:
            raise DamageError(self.where, seq - 1, "it is missing")
        return codec.tail_after(rows[0])

    def _checked_tail(self) -> Tail:
        """The end of the journal, after a look at both ends."""
        first, last = self._open().execute(_ENDS).fetchone()
        if first is None:
            return Tail()
        if first != 0:
            raise DamageError(self.where, 0, f"it is missing; the first event is {first}")
        before = self._tail_before(last)
        _, tail, found = codec.events_in(self._rows(last, last + 1), before)
        if found:
            raise DamageError(self.where, last, found)
        return tail

    def _refuse_if_grown(self) -> None:
        tail = self._checked_tail()
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
