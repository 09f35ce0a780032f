"""What will be free when a reservation begins: kept by change, as giving back one by one says."""

from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from tests.builders import beat, fleet, job, pass_ms, team
from tests.scheduling.test_running import EASY, end_somehow, simple_ends, some_jobs
from tidemill.engine.cycle import CycleMemo
from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.backfill import ends, later
from tidemill.scheduling.backfill.columns import TALLY
from tidemill.scheduling.backfill.expected_ends import Running
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fitting import sweeps
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot

NOBODY = -1


class Then(NamedTuple):
    """What is free when enough have ended: how many those are, what nodes take, and where."""

    ended: int
    hosts: list[int]
    pieces: tuple[tuple[int, ...], ...]


def enough_simply(world: World, role: Role, is_ok: I64) -> Then:
    """How many must end until all replicas fit, what each node takes then, and where they sit."""
    room = Snapshot(world)
    for count, (_, j) in enumerate(simple_ends(world, Estimates(EASY)), start=1):
        room.give(world.shape_of(j), world.placements[j])
        if room.count_hosts(role, is_ok) >= role.count:
            hosts = room.hosts(role, is_ok).tolist()
            return Then(count, hosts, room.sweep(role, is_ok).placed)
    return Then(NOBODY, [], ())


@pytest.mark.parametrize("seed", range(6))
def test_what_will_be_free_is_kept_by_what_changed(seed: int):
    """Who has to end, what fits then and where is at every step what the rows say; the room stays.

    Where nothing changed of it, that is known, and is true.
    """
    luck, world, memo = Random(seed), fleet(nodes=6, teams=[team("a"), team("b")]), CycleMemo()
    running, room, kept_on, same = Running(world, Estimates(EASY)), Snapshot(world), 0, 0
    role, is_ok = job("x", gpus=4).shape.roles[0], np.ones(len(world.groups), np.int64)
    for step in range(40):
        some_jobs(luck, world)
        beat(world, EASY, memo)
        pass_ms(world, luck.randrange(HOUR_MS // 4))
        active = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
        for j in luck.sample(active, min(len(active), luck.randrange(3))):
            end_somehow(luck, world, j)
        room.refresh(world)
        if step % 5 == 0:
            role = replace(role, count=luck.randrange(6, 13))
        expected = enough_simply(world, role, is_ok)
        w, kept, r = world.matrices, running.columns, room.request(role, is_ok, PACKING)
        ends.catch_up(w, kept, running.estimates.learnt(world), world.now_ms)
        before = [column.tolist() for column in (room.ground.spots, room.ground.parts)]
        kept_on += later.is_kept(w, room.ground, kept, r, 0, 0)
        later.keep_up(w, room.ground, kept, r, 0, 0)
        short = role.count * role.accelerators * WHOLE_MILLI - room.kind_free.item(0)
        found = later.enough_then(w, room.ground, kept, role.count, short)
        same += kept.tally.item(TALLY.IS_SAME)
        assert found == expected.ended
        if expected.ended != NOBODY:
            assert kept.tally[TALLY.HOSTED] == sum(expected.hosts)
            assert room.placed(later.fill_then(room.ground, kept, role.count)) == expected.pieces
            sweeps.count_hosts(w, room.ground, r)
            later.lend_hosts(w, room.ground, kept, 1)
            assert room.hosts(role, is_ok).tolist() == expected.hosts
            later.lend_hosts(w, room.ground, kept, -1)
            kept.tally[TALLY.IS_SAME] = 1
        assert [column.tolist() for column in (room.ground.spots, room.ground.parts)] == before
    assert kept_on
    assert same
