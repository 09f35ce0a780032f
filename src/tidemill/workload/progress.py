"""What a stretch of running was worth: work saved, work at risk, and time spent saving it.

The rhythm of saving itself is the core's (``core.progress``): a training job works ``interval_ms``,
then stalls ``cost_ms`` to write a checkpoint. Here are its parts together, and changes of pace.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.core import progress, rhythm
from tidemill.core.progress import CONTINUOUS
from tidemill.model.measures import ONE_PPM

__all__ = [
    "CONTINUOUS",
    "Split",
    "paced_ms",
    "run_ms",
    "slowed_ms",
    "split",
    "steps",
    "time_to_do_ms",
]

slowed_ms = rhythm.slowed_ms


class Split(NamedTuple):
    """How a stretch of running divides; the parts add up to the stretch."""

    saved_ms: int
    stall_ms: int
    unsaved_ms: int


def split(elapsed_ms: int, interval_ms: int, cost_ms: int) -> Split:
    """Divide the time since an attempt began to work."""
    saved_ms = progress.saved_ms(elapsed_ms, interval_ms, cost_ms)
    unsaved_ms = progress.unsaved_ms(elapsed_ms, interval_ms, cost_ms)
    return Split(saved_ms, elapsed_ms - saved_ms - unsaved_ms, unsaved_ms)


def run_ms(work_ms: int, interval_ms: int, cost_ms: int) -> int:
    """How long an undisturbed attempt takes to do this much work, checkpoints included."""
    found: int = progress.run_ms(work_ms, interval_ms, cost_ms)
    return found


def work_ms(run_ms: int, slow_ppm: int) -> int:
    """How much work a run did that was slowed: where steps take a half longer, 3 h do 2 h."""
    return run_ms * ONE_PPM // (ONE_PPM + slow_ppm)


def steps(
    paces: Sequence[tuple[int, int]], origin_ms: int, interval_ms: int, cost_ms: int
) -> list[tuple[int, int]]:
    """Changes of pace by how much time was spent at work before each, instead of by the clock."""
    found = []
    for at_ms, slow_ppm in paces:
        parts = split(at_ms - origin_ms, interval_ms, cost_ms)
        found.append((parts.saved_ms + parts.unsaved_ms, slow_ppm))
    return found


def paced_ms(run_ms: int, steps: Sequence[tuple[int, int]]) -> int:
    """How much work a run did whose pace changed after so much of it, from full pace on."""
    done_ms, since_ms, slow_ppm = 0, 0, 0
    for start_ms, next_ppm in steps:
        until_ms = min(start_ms, run_ms)
        done_ms += work_ms(until_ms - since_ms, slow_ppm)
        since_ms, slow_ppm = until_ms, next_ppm
    return done_ms + work_ms(run_ms - since_ms, slow_ppm)


def time_to_do_ms(work_to_do_ms: int, steps: Sequence[tuple[int, int]]) -> int:
    """How long a run whose pace changed so far, and stays now, takes to do this much work."""
    since_ms, slow_ppm = steps[-1]
    left_ms = work_to_do_ms - paced_ms(since_ms, steps)
    return since_ms + slowed_ms(max(1, left_ms), slow_ppm)
