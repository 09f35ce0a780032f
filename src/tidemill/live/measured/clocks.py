"""Clocks: whether loops ran when their jobs held GPUs, by the clock of the scheduler.

Records are joined to attempts by wall clock. A loop that tells of time in which its job held
nothing ran by another clock, or is another job's: its parts are then those of a wrong time.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from tidemill.live.measured.loops import Launch
from tidemill.model.measures import duration_text

SLACK_MS = 5_000
"""Schedulers tell whole seconds, and a job's last record may be written while it is ended."""


def beyond_ms(launch: Launch, attempts: Sequence[tuple[int, int | None]]) -> int:
    """By how much a launch lies outside of the attempt that it fits best; negative: before it.

    ``attempts``: when each began and ended; None: it still runs.
    """
    first_ms, last_ms = launch.first_us // 1000, launch.last_us // 1000
    early = [
        (max(0, start_ms - first_ms), max(0, last_ms - (last_ms if end_ms is None else end_ms)))
        for start_ms, end_ms in attempts
    ]
    before, after = min(early, key=max)
    return after if after >= before else -before


def said(launches: Sequence[Launch], names: Mapping[str, str], attempts: pl.DataFrame) -> list[str]:
    """In words, which loops ran while their jobs held nothing; ``names``: their jobs."""
    ran = attempts.filter(pl.col("start_ms").is_not_null()).select("job", "start_ms", "end_ms")
    by_job: dict[str, list[tuple[int, int | None]]] = {}
    for job, start_ms, end_ms in ran.iter_rows():
        by_job.setdefault(job, []).append((start_ms, end_ms))
    far = [
        (by, launch.job)
        for launch in launches
        if (some := by_job.get(names[launch.job])) and abs(by := beyond_ms(launch, some)) > SLACK_MS
    ]
    if not far:
        return []
    by, job = max(far, key=lambda one: abs(one[0]))
    where = "after its end" if by > 0 else "before its start"
    text = (
        f"{len(far):,} of {len(launches):,} tracked launches reach beyond the time that the"
        f" scheduler says (the most: `{job}`, {duration_text(abs(by))} {where}): clocks differ, or"
        " it is another job; how the time of these jobs divides is wrong by as much"
    )
    return [text]
