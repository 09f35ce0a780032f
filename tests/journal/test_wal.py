"""Write-ahead files: the checksum, and damage told apart from a crash."""

import shutil
import struct
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.journal import open_journal
from tidemill.journal.sqlite import wal
from tidemill.model import events as ev
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

FRAME_BYTES = wal.FRAME_HEADER_BYTES + 4096


@pytest.fixture
def crashed(path: Path, tmp_path: Path, story: list[Event]) -> Path:
    """What a crash leaves: a journal whose last forty appends are in the write-ahead file."""
    copy = tmp_path / "crashed" / path.name
    copy.parent.mkdir()
    with open_journal(str(path), create=True) as journal:
        for start in range(0, len(story), 10):
            journal.append(story[start : start + 10])
        shutil.copy(path, copy)
        shutil.copy(wal.beside(path), wal.beside(copy))
    return copy


@given(
    data=st.binary(max_size=600).map(lambda data: data[: len(data) // 8 * 8]),
    sums=st.tuples(*[st.integers(0, 2**32 - 1)] * 2),
    order=st.sampled_from("<>"),
)
def test_the_checksum_is_that_of_sqlite(data: bytes, sums: tuple[int, int], order: str):
    """The checksum by dot products is the one by SQLite's loop."""
    sum0, sum1 = sums
    for a, b in struct.iter_unpack(f"{order}2I", data):
        sum0 = (sum0 + a + sum1) % 2**32
        sum1 = (sum1 + b + sum0) % 2**32
    assert wal._sums(sums, data, f"{order}u4") == (sum0, sum1)


def test_a_crash_is_no_damage(crashed: Path, story: list[Event]):
    """What a crash leaves opens, with every event."""
    assert wal.damage(crashed) == ""
    with open_journal(str(crashed)) as journal:
        assert list(journal.read()) == story


def test_a_torn_end_is_no_damage(crashed: Path, story: list[Event]):
    """A last transaction that was cut short was never acknowledged: the rest opens."""
    file = wal.beside(crashed)
    whole = file.read_bytes()
    for cut in (1, 10, FRAME_BYTES):
        file.write_bytes(whole[:-cut])
        assert wal.damage(crashed) == ""
    with open_journal(str(crashed)) as journal:
        assert list(journal.read()) == story[: len(journal)]
        assert len(journal) == len(story) - 10


@pytest.mark.parametrize("frame", [0, 1, 10, 30])
def test_damage_in_the_middle_is_refused(crashed: Path, frame: int):
    """A bad frame with commits behind it is damage: SQLite alone would silently forget them."""
    file = wal.beside(crashed)
    data = bytearray(file.read_bytes())
    data[wal.HEADER_BYTES + frame * FRAME_BYTES + 2000] ^= 1
    file.write_bytes(data)
    with pytest.raises(JournalError, match=r"write-ahead file is damaged before \d+ commits"):
        open_journal(str(crashed))
    assert file.read_bytes() == data


@pytest.mark.parametrize("size", [1, 31, 32, 33, 5000])
def test_garbage_is_refused(crashed: Path, size: int):
    """A write-ahead file that SQLite did not write is refused, and left as it is."""
    garbage = Random(size).randbytes(size)
    wal.beside(crashed).write_bytes(garbage)
    with pytest.raises(JournalError, match="write-ahead file does not begin"):
        open_journal(str(crashed))
    assert wal.beside(crashed).read_bytes() == garbage


@pytest.mark.parametrize("size", [0, 32, 5000])
def test_nothing_is_no_damage(path: Path, size: int):
    """A write-ahead file without a byte in it was never begun."""
    with open_journal(str(path), create=True) as journal:
        journal.append([ev.Woke(1)])
    wal.beside(path).write_bytes(b"\0" * size)
    with open_journal(str(path)) as journal:
        assert len(journal) == 1
