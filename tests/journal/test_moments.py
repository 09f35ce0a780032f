"""Moments: dates where a journal says when it began, counted days where it does not."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.journal import moments, open_journal
from tidemill.journal.moments import COUNTED, Calendar
from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS, MINUTE_MS

OFFSET = Calendar.read("2026-03-02T00:00:00+01:00")
BERLIN = Calendar.read("2026-03-02", "Europe/Berlin")
NO_ZONE = Calendar.read("2017-10-09T07:00")


def test_moments_are_dates_with_their_zone():
    """With an offset or a zone both are written; without a zone none is made up."""
    assert OFFSET.text(6 * HOUR_MS) == "Mon 2026-03-02 06:00 +01:00"
    assert BERLIN.text(6 * HOUR_MS) == "Mon 2026-03-02 06:00 +01:00"
    assert NO_ZONE.text(HOUR_MS) == "Mon 2017-10-09 08:00"
    assert COUNTED.text(11 * DAY_MS + 6 * HOUR_MS) == "day 11 06:00"
    assert OFFSET.iso(1) == "2026-03-02T00:00:00.001+01:00"
    assert COUNTED.iso(1) is None


def test_summer_time_is_no_time_at_all():
    """On 29 March 2026 at 2 o'clock Berlin is at 3: an hour of the journal stays an hour."""
    night = 27 * DAY_MS  # 2026-03-29 00:00 +01:00
    shown = [BERLIN.text(night + h * HOUR_MS) for h in (1, 2, 3)]
    assert [text[-12:] for text in shown] == ["01:00 +01:00", "03:00 +02:00", "04:00 +02:00"]
    assert BERLIN.ms("2026-03-29T03:00", "--at") == night + 2 * HOUR_MS
    assert BERLIN.ms("2026-03-29T03:00+02:00", "--at") == night + 2 * HOUR_MS


@pytest.mark.parametrize("calendar", [OFFSET, BERLIN, NO_ZONE, COUNTED])
@given(minutes=st.integers(0, 60 * 24 * 2000))
def test_what_is_printed_can_be_typed(calendar: Calendar, minutes: int):
    """The text of a moment, given to --at, is that moment; so is its duration."""
    ms = minutes * MINUTE_MS
    assert calendar.ms(calendar.text(ms), "--at") == ms
    assert calendar.ms(f"{minutes}m", "--at") == ms
    second = ms + minutes % 60 * 1000
    assert calendar.ms(calendar.text(second, with_seconds=True), "--at") == second


def test_dates_of_other_zones_are_the_same_moment():
    """The same moment in UTC is the same moment; a date without a zone is in the journal's own."""
    assert OFFSET.ms("2026-03-02T05:00:00Z", "--at") == 6 * HOUR_MS
    assert OFFSET.ms("2026-03-02 06:00", "--at") == 6 * HOUR_MS
    assert OFFSET.ms("2026-03-03", "--at") == DAY_MS


@pytest.mark.parametrize(
    ("calendar", "text", "said"),
    [
        (COUNTED, "2026-03-05", "a date; this journal does not say when it began"),
        (OFFSET, "2026-03-01", "the journal begins at Mon 2026-03-02 00:00 +01:00"),
        (NO_ZONE, "2017-10-10T00:00+02:00", "nobody said in which zone"),
        (OFFSET, "tomorrow", "which is not a time"),
        (COUNTED, "5 apples", "which is not a time"),
    ],
)
def test_what_cannot_be_a_moment_is_refused(calendar: Calendar, text: str, said: str):
    """The error says what was typed, what the journal knows, and what to type."""
    with pytest.raises(SpecError, match="--at is") as found:
        calendar.ms(text, "--at")
    assert said in found.value.message
    assert found.value.hint


def test_a_zone_that_is_not_known_is_an_error_of_the_spec_only(monkeypatch: pytest.MonkeyPatch):
    """A journal keeps its offset too, so it can be read where the zone's rules are missing."""
    facts = BERLIN.facts()
    assert facts == {"begins": "2026-03-02T00:00:00+01:00", "zone": "Europe/Berlin"}

    def missing(name: str) -> ZoneInfo:
        raise moments.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(moments, "ZoneInfo", missing)
    with pytest.raises(SpecError, match="`Europe/Berlin` is not known on this machine"):
        Calendar.read("2026-03-02", "Europe/Berlin")
    assert Calendar.of(facts).text(0) == "Mon 2026-03-02 00:00 +01:00"
    assert Calendar.read("2026-03-02", "UTC").text(0) == "Mon 2026-03-02 00:00 +00:00"


def test_a_journal_keeps_its_calendar_and_damage_is_said():
    """Facts of a journal give its calendar; nonsense in them is the journal's fault."""
    with open_journal(":memory:") as journal:
        assert Calendar.of(journal.facts()) == COUNTED
        for key, value in OFFSET.facts().items():
            journal.set_meta(key, value)
        assert Calendar.of(journal.facts()) == OFFSET
        journal.set_meta("begins", "soon")
        with pytest.raises(JournalError, match="begins at `soon`"):
            Calendar.of(journal.facts())


def test_a_calendar_has_an_end():
    """A moment that no calendar can write is counted instead."""
    assert OFFSET.text(FOREVER_MS).startswith("day ")


@pytest.mark.parametrize(
    ("text", "week_ms"),
    [("2026-03-02", 0), ("2026-03-07T06:00", 5 * DAY_MS + 6 * HOUR_MS)],
)
def test_the_week_begins_on_monday(text: str, week_ms: int):
    """Rhythms of a spec follow the calendar: a Saturday at six is five days and six hours in."""
    assert Calendar.read(text).week_ms == week_ms
