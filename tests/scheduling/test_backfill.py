"""Backfill: who may pass a job that does not fit, and who would delay it."""

import pytest

from tests.builders import (
    asked,
    beat,
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
from tidemill.engine.check import violations
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.explain import wait
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World

EASY = Policy(order="fifo", backfill="easy")
CONSERVATIVE = Policy(order="fifo", backfill="conservative")
BOTH = pytest.mark.parametrize("policy", [EASY, CONSERVATIVE], ids=["easy", "conservative"])


def half_full(policy: Policy) -> World:
    """Two nodes: one busy for four more hours, the other free; a gang of both waits for them."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=4 * HOUR_MS))
    beat(world, policy)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    beat(world, policy)
    return world


@BOTH
def test_who_ends_in_time_may_pass(policy: Policy):
    """A job that is taken to end before the gang can start uses the room until then."""
    world = half_full(policy)
    submit(world, job("short", gpus=8, estimate_ms=4 * HOUR_MS))
    assert placed(world, decide(world, policy)) == {"short": {1: 8}}


@BOTH
def test_who_would_delay_it_may_not(policy: Policy):
    """A job that is taken to run longer waits behind the reservation, and is told so."""
    world = half_full(policy)
    submit(world, job("long", gpus=1, estimate_ms=4 * HOUR_MS + 1))
    assert placed(world, beat(world, policy)) == {}
    assert cause_of(world, "long") is Cause.RESERVED
    assert cause_of(world, "gang") is Cause.PARTIAL_GANG
    answer = wait.why(world, policy, world.job_number["long"])
    assert "backfill reservation for job `gang`" in answer.words


def test_without_backfill_everybody_passes():
    """Until patience is lost, nobody is kept from what is free."""
    policy = Policy(order="fifo", backfill="none")
    world = half_full(policy)
    submit(world, job("long", gpus=1, estimate_ms=DAY_MS))
    assert list(placed(world, decide(world, policy))) == ["long"]


@BOTH
def test_the_shorter_one_of_a_shape_may_pass_where_its_head_may_not(policy: Policy):
    """Jobs of one shape are asked one after the other."""
    world = half_full(policy)
    submit(world, job("long", gpus=8, estimate_ms=DAY_MS), job("short", gpus=8, estimate_ms=1))
    assert list(placed(world, decide(world, policy))) == ["short"]


@BOTH
def test_who_fits_beside_the_reservation_may_stay_as_long_as_it_likes(policy: Policy):
    """A gang keeps what it needs and no more."""
    world = fleet(nodes=3)
    submit(world, job("runs", gpus=8, estimate_ms=HOUR_MS))
    submit(world, job("other", gpus=4, estimate_ms=2 * HOUR_MS))
    beat(world, policy)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    submit(world, job("long", gpus=4, estimate_ms=DAY_MS))
    assert placed(world, decide(world, policy)) == {"long": {1: 4}}


def test_easy_keeps_one_reservation_and_conservative_more():
    """What only the second waiting job needs is free to all under easy, kept under conservative."""
    for policy, expected in ((EASY, ["filler"]), (CONSERVATIVE, [])):
        world = fleet(nodes=3, teams=[team("a"), team("b")])
        submit(world, job("a", gpus=8, estimate_ms=HOUR_MS))
        submit(world, job("b", gpus=8, estimate_ms=9 * HOUR_MS))
        submit(world, job("c", gpus=4, estimate_ms=5 * HOUR_MS))
        beat(world, policy)
        submit(world, job("first", gpus=8, estimate_ms=20 * HOUR_MS))
        submit(world, job("second", gpus=8, team="b", estimate_ms=HOUR_MS))
        submit(world, job("filler", gpus=4, estimate_ms=6 * HOUR_MS))
        assert list(placed(world, decide(world, policy))) == expected


@BOTH
def test_an_overrun_moves_the_reservation(policy: Policy):
    """A job that outran its estimate is taken to run as long again, and others may use that."""
    world, memo = half_full(policy), CycleMemo()
    submit(world, job("other", gpus=8, estimate_ms=3 * HOUR_MS))
    pass_ms(world, 2 * HOUR_MS)
    assert placed(world, decide(world, policy, memo)) == {}
    pass_ms(world, 2 * HOUR_MS)
    assert placed(world, decide(world, policy, memo)) == {"other": {1: 8}}


@BOTH
def test_who_was_passed_for_long_is_passed_by_nobody(policy: Policy):
    """`hold_after` after the first pass estimates do not count: so all that can fit finally runs.

    Before, the guard counted from the submission, and was thirty days long: small jobs whose owners
    guess a tenth of the truth passed a gang for a month.
    """
    world = half_full(policy)
    pass_ms(world, DAY_MS)
    submit(world, job("liar", gpus=1, estimate_ms=MINUTE_MS))
    plan = beat(world, policy)
    assert list(placed(world, plan)) == ["liar"]
    assert asked(plan, ev.JobPassed) == [ev.JobPassed(DAY_MS, world.job_number["gang"])]
    pass_ms(world, policy.hold_after_ms - 1)
    submit(world, job("in time", gpus=1, estimate_ms=MINUTE_MS))
    plan = beat(world, policy)
    assert list(placed(world, plan)) == ["in time"]
    assert asked(plan, ev.JobPassed) == []
    pass_ms(world, 1)
    submit(world, job("late", gpus=1, estimate_ms=MINUTE_MS))
    assert placed(world, beat(world, policy)) == {}
    assert cause_of(world, "late") is Cause.BEHIND
    for name in ("runs", "liar", "in time"):
        finish(world, name)
    assert next(iter(placed(world, beat(world, policy)))) == "gang"


@BOTH
def test_the_plan_checker_knows_who_may_be_passed_no_more(policy: Policy):
    """It refuses a plan that starts a later job long after the first was passed."""
    world = half_full(policy)
    fold(world, ev.JobPassed(world.now_ms, world.job_number["gang"]))
    submit(world, job("short", gpus=1, estimate_ms=MINUTE_MS))
    plan = decide(world, policy)
    assert list(placed(world, plan)) == ["short"]
    pass_ms(world, policy.hold_after_ms)
    pieces = next(a.pieces for a in plan.actions if isinstance(a, ev.AskedPlace))
    late = ev.AskedPlace(world.now_ms, world.job_number["short"], 1, pieces)
    assert violations(world, ev.Plan((late,)), policy) == ["job `gang` is delayed by who passes it"]
    passed = ev.JobPassed(world.now_ms, world.job_number["gang"])
    assert violations(world, ev.Plan((passed,)), policy) == [
        "job `gang` is passed for the first time a second time",
        "job `gang` is passed by nobody",
    ]


def test_kinds_have_reservations_of_their_own():
    """A gang that waits for one kind keeps nobody from another."""
    world = fleet(contract("h", gpus=16), contract("a", gpus=8, kind="A100"), teams=[team("a")])
    submit(world, job("runs", gpus=8, kinds=["H100"], estimate_ms=HOUR_MS))
    beat(world, EASY)
    submit(world, job("gang", gpus=16, kinds=["H100"], estimate_ms=HOUR_MS))
    submit(world, job("long", gpus=8, kinds=["A100"], estimate_ms=DAY_MS))
    assert list(placed(world, decide(world, EASY))) == ["long"]


@BOTH
def test_the_rest_of_a_device_that_is_reserved_is_kept_too(policy: Policy):
    """A fraction beside one that ends in time must itself end in time: the gang needs it whole."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=4 * HOUR_MS))
    submit(world, job("part", milli=250, estimate_ms=2 * HOUR_MS))
    beat(world, policy)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    submit(world, job("long", milli=500, estimate_ms=9 * HOUR_MS))
    assert placed(world, decide(world, policy)) == {}
    submit(world, job("short", milli=500, estimate_ms=4 * HOUR_MS))
    assert list(placed(world, decide(world, policy))) == ["short"]
