"""Shapes that leave the line without their turn change nothing of what is decided or told."""

import random
from typing import Literal

import pytest

from tests.builders import contract, job, role, team
from tidemill.engine.loop import Loop
from tidemill.model.batch import Batch
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling.desk.columns import REG
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin

NOBODY = 1 << 40  # a job that never waits; while one is watched for, everybody has its turn
SIZES = [(1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8), (6, 8)]
BACKFILLS: list[Literal["none", "easy"]] = ["easy", "easy", "easy", "none"]


class _Events(list[bytes]):
    """A reader that keeps events, with where jobs are placed."""

    def take_batch(self, batch: Batch) -> None:
        self.append(batch.events.tobytes() + batch.pieces.tobytes())


def _arrivals(luck: random.Random, has_cpu: bool) -> list[Arrival]:
    found, at_ms = list[Arrival](), 0
    for i in range(300):
        at_ms += luck.choice([0, 0, 1000, 2000])
        count, gpus = luck.choice(SIZES)
        row = job(
            f"j{i}",
            roles=[role(count, gpus=gpus, cpu_milli=luck.choice([0, 4]) if has_cpu else 0)],
            team=luck.choice("abcdefgh"), priority=luck.choice([0, 0, 0, 2]),
            estimate_ms=luck.choice([5_000, 60_000, 400_000]),
        )  # fmt: skip
        found.append(Arrival(at_ms, row, luck.choice([3_000, 40_000, 300_000])))
    return found


def _play(seed: int, *, everybody: bool) -> tuple[list[bytes], int]:
    """The events of a story, beat by beat; and how often a line was read for quiet shapes."""
    luck, reads = random.Random(seed), 0
    teams = [team(name, floor=luck.choice([0, 0, 8])) for name in "abcdefg"] + [team("h", limit=16)]
    policy = Policy(
        backfill=luck.choice(BACKFILLS), hold_after_ms=luck.choice([30_000, HOUR_MS]),
        patience_ms=luck.choice([60_000, HOUR_MS]), min_run_ms=10_000,
    )  # fmt: skip
    arrivals = _arrivals(luck, has_cpu=luck.random() < 0.5)
    twin = Twin([contract("c", gpus=64, cpu_milli=40)], teams, arrivals, seed=seed)
    events = _Events()
    loop = Loop(World(), policy, twin, None, [events])
    while (at_ms := twin.next_ms()) is not None:
        columns = loop.memo.scheduling.laid_out.columns
        if columns is not None:
            columns.reg[REG.WATCHED] = NOBODY if everybody else 0
            reads = max(reads, columns.reg.item(REG.QUIET_READ))
        loop.beat(at_ms)
        loop.commit()
    return events, reads


@pytest.mark.parametrize("seed", range(12))
def test_who_leaves_the_line_would_have_changed_nothing(seed: int):
    """Guaranteed quotas, limits, priorities and CPU among them; with a guard that soon protects."""
    told, reads = _play(seed, everybody=False)
    expected, none = _play(seed, everybody=True)
    assert reads > 0
    assert none < reads
    assert told == expected
