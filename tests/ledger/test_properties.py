"""What every ledger keeps, on any legal story: it adds up, however and whenever it is read."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.ledger import twins
from tests.ledger.stories import STORIES, Story, story
from tests.ledger.sums import amounts, other_than_work, work_of_jobs
from tidemill.ledger import spans, supply
from tidemill.ledger.buckets import DIVIDED, Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import Statement, read
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.states import Confidence

MOMENTS = st.integers(0, 500)


@settings(max_examples=40)
@given(STORIES)
def test_paid_is_the_sum_of_the_buckets_at_every_instant(events: Story):
    """After every event of a story, paid equals the sum of the buckets and none is negative."""
    ledger = Ledger(window=Window(bin_ms=50))
    for event in events:
        ledger.read([event])
        statement = Statement(ledger)  # asserts it for every bin and contract
        assert statement.paid.sum() == statement.total().paid_milli_ms
        assert statement.rows.milli_ms.min(initial=1) > 0


@settings(max_examples=40)
@given(STORIES)
def test_looking_changes_nothing(events: Story):
    """A statement taken after every event leaves the last one as if nobody had looked."""
    ledger = Ledger()
    for event in events:
        ledger.read([event])
        Statement(ledger)
    assert amounts(Statement(ledger)) == amounts(read(events))


@settings(max_examples=150)
@given(STORIES, MOMENTS, MOMENTS, MOMENTS)
def test_a_window_is_the_sum_of_its_parts(events: Story, a: int, b: int, c: int):
    """Cut at any moment, the two parts add up to the whole in every cell, exactly."""
    start_ms, middle_ms, end_ms = sorted((a, b, c))
    parts = amounts(read(events, start_ms, middle_ms)) + amounts(read(events, middle_ms, end_ms))
    assert parts == amounts(read(events, start_ms, end_ms))


@settings(max_examples=100)
@given(STORIES, st.integers(1, 97), MOMENTS)
def test_the_width_of_bins_changes_no_sum(events: Story, bin_ms: int, start_ms: int):
    """Whatever the bins, their sums are those of the undivided window, cell by cell."""
    assert amounts(read(events, start_ms, bin_ms=bin_ms)) == amounts(read(events, start_ms))


@settings(max_examples=100)
@given(STORIES, MOMENTS)
@example(story(225, 53), 490)  # not saved yet, and beside another: what lasts is interference too
def test_provisional_work_finds_its_fate(events: Story, at_ms: int):
    """What is unsaved at a moment later lasts or is lost; nothing else about that time changes.

    Left: the ledger as of the moment. Right: the same window, read with the whole journal.
    """
    at_ms = min(at_ms, events[-1].at_ms)
    ledger = Ledger().read(event for event in events if event.at_ms <= at_ms)
    ledger.pass_time(at_ms)
    then, later = Statement(ledger), read(events, end_ms=at_ms)
    assert other_than_work(then) == other_than_work(later)
    was, became = work_of_jobs(then), work_of_jobs(later)
    assert sum(was.values(), start=type(was["lost"])()) == sum(
        became.values(), start=type(was["lost"])()
    )
    for j in became["unsaved"]:
        assert became["unsaved"][j] <= was["unsaved"][j], "work does not become unsaved later"
    for fate in ("lasted", "lost"):
        assert became[fate] >= was[fate], "what lasted or was lost stays so"


@settings(max_examples=100)
@given(STORIES)
def test_unknown_efficiency_is_neither_useful_nor_nothing(events: Story):
    """Work of unknown efficiency is in its own bucket; known efficiency puts nothing there."""
    statement = read(events)
    jobs, rows = statement.world.jobs, statement.rows
    for bucket, j in zip(rows.bucket.tolist(), rows.job.tolist(), strict=True):
        if Bucket(bucket) in DIVIDED - {Bucket.LINKS}:  # a slower place is known by itself
            assert jobs.confidence[j] != list(Confidence).index(Confidence.UNKNOWN)
        if bucket == Bucket.UNKNOWN:
            assert jobs.confidence[j] == list(Confidence).index(Confidence.UNKNOWN)


@settings(max_examples=40)
@given(STORIES)
def test_sweeping_early_changes_nothing(events: Story):
    """Spans may be added up after each, or all at the end."""
    usual = spans.SWEEP_AT
    expected = amounts(read(events, bin_ms=13), "bin", "contract", "bucket", "team", "job")
    try:
        spans.SWEEP_AT = 1
        found = read(events, bin_ms=13)
    finally:
        spans.SWEEP_AT = usual
    assert amounts(found, "bin", "contract", "bucket", "team", "job") == expected


@pytest.mark.parametrize("seed", range(4))
def test_reading_along_is_reading_afterwards(seed: int):
    """A ledger in the loop finds what one finds in the journal, row by row."""
    window = Window(HOUR_MS + 1, 10 * HOUR_MS, 47 * MINUTE_MS)
    along = Ledger(window=window)
    journal = twins.run(seed, [along])
    first, second = Statement(along), read(journal, *window)
    for name in first.rows._fields:
        assert getattr(first.rows, name).tolist() == getattr(second.rows, name).tolist()
    assert first.paid.tolist() == second.paid.tolist()
    assert first.total() == second.total()


@pytest.mark.parametrize("seed", range(2))
def test_fleets_in_the_twin_keep_it_all(seed: int):
    """Under the real scheduler with faults: parts of windows, bins and instants all agree."""
    journal = twins.run(seed)
    whole, middle_ms = amounts(read(journal)), 5 * HOUR_MS + 12_345
    parts = amounts(read(journal, 0, middle_ms)) + amounts(read(journal, middle_ms))
    assert parts == whole
    assert amounts(read(journal, bin_ms=HOUR_MS)) == whole
    ledger = Ledger(window=Window(bin_ms=HOUR_MS))
    for i, event in enumerate(journal):
        ledger.read([event])
        if i % 5 == 0:
            Statement(ledger)


def test_a_window_may_end_before_anything_happens_and_begin_after_the_end():
    """Windows in which nothing was paid are empty, not wrong."""
    events = story(1)
    last_ms = events[-1].at_ms
    for window in (Window(last_ms, last_ms + 10), Window(10**9, 2 * 10**9), Window(5, 5)):
        statement = read(events, *window)
        assert statement.total().paid_milli_ms == 0
        assert statement.length_ms == 0
        assert statement.by("team") == {}


def test_an_empty_journal():
    """No event, no ledger; every question still has an answer."""
    statement = read([])
    assert statement.total().paid_milli_ms == 0
    assert statement.by("job") == {}
    assert statement.jobs_of(Bucket.REWORK) == []


def test_a_ledger_reads_from_the_beginning():
    """A ledger that joins a story in its middle is refused at once."""
    events = story(2)
    with pytest.raises(EventRefused):
        Ledger().read(events[len(events) // 2 :])


@settings(max_examples=40)
@given(STORIES, st.integers(1, 7))
def test_batches_of_any_size_say_the_same(events: Story, size: int):
    """Told a few at a time, event by event or all at once, a ledger finds the same rows."""
    told = Ledger(window=Window(bin_ms=29), weighs_mix=True)
    for i in range(0, len(events), size):
        told.take(events[i : i + size])
        told.pass_time(events[min(i + size, len(events)) - 1].at_ms)
    first, second = Statement(told), read(events, bin_ms=29, weighs_mix=True)
    assert [column.tolist() for column in first.rows] == [c.tolist() for c in second.rows]
    assert [c.tolist() for c in first.free_use or ()] == [c.tolist() for c in second.free_use or ()]
    assert [c.tolist() for c in first.waits] == [c.tolist() for c in second.waits]
    assert (first.cut_short, first.stops) == (second.cut_short, second.stops)


def test_too_many_bins_are_refused(monkeypatch: pytest.MonkeyPatch):
    """A window of absurdly many bins is refused with a hint, before memory is gone."""
    monkeypatch.setattr(supply, "BINS_AT_MOST", 10)
    with pytest.raises(SpecError, match="more than 10 time bins") as caught:
        read(story(1), bin_ms=1)
    assert "wider bins" in caught.value.hint


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("milli_ms", 1, "paid .*, found"),
        ("milli_ms", -(10**15), "negative"),
        ("contract", 1, "paid .*, found"),
        ("bin", 10**6, "nobody paid for"),
    ],
)
def test_a_ledger_that_does_not_add_up_is_noticed(column: str, change: int, message: str):
    """One milli·ms too much, less than nothing, another contract or bin: each is refused."""
    statement = read(story(4, 200))
    assert statement.world.contract_count > 1
    at = int(np.flatnonzero(statement.rows.contract == 0)[0])
    changed = getattr(statement.rows, column).copy()
    changed[at] += change
    statement.rows = statement.rows._replace(**{column: changed})
    with pytest.raises(AssertionError, match=message):
        statement.check()
