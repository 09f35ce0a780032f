"""Slow ranks from records: common windows, generated runs, and real ones that were recorded."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bench import slow_runs, stragglers
from tests.conftest import ROOT
from tidemill.live.measured import loops, ranks
from tidemill.live.measured import stragglers as measured
from tidemill.live.track.records import BeganRecord, StepsRecord, TrackRecord
from tidemill.workload.slow.ranks import Missing

REAL = ROOT / "examples" / "track" / "stragglers"
BEGIN_US = 1_794_800_000_000_000


def records(
    job: str,
    rank: int,
    own_us: list[int],
    *,
    host: str = "n1",
    step_us: list[int] | None = None,
    ahead_us: int = 0,
    waits: bool = True,
) -> Iterator[TrackRecord]:
    """A rank that tells ten steps at a time, and how long it computed in each of them."""
    head: dict[str, Any] = {"v": 1, "job": job, "run": f"{job}{rank}", "rank": rank}
    at_us = BEGIN_US + ahead_us
    yield BeganRecord(**head, seq=0, at_us=at_us, world=4, gpus=2, host=host)
    for i, us in enumerate(own_us):
        each_us = 100_000 if step_us is None else step_us[i]
        span_us = 10 * each_us
        yield StepsRecord(
            **head, seq=i + 1, from_us=at_us, until_us=at_us + span_us, skew_us=0, steps=10,
            compute_us=10 * us if waits else span_us, other_us=0, min_step_us=each_us,
            communication_us=span_us - 10 * us if waits else None, first_step=10 * i + 1,
            last_step=10 * i + 10, median_step_us=each_us, max_step_us=each_us,
        )  # fmt: skip
        at_us += span_us


def test_windows_hold_what_was_told():
    """Own time and wait per step, in windows of the same steps, whatever the clocks say."""
    told = [
        one
        for rank in range(4)
        for one in records("a", rank, [50_000 + 1000 * rank] * 60, ahead_us=rank * 7_000_000)
    ]
    (launch,) = loops.launches(told)
    windows = ranks.of_launch(launch).windows
    assert windows.steps.sum() == 600
    expected = np.broadcast_to([50_000, 51_000, 52_000, 53_000], windows.own_us.shape)
    assert windows.own_us == pytest.approx(expected)
    assert windows.own_us + windows.wait_us == pytest.approx(np.full_like(windows.own_us, 100_000))
    assert windows.gpus.tolist() == [2, 2, 2, 2]
    assert np.isnan(windows.data_us).all()


def test_a_suspect_has_place_time_and_price():
    """A rank that computes longer from the thirtieth second on, with what its peers waited."""
    slow, step = [60_000] * 30 + [80_000] * 60, [80_000] * 30 + [100_000] * 60
    told = [
        one
        for rank in range(4)
        for one in records(
            "a", rank, slow if rank == 2 else [60_000] * 90, host=f"n{rank}", step_us=step
        )
    ]
    found = measured.find(loops.launches(told), {"a": 3_600_000})
    (one,) = found.suspects
    assert (one.job, one.rank, one.node, one.ranks) == ("a", 2, "n2", 4)
    assert one.since_ms == pytest.approx(BEGIN_US // 1000 + 24_000, abs=4_000)
    assert (one.own_us, one.peers_own_us) == (80_000, 60_000)
    assert one.slow_ppm == pytest.approx((one.own_us / one.expected_us - 1) * 1e6, abs=20)
    assert (one.wait_us, one.peers_wait_us) == (20_000, 40_000)
    assert one.waited_gpu_ms == pytest.approx(3 * 2 * 600 * 20, rel=0.05)
    assert one.usd_micro == one.waited_gpu_ms
    assert (found.judged_launches, found.judged_ranks, found.silent_ranks) == (1, 4, 0)


def test_a_rank_that_nobody_waits_for_costs_nothing():
    """It takes longer, and steps do not: what its peers do meanwhile is not waiting for it."""
    slow = [60_000] * 30 + [80_000] * 60
    told = [
        one for rank in range(4) for one in records("a", rank, slow if rank == 2 else [60_000] * 90)
    ]
    (one,) = measured.find(loops.launches(told), {}).suspects
    assert (one.rank, one.waited_gpu_ms, one.usd_micro) == (2, 0, None)


def test_ranks_that_say_nothing_are_counted():
    """Of four ranks three tell steps: the fourth is silent, and nobody calls the job clean."""
    told = [one for rank in range(3) for one in records("a", rank, [60_000] * 60)]
    assert measured.find(loops.launches(told), {}).silent_ranks == 1


def test_without_the_wait_for_others_no_rank_is_judged():
    """All step times are equal then, whoever is slow."""
    told = [one for rank in range(4) for one in records("a", rank, [60_000] * 60, waits=False)]
    (row,) = measured.find(loops.launches(told), {}).not_judged
    assert (row.job, row.ranks, row.world, row.why) == ("a", 4, 4, Missing.NO_WAITS)


def test_a_node_is_slow_in_every_job_that_lands_on_it():
    """Two jobs on other nodes otherwise; their ranks on n9 are slow in both."""
    told = [
        one
        for job in ("a", "b")
        for rank in range(4)
        for one in records(
            job, rank, [80_000 if rank == 0 else 60_000] * 60,
            host="n9" if rank == 0 else f"{job}{rank}",
        )
    ]  # fmt: skip
    (node,) = measured.find(loops.launches(told), {}).nodes
    assert (node.node, node.is_repeated, node.jobs_slow) == ("n9", True, 2)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_records_say_an_answer_comes(data):
    """Ranks that begin late, lose records, stand still, go back or say nonsense of their work."""
    told: list[TrackRecord] = []
    for rank in range(data.draw(st.integers(1, 4))):
        lost = data.draw(st.sets(st.integers(0, 30), max_size=8))
        own = data.draw(st.lists(st.sampled_from([0, 1, 60_000, 99_999, 100_000]), min_size=31,
                                 max_size=31))  # fmt: skip
        back = data.draw(st.integers(0, 300))
        work = data.draw(st.sampled_from([None, 0, 1, 10**15]))
        made = list(records("a", rank, own, ahead_us=data.draw(st.integers(0, 10**7))))
        for i, one in enumerate(made):
            if isinstance(one, StepsRecord) and i not in lost:
                first = max(1, (one.first_step or 1) - (back if i > 15 else 0))
                told.append(
                    structs.replace(one, first_step=first, last_step=first + 9, tokens=work)
                )
            elif i not in lost:
                told.append(one)
    if told:
        found = measured.find(loops.launches(told), {"": 2_500_000})
        assert all(one.waited_gpu_ms >= 0 for one in found.suspects)


@pytest.mark.parametrize("kind", slow_runs.KINDS_ORDER)
def test_generated_runs_that_nobody_fitted_to(kind):
    """Ten held-out runs of each kind: suspects are mostly right, slow ranks are mostly found."""
    score = stragglers.Score()
    for run in stragglers.held_out(kind, 10):
        told, found = stragglers.judged(run)
        score += stragglers.scored(run.truths, found, told)
    is_hard = kind in ("unequal stages", "busy hosts", slow_runs.BELOW_GATE)
    assert score.wrong <= (4 if is_hard else 1)
    if kind != slow_runs.BELOW_GATE:
        least = 0.7 if kind == "busy hosts" else 0.8
        assert score.recall >= least or not score.right + score.missed


def test_fit_and_held_out_do_not_meet():
    """No run that is reported may be fitted to."""
    reported = range(slow_runs.SPENT, slow_runs.SPENT + 100)
    assert not any(slow_runs.is_fit(kind, seed) for kind in slow_runs.KINDS_ORDER
                   for seed in reported)  # fmt: skip
    assert slow_runs.is_fit("clean", 0)


@pytest.mark.parametrize(
    ("name", "right", "missed", "clean"),
    [("planned", 7, 2, 7), ("drawn", 6, 0, 4), ("tuned", 6, 0, 4)],
)
def test_real_runs_of_eight_processes(name, right, missed, clean):
    """Nobody is suspected who was not slow; most of who was is found. All were fitted to."""
    found = stragglers.real(REAL / name)
    assert (found["right"], found["wrong"], found["missed"]) == (right, 0, missed)
    assert (found["clean"], found["clean_wrong"]) == (clean, 0)


def test_real_runs_that_nobody_had_looked_at():
    """Opened once, when the detector was done: the figure of the guide."""
    found = stragglers.real(REAL / "fresh")
    assert (found["right"], found["wrong"], found["missed"]) == (8, 1, 0)
    assert (found["clean"], found["clean_wrong"]) == (3, 1)


def test_how_slow_a_real_rank_is():
    """A competitor takes half of its core: a stopwatch says 82 percent."""
    runs = stragglers.real(REAL / "planned")["runs"]
    assert runs["compete-half"]["slow_by_stopwatch"][3] == pytest.approx(0.82, abs=0.01)
    assert runs["compete-half"]["suspects"][3]["slow"] == pytest.approx(0.82, abs=0.15)


def test_a_rank_that_chance_may_explain_is_named_with_why_it_is_no_suspect():
    """Three ranks, and a dozen windows: one computes longer, which the others wait for. Too little
    to accuse it; but nobody may say that no rank's work grew.
    """
    slow, usual = [30_000] * 9 + [45_000] * 15, [30_000] * 24
    steps = [31_000] * 9 + [46_000] * 15
    told = [
        one
        for rank in range(3)
        for one in records("a", rank, slow if rank == 1 else usual, step_us=steps)
    ]
    found = measured.find(loops.launches(told), {})
    assert found.suspects == ()
    (job,) = found.slow_jobs
    assert (job.rank, job.rank_own_us) == (1, 45_000)
    assert job.rank_slow_ppm > 300_000
    assert job.rank_chance_log10 > -1.3
