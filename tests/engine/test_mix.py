"""The mix that placement looks ahead with is part of the World, and is looked at when it is due."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from tests.builders import (
    asked,
    beat,
    cancel,
    contract,
    crash,
    decide,
    finish,
    fleet,
    job,
    role,
    submit,
)
from tidemill.core import arrivals, snapshot
from tidemill.engine.check import violations
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold import mix
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling.scores import scoring

Ending = Callable[[World, str], None]

TIDE = Policy(placement="tide")
SMALL = role(1, gpus=1, milli=500, cpu_milli=2)
LARGE = role(1, gpus=4, cpu_milli=4)


def crowd(count: int, world: World | None = None) -> World:
    """Small jobs, and every fifth one large, on four nodes of four."""
    world = world or fleet(contract(gpus=16, per_node=4, cpu_milli=16, memory_mib=16))
    first = world.job_count
    rows = [job(f"j{first + i}", roles=[LARGE if i % 5 == 4 else SMALL]) for i in range(count)]
    submit(world, *rows)
    return world


def test_the_mix_is_said_when_enough_arrived_and_the_policy_looks_ahead():
    """After ten arrivals ``tide`` wants to know; ``pack`` never does."""
    assert asked(decide(crowd(9), TIDE), ev.MixSampled) == []
    assert asked(decide(crowd(10), TIDE), ev.MixSampled) == [ev.MixSampled(0)]
    assert asked(decide(crowd(10), Policy(placement="pack")), ev.MixSampled) == []


def test_a_look_at_the_mix_is_news_or_refused():
    """The plan checker lets one look pass after arrivals, and no second one before others."""
    world, plan = crowd(10), ev.Plan((ev.MixSampled(0),))
    assert violations(world, plan, TIDE) == []
    fold(world, ev.MixSampled(0))
    assert violations(world, plan, TIDE) == [
        "the mix is looked at again, though nothing has arrived"
    ]


def test_a_look_counts_arrivals_hosts_and_what_is_free():
    """Arrivals by shape; for the large shape the nodes that can host one whole."""
    world = crowd(10)
    fold(world, ev.MixSampled(0))
    assert world.shapes.mixed[:2].tolist() == world.shapes.noted[:2].tolist() == [8, 2]
    assert world.shapes.hosts[:2].tolist() == [0, 4]
    assert (world.mix_point, world.mix_changes, world.mix_free_milli) == (10, 1, 16_000)


def test_a_mix_that_hardly_moved_stays_and_a_look_without_arrivals_is_refused():
    """Noted is what arrived by now; mixed only changes with three times as many that differ."""
    world = crowd(10)
    fold(world, ev.MixSampled(0))
    with pytest.raises(EventRefused, match="no more have since arrived"):
        fold(world, ev.MixSampled(0))
    crowd(20, world)
    assert mix.is_due(world)
    fold(world, ev.MixSampled(0))
    assert world.shapes.noted[:2].tolist() == [24, 6]
    assert world.shapes.mixed[:2].tolist() == [8, 2]
    submit(world, *(job(f"k{i}", roles=[SMALL]) for i in range(20)))
    fold(world, ev.MixSampled(0))
    assert world.shapes.mixed[:2].tolist() == [44, 6]


def test_turnover_is_how_much_of_what_was_placed_has_left():
    """Jobs that never ran do not count; and less than an eighth more is not worth a new look."""
    world = crowd(10)
    beat(world, TIDE)
    assert (world.mix_turnover_ppm, len(world.placements)) == (0, 10)
    finish(world, *(world.job_names[j] for j in sorted(world.placements)[:4]))
    crowd(20, world)
    cancel(world, "j29")
    fold(world, ev.MixSampled(0))
    assert world.mix_turnover_ppm == 400_000
    finish(world, world.job_names[min(world.placements)])
    crowd(60, world)
    fold(world, ev.MixSampled(0))
    assert world.mix_turnover_ppm == 400_000


def _naive(world: World, first: int) -> tuple[list[int], int]:
    """How many jobs from one on are of each shape, and their turnover, by reading all of them."""
    noted, left, placed = [0] * len(world.shape_rows), 0, 0
    for j in range(first, world.job_count):
        state, has_run = world.jobs.state.item(j), world.jobs.attempt.item(j) > 0
        noted[world.jobs.shape.item(j)] += 1
        left += has_run and state >= JobState.DONE
        placed += has_run and state != JobState.WAITING
    return noted, 1_000_000 * left // max(1, placed)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_counted_by_change_is_what_reading_all_jobs_gives(seed: int):
    """Whatever comes, ends, fails or is cancelled, and however far a look reaches back."""
    luck, world, before, first, dropped = Random(seed), crowd(0), 0, 0, 0
    for _ in range(30):
        crowd(luck.randint(1, 12), world)
        beat(world, Policy(placement="pack"))
        running = sorted(world.placements)
        for j in luck.sample(running, luck.randint(0, len(running))):
            how: list[Ending] = [finish, cancel, crash, partial(crash, is_final=True)]
            luck.choice(how)(world, world.job_names[j])
        waiting = [j for s in sorted(world.queued) for j in world.waiting[s]]
        for j in waiting if luck.random() < 0.2 else ():
            cancel(world, world.job_names[j])
        if luck.random() < 0.6:
            first = max(first, world.job_count - luck.choice([5, 30, 90]))
            dropped += first > before
            found = int(arrivals.note(world.ink.w, before, first, world.job_count))
            noted = world.shapes.noted[: len(world.shape_rows)].tolist()
            assert (noted, found) == _naive(world, first)
            before = world.job_count
    assert dropped, "a look reaches back less far than the one before"


def test_where_work_leaves_fragments_weigh():
    """The tables of ``tide`` weigh fragments by the turnover: 6 times what all of it would be."""
    world = crowd(10)
    fold(world, ev.MixSampled(0))
    assert _weight_of_fragments(world) == 0
    world.mix_turnover_ppm = 500_000
    assert _weight_of_fragments(world) == 3000


def _weight_of_fragments(world: World) -> int:
    tables = scoring.of(world, TIDE).tables
    assert tables is not None
    return int(tables.limits[6])


def test_forgetting_changes_no_placement():
    """With the memo kept, dropped at every beat, or the World loaded anew, plans are the same."""
    kept, dropped = crowd(8), crowd(8)
    memo = CycleMemo()
    for i in range(12):
        crowd(6, kept)
        crowd(6, dropped)
        beat(kept, TIDE, memo)
        dropped = snapshot.load(snapshot.dump(dropped))
        beat(dropped, TIDE, CycleMemo())
        for world in (kept, dropped):
            for j in sorted(world.placements)[: i % 4]:
                finish(world, world.job_names[j])
        assert snapshot.dump(kept) == snapshot.dump(dropped)
    assert kept.mix_changes > 1
