"""Elastic jobs in a file: the share of the gang with which it works, and its pause."""

import pytest

from tests.ledger.twins import Kept
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
horizon = "2d"
[policy]
may_resize = true
[faults]
boot = "0s"
startup_spread = 0
[[contract]]
name = "h"
kind = "H100"
count = 32
usd_per_hour = 2
[[team]]
name = "a"
[[job]]
name = "grows"
team = "a"
accelerators = 32
elastic = 0.25
resize = "2m"
work = "10h"
[[job]]
name = "comes"
team = "a"
accelerators = 16
at = "1h"
work = "2h"
"""


def test_an_elastic_job_lives_through_shrinking_and_growing():
    """It gives two of four nodes to the one that comes, has them back, and does all of its work."""
    found = fleet_spec.parse(FLEET)
    kept = Kept()
    world = World()
    Loop(world, found.policy, Twin.from_spec(found), kept).run()
    assert world.shape_rows[0].roles[0].least == 1
    assert world.jobs.resize_ms[0] == 2 * MINUTE_MS
    assert world.jobs.state[:2].tolist() == [JobState.DONE, JobState.DONE]
    asked = [event for event in kept if isinstance(event, ev.AskedMove)]
    assert [event.why for event in asked] == [ev.Why.SHRUNK, ev.Why.GROWN]
    assert [sum(p.replicas for p in (*e.gained, *e.lost)) for e in asked] == [2, 2]
    ended = {e.job: e.at_ms for e in kept if isinstance(e, ev.JobFinished)}
    assert ended[1] == 3 * HOUR_MS
    assert ended[0] == 11 * HOUR_MS + 3 * MINUTE_MS


def test_an_elastic_job_is_not_tied():
    """What must sit together has one size: the file is refused, with the field."""
    tied = FLEET.replace('resize = "2m"', 'resize = "2m"\nwithin = "node"')
    tied += '[[tier]]\nname = "node"\n'
    with pytest.raises(SpecError, match="elastic"):
        fleet_spec.parse(tied)
