"""Summary statistics of five production clusters, as published with AcmeTrace (NSDI'24).

``cluster_summary.csv``: one row a cluster, times in seconds. Statistics only: no jobs to run, but
what the presets are held against. Empty cells are unknown.
"""

from pathlib import Path
from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import AS_PUBLISHED, Options
from tidemill.twin.traces.trace import Trace

COLUMNS = (
    "id",
    "gpu_job_num",
    "avg_run_time_gpu",
    "med_run_time_gpu",
    "max_run_time_gpu",
    "avg_gpu_num",
    "med_gpu_num",
    "max_gpu",
    "cancel_rate_gpu",
    "fail_rate_gpu",
    "complete_gpu_time",
    "cancel_gpu_time",
    "fail_gpu_time",
)


class Summary(NamedTuple):
    """One cluster; NaN-free: what is unknown is None."""

    name: str
    gpu_jobs: int
    mean_run_s: float
    median_run_s: float
    longest_run_s: float
    mean_gpus: float
    median_gpus: float
    largest_gpus: int
    cancel_share: float | None
    fail_share: float | None
    mean_gpu_s: float | None


def summaries(path: Path, options: Options = AS_PUBLISHED) -> list[Summary]:
    """Every cluster of the file."""
    found, _, _ = rows.each(path, COLUMNS, options, _summary)
    return found


def load(path: Path, options: Options) -> Trace:
    """Refuse: there is nothing to run."""
    names = ", ".join(summary.name.lower() for summary in summaries(path, options))
    raise SpecError(
        f"`{path}` holds statistics of {names}; there are no jobs in it to run",
        hint='generate jobs like theirs: preset = "philly" in a [[workload]]',
    )


def _summary(row: rows.TraceRow) -> Summary:
    jobs = row.whole("gpu_job_num", 1)
    parts = [_known(row, f"{end}_gpu_time") for end in ("complete", "cancel", "fail")]
    gpu_s = [part for part in parts if part is not None]
    return Summary(
        row.text("id"),
        jobs,
        row.number("avg_run_time_gpu"),
        row.number("med_run_time_gpu"),
        row.number("max_run_time_gpu"),
        row.number("avg_gpu_num"),
        row.number("med_gpu_num"),
        row.whole("max_gpu"),
        _known(row, "cancel_rate_gpu"),
        _known(row, "fail_rate_gpu"),
        sum(gpu_s) / jobs if len(gpu_s) == 3 else None,
    )


def _known(row: rows.TraceRow, column: str) -> float | None:
    return row.number(column) if row.cell(column) else None
