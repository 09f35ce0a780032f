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
    assert msgspec.msgpack.decode(pieces) == names
