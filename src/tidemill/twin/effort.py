"""What running a spec will cost in time and disk, said before it begins.

From jobs and nodes alone, by what was measured on 2026-11-15 on one core of a shared machine:
70,000 jobs on 512 nodes took 120 s of processor time and 61 MB, 20,000 jobs on 20,000 nodes 11 s
and 27 MB.
Gangs, evictions and full queues cost more, so this is an order of magnitude.
"""

from typing import NamedTuple

from tidemill.model.measures import DAY_MS, SECOND_MS, duration_text
from tidemill.twin.spec.tables import Spec

JOB_MS = 1.7  # of processor time
JOB_BYTES, NODE_BYTES = 900, 500  # of journal
WORTH_SAYING_MS = 120 * SECOND_MS


class Effort(NamedTuple):
    """Jobs and nodes of a story, and about what it takes to tell it."""

    jobs: int
    nodes: int
    ms: int
    bytes: int

    @property
    def words(self) -> str:
        """For people, where it is worth saying; else nothing."""
        if self.ms < WORTH_SAYING_MS:
            return ""
        return (
            f"about {self.jobs:,} jobs on {self.nodes:,} nodes: expect about"
            f" {duration_text(self.ms)} of computing and {self.bytes / 1e9:,.1f} GB of journal,"
            " more where queues are long"
        )


def expected(spec: Spec) -> Effort:
    """About what a run of this spec takes."""
    nodes = sum(row.count // row.accelerators_per_node for row in spec.contracts)
    jobs = round(jobs_expected(spec))
    size = jobs * JOB_BYTES + nodes * NODE_BYTES
    return Effort(jobs, nodes, round(jobs * JOB_MS), size)


def jobs_expected(spec: Spec) -> float:
    """How many jobs come within the horizon, on average."""
    horizon_ms = int(spec.twin.horizon)
    generated = sum(
        row.per_day * max(0, min(horizon_ms, _end_ms(row.end, horizon_ms)) - row.start) / DAY_MS
        for row in spec.workloads
    )
    return generated + sum(row.copies for row in spec.jobs)


def _end_ms(end: int | None, horizon_ms: int) -> int:
    return horizon_ms if end is None else int(end)
