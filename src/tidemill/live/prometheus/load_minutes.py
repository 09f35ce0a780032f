"""Samples of serving engines as minutes: what each engine was asked for in each minute of an hour.

Counters only grow while an engine runs: what one grew by between two samples belongs to the minute
of the later one, and one that fell began again at 0. A counter that appears beside others of its
engine began at 0 (engines make them at the first request); the first sample of an engine as such
tells nothing. Buckets of histograms are counters of what took no longer than their bound; what is
kept is how many lie between two bounds. A minute is seen as far as two samples of the counter of
requests, no further apart than Prometheus takes a sample for present, lie around it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.prometheus import answers
from tidemill.live.prometheus.answers import F64
from tidemill.live.prometheus.labels import DeviceKey, key_of
from tidemill.live.prometheus.load_metrics import LoadMetric, LoadQuantity, MetricForm
from tidemill.live.prometheus.minutes import HOUR_MS, MINUTE_MS, STALE_MS
from tidemill.model.loads import NO_BOUND_US
from tidemill.model.tables import I64

LEAD_MS = STALE_MS
"""So long before a stretch of time samples are needed, to see what counters grew by."""
SEEN, TOKENED = "seen", "tokened"
"""Instead of a quantity: how much of a minute was seen, in ms; that tokens are counted, 1."""

LOAD_MINUTES: dict[str, pl.DataType | type[pl.DataType]] = {
    "node": pl.String,
    "namespace": pl.String,
    "pod": pl.String,
    "held_by": pl.String,  # the number of a batch job, if a label says it
    "instance": pl.String,  # what was scraped
    "at_ms": pl.Int64,  # the beginning of the minute
    "what": pl.String,  # a ``LoadQuantity``, ``SEEN`` or ``TOKENED``
    "bound_us": pl.Int64,  # of a bucket: what is in it took no longer; else 0
    "value": pl.Float64,  # a count; the mean of a gauge
}
"""One row per engine, minute, quantity and bucket; what was seen to be 0 is there for gauges."""

_MOST = 2.0**52
_TARGET = ("job", "endpoint", "service", "prometheus", "prometheus_replica", "__name__", "le")
"""Labels that say who scraped a series, and not which one it is."""
_PART = {
    "engine": pl.Int64, "what": pl.String, "rank": pl.Int64, "series": pl.Int64,
    "bound_us": pl.Int64, "at_ms": pl.Int64, "value": pl.Float64, "samples": pl.Int64,
}  # fmt: skip


class EngineKey(NamedTuple):
    """What was scraped, and who holds the GPUs that it runs on."""

    node: str
    namespace: str
    pod: str
    held_by: str
    instance: str


class _Appearance(NamedTuple):
    """The first sample of a counter, of which nothing was there before."""

    row: tuple[object, ...]
    at_ms: int


class HourOfLoads:
    """One hour of all serving engines, put together metric by metric."""

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.samples = self.dropped = 0
        self._engines: dict[EngineKey, int] = {}
        self._first_ms: dict[int, int] = {}
        self._series: dict[tuple[object, ...], int] = {}
        self._parts: list[pl.DataFrame] = []
        self._covers: list[pl.DataFrame] = []
        self._appeared: list[_Appearance] = []

    def add(
        self, name: LoadMetric, series: list[answers.Series], start_ms: int, end_ms: int
    ) -> None:
        """What a metric says in a part of the hour."""
        read = answers.samples(series, start_ms - LEAD_MS, end_ms)
        self.samples += len(read.values)
        labels = [answers.labels(one) for one in series]
        engines = [self._engine(told) for told in labels]
        who = np.repeat(np.arange(len(series)), read.counts)
        is_good = np.isfinite(read.values) & (read.values >= 0) & (read.values <= _MOST)
        self.dropped += int(len(who) - is_good.sum())
        who, at_ms, values = who[is_good], read.at_ms[is_good], read.values[is_good]
        if not len(who):
            return
        self._see_first(np.array(engines)[who], at_ms)
        rows = pl.DataFrame({
            "engine": engines, "what": name.quantity.value, "rank": name.rank,
            "series": [self._number(name, told) for told in labels],
            "bound_us": [_bound_us(name, told) for told in labels],
        })  # fmt: skip
        if name.form is MetricForm.GAUGE:
            is_inside = at_ms >= start_ms
            self._take(rows, who[is_inside], at_ms[is_inside], values[is_inside])
            return
        is_next = who[1:] == who[:-1]
        before, after = at_ms[:-1][is_next], at_ms[1:][is_next]
        grown = np.where(values[1:] >= values[:-1], np.diff(values), values[1:])[is_next]
        is_near = (after - before <= STALE_MS) & (after >= start_ms)
        whose = who[1:][is_next]
        self._take(rows, whose[is_near], after[is_near], grown[is_near])
        self._appear(rows, who, at_ms, values, start_ms)
        if name.quantity is LoadQuantity.REQUESTS:
            self._cover(rows, whose[is_near], np.maximum(before[is_near], start_ms), after[is_near])
            self._cover(rows, *_to_the_end(whose, before, after, end_ms))

    def frame(self) -> pl.DataFrame:
        """The rows of ``LOAD_MINUTES``, by engine, minute and quantity."""
        if not self._parts:
            return pl.DataFrame(schema=LOAD_MINUTES)
        every = pl.concat([*self._parts, self._appearances()])
        every = every.filter(pl.col("rank") == pl.col("rank").min().over("engine", "what"))
        fullest = every.group_by("engine", "what", "rank", "series", "bound_us", "at_ms").agg(
            pl.col("value", "samples").sum()
        )
        counted = _between_bounds(fullest)
        by = ["engine", "what", "bound_us", "at_ms"]
        is_gauge = pl.col("what").is_in([LoadQuantity.RUNNING.value, LoadQuantity.WAITING.value])
        value = pl.when(is_gauge).then(pl.col("value") / pl.col("samples")).otherwise("value")
        told = counted.with_columns(value=value).group_by(by).agg(pl.col("value").sum())
        is_out = (pl.col("what") == LoadQuantity.TOKENS_OUT.value) & (pl.col("bound_us") == 0)
        counts = told.filter(is_out).with_columns(what=pl.lit(TOKENED), value=pl.lit(1.0))
        told = pl.concat([told.filter((pl.col("value") > 0) | is_gauge), counts])
        keys = pl.DataFrame(list(self._engines), schema=list(EngineKey._fields), orient="row")
        keys = keys.with_columns(engine=pl.int_range(pl.len(), dtype=pl.Int64))
        joined = pl.concat([told.select(*by, "value"), self._seen().select(*by, "value")])
        made = joined.join(keys, on="engine").sort("engine", "at_ms", "what", "bound_us")
        return made.select(pl.col(name).cast(kind) for name, kind in LOAD_MINUTES.items())

    def _engine(self, labels: Mapping[str, str]) -> int:
        key: DeviceKey = key_of(labels)
        instance = labels.get("instance", "")
        mine = EngineKey(key.node, key.namespace, key.pod, key.job, instance)
        return self._engines.setdefault(mine, len(self._engines))

    def _number(self, name: LoadMetric, labels: Mapping[str, str]) -> int:
        """Series that differ in who scraped them, or in the bucket, are one."""
        own = tuple(sorted(pair for pair in labels.items() if pair[0] not in _TARGET))
        return self._series.setdefault((name.metric, own), len(self._series))

    def _see_first(self, engines: I64, at_ms: I64) -> None:
        for engine in np.unique(engines).tolist():
            first = int(at_ms[engines == engine].min())
            self._first_ms[engine] = min(first, self._first_ms.get(engine, first))

    def _take(self, rows: pl.DataFrame, who: I64, at_ms: I64, values: F64) -> None:
        """Values of series in their minutes; of one that is scraped twice the fuller answer."""
        made = rows[who].with_columns(
            at_ms=pl.Series(at_ms // MINUTE_MS * MINUTE_MS), value=pl.Series(values),
            copy=pl.Series(who),
        )  # fmt: skip
        by = ["engine", "what", "rank", "series", "bound_us", "at_ms"]
        each = made.group_by(*by, "copy").agg(pl.col("value").sum(), pl.len().alias("samples"))
        best = each.sort("samples", "copy", descending=[True, False])
        best = best.unique(by, keep="first", maintain_order=True)
        self._parts.append(best.select(pl.col(name).cast(kind) for name, kind in _PART.items()))

    def _appear(self, rows: pl.DataFrame, who: I64, at_ms: I64, values: F64, start_ms: int) -> None:
        first = np.flatnonzero(np.concatenate(([True], who[1:] != who[:-1])))
        for i in first[at_ms[first] >= start_ms].tolist():
            minute = at_ms.item(i) // MINUTE_MS * MINUTE_MS
            row = (*rows.row(who.item(i)), minute, values.item(i), 1)
            self._appeared.append(_Appearance(row, at_ms.item(i)))

    def _appearances(self) -> pl.DataFrame:
        """Counters that appeared while their engine was seen already."""
        later = [
            one.row for one in self._appeared if self._first_ms[_engine_of(one.row)] < one.at_ms
        ]
        found = pl.DataFrame(later, schema=_PART, orient="row")
        return found.unique(["engine", "what", "rank", "series", "bound_us"], keep="first")

    def _cover(self, rows: pl.DataFrame, who: I64, from_ms: I64, to_ms: I64) -> None:
        """The time between two samples of the counter of requests, by minute."""
        first, last = from_ms // MINUTE_MS, (to_ms - 1) // MINUTE_MS
        count = np.maximum(last - first + 1, 0)
        each = np.repeat(np.arange(len(who)), count)
        number = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        begin = (first[each] + number) * MINUTE_MS
        covered = np.minimum(begin + MINUTE_MS, to_ms[each]) - np.maximum(begin, from_ms[each])
        made = (
            rows[who[each]]
            .select("engine", "rank", "series")
            .with_columns(
                at_ms=pl.Series(begin), value=pl.Series(covered), copy=pl.Series(who[each])
            )
        )
        self._covers.append(made)

    def _seen(self) -> pl.DataFrame:
        """How much of each minute was seen of each engine."""
        form = {"engine": pl.Int64, "what": pl.String, "bound_us": pl.Int64, "at_ms": pl.Int64,
                "value": pl.Float64}  # fmt: skip
        if not self._covers:
            return pl.DataFrame(schema=form)
        every = pl.concat(self._covers)
        every = every.filter(pl.col("rank") == pl.col("rank").min().over("engine"))
        each = every.group_by("engine", "series", "copy", "at_ms").agg(pl.col("value").sum())
        most = each.group_by("engine", "at_ms").agg(pl.col("value").max())
        most = most.filter(pl.col("at_ms").is_between(self.start_ms, self.start_ms + HOUR_MS - 1))
        made = most.with_columns(what=pl.lit(SEEN), bound_us=pl.lit(0, pl.Int64))
        return made.select(pl.col(name).cast(kind) for name, kind in form.items())


def _to_the_end(who: I64, before: I64, after: I64, end_ms: int) -> tuple[I64, I64, I64]:
    """Series whose next sample is not due before the end of what was asked for, from their last.

    What their counters grow by until then is told with the next sample.
    """
    last = np.flatnonzero(np.concatenate((who[1:] != who[:-1], [True]))) if len(who) else who
    is_due = end_ms - after[last] <= np.minimum((after - before)[last] * 3 // 2, STALE_MS)
    some = last[is_due & (after[last] < end_ms)]
    return who[some], after[some], np.full(len(some), end_ms, np.int64)


def _engine_of(row: tuple[object, ...]) -> int:
    engine = row[0]
    assert isinstance(engine, int), "the first column of a part"
    return engine


def _bound_us(name: LoadMetric, labels: Mapping[str, str]) -> int:
    """The upper bound of a bucket; what is no bucket has 0."""
    if name.form is not MetricForm.HISTOGRAM:
        return 0
    bound = float(labels.get("le", "inf")) * name.scale * 1_000_000
    return NO_BOUND_US if bound >= NO_BOUND_US else max(1, round(bound))


def _between_bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """Buckets of histograms without what is in the bucket below."""
    by = ["engine", "what", "series", "at_ms"]
    rows = rows.sort(*by, "bound_us")
    below = pl.col("value").shift(1).over(by).fill_null(0.0)
    is_bucket = pl.col("bound_us") > 0
    return rows.with_columns(
        value=pl.when(is_bucket).then((pl.col("value") - below).clip(0)).otherwise("value")
    )
