"""Spares, warm pools and maintenance that hold for a time, against a count of every millisecond."""

from datetime import datetime
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.ledger.sums import amounts
from tests.live.history.test_advance import Observer, Row, a_story, as_of
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill.cli.given import Given
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.events import build
from tidemill.live.history.intent import IntendedSpan, NodeIntent, RepeatedSpan
from tidemill.model.errors import SpecError


def an_intent(luck: Random) -> NodeIntent:
    """Some nodes are spares for some time, and some are closed for some."""

    def span(*, may_be_open: bool) -> IntendedSpan:
        names = tuple(luck.sample([node.name for node in NODES], luck.choice((1, 2))))
        start = luck.choice((0, EPOCH_MS + 10 * luck.randrange(60))) if may_be_open else (
            EPOCH_MS + 10 * luck.randrange(60)
        )  # fmt: skip
        stop = max(start, EPOCH_MS) + 10 * luck.randrange(1, 40)
        return IntendedSpan(names, start, None if may_be_open and luck.random() < 0.3 else stop)

    return NodeIntent(
        tuple(span(may_be_open=True) for _ in range(2)),
        tuple(span(may_be_open=False) for _ in range(2)),
    )


def by_hand(story: list[Row], intent: NodeIntent, end: int) -> dict[Bucket, int]:
    """What is free of spares, and of closed nodes, millisecond by millisecond."""
    found = {Bucket.BY_DESIGN: 0, Bucket.CORDONED: 0}
    for ms in range(end):
        free = dict.fromkeys((node.name for node in NODES), 8)
        for row in story:
            if row["start_ms"] <= ms < row["end_ms"]:
                for name in row["nodes"]:
                    free[name] -= row["gpus"] // len(row["nodes"])
        for name, gpus in free.items():
            if _holds(intent.maintenance, name, EPOCH_MS + ms):
                found[Bucket.CORDONED] += 1000 * gpus
            elif _holds(intent.spares, name, EPOCH_MS + ms):
                found[Bucket.BY_DESIGN] += 1000 * gpus
    return found


def _holds(spans: tuple[IntendedSpan | RepeatedSpan, ...], name: str, at_ms: int) -> bool:
    return any(
        isinstance(one, IntendedSpan)
        and name in one.names
        and one.from_ms <= at_ms
        and (one.to_ms is None or at_ms < one.to_ms)
        for one in spans
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_free_by_design_is_told_from_what_is_free(seed: int):
    """Jobs run on spares and closed nodes all the same; an import, and an observer in parts."""
    luck = Random(seed)
    story, _ = a_story(luck)
    intent, end = an_intent(luck), max(row["end_ms"] for row in story) + 5
    nodes = intent.of(NODES, EPOCH_MS, EPOCH_MS + end)
    whole = read(build(attempts(*story), nodes, PRICES, EPOCH_MS, EPOCH_MS + end))
    sums = amounts(whole, "bucket")
    expected = by_hand(story, intent, end)
    assert {bucket: sums[(bucket,)] for bucket in expected} == expected
    observer, now = Observer(), 0
    while observer.world.now_ms < end:
        now += luck.randrange(1, max(2, end // 20))
        answer = SourceAnswer(attempts(*as_of(story, now, observer.world.now_ms - 50)), nodes, 0)
        if (until := min(end, now - 30)) > observer.world.now_ms:
            observer.take(answer, EPOCH_MS + until)
            observer.restart()
    assert amounts(observer.books(), "bucket") == sums


def test_intent_may_be_declared_later_and_taken_back():
    """An observer that is started again with other spares tells that from then on."""
    observer = Observer()
    for until, spares in ((100, ()), (200, (IntendedSpan(("n1",)),)), (300, ())):
        nodes = NodeIntent(spares).of(NODES, EPOCH_MS, EPOCH_MS + until)
        observer.take(SourceAnswer(attempts(), nodes, 0), EPOCH_MS + until)
        observer.restart()
    assert amounts(observer.books(), "bucket")[(Bucket.BY_DESIGN,)] == 8_000 * 100


def test_spans_are_read_as_typed():
    """Names as Slurm folds them, either end left out, dates of the zone that was given."""
    told = Given(
        spares=["g[1-2]", "warm-*@2026-11-01..", "b@..2026-12-01"],
        maintenance=["g1@2026-11-20T06:00..2026-11-20T10:00"],
    ).intent("Europe/Berlin")
    november, december = 1_793_487_600_000, 1_796_079_600_000
    assert told.spares == (
        IntendedSpan(("g1", "g2")), IntendedSpan(("warm-*",), november),
        IntendedSpan(("b",), 0, december),
    )  # fmt: skip
    (closed,) = told.maintenance
    assert isinstance(closed, IntendedSpan)
    assert (closed.to_ms or 0) - closed.from_ms == 4 * 3_600_000


def local(text: str, zone: str = "Europe/Berlin") -> int:
    """A date of a zone, in milliseconds since 1970."""
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def hours(told: str, start: str, stop: str, zone: str = "Europe/Berlin") -> list[tuple[str, float]]:
    """When a repeated span begins between two dates, and for how many hours it holds."""
    (span,) = Given(maintenance=[told]).intent(zone).maintenance
    assert isinstance(span, RepeatedSpan)
    first, last = local(start, zone), local(stop, zone)
    found = [one for one in span.spans(first, last) if first <= one.from_ms < last]
    return [
        (datetime.fromtimestamp(one.from_ms / 1000, ZoneInfo(zone)).strftime("%a %d %H:%M"),
         ((one.to_ms or 0) - one.from_ms) / 3_600_000)
        for one in found
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "start", "found"),
    [
        ("g1@daily 02:00..04:00", "2026-10-24",
         [("Sat 24 02:00", 2), ("Sun 25 02:00", 3), ("Mon 26 02:00", 2)]),
        ("g1@daily 02:00..04:00", "2026-03-28",
         [("Sat 28 02:00", 2), ("Sun 29 03:00", 1), ("Mon 30 02:00", 2)]),
        ("g1@daily 02:30..03:00", "2026-03-28", [("Sat 28 02:30", 0.5), ("Mon 30 02:30", 0.5)]),
        ("g1@sun 22:00..04:00", "2026-10-24", [("Sun 25 22:00", 6)]),
        ("g1@sat-sun 22:00..04:00", "2026-10-24", [("Sat 24 22:00", 7), ("Sun 25 22:00", 6)]),
        ("g1@weekdays 20:00..24:00", "2026-10-24", [("Mon 26 20:00", 4)]),
        ("g1@fri-mon 00:00..24:00", "2026-10-24",
         [("Sat 24 00:00", 24), ("Sun 25 00:00", 25), ("Mon 26 00:00", 24)]),
        ("g1@mon,sat 6:15..6:45", "2026-10-24", [("Sat 24 06:15", 0.5), ("Mon 26 06:15", 0.5)]),
    ],
)  # fmt: skip
def test_a_repeated_span_follows_the_clock_on_the_wall(
    told: str, start: str, found: list[tuple[str, float]]
):
    """Three days around a change of the clock in Berlin; in UTC every night is alike."""
    end = f"{start[:8]}{int(start[8:]) + 3:02}"
    assert hours(told, start, end) == found
    assert all(length == 2 for _, length in hours("g1@daily 02:00..04:00", start, end, "UTC"))


@pytest.mark.parametrize("seed", range(3))
def test_repeated_maintenance_is_booked_as_single_spans_are(seed: int):
    """Every day of a story by itself, or all of them at once; an import, and an observer."""
    luck = Random(seed)
    story, _ = a_story(luck)
    end = max(row["end_ms"] for row in story) + 5
    daily = RepeatedSpan(("n1",), frozenset(range(7)), 0, 24 * 60, "UTC")
    single = tuple(daily.spans(EPOCH_MS, EPOCH_MS + end))
    books = [
        amounts(read(build(attempts(*story), NodeIntent(maintenance=told).of(
            NODES, EPOCH_MS, EPOCH_MS + end), PRICES, EPOCH_MS, EPOCH_MS + end)), "bucket")
        for told in ((daily,), single)
    ]  # fmt: skip
    assert books[0] == books[1]
    assert books[0][(Bucket.CORDONED,)] > 0


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"maintenance": ["n1@someday 02:00..04:00"]}, "`someday` is no day of the week"),
        ({"maintenance": ["n1@daily 02:00..25:00"]}, "`25:00` is no time of day"),
        ({"spares": ["n1@daily 2..4"]}, "`2` is no time of day"),
        ({"spares": ["n1@soon"]}, "`soon` is no stretch of time"),
        ({"spares": ["n1@.."]}, "`..` is no stretch of time"),
        ({"spares": ["n1@2026-11-02..2026-11-01"]}, "ends before it begins"),
        ({"spares": ["n1@yesterday.."]}, "`yesterday`, which is no date"),
        ({"spares": ["n[1"]}, "is no list of nodes"),
        ({"maintenance": ["n1"]}, "does not say from when to when"),
        ({"maintenance": ["n1@2026-11-02.."]}, "does not say from when to when"),
    ],
)
def test_what_is_no_span_is_refused(told: dict[str, Any], found: str):
    """What was typed, and what would do."""
    with pytest.raises(SpecError) as refused:
        Given(**told).intent("UTC")
    assert found in refused.value.message
    assert refused.value.hint
