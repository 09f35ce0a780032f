"""Columns of integers as few bytes, and back; a deflate behind it does the rest.

Each column chooses its own form: all zero, one number, one of a few numbers (a table and a byte per
row), or differences in *byte planes*, all lowest bytes first, then the next, as many as there are.
Numbers are folded so that small negative ones are small too (zigzag, as in Protocol Buffers).

Kernels write and read them (``packed``): a batch has thirty columns, mostly of few numbers, and
what arrays cost would come for each.
"""

import zlib
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tidemill.journal.packed import reading, writing
from tidemill.journal.packed.kernel import packed

Array = NDArray[np.int64]

LARGEST_BYTES = 2**30  # of what deflate gives back; more is damage
LEVEL = 4  # of deflate: 4 % less than at 1 in the same time; 6 saves 2 % more in twice the time

_MOST_ROWS = 2**24  # of a pool; the largest event that is kept has fewer pieces
_STORED, _DEFLATED = b"\0", b"\1"
_ALWAYS_FEWER = 1 << 20  # bytes in several pieces: columns of so many are fewer when deflated


def pack(column: Array, *, in_steps: bool = False) -> bytes:
    """A column as bytes; ``in_steps``: each number lies near the one before it."""
    return bytes(pack_uncopied(column, in_steps=in_steps))


def pack_uncopied(column: Array, *, in_steps: bool = False) -> memoryview:
    """The same where they were written, for columns of which a copy is to be spared."""
    if not len(column):
        return memoryview(b"")
    body = np.empty(writing.column_bytes(len(column)), np.uint8)
    read = np.ascontiguousarray(column).reshape(-1, 1)
    with np.errstate(over="ignore"):  # interpreted: differences go round, as compiled ones do
        end = writing.write_column(packed(body), read, 0, len(column), int(in_steps), 0)
    return body[:end].data


def deflated(data: bytes, level: int = LEVEL) -> bytes:
    """Bytes as they are kept: deflated where that makes them fewer."""
    packer = Deflater(level)
    packer.add(data)
    return bytes(packer.done())


class Deflater:
    """The same of bytes that come piece by piece, and are not all at hand at any time.

    ``head``: what stands before them as it is.
    """

    def __init__(self, level: int = LEVEL, head: bytes = b"") -> None:
        self._packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)  # our checksums guard it
        self._packed, self._size = bytearray(head + _DEFLATED), 0
        self._plain: list[bytes | memoryview] = [head, _STORED]
        self._before = len(self._packed)

    def add(self, piece: bytes | memoryview) -> None:
        """The next of them."""
        self._packed += self._packer.compress(piece)
        self._plain.append(piece)
        self._size += len(piece)
        if self._size > _ALWAYS_FEWER and len(self._plain) > 3:
            self._plain.clear()

    def done(self) -> bytes | bytearray:
        """All of them as they are kept."""
        self._packed += self._packer.flush()
        is_fewer = len(self._packed) - self._before < self._size or not self._plain
        return self._packed if is_fewer else b"".join(self._plain)


def inflated(data: bytes | memoryview) -> bytes:
    """The bytes that were kept; ValueError where they cannot be."""
    if data[:1] == _STORED:
        return bytes(data[1:])
    try:
        unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        found = unpacker.decompress(data[1:], LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if data[:1] != _DEFLATED or not unpacker.eof or unpacker.unused_data:
        raise ValueError("it is not packed as it should be")
    return found


class ColumnReader:
    """Takes columns and texts out of what was packed, from a place on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self.at = data, at
        self.packed = packed(np.frombuffer(data, np.uint8))

    def go_on(self, at: int) -> None:
        """Go on from there; ValueError where a kernel says that something is wrong."""
        if at < 0:
            raise ValueError(reading.words(at))
        self.at = at

    def texts(self, rows: int) -> list[str]:
        """The next texts: a column of their lengths in bytes, then all of them."""
        lengths = self.column(rows).tolist()
        if min(lengths, default=0) < 0:
            raise ValueError("a text is shorter than nothing")
        ends = [0, *accumulate(lengths)]
        data = self._data[self.at : self.at + ends[-1]]
        if len(data) < ends[-1]:
            raise ValueError(reading.words(reading.EARLY))
        self.at += ends[-1]
        if data.isascii():  # nearly always, and then a byte is a letter
            text = data.decode("ascii")
            return [text[a:b] for a, b in pairwise(ends)]
        return [data[a:b].decode("utf-8") for a, b in pairwise(ends)]

    def column(self, rows: int) -> Array:
        """The next column."""
        return self.pool(np.zeros((rows, 1), np.int64), 0, rows, 1).reshape(-1)

    def pool(self, into: Array, first: int, end: int, width: int) -> Array:
        """The next columns, as rows of a matrix from ``first`` to ``end``; it, or a larger one."""
        if not 0 <= end - first <= _MOST_ROWS:
            raise ValueError(f"it says that there are {end - first} rows")
        if end > len(into):
            larger: Array = np.zeros((max(end, 2 * len(into)), into.shape[1]), np.int64)
            larger[:first] = into[:first]
            into = larger
        with np.errstate(over="ignore"):  # as for ``pack``
            self.go_on(reading.read_pool(self.packed, into, first, end - first, self.at, width))
        return into

    def finish(self) -> None:
        """Refuse what is left."""
        if self.at != len(self._data):
            raise ValueError(f"{len(self._data) - self.at} bytes too many")
