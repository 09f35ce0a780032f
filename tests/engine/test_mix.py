"""The mix that placement looks ahead with is part of the World, and is looked at when it is due."""

import pytest

from tests.builders import asked, beat, contract, decide, finish, fleet, job, role, submit
from tidemill.engine import fold_mix
from tidemill.engine.cycle import Memo
from tidemill.engine.fold import fold
from tidemill.model import events as ev
from tidemill.model import snapshot
from tidemill.model.errors import EventRefused
from tidemill.model.policy import Policy
from tidemill.model.world import World

TIDE = Policy(placement="tide")
SMALL = role(1, gpus=1, milli=500, cpu_milli=2)
LARGE = role(1, gpus=4, cpu_milli=4)


def crowd(count: int, world: World | None = None) -> World:
    """Small jobs, and every fifth one large, on four nodes of four."""
    world = world or fleet(contract(gpus=16, per_node=4, cpu_milli=16, memory_mib=16))
    first = world.job_count
    rows = [job(f"j{first + i}", roles=[LARGE if i % 5 == 4 else SMALL]) for i in range(count)]
    submit(world, *rows)
    return world


def test_the_mix_is_said_when_enough_arrived_and_the_policy_looks_ahead():
    """After ten arrivals ``tide`` wants to know; ``pack`` never does."""
    assert asked(decide(crowd(9), TIDE), ev.SaidMix) == []
    assert asked(decide(crowd(10), TIDE), ev.SaidMix) == [ev.SaidMix(0)]
    assert asked(decide(crowd(10), Policy(placement="pack")), ev.SaidMix) == []


def test_a_look_counts_arrivals_hosts_and_what_is_free():
    """Arrivals by shape; for the large shape the nodes that can host one whole."""
    world = crowd(10)
    fold(world, ev.SaidMix(0))
    assert world.shapes.mixed[:2].tolist() == world.shapes.noted[:2].tolist() == [8, 2]
    assert world.shapes.hosts[:2].tolist() == [0, 4]
    assert (world.mix_point, world.mix_changes, world.mix_free_milli) == (10, 1, 16_000)


def test_a_mix_that_hardly_moved_stays_and_a_look_without_arrivals_is_refused():
    """Noted is what arrived by now; mixed only changes with three times as many that differ."""
    world = crowd(10)
    fold(world, ev.SaidMix(0))
    with pytest.raises(EventRefused, match="no more have since arrived"):
        fold(world, ev.SaidMix(0))
    crowd(20, world)
    assert fold_mix.is_due(world)
    fold(world, ev.SaidMix(0))
    assert world.shapes.noted[:2].tolist() == [24, 6]
    assert world.shapes.mixed[:2].tolist() == [8, 2]
    submit(world, *(job(f"k{i}", roles=[SMALL]) for i in range(20)))
    fold(world, ev.SaidMix(0))
    assert world.shapes.mixed[:2].tolist() == [44, 6]


def test_forgetting_changes_no_placement():
    """With the memo kept, dropped at every beat, or the World loaded anew, plans are the same."""
    kept, dropped = crowd(8), crowd(8)
    memo = Memo()
    for i in range(12):
        crowd(6, kept)
        crowd(6, dropped)
        beat(kept, TIDE, memo)
        dropped = snapshot.load(snapshot.dump(dropped))
        beat(dropped, TIDE, Memo())
        for world in (kept, dropped):
            for j in sorted(world.placements)[: i % 4]:
                finish(world, world.job_names[j])
        assert snapshot.dump(kept) == snapshot.dump(dropped)
    assert kept.mix_changes > 1
