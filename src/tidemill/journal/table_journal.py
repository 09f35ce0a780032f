"""What journals in a database have in common, whichever it is: batches, snapshots and facts.

The statements here are understood by SQLite and by PostgreSQL. How to connect, who may write, and
what an error of the database means is for each of them to say.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from tidemill.journal import codec, rolled_up, snapshots
from tidemill.journal.base import Journal
from tidemill.journal.batch_rows import BatchRows, Execute, Made
from tidemill.journal.codec import Row, Tail
from tidemill.journal.faults import DamageError, OtherWriterError
from tidemill.journal.kept import Kept
from tidemill.journal.moments import Calendar
from tidemill.journal.rolled_up import GoneError, RolledUp
from tidemill.journal.snapshots import Stored
from tidemill.model.batch import Batch
from tidemill.model.events import Event
from tidemill.model.world import World

_SNAPSHOTS = "SELECT seq FROM snapshots ORDER BY seq DESC"
_SNAPSHOT = "SELECT seq, crc, layout, digest, body FROM snapshots WHERE seq = ?"
_PUT_SNAPSHOT = "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM snapshots WHERE seq = ?"
_FACTS = "SELECT key, value, crc FROM facts ORDER BY key"
_PUT_FACT = """INSERT INTO facts VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, crc = excluded.crc"""


_Read = TypeVar("_Read")


class Writing(Protocol):
    """A transaction that is open."""

    def execute(self, statement: str, values: tuple[Any, ...] = (), /) -> Any:  # noqa: ANN401
        """Run a statement; what it gives can be gone through."""


_BYTES_OF_BATCHES = (
    "SELECT COALESCE(SUM(LENGTH(body) + COALESCE(LENGTH(added), 0)), 0) FROM batches WHERE seq < ?"
)
_BYTES_OF_SNAPSHOTS = "SELECT COALESCE(SUM(LENGTH(body)), 0) FROM snapshots WHERE seq < ?"


class TableJournal(Journal):
    """Reads at once; the first write makes it the writer."""

    _kept: Kept
    _tail: Tail
    _is_writer: bool
    _begins: tuple[Tail, bytes | None] | None = None
    """Where its rows begin, and the dictionary then; None: at the first event."""
    _meant: Tail
    """The tail as it is when the append that is under way, or was the last, has been kept."""

    def append(self, events: Sequence[Event]) -> None:
        """Keep these events in one transaction; they are on the disk when this returns."""
        if events:
            self.claim()
            codec.checked(events, self._tail)
            self._make(lambda dictionary: codec.in_columns(events, self._tail, dictionary))

    def append_batch(self, batch: Batch) -> None:
        """The same for events in columns."""
        if len(batch.events):
            self.claim()
            codec.checked_batch(batch, self._tail)
            self._make(lambda dictionary: codec.named(batch, dictionary))

    def append_rows(self, rows: Sequence[Row], copied: Iterable[Stored] = ()) -> None:
        """Keep rows of another journal, and snapshots of it, as they are there."""
        self.claim()
        kept = self._rows()

        def put(execute: Execute) -> Tail:
            for stored in copied:
                execute(_PUT_SNAPSHOT, stored)
            return kept.put_rows(execute, self._tail, rows)

        self._put(put)
        kept.forget()  # what they add to the dictionary is read when it is needed

    def _make(self, made: Made) -> None:
        kept = self._rows()
        self._put(lambda execute: kept.put(execute, self._tail, made))

    def _put(self, put: Callable[[Execute], Tail]) -> None:
        """Write in one transaction; ``put`` writes, and says what the tail is then."""
        self._meant = self._tail
        try:
            with self._transaction() as writing:
                self._meant = put(writing.execute)
        except BaseException:
            self._rows().forget()
            raise
        self._tail = self._meant

    def _rows(self) -> BatchRows:
        assert isinstance(self._kept, BatchRows), "whoever is the writer writes this version"
        return self._kept

    def rows(self) -> Iterator[tuple[list[Row], Batch]] | None:
        """Rows as they are kept, with the events in them; None: it is of an older version."""
        kept = self._kept
        return kept.opened(kept.first.seq, len(self)) if isinstance(kept, BatchRows) else None

    # What was rolled up -----------------------------------------------------------------------

    def rolled_up(self) -> RolledUp | None:
        """What took the place of the first events; it is checked."""
        rows = self._ask(rolled_up.TAKE) if self._has_rolled() else []
        if not rows:
            return None
        found = RolledUp._make(rows[0])
        found.check(self.where)
        return found

    def books(self) -> list[bytes]:
        """The hourly books of what was rolled up, each part checked."""
        rows = self._ask(rolled_up.BOOKS) if self._has_rolled() else []
        for seq, body, crc in rows:
            if rolled_up.book_sum(seq, body) != crc:
                raise DamageError(self.where, self._first().seq, "its hourly books were damaged")
        return [body for _, body, _ in rows]

    def roll_up(self, rolled: RolledUp, book: bytes) -> None:
        """Put this in the place of the events before it, in one transaction."""
        self.claim()
        self._replace_beginning(rolled, [(rolled.seq, book)], is_copy=False)

    def bytes_before(self, seq: int) -> int:
        """What the events before a number take, and all else that would go with them."""
        (kept,) = self._ask(_BYTES_OF_BATCHES, (seq,))
        (taken,) = self._ask(_BYTES_OF_SNAPSHOTS, (seq,))
        return int(kept[0]) + int(taken[0])

    def adopt(self, rolled: RolledUp, books: Sequence[bytes]) -> None:
        """Begin as another journal does whose first events were rolled up; nothing is kept yet."""
        self.claim()
        assert not len(self), "a copy begins before its first event"
        numbered = [(rolled.seq - len(books) + 1 + i, book) for i, book in enumerate(books)]
        self._replace_beginning(rolled, numbered, is_copy=True)
        self._tail = self._meant = rolled.tail

    def _replace_beginning(
        self, rolled: RolledUp, books: Sequence[tuple[int, bytes]], *, is_copy: bool
    ) -> None:
        rolled = rolled.signed()
        with self._transaction() as writing:
            self._make_room_for_rolled(writing)
            for table in ("batches", "snapshots"):
                writing.execute(f"DELETE FROM {table} WHERE seq < ?", (rolled.seq,))
            writing.execute("DELETE FROM rolled")
            writing.execute(rolled_up.PUT, rolled)
            for seq, book in books:
                crc = rolled_up.book_sum(seq, book)
                writing.execute(rolled_up.PUT_BOOK, (seq, book, crc))
        self._begin()
        if not is_copy:
            assert self._kept.end() == self._tail, "what is left does not follow"

    def _begin(self) -> None:
        """Know where the rows begin; when the journal is opened, and after it was rolled up."""
        self._begins = self._ends()
        if self._begins is not None:
            self._rows().begin_at(*self._begins)

    def _ends(self) -> tuple[Tail, bytes | None] | None:
        """The tail of what was rolled up as it is now, and the dictionary."""
        rows = self._ask(rolled_up.TAKE_ENDS) if self._has_rolled() else []
        return (Tail(*rows[0][:3]), rows[0][3]) if rows else None

    def _first(self) -> Tail:
        return Tail() if self._begins is None else self._begins[0]

    def ends_before(self, at_ms: int) -> int:
        """After how many events the last row ends of which no event is later than a moment."""
        return self._rows().ends_before(at_ms)

    def row_of(self, seq: int) -> int:
        """The number of the first event of the row that holds an event."""
        return self._rows().row_of(seq)

    def tail_at(self, seq: int) -> Tail:
        """The tail of the row that ends with so many events."""
        return self._kept.tail_at(seq)

    def names_at(self, seq: int) -> bytes | None:
        """The dictionary after so many events, at the end of a row, as a row would add it."""
        return self._rows().names_at(seq)

    @abstractmethod
    def _has_rolled(self) -> bool:
        """Whether there are tables for what was rolled up."""

    @abstractmethod
    def _make_room_for_rolled(self, writing: Writing) -> None:
        """Make those tables where there are none."""

    def read(self, start: int = 0) -> Iterator[Event]:
        """The events from number ``start`` to what is the end now; each is checked."""
        self._refuse_gone(start)
        return self._mindful(self._kept.read(start, len(self)))

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The same in columns, as they are kept."""
        self._refuse_gone(start)
        return self._mindful(self._kept.batches(start, len(self)))

    def _refuse_gone(self, start: int) -> None:
        assert start >= 0, start
        if start < self._first().seq:
            raise self._gone(f"event {start} was asked for")

    def _mindful(self, reading: Iterator[_Read]) -> Iterator[_Read]:
        """Read on; what is missing because it was rolled up meanwhile is not damage."""
        try:
            yield from reading
        except DamageError as error:
            if self._ends() != self._begins:
                raise self._gone(f"event {error.seq} was to be read next") from error
            raise

    def _gone(self, asked: str) -> GoneError:
        ends = self._ends()
        at_ms = 0 if ends is None else ends[0].at_ms
        return GoneError(self.where, asked, Calendar.of(self.facts()).text(at_ms))

    def __len__(self) -> int:
        if self._is_writer:
            return self._tail.seq
        return self._kept.count()

    def save_snapshot(self, world: World, *, is_last: bool = False) -> None:
        """Keep the World as it is now, and forget the snapshots that are not needed any more."""
        self.claim()
        snapshots.refuse_future(world, self._tail.seq)
        stored = snapshots.pack(world, self._kept.tail_at(world.seq).crc)
        with self._transaction() as writing:
            there = {world.seq, *(seq for (seq,) in writing.execute(_SNAPSHOTS))}
            worn = snapshots.worn(there, self._tail.seq, is_last=is_last)
            for seq in sorted({*worn, world.seq}):  # before the new one, which takes their pages
                writing.execute(_FORGET, (seq,))
            if world.seq not in worn:
                self._put_snapshot(writing, stored)

    def _put_snapshot(self, writing: Writing, stored: Stored) -> None:
        writing.execute(_PUT_SNAPSHOT, stored)

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

    def storage_faults(self) -> list[str]:
        """What the database itself finds wrong in the structure of what it keeps."""
        return []

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
        with self._transaction() as writing:
            writing.execute(_PUT_FACT, (key, value, codec.fact_sum(key, value)))

    def _refuse_if_grown(self) -> None:
        """Refuse to write after others did: what was computed before them is not of this state."""
        tail = self._kept.end()
        if tail != self._tail:
            raise OtherWriterError(
                f"journal `{self.where}` had {self._tail.seq} events when it was opened for this"
                f" writer, and has {tail.seq} now",
                hint="open it again, rebuild the cluster state, and go on from there",
            )

    @abstractmethod
    def _ask(
        self, statement: str, values: tuple[object, ...] = (), *, seq: int = 0
    ) -> list[tuple[Any, ...]]:
        """All rows that a statement gives; ``seq``: the first event that is looked at."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Writing]:
        """All that is written in its block is kept when it ends, or nothing."""
