"""One more look at a large cluster: what an observer does with an answer that it mostly knows.

A cluster of 4,096 nodes shows 50,000 jobs: some have ended since, most run or wait as before. The
journal has them from the first answer on; what the next ones cost is what every poll costs, beside
the commands of the scheduler and the reading of what they print (`bench slurm`).
"""

import time
from typing import Any

import polars as pl

from bench.spine import reference_per_cpu_s
from tidemill.engine.fold.batch import fold_batch
from tidemill.live.history.advance import Advance, SourceAnswer
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd, SeenNode
from tidemill.live.prices.rules import unpriced
from tidemill.model.world import World

BEGIN_MS = 1_780_000_000_000
EVERY_MS = 30_000
_COLUMNS = (
    "job", "team", "user", "submit_ms", "start_ms", "end_ms", "gpus", "gpu_type", "nodes",
    "outcome",
)  # fmt: skip


def run(jobs: int = 50_000, nodes: int = 4_096) -> dict[str, Any]:
    """So many jobs, two in five of them over, two in five waiting."""
    world, fleet = World(), [
        SeenNode(name=f"n{n}", gpus=8, gpu_type="h100") for n in range(nodes)
    ]  # fmt: skip
    first_ms, polls = BEGIN_MS + 100 * jobs + EVERY_MS, list[dict[str, Any]]()
    for poll in range(4):
        now_ms = first_ms + poll * EVERY_MS
        answer = SourceAnswer(_attempts(jobs, nodes, now_ms), fleet, now_ms)
        begin, events = time.process_time(), 0
        for batch in Advance(world, BEGIN_MS, answer, unpriced).batches(now_ms):
            fold_batch(world, batch)
            events += len(batch.events)
        cpu_s = time.process_time() - begin
        polls.append({"cpu_s": round(cpu_s, 2), "events": events})
    return {"reference_per_cpu_s": round(reference_per_cpu_s()), "jobs": jobs, "polls": polls}


def _attempts(jobs: int, nodes: int, now_ms: int) -> pl.DataFrame:
    rows = [_attempt(j, jobs, nodes, now_ms) for j in range(jobs)]
    schema = {name: ATTEMPTS[name] for name in _COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _attempt(j: int, jobs: int, nodes: int, now_ms: int) -> tuple[object, ...]:
    submit_ms = BEGIN_MS + 100 * j
    who = (str(j), f"team{j % 40}", f"user{j % 400}", submit_ms)
    if 5 * j >= 3 * jobs:
        return (*who, None, None, 1, "h100", None, AttemptEnd.WAITING)
    over_ms = submit_ms + 100_000
    is_over = 5 * j < 2 * jobs and over_ms <= now_ms
    outcome = AttemptEnd.DONE if is_over else AttemptEnd.RUNNING
    end_ms = over_ms if is_over else None
    return (*who, submit_ms + 1000, end_ms, 1, "h100", [f"n{j % nodes}"], outcome)
