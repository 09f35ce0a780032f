"""Processes of a job that begin again, or know nothing of each other, on the books of one attempt.

Loops are told by the second, so that every amount can be reckoned by hand.
"""

from collections.abc import Iterator
from typing import Any, Literal

import polars as pl
import pytest

from tidemill import api
from tidemill.ledger import missing
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history.events import build
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import launch_names, loops, tracking
from tidemill.live.prices.rules import flat
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointSavedRecord,
    EndedRecord,
    RestartedRecord,
    RestoredRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.states import Confidence

T0_US = 1_790_000_000_000_000
SECOND_US = 1_000_000
MFLOP = 98_940_000
"""Of one second: a tenth of the peak of an H100."""


def us(at_s: float) -> int:
    """A moment, in microseconds since 1970."""
    return T0_US + round(SECOND_US * at_s)


def process(
    at_s: int, starts_s: int, works_s: int, *, rank: int = 0, world: int | None = None,
    data_us: int = 0, saved_s: int | None = None, restored: int | None = None,
    outcome: Literal["finished", "failed"] | None = "finished",
) -> Iterator[TrackRecord]:  # fmt: skip
    """A process with one GPU: it starts up, then does a step a second and waits for data in it.

    ``saved_s``: after so many seconds of work it has saved all; ``outcome``: None: it was killed.
    """
    run, first, up_s = f"{at_s}-{rank}-{data_us}", (restored or 0) + 1, at_s + starts_s

    def head(seq: int) -> dict[str, Any]:
        return {"v": 1, "job": "a", "run": run, "rank": rank, "seq": seq}

    yield BeganRecord(**head(0), at_us=us(at_s), gpus=1, world=world)
    if restored is not None:
        yield RestoredRecord(**head(1), at_us=us(up_s), step=restored)
    for s in range(at_s, up_s + works_s):
        step = None if s < up_s else first + s - up_s
        told = SECOND_US if step else None
        yield StepsRecord(
            **head(2 + s - at_s), from_us=us(s), until_us=us(s + 1), skew_us=0,
            steps=int(step is not None), data_us=data_us if step else 0,
            compute_us=SECOND_US - data_us if step else 0, other_us=0 if step else SECOND_US,
            first_step=step, last_step=step, last_end_us=us(s + 1) if step else None,
            min_step_us=told, median_step_us=told, max_step_us=told, mflop=MFLOP if step else None,
        )  # fmt: skip
    if saved_s is not None:
        last = first + saved_s - 1
        yield CheckpointSavedRecord(**head(900), at_us=us(up_s + saved_s), checkpoint=1, step=last)
    if outcome is not None:
        yield EndedRecord(**head(901), at_us=us(up_s + works_s), outcome=outcome)


def books(told: list[TrackRecord], *times: tuple[float, float], gpus: int = 1) -> Statement:
    """The books of a job with attempts of which a scheduler says when they began and ended."""
    rows = [
        {"job": "a", "submit_ms": us(0) // 1000, "start_ms": us(start) // 1000,
         "end_ms": us(end) // 1000, "outcome": "done" if (start, end) == times[-1] else "requeued",
         "gpus": gpus, "gpu_type": "H100", "nodes": ["n"]}
        for start, end in times
    ]  # fmt: skip
    attempts = pl.DataFrame(rows, {name: ATTEMPTS[name] for name in rows[0]})
    launches = loops.launches(told)
    history = build(attempts, [], flat({"": 1}), measured=tracking.measured(launches))
    return api.keep_history(history).statement


def seconds(statement: Statement) -> dict[Bucket, Any]:
    """GPU-seconds by bucket, but for those with none."""
    booked = zip(Bucket, statement.total().milli_ms, strict=True)
    return {bucket: pytest.approx(ms / 1e6, abs=0.01) for bucket, ms in booked if ms}


def test_a_launch_after_one_that_crashed_is_rework_and_restart_within_the_attempt():
    """Up after 10 s, saved after 30 s of work, crashed after 50; the next is up after 5 s.

    What lies between the two, 10 s, the crashed launch left idle.
    """
    first = process(0, 10, 50, saved_s=30, outcome="failed")
    found = seconds(books([*first, *process(70, 5, 40, restored=30)], (0, 115)))
    assert found[Bucket.STARTING] == 10
    assert found[Bucket.REWORK] == 20
    assert found[Bucket.IDLE] == 10
    assert found[Bucket.RESTART] == 5
    assert found[Bucket.USEFUL] == (30 + 40) / 10
    assert found[Bucket.BELOW_PEAK] == (30 + 40) * 9 / 10


def test_ranks_that_were_killed_and_launched_again_lose_up_to_then():
    """Killed, so nobody says that they ended: what lies between is by nobody's measure, and no
    rework.
    """
    told = [
        one for rank in range(2)
        for one in (*process(0, 10, 50, rank=rank, world=2, saved_s=30, outcome=None),
                    *process(70, 5, 40, rank=rank, world=2, restored=30))
    ]  # fmt: skip
    statement = books(told, (0, 115), gpus=2)
    found = seconds(statement)
    assert found[Bucket.STARTING] == 20
    assert found[Bucket.REWORK] == 2 * 20
    assert found[Bucket.UNKNOWN] == 2 * 10
    assert found[Bucket.RESTART] == 10
    assert {*statement.confidence_of(Bucket.REWORK)} == {Confidence.MEASURED}


@pytest.mark.parametrize("gap_s", [0, 1, 5, 60, 600])
def test_rework_does_not_grow_with_the_time_between_two_launches(gap_s: int):
    """A launcher that waits before it tries again: 20 s were lost, however long it waited."""
    told = [*process(0, 10, 50, saved_s=30, outcome=None),
            *process(60 + gap_s, 5, 40, restored=30)]  # fmt: skip
    found = seconds(books(told, (0, 105 + gap_s)))
    assert found[Bucket.REWORK] == 20
    assert found[Bucket.RESTART] == 5
    assert found.get(Bucket.UNKNOWN, 0) == gap_s
    assert found[Bucket.USEFUL] == (30 + 40) / 10


def test_what_launches_lost_that_say_nothing_of_what_they_save_nobody_knows():
    """It may have saved in its own way: no rework, and no useful work either; what a stop loses
    after that is as unknown. Until the next launch works it is restart.
    """
    told = [*process(0, 10, 50, outcome=None), *process(70, 5, 40, outcome="failed")]
    done = seconds(books(told, (0, 115)))
    assert done == {
        Bucket.STARTING: 10, Bucket.UNKNOWN: 50 + 10, Bucket.RESTART: 5, Bucket.USEFUL: 4,
        Bucket.BELOW_PEAK: 36,
    }  # fmt: skip
    again = [*told, *process(120, 5, 30)]
    stopped = seconds(books(again, (0, 115), (120, 155)))
    assert stopped == {
        Bucket.STARTING: 10, Bucket.UNKNOWN: 50 + 10 + 40, Bucket.RESTART: 5 + 5,
        Bucket.USEFUL: 3, Bucket.BELOW_PEAK: 27, Bucket.CAUSE_UNKNOWN: 5,
    }  # fmt: skip


def test_who_says_nothing_of_what_it_saves_and_was_never_stopped_lost_nothing():
    """It finished at the first try: that nothing was lost is known, as its start-up is."""
    statement = books([*process(0, 10, 50)], (0, 60))
    assert {Bucket.REWORK, Bucket.STARTING} <= statement.told.of(statement.holders)
    assert missing.SAVES not in missing.words(statement)


def test_a_launch_that_finished_says_nothing_of_what_the_next_one_saves():
    """The first finished, and is kept; the second dies and told no checkpoint."""
    told = [*process(0, 10, 50), *process(65, 5, 30, outcome="failed"), *process(110, 5, 10)]
    found = seconds(books(told, (0, 100), (110, 125)))
    assert Bucket.REWORK not in found
    assert found[Bucket.UNKNOWN] == 30
    assert found[Bucket.USEFUL] == 5 + 1


@pytest.mark.parametrize("ended_s", [-20, -300, -86_400])
@pytest.mark.parametrize("outcome", ["finished", None])
def test_a_launch_that_ended_before_an_attempt_began_says_nothing_of_it(
    ended_s: int, outcome: Literal["finished"] | None
):
    """An old run of the same name: nobody measured the attempt."""
    statement = books([*process(ended_s - 60, 10, 50, saved_s=40, outcome=outcome)], (0, 50))
    assert seconds(statement) == {Bucket.UNKNOWN: 50}
    assert statement.told.of(statement.holders) == frozenset()


def test_a_process_that_crashed_before_its_first_step_came_up_with_the_next_one():
    """Twice it failed to start; the work of the third is on the books."""
    crashes = [*process(0, 10, 0, outcome="failed"), *process(15, 10, 0, outcome="failed")]
    found = seconds(books([*crashes, *process(30, 10, 60)], (0, 100)))
    assert found == {Bucket.STARTING: 40, Bucket.BELOW_PEAK: 54, Bucket.USEFUL: 6}


def test_without_a_scheduler_each_launch_is_an_attempt_that_comes_up_by_itself():
    """A crash before the first step is no word on the attempt after it."""
    told = [*process(0, 10, 0, outcome="failed"), *process(15, 10, 60)]
    launches = loops.launches(told)
    attempts = launch_names.attempts(launches, gpu_type="H100")
    history = build(attempts, [], flat({"": 1}), measured=tracking.measured(launches))
    found = seconds(api.keep_history(history).statement)
    assert found[Bucket.RESTART] == 10
    assert found[Bucket.BELOW_PEAK] == 54


def test_a_launch_that_finished_kept_all_that_it_did():
    """One script trains, and trains something else after it: nothing of the first is lost."""
    found = seconds(books([*process(0, 10, 50), *process(65, 5, 30)], (0, 100)))
    assert found == {
        Bucket.STARTING: 10, Bucket.IDLE: 5, Bucket.RESTART: 5, Bucket.USEFUL: 8,
        Bucket.BELOW_PEAK: 72,
    }  # fmt: skip


@pytest.mark.parametrize("ahead_s", [-1, 0, 4])
def test_a_launch_is_of_the_attempt_in_whose_time_most_of_it_lies(ahead_s: int):
    """Requeued at once, and the clock of the loops is wrong by a little."""
    first = process(0 + ahead_s, 10, 49, saved_s=49, outcome=None)
    told = [*first, *process(62 + ahead_s, 10, 48, restored=49)]
    found = seconds(books(told, (0, 60), (60, 120)))
    assert found[Bucket.STARTING] == 10 + ahead_s
    assert found[Bucket.RESTART] == 12 + ahead_s


def test_trials_on_one_gpu_each_are_added_up():
    """Three processes of one job, none of which says a rank; each ends when it is done."""
    told = [
        *process(0, 10, 90, data_us=0), *process(0, 10, 60, data_us=250_000),
        *process(0, 10, 30, data_us=500_000),
    ]  # fmt: skip
    statement = books(told, (0, 100), gpus=3)
    found = seconds(statement)
    assert found[Bucket.STARTING] == 30
    assert found[Bucket.HOST] == 60 * 0.25 + 30 * 0.5
    assert found[Bucket.USEFUL] == (90 + 60 + 30) / 10
    assert found[Bucket.IDLE] == 30 + 60
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED


def test_a_trial_takes_the_gpu_of_one_that_ended():
    """Two GPUs, three trials: the third begins when the first is done."""
    told = [*process(0, 10, 90), *process(0, 10, 30, data_us=1), *process(40, 5, 55, data_us=2)]
    launches = loops.launches(told)
    assert [launch.gpus for launch in launches] == [2]
    found = seconds(books(told, (0, 100), gpus=2))
    assert found[Bucket.STARTING] == 20
    assert found[Bucket.USEFUL] == (90 + 30 + 55) / 10
    assert Bucket.IDLE not in found


def test_a_rank_that_is_started_again_alone_is_not_silent():
    """The others go on: it is one launch, in which the rank was away for a while."""
    told = [
        *process(0, 10, 90, rank=0, world=2), *process(0, 10, 30, rank=1, world=2, outcome=None),
        *process(50, 5, 45, rank=1, world=2, restored=30),
    ]  # fmt: skip
    (launch,) = loops.launches(told)
    assert loops.silent_ranks(launch) == 0
    assert tracking.said_silent([launch]) == []
    found = seconds(books(told, (0, 100), gpus=2))
    assert found[Bucket.STARTING] == 20
    assert Bucket.REWORK not in found


def ten_seconds(seq: int, at_s: int, up_s: int) -> StepsRecord:
    """A stretch of a loop that comes up in it, and then does a step a second: half of that it waits
    for data, a quarter it computes, a quarter it logs.
    """
    steps = at_s + 10 - up_s
    return StepsRecord(
        v=1, job="a", run="r", rank=0, seq=seq, from_us=us(at_s), until_us=us(at_s + 10),
        skew_us=0, steps=steps, data_us=500_000 * steps, compute_us=250_000 * steps,
        other_us=us(up_s) - us(at_s) + 250_000 * steps, up_us=us(up_s), first_step=1,
        last_step=steps, last_end_us=us(at_s + 10), min_step_us=SECOND_US,
        median_step_us=SECOND_US, max_step_us=SECOND_US, mflop=MFLOP * steps,
    )  # fmt: skip


def test_start_up_and_restart_end_where_the_loop_says():
    """Up after 4 s, back to the beginning after 10 s, and up again 3 s later.

    What it does outside of steps after that is no start-up, and its waits are whole.
    """
    head: dict[str, Any] = {"v": 1, "job": "a", "run": "r", "rank": 0}
    told: list[TrackRecord] = [
        BeganRecord(**head, seq=0, at_us=us(0), gpus=1), ten_seconds(1, 0, 4),
        RestartedRecord(**head, seq=2, at_us=us(10), step=0), ten_seconds(3, 10, 13),
        EndedRecord(**head, seq=4, at_us=us(20), outcome="finished"),
    ]  # fmt: skip
    assert seconds(books(told, (0, 20))) == {
        Bucket.STARTING: 4, Bucket.REWORK: 6, Bucket.RESTART: 3, Bucket.HOST: 3.5,
        Bucket.USEFUL: 0.7, Bucket.BELOW_PEAK: 2.8,
    }  # fmt: skip
