"""What is assumed where nothing was measured: used, shown as assumed, and never more than that."""

import polars as pl
import pytest

from tests.live.history.test_history import NODES, PRICES, attempts, read
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.unknowns import unknowns
from tidemill.live.history import assuming
from tidemill.live.history.events import build
from tidemill.live.measured.windows import WINDOWS, nothing
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, MINUTE_MS, WHOLE_MILLI
from tidemill.model.states import Confidence

GPU = WHOLE_MILLI * MINUTE_MS
ROWS = attempts(
    {"gpus": 1, "nodes": ["n0"], "start_ms": 0, "end_ms": HOUR_MS},
    {"job": "f", "gpus": 1, "nodes": ["n1"], "start_ms": 0, "end_ms": HOUR_MS, "outcome": "failed"},
)


def test_an_assumed_mfu_divides_the_work_and_says_so():
    """An hour of a job that is done at an assumed 40 %: 24 minutes useful.

    That of the failed job may be lost or saved: nobody knows, so it is neither useful nor rework.
    """
    books = read(build(ROWS, NODES, PRICES, assumed=assuming.read(["training.mfu=0.4"])))
    account = books.total()
    assert account.milli_ms[Bucket.USEFUL] == 24 * GPU
    assert account.milli_ms[Bucket.BELOW_PEAK] == 36 * GPU
    assert account.milli_ms[Bucket.UNKNOWN] == 60 * GPU
    assert Bucket.REWORK in unknowns(account, is_observed=True)
    for bucket in (Bucket.USEFUL, Bucket.BELOW_PEAK):
        assert books.confidence(bucket) is Confidence.ASSUMED
    assert read(build(ROWS, NODES, PRICES)).total().milli_ms[Bucket.UNKNOWN] == 120 * GPU


def test_a_job_that_is_stopped_is_not_useful_by_an_assumption():
    """Requeued after an hour, idle for half of the second, then done: only the second counts.

    What devices said of the first attempt divides it all the same: 15 minutes of it were idle.
    """
    told = attempts(
        {"job": "q", "gpus": 1, "nodes": ["n0"], "start_ms": 0, "end_ms": HOUR_MS,
         "outcome": "requeued"},
        {"job": "q", "gpus": 1, "nodes": ["n0"], "start_ms": HOUR_MS, "end_ms": 2 * HOUR_MS},
    )  # fmt: skip
    begin: int = told["start_ms"].to_list()[0]
    windows = [
        {"job": "q", "source": "dcgm", "start_ms": begin + a * MINUTE_MS,
         "end_ms": begin + b * MINUTE_MS, "busy_ppm": busy}
        for a, b, busy in ((0, 30, 1_000_000), (30, 60, 500_000), (60, 120, 500_000))
    ]  # fmt: skip
    measured = nothing()._replace(windows=pl.DataFrame(windows, schema=WINDOWS))
    assumed = assuming.read(["training.mfu=0.4"])
    account = read(build(told, NODES, PRICES, measured=measured, assumed=assumed)).total()
    assert account.milli_ms[Bucket.IDLE] == (15 + 30) * GPU
    assert account.milli_ms[Bucket.UNKNOWN] == 45 * GPU
    assert account.milli_ms[Bucket.USEFUL] == 12 * GPU
    assert account.milli_ms[Bucket.BELOW_PEAK] == 18 * GPU
    assert account.milli_ms[Bucket.REWORK] == 0


def test_assumed_checkpoints_and_starts_say_what_a_stop_lost():
    """Five minutes to come up, a save every 20: of 55 minutes of work the failed job lost 15."""
    told = ["training.mfu=50%,training.checkpoint_interval=20m", "training.startup=5m"]
    books = read(build(ROWS, NODES, PRICES, assumed=assuming.read(told)))
    account = books.total()
    assert account.milli_ms[Bucket.STARTING] == 10 * GPU
    assert account.milli_ms[Bucket.REWORK] == 15 * GPU
    assert account.milli_ms[Bucket.USEFUL] == (55 + 40) * GPU // 2
    for bucket in (Bucket.STARTING, Bucket.REWORK):
        assert books.confidence(bucket) is Confidence.ASSUMED
    assert books.confidence(Bucket.NO_DEMAND) is Confidence.MEASURED


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("training.mfu", "nothing can be assumed by"),
        ("training.luck=1", "known are training.mfu"),
        ("training.mfu=1.5", "no share of the time"),
        ("training.mfu=high", "no share of the time"),
        ("training.startup=soon", "no length of time"),
        ("training.host=0.2", "and not the MFU"),
        ("training.mfu=0.6,training.host=0.6", "more than all of it"),
        ("training.mfu=0.6,training.attainable=0.3", "above what is attainable"),
        ("training.checkpoint_cost=1m", "not how often"),
    ],
)
def test_assumptions_that_make_no_sense_are_refused(told: str, words: str):
    """What was asked, what was found, what to do."""
    with pytest.raises(SpecError) as refused:
        assuming.read([told])
    assert words in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.hint
