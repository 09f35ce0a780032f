"""Lengths: how long jobs will still take, learnt from those that finished in this World.

Where the owner gave an estimate, the ratio of truth to estimate of all finished jobs is used;
otherwise the run times of finished jobs of the same class and about the same size. Both are asked
for a quantile *of those that lasted longer than this one has already*: a job that outran its
estimate is not expected to end at once.

Until 20 finished jobs have an estimate, the ratio is taken as even between 0 and 1: so Mu'alem and
Feitelson found it on four machines (IEEE TPDS 12(6), 2001).
"""

import numpy as np

from tidemill.model.measures import ONE_PPM
from tidemill.model.states import CLASSES, JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

FEWEST = 20  # below this a tenth of the samples is less than two of them
EVEN_PPM: I64 = np.arange(1, 101, dtype=np.int64) * (ONE_PPM // 100)


class Lengths:
    """What the finished jobs of one World tell about the others."""

    def __init__(self, world: World) -> None:
        count, jobs = world.job_count, world.jobs
        done = np.flatnonzero(jobs.state[:count] == JobState.DONE)
        self._run_ms: I64 = jobs.since_ms[done] - jobs.origin_ms[done] + jobs.saved_ms[done]
        self._family, self._class = _families(world)
        self._done_shape = jobs.shape[done]
        estimate_ms = jobs.estimate_ms[done]
        known = estimate_ms > 0
        shares = self._run_ms[known].astype(float) / estimate_ms[known]
        ratios: I64 = np.sort((np.minimum(shares, 1e6) * ONE_PPM).astype(np.int64))
        self.samples = len(ratios)
        self.is_measured = self.samples >= FEWEST
        self._ratios = ratios if self.is_measured else EVEN_PPM
        self._kept: dict[tuple[int, int], I64] = {}

    def ratio_ppm(self, share_ppm: int) -> int:
        """The ratio of truth to estimate that this share of the finished jobs does not exceed."""
        return _quantile(self._ratios, share_ppm)

    def left_ms(self, world: World, j: int, elapsed_ms: int, share_ppm: int) -> int | None:
        """How much longer a job takes that has worked this long; None: nobody can know."""
        estimate_ms = int(world.jobs.estimate_ms[j])
        if estimate_ms:
            past_ppm = elapsed_ms * ONE_PPM // estimate_ms
            ratio = _quantile_above(self._ratios, past_ppm, share_ppm)
            total_ms = None if ratio is None else estimate_ms * ratio // ONE_PPM
        else:
            lives = self._lives(int(world.jobs.shape[j]))
            if not len(lives):
                return None
            total_ms = _quantile_above(lives, elapsed_ms, share_ppm)
        if total_ms is None:  # longer than all that finished: as long again, times the share
            return max(1, elapsed_ms * share_ppm // ONE_PPM)
        return max(1, total_ms - elapsed_ms)

    def _lives(self, s: int) -> I64:
        """Sorted run times of finished jobs of the shape's family, or else of its class."""
        if s >= len(self._family):  # a shape that was only imagined after the World was read
            return np.zeros(0, np.int64)
        family, its_class = int(self._family[s]), int(self._class[s])
        for key, of_shape in (((0, family), self._family), ((1, its_class), self._class)):
            if key not in self._kept:
                self._kept[key] = np.sort(self._run_ms[of_shape[self._done_shape] == key[1]])
            if len(self._kept[key]):
                return self._kept[key]
        return np.zeros(0, np.int64)


def _families(world: World) -> tuple[I64, I64]:
    """For each shape its family (class and size to a power of two) and its class."""
    classes = np.array([CLASSES.index(row.kind) for row in world.shape_rows], np.int64)
    sizes = [int(milli).bit_length() for milli in world.shapes.total_milli[: len(classes)]]
    return np.array(sizes, np.int64) * len(CLASSES) + classes, classes


def _quantile(values: I64, share_ppm: int) -> int:
    """The smallest value that at least this share of the sorted values does not exceed."""
    return int(values[max(0, -(-len(values) * share_ppm // ONE_PPM) - 1)])


def _quantile_above(values: I64, past: int, share_ppm: int) -> int | None:
    """The quantile of the values above ``past``; None if there are none."""
    above = values[int(np.searchsorted(values, past, side="right")) :]
    return _quantile(above, share_ppm) if len(above) else None
