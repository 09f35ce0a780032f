"""Which nodes are slow whoever runs on them? From ranks of several jobs, or from whole jobs.

Where ranks were judged, a node that is slow in several jobs is. Where they were not, the same job
on different nodes tells: a job is compared with itself, with a node and without it.
"""

from collections.abc import Iterable, Sequence
from math import log1p
from statistics import median
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.workload.slow.peers import RULE

LEAST_JOBS = 2
LEAST_LAUNCHES = 3  # of one job on each side, where only one job tells


class JudgedNode(NamedTuple):
    """A node in one launch, on several nodes, of a job whose ranks were judged."""

    job: str
    node: str
    slow_ppm: int | None
    """Of the slowest suspect among its ranks; None: none of them is one."""
    waited_gpu_us: int


class SlowNode(NamedTuple):
    """A node with suspects."""

    node: str
    jobs_judged: int
    jobs_slow: int
    slow_ppm: int
    """The median of the jobs in which it was slow."""
    waited_gpu_us: int

    @property
    def is_repeated(self) -> bool:
        """Whether it was slow in several jobs, and in most: then it is the node, and not a job."""
        return self.jobs_slow >= LEAST_JOBS and 2 * self.jobs_slow > self.jobs_judged


class PlacedLaunch(NamedTuple):
    """A launch of a job, where it ran and how long its steps took."""

    job: str
    nodes: frozenset[str]
    step_us: int


class SlowPlacement(NamedTuple):
    """A node with which jobs took longer than without it."""

    node: str
    jobs: int
    launches: int
    """That it took part in, of those jobs."""
    slow_ppm: int
    """The median over jobs of the time of a step with it over that without it, less one."""


def by_node(judged: Iterable[JudgedNode]) -> tuple[SlowNode, ...]:
    """The nodes with suspects: those slow in several jobs first, then the costliest."""
    rows: dict[str, list[JudgedNode]] = {}
    for one in judged:
        rows.setdefault(one.node, []).append(one)
    found = []
    for node, some in rows.items():
        slow = {one.job: one.slow_ppm for one in some if one.slow_ppm is not None}
        if slow:
            found.append(
                SlowNode(
                    node, len({one.job for one in some}), len(slow), round(median(slow.values())),
                    sum(one.waited_gpu_us for one in some),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda n: (-n.is_repeated, -n.waited_gpu_us, n.node)))


def by_placement(
    launches: Sequence[PlacedLaunch], gate_ppm: int = RULE.gate_ppm
) -> tuple[SlowPlacement, ...]:
    """Nodes with which each of several jobs (or of several launches of one) took longer."""
    by_job: dict[str, list[PlacedLaunch]] = {}
    for one in launches:
        if one.step_us > 0:
            by_job.setdefault(one.job, []).append(one)
    found = []
    for node in sorted({node for one in launches for node in one.nodes}):
        ratios, count, is_enough = _with_and_without(node, by_job)
        if is_enough and min(ratios) >= log1p(gate_ppm / ONE_PPM):
            slow_ppm = round(float(np.expm1(median(ratios))) * ONE_PPM)
            found.append(SlowPlacement(node, len(ratios), count, slow_ppm))
    return tuple(sorted(found, key=lambda n: (-n.jobs, -n.slow_ppm, n.node)))


def _with_and_without(
    node: str, by_job: dict[str, list[PlacedLaunch]]
) -> tuple[list[float], int, bool]:
    """Of each job that ran with a node and without it: how much longer, as a logarithm."""
    ratios, count, is_enough = list[float](), 0, False
    for some in by_job.values():
        beside = [one.step_us for one in some if node in one.nodes]
        without = [one.step_us for one in some if node not in one.nodes]
        if beside and without:
            ratios.append(float(np.log(median(beside) / median(without))))
            count += len(beside)
            is_enough |= min(len(beside), len(without)) >= LEAST_LAUNCHES
    return ratios, count, is_enough or len(ratios) >= LEAST_JOBS
