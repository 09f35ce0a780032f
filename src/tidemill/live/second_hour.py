"""Times on a clock that is put back: in that hour each stands on it twice.

Of each the first is taken; the second, where the first would be before what it follows, or where
only that agrees with how long something is said to have taken.
"""

import polars as pl

PAIRS = (("submit_ms", "start_ms"), ("start_ms", "end_ms"), ("submit_ms", "end_ms"))
"""What follows what."""


def later_ms(found: pl.Series, zone: str) -> pl.Series:
    """The second of two moments at which the clock of a zone shows the same; else the same one."""
    clock = found.cast(pl.Datetime("ms")).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    later = clock.dt.replace_time_zone(None).dt.replace_time_zone(
        zone, ambiguous="latest", non_existent="null"
    )
    return later.dt.convert_time_zone("UTC").dt.epoch("ms")


def is_second(before_ms: pl.Series, taken_ms: pl.Series, second_ms: pl.Series) -> pl.Series:
    """Which times are the second that the clock showed: the first is before what it follows."""
    return ((taken_ms < before_ms) & (second_ms >= before_ms)).fill_null(value=False)


def by_length(
    first: tuple[pl.Series, pl.Series], second: tuple[pl.Series, pl.Series], length_ms: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """Which starts and which ends are the second that the clock showed, by how long it was.

    ``first``: starts and ends as the clock showed them first; ``second``: for the second time. None
    where the first ones agree, where nobody says how long, or where nothing agrees.
    """
    (start, end), (later_start, later_end) = first, second
    is_open = (end - start != length_ms).fill_null(value=False)
    is_later_end = is_open & (later_end - start == length_ms).fill_null(value=False)
    is_later_start = (
        is_open & ~is_later_end & (end - later_start == length_ms).fill_null(value=False)
    )
    return is_later_start, is_later_end
