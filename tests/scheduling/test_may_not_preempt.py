"""Jobs that may not preempt: they wait by their priority, and nobody is disturbed for them."""

import pytest
from msgspec.structs import replace

from tests.builders import beat, decide, evicted, fleet, job, placed, rights, submit, team
from tests.scheduling.test_moves import MOVING, moved, scattered
from tests.scheduling.test_resize import full, shrunk
from tidemill.engine.check import violations
from tidemill.engine.fold.one_event import fold
from tidemill.explain import why
from tidemill.model import events as ev
from tidemill.model.rows import Job
from tidemill.model.world import World

STOPPING = rights(victims="dollars", min_run_ms=0)


def meek(one: Job) -> Job:
    """The same job, which may not preempt."""
    return replace(one, shape=replace(one.shape, may_preempt=False))


def taken() -> World:
    """One node, all of it held by a job of low priority of a team that borrows it."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("low", gpus=8))
    beat(world)
    return world


@pytest.mark.parametrize("of", ["a", "b"])
def test_nobody_is_stopped_for_it(of: str):
    """Neither by its priority nor by the guaranteed quota of its team; `why` promises nothing."""
    world = taken()
    submit(world, meek(job("high", gpus=8, priority=9, team=of)))
    assert not evicted(world, decide(world, STOPPING))
    said = why(world, STOPPING, world.job_number["high"]).words
    assert "preempted for it in" not in said
    assert "would be preempted" not in said
    assert "next cycle preempts" not in said
    submit(world, job("other", gpus=8, priority=9, team=of))
    assert [*evicted(world, decide(world, STOPPING))] == ["low"]


def test_it_goes_before_those_of_less_priority():
    """What gets free is its own, though others came before it."""
    world = taken()
    submit(world, job("early", gpus=8), meek(job("high", gpus=8, priority=9)))
    j = world.job_number["low"]
    beat(world)
    fold(world, ev.JobCancelled(world.now_ms, j))
    assert set(placed(world, decide(world))) == {"high"}


def test_nobody_shrinks_for_it():
    """An elastic job keeps its replicas."""
    world = full()
    submit(world, meek(job("w", gpus=3, priority=1)))
    assert shrunk(world) == {}


def test_nobody_moves_for_it():
    """A job that could be elsewhere stays where it is."""
    world = scattered()
    assert moved(world, MOVING)
    waiting = [j for j in range(world.job_count) if j not in world.placements]
    for j in waiting:
        shape = replace(world.shape_of(j), may_preempt=False)
        fold(world, ev.RequestChanged(world.now_ms, j, shape, 0))
    assert not moved(world, MOVING)


def test_a_plan_that_stops_somebody_for_it_is_refused():
    """The plan checker reads the right of whoever is to come."""
    world = taken()
    submit(world, meek(job("high", gpus=8, priority=9)))
    low, high = (world.job_number[name] for name in ("low", "high"))
    stop = ev.AskedEvict(world.now_ms, low, 1, ev.Why.PREEMPTED, high)
    found = violations(world, ev.Plan((stop,)), STOPPING)
    assert any("yields to one that may not preempt" in line for line in found)
