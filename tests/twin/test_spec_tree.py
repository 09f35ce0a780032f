"""A tree of teams in a spec file: what it becomes, and what is refused."""

import pytest

from tidemill.engine.fold.one_event import fold
from tidemill.model.errors import SpecError
from tidemill.model.events import QueueSet
from tidemill.model.measures import FOREVER_MS
from tidemill.model.world import World
from tidemill.twin import fleet
from tidemill.twin.spec import fleet_spec

GOOD = """
[[contract]]
name = "c"
kind = "H100"
count = 64
usd_per_hour = 2

[[team]]
name = "group"
parent = "faculty"
floor = { H100 = 16 }
borrow = { H100 = 8 }
lend = { H100 = 4 }
weight = 3

[[team]]
name = "other"
parent = "faculty"
floor = { H100 = 8 }

[[team]]
name = "faculty"
limit = { H100 = 32 }

[[job]]
name = "j"
team = "group"
work = "1h"
"""


def test_a_tree_reaches_the_model():
    """Parents come before children whatever the order of the file, and say what was written."""
    world = World()
    for row in fleet.queues(fleet_spec.parse(GOOD)):
        fold(world, QueueSet(0, row))
    assert [row.name for row in world.queue_rows] == ["faculty", "group", "other"]
    group = world.queue_rows[1]
    (share,) = group.shares
    assert (group.parent, group.weight) == ("faculty", 3)
    assert (share.limit_milli, share.borrow_milli, share.lend_milli) == (FOREVER_MS, 8000, 4000)
    assert world.floor[:, 0].tolist() == [24_000, 16_000, 8_000]


REFUSED = {
    "an unknown parent": (('parent = "faculty"', 'parent = "facluty"'), "did you mean `faculty`?"),
    "a ring": (('name = "faculty"', 'name = "faculty"\nparent = "group"'), "a ring: `group` under"),
    "its own parent": (('parent = "faculty"', 'parent = "group"'), "a ring: `group` under `group`"),
    "floors above a limit": (("limit = { H100 = 32 }", "limit = { H100 = 20 }"), "add up to 24"),
    "a job above others": (('team = "group"', 'team = "faculty"'), "one of: group, other"),
    "a kind nobody has": (("lend = { H100", "lend = { H200"), "no contract has GPUs of type"),
    "no weight": (("weight = 3", "weight = 0"), "weight"),
    "more than there is": (
        ("limit = { H100 = 32 }", "floor = { H100 = 65 }"),
        "the guaranteed quotas of H100 add up to 65",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tree_that_cannot_be_is_refused(case: str):
    """The message names the row and the field, what was found and what to do."""
    (old, new), message = REFUSED[case]
    assert old in GOOD
    with pytest.raises(SpecError) as refusal:
        fleet_spec.parse(GOOD.replace(old, new, 1))
    assert message in str(refusal.value)
    assert refusal.value.hint
