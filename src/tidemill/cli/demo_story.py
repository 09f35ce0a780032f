"""What the demo says before and after the ledger: the scene, and what to ask next."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tidemill.model.measures import duration_text
from tidemill.model.states import JobState

if TYPE_CHECKING:
    from tidemill.api import Run
    from tidemill.twin.spec_tables import Spec


def seeded(spec: "Spec", seed: int | None) -> "Spec":
    """The same fleet with another story."""
    return spec if seed is None else replace(spec, twin=replace(spec.twin, seed=seed))


def scene(run: "Run") -> Iterator[str]:
    """The fleet and its fortnight in three lines."""
    world = run.world
    jobs = world.job_count
    counts: dict[str, int] = {}
    for row in world.contract_rows:
        counts[row.kind] = counts.get(row.kind, 0) + row.count
    fleet = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    attempts = world.jobs.attempt[:jobs]
    done = int((world.jobs.state[:jobs] == JobState.DONE).sum())
    stopped = int(np.maximum(0, attempts - 1).sum())
    length = duration_text(run.statement.end_ms - run.statement.start_ms)
    yield f"[bold]{length}[/] of a fleet of {fleet} under {world.contract_count} contracts"
    yield (
        f"{jobs:,} jobs of {len(world.queue_rows)} teams: {done:,} done,"
        f" {sum(len(w) for w in world.waiting):,} waiting at the end,"
        f" {stopped:,} attempts cut short by failures and evictions"
    )
    yield ""


def next_steps(run: "Run", journal: Path, page: Path) -> Iterator[str]:
    """Questions to ask next, with names from this very story."""
    yield ""
    yield f"[bold]the same as a page:[/] {page}"
    yield "[bold]ask further:[/]"
    yield f"  tidemill ledger -j {journal} --by team"
    yield f"  tidemill ledger -j {journal} --bucket idle --by job"
    yield f"  tidemill pending -j {journal}"
    waiting = sorted(j for jobs in run.world.waiting for j in jobs)
    if waiting:
        yield f"  tidemill why {run.world.job_names[waiting[0]]} -j {journal}"
    crowd = _busiest(run)
    if crowd is not None:
        yield f"  tidemill pending -j {journal} --at {crowd}"


def _busiest(run: "Run") -> str | None:
    """A moment in the middle of the busiest bin: most time claimed by what waits."""
    rows, statement = run.statement.rows, run.statement
    claimed = rows.bin[(rows.job < 0) & (rows.team >= 0)]
    amounts = rows.milli_ms[(rows.job < 0) & (rows.team >= 0)]
    if not len(claimed):
        return None
    number = int(np.argmax(np.bincount(claimed, weights=amounts)))
    middle_ms = statement.start_ms + number * statement.bin_ms + statement.bin_ms // 2
    return duration_text(middle_ms).replace(" ", "")


