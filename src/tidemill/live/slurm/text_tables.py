"""Delimited text (`sacct -P`, `squeue -o`, `sinfo -o`, `sacctmgr -P`) as frames of typed columns.

Each chunk of lines goes through the rules of its columns; a row with a field that its rule refuses
is left out and named by line, column and what was found. sacct prints steps among the jobs: they
say what their job used (``step_use``), and nothing else of them is looked at.
"""

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import BinaryIO, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tidemill.live import second_hour
from tidemill.live.slurm import delimited, fields, frames, rows, states, step_use, times
from tidemill.live.slurm.columns import Columns, Output, TextTable
from tidemill.live.slurm.delimited import Header, LineChunk
from tidemill.live.slurm.refusals import Refusals
from tidemill.model.errors import SpecError


class RowFrame(NamedTuple):
    """Some rows of one kind, as columns under that kind's schema."""

    makes: type[Struct]
    frame: pl.DataFrame


class TextReader:
    """Reads one file of delimited text. ``unread`` are columns of it that nothing is made of.

    ``second_hours``: times so far that were taken as the second that the clock showed.
    """

    def __init__(
        self, table: TextTable, header: Header, zone: tzinfo | None, refusals: Refusals
    ) -> None:
        self.table, self.header, self.refusals = table, header, refusals
        self.zone, self.second_hours = zone, 0
        self.rules = _rules(header, table.columns(zone))
        names = [name.lower() for name in header.names]
        told = step_use.COLUMNS if table.output is Output.SACCT_TEXT else ()
        self._uses = {name: names.index(name) for name in told if name in names}
        """Where it is said what jobs and their steps used."""
        read = {*self.rules, *self._uses.values()}
        self.unread = tuple(name for i, name in enumerate(header.names) if i not in read)

    def frames(
        self,
        stream: BinaryIO,
        *,
        encoding: str = "utf-8",
        block_bytes: int | None = None,
        wanted: frozenset[str] | None = None,
    ) -> Iterator[RowFrame]:
        """The rows in chunks; ``stream`` stands at the beginning of the file.

        ``wanted``: what of jobs is looked at, if not all is; columns beside that stay unknown if no
        text can be wrong in them.
        """
        if wanted is not None and self.table.makes is rows.SlurmJob:
            self.rules = {
                i: rule for i, rule in self.rules.items()
                if not (rule.is_whole and wanted.isdisjoint(rule.gives))
            }  # fmt: skip
        self._set = fields.RuleSet(list(self.rules.values()))
        found = delimited.chunks(
            stream,
            self.header,
            self.refusals,
            encoding=encoding,
            block_bytes=block_bytes or delimited.BLOCK_BYTES,
        )
        if self._ids is None:
            for chunk in found:
                yield from self._frames(chunk, {})
            return
        if self._uses:  # else nobody looks at steps
            found = step_use.whole_jobs(found, self._ids)
        for chunk in found:
            steps = step_use.is_step(chunk.fields[self._ids])
            used = step_use.of_jobs(chunk, steps, self._uses) if self._uses else {}
            yield from self._frames(_without_steps(chunk, steps), used)

    @property
    def _ids(self) -> int | None:
        """Which column has the ids of jobs, and of steps among them."""
        return next((i for i, rule in self.rules.items() if rule is fields.JOB_ID), None)

    def _frames(self, chunk: LineChunk, used: dict[str, pl.Series]) -> Iterator[RowFrame]:
        columns, wrong = self._columns(chunk)
        columns |= used
        if wrong.any():
            keep = pl.Series(~wrong)
            columns = {name: column.filter(keep) for name, column in columns.items()}
        height = int((~wrong).sum())
        if not height:
            return
        if self.table.makes is rows.SlurmJob:
            columns = _job_columns(columns, height, self.table.output)
            if self._is_local(chunk):
                self._mind_elapsed(columns, chunk, ~wrong)
                self._mind_second_hour(columns)
        yield RowFrame(self.table.makes, frames.frame_of(self.table.makes, columns, height))

    def _is_local(self, chunk: LineChunk) -> bool:
        """Whether times are those of a clock, and not seconds since 1970."""
        told = (chunk.fields[i] for i, rule in self.rules.items() if rule.gives[0] in _TIMES)
        return self.zone is not None and any(
            one.str.contains("T", literal=True).any() for one in told
        )

    def _mind_elapsed(
        self, columns: dict[str, pl.Series], chunk: LineChunk, is_kept: np.ndarray
    ) -> None:
        """Starts and ends in the hour that the clock showed twice, where only the second agrees
        with how long Slurm itself counted.
        """
        read = {"elapsedraw": times.seconds_ms, "elapsed": times.duration_ms}
        places = {name.lower(): i for i, name in enumerate(self.header.names)}
        name = next((name for name in read if name in places), None)
        if name is None or not {"start_ms", "end_ms"} <= columns.keys():
            return
        first = columns["start_ms"], columns["end_ms"]
        second = tuple(second_hour.later_ms(one, str(self.zone)) for one in first)
        is_twice = ((second[0] != first[0]) | (second[1] != first[1])).fill_null(value=False)
        if not is_twice.any():
            return
        texts = chunk.fields[places[name]].filter(pl.Series(is_kept))
        ran_ms = [
            _or_none(read[name], text) if is_asked else None
            for text, is_asked in zip(texts, is_twice, strict=True)
        ]
        length_ms = pl.Series(ran_ms, dtype=pl.Int64)
        if "suspended_ms" in columns:  # Slurm does not count that
            length_ms += columns["suspended_ms"].fill_null(0)
        found = second_hour.by_length(first, (second[0], second[1]), length_ms)
        for key, taken, later, is_later in zip(
            ("start_ms", "end_ms"), first, second, found, strict=True
        ):
            columns[key] = later.zip_with(is_later, taken)
            self.second_hours += int(is_later.sum())

    def _mind_second_hour(self, columns: dict[str, pl.Series]) -> None:
        """Times before what they follow, where that is so only because the clock was put back."""
        for before, after in (("submit_ms", "eligible_ms"), *second_hour.PAIRS):
            first_ms, taken_ms = columns.get(before), columns.get(after)
            if first_ms is None or taken_ms is None or not (taken_ms < first_ms).any():
                continue
            second = second_hour.later_ms(taken_ms, str(self.zone))
            is_second = second_hour.is_second(first_ms, taken_ms, second)
            columns[after] = second.zip_with(is_second, taken_ms)
            self.second_hours += int(is_second.sum())

    def _columns(self, chunk: LineChunk) -> tuple[dict[str, pl.Series], np.ndarray]:
        columns = dict[str, pl.Series]()
        wrong = np.zeros(len(chunk.numbers), dtype=bool)
        texts = [chunk.fields[i] for i in self.rules]
        if self.table.output in PADDED:
            texts = [column.str.strip_chars() for column in texts]
        made = self._set.apply(texts)
        for i, column_of_texts, (rule, found, refused) in zip(self.rules, texts, made, strict=True):
            for name, column in zip(rule.gives, found, strict=True):
                before = columns.get(name)
                columns[name] = (
                    column if before is None else before.zip_with(before.is_not_null(), column)
                )
            if refused is None:
                continue
            at = refused.rows.to_numpy()
            for row in np.flatnonzero(at & ~wrong):
                self._refuse(i, int(chunk.numbers[row]), column_of_texts[int(row)], refused.faults)
            wrong |= at
        return columns, wrong

    def _refuse(self, i: int, line: int, found: str, faults: dict[str, str]) -> None:
        if faults[found] == times.NO_ZONE:
            raise no_zone(self.header.names[i], found)
        shown = found if len(found) <= 60 else f"{found[:57]}…"
        message = f"{self.header.names[i]} is `{shown}`: {faults[found]}"
        self.refusals.add("line", line, message, VALUE_HINT)


def _without_steps(chunk: LineChunk, steps: pl.Series) -> LineChunk:
    """The lines of a chunk that are of jobs."""
    if not steps.any():
        return chunk
    kept = [column.filter(~steps) for column in chunk.fields]
    return LineChunk(chunk.numbers[(~steps).to_numpy()], kept)


_TIMES = frozenset({"submit_ms", "start_ms", "end_ms"})
PADDED = frozenset({Output.SQUEUE_TEXT, Output.SINFO_TEXT})
"""Commands that fill fields with blanks up to a width, if asked to (`%.18i`, `%all`)."""

VALUE_HINT = "the row is left out; look whether columns moved, or export it again"


def no_zone(column: str, found: str) -> SpecError:
    """Local times were found and nobody said where."""
    return SpecError(
        f"{column} is `{found}`, {times.NO_ZONE}: Slurm prints the local time of the machine",
        hint="say it with --zone (such as Europe/Berlin or UTC), or export with"
        " SLURM_TIME_FORMAT=%s",
    )


def _rules(header: Header, columns: Columns) -> dict[int, fields.FieldRule]:
    """The rule of each column that is read, in the order of the table: the first one wins."""
    places = dict[str, int]()
    for i, name in enumerate(header.names):
        key, twice = name.lower().replace(" ", ""), 2
        while key in places:
            key, twice = f"{name.lower()}#{twice}", twice + 1
        places[key] = i
    rules, given = dict[int, fields.FieldRule](), set[str]()
    for key, rule in columns.items():
        if key in places and not given.issuperset(rule.gives):
            rules[places[key]] = rule
            given |= {*rule.gives}
    return rules


def _or_none(read: Callable[[str], int | None], text: str) -> int | None:
    """What a text says; nothing where it cannot be read."""
    try:
        return read(text.strip())
    except ValueError:
        return None


def _job_columns(
    columns: dict[str, pl.Series], height: int, output: Output
) -> dict[str, pl.Series]:
    """What follows from several columns at once."""
    table = pl.DataFrame({**columns, "_": pl.repeat(None, height, eager=True)})

    def known(*names: str) -> pl.Expr:
        return pl.coalesce([pl.col(name) for name in names if name in columns] or [pl.lit(None)])

    def product(one: str, other: str) -> pl.Expr:
        return pl.col(one) * pl.col(other) if {one, other} <= columns.keys() else pl.lit(None)

    made = {
        "job_id": known("raw_id", "job_id"),
        "node_count": known("node_count", "nodes_allocated"),
        "cpus": known("cpus", "requested_cpus"),
        "gpu_type": known("alloc_type", "req_type", "node_type"),
        "gpus_requested": pl.coalesce(known("req_gpus"), product("node_gpus", "node_count")),
    }
    if output is Output.SQUEUE_TEXT and "state" in columns:
        pends, is_over = pl.col("state") == "PENDING", pl.col("state").is_in(states.ENDED)
        made |= {
            "start_ms": pl.when(~pends).then(known("start_ms")),
            "end_ms": pl.when(is_over).then(known("end_ms")),
        }
    return {**columns, **table.select(**made).to_dict()}
