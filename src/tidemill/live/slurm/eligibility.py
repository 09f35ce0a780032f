"""Since when jobs wait for GPUs: those that are held, or wait for others to end, are no demand."""

from collections.abc import Collection

import polars as pl

HELD = (
    "JobHeldUser", "JobHeldAdmin", "Dependency", "DependencyNeverSatisfied", "BeginTime",
    "JobHoldMaxRequeue", "launch_failed_requeued_held", "job_requeued_in_held_state",
)  # fmt: skip
"""Reasons of jobs that no free GPU would start."""
IS_PUT_OFF = pl.col("reason").str.replace_all(" ", "_", literal=True).is_in(HELD)
"""Whether a job waits for such a reason; `squeue` prints some with blanks, others do not."""
_ELIGIBLE = frozenset({"Eligible", "ELIGIBLE_TIME"})
"""Columns that say since when jobs wait for GPUs; where it is unknown, they never did."""


def is_told(columns: Collection[str]) -> bool:
    """Whether a text with these columns says since when jobs are eligible."""
    return not _ELIGIBLE.isdisjoint(columns)


def never_eligible(rows: pl.DataFrame) -> pl.DataFrame:
    """The same, with those that were over (``was_never``) before they waited for GPUs at all.

    They were held, waited for another job or for a moment to come, and were cancelled then.
    """
    eligible, end = pl.col("eligible_ms"), pl.col("end_ms")
    is_unsaid = eligible.is_null() & pl.col("tells_eligible")
    was_never = pl.col("start_ms").is_null() & end.is_not_null() & (is_unsaid | (eligible > end))
    was_never = was_never.fill_null(value=False)
    return rows.with_columns(
        was_never=was_never, eligible_ms=pl.when(~was_never).then("eligible_ms")
    )


def put_off(rows: pl.DataFrame) -> pl.DataFrame:
    """The same; a job that is to begin later waits since its submission, and not for GPUs.

    Slurm calls it eligible from a moment in the future on. One that was tried before (requeued)
    waits on for what it waited for.
    """
    is_open = pl.col("start_ms").is_null() & pl.col("end_ms").is_null()
    is_later = is_open & pl.col("is_live") & (pl.col("eligible_ms") > pl.col("submit_ms"))
    is_later &= IS_PUT_OFF
    is_later = is_later.fill_null(value=False)
    later = rows.filter(is_later).select("job")
    if not len(later):
        return rows
    told = rows.join(later, on="job", how="semi").group_by("job").len()
    is_new = pl.col("job").is_in(told.filter(pl.col("len") == 1)["job"].to_list())
    return rows.with_columns(
        is_eligible=pl.col("is_eligible") & ~is_new,
        eligible_ms=pl.when(~is_later).then("eligible_ms"),
    )


def said_held(held: int) -> list[str]:
    """How many jobs make no demand, in words."""
    if not held:
        return []
    jobs = "1 job waits" if held == 1 else f"{held:,} jobs wait"
    return [f"{jobs} for something else than GPUs (held, or not eligible yet): no demand"]
