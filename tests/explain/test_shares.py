"""What ``why`` says of a running job's time."""

from tests.ledger.twins import Kept
from tidemill import explain
from tidemill.engine.loop import Loop
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
horizon = "2h"

[[contract]]
name = "h"
kind = "H100"
count = 16
usd_per_hour = 2

[[team]]
name = "a"

[[job]]
name = "llm"
team = "a"
accelerators = 16
work = "5h"
parallelism = { tensor = 8, sequence = 8192, batch = 64 }
computes = { model = "llama-3-70b", zero = 3 }
"""


def test_a_running_job_tells_how_its_time_divides():
    """Useful and waiting for links, marked modelled; a job nobody knows says nothing."""
    parsed, world = fleet_spec.parse(FLEET), World()
    Loop(world, parsed.policy, Twin.from_spec(parsed), Kept()).run()
    said = explain.why(world, parsed.policy, 0, explain.Glance(world, sweeps=True)).words
    assert "% useful" in said
    assert "% waiting for links (modelled)" in said
    assert "host" not in said
    bare = FLEET.split("parallelism", maxsplit=1)[0]
    parsed, world = fleet_spec.parse(bare), World()
    Loop(world, parsed.policy, Twin.from_spec(parsed), Kept()).run()
    said = explain.why(world, parsed.policy, 0, explain.Glance(world, sweeps=True)).words
    assert "its time" not in said
