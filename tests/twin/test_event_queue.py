"""The twin's queue in columns: a heap of rows, arrivals read ahead, moments folded at once."""

import heapq
import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.builders import contract, job, role, team
from tests.twin import greedy
from tidemill.core import snapshot
from tidemill.engine.fold.batch import Inflow
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_events
from tidemill.model.batch.sheet import Sheet
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import MINUTE_MS
from tidemill.model.rows import Demand, Job
from tidemill.model.world import World
from tidemill.twin import coming
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.backend import Twin
from tidemill.twin.event_queue import heap
from tidemill.twin.event_queue.agenda import Agenda
from tidemill.twin.faults import Faults, LogNormal


@pytest.mark.parametrize("seed", range(5))
def test_the_queue_is_a_heap_of_tuples(seed: int):
    """Whatever is pushed comes out as from a heap of (time, rank, serial, who, stamp, ...)."""
    luck, agenda, naive = random.Random(seed), Agenda(), list[tuple[int, ...]]()
    for serial in range(1, 600):
        said = luck.randrange(40), luck.randrange(4), *(luck.randrange(9) for _ in range(4))
        agenda.make_room(1)
        assert heap.push(agenda.t.clock, agenda.t.entries, *said) == serial
        heapq.heappush(naive, (*said[:2], serial, *said[2:]))
        while naive and luck.random() < 0.45:
            assert agenda.next_ms == naive[0][0]
            assert agenda.pop() == (heapq.heappop(naive), None)
    assert len(agenda) == len(naive)
    assert [agenda.pop()[0] for _ in range(len(naive))] == sorted(naive)


def _arrivals(luck: random.Random) -> list[Arrival]:
    """Jobs of all sorts: that crash, fail, are taken back, have loads, or share a device."""
    found, at_ms = [], 0
    for i in range(150):
        at_ms += luck.choice([0, 0, 1, 200, 900])
        gpus = luck.choice([1, 1, 2, 8])
        row = job(
            f"j{i}", roles=[role(luck.choice([1, 1, 3]), gpus=gpus)], team=luck.choice("ab"),
            startup_ms=luck.choice([0, 70]), saves_every_ms=luck.choice([0, 300]), save_ms=10,
            restart_ms=50,
        )  # fmt: skip
        found.append(
            Arrival(
                at_ms, row, luck.choice([1, 700, 4000]), luck.choice([*Ending, Ending.FINISHED]),
                luck.choice([(), (), (150,), (300, 20, 900)]),
                luck.choice([None, None, Spell(500, 400_000), Tide((0, 300_000, 10**6), 800)]),
            )
        )  # fmt: skip
    return found


def _twin(luck: random.Random) -> Twin:
    faults = Faults(
        node_rate=luck.choice([0.0, 3e7]), device_share=0.3, startup_spread=0.4, evict_ms=20,
        retries=1, repair=LogNormal(400), boot=LogNormal(100), lost_races=luck.choice([0.0, 0.2]),
    )  # fmt: skip
    return Twin(
        [contract("c", gpus=48)], [team("a"), team("b")], _arrivals(luck), faults=faults,
        horizon_ms=MINUTE_MS,
    )  # fmt: skip


def _plan(luck: random.Random) -> greedy.Decide:
    """Greedy; but now and then somebody is evicted, or cancelled."""

    def decide(world: World) -> Iterator[ev.Action]:
        for j in sorted(world.placements):
            if not world.jobs.is_leaving[j] and luck.random() < 0.03:
                if luck.random() < 0.3:
                    yield ev.AskedCancel(world.now_ms, j, ev.Why.IDLE)
                else:
                    yield ev.AskedEvict(world.now_ms, j, int(world.jobs.attempt[j]), ev.Why.MOVED)
        yield from greedy.decide(world)

    return decide


def _folded_at_once(twin: Twin, plan: greedy.Decide) -> tuple[World, list[ev.Event]]:
    """As ``greedy.run``, by moments that are folded as they are told."""
    world, sheet = World(), Sheet(twin.dictionary)
    inflow = Inflow(world)
    while twin.next_ms() is not None:
        twin.happen(inflow, sheet)
        actions = []
        for action in plan(world):
            inflow.single(action)
            actions.append(action)
        sheet.write(actions)
        twin.carry_out(world, ev.Plan(tuple(actions)))
    return world, to_events(sheet.batch())


@pytest.mark.parametrize("seed", range(4))
def test_a_moment_that_is_folded_at_once_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Told and folded in one call, or told first and folded after: one journal, one state."""
    monkeypatch.setattr(coming, "AT_ONCE", 7)
    first, second = (random.Random(seed) for _ in range(2))
    world, journal = greedy.run(_twin(first), _plan(first))
    found, told = _folded_at_once(_twin(second), _plan(second))
    assert told == journal
    assert snapshot.digest(found) == snapshot.digest(world)


def _stream(count: int, read: list[str]) -> Iterator[tuple[int, Job, int]]:
    for i in range(count):
        read.append(f"j{i}")
        yield 10 * i, job(f"j{i}", roles=[role(1, gpus=1)], team="a"), 5


def test_a_stream_is_read_a_block_ahead():
    """No more than a block of a stream is read before it is needed."""
    read = list[str]()
    twin = Twin([contract("c")], [team("a")], _stream(5_000, read))
    world = World()
    for _ in range(40):
        greedy.step(twin, world, [])
    assert 0 < world.job_count < len(read) == coming.AT_ONCE


def test_a_stream_that_goes_back_is_refused_in_its_turn():
    """Moments before a job that comes out of order are told; then it is refused by name."""

    def stream() -> Iterator[tuple[int, Job, int]]:
        yield from _stream(3, [])
        yield 1, job("late", roles=[role(1, gpus=1)], team="a"), 5

    journal = list[ev.Event]()
    twin, world = Twin([contract("c")], [team("a")], stream()), World()
    while twin.next_ms() != 20:
        greedy.step(twin, world, journal)
    with pytest.raises(SpecError, match="job `late` arrives at 1 ms"):
        greedy.step(twin, world, journal)
    assert [e.job.name for e in journal if isinstance(e, ev.JobSubmitted)] == ["j0", "j1"]


def test_a_name_that_comes_twice_is_refused_in_its_turn():
    """Rows that are written ahead change nothing: the second job of a name is refused."""
    twice = [(at_ms, job("j", roles=[role(1, gpus=1)], team="a"), 5) for at_ms in (1, 900)]
    twin, world = Twin([contract("c")], [team("a")], twice), World()
    inflow, sheet = Inflow(world), Sheet(twin.dictionary)
    while (at_ms := twin.next_ms()) is not None and at_ms < 900:
        twin.happen(inflow, sheet)
        twin.carry_out(world, ev.Plan())
    with pytest.raises(EventRefused, match="job `j` is submitted twice"):
        twin.happen(inflow, sheet)
    assert [type(event) for event in to_events(sheet.batch())].count(ev.JobSubmitted) == 1
    assert (world.now_ms, [*world.job_names]) == (1, ["j"])


def test_neighbours_are_told_before_they_are_folded():
    """Where jobs share devices a moment is told as messages, and folded by itself."""
    halves = [job(f"j{i}", roles=[role(1, gpus=1, milli=500)], team="a") for i in range(2)]
    arrivals = [Arrival(1, replace(one, demand=Demand(600_000)), 50) for one in halves]
    world, journal = greedy.run(Twin([contract("c", gpus=8)], [team("a")], arrivals))
    found, told = _folded_at_once(
        Twin([contract("c", gpus=8)], [team("a")], arrivals), greedy.decide
    )
    assert told == journal
    assert any(isinstance(event, ev.PaceSeen) for event in told)
    assert snapshot.digest(found) == snapshot.digest(world)
