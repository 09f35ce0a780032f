"""Snapshots as they are kept: a World as bytes, with what proves that it belongs to a journal.

A snapshot is a shortcut and never the truth. One that was damaged, that has the layout of another
version, or that was taken of other events is not used, and the journal is folded instead.
"""

import hashlib
import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.core import snapshot
from tidemill.journal import columns
from tidemill.model import paging
from tidemill.model.errors import JournalError
from tidemill.model.job_names import JobNames, Texts
from tidemill.model.tables import I64
from tidemill.model.world import World

NEWEST_KEPT = 2  # the one before serves when the newest was damaged
SPREAD_KEPT = 8  # over the whole journal, for whoever looks at a moment in the middle of it
APART = 200_000  # events at least: a sixth of a second to fold, as long as one takes to write
_LEVEL = 1  # of deflate: 8 % more than at 4, in two thirds of the time
_ROWS_AT_ONCE = 4_096
_LONGEST_SHORT, _LONGEST_TEXT = 31, 255  # bytes of texts that have a head of one byte, of two
_COLUMNS_AT_ONCE = 4
"""Columns of a table that are made of its rows in one go: rows that are read for one column are at
hand for the next, and no more than so many columns take memory beside the table."""
_COLUMNS = b"\2"  # what a World with packed columns begins with
_PACKED = b"\x78"  # what zlib begins with, in journals of before; a plain World begins otherwise
_ARRAY = 1  # the type of a packed array, among MessagePack's extensions
LARGEST_BYTES = 900_000_000  # SQLite keeps up to 10^9 in one value


def spacing(events: int) -> int:
    """How many events lie between snapshots of a journal of this length.

    It doubles as the journal grows, so that there are never more than ``SPREAD_KEPT`` of them.
    """
    apart = APART
    while events // apart >= SPREAD_KEPT:
        apart *= 2
    return apart


def is_due(before: int, events: int, foreseen: int = 0) -> bool:
    """Whether a snapshot is due at this length, when the journal was last looked at before.

    ``foreseen``: how long the journal will be, if that is known: none is due that would be worn by
    then, be it by the last one.
    """
    apart = spacing(max(events, foreseen))
    is_near_end = 0 <= foreseen - events < apart // 2
    return events // apart > before // apart and not is_near_end


def worn(seqs: Iterable[int], events: int, *, is_last: bool = False) -> list[int]:
    """Which snapshots of a journal of this length are not needed any more.

    The newest stay, and the first of each stretch of the present spacing; so it does not matter
    when this was asked before. ``is_last``: the newest is the end of a run, and one that lies near
    it is not needed either, as long as there is another.
    """
    newest_first, apart = sorted(seqs, reverse=True), spacing(events)
    first = {seq // apart: seq for seq in newest_first}
    kept = [seq for seq in newest_first if first[seq // apart] == seq]
    far = [seq for seq in kept if seq <= newest_first[0] - apart // 2]
    kept = newest_first[:1] + far if is_last and far else newest_first[:NEWEST_KEPT] + kept
    return [seq for seq in newest_first if seq not in kept]


class Stored(NamedTuple):
    """A snapshot after ``seq`` events; ``crc`` is the checksum of the last of them.

    ``digest`` is that of the World; ``body`` is the World, packed (a seventh of its size) or, in
    journals of before, deflated or plain.
    """

    seq: int
    crc: int
    layout: int
    digest: str
    body: bytes


def pack(world: World, crc: int) -> Stored:
    """The World as it will be kept.

    Piece by piece: the columns of a million jobs are large, and read once for both the digest and
    what is kept.
    """
    digest, size, packed = hashlib.sha256(), 0, columns.Deflater(_LEVEL)
    for plain, kept in _pieces({"layout": snapshot.LAYOUT} | world.state()):
        digest.update(plain)
        size += len(plain)
        packed.add(kept)
    if size > LARGEST_BYTES:
        raise JournalError(
            f"a snapshot of {size} bytes cannot be kept; {LARGEST_BYTES} is the most",
            hint="go on without it: rebuilding reads more events and takes longer",
        )
    body = _COLUMNS + packed.done()
    return Stored(world.seq, crc, snapshot.LAYOUT, digest.hexdigest(), body)


def _pieces(state: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """A World as ``snapshot.dump`` writes it, and with packed columns, in pieces that follow."""
    head = _map_head(len(state))
    yield head, head
    for key, value in _in_one_piece(state):
        name = msgspec.msgpack.encode(key)
        yield name, name
        if isinstance(value, dict) and any(isinstance(v, np.ndarray) for v in value.values()):
            yield from _pieces(value)
        elif isinstance(value, Texts):
            yield from ((piece, piece) for piece in _text_pieces(value))
        else:
            plain = msgspec.msgpack.encode(value, enc_hook=_plain_out)
            yield plain, msgspec.msgpack.encode(value, enc_hook=_array_out)


def _in_one_piece(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The same entries; arrays that are columns of a table are made contiguous, some at a time."""
    entries = list(state.items())
    for first in range(0, len(entries), _COLUMNS_AT_ONCE):
        some = entries[first : first + _COLUMNS_AT_ONCE]
        strided = [v for _, v in some if isinstance(v, np.ndarray) and not v.flags.c_contiguous]
        made = {id(v): np.empty(v.shape, v.dtype) for v in strided}
        for at in range(0, max(map(len, strided), default=0), _ROWS_AT_ONCE):
            for array in strided:
                made[id(array)][at : at + _ROWS_AT_ONCE] = array[at : at + _ROWS_AT_ONCE]
            paging.let_go()
        for key, value in some:
            yield key, made.get(id(value), value)


def _text_pieces(texts: Texts) -> Iterator[bytes]:
    """As MessagePack writes a list of them."""
    yield _list_head(len(texts))
    chunks: Iterable[list[str]] = texts.chunks()
    if isinstance(texts, JobNames):
        for letters, lengths in texts.put_away():
            yield _with_heads(letters, lengths)
        chunks = [texts.fresh]
    for some in chunks:
        yield msgspec.msgpack.encode(some)[len(_list_head(len(some))) :]


def _with_heads(letters: NDArray[np.uint8], lengths: I64) -> bytes:
    """Texts as MessagePack writes them: before each of them how many bytes it has."""
    begins = np.cumsum(lengths) - lengths
    if lengths.max() > _LONGEST_TEXT:
        some = (letters[a : a + size].tobytes() for a, size in zip(begins, lengths, strict=True))
        return b"".join(
            msgspec.msgpack.encode(one.decode("utf-8", "surrogatepass")) for one in some
        )
    is_long = lengths > _LONGEST_SHORT
    heads = np.where(is_long, 0xD9, 0xA0 | lengths)
    at, what = np.append(begins, begins[is_long]), np.append(heads, lengths[is_long])
    return np.insert(letters, at, what).tobytes()


def _list_head(size: int) -> bytes:
    """How MessagePack begins a list of so many."""
    if size < 16:
        return bytes([0x90 | size])
    return b"\xdc" + size.to_bytes(2) if size < 1 << 16 else b"\xdd" + size.to_bytes(4)


def _map_head(size: int) -> bytes:
    """How MessagePack begins a map of so many entries."""
    return bytes([0x80 | size]) if size < 16 else b"\xde" + size.to_bytes(2)


def unpack(stored: Stored) -> World | None:
    """The World in it, or None where it cannot be used."""
    state = _state(stored)
    if state is None or stored.layout != snapshot.LAYOUT:
        return None
    try:
        world = snapshot.of_state(state)
    except (JournalError, msgspec.MsgspecError, ValueError, TypeError, LookupError):
        return None  # the same layout number with other contents: a version between two releases
    return world if world.seq == stored.seq else None


def fault(stored: Stored) -> str:
    """What is wrong with a stored snapshot, as far as it can tell itself."""
    return "it does not match its checksum" if _state(stored) is None else ""


def _state(stored: Stored) -> dict[str, Any] | None:
    """What ``snapshot.dump`` wrote, if it matches its checksum."""
    try:
        body, digest = stored.body, hashlib.sha256()
        if body[:1] == _COLUMNS:
            state = msgspec.msgpack.decode(columns.inflated(body[1:]), ext_hook=_array_in)
            for piece in _plain_pieces(state):
                digest.update(piece)
        else:
            if body[:1] == _PACKED:
                body = zlib.decompressobj().decompress(body, LARGEST_BYTES)
            digest.update(body)
            state = msgspec.msgpack.decode(body)
    except (TypeError, ValueError, LookupError, msgspec.MsgspecError, zlib.error):
        return None  # damage may turn any value into any other
    is_whole = digest.hexdigest() == stored.digest and isinstance(state, dict)
    return state if is_whole else None


def _plain_pieces(state: dict[str, Any]) -> Iterator[bytes]:
    """A World with unpacked columns as ``snapshot.dump`` writes it, in pieces that follow."""
    yield _map_head(len(state))
    for key, value in state.items():
        yield msgspec.msgpack.encode(key)
        if isinstance(value, dict):
            yield from _plain_pieces(value)
        else:
            yield msgspec.msgpack.encode(value)


def _plain_out(array: NDArray[Any]) -> snapshot.Packed:
    """An array as ``snapshot.dump`` writes it."""
    return array.dtype.str, array.shape, array.tobytes()


def _array_out(array: NDArray[Any]) -> msgspec.msgpack.Ext:
    """An array with its numbers packed as columns are."""
    if array.dtype.kind not in "biu":
        data = np.ascontiguousarray(array).tobytes()
    else:
        column = array.astype(np.int64).ravel()  # 64 bits of whatever sign
        data = columns.pack(column, in_steps=_is_in_steps(column))
    packed = msgspec.msgpack.encode((array.dtype.str, array.shape, data))
    return msgspec.msgpack.Ext(_ARRAY, packed)


def _is_in_steps(column: NDArray[np.int64]) -> bool:
    """Whether the differences between rows are smaller than the numbers."""
    if not len(column) or column.min() == column.max():  # most columns say the same of all jobs
        return False
    steps = np.abs(np.diff(column)).sum(dtype=float)
    return bool(steps < np.abs(column).sum(dtype=float))


def _array_in(code: int, packed: memoryview) -> snapshot.Packed:
    if code != _ARRAY:
        raise ValueError(f"a snapshot holds a value of type {code}")
    name, shape, data = msgspec.msgpack.decode(packed, type=snapshot.Packed)
    dtype = np.dtype(name)
    if dtype.kind in "biu":
        data = columns.ColumnReader(data).column(math.prod(shape)).astype(dtype).tobytes()
    return name, shape, data


def refuse_future(world: World, count: int) -> None:
    """Refuse a snapshot of a World that knows more than the journal does."""
    if world.seq > count:
        raise JournalError(
            f"a snapshot after {world.seq} events cannot be kept; the journal has {count}",
            hint="append the events before the cluster state that was computed from them",
        )
