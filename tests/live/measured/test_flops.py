"""FLOPs belong to the time of their steps, and what no GPU can have done is not believed."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tidemill import api
from tidemill.cli import contradicted
from tidemill.journal.contradictions import ContradictionSort
from tidemill.ledger import efficiency
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history.events import History, build
from tidemill.live.measured import flops, launch_names, loops, tracking
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

T0_US = 1_790_000_000_000_000
PEAK = 989_000_000
"""Of an H100, in millions of operations per second (dense BF16)."""


def stretch(at_s: float, mflop: float | None = None, rank: int = 0, **more: Any) -> StepsRecord:
    """A second of computing; a step ended at its end if it says FLOPs, or ``steps``."""
    from_us = T0_US + round(1e6 * at_s)
    fields: dict[str, Any] = {"steps": 0 if mflop is None else 1, "compute_us": 1_000_000} | more
    if fields["steps"]:
        step = {"first_step": 1, "last_step": fields["steps"]}
        fields |= step | dict.fromkeys(("min_step_us", "median_step_us", "max_step_us"), 1)
    return StepsRecord(
        v=1, job="a", run=f"r{rank}", rank=rank, seq=1, skew_us=0, from_us=from_us,
        until_us=from_us + 1_000_000,
        other_us=fields.pop("other_us", 1_000_000 - fields["compute_us"]),
        mflop=None if mflop is None else round(mflop), **fields,
    )  # fmt: skip


def whole(*told: TrackRecord, end_s: int, rank: int = 0) -> list[TrackRecord]:
    """The records of one rank with one GPU, which ends in good order."""
    head: dict[str, Any] = {"v": 1, "job": "a", "run": f"r{rank}", "rank": rank}
    began = BeganRecord(**head, seq=0, at_us=T0_US, named_by="given", gpus=1, pid=1, library="1")
    end_us = T0_US + 1_000_000 * end_s
    return [began, *told, EndedRecord(**head, seq=9, at_us=end_us, outcome="finished")]


def said(**what: Any) -> EfficiencyRecord:
    """What a profiler says at the beginning."""
    return EfficiencyRecord(v=1, job="a", run="r0", rank=0, seq=1, at_us=T0_US, **what)


def history_of(told: list[TrackRecord], gpu_type: str = "H100") -> History:
    """The history of loops by themselves."""
    launches = loops.launches(told)
    attempts = launch_names.attempts(launches, gpu_type=gpu_type)
    return build(attempts, [], flat({"": 1_000_000}), measured=tracking.measured(launches))


def books(told: list[TrackRecord]) -> Statement:
    """The books of it."""
    return api.keep_history(history_of(told)).statement


def seconds(statement: Statement, bucket: Bucket) -> float:
    """GPU-seconds of a line."""
    return statement.total().milli_ms[bucket] / 1e6


@pytest.mark.parametrize("step_s", [1, 3, 10, 40])
def test_a_long_step_is_as_useful_as_many_short_ones(step_s: int):
    """40 % of the peak in steps of any length are 40 % useful: a step is told once, where it ends.

    Booked in the second of its end, a step of 10 s would be four times the peak there, and nothing
    in the others.
    """
    work = 0.4 * PEAK * step_s
    told = [stretch(s, work if s % step_s == step_s - 1 else None) for s in range(120)]
    statement = books(whole(*told, end_s=120))
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(48, abs=0.1)
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED
    assert seconds(statement, Bucket.UNKNOWN) == 0


def test_a_step_did_nothing_while_its_loop_did_not_compute():
    """Evaluating for two seconds between steps is no part of what a step did."""
    told = [stretch(0), stretch(1, compute_us=0), stretch(2, compute_us=0), stretch(3, 2 * PEAK)]
    done = flops.spread(told, 0)
    assert done.mflop[-1] == pytest.approx(2 * PEAK)
    assert sorted({round(float(m) / PEAK, 6) for m in done.mflop}) == [0, 1, 2]


def test_where_a_step_ended_is_told():
    """Of a stretch whose step ended in its middle, the rest belongs to the next step."""
    told = [stretch(0, PEAK, last_end_us=T0_US + 500_000), stretch(1, PEAK)]
    at, work, _ = flops.spread(told, 0)
    rates = [
        (after - before) / (until - since)
        for since, until, before, after in zip(at[:-1], at[1:], work[:-1], work[1:], strict=True)
        if until > since
    ]
    assert [r * 1e6 / PEAK for r in rates] == pytest.approx([2, 2 / 3, 2 / 3])


def test_a_loop_that_ends_with_a_checkpoint_left_no_step_unended():
    """It saves after its last step, and has not computed since: all of its work is known."""
    last = stretch(
        1, PEAK, compute_us=186_000, checkpoint_us=813_000, other_us=1_000,
        last_end_us=T0_US + 1_186_500,
    )  # fmt: skip
    told = [stretch(0, PEAK), last, stretch(2, compute_us=0, checkpoint_us=1_000_000, other_us=0)]
    done = flops.spread(told, 0)
    assert done.untold_us[-1] == 0
    assert done.mflop[-1] == pytest.approx(2 * PEAK)


def test_work_whose_flops_nobody_told_is_unknown():
    """A step that never ended; and a rank that tells none while the other does."""
    told = [stretch(s, 0.5 * PEAK if s < 10 else None) for s in range(20)]
    statement = books(whole(*told, end_s=20))
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(5, abs=0.1)
    assert seconds(statement, Bucket.UNKNOWN) == pytest.approx(10, abs=0.1)
    others = [
        record
        for rank in (0, 1, 2)
        for record in whole(
            *(stretch(s, 0.5 * PEAK if rank == 0 else None, rank, steps=1) for s in range(10)),
            end_s=10, rank=rank,
        )
    ]  # fmt: skip
    statement = books(others)
    assert seconds(statement, Bucket.USEFUL) == 0
    assert seconds(statement, Bucket.UNKNOWN) == pytest.approx(30, abs=0.1)


def test_what_a_loop_does_after_its_last_step_is_no_step():
    """A last evaluation of minutes, in a stretch in whose beginning the last step ended."""
    outside: dict[str, Any] = {"compute_us": 0, "other_us": 1_000_000}
    told = [stretch(s, PEAK) for s in range(10)]
    told += [stretch(10, PEAK / 100, compute_us=10_000, last_end_us=T0_US + 10_010_000)]
    told += [stretch(s, **outside) for s in range(11, 60)]
    statement = books(whole(*told, end_s=60))
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(10.01, abs=0.01)
    assert seconds(statement, Bucket.UNKNOWN) == 0


def test_an_evaluation_that_is_watched_does_nothing_useful():
    """Minutes without a step after steps that told their FLOPs: an observer forgot those."""
    records = LoopRecords()
    outside: dict[str, Any] = {"compute_us": 0, "other_us": 1_000_000}
    for record in whole(
        *(stretch(s, PEAK) for s in range(10)), *(stretch(s, **outside) for s in range(10, 60)),
        end_s=60,
    ):  # fmt: skip
        records.take(record)
    mark_us = T0_US + 30_000_000
    records.forget(mark_us, T0_US)
    windows = tracking.measured(records.launches(), since_us=mark_us).windows
    told = windows.filter(source=loops.SOURCE).filter(pl.col("end_ms") <= T0_US // 1000 + 60_000)
    assert told["mflop_per_s"].unique().to_list() == [0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10)), min_size=2, max_size=40), st.data())
def test_what_was_forgotten_does_not_change_what_comes(
    steps: list[tuple[bool, int]], data: st.DataObject
):
    """The same windows from a moment on, whether or not the time before it was told and dropped."""
    told = whole(
        *(
            stretch(s, 1e8 * work if ends else None, compute_us=100_000 * work)
            for s, (ends, work) in enumerate(steps)
        ),
        end_s=len(steps),
    )
    mark_us = T0_US + 1_000_000 * data.draw(st.integers(1, len(steps) - 1))
    found = []
    for forgets in (False, True):
        records = LoopRecords()
        for record in told:
            records.take(record)
        if forgets:
            records.forget(mark_us, T0_US)
        windows = tracking.measured(records.launches(), since_us=mark_us).windows
        of_loops = windows.filter(source=loops.SOURCE).filter(pl.col("start_ms") >= mark_us // 1000)
        found.append(of_loops["mflop_per_s"].to_list())
    assert found[0] == pytest.approx(found[1], abs=2)


@pytest.mark.parametrize(
    ("times_peak", "useful", "is_known"),
    [(0.9, 54, True), (1.0, 60, True), (1.08, 60, True), (1.15, 0, False), (8, 0, False)],
)
def test_more_than_the_peak_is_believed_up_to_what_clocks_allow(
    times_peak: float, useful: float, is_known: bool
):
    """A little above is the peak, and said; further above nobody knows, and nothing is measured."""
    told = whole(*(stretch(s, times_peak * PEAK) for s in range(60)), end_s=60)
    history = history_of(told)
    statement = api.keep_history(history).statement
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)
    assert seconds(statement, Bucket.UNKNOWN) == pytest.approx(0 if is_known else 60, abs=0.1)
    sorts = [one.sort for one in history.contradictions]
    assert sorts == ([] if is_known else [ContradictionSort.ABOVE_PEAK])
    is_said = any("read as the peak: `a`" in note for note in history.notes)
    assert is_said is (1 < times_peak < 1.1)
    is_refused = any(note.startswith("not believed") for note in history.notes)
    assert is_refused is not is_known


def test_an_attempt_that_is_wrong_in_one_minute_is_not_believed_in_the_others():
    """FLOPs of all ranks told by each are as wrong while the loop mostly waits for data."""
    told = [stretch(s, 4 * PEAK) for s in range(60)]
    told += [stretch(s, 0.4 * PEAK, compute_us=100_000) for s in range(60, 120)]
    statement = books(whole(*told, end_s=120))
    assert seconds(statement, Bucket.USEFUL) == seconds(statement, Bucket.BELOW_PEAK) == 0


@pytest.mark.parametrize(
    ("what", "useful"),
    [
        ({"mfu_ppm": 400_000}, 8), ({"mfu_ppm": 35_000_000}, 0), ({"mflop_per_s": PEAK // 4}, 5),
        ({"mflop_per_s": PEAK, "peak_mflop_per_s": 2 * PEAK}, 10), ({"mflop_per_s": 3 * PEAK}, 0),
    ],
    ids=["an MFU", "percent for a share", "FLOP/s", "FLOP/s over its own peak", "too many FLOP/s"],
)  # fmt: skip
def test_what_a_profiler_says_is_judged_alike(what: dict[str, int], useful: float):
    """An MFU, or FLOP/s alone, or FLOP/s over another peak than dense BF16."""
    told: list[TrackRecord] = [said(**what), *(stretch(s) for s in range(20))]
    statement = books(whole(*told, end_s=20))
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)
    assert seconds(statement, Bucket.UNKNOWN) == pytest.approx(0 if useful else 20, abs=0.1)


def of_eight(told: list[TrackRecord], gpus: int | None, world: int | None) -> History:
    """The history of a loop whose job holds 8 GPUs; what it says of its own GPUs and ranks."""
    told = [
        structs.replace(one, gpus=gpus, world=world) if isinstance(one, BeganRecord) else one
        for one in told
    ]
    launches = loops.launches(told)
    attempts = launch_names.attempts(launches, gpu_type="H100").with_columns(
        gpus=pl.lit(8, pl.Int64)
    )
    return build(attempts, [], flat({"": 1_000_000}), measured=tracking.measured(launches))


@pytest.mark.parametrize(
    ("gpus", "world", "useful", "known"),
    [
        (8, 1, 30, Confidence.MEASURED), (1, 1, 30, Confidence.INFERRED),
        (1, None, 30, Confidence.INFERRED), (None, 1, 30, Confidence.INFERRED),
        (None, None, 30, Confidence.INFERRED), (1, 8, 240, Confidence.INFERRED),
    ],
)  # fmt: skip
def test_flops_count_over_all_gpus_that_are_held(
    gpus: int | None, world: int | None, useful: float, known: Confidence
):
    """Half the peak of one GPU, told by one process, in a job that holds 8 for a minute: 30
    GPU-seconds. Only ranks that it says it has, and that tell nothing, are taken to be like it.
    """
    told = whole(*(stretch(s, 0.5 * PEAK) for s in range(60)), end_s=60)
    statement = api.keep_history(of_eight(told, gpus, world)).statement
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)
    assert statement.confidence(Bucket.USEFUL) is known


@pytest.mark.parametrize(("gpus", "peaks", "useful"), [
    (8, 6.4, 384), (None, 6.4, 384), (8, 10.4, 0), (None, 10.4, 0), (1, 6.4, 48), (1, None, 0),
    (None, None, 0),
])  # fmt: skip
def test_flops_of_one_process_are_those_of_all_gpus_that_it_may_drive(
    gpus: int | None, peaks: float | None, useful: float
):
    """For a minute, in a job that holds 8 GPUs. One that says one GPU is cut to what its GPU does
    in the rest of its time (it waits 20 %); beyond the peak of 8, or untold, all is unknown.
    """
    mflop = None if peaks is None else peaks * PEAK
    more = {"steps": 1, "compute_us": 800_000, "data_us": 200_000, "other_us": 0}
    told = whole(*(stretch(s, mflop, **more) for s in range(60)), end_s=60)
    statement = api.keep_history(of_eight(told, gpus, 1)).statement
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)
    unknown = seconds(statement, Bucket.UNKNOWN)
    assert unknown == pytest.approx(0 if useful else 384, abs=0.1)


@pytest.mark.parametrize(("gpus", "useful"), [(1, 4), (8, 32), (None, 32)])
def test_an_mfu_is_of_the_gpus_that_a_loop_says_it_uses(gpus: int | None, useful: float):
    """20 s at 20 %: of one GPU of eight, or of all where the loop does not say of how many."""
    told: list[TrackRecord] = [said(mfu_ppm=200_000), *(stretch(s) for s in range(20))]
    statement = api.keep_history(of_eight(whole(*told, end_s=20), gpus, 1)).statement
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)


@pytest.mark.parametrize(("gpus", "sorts"), [(1, [ContradictionSort.FEWER_GPUS]), (8, [])])
def test_loops_that_use_fewer_gpus_than_are_held_are_said(
    gpus: int, sorts: list[ContradictionSort]
):
    """By the import, and by the doctor with what to do."""
    told = whole(*(stretch(s, 0.5 * PEAK) for s in range(60)), end_s=60)
    history = of_eight(told, gpus, 1)
    assert [one.sort for one in history.contradictions] == sorts
    says = "`a`: it holds 8 GPUs; its loop says that it uses 1"
    assert any(says in note for note in history.notes) is bool(sorts)
    for one in contradicted.words(history.contradictions):
        assert says in one.found
        assert "request fewer GPUs" in one.so


@pytest.mark.parametrize("ranks", [8, 9])
def test_ranks_that_use_more_gpus_than_are_held_are_not_believed(ranks: int):
    """Each says one GPU of its own; by the scheduler their job holds eight. That is said, and
    nobody knows what a GPU did: neither FLOPs nor tokens. What they waited stays.
    """
    told = [
        structs.replace(one, rank=rank, run=f"run{rank}")
        for rank in range(ranks)
        for one in whole(*(stretch(s, 0.5 * PEAK, tokens=100) for s in range(60)), end_s=60)
    ]
    history = of_eight(told, 1, ranks)
    statement = api.keep_history(history).statement
    (row,) = efficiency.efficiencies(statement).rows
    assert row.measured.steps is not None
    if ranks == 8:
        assert not history.contradictions
        assert seconds(statement, Bucket.USEFUL) == pytest.approx(240, abs=0.1)
        assert row.measured.steps.tokens == 8 * 60 * 100
        return
    (found,) = history.contradictions
    assert found.sort is ContradictionSort.MORE_GPUS
    assert found.says == "it holds 8 GPUs; its ranks say that they use 9"
    assert any(found.says in note for note in history.notes)
    assert row.mfu.milli_ms is None
    assert seconds(statement, Bucket.UNKNOWN) == pytest.approx(480, abs=0.1)
    assert row.measured.steps.tokens is None
    assert row.measured.steps.steps == 60


def test_loops_that_do_not_say_how_many_gpus_they_use_are_said():
    """One process may drive all GPUs: that is no contradiction."""
    told = whole(*(stretch(s, 0.5 * PEAK) for s in range(60)), end_s=60)
    history = of_eight(told, None, 1)
    assert not history.contradictions
    assert any("with fewer ranks than GPUs: `a` 1 of 8; taken" in note for note in history.notes)


@pytest.mark.parametrize(
    ("mfu", "useful", "sorts"),
    [
        (0.3, 18, []), (0.5, 30, []), (0.55, 30, []),
        (0.7, 30, [ContradictionSort.OVER_WHOLE]),
    ],
    ids=["less than the time", "all of it", "a little more", "more than there is"],
)  # fmt: skip
def test_an_mfu_and_waits_that_are_more_than_the_time_are_said(
    mfu: float, useful: float, sorts: list[ContradictionSort]
):
    """Half of each second waits for data: no more than the other half can be useful.

    The waits are booked, the MFU is cut, and both the import and the doctor say so.
    """
    told = whole(
        *(stretch(s, mfu * PEAK, compute_us=500_000, data_us=500_000, other_us=0)
          for s in range(60)), end_s=60,
    )  # fmt: skip
    history = history_of(told)
    statement = api.keep_history(history).statement
    assert seconds(statement, Bucket.HOST) == pytest.approx(30, abs=0.1)
    assert seconds(statement, Bucket.USEFUL) == pytest.approx(useful, abs=0.1)
    assert [one.sort for one in history.contradictions] == sorts
    is_said = any(note.startswith("cannot both be true") for note in history.notes)
    assert is_said is bool(sorts)
    assert any("MFU cut, `a`" in note for note in history.notes) is (mfu == 0.55)
    for one in contradicted.words(history.contradictions):
        assert "waits and an MFU that are more than the time" in one.what
        assert "50 % of a minute and its MFU 70 %: 120 % in all" in one.found
        assert "torch.cuda.synchronize()" in one.so
