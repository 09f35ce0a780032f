"""Observers that keep events for so long: older ones become books by the hour, while it goes on."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts
from tidemill import api
from tidemill.cli.retention import AGAIN_S, Retention, keep_ms_of
from tidemill.journal import open_journal
from tidemill.journal.base import Journal
from tidemill.journal.verify import verify
from tidemill.ledger import rolling
from tidemill.ledger.rolling import RollUp
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.events import build
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.model import events as ev
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy

BEGIN_MS = EPOCH_MS - EPOCH_MS % DAY_MS
TERMS = ObserverTerms(PRICES, lateness_ms=0, gap_ms=DAY_MS)
SHORT_MS = 90_000


class Cluster:
    """Four nodes; a job of eight GPUs every so often on each, one after the other."""

    name = "lab"

    def __init__(self, days: int, every_ms: int = 4 * SHORT_MS) -> None:
        offset = BEGIN_MS - EPOCH_MS
        self.rows = attempts(*(
            {"job": f"j{k}", "team": "ab"[k % 2], "gpus": 8, "nodes": [node.name],
             "submit_ms": at, "start_ms": at, "end_ms": at + SHORT_MS}
            for k, (at, node) in enumerate(
                (offset + step * every_ms, node)
                for step in range(days * DAY_MS // every_ms) for node in NODES
            )
        ))  # fmt: skip
        self.at_ms = BEGIN_MS

    def now_ms(self) -> int:
        return self.at_ms

    def poll(self, since_ms: int) -> SourceAnswer:
        is_begun, is_open = pl.col("start_ms") <= self.at_ms, pl.col("end_ms") > self.at_ms
        rows = self.rows.filter(is_begun & (pl.col("end_ms") >= since_ms))
        rows = rows.with_columns(end_ms=pl.when(~is_open).then("end_ms"))
        return SourceAnswer(rows, NODES, self.at_ms)


def watched(where: str, cluster: Cluster, days: int, keep: str, luck: Random) -> list[int]:
    """Watch it every so often; new processes now and then. How many events were left, by look."""
    clock_s, left = 0.0, list[int]()

    def observers() -> Iterator[tuple[Observer, Retention]]:
        while True:
            with Observer.open(where, cluster, TERMS, BEGIN_MS) as observer:
                kept = Retention(keep, lambda: clock_s)
                for _ in range(luck.randrange(1, 40)):
                    yield observer, kept

    looks = observers()
    while cluster.at_ms < BEGIN_MS + days * DAY_MS:
        observer, kept = next(looks)
        kept.tend(observer)
        cluster.at_ms += HOUR_MS
        clock_s += HOUR_MS / 1000
        observer.ask()
        left.append(observer.roll_up(0, lambda journal, _: len(journal) - journal.first_kept()))
    looks.close()  # type: ignore[attr-defined]
    return left


def test_books_are_those_of_an_observer_that_keeps_all(where: str, tmp_path: Path):
    """Watched for five days by processes that come and go: what is left stays bounded, the books
    are the same to the millisecond, and the journal is sound.
    """
    whole = str(tmp_path / "whole.sqlite")
    all_left = watched(whole, Cluster(5), 5, "", Random(1))
    left = watched(where, Cluster(5), 5, "1d", Random(2))
    assert all_left[-1] > 12_000
    assert left[-1] < all_left[-1] / 2
    assert max(left) < all_left[-1], "where books would take more than events, they stay"
    for by in ("bucket", "contract", "team"):
        assert amounts(api.read_statement(where), by) == amounts(api.read_statement(whole), by), by
    assert (api.read_statement(where).total().paid_usd_micro
            == api.read_statement(whole).total().paid_usd_micro)  # fmt: skip
    assert verify(where).is_sound


def test_it_is_tried_at_the_start_and_once_a_day(tmp_path: Path, capsys: pytest.CaptureFixture):
    """Between that nothing is read; what happens is said."""
    clock_s, tried = 0.0, list[int]()

    class Counting:
        def roll_up(self, keep_ms: int, by: object) -> object:
            tried.append(keep_ms)
            return found.pop(0)

    found = [RollUp(0, 9, 0, 0, is_larger=True), RollUp(4_096, 5, 7, 80), RollUp(0, 5, 7, 0)]
    kept = Retention("90d", lambda: clock_s)
    for clock_s in (0.0, 60.0, AGAIN_S - 1, AGAIN_S, AGAIN_S + 1, 3 * AGAIN_S):  # noqa: B007 - read by the clock
        kept.tend(Counting())  # type: ignore[arg-type]
    assert tried == [90 * DAY_MS] * 3
    said = capsys.readouterr().err
    assert "books by the hour would take more than its events" in " ".join(said.split())
    assert "4,096 events older than 90d rolled up into 80 lines" in " ".join(said.split())


def test_books_that_would_be_larger_are_not_made(tmp_path: Path):
    """Jobs of many users that come and go by the minute's fraction, in few events: books by the
    hour take more than these, and all events stay.
    """
    where, luck = str(tmp_path / "few.sqlite"), Random(3)
    rows = [
        {"job": f"j{k}", "user": f"u{k}", "team": f"t{k}", "gpus": 1, "nodes": [f"n{k % 4}"],
         "start_ms": luck.randrange(HOUR_MS), "end_ms": 60 * DAY_MS + luck.randrange(HOUR_MS)}
        for k in range(32)
    ]  # fmt: skip
    history = build(attempts(*rows), NODES, PRICES)
    with open_journal(where, create=True) as journal:
        journal.claim()
        for batch in history.batches():
            journal.append_batch(batch)
        journal.append([ev.Woke(history.length_ms + 9 * DAY_MS)])
        count = len(journal)
        found = rolling.roll_up(journal, history.length_ms + DAY_MS, Policy(), is_to_shrink=True)
        assert (found.is_larger, found.gone, found.left) == (True, 0, count)
        assert journal.rolled_up() is None
        found = rolling.roll_up(journal, history.length_ms + DAY_MS, Policy())
        assert found.gone == count - 1


def test_a_roll_up_that_fails_leaves_the_observer_at_work(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    """A full disk is said; the next answer is told, and it is tried again a day later."""
    where, cluster = str(tmp_path / "fleet.sqlite"), Cluster(2)

    class Failing:
        def roll_up(self, keep_ms: int, by: object) -> object:
            raise JournalError("`fleet.sqlite` cannot be written: disk full", hint="make room")

    Retention("1d").tend(Failing())  # type: ignore[arg-type]
    assert "disk full" in capsys.readouterr().err
    with Observer.open(where, cluster, TERMS, BEGIN_MS) as observer:
        cluster.at_ms += HOUR_MS
        assert observer.ask().nodes == 4


@pytest.mark.parametrize("keep", ["12h", "soon"])
def test_how_long_is_a_day_at_least(keep: str):
    """Less than a day is refused: the hours of now are asked for by job."""
    with pytest.raises(SpecError, match=f"--keep is `{keep}`"):
        keep_ms_of(keep)
    assert keep_ms_of("") is None


def test_only_journals_of_tables_can(tmp_path: Path):
    """What a caller does with the journal is its own; the observer says up to when."""
    where, cluster = str(tmp_path / "fleet.sqlite"), Cluster(1)
    with Observer.open(where, cluster, TERMS, BEGIN_MS) as observer:
        cluster.at_ms += 3 * HOUR_MS
        observer.ask()

        def seen(journal: Journal, before_ms: int) -> tuple[int, int]:
            return len(journal) > 0, before_ms

        assert observer.roll_up(HOUR_MS, seen) == (True, 2 * HOUR_MS)
