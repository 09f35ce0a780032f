"""A stretch of compiled beats is the same story as beats one by one: events, World and ledger."""

import random
from collections.abc import Sequence

import pytest

from tests.builders import contract, job, role, team
from tidemill.core import snapshot
from tidemill.engine import loop
from tidemill.engine.fold_stretch import Stretch
from tidemill.engine.loop import Loop
from tidemill.engine.second_reader import check_story
from tidemill.engine.story import Story
from tidemill.ledger.reader import Ledger
from tidemill.ledger.rows import rows_of
from tidemill.ledger.spans import Window
from tidemill.model import events as ev
from tidemill.model.errors import PlanRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Queue
from tidemill.model.world import World
from tidemill.twin import stretch
from tidemill.twin.arrivals import Arrival, Ending
from tidemill.twin.backend import Twin
from tidemill.twin.faults import QUIET, FaultAt, Faults

REQUESTS = [(1, 1000), (2, 1000), (4, 1000), (8, 1000), (1, 500), (1, 250), (0, 1000)]
KINDS = [(), ("H100",), ("A100", "H100"), ("B200",)]
PLACEMENTS: list[str | tuple[str, ...]] = [
    "pack", "spread", "tide", "best-fit", ("spread", "fgd"), ("tide", "pack")
]  # fmt: skip
TEAMS = [team("a", limit=24), team("b"), Queue("c")]


class Kept(list[ev.Event]):
    """A keeper of events."""

    def append(self, events: Sequence[ev.Event]) -> None:  # type: ignore[override]
        self.extend(events)


class OneByOne:
    """A reader that cannot follow a stretch: with it a loop beats one by one."""

    def take(self, events: Sequence[ev.Event]) -> None: ...


@pytest.fixture(autouse=True)
def _short_stretches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "WORTH_IT", 8)
    monkeypatch.setattr(loop, "PAUSE_AT_MOST", 2)


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


def _play(twin: Twin, policy: Policy, *, at_once: bool) -> tuple[Kept, World, Ledger]:
    world, kept = World(), Kept()
    ledger = Ledger(policy, Window(50_000, 350_000, 60_000))
    readers: list[loop.Reader] = [ledger] if at_once else [ledger, OneByOne()]
    Loop(world, policy, twin, kept, readers, 64).run()
    return kept, world, ledger


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("faulty", [False, True], ids=["quiet", "faulty"])
def test_a_stretch_is_the_same_story(seed: int, faulty: bool, monkeypatch: pytest.MonkeyPatch):
    """Compiled beats, handed over to single ones and back, tell what single beats tell."""
    luck = random.Random(seed)
    arrivals = _arrivals(luck, 700, 0.02 if faulty else 0.0)
    faults = QUIET
    if faulty:
        known = tuple(FaultAt(luck.randrange(200_000), luck.randrange(10), 5000) for _ in range(4))
        faults = Faults(schedule=tuple(sorted(known, key=lambda fault: fault.at_ms)))
    policy = Policy(
        order=luck.choice(["fifo", "priority"]), placement=luck.choice(PLACEMENTS),
        patience_ms=luck.choice([HOUR_MS, 20_000]), backfill=luck.choice(["none", "easy", "easy"]),
        hold_after_ms=luck.choice([60_000, HOUR_MS]), unknown_run_ms=4000,
    )  # fmt: skip
    stretches: list[int] = []
    finish = Stretch.finish

    def counted(self: Stretch) -> Story:
        stretches.append(1)
        return finish(self)

    monkeypatch.setattr(Stretch, "finish", counted)
    one_by_one, apart, ledger_apart = _play(
        Twin(_contracts(), TEAMS, arrivals, faults=faults, seed=seed), policy, at_once=False
    )
    assert not stretches
    at_once, world, ledger = _play(
        Twin(_contracts(), TEAMS, arrivals, faults=faults, seed=seed), policy, at_once=True
    )
    assert stretches or faulty
    assert at_once == one_by_one
    assert snapshot.dump(world) == snapshot.dump(apart)
    assert _amounts(ledger) == _amounts(ledger_apart)
    assert ledger.cut_short == ledger_apart.cut_short
    for told, apart_told in zip(ledger.waited(), ledger_apart.waited(), strict=True):
        assert told.tolist() == apart_told.tolist(), "waits"
    assert ledger.stops == ledger_apart.stops


@pytest.mark.parametrize("seed", range(6))
def test_stretches_stop_for_instances_and_begin_again(seed: int, monkeypatch: pytest.MonkeyPatch):
    """A burst of MIG instances in the middle is told beat by beat; compiled beats go on after."""
    luck = random.Random(f"instances {seed}")
    arrivals = _arrivals(luck, 500, 0.0)
    for i in range(150, 180):
        profile, milli = luck.choice([("1g.10gb", 125), ("3g.40gb", 500), ("2g.10gb", 250)])
        row = job(f"cut{i}", roles=[role(luck.choice([1, 2]), milli=milli, profile=profile)])
        arrivals[i] = arrivals[i]._replace(job=row, work_ms=2000, crashes_ms=())
    begun: list[int] = []
    finish = Stretch.finish

    def noted(self: Stretch) -> Story:
        begun.append(self.world.now_ms)
        assert not self.world.sliced
        return finish(self)

    monkeypatch.setattr(Stretch, "finish", noted)
    policy = Policy(backfill=luck.choice(["none", "easy"]), unknown_run_ms=4000)
    one_by_one, apart, ledger_apart = _play(
        Twin(_contracts(), TEAMS, arrivals, seed=seed), policy, at_once=False
    )
    at_once, world, ledger = _play(
        Twin(_contracts(), TEAMS, arrivals, seed=seed), policy, at_once=True
    )
    assert min(begun) < arrivals[150].at_ms
    assert max(begun) > arrivals[180].at_ms
    assert at_once == one_by_one
    assert snapshot.dump(world) == snapshot.dump(apart)
    assert _amounts(ledger) == _amounts(ledger_apart)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        ("node", "may not use|not free"),
        ("devices", "not free"),
        ("replicas", "in part|not free"),
        ("attempt", "not the attempt"),
    ],
)
def test_the_second_reader_refuses_a_spoilt_story(spoil: str, word: str):
    """A placement that is changed in one place is refused, with the job and what is wrong."""
    twin = Twin([contract("c", gpus=16)], [team("a")], _crowd(), seed=0)
    world, policy = World(), Policy()
    single = Loop(world, policy, twin, None, [])
    single.beat(0)
    while not world.levels[0].any():
        single.beat(twin.next_ms() or 0)
    found = twin.stretch(world, policy, single.memo.scheduling, 1 << 50)
    assert found is not None
    before, story = found
    check_story(world, before, story)
    if spoil == "node":
        story.pieces.node[:] = 1
    elif spoil == "devices":
        story.pieces.devices[:] = 1
    elif spoil == "replicas":
        story.pieces.replicas[:] = 2
    else:
        story.lines.number[story.lines.kind == 1] = 7
    with pytest.raises(PlanRefused, match=word):
        check_story(world, before, story)


def _crowd() -> list[Arrival]:
    return [Arrival(i, job(f"j{i}", gpus=4), 40) for i in range(60)]


def _amounts(ledger: Ledger) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in rows_of(ledger)), strict=True))
