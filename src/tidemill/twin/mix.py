"""Sizes and durations drawn together: large jobs run longer, yet each keeps its own distribution.

A Gaussian copula: two normal scores with a correlation, one looked up among the sizes and one among
the durations. With correlation 0 the accelerator-hours of a cluster come out several times too
small, because published means of size and time do not multiply to the published accelerator time.
"""

from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.twin.durations import F64, Durations
from tidemill.twin.sizes import JobSizes

I64 = NDArray[np.int64]


class JobMix(NamedTuple):
    """What jobs look like: size, time, and how the two go together."""

    sizes: JobSizes
    durations: Durations
    coupling: float = 0.0

    def draw(self, luck: np.random.Generator, count: int) -> tuple[I64, I64]:
        """For each of so many jobs the index of its size and its time in ms."""
        size_score = luck.standard_normal(count)
        own_score = luck.standard_normal(count)
        return self._look_up(size_score, self._coupled(size_score, own_score))

    def mean_milli_ms(self) -> float:
        """Accelerator-milli × ms of the average job, by quadrature over both scores."""
        own, own_weight = _grid(-6.0, 6.0, 241)
        bounds = [-8.0, *self._bounds(), 8.0]
        total = 0.0
        for k, share in enumerate(self.sizes.shares):
            score, weight = _grid(bounds[k], bounds[k + 1], 33)
            run_ms = self.durations.at(self._coupled(score[:, None], own[None, :]))
            total += share * self.sizes.milli[k] * float(weight @ run_ms @ own_weight)
        return total

    def _coupled(self, size_score: F64, own_score: F64) -> F64:
        both: F64 = self.coupling * size_score + np.sqrt(1 - self.coupling**2) * own_score
        return both

    def _look_up(self, size_score: F64, time_score: F64) -> tuple[I64, I64]:
        index = np.searchsorted(np.array(self._bounds()), size_score)
        return index, np.maximum(1, np.rint(self.durations.at(time_score))).astype(np.int64)

    def _bounds(self) -> list[float]:
        """The scores at which one size gives way to the next."""
        normal = NormalDist()
        steps = list(accumulate(self.sizes.shares))[:-1]
        return [normal.inv_cdf(min(max(step, 1e-12), 1 - 1e-12)) for step in steps]


def _grid(low: float, high: float, points: int) -> tuple[F64, F64]:
    """Points of an interval and their weights under the normal density, adding up to one."""
    step = (high - low) / points
    scores: F64 = low + step * (np.arange(points, dtype=np.float64) + 0.5)
    density: F64 = np.exp(-(scores**2) / 2)
    return scores, density / density.sum()
