"""When the jobs of a table were submitted, started and ended: told, or by how long they took."""

from collections.abc import Mapping

import polars as pl

from tidemill.journal.moments import DATED_FROM_MS
from tidemill.live import second_hour
from tidemill.live.csv import dates, times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.csv.headers import unit_of
from tidemill.live.csv.text_rows import TextRows
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text, duration_text

_LENGTHS = ("wait", "duration")
"""Fields that are a length of time, and say a moment that is not told."""
_UNASKED = {"wait": "the times are read", "duration": "the times say it"}
_DIFFER_MS = 60_000
"""By so much a length may differ from the times, or by one of its unit: both are rounded."""
_MEND = "mend the row"
_UNIT = "mend the row; the unit is what the header ends in (`duration_ms`), else seconds"
Moments = dict[str, pl.Series]


def moments(
    rows: TextRows,
    found: Mapping[str, str],
    zone: str,
    notes: list[str],
    faults: CellFaults,
    first: str = "",
) -> Moments:
    """Times of jobs; a missing one follows from how long they waited or ran.

    ``first``: whether the day or the month is first in dates, if somebody says so.
    """
    made: Moments = {}
    columns = {field: found[field] for field in ("submit", "start", "end") if field in found}
    first = dates.first_of((rows[column] for column in columns.values()), first)
    for field, column in columns.items():
        made[f"{field}_ms"], said = times.moments_ms(rows[column], zone, column, faults, first)
        is_any = made[f"{field}_ms"].count() > 0
        notes.append(f"`{column}` " + (f"read as {said}" if is_any else "says no time at all"))
    _refuse_two_beginnings(columns, made)
    _mind_second_hour(rows, found, zone, made, notes)
    lengths_ms = _lengths(rows, found, made, notes, faults)
    _with_waits(made, lengths_ms, found.get("wait", ""), notes)
    if "submit_ms" not in made:
        made["submit_ms"] = times.nothing(len(rows), pl.Int64)
        notes.append("no column says when jobs were submitted: how long they waited is unknown")
    elif "submit" in found and "start_ms" in made:
        made["submit_ms"] = _submitted(made, found["submit"], notes)
    if "duration" in lengths_ms and "start_ms" in made:
        by_length = made["start_ms"] + lengths_ms["duration"]
        told = made.get("end_ms", times.nothing(len(rows), pl.Int64))
        made["end_ms"] = told.zip_with(told.is_not_null(), by_length)
    _refuse_backwards(rows, found, made, faults)
    if "start_ms" in made and "end_ms" not in made:
        rest = "all still run"
        if "outcome" in found:
            rest = f"those that `{found['outcome']}` calls over are left out, the others still run"
        notes.append(f"no column says when jobs ended, or how long they ran: {rest}")
    return made


def _refuse_two_beginnings(columns: Mapping[str, str], made: Moments) -> None:
    """Columns of which one counts from the beginning of the table, and another is of a date."""
    is_dated = {name: (made[f"{field}_ms"] >= DATED_FROM_MS).any() for field, name in
                columns.items() if made[f"{field}_ms"].count()}  # fmt: skip
    counted = next((name for name, is_so in is_dated.items() if not is_so), "")
    dated = next((name for name, is_so in is_dated.items() if is_so), "")
    if counted and dated:
        raise SpecError(
            f"the column `{counted}` counts from the beginning of the table, and `{dated}` holds"
            " dates",
            hint="write both in one way; what says how long jobs waited or ran is named with --map"
            " wait=COLUMN or --map duration=COLUMN",
        )


def _mind_second_hour(
    rows: TextRows, found: Mapping[str, str], zone: str, made: Moments, notes: list[str]
) -> None:
    """Times before what they follow, where that is so only because the clock was put back.

    In that hour a time stands twice on the clock: of each the first is taken, else the second.
    """
    for names in second_hour.PAIRS:
        if not {*names} <= {*made}:
            continue
        before, after = (name.removesuffix("_ms") for name in names)
        first_ms, taken_ms = (made[name] for name in names)
        if not (taken_ms < first_ms).any():
            continue
        second = times.second_ms(rows[found[after]], taken_ms, zone)
        is_second = second_hour.is_second(first_ms, taken_ms, second)
        if not is_second.any():
            continue
        made[f"{after}_ms"] = second.zip_with(is_second, taken_ms)
        places = [str(i + 2) for i in is_second.arg_true().to_list()]
        shown = ", ".join(places[:5]) + (" …" if len(places) > 5 else "")
        notes.append(
            f"`{found[after]}` in {'row' if len(places) == 1 else 'rows'} {shown} taken as the"
            f" second time that the clock of {zone} showed it: the first is before"
            f" `{found[before]}`"
        )


def _refuse_backwards(
    rows: TextRows, found: Mapping[str, str], made: Moments, faults: CellFaults
) -> None:
    """An end before the start, or of what never started before the submission, cannot be."""
    if "end" not in found:
        return
    column, end_ms = found["end"], made["end_ms"]
    start_ms = made.get("start_ms", times.nothing(len(rows), pl.Int64))
    faults.check(rows[column], end_ms < start_ms, column, "before its start", _MEND)
    is_early = start_ms.is_null() & (end_ms < made["submit_ms"])
    faults.check(rows[column], is_early, column, "before its submission", _MEND)


def _lengths(
    rows: TextRows,
    found: Mapping[str, str],
    made: Moments,
    notes: list[str],
    faults: CellFaults,
) -> Moments:
    """How long jobs waited and ran, where their times do not say it."""
    lengths_ms: Moments = {}
    for field in [field for field in _LENGTHS if field in found]:
        column, given = found[field], rows[found[field]]
        is_asked = _is_asked(field, made, given)
        differing = _differing(given, column, made) if field == "duration" else []
        notes += differing
        if not is_asked.any():
            notes += [] if differing else [f"`{column}` not needed: {_UNASKED[field]}"]
            continue
        texts = given.set(~is_asked, None)
        lengths_ms[field], unit = times.lengths_ms(texts, column, faults)
        is_less = lengths_ms[field] < 0
        faults.check(texts, is_less, column, "which is less than nothing", _MEND)
        is_long = lengths_ms[field] > times.FARTHEST_YEARS * times.YEAR_MS
        long = f"which is more than {times.FARTHEST_YEARS} years, read as {unit}"
        faults.check(texts, is_long, column, long, _UNIT)
        some = "" if is_asked.all() else f", in {count_text(int(is_asked.sum()), 'row')} without"
        some += f" `{found['end']}`" if some else ""
        notes.append(f"numbers of `{column}` read as {unit}{some}")
    return lengths_ms


def _is_asked(field: str, made: Moments, texts: pl.Series) -> pl.Series:
    """Of each row, whether a length says a moment of it that is not told otherwise.

    A wait is asked for all rows, or for none: of a job without a start it may go on.
    """
    if field == "wait":
        return pl.repeat(not {"submit_ms", "start_ms"} <= {*made}, len(texts), eager=True)
    if "end_ms" not in made:
        return pl.repeat(value=True, n=len(texts), eager=True)
    is_asked = made["end_ms"].is_null() & times.blank(texts).is_not_null()
    return is_asked & made["start_ms"].is_not_null() if "start_ms" in made else is_asked


def _differing(texts: pl.Series, column: str, made: Moments) -> list[str]:
    """In words, rows whose start and end say that they ran for another time than their cell."""
    if not {"start_ms", "end_ms"} <= {*made}:
        return []
    told_ms, _ = times.lengths_ms(texts, column, CellFaults(skips=True))
    by_times_ms = made["end_ms"] - made["start_ms"]
    most_ms = max(_DIFFER_MS, unit_of(column)[1])
    differs = ((told_ms - by_times_ms).abs() > most_ms).fill_null(value=False)
    if not differs.any():
        return []
    i = differs.arg_max() or 0
    count = count_text(int(differs.sum()), "row")
    shown = f"row {i + 2} has `{texts[i]}`, and {duration_text(by_times_ms[i])} by its times"
    return [f"`{column}` and the times differ in {count} ({shown}): the times are booked"]


def _with_waits(made: Moments, lengths_ms: Moments, column: str, notes: list[str]) -> None:
    """Starts, or submissions, by how long jobs waited."""
    if "wait" not in lengths_ms:
        return
    wait_ms = lengths_ms["wait"]
    if "submit_ms" in made:
        made["start_ms"] = made["submit_ms"] + wait_ms
        return
    made["submit_ms"] = made["start_ms"] - wait_ms.fill_null(0)
    _say_unsaid(column, wait_ms.null_count(), len(wait_ms), notes)


def _submitted(made: Moments, column: str, notes: list[str]) -> pl.Series:
    """When jobs were submitted: when they started, where a cell says nothing."""
    told, start_ms = made["submit_ms"], made["start_ms"]
    if told.null_count() == len(told):
        return told
    _say_unsaid(column, int((told.is_null() & start_ms.is_not_null()).sum()), len(told), notes)
    return told.zip_with(told.is_not_null(), start_ms)


def _say_unsaid(column: str, unsaid: int, rows: int, notes: list[str]) -> None:
    if unsaid:
        words = f"`{column}` says nothing in {unsaid:,} of {count_text(rows, 'row')}"
        notes.append(f"{words}: taken as submitted when they started")
