"""What was measured, joined to attempts by job and wall clock, as rows of events.

Windows of several sources are cut at each other's edges. Between two cuts the time of an attempt
divides as all of them together say: standing still for a checkpoint, waiting for data and for other
ranks are the loop's to tell; of the time that the device did not work, what none of these explains
is idle. Shares that are told of a window hold until the next; where nobody measures, that is said.

A journal that goes on (``world``: what was told before) is told only what differs from what it
says already. What neighbours cost needs the steps of a whole history, and is left to an import.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.journal.contradictions import Contradiction
from tidemill.journal.device_ids import DeviceNamed
from tidemill.live.history import telling
from tidemill.live.history.attempts import kind_of
from tidemill.live.history.rows import SeenNode
from tidemill.live.measured import (
    attempt_saves,
    clocks,
    flops,
    held,
    loops,
    sharing,
    tracking,
    wholes,
)
from tidemill.live.measured.windows import DEVICES, WINDOWS, Measurements
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model import measured as packed
from tidemill.model.batch import EventColumn
from tidemill.model.columns import JOB, MEASURED
from tidemill.model.figures import STEPS, DeviceFigure, FigureSource, figure_of
from tidemill.model.loads import LENGTHS
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.rows import Shape
from tidemill.model.states import Confidence, JobClass
from tidemill.model.tables import I64
from tidemill.model.world import World

FIGURE_COLUMNS = {
    DeviceFigure.SM_ACTIVE: "sm_ppm",
    DeviceFigure.TENSOR_ACTIVE: "tensor_ppm",
    DeviceFigure.DRAM_ACTIVE: "dram_ppm",
    DeviceFigure.MEMORY_USED: "memory_ppm",
    DeviceFigure.WATTS: "watts",
    DeviceFigure.CLOCK_MHZ: "clock_mhz",
    DeviceFigure.IO_WAIT: "iowait_ppm",
    DeviceFigure.CPU_BUSY: "cpu_ppm",
    DeviceFigure.BUSY_SEEN: "busy_seen",
}
"""Where windows have what devices and nodes measure; the last one is made of the others."""
FIGURE_SOURCES = {
    DeviceFigure.IO_WAIT: FigureSource.NODES,
    DeviceFigure.CPU_BUSY: FigureSource.NODES,
}
"""Who measures what devices do not."""
SERVED = ("engine", "service")
"""Sources that say when a service was asked for nothing: they count before what devices say, since
a kernel may run without a request."""
_SHARES = ("checkpoint", "data", "communication", "busy", "mfu", "beside", "straggler", "silent",
           "unseen", "own")  # fmt: skip
_KEY = ["number", "attempt"]
_MEASURED = codes.CONFIDENCE_CODE[Confidence.MEASURED]
_INFERRED = codes.CONFIDENCE_CODE[Confidence.INFERRED]
_UNKNOWN = codes.CONFIDENCE_CODE[Confidence.UNKNOWN]
_WIDTH = len(EventColumn)
_SAVED = {EventColumn.VALUE: "covers_ms", EventColumn.WHY: "is_back", EventColumn.TO: "is_again"}


def with_ups(attempts: pl.DataFrame, measured: Measurements) -> pl.DataFrame:
    """The attempts with when their loop began to work, where it tells that.

    Of several launches of an attempt (a launcher starts its processes again when one fails) the
    first one that came up counts. An attempt in which none had begun by its end never came up.
    """
    if measured.ups.is_empty():
        return attempts
    rows = attempts.with_row_index("row").filter(pl.col("start_ms").is_not_null())
    found = (
        _launches_in(rows, measured.ups)
        .group_by("row")
        .agg(told_ms=pl.col("up_ms").min().fill_null(FOREVER_MS))
    )
    joined = attempts.with_row_index("row").join(found, on="row", how="left", maintain_order="left")
    last = pl.max_horizontal("start_ms", (pl.col("end_ms") - 1).fill_null(FOREVER_MS))
    up = pl.max_horizontal("start_ms", pl.min_horizontal("told_ms", last))
    return joined.with_columns(
        up_ms=pl.when(pl.col("told_ms").is_null()).then("up_ms").otherwise(up)
    ).drop("row", "told_ms")


def cut_at_ups(attempts: pl.DataFrame, ups: pl.DataFrame) -> pl.DataFrame:
    """Attempts as two where their loop came up within: what devices did before says nothing of
    after.
    """
    if ups.is_empty():
        return attempts
    ran = attempts.with_row_index("row").filter(pl.col("start_ms").is_not_null())
    found = _launches_in(ran, ups).group_by("row").agg(at=pl.col("up_ms").min())
    rows = attempts.with_row_index("row").join(found, on="row", how="left", maintain_order="left")
    ends = pl.col("end_ms").fill_null(FOREVER_MS)
    is_cut = ((pl.col("at") > pl.col("start_ms")) & (pl.col("at") < ends)).fill_null(value=False)
    end = pl.when(is_cut).then("at").otherwise("end_ms")
    later = rows.filter(is_cut).with_columns(start_ms="at")
    return pl.concat([rows.with_columns(end_ms=end), later]).drop("row", "at")


def _launches_in(rows: pl.DataFrame, ups: pl.DataFrame) -> pl.DataFrame:
    """Launches by the attempt (``row``) that each belongs to: in whose time most of it lies.

    By its own clock it may have begun before its attempt did. One that was over by then is of none.
    """
    ends = pl.col("end_ms").fill_null(FOREVER_MS)
    began = pl.col("began_ms")
    shared = pl.min_horizontal(ends, "last_ms") - pl.max_horizontal("start_ms", "began_ms")
    return (
        rows.select("row", "job", "start_ms", "end_ms")
        .join(ups, on="job")
        .filter((began >= pl.col("start_ms") - SKEW_MS) & (began <= ends))
        .filter(pl.col("last_ms") >= pl.col("start_ms") - clocks.SLACK_MS)
        .sort("launch", -shared, "row")
        .unique("launch", keep="first", maintain_order=True)
    )


def idle_as_services(
    measured: Measurements | None, attempts: pl.DataFrame, shapes: Sequence[Shape]
) -> Measurements | None:
    """What was measured, without windows in which the engine of a job was asked for nothing, unless
    the job is a service: others generate with an engine and train while that stands still.

    ``shapes``: what jobs request, by the numbers that attempts have.
    """
    if measured is None:
        return None
    served = [s for s, shape in enumerate(shapes) if shape.kind is JobClass.INFERENCE]
    is_served = pl.col("shape").is_in(served) if "shape" in attempts.columns else pl.lit(False)
    services = attempts.filter(is_served)["job"].unique().to_list()
    is_right = (pl.col("source") != SERVED[0]) | pl.col("job").is_in(services)
    return measured._replace(windows=measured.windows.filter(is_right))


SKEW_MS = 300_000
"""By so much the clock of a job's machine may be ahead of or behind its scheduler's."""


class JoinedRows(NamedTuple):
    """Events of all that was measured, and what of it cannot be true."""

    rows: I64
    """As rows of a batch; in order of time at each attempt."""
    against: Sequence[Contradiction] = ()
    notes: Sequence[str] = ()


def rows_of(
    attempts: pl.DataFrame, nodes: Sequence[SeenNode], measured: Measurements | None,
    begins_ms: int, end_ms: int, world: World | None = None,
) -> JoinedRows:  # fmt: skip
    """Events of all that was measured."""
    nothing: I64 = np.zeros((0, _WIDTH), np.int64)
    if measured is None:
        return JoinedRows(nothing)
    ends = pl.min_horizontal(pl.col("end_ms").fill_null(end_ms), end_ms)
    runs = attempts.filter(pl.col("start_ms").is_not_null())
    kinds = {node.name: kind_of(node.gpu_type) for node in nodes}
    where = pl.col("nodes").list.first().replace_strict(kinds, default=None, return_dtype=pl.String)
    kind = pl.coalesce(where, "kind")
    is_over = (pl.col("end_ms") <= end_ms).fill_null(value=False)
    runs = runs.select(
        "job", "gpus", *_KEY, "is_up_told", kind=kind, held_ms="start_ms", start_ms="up_ms",
        end_ms=ends, is_over=is_over,
    )  # fmt: skip
    runs = runs.filter(pl.col("start_ms") < pl.col("end_ms"))
    windows = _complete(measured.windows)
    if world is None:
        windows = sharing.with_neighbours(windows, attempts, nodes)
    else:
        windows = windows.with_columns(beside_ppm=pl.lit(None, pl.Int64))
    told = _told_before(runs, world, begins_ms)
    before = told.select(*_KEY, since_ms="began_ms")
    runs = runs.join(before, on=_KEY, how="left", maintain_order="left")
    runs = runs.with_columns(held_ms=pl.coalesce("since_ms", "held_ms")).drop("since_ms")
    spoken, numbers = _spoken(runs, measured, told), _numbers(nodes, world)
    inside = _inside(spoken, windows)
    judged = flops.judged(held.over_all(held.believed(inside)), _KEY)
    said = told.filter(pl.any_horizontal(_DIFFERS))
    cut = held.cut_to_waits(judged.windows)
    pieces = _pieces(spoken, cut, said.select(_KEY))
    sums = wholes.judged(pieces, runs, _KEY)
    parts = [
        *_shares(pieces, said), *_figures(runs, windows, world),
        _rows(attempt_saves.told(spoken, measured, told, begins_ms), ev.CheckpointSeen, _SAVED),
        _errors(measured.errors, numbers, (begins_ms, end_ms), world),
        *_loads(runs, measured.loads, inside),
    ]  # fmt: skip
    rows = np.concatenate([nothing, *parts])
    rows[:, EventColumn.AT] -= begins_ms
    is_saved = rows[:, EventColumn.KIND] == codes.KIND_CODE[ev.CheckpointSeen]
    rows[is_saved, EventColumn.VALUE] -= begins_ms
    ordered = rows[np.argsort(rows[:, EventColumn.AT], kind="stable")]
    against = [*judged.against, *sums.against, *held.contradictions(inside)]
    return JoinedRows(ordered, against, [*judged.near, *sums.near, *held.said_untold(inside)])


def _loads(runs: pl.DataFrame, loads: pl.DataFrame, windows: pl.DataFrame) -> Iterator[I64]:
    """What services were asked for and loops did, stretch by stretch, while they were up.

    An amount is told once: of each attempt as much as lies in it of its stretch, and nothing of
    what lies in none.
    """
    inside = runs.rename({"start_ms": "from_ms", "end_ms": "to_ms"})
    inside = inside.join(loads.with_row_index("told"), on="job")
    inside = inside.with_columns(
        at_ms=pl.max_horizontal("from_ms", "start_ms"), until=pl.min_horizontal("to_ms", "end_ms")
    ).filter(pl.col("at_ms") < pl.col("until"))
    inside = inside.sort("told", "at_ms", *_KEY).with_columns(amount=_of_attempt())
    is_latency = pl.col("bound_us").is_not_null()
    is_length = ~is_latency & pl.col("figure").is_in([int(one) for one in LENGTHS])
    length = pl.col("until") - pl.col("at_ms")
    inside = held.without_rates(inside, windows, _KEY)
    told = inside.with_columns(amount=pl.when(is_length).then(length).otherwise("amount"))
    told = told.sort("at_ms", *_KEY, "figure", "bound_us")
    named = {EventColumn.WHY: "figure", EventColumn.VALUE: "amount"}
    counts, latencies = told.filter(~is_latency), told.filter(is_latency)
    yield _rows(counts, ev.LoadSeen, named | {EventColumn.TO: "source"})
    yield _rows(latencies, ev.LatencySeen, named | {EventColumn.TO: "bound_us"})


def _of_attempt() -> pl.Expr:
    """Of the amount of a stretch, what an attempt did: by how much of it the attempt was there.

    All of it where it lies in attempts but for a few seconds, by which clocks differ; so much of it
    may have been told before, or is of an attempt that goes on.
    """
    first = pl.when("is_up_told").then("start_ms").otherwise("held_ms")
    last = pl.when("is_over").then("to_ms").otherwise("end_ms")
    own = pl.min_horizontal(last, "end_ms") - pl.max_horizontal(first, "start_ms")
    upto, span = own.cum_sum().over("told"), pl.col("end_ms") - pl.col("start_ms")
    inside = own.sum().over("told")
    whole = pl.when(span - inside > clocks.SLACK_MS).then(span).otherwise(inside)
    amount = pl.col("amount")
    return amount * upto // whole - amount * (upto - own) // whole


def _spoken(runs: pl.DataFrame, measured: Measurements, before: pl.DataFrame) -> pl.DataFrame:
    """The attempts, with since when what their loops tell of them counts (``spoken_ms``).

    One that was told to be at work before its loop said anything was so by nobody's measure: what
    the loop tells counts from its first step on, and the time until then stays unknown.
    """
    silent = before.filter(~pl.col("tells")).select(*_KEY, since_ms="began_ms")
    told = runs.join(silent, on=_KEY).select(*_KEY, "job", "since_ms").join(measured.ups, on="job")
    is_own = (pl.col("attempt") == 1) | (pl.col("began_ms") >= pl.col("since_ms") - SKEW_MS)
    is_own &= pl.col("last_ms") >= pl.col("since_ms") - clocks.SLACK_MS
    steps_ms = pl.col("up_ms").filter(is_own).min().fill_null(FOREVER_MS)
    first = told.group_by(_KEY).agg(spoken_ms=steps_ms)
    joined = runs.join(first, on=_KEY, how="left", maintain_order="left")
    return joined.with_columns(spoken_ms=pl.max_horizontal("start_ms", "spoken_ms"))


_DEFAULTS = {
    "beside_ppm": 0, "busy_ppm": ONE_PPM, "stall_ppm": -1, "host_ppm": -1, "links_ppm": -1,
    "known": _UNKNOWN, "useful_ppm": 0, "compared": _UNKNOWN, "straggler_ppm": 0, "silent_ppm": 0,
}  # fmt: skip
"""How the time of an attempt divides while nobody has said anything of it."""
_BEFORE = {f"{name}_before": pl.Int64 for name in _DEFAULTS}


def _told_before(runs: pl.DataFrame, world: World | None, begins_ms: int) -> pl.DataFrame:
    """What the journal says of attempts that it has as running."""
    found = list[tuple[int, ...]]()
    for j, attempt in runs.filter("is_up_told").select(*_KEY).iter_rows():
        assert world is not None, "somebody told it"
        jobs = world.matrices.jobs
        stalls, use, slow, _ = (jobs.item(j, column) for column in MEASURED)
        shares = (-1, -1, -1)
        if stalls & packed.SAYS:
            shares = (packed.high(stalls), packed.middle(stalls), packed.low(stalls))
        known = (packed.high(use), packed.middle(use)) if use else (_UNKNOWN, 0)
        compared = (_UNKNOWN, 0, 0)
        if slow:
            compared = (packed.high(slow), packed.middle(slow), packed.low(slow))
        paces = world.paces.get(j, ((0, 0),))
        found.append(
            (j, attempt, paces[-1][1], jobs.item(j, JOB.BUSY_PPM), *shares, *known, *compared,
             begins_ms + jobs.item(j, JOB.SINCE_MS), stalls & packed.SAVES != 0)
        )  # fmt: skip
    form = {**dict.fromkeys(_KEY, pl.Int64), **_BEFORE}
    return pl.DataFrame(
        found, schema=form | {"began_ms": pl.Int64, "tells": pl.Boolean}, orient="row"
    )


_DIFFERS = [pl.col(f"{name}_before") != value for name, value in _DEFAULTS.items()]


def _shares(pieces: pl.DataFrame, said: pl.DataFrame) -> list[I64]:
    """How the time of each attempt divides, from each change on; ``said``: what was said before."""
    if pieces.is_empty():
        return []
    told = pieces.with_columns(**_divided()).join(said, on=_KEY, how="left")
    told = told.with_columns(_like_told()).sort(*_KEY, "start_ms")
    activity = _changes(told, ["busy_ppm"])
    stalls = _changes(told, ["stall_ppm", "host_ppm", "links_ppm"])
    use = _changes(told, ["known", "useful_ppm"])
    slow = _changes(told, ["compared", "straggler_ppm", "silent_ppm"])
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
        _rows(slow, ev.StragglerSeen, {
            EventColumn.WHY: "compared", EventColumn.VALUE: "straggler_ppm",
            EventColumn.TO: "silent_ppm",
        }),
    ]  # fmt: skip


def _like_told() -> list[pl.Expr]:
    """The state says 0 where a loop that tells one share does not tell another."""
    is_told = pl.col("stall_ppm") >= 0
    return [
        pl.when(is_told & (pl.col(name) == -1) & (pl.col(f"{name}_before") == 0))
        .then(-1)
        .otherwise(f"{name}_before")
        .alias(f"{name}_before")
        for name in ("host_ppm", "links_ppm")
    ]


def _inside(runs: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """The windows of attempts, and from when to when each counts.

    What is told of the time after a launch says nothing of an attempt that began later.
    """
    is_after = pl.col("source").is_in([loops.SOURCE, tracking.SOURCE])
    is_after &= pl.col("end_ms") - pl.col("start_ms") > loops.LONGEST_AFTER_MS // 2
    return (
        runs.rename({"start_ms": "from_ms", "end_ms": "to_ms"})
        .join(windows, on="job")
        .filter(~is_after | (pl.col("held_ms") <= pl.col("start_ms")))
        .with_columns(
            start_ms=pl.when(pl.col("source") == loops.SOURCE)
            .then(pl.max_horizontal("spoken_ms", "start_ms"))
            .otherwise(pl.max_horizontal("from_ms", "start_ms")),
            end_ms=pl.min_horizontal("to_ms", "end_ms"),
        )
        .filter(pl.col("start_ms") < pl.col("end_ms"))
        .with_columns(silent_ppm=_silent_ppm())
    )


def _silent_ppm() -> pl.Expr:
    """Of the GPUs that an attempt holds, those that no rank tells of while others tell theirs."""
    silent = (pl.col("gpus") - pl.col("heard_gpus")).clip(0) * ONE_PPM // pl.col("gpus").clip(1)
    return pl.when(pl.col("heard_gpus").is_not_null()).then(silent)


def _pieces(runs: pl.DataFrame, inside: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """Attempts cut at all edges of their windows, with what each source says of each piece.

    ``said``: attempts of which something was said before, that may not hold any more.
    """
    runs = runs.rename({"start_ms": "from_ms", "end_ms": "to_ms"})
    ends = pl.concat([inside.select(*_KEY, "from_ms", "to_ms"),
                      runs.join(said, on=_KEY).select(*_KEY, "from_ms", "to_ms")])  # fmt: skip
    edges = pl.concat(
        [inside.select(*_KEY, at="start_ms"), inside.select(*_KEY, at="end_ms"),
         ends.select(*_KEY, at="from_ms"), ends.select(*_KEY, at="to_ms")]
    ).unique().sort(*_KEY, "at")  # fmt: skip
    names = [f"{share}_ppm" for share in _SHARES]
    pieces = edges.select(*_KEY, start_ms="at", end_ms=pl.col("at").shift(-1).over(_KEY))
    pieces = pieces.filter(pl.col("end_ms").is_not_null()).sort("start_ms")
    pieces = pieces.with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in (*names, *_OF_WINDOWS)
    )
    sources = inside["source"].unique().to_list()
    for source in sorted(sources, key=lambda name: (name not in SERVED, name)):
        some = inside.filter(pl.col("source") == source).sort("start_ms")
        told = some.select(*_KEY, "start_ms", until="end_ms", **{n: n for n in names})
        pieces = pieces.join_asof(
            told, on="start_ms", by=_KEY, strategy="backward", suffix="_new", check_sortedness=False
        )
        is_inside = pl.col("until") > pl.col("start_ms")
        told_busy = pl.when(is_inside).then("busy_ppm_new")
        is_first = pl.col("busy_ppm").is_null() & told_busy.is_not_null()
        pieces = pieces.with_columns(
            *(pl.coalesce(name, pl.when(is_inside).then(f"{name}_new")).alias(name)
              for name in names),
            device_ms=pl.when(is_first).then("until").otherwise("device_ms")
            if source == DEVICES else pl.col("device_ms"),
            loop_busy=told_busy if source == loops.SOURCE else pl.col("loop_busy"),
        ).select(*_KEY, "start_ms", "end_ms", *names, *_OF_WINDOWS)  # fmt: skip
    return _spread(pieces).select(*_KEY, "start_ms", "end_ms", *names)


_OF_WINDOWS = ("device_ms", "loop_busy")
"""Of a piece: until when the window of devices is that tells how busy they were; and what the loop
itself says of that."""


def _spread(pieces: pl.DataFrame) -> pl.DataFrame:
    """Pieces of one window of devices with as much idle time together as the window has.

    A window is longer than what loops tell: the devices of a loop that saved for the half of it
    were busy for the other half. What the loop does not explain lies where the loop says that it
    did nothing, and what more there is in equal parts of the rest.
    """
    length = pl.col("end_ms") - pl.col("start_ms")
    parts = [pl.col(f"{name}_ppm").fill_null(0) for name in ("checkpoint", "data", "communication")]
    explained = sum(parts, pl.lit(0)).clip(0, ONE_PPM)
    own = (ONE_PPM - pl.col("loop_busy") - pl.col("explained")).clip(0).fill_null(0)
    window = [*_KEY, "device_ms"]

    def mean(name: str) -> pl.Expr:
        return (pl.col(name) * length).sum().over(window) // length.sum().over(window).clip(1)

    told = pieces.with_columns(explained=explained).with_columns(own=own)
    told = told.with_columns(all_explained=mean("explained"), all_own=mean("own"))
    idle = (ONE_PPM - pl.col("busy_ppm") - pl.col("all_explained")).clip(0)
    first = pl.min_horizontal(idle, "all_own")
    room = ONE_PPM - pl.col("explained") - pl.col("own")
    all_room = ONE_PPM - pl.col("all_explained") - pl.col("all_own")
    mine = pl.col("own") * first // pl.col("all_own").clip(1)
    mine += room * (idle - first) // all_room.clip(1)
    busy = (ONE_PPM - pl.col("explained") - mine).clip(0, ONE_PPM)
    is_cut = pl.col("device_ms").is_not_null() & (pl.len().over(window) > 1)
    return told.with_columns(busy_ppm=pl.when(is_cut).then(busy).otherwise("busy_ppm"))


def _complete(windows: pl.DataFrame) -> pl.DataFrame:
    """All columns of windows, those that no source knows as null; and ``busy_seen``: of all GPUs,
    since one that nobody measured may have stood idle.
    """
    is_seen = (pl.col("source") == DEVICES) & pl.col("busy_ppm").is_not_null()
    is_seen &= pl.col("unseen_gpus").fill_null(0) == 0
    return windows.select(
        (pl.col(name) if name in windows.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in WINDOWS.items()
    ).with_columns(busy_seen=pl.when(is_seen).then(pl.lit(0, pl.Int64)))


def _divided() -> dict[str, pl.Expr]:
    """Shares of the window as the events have them: each of what the ones before it leave."""
    stall, data, links, busy, mfu, _, straggler, silent, unseen, _ = (
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
        "compared": pl.when(straggler.is_null()).then(_UNKNOWN).otherwise(_INFERRED),
        "straggler_ppm": straggler.fill_null(0),
        # who tells of its ranks says more than who samples its devices, unless no rank tells
        "silent_ppm": pl.when((silent == ONE_PPM) & busy.is_not_null())
        .then(unseen.fill_null(0))
        .otherwise(pl.coalesce(silent, unseen, 0)),
    }


def _changes(told: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Where one of these differs from the piece before it.

    At the first piece: from what was told before, or else from the default.
    """
    differs = [
        pl.col(name)
        != pl.coalesce(pl.col(name).shift(1).over(_KEY), f"{name}_before", _DEFAULTS[name])
        for name in names
    ]
    return told.filter(pl.any_horizontal(differs)).rename({"start_ms": "at_ms"})


def _figures(runs: pl.DataFrame, windows: pl.DataFrame, world: World | None) -> Iterator[I64]:
    """What devices measured of each attempt, where it is another step than before."""
    for figure, column in FIGURE_COLUMNS.items():
        keys = runs.select(*_KEY).iter_rows()
        before = [_figure_before(world, j, attempt, figure) for j, attempt in keys]
        known = runs.with_columns(before=pl.Series(before, dtype=pl.Int64))
        step, told = STEPS[figure], windows.filter(pl.col(column).is_not_null())
        told = told.select("job", value=pl.col(column), from_ms="start_ms", to_ms="end_ms")
        inside = known.join(told, on="job").with_columns(
            at_ms=pl.max_horizontal("from_ms", "start_ms"),
            until_ms=pl.min_horizontal("to_ms", "end_ms"),
            value=(pl.col("value") + step // 2) // step * step,
        )
        inside = inside.filter(pl.col("at_ms") < pl.col("until_ms")).sort(*_KEY, "at_ms")
        rows = [inside, _unmeasured(inside), _unmeasured_first(known, inside)]
        joined = pl.concat([some.select(*_KEY, "at_ms", "value", "before") for some in rows])
        joined = joined.sort(*_KEY, "at_ms", "value")
        earlier = pl.coalesce(pl.col("value").shift(1).over(_KEY), "before")
        changes = joined.filter(pl.col("value") != earlier)
        source = int(FIGURE_SOURCES.get(figure, FigureSource.DCGM))
        fixed = {EventColumn.WHY: int(figure), EventColumn.TO: source}
        yield _rows(changes, ev.FigureSeen, {EventColumn.VALUE: "value"}, fixed)


def _unmeasured(inside: pl.DataFrame) -> pl.DataFrame:
    """Where a window ends, and neither another one begins nor its attempt ends."""
    after = pl.col("at_ms").shift(-1).over(_KEY).fill_null(FOREVER_MS)
    is_gap = (pl.col("until_ms") < after) & (pl.col("until_ms") < pl.col("end_ms"))
    return inside.filter(is_gap).with_columns(at_ms="until_ms", value=pl.lit(-1, pl.Int64))


def _unmeasured_first(runs: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """Attempts of which something was told before, and nothing from the beginning on."""
    first = runs.filter(pl.col("before") >= 0).with_columns(at_ms="start_ms")
    without = first.join(inside.select(*_KEY, "at_ms"), on=[*_KEY, "at_ms"], how="anti")
    return without.with_columns(value=pl.lit(-1, pl.Int64))


def _figure_before(world: World | None, j: int, attempt: int, figure: DeviceFigure) -> int:
    """What the journal says of an attempt; -1: nothing."""
    if world is None or j >= world.job_count or world.jobs.attempt.item(j) != attempt:
        return -1
    return max(-1, figure_of(world.matrices.jobs.item(j, JOB.FIGURES), figure))


def _numbers(nodes: Sequence[SeenNode], world: World | None) -> dict[str, int]:
    """The nodes of the journal by number; of one that was gone and came again the last."""
    machines = {node.machine_name: node.name for node in reversed(nodes)}  # its first part
    if world is None:
        found = {node.name: n for n, node in enumerate(nodes)}
    else:
        numbers = world.node_number
        found = {telling.origin(name, numbers): n for name, n in numbers.items()}
    return {name: found[part] for name, part in machines.items() if part in found} | found


def _errors(
    errors: pl.DataFrame, numbers: Mapping[str, int], books_ms: tuple[int, int], world: World | None
) -> I64:
    """Errors that drivers reported, on nodes that the journal has, in the time that is told."""
    since_ms = books_ms[0] + (0 if world is None else world.now_ms)
    number = pl.col("node").replace_strict(dict(numbers), default=None, return_dtype=pl.Int64)
    told = errors.with_columns(number=number, attempt=pl.lit(0)).filter(
        pl.col("number").is_not_null() & pl.col("at_ms").is_between(since_ms, books_ms[1] - 1)
    )
    named = {EventColumn.VALUE: "xid", EventColumn.TO: "minor"}
    return _rows(told.sort("at_ms", "number", "minor", "xid"), ev.DeviceErrorSeen, named)


def devices_of(measured: Measurements | None, begins_ms: int) -> list[DeviceNamed]:
    """Which cards drivers reported errors of, where somebody said."""
    if measured is None:
        return []
    told = measured.errors.filter(pl.col("uuid").fill_null("") != "")
    return [
        DeviceNamed(at_ms - begins_ms, node, minor, uuid)
        for at_ms, node, minor, uuid in told.select("at_ms", "node", "minor", "uuid").iter_rows()
    ]


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
