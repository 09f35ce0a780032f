"""Saving and loading state: how long a checkpoint stalls a job, and how long a cold start takes.

Synchronous: the job stands while the state is written. Sharded: every writer writes its part at
once, as long as the file system has room for all. Asynchronous: the job stands only while the
state is copied into host memory, and again where one checkpoint is still being written when the
next is due.
"""

from typing import NamedTuple

from tidemill.model.measures import ONE_PPM


class Saved(NamedTuple):
    """One checkpoint."""

    stall_s: float
    """How long the job stands."""
    written_s: float
    """How long until the state is safe."""
    held_gb: float
    """Host memory that each writer holds meanwhile."""


def synchronous(
    state_gb: float, writer_gb_s: float, writers: int = 1, file_system_gb_s: float | None = None
) -> Saved:
    """The job stands until all of it is written; several writers share the state and the time."""
    rate = writer_gb_s * writers
    written = state_gb / (rate if file_system_gb_s is None else min(rate, file_system_gb_s))
    return Saved(written, written, 0.0)


def asynchronous(
    state_gb: float,
    writer_gb_s: float,
    copy_gb_s: float,
    interval_s: float,
    writers: int = 1,
    file_system_gb_s: float | None = None,
) -> Saved:
    """The job stands for the copy into host memory; ``copy_gb_s`` is of all devices together."""
    written = synchronous(state_gb, writer_gb_s, writers, file_system_gb_s).written_s
    copied = state_gb / copy_gb_s
    late = max(0.0, written - interval_s)
    return Saved(copied + late, copied + written, state_gb / writers)


def stall_ppm(saved: Saved, interval_s: float) -> int:
    """How much of a job's time goes into checkpoints taken after every interval of work."""
    return round(ONE_PPM * saved.stall_s / (interval_s + saved.stall_s))


def cold_start_s(weights_gb: float, *gb_s: float, is_streamed: bool = True) -> float:
    """From storage to a device, over rates in sequence; streamed, only the slowest counts."""
    if is_streamed:
        return weights_gb / min(gb_s)
    return sum(weights_gb / rate for rate in gb_s)
