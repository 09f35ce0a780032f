"""Attempts made fit for the books: what contradicts itself is mended or left out, and counted."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.history import by_job, telling
from tidemill.live.history.rows import ATTEMPTS, NEVER_UP_MS, AttemptEnd
from tidemill.live.history.telling import Late, ToldJobs
from tidemill.model.rows import MAX_DEVICES, MAX_REQUESTED, Shape
from tidemill.model.tables import I64

LONGEST_NAME = 200
MOST_GPUS = 1_000_000
LATEST_MS = 4_102_444_800_000
"""The year 2100: later than that is another unit, or a date that stands for "never"."""
_OF_JOBS = (
    "team", "user", "limit_ms", "priority", "cpus", "memory_mib", "is_eligible", "told_submit_ms",
)  # fmt: skip
"""What is asked of a job, by what its first attempt says."""
_OF_BOTH = ("job", "cluster", "kind", "shape", "each", "replicas")
UNNAMED_SIZE = 8
"""At most so many GPUs has each node of a fleet whose nodes nobody names."""


class Sorted(NamedTuple):
    """Attempts by job and start, and jobs in the order of their submission."""

    attempts: pl.DataFrame
    """As ``ATTEMPTS``, with ``number`` (of its job), ``attempt`` (from 1), ``is_last``, and
    ``is_told`` where the journal has its start already; of a history that is told at once without
    what is asked of jobs alone."""
    jobs: pl.DataFrame
    """One row per job that is new, by number: what the first of its attempts says of what it
    requests and whose it is, and when it was submitted."""
    notes: tuple[str, ...]
    """What was mended or left out, in words."""
    late: Late = telling.NOTHING_LATE
    """What came to light only after its time was told."""
    freed: tuple[tuple[int, int], ...] = ()
    """Jobs that waited for something else than GPUs, and since when for GPUs."""


class Sequenced(NamedTuple):
    """All that a source told, attempt after attempt of each job; no window was cut of it yet."""

    rows: pl.DataFrame
    notes: tuple[str, ...]


def sequence(told: pl.DataFrame) -> Sequenced:
    """What of a source's rows can be, each job's in the order of time."""
    notes: list[str] = []
    return Sequenced(_sequenced(_sound(_complete(told), notes), notes), tuple(notes))


def put_in_order(
    told: pl.DataFrame,
    from_ms: int | None = None,
    until_ms: int | None = None,
    *,
    is_used_up: bool = False,
) -> Sorted:
    """Sort what a source told; what ended before the window, or begins after it, does not count.

    ``is_used_up``: nobody needs what was told after this, and its columns are dropped on the way.
    """
    notes = list[str]()
    sound = _sound(_complete(told), notes)
    are_several = by_job.distinct(sound.select("job", "user")) > by_job.distinct(
        sound.select("job")
    )
    for name in told.columns if is_used_up and not are_several else ():
        told.drop_in_place(name)
    rows = _sequenced(sound, notes)
    if are_several and rows.select((by_job.before(pl.col("user")) != pl.col("user")).any()).item():
        apart, several = _by_user(_complete(told))
        rows, (*notes,) = sequence(apart)
        notes.append(several)
    rows = _done_before(rows)
    rows = _since(_until(rows, until_ms, notes), from_ms, notes)
    ordered = _numbered(telling.as_new(_divided(rows)), 0, notes)
    return ordered._replace(attempts=ordered.attempts.drop(_OF_JOBS))


def go_on(
    told: Sequenced,
    known: ToldJobs,
    mark_ms: int,
    until_ms: int,
    with_ups: Callable[[pl.DataFrame], pl.DataFrame],
    sizes: Mapping[str, int],
) -> Sorted:
    """What rows add to the jobs of a journal that was told up to the watermark.

    ``with_ups``: says of attempts when they came up, if somebody else knows that. ``sizes``: how
    many GPUs nodes have.
    """
    notes = list[str]()
    rows = told.rows.with_columns(shown_end_ms="end_ms")  # also of the time after the window
    rows = _divided(_until(rows, until_ms, notes), is_going_on=True)
    rows = _by_gpu(rows, _too_large(rows, sizes)["job"])
    met = telling.meet(rows, known, mark_ms)
    ups = with_ups(met.rows.with_columns(end_ms="shown_end_ms"))["up_ms"]
    rows = met.rows.drop("shown_end_ms").with_columns(up_ms=ups, told_submit_ms="submit_ms")
    rows = rows.with_columns(
        pl.col(name).clip(mark_ms) for name in ("submit_ms", "start_ms", "up_ms", "end_ms")
    )
    rows = _without_nothing(rows)
    return _numbered(rows, known.count, notes)._replace(late=met.late, freed=met.freed)


def _without_nothing(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without attempts of which no time is left to tell, where another begins at that moment.

    Both came to light late, and happen at the watermark: their events would stand in any order.
    """
    start, is_changed = pl.col("start_ms"), pl.col("outcome") == AttemptEnd.CHANGED
    is_over = (pl.col("end_ms") == start) & (by_job.after(start) == start)
    is_nothing = (is_over & ~is_changed & ~pl.col("is_told")).fill_null(value=False)
    attempt = pl.col("attempt") - by_job.counted(is_nothing)
    return rows.with_columns(attempt=attempt).filter(~is_nothing)


def _by_user(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Rows in which jobs of several users that have one name have several; and that in words.

    A number comes again when a cluster has counted to its end, or when its accounting was begun
    anew; a name that people choose comes at any time. The first keeps it.
    """
    first_ms = pl.col("submit_ms").min().over("job", "user").fill_null(0)
    told = rows.with_columns(since=pl.struct(first_ms.alias("first_ms"), "user"))
    is_later = pl.col("since").rank("dense").over("job") > 1
    name = pl.when(is_later).then(pl.format("{}@{}", "job", "user")).otherwise("job")
    names = told.filter(is_later)["job"].unique().sort()
    shown = ", ".join(f"`{one}`" for one in names.head(3))
    words = f"several users have jobs called {shown}" + (" and more" if len(names) > 3 else "")
    said = f"{words}: the first keeps the name, others are `{names[0]}@USER` on the books"
    return told.with_columns(job=name).drop("since"), said


def _done_before(rows: pl.DataFrame) -> pl.DataFrame:
    """Sequenced rows; what was submitted after its job was done is another job: `123#2`.

    It did not wait in between. One that failed or was stopped may have been tried again.
    """
    was_done = by_job.before(pl.col("outcome")) == AttemptEnd.DONE
    is_new = was_done & (pl.col("submit_ms") > by_job.before(pl.col("end_ms")))
    rows = rows.with_columns(is_new=is_new.fill_null(value=False))
    if not rows["is_new"].any():
        return rows.drop("is_new")
    life = by_job.counted(pl.col("is_new")) + 1
    return rows.with_columns(
        is_last=pl.col("is_last") | by_job.after(pl.col("is_new")).fill_null(value=False),
        job=pl.when(life > 1).then(pl.format("{}#{}", "job", life)).otherwise("job"),
    ).drop("is_new")


def tells_submissions(told: pl.DataFrame) -> bool:
    """Whether a source says when jobs were submitted; if not, they count from their start on."""
    return not told["submit_ms"].is_null().all()


def _sound(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Rows that can be: with GPUs and times in their order."""
    rows = _keep(rows, pl.col("gpus").is_not_null(), notes, "nobody says whether it had GPUs")
    rows = _keep(rows, pl.col("gpus") != 0, notes, "requested no GPU")
    most = f"not 1 to {MOST_GPUS:,} GPUs"
    rows = _keep(rows, pl.col("gpus").is_between(1, MOST_GPUS), notes, most)
    last_ms = pl.max_horizontal("submit_ms", "start_ms", "end_ms")
    rows = _keep(rows, last_ms.fill_null(0) <= LATEST_MS, notes, "has a time after the year 2100")
    if not tells_submissions(rows):
        rows = rows.with_columns(submit_ms="start_ms")
    rows = _keep(
        rows, pl.col("submit_ms").is_not_null(), notes, "nobody knows when it was submitted"
    )
    whole = pl.col("start_ms").is_null() | pl.col("end_ms").is_null()
    rows = _keep(
        rows, whole | (pl.col("end_ms") >= pl.col("start_ms")), notes, "ended before it started"
    )
    is_later = pl.col("start_ms").is_not_null() | pl.col("end_ms").is_null()
    is_later |= pl.col("end_ms") >= pl.col("submit_ms")
    rows = _keep(rows, is_later, notes, "ended before it was submitted")
    is_over = ~pl.col("outcome").is_in([AttemptEnd.WAITING, AttemptEnd.RUNNING])
    rows = _keep(
        rows, pl.col("end_ms").is_not_null() | ~is_over, notes, "nobody knows when it ended"
    )
    times = rows.select("job", "submit_ms", "start_ms", "end_ms")
    if by_job.distinct(times) < len(rows):
        rows = rows.unique(maintain_order=True)
    early = rows.select((pl.col("start_ms") < pl.col("submit_ms")).sum()).item() or 0
    if early:
        notes.append(f"{_many(early)} started before submission: taken as submitted then")
    return rows.with_columns(submit_ms=pl.min_horizontal("submit_ms", "start_ms"))


def _sequenced(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """The attempts of each job one after the other, each over when the next begins.

    Which is the last is said by all that is known, also of the time after a window: a job whose
    next attempt is yet to come waits. ``rows`` are used up.
    """
    keys = ("job", "start_ms", "submit_ms")
    told = rows.select(*keys).with_row_index("row")
    told = told.sort(*keys, nulls_last=True, maintain_order=True)
    rows = by_job.taken(rows, told["row"])
    start = pl.col("start_ms")
    is_nothing = (pl.col("end_ms") == start) & (by_job.after(start) == start)
    rows = _keep(rows, ~is_nothing.fill_null(value=False), notes, "no time passed in it")
    rows = rows.with_columns(is_last=by_job.is_last(), next_ms=by_job.after(start))
    late = pl.col("next_ms").is_not_null() & (
        pl.col("end_ms").is_null() | (pl.col("end_ms") > pl.col("next_ms"))
    )
    if overlaps := rows.select(late.sum()).item():
        notes.append(f"{_many(overlaps)} not over when the next of the job starts: ended there")
    is_rest = start.is_null() & pl.col("end_ms").is_not_null()
    ran_ms = pl.when(start.is_not_null()).then("end_ms").max().over("job")
    return rows.with_columns(
        end_ms=pl.when(late)
        .then(pl.col("next_ms"))
        .when(is_rest)  # what never began ends no earlier than what ran
        .then(pl.max_horizontal("end_ms", ran_ms))
        .otherwise(pl.col("end_ms")),
        outcome=pl.when(late & (pl.col("outcome") == AttemptEnd.RUNNING))
        .then(pl.lit(AttemptEnd.REQUEUED))
        .otherwise(pl.col("outcome")),
    ).drop("next_ms")


def _until(rows: pl.DataFrame, until_ms: int | None, notes: list[str]) -> pl.DataFrame:
    """What of a history is known at the end of the window; what goes on beyond waits or runs."""
    if until_ms is not None:
        rows = _keep(rows, pl.col("submit_ms") <= until_ms, notes, "submitted after the window")
        is_later = pl.col("end_ms").fill_null(until_ms + 1) > until_ms
        has_begun = (pl.col("start_ms") <= until_ms).fill_null(value=False)
        now = (
            pl.when(has_begun)
            .then(pl.lit(AttemptEnd.RUNNING))
            .otherwise(pl.lit(AttemptEnd.WAITING))
        )
        rows = rows.with_columns(
            outcome=pl.when(is_later).then(now).otherwise(pl.col("outcome")),
            start_ms=pl.when(has_begun).then(pl.col("start_ms")),
            end_ms=pl.when(~is_later).then(pl.col("end_ms")),
        )
    is_known = by_job.is_last() | pl.col("start_ms").is_not_null()
    return _only(rows, is_known).with_columns(up_ms=_up_ms())


def _up_ms() -> pl.Expr:
    """Since when an attempt works: not before it holds its GPUs, and before it has ended.

    What was done was at work, whoever says that it never was.
    """
    up = pl.max_horizontal("start_ms", "up_ms")
    last = pl.max_horizontal(pl.col("start_ms"), pl.col("end_ms") - 1)
    is_never = up >= NEVER_UP_MS
    known = (
        pl.when(is_never & (pl.col("outcome") == AttemptEnd.DONE))
        .then("start_ms")
        .when(is_never | pl.col("end_ms").is_null())
        .then(up)
        .otherwise(pl.min_horizontal(up, last))
    )
    return pl.when(pl.col("start_ms").is_not_null()).then(known)  # else it never held any


def _since(rows: pl.DataFrame, from_ms: int | None, notes: list[str]) -> pl.DataFrame:
    """What of a history is known from the beginning of the window on.

    When an attempt was really submitted is in ``told_submit_ms``.
    """
    rows = rows.with_columns(told_submit_ms="submit_ms")
    if from_ms is None:
        return rows
    is_inside = pl.col("end_ms").is_null() | (pl.col("end_ms") > from_ms)
    rows = _keep(rows, is_inside, notes, "ended before the window")
    if early := rows.select((pl.col("submit_ms") < from_ms).sum()).item():
        notes.append(f"{_many(early)} submitted before the window: in no wait of the ledger")
    return rows.with_columns(
        pl.col(name).clip(from_ms) for name in ("submit_ms", "start_ms", "up_ms")
    )


def _complete(told: pl.DataFrame) -> pl.DataFrame:
    """All columns, with their types; those that a source does not know are null."""
    missing = [name for name in ("job", "submit_ms", "gpus") if name not in told.columns]
    assert not missing, f"a source must tell {missing}"
    rows = told.select(
        (pl.col(name) if name in told.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in ATTEMPTS.items()
    )
    started = pl.col("start_ms").is_not_null()
    guess = (
        pl.when(pl.col("end_ms").is_not_null())
        .then(
            pl.when(started).then(pl.lit(AttemptEnd.DONE)).otherwise(pl.lit(AttemptEnd.CANCELLED))
        )
        .otherwise(
            pl.when(started).then(pl.lit(AttemptEnd.RUNNING)).otherwise(pl.lit(AttemptEnd.WAITING))
        )
    )
    return rows.with_columns(
        outcome=pl.coalesce("outcome", guess),
        team=pl.coalesce("team", pl.lit("unknown")).str.slice(0, LONGEST_NAME),
        user=pl.coalesce("user", pl.lit("")).str.slice(0, LONGEST_NAME),
        gpu_type=pl.coalesce("gpu_type", pl.lit("")),
        job=pl.col("job").str.slice(0, LONGEST_NAME),
        limit_ms=pl.coalesce("limit_ms", 0).clip(0),
        priority=pl.coalesce("priority", 0).clip(-1_000_000, 1_000_000),
        cpus=pl.coalesce("cpus", 0),
        is_eligible=pl.coalesce("is_eligible", pl.lit(value=True)),
        is_per_node=pl.coalesce("is_per_node", pl.lit(value=False)),
        memory_mib=pl.coalesce("memory_mib", 0),
    )


def _many(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count:,} attempts"


def _keep(rows: pl.DataFrame, wanted: pl.Expr, notes: list[str], why: str) -> pl.DataFrame:
    kept = _only(rows, wanted)
    if left := len(rows) - len(kept):
        notes.append(f"{_many(left)} left out: {why}")
    return kept


def _only(rows: pl.DataFrame, wanted: pl.Expr) -> pl.DataFrame:
    """The rows of which this is so: no others, if it is so of all, as nearly always."""
    is_so = rows.select(is_so=wanted)["is_so"].fill_null(value=False)
    return rows if is_so.all() else rows.filter(is_so)


def _numbered(rows: pl.DataFrame, first: int, notes: list[str]) -> Sorted:
    """Numbers for jobs that have none yet, in the order of submission, from the first free one."""
    is_new = rows["number"].is_null().to_numpy()
    fresh = _only(rows, pl.col("number").is_null())
    is_first = fresh.select(is_first=by_job.is_first())["is_first"].to_numpy()
    firsts = np.flatnonzero(is_first)
    submits = fresh["submit_ms"].to_numpy()
    submits = np.minimum.reduceat(submits, firsts) if len(firsts) else submits
    jobs = fresh.select(*_OF_BOTH, *_OF_JOBS).filter(is_first)
    jobs = jobs.with_columns(first_submit_ms=pl.Series(submits, dtype=pl.Int64))
    told = jobs.select("first_submit_ms", "job").with_row_index("row")
    order = told.sort("first_submit_ms", "job")["row"]
    given: I64 = np.empty(len(jobs), np.int64)
    given[order.to_numpy()] = first + np.arange(len(jobs))
    jobs = by_job.taken(jobs, order)
    jobs = jobs.with_columns(number=first + pl.int_range(pl.len(), dtype=pl.Int64))
    number: I64 = rows["number"].fill_null(0).to_numpy().copy()
    number[is_new] = given[np.cumsum(is_first) - 1]
    return Sorted(rows.with_columns(number=pl.Series(number)), jobs, tuple(notes))


def _divided(rows: pl.DataFrame, *, is_going_on: bool = False) -> pl.DataFrame:
    """How many replicas of how many GPUs each attempt is: one per node, where that comes out.

    Where nobody said on which nodes an attempt ran, each of its GPUs is by itself; so too where it
    waits and is yet to be placed (``is_going_on``), unless it asked for so many on each node. All
    attempts of a job are divided alike, for it is one job.
    """
    nodes = pl.max_horizontal(
        pl.col("nodes").list.len().cast(pl.Int64).fill_null(0), pl.col("node_count").fill_null(0)
    )
    waits = pl.col("start_ms").is_null()
    if is_going_on:
        waits &= pl.col("is_per_node") | pl.col("end_ms").is_not_null()
    is_somewhere = waits | (pl.col("nodes").list.len().fill_null(0) > 0)
    is_even = is_somewhere & (nodes > 0) & (pl.col("gpus") % nodes.clip(1) == 0)
    most = pl.when(pl.col("start_ms").is_null()).then(MAX_REQUESTED).otherwise(MAX_DEVICES)
    is_even &= pl.col("gpus") // nodes.clip(1) <= most
    kinds = {kind: kind_of(kind) for kind in rows["gpu_type"].unique().to_list() if kind}
    rows = rows.with_columns(
        each=pl.when(is_even).then(pl.col("gpus") // nodes.clip(1)).otherwise(1),
        kind=pl.col("gpu_type").replace(kinds),
    )
    is_other = (by_job.before(pl.col("each")) != pl.col("each")).fill_null(value=False)
    uneven = rows.filter(is_other)["job"].unique()
    rows = rows.with_columns(
        each=pl.when(pl.col("job").is_in(uneven.implode())).then(1).otherwise("each")
    )
    return rows.with_columns(replicas=pl.col("gpus") // pl.col("each"))


def fit(ordered: Sorted, sizes: Mapping[str, int]) -> Sorted:
    """Jobs of which a replica is larger than its node are divided by GPU: what is there is booked.

    ``sizes``: how many GPUs nodes have.
    """
    large = _too_large(ordered.attempts, sizes)
    if not len(large):
        return ordered
    job, each, node = large.sort("job").row(0)
    are = "1 attempt had" if len(large) == 1 else f"{len(large):,} attempts had"
    words = f"{are} more GPUs than the node is listed with (`{job}`: {each} on {node}, listed with"
    words += f" {sizes[node]}): booked are those that it has"
    return ordered._replace(
        attempts=_by_gpu(ordered.attempts, large["job"]),
        jobs=_by_gpu(ordered.jobs, large["job"]),
        notes=(*ordered.notes, words),
    )


def _too_large(rows: pl.DataFrame, sizes: Mapping[str, int]) -> pl.DataFrame:
    """Attempts with replicas that have more GPUs than their node: job, GPUs, first such node."""
    is_apart = pl.col("start_ms").is_not_null() & pl.col("shape").is_null()
    least = min(sizes.values(), default=MAX_DEVICES)
    some = rows.select("job", "each", "nodes", "start_ms", "shape").with_row_index("row")
    some = some.filter(is_apart & (pl.col("each") > least)).explode("nodes")
    size = pl.col("nodes").replace_strict(sizes, default=MAX_DEVICES, return_dtype=pl.Int64)
    large = some.filter(pl.col("nodes").is_not_null() & (pl.col("each") > size))
    return large.unique("row", keep="first", maintain_order=True).select("job", "each", "nodes")


def _by_gpu(rows: pl.DataFrame, jobs: pl.Series) -> pl.DataFrame:
    """Rows in which each GPU of these jobs is a replica by itself."""
    if not len(jobs):
        return rows
    is_one = pl.col("job").is_in(jobs.unique().to_list())
    gpus = pl.col("each") * pl.col("replicas")
    return rows.with_columns(
        each=pl.when(is_one).then(1).otherwise("each").cast(pl.Int64),
        replicas=pl.when(is_one).then(gpus).otherwise("replicas").cast(pl.Int64),
    )


def kind_of(gpu_type: str) -> str:
    """What the books call a GPU type; one that nobody named is just a GPU."""
    return gpu_type.strip().upper() or "GPU"


def most_at_once(
    rows: pl.DataFrame, listed: Collection[str] = (), shapes: Sequence[Shape] = ()
) -> Iterator[tuple[str, int, str]]:
    """The most GPUs that attempts held of each node at one time, with their GPU type.

    What each attempt held of each of its nodes is its share, rounded up; with one of the
    ``shapes``, what the replica there requests. Nodes that are ``listed`` are left out.
    """
    there = rows.select("nodes", "start_ms", "end_ms", "gpus", "gpu_type", "shape", "roles")
    there = there.filter(pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0))
    held = pl.concat([_in_shares(there), *_by_role(there, shapes)])
    held = held.filter(~pl.col("nodes").is_in(list(listed)))
    begun = held.select("nodes", "gpu_type", at="start_ms", change="each")
    ended = held.filter(pl.col("end_ms").is_not_null()).select(
        "nodes", "gpu_type", at="end_ms", change=-pl.col("each")
    )
    found = (
        pl.concat([begun, ended])
        .sort("nodes", "at", "change")
        .with_columns(level=pl.col("change").cum_sum().over("nodes"))
        .group_by("nodes")
        .agg(pl.col("level").max(), pl.col("gpu_type").max())
        .sort("nodes")
    )
    yield from found.iter_rows()


def _in_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """What attempts that are told by columns held of each node: equal shares."""
    plain = rows.filter(pl.col("shape").is_null() | pl.col("roles").is_null())
    count = pl.col("nodes").list.len()
    shares = plain.with_columns(each=(pl.col("gpus") + count - 1) // count)
    return shares.select("nodes", "start_ms", "end_ms", "each", "gpu_type").explode("nodes")


def _by_role(rows: pl.DataFrame, shapes: Sequence[Shape]) -> Iterator[pl.DataFrame]:
    """What attempts that are told by shapes held of each node: whole GPUs of each replica there."""
    told = rows.filter(pl.col("shape").is_not_null() & pl.col("roles").is_not_null())
    if not len(told):
        return
    requests = [
        (s, r, role.accelerators, role.kinds[0] if len(role.kinds) == 1 else None)
        for s in told["shape"].unique().to_list()
        for r, role in enumerate(shapes[s].roles)
    ]
    names = {"shape": pl.Int64, "roles": pl.Int64, "each": pl.Int64, "kind": pl.String}
    asked = pl.DataFrame(requests, schema=names, orient="row")
    seats = told.select("nodes", "roles", "shape", "start_ms", "end_ms", "gpu_type")
    seats = seats.explode("nodes", "roles").join(asked, on=["shape", "roles"], how="left")
    kind = pl.coalesce("kind", "gpu_type").alias("gpu_type")
    yield seats.select("nodes", "start_ms", "end_ms", "each", kind)


def most_unnamed(rows: pl.DataFrame) -> Iterator[tuple[str, int]]:
    """The most GPUs of each type that attempts held at one time of which nobody says where."""
    is_somewhere = pl.col("nodes").list.len().fill_null(0) > 0
    held = rows.filter(pl.col("start_ms").is_not_null() & ~is_somewhere)
    everywhere = held.with_columns(nodes=pl.concat_list("gpu_type"))
    for kind, most, _ in most_at_once(everywhere):
        yield kind, most
