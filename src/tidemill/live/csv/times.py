"""Times as people write them: dates with or without a zone, or seconds since 1970."""

import polars as pl

from tidemill.journal.moments import DATED_FROM_MS
from tidemill.live import second_hour
from tidemill.live.csv import dates
from tidemill.live.csv.cells import CellFaults
from tidemill.live.csv.headers import unit_of
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

_EPOCHS = ((1e17, 1_000_000), (1e14, 1_000), (1e11, 1), (0, 0))
"""Numbers above are nanoseconds, microseconds, milliseconds; below, seconds. All are after 1973."""
_TRIED = 1000  # texts by which the form of a column is guessed
_EARLIEST_MS = 946_684_800_000  # the year 2000: nobody's GPUs are older
_SHEET_DAYS = (36_526, 55_153)
"""Of the years 2000 and 2050, counted in days as spreadsheets do."""
_UNSET_ABOVE = 1e8  # in a column of such numbers, which are dates, 0 stands for none
UNKNOWN = (
    "", "none", "null", "nan", "nat", "n/a", "#n/a", "na", "unknown", "undefined", "nil", "-", "--",
    "—", "\\n", "<null>", "(null)", "<na>", "none assigned", "not set",
)  # fmt: skip
"""What stands for nothing, as spreadsheets, databases and programs write it."""
_NEVER = r"^(0000-00-00|0001-01-01|1970-01-01)([ T]00:00(:00(\.0+)?)?)?(Z|\+00:00)?$"
"""Dates that programs write where there is none."""
_DECIMAL_COMMA = r"^(-?\d+),(\d{1,2}|\d{4,})$"
"""A comma before three digits may part thousands: such a number is refused, unless another of its
column tells (``_IN_THOUSANDS``)."""
_IN_THOUSANDS = {
    ",": r"^-?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,})$",
    ".": r"^-?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})$",
}
"""By what parts thousands: numbers with which nothing else can be meant."""
_WITH_GAPS = r"^-?\d{1,3}(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d+)?$"
_IN_WORDS = (
    r"(?i)^P?(?:(\d+(?:\.\d+)?)\s*d(?:ays?)?)?[\s,]*T?(?:(\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?)?[\s,]*"
    r"(?:(\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?)?[\s,]*(?:(\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?$"
)
_BY_CLOCK = r"(?i)^(?:(\d+)(?:-|\s*d(?:ays?)?,?\s*))?(\d+):(\d\d):(\d\d(?:\.\d+)?)$"
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
    """Numbers, also with a decimal comma or parted thousands; null where a text is none."""
    has_gaps = given.str.contains(_WITH_GAPS).fill_null(value=False)
    if has_gaps.any():
        given = given.str.replace_all(r"[ '’\u00a0\u202f]", "").zip_with(has_gaps, given)
    if not given.str.contains(r"[,.].*[,.]|,").any():
        return given.cast(pl.Float64, strict=False)
    parts = [sign for sign, form in _IN_THOUSANDS.items() if given.str.contains(form).any()]
    if len(parts) != 1:
        given = given.str.replace(_DECIMAL_COMMA, "${1}.${2}")
        return given.cast(pl.Float64, strict=False)
    sign, point = parts[0], {",": ".", ".": ","}[parts[0]]
    form = rf"^-?(?:\d{{1,3}}(?:\{sign}\d{{3}})*|\d+)(?:\{point}\d+)?$"
    is_so = given.str.contains(form).fill_null(value=False)
    whole = given.str.replace_all(sign, "", literal=True).str.replace(point, ".", literal=True)
    return whole.set(~is_so, None).cast(pl.Float64, strict=False)


def moments_ms(
    texts: pl.Series, zone: str, column: str, faults: CellFaults | None = None, first: str = ""
) -> tuple[pl.Series, str]:
    """Milliseconds since 1970, and how the texts were read; null where nothing was said.

    ``first``: whether the day or the month is first, where the column itself does not tell.
    """
    given, faults = blank(texts), faults or CellFaults()
    is_date = given.str.contains(dates.COUNTED)
    is_number_like = not is_date.any() or not is_date.fill_null(value=True).all()
    number = number_of(given) if is_number_like else nothing(len(given), pl.Float64)
    is_unset = given.str.contains(_NEVER).fill_null(value=False)
    if 2 * int((number > _UNSET_ABOVE).sum()) > int((number > 0).sum()):
        is_unset |= (number == 0).fill_null(value=False)
    given, number = given.set(is_unset, None), number.set(is_unset, None)
    is_counted = is_number_like and 2 * number.count() >= given.count()
    if is_counted:
        found, said = _epoch(number, column)
        is_bad = given.is_not_null() & number.is_null()
        faults.check(given, is_bad, column, "which is no number, as most of that column", _HINT)
    else:
        written = dates.plain(given)
        found, said, way = _dates(given, written, zone, column, first)
        is_bad = given.is_not_null() & found.is_null()
        _refuse_dates(given, written.set(~is_bad, None), way, zone, column, faults)
        is_early = (found < 0).fill_null(value=False)
        if is_early.any():
            hint = dates.short_year(given.filter(is_early)[0]) or _HINT
            faults.check(given, is_early, column, "before 1970", hint)
    is_late = found > LATEST_MS
    faults.check(given, is_late, column, "after the year 2100", "check that time, and its unit")
    _refuse_far(given, found, column, faults)
    if unset := int(is_unset.sum()):
        said += f"; {unset:,} of them (such as `{texts[is_unset.arg_max() or 0]}`) say nothing"
    return found, said


def _refuse_dates(
    given: pl.Series, bad: pl.Series, way: str, zone: str, column: str, faults: CellFaults
) -> None:
    """Refuse cells that are no dates, not in the way of their column, or on no clock."""
    is_bad = bad.is_not_null()
    is_skipped = _by_forms(bad, dates.WAYS[way]).is_not_null()
    clock = f"a time that no clock of {zone} showed: they were put forward then"
    faults.check(given, is_skipped, column, clock, _SKIPPED)
    every = tuple(form for forms in dates.WAYS.values() for form in forms)
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


def _dates(
    given: pl.Series, written: pl.Series, zone: str, column: str, first: str
) -> tuple[pl.Series, str, str]:
    """Dates, how they were read, and the way of those without an offset (``dates.WAYS``).

    Each row by itself says whether it has an offset.
    """
    has_offset = written.str.contains(dates.OFFSET).fill_null(value=False)
    zoned = _by_forms(written.set(~has_offset, None), dates.ZONED)
    bare = _by_forms(written.set(zoned.is_not_null(), None), dates.WAYS["year first"])
    if not zoned.count() and not bare.count():
        bare, way = _either_way(given, written, column, first)
        return _in_zone(bare, zone), f"dates with the {way}, in the zone {zone}", way
    found = zoned.dt.epoch("ms").zip_with(zoned.is_not_null(), _in_zone(bare, zone))
    if not bare.count():
        return found, "dates with their offset", "year first"
    others = f"{count_text(zoned.count(), 'date')} with an offset, the others"
    said = f"{others if zoned.count() else 'dates,'} in the zone {zone}"
    return found, said, "year first"


def _by_forms(given: pl.Series, forms: tuple[str, ...]) -> pl.Series:
    """What the one form that fits makes of each text; those that fit the first texts first."""
    is_zoned = forms is dates.ZONED
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
    given = dates.plain(blank(texts))
    is_bare = ~given.str.contains(dates.OFFSET) & number_of(given).is_null()
    return second_hour.later_ms(found, zone).zip_with(is_bare.fill_null(value=False), found)


def _either_way(
    given: pl.Series, written: pl.Series, column: str, first: str
) -> tuple[pl.Series, str]:
    """Dates such as 03/14/2026 or 14/03/2026: as they can only be meant; 03/04 alone is refused."""
    ways = {way: _by_forms(written, dates.WAYS[way]) for way in ("month first", "day first")}
    counts = {way: read.count() for way, read in ways.items()}
    best = max(counts, key=lambda way: (counts[way], way == first))
    if not counts[best]:
        i = given.is_not_null().arg_max() or 0
        raise dates.unread(given[i], column, i + 2)
    if not first and len({*counts.values()}) == 1:
        raise dates.either_way(given.drop_nulls()[0], column)
    return ways[best], best


def _epoch(number: pl.Series, column: str) -> tuple[pl.Series, str]:
    known = number.drop_nulls().sort()
    least, top = (float(known[0]), float(known[-1])) if len(known) else (0.0, 0.0)
    middle = float(known[len(known) // 2]) if len(known) else 0.0
    unit, unit_ms = unit_of(column)
    if 0 < top * unit_ms < DATED_FROM_MS:
        if _SHEET_DAYS[0] < least and top < _SHEET_DAYS[1] and (known != known.round()).any():
            raise SpecError(
                f"the column `{column}` holds numbers such as `{known[0]}`, which may be days as"
                " spreadsheets count them",
                hint="format the column as a date, 2026-03-02 06:00:00, and save the table again",
            )
        return (number * unit_ms).round().cast(pl.Int64), f"{unit} from the beginning"
    for above, divisor in _EPOCHS:
        if middle >= above:
            ms = number / divisor if divisor else number * 1000
            words = {1_000_000: "nanoseconds", 1_000: "microseconds", 1: "milliseconds"}
            said = f"{words.get(divisor, 'seconds')} since 1970"
            whole = ms.round().clip(-(2.0**62), 2.0**62).cast(pl.Int64)
            if 0 < 1000 * middle < _EARLIEST_MS and not divisor:
                raise SpecError(
                    f"the column `{column}` holds numbers such as `{middle:.0f}`, which would be of"
                    f" the year {1970 + int(1000 * middle // YEAR_MS)}, read as {said}",
                    hint="a column that counts from the beginning of its table says its unit in"
                    " its header: `start_ms`, `time (us)`",
                )
            return whole, said
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
