"""Samples of GPUs as minutes: what each GPU did in each minute of an hour, as far as it was seen.

Minutes, because a job holds a GPU from one moment to another and a scrape comes each 15 or 30
seconds: a minute belongs to a job that held the GPU through all of it. What was not sampled is
null. A sample is dropped if it is NaN, infinite, below zero or far above what the quantity can be.
Samples of each second lose no minute in which a job begins or ends: it is cut there (``cuts``).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.prometheus import answers
from tidemill.live.prometheus.answers import F64
from tidemill.live.prometheus.fields import MOST, MetricName, Quantity
from tidemill.live.prometheus.labels import DeviceKey, key_of
from tidemill.model.tables import I64

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
MINUTES = HOUR_MS // MINUTE_MS
STALE_MS = 5 * MINUTE_MS
"""Prometheus takes a sample for present for so long (``--query.lookback-delta``)."""
FEWEST_GAPS = 3
MOST_KEYS = 200_000
"""Labels of so many series are remembered as they were read; then they are forgotten."""

GPU_MINUTES: dict[str, pl.DataType | type[pl.DataType]] = {
    "node": pl.String,
    "uuid": pl.String,
    "minor": pl.Int64,
    "mig": pl.String,
    "namespace": pl.String,
    "pod": pl.String,
    "container": pl.String,
    "held_by": pl.String,  # the number of a batch job, if a label says it
    "model": pl.String,
    "at_ms": pl.Int64,  # the beginning of the minute
    "length_ms": pl.Int64,  # of the part of it that this is of; null: all of it
    "samples": pl.Int64,  # of the quantity that was sampled most often
    "gap_ms": pl.Int64,  # between samples, as a rule
    "busy": pl.Float64,
    "busy_field": pl.Int64,  # DCGM's number: 1001, 203, or 0 for what is not of DCGM
    "sm": pl.Float64,
    "tensor": pl.Float64,
    "dram": pl.Float64,
    "used_bytes": pl.Float64,  # at most
    "total_bytes": pl.Float64,
    "watts": pl.Float64,
    "clock_mhz": pl.Float64,  # of the SMs
    "celsius": pl.Float64,
    "xid": pl.Int64,  # an error that was not there in the sample before
}
"""One row per GPU (or MIG instance), holder and minute. Shares are of one."""

_DEVICE = ("node", "uuid", "minor", "mig", "namespace", "pod", "container", "held_by", "model")


class MetricMinutes(NamedTuple):
    """What one metric says of minutes: parallel columns."""

    key: I64
    minute: I64
    value: F64
    sampled: I64
    gap_ms: I64
    rank: I64
    field: I64


class HourOfGpus:
    """One hour of all GPUs, put together metric by metric."""

    def __init__(
        self, start_ms: int, known: dict[bytes, DeviceKey], cuts: Iterable[int] = ()
    ) -> None:
        self.start_ms = start_ms
        minutes = start_ms + MINUTE_MS * np.arange(MINUTES + 1)
        inside = [at for at in cuts if start_ms < at < start_ms + HOUR_MS]
        self._edges = np.unique(np.concatenate((minutes, np.array(inside, np.int64))))
        self._pieces = len(self._edges) - 1
        self._known = known
        self._keys: dict[DeviceKey, int] = {}
        self._found: dict[Quantity, list[MetricMinutes]] = {}
        self.samples = 0
        self.dropped = 0
        """Samples that are no measurement: blank, NaN, out of range."""
        self.doubled = 0
        """Minutes that two series tell of, of which one was taken."""

    def add(
        self, name: MetricName, series: list[answers.Series], start_ms: int, end_ms: int
    ) -> None:
        """What a metric says in a part of the hour."""
        read = answers.samples(series, start_ms - lead_ms(name), end_ms)
        self.add_samples(name, [self._key(one) for one in series], read, start_ms)

    def add_samples(
        self, name: MetricName, devices: list[DeviceKey], read: answers.Samples, start_ms: int
    ) -> None:
        """What a metric says from a moment on: samples of these devices, one after the other."""
        self.samples += len(read.values)
        keys = np.array([self._keys.setdefault(key, len(self._keys)) for key in devices], np.int64)
        who = np.repeat(np.arange(len(devices)), read.counts)
        values = read.values * name.scale
        is_good = np.isfinite(values) & (values >= 0) & (values <= MOST[name.quantity])
        self.dropped += int(len(values) - is_good.sum())
        who, at_ms, values = who[is_good], read.at_ms[is_good], values[is_good]
        gaps = _gaps(who, at_ms, len(devices))
        if name.quantity in _CHANGES:
            who, at_ms, values = _CHANGES[name.quantity](who, at_ms, values)
            is_inside = at_ms >= start_ms
            who, at_ms, values = who[is_inside], at_ms[is_inside], values[is_inside]
        if not len(who):
            return
        minute = np.searchsorted(self._edges, at_ms, side="right") - 1
        cell = who * self._pieces + minute
        first = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
        count = np.diff(np.append(first, len(cell)))
        told = _of_minute(name.quantity, values, first, count)
        same = np.full(len(first), 0, np.int64)
        self._found.setdefault(name.quantity, []).append(
            MetricMinutes(keys[who[first]], minute[first], told, count, gaps[who[first]],
                          same + name.rank, same + name.field)
        )  # fmt: skip

    def frame(self) -> pl.DataFrame:
        """The rows of ``GPU_MINUTES``, by GPU and minute."""
        size = len(self._keys) * self._pieces
        tables = {q: self._table(q, size) for q in Quantity}
        counts = np.max([table.sampled for table in tables.values()], axis=0) if size else _none(0)
        seen = np.flatnonzero(counts)
        columns = {q: table.value[seen] for q, table in tables.items()}
        gaps = np.max([table.gap_ms for table in tables.values()], axis=0) if size else _none(0)
        watts = columns[Quantity.WATTS]
        columns[Quantity.WATTS] = np.where(np.isnan(watts), columns[Quantity.JOULES], watts)
        rows = pl.DataFrame({
            "who": seen // self._pieces,
            "at_ms": self._edges[seen % self._pieces],
            "length_ms": np.diff(self._edges)[seen % self._pieces],
            "samples": counts[seen],
            "gap_ms": gaps[seen],
            "busy_field": tables[Quantity.BUSY].field[seen],
            "used_bytes": columns[Quantity.USED],
            "total_bytes": _memory(columns),
            **{q.value: columns[q] for q in _AS_THEY_ARE},
        }).with_columns(pl.col(pl.Float64).fill_nan(None))  # fmt: skip
        devices = pl.DataFrame(list(self._keys), schema=list(_DEVICE), orient="row")
        devices = devices.with_columns(who=pl.int_range(pl.len(), dtype=pl.Int64))
        told = rows.join(devices, on="who", maintain_order="left").with_columns(
            busy_field=pl.when(pl.col("busy").is_not_null()).then("busy_field"),
            gap_ms=pl.when(pl.col("gap_ms") > 0).then("gap_ms"),
        )
        return told.select(pl.col(name).cast(kind) for name, kind in GPU_MINUTES.items())

    def _key(self, series: answers.Series) -> DeviceKey:
        text = bytes(series.metric)
        key = self._known.get(text)
        if key is None:
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            key = self._known[text] = key_of(answers.labels(series))
        return key

    def _table(self, quantity: Quantity, size: int) -> "_MinuteTable":
        """What is known of a quantity in each minute; of two series the better one."""
        table = _MinuteTable(np.full(size, np.nan), _none(size), _none(size), _none(size))
        parts = self._found.get(quantity)
        if not parts:
            return table
        joined = MetricMinutes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        cell = joined.key * self._pieces + joined.minute
        order = np.lexsort(
            (joined.sampled, -joined.rank)
        )  # of what is written twice the last stays
        table.value[cell[order]] = joined.value[order]
        table.sampled[cell[order]] = joined.sampled[order]
        table.gap_ms[cell[order]] = joined.gap_ms[order]
        table.field[cell[order]] = joined.field[order]
        if len(cell) > np.count_nonzero(table.sampled):  # another rank is another counter
            self.doubled += len(cell) - len(np.unique(cell * len(Quantity) + joined.rank))
        return table


class _MinuteTable(NamedTuple):
    """Of each key and minute."""

    value: F64
    sampled: I64
    gap_ms: I64
    field: I64


_AS_THEY_ARE = (Quantity.BUSY, Quantity.SM, Quantity.TENSOR, Quantity.DRAM, Quantity.WATTS,
                Quantity.CLOCK, Quantity.CELSIUS, Quantity.XID)  # fmt: skip


def _none(size: int) -> I64:
    return np.zeros(size, np.int64)


def _memory(columns: Mapping[Quantity, F64]) -> F64:
    """The memory of GPUs: as told, else used, free and reserved together."""
    parts = columns[Quantity.USED] + columns[Quantity.FREE]
    parts = parts + np.nan_to_num(columns[Quantity.RESERVED])
    return np.where(np.isnan(columns[Quantity.TOTAL]), parts, columns[Quantity.TOTAL])


def _of_minute(quantity: Quantity, values: F64, first: I64, count: I64) -> F64:
    """The mean of each minute; the most of memory used, the least of free: they still add up."""
    if quantity in (Quantity.USED, Quantity.XID):
        return np.maximum.reduceat(values, first)
    if quantity is Quantity.FREE:
        return np.minimum.reduceat(values, first)
    return np.add.reduceat(values, first) / count


def lead_ms(name: MetricName) -> int:
    """How long before a stretch of time samples are needed, to see what changes at its start."""
    return 5 * MINUTE_MS if name.quantity in _CHANGES else 0


def _gaps(who: I64, at_ms: I64, count: int) -> I64:
    """The time between two samples of each series, as a rule: what a sample stands for.

    Of a series with few samples it is that of all series; never longer than Prometheus itself
    believes in a sample. 0: there is one sample alone.
    """
    is_same = who[1:] == who[:-1]
    gaps, whose = np.diff(at_ms)[is_same], who[1:][is_same]
    if not len(gaps):
        return _none(count)
    order = np.lexsort((gaps, whose))
    first = np.searchsorted(whose[order], np.arange(count))
    after = np.searchsorted(whose[order], np.arange(count), side="right")
    middle = gaps[order][np.minimum((first + after) // 2, len(gaps) - 1)]
    found = np.where(after - first >= FEWEST_GAPS, middle, int(np.median(gaps)))
    return np.minimum(found, STALE_MS)


def _energy_to_power(who: I64, at_ms: I64, values: F64) -> tuple[I64, I64, F64]:
    """Watts between samples of a counter of joules; a reset of the counter tells nothing."""
    is_next = (who[1:] == who[:-1]) & (values[1:] >= values[:-1])
    watts = np.diff(values) / (np.maximum(np.diff(at_ms), 1) / 1000)
    is_next &= watts <= MOST[Quantity.WATTS]
    return who[1:][is_next], at_ms[1:][is_next], watts[is_next]


def _new_errors(who: I64, at_ms: I64, values: F64) -> tuple[I64, I64, F64]:
    """Samples in which the last error is another one than before; the first says nothing."""
    is_new = (who[1:] == who[:-1]) & (values[1:] != values[:-1]) & (values[1:] > 0)
    return who[1:][is_new], at_ms[1:][is_new], values[1:][is_new]


_CHANGES: dict[Quantity, Callable[[I64, I64, F64], tuple[I64, I64, F64]]] = {
    Quantity.JOULES: _energy_to_power,
    Quantity.XID: _new_errors,
}
