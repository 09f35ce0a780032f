"""Compiled beats tell the same story as beats one by one: events, cluster state and ledger."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import contract, job, role, team
from tests.engine.stories import played, replayable, seeds, story, twin_of
from tidemill.core import snapshot
from tidemill.engine.check import Checker
from tidemill.engine.check.book import Book
from tidemill.engine.loop import Loop
from tidemill.ledger.reader import Ledger
from tidemill.ledger.rows import rows_of
from tidemill.ledger.spans import Window
from tidemill.model import events as ev
from tidemill.model.errors import PlanRefused
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Checkpointing, Contract, Queue, Shape
from tidemill.model.states import JobClass
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.backend import Twin
from tidemill.twin.driving.beats import BACK
from tidemill.twin.driving.driver import Driver
from tidemill.twin.faults import QUIET, FaultAt, Faults

REQUESTS = [
    (1, 1000), (2, 1000), (4, 1000), (8, 1000), (1, 500), (1, 250), (0, 1000), (99, 1000)
]  # fmt: skip
KINDS = [(), ("H100",), ("A100", "H100"), ("B200",)]
PLACEMENTS: list[str | tuple[str, ...]] = [
    "pack", "spread", "tide", "best-fit", ("spread", "fgd"), ("tide", "pack")
]  # fmt: skip
TEAMS = [team("a", limit=24), team("b"), Queue("c")]


class Kept(list[ev.Event]):
    """A keeper of events."""

    def append(self, events: Sequence[ev.Event]) -> None:  # type: ignore[override]
        self.extend(events)


def _contracts() -> list[Contract]:
    return [
        contract("c", gpus=48, cpu_milli=40, memory_mib=60),
        contract("d", gpus=16, per_node=4, kind="A100", cpu_milli=10, memory_mib=10),
    ]


def _arrivals(luck: random.Random, count: int, odd_share: float) -> list[Arrival]:
    """Jobs of a dozen shapes; some of them fail or are taken back; a few have two roles."""
    asks = [
        role(
            luck.choice([1, 1, 1, 2, 3]), gpus=gpus, milli=milli, cpu_milli=luck.choice([0, 1, 3]),
            memory_mib=luck.choice([0, 2]), kinds=luck.choice(KINDS),
        )
        for gpus, milli in (luck.choice(REQUESTS) for _ in range(12))
    ]  # fmt: skip
    if luck.random() < 0.5:
        asks[4:] = [*asks[:4], *asks[:4]]  # teams that ask for the same
    arrivals, at_ms = [], 0
    for i in range(count):
        at_ms += luck.choice([0, 0, 1, 50, 300, 1000])
        nth = luck.randrange(12)
        roles = [asks[nth]]
        ending = Ending.FINISHED
        crashes_ms: tuple[int, ...] = ()
        if luck.random() < 0.1:
            ending = luck.choice([Ending.FAILED, Ending.CANCELLED])
            crashes_ms = luck.choice([(), (200,), (2500,)])
        if luck.random() < odd_share:
            roles = [*roles, role(1, name="head", gpus=0, cpu_milli=1)]
        row = job(
            f"j{i}", roles=roles, team="abc"[nth // 4], startup_ms=luck.choice([0, 0, 100]),
            restart_ms=50, saves_every_ms=luck.choice([0, 500]), save_ms=10,
            estimate_ms=luck.choice([0, 100, 2000, 30_000]), user=("", "ana", "bo")[i % 3],
        )  # fmt: skip
        arrivals.append(Arrival(at_ms, row, luck.choice([1, 500, 3000, 20000]), ending, crashes_ms))
    return arrivals


def _play(
    twin: Twin, policy: Policy, *, at_once: bool
) -> tuple[Kept, World, Ledger, dict[BACK, int]]:
    world, kept = World(), Kept()
    ledger = Ledger(policy, Window(50_000, 350_000, 60_000))
    loop = Loop(world, policy, twin, kept, [ledger], 64)
    assert isinstance(loop.driver, Driver)
    codes = loop.driver.codes
    if not at_once:
        loop.driver = None
    loop.run()
    return kept, world, ledger, codes


def _expect_the_same(arrivals: list[Arrival], policy: Policy, **more: Any) -> dict[BACK, int]:
    """A twin plays the same, one by one and at once; why compiled beats came back."""
    of: dict[str, Any] = {"contracts": _contracts(), "queues": TEAMS} | more
    one_by_one, apart, ledger_apart, none = _play(
        Twin(arrivals=arrivals, **of), policy, at_once=False
    )
    at_once, world, ledger, codes = _play(Twin(arrivals=arrivals, **of), policy, at_once=True)
    assert not sum(none.values())
    assert at_once == one_by_one
    assert snapshot.dump(world) == snapshot.dump(apart)
    assert _amounts(ledger) == _amounts(ledger_apart)
    assert ledger.cut_short == ledger_apart.cut_short
    every = slice(world.job_count)
    for told, apart_told in zip(ledger.waited(every), ledger_apart.waited(every), strict=True):
        assert told.tolist() == apart_told.tolist(), "waits"
    assert ledger.stops == ledger_apart.stops
    return codes


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("faulty", [False, True], ids=["quiet", "faulty"])
def test_compiled_beats_are_the_same_story(seed: int, faulty: bool):
    """With limits, backfill, every score, crashes, faults and gangs of two roles among them."""
    luck = random.Random(seed)
    arrivals = _arrivals(luck, 700, 0.02 if faulty else 0.0)
    faults = QUIET
    if faulty:
        known = tuple(FaultAt(luck.randrange(200_000), luck.randrange(10), 5000) for _ in range(4))
        known = tuple(sorted(known, key=lambda fault: fault.at_ms))
        faults = Faults(schedule=known, lost_races=0.1)
    policy = Policy(
        order=luck.choice(["fifo", "priority"]), placement=luck.choice(PLACEMENTS),
        patience_ms=luck.choice([HOUR_MS, 20_000]),
        backfill=luck.choice(["none", "easy", "easy", "conservative"]),
        hold_after_ms=luck.choice([60_000, HOUR_MS]), unknown_run_ms=4000,
        attained_steps_ms=(400, 9000, 70_000),
    )  # fmt: skip
    if seed % 2:
        order = luck.choice([policy.order, "shortest", "smallest", "attained"])
        policy = replace(policy, order=order, fairness=luck.choice(["none", "drf", "bill"]))
    codes = _expect_the_same(arrivals, policy, faults=faults, seed=seed)
    assert faulty or sum(codes.values()) < 1000, codes


def _with_roles_and_sizes(luck: random.Random, arrivals: list[Arrival]) -> list[Arrival]:
    """Some gangs have a second role, with GPUs or without; some are elastic; some come first."""
    shapes: dict[Shape, Shape] = {}
    for arrival in arrivals:
        shape, only = arrival.job.shape, arrival.job.shape.roles[0]
        if shape in shapes:
            continue
        least = luck.choice([0, 1]) if only.count > 1 else 0
        second = role(luck.choice([1, 2]), name="head", gpus=luck.choice([0, 0, 1]), cpu_milli=1)
        roles = (replace(only, least=least), *((second,) if luck.random() < 0.5 else ()))
        shapes[shape] = replace(shape, roles=roles, priority=luck.choice([0, 0, 3]))
    return [
        arrival._replace(job=replace(arrival.job, shape=shapes[arrival.job.shape], resize_ms=20))
        for arrival in arrivals
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("faulty", [False, True], ids=["quiet", "faulty"])
def test_roles_sizes_and_moves_are_the_same_story(seed: int, faulty: bool):
    """Gangs of several roles and sizes that grow, shrink, stop others and have them moved."""
    luck = random.Random(f"roles and sizes {seed}")
    arrivals = _with_roles_and_sizes(luck, _arrivals(luck, 400, 0.0))
    faults = QUIET
    if faulty:
        known = tuple(FaultAt(luck.randrange(90_000), luck.randrange(10), 5000) for _ in range(4))
        faults = Faults(schedule=tuple(sorted(known, key=lambda fault: fault.at_ms)))
    policy = Policy(
        placement=luck.choice(PLACEMENTS), backfill=luck.choice(["none", "easy", "conservative"]),
        unknown_run_ms=4000, may_move=seed % 2 == 0, moves_apart_ms=1000, move_gain_ppm=0,
        may_resize=seed % 4 != 3, grow_after_ms=luck.choice([500, 5000]),
    )  # fmt: skip
    codes = _expect_the_same(arrivals, policy, faults=faults, seed=seed)
    assert codes[BACK.PAUSE] > 0


def _notebooks(luck: random.Random, arrivals: list[Arrival], share: float) -> list[Arrival]:
    """Some jobs are interactive: used for a while or by the clock, then they hold their GPUs."""
    uses = [Spell(1), Spell(700, 400_000), Tide((0, 0, 500_000, 0, 1_000_000), 1000), None]
    found = list(arrivals)
    for i, arrival in enumerate(arrivals):
        if luck.random() < share:
            shape = replace(arrival.job.shape, kind=JobClass.INTERACTIVE)
            row = replace(arrival.job, shape=shape)
            found[i] = arrival._replace(job=row, activity=luck.choice(uses))
    return found


def _stoppable(luck: random.Random, arrivals: list[Arrival]) -> list[Arrival]:
    """Most jobs may be stopped, some of them at no cost; a few are services, or may not be."""
    shapes: dict[Shape, Shape] = {}
    for shape in {arrival.job.shape: None for arrival in arrivals}:
        kind = JobClass.INFERENCE if luck.random() < 0.05 else shape.kind
        shapes[shape] = replace(shape, kind=kind, is_preemptible=luck.random() < 0.9)
    found = []
    for arrival in arrivals:
        row, free = arrival.job, Checkpointing(interval_ms=1, cost_ms=0)
        saving = luck.choice([free, row.checkpointing])
        row = replace(row, shape=shapes[row.shape], checkpointing=saving)
        if luck.random() < 0.5:
            row = replace(row, startup_ms=0, restart_ms=0)
        found.append(arrival._replace(job=row))
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("faulty", [False, True], ids=["quiet", "faulty"])
def test_plans_of_the_whole_fleet_are_the_same_story(seed: int, faulty: bool):
    """Orders that stop work by themselves: with crashes, idle jobs, faults, jobs that no node fits.

    CPU jobs and gangs of two roles are for Python to plan; so are fleets with a maximum quota.
    """
    luck = random.Random(f"whole fleet {seed}")
    arrivals = _stoppable(luck, _notebooks(luck, _arrivals(luck, 300, seed % 3 * 0.005), 0.1))
    faults = QUIET
    if faulty:
        known = tuple(FaultAt(luck.randrange(90_000), luck.randrange(10), 5000) for _ in range(4))
        faults = Faults(schedule=tuple(sorted(known, key=lambda fault: fault.at_ms)), evict_ms=30)
    policy = Policy(
        order=("shortest", "smallest", "attained")[seed % 3], may_reorder=True,
        placement=luck.choice(PLACEMENTS), patience_ms=luck.choice([HOUR_MS, 20_000]),
        min_run_ms=luck.choice([0, 0, 1000]), evictions_at_most=luck.choice([1, 3, 100]),
        estimates=luck.choice(["given", "history"]), unknown_run_ms=4000,
        attained_steps_ms=(400, 9000, 70_000), cull_idle_after_ms=luck.choice([0, 500]),
    )  # fmt: skip
    queues = TEAMS if seed == 0 else [Queue("a"), Queue("b"), Queue("c")]
    codes = _expect_the_same(arrivals, policy, faults=faults, queues=queues, seed=seed)
    assert (codes[BACK.REORDER] > 0) == (seed != 0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("feature", ["learnt", "half-life", "culled", "all of them"])
def test_learnt_run_times_past_use_and_culled_jobs_are_the_same_story(seed: int, feature: str):
    """In every order and sort of backfill, by shares of either measure, with crashes and floors."""
    luck = random.Random(f"{feature} {seed}")
    arrivals = _notebooks(luck, _arrivals(luck, 500, 0.02 if seed % 3 == 0 else 0.0), 0.3)
    policy = Policy(
        order=luck.choice(["fifo", "priority", "priority", "shortest", "smallest", "attained"]),
        patience_ms=luck.choice([HOUR_MS, 20_000]), attained_steps_ms=(400, 9000, 70_000),
        backfill=luck.choice(["none", "easy", "easy", "conservative"]), min_run_ms=1000,
        hold_after_ms=luck.choice([60_000, HOUR_MS]), unknown_run_ms=4000,
    )  # fmt: skip
    is_all = feature == "all of them"
    if is_all or feature == "learnt":
        share_ppm = luck.choice([300_000, 800_000, 990_000])
        policy = replace(policy, estimates="history", estimate_ppm=share_ppm)
    if is_all or feature == "half-life":
        half_life_ms, fairness = luck.choice([1, 700, 60_000, 40 * DAY_MS]), ("drf", "bill")
        policy = replace(policy, usage_half_life_ms=half_life_ms, fairness=luck.choice(fairness))
    if is_all or feature == "culled":
        policy = replace(policy, cull_idle_after_ms=luck.choice([1, 500, 4000]))
    faults = Faults(schedule=(FaultAt(30_000, 3, 5000), FaultAt(90_000, 1, 5000)))
    queues = [team("a", limit=24), team("b", floor=seed % 2 * 8), Queue("c", weight=2)]
    if seed % 3 == 1:  # fair shares alone decide, so that the plan checker may judge them
        queues = [Queue("a"), Queue("b", weight=3), Queue("c")]
    codes = _expect_the_same(arrivals, policy, faults=faults, queues=queues, seed=seed)
    assert sum(codes.values()) > 0, "every beat was Python's"


@pytest.mark.parametrize("seed", range(6))
def test_instances_in_the_middle_are_placed_by_python(seed: int):
    """A burst of MIG instances, which compiled beats do not place, changes nothing after it."""
    luck = random.Random(f"instances {seed}")
    arrivals = _arrivals(luck, 500, 0.0)
    for i in range(150, 180):
        profile, milli = luck.choice([("1g.10gb", 125), ("3g.40gb", 500), ("2g.10gb", 250)])
        row = job(f"cut{i}", roles=[role(luck.choice([1, 2]), milli=milli, profile=profile)])
        arrivals[i] = arrivals[i]._replace(job=row, work_ms=2000, crashes_ms=())
    policy = Policy(backfill=luck.choice(["none", "easy"]), unknown_run_ms=4000)
    codes = _expect_the_same(arrivals, policy, seed=seed)
    assert codes[BACK.ANSWER] > 0


def test_every_story_is_the_same_at_once():
    """The stories of the property tests: any policy, quotas, topologies, services, spot nodes."""
    for seed in seeds(40):
        with replayable(seed):
            kept = Kept()
            script = story(seed)
            Loop(World(), script.policy, twin_of(script, seed), kept, [], 64).run()
            assert kept == list(played(seed, "twin").kept)


def test_a_wrong_plan_of_compiled_beats_is_refused(monkeypatch: pytest.MonkeyPatch):
    """What the compiled plan checker finds is said in words, and nothing of it is written."""
    arrivals = [Arrival(1_000 + i, job(f"j{i}", gpus=4), 40) for i in range(60)]
    twin = Twin([contract("c", gpus=16)], [team("a")], arrivals, seed=0)
    world, kept = World(), Kept()
    loop = Loop(world, Policy(), twin, kept, [])
    assert isinstance(loop.driver, Driver)
    lay_out = Checker.laid_out

    def doubting(self: Checker, policy: Policy, jobs: int) -> Book:
        book = lay_out(self, policy, jobs)
        book.facts.wants[:] = 0  # as if no job might use any type
        return book

    monkeypatch.setattr(Checker, "laid_out", doubting)
    with pytest.raises(PlanRefused, match="gets `H100`"):
        loop.run()
    assert not any(isinstance(event, ev.AskedPlace) for event in kept)


def _amounts(ledger: Ledger) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in rows_of(ledger)), strict=True))
