"""Windows of jobs from minutes of GPUs: who held which GPU when, and what it did meanwhile.

A minute of a GPU belongs to a job if a label says so (the pod, the number of a batch job) and the
job ran there through all of it; else if the history says that the job held this very GPU, or all
GPUs of the node, which is inferred where a label says otherwise. What two jobs are said to hold at
once belongs to neither. A GPU is where its node and number say at that minute: one that was
replaced is the same place with another UUID, one whose number moved the same UUID elsewhere. A
window is a job's share of five minutes (``--resolution``): the average over its GPUs, unknown where
less than half of what it held was sampled, or no more than half of its GPUs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from tidemill.live.history.rows import SeenNode
from tidemill.live.measured.windows import DEVICES, ERRORS, LOADS, WINDOWS
from tidemill.live.prometheus import instances, labels, serving, stale_labels
from tidemill.live.prometheus.load_minutes import SEEN
from tidemill.live.prometheus.minutes import HOUR_MS, MINUTE_MS
from tidemill.live.prometheus.reading import STEP_MS, Hour
from tidemill.model.errors import SpecError
from tidemill.model.loads import LoadFigure
from tidemill.model.measures import FOREVER_MS, ONE_PPM, count_text, duration_text

RESOLUTION_MS = 5 * MINUTE_MS
LEAST_SEEN = 0.5
"""Of the GPU-time of a window that must have been sampled; below it the window is unknown. So it is
where no more than half of the GPUs were: one of two nodes tells nothing of the other."""

MISSED = 1.5
"""Samples: a GPU with so many fewer than others of its job was silent; scrapes differ by one."""

JOB_WINDOWS: dict[str, pl.DataType | type[pl.DataType]] = {
    **WINDOWS,
    "gpus_held": pl.Int64,
    "gpus_seen": pl.Int64,  # with at least one sample in the window
    "samples": pl.Int64,
    "seen_ppm": pl.Int64,  # of the GPU-time that the job held, sampled
    "busy_field": pl.Int64,  # DCGM's number behind ``busy_ppm``: 1001 or 203; 0: not of DCGM
}
"""As ``WINDOWS``, and how much of it was seen."""

XIDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "at_ms": pl.Int64,  # within a minute from then
    "node": pl.String,
    "uuid": pl.String,
    "minor": pl.Int64,
    "xid": pl.Int64,
    "job": pl.String,  # null: nobody is known to have held the GPU
}
"""One row per error that a driver reported."""

_SHARES = ("busy", "sm", "tensor", "dram")
_AVERAGES = ("watts", "clock_mhz")
_DEVICE = ("node", "uuid", "minor", "mig")


class Whose(NamedTuple):
    """What a history says of who ran where."""

    attempts: pl.DataFrame
    """As ``ATTEMPTS``; with ``is_instance`` (``instances.with_instances``) where that is known."""
    pods: Mapping[tuple[str, str], str] = {}
    """The job of each pod, by namespace and name."""
    numbers: Mapping[str, str] = {}
    """Other names of jobs, such as the number of a member of an array."""
    nodes: Sequence[SeenNode] = ()
    """All nodes; those of several clusters are told apart by their names."""
    booked: Collection[str] = ()
    """Jobs that a journal has already; its source may show them no more."""


class Activity(NamedTuple):
    """What devices say of jobs."""

    windows: pl.DataFrame
    """As ``JOB_WINDOWS``."""
    xids: pl.DataFrame
    notes: tuple[str, ...]
    loads: pl.DataFrame = pl.DataFrame(schema=LOADS)
    """What services were asked for."""
    idle: pl.DataFrame = pl.DataFrame(schema=WINDOWS)
    """Stretches in which services were asked for nothing."""
    left_out: Mapping[str, str] = {}
    """What was measured and not used, or not as labels say, in words, by its sort; part of
    ``notes``."""

    def measured(self) -> pl.DataFrame:
        """As ``WINDOWS``: without windows of which nothing is known."""
        known = pl.any_horizontal(pl.col(f"{name}_ppm").is_not_null() for name in _SHARES)
        known |= pl.col("watts").is_not_null() | pl.col("memory_ppm").is_not_null()
        known |= pl.col("iowait_ppm").is_not_null()
        return pl.concat([self.windows.filter(known).select(*WINDOWS), self.idle])

    def errors(self) -> pl.DataFrame:
        """As ``ERRORS``: each once."""
        return self.xids.select(*ERRORS)


def join(
    hours: Iterable[Hour],
    whose: Whose,
    resolution_ms: int = RESOLUTION_MS,
    ahead_ms: int = 0,
) -> Activity:
    """The windows of all jobs; ``ahead_ms``: how far the devices' clock is ahead of the jobs'."""
    refuse_resolution(resolution_ms)
    holders = _Holders(whose, ahead_ms)
    windows, xids, tally = list[pl.DataFrame](), list[pl.DataFrame](), _JoinTally()
    loads, idle = [pl.DataFrame(schema=LOADS)], [pl.DataFrame(schema=WINDOWS)]
    for hour in hours:
        tally.take(hour)
        told = holders.told(hour, tally)
        windows.append(_windows(told, holders, hour, resolution_ms))
        xids.append(_xids(hour.gpus, told, ahead_ms))
        served, unasked = serving.stretches(holders.engines(hour, tally), resolution_ms)
        loads.append(_on_jobs_clock(served, ahead_ms))
        idle.append(_on_jobs_clock(unasked, ahead_ms))
    found = pl.concat(windows) if windows else pl.DataFrame(schema=JOB_WINDOWS)
    found = _on_jobs_clock(found, ahead_ms).sort("job", "start_ms")
    errors = (pl.concat(xids) if xids else pl.DataFrame(schema=XIDS)).sort("at_ms", "node", "uuid")
    asked, unasked = pl.concat(loads), pl.concat(idle)
    notes = (*tally.notes(found, holders), *_load_notes(asked, unasked, tally))
    return Activity(found, errors, notes, asked, unasked, dict(tally.left_out()))


def _on_jobs_clock(rows: pl.DataFrame, ahead_ms: int) -> pl.DataFrame:
    return rows.with_columns(
        start_ms=pl.col("start_ms") - ahead_ms, end_ms=pl.col("end_ms") - ahead_ms
    )


def refuse_resolution(resolution_ms: int) -> None:
    """Refuse windows that do not divide an hour into whole minutes."""
    if resolution_ms < MINUTE_MS or HOUR_MS % resolution_ms or resolution_ms % MINUTE_MS:
        length = duration_text(resolution_ms)
        raise SpecError(
            f"an hour is not divided into whole minutes by windows of {length}",
            hint="give --resolution 1m, 2m, 5m, 10m, 15m, 30m or 1h",
        )


class HeldGpus:
    """Whose each minute of a GPU was, hour by hour."""

    def __init__(self, whose: Whose, ahead_ms: int = 0) -> None:
        self._holders, self._ahead_ms = _Holders(whose, ahead_ms), ahead_ms

    def of(self, hour: Hour) -> pl.DataFrame:
        """The minutes that are known to be a job's: ``GPU_MINUTES``, ``job`` and ``attempt``."""
        told = self._holders.told(hour, _JoinTally())
        return told.with_columns(at_ms=pl.col("at_ms") - self._ahead_ms)


class _JoinTally:
    """What is worth a remark at the end."""

    def __init__(self) -> None:
        self.hours = self.minutes = self.joined = self.shared = self.unnamed = self.dropped = 0
        self.doubled = self.engines = self.lost = self.whole = self.instances = 0
        self.foreign, self.foreign_pods = 0, set[str]()
        self.stale, self.stale_labels = 0, set[str]()
        self.elsewhere, self.elsewhere_labels = 0, set[str]()

    def take(self, hour: Hour) -> None:
        self.hours += 1
        self.minutes += len(hour.gpus)
        self.dropped += hour.dropped
        self.doubled += hour.doubled

    def notes(self, found: pl.DataFrame, holders: "_Holders") -> Iterator[str]:
        """In words."""
        if not self.minutes:
            if not self.engines:
                yield "no sample of a GPU in this time: nothing of the jobs is measured"
            return
        jobs = found["job"].n_unique()
        yield (
            f"activity of GPUs: {self.joined:,} of {self.minutes:,} GPU-minutes belong to"
            f" {jobs:,} of {count_text(holders.jobs, 'job')} that ran; the rest was free, or nobody"
            " in this history held it"
        )
        yield from _busy_notes(found)
        yield from (words for _, words in self.left_out())
        is_little = (pl.col("seen_ppm") < LEAST_SEEN * ONE_PPM) | ~_are_most("gpus_held")
        if few := found.select(is_little.sum()).item():
            yield (
                f"{few:,} of {count_text(len(found), 'window')} with samples of less than half of"
                " the job's GPU-time, or of no more than half of its GPUs: unknown"
            )

    def left_out(self) -> Iterator[tuple[str, str]]:
        """What was measured and not used, or not as labels say: its sort, and in words."""
        told = {
            "elsewhere": "GPU-minutes have the label of a job that ran on other nodes then"
            f" ({_some(self.elsewhere_labels)}): not counted for it",
            "stale": "GPU-minutes have the label of a job that did not hold the GPU, by this"
            f" history ({_some(self.stale_labels)}): counted for the job that did, inferred",
            "unnamed": "GPU-minutes lie on nodes where a job held some of the GPUs, and nobody says"
            " which: not used",
            "whole": "GPU-minutes are of whole GPUs that are partitioned by MIG: not used, because"
            " no job holds the whole of one",
            "instances": "minutes of MIG instances lie on nodes where a job held GPUs, and nobody"
            " says which instance: not used (labels of pods or batch jobs say it)",
            "foreign": "GPU-minutes are of pods that this history does not have"
            f" ({_some(self.foreign_pods)}): not used",
            "shared": "GPU-minutes are said to be held by several jobs: not used",
            "dropped": "samples are no measurement (blank, NaN, out of range): dropped",
            "doubled": "GPU-minutes came from two series: the fuller one was used",
        }
        for sort, words in told.items():
            if count := getattr(self, sort):
                yield sort, f"{count:,} {words}"


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")


def _load_notes(loads: pl.DataFrame, idle: pl.DataFrame, tally: _JoinTally) -> Iterator[str]:
    """What services were asked for, in words."""
    if not tally.engines:
        return
    requests = loads.filter(pl.col("figure") == LoadFigure.REQUESTS, pl.col("bound_us").is_null())
    hours = (idle["end_ms"] - idle["start_ms"]).sum() / HOUR_MS
    yield (
        f"load of services: {count_text(int(requests['amount'].sum()), 'request')} to"
        f" {count_text(loads['job'].n_unique(), 'job')}, asked for nothing for {hours:,.1f} hours"
    )
    if tally.lost:
        yield (
            f"{count_text(tally.lost, 'minute')} of serving engines, of no job that held GPUs then,"
            " as far as is known (a front end without GPUs, or no label names the pod): not used"
        )


_NAMES = {1001: "graphics engine active (DCGM 1001)", 203: "GPU utilization (DCGM 203)",
          0: "what another exporter calls activity"}  # fmt: skip


def _busy_notes(found: pl.DataFrame) -> Iterator[str]:
    """Which counter says that GPUs were at work."""
    by = found.drop_nulls("busy_field").group_by("busy_field").len().sort("busy_field")
    for field, count in by.iter_rows():
        yield f"busy is {_NAMES.get(field, field)} in {count_text(count, 'window')}"


class _Holders:
    """Who held what when, ready to be joined."""

    def __init__(self, whose: Whose, ahead_ms: int) -> None:
        ran = instances.on_machines(instances.with_instances(whose.attempts), whose.nodes)
        ran = ran.filter(pl.col("start_ms").is_not_null())
        held = ran.with_row_index("attempt").select(
            pl.col("attempt").cast(pl.Int64),
            "job",
            instances.IS_INSTANCE,
            "nodes" if "nodes" in ran.columns else pl.lit(None, pl.List(pl.String)).alias("nodes"),
            (pl.col("devices") if "devices" in ran.columns else pl.lit(None, pl.List(pl.Int64)))
            .alias("devices"),
            start_ms=pl.col("start_ms") + ahead_ms,
            end_ms=pl.col("end_ms").fill_null(FOREVER_MS) + ahead_ms,
            gpus=pl.col("gpus").fill_null(0),
        )  # fmt: skip
        self.attempts = held.select(
            "attempt", "job", "start_ms", "end_ms", "gpus", "nodes", instances.IS_INSTANCE
        )
        self.jobs = self.attempts["job"].n_unique()
        self._names = set(self.attempts["job"].to_list())
        self._pods, self._numbers = whose.pods, whose.numbers
        self._places = _places(held)
        self._known_nodes = set(self._places["node"].to_list())

    def told(self, hour: Hour, tally: _JoinTally) -> pl.DataFrame:
        """The minutes of GPUs of which it is known whose they are, with ``attempt``."""
        end_ms = hour.start_ms + HOUR_MS
        now = (pl.col("start_ms") < end_ms) & (pl.col("end_ms") > hour.start_ms)
        rows = hour.gpus.with_row_index("row").with_columns(
            job=self._labelled(hour.gpus, hour), node=self._nodes(hour.gpus["node"])
        )
        whole = len(rows)
        rows = instances.without_partitioned(rows)
        tally.whole += whole - len(rows)
        running = self.attempts.filter(now).drop("gpus", "nodes")
        met = stale_labels.pairs(rows, running, self._places)
        rows = stale_labels.heeded(rows, met)
        by_label = self._by_label(rows, met, tally)
        by_place = self._by_place(rows, now, tally)
        _tally_stale(rows, by_place, tally)
        both = pl.concat([by_label, by_place.select(by_label.columns)])
        both = both.unique(["attempt", *_DEVICE, "at_ms"], maintain_order=True)
        alone = both.filter(pl.col("job").n_unique().over(*_DEVICE, "at_ms") == 1)
        tally.shared += len(both) - len(alone)
        tally.joined += len(alone)
        return alone

    def engines(self, hour: Hour, tally: _JoinTally) -> pl.DataFrame:
        """The minutes of serving engines of which it is known whose they are (``ENGINES``)."""
        rows = hour.loads.with_row_index("row").with_columns(
            job=self._labelled(hour.loads, hour), node=self._nodes(hour.loads["node"])
        )
        held = self.attempts.select("attempt", "job", "start_ms", "end_ms")
        is_there = (pl.col("start_ms") < pl.col("at_ms") + MINUTE_MS) & (
            pl.col("end_ms") > pl.col("at_ms")
        )
        by_label = rows.join(held, on="job").filter(is_there)
        where = self._places.select("attempt", "start_ms", "end_ms", "node", holder="job")
        alone = rows.filter(pl.col("job").is_null()).join(where, on="node").filter(is_there)
        alone = alone.filter(pl.col("attempt").n_unique().over("row") == 1)
        by_place = alone.with_columns(job="holder").select(by_label.columns)
        found = pl.concat([by_label, by_place]).sort("row", "start_ms")
        found = found.unique("row", keep="last", maintain_order=True)
        tally.engines += len(rows)
        seen, mine = (some.filter(pl.col("what") == SEEN) for some in (rows, found))
        tally.lost += len(seen) - len(mine)
        return found.select(pl.col(name).cast(kind) for name, kind in serving.ENGINES.items())

    def _labelled(self, rows: pl.DataFrame, hour: Hour) -> pl.Series:
        """The job that labels name, of every row; null: none that the history knows."""
        owners = {(n, p): owner for n, p, owner in hour.pods.select("namespace", "pod", "owner")
                  .iter_rows()}  # fmt: skip
        different = rows.select("namespace", "pod", "held_by").unique()
        whose = {key: self._job(key, owners) for key in different.iter_rows()}
        keys = rows.select("namespace", "pod", "held_by").iter_rows()
        return pl.Series([whose[key] for key in keys], dtype=pl.String)

    def _job(
        self, key: tuple[str, ...], owners: Mapping[tuple[str, str], str | None]
    ) -> str | None:
        """A job by its number, its pod, or the owner of its pod."""
        namespace, pod, number = key
        owner = owners.get((namespace, pod))
        tried = [
            self._numbers.get(number, number),
            self._pods.get((namespace, pod), ""),
            f"{namespace}/{pod}", pod,
            f"{namespace}/{owner}", owner or "",
        ]  # fmt: skip
        return next((name for name in tried if name and name in self._names), None)

    def _nodes(self, told: pl.Series) -> pl.Series:
        """Names of nodes as the history has them: with a domain or without."""
        short = labels.by_host(self._known_nodes)
        names = {name: name if name in self._known_nodes
                 else short.get(labels.host_of(name), name)
                 for name in told.unique().to_list()}  # fmt: skip
        return told.replace_strict(names, return_dtype=pl.String)

    def _by_label(self, rows: pl.DataFrame, met: pl.DataFrame, tally: _JoinTally) -> pl.DataFrame:
        """By a label; a label on a whole GPU does not say what an instance of it did."""
        held = met.filter("is_there").select("row", "attempt", "start_ms", "end_ms",
                                             instances.IS_INSTANCE)  # fmt: skip
        tried = rows.join(held, on="row").filter(_is_through())
        is_more = pl.col(instances.IS_INSTANCE) & (pl.col("mig") == "")
        tally.whole += tried.filter(is_more)["row"].n_unique()
        return tried.filter(~is_more).drop("start_ms", "end_ms", instances.IS_INSTANCE)

    def _by_place(self, rows: pl.DataFrame, now: pl.Expr, tally: _JoinTally) -> pl.DataFrame:
        """By node and number of the GPU; where nobody says which, only whole nodes are known.

        On a node where labels name jobs, a GPU without one is free. In a history of pods, a GPU of
        a pod that it does not have is that pod's.
        """
        silent = self._own(rows, tally).drop("job").join(_sizes(rows), on="node")
        silent = silent.filter(pl.col("is_stale") | (pl.col("labelled") == 0))
        tried = silent.join(self._places.filter(now), on="node").filter(_is_through())
        is_part, is_told = pl.col("mig") != "", pl.col("mask") != 0
        is_more = pl.col(instances.IS_INSTANCE) & ~is_part
        tally.whole += tried.filter(is_more)["row"].n_unique()
        tried = tried.filter(~is_more)
        bit = pl.lit(1, pl.Int64) * 2 ** pl.col("minor").clip(0, 62)
        has_it = (pl.col("mask") & bit.cast(pl.Int64) != 0) & (pl.col("minor") >= 0)
        is_whole = pl.col("held") >= pl.when(is_part).then("parts").otherwise("size")
        is_mine = pl.when(is_told & ~is_part).then(has_it).otherwise(is_whole)
        lost = tried.filter(~is_mine & (is_part | ~is_told))
        tally.unnamed += lost.filter(~is_part)["row"].n_unique()
        tally.instances += lost.filter(is_part)["row"].n_unique()
        return tried.filter(is_mine)

    def _own(self, rows: pl.DataFrame, tally: _JoinTally) -> pl.DataFrame:
        """Rows that may be found by their place."""
        if not self._pods:
            return rows
        is_foreign = (pl.col("pod") != "") & ~pl.col("is_known")
        foreign = rows.filter(is_foreign)
        tally.foreign += len(foreign)
        named = foreign.select(pl.concat_str("namespace", "pod", separator="/").unique())
        tally.foreign_pods |= {*named.to_series().to_list()}
        return rows.filter(~is_foreign)


def _sizes(rows: pl.DataFrame) -> pl.DataFrame:
    """Nodes with their GPUs (``size``), MIG instances (``parts``), and how many minutes have the
    label of a job that holds them (``labelled``).

    GPUs by their numbers, because a replaced one has its predecessor's; by UUIDs where nobody
    numbers them, as many as there are at once.
    """
    at_once = rows.group_by("node", "at_ms").agg(
        uuids=pl.col("uuid").filter(pl.col("mig") == "").n_unique(),
        parts=pl.struct("uuid", "minor", "mig").filter(pl.col("mig") != "").n_unique(),
    )
    most = at_once.group_by("node").agg(pl.col("uuids", "parts").max().cast(pl.Int64))
    nodes = rows.group_by("node").agg(
        numbers=pl.col("minor").filter(pl.col("minor") >= 0).n_unique().cast(pl.Int64),
        labelled=pl.col("job").count(),
    )
    size = pl.when(pl.col("numbers") > 0).then("numbers").otherwise("uuids")
    return nodes.join(most, on="node").select("node", "parts", "labelled", size=size)


def _tally_stale(rows: pl.DataFrame, by_place: pl.DataFrame, tally: _JoinTally) -> None:
    where = pl.concat_str("label", pl.lit(" on "), "node").unique()
    elsewhere, stale = rows.filter("is_elsewhere"), by_place.filter("is_stale")
    tally.elsewhere += len(elsewhere)
    tally.elsewhere_labels |= {*elsewhere.select(where).to_series().to_list()}
    tally.stale += stale["row"].n_unique()
    tally.stale_labels |= {*stale.select(where).to_series().to_list()}


def _is_through() -> pl.Expr:
    """Whether a job ran through all of a minute, or of the part of it that was cut there."""
    ends = pl.col("at_ms") + pl.col("length_ms").fill_null(MINUTE_MS)
    return (pl.col("start_ms") <= pl.col("at_ms")) & (pl.col("end_ms") >= ends)


def _places(held: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt and node: how many GPUs (of MIG instances: how many of those) it held
    there, and which, if anybody says. A node that is named for each replica is one node.
    """
    some = held.filter(pl.col("nodes").list.len() > 0)
    count = pl.col("nodes").list.len().cast(pl.Int64)
    is_told = pl.col("devices").list.len() == pl.col("nodes").list.len()
    none = pl.lit(0, pl.Int64).repeat_by(count)
    each = some.with_columns(
        count=count,
        mask=pl.when(is_told.fill_null(value=False)).then("devices").otherwise(none),
    ).explode("nodes", "mask")
    whole = ["attempt", "job", "start_ms", "end_ms", "gpus", "count", instances.IS_INSTANCE]
    there = each.group_by(*whole, node="nodes", maintain_order=True).agg(
        times=pl.len().cast(pl.Int64), mask=pl.col("mask").bitwise_or()
    )
    gpus = pl.when(instances.IS_INSTANCE).then(pl.max_horizontal("gpus", "count")).otherwise("gpus")
    return there.with_columns(held=gpus * pl.col("times") // pl.col("count")).drop(
        "gpus", "count", "times"
    )


def _windows(told: pl.DataFrame, holders: _Holders, hour: Hour, resolution_ms: int) -> pl.DataFrame:
    """The windows of one hour."""
    if not len(told):
        return pl.DataFrame(schema=JOB_WINDOWS)
    rows = told.with_columns(
        grid_ms=pl.col("at_ms") // resolution_ms * resolution_ms,
        seen_ms=pl.col("samples") * pl.col("gap_ms").fill_null(MINUTE_MS),
        memory=pl.col("used_bytes") / pl.col("total_bytes"),
    )
    by_gpu = rows.group_by("attempt", "grid_ms", *_DEVICE).agg(
        pl.col("samples").sum(),
        pl.col("seen_ms").sum(),
        pl.col("seen_ms").filter("is_stale").sum().alias("stale_ms"),
        pl.col("gap_ms").max().fill_null(MINUTE_MS),
        pl.col("memory").max(),
        pl.col("busy_field").max(),
        *(_total(name) for name in (*_SHARES, *_AVERAGES)),
        *(_weight(name) for name in (*_SHARES, *_AVERAGES)),
    )
    at_once = rows.group_by("attempt", "grid_ms", "at_ms").agg(n=instances.devices_at_once())
    most = at_once.group_by("attempt", "grid_ms").agg(gpus_seen=pl.col("n").max())
    window = ["attempt", "grid_ms"]
    is_busy_told = pl.col("weight_busy").max().over(window) > 0  # else by whatever they tell
    by_gpu = by_gpu.with_columns(
        *((pl.col(f"total_{name}") / pl.col(f"weight_{name}")).alias(f"mean_{name}")
          for name in (*_SHARES, *_AVERAGES)),
        told_ms=pl.when(is_busy_told).then("weight_busy").otherwise("seen_ms"),
    ).with_columns(longest_ms=pl.col("told_ms").max().over(window))  # fmt: skip
    by_gpu = by_gpu.with_columns(missed_ms=pl.col("longest_ms") - pl.col("told_ms"))
    by_job = by_gpu.group_by("attempt", "grid_ms").agg(
        pl.col("samples", "seen_ms", "stale_ms").sum(),
        pl.col("memory").mean(),
        pl.col("memory").count().alias("memory_gpus"),
        pl.col("busy_field").max(),
        pl.col("^(total|weight)_.*$").sum(),
        pl.col("^mean_.*$").fill_nan(None).mean(),
        pl.col("longest_ms").first(),
        missed_ms=pl.col("missed_ms").filter(pl.col("missed_ms") > MISSED * pl.col("gap_ms")).sum(),
        devices=pl.len().cast(pl.Int64),
        silent=(pl.col("told_ms") == 0).sum().cast(pl.Int64),
    )
    known = by_job.join(most, on=["attempt", "grid_ms"]).join(holders.attempts, on="attempt")
    return _finished(known, hour, resolution_ms)


def _total(name: str) -> pl.Expr:
    """What was measured, weighed by the time that it stands for."""
    return (pl.col(name) * pl.col("seen_ms")).sum().alias(f"total_{name}")


def _weight(name: str) -> pl.Expr:
    return pl.col("seen_ms").filter(pl.col(name).is_not_null()).sum().alias(f"weight_{name}")


def _finished(rows: pl.DataFrame, hour: Hour, resolution_ms: int) -> pl.DataFrame:
    """Averages, where enough was seen."""
    rows = rows.with_columns(
        start=pl.max_horizontal("grid_ms", "start_ms"),
        end=pl.min_horizontal(pl.col("grid_ms") + resolution_ms, "end_ms"),
    )
    held_ms = pl.max_horizontal("gpus", "gpus_seen") * (pl.col("end") - pl.col("start"))

    def average(name: str) -> pl.Expr:
        is_enough = (pl.col(f"weight_{name}") >= LEAST_SEEN * held_ms) & _are_most("gpus")
        # one GPU that was not heard for a while is like itself, not like the others; where devices
        # changed, each counts for the time that it was there
        are_same = pl.col("devices") == pl.col("gpus_seen")
        by_time = pl.col(f"total_{name}") / pl.col(f"weight_{name}")
        mean = pl.when(are_same).then(f"mean_{name}").otherwise(by_time)
        return pl.when(is_enough & (pl.col(f"weight_{name}") > 0)).then(mean)

    is_most = pl.col("memory_gpus") > LEAST_SEEN * pl.col("gpus")
    made = rows.with_columns(
        *(_ppm(average(name)).alias(f"{name}_ppm") for name in _SHARES),
        *(average(name).round().cast(pl.Int64).alias(name) for name in _AVERAGES),
        memory_ppm=_ppm(pl.when(is_most).then("memory")),
        gpus_held="gpus",
        unseen_gpus=(pl.col("gpus") - pl.col("gpus_seen")).clip(0) + _silent(),
        unseen_ppm=_unseen_ppm(),
        seen_ppm=(ONE_PPM * pl.col("seen_ms") // held_ms).clip(0, ONE_PPM),
        source=pl.lit(DEVICES),
    ).with_columns(busy_field=pl.when(pl.col("busy_ppm").is_not_null()).then("busy_field"))
    made = _with_waits(made.drop("start_ms", "end_ms"), hour.nodes).rename(
        {"start": "start_ms", "end": "end_ms"}
    )
    return made.select(
        (pl.col(name) if name in made.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in JOB_WINDOWS.items()
    )


def _silent() -> pl.Expr:
    """Of the GPUs of a window that were heard, those that do not tell how busy they were."""
    are_same = pl.col("devices") == pl.col("gpus_seen")
    return pl.when(are_same).then("silent").otherwise(0)


def _unseen_ppm() -> pl.Expr:
    """Of the GPUs of a window, those of which it is not known how busy they were while it is of
    others, for so long as that; of the others, what a label says is somebody else's.
    """
    gpus = pl.max_horizontal("gpus", "gpus_seen")
    missed_ms = pl.when(pl.col("devices") == pl.col("gpus_seen")).then("missed_ms").otherwise(0)
    unseen_ms = (gpus - pl.col("gpus_seen")) * pl.col("longest_ms") + missed_ms
    unseen = (ONE_PPM * unseen_ms // (gpus * pl.col("longest_ms")).clip(1)).clip(0, ONE_PPM)
    return unseen + (ONE_PPM - unseen) * pl.col("stale_ms") // pl.col("seen_ms").clip(1)


def _with_waits(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """What the CPUs of a job's nodes did, on average over its nodes."""
    if not len(nodes):
        return rows.with_columns(iowait_ppm=pl.lit(None, pl.Int64), cpu_ppm=pl.lit(None, pl.Int64))
    host = pl.col("node").str.replace(labels.HOST, "${1}")
    short = nodes.with_columns(node=host)
    each = rows.select("attempt", "grid_ms", "start", "end", node="nodes").explode("node")
    each = each.with_columns(node=host)
    met = each.join(short, on="node").filter(
        (pl.col("at_ms") < pl.col("end")) & (pl.col("at_ms") + STEP_MS > pl.col("start"))
    )
    means = met.group_by("attempt", "grid_ms").agg(
        iowait_ppm=_ppm(pl.col("iowait").mean()), cpu_ppm=_ppm(pl.col("busy").mean())
    )
    return rows.join(means, on=["attempt", "grid_ms"], how="left")


def _are_most(held: str) -> pl.Expr:
    """Whether more than half of the GPUs that a job held were seen."""
    return pl.col("gpus_seen") > LEAST_SEEN * pl.col(held)


def _ppm(share: pl.Expr) -> pl.Expr:
    return (share.clip(0.0, 1.0) * ONE_PPM).round().cast(pl.Int64)


def _xids(gpus: pl.DataFrame, told: pl.DataFrame, ahead_ms: int) -> pl.DataFrame:
    """The errors of an hour, each once, with the job that held the GPU if only one did."""
    errors = gpus.with_row_index("row").filter(pl.col("xid").is_not_null())
    found = errors.join(told.select("row", "job").unique(), on="row", how="left")
    jobs = pl.col("job").drop_nulls()
    key = ["at_ms", "node", "xid", instances.gpu().alias("gpu")]
    each = found.group_by(key, maintain_order=True).agg(
        pl.col("uuid", "minor").first(),
        job=pl.when(jobs.n_unique() == 1).then(jobs.first()),
    )
    return each.with_columns(at_ms=pl.col("at_ms") - ahead_ms).select(
        pl.col(name).cast(kind) for name, kind in XIDS.items()
    )
