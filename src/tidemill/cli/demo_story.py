"""What the demo says before and after the ledger: the scene, and what to ask next."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from tidemill.cli import screen
from tidemill.ledger.waits import is_held
from tidemill.model import paging
from tidemill.model.measures import duration_ms, duration_text
from tidemill.model.states import JobState
from tidemill.reservation.types import UNFILLED

if TYPE_CHECKING:
    from tidemill.api import Run
    from tidemill.model.world import World
    from tidemill.twin.spec.tables import Spec


def seeded(spec: "Spec", seed: int | None) -> "Spec":
    """The same fleet with another story."""
    return spec if seed is None else replace(spec, twin=replace(spec.twin, seed=seed))


def scene(run: "Run") -> Iterator[str | Text]:
    """The fleet and its fortnight in three lines."""
    world = run.world
    jobs = world.job_count
    counts: dict[str, int] = {}
    for row in world.contract_rows:
        if row.terms != UNFILLED:  # of which there are no nodes
            counts[row.kind] = counts.get(row.kind, 0) + row.count
    fleet = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    length = duration_text(run.statement.end_ms - run.statement.start_ms)
    contracts = f" under {screen.count(world.contract_count, 'contract')}"
    under = "" if world.is_observed else contracts
    yield screen.styled("[bold]{}[/] of a fleet of {}{}", length, fleet, under)
    told = ", ".join(f"{count:,} {word}" for word, count in job_counts(world).items())
    teams = screen.count(len({row.team for row in world.shape_rows}), "team")
    yield f"{screen.count(jobs, 'job')} of {teams}: {told}"
    stops = run.statement.stops
    if stops:
        parts = ", ".join(f"{count:,} {why}" for why, count in stops.items())
        yield f"{screen.count(sum(stops.values()), 'attempt')} stopped early: {parts}"
    yield ""


def _running(world: "World") -> "dict[str, tuple[JobState, ...]]":
    """Where others tell what comes up, a job of which a part is placed is not running yet."""
    if world.is_observed:
        return {"starting": (JobState.STARTING,), "running": (JobState.RUNNING,)}
    return {"running": (JobState.STARTING, JobState.RUNNING)}


def job_counts(world: "World") -> dict[str, int]:
    """Jobs by how they stand now; they add up to all jobs. Zeros only of done and waiting."""
    state = paging.column(world.jobs.state, world.job_count)
    words = {
        "done": (JobState.DONE,),
        "failed": (JobState.FAILED,),
        "cancelled": (JobState.CANCELLED,),
        **_running(world),
        "waiting": (JobState.WAITING,),
    }
    counts = {word: int(np.isin(state, states).sum()) for word, states in words.items()}
    waiting = np.flatnonzero(state == JobState.WAITING)
    counts["held"] = int(is_held(world, waiting).sum())
    counts["waiting"] -= counts["held"]
    return {word: n for word, n in counts.items() if n or word in ("done", "waiting")}


class Example(NamedTuple):
    """A job that waited at a busy moment, and why."""

    job: str
    at: str
    words: str


def example(run: "Run", journal: Path) -> Example | None:
    """The largest gang that waited when most was claimed by what waits."""
    from tidemill import api, explain

    at = _busiest(run)
    if at is None:
        return None
    world, policy = api.open_world(str(journal), duration_ms(at))
    waiting = [j for jobs in world.waiting for j in jobs]
    if not waiting:
        return None
    j = max(waiting, key=lambda j: (world.shape_of(j).total_milli, -j))
    return Example(world.job_names[j], at, explain.why(world, policy, j).words)


def next_steps(journal: Path, page: Path, shown: Example | None) -> Iterator[str | Text]:
    """Questions to ask next, with names from this very run."""
    yield ""
    yield screen.styled("[bold]the same as a page:[/] {}", page)
    yield screen.styled("[bold]ask further:[/]")
    yield f"  tidemill ledger -j {journal} --by team"
    yield f"  tidemill ledger -j {journal} --bucket idle --by job"
    if shown is not None:
        yield f"  tidemill pending -j {journal} --at {shown.at}"
        yield f"  tidemill why {shown.job} -j {journal} --at {shown.at} --nodes"
    yield f"  tidemill fit -j {journal} --team research --gpus 64 --kind H100 --hours 12"


def _busiest(run: "Run") -> str | None:
    """A moment in the middle of the busiest bin: most time claimed by what waits."""
    rows, statement = run.statement.rows, run.statement
    is_claimed = (rows.job < 0) & (rows.team >= 0)
    if not is_claimed.any():
        return None
    claimed = np.bincount(rows.bin[is_claimed], weights=rows.milli_ms[is_claimed])
    middle_ms = statement.start_ms + int(np.argmax(claimed)) * statement.bin_ms
    return duration_text(middle_ms + statement.bin_ms // 2).replace(" ", "")
