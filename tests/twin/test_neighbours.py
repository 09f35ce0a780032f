"""Neighbours in the twin: jobs on one device slow each other, told by events, exactly accounted."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builders import contract, job, role, team
from tests.twin.test_driving import Kept
from tidemill import api
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.engine.loop import Loop
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.fixes import fixes
from tidemill.ledger.reader import Ledger
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, ONE_PPM
from tidemill.model.policy import Policy
from tidemill.model.rows import Demand, Job
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival, Ending
from tidemill.twin.backend import Twin
from tidemill.twin.faults import FaultAt, Faults
from tidemill.twin.neighbours import Sharing
from tidemill.units.sharing import fluid

EXAMPLE = Path(__file__).parents[2] / "examples" / "sharing-a-gpu.toml"
FULL, READER = Demand(compute_ppm=ONE_PPM), Demand(bandwidth_ppm=ONE_PPM)


def half(name: str, demand: Demand | None, saves_every_ms: int = 0, save_ms: int = 0) -> Job:
    """A job on half a device."""
    row = job(name, roles=[role(1, gpus=1, milli=500)], saves_every_ms=saves_every_ms,
              save_ms=save_ms)  # fmt: skip
    return replace(row, demand=demand)


def played(
    arrivals: list[Arrival], sharing: Sharing = "mps", gpus: int = 1
) -> tuple[Kept, World, Ledger]:
    """The story of some jobs on a node of so many devices."""
    twin = Twin([contract("c", gpus=gpus, per_node=gpus)], [team("a")], arrivals, sharing=sharing)
    world, kept, ledger = World(), Kept(), Ledger(Policy())
    Loop(world, Policy(), twin, kept, [ledger], 64).run()
    return kept, world, ledger


def finishes(kept: Kept) -> dict[int, int]:
    """When each job finished, by its number."""
    return {e.job: e.at_ms for e in kept if isinstance(e, ev.JobFinished)}


def paces(kept: Kept) -> list[tuple[int, int, int]]:
    """Moments, jobs and what they are slowed by."""
    return [(e.at_ms, e.job, e.beside_ppm) for e in kept if isinstance(e, ev.PaceSeen)]


def booked(ledger: Ledger, bucket: Bucket) -> int:
    """Milli·ms in a bucket."""
    cells = ledger.cells()
    return int(cells.milli_ms[cells.bucket == bucket].sum())


def test_two_that_fill_a_device_take_twice_as_long():
    """Under MPS an hour of work beside one's like takes two, and half of the time is lost."""
    kept, world, ledger = played([Arrival(0, half(name, FULL), HOUR_MS) for name in ("x", "y")])
    begun = next(e.at_ms for e in kept if isinstance(e, ev.JobStarted))
    assert paces(kept)[:2] == [(begun, 0, ONE_PPM), (begun, 1, ONE_PPM)]
    assert finishes(kept) == {0: begun + 2 * HOUR_MS, 1: begun + 2 * HOUR_MS}
    assert booked(ledger, Bucket.INTERFERENCE) == 1000 * HOUR_MS
    assert not world.paces


def test_a_neighbour_that_comes_and_goes():
    """Alone for half an hour, beside another until that is done, then alone again: a job of two
    hours loses as long as the other's work lasted. The journal alone rebuilds all of it.
    """
    kept, world, ledger = played(
        [
            Arrival(0, half("long", FULL), 2 * HOUR_MS),
            Arrival(HOUR_MS, half("short", FULL), 30 * MINUTE_MS),
        ]
    )
    begun = next(e.at_ms for e in kept if isinstance(e, ev.JobStarted))
    came = next(e.at_ms for e in kept if isinstance(e, ev.JobStarted) and e.job == 1)
    assert paces(kept) == [
        (came, 0, ONE_PPM), (came, 1, ONE_PPM), (came + HOUR_MS, 0, 0)
    ]  # fmt: skip
    assert finishes(kept) == {1: came + HOUR_MS, 0: begun + 2 * HOUR_MS + 30 * MINUTE_MS}
    assert booked(ledger, Bucket.INTERFERENCE) == 500 * HOUR_MS
    assert snapshot.dump(fold_all(World(), kept)) == snapshot.dump(world)


def test_unlike_axes_do_not_meet_under_mps():
    """One that computes and one that reads share a device for nothing under MPS; taking turns they
    halve each other.
    """
    pair = [Arrival(0, half("x", FULL), HOUR_MS), Arrival(0, half("y", READER), HOUR_MS)]
    kept, _, ledger = played(pair)
    assert paces(kept) == []
    assert booked(ledger, Bucket.INTERFERENCE) == 0
    kept, _, ledger = played(pair, sharing="time-slice")
    assert booked(ledger, Bucket.INTERFERENCE) > 1000 * HOUR_MS


@pytest.mark.parametrize("other", [None, FULL])
def test_off_unless_both_say_what_they_use(other: Demand | None):
    """A job that said nothing slows nobody; nor does one on another device."""
    kept, _, _ = played(
        [Arrival(0, half("x", FULL), HOUR_MS), Arrival(0, half("y", None), HOUR_MS)]
    )
    assert paces(kept) == []
    whole = [Arrival(0, job(name), HOUR_MS) for name in ("x", "y")]
    whole = [a._replace(job=_with(a.job, other)) for a in whole]
    kept, _, _ = played(whole, gpus=2)
    assert paces(kept) == []


def _with(row: Job, demand: Demand | None) -> Job:
    return replace(row, demand=demand)


def test_what_was_saved_before_a_crash_is_what_was_done():
    """A job that saves every ten minutes and dies after 65 beside its like has done half of what
    was saved: 30 of 60 minutes, and goes on from there.
    """
    rows = [
        Arrival(0, half("x", FULL, 10 * MINUTE_MS), HOUR_MS, Ending.FINISHED, (65 * MINUTE_MS,)),
        Arrival(0, half("y", FULL), 10 * HOUR_MS),
    ]
    twin = Twin([contract("c", gpus=1, per_node=1)], [team("a")], rows, sharing="mps")
    world, kept = World(), Kept()
    beats = Loop(world, Policy(), twin, kept, [], 1)
    while not any(isinstance(e, ev.JobFailed) for e in kept):
        beats.beat(twin.next_ms() or 0)
    assert world.jobs.saved_ms[0] == 30 * MINUTE_MS
    assert world.jobs.reached_ms[0] == 32 * MINUTE_MS + 30_000
    beats.run()
    again = [e.at_ms for e in kept if isinstance(e, ev.JobStarted) and e.job == 0][1]
    assert finishes(kept)[0] == again + HOUR_MS


@pytest.mark.parametrize("seed", range(12))
def test_work_is_neither_lost_nor_made(seed: int):
    """Random jobs of random parts of devices, with saves, crashes and idle neighbours: whoever
    finished did exactly its work, and what the ledger holds adds up.
    """
    luck = random.Random(seed)
    rows = [_random(luck, i) for i in range(60)]
    sharing: Sharing = "mps" if seed % 2 else "time-slice"
    twin = Twin([contract("c", gpus=4, per_node=4)], [team("a")], rows, sharing=sharing)
    world, kept, ledger = World(), Kept(), Ledger(Policy())
    Loop(world, Policy(), twin, kept, [ledger], 64).run()
    assert any(isinstance(e, ev.PaceSeen) for e in kept)
    assert booked(ledger, Bucket.INTERFERENCE) > 0
    _expect_work_done(kept, {f"j{i}": row.work_ms for i, row in enumerate(rows)})


def _random(luck: random.Random, i: int) -> Arrival:
    demand = Demand(luck.choice([0, 400_000, ONE_PPM]), luck.choice([0, 700_000]))
    milli = luck.choice([250, 500, 500, 1000])
    row = job(f"j{i}", roles=[role(luck.choice([1, 1, 2]), gpus=1, milli=milli)],
              saves_every_ms=luck.choice([0, 0, 60_000]), save_ms=luck.choice([0, 1_500]),
              startup_ms=luck.choice([0, 3_000]))  # fmt: skip
    row = _with(row, demand if luck.random() < 0.9 else None)
    crashes = (luck.randrange(1, 400_000),) if luck.random() < 0.2 else ()
    work_ms = luck.randrange(1, 900_000)
    return Arrival(luck.randrange(600_000), row, work_ms, Ending.FINISHED, crashes)


def _expect_work_done(kept: Kept, wanted: dict[str, int]) -> None:
    """Integrate each last attempt second by second of the journal, with fractions of a rule."""
    world = World()
    done: dict[int, float] = {}
    for event in kept:
        if isinstance(event, ev.JobFinished):
            j = event.job
            worked = world.jobs.saved_ms.item(j) + _at_work(world, j, event.at_ms)
            # each change of pace rounds down once, and the end up once
            assert abs(worked - wanted[world.job_names[j]]) <= 2 + len(world.paces.get(j, ()))
            done[j] = worked
        fold_all(world, [event])
    assert len(done) > 40


def _at_work(world: World, j: int, at_ms: int) -> float:
    """Work of an attempt up to its end, by a plain walk over its changes of pace."""
    origin, every, cost = (
        world.jobs.origin_ms.item(j), world.jobs.interval_ms.item(j), world.jobs.cost_ms.item(j)
    )  # fmt: skip
    edges = [(origin, 0), *world.paces.get(j, ()), (at_ms, 0)]
    total = 0.0
    for (start, ppm), (end, _) in pairwise(edges):
        spent = _worked(end - origin, every, cost) - _worked(start - origin, every, cost)
        total += spent / (1 + ppm / ONE_PPM)
    return total


def _worked(elapsed_ms: int, every: int, cost: int) -> int:
    """Time at work, without time spent saving."""
    if every <= 0:
        return elapsed_ms
    whole, rest = divmod(elapsed_ms, every + cost)
    return whole * every + min(rest, every)


def test_the_example_books_interference(tmp_path: Path):
    """The example's ledger has the bucket, modelled and with a fix; sums stay exact. Under MPS,
    where unlike axes do not meet, less is lost than in turns.
    """
    lost = {}
    for sharing in ("mps", "time-slice"):
        text = EXAMPLE.read_text(encoding="utf-8")
        text = text.replace('sharing = "mps"', f'sharing = "{sharing}"').replace("4d", "1d")
        spec = tmp_path / f"{sharing}.toml"
        spec.write_text(text, encoding="utf-8")
        journal = str(tmp_path / f"{sharing}.sqlite")
        api.simulate(api.load_spec(spec), journal)
        statement = api.read_statement(journal)
        total = statement.total()
        paid = 32_000 * DAY_MS
        assert total.paid_milli_ms == sum(total.milli_ms) == paid
        lost[sharing] = total.milli_ms[Bucket.INTERFERENCE]
        assert (fixes(statement, Bucket.INTERFERENCE)[0].touches_usd_micro or 0) > 0
    assert 0.05 * paid < lost["mps"] < lost["time-slice"] < 0.6 * paid


@pytest.mark.parametrize("seed", range(6))
def test_only_what_changed_is_looked_at_and_that_is_enough(seed: int):
    """After every beat, everybody's pace is what a look at all devices says it should be."""
    luck = random.Random(1000 + seed)
    sharing: Sharing = "mps" if seed % 2 else "time-slice"
    faults = Faults(schedule=tuple(FaultAt(50_000 * k, luck.randrange(2), 30_000)
                                   for k in range(1, 5)))  # fmt: skip
    twin = Twin([contract("c", gpus=8, per_node=4)], [team("a")],
                [_random(luck, i) for i in range(40)], sharing=sharing, faults=faults,
                horizon_ms=HOUR_MS)  # fmt: skip
    world, kept = World(), Kept()
    beats, looks = Loop(world, Policy(), twin, kept, [], 1), 0
    while (at_ms := twin.next_ms()) is not None:
        beats.beat(at_ms)
        after_ms = twin.next_ms()
        if after_ms is not None and after_ms > world.now_ms:  # all of this moment was told
            told = {j: paces[-1][1] for j, paces in world.paces.items() if paces[-1][1]}
            assert told == _paces_by_looking(world, kept, sharing)
            looks += bool(told)
    assert looks > 20


def _paces_by_looking(world: World, kept: Kept, sharing: Sharing) -> dict[int, int]:
    """Every running job beside everybody on its devices, by the journal's own words."""
    jobs = [event.job for event in kept if isinstance(event, ev.JobSubmitted)]
    said = {j: row.demand for j, row in enumerate(jobs) if row.demand is not None}
    running = [j for j in sorted(world.placements) if world.jobs.state[j] == JobState.RUNNING]
    seats: dict[tuple[int, int], list[int]] = {}
    for j in running:
        for piece in world.placements[j]:
            if j in said and jobs[j].shape.roles[piece.role].milli < 1000:
                for d in range(8):
                    if piece.devices >> d & 1:
                        seats.setdefault((piece.node, d), []).append(j)
    wanted: dict[int, int] = {}
    for sitting in seats.values():
        for i, j in enumerate(sitting):
            others = [said[k] for k in sitting[:i] + sitting[i + 1 :]]
            slow = fluid.slow_ppm(said[j], others, sharing == "time-slice")
            wanted[j] = max(wanted.get(j, 0), slow)
    return {j: slow for j, slow in wanted.items() if slow}
