"""What was measured, joined to attempts by job and wall clock, as rows of events.

Windows of several sources are cut at each other's edges. Between two cuts the time of an attempt
divides as all of them together say: standing still for a checkpoint, waiting for data and for other
ranks are the loop's to tell; of the time that the device did not work, what none of these explains
is idle. Shares that are told of a window hold until the next; where nobody measures, that is said.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import SeenNode
from tidemill.live.measured import sharing
from tidemill.live.measured.windows import WINDOWS, Measurements
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.states import Confidence
from tidemill.model.tables import I64
from tidemill.units import capability

_SHARES = ("checkpoint", "data", "communication", "busy", "mfu", "beside")
_KEY = ["number", "attempt"]
_MEASURED = codes.CONFIDENCE_CODE[Confidence.MEASURED]
_UNKNOWN = codes.CONFIDENCE_CODE[Confidence.UNKNOWN]
_WIDTH = len(EventColumn)


def with_ups(attempts: pl.DataFrame, measured: Measurements) -> pl.DataFrame:
    """The attempts with when their loop began to work, where it tells that.

    A launch belongs to the attempt in which it began; of several (one a rank) the last one counts.
    One whose loop had not begun by the end of its attempt never came up.
    """
    if measured.ups.is_empty():
        return attempts
    row = attempts.with_row_index("row").filter(pl.col("start_ms").is_not_null())
    inside = (pl.col("began_ms") >= pl.col("start_ms") - SKEW_MS) & (
        pl.col("began_ms") <= pl.col("end_ms").fill_null(FOREVER_MS)
    )
    found = (
        row.select("row", "job", "start_ms", "end_ms")
        .join(measured.ups, on="job")
        .filter(inside)
        .group_by("row")
        .agg(told_ms=pl.col("up_ms").fill_null(FOREVER_MS).max())
    )
    joined = attempts.with_row_index("row").join(found, on="row", how="left", maintain_order="left")
    last = pl.max_horizontal("start_ms", (pl.col("end_ms") - 1).fill_null(FOREVER_MS))
    up = pl.max_horizontal("start_ms", pl.min_horizontal("told_ms", last))
    return joined.with_columns(
        up_ms=pl.when(pl.col("told_ms").is_null()).then("up_ms").otherwise(up)
    ).drop("row", "told_ms")


SKEW_MS = 300_000
"""By so much the clock of a job's machine may be ahead of or behind its scheduler's."""


def rows_of(
    attempts: pl.DataFrame, nodes: Sequence[SeenNode], measured: Measurements | None,
    begins_ms: int, end_ms: int,
) -> I64:  # fmt: skip
    """Events of all that was measured, as rows of a batch; in order of time at each attempt."""
    nothing: I64 = np.zeros((0, _WIDTH), np.int64)
    if measured is None:
        return nothing
    ends = pl.min_horizontal(pl.col("end_ms").fill_null(end_ms), end_ms)
    runs = attempts.filter(pl.col("start_ms").is_not_null())
    kinds = {node.name: kind_of(node.gpu_type) for node in nodes}
    where = pl.col("nodes").list.first().replace_strict(kinds, default=None, return_dtype=pl.String)
    kind = pl.coalesce(where, "kind")
    runs = runs.select("job", *_KEY, kind=kind, start_ms="up_ms", end_ms=ends)
    runs = runs.filter(pl.col("start_ms") < pl.col("end_ms"))
    windows = sharing.with_neighbours(_complete(measured.windows), attempts, nodes)
    parts = [*_shares(runs, windows), _saves(runs, measured)]
    rows = np.concatenate([nothing, *parts])
    rows[:, EventColumn.AT] -= begins_ms
    is_saved = rows[:, EventColumn.KIND] == codes.KIND_CODE[ev.CheckpointSeen]
    rows[is_saved, EventColumn.VALUE] -= begins_ms
    return rows[np.argsort(rows[:, EventColumn.AT], kind="stable")]


def _shares(runs: pl.DataFrame, windows: pl.DataFrame) -> list[I64]:
    """How the time of each attempt divides, from each change on."""
    pieces = _pieces(runs, windows)
    if pieces.is_empty():
        return []
    told = pieces.with_columns(**_divided()).sort(*_KEY, "start_ms")
    activity = _changes(told, ["busy_ppm"])
    stalls = _changes(told, ["stall_ppm", "host_ppm", "links_ppm"])
    use = _changes(told, ["known", "useful_ppm"])
    paces = _changes(told, ["beside_ppm"])
    return [
        _rows(paces, ev.PaceSeen, {EventColumn.VALUE: "beside_ppm"}),
        _rows(activity, ev.ActivitySeen, {EventColumn.VALUE: "busy_ppm"}),
        _rows(stalls, ev.StallsSeen, {
            EventColumn.WHY: "stall_ppm", EventColumn.TO: "host_ppm",
            EventColumn.VALUE: "links_ppm",
        }),
        _rows(use, ev.EfficiencySeen, {
            EventColumn.WHY: "known", EventColumn.VALUE: "useful_ppm",
        }, {EventColumn.TO: -1}),
    ]  # fmt: skip


def _pieces(runs: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Attempts cut at all edges of their windows, with what each source says of each piece."""
    peaks = {kind: capability.gflops(kind) for kind in runs["kind"].unique().to_list()}
    peak = pl.col("kind").replace_strict(peaks, return_dtype=pl.Int64, default=None) * 1000
    inside = (
        runs.rename({"start_ms": "from_ms", "end_ms": "to_ms"})
        .join(windows, on="job")
        .with_columns(
            start_ms=pl.max_horizontal("from_ms", "start_ms"),
            end_ms=pl.min_horizontal("to_ms", "end_ms"),
            mfu_ppm=pl.coalesce("mfu_ppm", pl.col("mflop_per_s") * ONE_PPM // peak),
        )
        .filter(pl.col("start_ms") < pl.col("end_ms"))
    )
    if inside.is_empty():
        return inside
    edges = pl.concat(
        [inside.select(*_KEY, at="start_ms"), inside.select(*_KEY, at="end_ms"),
         inside.select(*_KEY, at="from_ms"), inside.select(*_KEY, at="to_ms")]
    ).unique().sort(*_KEY, "at")  # fmt: skip
    pieces = edges.select(*_KEY, start_ms="at", end_ms=pl.col("at").shift(-1).over(_KEY))
    pieces = pieces.filter(pl.col("end_ms").is_not_null()).sort("start_ms")
    for source in sorted(inside["source"].unique().to_list()):
        some = inside.filter(pl.col("source") == source).sort("start_ms")
        names = [f"{share}_ppm" for share in _SHARES]
        said = some.select(*_KEY, "start_ms", until="end_ms", **{n: n for n in names})
        pieces = pieces.join_asof(
            said, on="start_ms", by=_KEY, strategy="backward", suffix="_new", check_sortedness=False
        )
        is_inside = pl.col("until") > pl.col("start_ms")
        fresh = [name if f"{name}_new" not in pieces.columns else f"{name}_new" for name in names]
        pieces = pieces.with_columns(
            pl.coalesce(
                *([name] if f"{name}_new" in pieces.columns else []),
                pl.when(is_inside).then(pl.col(new)),
            ).alias(name)
            for name, new in zip(names, fresh, strict=True)
        ).select(*_KEY, "start_ms", "end_ms", *names)
    return pieces


def _complete(windows: pl.DataFrame) -> pl.DataFrame:
    """All columns of windows, those that no source knows as null."""
    return windows.select(
        (pl.col(name) if name in windows.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in WINDOWS.items()
    )


def _divided() -> dict[str, pl.Expr]:
    """Shares of the window as the events have them: each of what the ones before it leave."""
    stall, data, links, busy, mfu, _ = (
        pl.col(f"{share}_ppm").clip(0, ONE_PPM) for share in _SHARES
    )
    beside = pl.col("beside_ppm").fill_null(0)
    explained = sum((e.fill_null(0) for e in (stall, data, links)), pl.lit(0))
    idle = (ONE_PPM - busy - explained).clip(0).fill_null(0)
    awake = ONE_PPM - stall.fill_null(0)
    work = ((awake - idle) * ONE_PPM // (ONE_PPM + beside)).clip(1)
    is_told = pl.any_horizontal(stall.is_not_null(), data.is_not_null(), links.is_not_null())
    host = (data.fill_null(0) * ONE_PPM // work).clip(0, ONE_PPM)
    between = (links.fill_null(0) * ONE_PPM // work).clip(0, ONE_PPM)
    return {
        "beside_ppm": beside,
        "busy_ppm": ONE_PPM - idle * ONE_PPM // awake.clip(1),
        "stall_ppm": pl.when(is_told).then(stall.fill_null(0)).otherwise(-1),
        "host_ppm": pl.when(is_told & data.is_not_null()).then(host).otherwise(-1),
        "links_ppm": pl.when(is_told & links.is_not_null()).then(between).otherwise(-1),
        "known": pl.when(mfu.is_null()).then(_UNKNOWN).otherwise(_MEASURED),
        "useful_ppm": (mfu.fill_null(0) * ONE_PPM // work).clip(0, ONE_PPM),
    }


def _changes(told: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Where one of these differs from the piece before it; at the first piece, from the default."""
    default = {"busy_ppm": ONE_PPM, "known": _UNKNOWN, "useful_ppm": 0, "beside_ppm": 0}
    differs = [
        pl.col(name) != pl.col(name).shift(1).over(_KEY).fill_null(default.get(name, -1))
        for name in names
    ]
    return told.filter(pl.any_horizontal(differs)).rename({"start_ms": "at_ms"})


def _saves(runs: pl.DataFrame, measured: Measurements) -> I64:
    """What is safe, and at the beginning of each attempt that tells it, that nothing is yet."""
    inside = runs.join(measured.saves, on="job").filter(
        pl.col("at_ms").is_between(pl.col("start_ms"), pl.col("end_ms") - 1)
    )
    saved = inside.select(
        *_KEY, "at_ms", covers_ms=pl.col("covers_ms").clip(pl.col("start_ms"), pl.col("at_ms"))
    ).sort("at_ms", "covers_ms")  # fmt: skip
    tell = pl.concat([measured.saves["job"], measured.ups["job"]]).unique().to_list()
    first = runs.filter(pl.col("job").is_in(tell)).select(
        *_KEY, at_ms="start_ms", covers_ms="start_ms"
    )
    return _rows(pl.concat([first, saved]), ev.CheckpointSeen, {EventColumn.VALUE: "covers_ms"})


def _rows(
    told: pl.DataFrame,
    kind: type[ev.Event],
    columns: dict[EventColumn, str],
    fixed: dict[EventColumn, int] | None = None,
) -> I64:
    rows = np.zeros((len(told), _WIDTH), np.int64)
    rows[:, EventColumn.KIND] = codes.KIND_CODE[kind]
    named = {EventColumn.AT: "at_ms", EventColumn.WHO: "number", EventColumn.ATTEMPT: "attempt"}
    for column, name in (named | columns).items():
        rows[:, column] = told[name].cast(pl.Int64).to_numpy()
    for column, value in (fixed or {}).items():
        rows[:, column] = value
    return rows
