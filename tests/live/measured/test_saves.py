"""What a killed launch lost: as its checkpoints say, and as the next launch proves."""

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from tidemill import api
from tidemill.ledger import missing
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.ledger.unknowns import unknowns_of
from tidemill.live.history.events import build
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import loops, saves, tracking
from tidemill.live.measured.loops import WentBack
from tidemill.live.prices.rules import flat
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointFailedRecord,
    CheckpointSavedRecord,
    EndedRecord,
    RestartedRecord,
    RestoredRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.states import CONFIDENCES

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
    booked = statement(told, killed_s).total().milli_ms
    return {bucket: milli_ms / 1e6 for bucket, milli_ms in zip(Bucket, booked, strict=True)}


def statement(told: list[TrackRecord], killed_s: float = KILLED_S) -> Statement:
    """The books of it."""
    launches = loops.launches(told)
    gpus = len({one.rank for one in told})
    is_again = killed_s < AGAIN_S
    times = [(0, killed_s, "requeued" if is_again else "failed"), (AGAIN_S, DONE_S, "done")]
    times = times if is_again else times[:1]
    rows = [
        {"job": "a", "submit_ms": us(0) // 1000, "start_ms": us(start) // 1000,
         "end_ms": us(end) // 1000, "outcome": outcome, "gpus": gpus, "gpu_type": "H100",
         "nodes": ["n"]}
        for start, end, outcome in times
    ]  # fmt: skip
    attempts = pl.DataFrame(rows, {name: ATTEMPTS[name] for name in rows[0]})
    history = build(attempts, [], flat({"": 1}), measured=tracking.measured(launches))
    return api.keep_history(history).statement


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


def test_where_nobody_says_anything_of_checkpoints_what_was_lost_is_unknown():
    """It may have saved all in a way of its own: not rework, and nothing of it is zero."""
    books = statement(killed() + again(0, is_told=False))
    booked = books.total().milli_ms
    assert booked[Bucket.REWORK] == 0
    assert booked[Bucket.UNKNOWN] == pytest.approx(30e6, abs=10_000)
    unknown = {Bucket.REWORK, Bucket.HOST, Bucket.LINKS, Bucket.CHECKPOINT, Bucket.IDLE}
    assert unknown <= {*unknowns_of(books)}
    assert missing.SAVES in missing.words(books)
    assert missing.FLOPS in missing.words(books)
    assert missing.SAVES not in missing.words(statement(killed(0, *checkpoint(100, at_s=10))))


@pytest.mark.parametrize(
    ("step", "lost_s"), [(50, 15), (150, 5), (200, 0), (0, 10)],
    ids=["before the checkpoint", "after it", "after all", "counted anew"],
)  # fmt: skip
def test_a_launch_that_begins_with_a_later_step_went_on_from_the_one_before_it(
    step: int, lost_s: float
):
    """It says no word of what it read. Step 1 is what a loop counts that gives no numbers."""
    told = killed(0, *checkpoint(100, at_s=10)) + again(step, is_told=False)
    assert rework_s(told) == pytest.approx(lost_s, abs=0.01)


@pytest.mark.parametrize(
    ("rest", "said", "lost_s"),
    [(again(0, is_told=False), ["`a`"], 10), (again(0), [], 20),
     (again(100, is_told=False), [], 10)],
    ids=["counted anew", "from the beginning", "numbered"],
)  # fmt: skip
def test_launches_that_count_their_steps_anew_after_a_checkpoint_are_said(
    rest: list[TrackRecord], said: list[str], lost_s: float
):
    """Whether they read it nobody says; one that says step 0 did not, and lost everything."""
    told = killed(0, *checkpoint(100, at_s=10)) + rest
    found = saves.said_counted_again(loops.launches(told))
    assert [one.partition(";")[0].rpartition(" ")[2] for one in found] == said
    assert rework_s(told) == pytest.approx(lost_s, abs=0.01)


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
    """It went on from step 200 at first: nothing is lost of the one before. That it read step 20
    later costs what it did itself until then.
    """
    later = RestoredRecord(**head("y", 0, AGAIN_S + 5), step=20)
    assert rework_s([*killed(), *again(200), later]) == pytest.approx(5, abs=0.002)


def test_a_launch_that_did_nothing_has_nothing_that_is_safe():
    """It read step 200 and was killed; the one after it read the same."""
    idle: list[TrackRecord] = [
        BeganRecord(**head("x", 0, 0), gpus=1),
        RestoredRecord(**head("x", 0, 1), step=200),
    ]
    first, second = loops.launches([*idle, *again(200)])
    assert [*saves.of(first, second)] == []


def back(step: int | None, at_s: float, again_s: float, **more: Any) -> list[TrackRecord]:
    """It goes back within its process, and comes up again for some seconds."""
    if more.get("is_restored"):
        told: TrackRecord = RestoredRecord(**head("x", 0, at_s), step=step)
    else:
        told = RestartedRecord(**head("x", 0, at_s), step=step, why="loss is NaN")
    empty = steps("x", 0, round(at_s), 1, until_s=again_s)
    idle = replace(
        empty, steps=0, compute_us=None, other_us=us(again_s) - us(at_s), first_step=None,
        last_step=None, last_end_us=None, min_step_us=None, median_step_us=None, max_step_us=None,
    )  # fmt: skip
    return [told, idle]


def gone_back(step: int | None, **more: Any) -> list[TrackRecord]:
    """Steps 1 to 100, a checkpoint after 40 of them, back at 10 s, and from 13 s on again."""
    began = BeganRecord(**head("x", 0, 0), gpus=1)
    before = [steps("x", 0, s, 10 * s + 1) for s in range(10)]
    after = [steps("x", 0, s, 10 * (s - 13) + (step or 0) + 1) for s in range(13, KILLED_S)]
    ended = EndedRecord(**head("x", 0, KILLED_S), outcome="finished")
    saved = checkpoint(40, at_s=4, took_s=0.5)
    return [began, *before, *saved, *back(step, 10, 13, **more), *after, ended]


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize(("step", "lost_s"), [(40, 6), (None, 6), (60, 4), (20, 8)])
def test_a_restart_within_the_process_is_rework_and_restart(
    step: int | None, lost_s: float, is_restored: bool
):
    """What was done after the step to which it went back is lost; until it works again it comes up.

    As across launches: a later checkpoint that was not used saved nothing, and a later step is
    proven to be safe.
    """
    found = seconds(gone_back(step, is_restored=is_restored) + again((step or 0) + 70))
    assert found[Bucket.REWORK] == pytest.approx(lost_s, abs=0.01)
    assert found[Bucket.RESTART] == pytest.approx(3, abs=0.01)


def test_a_checkpoint_that_is_read_before_the_first_step_is_no_way_back():
    """Every launch begins so."""
    told = saves.frame(loops.launches(killed(0, *checkpoint(100, at_s=10)) + again(100)))
    assert not told.filter(pl.col("left_ms").is_null())["is_back"].any()


def test_a_loop_that_did_not_work_again_came_up_until_its_end():
    """Killed while it restarted: from when it went back on."""
    told: list[TrackRecord] = [
        one for one in gone_back(40)
        if not isinstance(one, EndedRecord) and loops.times_of(one)[0] <= us(10)
    ]  # fmt: skip
    found = seconds(told + again(40), killed_s=15)
    assert found[Bucket.REWORK] == pytest.approx(6, abs=0.01)
    assert found[Bucket.RESTART] == pytest.approx(5, abs=0.01)


def test_ranks_that_go_back_together_go_back_once():
    """From the first that says so until the last that works again; the earliest step counts."""
    ranks = [
        WentBack(us(10), 50, us(12)), WentBack(us(10.5), 40, us(13)), WentBack(us(14), 60, us(15)),
    ]  # fmt: skip
    (launch,) = loops.launches(gone_back(40))
    launch.processes[0].backs[:] = ranks
    found = [(one.at_us, one.is_back) for one in saves.of(launch, None) if one.is_back]
    assert found == [(us(10), True), (us(14), True)]


def rework_known_as(books: Statement) -> dict[str, float]:
    """Seconds of rework by how they are known."""
    some = books.rows_in(Bucket.REWORK)
    found = dict[str, float]()
    for known, milli_ms in zip(books.known_as[some], books.rows.milli_ms[some], strict=True):
        name = CONFIDENCES[known].value
        found[name] = found.get(name, 0) + milli_ms / 1e6
    return found


def test_the_time_after_a_loops_last_word_is_not_measured():
    """Killed at 20 s, ended by the scheduler ten minutes later: rework, but by nobody's measure.

    A record is made each second, so the last two may be lost with the process.
    """
    books = statement(killed(0, *checkpoint(100, at_s=10)), killed_s=620)
    assert rework_known_as(books) == {"measured": 12.0, "inferred": 598.0}
    known, worked = missing.known_efficiency(books)
    assert worked - known >= 598e6, "doctor counts it as not told"
    assert missing.SILENT in missing.words(books)


def test_a_loop_that_is_killed_in_its_last_second_is_measured_to_its_end():
    """As the scheduler says it a second later."""
    books = statement(killed(0, *checkpoint(100, at_s=10)) + again(100), killed_s=KILLED_S + 1.5)
    assert rework_known_as(books) == {"measured": 11.5}
