"""Events as they are written now, in SQLite and in PostgreSQL: one row per batch (see ``codec``).

The statements are such that both understand them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidemill.journal import codec, packing
from tidemill.journal.codec import Opener, Row, Tail
from tidemill.journal.faults import DamageError
from tidemill.journal.kept import MOST_EVENTS, Ask, Kept
from tidemill.model.batch import Batch, Dictionary, convert, cut
from tidemill.model.events import Event

PAGE_ROWS = 16  # read at once: no reader holds back a checkpoint for longer than this takes
SMALL_PAGE = 1_024  # events: after a page with fewer, more rows are read at once:
SMALL_ROWS = 256
MOST_TOGETHER = 65_536
"""Events of rows that are opened as one batch: a batch costs as much as hundreds of events. Those
who read few rows get them one by one, so that they unpack little more than they look at."""

_COLUMNS = "seq, events, first_ms, last_ms, added, body, crc"
_FROM = f"SELECT {_COLUMNS} FROM batches WHERE seq >= ? ORDER BY seq LIMIT ?"
_BEFORE = f"SELECT {_COLUMNS} FROM batches WHERE seq < ? ORDER BY seq DESC LIMIT 1"
_ENDS = """SELECT (SELECT min(seq) FROM batches), seq, events FROM batches
    ORDER BY seq DESC LIMIT 1"""
_ADDED = """SELECT seq, added FROM batches WHERE seq > ? AND seq < ? AND added IS NOT NULL
    ORDER BY seq"""
_LATER = "SELECT min(seq) FROM batches WHERE last_ms > ?"
_PUT = f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"


Made = Callable[[Dictionary], Iterable[Batch]]
"""Batches, given the dictionary that they are to name things by."""

Execute = Callable[[str, tuple[Any, ...]], object]
"""Writes within a transaction: a statement and its values."""


class BatchRows(Kept):
    """The table ``batches``."""

    version = 2
    snapshots_up_to = """SELECT s.seq FROM snapshots AS s LEFT JOIN batches AS b
        ON b.seq = (SELECT max(seq) FROM batches WHERE seq < s.seq)
        WHERE s.seq = 0
        OR CASE WHEN b.seq + b.events > s.seq THEN b.first_ms ELSE b.last_ms END <= ?
        ORDER BY s.seq DESC"""

    def __init__(self, where: str, ask: Ask) -> None:
        super().__init__(where, ask)
        self._first, self._names = Tail(), b""
        self._opener = Opener(where)

    def begin_at(self, first: Tail, names: bytes | None) -> None:
        """What came before this tail was rolled up; ``names``: the dictionary then."""
        self._first, self._names = first, names or b""
        self.forget()

    @property
    def first(self) -> Tail:
        """What the first row follows."""
        return self._first

    def count(self) -> int:
        """Where the last row ends."""
        found = self.ask(_ENDS)
        return self._end_of(*found[0][1:]) if found else self._first.seq

    def end(self) -> Tail:
        """The end of the journal, after a look at both ends."""
        found = self.ask(_ENDS)
        if not found:
            return self._first
        first, last, _ = found[0]
        if first != self._first.seq:
            raise DamageError(
                self.where, self._first.seq, f"it is missing; the first event is {first}"
            )
        rows = self._rows(last)
        codec.check_link(rows[0], self._tail_before(last), self.where)
        return codec.tail_after(rows[0])

    def tail_at(self, seq: int) -> Tail:
        """The tail of the row that holds the last of the first ``seq`` events."""
        if seq == self._first.seq:
            return self._first
        rows = self.ask(_BEFORE, (seq,), seq=seq - 1)
        if not rows or self._end_of(*rows[0][:2]) < seq:
            raise DamageError(self.where, seq - 1, "it is missing")
        return codec.tail_after(rows[0])

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """The events in columns, every row checked."""
        if start >= end:
            return
        for rows, batch in self.opened(self.row_of(start), end):
            seq = rows[0][0]
            yield cut(batch, max(0, start - seq), end - seq)

    def opened(self, first: int, end: int) -> Iterator[tuple[list[Row], Batch]]:
        """Rows as they are kept, every one checked, with the events in them.

        From the row with the number ``first`` to the one that holds the event before ``end``.
        """
        tail, most, together = self._tail_before(first), PAGE_ROWS, codec.EVENTS_PER_ROW
        while tail.seq < end:
            self._learn(tail.seq)
            rows = [row for row in self._rows(tail.seq, most) if row[0] < end]
            if not rows:
                raise DamageError(self.where, tail.seq, "it is missing")
            for run in codec.runs(rows, together):
                yield from self._opened(run, tail)
                tail = codec.tail_after(run[-1])
            most = PAGE_ROWS if tail.seq - rows[0][0] > SMALL_PAGE else SMALL_ROWS
            together = min(2 * together, MOST_TOGETHER)

    def _opened(self, run: list[Row], tail: Tail) -> Iterator[tuple[list[Row], Batch]]:
        """The batch in a run of rows; where one of them is damaged, those before it one by one."""
        try:
            yield run, self._opener.open(run, tail)
        except DamageError:
            if len(run) == 1:
                raise
            for row in run:
                yield [row], self._opener.open([row], tail)
                tail = codec.tail_after(row)

    def read(self, start: int, end: int) -> Iterator[Event]:
        """The events, one by one."""
        for batch in self.batches(start, end):
            yield from convert.to_events(batch)

    def put(self, execute: Execute, tail: Tail, made: Made) -> Tail:
        """Write the batches that are made with the journal's dictionary after this tail.

        Their events were checked. Return the new tail.
        """
        self._learn(tail.seq)
        dictionary = self._opener.dictionary
        for row in codec.rows(made(dictionary), tail, dictionary):
            execute(_PUT, row)
            tail, self._opener.known = codec.tail_after(row), row[0]
        return tail

    def put_rows(self, execute: Execute, tail: Tail, rows: Iterable[Row]) -> Tail:
        """Write rows of another journal as they are, after this tail. Return the new tail."""
        for row in rows:
            codec.check_link(row, tail, self.where)
            execute(_PUT, row)
            tail = codec.tail_after(row)
        return tail

    def forget(self) -> None:
        """What was put was not kept: read the dictionary again."""
        self._opener = self._knowing()

    def _knowing(self) -> Opener:
        """An opener that knows the dictionary as it is before the first row."""
        opener = Opener(self.where)
        if self._names:
            opener.learn(self._first.seq - 1, self._names)
        return opener

    def names_at(self, seq: int) -> bytes | None:
        """The dictionary as it is before the row with this number, as a row would add it."""
        opener = self._knowing()
        for number, added in self.ask(_ADDED, (opener.known, seq), seq=seq):
            opener.learn(number, added)
        return packing.added(opener.dictionary, Dictionary().sizes())

    def ends_before(self, at_ms: int) -> int:
        """After how many events the last row ends of which no event is later than a moment."""
        found = self.ask(_LATER, (at_ms,))
        return int(found[0][0]) if found and found[0][0] is not None else self.count()

    def _learn(self, seq: int) -> None:
        """Know the dictionary as it is before the row with this number."""
        if self._opener.known + 1 < seq:
            for number, added in self.ask(_ADDED, (self._opener.known, seq), seq=seq):
                self._opener.learn(number, added)
            self._opener.known = max(self._opener.known, seq - 1)

    def row_of(self, seq: int) -> int:
        """The number of the row that holds an event."""
        rows = self.ask(_BEFORE, (seq + 1,), seq=seq)
        if not rows or rows[0][0] < 0 or self._end_of(*rows[0][:2]) <= seq:
            raise DamageError(self.where, seq, "it is missing")
        return int(rows[0][0])

    def _tail_before(self, row: int) -> Tail:
        """The tail before the row with this number."""
        tail = self.tail_at(row)
        if tail.seq != row:
            raise DamageError(self.where, row, "the row before it goes on beyond it")
        return tail

    def _rows(self, first: int, most: int = 1) -> list[Row]:
        return self.ask(_FROM, (first, most), seq=first)

    def _end_of(self, seq: int, events: object) -> int:
        if not isinstance(events, int) or not events > 0 or seq + events > MOST_EVENTS:
            raise DamageError(self.where, 0, f"the last row has the number {seq}")
        return seq + events
