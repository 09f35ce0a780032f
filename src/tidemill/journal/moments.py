"""Moments for people: a journal's milliseconds as dates, and what people type as milliseconds.

A journal counts milliseconds from its beginning. Two of its facts say when that was: ``begins`` (a
date and time, with an offset where the zone is known) and ``zone`` (a name such as Europe/Berlin,
where one is known). With them moments are dates, ``Mon 2026-03-02 06:00 +01:00``; without them
they are counted from the beginning, ``day 11 06:00``. A date whose zone nobody knows has none.
Whatever is printed here can be typed again.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidemill.model.errors import JournalError, SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, duration_ms

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)  # what Python can still write, with a year to spare
_DAY = re.compile(r"day (\d+)(?: (\d\d):(\d\d)(?::(\d\d))?)?")
_WEEKDAY = re.compile(rf"(?:{'|'.join(_WEEKDAYS)})\w* ", re.IGNORECASE)
_MS = timedelta(milliseconds=1)
DATED_FROM_MS = 100_000_000_000
"""What is earlier (1973) is no time since 1970: it counts from a beginning that nobody told."""


class Calendar(NamedTuple):
    """When a journal began, if anybody said; None: moments are counted from its beginning."""

    begins: datetime | None = None
    zone: str = ""

    @classmethod
    def read(cls, begins: str, zone: str = "") -> "Calendar":
        """From what a spec or a journal says: an ISO date or time, and a zone by its name."""
        if not begins:
            if zone:
                raise SpecError(
                    f"a zone, `{zone}`, without a beginning",
                    hint='say when it begins too, such as begins = "2026-03-02"',
                )
            return cls()
        named = _zone(zone) if zone else None
        found = _iso(begins)
        if found is None or not datetime(1970, 1, 2) <= found.replace(tzinfo=None):  # noqa: DTZ001 - compared without a zone
            raise SpecError(
                f"`{begins}` is not a date and time after 1970",
                hint="such as 2026-03-02 or 2026-03-02T00:00:00+01:00",
            )
        if named is not None:
            found = found.astimezone(named) if found.tzinfo else found.replace(tzinfo=named)
        return cls(found, zone)

    @classmethod
    def since_1970(cls, ms: int, zone: str) -> "Calendar":
        """Of a journal that begins so many milliseconds after 1970, shown in a zone."""
        if ms < DATED_FROM_MS:
            return cls()
        return cls.read((datetime(1970, 1, 1, tzinfo=UTC) + ms * _MS).isoformat(), zone)

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> "Calendar":
        """From the facts of a journal; a zone that this machine does not know is its offset."""
        begins, zone = facts.get("begins", ""), facts.get("zone", "")
        try:
            return cls.read(begins, zone)
        except SpecError:
            if _iso(begins) is None:
                raise JournalError(
                    f"the journal says that it begins at `{begins[:80]}`, which is no date",
                    hint="its facts are damaged; `tidemill journal verify` looks at the rest",
                ) from None
            return cls.read(begins)

    def facts(self) -> dict[str, str]:
        """What a journal keeps of it."""
        if self.begins is None:
            return {}
        facts = {"begins": self.begins.isoformat()}
        return facts | {"zone": self.zone} if self.zone else facts

    def at(self, ms: int) -> datetime | None:
        """The date and time of a moment; None where the beginning is not known, or too far off."""
        begins = self.begins
        if begins is None:
            return None
        if begins.tzinfo is None:
            far = _LATEST.replace(tzinfo=None) - begins
            return begins + ms * _MS if ms < far / _MS else None
        start = begins.astimezone(UTC)  # in UTC, so that a change of summer time is no time at all
        if ms >= (_LATEST - start) / _MS:
            return None
        return (start + ms * _MS).astimezone(begins.tzinfo)

    def text(self, ms: int, *, with_seconds: bool = False) -> str:
        """A moment: ``Mon 2026-03-02 06:00 +01:00``, or ``day 11 06:00``."""
        when = self.at(ms)
        if when is None:
            seconds = f":{ms // 1000 % 60:02}" if with_seconds else ""
            return f"day {ms // DAY_MS} {_clock(ms)}{seconds}"
        clock = f"{when:%H:%M:%S}" if with_seconds else f"{when:%H:%M}"
        return f"{_WEEKDAYS[when.weekday()]} {when:%Y-%m-%d} {clock}{_offset(when)}"

    def iso(self, ms: int) -> str | None:
        """A moment for machines; None where the beginning is not known."""
        when = self.at(ms)
        return None if when is None else when.isoformat(timespec="milliseconds")

    def day(self, ms: int) -> str:
        """The day of a moment for an axis: ``Mon 2 Mar``, or ``day 11``."""
        when = self.at(ms)
        if when is None:
            return f"day {ms // DAY_MS}"
        return f"{_WEEKDAYS[when.weekday()]} {when.day} {_MONTHS[when.month - 1]}"

    def clock(self, ms: int) -> str:
        """The time of day of a moment: ``06:00``."""
        when = self.at(ms)
        return _clock(ms) if when is None else f"{when:%H:%M}"

    @property
    def week_ms(self) -> int:
        """How far into its week the beginning is, by its own clock; 0 is a Monday at midnight."""
        if self.begins is None:
            return 0
        b = self.begins
        since = timedelta(days=b.weekday(), hours=b.hour, minutes=b.minute, seconds=b.second)
        return since // _MS

    def since_midnight_ms(self, ms: int) -> int:
        """How far into its day a moment is, by the calendar's own clock."""
        when = self.at(ms)
        if when is None:
            return ms % DAY_MS
        return timedelta(hours=when.hour, minutes=when.minute, seconds=when.second) // _MS

    def ms(self, text: str, option: str) -> int:
        """A moment as people type it: a duration from the beginning, or a date and time."""
        if (counted := _counted(text)) is not None:
            return counted
        found = _iso(_WEEKDAY.sub("", text, count=1).strip())
        if found is None:
            raise SpecError(f"{option} is `{text}`, which is not a time", hint=self._hint())
        return self._since(found, text, option)

    def _since(self, found: datetime, text: str, option: str) -> int:
        begins = self.begins
        if begins is None:
            raise SpecError(
                f"{option} is `{text}`, a date; this journal does not say when it began",
                hint="give the time since its beginning, such as 3d12h; runs of a file have dates"
                " where its [twin] says when it `begins`",
            )
        if found.tzinfo is None and begins.tzinfo is not None:
            found = found.replace(tzinfo=begins.tzinfo)
        if found.tzinfo is not None and begins.tzinfo is None:
            raise SpecError(
                f"{option} is `{text}`, with a zone; nobody said in which zone this journal is",
                hint=f"leave the offset out, as in {begins.isoformat(timespec='minutes')}",
            )
        ms = (found - begins) // _MS if found.tzinfo is None else _between(begins, found)
        if ms < 0:
            raise SpecError(
                f"{option} is `{text}`; the journal begins at {self.text(0)}",
                hint="give a later date, or the time since the beginning, such as 3d12h",
            )
        return ms

    def _hint(self) -> str:
        since = "the time since the start of the journal, such as 3d12h or 90m"
        if self.begins is None:
            return f"give {since}"
        return f"give a date, such as {self.begins:%Y-%m-%dT%H:%M}, or {since}"


COUNTED = Calendar()
"""The calendar of a journal that does not say when it began."""


def _between(begins: datetime, found: datetime) -> int:
    """Milliseconds between two moments with zones, whatever their clocks do in between."""
    return (found.astimezone(UTC) - begins.astimezone(UTC)) // _MS


def _counted(text: str) -> int | None:
    """``3d12h``, or ``day 3 12:00``; ``0`` is the beginning."""
    if found := _DAY.fullmatch(text.strip().lower()):
        day, hour, minute, second = (int(part or 0) for part in found.groups())
        return day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * 1000
    if text.strip() == "0":
        return 0
    try:
        return duration_ms(text)
    except ValueError:
        return None


def _iso(text: str) -> datetime | None:
    """An ISO date and time; a blank before the offset, as it is printed, is allowed."""
    try:
        return datetime.fromisoformat(re.sub(r" (?=[+-]\d\d:?\d\d$)", "", text))
    except ValueError:
        return None


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SpecError(
            f"the time zone `{name}` is not known on this machine",
            hint="a name such as Europe/Berlin needs the system's tzdata (or the Python package"
            ' tzdata); an offset needs nothing: begins = "2026-03-02T00:00:00+01:00"',
        ) from error


def _offset(when: datetime) -> str:
    if when.tzinfo is None:
        return ""
    text = f"{when:%z}"
    return f" {text[:3]}:{text[3:5]}"


def _clock(ms: int) -> str:
    rest = ms % DAY_MS
    return f"{rest // HOUR_MS:02d}:{rest % HOUR_MS // MINUTE_MS:02d}"
