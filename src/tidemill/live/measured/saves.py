"""Up to when the work of a launch was safe: as it says itself, and as the next launch proves.

A launch says which checkpoints it saved. One that was killed may have lost what it said last; but
the next one says from which step it went on, and so that all up to that step was saved. The same
holds of a loop that goes back within its process: until then, and from then on, it is like two
launches. And two launches within one attempt of a job are like a loop that goes back: a launcher
started its processes again, and what was not saved is lost.

One that does not say what it read, and begins with a later step than the first, went on from the
step before it. Steps 0 and 1 prove nothing: they are what a loop counts that gives no numbers, or
those of its own run. Such a launch is taken to have read the last checkpoint, and that is said.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from tidemill.live.measured import against
from tidemill.live.measured.loops import Launch, Process, WentBack
from tidemill.live.measured.windows import SAVES
from tidemill.live.track.records import (
    CheckpointBegunRecord,
    CheckpointSavedRecord,
    StepsRecord,
)


class Save(NamedTuple):
    """A part of a launch that cannot be lost any more."""

    at_us: int
    """When that was so at the latest."""
    covers_us: int
    """What was done up to then is safe; after ``at_us`` where the end of it was not told."""
    is_back: bool = False
    """Its loop goes back to what was safe: what it did since is lost."""
    is_again: bool = False
    """It works again after that."""


class _LaunchPart(NamedTuple):
    """The time of a launch between two moments at which its loop goes back."""

    start_us: int
    end_us: int
    up_to_step: int | None
    """The step to which it goes back then; None: nobody says."""

    def has(self, one: CheckpointBegunRecord | CheckpointSavedRecord) -> bool:
        """Whether a record is of this time."""
        return self.start_us <= one.at_us < self.end_us


def frame(told: Sequence[Launch]) -> pl.DataFrame:
    """What of launches was safe, by job and time: ``SAVES``."""
    rows = list[_Row]()
    for launch, following in pairwise((*told, None)):
        assert launch is not None, "only the last of them is"
        after = following if following is not None and following.job == launch.job else None
        rows += [_row(launch, save) for save in of(launch, after)]
        if after is not None:
            rows += [_row(launch, save, after) for save in launched_again(launch, after)]
    return pl.DataFrame(rows, schema=SAVES, orient="row")


_Row = tuple[str, int, int | None, int, int, bool, bool, int | None]


def _row(launch: Launch, save: Save, after: Launch | None = None) -> _Row:
    left_ms = None if after is None else launch.last_us // 1000
    return (
        launch.job, launch.first_us // 1000, left_ms, save.at_us // 1000, save.covers_us // 1000,
        save.is_back, save.is_again, None if after is None else after.first_us // 1000,
    )  # fmt: skip


def of(launch: Launch, after: Launch | None) -> Iterator[Save]:
    """What of a launch was safe; ``after``: the next launch of the same job.

    A checkpoint beyond the step from which the next launch went on was of no use.
    """
    backs, start_us = _backs(launch), 0
    for back in backs:
        yield from _of_part(launch, _LaunchPart(start_us, back.at_us, back.step))
        yield Save(back.at_us, launch.first_us, is_back=True)
        if back.again_us is not None:
            yield Save(back.again_us, back.again_us, is_again=True)
        start_us = back.at_us
    yield from _of_part(launch, _LaunchPart(start_us, launch.last_us + 1, _restored(after)))


def launched_again(launch: Launch, after: Launch) -> Iterator[Save]:
    """What becomes of a launch when its job is launched again, if that is within one attempt.

    One that finished kept all that it did, unless the next goes back before its end. What is lost
    of another ends where it was last heard of, or is known to have been at work: of the time from
    then to the next launch nobody says what it was. A service has nothing to save.
    """
    if launch.is_service or after.is_service:
        return
    known = [save.covers_us for save in of(launch, after)]
    end_us = min(after.first_us, max([launch.last_us, *known]))
    if not _is_broken_off(launch) and _restored(after) is None:
        yield Save(end_us, launch.last_us)
    if after.first_us // 1000 > end_us // 1000:
        yield Save(end_us, launch.first_us, is_back=True)
        yield Save(end_us, end_us, is_again=True)
        yield Save(after.first_us, after.first_us)
    yield Save(after.first_us, launch.first_us, is_back=True)
    if (up_us := after.up_us) is not None:
        yield Save(up_us, up_us, is_again=True)


def _of_part(launch: Launch, part: _LaunchPart) -> Iterator[Save]:
    told = _told(launch, part)
    for step in sorted(told):
        if part.up_to_step is None or step <= part.up_to_step:
            yield told[step]
    if part.up_to_step is not None and part.up_to_step not in told:
        yield from _proven(launch, part, part.up_to_step)


def _backs(launch: Launch) -> list[WentBack]:
    """When a launch went back within its processes: all that tell it before they work again."""
    found = list[WentBack]()
    every = [one for process in launch.processes for one in process.went_back()]
    for one in sorted(every, key=lambda one: one.at_us):
        last = found[-1] if found else None
        if last is None or (last.again_us is not None and one.at_us > last.again_us):
            found.append(one)
            continue
        steps = [step for step in (last.step, one.step) if step is not None]
        both = (last.again_us, one.again_us)
        again_us = None if None in both else max(us for us in both if us is not None)
        found[-1] = WentBack(last.at_us, min(steps, default=None), again_us)
    return found


def _restored(launch: Launch | None) -> int | None:
    """The step from which a launch went on; None where it does not say."""
    if launch is None:
        return None
    told = [process.restored for process in launch.processes if process.restored is not None]
    first = [one.first_step or 0 for one in launch.processes]
    steps = [one.step for one in told if one.step is not None]
    return min(steps or [step - 1 for step in first if step > 1], default=None)


def said_counted_again(told: Sequence[Launch]) -> list[str]:
    """In words, launches that count steps from the first after a checkpoint of one that broke off,
    and do not say what they read.
    """
    jobs = sorted(
        {after.job for launch, after in pairwise(told)
         if after.job == launch.job and _is_broken_off(launch) and _restored(after) is None
         and any(one.saved for one in launch.processes)
         and any(one.first_step is not None for one in after.processes)}
    )  # fmt: skip
    if not jobs:
        return []
    said = (
        f"launches that count their steps from the first after a checkpoint: {against.names(jobs)};"
        " taken to go on from it (`run.restored(step=…)` says from where, 0: from the beginning)"
    )
    return [said]


def _is_broken_off(launch: Launch) -> bool:
    return any(one.ended is None or one.ended.outcome != "finished" for one in launch.processes)


def _told(launch: Launch, part: _LaunchPart) -> dict[int, Save]:
    """Checkpoints by step: each is safe once all ranks that write it have saved it."""
    writers: dict[int, set[int]] = {}
    saved: dict[int, list[Save]] = {}
    for i, process in enumerate(launch.processes):
        for begun in filter(part.has, process.begun.values()):
            writers.setdefault(begun.step, set()).add(i)
        for one in filter(part.has, process.saved):
            begun_at = process.begun.get(one.checkpoint)
            covers_us = one.at_us if begun_at is None else begun_at.at_us
            saved.setdefault(one.step, []).append(Save(one.at_us, covers_us))
    return {
        step: Save(max(one.at_us for one in some), min(one.covers_us for one in some))
        for step, some in saved.items()
        if len(some) >= len(writers.get(step, ()))
    }


def _proven(launch: Launch, part: _LaunchPart, step: int) -> Iterator[Save]:
    """That all up to a step was safe when a launch ended, or its loop went back; nothing where it
    did no such step.
    """
    begun = [
        one.at_us
        for process in launch.processes
        for one in process.begun.values()
        if one.step == step and part.has(one)
    ]
    ends = [end for one in launch.processes if (end := _end_us(one, part, step)) is not None]
    if begun or ends:
        at_us = min(launch.last_us, part.end_us)
        covers_us = min(begun) if begun else max(ends)
        yield Save(at_us, covers_us if at_us == launch.last_us else min(covers_us, at_us))


def _end_us(process: Process, part: _LaunchPart, step: int) -> int | None:
    """When a process had done a step, the last time that it did; None: before it did any.

    Steps after the last one that it told are taken to be as long as those before.
    """
    every = (*process.earlier, *process.stretches)
    told = [one for one in every if one.steps and part.start_us <= one.until_us
            and one.from_us < part.end_us]  # fmt: skip
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
