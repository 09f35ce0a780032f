"""What may be kept, and the rows that keep it: batches of events, each tied to all before it.

A row of a journal of version 2 keeps one batch: the number of its first event, how many there are,
the time of the first and of the last, what it adds to the dictionary, its columns (``packing``),
and a checksum over all of that and the checksum of the row before. A flipped bit, a row that is
missing, moved or put in between breaks the chain at that row.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.journal import checking, packing
from tidemill.journal.faults import DamageError
from tidemill.model import batch as batches
from tidemill.model.batch import Batch, Dictionary, EventColumn, convert
from tidemill.model.codes import KINDS
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

LARGEST_BODY_BYTES = 64 * 2**20  # a gang over 100,000 nodes takes 2 MB; more is a mistake
EVENTS_PER_ROW = 4_096  # 20 KB packed, 5 ms to read: what a look at one moment must unpack
PIECES_PER_ROW = 2**18
UNREADABLE = (
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    RecursionError,
    struct.error,
)
"""Whatever damaged rows and objects from outside may raise on their way through this module."""

_TAGS: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in KINDS}
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Event)
_LIST_DECODER = msgspec.msgpack.Decoder(list[Event])
_LINK = struct.Struct("<I4q")

Row = tuple[int, int, int, int, bytes | None, bytes, int]
"""One batch as it is kept: ``seq, events, first_ms, last_ms, added, body, crc``."""


class Tail(NamedTuple):
    """The end of a journal after ``seq`` events: the time of the last, and the checksum of its row.

    Within a row the checksum is that of the whole row.
    """

    seq: int = 0
    at_ms: int = 0
    crc: int = 0


def kind_of(event: Event) -> str:
    """The word for the kind of an event, as in its tag."""
    return _TAGS[type(event)]


def fact_sum(key: str, value: str) -> int:
    """The checksum of a small fact."""
    return crc32(f"{key}\0{value}".encode())


def checked(events: Sequence[Event], tail: Tail) -> None:
    """Refuse events of which one would not read back equal, or goes back in time."""
    found = list(events)
    try:
        body = _ENCODER.encode(found)
        is_equal = len(body) <= LARGEST_BODY_BYTES and _LIST_DECODER.decode(body) == found
    except UNREADABLE:
        is_equal = False
    if not is_equal:
        _check_each(found, tail)
    last_ms = tail.at_ms
    for event in found:
        if event.at_ms < last_ms:
            seq = tail.seq + next(i for i, one in enumerate(found) if one is event)
            raise _refusal(seq, f"it is at {event.at_ms} ms, after an event at {last_ms} ms")
        last_ms = event.at_ms


def checked_batch(batch: Batch, tail: Tail) -> None:
    """The same for events in columns."""
    fault = checking.fault(batch, tail.at_ms)
    if fault is not None:
        raise _refusal(tail.seq + fault[0], fault[1])


def in_columns(events: Sequence[Event], tail: Tail, dictionary: Dictionary) -> Iterator[Batch]:
    """These events, which were ``checked``, in batches; the dictionary grows with each."""
    for first in range(0, len(events), EVENTS_PER_ROW):
        some = events[first : first + EVENTS_PER_ROW]
        yield _in_columns(some, dictionary, tail.seq + first)


def named(batch: Batch, dictionary: Dictionary) -> Iterator[Batch]:
    """A batch, which was checked, with a dictionary that grows when it is asked for."""
    yield batches.named_by(batch, dictionary)


def rows(wholes: Iterable[Batch], tail: Tail, dictionary: Dictionary) -> Iterator[Row]:
    """The rows that keep these batches, whose dictionary grows while they are made."""
    seq, _, crc = tail
    before = dictionary.sizes()
    for whole in wholes:
        for part in _parts(whole):
            added, before = packing.added(dictionary, before), dictionary.sizes()
            body, at_ms = packing.pack(part), part.events[:, EventColumn.AT]
            head = (seq, len(part.events), int(at_ms[0]), int(at_ms[-1]))
            crc = _link(crc, head, added, body)
            yield (*head, added, body, crc)
            seq += len(part.events)


def tail_after(row: Row) -> Tail:
    """The tail of a journal that ends with this row."""
    seq, events, _, last_ms, _, _, crc = row
    return Tail(seq + events, last_ms, crc)


def check_link(row: Row, tail: Tail, where: str) -> None:
    """Refuse a row that does not follow this tail, or was changed."""
    seq, events, first_ms, last_ms, added, body, kept = row
    if seq != tail.seq:
        raise DamageError(where, tail.seq, f"it is missing; event {seq} is in its place")
    try:
        is_right = _link(tail.crc, (seq, events, first_ms, last_ms), added, body) == kept
    except UNREADABLE:
        is_right = False
    if not is_right:
        raise DamageError(where, seq, "it does not match its checksum")


class Opener:
    """Opens rows in their order, and learns the dictionary from them on the way."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.dictionary = Dictionary()
        self.known = -1
        """The number of the last row whose additions are in the dictionary."""

    def learn(self, seq: int, added: bytes | None) -> None:
        """Add what the row with this number brought, unless that is known."""
        if seq <= self.known:
            return
        if added is not None:
            try:
                packing.add(self.dictionary, added)
            except UNREADABLE as error:
                raise DamageError(self._where, seq, f"it cannot be read: {error}") from error
        self.known = seq

    def open(self, rows: Sequence[Row], tail: Tail) -> Batch:
        """The batch in rows that follow this tail and each other; all before them must be known."""
        first = tail
        for row in rows:
            check_link(row, tail, self._where)
            self.learn(row[0], row[4])
            tail = tail_after(row)
        unpacking = packing.Unpacking([row[1] for row in rows])
        for row in rows:
            self._take(row, unpacking)
        batch = unpacking.batch(self.dictionary)
        fault = checking.fault(batch, first.at_ms)
        if fault is not None:
            raise DamageError(self._where, first.seq + fault[0], fault[1])
        return batch

    def _take(self, row: Row, unpacking: packing.Unpacking) -> None:
        seq, events, first_ms, last_ms, _, body, _ = row
        try:
            found = unpacking.add(body, events)
        except UNREADABLE as error:
            raise DamageError(self._where, seq, f"it cannot be read: {error}") from error
        if found != (first_ms, last_ms):
            said = f"its row says {first_ms} to {last_ms} ms, its body {found[0]} to {found[1]}"
            raise DamageError(self._where, seq, said)


def runs(rows: Sequence[Row], most: int = EVENTS_PER_ROW) -> Iterator[list[Row]]:
    """Rows that may be opened together: up to so many events, and none of which adds to the
    dictionary but the first (an event may name only what its own row, or one before, has added).
    """
    run, events = list[Row](), 0
    for row in rows:
        events_told: object = row[1]
        count = events_told if isinstance(events_told, int) else most  # damaged: alone
        if run and (row[4] is not None or events + count > most):
            yield run
            run, events = [], 0
        run.append(row)
        events += count
    if run:
        yield run


def _link(crc: int, head: tuple[int, int, int, int], added: bytes | None, body: bytes) -> int:
    """The checksum of a row, given that of the one before."""
    return crc32(body, crc32(added or b"", crc32(_LINK.pack(crc, *head))))


def _parts(whole: Batch) -> Iterator[Batch]:
    """A batch in parts of which none has too much, but one event is not divided."""
    pieces = np.append(0, whole.events[:, EventColumn.COUNT].cumsum())
    for start, end in _halved(0, len(whole.events), pieces):
        yield batches.cut(whole, start, end)


def _halved(start: int, end: int, pieces: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """From where to where the parts go; ``pieces``: how many come before each event."""
    count, held = end - start, pieces[end] - pieces[start]
    if count == 1 or (count <= EVENTS_PER_ROW and held <= PIECES_PER_ROW):
        yield start, end
        return
    middle = start + count // 2
    yield from _halved(start, middle, pieces)
    yield from _halved(middle, end, pieces)


def _in_columns(events: Sequence[Event], dictionary: Dictionary, seq: int) -> Batch:
    try:
        return convert.of_events(events, dictionary)
    except UNREADABLE:  # a number that MessagePack can hold and a column cannot
        for number, event in enumerate(events, seq):
            try:
                convert.of_events([event], Dictionary())
            except UNREADABLE as error:
                raise _refusal(number, f"`{kind_of(event)}`: {error}") from error
        raise


def _check_each(events: Sequence[Event], tail: Tail) -> None:
    """Find the event that cannot be kept, and say why."""
    for seq, event in enumerate(events, tail.seq):
        if type(event) not in _TAGS:
            raise _refusal(seq, f"a `{type(event).__name__}` is not an event")
        try:
            body = _ENCODER.encode(event)
            is_equal = _DECODER.decode(body) == event
        except UNREADABLE as error:
            raise _refusal(seq, f"`{kind_of(event)}`: {error}") from error
        if not is_equal:
            raise _refusal(seq, f"`{kind_of(event)}` would read back as something else")
        if len(body) > LARGEST_BODY_BYTES:
            raise _refusal(seq, f"it takes {len(body)} bytes, more than {LARGEST_BODY_BYTES}")


def _refusal(seq: int, found: str) -> JournalError:
    return JournalError(
        f"event {seq} cannot be kept: {found}",
        hint="nothing of its batch was written; build events as `tidemill.model.events` says",
    )
