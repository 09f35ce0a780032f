"""Slivers of a fleet: who holds a whole device for little, and how many devices would do."""

from msgspec.structs import replace

from tests.builders import contract, job, role, team
from tests.twin.test_driving import Kept
from tidemill.engine.loop import Loop
from tidemill.explain import slivers
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Demand
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin
from tidemill.units.catalogue.book import Catalogue

SMALL = Demand(compute_ppm=50_000, bandwidth_ppm=300_000, memory_mb=24_000)
FULL = Demand(compute_ppm=10_000, bandwidth_ppm=990_000, memory_mb=26_000)


def found(*demands: Demand | None, milli: int = 1000) -> slivers.Slivers:
    """The slivers of an H100 fleet on which jobs with these demands run, a device each."""
    rows = [
        Arrival(0, replace(job(f"j{i}", roles=[role(1, gpus=1, milli=milli)]), demand=demand),
                HOUR_MS)
        for i, demand in enumerate(demands)
    ]  # fmt: skip
    twin = Twin([contract("c", gpus=8)], [team("a")], rows)
    world, kept = World(), Kept()
    beats = Loop(world, Policy(), twin, kept, [], 1)
    while not (len(world.placements) == len(rows) and all(world.jobs.state[: len(rows)] == 2)):
        beats.beat(twin.next_ms() or 0)
    return slivers.find(world, slivers.demands(kept), Catalogue())


def test_three_slivers_fit_on_one_device():
    """Three jobs at 30 % of the bandwidth and of the memory of an H100 hold three devices; one
    would do, and two prices an hour are freed.
    """
    told = found(SMALL, SMALL, SMALL)
    assert [row.job for row in told.held] == ["j0", "j1", "j2"]
    assert told.held[0].memory_ppm == 300_000
    assert (told.devices, told.would_do) == (3, 1)
    assert told.freed_usd_micro_per_hour == 2 * (told.held[0].usd_micro_per_hour or 0)


def test_a_full_axis_is_no_sliver():
    """A decoder uses 1 % of the compute, a third of the memory and all of the bandwidth."""
    told = found(FULL, SMALL)
    assert [row.job for row in told.held] == ["j1"]
    assert (told.devices, told.would_do, told.freed_usd_micro_per_hour) == (1, 1, 0)


def test_who_did_not_say_is_not_judged():
    """A job that said nothing, or not its memory, is counted as unknown; a part of a device is no
    whole one.
    """
    told = found(None, Demand(compute_ppm=1, bandwidth_ppm=1), SMALL)
    assert told.unknown == 2
    assert len(told.held) == 1
    assert found(SMALL, SMALL, milli=500) == slivers.Slivers((), 0, 0, 0, 0)
