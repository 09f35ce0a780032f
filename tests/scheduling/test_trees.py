"""A room that is kept up to date, and its trees, are as good as one made afresh from the World."""

import random

import numpy as np
import pytest

from tests.builders import (
    cancel,
    carry_out,
    contract,
    decide,
    fleet,
    job,
    lose_device,
    move_node,
    role,
    submit,
)
from tidemill.model.states import NodeState
from tidemill.model.world import Changes, World
from tidemill.scheduling.scores.scoring import PACKING, SPREADING
from tidemill.scheduling.snapshot import Snapshot

ROLES = [
    role(1, gpus=1), role(1, gpus=2, cpu_milli=3), role(1, gpus=4), role(1, gpus=1, milli=300),
    role(1, gpus=1, milli=500, memory_mib=2), role(3, gpus=2), role(1, gpus=0, cpu_milli=4),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_a_room_kept_up_to_date_is_a_fresh_one(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Whatever happened and whatever was tried, trees and sweeps fill requests the same way."""
    monkeypatch.setattr("tidemill.scheduling.requests.SWEPT_AT_MOST", 0)
    luck = random.Random(seed)
    world = fleet(contract(gpus=24, per_node=4, cpu_milli=20, memory_mib=16))
    kept, is_ok = Snapshot(world), np.ones(1, np.int64)
    for step in range(25):
        _something_happens(world, luck, step)
        kept.refresh(world)
        fresh = Snapshot(world, sweeps=True)
        for _ in range(luck.randrange(6)):
            asked, policy = luck.choice(ROLES), SPREADING if luck.random() < 0.3 else PACKING
            assert kept.fill(asked, is_ok, policy) == fresh.fill(asked, is_ok, policy)
        assert _free(kept) == _free(fresh)


def test_a_request_beyond_the_bound_is_placed_by_a_sweep(monkeypatch: pytest.MonkeyPatch):
    """Without a tree a request finds the same node."""
    world, is_ok = fleet(nodes=3), np.ones(1, np.int64)
    expected = [Snapshot(world).fill(ROLES[0], is_ok, policy) for policy in (PACKING, SPREADING)]
    monkeypatch.setattr("tidemill.scheduling.requests.BYTES_AT_MOST", 0)
    assert [
        Snapshot(world).fill(ROLES[0], is_ok, policy) for policy in (PACKING, SPREADING)
    ] == expected


def test_changes_are_bounded_and_say_when_they_were_forgotten():
    """Old changes are dropped; a reader who missed them is told to look at everything."""
    changes = Changes(World())
    for n in range(2 * Changes.KEPT + 1):
        changes.add(n)
    assert changes.end == 2 * Changes.KEPT + 1
    assert changes.are_known_since(changes.end - 1)
    assert not changes.are_known_since(0)


def _something_happens(world: World, luck: random.Random, step: int) -> None:
    n = luck.randrange(world.node_count)
    match luck.randrange(6), NodeState(world.nodes.state[n]):
        case 0, _ if world.placements:
            cancel(world, world.job_names[luck.choice(sorted(world.placements))])
        case 1, NodeState.READY if not world.nodes.failed[n]:
            lose_device(world, n, luck.randrange(4))
        case 2, NodeState.READY:
            move_node(world, n, NodeState.CORDONED)
        case 2, NodeState.CORDONED:
            move_node(world, n, NodeState.READY)
        case _:
            submit(world, job(f"j{step}", roles=[luck.choice(ROLES)]))
            carry_out(world, decide(world))


def _free(room: Snapshot) -> list[list[int]]:
    return [
        column.tolist()
        for column in (room.cpu_free, room.memory_free, room.node_free, room.device_free)
    ]
