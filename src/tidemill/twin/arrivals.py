"""What will arrive, and the truth about it that the World is not told.

An arrival may be written as a plain ``(at_ms, job, work_ms)``; the rest has defaults.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.measures import DAY_MS, HOUR_MS, ONE_PPM
from tidemill.model.rows import Job


class Ending(IntEnum):
    """What happens when the work is done: a success, an error, or the owner has seen enough."""

    FINISHED = 0
    FAILED = 1
    CANCELLED = 2


class Tide(NamedTuple):
    """Load by the clock: the busy share of each step, round and round."""

    levels_ppm: tuple[int, ...]
    step_ms: int = HOUR_MS


class Spell(NamedTuple):
    """Load by use: busy for a while, then abandoned until it ends."""

    active_ms: int
    busy_ppm: int = ONE_PPM


class Arrival(NamedTuple):
    """A job, when it comes, and what only the twin knows about it.

    ``work_ms`` is what it takes on its gang without checkpoints or restarts. ``crashes_ms``: how
    long its first attempts live if nothing else ends them. One that ends as FAILED meets its error
    when its work is done, again at every retry. ``forgiven``: how many crashes it is forgiven
    before one is final, where that is known of it; None: as many as all others.
    """

    at_ms: int
    job: Job
    work_ms: int
    ending: Ending = Ending.FINISHED
    crashes_ms: tuple[int, ...] = ()
    activity: Tide | Spell | None = None
    forgiven: int | None = None


def daily(low_ppm: int, peak_ppm: int, peak_hour: int) -> Tide:
    """A smooth tide with one peak a day: a raised cosine sampled by the hour."""
    from_peak = [abs((hour - peak_hour + 12) % 24 - 12) for hour in range(DAY_MS // HOUR_MS)]
    return Tide(
        tuple(low_ppm + (peak_ppm - low_ppm) * _RAISED_PPM[h] // ONE_PPM for h in from_peak)
    )


# (1 + cos(pi h / 12)) / 2 in ppm, written out: the same on every machine.
_RAISED_PPM = (
    1_000_000,
    982_963,
    933_013,
    853_553,
    750_000,
    629_410,
    500_000,
    370_590,
    250_000,
    146_447,
    66_987,
    17_037,
    0,
)
