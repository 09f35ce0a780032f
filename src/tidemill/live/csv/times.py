"""Times as people write them: dates with or without a zone, or seconds since 1970."""

import polars as pl

from tidemill.model.errors import SpecError

_FORMS = (
    "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M", "%Y-%m-%d",
)  # fmt: skip
_EPOCHS = ((1e17, 1_000_000), (1e14, 1_000), (1e11, 1), (0, 0))
"""Numbers above are nanoseconds, microseconds, milliseconds; below, seconds. All are after 1973."""
_MONTH_FIRST = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y")
_DAY_FIRST = (
    "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y",
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y",
)  # fmt: skip
UNKNOWN = ("", "none", "null", "nan", "n/a", "na", "unknown", "-", "nil")


def blank(texts: pl.Series) -> pl.Series:
    """The same without what stands for nothing."""
    trimmed = texts.str.strip_chars()
    return trimmed.set(trimmed.str.to_lowercase().is_in(UNKNOWN), None)


def moments_ms(texts: pl.Series, zone: str, column: str) -> tuple[pl.Series, str]:
    """Milliseconds since 1970, and how the texts were read; null where nothing was said."""
    given = blank(texts)
    number = given.cast(pl.Float64, strict=False)
    if number.null_count() == given.null_count():
        return _epoch(number, column)
    for form in _FORMS:
        is_zoned = form.endswith("z")
        text = given.str.replace(r"Z$", "+00:00") if is_zoned else given
        found = text.str.to_datetime(form, strict=False, time_unit="ms")
        if found.null_count() == given.null_count():
            if not is_zoned:
                found = found.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            return found.dt.convert_time_zone("UTC").dt.epoch("ms"), _said(is_zoned, zone)
    if (read := _either_way(given, zone, column)) is not None:
        return read
    example = next((text for text in given if text is not None), "")
    raise SpecError(
        f"the column `{column}` holds times such as `{example}`, which are read in no known way,"
        " or in several ways in one column",
        hint="write them as 2026-03-02T06:00:00+01:00, or as seconds since 1970",
    )


def _either_way(given: pl.Series, zone: str, column: str) -> tuple[pl.Series, str] | None:
    """Dates such as 03/14/2026 or 14/03/2026: as they can only be meant; 03/04 alone is refused."""
    found = {
        words: read
        for words, forms in (("month first", _MONTH_FIRST), ("day first", _DAY_FIRST))
        for form in forms
        if (read := given.str.to_datetime(form, strict=False, time_unit="ms")).null_count()
        == given.null_count()
    }
    if len(found) > 1:
        example = next(text for text in given if text is not None)
        raise SpecError(
            f"the column `{column}` holds dates such as `{example}`, and no row tells whether the"
            " month or the day is first",
            hint="write them as 2026-03-04 06:00:00",
        )
    for words, read in found.items():
        moments = read.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        ms = moments.dt.convert_time_zone("UTC").dt.epoch("ms")
        return ms, f"dates with the {words}, in the zone {zone}"
    return None


def _said(is_zoned: bool, zone: str) -> str:
    return "dates with their offset" if is_zoned else f"dates, in the zone {zone}"


def _epoch(number: pl.Series, column: str) -> tuple[pl.Series, str]:
    largest = number.max()
    top = float(largest) if isinstance(largest, int | float) else 0.0
    if 0 < top < 1e8:
        return (number * 1000).round().cast(pl.Int64), "seconds from the beginning"
    for least, divisor in _EPOCHS:
        if top >= least:
            ms = number / divisor if divisor else number * 1000
            words = {1_000_000: "nanoseconds", 1_000: "microseconds", 1: "milliseconds"}
            return ms.round().cast(pl.Int64), f"{words.get(divisor, 'seconds')} since 1970"
    raise SpecError(
        f"the column `{column}` holds times before 1970",
        hint="write them as seconds since 1970, or as dates",
    )


def lengths_ms(texts: pl.Series, column: str) -> pl.Series:
    """Durations in milliseconds: seconds, or ``[days-]hours:minutes:seconds``."""
    given = blank(texts)
    number = given.cast(pl.Float64, strict=False)
    parts = given.str.extract_groups(r"^(?:(\d+)-)?(\d+):(\d\d):(\d\d(?:\.\d+)?)$").struct.unnest()
    counted = sum(
        (
            parts.to_series(i).cast(pl.Float64, strict=False).fill_null(0.0) * seconds
            for i, seconds in enumerate((86_400, 3_600, 60, 1))
        ),
        start=pl.zeros(len(given), dtype=pl.Float64, eager=True),
    )
    is_counted = parts.to_series(1).is_not_null()
    found = counted.set(~is_counted, None).zip_with(is_counted, number)
    if found.null_count() > given.null_count():
        bad = given.filter(found.is_null() & given.is_not_null())[0]
        raise SpecError(
            f"the column `{column}` holds `{bad}`, which is no duration",
            hint="write seconds, or hours:minutes:seconds",
        )
    return (found * 1000).round().cast(pl.Int64)
