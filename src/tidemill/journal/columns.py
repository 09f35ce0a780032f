"""Columns of integers as few bytes, and back; a deflate behind it does the rest.

Each column chooses its own form: all zero, one number, one of a few numbers (a table and a byte per
row), or differences in *byte planes*, all lowest bytes first, then the next, as many as there are.
Numbers are folded so that small negative ones are small too (zigzag, as in Protocol Buffers).
"""

import zlib

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]

LARGEST_BYTES = 2**30  # of what deflate gives back; more is damage
LEVEL = 4  # of deflate: 4 % less than at 1 in the same time; 6 saves 2 % more in twice the time

_ZERO, _SAME, _FEW, _WIDE, _STEPS = range(5)
_MOST_FEW = 256
_FEWEST = 32  # rows that a table of distinct numbers is worth looking for in
_SAMPLE = 512  # rows that are looked at before all are sorted to find the distinct ones
_STORED, _DEFLATED = b"\0", b"\1"


def pack(column: Column, *, in_steps: bool = False) -> bytes:
    """A column as bytes; ``in_steps``: each number lies near the one before it."""
    if not len(column):
        return b""
    if column.min() == column.max():
        value = int(column[0])
        return bytes([_SAME]) + _planes(column[:1]) if value else bytes([_ZERO])
    steps = np.diff(column, prepend=0) if in_steps else column
    few = _few(steps)
    if few is not None:
        table, places = few
        form = bytes([_FEW, in_steps, len(table) - 1])
        return form + _planes(np.diff(table, prepend=0)) + places.astype(np.uint8).tobytes()
    return bytes([_STEPS if in_steps else _WIDE]) + _planes(steps)


def deflated(data: bytes, level: int = LEVEL) -> bytes:
    """Bytes as they are kept: deflated where that makes them fewer."""
    packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)  # our checksums guard it
    packed = packer.compress(data) + packer.flush()
    return _DEFLATED + packed if len(packed) < len(data) else _STORED + data


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


class Reader:
    """Takes columns and bytes out of what was packed, from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self._at + count
        if not self._at <= end <= len(self._data):
            raise ValueError("it ends too early")
        found, self._at = self._data[self._at : end], end
        return found

    def column(self, rows: int) -> Column:
        """The next column."""
        if not rows:
            return np.zeros(0, np.int64)
        match self.take(1)[0]:
            case 0:  # _ZERO
                return np.zeros(rows, np.int64)
            case 1:  # _SAME
                return np.repeat(self._planes(1), rows)
            case 2:  # _FEW
                in_steps, last = self.take(2)
                table = np.cumsum(self._planes(last + 1))
                found = table[np.frombuffer(self.take(rows), np.uint8)]
                return np.cumsum(found) if in_steps else found
            case 3:  # _WIDE
                return self._planes(rows)
            case 4:  # _STEPS
                return np.cumsum(self._planes(rows))
            case form:
                raise ValueError(f"it has a column of form {form}, which this version cannot read")

    def finish(self) -> None:
        """Refuse what is left."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes too many")

    def _planes(self, rows: int) -> Column:
        planes = self.take(1)[0]
        if planes > 8:
            raise ValueError(f"a number of {planes} bytes")
        taken = np.frombuffer(self.take(rows * planes), np.uint8).reshape(planes, rows)
        folded = np.zeros((rows, 8), np.uint8)
        folded[:, :planes] = taken.T
        words = folded.view("<u8").ravel()
        return (words >> np.uint64(1)).view(np.int64) ^ -(words & np.uint64(1)).view(np.int64)


def _planes(column: Column) -> bytes:
    folded = ((column << 1) ^ (column >> 63)).view(np.uint64)
    planes = -(-int(folded.max()).bit_length() // 8)
    wide = folded.astype("<u8").view(np.uint8).reshape(-1, 8)
    return bytes([planes]) + wide[:, :planes].T.tobytes()


def _few(column: Column) -> tuple[Column, NDArray[np.intp]] | None:
    """The distinct numbers and which of them each row has; None: that would not take less."""
    most = min(_MOST_FEW, len(column) // 4)
    if len(column) < _FEWEST or len(np.unique(column[:_SAMPLE])) > most:
        return None
    table, places = np.unique(column, return_inverse=True)
    return (table, places) if len(table) <= most else None
