"""What a stretch of running was worth: work saved, work at risk, and time spent saving it.

A training job works ``interval_ms``, then stalls ``cost_ms`` to write a checkpoint, and so on; it
does not write one at the very end. Everything here is arithmetic on that rhythm, so a week of
running costs the same to account for as a minute.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model.measures import ONE_PPM

CONTINUOUS = -1  # the interval of work that is worth something at once: services, notebooks


class Split(NamedTuple):
    """How a stretch of running divides; the parts add up to the stretch."""

    saved_ms: int
    stall_ms: int
    unsaved_ms: int


def split(elapsed_ms: int, interval_ms: int, cost_ms: int) -> Split:
    """Divide the time since an attempt began to work."""
    if interval_ms == CONTINUOUS:
        return Split(elapsed_ms, 0, 0)
    if interval_ms == 0:
        return Split(0, 0, elapsed_ms)
    checkpoints, rest_ms = divmod(elapsed_ms, interval_ms + cost_ms)
    unsaved_ms = min(rest_ms, interval_ms)
    stall_ms = checkpoints * cost_ms + rest_ms - unsaved_ms
    return Split(checkpoints * interval_ms, stall_ms, unsaved_ms)


def safe_ms(elapsed_ms: int, interval_ms: int, cost_ms: int) -> int:
    """How much of the stretch an interruption cannot take back any more."""
    if interval_ms == CONTINUOUS:
        return elapsed_ms
    if interval_ms == 0:
        return 0
    return elapsed_ms - elapsed_ms % (interval_ms + cost_ms)


def run_ms(work_ms: int, interval_ms: int, cost_ms: int) -> int:
    """How long an undisturbed attempt takes to do this much work, checkpoints included."""
    if interval_ms <= 0 or work_ms == 0:
        return work_ms
    return work_ms + (work_ms - 1) // interval_ms * cost_ms


def work_ms(run_ms: int, slow_ppm: int) -> int:
    """How much work a run did that was slowed: where steps take a half longer, 3 h do 2 h."""
    return run_ms * ONE_PPM // (ONE_PPM + slow_ppm)


def slowed_ms(work_ms: int, slow_ppm: int) -> int:
    """How long this much work takes where it is slowed, checkpoints left out."""
    return -(-work_ms * (ONE_PPM + slow_ppm) // ONE_PPM)


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


def lost_if_stopped_ms(elapsed_ms: int, interval_ms: int, cost_ms: int, restart_ms: int) -> int:
    """What stopping now would cost in time of the whole gang: work at risk plus coming back."""
    return split(elapsed_ms, interval_ms, cost_ms).unsaved_ms + restart_ms
