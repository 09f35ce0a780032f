"""Which waits of a job were for a slow rank: from records of its ranks to the books."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from msgspec import structs

from tests.live.measured.test_stragglers import BEGIN_US, records
from tidemill import api
from tidemill.ledger import efficiency
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.ledger.unknowns import unknowns_of
from tidemill.live.history.events import build
from tidemill.live.measured import launch_names, loops, ranks, tracking
from tidemill.live.measured.loops import LoopRecords
from tidemill.live.prices.rules import flat
from tidemill.live.track.records import (
    BeganRecord,
    EfficiencyRecord,
    EndedRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.states import Confidence
from tidemill.workload.slow import ranks as slow_ranks

SLOW, USUAL = [60_000] * 30 + [80_000] * 60, [60_000] * 90
STEPS_US = [80_000] * 30 + [100_000] * 60
"""A step takes 80 ms, and 100 ms from the thirtieth stretch of ten on: a rank computes longer."""


def gang(slow: int | None = 2, ranks: int = 4, waits: bool = True) -> Iterator[TrackRecord]:
    """Four ranks with two GPUs each, one of them slow from the 24th second on."""
    step_us = STEPS_US if slow is not None else [80_000] * 90
    for rank in range(ranks):
        own: list[int] = SLOW if rank == slow else USUAL
        head: dict[str, Any] = {"v": 1, "job": "a", "run": f"a{rank}"}
        yield from records("a", rank, own, step_us=step_us, waits=waits)
        end_us = BEGIN_US + 10 * sum(step_us)
        yield EndedRecord(**head, rank=rank, seq=91, at_us=end_us, outcome="finished")


def books(told: list[TrackRecord], gpus: int | None = None) -> Statement:
    """The books of loops by themselves; ``gpus``: that a scheduler shows for their job."""
    launches = loops.launches(told)
    attempts = launch_names.attempts(launches, gpu_type="H100")
    attempts = attempts if gpus is None else attempts.with_columns(gpus=pl.lit(gpus, pl.Int64))
    history = build(attempts, [], flat({"": 1_000_000}), measured=tracking.measured(launches))
    return api.keep_history(history).statement


def test_the_line_of_the_ledger_is_what_the_others_waited_for_the_slow_rank():
    """Three ranks of two GPUs waited 20 ms in each of 600 steps: 72 GPU-seconds, by hand.

    All waits are 90 × 10 × 20 ms × 8 GPUs, the 20 ms more of three ranks beside: nothing is lost
    between the two lines.
    """
    statement = books([*gang()])
    account = statement.total()
    slow, links = account.milli_ms[Bucket.STRAGGLER], account.milli_ms[Bucket.LINKS]
    assert slow / 1e6 == pytest.approx(3 * 2 * 600 * 0.020, rel=0.05)
    assert (slow + links) / 1e6 == pytest.approx(8 * 900 * 0.020 + 3 * 2 * 600 * 0.020, rel=0.001)
    assert statement.confidence(Bucket.STRAGGLER) is Confidence.INFERRED
    assert account.paid_milli_ms == sum(account.milli_ms)


@pytest.mark.parametrize(
    ("told", "is_known"),
    [
        ([*gang(slow=None)], True),
        ([*gang(slow=None, waits=False)], False),
        ([*gang(slow=None, ranks=3)], False),
        ([*gang(slow=None, ranks=1)], False),
        ([one for one in gang(slow=None) if not isinstance(one, BeganRecord)], True),
    ],
    ids=["all tell", "no waits", "one is silent", "three are silent", "nobody says how many"],
)
def test_nobody_slow_is_zero_only_where_all_ranks_tell(told: list[TrackRecord], is_known: bool):
    """Where one of the ranks is silent it may be the slow one; where none waits, nothing shows."""
    statement = books(told)
    assert statement.total().milli_ms[Bucket.STRAGGLER] == 0
    assert (Bucket.STRAGGLER not in unknowns_of(statement)) is is_known


def test_waits_for_a_slow_rank_are_unknown_where_a_rank_is_silent():
    """Rank 2 of three stands out, the fourth tells nothing and may be slower: that is said."""
    told = [*gang(slow=2, ranks=3)]
    statement = books(told)
    assert statement.total().milli_ms[Bucket.STRAGGLER] == 0
    assert Bucket.STRAGGLER in unknowns_of(statement)
    (said,) = tracking.said_silent(loops.launches(told))
    assert said.startswith("ranks that told nothing: `a` 1; their time is inferred from")
    assert tracking.said_silent(loops.launches([*gang()])) == []


def known_as(statement: Statement) -> dict[Confidence, int]:
    """What jobs held at work, in GPU-milliseconds, by how it is known."""
    found = Counter[Confidence]()
    for bucket in (Bucket.CHECKPOINT, Bucket.HOST, Bucket.LINKS, Bucket.IDLE, Bucket.USEFUL,
                   Bucket.BELOW_PEAK, Bucket.UNSAVED):  # fmt: skip
        found.update(statement.confidence_of(bucket))
    return {known: amount // 1000 for known, amount in found.items()}


@pytest.mark.parametrize("ranks", [4, 3, 1])
def test_the_gpus_of_a_silent_rank_are_inferred_from_the_others(ranks: int):
    """Four ranks of two GPUs, of which some tell: as much of every line is measured, no more."""
    statement = books([*gang(slow=None, ranks=ranks)], gpus=8)
    known = known_as(statement)
    whole = sum(known.values())
    assert known.get(Confidence.INFERRED, 0) == pytest.approx(whole * (4 - ranks) / 4, abs=4)
    assert known[Confidence.MEASURED] == pytest.approx(whole * ranks / 4, abs=4)
    assert statement.total().paid_milli_ms == sum(statement.total().milli_ms)
    alone = known_as(books([*gang(slow=None, ranks=ranks)]))
    assert Confidence.INFERRED not in alone, "without a scheduler only GPUs that tell are there"


def test_a_rank_that_falls_silent_is_inferred_from_then_on():
    """Rank 3 tells no step after half of the time: an eighth of the whole is inferred."""
    told, half_us = [*gang(slow=None)], BEGIN_US + 10 * 90 * 80_000 // 2
    told = [
        one for one in told
        if one.rank != 3 or not isinstance(one, StepsRecord) or one.until_us <= half_us
    ]  # fmt: skip
    known = known_as(books(told))
    whole = sum(known.values())
    assert known[Confidence.INFERRED] / whole == pytest.approx(1 / 8, abs=0.01)


def test_a_rank_that_falls_silent_is_told_of():
    """Rank 3 says nothing for the last 62 of 72 seconds, and no end; who ended said so."""
    told = [one for one in gang(slow=None) if one.rank != 3 or one.seq < 13]
    (said,) = tracking.said_silent(loops.launches(told))
    assert said.startswith("ranks that fell silent while others of their job went on: `a` rank 3")
    assert "is inferred from the other ranks" in said


@pytest.mark.parametrize(("silent_s", "is_said"), [(4, False), (9, True)])
def test_a_rank_is_told_of_that_was_silent_for_a_tenth_of_a_short_launch(
    silent_s: int, is_said: bool
):
    """Of 72 seconds; a clock may be some seconds off, and a last record lost."""
    until_us = BEGIN_US + (72 - silent_s) * 1_000_000
    told = [
        one for one in gang(slow=None) if one.rank != 3 or loops.times_of(one)[1] <= until_us
    ]  # fmt: skip
    assert bool(tracking.said_silent(loops.launches(told))) is is_said


def test_a_rank_that_may_be_slow_leaves_it_unknown_what_waits_were_for():
    """One of two takes a third longer from the middle on, for too short to be a suspect."""
    told = list[TrackRecord]()
    for rank, own in enumerate((USUAL[:45], SLOW[:45])):
        told += records("a", rank, own, step_us=STEPS_US[:45], waits=True)
    (launch,) = loops.launches(told)
    found = slow_ranks.find(ranks.of_launch(launch).windows)
    assert not found.ranks
    assert found.unsure is not None
    assert Bucket.STRAGGLER in unknowns_of(books(told))


@pytest.mark.parametrize("is_killed", [False, True])
def test_one_process_with_one_gpu_waits_for_nobody(is_killed: bool):
    """It says that it is alone: its line is zero and known, also of the time after it was killed,
    in the ledger as in what its job made of it. So is that it saved nothing, while it told.
    """
    told = [
        structs.replace(one, world=1, gpus=1) if isinstance(one, BeganRecord) else one
        for one in gang(slow=None, ranks=1)
        if not (is_killed and isinstance(one, EndedRecord))
    ]
    launches = loops.launches(told)
    attempts = launch_names.attempts(launches, gpu_type="H100")
    later = attempts.with_columns(pl.col("end_ms").fill_null(launches[0].last_us // 1000) + 20_000)
    history = build(later, [], flat({"": 1_000_000}), measured=tracking.measured(launches))
    statement = api.keep_history(history).statement
    (row,) = efficiency.efficiencies(statement).rows
    assert Bucket.STRAGGLER not in unknowns_of(statement)
    assert (Bucket.CHECKPOINT in unknowns_of(statement)) is is_killed
    for bucket in (Bucket.STRAGGLER,) if is_killed else (Bucket.STRAGGLER, Bucket.CHECKPOINT):
        assert statement.confidence(bucket) is Confidence.MEASURED
        assert row.figure([bucket]) == (0, Confidence.MEASURED)


def test_a_launch_says_nothing_of_the_waits_of_the_next_one():
    """Alone at first, then two ranks that do not tell their waits: theirs are unknown."""
    first = [
        structs.replace(one, world=1, gpus=1) if isinstance(one, BeganRecord) else one
        for one in gang(slow=None, ranks=1)
    ]
    later_us = 200_000_000
    second = [_later(one, later_us) for one in gang(slow=None, ranks=2, waits=False)]
    windows = tracking.measured(loops.launches([*first, *second])).windows
    compared = windows.filter(source=tracking.SOURCE)
    assert compared["end_ms"].max() == (BEGIN_US + later_us) // 1000


def _later(one: TrackRecord, by_us: int) -> TrackRecord:
    """The same record of another launch."""
    times = {name: getattr(one, name) + by_us for name in ("at_us", "from_us", "until_us",
             "last_end_us", "up_us") if getattr(one, name, None) is not None}  # fmt: skip
    return structs.replace(one, run=f"{one.run} again", **times)


def test_a_loop_that_is_watched_is_compared_with_its_own_past():
    """Told in parts, the past is kept in pieces: the slow part is found when it is told.

    What is told does not depend on how often somebody asked before, nor on a new process.
    """
    told = sorted(gang(), key=lambda one: loops.times_of(one)[1])
    until_us = BEGIN_US + 60_000_000
    known = [one for one in told if loops.times_of(one)[1] <= until_us + 10_000_000]
    found = []
    for marks_s in ((50,), (5, 10, 15, 33, 50), (44, 50)):
        loop, left = LoopRecords(), [*known]
        for mark_s in marks_s:
            mark_us = BEGIN_US + 1_000_000 * mark_s
            while left and loops.times_of(left[0])[1] <= mark_us + 3_000_000:
                loop.take(left.pop(0))
            loop.forget(mark_us, BEGIN_US)
        for one in left:
            loop.take(one)
        measured = tracking.measured(loop.launches(), since_us=mark_us)
        rows = measured.windows.filter(source=tracking.SOURCE)
        assert rows["start_ms"].min() == mark_us // 1000
        found.append(rows.select("start_ms", "end_ms", "straggler_ppm").rows())
    assert found[0] == found[1] == found[2]
    # three of four ranks wait 20 of 40 ms for it, the fourth waits 20 for the others
    assert found[0][0][2] == pytest.approx(1_000_000 * 60 / 140, rel=0.1)


def test_windows_do_not_depend_on_when_what_was_told_is_forgotten():
    """A checkpoint in the part of a second that was told counts for the rest of that second too.

    Two journals of the same loop, one of an observer that was killed, have been told up to other
    moments: seconds of a loop begin when it does, those of a cluster do not.
    """
    head: dict[str, Any] = {"v": 1, "job": "a", "run": "a0", "rank": 0}
    told = list[TrackRecord]()
    for i in range(240):
        from_us = BEGIN_US + 370_000 + 125_000 * i
        saving_us = 100_000 if i % 7 == 0 else 0
        told.append(
            StepsRecord(
                **head, seq=i, from_us=from_us, until_us=from_us + 125_000, skew_us=0, steps=1,
                other_us=0, checkpoint_us=saving_us, compute_us=125_000 - saving_us,
            )
        )  # fmt: skip
    for i in range(20):  # each within a second of the loop, and of the cluster
        at_us = BEGIN_US + 1_700_000 * i + 800_000
        told.append(EfficiencyRecord(**head, seq=240 + i, at_us=at_us, mfu_ppm=1_000 * i))
    whole = loops.measured(loops.launches(told)).windows.sort("start_ms")
    for mark_s in range(1, 29):
        loop, mark_us = LoopRecords(), BEGIN_US + 1_000_000 * mark_s
        for one in told:
            loop.take(one)
        loop.forget(mark_us, BEGIN_US)
        found = loops.measured(loop.launches(), since_us=mark_us).windows.sort("start_ms")
        assert found.rows() == whole.filter(pl.col("end_ms") > mark_us // 1000).rows(), mark_s


def test_a_word_about_a_job_is_no_launch():
    """A webhook that says an MFU, and nothing of a loop: nobody measured that the job came up."""
    head: dict[str, Any] = {"v": 1, "job": "a", "run": "hook", "rank": 0, "seq": 0}
    word = EfficiencyRecord(**head, at_us=BEGIN_US + 30_000_000, mfu_ppm=400_000)
    assert loops.launches([word]) == []
    assert len(loops.launches([*gang(), word])) == len(loops.launches([*gang()])) == 1
