"""Times as people write them: dates with or without a zone, or seconds since 1970."""

import polars as pl

from tidemill.live import second_hour
from tidemill.live.csv.cells import CellFaults
from tidemill.live.csv.headers import unit_of
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

_ZONED = (
    "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y-%m-%d %H:%M%#z",
)  # fmt: skip
_BARE = (
    "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y-%m-%d",
    "%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p",
)  # fmt: skip
_EPOCHS = ((1e17, 1_000_000), (1e14, 1_000), (1e11, 1), (0, 0))
"""Numbers above are nanoseconds, microseconds, milliseconds; below, seconds. All are after 1973."""
_MONTH_FIRST = (
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p",
)  # fmt: skip
_DAY_FIRST = (
    "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y",
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y",
    "%d/%m/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M %p",
)  # fmt: skip
_WAYS = {"year first": _BARE, "month first": _MONTH_FIRST, "day first": _DAY_FIRST}
"""In what order dates without an offset are written: one for each column."""
_TRIED = 1000  # texts by which the form of a column is guessed
_UNSET_ABOVE = 1e8  # in a column of such numbers, which are dates, 0 stands for none
UNKNOWN = ("", "none", "null", "nan", "n/a", "na", "unknown", "-", "nil")
_NEVER = r"^(0000-00-00|0001-01-01|1970-01-01)([ T]00:00(:00(\.0+)?)?)?(Z|\+00:00)?$"
"""Dates that programs write where there is none."""
_DECIMAL_COMMA = r"^(-?\d+),(\d{1,2}|\d{4,})$"
"""A comma before three digits may part thousands: such a number is refused."""
_IN_WORDS = (
    r"(?i)^(?:(\d+(?:\.\d+)?)\s*d(?:ays?)?)?\s*(?:(\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?)?\s*"
    r"(?:(\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?)?\s*(?:(\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?$"
)
_BY_CLOCK = r"(?i)^(?:(\d+)(?:-|\s*d(?:ays?)?,?\s*))?(\d+):(\d\d):(\d\d(?:\.\d+)?)$"
_OFFSET = r"([Zz]|[+-]\d\d:?\d\d)$"
FARTHEST_YEARS = 20
"""Times of one column are not farther apart than so: else one is in another unit, or mistyped."""
LATEST_MS = 4_102_444_800_000  # the year 2100
YEAR_MS = 365.25 * 86_400_000
_SKIPPED = "mend it, write it with its offset, or name the zone of the clock with --zone"
_ONE_WAY = "write all dates of a column in one way, such as 2026-03-02 06:00:00"
_HINT = "write them as 2026-03-02T06:00:00+01:00, or as seconds since 1970"


def blank(texts: pl.Series) -> pl.Series:
    """The same without what stands for nothing."""
    trimmed = texts.str.strip_chars()
    return trimmed.set(trimmed.str.to_lowercase().is_in(UNKNOWN), None)


def number_of(given: pl.Series) -> pl.Series:
    """Numbers, also with a decimal comma; null where a text is none."""
    if given.str.contains(",", literal=True).any():
        given = given.str.replace(_DECIMAL_COMMA, "${1}.${2}")
    return given.cast(pl.Float64, strict=False)


def moments_ms(
    texts: pl.Series, zone: str, column: str, faults: CellFaults | None = None
) -> tuple[pl.Series, str]:
    """Milliseconds since 1970, and how the texts were read; null where nothing was said."""
    given, faults = blank(texts), faults or CellFaults()
    number = number_of(given)
    is_unset = given.str.contains(_NEVER).fill_null(value=False)
    if 2 * int((number > _UNSET_ABOVE).sum()) > int((number > 0).sum()):
        is_unset |= (number == 0).fill_null(value=False)
    given, number = given.set(is_unset, None), number.set(is_unset, None)
    is_counted = 2 * number.count() >= given.count()
    if is_counted:
        found, said = _epoch(number, column)
        is_bad = given.is_not_null() & number.is_null()
        faults.check(given, is_bad, column, "which is no number, as most of that column", _HINT)
    else:
        found, said, way = _dates(given, zone, column)
        _refuse_dates(given, given.is_not_null() & found.is_null(), way, zone, column, faults)
    is_late = found > LATEST_MS
    faults.check(given, is_late, column, "after the year 2100", "check that time, and its unit")
    _refuse_far(given, found, column, faults)
    if unset := int(is_unset.sum()):
        said += f"; {unset:,} of them (such as `{texts[is_unset.arg_max() or 0]}`) say nothing"
    return found, said


def _refuse_dates(
    given: pl.Series, is_bad: pl.Series, way: str, zone: str, column: str, faults: CellFaults
) -> None:
    """Refuse cells that are no dates, not in the way of their column, or on no clock."""
    bad = given.set(~is_bad, None)
    is_skipped = _by_forms(bad, _WAYS[way]).is_not_null()
    clock = f"a time that no clock of {zone} showed: they were put forward then"
    faults.check(given, is_skipped, column, clock, _SKIPPED)
    every = tuple(form for forms in _WAYS.values() for form in forms)
    is_other = _by_forms(bad, every).is_not_null() & ~is_skipped
    fault = f"which is another way to write dates than the column has: they are read {way}"
    faults.check(given, is_other, column, fault, _ONE_WAY)
    is_none = is_bad & ~is_skipped & ~is_other
    faults.check(given, is_none, column, "which is no date in a known form", _HINT)


def _refuse_far(given: pl.Series, found: pl.Series, column: str, faults: CellFaults) -> None:
    known = found.drop_nulls().sort()
    if not len(known):
        return
    middle = int(known[len(known) // 2])
    is_far = (found - middle).abs() > FARTHEST_YEARS * YEAR_MS
    fault = f"which is more than {FARTHEST_YEARS} years from most of that column"
    faults.check(
        given, is_far, column, fault, "all times of a column are in one unit (s, ms, µs or ns)"
    )


def _dates(given: pl.Series, zone: str, column: str) -> tuple[pl.Series, str, str]:
    """Dates, how they were read, and the way of those without an offset (``_WAYS``).

    Each row by itself says whether it has an offset.
    """
    has_offset = given.str.contains(_OFFSET).fill_null(value=False)
    zoned = _by_forms(given.set(~has_offset, None).str.replace(r"[Zz]$", "+00:00"), _ZONED)
    bare = _by_forms(given.set(zoned.is_not_null(), None), _BARE)
    if not zoned.count() and not bare.count():
        bare, way = _either_way(given, column)
        return _in_zone(bare, zone), f"dates with the {way}, in the zone {zone}", way
    found = zoned.dt.epoch("ms").zip_with(zoned.is_not_null(), _in_zone(bare, zone))
    if not bare.count():
        return found, "dates with their offset", "year first"
    others = f"{count_text(zoned.count(), 'date')} with an offset, the others"
    said = f"{others if zoned.count() else 'dates,'} in the zone {zone}"
    return found, said, "year first"


def _by_forms(given: pl.Series, forms: tuple[str, ...]) -> pl.Series:
    """What the one form that fits makes of each text; those that fit the first texts first."""
    is_zoned = forms is _ZONED
    kind = pl.Datetime("ms", "UTC" if is_zoned else None)

    def read(texts: pl.Series, form: str) -> pl.Series:
        return texts.str.to_datetime(form, strict=False, time_unit="ms").cast(kind)

    some, found = given.drop_nulls().head(_TRIED), nothing(len(given), kind)
    for form in sorted(forms, key=lambda form: -read(some, form).count()):
        if found.null_count() == given.null_count():
            break
        more = read(given.set(found.is_not_null(), None), form)
        found = more if not found.count() else found.zip_with(found.is_not_null(), more)
    return found


def nothing(rows: int, kind: pl.DataType | type[pl.DataType] = pl.String) -> pl.Series:
    """So many rows in which nothing is said."""
    return pl.Series([None], dtype=kind).new_from_index(0, rows)


def _in_zone(bare: pl.Series, zone: str) -> pl.Series:
    moments = bare.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return moments.dt.convert_time_zone("UTC").dt.epoch("ms")


def second_ms(texts: pl.Series, found: pl.Series, zone: str) -> pl.Series:
    """What times would be that stand twice on the clock (it is put back); the first is found.

    The same for all others, and for those that say their offset, or count from 1970.
    """
    given = blank(texts)
    is_bare = ~given.str.contains(_OFFSET) & number_of(given).is_null()
    return second_hour.later_ms(found, zone).zip_with(is_bare.fill_null(value=False), found)


def _either_way(given: pl.Series, column: str) -> tuple[pl.Series, str]:
    """Dates such as 03/14/2026 or 14/03/2026: as they can only be meant; 03/04 alone is refused."""
    ways = {way: _by_forms(given, _WAYS[way]) for way in ("month first", "day first")}
    counts = {way: read.count() for way, read in ways.items()}
    best = max(counts, key=lambda way: counts[way])
    if not counts[best]:
        i = given.is_not_null().arg_max() or 0
        raise SpecError(
            f"the column `{column}` holds times such as `{given[i]}` in row {i + 2}, which are read"
            " in no known way",
            hint=_HINT,
        )
    if len({*counts.values()}) == 1:
        example = next(text for text in given if text is not None)
        raise SpecError(
            f"the column `{column}` holds dates such as `{example}`, and no row tells whether the"
            " month or the day is first",
            hint="write them as 2026-03-04 06:00:00",
        )
    return ways[best], best


def _epoch(number: pl.Series, column: str) -> tuple[pl.Series, str]:
    known = number.drop_nulls().sort()
    top = float(known[-1]) if len(known) else 0.0
    middle = float(known[len(known) // 2]) if len(known) else 0.0
    if 0 < top < 1e8:
        return (number * 1000).round().cast(pl.Int64), "seconds from the beginning"
    for least, divisor in _EPOCHS:
        if middle >= least:
            ms = number / divisor if divisor else number * 1000
            words = {1_000_000: "nanoseconds", 1_000: "microseconds", 1: "milliseconds"}
            whole = ms.round().clip(-(2.0**62), 2.0**62).cast(pl.Int64)
            return whole, f"{words.get(divisor, 'seconds')} since 1970"
    raise SpecError(
        f"the column `{column}` holds times before 1970",
        hint="write them as seconds since 1970, or as dates",
    )


def lengths_ms(
    texts: pl.Series, column: str, faults: CellFaults | None = None
) -> tuple[pl.Series, str]:
    """Durations in milliseconds, and how numbers were read: in the unit that the header names.

    Beside numbers ``[days-]hours:minutes:seconds`` (also ``1d 02:00:00``) and ``2h 30m`` are read.
    """
    given, faults = blank(texts), faults or CellFaults()
    words, unit_ms = unit_of(column)
    found = number_of(given) * unit_ms
    for form in (_BY_CLOCK, _IN_WORDS):
        found = found.zip_with(found.is_not_null(), _in_parts(given, form))
    is_bad = found.is_null() & given.is_not_null()
    hint = "write seconds, or hours:minutes:seconds, without signs between thousands"
    faults.check(given, is_bad, column, "which is no duration", hint)
    return found.round().clip(-(2.0**62), 2.0**62).cast(pl.Int64), words


def _in_parts(given: pl.Series, form: str) -> pl.Series:
    """Milliseconds of days, hours, minutes and seconds; null where the form does not fit."""
    parts = given.str.extract_groups(form).struct.unnest().cast(pl.Float64, strict=False)
    units_ms = (86_400_000, 3_600_000, 60_000, 1_000)
    amounts = [pl.nth(i).fill_null(0.0) * unit_ms for i, unit_ms in enumerate(units_ms)]
    is_any = pl.any_horizontal(pl.all().is_not_null())
    return parts.select(pl.when(is_any).then(pl.sum_horizontal(amounts))).to_series()
