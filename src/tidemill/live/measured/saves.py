"""Up to when the work of a launch was safe: as it says itself, and as the next launch proves.

A launch says which checkpoints it saved. One that was killed may have lost what it said last; but
the next one says from which step it went on, and so that all up to that step was saved.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from tidemill.live.measured.loops import Launch, Process
from tidemill.live.measured.windows import SAVES
from tidemill.live.track.records import StepsRecord


class Save(NamedTuple):
    """A part of a launch that cannot be lost any more."""

    at_us: int
    """When that was so at the latest."""
    covers_us: int
    """What was done up to then is safe; after ``at_us`` where the end of it was not told."""


def frame(told: Sequence[Launch]) -> pl.DataFrame:
    """What of launches was safe, by job and time: ``SAVES``."""
    rows = [
        (launch.job, launch.first_us // 1000, save.at_us // 1000, save.covers_us // 1000)
        for launch, after in pairwise((*told, None))
        if launch is not None
        for save in of(launch, after if after is not None and after.job == launch.job else None)
    ]
    return pl.DataFrame(rows, schema=SAVES, orient="row")


def of(launch: Launch, after: Launch | None) -> Iterator[Save]:
    """What of a launch was safe; ``after``: the next launch of the same job.

    A checkpoint beyond the step from which the next launch went on was of no use.
    """
    up_to_step, told = _restored(after), _told(launch)
    for step in sorted(told):
        if up_to_step is None or step <= up_to_step:
            yield told[step]
    if up_to_step is not None and up_to_step not in told:
        yield from _proven(launch, up_to_step)


def _restored(launch: Launch | None) -> int | None:
    """The step from which a launch went on; None where it does not say."""
    if launch is None:
        return None
    told = [process.restored for process in launch.processes if process.restored is not None]
    return min((one.step for one in told if one.step is not None), default=None)


def _told(launch: Launch) -> dict[int, Save]:
    """Checkpoints by step: each is safe once all ranks that write it have saved it."""
    writers: dict[int, set[int]] = {}
    saved: dict[int, list[Save]] = {}
    for i, process in enumerate(launch.processes):
        for begun in process.begun.values():
            writers.setdefault(begun.step, set()).add(i)
        for one in process.saved:
            begun_at = process.begun.get(one.checkpoint)
            covers_us = one.at_us if begun_at is None else begun_at.at_us
            saved.setdefault(one.step, []).append(Save(one.at_us, covers_us))
    return {
        step: Save(max(one.at_us for one in some), min(one.covers_us for one in some))
        for step, some in saved.items()
        if len(some) >= len(writers.get(step, ()))
    }


def _proven(launch: Launch, step: int) -> Iterator[Save]:
    """That all up to a step was safe when a launch ended; nothing where it did no such step."""
    begun = [
        one.at_us
        for process in launch.processes
        for one in process.begun.values()
        if one.step == step
    ]
    ends = [end for one in launch.processes if (end := _end_us(one, step)) is not None]
    if begun or ends:
        yield Save(launch.last_us, min(begun) if begun else max(ends))


def _end_us(process: Process, step: int) -> int | None:
    """When a process had done a step, the last time that it did; None: before it did any.

    Steps after the last one that it told are taken to be as long as those before.
    """
    told = [one for one in (*process.earlier, *process.stretches) if one.steps]
    for one in reversed(told):
        first, last = one.first_step or 0, one.last_step or 0
        if step < first:
            continue
        if step > last and one is told[-1]:
            untold_us = (step - last) * (one.median_step_us or 0)
            return max(_last_end_us(one) + untold_us, process.last_us)
        share = min(1.0, (step - first + 1) / max(1, last - first + 1))
        return one.from_us + round(share * (_last_end_us(one) - one.from_us))
    return None


def _last_end_us(one: StepsRecord) -> int:
    return one.until_us if one.last_end_us is None else one.last_end_us
