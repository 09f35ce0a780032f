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
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobClass

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
