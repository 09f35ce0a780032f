"""The demo and the files that `twin generate` writes: large enough, loaded enough, and valid."""

import pytest

from tidemill.model.errors import SpecError
from tidemill.model.states import JobClass, Terms
from tidemill.twin import generate, offered_load
from tidemill.twin.spec import fleet_spec, template


def test_the_demo_is_a_fleet_worth_looking_at():
    """At least 1,000 accelerators of two kinds, four teams, several thousand jobs, two weeks."""
    demo = fleet_spec.demo()
    reserved = [row for row in demo.contracts if row.terms == Terms.RESERVED]
    assert sum(row.count for row in reserved) >= 1000
    assert len({row.kind for row in demo.contracts}) == 2
    assert {row.terms for row in demo.contracts} == set(Terms)
    assert len(demo.teams) == 4
    assert 4000 <= offered_load.measure(demo).jobs <= 8000
    assert demo.faults.node_rate > 0


def test_the_demo_holds_every_kind_of_work():
    """Gangs up to 256, fractions of an accelerator, services, notebooks, jobs that end badly."""
    arrivals = list(generate.stream(fleet_spec.demo()))
    sizes = {arrival.job.shape.total_milli for arrival in arrivals}
    assert max(sizes) == 256_000
    assert min(sizes) < 1000
    assert {arrival.job.shape.kind for arrival in arrivals} == set(JobClass)
    assert len({arrival.ending for arrival in arrivals}) == 3


def test_the_demo_is_moderately_loaded():
    """Offered 65 to 90 % of everything it could launch: queues at peaks, room at weekends."""
    found = offered_load.measure(fleet_spec.demo())
    assert 0.65 < found.share < 0.9
    assert max(found.hourly) > 1
    assert min(found.hourly[24:]) < 0.6


@pytest.mark.parametrize(("seed", "accelerators", "teams"), [(0, 256, 3), (1, 64, 1), (2, 2048, 6)])
def test_a_described_fleet_is_a_valid_file_at_the_load_asked_for(seed, accelerators, teams):
    """Any seed gives a file that is read, with a load near 80 % (tails make it vary)."""
    text = template.describe(seed, accelerators, 4, teams)
    found = offered_load.measure(fleet_spec.parse(text))
    assert sum(found.accelerators.values()) <= accelerators
    assert 0.5 < found.share < 1.1
    assert text == template.describe(seed, accelerators, 4, teams)


@pytest.mark.parametrize(
    "knobs",
    [{"accelerators": 0}, {"weeks": 0}, {"teams": 1000}, {"seed": -1}, {"accelerators": 12}],
)
def test_absurd_knobs_are_refused(knobs):
    """What cannot be described is said with the range that can."""
    with pytest.raises(SpecError):
        template.describe(**knobs)
