"""Dates as people and programs write them.

A text is written anew where another way to write the same is known: without its weekday, with
`+00:00` for `UTC`, with `/` between the numbers of a day that does not begin with its year. What
may be the day or the month stays as it is: its column, the other columns of its table, or somebody
has to tell (`first_of`, `--dates`).
"""

from collections.abc import Iterable

import polars as pl

from tidemill.model.errors import SpecError

_CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p")


def _forms(*days: str) -> tuple[str, ...]:
    return tuple(f"{day} {clock}".rstrip() for clock in (*_CLOCKS, "") for day in days)


_DAYS = ("%Y-%m-%d", "%d %b %Y")
ZONED = tuple(f"{day} {clock}%#z" for day in _DAYS for clock in _CLOCKS)
"""Forms of dates with an offset."""
WAYS = {
    "year first": _forms(*_DAYS),
    "month first": _forms("%m/%d/%Y"),
    "day first": _forms("%d/%m/%Y", "%d.%m.%Y"),
}
"""In what order dates without an offset are written: one for each column."""
TELLABLE = {"day-first": "day first", "month-first": "month first"}
"""What `--dates` may say."""
OFFSET = r"[+-]\d\d:?\d\d$"
_TIME = r"([01]\d|2[0-3])[0-5]\d[0-5]\d"
COUNTED = rf"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])({_TIME})?$"
"""Dates that look like numbers: `20260302`, `20260302060000`."""
_PLAIN = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:\d\d)?$"
_CLOCK = r"(\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?)"
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_THEN = r"(?:[\s,]+(?:at )?(.*))?$"
_WRITTEN_ANEW = (
    (r"(?i)^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[,.]?\s+", ""),
    (rf"(?i)^{_MONTH}\s+(\d+)\s+([\d:.]+)\s+(?:([A-Z]+)\s+)?(\d{{4}})$", "${2} ${1} ${5} ${3}${4}"),
    (rf"(?i)^{_MONTH}[\s-]+(\d+)(?:st|nd|rd|th)?[\s,-]+(\d{{4}}){_THEN}", "${2} ${1} ${3} ${4}"),
    (rf"(?i)^(\d+)[\s-]+{_MONTH}[\s,-]+(\d{{4}}){_THEN}", "${1} ${2} ${3} ${4}"),
    (r"\[[A-Za-z_/]+\]$", ""),  # the name of a zone behind its offset, as Java writes
    (r"^(\d{4})(\d\d)(\d\d)[T_ ]?(\d\d):?(\d\d):?(\d\d)", "${1}-${2}-${3} ${4}:${5}:${6}"),
    (r"^(\d{4})(\d\d)(\d\d)$", "${1}-${2}-${3}"),
    (r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})", "${1}-${2}-${3}"),
    (r"^(\d{1,2})-(\d{1,2})-(\d{4})", "${1}/${2}/${3}"),
    (r"^([\d/.-]+)(?:[T_]|, *)(\d)", "${1} ${2}"),
    (rf"{_CLOCK} ?(?:Z|z|UTC|GMT)$", "${1}+00:00"),
    (rf"{_CLOCK} ?([+-]\d\d)$", "${1}${2}:00"),
    (rf"{_CLOCK} ?([+-]\d\d:?\d\d)(?: ?[A-Z]{{3,4}}| ?\([^)]*\))?$", "${1}${2}"),
    (r"(?i)(\d) ?([ap])\.?m\b\.?", "${1} ${2}M"),
)
"""Other ways to write the same, and what they are written as."""
_NUMBERED = r"^(\d{1,2})[/.-](\d{1,2})[/.-]\d{4}\b"
_SHORT_YEAR = r"^\d{1,2}(?:[/.-]\d{1,2}[/.-]|[ -][A-Za-z]{3,9}[ -])\d\d(?:[ ,T]|$)"
_NAMED_ZONE = rf"{_CLOCK} ?[A-Z]{{3,4}}$"
_HINT = "write them as 2026-03-02T06:00:00+01:00, or as seconds since 1970"


def plain(given: pl.Series) -> pl.Series:
    """The same dates in the forms that are read; what is no date stays as it is."""
    if not given.str.contains(_PLAIN).fill_null(value=True).all():
        for pattern, text in _WRITTEN_ANEW:
            given = given.str.replace(pattern, text)
        given = given.str.strip_chars()
    return given.str.replace(r"^(\d{4}-\d\d-\d\d)T", "${1} ")


def first_of(columns: Iterable[pl.Series], said: str = "") -> str:
    """Whether the day or the month is first in the dates of a table; "": nobody tells.

    A date of which only one thing can be meant tells it for all columns; ``said`` is what somebody
    said of those that may be meant either way.
    """
    is_told = {"day first": False, "month first": False}
    for texts in columns:
        parts = texts.str.strip_chars().str.extract_groups(_NUMBERED).struct.unnest()
        one, two = (parts[name].cast(pl.Int64, strict=False) for name in parts.columns)
        is_told["day first"] |= bool((one > 12).any())
        is_told["month first"] |= bool((two > 12).any())
    ways = [way for way, is_so in is_told.items() if is_so]
    return said or (ways[0] if len(ways) == 1 else "")


def told(text: str) -> str:
    """What somebody says with `--dates`, as a way to read them."""
    if text and text not in TELLABLE:
        raise SpecError(f"--dates is `{text}`", hint=f"what it may be: {', '.join(TELLABLE)}")
    return TELLABLE.get(text, "")


def unread(given: str, column: str, row: int) -> SpecError:
    """The error for a column of which no text is read as a date."""
    words = f"the column `{column}` holds times such as `{given}` in row {row}, which are"
    if pl.Series([given]).str.contains(_NAMED_ZONE)[0]:
        return SpecError(
            f"{words} in a zone that letters do not tell: they are not one zone everywhere",
            hint="leave them out, and name the zone with --zone America/Los_Angeles",
        )
    return SpecError(f"{words} read in no known way", hint=short_year(given) or _HINT)


def either_way(given: str, column: str) -> SpecError:
    """The error for a column of which nobody knows whether its months or its days are first."""
    return SpecError(
        f"the column `{column}` holds dates such as `{given}`, and no row tells whether the month"
        " or the day is first",
        hint="write them as 2026-03-04 06:00:00; or say it of a table of jobs: --dates day-first or"
        " --dates month-first",
    )


def short_year(given: str) -> str:
    """What to do with a date whose year has two digits; "": it is none."""
    is_short = pl.Series([given]).str.contains(_SHORT_YEAR)[0]
    return "write years with four digits, such as 2026-03-02 06:00:00" if is_short else ""
