"""Scheduling cycles with a backlog: a large fleet that is full, and thousands of jobs waiting.

``run``: organisations with teams, guaranteed quotas, racks and spines, easy backfill; some jobs end
and some come at every moment, and each cycle is timed by itself. Then with many teams, and with
many CPU sizes, which make many shapes.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import ordinary
from bench.ordinary import ALL, Features
from tidemill.engine import cycle as one
from tidemill.engine.loop import Loop
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


def run(nodes: int = 12_500, pending: int = 5_000, cycles: int = 300) -> dict[str, Any]:
    """The production case, then with more teams, with more CPU sizes, and with more waiting."""
    return {
        "production": case(nodes, pending, cycles),
        "teams_1000": case(nodes, pending, cycles, teams=1_000),
        "cpu_sizes_16": case(nodes, pending, cycles, cpu_sizes=16),
        "pending_50000": case(nodes, 10 * pending, cycles),
    }


def case(
    nodes: int, pending: int, cycles: int, teams: int = ordinary.TEAMS, cpu_sizes: int = 1
) -> dict[str, Any]:
    """Cycles of one case, timed one by one; percentiles in milliseconds."""
    loop = _filled(nodes, pending, cycles, teams, cpu_sizes)
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
        "placed_per_cpu_s": round(1000 * placed / sum(taken_ms)),
    }


def _filled(nodes: int, pending: int, cycles: int, teams: int, cpu_sizes: int) -> Loop:
    """A loop on a fleet that is full, with a backlog."""
    features: Features = ALL
    contract = Contract(
        "fleet", "main", "H100", nodes * 8, 2_000_000, Template(8, 192_000, 2_000_000)
    )
    backend = Twin(
        [contract],
        ordinary.queues(nodes, features, teams),
        list(_stream(nodes, pending, cycles, teams, cpu_sizes)),
        topology=ordinary.topology(features),
        nodes_per=ordinary.NODES_PER,
        horizon_ms=DAY_MS,
        seed=1,
    )
    loop = Loop(World(), Policy(), backend, None)
    while (at_ms := backend.next_ms()) is not None and at_ms < FULL_AT_MS + 60 * SECOND_MS:
        loop.beat(at_ms)
    return loop


def _stream(nodes: int, pending: int, cycles: int, teams: int, cpu_sizes: int) -> Iterator[Arrival]:
    """Enough to fill the fleet and to leave a backlog, all at once; then eight each second."""
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
