"""Columns of integers as few bytes, and back; a deflate behind it does the rest.

Each column chooses its own form: all zero, one number, one of a few numbers (a table and a byte per
row), or differences in *byte planes*, all lowest bytes first, then the next, as many as there are.
Numbers are folded so that small negative ones are small too (zigzag, as in Protocol Buffers).

Short columns are lists: on a handful of numbers an array takes twenty times as long as a list. The
forms are the same; only the arithmetic (``_ListArithmetic``, ``_Arrays``) is not.
"""

import zlib
from itertools import accumulate, pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tidemill.journal.decoding import reading
from tidemill.journal.decoding.kernel import Packed
from tidemill.journal.decoding.reading import FEW, MOST_FEW, SAME, STEPS, WIDE, ZERO

Array = NDArray[np.int64]
Column = Array | list[int]

LARGEST_BYTES = 2**30  # of what deflate gives back; more is damage
LEVEL = 4  # of deflate: 4 % less than at 1 in the same time; 6 saves 2 % more in twice the time

_FEWEST = 32  # rows that a table of distinct numbers, or an array, is worth its while for
_SAMPLE = 512  # rows that are looked at before all are sorted to find the distinct ones
_NARROW = 2**16  # numbers from the lowest to the highest that are counted instead of sorted
_MOST_ROWS = 2**24  # of a pool; the largest event that is kept has fewer pieces
_HALF = 2**63  # of the numbers of 64 bits
_STORED, _DEFLATED = b"\0", b"\1"
_ALWAYS_FEWER = 1 << 20  # bytes in several pieces: columns of so many are fewer when deflated


def is_short(rows: int) -> bool:
    """Whether a column of so many rows is a list."""
    return rows < _FEWEST


def pack(column: Column, *, in_steps: bool = False) -> bytes:
    """A column as bytes; ``in_steps``: each number lies near the one before it."""
    if not len(column):
        return b""
    ways = _ListArithmetic if isinstance(column, list) else _Arrays
    low, high = ways.ends(column)
    if low == high:
        return bytes([SAME]) + ways.planes(column[:1]) if low else bytes([ZERO])
    steps = ways.steps(column) if in_steps else column
    few = None if is_short(len(column)) else _few(np.asarray(steps))
    if few is not None:
        table, places = few
        form = bytes([FEW, in_steps, len(table) - 1])
        return form + _Arrays.planes(_Arrays.steps(table)) + places.astype(np.uint8).tobytes()
    return bytes([STEPS if in_steps else WIDE]) + ways.planes(steps)


def deflated(data: bytes, level: int = LEVEL) -> bytes:
    """Bytes as they are kept: deflated where that makes them fewer."""
    packer = Deflater(level)
    packer.add(data)
    return packer.done()


class Deflater:
    """The same of bytes that come piece by piece, and are not all at hand at any time."""

    def __init__(self, level: int = LEVEL) -> None:
        self._packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)  # our checksums guard it
        self._packed, self._plain, self._size = [_DEFLATED], [_STORED], 0

    def add(self, piece: bytes) -> None:
        """The next of them."""
        self._packed.append(self._packer.compress(piece))
        self._plain.append(piece)
        self._size += len(piece)
        if self._size > _ALWAYS_FEWER and len(self._plain) > 2:
            self._plain.clear()

    def done(self) -> bytes:
        """All of them as they are kept."""
        packed = b"".join((*self._packed, self._packer.flush()))
        is_fewer = len(packed) - 1 < self._size or not self._plain
        return packed if is_fewer else b"".join(self._plain)


def inflated(data: bytes) -> bytes:
    """The bytes that were kept; ValueError where they cannot be."""
    if data[:1] == _STORED:
        return data[1:]
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
        table: Array = np.empty(reading.MOST_FEW, np.int64)
        self.packed = Packed(np.frombuffer(data, np.uint8), table)

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
        self.go_on(reading.read_pool(self.packed, into, first, end - first, self.at, width))
        return into

    def finish(self) -> None:
        """Refuse what is left."""
        if self.at != len(self._data):
            raise ValueError(f"{len(self._data) - self.at} bytes too many")


def _wrapped(numbers: list[int]) -> list[int]:
    """Numbers as 64 bits hold them: what is too large goes round, as it does in arrays."""
    if min(numbers) >= -_HALF and max(numbers) < _HALF:
        return numbers
    return [(number + _HALF) % (2 * _HALF) - _HALF for number in numbers]


class _ListArithmetic:
    """The arithmetic of columns on lists."""

    @staticmethod
    def ends(column: Column) -> tuple[int, int]:
        return min(column), max(column)

    @staticmethod
    def steps(column: Column) -> Column:
        return _wrapped([now - before for now, before in zip(column, [0, *column], strict=False)])

    @staticmethod
    def planes(column: Column) -> bytes:
        folded = [(value << 1) ^ (value >> 63) for value in column]
        planes = -(-max(folded).bit_length() // 8)
        if planes == 1:
            return bytes([1, *folded])
        whole = b"".join(value.to_bytes(planes, "little") for value in folded)
        return bytes([planes]) + b"".join(whole[plane::planes] for plane in range(planes))


class _Arrays:
    """The same on arrays."""

    @staticmethod
    def ends(column: Column) -> tuple[int, int]:
        array = cast(Array, column)
        return int(array.min()), int(array.max())

    @staticmethod
    def steps(column: Column) -> Column:
        return np.diff(column, prepend=0)

    @staticmethod
    def planes(column: Column) -> bytes:
        array = cast(Array, column)
        folded = ((array << 1) ^ (array >> 63)).view(np.uint64)
        planes = -(-int(folded.max()).bit_length() // 8)
        wide = folded.astype("<u8").view(np.uint8).reshape(-1, 8)
        return bytes([planes]) + wide[:, :planes].T.tobytes()


def _few(column: Array) -> tuple[Array, NDArray[np.intp]] | None:
    """The distinct numbers and which of them each row has; None: that would not take less.

    Numbers that lie near each other are counted: to sort them takes ten times as long.
    """
    most = min(MOST_FEW, len(column) // 4)
    sample = column[:: len(column) // _SAMPLE + 1]
    if len(column) < _FEWEST or len(_ordered(sample)) > most:
        return None
    low, high = _Arrays.ends(column)
    if high - low >= _NARROW:
        table = _ordered(column)
        return (table, np.searchsorted(table, column)) if len(table) <= most else None
    above = column - low
    is_there = np.bincount(above) > 0
    if np.count_nonzero(is_there) > most:
        return None
    return np.flatnonzero(is_there) + low, (np.cumsum(is_there) - 1)[above]


def _ordered(column: Array) -> Array:
    """The distinct numbers, in order: sorted, which takes a third of the time of a hash table."""
    found = np.sort(column)
    is_new = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=is_new[1:])
    return found[is_new]
