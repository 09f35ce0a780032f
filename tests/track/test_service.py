"""What a service may do with a run, what is written then, and what the books make of it."""

import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.live.measured.test_tracking import books
from tests.track.played import whole
from tidemill import track
from tidemill.ledger import efficiency
from tidemill.ledger.buckets import Bucket
from tidemill.live.measured import loops, services, tracking
from tidemill.live.track.records import BeganRecord, EndedRecord, LoadRecord, TrackRecord
from tidemill.model.loads import LatencyFigure
from tidemill.track.serving import BOUNDS_US, ServiceMeter

BEGIN_US = 1_790_000_000_000_000 // services.MINUTE_US * services.MINUTE_US
HEAD: dict[str, Any] = {"v": 1, "job": "chat", "run": "r", "rank": 0}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run of the tests is told where to write, or who it is."""
    for name in ("TIDEMILL_TRACK", "TIDEMILL_JOB", "SLURM_JOB_ID", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def loads(folder: Path) -> list[LoadRecord]:
    """The records of load that were written."""
    return [one for one in whole(folder).records if isinstance(one, LoadRecord)]


def test_requests_tokens_and_times_are_counted(tmp_path: Path):
    """Four threads with two requests each, of three tokens: nothing is lost between them."""
    with track.service("chat", to=f"file:{tmp_path}", gpus=2) as served:

        def answer() -> None:
            for _ in range(2):
                with served.request(tokens_in=10) as one:
                    one.begun()
                    for _ in range(3):
                        one.token()

        threads = [threading.Thread(target=answer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told = loads(tmp_path)
    assert sum(one.requests for one in told) == 8
    assert sum(one.tokens_in or 0 for one in told) == 80
    assert sum(one.tokens_out or 0 for one in told) == 24
    for name, count in (("first_token", 8), ("between_tokens", 16), ("whole", 8)):
        assert sum(n for one in told for _, n in getattr(one, name)) == count, name
    assert [one.from_us for one in told[1:]] == [one.until_us for one in told[:-1]]


def test_a_request_that_fails_counts_and_its_exception_passes(tmp_path: Path):
    """It was asked for, and took its time; tokens that nobody told are unknown, not zero."""
    with (
        track.service("chat", to=f"file:{tmp_path}") as served,
        pytest.raises(ValueError, match="no"),
        served.request(),
    ):
        raise ValueError("no")
    (told,) = [one for one in loads(tmp_path) if one.requests]
    assert (told.tokens_in, told.tokens_out) == (None, None)


@pytest.mark.parametrize(("tokens", "sums"), [(3, (2, 3, 3)), (None, (2, None, None))])
def test_a_request_that_is_aborted_blanks_no_tokens_of_others(
    tmp_path: Path, tokens: int | None, sums: tuple[int | None, ...]
):
    """It made what was told of it: nothing. Where nobody tells tokens, they stay unknown."""
    with track.service("chat", to=f"file:{tmp_path}") as served:
        with served.request(tokens_in=tokens) as one:
            one.tokens_out = tokens
        with suppress(ConnectionError), served.request():
            raise ConnectionError
    told = [one for one in loads(tmp_path) if one.requests]
    found = [
        None if None in (some := [getattr(one, key) for one in told]) else sum(some)
        for key in ("requests", "tokens_in", "tokens_out")
    ]
    assert tuple(found) == sums


def test_without_an_outlet_nothing_is_counted(tmp_path: Path):
    """The same code runs anywhere."""
    with track.service("chat") as served, served.request(tokens_in="many") as one:  # type: ignore[arg-type]
        one.token(-3)
    assert list(tmp_path.iterdir()) == []


def test_levels_are_requests_times_time():
    """Two requests wait for 10 µs, then one of them runs for 5: 25 and 5 request-µs."""
    meter = ServiceMeter(100)
    meter.change(100, waiting=2)
    meter.change(110, waiting=-1, running=1)
    told = meter.cut(115)
    assert (told["waiting_us"], told["running_us"]) == (25, 5)
    assert (told["from_us"], told["until_us"]) == (100, 115)
    assert meter.cut(120)["waiting_us"] == 5


@pytest.mark.parametrize(("us", "bound"), [(0, 1000), (1000, 1000), (1001, 2000), (10**9, None)])
def test_a_time_is_in_the_bucket_of_the_next_bound(us: int, bound: int | None):
    """Bounds are inclusive, as Prometheus has them; beyond the last there is none."""
    meter = ServiceMeter(0)
    meter.took("whole", us)
    assert meter.cut(1)["whole"] == [[bound, 1]]
    assert max(BOUNDS_US) == 300_000_000


def hour() -> list[TrackRecord]:
    """Loading for 60 s; a request of 0.2 s each second for ten minutes; then nothing to 30."""
    found: list[TrackRecord] = [
        BeganRecord(**HEAD, seq=0, at_us=BEGIN_US, gpus=2, host="n1", world=1)
    ]
    for s in range(60, 1800):
        is_asked = s < 660
        at = BEGIN_US + 1_000_000 * s
        buckets = ((200_000, 1),) if is_asked else ()
        found.append(
            LoadRecord(**HEAD, seq=s, from_us=at, until_us=at + 1_000_000, requests=int(is_asked),
                       tokens_in=5 if is_asked else 0, tokens_out=7 if is_asked else 0,
                       waiting_us=0, running_us=200_000 * is_asked, whole=buckets)
        )  # fmt: skip
    end = BEGIN_US + 1_800_000_000
    return [*found, EndedRecord(**HEAD, seq=1801, at_us=end, outcome="finished")]


def test_the_books_of_a_service():
    """Start-up until it was ready, idle from the minute after the last request on; exact."""
    statement = books(hour())
    row, account = efficiency.of_job(statement, 0), statement.total()
    load = row.measured.load
    assert load is not None
    assert (load.requests, load.tokens_in, load.tokens_out) == (600, 3000, 4200)
    assert load.running_milli == round(1000 * 120 / 1740)
    assert load.latencies[LatencyFigure.WHOLE].at_most_us(Fraction(99, 100)) == 200_000
    assert account.milli_ms[Bucket.STARTING] == 2000 * 60_000
    assert account.milli_ms[Bucket.IDLE] == 2000 * 1_140_000
    assert account.milli_ms[Bucket.UNSAVED] + account.milli_ms[Bucket.REWORK] == 0
    assert account.paid_milli_ms == sum(account.milli_ms) == 2000 * 1_800_000


def test_parts_of_a_service_add_up_to_the_whole():
    """Told up to any moment and from there on: every request once."""
    (launch,) = loops.launches(hour())
    whole_load = tracking.measured([launch]).loads
    for cut_s in (61, 90, 659, 1000):
        cut_us = BEGIN_US + cut_s * 1_000_000
        parts = [
            tracking.measured([launch], until_us=cut_us).loads,
            tracking.measured([launch], since_us=cut_us).loads,
        ]
        for figure in whole_load["figure"].unique().to_list():
            sums = [
                int(frame.filter(figure=figure)["amount"].sum()) for frame in (*parts, whole_load)
            ]
            assert sums[0] + sums[1] == sums[2], (cut_s, figure)
