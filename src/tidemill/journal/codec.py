"""Events as bytes, and the chain that ties each one to all before it.

A row keeps one event: its number, its time and kind (for people with an SQL shell), its body in
MessagePack, and a checksum over the previous checksum, the number and the body. A flipped bit, a
row that is missing, moved or put in between breaks the chain at that row.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, get_args
from zlib import crc32

import msgspec

from tidemill.model.errors import JournalError
from tidemill.model.events import Event

LARGEST_BODY_BYTES = 64 * 2**20  # a gang over 100,000 nodes takes 2 MB; more is a mistake
UNREADABLE = (
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    struct.error,
)
"""Whatever damaged rows and objects from outside may raise on their way through this module."""

_KINDS: dict[type, str] = {kind: kind.__struct_config__.tag for kind in get_args(Event)}
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Event)
_LINK = struct.Struct("<Iq")

Row = tuple[int, int, str, bytes, int]
"""One event as it is kept: ``seq, at_ms, kind, body, crc``. Plain, as SQLite takes and gives it."""


class Tail(NamedTuple):
    """The end of a journal after ``seq`` events: the time and the checksum of the last."""

    seq: int = 0
    at_ms: int = 0
    crc: int = 0


def kind_of(event: Event) -> str:
    """The word for the kind of an event, as in its tag."""
    return _KINDS[type(event)]


def link(crc: int, seq: int, body: bytes) -> int:
    """The checksum of an event, given that of the one before."""
    return crc32(body, crc32(_LINK.pack(crc, seq)))


def fact_sum(key: str, value: str) -> int:
    """The checksum of a small fact."""
    return crc32(f"{key}\0{value}".encode())


def rows(events: Iterable[Event], tail: Tail) -> list[Row]:
    """The rows that keep these events after this tail; if one cannot be kept, none are."""
    kept = []
    seq, last_ms, crc = tail
    for event in events:
        body = _body(event, seq)
        if event.at_ms < last_ms:
            raise _refusal(seq, f"it is at {event.at_ms} ms, after an event at {last_ms} ms")
        last_ms, crc = event.at_ms, link(crc, seq, body)
        kept.append((seq, last_ms, _KINDS[type(event)], body, crc))
        seq += 1
    return kept


def tail_after(row: Row) -> Tail:
    """The tail of a journal that ends with this row."""
    seq, at_ms, _, _, crc = row
    return Tail(seq + 1, at_ms, crc)


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


def _disagreement(event: Event, at_ms: int, kind: str, last_ms: int) -> str:
    if event.at_ms != at_ms or _KINDS[type(event)] != kind:
        return f"its row says `{kind}` at {at_ms} ms, its body `{kind_of(event)}` at {event.at_ms}"
    return f"it is at {at_ms} ms, after an event at {last_ms} ms" if at_ms < last_ms else ""


def _body(event: Event, seq: int) -> bytes:
    """Bytes that were read back and found equal: what is acknowledged can be read."""
    if type(event) not in _KINDS:
        raise _refusal(seq, f"a `{type(event).__name__}` is not an event")
    try:
        body = _ENCODER.encode(event)
        is_equal = _DECODER.decode(body) == event
    except UNREADABLE as error:
        raise _refusal(seq, f"`{_KINDS[type(event)]}`: {error}") from error
    if not is_equal:
        raise _refusal(seq, f"`{_KINDS[type(event)]}` would read back as something else")
    if len(body) > LARGEST_BODY_BYTES:
        raise _refusal(seq, f"it takes {len(body)} bytes, more than {LARGEST_BODY_BYTES}")
    return body


def _refusal(seq: int, found: str) -> JournalError:
    return JournalError(
        f"event {seq} cannot be kept: {found}",
        hint="nothing of its batch was written; build events as `tidemill.model.events` says",
    )
