"""A plan of moves for people: what would move where, what it loses, and what it wins."""

from tests.builders import fleet, job, submit
from tests.scheduling.test_moves import scattered
from tidemill.explain import Glance, defrag
from tidemill.explain.defrag import Defrag
from tidemill.model.policy import Policy
from tidemill.model.world import World


def asked(world: World, name: str) -> Defrag:
    return defrag(world, Policy(), world.job_number[name], Glance(world, sweeps=True))


def test_a_plan_says_who_moves_where_and_for_how_much():
    """One move admits the job; the words say how many, what is lost and what is won."""
    world = scattered(restart_ms=600_000)
    found = asked(world, "whole")
    (move,) = found.moves
    assert found.admits
    assert found.is_worth_it
    assert {move.job} <= {"left", "right"}
    assert move.leaves != move.goes_to
    assert found.lost_usd_micro == move.lost_usd_micro == 4 * 2_000_000 * 10 // 60
    assert found.words == (
        "1 move, $1.33 of lost work, would make job `whole` fit now,"
        " which spares it $80.00 worth of waiting"
    )


def test_nothing_moves_for_a_job_that_fits_or_runs():
    """It says so instead."""
    world = fleet(nodes=1)
    submit(world, job("small", gpus=1))
    assert "fits as things are" in asked(world, "small").words
    assert "nothing has to move" in asked(scattered(), "left").words


def test_where_moves_do_not_help_it_says_so():
    """Too little is free in all: no plan, and no price."""
    world = scattered()
    submit(world, job("huge", gpus=16))
    found = asked(world, "huge")
    assert not found.admits
    assert found.moves == ()
    assert "no 32 moves or fewer" in found.words
