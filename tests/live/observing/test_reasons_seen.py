"""Why jobs wait is booked from the first look that saw it, however late the journal is told."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.observing.test_observer import BEGIN_S, TERMS, Cluster
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd
from tidemill.live.observing.observer import Observer
from tidemill.live.observing.reasons_seen import ReasonsSeen
from tidemill.live.observing.several import SeveralClusters, WatchedCluster

WAITS: dict[str, Any] = {
    "job_id": 7, "job_state": "PENDING", "cluster": "lab", "account": "physics",
    "user_name": "ada", "tres_req_str": "gres/gpu=8", "submit_time": BEGIN_S + 80,
    "eligible_time": BEGIN_S + 80, "start_time": 0, "end_time": 0,
}  # fmt: skip


@pytest.mark.parametrize("ahead_s", [0, 500])
def test_looks_between_two_times_that_are_told_date_a_cause(tmp_path: Path, ahead_s: int):
    """It waits since 80; looks at 100 and 400 see its limit, the one at 430 another cause.

    The first tells up to 70, the second up to 370: the limit is booked from the first on.
    """
    hpc, where = Cluster(tmp_path), str(tmp_path / "fleet.sqlite")
    clusters = [WatchedCluster("hpc", hpc.source, lateness_ms=30_000, ahead_ms=ahead_s * 1000)]
    source = SeveralClusters(clusters)
    for now, reason in ((100, "AssocGrpGRES"), (400, "AssocGrpGRES"), (430, "Resources"),
                        (500, "Resources")):  # fmt: skip
        hpc.at(now)
        hpc.print("squeue", json.dumps({"jobs": [WAITS | {"state_reason": reason}]}))
        begins_ms = (BEGIN_S - ahead_s) * 1000
        with Observer.open(where, source, TERMS, begins_ms) as observer:
            observer.ask()
    found = amounts(api.read_statement(where), "bucket")
    assert found[(Bucket.CAUSE_UNKNOWN,)] == 8_000_000 * 20
    assert found[(Bucket.QUOTA,)] == 8_000_000 * 300


def seen(reasons: ReasonsSeen, now_ms: int, *rows: dict[str, Any]) -> list[int | None]:
    """Since when each of these attempts waits for its cause, by a look."""
    every = [dict.fromkeys(ATTEMPTS) | {"outcome": AttemptEnd.WAITING} | row for row in rows]
    return reasons.dated(pl.DataFrame(every, schema=ATTEMPTS), now_ms)["reason_ms"].to_list()


def test_a_cause_is_dated_as_long_as_each_look_sees_it():
    """Another cause, another wait or a look without it begins anew; other words do not."""
    reasons, limit = ReasonsSeen(), {"job": "a", "reason": "8 free", "reason_cause": 9}
    said = {"job": "b", "reason": "since 3", "reason_cause": 9, "reason_ms": 3}
    assert seen(reasons, 10, limit, said) == [10, 3]
    assert seen(reasons, 20, limit | {"reason": "6 free"}) == [10]
    assert seen(reasons, 30, limit | {"reason_cause": 14}) == [30]
    assert seen(reasons, 40, limit) == [40]
    assert seen(reasons, 50) == []
    assert seen(reasons, 60, limit) == [60]
    assert seen(reasons, 70, limit | {"submit_ms": 65}) == [70]
    runs = limit | {"outcome": AttemptEnd.RUNNING}
    assert seen(reasons, 80, runs) == [None]


def test_a_cause_that_is_not_known_is_dated_by_its_words():
    """Words that nobody knows may mean anything: others are another cause."""
    reasons, odd = ReasonsSeen(), {"job": "a", "reason": "Odd", "reason_cause": 0}
    assert seen(reasons, 10, odd) == seen(reasons, 20, odd) == [10]
    assert seen(reasons, 30, odd | {"reason": "Odder"}) == [30]
