"""A plan of moves for people: what would move where, what it loses, and whether the job starts."""

import pytest
from msgspec.structs import replace

from tests.builders import beat, decide, fleet, job, leave, placed, submit
from tests.scheduling.test_moves import scattered
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.explain import Glance, defrag
from tidemill.explain.defragment import Defrag
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World


def asked(world: World, name: str) -> Defrag:
    return defrag(world, Policy(), world.job_number[name], Glance(world, sweeps=True))


def carried_out(world: World, names: set[str]) -> World:
    """The cluster state after these jobs have moved where the scheduler would move them."""
    made = snapshot.copy(world)
    for action in decide(made, Policy(may_move=True)).actions:
        if isinstance(action, ev.AskedMove) and made.job_names[action.job] in names:
            fold(made, replace(action, to_job=-1))
    leave(made, *names)
    return made


def test_a_plan_says_who_moves_where_and_for_how_much():
    """One move starts the job; the words say what is lost, and when it starts as things are."""
    world = scattered(restart_ms=600_000, estimate_ms=3 * HOUR_MS)
    found = asked(world, "whole")
    (move,) = found.moves
    assert found.admits
    assert {move.job} <= {"left", "right"}
    assert move.leaves != move.goes_to
    assert found.lost_usd_micro == move.lost_usd_micro == 4 * 2_000_000 * 10 // 60
    assert found.words.startswith("1 move, $1.33 of lost work, would start job `whole`; as things")
    told = explain.eta(world, Policy(), world.job_number["whole"])
    assert found.wait == told.wait
    assert found.words.split("it starts in ")[1] in told.words


@pytest.mark.parametrize("name", ["whole", "second"])
def test_the_moves_start_the_job_of_which_that_is_said(name: str):
    """Two jobs wait for one node: `defrag` said to both that a move makes them fit, and `why` to
    the second that it does not start it. Both say now what the next cycle does after the move.
    """
    world = scattered()
    submit(world, job("second", gpus=8, cpu_milli=1))
    beat(world)
    found = asked(world, name)
    names = {move.job for move in found.moves}
    starts = name in placed(world, decide(carried_out(world, names)))
    assert found.admits == starts == (name == "whole")
    assert ("would place `whole` instead" in found.words) != starts
    answer = explain.why(world, Policy(), world.job_number[name])
    (told,) = (f.words for f in (answer.fix, *answer.other_fixes) if f.words.startswith("move "))
    assert {f"`{one}`" for one in names} <= set(told.split())
    assert told.endswith("that alone does not start it") != starts


def test_nothing_moves_for_a_job_that_starts_or_runs_or_that_a_move_does_not_help():
    """It says so instead, with the cause that `why` finds."""
    world = fleet(nodes=1)
    submit(world, job("small", gpus=1))
    assert asked(world, "small").words == (
        "nothing has to move for job `small`: starts in the next scheduling cycle"
    )
    assert "nothing has to move" in asked(scattered(), "left").words
    world = fleet(nodes=4)
    submit(world, job("runs", gpus=16, estimate_ms=4 * HOUR_MS))
    beat(world)
    submit(world, job("big", gpus=32), job("t5", gpus=16, estimate_ms=12 * HOUR_MS))
    beat(world)
    assert asked(world, "t5").words == "no move helps job `t5`: behind a backfill reservation"


def test_where_moves_do_not_help_it_says_so():
    """Two of the nodes may not be cleared: no plan, and no price."""
    found = asked(scattered(is_preemptible=False), "whole")
    assert not found.admits
    assert found.moves == ()
    assert "no 32 moves or fewer" in found.words
