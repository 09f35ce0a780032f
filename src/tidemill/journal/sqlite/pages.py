"""The records that can still be found in the pages of a damaged SQLite file.

Reads the bytes themselves, from the file and from its write-ahead file, and never through SQLite:
a lost root page or header costs nothing, and the broken file is not touched. What is found is only
a candidate; stale pages hold old records. Whoever asks checks each against its checksum.

The format: https://www.sqlite.org/fileformat2.html
"""

from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import BinaryIO, NamedTuple

from tidemill.journal.codec import LARGEST_BODY_BYTES
from tidemill.journal.files import APPLICATION_ID
from tidemill.journal.sqlite import wal
from tidemill.journal.sqlite.schema import PAGE_BYTES
from tidemill.model.errors import JournalError

_LEAF = 0x0D
_LONGEST_LOCAL = PAGE_BYTES - 35  # a longer record goes on in overflow pages
_SHORTEST_LOCAL = (PAGE_BYTES - 12) * 32 // 255 - 23
_OVERFLOW_BYTES = PAGE_BYTES - 4
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_LONGEST_RECORD = 2 * LARGEST_BODY_BYTES + PAGE_BYTES  # a batch, and what it adds beside it

Value = int | bytes | str | None


class Image(NamedTuple):
    """One page as it was written once, and where: at an offset of one of the files."""

    page: int
    file: int
    at: int


class Record(NamedTuple):
    """The number and the values of one row."""

    number: int
    values: tuple[Value, ...]


class Pages:
    """Every image of every page of a journal's files."""

    def __init__(self, journal: Path) -> None:
        self._files = [_opened(journal), _opened(wal.beside(journal))]
        self.images = [*_frames(self._files[1], is_current=False), *_pages(self._files[0])]
        self.images += _frames(self._files[1], is_current=True)
        self._newest = {image.page: image for image in self.images}

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            if file is not None:
                file.close()

    def version(self) -> int | None:
        """Of which version the newest header says the journal is; None where no header is left."""
        if 1 not in self._newest:
            return None
        head = self._bytes(self._newest[1])
        mark, version = unpack_from(">I", head, 68)[0], unpack_from(">I", head, 60)[0]
        is_header = head.startswith(b"SQLite format 3\0") and mark == APPLICATION_ID
        return version if is_header else None

    def numbers(self, image: Image) -> list[int]:
        """The numbers of the rows that a page claims to hold; empty if it holds no rows."""
        page = self._bytes(image)
        return [number for cell in _cells(page) if (number := _number(page, cell)) is not None]

    def records(self, image: Image) -> Iterator[Record]:
        """The rows of a page, as far as each can be read."""
        page = self._bytes(image)
        for cell in _cells(page):
            try:
                yield self._record(page, cell)
            except (IndexError, ValueError):
                continue

    def _bytes(self, image: Image) -> bytes:
        file = self._files[image.file]
        assert file is not None
        file.seek(image.at)
        return file.read(PAGE_BYTES).ljust(PAGE_BYTES, b"\0")  # a file may end within a page

    def _record(self, page: bytes, cell: int) -> Record:
        length, cell = _varint(page, cell)
        number, cell = _varint(page, cell)
        if length > _LONGEST_RECORD:
            raise ValueError(length)
        local = _local_bytes(length)
        payload = page[cell : cell + local]
        if local < length:
            first = int.from_bytes(page[cell + local : cell + local + 4], "big")
            payload += self._overflow(first, length - local)
        return Record(number, _values(payload))

    def _overflow(self, page: int, length: int) -> bytes:
        parts = []
        while length > 0:
            if page not in self._newest:
                raise ValueError(page)
            data = self._bytes(self._newest[page])
            page = int.from_bytes(data[:4], "big")
            parts.append(data[4 : 4 + length])
            length -= _OVERFLOW_BYTES
        return b"".join(parts)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(
            f"`{path}` cannot be read: {error.strerror}", hint="check that you may read it"
        ) from error


def _pages(file: BinaryIO | None) -> Iterator[Image]:
    if file is not None:
        for index in range(-(-file.seek(0, 2) // PAGE_BYTES)):
            yield Image(index + 1, 0, index * PAGE_BYTES)


def _frames(file: BinaryIO | None, *, is_current: bool) -> Iterator[Image]:
    """Pages in the write-ahead file; those of an earlier generation are older than the file."""
    if file is None:
        return
    file.seek(0)
    data = file.read()
    salt = wal.salt_of(data) if wal.has_header(data) else None
    for frame in wal.frames(data, PAGE_BYTES):
        if (salt in {None, frame.salt}) == is_current:
            yield Image(frame.page, 1, frame.at)


def _cells(page: bytes) -> Iterator[int]:
    if page[0] != _LEAF:
        return
    count = int.from_bytes(page[3:5], "big")
    for index in range(min(count, (PAGE_BYTES - 8) // 2)):
        (cell,) = unpack_from(">H", page, 8 + 2 * index)
        if cell < PAGE_BYTES:
            yield cell


def _number(page: bytes, cell: int) -> int | None:
    try:
        return _varint(page, _varint(page, cell)[1])[0]
    except IndexError:
        return None


def _local_bytes(length: int) -> int:
    if length <= _LONGEST_LOCAL:
        return length
    local = _SHORTEST_LOCAL + (length - _SHORTEST_LOCAL) % _OVERFLOW_BYTES
    return local if local <= _LONGEST_LOCAL else _SHORTEST_LOCAL


def _values(payload: bytes) -> tuple[Value, ...]:
    header, at = _varint(payload, 0)
    kinds = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in {8, 9}:
        return kind - 8, at
    if kind >= 12:
        end = at + (kind - 12) // 2
        data = payload[at:end]
        return (data.decode() if kind % 2 else data), end
    size = _INTEGER_BYTES[kind]
    return (
        int.from_bytes(payload[at : at + size], "big", signed=True) if kind else None
    ), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
