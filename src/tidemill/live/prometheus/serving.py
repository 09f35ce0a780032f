"""What services were asked for, from minutes of their engines: stretches of the load of each job.

An engine belongs to a job as a GPU does: by the pod or the number of a batch job that labels name,
else to the one job that holds GPUs on its node. A stretch is a job's share of five minutes
(``--resolution``), with the counts of all its engines; it is left out where less than half of it
was seen of one of them. A stretch is *idle* if it was seen from end to end, nothing was counted,
and no request waited or ran.
"""

from collections.abc import Iterator

import polars as pl

from tidemill.live.measured.windows import LOADS, WINDOWS
from tidemill.live.prometheus.load_metrics import LoadQuantity
from tidemill.live.prometheus.load_minutes import LOAD_MINUTES, SEEN, TOKENED
from tidemill.live.prometheus.minutes import MINUTE_MS
from tidemill.model.loads import LatencyFigure, LoadFigure, LoadSource

SOURCE = "engine"
LEAST_SEEN = 0.5
"""Of a stretch, of each engine; below it the stretch is unknown."""
IDLE_SEEN = 0.95
"""Of a stretch that is called idle: all of it, but for what two scrapes may be late."""

ENGINES: dict[str, pl.DataType | type[pl.DataType]] = {
    **LOAD_MINUTES,
    "attempt": pl.Int64,
    "job": pl.String,
    "start_ms": pl.Int64,
    "end_ms": pl.Int64,
}
"""Minutes of engines with the attempt whose they are."""

_COUNTS = {
    LoadQuantity.REQUESTS: LoadFigure.REQUESTS,
    LoadQuantity.TOKENS_IN: LoadFigure.TOKENS_IN,
    LoadQuantity.TOKENS_OUT: LoadFigure.TOKENS_OUT,
}
_LEVELS = {
    LoadQuantity.WAITING: LoadFigure.WAITING_MS,
    LoadQuantity.RUNNING: LoadFigure.RUNNING_MS,
}
_LATENCIES = {
    LoadQuantity.FIRST_TOKEN: LatencyFigure.FIRST_TOKEN,
    LoadQuantity.BETWEEN_TOKENS: LatencyFigure.BETWEEN_TOKENS,
    LoadQuantity.WHOLE: LatencyFigure.WHOLE,
}
_KEY = ["attempt", "job", "start", "end"]
_ENGINE = ["node", "namespace", "pod", "held_by", "instance"]


def stretches(told: pl.DataFrame, resolution_ms: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of minutes of engines (``ENGINES``): ``LOADS``, and ``WINDOWS`` of those that are idle."""
    if told.is_empty():
        return pl.DataFrame(schema=LOADS), pl.DataFrame(schema=WINDOWS)
    grid = pl.col("at_ms") // resolution_ms * resolution_ms
    rows = told.with_columns(
        start=pl.max_horizontal(grid, "start_ms"),
        end=pl.min_horizontal(grid + resolution_ms, "end_ms"),
    ).filter(pl.col("start") < pl.col("end"))
    seen = _seen(rows)
    rows = rows.join(seen.select(*_KEY), on=_KEY)
    loads = pl.concat(
        [_lengths(seen), _tokened(rows), *_counted(rows), *_levels(rows), *_latencies(rows)]
    )
    return loads.select(*LOADS).sort("job", "start_ms", "figure", "bound_us"), _idle(rows, seen)


def _seen(rows: pl.DataFrame) -> pl.DataFrame:
    """The stretches of which enough was seen of every engine, with the least that was."""
    length = pl.col("end") - pl.col("start")
    by_engine = rows.group_by(*_KEY, *_ENGINE).agg(
        seen_ms=pl.col("value").filter(pl.col("what") == SEEN).sum()
    )
    least = by_engine.group_by(_KEY).agg(pl.col("seen_ms").min())
    return least.filter(pl.col("seen_ms") >= LEAST_SEEN * length)


def _lengths(seen: pl.DataFrame) -> pl.DataFrame:
    amount = (pl.col("end") - pl.col("start")).cast(pl.Float64)
    return _rows(seen.with_columns(amount=amount), LoadFigure.SEEN_MS)


def _tokened(rows: pl.DataFrame) -> pl.DataFrame:
    """Stretches in which every engine counts tokens."""
    by_engine = rows.group_by(*_KEY, *_ENGINE).agg(counts=(pl.col("what") == TOKENED).any())
    every = by_engine.group_by(_KEY).agg(pl.col("counts").all()).filter("counts")
    amount = (pl.col("end") - pl.col("start")).cast(pl.Float64)
    return _rows(every.with_columns(amount=amount), LoadFigure.TOKENED_MS)


def _counted(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for quantity, figure in _COUNTS.items():
        some = rows.filter(pl.col("what") == quantity.value)
        yield _rows(some.group_by(_KEY).agg(amount=pl.col("value").sum()), figure)


def _levels(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Means of gauges over the minutes of a stretch, times its length; engines added up."""
    length = pl.col("end") - pl.col("start")
    for quantity, figure in _LEVELS.items():
        some = rows.filter(pl.col("what") == quantity.value)
        mean = some.group_by(*_KEY, *_ENGINE).agg(pl.col("value").mean())
        total = mean.group_by(_KEY).agg(amount=(pl.col("value") * length).sum())
        yield _rows(total, figure)
        if quantity is LoadQuantity.WAITING:
            yield _rows(total.with_columns(amount=length.cast(pl.Float64)), LoadFigure.GAUGED_MS)


def _latencies(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for quantity, figure in _LATENCIES.items():
        some = rows.filter(pl.col("what") == quantity.value)
        total = some.group_by(*_KEY, "bound_us").agg(amount=pl.col("value").sum())
        yield _rows(total, figure, pl.col("bound_us"))


def _rows(
    told: pl.DataFrame, figure: LoadFigure | LatencyFigure, bound_us: pl.Expr | None = None
) -> pl.DataFrame:
    return told.select(
        "job", start_ms="start", end_ms="end", source=pl.lit(int(LoadSource.ENGINE), pl.Int64),
        figure=pl.lit(int(figure), pl.Int64),
        bound_us=pl.lit(None, pl.Int64) if bound_us is None else bound_us,
        amount=pl.col("amount").round().cast(pl.Int64),
    )  # fmt: skip


def _idle(rows: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Stretches that were seen from end to end, and in which nothing was asked for."""
    some = rows.filter(~pl.col("what").is_in([SEEN, TOKENED]) & (pl.col("value") > 0))
    length = pl.col("end") - pl.col("start")
    whole = seen.filter(pl.col("seen_ms") >= IDLE_SEEN * length - MINUTE_MS // 60)
    idle = whole.join(some.select(*_KEY).unique(), on=_KEY, how="anti")
    told = idle.select("job", start_ms="start", end_ms="end", source=pl.lit(SOURCE),
                       busy_ppm=pl.lit(0, pl.Int64))  # fmt: skip
    return told.select(
        (pl.col(name) if name in told.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in WINDOWS.items()
    ).sort("job", "start_ms")
