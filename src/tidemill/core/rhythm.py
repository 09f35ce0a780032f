"""How long work takes and what it costs: arithmetic that kernels and Python share.

Plain functions: kernels compile them (``kernel(rhythm.slowed_ms)``), Python calls them as they are,
also with whole columns of numpy; ``workload.progress`` and ``units.speedup`` have them too.
"""

from typing import TypeVar

from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, ONE_PPM
from tidemill.model.tables import I64

Some = TypeVar("Some", int, I64)


def checkpoints(elapsed_ms: Some, interval_ms: Some, cost_ms: Some) -> Some:
    """How many checkpoints a stretch of running wrote that saves every so much work, at a stall."""
    return elapsed_ms // (interval_ms + cost_ms)


def since_checkpoint_ms(elapsed_ms: Some, interval_ms: Some, cost_ms: Some) -> Some:
    """How much of a stretch of running came after the last of them: work, then the next stall."""
    return elapsed_ms % (interval_ms + cost_ms)


def slowed_ms(work_ms: int, slow_ppm: int) -> int:
    """How long this much work takes where it is slowed, checkpoints left out."""
    return -(-work_ms * (ONE_PPM + slow_ppm) // ONE_PPM)


def time_ms(work_ms: int, speed_ppm: int) -> int:
    """How long some work, counted at full speed, takes at another; rounded up."""
    return -(-work_ms * ONE_PPM // speed_ppm)


def price_ms(lost_ms: int, evictions: int) -> int:
    """What a stop counts that loses so much: more each time a job is stopped."""
    return lost_ms * (1 + evictions)


def usd_micro(rate: int, ms: int) -> int:
    """What accelerators cost in so long, rounded down, exactly.

    ``rate``: milli times micro-dollars per hour. In parts: the product may be beyond 63 bits.
    """
    hour = MILLI_MS_PER_UNIT_HOUR
    part, rest = rate % hour, ms % hour
    half = (part >> 1) * rest
    last = 2 * (half % hour) + (part & 1) * rest
    return rate // hour * ms + part * (ms // hour) + 2 * (half // hour) + last // hour
