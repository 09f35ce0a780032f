"""Running work by expected end, and reservations in one pass: as the slow and simple ways say."""

from random import Random

import pytest

from tests.builders import (
    RACK,
    SPINE,
    beat,
    crash,
    finish,
    fleet,
    job,
    pass_ms,
    racks,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.model.batch.sheet import Sheet
from tidemill.model.events import AskedEvict, Why
from tidemill.model.measures import HOUR_MS, ONE_PPM
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.scheduling.backfill import ends
from tidemill.scheduling.backfill.columns import ENDING, TALLY
from tidemill.scheduling.backfill.expected_ends import Running
from tidemill.scheduling.backfill.holds import kept
from tidemill.scheduling.desk import lines
from tidemill.scheduling.desk.columns import REG
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fitting import keeping
from tidemill.scheduling.schedule import Cycle
from tidemill.scheduling.snapshot import Snapshot

EASY = Policy(order="fifo", placement="pack", backfill="easy", may_preempt=False)
HISTORY = Policy(order="fifo", backfill="easy", estimates="history", may_preempt=False)
SEEDS = range(12)


def crowd(
    luck: Random, policy: Policy, steps: int = 30, *, has_racks: bool = False
) -> tuple[World, CycleMemo]:
    """A small fleet on which jobs of all sorts came, ran, ended, crashed and wait."""
    tiers, memo = (SPINE, RACK) if has_racks else (), CycleMemo()
    world = fleet(nodes=6, teams=[team("a"), team("b")], node_labels=racks(2, 2, 2), topology=tiers)
    for _ in range(steps):
        some_jobs(luck, world, has_racks=has_racks)
        beat(world, policy, memo)
        pass_ms(world, luck.randrange(HOUR_MS))
        running = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
        luck.shuffle(running)
        for j in running[: luck.randrange(3)]:
            end_somehow(luck, world, j)
    return world, memo


def some_jobs(luck: Random, world: World, *, has_racks: bool = False) -> None:
    for _ in range(luck.randrange(4)):
        gpus = luck.choice([1, 1, 2, 4, 8, 16, 24])
        milli = luck.choice([1000, 1000, 250]) if gpus == 1 else 1000
        cpu_milli = luck.choice([0, 0, 4000])
        submit(world, job(
            f"j{world.job_count}", gpus=gpus, milli=milli, cpu_milli=cpu_milli,
            team=luck.choice("ab"), estimate_ms=luck.randrange(1, 9 * HOUR_MS),
            bonds=[Bond("rack", is_required=False)] if has_racks and gpus > 4 else [],
        ))  # fmt: skip


def end_somehow(luck: Random, world: World, j: int) -> None:
    if luck.random() < 0.6:
        finish(world, world.job_names[j])
    else:
        crash(world, world.job_names[j])


def ask_to_leave(world: World, j: int) -> None:
    if not world.jobs.is_leaving[j]:
        fold(world, AskedEvict(world.now_ms, j, int(world.jobs.attempt[j]), Why.DRAINED, -1))


def simple_ends(world: World, estimates: Estimates) -> list[tuple[int, int]]:
    """The same from the rows, job by job."""
    jobs, found = world.jobs, []
    for j in world.placements:
        begin_ms = int(jobs.placed_ms[j] + jobs.startup_ms[j])
        begin_ms += int(jobs.restart_ms[j]) if jobs.attempt[j] > 1 else 0
        speed = int(jobs.speed_ppm[j])
        done_ms = int(jobs.saved_ms[j]) + max(0, world.now_ms - begin_ms) * speed // ONE_PPM
        left_ms = estimates.left_ms(world, j, done_ms) * ONE_PPM // speed
        end_ms = max(begin_ms, world.now_ms) + left_ms
        found.append((world.now_ms if jobs.is_leaving[j] else end_ms, j))
    return sorted(found)


@pytest.mark.parametrize("policy", [EASY, HISTORY], ids=["given", "history"])
@pytest.mark.parametrize("seed", SEEDS)
def test_expected_ends_are_kept_as_they_would_be_made(seed: int, policy: Policy):
    """What is kept from cycle to cycle is, at every step, what the rows say."""
    luck, world = Random(seed), fleet(nodes=6, teams=[team("a"), team("b")])
    memo, estimates = CycleMemo(), Estimates(policy)
    kept = Running(world, estimates)
    for step in range(40):
        some_jobs(luck, world)
        beat(world, policy, memo)
        pass_ms(world, luck.randrange(2 * HOUR_MS))
        running = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
        for j in luck.sample(running, min(len(running), luck.randrange(3))):
            end_somehow(luck, world, j)
        if step % 7 == 3 and running and running[0] in world.placements:
            ask_to_leave(world, running[0])
        expected = simple_ends(world, Estimates(policy))
        kept.read()
        assert [*zip(kept.ends_ms.tolist(), kept.jobs, strict=True)] == expected


@pytest.mark.parametrize("seed", range(4))
def test_of_many_ends_the_next_are_sorted_and_nobody_is_lost(seed: int):
    """By what changed: the next ends are those that the rows say, all others come after them."""
    luck, world = Random(seed), fleet(nodes=80, teams=[team("a"), team("b")])
    memo, running = CycleMemo(), Running(world, Estimates(EASY))
    was_far = False
    for step in range(12):
        for _ in range(680 if step == 0 else luck.randrange(60)):
            name, estimate_ms = f"j{world.job_count}", luck.randrange(1, 99 * HOUR_MS)
            submit(world, job(name, estimate_ms=estimate_ms))
        beat(world, EASY, memo)
        pass_ms(world, luck.randrange(3 * HOUR_MS))
        active = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
        for j in luck.sample(active, min(len(active), luck.randrange(60))):
            end_somehow(luck, world, j)
        expected = simple_ends(world, Estimates(EASY))
        w, kept = world.matrices, running.columns
        ends.catch_up(w, kept, running.estimates.learnt(world), world.now_ms)
        if luck.random() < 0.3:
            ends.sort_more(w, kept)
        near, count = kept.tally.item(TALLY.NEAR), kept.tally.item(TALLY.COUNT)
        sorted_ones = kept.order[:near].tolist()
        assert [(kept.rows.item(j, ENDING.AT_MS), j) for j in sorted_ones] == expected[:near]
        there = [j for j in kept.order[near:count].tolist() if ends.is_there(w.jobs, kept.rows, j)]
        assert sorted(there) == sorted(j for _, j in expected[near:])
        was_far = was_far or bool(there)
    assert was_far


@pytest.mark.parametrize("seed", SEEDS)
def test_who_of_a_line_ends_soonest_is_kept_while_others_come_and_go(seed: int):
    """Whether one of the first of a line would end by a moment is what its jobs say.

    Further behind somebody may end sooner, and be known of: then it is not said that nobody does.
    """
    luck, world, memo, found = (
        Random(seed),
        fleet(nodes=2, teams=[team("a"), team("b")]),
        CycleMemo(),
        0,
    )
    for _ in range(25):
        some_jobs(luck, world)
        beat(world, EASY, memo)
        pass_ms(world, luck.randrange(HOUR_MS))
        running = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
        for j in luck.sample(running, min(len(running), luck.randrange(3))):
            end_somehow(luck, world, j)
        w, d = world.matrices, Cycle(world, EASY, memo.scheduling, Sheet()).columns
        d.reg[REG.NOW] = world.now_ms
        for s in world.queued:
            lasts = [_lasts_ms(world, j) for j in world.waiting[s]]
            for ms in (min(lasts) - 1, min(lasts), min(lasts[:64]), luck.choice(lasts)):
                moment = world.now_ms + ms
                ends = lines.may_end_by(w.jobs, w.shapes, d.learnt, d.reg, d.asks, s, moment)
                assert (min(lasts) <= ms) >= ends >= (min(lasts[:64]) <= ms)
                found += ends
    assert found


def _lasts_ms(world: World, j: int) -> int:
    """How long after it is placed a waiting job is expected to end."""
    jobs, saved_ms = world.jobs, int(world.jobs.saved_ms[j])
    up_ms = int(jobs.startup_ms[j]) + (int(jobs.restart_ms[j]) if jobs.attempt[j] else 0)
    return up_ms + Estimates(EASY).left_ms(world, j, saved_ms)


@pytest.mark.parametrize("has_racks", [False, True], ids=["flat", "racks"])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_pass_finds_what_halving_finds(seed: int, has_racks: bool):
    """How many must end, and where the gang sits then, by its wishes; the room is as it was."""
    luck = Random(seed)
    world, memo = crowd(luck, EASY, has_racks=has_racks)
    room = memo.scheduling.room(world)
    found = 0
    for is_beside in (False, True):
        desk = Cycle(world, EASY, memo.scheduling, Sheet()).reservations
        running = desk._read_running()
        before = [column.tolist() for column in _columns(room)]
        for s in world.queued:
            j, count = world.waiting[s][0], len(desk.found)
            memo.scheduling.known(world, s)
            halved = desk._halve(running, s)
            if not desk._make_at_once(running, s, j):
                continue
            assert len(desk.found) == count + bool(halved[1])
            if halved[1]:
                one = desk.found[-1]
                at_ms = running.ends_ms.item(halved[0] - 1)
                assert (one.job, one.at_ms, one.pieces) == (j, at_ms, halved[1])
            assert [column.tolist() for column in _columns(room)] == before
            found += bool(halved[1])
            if not is_beside or count:
                del desk.found[count:]
    assert found or not world.queued


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_is_what_is_free_and_leaves_nothing(seed: int):
    """What is free of a reservation is taken, no more; given back, the room is as it was."""
    luck = Random(seed)
    world, _ = crowd(luck, EASY)
    shape = job("x", gpus=16, cpu_milli=5000).shape
    pieces = tuple(Piece(0, n, 1, luck.randrange(1, 256)) for n in (0, 3, 5))
    room = Snapshot(world)
    before = [column.tolist() for column in _columns(room)]
    cpu, memory, node, device = (list(column) for column in before)
    for piece in pieces:
        first = world.nodes.first_device.item(piece.node)
        for d in (first + bit for bit in range(8) if piece.devices >> bit & 1):
            node[piece.node] -= device[d]
            device[d] = 0
        cpu[piece.node] -= min(5000, cpu[piece.node])
    rows = kept(shape, pieces)
    keeping.keep(world.matrices, room.ground, rows, len(rows))
    assert [column.tolist() for column in _columns(room)] == [cpu, memory, node, device]
    assert [cpu, memory, node, device] != before
    keeping.let_go(world.matrices, room.ground, rows, len(rows))
    assert [column.tolist() for column in _columns(room)] == before


def _columns(room: Snapshot) -> tuple[I64, ...]:
    return room.cpu_free, room.memory_free, room.node_free, room.device_free
