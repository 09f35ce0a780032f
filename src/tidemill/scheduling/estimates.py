"""Estimates: how long a job is taken to run, from its owner's guess and from history.

``given``: the guess. ``history``: the guess times the ratio of truth to guess that the team's past
jobs did not exceed in ``estimate_ppm`` of cases; without a guess the same quantile of the run times
of the team's jobs of that size. A history of fewer than ``FEWEST`` jobs says nothing. Where nobody
says anything, ``unknown_run_ms``.

A job that outran its estimate is taken to be one of those that lasted longer: the same quantile of
these alone; where there is none, twice as long as thought before. So an expected end stays where it
is until it has passed, and is moved a bounded number of times.
"""

from typing import NamedTuple

from tidemill.core import order as core
from tidemill.model import history
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World

FEWEST = 20  # as in ``explain.lengths``: below this a tenth of the samples is less than two


class Basis(NamedTuple):
    """What history says at first about the jobs of one team and size; None: nothing."""

    ratio_ppm: int | None
    run_ms: int | None


class Estimates:
    """Estimates under one policy; remembers what history said until there is more of it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.reads_history = policy.estimates == "history"
        self._known: dict[tuple[int, int], tuple[int, Basis]] = {}

    def basis(self, world: World, s: int) -> Basis:
        """What history says about the jobs of a shape."""
        q = world.shapes.queue.item(s)
        if not self.reads_history or q >= len(world.ended):
            return Basis(None, None)
        size = history.size_of(world.shapes.total_milli.item(s))
        known = self._known.get((q, size))
        if known is None or known[0] != world.ended.item(q):
            share = self._policy.estimate_ppm
            ratios, run_times = world.ratios[q], world.run_times[q, size]
            found = Basis(_told(ratios, share), _told(run_times, share))
            known = self._known[q, size] = (world.ended.item(q), found)
        return known[1]

    def first_ms(self, world: World, j: int) -> int:
        """How long a job was taken to run in all before anything was known of it."""
        guess_ms = world.jobs.estimate_ms.item(j)
        basis = self.basis(world, world.jobs.shape.item(j))
        total_ms = guess_ms or basis.run_ms or self._policy.unknown_run_ms or 1
        if guess_ms and basis.ratio_ppm is not None:
            total_ms = guess_ms * basis.ratio_ppm // ONE_PPM
        return max(1, min(total_ms, FOREVER_MS // 4))

    def total_ms(self, world: World, j: int, worked_ms: int = 0) -> int:
        """How long a job that has done so much already, or ever had, is taken to run in all."""
        if not self.reads_history:
            unknown_ms, jobs = self._policy.unknown_run_ms, world.matrices.jobs
            given_ms: int = core.total_if_given(jobs, j, worked_ms, unknown_ms)
            return given_ms
        total_ms = self.first_ms(world, j)
        reached_ms = max(worked_ms, world.jobs.reached_ms.item(j))
        if total_ms <= reached_ms:
            s, guess_ms = world.jobs.shape.item(j), world.jobs.estimate_ms.item(j)
            basis = self.basis(world, s)
            while total_ms <= reached_ms:
                total_ms = self._next_ms(world, s, guess_ms, basis, total_ms)
        return total_ms

    def left_ms(self, world: World, j: int, worked_ms: int) -> int:
        """How much longer a job that has done so much already is taken to run."""
        return self.total_ms(world, j, worked_ms) - worked_ms

    def _next_ms(self, world: World, s: int, guess_ms: int, basis: Basis, total_ms: int) -> int:
        """The estimate after one that was outrun."""
        q, share = world.shapes.queue.item(s), self._policy.estimate_ppm
        longer_ms = None
        if guess_ms and basis.ratio_ppm is not None:
            past_ppm = max(1, total_ms * ONE_PPM // guess_ms)
            ratio_ppm = history.quantile(world.ratios[q], share, past_ppm)
            longer_ms = None if ratio_ppm is None else guess_ms * ratio_ppm // ONE_PPM
        elif not guess_ms and basis.run_ms is not None:
            size = history.size_of(world.shapes.total_milli.item(s))
            longer_ms = history.quantile(world.run_times[q, size], share, total_ms)
        return longer_ms if longer_ms is not None and longer_ms > total_ms else 2 * total_ms


def _told(counts: I64, share_ppm: int) -> int | None:
    return history.quantile(counts, share_ppm) if int(counts.sum()) >= FEWEST else None
