"""Answers that say the same of the same cluster, whichever way they are asked."""

import pytest
from msgspec.structs import replace

from tests.builders import (
    DEFAULTS,
    beat,
    contract,
    fleet,
    job,
    lose_node,
    move_node,
    pass_ms,
    place,
    placed,
    submit,
    team,
)
from tidemill import explain
from tidemill.cli import pending
from tidemill.engine.fold.one_event import fold
from tidemill.explain import held_jobs
from tidemill.explain.answers import Band, Forecast, PendingJob
from tidemill.model import events as ev
from tidemill.model.held import UnplacedJob
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Job, Piece
from tidemill.model.states import NodeState
from tidemill.model.world import World


def looked_on() -> World:
    """Two nodes of 8 under another scheduler: 8 are free, and a job of 2 waits beside them."""
    world = fleet(nodes=2, teams=[team("a"), team("nlp")])
    submit(world, job("runs", gpus=8))
    fold(world, ev.PlacementSeen(0, 0, 1, (Piece(0, 0, 1, 255),)))
    submit(world, job("held", gpus=2))
    return world


@pytest.mark.parametrize("asked", [job("t", gpus=17, per_node=17), job("t", gpus=16, per_node=16)])
def test_what_fits_alone_is_offered_instead_where_another_scheduler_decides(asked: Job):
    """Whoever fits and is not started is held back there: 8 run now, so 8 are offered."""
    world = looked_on()
    assert fit(world, job("t", gpus=8, team="nlp")).verdict == "now"
    found = fit(world, asked).certificate
    assert found is not None
    assert "8 GPUs" in {made.words for made in found.fits_now}


@pytest.mark.parametrize(("gpus", "is_first"), [(6, False), (7, True)])
def test_who_waits_for_the_same_is_named(gpus: int, is_first: bool):
    """Beside the job of 2 that waits, 6 of 8 GPUs can be had at once; for 7 it may come first."""
    found = fit(looked_on(), job("t", gpus=gpus, team="nlp"))
    assert found.verdict == "now"
    assert ("`held` waits for the same and may be started first" in found.words) is is_first


def test_who_is_held_after_an_attempt_waits_for_no_gpu():
    """Requeued and held: `why` and `pending` say so, and nobody is behind it."""
    world = looked_on()
    fold(world, ev.JobFailed(0, 0, 1, ev.Why.NODE_LOST))
    fold(world, ev.ReasonSeen(0, 0, Cause.NOT_ELIGIBLE, Layer.WORKLOAD, "JobHeldUser"))
    answer, board = explain.why(world, DEFAULTS, 0), explain.board(world, DEFAULTS)
    assert answer.cause == "not_eligible"
    assert (board.jobs, board.held) == (1, 1)
    assert "no job ahead" in explain.why(world, DEFAULTS, 1).words


def fit(world: World, asked: Job) -> Forecast:
    return explain.fit(world, DEFAULTS, asked)


def test_a_guard_names_services_only_where_they_are_in_the_way():
    """A gang that lacks a node is passed by others; no service has to do with it."""
    policy = Policy(patience_ms=HOUR_MS, hold_after_ms=2 * HOUR_MS)
    world = fleet(nodes=2)
    lose_node(world, 1)
    submit(world, job("gang", gpus=16))
    beat(world, policy)
    pass_ms(world, 3 * HOUR_MS)
    submit(world, job("small", gpus=1))
    assert set(placed(world, beat(world, policy))) == {"small"}
    answer = explain.why(world, policy, world.job_number["gang"])
    told = "the starvation guard does not end that: it does not fit even if nothing else runs"
    assert told in answer.words
    assert "services" not in answer.words


def test_a_reservation_says_what_it_takes_of_jobs_without_an_estimate():
    """Nobody said how long anything runs: the start of the reserved job is the policy's guess."""
    policy = Policy(min_run_ms=0, estimates="given")
    world = fleet(contract(gpus=16))
    submit(world, job("runs", gpus=8))
    beat(world, policy)
    submit(world, job("big", gpus=16))
    beat(world, policy)
    pass_ms(world, HOUR_MS)
    submit(world, job("late", gpus=8))
    beat(world, policy)
    answer = explain.why(world, policy, world.job_number["late"])
    assert answer.cause == "reserved"
    assert answer.evidence[0].words.endswith(
        "; 1 running job has no estimate and is taken to run 1d (policy `unknown_run`)"
    )


def test_why_nodes_are_not_for_a_job_is_said_once():
    """Nodes that lack its label, some of them tainted too, are two reasons and not three."""
    rows = [
        contract("ours", gpus=8, labels={"zone": "x"}),
        contract("plain", gpus=8),
        contract("kept", gpus=8, taints={"dedicated": "y"}),
    ]
    world = fleet(*rows)
    submit(world, job("runs", gpus=8, labels={"zone": "x"}))
    beat(world)
    submit(world, job("t", gpus=8, labels={"zone": "x"}))
    beat(world)
    answer = explain.why(world, DEFAULTS, 1)
    told = "16 more free on 2 nodes that it may not use: label `zone=x` missing; taint"
    assert f"{told} `dedicated=y` not tolerated;" in answer.words


def test_nodes_that_were_deleted_hold_nothing():
    """The one node of 16 of a live cluster is gone: no node is so large, and its group is none."""
    world = fleet(contract("h100", gpus=16), contract("l4", kind="L4", gpus=16, per_node=16))
    world.scheduler = "tidemill"
    move_node(world, 2, NodeState.GONE)
    submit(world, job("t", gpus=16, per_node=16))
    beat(world)
    answer = explain.why(world, DEFAULTS, 0)
    assert answer.cause == answer.said == "impossible_size"
    assert "the largest node has 8 GPUs, it requests 16 on one node" in answer.words
    assert "`l4`" not in answer.words
    assert fit(world, job("u", gpus=1, kinds=["L4"])).cause == "nothing_claimed"


def test_types_that_could_never_hold_it_are_not_named_where_others_are_counted():
    """A gang of two nodes waits for its team's quota of H100; one node of A100 is no help."""
    rows = contract(gpus=24), contract("a100", kind="A100", gpus=4, per_node=4)
    world = fleet(*rows, teams=[team("a", limit=16)])
    submit(world, job("x", gpus=8, kinds=["H100"]))
    place(world, "x", Piece(0, 0, 1, 255))
    submit(world, job("t", gpus=16, kinds=["H100", "A100"]))
    beat(world)
    answer = explain.why(world, DEFAULTS, 1)
    assert answer.cause == "over_limit"
    assert answer.questions[0].words == "24 `H100` under contract (`c`)"
    assert "16 `H100` free on 2 nodes" in answer.words


def test_what_is_free_on_nodes_that_are_too_small_is_not_counted():
    """8 are free beside 4 on a node of four: of these a job of 8 on one node could use none."""
    world = fleet(contract(gpus=16), contract("a100", kind="A100", gpus=4, per_node=4))
    submit(world, job("x", gpus=4, kinds=["H100"]), job("y", gpus=4, kinds=["H100"]))
    place(world, "x", Piece(0, 0, 1, 15))
    place(world, "y", Piece(0, 1, 1, 15))
    submit(world, job("t", gpus=8))
    beat(world)
    answer = explain.why(world, DEFAULTS, 2)
    assert answer.cause == "scattered"
    assert answer.do_not == "do not buy: 8 `H100` are free but scattered over 2 nodes"


def test_one_accelerator_is_one():
    """A held pod of one GPU requests one accelerator, not one accelerators."""
    held = UnplacedJob("ml/a", "ml", 1, "Gated", "a gate is closed", 0)
    assert "requests 1 accelerator and" in held_jobs.answer(held, HOUR_MS).words


def test_a_start_past_the_horizon_is_later_and_no_band():
    """Not even the earliest start lies within the horizon: `later`, said once."""
    row = PendingJob(1, "t", "a", "", 0, 8000, "8", "busy", 0, Band(None, None, None), "later")
    assert pending._eta(row) == "later"


def test_who_is_spared_by_the_cluster_is_named():
    """A job of more importance waits for one that a disruption budget keeps; else it has room."""
    policy = replace(DEFAULTS, min_run_ms=0, preempt_gain_ppm=0)
    world = fleet(nodes=1)
    world.scheduler, world.kept = "tidemill", frozenset({0})
    submit(world, job("low", gpus=8))
    beat(world, policy)
    submit(world, job("high", gpus=8, priority=1))
    beat(world, policy)
    answer = explain.why(world, policy, 1)
    assert answer.cause == "busy"
    assert "`low` would be preempted for it, and is not: a disruption budget" in answer.words
    world.keepers = {0: "the PodDisruptionBudget `ml/keep`"}
    said = explain.why(world, policy, 1).words
    assert "is not: the PodDisruptionBudget `ml/keep` does not let all of its pods go" in said
    world.kept = frozenset()
    assert explain.why(world, policy, 1).cause == "promised"
