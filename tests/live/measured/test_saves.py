"""What a killed launch lost: as its checkpoints say, and as the next launch proves."""

from typing import Any

import polars as pl
import pytest

from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.events import build
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import loops, saves, tracking
from tidemill.live.prices.rules import flat
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointFailedRecord,
    CheckpointSavedRecord,
    EndedRecord,
    RestoredRecord,
    StepsRecord,
    TrackRecord,
)

T0_US = 1_790_000_000_000_000
KILLED_S, AGAIN_S, DONE_S = 20, 25, 35


def us(at_s: float) -> int:
    """A moment, in microseconds since 1970."""
    return T0_US + round(1e6 * at_s)


def head(run: str, rank: int, at_s: float) -> dict[str, Any]:
    """What all records of a run have."""
    return {"v": 1, "job": "a", "run": f"{run}{rank}", "rank": rank, "seq": 0, "at_us": us(at_s)}


def steps(run: str, rank: int, at_s: int, first: int, until_s: float | None = None) -> StepsRecord:
    """A second in which ten steps are done, the last at its end."""
    until_us = us(at_s + 1 if until_s is None else until_s)
    fields = {name: value for name, value in head(run, rank, at_s).items() if name != "at_us"}
    return StepsRecord(
        **fields, skew_us=0, from_us=us(at_s), until_us=until_us, steps=10,
        compute_us=until_us - us(at_s), other_us=0, first_step=first, last_step=first + 9,
        last_end_us=until_us, min_step_us=100_000, median_step_us=100_000, max_step_us=100_000,
    )  # fmt: skip


def killed(rank: int = 0, *more: TrackRecord) -> list[TrackRecord]:
    """Ten steps a second, 1 to 200, for twenty seconds; then it is silent."""
    began = BeganRecord(**head("x", rank, 0), gpus=1)
    return [began, *(steps("x", rank, s, 10 * s + 1) for s in range(KILLED_S)), *more]


def again(step: int | None, rank: int = 0, is_told: bool = True) -> list[TrackRecord]:
    """The next launch, which goes on from a step and ends in good order."""
    began = BeganRecord(**head("y", rank, AGAIN_S), gpus=1)
    restored = RestoredRecord(**head("y", rank, AGAIN_S), step=step)
    first = (step or 0) + 1
    done = [steps("y", rank, s, first + 10 * (s - AGAIN_S)) for s in range(AGAIN_S, DONE_S)]
    ended = EndedRecord(**head("y", rank, DONE_S), outcome="finished")
    return [began, *([restored] if is_told else []), *done, ended]


def checkpoint(
    step: int, at_s: float, took_s: float = 1.0, is_saved: bool = True, rank: int = 0
) -> list[TrackRecord]:
    """A checkpoint; one that is not saved was still being written."""
    begun = CheckpointBegunRecord(**head("x", rank, at_s), checkpoint=1, step=step, is_async=True)
    saved = CheckpointSavedRecord(**head("x", rank, at_s + took_s), checkpoint=1, step=step)
    return [begun, saved] if is_saved else [begun]


def seconds(told: list[TrackRecord], killed_s: float = KILLED_S) -> dict[Bucket, float]:
    """GPU-seconds by bucket, where a scheduler says when the job was killed."""
    launches = loops.launches(told)
    gpus = len({one.rank for one in told})
    times = [(0, killed_s, "requeued"), (AGAIN_S, DONE_S, "done")]
    rows = [
        {"job": "a", "submit_ms": us(0) // 1000, "start_ms": us(start) // 1000,
         "end_ms": us(end) // 1000, "outcome": outcome, "gpus": gpus, "gpu_type": "H100",
         "nodes": ["n"]}
        for start, end, outcome in times
    ]  # fmt: skip
    attempts = pl.DataFrame(rows, {name: ATTEMPTS[name] for name in rows[0]})
    history = build(attempts, [], flat({"": 1}), measured=tracking.measured(launches))
    booked = api.keep_history(history).statement.total().milli_ms
    return {bucket: milli_ms / 1e6 for bucket, milli_ms in zip(Bucket, booked, strict=True)}


def rework_s(told: list[TrackRecord], killed_s: float = KILLED_S) -> float:
    """GPU-seconds of rework."""
    return seconds(told, killed_s)[Bucket.REWORK]


@pytest.mark.parametrize("step", [200, 207, 5000])
def test_who_goes_on_after_every_told_step_lost_nothing(step: int):
    """The record of the checkpoint was lost with the last second of the process."""
    assert rework_s(killed() + again(step)) == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize(("step", "lost_s"), [(150, 5), (155, 4.5), (10, 19), (0, 20)])
def test_rework_is_what_was_done_after_the_step_from_which_the_next_launch_went_on(
    step: int, lost_s: float
):
    """Ten steps a second, of which no checkpoint was told."""
    assert rework_s(killed() + again(step)) == pytest.approx(lost_s, abs=0.01)


def test_without_a_word_of_the_next_launch_only_told_checkpoints_count():
    """It says no step, or nothing at all: then it went on from the last checkpoint."""
    saved = killed(0, *checkpoint(100, at_s=10))
    assert rework_s(saved + again(None)) == pytest.approx(10, abs=0.01)
    assert rework_s(saved + again(100, is_told=False)) == pytest.approx(10, abs=0.01)
    assert rework_s(killed() + again(0, is_told=False)) == pytest.approx(20, abs=0.01)


def test_a_later_checkpoint_that_was_not_used_saved_nothing():
    """It went on from step 50, of which nobody told a checkpoint."""
    told = killed(0, *checkpoint(100, at_s=10)) + again(50)
    assert rework_s(told) == pytest.approx(15, abs=0.01)


def test_a_checkpoint_that_was_used_covers_what_was_done_when_it_began():
    """Killed while it was written, as the records say; the next launch read it."""
    told = killed(0, *checkpoint(180, at_s=18, is_saved=False)) + again(180)
    assert rework_s(told) == pytest.approx(2, abs=0.01)


def test_a_checkpoint_that_was_being_written_and_not_used_saved_nothing():
    """The next launch went on from the one before it."""
    told = killed(0, *checkpoint(180, at_s=18, is_saved=False)) + again(100)
    assert rework_s(told) == pytest.approx(10, abs=0.01)


@pytest.mark.parametrize(
    ("fate", "stalled_s", "lost_s"),
    [
        ("stands still", 3, 0),
        ("goes on", 0, 3),
        ("failed", 0, 3),
        ("one of two", 0, 6),
        ("its end was lost", 0, 4),
    ],
)
def test_killed_within_a_checkpoint_it_stood_still_up_to_its_end(
    fate: str, stalled_s: float, lost_s: float
):
    """Three seconds that nobody told, after a checkpoint began: the next launch read it."""
    is_async = fate == "goes on"
    mark: dict[str, Any] = {"checkpoint": 1, "step": 200}
    at_s = KILLED_S - 1 if fate == "its end was lost" else KILLED_S
    begun: list[TrackRecord] = [
        CheckpointBegunRecord(**head("x", 0, at_s), **mark, is_async=is_async)
    ]
    if fate == "failed":
        begun.append(CheckpointFailedRecord(**head("x", 0, KILLED_S), **mark))
    told = killed(0, *begun) + again(200)
    if fate == "one of two":
        told += killed(1) + again(200, rank=1)
    found = seconds(told, killed_s=KILLED_S + 3)
    assert found[Bucket.CHECKPOINT] == pytest.approx(stalled_s, abs=0.01)
    assert found[Bucket.REWORK] == pytest.approx(lost_s, abs=0.01)


def test_of_several_ranks_one_may_have_lost_its_word():
    """Rank 1 was killed before it told that it had saved; all went on from there."""
    first = killed(0, *checkpoint(150, at_s=15))
    second = killed(1, *checkpoint(150, at_s=15, is_saved=False, rank=1))
    assert rework_s(first + second) == pytest.approx(40, abs=0.01)
    told = first + second + again(150) + again(150, rank=1)
    assert rework_s(told) == pytest.approx(10, abs=0.01)
    assert rework_s([*reversed(told)]) == pytest.approx(10, abs=0.01)


def test_ranks_that_went_on_from_different_steps_lost_up_to_the_first():
    """Nobody can go on from a step that another one does not have."""
    told = killed() + killed(1) + again(200) + again(150, rank=1)
    assert rework_s(told) == pytest.approx(10, abs=0.02)


@pytest.mark.parametrize(("killed_s", "lost_s"), [(19.2, 0), (20.5, 0), (23, 2.3)])
def test_steps_that_were_not_told_are_as_long_as_those_before(killed_s: float, lost_s: float):
    """The scheduler's end is before the last record, or after it; steps to 207 took until 20.7."""
    assert rework_s(killed() + again(207), killed_s) == pytest.approx(lost_s, abs=0.01)


def test_a_launch_that_went_back_within_itself_proves_with_its_first_word():
    """It went on from step 200 at first; that it read step 20 later is its own affair."""
    later = RestoredRecord(**head("y", 0, AGAIN_S + 5), step=20)
    assert rework_s([*killed(), *again(200), later]) == pytest.approx(0, abs=0.002)


def test_a_launch_that_did_nothing_has_nothing_that_is_safe():
    """It read step 200 and was killed; the one after it read the same."""
    idle: list[TrackRecord] = [
        BeganRecord(**head("x", 0, 0), gpus=1),
        RestoredRecord(**head("x", 0, 1), step=200),
    ]
    first, second = loops.launches([*idle, *again(200)])
    assert [*saves.of(first, second)] == []
