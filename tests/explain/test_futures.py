"""One forecaster: the list of pending jobs and the answer about one job say the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import DEFAULTS, beat, contract, fleet, job, submit
from tests.explain.test_sketch import EAGER, queues
from tidemill import explain
from tidemill.engine.loop import Loop
from tidemill.explain import futures
from tidemill.explain.draws import draws
from tidemill.explain.durations import Lengths
from tidemill.explain.play_forward import Ahead
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, duration_text
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World


@given(world=queues(), policy=st.sampled_from([DEFAULTS, EAGER]), is_sketched=st.booleans())
@settings(max_examples=12, deadline=None)
def test_the_list_and_the_answer_say_the_same(world: World, policy: Policy, is_sketched: bool):
    """Verdict and band of every waiting job, by either method; before, each had its own."""
    with pytest.MonkeyPatch.context() as patch:
        if is_sketched:
            patch.setattr(futures, "JOBS_AT_MOST", 0)
        found = explain.with_eta(world, policy, explain.board(world, policy))
        for row in found.waiting:
            forecast = explain.eta(world, policy, world.job_number[row.job])
            assert (row.verdict, row.eta) == (forecast.verdict, forecast.wait)
            if forecast.verdict not in ("now", "never"):
                assert found.eta_method == forecast.method
    if found.waiting:
        assert is_sketched == ("too many to simulate" in found.eta_method)


def test_a_simulation_does_not_look_every_few_minutes_for_days():
    """While demand waits for nodes it is looked at ever less often, and the start is the same.

    It was looked at every five minutes: five sixths of what a forecast of the demo took.
    """
    world = fleet(contract(gpus=8, terms="on_demand"))
    submit(world, job("runs", gpus=8, estimate_ms=10 * DAY_MS), job("t5", gpus=8))
    beat(world)
    backend = Ahead(world, Lengths(world), draws(3)[1], [ev.Woke(world.now_ms)])
    loop, looks = Loop(world, DEFAULTS, backend, None), 0
    while world.jobs.state[1] == JobState.WAITING and (at_ms := backend.next_ms()) is not None:
        loop.beat(at_ms)
        looks += 1
    assert DAY_MS < world.now_ms < 11 * DAY_MS
    assert looks < 100, looks


def waiting_in_turn() -> World:
    """One node, and three jobs that want all of it."""
    world = fleet(nodes=1)
    submit(world, *(job(f"j{i}", gpus=8, estimate_ms=2 * HOUR_MS) for i in range(3)))
    beat(world)
    return world


def test_some_jobs_of_the_list_are_asked_about_alone():
    """Who is not shown has no start, and who is has the same as in the whole list."""
    world = waiting_in_turn()
    board = explain.board(world, DEFAULTS)
    whole = explain.with_eta(world, DEFAULTS, board).waiting
    part = explain.with_eta(world, DEFAULTS, board, board.waiting[:1]).waiting
    assert part[0] == whole[0]
    assert (part[1].eta, part[1].verdict) == (None, "")


def test_where_a_play_is_cut_the_answer_says_how_far_it_went(monkeypatch: pytest.MonkeyPatch):
    """A play ends after so many events; a job is not said to wait for longer than was looked at.

    Before, a play that was cut after a few hours said that it does not start within 30 days.
    """
    world = waiting_in_turn()
    j = world.job_number["j2"]
    monkeypatch.setattr(futures, "EVENTS_AT_MOST", 2)
    cut = explain.eta(world, DEFAULTS, j)
    assert cut.verdict == "later"
    assert 0 < cut.horizon_ms < DAY_MS
    assert f"does not start within {duration_text(cut.horizon_ms)}" in cut.words
    monkeypatch.undo()
    whole = explain.eta(world, DEFAULTS, j)
    assert whole.wait is not None
    assert whole.wait.p50_ms is not None
    assert whole.wait.p50_ms > cut.horizon_ms
