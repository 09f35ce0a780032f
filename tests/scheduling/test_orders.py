"""Orders that read run times and service: whom they put first, and whom they put off."""

import pytest

from tests.builders import (
    asked,
    beat,
    carry_out,
    cause_of,
    crash,
    decide,
    evicted,
    finish,
    fleet,
    job,
    leave,
    move_node,
    pass_ms,
    placed,
    queue,
    submit,
    team,
)
from tidemill.engine.check import violations
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import NodeState

NEVER_MS = FOREVER_MS // 4
SHORTEST = Policy(order="shortest", patience_ms=NEVER_MS)
SMALLEST = Policy(order="smallest", patience_ms=NEVER_MS)
ATTAINED = Policy(order="attained", patience_ms=NEVER_MS, attained_steps_ms=(HOUR_MS,))
SRTF = Policy(order="shortest", patience_ms=NEVER_MS, may_reorder=True)
SRSF = Policy(order="smallest", patience_ms=NEVER_MS, may_reorder=True)
LAS = Policy(order="attained", patience_ms=NEVER_MS, may_reorder=True, attained_steps_ms=(HOUR_MS,))


def test_shortest_goes_by_time_left():
    """Of two equal gangs the one that is taken to run for less time goes first."""
    world = fleet(nodes=1)
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS), job("short", gpus=8, estimate_ms=1))
    assert placed(world, decide(world, SHORTEST)) == {"short": {0: 8}}


def test_the_shortest_of_a_shape_need_not_be_its_oldest():
    """Within one shape too, and one after the other."""
    world, memo = fleet(nodes=1), CycleMemo()
    guesses = [50, 20, 40, 10, 30]
    submit(world, *(job(f"j{ms}", gpus=4, estimate_ms=ms) for ms in guesses))
    assert list(placed(world, beat(world, SHORTEST, memo))) == ["j10", "j20"]
    submit(world, job("j5", gpus=4, estimate_ms=5))
    finish(world, "j10", "j20")
    assert list(placed(world, beat(world, SHORTEST, memo))) == ["j5", "j30"]


def test_smallest_goes_by_time_left_times_accelerators():
    """A long job on one accelerator is smaller than a shorter one on eight."""
    world = fleet(nodes=1)
    submit(world, job("wide", gpus=8, estimate_ms=20), job("narrow", gpus=1, estimate_ms=100))
    assert list(placed(world, decide(world, SMALLEST))) == ["narrow"]
    assert list(placed(world, decide(world, SHORTEST))) == ["wide"]


def test_least_attained_service_goes_by_steps():
    """A job that came back after hours of service goes behind a new one; within a step, by age."""
    world = fleet(nodes=1)
    submit(world, job("served", gpus=8, saves_every_ms=1))
    beat(world, ATTAINED)
    pass_ms(world, HOUR_MS)
    crash(world, "served")
    submit(world, job("new", gpus=8), job("newer", gpus=8))
    assert list(placed(world, decide(world, ATTAINED))) == ["new"]


@pytest.mark.parametrize("policy", [SHORTEST, SMALLEST, ATTAINED, SRTF, SRSF, LAS])
def test_a_floor_goes_before_every_order(policy: Policy):
    """A team below its floor goes first, however long its job."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("quick", gpus=8, estimate_ms=1))
    submit(world, job("owed", gpus=8, team="b", estimate_ms=DAY_MS))
    assert placed(world, decide(world, policy)) == {"owed": {0: 8}}


@pytest.mark.parametrize("order", ["shortest", "smallest", "attained"])
def test_patience_puts_the_longest_waiting_first(order: str):
    """A job that waited for the policy's patience goes before all that did not."""
    policy = Policy(order=order, patience_ms=HOUR_MS, may_reorder=True)
    world = fleet(nodes=1)
    submit(world, job("first", gpus=8, estimate_ms=1))
    beat(world, policy)
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS))
    pass_ms(world, HOUR_MS)
    submit(world, job("quick", gpus=8, estimate_ms=1))
    finish(world, "first")
    assert placed(world, decide(world, policy)) == {"long": {0: 8}}


def test_all_waits_of_a_job_count_towards_its_patience():
    """A job that was put off waits on where it stopped, and once impatient is not put off again."""
    policy = Policy(order="shortest", patience_ms=HOUR_MS, may_reorder=True)
    world = fleet(nodes=1)
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS, saves_every_ms=1))
    pass_ms(world, 40 * MINUTE_MS)
    beat(world, policy)
    pass_ms(world, HOUR_MS)
    submit(world, job("quick", gpus=8, estimate_ms=MINUTE_MS))
    assert list(evicted(world, beat(world, policy))) == ["long"]
    leave(world)
    beat(world, policy)
    pass_ms(world, 20 * MINUTE_MS)
    submit(world, job("other", gpus=8, estimate_ms=MINUTE_MS))
    finish(world, "quick")
    assert list(placed(world, beat(world, policy))) == ["long"]
    submit(world, job("third", gpus=8, estimate_ms=MINUTE_MS))
    assert evicted(world, decide(world, policy)) == {}


def test_a_shorter_job_puts_off_a_running_one_and_takes_its_place():
    """With `may_reorder` the order is of all jobs: evict, then place, and not back again."""
    world, memo = fleet(nodes=1), CycleMemo()
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS))
    beat(world, SRTF, memo)
    submit(world, job("short", gpus=8, estimate_ms=HOUR_MS))
    assert evicted(world, decide(world, SHORTEST)) == {}
    assert evicted(world, beat(world, SRTF, memo)) == {"long": ev.Why.REORDERED}
    assert cause_of(world, "short") is Cause.PROMISED
    leave(world)
    assert placed(world, beat(world, SRTF, memo)) == {"short": {0: 8}}
    assert not asked(decide(world, SRTF, memo), ev.AskedEvict)


def test_who_cannot_be_stopped_stays():
    """Neither a job that is not preemptible nor a service is put off."""
    world = fleet(nodes=1)
    submit(world, job("firm", gpus=8, estimate_ms=DAY_MS, is_preemptible=False))
    beat(world, SRTF)
    submit(world, job("short", gpus=8, estimate_ms=HOUR_MS))
    assert evicted(world, decide(world, SRTF)) == {}


def test_outsiders_in_nobodys_way_stay():
    """Only as many are stopped as stand where the newcomer goes."""
    world = fleet(nodes=2)
    submit(world, *(job(f"long{i}", gpus=8, estimate_ms=DAY_MS + i) for i in range(2)))
    beat(world, SRTF)
    submit(world, job("short", gpus=4, estimate_ms=HOUR_MS))
    assert list(evicted(world, decide(world, SRTF))) == ["long1"]


def test_jobs_are_moved_only_if_they_lose_nothing():
    """Two halves of two nodes become one whole node for a gang, if moving is free; else it waits.

    The gang is shorter than the job that must go, so the plan has room for it.
    """
    for saves_every_ms, why in ((1, ev.Why.REPACKED), (0, None)):
        world = fleet(nodes=2)
        halves = [
            job(f"half{i}", gpus=4, estimate_ms=HOUR_MS, saves_every_ms=saves_every_ms)
            for i in range(2)
        ]
        fill = [job(f"fill{i}", gpus=4, estimate_ms=DAY_MS) for i in range(2)]
        submit(world, halves[0], fill[0])
        beat(world, SRTF)
        submit(world, fill[1], halves[1])
        beat(world, SRTF)
        pass_ms(world, MINUTE_MS)
        finish(world, "fill0", "fill1")
        submit(world, job("gang", gpus=8, estimate_ms=2 * HOUR_MS))
        plan = decide(world, SRTF)
        assert set(evicted(world, plan).values()) == ({why} if why else set())
        if why:
            carry_out(world, plan)
            leave(world)
            back = placed(world, beat(world, SRTF))
            assert len(back) == 2
            assert back["gang"] in ({0: 8}, {1: 8})


def test_attained_service_wakes_when_a_running_job_steps_back():
    """A newcomer takes over when the running job has had its hour, not at the next event."""
    world, memo = fleet(nodes=1), CycleMemo()
    submit(world, job("runs", gpus=8, saves_every_ms=1))
    beat(world, LAS, memo)
    submit(world, job("waits", gpus=8))
    plan = beat(world, LAS, memo)
    assert plan.wake_at_ms == HOUR_MS // 8
    pass_ms(world, plan.wake_at_ms - 1)
    assert evicted(world, decide(world, LAS)) == {}
    pass_ms(world, 1)
    assert list(evicted(world, beat(world, LAS, memo))) == ["runs"]


def test_the_second_reader_knows_the_order():
    """It refuses to put a job off for one that comes after it, or to move one that loses work."""
    world = fleet(nodes=1)
    submit(world, job("short", gpus=8, estimate_ms=HOUR_MS))
    beat(world, SRTF)
    pass_ms(world, SRTF.min_run_ms)
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS))
    put_off = ev.AskedEvict(SRTF.min_run_ms, 0, 1, ev.Why.REORDERED, 1)
    moved = ev.AskedEvict(SRTF.min_run_ms, 0, 1, ev.Why.REPACKED, 1)
    assert violations(world, ev.Plan((put_off,)), SRTF) == [
        "job `short` is put off for `long`, which comes after it"
    ]
    assert violations(world, ev.Plan((moved,)), SRTF) == ["job `short` is moved and loses work"]
    assert violations(world, ev.Plan((put_off,)), SHORTEST) == [
        "job `short` is put off, but the order is of waiting jobs only"
    ]


def test_the_plan_of_the_fleet_knows_which_nodes_take_work_now():
    """What runs on a node that was cordoned since takes nothing away from those that were not."""
    world, memo = fleet(nodes=2, teams=[queue("a"), queue("b", floor=4, lend=0)]), CycleMemo()
    submit(world, job("old", gpus=8))
    assert placed(world, beat(world, SRTF, memo)) == {"old": {0: 8}}
    move_node(world, 0, NodeState.CORDONED)
    submit(world, job("new", gpus=4))
    assert placed(world, decide(world, SRTF, memo)) == {"new": {1: 4}}


def test_the_plan_of_the_fleet_knows_teams_that_came_since():
    """A team that appears after the fleet was planned once is in the next plan."""
    world, memo = fleet(nodes=1), CycleMemo()
    submit(world, job("old", gpus=4))
    beat(world, SRTF, memo)
    for name in "bcdefghijklmnopqrstuvwxyz":
        fold(world, ev.QueueSet(0, team(name)))
    submit(world, job("new", gpus=4, team="z"))
    assert placed(world, decide(world, SRTF, memo)) == {"new": {0: 4}}
