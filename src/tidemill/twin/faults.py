"""What the world does by itself: breaks, takes its time, takes things back.

Rates are per 1,000 node-days. Published ones: 4.2 (InfiniteHBD trace, 584 faults of 400 servers in
348 days), 6.50 and 2.34 (Meta RSC-1 and RSC-2), 3.79 (Llama 3: 419 interruptions, 54 days, 16,384
GPUs). A delay is drawn by its quantile, so that the same luck is slow under every setting.
"""

from bisect import bisect_right
from math import exp, log
from statistics import NormalDist

from msgspec import Struct

from tidemill.model.measures import DAY_MS, MINUTE_MS
from tidemill.model.rows import Natural

_NORMAL = NormalDist()


class LogNormal(Struct, frozen=True):
    """A delay with this median and spread of its logarithm, cut at the longest; 0: always equal."""

    median_ms: Natural
    sigma: float = 0.0
    longest_ms: Natural = 365 * DAY_MS

    def at_quantile(self, share: float) -> int:
        """The delay that this share of the cases does not exceed."""
        if not self.sigma or not self.median_ms:
            return self.median_ms
        top = _NORMAL.cdf(log(self.longest_ms / self.median_ms) / self.sigma)
        z = _NORMAL.inv_cdf(min(max(share * top, 1e-9), 1 - 1e-9))
        return min(round(self.median_ms * exp(self.sigma * z)), self.longest_ms)


class Quantiles(Struct, frozen=True):
    """A delay as it was seen: ``(share, ms)`` points, joined in the logarithm."""

    points: tuple[tuple[float, int], ...]

    def at_quantile(self, share: float) -> int:
        """The delay that this share of the cases does not exceed."""
        after = bisect_right(self.points, (share, 2**62))
        if after == 0 or after == len(self.points):
            return self.points[min(after, len(self.points) - 1)][1]
        (low, low_ms), (high, high_ms) = self.points[after - 1], self.points[after]
        part = (share - low) / (high - low)
        return round(exp(log(low_ms) * (1 - part) + log(high_ms) * part))


Delay = LogNormal | Quantiles
AT_ONCE = LogNormal(0)


# Quantiles of the 584 repairs in the InfiniteHBD trace (SIGCOMM'25), in days: median 0.85,
# p90 13.0, mean 5.5. No log-normal has all three (median and p90 would give a mean of 8.2). The
# tail is kept in more points because it carries the mean; the first is a repair of a minute.
INFINITEHBD_REPAIR = Quantiles(
    tuple(
        (share, round(days * DAY_MS))
        for share, days in (
            (0.0, MINUTE_MS / DAY_MS),
            (0.05, 0.0082),
            (0.1, 0.0094),
            (0.25, 0.0855),
            (0.5, 0.85),
            (0.75, 3.16),
            (0.9, 12.97),
            (0.95, 30.7),
            (0.99, 81.9),
            (1.0, 131.0),
        )
    )
)


class FaultAt(Struct, frozen=True):
    """A fault that is known beforehand: this node (by number), then, and how long its repair is."""

    at_ms: Natural
    node: Natural
    repair_ms: Natural


class Faults(Struct, frozen=True):
    """How often things break and how long things take. By default nothing does."""

    node_rate: float = 0.0
    device_share: float = 0.0
    """The share of faults that hit one device alone."""
    repair: Delay = AT_ONCE
    maintenance_rate: float = 0.0
    maintenance: Delay = AT_ONCE
    reclaim_rate: float = 0.0
    """How often a spot node is taken back."""
    notice_ms: Natural = 2 * MINUTE_MS
    retries: Natural = 3
    """How many crashes a job is forgiven."""
    boot: Delay = AT_ONCE
    evict_ms: Natural = 0
    """How long an evicted job takes to leave."""
    startup_spread: float = 0.0
    """Start-up takes its declared time, give or take up to this share of it."""
    lost_races: float = 0.0
    """The chance that a bind is lost: somebody else has the place first."""
    schedule: tuple[FaultAt, ...] = ()

    @property
    def never_end(self) -> bool:
        """Whether something always lies ahead, so that only a horizon can end the story."""
        return bool(self.node_rate or self.maintenance_rate or self.reclaim_rate)


QUIET = Faults()
"""A world in which nothing breaks and everything is done at once."""
