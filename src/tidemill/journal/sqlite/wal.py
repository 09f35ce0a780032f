"""Whether a write-ahead file was damaged, or only ends in a transaction that was never finished.

SQLite reads a write-ahead file up to the first frame that does not match its checksum and silently
forgets the rest. That is right for the one transaction that a crash cut short; it would also be
silent if the middle of the file went bad. Every finished transaction was synced before the next
began, so: one commit beyond the bad frame may be a crash, two are damage. A file whose header is
bad holds nothing for SQLite, and is damage too.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from struct import Struct, unpack_from
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
_MAGIC = 0x377F0682  # the lowest bit says in which order checksums read the bytes: 1 is big-endian
_WORD = 2**32

Sums = tuple[int, int]


class Frame(NamedTuple):
    """One page as written by a transaction; ``commit`` is not 0 on the last page of it."""

    page: int
    commit: int
    salt: Sums
    sums: Sums
    at: int


def beside(journal: Path) -> Path:
    """The write-ahead file of a journal."""
    return journal.with_name(journal.name + "-wal")


def is_in_use(journal: Path) -> bool:
    """Whether there is anything in the write-ahead file of a journal."""
    try:
        return beside(journal).stat().st_size > 0
    except OSError:
        return False


def damage(journal: Path) -> str:
    """What is wrong with the write-ahead file of a journal that nobody writes now; or nothing."""
    try:
        data = beside(journal).read_bytes()
    except OSError:  # there is none, or SQLite will say it better
        return ""
    if not any(data[:HEADER_BYTES]):  # never begun, or a power loss before its first commit
        return ""
    if not has_header(data):
        return "its write-ahead file does not begin as SQLite writes it"
    lost = _commits_beyond_break(data)
    return f"its write-ahead file is damaged before {lost} commits" if lost > 1 else ""


def has_header(data: bytes) -> bool:
    """Whether the file begins with a header that SQLite would believe."""
    if len(data) < HEADER_BYTES:
        return False
    magic, _, page_bytes, *_, sum0, sum1 = _HEADER.unpack_from(data)
    is_known = magic & ~1 == _MAGIC and page_bytes in {2**n for n in range(9, 17)}
    return is_known and _sums((0, 0), data[: HEADER_BYTES - 8], _order(data)) == (sum0, sum1)


def salt_of(data: bytes) -> Sums:
    """What the frames of the present generation are marked with."""
    salt0, salt1 = unpack_from(">2I", data, 16)
    return salt0, salt1


def frames(data: bytes, page_bytes: int) -> Iterator[Frame]:
    """Every whole frame there is room for, of whatever generation."""
    step = FRAME_HEADER_BYTES + page_bytes
    for at in range(HEADER_BYTES, len(data) - step + 1, step):
        page, commit, salt0, salt1, sum0, sum1 = _FRAME.unpack_from(data, at)
        yield Frame(page, commit, (salt0, salt1), (sum0, sum1), at + FRAME_HEADER_BYTES)


def _commits_beyond_break(data: bytes) -> int:
    page_bytes = _HEADER.unpack_from(data)[2]
    salt, order = salt_of(data), _order(data)
    sums: Sums = unpack_from(">2I", data, 24)
    is_broken, lost = False, 0
    for frame in frames(data, page_bytes):
        if not is_broken:
            head = data[frame.at - FRAME_HEADER_BYTES : frame.at - FRAME_HEADER_BYTES + 8]
            sums = _sums(sums, head + data[frame.at : frame.at + page_bytes], order)
            is_broken = (frame.salt, frame.sums) != (salt, sums)
        if is_broken and frame.salt == salt and frame.commit:
            lost += 1
    return lost


def _order(data: bytes) -> str:
    return ">u4" if data[3] & 1 else "<u4"


def _sums(sums: Sums, data: bytes, order: str) -> Sums:
    """SQLite's checksum: s0 += a + s1; s1 += b + s0 over pairs of words, as two dot products."""
    words = np.frombuffer(data, order).astype(np.uint32)
    first, second, (c00, c01, c10, c11) = _weights(len(words) // 2)
    sum0 = int(np.dot(first, words)) + c00 * sums[0] + c01 * sums[1]
    sum1 = int(np.dot(second, words)) + c10 * sums[0] + c11 * sums[1]
    return sum0 % _WORD, sum1 % _WORD


@cache
def _weights(pairs: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32], tuple[int, ...]]:
    """How often each word counts in the end: powers of ((1, 1), (1, 2)), the last pair first."""
    first, second = [], []
    c00, c01, c10, c11 = 1, 0, 0, 1
    for _ in range(pairs):
        first += [c01, (c00 + c01) % _WORD]
        second += [c11, (c10 + c11) % _WORD]
        c00, c01, c10, c11 = (
            (c00 + c01) % _WORD,
            (c00 + 2 * c01) % _WORD,
            (c10 + c11) % _WORD,
            (c10 + 2 * c11) % _WORD,
        )
    return (
        np.array(first[::-1], np.uint32),
        np.array(second[::-1], np.uint32),
        (c00, c01, c10, c11),
    )
