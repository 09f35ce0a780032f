"""Answers in time: 10,000 nodes, 10,000 running and 5,000 waiting jobs of 5,000 shapes."""

import time

import pytest

from tests.builders import DEFAULTS, contract, job, opening, team
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine import cycle as one
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.world import World

NODES, WAITING = 10_000, 5_000
LIMIT_S = 1.0


def crowd(nodes: int, waiting: int) -> World:
    """A fleet in racks of 32 with 6 of 8 devices taken everywhere, and a long, varied queue."""
    half = nodes // 2 * 8
    contracts = [contract("c", gpus=half), contract("d", gpus=half, kind="A100")]
    teams = [team(f"team{q}", floor=100) for q in range(10)]
    racks = [{"rack": f"r{n // 32}"} for n in range(nodes)]
    world = fold_all(World(), opening(*contracts, teams=teams, node_labels=racks))
    for n in range(nodes):
        row = job(f"r{n}", gpus=6, team=f"team{n % 10}", priority=n % 3, estimate_ms=n * HOUR_MS)
        fold(world, ev.JobSubmitted(0, row))
        fold(world, ev.AskedPlace(0, n, 1, (Piece(0, n, 1, 0b111111),)))
        fold(world, ev.JobStarted(0, n, 1))
    kinds = [("H100",), ("A100",), ()]
    for i in range(waiting):
        gpus, per_node = [(4, 4), (8, 8), (32, 8), (128, 8), (2, 1)][i % 5 if i % 50 else 4]
        row = job(
            f"w{i}", gpus=gpus, per_node=per_node, team=f"team{i % 10}", priority=i % 4,
            cpu_milli=1 + i, kinds=kinds[i % 3], estimate_ms=HOUR_MS,
        )  # fmt: skip
        fold(world, ev.JobSubmitted(HOUR_MS, row))
    return world


@pytest.fixture(scope="module")
def looked_at() -> World:
    """The crowd after the scheduler has looked at it once, and half a day of waiting."""
    small = crowd(64, 50)  # loads the compiled loops, which is not what is measured
    explain.why(small, DEFAULTS, small.waiting[next(iter(small.queued))][0])
    world = crowd(NODES, WAITING)
    fold_all(world, one.cycle(world, DEFAULTS, one.CycleMemo()).actions)
    fold(world, ev.Woke(13 * HOUR_MS))
    return world


def seconds(world: World, policy: Policy, j: int) -> float:
    """Processor time of the quickest of three answers: who else uses the machine does not count."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        explain.why(world, policy, j)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_why_takes_less_than_a_second(looked_at: World, place: str):
    """Any of 5,000 waiting jobs on 10,000 nodes is explained in under a second of processor."""
    queue = sorted(j for s in looked_at.queued for j in looked_at.waiting[s])
    assert (looked_at.node_count, len(queue) > 4_000) == (NODES, True)
    j = queue[{"first": 0, "middle": len(queue) // 2, "last": -1}[place]]
    assert seconds(looked_at, DEFAULTS, j) < LIMIT_S


def test_why_is_quick_before_the_scheduler_has_looked():
    """A World that no cycle has seen yet is no slower: the look at rivals is bounded."""
    world = crowd(NODES, WAITING)
    assert seconds(world, DEFAULTS, world.job_count - 1) < LIMIT_S


def test_every_node_says_its_verdict_in_a_second(looked_at: World):
    """The table of 10,000 rows is made in under a second of processor time."""
    j = looked_at.waiting[next(iter(looked_at.queued))][0]
    start = time.process_time()
    rows = explain.verdicts(looked_at, j)
    assert time.process_time() - start < LIMIT_S
    assert len(rows) == NODES


def test_nothing_is_written(looked_at: World):
    """An answer, a board and verdicts leave the World as it was, byte for byte."""
    before = snapshot.digest(looked_at)
    j = looked_at.waiting[next(iter(looked_at.queued))][0]
    explain.why(looked_at, DEFAULTS, j)
    explain.verdicts(looked_at, j)
    explain.board(looked_at, DEFAULTS)
    assert snapshot.digest(looked_at) == before


def test_what_is_not_tried_is_said(looked_at: World):
    """So many shapes wait that no change is tried: the answer says so; before, it was silent."""
    j = looked_at.waiting[next(iter(looked_at.queued))][0]
    answer = explain.why(looked_at, DEFAULTS, j)
    assert not [fix for fix in (answer.fix, *answer.other_fixes) if fix.instead]
    assert "on 10,000 nodes with" in answer.untried
    assert answer.untried in answer.words
    small = crowd(8, 8)
    assert not explain.why(small, DEFAULTS, small.job_count - 1).untried
