"""When the jobs of a table were submitted, started and ended: told, or by how long they took."""

from collections.abc import Mapping

import polars as pl

from tidemill.live.csv import times
from tidemill.live.csv.cells import CellFaults

_LENGTHS = {"wait": ("submit_ms", "start_ms"), "duration": ("end_ms",)}
"""Fields that are a length of time, and what is told without them."""
Moments = dict[str, pl.Series]


def moments(
    rows: pl.DataFrame,
    found: Mapping[str, str],
    zone: str,
    notes: list[str],
    faults: CellFaults,
) -> Moments:
    """Times of jobs; a missing one follows from how long they waited or ran."""
    made: Moments = {}
    for field in ("submit", "start", "end"):
        if field in found:
            column = found[field]
            made[f"{field}_ms"], said = times.moments_ms(rows[column], zone, column, faults)
            notes.append(f"`{column}` read as {said}")
    lengths_ms = _lengths(rows, found, made, notes, faults)
    _with_waits(made, lengths_ms, found.get("wait", ""), notes)
    if "submit_ms" not in made:
        made["submit_ms"] = pl.Series([None] * len(rows), dtype=pl.Int64)
        notes.append("no column says when jobs were submitted: how long they waited is unknown")
    if "duration" in lengths_ms and "start_ms" in made:
        made["end_ms"] = made["start_ms"] + lengths_ms["duration"]
    if "start_ms" in made and "end_ms" not in made:
        notes.append("no column says when jobs ended, or how long they ran: all still run")
    return made


def _lengths(
    rows: pl.DataFrame,
    found: Mapping[str, str],
    made: Moments,
    notes: list[str],
    faults: CellFaults,
) -> Moments:
    """How long jobs waited and ran, where their times do not say it."""
    lengths_ms: Moments = {}
    for field in [field for field in _LENGTHS if field in found]:
        column = found[field]
        if {*_LENGTHS[field]} <= {*made}:
            notes.append(f"`{column}` not needed: the times say it")
            continue
        lengths_ms[field], unit = times.lengths_ms(rows[column], column, faults)
        notes.append(f"numbers of `{column}` read as {unit}")
    return lengths_ms


def _with_waits(made: Moments, lengths_ms: Moments, column: str, notes: list[str]) -> None:
    """Starts, or submissions, by how long jobs waited."""
    if "wait" not in lengths_ms:
        return
    wait_ms = lengths_ms["wait"]
    if "submit_ms" in made:
        made["start_ms"] = made["submit_ms"] + wait_ms
        return
    made["submit_ms"] = made["start_ms"] - wait_ms.fill_null(0)
    if unsaid := wait_ms.null_count():
        of = f"{unsaid:,} of {len(wait_ms):,} rows"
        notes.append(f"`{column}` says nothing in {of}: taken as submitted when they started")
