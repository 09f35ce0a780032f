"""The names of jobs in a snapshot are what MessagePack would write of a list of them."""

import msgspec
import pytest

from tidemill.core import snapshot
from tidemill.journal import snapshots
from tidemill.model.job_names import JobNames
from tidemill.model.world import World

LENGTHS = {"short": (0, 5, 20), "both": (0, 31, 32, 255), "very long": (3, 31, 32, 256, 70_000)}


@pytest.mark.parametrize("count", [20, 4_096, 9_000])
@pytest.mark.parametrize("kind", LENGTHS)
def test_names_are_written_as_a_list_of_them(kind: str, count: int):
    """Of every length and letter, put away or fresh; and they come back."""
    sizes = LENGTHS[kind] if count < 100 else LENGTHS[kind][:4]
    names = [f"{i:x}{'é工x'[i % 3] * (sizes[i % len(sizes)] // 3)}" for i in range(count)]
    world = World()
    world.job_names = JobNames(names, [""] * count)
    stored = snapshots.pack(world, 0)
    assert stored.digest == snapshot.digest(world)
    pieces = b"".join(snapshots._text_pieces(world.job_names))
    assert pieces == msgspec.msgpack.encode(names)
    assert msgspec.msgpack.decode(pieces) == names
