"""Protection: how soon, how often and at what price a job may be stopped for another."""

import pytest

from tests.builders import beat, decide, evicted, fleet, job, pass_ms, submit, team
from tidemill.engine.check import violations
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling import protection
from tidemill.scheduling.desk import rights

LONG = 20 * DAY_MS
EAGER = Policy(preempt_gain_ppm=0)
"""Priority is enough; only protection is in the way."""


def low_runs(**traits: object) -> World:
    """One node, taken by a job that others of its team may preempt."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8, estimate_ms=LONG, **traits))  # type: ignore[arg-type]
    beat(world, EAGER)
    return world


def stop_and_return(world: World, policy: Policy, heir: str) -> None:
    """A higher job preempts ``low``, runs and ends; ``low`` comes back."""
    submit(world, job(heir, gpus=8, priority=1, estimate_ms=LONG))
    plan = decide(world, policy)
    assert evicted(world, plan) == {"low": ev.Why.PREEMPTED}, world.now_ms
    for action in plan.actions:
        fold(world, action)
    low, high = world.job_number["low"], world.job_number[heir]
    fold(world, ev.JobEvicted(world.now_ms, low, int(world.jobs.attempt[low])))
    beat(world, policy)
    fold(world, ev.JobFinished(world.now_ms, high, int(world.jobs.attempt[high])))
    beat(world, policy)


def test_what_was_just_placed_is_not_stopped():
    """A job that has not come up, or has only just, is left alone; the plan says when to ask again.

    Before, a job was stopped in the very millisecond of its placement, 42 times in a day.
    """
    world = low_runs()
    submit(world, job("high", gpus=8, priority=1, estimate_ms=LONG))
    plan = decide(world, EAGER)
    assert evicted(world, plan) == {}
    assert plan.wake_at_ms == EAGER.min_run_ms
    pass_ms(world, EAGER.min_run_ms - 1)
    assert evicted(world, decide(world, EAGER)) == {}
    pass_ms(world, 1)
    assert evicted(world, decide(world, EAGER)) == {"low": ev.Why.PREEMPTED}


def test_protection_doubles_and_comes_to_a_cap():
    """Each eviction doubles the time; after four that saved nothing nobody preempts the job."""
    world = low_runs()
    for i in range(EAGER.evictions_at_most):
        submit(world, job(f"early {i}", gpus=8, priority=1, estimate_ms=LONG))
        pass_ms(world, (EAGER.min_run_ms << i) - 1)
        assert evicted(world, decide(world, EAGER)) == {}
        fold(world, ev.JobCancelled(world.now_ms, world.job_number[f"early {i}"]))
        pass_ms(world, 1)
        stop_and_return(world, EAGER, f"high {i}")
    assert protection.is_spent(world, EAGER, 0)
    pass_ms(world, 10 * DAY_MS)
    submit(world, job("last", gpus=8, priority=1, estimate_ms=LONG))
    assert evicted(world, decide(world, EAGER)) == {}


def test_work_that_was_saved_starts_the_count_again():
    """A job that saves every five minutes makes progress between evictions: it is never spent."""
    world = low_runs(saves_every_ms=5 * MINUTE_MS)
    for i in range(2 * EAGER.evictions_at_most):
        pass_ms(world, EAGER.min_run_ms << min(i, rights.DOUBLINGS))
        stop_and_return(world, EAGER, f"high {i}")
        assert not protection.is_spent(world, EAGER, 0)
    assert world.jobs.evictions[0] == 2 * EAGER.evictions_at_most
    assert world.jobs.fruitless[0] == 1


def test_a_guaranteed_quota_is_given_back_in_time_even_by_the_spent():
    """Who was stopped too often still gives back what it borrows, after the longest protection."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("low", gpus=8, estimate_ms=LONG))
    beat(world, EAGER)
    for i in range(EAGER.evictions_at_most):
        pass_ms(world, EAGER.min_run_ms << i)
        stop_and_return(world, EAGER, f"high {i}")
    submit(world, job("owed", gpus=8, team="b", estimate_ms=LONG))
    pass_ms(world, (EAGER.min_run_ms << rights.DOUBLINGS) - 1)
    assert evicted(world, decide(world, EAGER)) == {}
    pass_ms(world, 1)
    assert evicted(world, decide(world, EAGER)) == {"low": ev.Why.RECLAIMED}


def test_a_preemption_must_win_more_than_it_loses():
    """By default ten minutes of one job do not cost another hours that it has not saved."""
    world = low_runs()
    pass_ms(world, 5 * HOUR_MS)
    submit(world, job("brief", gpus=8, priority=1, estimate_ms=10 * MINUTE_MS))
    assert evicted(world, decide(world, Policy())) == {}
    submit(world, job("grave", gpus=8, priority=2, estimate_ms=DAY_MS))
    assert evicted(world, decide(world, Policy())) == {"low": ev.Why.PREEMPTED}


@pytest.mark.parametrize("why", [ev.Why.PREEMPTED, ev.Why.RECLAIMED])
def test_the_plan_checker_knows_who_is_protected(why: ev.Why):
    """It refuses to stop a job before its time, or once too often, by rules of its own."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("low", gpus=8, estimate_ms=LONG))
    beat(world, EAGER)
    heir = job("heir", gpus=8, priority=1, team="a" if why is ev.Why.PREEMPTED else "b")
    submit(world, heir)
    soon = ev.AskedEvict(world.now_ms, 0, 1, why, 1)
    assert violations(world, ev.Plan((soon,)), EAGER) == [
        "job `low` is stopped within its minimum run time"
    ]
    pass_ms(world, EAGER.min_run_ms)
    late = ev.AskedEvict(world.now_ms, 0, 1, why, 1)
    assert violations(world, ev.Plan((late,)), EAGER) == []
    spent = (
        []
        if why is ev.Why.RECLAIMED
        else ["job `low` was stopped too often without saving any work"]
    )
    assert violations(world, ev.Plan((late,)), Policy(evictions_at_most=0)) == spent
