"""What each feature of a policy, or of jobs, costs on an ordinary fleet, one more at a time.

``run``: the fleet of ``bench ordinary`` (organisations, guaranteed quotas, racks, easy backfill,
faults) with one thing more in each row; jobs that *ended* per CPU-second, how often the compiled
loop came back to Python, and how many beats it did not make at all. A feature whose beats are
Python's shows here, not only in a list.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from bench import ordinary
from bench.spine import reference_per_cpu_s
from tidemill import api
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Role, Shape
from tidemill.model.states import JobState
from tidemill.model.topology import Bond
from tidemill.twin.arrivals import Arrival

BASE = ordinary.ALL._replace(fault_rate=6.5)
EASY = Policy()


class Variant(NamedTuple):
    """One thing more than the ordinary fleet has."""

    policy: Policy = EASY
    shape: Callable[[int, Shape], Shape] = lambda _, shape: shape
    """What a job asks for, by its number and what it asked for before."""


def run(jobs: int = 4_000, nodes: int = 128) -> dict[str, Any]:
    """Every variant, the better of two runs: the first may compile what it needs."""
    found = dict[str, Any]()
    for name, variant in VARIANTS.items():
        runs = [_once(jobs, nodes, variant) for _ in range(2)]
        found[name] = max(runs, key=lambda run: run["ended_per_cpu_s"])
    return {"reference_per_cpu_s": round(reference_per_cpu_s()), **found}


def _once(jobs: int, nodes: int, variant: Variant) -> dict[str, Any]:
    backend = ordinary.twin(jobs, nodes, BASE, arrivals=_changed(jobs, nodes, variant))
    start = time.process_time()
    done = api.run(backend, variant.policy)
    cpu_s = time.process_time() - start
    world = done.world
    ended = int((world.jobs.state[: world.job_count] >= JobState.DONE).sum())
    return {
        "ended": ended,
        "cpu_s": round(cpu_s, 2),
        "ended_per_cpu_s": round(ended / cpu_s),
        **backend.returns(ended),
    }


def _changed(jobs: int, nodes: int, variant: Variant) -> Iterator[Arrival]:
    shapes = dict[tuple[int, Shape], Shape]()
    for i, arrival in enumerate(ordinary.stream(jobs, nodes, BASE, 0.95, 1)):
        job: Job = arrival.job
        shape = shapes.setdefault((i % 3, job.shape), variant.shape(i % 3, job.shape))
        yield arrival._replace(job=replace(job, shape=shape))


def _roles(shape: Shape, *roles: Role) -> Shape:
    return replace(shape, roles=roles)


def _with_priority(i: int, shape: Shape) -> Shape:
    return replace(shape, priority=10 * i)


def _in_one_rack(_: int, shape: Shape) -> Shape:
    """Gangs that fit into a rack have to be in one."""
    role = shape.roles[0]
    is_small = 1 < role.count <= ordinary.NODES_PER["fleet"]["rack"]
    return _roles(shape, replace(role, bonds=(Bond("rack"),))) if is_small else shape


def _of_two_roles(_: int, shape: Shape) -> Shape:
    """Gangs have a coordinator without accelerators."""
    role = shape.roles[0]
    if role.count == 1:
        return shape
    return _roles(shape, role, Role("coordinator", accelerators=0, cpu_milli=4_000))


def _elastic(_: int, shape: Shape) -> Shape:
    """Gangs work with half of their replicas, too."""
    role = shape.roles[0]
    return _roles(shape, replace(role, least=role.count // 2)) if role.count > 1 else shape


def _in_fractions(i: int, shape: Shape) -> Shape:
    """A third of the jobs of one accelerator need half of one."""
    role = shape.roles[0]
    is_half = i == 0 and role.count * role.accelerators == 1
    return _roles(shape, replace(role, milli=500)) if is_half else shape


VARIANTS = {
    "ordinary, with faults": Variant(),
    "three priorities": Variant(shape=_with_priority),
    "order fifo": Variant(Policy(order="fifo")),
    "order shortest": Variant(Policy(order="shortest")),
    "order smallest": Variant(Policy(order="smallest")),
    "order attained": Variant(Policy(order="attained")),
    "fairness drf": Variant(Policy(fairness="drf")),
    "fairness drf, half-life of a day": Variant(Policy(fairness="drf", usage_half_life_ms=DAY_MS)),
    "backfill conservative": Variant(Policy(backfill="conservative")),
    "backfill none": Variant(Policy(backfill="none")),
    "estimates from history": Variant(Policy(estimates="history")),
    "moves": Variant(Policy(may_move=True)),
    "idle jobs culled": Variant(Policy(cull_idle_after_ms=HOUR_MS)),
    "racks required": Variant(shape=_in_one_rack),
    "two roles": Variant(shape=_of_two_roles),
    "elastic, sizes as placed": Variant(Policy(may_resize=False), _elastic),
    "elastic, resized": Variant(shape=_elastic),
    "fractions": Variant(shape=_in_fractions),
}
