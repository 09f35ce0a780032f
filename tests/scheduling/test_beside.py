"""A place beside whole nodes that are reserved: the one that a room without them would give."""

from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from tests.builders import finish, job
from tests.scheduling.test_running import EASY, crowd
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling.fitting import node_ranking, sweeps
from tidemill.scheduling.fitting.columns import BITS, REQUEST
from tidemill.scheduling.fitting.node_ranking import FEW, MANY
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.scores.tables import BLANK
from tidemill.scheduling.snapshot import Snapshot


def without(world: World, nodes: list[int]) -> Snapshot:
    """A room in which nothing of some nodes is free."""
    room = Snapshot(world)
    for n in nodes:
        first = world.nodes.first_device.item(n)
        room.device_free[first : first + world.nodes.devices.item(n)] = 0
        room.node_free[n] = 0
    return room


@pytest.mark.parametrize("placement", ["pack", "spread", "fgd", "tide"])
@pytest.mark.parametrize("seed", range(6))
def test_one_of_few_nodes_is_chosen_as_by_a_tournament(seed: int, placement: str):
    """Whichever nodes are reserved, the others are ranked alike; none is left: nothing is found."""
    luck, policy, found = Random(seed), replace(EASY, placement=placement), 0
    world, memo = crowd(luck, policy)
    running = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
    for j in luck.sample(running, len(running) * 2 // 3):
        finish(world, f"j{j}")
    scoring, is_ok = memo.scheduling.scoring(world, policy), np.ones(len(world.groups), np.int64)
    tables = BLANK if scoring.tables is None else scoring.tables
    for _ in range(20):
        role = job("x", gpus=luck.choice([1, 1, 2, 4])).shape.roles[0]
        reserved = luck.sample(range(world.node_count), luck.randrange(world.node_count))
        room = Snapshot(world)
        r = room.request(role, is_ok, scoring, is_placed=True)
        packed = room.request(role, is_ok, PACKING)
        for n in reserved:
            room.ground.reserved[n // BITS] |= 1 << n % BITS
        sweeps.count_hosts(world.matrices, room.ground, packed)
        h = room.ground.requests.item(packed, REQUEST.HOSTS_ROW)
        count = node_ranking.seat_among_few(world.matrices, room.ground, tables, r, h)
        assert count != MANY
        assert room.placed(count) == without(world, reserved).fill(role, is_ok, scoring).placed
        found += count
    assert found
    assert world.node_count <= FEW
