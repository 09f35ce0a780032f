"""Attempts made fit for the books: what contradicts itself is mended or left out, and counted."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from tidemill.live.history.rows import ATTEMPTS, AttemptEnd
from tidemill.model.rows import MAX_DEVICES

LONGEST_NAME = 200
MOST_GPUS = 1_000_000
UNNAMED_SIZE = 8
"""GPUs of each node of a fleet whose nodes nobody names; nothing depends on it but their number."""


class Sorted(NamedTuple):
    """Attempts by job and start, and jobs in the order of their submission."""

    attempts: pl.DataFrame
    """As ``ATTEMPTS``, with ``number`` (of its job), ``attempt`` (from 1) and ``is_last``."""
    jobs: pl.DataFrame
    """One row per job, by number: the first of its attempts, and when it was submitted."""
    notes: tuple[str, ...]
    """What was mended or left out, in words."""


def put_in_order(
    told: pl.DataFrame, from_ms: int | None = None, until_ms: int | None = None
) -> Sorted:
    """Sort what a source told; what ended before the window, or begins after it, does not count."""
    notes: list[str] = []
    rows = _complete(told)
    rows = _keep(rows, pl.col("gpus").is_not_null(), notes, "nobody says whether it had GPUs")
    rows = _keep(rows, pl.col("gpus") != 0, notes, "requested no GPU")
    most = f"not 1 to {MOST_GPUS:,} GPUs"
    rows = _keep(rows, pl.col("gpus").is_between(1, MOST_GPUS), notes, most)
    rows = _keep(
        rows, pl.col("submit_ms").is_not_null(), notes, "nobody knows when it was submitted"
    )
    whole = pl.col("start_ms").is_null() | pl.col("end_ms").is_null()
    rows = _keep(
        rows, whole | (pl.col("end_ms") >= pl.col("start_ms")), notes, "ended before it started"
    )
    is_over = ~pl.col("outcome").is_in([AttemptEnd.WAITING, AttemptEnd.RUNNING])
    rows = _keep(
        rows, pl.col("end_ms").is_not_null() | ~is_over, notes, "nobody knows when it ended"
    )
    rows = _inside(rows, from_ms, until_ms, notes)
    rows = rows.unique(maintain_order=True)
    early = rows.select((pl.col("start_ms") < pl.col("submit_ms")).sum()).item() or 0
    if early:
        notes.append(f"{early:,} attempts started before their submission: taken as submitted then")
    rows = rows.with_columns(submit_ms=pl.min_horizontal("submit_ms", "start_ms"))
    return _numbered(rows, notes)


def _inside(
    rows: pl.DataFrame, from_ms: int | None, until_ms: int | None, notes: list[str]
) -> pl.DataFrame:
    """What of a history lies in the window; what goes on beyond its end still waits or runs."""
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
    if from_ms is not None:
        is_inside = pl.col("end_ms").is_null() | (pl.col("end_ms") > from_ms)
        rows = _keep(rows, is_inside, notes, "ended before the window")
        if early := rows.select((pl.col("submit_ms") < from_ms).sum()).item():
            notes.append(
                f"{early:,} attempts were submitted before the window: they wait from its beginning"
            )
        rows = rows.with_columns(
            submit_ms=pl.col("submit_ms").clip(from_ms), start_ms=pl.col("start_ms").clip(from_ms)
        )
    return rows


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
        memory_mib=pl.coalesce("memory_mib", 0),
    )


def _keep(rows: pl.DataFrame, wanted: pl.Expr, notes: list[str], why: str) -> pl.DataFrame:
    kept = rows.filter(wanted)
    if left := len(rows) - len(kept):
        attempts = "1 attempt" if left == 1 else f"{left:,} attempts"
        notes.append(f"{attempts} left out: {why}")
    return kept


def _numbered(rows: pl.DataFrame, notes: list[str]) -> Sorted:
    rows = rows.sort("job", "start_ms", "submit_ms", nulls_last=True, maintain_order=True)
    by_job = pl.col("job")
    has_next = pl.col("start_ms").shift(-1).over(by_job).is_not_null()
    is_nothing = (pl.col("end_ms") == pl.col("start_ms")).fill_null(value=False)
    rows = _keep(rows, ~(has_next & is_nothing), notes, "no time passed in it")
    rows = rows.with_columns(
        attempt=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(by_job),
        is_last=pl.int_range(pl.len(), dtype=pl.Int64).over(by_job) == pl.len().over(by_job) - 1,
        next_ms=pl.col("start_ms").shift(-1).over(by_job),
        first_submit_ms=pl.col("submit_ms").min().over(by_job),
    )
    late = pl.col("next_ms").is_not_null() & (
        pl.col("end_ms").is_null() | (pl.col("end_ms") > pl.col("next_ms"))
    )
    if overlaps := rows.select(late.sum()).item():
        notes.append(f"{overlaps:,} attempts overlap the next of their job: ended where it starts")
    rows = rows.with_columns(
        end_ms=pl.when(late).then(pl.col("next_ms")).otherwise(pl.col("end_ms")),
        outcome=pl.when(late & (pl.col("outcome") == AttemptEnd.RUNNING))
        .then(pl.lit(AttemptEnd.REQUEUED))
        .otherwise(pl.col("outcome")),
    )
    rows = rows.filter(pl.col("is_last") | pl.col("start_ms").is_not_null())
    rows = rows.with_columns(up_ms=_up_ms())
    rows = _divided(rows)
    jobs = rows.unique("job", keep="first", maintain_order=True)
    jobs = jobs.sort("first_submit_ms", "job").with_columns(
        number=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    rows = rows.join(jobs.select("job", "number"), on="job", maintain_order="left")
    return Sorted(rows.drop("next_ms"), jobs, tuple(notes))


def _up_ms() -> pl.Expr:
    """Since when an attempt works: not before it holds its GPUs, and before it has ended."""
    up = pl.max_horizontal("start_ms", "up_ms")
    last = pl.max_horizontal(pl.col("start_ms"), pl.col("end_ms") - 1)
    return pl.when(pl.col("end_ms").is_null()).then(up).otherwise(pl.min_horizontal(up, last))


def _divided(rows: pl.DataFrame) -> pl.DataFrame:
    """How many replicas of how many GPUs each attempt is: one per node, where that comes out.

    Where nobody said on which nodes an attempt ran, each of its GPUs is by itself.
    """
    nodes = pl.max_horizontal(
        pl.col("nodes").list.len().cast(pl.Int64).fill_null(0), pl.col("node_count").fill_null(0)
    )
    is_somewhere = pl.col("start_ms").is_null() | (pl.col("nodes").list.len().fill_null(0) > 0)
    is_even = is_somewhere & (nodes > 0) & (pl.col("gpus") % nodes.clip(1) == 0)
    is_even &= pl.col("gpus") // nodes.clip(1) <= MAX_DEVICES
    kinds = {kind: kind_of(kind) for kind in rows["gpu_type"].unique().to_list() if kind}
    return rows.with_columns(
        replicas=pl.when(is_even).then(nodes).otherwise(pl.col("gpus")),
        each=pl.when(is_even).then(pl.col("gpus") // nodes.clip(1)).otherwise(1),
        kind=pl.col("gpu_type").replace(kinds),
    )


def kind_of(gpu_type: str) -> str:
    """What the books call a GPU type; one that nobody named is just a GPU."""
    return gpu_type.strip().upper() or "GPU"


def most_at_once(rows: pl.DataFrame) -> Iterator[tuple[str, int, str]]:
    """The most GPUs that attempts held of each node at one time, with their GPU type.

    What each attempt held of each of its nodes is its share, rounded up.
    """
    held = (
        rows.filter(pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0))
        .with_columns(
            each=(pl.col("gpus") + pl.col("nodes").list.len() - 1) // pl.col("nodes").list.len()
        )
        .select("nodes", "start_ms", "end_ms", "each", "gpu_type")
        .explode("nodes")
    )
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


def most_unnamed(rows: pl.DataFrame) -> tuple[int, str]:
    """The most GPUs that attempts held at one time of which nobody says where, and their type."""
    is_somewhere = pl.col("nodes").list.len().fill_null(0) > 0
    held = rows.filter(pl.col("start_ms").is_not_null() & ~is_somewhere)
    if not len(held):
        return 0, ""
    everywhere = held.with_columns(nodes=pl.lit(["everywhere"], dtype=pl.List(pl.String)))
    ((_, most, kind),) = most_at_once(everywhere)
    return most, kind
