"""MIG instances in a spec: what may be written, and what the ledger of such a fleet shows."""

from pathlib import Path

import pytest

from tests.engine.audit import audit
from tests.ledger.twins import Kept
from tidemill.engine.loop import Loop
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.fixes import fixes
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.model.errors import SpecError
from tidemill.model.world import World
from tidemill.twin import generate, offered_load
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

EXAMPLE = Path(__file__).parents[2] / "examples" / "slices.toml"
HEAD = """
[[contract]]
name = "h"
kind = "H100"
count = 8
usd_per_hour = 2

[[team]]
name = "a"

[[job]]
name = "t"
team = "a"
work = "1h"
"""


def test_the_ledger_of_the_example_shows_what_is_stranded():
    """Three days of notebooks, services and training: some of it is stranded, and all adds up."""
    found = fleet_spec.parse(EXAMPLE.read_text(encoding="utf-8"), "slices.toml")
    ledger, kept = Ledger(found.policy), Kept()
    twin = Twin.from_spec(found)
    Loop(World(), found.policy, twin, kept, [ledger], beats_per_commit=1000).run()
    audit(ledger.world)
    statement = Statement(ledger)
    total = statement.total()
    stranded = total.milli_ms[Bucket.STRANDED]
    assert 0.005 < stranded / total.paid_milli_ms < 0.1
    (advice,) = fixes(statement, Bucket.STRANDED)
    assert "strands" in advice.words
    assert advice.touches_usd_micro is not None
    assert 0 <= advice.touches_usd_micro <= total.usd_micro()[Bucket.STRANDED]


def test_a_profile_makes_instances_of_its_share():
    """Four instances of 2g.20gb are four replicas of a quarter; the load counts them as one."""
    found = fleet_spec.parse(HEAD + 'accelerators = 4\nprofile = "2g.20gb"\n', "f.toml")
    (arrival,) = generate.stream(found)
    (role,) = arrival.job.shape.roles
    assert (role.count, role.accelerators, role.milli, role.profile) == (4, 1, 250, "2g.20gb")
    assert offered_load.measure(found).asked[0].accelerator_hours == 1.0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('profile = "1g.18gb"', "no accelerator here has a MIG profile `1g.18gb`"),
        ('profile = "1g.10gb"\nfraction = 0.5', "their size is that of the profile"),
        ('profile = "1g.10gb"\nparallelism = { tensor = 2 }', "not tied together"),
        ('profile = "7g.80gb"\naccelerators = 9', "requests 9"),
    ],
)
def test_profiles_that_cannot_be_are_refused(lines: str, said: str):
    """A profile the part lacks, a fraction of one, a parallelism, more than there are devices."""
    with pytest.raises(SpecError, match=said):
        fleet_spec.parse(HEAD + lines + "\n", "f.toml")


def test_the_refusal_of_a_profile_says_what_would_do():
    """The message lists what the part has; the hint names the nearest."""
    with pytest.raises(SpecError) as refusal:
        fleet_spec.parse(HEAD + 'profile = "1g.18gb"\n', "f.toml")
    assert "1g.10gb" in refusal.value.message
    assert "`1g.20gb` of `H100` would do" in refusal.value.hint
