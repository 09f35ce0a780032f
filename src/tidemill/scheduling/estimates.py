"""Estimates: how long a job is taken to run, from its owner's guess and from history.

``given``: the guess. ``history``: the guess times the ratio of truth to guess that the team's past
jobs did not exceed in ``estimate_ppm`` of cases; without a guess the same quantile of the run times
of the team's jobs of that size. A history of fewer than ``FEWEST`` jobs says nothing. Where nobody
says anything, ``unknown_run_ms``.

A job that outran its estimate is taken to be one of those that lasted longer: the same quantile of
these alone; where there is none, twice as long as thought before. So an expected end stays where it
is until it has passed, and is moved a bounded number of times. ``core.estimates`` says so to
kernels and to everybody else.
"""

import numpy as np

from tidemill.core import estimates as core
from tidemill.core.estimates import COLUMNS, SAID
from tidemill.model.policy import Policy
from tidemill.model.tables import I64, grown
from tidemill.model.world import World


class Estimates:
    """Estimates under one policy; remembers what history said until there is more of it."""

    def __init__(self, policy: Policy) -> None:
        self._learnt: I64 = np.zeros((1, COLUMNS), np.int64)
        self._reads_history = policy.estimates == "history"
        self._learnt[0, SAID.UNKNOWN_MS] = policy.unknown_run_ms
        self._learnt[0, SAID.SHARE_PPM] = policy.estimate_ppm if self._reads_history else -1

    def columns(self, world: World) -> I64:
        """As kernels take it, with rows for all teams; what it says may be older than now."""
        if self._reads_history:
            rows = core.rows_for(len(world.queue_rows))
            if rows > len(self._learnt):
                self._learnt = grown(self._learnt, rows)
        return self._learnt

    def learnt(self, world: World) -> I64:
        """The same, with all that history says by now."""
        w, learnt = world.matrices, self.columns(world)
        core.learn(w.queues, w.run_times, w.ratios, learnt)
        return learnt

    def news(self, world: World) -> int:
        """Another number when history says something else."""
        return self.learnt(world).item(0, SAID.NEWS)

    def total_ms(self, world: World, j: int, worked_ms: int = 0) -> int:
        """How long a job that has done so much already, or ever had, is taken to run in all."""
        w = world.matrices
        return int(core.total_ms(w.jobs, w.shapes, self.learnt(world), j, worked_ms))

    def left_ms(self, world: World, j: int, worked_ms: int) -> int:
        """How much longer a job that has done so much already is taken to run."""
        return self.total_ms(world, j, worked_ms) - worked_ms

    def end_if_placed_ms(self, world: World, j: int) -> int:
        """When a waiting job is expected to end if it is placed now."""
        w, learnt = world.matrices, self.learnt(world)
        return int(core.end_if_placed(w.jobs, w.shapes, learnt, j, world.now_ms))
