"""A stretch of time of a Prometheus, hour by hour: GPUs and services by the minute, pods, CPUs.

No question is larger than the server or this program takes: one that is, is asked again in halves,
first of its time, then of the machines that it asks about, and the next hour begins with what
worked. An hour in memory is all that is ever held.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from tidemill.live.prometheus import answers, fields, labels
from tidemill.live.prometheus.client import Client, TooLarge
from tidemill.live.prometheus.fields import MetricName
from tidemill.live.prometheus.labels import DeviceKey
from tidemill.live.prometheus.load_metrics import LoadMetric, load_table
from tidemill.live.prometheus.load_minutes import LEAD_MS, LOAD_MINUTES, HourOfLoads
from tidemill.live.prometheus.minutes import HOUR_MS, MINUTE_MS, HourOfGpus, lead_ms
from tidemill.model.errors import BackendError

PODS: dict[str, type[pl.DataType]] = {
    "namespace": pl.String,
    "pod": pl.String,
    "owner_kind": pl.String,
    "owner": pl.String,
    "node": pl.String,
}
"""One row per pod of an hour, as kube-state-metrics shows them."""

NODE_WAITS: dict[str, type[pl.DataType]] = {
    "node": pl.String,
    "at_ms": pl.Int64,
    "iowait": pl.Float64,  # share of the time of all its CPUs
    "busy": pl.Float64,  # the same of what is neither idle nor waits for I/O; null: not known
}
"""One row per node and five minutes, from node-exporter."""

STEP_MS = 5 * MINUTE_MS
CPU_MODE = 'avg without (cpu, mode) (rate(node_cpu_seconds_total{mode="%s"}[5m]))'
POD_SERIES = '{__name__=~"kube_pod_owner|kube_pod_info"}'


class ServerMetrics(NamedTuple):
    """The metrics of the tables that a server has of a stretch of time."""

    gpus: tuple[MetricName, ...]
    loads: tuple[LoadMetric, ...] = ()


class SeriesAsked(NamedTuple):
    """Series to ask for: their name, what their labels match, and how much earlier to begin."""

    metric: str
    matching: str
    lead_ms: int

    def selector(self, machines: Sequence[str] = ()) -> str:
        """As PromQL writes it; ``machines``: of these alone."""
        either = "|".join(_literal(machine) for machine in machines)
        labels = [self.matching] if self.matching else []
        labels += [f'instance=~"{either}"'] if machines else []
        return f"{self.metric}{{{','.join(labels)}}}" if labels else self.metric


class Hour(NamedTuple):
    """What is known of one hour."""

    start_ms: int
    gpus: pl.DataFrame
    pods: pl.DataFrame
    nodes: pl.DataFrame
    samples: int
    dropped: int
    doubled: int
    loads: pl.DataFrame = pl.DataFrame(schema=LOAD_MINUTES)


class PrometheusReader:
    """Reads hours of one server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[bytes, DeviceKey] = {}
        self._spans: dict[str, int] = {}

    def names(self, start_ms: int, end_ms: int) -> ServerMetrics:
        """The metrics of the tables that the server has of a stretch of time."""
        gpus, loads = fields.table(), load_table()
        known = [row.metric for row in gpus] + [row.series for row in loads]
        match = f'{{__name__=~"{"|".join(known)}"}}'
        found = set(self._client.label_values("__name__", match, start_ms, end_ms))
        return ServerMetrics(
            tuple(row for row in gpus if row.metric in found),
            tuple(row for row in loads if row.series in found),
        )

    def hour(self, start_ms: int, names: ServerMetrics) -> Hour:
        """One whole hour."""
        return self.part(start_ms, start_ms + HOUR_MS, names)

    def part(self, start_ms: int, end_ms: int, names: ServerMetrics) -> Hour:
        """Whole minutes of one hour."""
        hour_ms = start_ms // HOUR_MS * HOUR_MS
        whole, loads = HourOfGpus(hour_ms, self._known), HourOfLoads(hour_ms)
        for name in names.gpus:
            asked = SeriesAsked(name.metric, "", lead_ms(name))
            for series, begin, end in self._parts(asked, start_ms, end_ms):
                whole.add(name, series, begin, end)
        for load in names.loads:
            asked = SeriesAsked(load.series, load.matching, LEAD_MS)
            for series, begin, end in self._parts(asked, start_ms, end_ms):
                loads.add(load, series, begin, end)
        gpus = whole.frame()
        return Hour(
            hour_ms, gpus, self._pods(start_ms, end_ms), self._waits(start_ms, end_ms),
            whole.samples + loads.samples, whole.dropped + loads.dropped, whole.doubled,
            loads.frame(),
        )  # fmt: skip

    def _parts(
        self, name: SeriesAsked, start_ms: int, end_ms: int
    ) -> Iterator[tuple[list[answers.Series], int, int]]:
        """The answers that make up a stretch of time, each with its own."""
        left = [(start_ms, end_ms)]
        while left:
            begin, end = left.pop()
            span = self._spans.get(name.metric, HOUR_MS)
            if end - begin > span:
                left += [(begin + span, end), (begin, begin + span)]
                continue
            try:
                yield self._samples(name, begin, end), begin, end
            except TooLarge:
                if end - begin <= MINUTE_MS:
                    yield from self._by_machines(name, begin, end)
                    continue
                half = max(MINUTE_MS, (end - begin) // 2 // MINUTE_MS * MINUTE_MS)
                self._spans[name.metric] = half
                left.append((begin, end))

    def _samples(
        self, name: SeriesAsked, begin: int, end: int, machines: Sequence[str] = ()
    ) -> list[answers.Series]:
        return self._client.samples(name.selector(machines), begin - name.lead_ms, end)

    def _by_machines(
        self, name: SeriesAsked, begin: int, end: int
    ) -> Iterator[tuple[list[answers.Series], int, int]]:
        """A minute that is too large by itself, some of its machines at a time."""
        every = sorted(self._client.label_values("instance", name.metric, begin, end))
        left = [every[: len(every) // 2], every[len(every) // 2 :]]
        while left:
            some = left.pop()
            if not some:
                raise BackendError(
                    f"one minute of `{name.metric}` is too large an answer, and its series have no"
                    " `instance` to divide them by",
                    hint="raise --query.max-samples of the server",
                )
            try:
                yield self._samples(name, begin, end, some), begin, end
            except TooLarge as error:
                if len(some) == 1:
                    raise BackendError(
                        f"one minute of `{name.metric}` of `{some[0]}` is too large: {error}",
                        hint="raise --query.max-samples of the server, or drop labels that differ"
                        " from scrape to scrape",
                    ) from error
                left += [some[: len(some) // 2], some[len(some) // 2 :]]

    def _pods(self, start_ms: int, end_ms: int) -> pl.DataFrame:
        found: dict[tuple[str, str], dict[str, str]] = {}
        for told in self._pod_labels(start_ms, end_ms):
            own = {**told} | {key.removeprefix("exported_"): value for key, value in told.items()
                    if key.startswith("exported_")}  # fmt: skip
            pod = found.setdefault((own.get("namespace", ""), own.get("pod", "")), {})
            pod.update({key: value for key, value in own.items() if value})
        rows = [
            (namespace, pod, told.get("owner_kind", told.get("created_by_kind")),
             told.get("owner_name", told.get("created_by_name")), told.get("node"))
            for (namespace, pod), told in sorted(found.items())
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=PODS, orient="row")

    def _pod_labels(self, start_ms: int, end_ms: int) -> Iterator[Mapping[str, str]]:
        try:
            yield from self._client.series(POD_SERIES, start_ms, end_ms)
        except TooLarge:
            if end_ms - start_ms <= MINUTE_MS:
                raise
            half = start_ms + (end_ms - start_ms) // 2
            yield from self._pod_labels(start_ms, half)
            yield from self._pod_labels(half, end_ms)

    def _waits(self, start_ms: int, end_ms: int) -> pl.DataFrame:
        """What CPUs did in each five minutes; each is told at its end."""
        told, idle = (self._mode(mode, start_ms, end_ms) for mode in ("iowait", "idle"))
        both = told.rename({"share": "iowait"}).join(idle, on=["node", "at_ms"], how="left")
        busy = (1.0 - pl.col("share") - pl.col("iowait")).clip(0.0, 1.0)
        return both.with_columns(busy=busy).select(*NODE_WAITS)

    def _mode(self, mode: str, start_ms: int, end_ms: int) -> pl.DataFrame:
        """The share of time that the CPUs of each node were in a mode."""
        query, form = CPU_MODE % mode, {"node": pl.String, "at_ms": pl.Int64, "share": pl.Float64}
        try:
            series = self._client.curve(query, start_ms + STEP_MS, end_ms + STEP_MS, STEP_MS)
        except TooLarge:
            half = start_ms + max(STEP_MS, (end_ms - start_ms) // 2 // STEP_MS * STEP_MS)
            if half >= end_ms:
                raise
            return pl.concat([self._mode(mode, start_ms, half), self._mode(mode, half, end_ms)])
        read = answers.samples(series, start_ms, end_ms + STEP_MS)
        nodes = [labels.node_of({k.lower(): v for k, v in answers.labels(one).items()})
                 for one in series]  # fmt: skip
        named = [n for n, count in zip(nodes, read.counts, strict=True) for _ in range(count)]
        told = pl.DataFrame(
            {"node": named, "at_ms": read.at_ms - STEP_MS, "share": read.values}, schema=form
        )
        told = told.filter(pl.col("share").is_finite())
        return told.unique(["node", "at_ms"], keep="first", maintain_order=True)


def _literal(text: str) -> str:
    """A text within a regular expression within a string of PromQL."""
    plain = "".join(c if c.isalnum() or c in "_-:" else f"\\\\{c}" for c in text)
    return plain.replace("\n", "")


def hours(start_ms: int, end_ms: int) -> range:
    """The beginnings of the hours that a stretch of time touches."""
    first = start_ms // HOUR_MS * HOUR_MS
    return range(first, end_ms, HOUR_MS)
