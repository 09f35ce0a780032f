"""Seeded fleets in the twin: the whole loop with faults, floors, spot reclaims and abandonment."""

from collections.abc import Sequence
from random import Random

from tests.builders import contract, job, role, team, teams_share
from tests.ledger.stories import EFFICIENCIES
from tidemill.engine.loop import Loop, Reader
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job
from tidemill.model.states import JobClass, Terms
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.backend import Twin
from tidemill.twin.faults import Faults, LogNormal

PROFILES = (
    ("1g.10gb", 125), ("3g.40gb", 500), ("1g.10gb", 125), ("2g.10gb", 250), ("1g.20gb", 250),
)  # fmt: skip
HORIZON_MS = 12 * HOUR_MS
FAULTS = Faults(
    node_rate=1_500.0,  # a fault a node every 16 hours: everything happens within the story
    device_share=0.4,
    repair=LogNormal(40 * MINUTE_MS, 0.8),
    maintenance_rate=300.0,
    maintenance=LogNormal(20 * MINUTE_MS),
    reclaim_rate=3_000.0,
    boot=LogNormal(4 * MINUTE_MS, 0.5),
    evict_ms=20_000,
)


class Kept(list[ev.Event]):
    """A journal in memory."""

    def append(self, events: Sequence[ev.Event]) -> None:  # type: ignore[override]
        self.extend(events)


def run(
    seed: int, readers: Sequence[Reader] = (), policy: Policy | None = None, jobs: int = 60
) -> Kept:
    """Let a small fleet live for half a day, with these readers reading along."""
    luck, kept = Random(seed), Kept()
    teams = [team("a", floor=4), team("b", limit=6), teams_share("c", A100=(2, None))]
    arrivals = [_arrival(luck, i) for i in range(jobs)]
    twin = Twin(_contracts(), teams, arrivals, faults=FAULTS, horizon_ms=HORIZON_MS, seed=seed)
    chosen = policy or Policy(cull_idle_after_ms=HOUR_MS, patience_ms=HOUR_MS)
    Loop(World(), chosen, twin, kept, readers, beats_per_commit=50).run()
    return kept


def _contracts() -> list[Contract]:
    return [
        contract("reserved", gpus=12, per_node=4, spares=1, usd_micro_per_hour=2_100_007),
        contract(
            "late", gpus=4, per_node=2, kind="A100", start_ms=HOUR_MS, end_ms=9 * HOUR_MS,
            usd_micro_per_hour=1_300_001,
        ),
        contract("demand", gpus=4, per_node=4, terms=Terms.ON_DEMAND, usd_micro_per_hour=3_999_999),
        contract("spot", gpus=4, per_node=2, kind="A100", terms=Terms.SPOT, usd_micro_per_hour=7),
    ]  # fmt: skip


def _arrival(luck: Random, i: int) -> Arrival:
    row = _job(luck, i)
    activity: Tide | Spell | None = None
    if row.shape.kind is JobClass.INTERACTIVE:
        activity = Spell(luck.randint(1, 60) * MINUTE_MS, luck.choice((1_000_000, 300_000)))
    elif row.shape.kind is JobClass.INFERENCE or luck.random() < 0.2:
        levels = tuple(luck.choice((0, 250_000, 777_777, 1_000_000)) for _ in range(5))
        activity = Tide(levels, 17 * MINUTE_MS)
    ending = luck.choice((*(Ending.FINISHED,) * 4, Ending.FAILED, Ending.CANCELLED))
    crashes_ms = (luck.randint(1, HOUR_MS),) if luck.random() < 0.2 else ()
    at_ms, work_ms = luck.randint(0, 9 * HOUR_MS), luck.randint(1, 3 * HOUR_MS)
    return Arrival(at_ms, row, work_ms, ending, crashes_ms, activity)


def _job(luck: Random, i: int) -> Job:
    gpus, count = luck.choice(((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (4, 9), (1, 3)))
    milli = luck.choice((250, 500)) if gpus == 1 and luck.random() < 0.5 else 1000
    kinds = luck.choice(((), ("H100",), ("A100",), ("A100", "H100")))
    cpu_milli = luck.choice((0, 250_000))
    asks = role(count, gpus=gpus, milli=milli, kinds=kinds, cpu_milli=cpu_milli)
    if i % 5 == 4:
        profile, share = PROFILES[i // 5 % len(PROFILES)]
        asks = role(count, milli=share, profile=profile)
    return job(
        f"j{i}",
        roles=[asks],
        team=luck.choice("abc"),
        kind=luck.choice((JobClass.TRAINING, JobClass.TRAINING, *JobClass)),
        priority=luck.choice((0, 0, 0, 5)),
        startup_ms=luck.choice((0, 30_000, 5 * MINUTE_MS)),
        restart_ms=luck.choice((0, 60_000)),
        saves_every_ms=luck.choice((0, 7 * MINUTE_MS, 30 * MINUTE_MS)),
        save_ms=luck.choice((0, 10_001, MINUTE_MS)),
        efficiency=luck.choice(EFFICIENCIES),
        estimate_ms=luck.choice((0, FOREVER_MS // 4, HOUR_MS)),
    )
