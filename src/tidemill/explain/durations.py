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

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.states import CLASSES, JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

FEWEST = 20  # below this a tenth of the samples is less than two of them
EVEN_PPM: I64 = np.arange(1, 101, dtype=np.int64) * (ONE_PPM // 100)
_NONE = np.zeros(0, np.int64)


class Lived(NamedTuple):
    """How long something lasts: ended values in order, and what share does not outlast each."""

    values: list[int]
    gone: list[float]
    longest: int
    """The longest that was seen, ended or not."""

    def quantile(self, share_ppm: int, past: int = 0) -> int | None:
        """What this share of those that outlast ``past`` does not exceed; None: none is known."""
        first = bisect_right(self.values, past)
        if first == len(self.values):
            return None
        gone = self.gone[first - 1] if first else 0.0
        wanted = gone + (1.0 - gone) * share_ppm / ONE_PPM
        i = bisect_left(self.gone, wanted - 1e-9, first)
        if i < len(self.values):
            return self.values[i]
        return self.longest + self.longest * share_ppm // ONE_PPM


def lived(ended: I64, going: I64) -> Lived:
    """From values that ended and values that others have reached and not ended at."""
    values, reached = np.sort(ended), np.sort(going)
    count = len(values)
    at_risk = count - np.arange(count) + len(reached) - np.searchsorted(reached, values)
    longest = max((int(part[-1]) for part in (values, reached) if len(part)), default=0)
    gone: list[float] = (1.0 - np.cumprod(1.0 - 1.0 / at_risk)).tolist()
    return Lived(values.tolist(), gone, longest)


NOTHING = lived(_NONE, _NONE)


class Lengths:
    """What the jobs that ran in one World tell about the others."""

    def __init__(self, world: World) -> None:
        count, jobs = world.job_count, world.jobs
        state = jobs.state[:count]
        ended = np.flatnonzero((state >= JobState.DONE) & (jobs.ran_ms[:count] > 0))
        going = np.flatnonzero(state == JobState.RUNNING)
        self._seen: I64 = np.concatenate([ended, going])
        self._has_ended = np.arange(len(self._seen)) < len(ended)
        self._run_ms = np.concatenate([_ran_ms(world, ended), _going_ms(world, going)])
        self._shape = jobs.shape[self._seen]
        self._family, self._class = _families(world)
        estimate_ms = jobs.estimate_ms[self._seen]
        known = estimate_ms > 0
        shares = self._run_ms[known].astype(float) / estimate_ms[known]
        ratios: I64 = (np.minimum(shares, 1e6) * ONE_PPM).astype(np.int64)
        has_ended = self._has_ended[known]
        self.samples = int(has_ended.sum())
        self.is_measured = self.samples >= FEWEST
        self._ratios = lived(EVEN_PPM, _NONE)
        if self.is_measured:
            self._ratios = lived(ratios[has_ended], ratios[~has_ended])
        self._kept: dict[tuple[int, int], Lived] = {}

    def ratio_ppm(self, share_ppm: int) -> int:
        """The ratio of truth to estimate that this share of jobs does not exceed."""
        found = self._ratios.quantile(share_ppm)
        assert found is not None, "there are at least as many as are assumed"
        return found

    def left_ms(self, world: World, j: int, elapsed_ms: int, share_ppm: int) -> int | None:
        """How much longer a job takes that has worked this long; None: nobody can know."""
        estimate_ms = int(world.jobs.estimate_ms[j])
        if estimate_ms:
            past_ppm = elapsed_ms * ONE_PPM // estimate_ms
            ratio = self._ratios.quantile(share_ppm, past_ppm)
            total_ms = None if ratio is None else estimate_ms * ratio // ONE_PPM
        else:
            lives = self._lives(int(world.jobs.shape[j]))
            if not len(lives.values):
                return None
            total_ms = lives.quantile(share_ppm, elapsed_ms)
        if total_ms is None:  # longer than all that ended: as long again, times the share
            return max(1, elapsed_ms * share_ppm // ONE_PPM)
        return max(1, total_ms - elapsed_ms)

    def _lives(self, s: int) -> Lived:
        """Run times of jobs of the shape's family, or else of its class."""
        if s >= len(self._family):  # a shape that was only imagined after the World was read
            return NOTHING
        found = NOTHING
        for rank, of_shape in enumerate((self._family, self._class)):
            key = (rank, int(of_shape[s]))
            if key not in self._kept:
                mine = of_shape[self._shape] == key[1]
                self._kept[key] = lived(
                    self._run_ms[mine & self._has_ended], self._run_ms[mine & ~self._has_ended]
                )
            found = self._kept[key]
            if len(found.values):
                break
        return found


def _ran_ms(world: World, ended: I64) -> I64:
    """How long jobs worked that have ended; no longer than they ran in all their attempts."""
    jobs = world.jobs
    last_ms: I64 = jobs.since_ms[ended] - jobs.origin_ms[ended] + jobs.saved_ms[ended]
    is_done = jobs.state[ended] == JobState.DONE
    return np.where(is_done, last_ms, np.minimum(last_ms, jobs.ran_ms[ended]))


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
