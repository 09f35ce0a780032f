"""Passers: how many later jobs were started before one that waits, and since when."""

from typing import NamedTuple

import numpy as np

from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.tables import NEVER_PASSED
from tidemill.model.world import World


class Passed(NamedTuple):
    """Since when a waiting job is passed, by how many, and from when on nobody may any more."""

    since_ms: int
    jobs: int
    held_from_ms: int


def of(world: World, policy: Policy, j: int) -> Passed | None:
    """Who passed a waiting job that a later one could use the accelerators of; None: nobody.

    Counted are jobs that were submitted later, may use a GPU type that it may use too, and were
    started (last) since the first of them was.
    """
    jobs, count = world.jobs, world.job_count
    since_ms = jobs.passed_ms.item(j)
    if since_ms == NEVER_PASSED:
        return None
    mine = _kinds(world, jobs.shape.item(j))
    shares = [not mine.isdisjoint(_kinds(world, s)) for s in range(len(world.shape_rows))]
    later = np.flatnonzero(
        (jobs.placed_ms[:count] >= since_ms)
        & (jobs.attempt[:count] > 0)
        & (jobs.state[:count] != JobState.WAITING)
    )
    passers = int(np.array(shares, bool)[jobs.shape[later[later > j]]].sum())
    return Passed(since_ms, passers, since_ms + policy.hold_after_ms)


def _kinds(world: World, s: int) -> set[str]:
    return {kind for role in world.shape_rows[s].roles for kind in (role.kinds or world.kinds)}
