"""What attempts used of their CPUs and memory, as columns of rows of jobs."""

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
