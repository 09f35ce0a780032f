"""What every journal promises, proven for each place that one can be kept in."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.journal.stories import stories, tell
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold_all
from tidemill.journal import Journal, open_journal
from tidemill.journal.replay import rebuild
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary, EventColumn, convert
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Piece, Queue, Role, Shape
from tidemill.model.world import World

LATE_MS = 10**9
BAD: dict[str, Any] = {
    "before the beginning": ev.Woke(-1),
    "after the end": ev.Woke(2**70),
    "time as text": ev.Woke("now"),  # type: ignore[arg-type]
    "time as a fraction": ev.Woke(1.5),  # type: ignore[arg-type]
    "time as a truth": ev.Woke(True),
    "a name too long": ev.QueueSet(LATE_MS, Queue("n" * 201)),
    "half a character": ev.QueueSet(LATE_MS, Queue("half a \ud800 pair")),
    "a list for a tuple": ev.AskedPlace(LATE_MS, 0, 1, [Piece(0, 0, 1, 1)]),  # type: ignore[arg-type]
    "too many devices": ev.AskedPlace(LATE_MS, 0, 1, (Piece(0, 0, 1, 2**64),)),
    "a job of another sort": ev.JobSubmitted(LATE_MS, object()),  # type: ignore[arg-type]
    "a job without roles": ev.JobSubmitted(LATE_MS, Job("j", Shape("t", ()))),
    "no such cause": ev.CauseChanged(LATE_MS, 0, 99),  # type: ignore[arg-type]
    "text": "not an event",
    "nothing": None,
}


def test_a_new_journal_is_empty(journal: Journal):
    """A new journal has no events, no snapshot and no facts."""
    assert len(journal) == 0
    assert list(journal.read()) == []
    assert journal.latest_snapshot() is None
    assert journal.meta("spec") is None
    assert journal.facts() == {}


def test_what_is_appended_reads_back(journal: Journal, story: list[Event]):
    """Events read back equal and in order, however they were divided into batches."""
    rng, rest = Random(1), list(story)
    while rest:
        count = rng.randint(0, 50)
        journal.append(rest[:count])
        rest = rest[count:]
    assert list(journal.read()) == story
    assert len(journal) == len(story)


def test_events_in_columns_are_kept_as_they_are_one_by_one(journal: Journal, story: list[Event]):
    """Batches with dictionaries of their own, between events: all of it reads back in order."""
    rng, rest = Random(2), list(story)
    while rest:
        some, rest = rest[: (count := rng.randint(0, 50))], rest[count:]
        if rng.random() < 0.6:
            journal.append_batch(convert.of_events(some, Dictionary()))
        else:
            journal.append(some)
    assert list(journal.read()) == story
    assert [e for batch in journal.batches(7) for e in convert.to_events(batch)] == story[7:]


def test_events_in_columns_are_read_by_whoever_opens_the_journal(where: str, story: list[Event]):
    """What a batch adds to the dictionary is kept with it; it was known to its writer alone."""
    with open_journal(where, create=True) as writer:
        for first in range(0, len(story), 90):
            writer.append_batch(convert.of_events(story[first : first + 90], Dictionary()))
    with open_journal(where) as reader:
        assert list(reader.read()) == story


def test_a_batch_in_columns_is_kept_whole_or_not_at_all(journal: Journal):
    """One that goes back in time, or has a number that cannot be, is refused with its event."""
    journal.append([ev.Woke(5)])
    late = convert.of_events([ev.Woke(6), ev.Woke(4)], Dictionary())
    with pytest.raises(JournalError, match="event 2 cannot be kept: it is at 4 ms, after"):
        journal.append_batch(late)
    wrong = convert.of_events([ev.Woke(6), ev.CauseChanged(7, 0, Cause.NONE)], Dictionary())
    wrong.events[1, EventColumn.WHO] = -2
    with pytest.raises(JournalError, match="event 2 cannot be kept: `said_why` has a number"):
        journal.append_batch(wrong)
    assert list(journal.read()) == [ev.Woke(5)]


def test_reading_starts_anywhere(journal: Journal, story: list[Event]):
    """Reading from a number gives the events from that number on, and nothing beyond the end."""
    journal.append(story)
    for start in (0, 1, 199, len(story) - 1, len(story), len(story) + 5):
        assert list(journal.read(start)) == story[start:]


def test_reading_ends_where_the_journal_ended(journal: Journal, story: list[Event]):
    """A reader sees what was there when it began, also if more is appended meanwhile."""
    journal.append(story[:10])
    reader = journal.read()
    journal.append(story[10:20])
    assert list(reader) == story[:10]


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_batch_is_kept_whole_or_not_at_all(journal: Journal, bad: Event):
    """An event that would not read back equal is refused, and nothing of its batch is kept."""
    good = ev.Woke(LATE_MS)
    journal.append([good])
    with pytest.raises(JournalError, match="event 2 cannot be kept"):
        journal.append([good, bad, good])
    journal.append([good])
    assert list(journal.read()) == [good, good]


def test_time_does_not_go_back(journal: Journal):
    """An event earlier than the one before it is refused, within a batch and across batches."""
    journal.append([ev.Woke(5)])
    for batch in ([ev.Woke(4)], [ev.Woke(6), ev.Woke(5)]):
        with pytest.raises(JournalError, match="ms, after an event at"):
            journal.append(batch)
    assert list(journal.read()) == [ev.Woke(5)]


def test_facts_are_kept_and_replaced(journal: Journal):
    """A fact is what was last set under its key."""
    journal.set_meta("spec", "first")
    journal.set_meta("spec", "zwölf\n🌊")
    journal.set_meta("", "an empty key is a key")
    assert journal.meta("spec") == "zwölf\n🌊"
    assert journal.facts() == {"spec": "zwölf\n🌊", "": "an empty key is a key"}


def test_a_snapshot_is_independent(journal: Journal, story: list[Event]):
    """A snapshot is the World as it was, whatever happens to that World or to the copies."""
    journal.append(story)
    world = fold_all(World(), story[:200])
    before = snapshot.dump(world)
    journal.save_snapshot(world)
    fold_all(world, story[200:])
    first = journal.latest_snapshot()
    assert first is not None
    assert snapshot.dump(first) == before
    fold_all(first, story[200:])
    second = journal.latest_snapshot()
    assert second is not None
    assert snapshot.dump(second) == before


def test_a_snapshot_of_the_future_is_refused(journal: Journal, story: list[Event]):
    """A World that knows more events than the journal cannot be its snapshot."""
    journal.append(story[:10])
    with pytest.raises(JournalError, match="after 11 events cannot be kept; the journal has 10"):
        journal.save_snapshot(fold_all(World(), story[:11]))
    assert journal.latest_snapshot() is None


def test_a_closed_journal_says_so(journal: Journal):
    """Using a closed journal is refused with a kind message; closing twice is allowed."""
    journal.close()
    journal.close()
    for use in (lambda: journal.append([ev.Woke(1)]), lambda: list(journal.read())):
        with pytest.raises(JournalError, match="closed"):
            use()


def test_a_journal_is_closed_by_its_block(journal: Journal):
    """A journal closes itself at the end of a with block."""
    with journal:
        journal.append([ev.Woke(1)])
    with pytest.raises(JournalError, match="closed"):
        journal.append([ev.Woke(1)])


def test_a_large_gang_is_kept(journal: Journal):
    """An event of many megabytes reads back equal."""
    roles = tuple(Role(f"r{i}") for i in range(64))
    gang = ev.AskedPlace(1, 0, 1, tuple(Piece(0, n, 1, 2**64 - 1) for n in range(100_000)))
    events: list[Event] = [ev.JobSubmitted(0, Job("big", Shape("t", roles))), gang, ev.Woke(2)]
    journal.append(events)
    assert list(journal.read()) == events


@given(story=stories())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_story_rebuilds_its_world(story: list[Event]):
    """Whatever happened, the journal alone gives the same World, byte for byte."""
    with open_journal(":memory:") as journal:
        journal.append(story)
        assert list(journal.read()) == story
        assert snapshot.dump(rebuild(journal)) == snapshot.dump(fold_all(World(), story))


def test_stories_tell_of_everything():
    """The stories that these tests are built on hold every kind of event."""
    told = {type(event) for seed in range(10) for event in tell(Random(seed), 1_000)}
    assert told == set(Event.__args__)
