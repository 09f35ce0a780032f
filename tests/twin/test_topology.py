"""Tiers in a spec: positions of generated nodes, slower steps across a hop, and what is refused."""

import pytest

from tests.ledger.twins import Kept
from tidemill.engine.loop import Loop
from tidemill.ledger import reader, statement
from tidemill.ledger.buckets import Bucket
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
horizon = "2d"

[[tier]]
name = "spine"
label = "spine"
gb_per_s = 25
oversubscription = 4

[[tier]]
name = "rack"
label = "rack"
gb_per_s = 25

[[tier]]
name = "node"
gb_per_s = 100

[[contract]]
name = "h"
kind = "H100"
count = 32
usd_per_hour = 2
nodes_per = { spine = 4, rack = 2 }

[[team]]
name = "a"
"""
IN_THE_WAY = """
[[job]]
name = "{name}"
team = "a"
accelerators = 8
work = "40h"
labels = {{ rack = "{rack}" }}
"""
WIDE = """
[[job]]
name = "wide"
team = "a"
at = "1h"
accelerators = 16
work = "10h"
near = "rack"
checkpoint = { every = "1h" }
"""
LINKS = "link_stall = 0.2\nmfu = 0.4\n"
MODEL = (
    "parallelism = { tensor = 16, parameters_billion = 7, layers = 32, hidden = 4096,"
    " sequence = 4096, batch = 64 }\n"
)
BOTH_RACKS = IN_THE_WAY.format(name="x", rack="h-001") + IN_THE_WAY.format(name="y", rack="h-002")


def lived(text: str) -> tuple[World, Kept, reader.Ledger]:
    """The story of a spec, with its journal and its ledger."""
    parsed, world, kept = fleet_spec.parse(text), World(), Kept()
    ledger = reader.Ledger(parsed.policy)
    Loop(world, parsed.policy, Twin.from_spec(parsed), kept, [ledger]).run()
    return world, kept, ledger


def hours(kept: Kept, j: int) -> float:
    """How long a job ran, from its start to its end."""
    start = next(e for e in kept if isinstance(e, ev.JobStarted) and e.job == j)
    end = next(e for e in kept if isinstance(e, ev.JobFinished) and e.job == j)
    return (end.at_ms - start.at_ms) / HOUR_MS


def test_nodes_stand_where_the_file_says():
    """Racks and spines are filled in order, and make one group of nodes."""
    world, _, _ = lived(FLEET + IN_THE_WAY.format(name="x", rack="h-002"))
    assert world.position[:, :4].tolist() == [[0, 0, 0, 0], [0, 0, 1, 1]]
    plain, _, _ = lived(FLEET + WIDE)
    assert len(plain.groups) == 1


def test_a_gang_across_racks_runs_slower_by_its_share_on_links():
    """A fifth on links, a quarter of the bandwidth: 10 h of work take 16, and 6 are links."""
    world, kept, ledger = lived(FLEET + BOTH_RACKS + WIDE + LINKS)
    assert hours(kept, 2) == pytest.approx(16, abs=0.01)
    found = statement.Statement(ledger)
    rows = found.rows
    mine = (rows.job == 2) & (rows.bucket == Bucket.LINKS)
    stalled = int(rows.milli_ms[mine].sum()) / 16_000 / HOUR_MS
    assert stalled == pytest.approx(6 + 0.2 * 10, abs=0.01)
    found.check()
    assert world.jobs.slow_ppm[2] == 0, "a job that is over is nowhere"


def test_in_one_rack_it_runs_as_it_should():
    """The same job where a rack is free is not slowed."""
    _, kept, _ = lived(FLEET + IN_THE_WAY.format(name="x", rack="h-001") + WIDE + LINKS)
    assert hours(kept, 1) == pytest.approx(10, abs=0.01)


def test_a_stated_model_prices_the_hop_by_its_collectives():
    """Tensor ranks across racks wait for each other in every layer."""
    _, kept, _ = lived(FLEET + BOTH_RACKS + WIDE + MODEL)
    assert hours(kept, 2) > 12


def test_a_job_that_says_nothing_of_its_links_is_not_slowed():
    """Off unless stated: nobody's share is made up."""
    _, kept, _ = lived(FLEET + BOTH_RACKS + WIDE)
    assert hours(kept, 2) == pytest.approx(10, abs=0.01)


def test_work_of_a_slowed_attempt_is_counted_as_work():
    """After 8 slow hours, evicted, it has done and saved 5: the checkpoints are those of time."""
    first = FLEET + BOTH_RACKS + WIDE + LINKS
    boss = '[[job]]\nname = "boss"\nteam = "a"\nat = "9h30m"\naccelerators = 16\nwork = "4h"\n'
    world, kept, _ = lived(first + boss + "priority = 9\n")
    assert any(isinstance(e, ev.JobEvicted) and e.job == 2 for e in kept)
    starts = [e.at_ms for e in kept if isinstance(e, ev.JobStarted) and e.job == 2]
    end = next(e.at_ms for e in kept if isinstance(e, ev.JobFinished) and e.job == 2)
    assert world.jobs.saved_ms[2] == 8 * HOUR_MS * 10 // 16
    assert (end - starts[-1]) / HOUR_MS == pytest.approx(8, abs=0.01)


REFUSED = {
    "a tier that nobody knows": (WIDE.replace('"rack"', '"row"'), "no tier is called `row`"),
    "a label that no node has": ('[[tier]]\nname = "z"\nlabel = "zone"\n', "label `zone`|order"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_tiers_that_do_not_agree_are_refused(text: str, said: str):
    """The error names the table and the field."""
    with pytest.raises(SpecError, match=said):
        fleet_spec.parse(FLEET + text)
