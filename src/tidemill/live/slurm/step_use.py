"""What the steps of a job used: CPU time and memory, which sacct prints in rows of their own.

As `seff` counts: CPU time (`TotalCPU`) of all steps together, or of the job where that is said;
memory is the most that a step used: `MaxRSS`, the peak of its largest task, times its tasks. Steps
follow the row of their job, so a job is looked at once the next one begins.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tidemill.live.slurm.delimited import LineChunk

COLUMNS = ("totalcpu", "maxrss", "ntasks", "tresusageinmax")
"""Of sacct, in lower case."""
_AMOUNTS = ("totalcpu", "maxrss", "tresusageinmax")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MOST_BYTES = 1 << 60


def whole_jobs(chunks: Iterator[LineChunk], jobs: int) -> Iterator[LineChunk]:
    """The same lines, in chunks in which no job is cut from its steps; ``jobs``: which column has
    their ids.
    """
    held: LineChunk | None = None
    for chunk in chunks:
        begins = (~is_step(chunk.fields[jobs])).arg_true()
        first = begins.item(0) if len(begins) else len(chunk.numbers)
        if held is not None and first:
            held = _joined(held, _cut(chunk, 0, first))
            chunk = _cut(chunk, first, len(chunk.numbers))  # noqa: PLW2901 - what is left of it
        if held is not None and len(chunk.numbers):
            yield held
        if held is None or len(chunk.numbers):
            held = chunk
    if held is not None:
        yield held


def is_step(ids: pl.Series) -> pl.Series:
    """Whether a row is of a step: its id has a dot."""
    return ids.str.contains(".", literal=True)


def of_jobs(chunk: LineChunk, steps: pl.Series, places: dict[str, int]) -> dict[str, pl.Series]:
    """What each job of a chunk used, by ``cpu_used_ms`` and ``peak_bytes``; null: nobody says.

    ``places``: of ``COLUMNS``, where they are.
    """
    told = {name: chunk.fields[i] for name, i in places.items()}
    begins = np.flatnonzero((~steps).to_numpy())
    if not len(begins) or not any((told[name] != "").any() for name in _AMOUNTS if name in told):
        return {}
    nothing = pl.repeat(None, len(steps), dtype=pl.String, eager=True)
    rows = pl.DataFrame({name: told.get(name, nothing) for name in COLUMNS}).select(
        cpu_ms=_cpu_ms(pl.col("totalcpu")).fill_null(0),
        peak=pl.coalesce(
            _bytes(pl.col("maxrss")),
            _bytes(pl.col("tresusageinmax").str.extract(r"(?:^|,)mem=([^,]*)")),
        ).fill_null(0)
        * pl.col("ntasks").cast(pl.Int64, strict=False).clip(1, 1 << 20).fill_null(1),
    )
    cpu_ms = rows["cpu_ms"].to_numpy()
    own = cpu_ms[begins]
    every = np.add.reduceat(cpu_ms, begins) - own
    peak = np.maximum.reduceat(rows["peak"].to_numpy(), begins)
    found = {"cpu_used_ms": pl.Series(np.where(own > 0, own, every)), "peak_bytes": pl.Series(peak)}
    return {name: one.replace(0, None) for name, one in found.items()}  # 0: nothing gathers it


def _cpu_ms(texts: pl.Expr) -> pl.Expr:
    """`1-02:03:04`, `02:03:04` or `03:04.567` in ms; null for everything else."""
    parts = texts.str.extract_groups(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.(\d{1,3}))?$").struct
    days, hours, minutes, seconds = (
        parts.field(str(i)).cast(pl.Int64, strict=False).fill_null(0) for i in range(1, 5)
    )
    millis = parts.field("5").str.pad_end(3, "0").cast(pl.Int64, strict=False).fill_null(0)
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return pl.when(parts.field("4").is_not_null()).then(total * 1000 + millis)


def _bytes(texts: pl.Expr) -> pl.Expr:
    """`1234K`, `1.5G` or a number of bytes; null for everything else, and for nothing."""
    parts = texts.str.extract_groups(r"^(\d{1,15}(?:\.\d+)?)([KMGT]?)$").struct
    factor = parts.field("2").replace_strict(_FACTORS, default=None, return_dtype=pl.Int64)
    found = parts.field("1").cast(pl.Float64, strict=False) * factor
    return pl.when((found > 0) & (found < _MOST_BYTES)).then(found).round().cast(pl.Int64)


def _joined(one: LineChunk, other: LineChunk) -> LineChunk:
    return LineChunk(
        np.concatenate([one.numbers, other.numbers]),
        [pl.concat([a, b]) for a, b in zip(one.fields, other.fields, strict=True)],
    )


def _cut(chunk: LineChunk, first: int, end: int) -> LineChunk:
    fields: Sequence[pl.Series] = [column.slice(first, end - first) for column in chunk.fields]
    return LineChunk(chunk.numbers[first:end], [*fields])
