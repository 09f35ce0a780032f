"""Lengths: how long jobs will still take, learnt from those that ran in this World.

Where the owner gave an estimate, the ratio of truth to estimate of all jobs is used; otherwise the
run times of jobs of the same class and about the same size. However a job ended, it ended: those
that failed or were cancelled while they ran count too. Those that still run count as longer than
they have run so far (Kaplan and Meier, JASA 53, 1958): those that ended by now are the short ones.
Both are asked for a quantile *of those that lasted longer than this one has already*: a job that
outran its estimate is not expected to end at once.

Until 20 ended jobs have an estimate, the ratio is taken as even between 0 and 1: so Mu'alem and
Feitelson found it on four machines (IEEE TPDS 12(6), 2001).
"""

import numpy as np

from tidemill.explain.draws import Draw
from tidemill.explain.lifetimes import RunHistory, RunTimes
from tidemill.model import paging
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import CLASSES, JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

FEWEST = 20  # below this a tenth of the samples is less than two of them
EVEN_PPM: I64 = np.arange(1, 101, dtype=np.int64) * (ONE_PPM // 100)
_NONE = np.zeros(0, np.int64)


class Lengths:
    """What the jobs that ran in one World tell about the others."""

    def __init__(self, world: World) -> None:
        count, jobs = world.job_count, world.jobs
        state = paging.column(jobs.state, count)
        ended = np.flatnonzero((state >= JobState.DONE) & (paging.column(jobs.ran_ms, count) > 0))
        going = np.flatnonzero(state == JobState.RUNNING)
        self._ended, self._going = (
            RunTimes(ended, _ran_ms(world, ended)),
            RunTimes(going, _going_ms(world, going)),
        )
        self._waiting: I64 = np.flatnonzero(state == JobState.WAITING)
        self._shape = paging.column(jobs.shape, count)
        self._estimate_ms = paging.column(jobs.estimate_ms, count)
        self._is_active = frozenset(world.placements)
        self._family, self._class = _families(world)
        has_estimate = self._estimate_ms > 0
        self.samples = int(has_estimate[ended].sum())
        self.is_measured = self.samples >= FEWEST
        self._ratios = RunHistory(RunTimes(_NONE, EVEN_PPM), RunTimes(_NONE, _NONE), 0)
        if self.is_measured:
            self._ratios = RunHistory(
                self._ratios_of(self._ended), self._ratios_of(self._going),
                int(has_estimate[self._waiting].sum()),
            )  # fmt: skip
        self._kept: dict[tuple[int, int], RunHistory] = {}
        self._of_job: dict[int, tuple[RunHistory | None, int, bool]] = {}

    def ratio_ppm(self, share_ppm: int) -> int:
        """The ratio of truth to estimate that this share of jobs does not exceed."""
        found = self._ratios.whole.quantile(share_ppm)
        assert found is not None, "there are at least as many as are assumed"
        return found

    def left_ms(self, world: World, j: int, elapsed_ms: int, draw: Draw) -> int | None:
        """How much longer a job takes that has worked this long; None: nobody can know."""
        if j not in self._of_job:
            self._of_job[j] = self._read(world, j)
        alike, estimate_ms, is_active = self._of_job[j]
        if alike is None:
            return None
        lives, share_ppm = alike.whole if is_active else alike.of(draw), draw.of_job(j)
        if estimate_ms:
            ratio = lives.quantile(share_ppm, elapsed_ms * ONE_PPM // estimate_ms)
            total_ms = None if ratio is None else estimate_ms * ratio // ONE_PPM
        else:
            total_ms = lives.quantile(share_ppm, elapsed_ms)
        if total_ms is None:  # longer than all that ended: as long again, times the share
            return max(1, elapsed_ms * share_ppm // ONE_PPM)
        return max(1, total_ms - elapsed_ms)

    def _read(self, world: World, j: int) -> tuple[RunHistory | None, int, bool]:
        """Whom a job is like, its estimate, and whether it was active when the World was read."""
        estimate_ms = int(world.jobs.estimate_ms[j])
        alike = self._ratios if estimate_ms else self._alike(int(world.jobs.shape[j]))
        return alike, estimate_ms, j in self._is_active

    def _alike(self, s: int) -> RunHistory | None:
        """Jobs of the shape's family, or else of its class; None: none of them has ended."""
        if s >= len(self._family):  # a shape that was only imagined after the World was read
            return None
        for rank, of_shape in enumerate((self._family, self._class)):
            key = (rank, int(of_shape[s]))
            if key not in self._kept:
                is_one = of_shape == key[1]
                ended, going = (
                    RunTimes(*(column[is_one[self._shape[seen.jobs]]] for column in seen))
                    for seen in (self._ended, self._going)
                )
                waiting = int(is_one[self._shape[self._waiting]].sum())
                self._kept[key] = RunHistory(ended, going, waiting)
            if self._kept[key].whole.values:
                return self._kept[key]
        return None

    def _ratios_of(self, seen: RunTimes) -> RunTimes:
        """Run time over estimate, of the jobs that have one."""
        estimate_ms = self._estimate_ms[seen.jobs]
        known = estimate_ms > 0
        shares = seen.values[known].astype(float) / estimate_ms[known]
        return RunTimes(seen.jobs[known], (np.minimum(shares, 1e6) * ONE_PPM).astype(np.int64))


def _ran_ms(world: World, ended: I64) -> I64:
    """How long jobs worked that have ended; no longer than they ran in all their attempts."""
    jobs, count = world.jobs, world.job_count
    columns = (jobs.since_ms, jobs.origin_ms, jobs.saved_ms, jobs.state, jobs.ran_ms)
    since_ms, origin_ms, saved_ms, state, ran_ms = (
        paging.column(column, count)[ended] for column in columns
    )
    last_ms: I64 = since_ms - origin_ms + saved_ms
    return np.where(state == JobState.DONE, last_ms, np.minimum(last_ms, ran_ms))


def _going_ms(world: World, going: I64) -> I64:
    """How long running jobs have worked so far."""
    jobs = world.jobs
    worked_ms: I64 = world.now_ms - jobs.origin_ms[going] + jobs.saved_ms[going]
    return worked_ms


def _families(world: World) -> tuple[I64, I64]:
    """For each shape its family (class and size to a power of two) and its class."""
    classes = np.array([CLASSES.index(row.kind) for row in world.shape_rows], np.int64)
    sizes = [int(milli).bit_length() for milli in world.shapes.total_milli[: len(classes)]]
    return np.array(sizes, np.int64) * len(CLASSES) + classes, classes
