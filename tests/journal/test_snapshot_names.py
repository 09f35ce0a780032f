"""The names of jobs in a snapshot are what MessagePack would write of a list of them."""

import msgspec
import pytest

from tidemill.journal import snapshots
from tidemill.model.job_names import JobNames

LENGTHS = {"short": (0, 5, 20), "both": (0, 31, 32, 255), "very long": (3, 31, 32, 256, 70_000)}


@pytest.mark.parametrize("count", [20, 4_096, 9_000])
@pytest.mark.parametrize("kind", LENGTHS)
def test_names_are_written_as_a_list_of_them(kind: str, count: int):
    """Of every length and letter, put away or fresh; and they come back."""
    sizes = LENGTHS[kind] if count < 100 else LENGTHS[kind][:4]
    names = [f"{i:x}{'é工x'[i % 3] * (sizes[i % len(sizes)] // 3)}" for i in range(count)]
    pieces = b"".join(snapshots._text_pieces(JobNames(names, [""] * count)))
    assert pieces == msgspec.msgpack.encode(names)
    assert snapshots.PackedTexts(memoryview(pieces)) == names


@pytest.mark.parametrize("size", [0, 1, 15, 16, 4_095, 4_097, 70_000])
def test_some_of_a_list_of_texts_are_taken(size: int):
    """Lists with every kind of head; any stretch of them, across those that are read at once."""
    names = [f"job {i}" for i in range(size)]
    packed = snapshots.PackedTexts(memoryview(msgspec.msgpack.encode(names)))
    assert len(packed) == size
    assert packed == names
    assert packed[size // 3 : size // 2 + 5_000] == names[size // 3 : size // 2 + 5_000]
    assert packed[1::7] == names[1::7]
    assert packed[::-3] == names[::-3]


@pytest.mark.parametrize(
    "damaged",
    [
        msgspec.msgpack.encode(["a", 3]),
        msgspec.msgpack.encode(["a", "b"])[:-1],
        msgspec.msgpack.encode(["a" * 300])[:3],
        b"\x92\xa1a",
        msgspec.msgpack.encode({"a": "b"}),
    ],
)  # fmt: skip
def test_what_is_no_list_of_texts_is_refused(damaged: bytes):
    """Whatever damage made of it, nothing is read beyond its end."""
    with pytest.raises(ValueError, match="it "):
        snapshots.PackedTexts(memoryview(damaged))
