"""`why` says how often a job was preempted, and raises an alarm where it gets nowhere."""

from tests.builders import beat, decide, evicted, job, pass_ms, submit
from tests.scheduling.test_protection import EAGER, LONG, low_runs, stop_and_return
from tidemill import explain
from tidemill.engine.fold.one_event import fold_all
from tidemill.model import events as ev
from tidemill.model.world import World
from tidemill.scheduling import protection


def preempted(times: int, **traits: object) -> World:
    """A fleet on which job `low` waits that was preempted so often."""
    world = low_runs(**traits)
    for i in range(times - 1):
        pass_ms(world, EAGER.min_run_ms << i)
        stop_and_return(world, EAGER, f"high {i}")
    pass_ms(world, EAGER.min_run_ms << times)
    submit(world, job("last", gpus=8, priority=1, estimate_ms=LONG))
    plan = decide(world, EAGER)
    assert "low" in evicted(world, plan)
    fold_all(world, plan.actions)
    fold_all(world, [ev.JobEvicted(world.now_ms, 0, int(world.jobs.attempt[0]))])
    return world


def preempted_text(times: int, **traits: object) -> str:
    """What `why` says of a waiting job that was preempted so often."""
    facts = explain.why(preempted(times, **traits), EAGER, 0).evidence
    return " ".join(fact.words for fact in facts)


def test_a_job_that_was_preempted_hears_how_often():
    """One preemption is told, and is no alarm."""
    told = preempted_text(1)
    assert "preempted 1 time so far" in told
    assert "alarm" not in told


def test_a_job_that_gets_nowhere_is_an_alarm():
    """After the policy's number of preemptions that saved nothing, the answer says so."""
    told = preempted_text(EAGER.evictions_at_most)
    assert f"preempted {EAGER.evictions_at_most} times so far; alarm" in told
    assert "evictions_at_most" in told
    assert told.endswith("it never saves: checkpoint"), "it heard `checkpoint more often`"


def test_the_list_of_pending_jobs_raises_the_same_alarm():
    """`pending` says of each job what `why` says of it, and nothing of the others."""
    quiet = explain.board(preempted(1), EAGER)
    assert {row.alarm for row in quiet.waiting} == {""}
    world = preempted(EAGER.evictions_at_most)
    alarms = {row.job: row.alarm for row in explain.board(world, EAGER).waiting}
    assert alarms.pop("low") == protection.alarm(world, EAGER, 0)
    assert protection.alarm(world, EAGER, 0) in preempted_text(EAGER.evictions_at_most)
    assert set(alarms.values()) <= {""}


def test_a_job_that_waits_for_the_protection_of_others_hears_when_it_ends():
    """Whoever was just started is left alone for a while; then it is preempted, as was said."""
    world = low_runs()
    submit(world, job("high", gpus=8, priority=1, estimate_ms=LONG))
    pass_ms(world, EAGER.min_run_ms - 18_000)
    beat(world, EAGER)
    answer = explain.why(world, EAGER, world.job_number["high"])
    assert answer.fix.words == "wait 18s: then `low` is preempted for it"
    assert "`low` is to be preempted for it in 18s" in answer.words
    assert "(policy `min_run`: 10m)" in answer.words
    assert not evicted(world, decide(world, EAGER))
    pass_ms(world, 18_000)
    assert set(evicted(world, decide(world, EAGER))) == {"low"}
