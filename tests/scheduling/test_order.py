"""Who goes first: floors, then priority (or not), then age; and whom nobody may pass."""

from tests.builders import (
    beat,
    cancel,
    cause_of,
    contract,
    decide,
    finish,
    fleet,
    job,
    pass_ms,
    placed,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause

FIFO = Policy(order="fifo", may_preempt=False)
PATIENT = Policy(patience_ms=HOUR_MS, may_preempt=False, backfill="none")


def test_the_higher_priority_goes_first():
    """Among equals in age and share, priority decides."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8), job("high", gpus=8, priority=1))
    assert placed(world, decide(world)) == {"high": {0: 8}}


def test_first_come_first_served_ignores_priority():
    """Under fifo the older goes first."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8), job("high", gpus=8, priority=1))
    assert placed(world, decide(world, FIFO)) == {"low": {0: 8}}


def test_equal_priorities_go_by_age():
    """The older of two goes first."""
    world = fleet(nodes=1)
    submit(world, job("older", gpus=8), job("younger", gpus=8, team="a"))
    assert placed(world, decide(world)) == {"older": {0: 8}}


def test_whoever_has_not_got_its_floor_goes_before_any_priority():
    """A team below its floor goes before a higher priority that would borrow."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("eager", gpus=8, priority=9), job("owed", gpus=8, team="b"))
    assert placed(world, decide(world)) == {"owed": {0: 8}}


def test_floors_are_counted_while_placing():
    """Once the floor is reached in this very plan, the next job of the team borrows."""
    world = fleet(nodes=2, teams=[team("a"), team("b", floor=8)])
    submit(world, job("b1", gpus=8, team="b"), job("b2", gpus=8, team="b"))
    submit(world, job("eager", gpus=8, priority=1))
    assert list(placed(world, decide(world))) == ["b1", "eager"]


def test_small_jobs_pass_a_large_one_for_a_while():
    """Until the policy's patience ends, a gang that does not fit holds nobody."""
    world = fleet(nodes=2)
    submit(world, job("first", gpus=8))
    beat(world, PATIENT)
    submit(world, job("large", gpus=16), job("small", gpus=8))
    assert placed(world, decide(world, PATIENT)) == {"small": {1: 8}}


def test_nobody_passes_a_job_that_lost_its_patience():
    """After it, the queue behind the gang is held, and says so."""
    world = fleet(nodes=2)
    submit(world, job("first", gpus=8), job("large", gpus=16))
    beat(world, PATIENT)
    pass_ms(world, HOUR_MS)
    submit(world, job("small", gpus=8))
    beat(world, PATIENT)
    assert cause_of(world, "small") is Cause.BEHIND
    finish(world, "first")
    assert placed(world, decide(world, PATIENT)) == {"large": {0: 8, 1: 8}}


def test_only_those_who_want_the_same_accelerators_are_held():
    """Behind a gang that lost its patience, another kind is still handed out."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("first", gpus=1, kinds=["H100"]), job("large", gpus=8, kinds=["H100"]))
    beat(world, PATIENT)
    pass_ms(world, HOUR_MS)
    submit(world, job("other", gpus=8, kinds=["A100"]), job("same", gpus=1, kinds=["H100"]))
    assert placed(world, decide(world, PATIENT)) == {"other": {1: 8}}


def test_a_job_that_can_never_fit_holds_nobody():
    """Patience is not kept with what waiting cannot cure."""
    world = fleet(nodes=1)
    submit(world, job("impossible", gpus=16, per_node=16), job("over", gpus=24))
    beat(world, PATIENT)
    pass_ms(world, HOUR_MS)
    submit(world, job("small", gpus=8))
    assert placed(world, decide(world, PATIENT)) == {"small": {0: 8}}


def test_a_job_over_its_limit_holds_nobody():
    """A team at its limit does not keep others from what it may not use."""
    world = fleet(nodes=2, teams=[team("a", limit=8), team("b")])
    submit(world, job("first", gpus=8), job("second", gpus=8))
    beat(world, PATIENT)
    pass_ms(world, HOUR_MS)
    submit(world, job("other", gpus=8, team="b"))
    assert placed(world, decide(world, PATIENT)) == {"other": {1: 8}}


def test_whoever_was_held_goes_on_when_the_holder_gives_up():
    """When the job that held the queue is cancelled, the next beat places those behind it."""
    world, memo = fleet(nodes=2), CycleMemo()
    submit(world, job("first", gpus=8), job("large", gpus=16))
    beat(world, PATIENT, memo)
    pass_ms(world, HOUR_MS)
    submit(world, job("small", gpus=8))
    beat(world, PATIENT, memo)
    cancel(world, "large")
    assert placed(world, decide(world, PATIENT, memo)) == {"small": {1: 8}}


def test_a_holder_that_waited_behind_another_still_holds():
    """Having been behind somebody for a beat, a job that lost patience holds the queue again."""
    world, memo = fleet(nodes=2), CycleMemo()
    submit(world, job("first", gpus=8), job("large", gpus=16))
    beat(world, PATIENT, memo)
    pass_ms(world, HOUR_MS)
    submit(world, job("larger", gpus=16, priority=1))
    beat(world, PATIENT, memo)
    pass_ms(world, HOUR_MS)
    beat(world, PATIENT, memo)
    assert cause_of(world, "large") is Cause.BEHIND
    cancel(world, "larger")
    submit(world, job("small", gpus=8))
    beat(world, PATIENT, memo)
    assert cause_of(world, "small") is Cause.BEHIND
