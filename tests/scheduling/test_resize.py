"""Elastic jobs: placed as large as they fit, shrunk before anyone is stopped, grown when idle."""

from typing import Any

from msgspec.structs import replace

from tests.builders import (
    asked,
    beat,
    cause_of,
    contract,
    decide,
    devices_by_node,
    evicted,
    finish,
    fleet,
    job,
    leave,
    pass_ms,
    placed,
    rights,
    role,
    start,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job
from tidemill.model.states import JobState
from tidemill.model.world import World

RESIZING = rights(may_resize=True)
RIGID = rights(may_resize=False)


def elastic(name: str = "e", count: int = 8, least: int = 2, **more: Any) -> Job:
    """A job of ``least`` to ``count`` replicas of one accelerator each."""
    return job(name, roles=[role(count, least=least)], **more)


def resized(world: World, why: ev.Why, policy: Policy = RESIZING) -> dict[str, dict[int, int]]:
    """The jobs that the next plan grows or shrinks, and by how many devices where."""
    return {
        world.job_names[a.job]: devices_by_node(a.gained or a.lost)
        for a in asked(decide(world, policy), ev.AskedMove)
        if isinstance(a, ev.AskedMove) and a.why is why
    }


def shrunk(world: World, policy: Policy = RESIZING) -> dict[str, dict[int, int]]:
    return resized(world, ev.Why.SHRUNK, policy)


def grown(world: World, policy: Policy = RESIZING) -> dict[str, dict[int, int]]:
    return resized(world, ev.Why.GROWN, policy)


def settle(world: World, policy: Policy = RESIZING, memo: CycleMemo | None = None) -> ev.Plan:
    """A beat; whoever moved has moved, and everybody has come up."""
    plan = beat(world, policy, memo)
    leave(world)
    coming = [j for j in world.placements if world.jobs.state[j] == JobState.STARTING]
    start(world, *(world.job_names[j] for j in coming))
    return plan


# Placing --------------------------------------------------------------------------------------


def test_an_elastic_gang_is_placed_as_large_as_it_fits():
    """With five of eight free it starts with five replicas, at five eighths of its speed."""
    world = fleet(nodes=1)
    submit(world, job("x", gpus=3))
    beat(world)
    submit(world, elastic())
    assert placed(world, decide(world)) == {"e": {0: 5}}
    beat(world)
    assert world.jobs.speed_ppm[1] == 625_000


def test_below_its_least_an_elastic_gang_waits():
    """One free accelerator is not two."""
    world = fleet(nodes=1)
    submit(world, job("x", gpus=7))
    beat(world)
    submit(world, elastic())
    beat(world)
    assert cause_of(world, "e") is Cause.PARTIAL_GANG


def test_a_gang_whose_least_fits_is_not_impossible():
    """More replicas than the fleet has are wanted; it runs with what there is."""
    world = fleet(nodes=1)
    submit(world, elastic(count=100))
    assert placed(world, decide(world)) == {"e": {0: 8}}


# Shrinking ------------------------------------------------------------------------------------


def full(**more: Any) -> World:
    """One node of eight, all of it held by an elastic job of two to eight."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=4), team("c", floor=8)])
    submit(world, elastic(resize_ms=MINUTE_MS, **more))
    beat(world)
    return world


def test_an_elastic_job_shrinks_for_one_of_its_team_and_by_no_more_than_needed():
    """Three are wanted; three replicas go, of an equal; the next cycle places the heir."""
    world = full()
    submit(world, job("w", gpus=3))
    assert shrunk(world) == {"e": {0: 3}}
    settle(world)
    assert placed(world, decide(world, RESIZING)) == {"w": {0: 3}}


def test_a_less_important_job_of_the_team_waits():
    """Nobody shrinks for one of its team that matters less."""
    world = full(priority=1)
    submit(world, job("w", gpus=3))
    assert shrunk(world) == {}


def test_what_is_within_a_floor_is_not_lent():
    """A team that borrows nothing does not shrink for another."""
    world = full(team="c")
    submit(world, job("w", gpus=3, team="b"))
    assert shrunk(world) == {}


def test_below_its_least_nobody_shrinks():
    """Seven are wanted and six could go: nobody shrinks in vain."""
    world = full()
    submit(world, job("w", gpus=7))
    assert shrunk(world) == {}


def test_nobody_is_stopped_where_shrinking_does():
    """A higher job has the right to stop the lower one, but it only shrinks."""
    world = fleet(nodes=2)
    submit(world, elastic(), job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=4, priority=9))
    assert evicted(world, decide(world, RESIZING)) == {}
    assert shrunk(world) == {"e": {0: 4}}
    assert evicted(world, decide(world, RIGID)) != {}


def test_shrinking_and_stopping_go_together():
    """Where shrinking is not enough, fewer are stopped than without it."""
    world = fleet(nodes=1)
    submit(world, elastic(count=4, least=1), job("l1", gpus=2), job("l2", gpus=2))
    beat(world)
    submit(world, job("high", gpus=5, priority=9))
    plan = decide(world, RESIZING)
    assert len(evicted(world, plan)) == 1
    assert shrunk(world) == {"e": {0: 3}}


def test_a_policy_may_leave_sizes_alone():
    """Where it says so, nobody is resized."""
    world = full()
    submit(world, job("w", gpus=3))
    pass_ms(world, HOUR_MS)
    assert asked(decide(world, RIGID), ev.AskedMove) == []
    assert asked(decide(world, RESIZING), ev.AskedMove) != []


# Growing --------------------------------------------------------------------------------------


def small(**more: Any) -> World:
    """A node of eight: an elastic job has two of it, and what had the rest is about to end."""
    world = fleet(nodes=1)
    submit(world, job("x", gpus=6))
    beat(world)
    submit(world, elastic(**more))
    beat(world)
    return world


def test_an_elastic_job_grows_into_idle_room_when_it_has_worked_a_while():
    """Six are free and nobody waits: it grows by six, but not before ten minutes of work."""
    world = small()
    finish(world, "x")
    assert grown(world) == {}
    assert decide(world, RESIZING).wake_at_ms == 10 * MINUTE_MS
    pass_ms(world, 10 * MINUTE_MS)
    assert grown(world) == {"e": {0: 6}}


def test_it_does_not_grow_while_someone_waits_for_the_same_kind():
    """A gang that needs eight waits: the four that are free are not given away."""
    world = small()
    submit(world, job("whole", gpus=8, is_preemptible=False, team="a", priority=-5))
    beat(world, RESIZING)
    finish(world, "x")
    pass_ms(world, HOUR_MS)
    assert grown(world) == {}


def test_growth_must_win_its_pause_back():
    """A pause of nine minutes is not won back in ten by going a little faster."""
    world = fleet(nodes=1)
    submit(world, job("x", gpus=1))
    beat(world)
    submit(world, elastic(resize_ms=9 * MINUTE_MS))
    beat(world)
    finish(world, "x")
    pass_ms(world, HOUR_MS)
    assert grown(world) == {}


def test_the_steeper_curve_grows_first():
    """Of two that could have the last accelerators, the one that gains more speed gets them."""
    world = fleet(nodes=1)
    submit(world, job("x", gpus=4), job("z", gpus=2))
    beat(world)
    submit(world, elastic("flat", count=4, least=2, speedup=[(2, 900_000)]))
    beat(world)
    finish(world, "z")
    submit(world, elastic("steep", count=4, least=2))
    beat(world)
    finish(world, "x")
    submit(world, job("y", gpus=2))
    beat(world)
    pass_ms(world, HOUR_MS)
    assert grown(world) == {"steep": {0: 2}}


def test_a_limit_holds_for_growth():
    """A team grows no further than its limit."""
    world = fleet(nodes=1, teams=[team("a", limit=5), team("b")])
    submit(world, job("x", gpus=6, team="b"))
    beat(world)
    submit(world, elastic())
    beat(world)
    finish(world, "x")
    pass_ms(world, HOUR_MS)
    assert grown(world) == {"e": {0: 3}}


def test_sizes_do_not_swing():
    """Jobs come and go for a day: between two resizes of one kind there is a while of work.

    Growth follows a start by ``grow_after_ms`` at least, and no plan undoes the one before.
    """
    world, memo = fleet(contract(gpus=16)), CycleMemo()
    submit(world, elastic("e1", count=16, least=2), elastic("e2", count=16, least=2))
    settle(world, memo=memo)
    grew, resizes = dict[int, int](), 0
    for step in range(300):
        if step % 14 == 0:
            submit(world, job(f"w{step}", gpus=1 + step % 5))
        came_up_ms = world.jobs.origin_ms.copy()
        for action in asked(settle(world, memo=memo), ev.AskedMove):
            assert isinstance(action, ev.AskedMove)
            resizes += 1
            if action.why is ev.Why.GROWN:
                assert world.now_ms - came_up_ms[action.job] >= RESIZING.grow_after_ms
                grew[action.job] = world.now_ms
            else:
                assert grew.get(action.job, -1) < world.now_ms, "grown and shrunk at one moment"
        pass_ms(world, 5 * MINUTE_MS)
        if step % 14 == 9:
            done = [world.job_names[j] for j in world.placements]
            finish(world, *[name for name in done if name.startswith("w")])
    assert grew
    assert resizes <= 2 * 2 * 300 // 14 + 4, "more than one shrink and one growth for each arrival"


def test_the_policy_says_how_long_to_wait():
    """With a longer wait nothing grows yet."""
    world = small()
    finish(world, "x")
    pass_ms(world, 10 * MINUTE_MS)
    assert grown(world, replace(RESIZING, grow_after_ms=HOUR_MS)) == {}
