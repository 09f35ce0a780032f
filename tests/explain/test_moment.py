"""Answers are about the moment that was asked for, and about one count of what is busy."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.builders import DEFAULTS, beat, contract, fleet, job, opening, pass_ms, submit, team
from tests.cli.shell import tidemill
from tidemill import api, explain
from tidemill.explain import inventory
from tidemill.journal import open_journal
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.world import World


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A journal whose last event is a job that never fits, submitted at 1 h."""
    where = str(tmp_path / "still.sqlite")
    events: Iterable[ev.Event] = [
        *opening(contract(gpus=16), teams=[team("a")]),
        ev.JobSubmitted(HOUR_MS, job("big", gpus=64, per_node=8)),
    ]
    with open_journal(where, create=True) as kept:
        kept.append(list(events))
    return where


@pytest.mark.parametrize("hours", [1, 6, 14, 20])
def test_time_passes_up_to_the_moment_that_was_asked_for(journal: str, hours: int):
    """A job submitted at 1 h has waited five hours at 6 h, though nothing happened in between."""
    world, policy = api.open_world(journal, hours * HOUR_MS)
    assert world.now_ms == hours * HOUR_MS
    answer = explain.why(world, policy, world.job_number["big"])
    assert answer.waited_ms == (hours - 1) * HOUR_MS
    assert explain.board(world, policy).at_ms == hours * HOUR_MS


def test_every_command_with_at_shows_that_moment(journal: str):
    """`pending --at 6h` is headed 06:00; JSON says the same; what comes after the end is noted."""
    shown = tidemill("pending", "-j", journal, "--at", "6h")
    assert shown.out.startswith("day 0 06:00")
    assert "the journal ends at day 0 01:00" in shown.err
    for words in (("pending",), ("fleet",), ("fleet", "--nodes")):
        found = json.loads(tidemill(*words, "-j", journal, "--at", "6h", "--json").out)
        assert found["at_ms"] == 6 * HOUR_MS
    why = json.loads(tidemill("why", "big", "-j", journal, "--at", "6h", "--json").out)
    assert why["answer"]["waited_ms"] == 5 * HOUR_MS


def busy_by_hand(world: World, kind: str) -> int:
    """What jobs hold of a GPU type, piece by piece."""
    return sum(
        piece.replicas * world.shape_of(j).roles[piece.role].replica_milli
        for j, pieces in world.placements.items()
        for piece in pieces
        if world.kinds[int(world.nodes.kind[piece.node])] == kind
    )


def test_fit_and_fleet_count_the_same_as_busy():
    """`fit` and `fleet` say of one moment that as much is busy as jobs hold, one by one."""
    contracts = [contract("c", gpus=16), contract("d", gpus=8)]
    world = fleet(*contracts, teams=[team("a")])
    submit(world, job("one", gpus=12, per_node=4), job("half", gpus=1, milli=500))
    beat(world)
    submit(world, job("two", gpus=8))  # not looked at yet: the next cycle would place it
    pass_ms(world, HOUR_MS)
    held = busy_by_hand(world, "H100")
    assert held == 12_500
    assert sum(row.in_use_milli for row in inventory.contracts(world)) == held
    asked = explain.fit(world, DEFAULTS, job("asked", gpus=16, per_node=8, estimate_ms=HOUR_MS))
    assert asked.answer is not None
    assert {fact.name: fact.value for fact in asked.answer.evidence}["busy"] == held
