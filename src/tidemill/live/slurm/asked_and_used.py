"""What rows of jobs say of what was asked of nodes, and used of them, as columns of attempts."""

import polars as pl

from tidemill.model.measures import ONE_PPM


def used() -> dict[str, pl.Expr]:
    """What attempts that are over used of their CPUs and memory, as `seff` counts it."""
    length_ms = pl.col("end_ms") - pl.col("start_ms") - pl.col("suspended_ms").fill_null(0)
    had_ms = pl.coalesce("cpus", "tres_cpus") * length_ms
    is_told = pl.col("cpu_used_ms").is_not_null() & (had_ms > 0)
    asked = pl.col("memory_mib") * (1 << 20)
    peak_ppm = pl.col("peak_bytes") / asked * ONE_PPM
    return {
        "cpu_used_ms": pl.when(is_told).then("cpu_used_ms"),
        "cpu_had_ms": pl.when(is_told).then(had_ms),
        "memory_used_ppm": pl.when((asked > 0) & pl.col("end_ms").is_not_null())
        .then(peak_ppm.round().cast(pl.Int64)),
    }  # fmt: skip


def is_per_node() -> pl.Expr:
    """Whether a job asked for so many GPUs on each node, or is one task, which is on one node.

    Null: nobody says, as in `sacct`. Others (`--gpus`, `--gpus-per-task`) may be spread.
    """
    is_each = pl.col("tres_per_node").str.contains("gpu").fill_null(value=False)
    is_known = pl.col("tasks").is_not_null()
    return pl.when(is_each | is_known).then(is_each | (pl.col("tasks") == 1))
