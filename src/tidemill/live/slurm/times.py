"""Times and durations as Slurm prints them, in integer milliseconds.

sacct, squeue and scontrol print local time without a zone, so the zone has to be told; with
`SLURM_TIME_FORMAT=%s` they print seconds since 1970, which need none. Each function raises
``ValueError`` that says what was found.
"""

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidemill.model.errors import SpecError

NO_TIME = frozenset({"", "Unknown", "None", "N/A", "n/a", "(null)", "NONE", "Never", "0"})
"""Words that Slurm prints where there is no time (0: not yet, in `SLURM_TIME_FORMAT=%s`)."""

NO_DURATION = frozenset({"", "INVALID", "N/A", "n/a", "(null)", "NONE", "Unknown", "None"})
UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "infinite", "-1"})
NO_LIMIT = NO_DURATION | UNLIMITED | {"Partition_Limit", "PARTITION_LIMIT"}

MOST_SECONDS = 10**12
"""Larger numbers are no seconds (milliseconds, perhaps), and would not fit a column."""

NO_ZONE = "a time of day without a zone"
"""What a time in ISO form is called when nobody said the zone."""

_DURATION = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)(?:\.(?P<f>\d+))?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")


def zone_of(name: str) -> tzinfo:
    """The time zone of this name; `UTC` and names such as `Europe/Berlin`."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone `{name}`"
        raise SpecError(message, hint="such as UTC or Europe/Berlin") from None


def time_ms(text: str, zone: tzinfo | None) -> int | None:
    """A point in time: seconds since 1970, or ISO in this zone. None: Slurm knows none.

    An hour that a clock shows twice, in autumn, is taken the first time; one that it leaves out,
    in spring, is refused.
    """
    if text in NO_TIME:
        return None
    if text.isascii() and text.isdigit():
        return seconds_ms(text)
    if not _ISO.fullmatch(text):
        raise ValueError("not a time that this reads (ISO, or seconds since 1970)")
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a day or an hour that there is not") from None
    if told.tzinfo is None:
        if zone is None:
            raise ValueError(NO_ZONE)
        told = told.replace(tzinfo=zone)
        if told.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != told.replace(tzinfo=None):
            raise ValueError(f"not a time in {zone}: clocks leave that hour out")
    return round(told.timestamp() * 1000)


def is_in_iso(text: str) -> bool:
    """Whether a text has a time in ISO form somewhere."""
    return _ISO.search(text) is not None


def duration_ms(text: str) -> int | None:
    """`[D-]HH:MM:SS[.mmm]`, `MM:SS` or `D-HH`; None where Slurm knows none."""
    if text in NO_DURATION:
        return None
    if len(text) > 18:
        raise ValueError("longer than any duration")
    if days := re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?", text):
        return (int(days[1]) * 1440 + int(days[2]) * 60 + int(days[3] or 0)) * 60_000
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError("not a duration such as 1-02:03:04")
    days_, hours = int(found["d"] or 0), int(found["h"] or 0)
    seconds = ((days_ * 24 + hours) * 60 + int(found["m"])) * 60 + int(found["s"])
    return seconds * 1000 + int(((found["f"] or "") + "000")[:3])


def seconds_ms(text: str) -> int | None:
    """A whole number of seconds, as sacct's `…Raw` columns print it."""
    if text in NO_DURATION:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError("not a whole number of seconds")
    if len(text) > 19 or int(text) >= MOST_SECONDS:
        raise ValueError("more seconds than there have been")
    return int(text) * 1000


def limit_ms(text: str) -> int | None:
    """A time limit; None: `UNLIMITED`, the partition's own, or not told."""
    return None if text in NO_LIMIT else duration_ms(text)


def limit_minutes_ms(text: str) -> int | None:
    """The same in minutes, as sacct's `TimelimitRaw` prints it."""
    found = None if text in NO_LIMIT else seconds_ms(text)
    return None if found is None else 60 * found
