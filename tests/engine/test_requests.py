"""A waiting job that comes to request something else: one job, in its place among its equals."""

from random import Random

import pytest
from msgspec.structs import replace

from tests.builders import (
    beat,
    cancel,
    carry_out,
    contract,
    decide,
    finish,
    fleet,
    job,
    leave,
    pass_ms,
    placed,
    rights,
    role,
    start,
    state_of,
    submit,
    team,
)
from tidemill.core import snapshot
from tidemill.engine.cycle import CycleMemo
from tidemill.engine.fold.one_event import fold
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Job, Shape
from tidemill.model.states import JobState
from tidemill.model.world import World

ORDERS = ("priority", "fifo", "shortest", "smallest", "attained")


def of(name: str, gpus: int = 8, count: int = 1, team: str = "a") -> Job:
    return job(name, team=team, roles=[role(count, gpus=gpus)], estimate_ms=HOUR_MS)


def change(world: World, name: str, shape: Shape) -> None:
    fold(world, ev.RequestChanged(world.now_ms, world.job_number[name], shape, HOUR_MS))


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_that_requests_something_else_stays_before_who_came_later(order: str):
    """Two replicas of four GPUs instead of one of eight: still the first when eight are free."""
    policy, memo = rights(order=order), CycleMemo()
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, of("runs"))
    beat(world, policy, memo)
    for name in ("older", "younger"):
        pass_ms(world, 1_000)
        submit(world, of(name))
    beat(world, policy, memo)
    change(world, "older", of("", 4, 2).shape)
    beat(world, policy, memo)
    finish(world, "runs")
    plan = beat(world, policy, memo)
    assert [*placed(world, plan)] == ["older"]


def test_a_cancelled_job_that_is_back_has_its_place_and_its_wait():
    """Cancelled for a while, since not all of it was there: it waits since it was submitted."""
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, of("older"), of("younger"))
    pass_ms(world, 5_000)
    cancel(world, "older")
    pass_ms(world, 5_000)
    change(world, "older", of("", 4).shape)
    assert state_of(world, "older") is JobState.WAITING
    assert world.jobs.since_ms[world.job_number["older"]] == 0
    assert [*placed(world, decide(world))] == ["older"]


def test_a_job_that_was_stopped_for_another_and_is_back_keeps_its_count_of_stops():
    """It had no pods for five seconds: it waits since it was stopped, as if it had never ended.

    A job that worked, and that nobody stopped, is over.
    """
    policy, memo = rights(preempt_gain_ppm=0), CycleMemo()
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, of("older"))
    beat(world, policy, memo)
    pass_ms(world, 5_000)
    ended = int(world.run_times.sum())
    submit(world, replace(of("better"), shape=replace(of("").shape, priority=9)))
    beat(world, policy, memo)
    leave(world, "older")
    j, now_ms = world.job_number["older"], world.now_ms
    cancel(world, "older")
    pass_ms(world, 5_000)
    change(world, "older", of("").shape)
    assert state_of(world, "older") is JobState.WAITING
    assert world.jobs.evictions[j] == world.jobs.fruitless[j] == 1
    assert world.jobs.since_ms[j] == now_ms
    assert int(world.run_times.sum()) == ended
    beat(world, policy, memo)
    pass_ms(world, 5_000)
    cancel(world, "better")
    with pytest.raises(EventRefused, match="it worked, and is over"):
        change(world, "better", of("").shape)


def test_its_ledger_waits_for_what_it_requests_and_has_no_gap():
    """Free GPUs are held off it only while it asks for more than there are; its wait is whole."""
    first, second = of("a", 8, 2).shape, of("a", 8).shape
    told: list[ev.Event] = [
        *(ev.QueueSet(0, team("a")), ev.ContractSigned(0, contract(gpus=8))),
        ev.JobSubmitted(0, Job("a", first)),
        ev.JobCancelled(HOUR_MS, 0),
        ev.RequestChanged(2 * HOUR_MS, 0, second),
        ev.Woke(4 * HOUR_MS),
    ]
    found = read(told).waits.figures()
    assert (found.jobs, found.cancelled, found.waiting) == (1, 0, 1)
    assert found.total_wait is not None
    assert found.total_wait.max == 4 * HOUR_MS


def _step(world: World, rng: Random) -> None:
    """Something that changes who waits for what."""
    team_name, gpus, count = rng.choice("ab"), rng.choice((1, 4, 8)), rng.choice((1, 1, 2))
    new = of(f"j{world.job_count}", gpus, count, team_name)
    jobs, some = world.jobs, range(world.job_count)
    fresh = [
        j for j in some
        if jobs.state[j] == JobState.WAITING or (
            jobs.state[j] == JobState.CANCELLED and not jobs.ran_ms[j]
        )
    ]  # fmt: skip
    runs = [j for j in some if jobs.state[j] in (JobState.STARTING, JobState.RUNNING)]
    match rng.choice(("submit", "change", "change", "cancel", "end")):
        case "change" if fresh:
            j = rng.choice(fresh)
            shape = new.shape if not jobs.attempt[j] else replace(
                new.shape, team=world.shape_of(j).team
            )  # fmt: skip
            change(world, world.job_names[j], shape)
        case "cancel" if fresh:
            j = rng.choice(fresh)
            if jobs.state[j] == JobState.WAITING:
                cancel(world, world.job_names[j])
        case "end" if runs:
            name = world.job_names[rng.choice(runs)]
            if state_of(world, name) is JobState.STARTING:
                start(world, name)
            finish(world, name)
        case _:
            submit(world, new)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("more", [{}, {"backfill": "none"}, {"fairness": "drf"}], ids=str)
def test_a_scheduler_that_remembers_decides_as_one_that_does_not(order: str, more: dict[str, str]):
    """Whatever changes while jobs wait: nothing that was known of a line is used after that."""
    policy = rights(order=order, **more)
    for seed in range(2):
        rng, memo = Random(seed), CycleMemo()
        world = fleet(contract(gpus=16), teams=[team("a", floor=8), team("b")])
        for _ in range(60):
            pass_ms(world, 1_000)
            _step(world, rng)
            anew = decide(snapshot.copy(world), policy, CycleMemo())
            plan = decide(world, policy, memo)
            assert placed(world, plan) == placed(world, anew), (order, seed, world.seq)
            carry_out(world, plan)
