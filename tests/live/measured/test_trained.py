"""Steps, tokens and samples of training loops: from records to the books, counted by hand."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from tests.cli.shell import tidemill
from tests.live.measured.test_stragglers import BEGIN_US
from tests.live.measured.test_tracking import books
from tidemill import api
from tidemill.ledger import efficiency
from tidemill.ledger.served import TrainedSteps
from tidemill.live.history.events import build
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import loops, tracking
from tidemill.live.prices.rules import flat
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointSavedRecord,
    EfficiencyRecord,
    EndedRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.loads import LoadFigure

SECONDS = 150
SECOND_US = 1_000_000


def loop(ranks: int = 2, world: int = 2, tokens: int | None = 1_000) -> Iterator[TrackRecord]:
    """Ranks of one GPU that do two steps a second, after ten seconds of start-up."""
    for rank in range(ranks):
        head: dict[str, Any] = {"v": 1, "job": "a", "run": f"a{rank}", "rank": rank}
        at_us = BEGIN_US + 10 * SECOND_US
        yield BeganRecord(**head, seq=0, at_us=BEGIN_US, world=world, gpus=1)
        yield StepsRecord(**head, seq=1, from_us=BEGIN_US, until_us=at_us, skew_us=0, steps=0,
                          other_us=10 * SECOND_US)  # fmt: skip
        for i in range(SECONDS):
            yield StepsRecord(
                **head, seq=i + 2, from_us=at_us, until_us=at_us + SECOND_US, skew_us=0,
                steps=2, compute_us=SECOND_US, other_us=0, first_step=2 * i + 1,
                last_step=2 * i + 2, tokens=tokens, samples=3, min_step_us=SECOND_US // 2,
                median_step_us=SECOND_US // 2, max_step_us=SECOND_US // 2,
            )  # fmt: skip
            at_us += SECOND_US
        yield EndedRecord(**head, seq=SECONDS + 2, at_us=at_us, outcome="finished")


def trained(told: list[TrackRecord]) -> TrainedSteps | None:
    """What the books have of its steps."""
    return efficiency.of_job(books(told), 0).measured.steps


def test_steps_are_those_of_the_job_and_amounts_those_of_all_its_ranks():
    """Two ranks do the same 300 steps, each with its own tokens and samples; without start-up."""
    assert trained([*loop()]) == TrainedSteps(
        gpu_s=2 * SECONDS, steps=2 * SECONDS, tokens=2_000 * SECONDS, token_gpu_s=2 * SECONDS,
        samples=2 * 3 * SECONDS, sample_gpu_s=2 * SECONDS,
    )  # fmt: skip


def test_a_long_first_step_is_time_in_which_steps_were_counted():
    """As while kernels are compiled: three seconds of computing before the first step ends."""
    head: dict[str, Any] = {"v": 1, "job": "a", "run": "a0", "rank": 0}
    times: dict[str, Any] = {"skew_us": 0, "compute_us": SECOND_US, "other_us": 0}
    told: list[TrackRecord] = [BeganRecord(**head, seq=0, at_us=BEGIN_US, world=1, gpus=1)]
    for i in range(4):
        span: dict[str, Any] = {
            "from_us": BEGIN_US + i * SECOND_US,
            "until_us": BEGIN_US + (i + 1) * SECOND_US,
        }
        done: dict[str, Any] = {"steps": 0}
        if i == 3:
            long = dict.fromkeys(("min_step_us", "median_step_us", "max_step_us"), 4 * SECOND_US)
            done = {"steps": 1, "first_step": 1, "last_step": 1, "tokens": 4_000, **long}
        told.append(StepsRecord(**head, seq=i + 1, **span, **times, **done))
    told.append(EndedRecord(**head, seq=5, at_us=BEGIN_US + 4 * SECOND_US, outcome="finished"))
    found = trained(told)
    assert found is not None
    assert (found.gpu_s, found.steps, found.tokens, found.token_gpu_s) == (4, 1, 4_000, 4)


@pytest.mark.parametrize(
    "told", [[*loop(tokens=None)], [*loop(ranks=1)]], ids=["not said", "a rank is silent"]
)
def test_tokens_that_not_all_ranks_say_are_unknown(told: list[TrackRecord]):
    """Not zero, and not those of some ranks as if they were of all."""
    found = trained(told)
    assert found is not None
    assert (found.steps, found.tokens, found.token_gpu_s) == (2 * SECONDS, None, 0)


def test_who_tells_no_steps_has_none():
    """A loop that never came to its first step counts none: unknown, not zero."""
    assert trained([one for one in loop() if not getattr(one, "steps", 0)]) is None


@pytest.mark.parametrize("cut_s", [10, 37, 70, 95.5, 159])
def test_told_in_two_parts_it_is_the_same(cut_s: float):
    """An observer tells what ended since it told last; a record is in one of the parts, and its
    time in that in which it was.
    """
    cut_us = BEGIN_US + round(cut_s * SECOND_US)
    launches = loops.launches(loop())

    def sums(since_us: int, until_us: int) -> dict[int, int]:
        found = tracking.measured(launches, since_us=since_us, until_us=until_us).loads
        return {figure: int(found.filter(figure=figure)["amount"].sum()) for figure in LoadFigure}

    first, second, whole = (sums(*part) for part in ((0, cut_us), (cut_us, 10**18), (0, 10**18)))
    for figure in (LoadFigure.STEPS, LoadFigure.TRAINED_TOKENS, LoadFigure.SAMPLES,
                   LoadFigure.STEPPED_MS, LoadFigure.TRAINED_TOKENED_MS):  # fmt: skip
        assert first[figure] + second[figure] == whole[figure] > 0


def test_an_observer_that_looks_every_few_seconds_counts_the_time_whole():
    """Records of a second straddle its moments: 30 of them lose nothing, and double nothing."""
    launches = loops.launches(loop())
    moments = [BEGIN_US, *(BEGIN_US + round(5.6 * SECOND_US * i) for i in range(1, 31)), 10**18]
    parts = [
        tracking.measured(launches, since_us=since, until_us=until).loads
        for since, until in pairwise(moments)
    ]
    told = pl.concat(parts)
    assert told.filter(figure=LoadFigure.STEPPED_MS)["amount"].sum() == SECONDS * 1_000
    assert told.filter(figure=LoadFigure.STEPS)["amount"].sum() == 2 * SECONDS
    assert told.filter(figure=LoadFigure.TRAINED_TOKENS)["amount"].sum() == 2_000 * SECONDS


def test_a_launch_that_spans_two_attempts_has_its_steps_once():
    """Requeued, and started again ten seconds later, while its processes go on: what was done when
    nobody held anything is on no books.
    """
    rows = [
        {"job": "a", "submit_ms": BEGIN_US // 1000, "start_ms": BEGIN_US // 1000 + start_ms,
         "end_ms": BEGIN_US // 1000 + end_ms, "outcome": outcome, "gpus": 1, "gpu_type": "H100",
         "nodes": ["n"]}
        for start_ms, end_ms, outcome in ((0, 55_000, "requeued"), (65_000, 160_000, "done"))
    ]  # fmt: skip
    found = tracking.measured(loops.launches(one_rank()))
    history = build(pl.DataFrame(rows, {name: ATTEMPTS[name] for name in rows[0]}), [],
                    flat({"": 1}), measured=found)  # fmt: skip
    steps = efficiency.of_job(api.keep_history(history).statement, 0).measured.steps
    assert steps is not None
    assert steps.gpu_s == steps.token_gpu_s == SECONDS - 10
    assert abs(steps.steps - 2 * (SECONDS - 10)) <= 1
    assert steps.tokens is not None
    assert abs(steps.tokens - 1_000 * (SECONDS - 10)) <= 1


def test_a_job_of_steps_is_no_service():
    """Steps are amounts as requests are; who counts them is not asked for anything."""
    row = efficiency.of_job(books([*loop()]), 0)
    assert row.measured.load is None
    assert row.facts is not None
    assert row.facts.job_class == "training"


def an_mfu(at_us: int, source: str | None, seq: int = SECONDS + 3) -> EfficiencyRecord:
    """A loop that says how efficient it is."""
    return EfficiencyRecord(
        v=1, job="a", run="a0", rank=0, seq=seq, at_us=at_us, mfu_ppm=400_000, source=source
    )


def one_rank() -> list[TrackRecord]:
    """A loop of one process."""
    return [*loop(ranks=1, world=1)]


def test_an_mfu_holds_for_the_second_in_which_it_is_said():
    """Said just before the first step ended: no second of work is without it."""
    told = [*one_rank(), an_mfu(BEGIN_US + 10_400_000, None)]
    row = efficiency.of_job(books(told), 0)
    useful = row.figure([efficiency.Bucket.USEFUL]).milli_ms
    assert useful == 400 * SECONDS * 1_000
    assert row.figure([efficiency.Bucket.UNKNOWN]).milli_ms in (0, None)


def test_an_mfu_of_steps_is_not_held_against_a_checkpoint():
    """A loop that says 40 % and then stands still to save says nothing that cannot be."""
    head: dict[str, Any] = {"v": 1, "job": "a", "run": "a0", "rank": 0}
    at_us = BEGIN_US + 10 * SECOND_US
    told: list[TrackRecord] = [
        BeganRecord(**head, seq=0, at_us=at_us, world=1, gpus=1),
        an_mfu(at_us, None),
        StepsRecord(**head, seq=2, from_us=at_us, until_us=at_us + 100_000, skew_us=0, steps=1,
                    compute_us=100_000, other_us=0, first_step=1, last_step=1),
        CheckpointBegunRecord(**head, seq=3, at_us=at_us + 100_000, checkpoint=1, step=1,
                              is_async=False),
        StepsRecord(**head, seq=4, from_us=at_us + 100_000, until_us=at_us + 900_000, skew_us=0,
                    steps=0, checkpoint_us=800_000, other_us=0),
        CheckpointSavedRecord(**head, seq=5, at_us=at_us + 900_000, checkpoint=1, step=1),
        EndedRecord(**head, seq=6, at_us=at_us + 900_000, outcome="finished"),
    ]  # fmt: skip
    row = efficiency.of_job(books(told), 0)
    assert row.figure([efficiency.Bucket.USEFUL]).milli_ms == 40_000
    assert row.figure([efficiency.Bucket.CHECKPOINT]).milli_ms == 800_000


def test_where_an_mfu_comes_from_is_shown(tmp_path: Path):
    """The words of the loop stand beside its job, in text and in JSON; the last ones."""
    told = [*one_rank(), an_mfu(BEGIN_US + SECOND_US, "a guess"),
            an_mfu(BEGIN_US + 9 * SECOND_US, "nsys profile of step 100",
                   SECONDS + 4)]  # fmt: skip
    lines = [msgspec.json.encode(one).decode() for one in told]
    records, journal = tmp_path / "a.jsonl", tmp_path / "a.sqlite"
    records.write_text("\n".join(lines) + "\n")
    tidemill("import", "track", str(records), "--gpu-type", "H100", "-j", str(journal))
    shown = tidemill("efficiency", str(journal), "--job", "a").out
    assert "MFU, as its loop says: nsys profile of step 100" in shown
    assert f"done (measured): steps {2 * SECONDS}, tokens 150,000" in shown
    (row,) = json.loads(tidemill("efficiency", str(journal), "--job", "a", "--json").out)["rows"]
    assert row["job"]["mfu_source"] == "nsys profile of step 100"
    assert row["steps"]["steps"] == 2 * SECONDS
    assert row["steps"]["tokens_per_gpu_hour"] == 3600 * 1_000
