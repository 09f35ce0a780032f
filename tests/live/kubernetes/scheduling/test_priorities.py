"""Priorities as Kubernetes allows them: none is cut, and what the journal keeps is read again."""

from pathlib import Path

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_reading import Read
from tests.live.kubernetes.test_import import world_of
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import open_journal
from tidemill.model.rows import MOST_PRIORITY
from tidemill.model.world import World

LEAST, MOST_OF_USERS, OF_NODES = -(2**31), 1_000_000_000, 2_000_001_000


@pytest.mark.parametrize(
    ("low", "high"),
    [(1_000_000, 100_000_000), (100_000_000, MOST_OF_USERS), (MOST_OF_USERS, OF_NODES),
     (LEAST, -1_000_000), (LEAST, 2**31 - 1)],
)  # fmt: skip
def test_the_higher_of_two_large_priorities_preempts_the_lower(low: int, high: int, tmp_path: Path):
    """The example of Kubernetes' own pages is 1,000,000; users may say up to 1,000,000,000."""
    story = Read(tmp_path / "j.sqlite", 8)
    story.server.make("low", 8, spec={"priority": low})
    story.rest()
    story.server.make("high", 8, spec={"priority": high})
    story.rest()
    assert story.server.pods["ml", "high"]["spec"]["nodeName"] == "n0"
    world = fold_all(World(), open_journal(story.where).read())
    assert [shape.priority for shape in world.shape_rows] == [low, high]
    story.journal.close()


def test_the_queue_goes_by_large_priorities(tmp_path: Path):
    """Three wait for one node in the order of what they say, whoever came first."""
    story = Read(tmp_path / "j.sqlite", 8)
    story.server.make("other", 8, on="n0")
    for name, priority in (("c", 1_000_001), ("b", 99_999_999), ("a", MOST_OF_USERS)):
        story.server.make(name, 8, spec={"priority": priority})
        story.rest()
    for leaves, starts in (("other", "a"), ("a", "b"), ("b", "c")):
        story.server.finish(("ml", leaves))
        story.rest()
        assert story.server.pods["ml", starts]["spec"]["nodeName"] == "n0"
    story.journal.close()


def test_a_priority_that_no_server_takes_is_read_from_a_file_as_the_nearest():
    """Whoever wrote the file meant a high one; the books can hold 32 bits of it."""
    told = {"a": 10**15, "b": 7, "c": OF_NODES}
    pods = [made.pod(name, 8, spec={"priority": told[name]}) for name in told]
    world = world_of(made.node("n0", 8), *pods)
    found = {name: world.shape_of(world.job_number[f"ml/{name}"]).priority for name in told}
    assert found == {"a": MOST_PRIORITY, "b": 7, "c": OF_NODES}
