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
from tidemill.journal.packed import reading
from tidemill.journal.packed.kernel import packed
from tidemill.model import paging
from tidemill.model.errors import JournalError
from tidemill.model.job_names import JobNames, Texts
from tidemill.model.tables import I64
from tidemill.model.world import World

NEWEST_KEPT = 2  # the one before serves when the newest was damaged
SPREAD_KEPT = 8  # over the whole journal, for whoever looks at a moment in the middle of it
APART = 200_000  # events at least: a sixth of a second to fold, as long as one takes to write
_LEVEL = 1  # of deflate: 8 % more than at 4, in two thirds of the time
_TEXTS_AT_ONCE = 4_096
_LONGEST_SHORT, _LONGEST_TEXT = 31, 255  # bytes of texts that have a head of one byte, of two
_SHORT_LIST, _LIST_HEADS = 0x90, {0xDC: 2, 0xDD: 4}  # its size in the head, or in bytes after it
_TEXTS = ("job_names", "job_users")  # of a World: the longest lists in it
_COLUMNS = b"\2"  # what a World with packed columns begins with
_PACKED = b"\x78"  # what zlib begins with, in journals of before; a plain World begins otherwise
_ARRAY = 1  # the type of a packed array, among MessagePack's extensions
_LONG_BYTES = 1 << 16  # from so many on MessagePack says in four bytes how many there are
_COLUMNS_AT_ONCE = 8  # of a table that are made contiguous in one go
_Bytes = bytes | memoryview
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
    body: bytes | bytearray


def pack(world: World, crc: int) -> Stored:
    """The World as it will be kept.

    Piece by piece: the columns of a million jobs are large, and read once for both the digest and
    what is kept.
    """
    digest, size, packed = hashlib.sha256(), 0, columns.Deflater(_LEVEL, _COLUMNS)
    for plain, kept in _pieces({"layout": snapshot.LAYOUT} | world.state()):
        digest.update(plain)
        size += len(plain)
        packed.add(kept)
    if size > LARGEST_BYTES:
        raise JournalError(
            f"a snapshot of {size} bytes cannot be kept; {LARGEST_BYTES} is the most",
            hint="go on without it: rebuilding reads more events and takes longer",
        )
    return Stored(world.seq, crc, snapshot.LAYOUT, digest.hexdigest(), packed.done())


def _pieces(state: dict[str, Any]) -> Iterator[tuple[_Bytes, _Bytes]]:
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
        elif isinstance(value, np.ndarray):
            yield _plain_head(value), b""
            for some in paging.stretches(len(value)) if value.ndim else [()]:
                yield _bytes(value[some]), b""
            yield from ((b"", piece) for piece in _array_pieces(value))
        else:
            plain = msgspec.msgpack.encode(value, enc_hook=_plain_out)
            yield plain, msgspec.msgpack.encode(value, enc_hook=_array_out)


def _in_one_piece(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The same entries; arrays that are columns of a table are made contiguous, some at a time.

    Of a column that says the same of all rows, as most do of jobs, it is said once.
    """
    entries = list(state.items())
    for first in range(0, len(entries), _COLUMNS_AT_ONCE):
        some = dict(entries[first : first + _COLUMNS_AT_ONCE])
        strided = {
            key: value for key, value in some.items()
            if isinstance(value, np.ndarray) and not value.flags.c_contiguous
            and (value.ndim, value.dtype) == (1, np.int64)
        }  # fmt: skip
        made = {key: np.broadcast_to(v[:1].copy(), len(v)) for key, v in strided.items()}
        for at in paging.stretches(max(map(len, strided.values()), default=0)):
            for key, column in strided.items():
                if not made[key].flags.writeable and (column[at] != column[0]).any():
                    made[key] = paging.blank(len(column), is_kept=True)
                    made[key][: at.start] = column[0]
                if made[key].flags.writeable:
                    made[key][at] = column[at]
        for key, value in some.items():
            yield key, made.pop(key, value)


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


class PackedTexts(Texts):
    """A list of texts as MessagePack writes it, of which some are taken at a time."""

    __slots__ = ("_body", "_count", "_starts")

    def __init__(self, body: memoryview) -> None:
        """``body``: ValueError where it is no list of texts."""
        self._body, size = body, _LIST_HEADS.get(body[0], 0)
        self._count = int.from_bytes(body[1 : 1 + size]) if size else body[0] - _SHORT_LIST
        if not 0 <= self._count < len(body):
            raise ValueError("it is no list of texts")
        texts, self._starts = packed(np.frombuffer(body, np.uint8)), [1 + size]
        for first in range(0, self._count, _TEXTS_AT_ONCE):
            some = min(_TEXTS_AT_ONCE, self._count - first)
            end = reading.after_texts(texts, self._starts[-1], some)
            if end < 0:
                raise ValueError(reading.words(end))
            self._starts.append(end)

    def __len__(self) -> int:
        return self._count

    def some(self, first: int, end: int) -> list[str]:
        """Those from one number up to another."""
        found, at = list[str](), first - first % _TEXTS_AT_ONCE
        for begin in range(at, end, _TEXTS_AT_ONCE):
            i, some = begin // _TEXTS_AT_ONCE, min(_TEXTS_AT_ONCE, self._count - begin)
            texts = bytes(self._body[self._starts[i] : self._starts[i + 1]])
            found += msgspec.msgpack.decode(_list_head(some) + texts, type=list[str])
        return found[first - at : end - at]


def _list_head(size: int) -> bytes:
    """How MessagePack begins a list of so many."""
    if size < 16:
        return bytes([_SHORT_LIST | size])
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
            state = _unpacked(columns.inflated(memoryview(body)[1:]), digest)
        else:
            if body[:1] == _PACKED:
                body = zlib.decompressobj().decompress(body, LARGEST_BYTES)
            digest.update(body)
            state = snapshot.with_tables(msgspec.msgpack.decode(body))
    except (TypeError, ValueError, LookupError, msgspec.MsgspecError, zlib.error):
        return None  # damage may turn any value into any other
    is_whole = digest.hexdigest() == stored.digest and isinstance(state, dict)
    return state if is_whole else None


def _unpacked(body: bytes, digest: "hashlib._Hash") -> dict[str, Any]:
    """A World with packed columns as it is loaded; the digest is told what ``dump`` writes of it.

    Of its tables a few columns are at hand at any time, of the names of jobs some thousand.
    """
    state = dict[str, Any]()
    for key, raw in _entries(body, digest):
        if key in snapshot.TABLES:
            some = _entries(raw, digest)
            state[key] = snapshot.rows_of(key, (_array(value, digest) for _, value in some))
        elif key in _TEXTS:
            digest.update(raw)
            state[key] = PackedTexts(memoryview(raw))
        else:
            state[key] = _told(raw, digest)
    return state


def _entries(
    body: bytes | msgspec.Raw, digest: "hashlib._Hash"
) -> Iterator[tuple[str, msgspec.Raw]]:
    """The entries of a map, as they are kept."""
    found = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])
    digest.update(_map_head(len(found)))
    for key, raw in found.items():
        digest.update(msgspec.msgpack.encode(key))
        yield key, raw


def _array(raw: msgspec.Raw, digest: "hashlib._Hash") -> NDArray[Any]:
    """A column, unpacked."""
    found = msgspec.msgpack.decode(raw, ext_hook=_array_in)
    if not isinstance(found, np.ndarray):
        raise TypeError(f"a table has columns, and this is {found!r}")
    digest.update(_plain_head(found))
    digest.update(_bytes(found))
    return found


def _told(raw: msgspec.Raw, digest: "hashlib._Hash") -> Any:  # noqa: ANN401 - whatever was kept
    """What was kept, unpacked."""
    value = msgspec.msgpack.decode(raw, ext_hook=lambda *kept: _plain_out(_array_in(*kept)))
    digest.update(msgspec.msgpack.encode(value))
    return value


def _plain_head(array: NDArray[Any]) -> bytes:
    """What stands before the bytes of an array as ``snapshot.dump`` writes it."""
    return _head(array, array.nbytes)


def _head(array: NDArray[Any], size: int) -> bytes:
    """What MessagePack writes of an array before so many bytes of it."""
    type_and_shape = msgspec.msgpack.encode((array.dtype.str, array.shape))
    head, width = (0xC4, 1) if size < 1 << 8 else (0xC5, 2) if size < 1 << 16 else (0xC6, 4)
    return b"\x93" + type_and_shape[1:] + bytes([head]) + size.to_bytes(width)


def _bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of an array; those of one that is in one piece are not copied."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _plain_out(array: NDArray[Any]) -> snapshot.Packed:
    """An array as ``snapshot.dump`` writes it."""
    return array.dtype.str, array.shape, array.tobytes()


def _array_out(array: NDArray[Any]) -> msgspec.msgpack.Ext:
    """An array with its numbers packed as columns are."""
    packed = msgspec.msgpack.encode((array.dtype.str, array.shape, _packed_out(array)))
    return msgspec.msgpack.Ext(_ARRAY, packed)


def _array_pieces(array: NDArray[Any]) -> Iterator[_Bytes]:
    """The same as MessagePack writes it; what is long is not copied into one piece."""
    data = _packed_out(array)
    if len(data) < _LONG_BYTES:
        packed = msgspec.msgpack.encode((array.dtype.str, array.shape, data))
        yield msgspec.msgpack.encode(msgspec.msgpack.Ext(_ARRAY, packed))
        return
    head = _head(array, len(data))
    yield b"\xc9" + (len(head) + len(data)).to_bytes(4) + bytes([_ARRAY]) + head
    yield data


def _packed_out(array: NDArray[Any]) -> _Bytes:
    if array.dtype.kind not in "biu":
        return np.ascontiguousarray(array).tobytes()
    if array.strides == (0,):
        return columns.pack(array[:1])
    column = array.astype(np.int64, copy=False).ravel()  # 64 bits of whatever sign
    return columns.pack_uncopied(column, in_steps=_is_in_steps(column))


def _is_in_steps(column: NDArray[np.int64]) -> bool:
    """Whether the differences between rows are smaller than the numbers."""
    if not len(column) or column.min() == column.max():  # most columns say the same of all jobs
        return False
    steps = plain = 0.0
    for some in paging.stretches(len(column)):
        steps += np.abs(np.diff(column[max(0, some.start - 1) : some.stop])).sum(dtype=float)
        plain += np.abs(column[some]).sum(dtype=float)
    return bool(steps < plain)


def _array_in(code: int, packed: memoryview) -> NDArray[Any]:
    if code != _ARRAY:
        raise ValueError(f"a snapshot holds a value of type {code}")
    name, shape, data = msgspec.msgpack.decode(packed, type=snapshot.Packed)
    dtype = np.dtype(name)
    if dtype.kind not in "biu":
        return np.frombuffer(data, dtype).reshape(shape)
    column = columns.ColumnReader(data).column(math.prod(shape))
    return column.astype(dtype, copy=False).reshape(shape)


def refuse_future(world: World, count: int) -> None:
    """Refuse a snapshot of a World that knows more than the journal does."""
    if world.seq > count:
        raise JournalError(
            f"a snapshot after {world.seq} events cannot be kept; the journal has {count}",
            hint="append the events before the cluster state that was computed from them",
        )
