"""Snapshots as they are kept: a World as bytes, with what proves that it belongs to a journal.

A snapshot is a shortcut and never the truth. One that was damaged, that has the layout of another
version, or that was taken of other events is not used, and the journal is folded instead.
"""

import hashlib
import math
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidemill.core import snapshot
from tidemill.journal import columns
from tidemill.model.errors import JournalError
from tidemill.model.world import World

NEWEST_KEPT = 2  # the one before serves when the newest was damaged
SPREAD_KEPT = 8  # over the whole journal, for whoever looks at a moment in the middle of it
APART = 100_000  # events at least: a quarter of a second to fold, as long as one takes to write
_LEVEL = 4  # of deflate: 2 % more than at 6, in half the time
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


def is_due(before: int, events: int) -> bool:
    """Whether a snapshot is due at this length, when the journal was last looked at before."""
    apart = spacing(events)
    return events // apart > before // apart


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
    """The World as it will be kept."""
    body = snapshot.dump(world)
    if len(body) > LARGEST_BYTES:
        raise JournalError(
            f"a snapshot of {len(body)} bytes cannot be kept; {LARGEST_BYTES} is the most",
            hint="go on without it: rebuilding reads more events and takes longer",
        )
    digest = hashlib.sha256(body).hexdigest()
    packed = columns.deflated(snapshot.dump(world, _array_out), _LEVEL)
    return Stored(world.seq, crc, snapshot.LAYOUT, digest, _COLUMNS + packed)


def unpack(stored: Stored) -> World | None:
    """The World in it, or None where it cannot be used."""
    body = _body(stored)
    if body is None or stored.layout != snapshot.LAYOUT:
        return None
    try:
        world = snapshot.load(body)
    except (JournalError, msgspec.MsgspecError, ValueError, TypeError, LookupError):
        return None  # the same layout number with other contents: a version between two releases
    return world if world.seq == stored.seq else None


def fault(stored: Stored) -> str:
    """What is wrong with a stored snapshot, as far as it can tell itself."""
    return "it does not match its checksum" if _body(stored) is None else ""


def _body(stored: Stored) -> bytes | None:
    """The World as bytes, if it matches its checksum."""
    try:
        body = stored.body
        if body[:1] == _COLUMNS:
            body = _plain(columns.inflated(body[1:]))
        elif body[:1] == _PACKED:
            body = zlib.decompressobj().decompress(body, LARGEST_BYTES)
        is_whole = hashlib.sha256(body).hexdigest() == stored.digest
    except (TypeError, ValueError, LookupError, msgspec.MsgspecError, zlib.error):
        return None  # damage may turn any value into any other
    return body if is_whole else None


def _plain(data: bytes) -> bytes:
    """A World with packed columns as one without."""
    return msgspec.msgpack.encode(msgspec.msgpack.decode(data, ext_hook=_array_in))


def _array_out(array: NDArray[Any]) -> msgspec.msgpack.Ext:
    """An array with its numbers packed as columns are."""
    if array.dtype.kind not in "biu":
        data = np.ascontiguousarray(array).tobytes()
    else:
        column = array.astype(np.int64).ravel()  # 64 bits of whatever sign
        steps = np.abs(np.diff(column)).sum(dtype=float)
        data = columns.pack(column, in_steps=bool(steps < np.abs(column).sum(dtype=float)))
    packed = msgspec.msgpack.encode((array.dtype.str, array.shape, data))
    return msgspec.msgpack.Ext(_ARRAY, packed)


def _array_in(code: int, packed: memoryview) -> snapshot.Packed:
    if code != _ARRAY:
        raise ValueError(f"a snapshot holds a value of type {code}")
    name, shape, data = msgspec.msgpack.decode(packed, type=snapshot.Packed)
    dtype = np.dtype(name)
    if dtype.kind in "biu":
        data = np.asarray(columns.ColumnReader(data).column(math.prod(shape)), dtype).tobytes()
    return name, shape, data


def refuse_future(world: World, count: int) -> None:
    """Refuse a snapshot of a World that knows more than the journal does."""
    if world.seq > count:
        raise JournalError(
            f"a snapshot after {world.seq} events cannot be kept; the journal has {count}",
            hint="append the events before the cluster state that was computed from them",
        )
