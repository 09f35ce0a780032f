"""Tables of jobs and of nodes, read into what a history needs (``live.history.rows``)."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tidemill.live.csv import headers, times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd, SeenNode
from tidemill.live.prices.labels import REGION
from tidemill.model.errors import SpecError
from tidemill.model.rows import MAX_DEVICES

LARGEST_BYTES = 4 * 1024**3
_LARGEST = 1e15
_OUTCOMES: dict[AttemptEnd, tuple[str, ...]] = {
    AttemptEnd.DONE: ("completed", "complete", "done", "succeeded", "success", "finished", "pass",
                   "passed", "ok", "0", "cd", "terminated"),
    AttemptEnd.FAILED: ("failed", "fail", "failure", "error", "crashed", "f", "killed"),
    AttemptEnd.TIMED_OUT: ("timeout", "timedout", "to", "deadline"),
    AttemptEnd.OUT_OF_MEMORY: ("outofmemory", "oom", "oomkilled"),
    AttemptEnd.NODE_LOST: ("nodefail", "nodefailure", "nodelost", "bootfail", "nf"),
    AttemptEnd.PREEMPTED: ("preempted", "evicted", "pr"),
    AttemptEnd.REQUEUED: ("requeued", "rescheduled"),
    AttemptEnd.CANCELLED: ("cancelled", "canceled", "aborted", "stopped", "deleted", "ca"),
    AttemptEnd.RUNNING: ("running", "r", "active"),
    AttemptEnd.WAITING: ("pending", "waiting", "queued", "submitted", "pd"),
}  # fmt: skip
_WORDS = {word: str(outcome) for outcome, words in _OUTCOMES.items() for word in words}

_SACCT = frozenset({"JobID", "State", "Submit"})
"""Columns by which the output of sacct is known."""


class ReadTable(NamedTuple):
    """A table of jobs as it was understood."""

    attempts: pl.DataFrame
    guessed: dict[str, str]
    """What each column that was used says."""
    notes: tuple[str, ...]


class ReadNodes(NamedTuple):
    """A table of nodes as it was understood."""

    nodes: list[SeenNode]
    prices: dict[str, int]
    """Micro-dollars per GPU and hour by GPU type, if it says any."""
    guessed: dict[str, str]
    unread: tuple[str, ...]
    """Columns that nothing is made of."""


def read_jobs(
    path: Path, told: Mapping[str, str], zone: str, *, skips_broken: bool = False
) -> ReadTable:
    """A table of jobs; ``skips_broken``: rows that cannot be read are left out and counted."""
    rows, faults = read_rows(path), CellFaults(skips=skips_broken)
    found = headers.match(rows.columns, headers.JOBS, told)
    for field, instead in (("gpus", "gpus"), ("submit", "start")):
        if field not in found and instead not in found:
            raise SpecError(
                f"`{path}` has no column that says `{field}`; its columns are"
                f" {', '.join(rows.columns)}",
                hint="this is what sacct prints: tidemill import slurm reads it"
                if {*rows.columns} >= _SACCT
                else f"say which it is: --map {field}=COLUMN",
            )
    notes = list[str]()
    columns: dict[str, pl.Series] = {
        "job": _names(rows, found),
        **{name: rows[found[name]] for name in ("team", "user", "gpu_type") if name in found},
        **_moments(rows, found, zone, notes, faults),
        **{
            name: _whole(rows[found[name]], found[name], faults)
            for name in ("gpus", "node_count", "cpus", "priority")
            if name in found
        },
    }
    if "nodes" in found:
        columns |= _nodes(rows[found["nodes"]])
    if "outcome" in found:
        columns["outcome"] = _outcomes(rows[found["outcome"]], found["outcome"], faults)
    if "limit" in found:
        columns["limit_ms"] = times.lengths_ms(rows[found["limit"]], found["limit"], faults)
    made = pl.DataFrame({name: column for name, column in columns.items() if name in ATTEMPTS})
    made = faults.kept(made)
    if not len(made):
        raise SpecError(f"every row of `{path}` is broken: {faults.rows[0]}", hint="mend the table")
    return ReadTable(made, found, (*notes, *faults.notes()))


def read_nodes(path: Path) -> ReadNodes:
    """A table of nodes, and prices of GPU types if it says any."""
    rows = read_rows(path)
    found = headers.match(rows.columns, headers.NODES, {})
    for field in ("node", "gpus"):
        if field not in found:
            raise SpecError(
                f"`{path}` has no column that says `{field}`; its columns are"
                f" {', '.join(rows.columns)}",
                hint="a table of nodes needs a name and the number of GPUs of each: node,gpus",
            )
    empty = pl.Series([None] * len(rows), dtype=pl.String)
    gpus = _whole(rows[found["gpus"]], found["gpus"]).to_list()
    names, kinds, instances, regions = (
        times.blank(rows[found[name]] if name in found else empty).to_list()
        for name in ("node", "gpu_type", "instance_type", "region")
    )
    cpus, memory, each, whole = (
        numbers(rows[found[name]] if name in found else empty, found.get(name, "")).to_list()
        for name in ("cpus", "memory_gib", "usd_per_hour", "usd_per_node_hour")
    )
    nodes, priced = dict[str, tuple[int, SeenNode]](), dict[str, int]()
    for i, name in enumerate(names):
        count = gpus[i] or 0
        if name is None or not 0 <= count <= MAX_DEVICES:
            raise SpecError(
                f"`{path}` row {i + 2} gives node `{name or ''}` {count} GPUs",
                hint=f"every node has a name, and 0 to {MAX_DEVICES} GPUs",
            )
        node = SeenNode(
            name=name, gpus=count, gpu_type=kinds[i] or "",
            cpu_milli=round(1000 * (cpus[i] or 0)), memory_mib=round(1024 * (memory[i] or 0)),
            labels=((REGION, regions[i]),) if regions[i] else (), box=instances[i] or "",
        )  # fmt: skip
        first, before = nodes.setdefault(name, (i, node))
        if before != node:
            raise SpecError(
                f"`{path}` lists node `{name}` twice, in rows {first + 2} and {i + 2}, and not as"
                " the same",
                hint="leave one of them out",
            )
        usd = whole[i] / count if whole[i] is not None and count else each[i]
        if usd is not None:
            _price(priced, kind_of(kinds[i] or ""), round(usd * 1_000_000), path)
    unread = tuple(column for column in rows.columns if column not in found.values())
    return ReadNodes([node for _, node in nodes.values()], priced, found, unread)


def _price(priced: dict[str, int], kind: str, usd_micro: int, path: Path) -> None:
    if priced.setdefault(kind, usd_micro) != usd_micro:
        raise SpecError(
            f"`{path}` gives two prices for one `{kind}`",
            hint="prices are of a GPU type; give those that differ another gpu_type, or a price"
            " file with a column `node` (--prices)",
        )


def read_rows(path: Path) -> pl.DataFrame:
    """All cells as text. A comma, semicolon, tab or bar parts them, whichever the header has."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        head = _first_line(path, packed)
    except OSError as error:
        raise SpecError(
            f"`{path}` cannot be read: {error.strerror}", hint="give the path of a CSV file"
        ) from error
    if not head:
        raise SpecError(f"`{path}` is empty", hint="export a table with a header and rows")
    if "\0" in head or "\ufffd" in head:
        raise SpecError(
            f"`{path}` is no table in text: its first line is not UTF-8",
            hint="give a CSV file, as it is or packed with gzip",
        )
    if size > LARGEST_BYTES:
        raise SpecError(
            f"`{path}` has {size:,} bytes; at most {LARGEST_BYTES:,} are read at once",
            hint="cut it by date, and import each part into a journal of its own",
        )
    parted_by = max(",;\t|", key=head.count)
    try:
        rows = pl.read_csv(
            path, separator=parted_by, infer_schema=False, truncate_ragged_lines=False
        )
    except (pl.exceptions.PolarsError, UnicodeError, OSError) as error:
        said = str(error).split("\n", 1)[0]
        raise SpecError(
            f"`{path}` is no table: {said}",
            hint="every line needs as many cells as the first, in UTF-8",
        ) from error
    if not len(rows):
        raise SpecError(f"`{path}` has a header and no rows", hint="export at least one row")
    return rows


def _first_line(path: Path, is_packed: bool) -> str:
    with gzip.open(path, "rb") if is_packed else path.open("rb") as file:
        return file.read(1 << 16).split(b"\n", 1)[0].decode("utf-8", "replace")


def _names(rows: pl.DataFrame, found: Mapping[str, str]) -> pl.Series:
    numbers = pl.Series([f"row {i}" for i in range(2, len(rows) + 2)])
    if "job" not in found:
        return numbers
    given = times.blank(rows[found["job"]])
    return given.zip_with(given.is_not_null(), numbers)


def _moments(
    rows: pl.DataFrame,
    found: Mapping[str, str],
    zone: str,
    notes: list[str],
    faults: CellFaults,
) -> dict[str, pl.Series]:
    """When jobs were submitted, started and ended; a missing end follows from durations."""
    made: dict[str, pl.Series] = {}
    for field in ("submit", "start", "end"):
        if field in found:
            column = found[field]
            made[f"{field}_ms"], said = times.moments_ms(rows[column], zone, column, faults)
            notes.append(f"`{column}` read as {said}")
    if "submit_ms" not in made:
        made["submit_ms"] = pl.Series([None] * len(rows), dtype=pl.Int64)
        notes.append("no column says when jobs were submitted: how long they waited is unknown")
    if "duration" in found and "start_ms" in made and "end_ms" not in made:
        made["end_ms"] = made["start_ms"] + times.lengths_ms(
            rows[found["duration"]], found["duration"], faults
        )
    return made


def _nodes(texts: pl.Series) -> dict[str, pl.Series]:
    """Names of nodes, parted by commas, blanks, semicolons or bars."""
    given = times.blank(texts).str.strip_chars("[]\"'")
    parted = given.str.replace_all(r"[\"']", "").str.replace_all(r"[\s,;|+]+", ",").str.split(",")
    return {"nodes": parted}


def _outcomes(texts: pl.Series, column: str, faults: CellFaults) -> pl.Series:
    given = times.blank(texts)
    word = given.str.to_lowercase().str.replace_all(r"[^a-z0-9]", "")
    word = word.str.replace(r"^(cancel+ed)by.*$", "${1}")
    known = word.replace_strict(_WORDS, default=None, return_dtype=pl.String)
    hint = (
        f"known are: {', '.join(sorted(_WORDS))}; if `{column}` says something else, take the"
        " outcome from another column with --map outcome=COLUMN"
    )
    is_bad = known.is_null() & given.is_not_null()
    faults.check(given, is_bad, column, "which is no known outcome", hint)
    return known


def _whole(texts: pl.Series, column: str, faults: CellFaults | None = None) -> pl.Series:
    hint = "parts of GPUs are not read yet from CSV"
    number = numbers(texts, column, faults)
    faults = faults or CellFaults()
    is_part = number != number.round()
    faults.check(texts, is_part, column, "where whole numbers are read", hint)
    is_large = number.abs() > _LARGEST
    faults.check(texts, is_large, column, "which is too large to be true", "check that column")
    return number.round().clip(-_LARGEST, _LARGEST).cast(pl.Int64)


_NUMBERS = "numbers only; where the guess of a column is wrong, --map FIELD=COLUMN says another"


def numbers(texts: pl.Series, column: str, faults: CellFaults | None = None) -> pl.Series:
    """Numbers; null where nothing was said."""
    given = times.blank(texts)
    number = given.cast(pl.Float64, strict=False)
    is_bad = number.is_null() & given.is_not_null()
    hint = "numbers only, such as 2.50" if faults is None else _NUMBERS
    (faults or CellFaults()).check(given, is_bad, column, "which is no number", hint)
    return number
