"""Whom a job that lost its patience holds back, and whom it may not."""

from tests.builders import (
    beat,
    cause_of,
    decide,
    fleet,
    job,
    pass_ms,
    placed,
    submit,
    team,
)
from tidemill import explain
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobClass
from tidemill.model.tables import NEVER_PASSED

PATIENT = Policy(patience_ms=HOUR_MS, may_preempt=False, backfill="none")


def test_nobody_is_held_behind_what_services_will_never_let_in():
    """A gang that wants the whole fleet beside a service that does not end holds nobody back."""
    world = fleet(nodes=2, teams=[team("a")])
    submit(world, job("chat", gpus=4, kind=JobClass.INFERENCE))
    beat(world, PATIENT)
    submit(world, job("whole", gpus=16, per_node=8))
    beat(world, PATIENT)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("small", gpus=1))
    assert placed(world, decide(world, PATIENT)).keys() == {"small"}


def test_a_gang_is_let_in_when_what_ends_has_ended():
    """Beside work that ends, the same gang does hold the queue: so it finally runs."""
    world = fleet(nodes=2, teams=[team("a")])
    submit(world, job("batch", gpus=4))
    beat(world, PATIENT)
    submit(world, job("whole", gpus=16, per_node=8))
    beat(world, PATIENT)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("small", gpus=1))
    assert placed(world, beat(world, PATIENT)) == {}
    assert cause_of(world, "small") is Cause.BEHIND


def test_a_limit_holds_its_own_team_alone():
    """A job kept out by its team's limit is passed by other teams, not by its own younger jobs."""
    world = fleet(nodes=4, teams=[team("a", limit=8), team("b")])
    submit(world, job("first", gpus=1, team="a"))
    beat(world, PATIENT)
    submit(world, job("full", gpus=8, team="a"))
    beat(world, PATIENT)
    assert cause_of(world, "full") is Cause.OVER_LIMIT
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("young", gpus=1, team="a"), job("other", gpus=8, team="b"))
    assert placed(world, beat(world, PATIENT)).keys() == {"other"}
    assert cause_of(world, "young") is Cause.BEHIND


def test_with_backfill_a_limit_holds_its_team_only_when_the_guard_says_so():
    """A job that its limit and the nodes keep out is passed for `hold_after`, not `patience`.

    Before, six hours in the queue were enough, and its team waited beside free accelerators.
    """
    policy = Policy(may_preempt=False, patience_ms=HOUR_MS, hold_after_ms=10 * HOUR_MS)
    world = fleet(nodes=4, teams=[team("a", limit=8), team("b")])
    submit(world, job("first", gpus=1, team="a"), job("rest", gpus=24, per_node=8, team="b"))
    beat(world, policy)
    submit(world, job("full", gpus=8, team="a"))
    beat(world, policy)
    assert cause_of(world, "full") is Cause.OVER_LIMIT
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("young", gpus=1, team="a"))
    assert placed(world, beat(world, policy)).keys() == {"young"}
    pass_ms(world, 9 * HOUR_MS)
    submit(world, job("younger", gpus=1, team="a"))
    assert placed(world, beat(world, policy)).keys() == {"younger"}
    pass_ms(world, HOUR_MS)
    submit(world, job("late", gpus=1, team="a"), job("other", gpus=1, team="b"))
    assert placed(world, beat(world, policy)).keys() == {"other"}
    assert cause_of(world, "late") is Cause.BEHIND
    answer = explain.why(world, policy, world.job_number["full"])
    assert "under the same maximum quota only (policy `hold_after`: 10h)" in answer.words


def test_other_teams_do_not_start_the_clock_of_a_limit():
    """Who is not under a limit does not pass the job that it keeps out."""
    policy = Policy(may_preempt=False)
    world = fleet(nodes=4, teams=[team("a", limit=8), team("b")])
    submit(world, job("first", gpus=1, team="a"))
    beat(world, policy)
    submit(world, job("full", gpus=8, team="a"), job("other", gpus=1, team="b"))
    beat(world, policy)
    full = world.job_number["full"]
    assert world.jobs.passed_ms[full] == NEVER_PASSED
    submit(world, job("young", gpus=1, team="a"))
    beat(world, policy)
    assert world.jobs.passed_ms[full] == world.now_ms
