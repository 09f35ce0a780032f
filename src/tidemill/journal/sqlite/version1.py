"""Journals of version 1, which are only read: one row per event, its body in MessagePack.

The checksum of a row is over that of the row before, its number and its body.
"""

import struct
from collections.abc import Iterable, Iterator
from zlib import crc32

import msgspec

from tidemill.journal.codec import UNREADABLE, Tail, kind_of
from tidemill.journal.faults import DamageError
from tidemill.journal.kept import MOST_EVENTS, Kept
from tidemill.model.batch import Batch, Dictionary, convert
from tidemill.model.events import Event

PAGE_ROWS = 1_000  # read at once: no reader holds back a checkpoint for longer than this takes

_TAKE = "SELECT seq, at_ms, kind, body, crc FROM events WHERE seq >= ? AND seq < ? ORDER BY seq"
_ENDS = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)"  # each from its end
_DECODER = msgspec.msgpack.Decoder(Event)
_LINK = struct.Struct("<Iq")

Row = tuple[int, int, str, bytes, int]
"""One event as it is kept: ``seq, at_ms, kind, body, crc``. Plain, as SQLite takes and gives it."""


class EventRows(Kept):
    """The table ``events``."""

    version = 1
    snapshots_up_to = """SELECT seq FROM snapshots AS s WHERE seq = 0
        OR (SELECT at_ms FROM events WHERE seq = s.seq - 1) <= ? ORDER BY seq DESC"""

    def count(self) -> int:
        """One more than the number of the last row."""
        last = self.ask(_ENDS)[0][1]
        if last is not None and last >= MOST_EVENTS:
            raise DamageError(self.where, 0, f"the last event has the number {last}")
        return 0 if last is None else int(last) + 1

    def end(self) -> Tail:
        """The end of the journal, after a look at both ends."""
        ((first, last),) = self.ask(_ENDS)
        if first is None:
            return Tail()
        if first != 0:
            raise DamageError(self.where, 0, f"it is missing; the first event is {first}")
        before = self.tail_at(last)
        _, tail, found = events_in(self._rows(last, last + 1), before)
        if found:
            raise DamageError(self.where, last, found)
        return tail

    def tail_at(self, seq: int) -> Tail:
        """The tail after so many events."""
        if seq == 0:
            return Tail()
        rows = self._rows(seq - 1, seq)
        if not rows:
            raise DamageError(self.where, seq - 1, "it is missing")
        number, at_ms, _, _, crc = rows[0]
        return Tail(number + 1, at_ms, crc)

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """The events in columns, with a dictionary of what was read."""
        dictionary = Dictionary()
        for events in self._pages(start, end):
            yield convert.of_events(events, dictionary)

    def read(self, start: int, end: int) -> Iterator[Event]:
        """The events, each checked."""
        for events in self._pages(start, end):
            yield from events

    def _pages(self, start: int, end: int) -> Iterator[list[Event]]:
        tail = self.tail_at(min(start, end))
        for first in range(start, end, PAGE_ROWS):
            last = min(first + PAGE_ROWS, end)
            events, tail, found = events_in(self._rows(first, last), tail)
            yield events
            if found or tail.seq < last:
                raise DamageError(self.where, tail.seq, found or "it is missing")

    def _rows(self, first: int, last: int) -> list[Row]:
        return self.ask(_TAKE, (first, last), seq=first)


def events_in(rows: Iterable[Row], tail: Tail) -> tuple[list[Event], Tail, str]:
    """The events of rows that follow this tail, the new tail, and what is wrong with the next."""
    events: list[Event] = []
    seq, last_ms, crc = tail
    found = ""
    try:
        for number, at_ms, kind, body, kept in rows:
            if number != seq:
                found = f"it is missing; event {number} is in its place"
            elif link(crc, seq, body) != kept:
                found = "it does not match its checksum"
            else:
                event = _DECODER.decode(body)
                found = _disagreement(event, at_ms, kind, last_ms)
                events.append(event)
            if found:
                break
            seq, last_ms, crc = seq + 1, at_ms, kept
    except UNREADABLE as error:
        found = f"it cannot be read: {error}"
    return events[: seq - tail.seq], Tail(seq, last_ms, crc), found


def link(crc: int, seq: int, body: bytes) -> int:
    """The checksum of an event, given that of the one before."""
    return crc32(body, crc32(_LINK.pack(crc, seq)))


def _disagreement(event: Event, at_ms: int, kind: str, last_ms: int) -> str:
    if event.at_ms != at_ms or kind_of(event) != kind:
        return f"its row says `{kind}` at {at_ms} ms, its body `{kind_of(event)}` at {event.at_ms}"
    return f"it is at {at_ms} ms, after an event at {last_ms} ms" if at_ms < last_ms else ""
