"""Why jobs wait, as their own scheduler says: from when that was seen, or since it says so."""

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer, Row, up_to
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill import explain
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.events import build
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause

SAID: Row = {"job": "h", "gpus": 8, "submit_ms": 10, "is_per_node": True, "node_count": 1,
             "reason": "AssocGrpGRES: the maximum quota is reached",
             "reason_cause": int(Cause.OVER_LIMIT), "reason_layer": 3}  # fmt: skip
RUNS: Row = {"job": "runs", "gpus": 8, "submit_ms": 10, "start_ms": 10, "outcome": "running",
             "nodes": ["n1"]}  # fmt: skip


def test_a_reason_is_booked_from_the_look_that_saw_it():
    """It waits for 8 GPUs from 10 on; the look at 50 has a reason, the one at 80 has another."""
    observer = Observer()
    up_to(observer, 50, SAID, RUNS)
    observer.restart()
    other = {"reason": "Priority: held behind others", "reason_cause": int(Cause.BEHIND)}
    up_to(observer, 80, SAID, RUNS)
    assert explain.board(observer.world, Policy()).rows[0].cause == "over_limit"
    up_to(observer, 90, SAID | other, RUNS)
    up_to(observer, 100, SAID | other, RUNS)
    found = amounts(observer.books(), "bucket")
    assert found[(Bucket.CAUSE_UNKNOWN,)] == 8_000 * 40
    assert found[(Bucket.QUOTA,)] == 8_000 * 40
    assert found[(Bucket.HELD,)] == 8_000 * 10


def test_a_source_that_says_since_when_it_gives_a_reason_is_booked_alike():
    """Since 30: told at once, by two looks, and by looks of an observer that is restarted."""
    rows = attempts(SAID | {"reason_ms": EPOCH_MS + 30})
    imported = read(build(rows, NODES, PRICES, until_ms=EPOCH_MS + 100))
    for looks in ([100], [40, 100], [35, 60, 80, 100]):
        observer = Observer()
        for now in looks:
            observer.restart()
            up_to(observer, now, SAID | {"reason_ms": EPOCH_MS + 30})
        for books in (imported, observer.books()):
            found = amounts(books, "bucket")
            assert found[(Bucket.CAUSE_UNKNOWN,)] == 8_000 * 20, looks
            assert found[(Bucket.QUOTA,)] == 8_000 * 70, looks
