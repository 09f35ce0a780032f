"""How long jobs run: a mixture of two log-normals, cut at the longest run.

Run times of real clusters have two humps: many short runs that are tried, stopped or broken, and
few long ones that carry most of the time. ``fit`` finds the mixture with a given median and mean;
the shape of the humps is fixed. The result is a table from normal scores to times, so that a
million draws are one interpolation and times may be coupled with sizes (see ``mix``).
"""

from functools import lru_cache
from math import erf, exp, inf, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.errors import SpecError
from tidemill.model.measures import duration_text

F64 = NDArray[np.float64]

# Shape of the humps, chosen by eye on the quantiles of the Philly trace (p25 2 min, p75 49 min,
# p90 3 h, p99 71 h), which one log-normal misses by a factor of ten in the middle.
LONG_SHARE = 0.2
SHORT_SIGMA = 1.4
LONG_SIGMA = 1.3
ONE_HUMP_RATIO = 3.0  # up to this mean / median one log-normal is enough, and two would not fit
_SCORES = 1025  # points of the table; the error of the mean is below 0.1 %
_EXTREME = 5.0  # scores beyond this have a chance of one in three million


class Hump(NamedTuple):
    """One log-normal of the mixture: its share, and the mean and spread of its logarithm."""

    share: float
    mu: float
    sigma: float


class Durations(NamedTuple):
    """A mixture as a table: rising normal scores, and the logarithm of the time (ms) at each."""

    scores: F64
    log_ms: F64

    def at(self, scores: F64) -> F64:
        """Times in ms for normal scores."""
        times: F64 = np.exp(np.interp(scores, self.scores, self.log_ms))
        return times

    def points(self) -> tuple[tuple[float, int], ...]:
        """Some ``(share, ms)`` points of the distribution, more of them in its tails."""
        normal = NormalDist()
        every = zip(self.scores.tolist(), np.exp(self.log_ms).tolist(), strict=True)
        return tuple((normal.cdf(score), max(1, round(ms))) for score, ms in every)

    def mean_ms(self) -> float:
        """The mean of the table, by quadrature."""
        points = _midpoints()
        return float(self.at(points).mean())


@lru_cache(maxsize=256)
def fit(median_ms: int, mean_ms: int, longest_ms: int) -> Durations:
    """The mixture with this median and mean."""
    if median_ms == mean_ms:
        return Durations(np.array([0.0]), np.array([log(max(1, median_ms))]))
    if not 0 < median_ms < mean_ms < longest_ms:
        raise SpecError(
            f"no heavy-tailed times have median {duration_text(median_ms)}, mean"
            f" {duration_text(mean_ms)} and longest {duration_text(longest_ms)}",
            hint="the mean must be above the median (or equal to it) and the longest above both",
        )
    median, longest = log(median_ms), log(longest_ms)
    is_single_first = mean_ms <= ONE_HUMP_RATIO * median_ms
    humps = _solve(median, mean_ms, longest, is_single_first)
    humps = humps or _solve(median, mean_ms, longest, not is_single_first)
    if humps is None:
        raise SpecError(
            f"no heavy-tailed times with median {duration_text(median_ms)} reach a mean of"
            f" {duration_text(mean_ms)} when cut at {duration_text(longest_ms)}",
            hint="raise `longest`, raise `median` or lower `mean`",
        )
    return _table(humps, longest)


def _solve(
    median: float, mean_ms: float, longest: float, is_single: bool
) -> tuple[Hump, ...] | None:
    """Bisect on the spread (one hump) or on the place of the long hump (two).

    The mean rises with either, until most of the tail is cut off: so first step, then bisect.
    """

    def humps(x: float) -> tuple[Hump, ...]:
        if is_single:
            return _centred((Hump(1.0, 0.0, x),), median, longest)
        pair = (Hump(1 - LONG_SHARE, 0.0, SHORT_SIGMA), Hump(LONG_SHARE, x, LONG_SIGMA))
        return _centred(pair, median, longest)

    steps = (0.05 + 0.1 * i for i in range(120))
    high = next((x for x in steps if _mean(humps(x), longest) >= mean_ms), None)
    if high is None:
        return None
    low = max(high - 0.1, 1e-6)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean(humps(middle), longest) < mean_ms else (low, middle)
    return humps(high)


def _centred(humps: tuple[Hump, ...], median: float, longest: float) -> tuple[Hump, ...]:
    """The humps shifted so that half of what is below the longest is below the median."""
    low, high = median - 60.0, median + 60.0
    for _ in range(60):
        shift = (low + high) / 2
        is_low = 2 * _below(humps, median, shift) > _below(humps, longest, shift)
        low, high = (shift, high) if is_low else (low, shift)
    return tuple(hump._replace(mu=hump.mu + high) for hump in humps)


def _below(humps: tuple[Hump, ...], log_ms: float, shift: float = 0.0) -> float:
    """What share of the mixture is below a time, if its humps are shifted by so much."""
    return sum([share * _phi((log_ms - (mu + shift)) / sigma) for share, mu, sigma in humps])


def _mean(humps: tuple[Hump, ...], longest: float) -> float:
    """Mean of the mixture given that it is below the longest."""
    parts = (
        h.share * exp(h.mu + h.sigma**2 / 2) * _phi((longest - h.mu) / h.sigma - h.sigma)
        for h in humps
    )
    total = _below(humps, longest)
    return sum(parts) / total if total > 1e-300 else inf


def _table(humps: tuple[Hump, ...], longest: float) -> Durations:
    """Invert the distribution: what score each time has, then what time each score has."""
    normal, total = NormalDist(), _below(humps, longest)
    shortest = min(hump.mu - _EXTREME * 1.5 * hump.sigma for hump in humps)
    times = np.linspace(shortest, longest, 4 * _SCORES)
    shares = [_below(humps, time) / total for time in times.tolist()]
    found = [normal.inv_cdf(min(max(share, 1e-15), 1 - 1e-15)) for share in shares]
    scores = np.linspace(-_EXTREME, _EXTREME, _SCORES)
    return Durations(scores, np.interp(scores, np.array(found), times))


def _midpoints(count: int = 20_000) -> F64:
    """Normal scores of equal weight."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / count) for i in range(count)])


def _phi(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
