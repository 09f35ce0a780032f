"""Scheduling cycles with a backlog: a large fleet that is full, and thousands of jobs waiting.

``run``: organisations with teams, guaranteed quotas, racks and spines, easy backfill; some jobs end
and some come at every moment, and each cycle is timed by itself. Then with many teams, and with
many CPU sizes, which make many shapes.

Run times are in milliseconds, so that nearly every job ends at a moment of its own and a cycle has
one place to give away at most: those rows say how long a cycle takes. How many decisions are made
in a second is asked where eight jobs end and eight come at the same moment (``together``), of the
same fleet: by cycles timed one by one, and of the loop as it runs, with everything around a cycle.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bench import ordinary
from bench.ordinary import ALL, Features
from tidemill.core.replay import PLACED
from tidemill.engine import cycle as one
from tidemill.engine.loop import BatchReader, Loop
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.events import AskedPlace
from tidemill.model.measures import DAY_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Role, Shape, Template
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin

FULL_AT_MS = 20 * MINUTE_MS  # all nodes are ready long before
SECOND_MS = 1000
RUN_MS = 2200 * SECOND_MS
BEATS_PER_COMMIT = 1_024  # as wherever a twin runs


def run(nodes: int = 12_500, pending: int = 5_000, cycles: int = 300) -> dict[str, Any]:
    """The production case, then with more teams, with more CPU sizes, and with more waiting."""
    return {
        "production": case(nodes, pending, cycles),
        "production_together": case(nodes, pending, cycles, together=True),
        "production_driven": driven(nodes, pending, cycles),
        "teams_1000": case(nodes, pending, cycles, teams=1_000),
        "cpu_sizes_16": case(nodes, pending, cycles, cpu_sizes=16),
        "pending_50000": case(nodes, 10 * pending, cycles),
    }


def case(
    nodes: int,
    pending: int,
    cycles: int,
    teams: int = ordinary.TEAMS,
    cpu_sizes: int = 1,
    together: bool = False,
) -> dict[str, Any]:
    """Cycles of one case, timed one by one; percentiles in milliseconds."""
    stream = _stream(nodes, pending, cycles, teams, cpu_sizes, together)
    loop = _filled(nodes, stream, teams)
    taken_ms, placed = list[float](), 0
    while len(taken_ms) < cycles:
        assert loop.backend.next_ms() is not None, "jobs arrive for longer than is measured"
        if not loop.take():
            continue
        start = time.process_time()
        plan = one.cycle(loop.world, loop.policy, loop.memo)
        taken_ms.append(1000 * (time.process_time() - start))
        loop.settle(plan)
        placed += sum(isinstance(action, AskedPlace) for action in plan.actions)
    world = loop.world
    return {
        "running": len(world.placements),
        "pending": sum(len(jobs) for jobs in world.waiting),
        "shapes_waiting": len(world.queued),
        "p50_ms": round(float(np.percentile(taken_ms, 50)), 3),
        "p99_ms": round(float(np.percentile(taken_ms, 99)), 3),
        "placed_per_cycle": round(placed / cycles, 2),
        "placed_per_cpu_s": round(1000 * placed / sum(taken_ms)),
    }


def driven(nodes: int, pending: int, seconds: int) -> dict[str, Any]:
    """The loop as it runs, for so many seconds in each of which eight jobs come and about as many
    end: everything counts, from the event to the plan that was checked and folded.
    """
    stream = _stream(nodes, pending, seconds, ordinary.TEAMS, 1, together=True)
    counted = _Placements()
    loop = _filled(nodes, stream, ordinary.TEAMS, [counted])
    first_ms = loop.world.now_ms
    loop.run(first_ms + 10 * SECOND_MS)  # laid out, and loaded, before the clock runs
    before, events = counted.count, loop.world.seq
    start = time.process_time()
    loop.run(first_ms + (10 + seconds) * SECOND_MS)
    cpu_s = time.process_time() - start
    placed = counted.count - before
    return {
        "running": len(loop.world.placements),
        "pending": sum(len(jobs) for jobs in loop.world.waiting),
        "placed_per_second": round(placed / seconds, 2),
        "events_per_cpu_s": round((loop.world.seq - events) / cpu_s),
        "placed_per_cpu_s": round(placed / cpu_s),
    }


class _Placements:
    """A reader that counts placements."""

    def __init__(self) -> None:
        self.count = 0

    def take_batch(self, batch: Batch) -> None:
        """Count those of a batch."""
        self.count += int((batch.events[:, EventColumn.KIND] == PLACED).sum())


def _filled(
    nodes: int,
    stream: Iterable[Arrival],
    teams: int,
    readers: Sequence[BatchReader] = (),
) -> Loop:
    """A loop on a fleet that is full, with a backlog."""
    features: Features = ALL
    contract = Contract(
        "fleet", "main", "H100", nodes * 8, 2_000_000, Template(8, 192_000, 2_000_000)
    )
    backend = Twin(
        [contract],
        ordinary.queues(nodes, features, teams),
        list(stream),
        topology=ordinary.topology(features),
        nodes_per=ordinary.NODES_PER,
        horizon_ms=DAY_MS,
        seed=1,
    )
    loop = Loop(World(), Policy(), backend, None, readers, BEATS_PER_COMMIT)
    while (at_ms := backend.next_ms()) is not None and at_ms < FULL_AT_MS + 60 * SECOND_MS:
        loop.beat(at_ms)
    return loop


def _stream(
    nodes: int, pending: int, cycles: int, teams: int, cpu_sizes: int, together: bool
) -> Iterator[Arrival]:
    """Enough to fill the fleet and to leave a backlog, all at once; then eight each second.

    ``together``: run times are whole seconds, so that jobs end at the moments at which others come.
    """
    rng = np.random.default_rng(1)
    weights = np.array(ordinary.WEIGHTS) / sum(ordinary.WEIGHTS)
    free, waiting, number, at_ms = nodes * 8, 0, 0, FULL_AT_MS
    later = 8 * (cycles + 100)
    while later:
        size = int(rng.choice(ordinary.SIZES, p=weights))
        if free >= 0:
            free -= size
        elif waiting < pending:
            waiting += 1
        else:
            later -= 1
            at_ms = FULL_AT_MS + (61 + (8 * (cycles + 100) - later) // 8) * SECOND_MS
        run_ms = int(np.clip(rng.lognormal(np.log(RUN_MS / 2), 1.2), 20_000, DAY_MS))
        if together:
            run_ms = -(-run_ms // SECOND_MS) * SECOND_MS
        yield Arrival(at_ms, _job(rng, number, size, run_ms, teams, cpu_sizes), run_ms)
        number += 1


def _job(
    rng: np.random.Generator, number: int, size: int, run_ms: int, teams: int, cpu_sizes: int
) -> Job:
    each = min(size, 8)
    cpu = int(rng.integers(1, cpu_sizes + 1)) * 1000 * each if cpu_sizes > 1 else 0
    bonds = (Bond("rack", is_required=False),) if size > 8 else ()
    role = Role(count=size // each, accelerators=each, cpu_milli=cpu, bonds=bonds)
    team = f"team{rng.integers(teams)}"
    shape = Shape(team, (role,), is_preemptible=bool(rng.random() < 0.5))
    return Job(f"j{number}", shape, estimate_ms=int(run_ms * rng.uniform(1, 4)))
