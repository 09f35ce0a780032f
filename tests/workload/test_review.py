"""The workload layer cancels idle notebooks where the policy says so, and nothing else."""

from tests.builders import asked, beat, decide, fall_idle, fleet, job, pass_ms, submit
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobClass
from tidemill.model.world import World

CULLING = Policy(cull_idle_after_ms=HOUR_MS)


def idle_for(ms: int, kind: JobClass = JobClass.INTERACTIVE) -> World:
    """A world in which job `x` has run idle for this long."""
    world = fleet()
    submit(world, job("x", kind=kind))
    beat(world)
    fall_idle(world, "x")
    pass_ms(world, ms)
    return world


def test_an_idle_notebook_is_cancelled_when_its_time_is_up():
    """After the policy's time without activity an interactive job is cancelled."""
    world = idle_for(HOUR_MS)
    assert asked(decide(world, CULLING), ev.AskedCancel) == [
        ev.AskedCancel(world.now_ms, 0, ev.Why.IDLE)
    ]


def test_before_that_the_plan_asks_to_be_woken():
    """A plan names the moment at which an idle job will be due."""
    plan = decide(idle_for(HOUR_MS - 5), CULLING)
    assert asked(plan, ev.AskedCancel) == []
    assert plan.wake_at_ms == HOUR_MS


def test_activity_resets_the_clock():
    """A job that was busy in between starts to be idle anew."""
    world = idle_for(HOUR_MS - 1)
    fall_idle(world, "x", busy_ppm=500_000)
    fall_idle(world, "x", busy_ppm=0)
    pass_ms(world, HOUR_MS - 1)
    assert asked(decide(world, CULLING), ev.AskedCancel) == []


def test_training_is_never_culled():
    """An idle training job is left alone."""
    assert asked(decide(idle_for(9 * HOUR_MS, JobClass.TRAINING), CULLING), ev.AskedCancel) == []


def test_by_default_nobody_is_culled():
    """Without a time in the policy idle notebooks stay, and nobody is woken for them."""
    plan = decide(idle_for(9 * HOUR_MS))
    assert plan == ev.Plan((), FOREVER_MS)


def test_a_job_is_cancelled_once():
    """One that was asked to leave is not asked again."""
    world = idle_for(HOUR_MS)
    beat(world, CULLING)
    pass_ms(world, 1)
    assert asked(decide(world, CULLING), ev.AskedCancel) == []
