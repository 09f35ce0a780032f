"""Loops against the scheduler: whether they ran when their jobs held GPUs, by its clock.

Records are joined to attempts by wall clock. A loop that tells of time in which its job held
nothing ran by another clock, or is another job's: its parts are then those of a wrong time. One
that ended while its job goes on left GPUs behind that nobody uses.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import polars as pl

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.measured.loops import Launch
from tidemill.model.measures import duration_text

SLACK_MS = 5_000
"""Schedulers tell whole seconds, and a job's last record may be written while it is ended."""
AFTER_MS = 300_000
"""So long a job may go on after its loop: it evaluates, writes its last files, and is ended."""
_Attempts = list[tuple[int, int | None]]


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


def contradictions(
    told: Sequence[Launch],
    attempts: pl.DataFrame,
    source: str,
    since_ms: int = 0,
    now_ms: int | None = None,
) -> Iterator[Contradiction]:
    """Where launches, of jobs as the books call them, say otherwise than their scheduler.

    ``since_ms``: attempts of the time before it may be missing; ``now_ms``: up to when the
    scheduler shows jobs (None: up to the last moment in ``attempts``).
    """
    by_job, last = _by_job(attempts), {launch.job: launch for launch in told}
    if now_ms is None:
        now_ms = attempts.select(pl.max_horizontal(pl.col("start_ms", "end_ms").max())).item() or 0
    for launch in told:
        some = by_job.get(launch.job)
        if some is None:
            continue
        by, last_ms = beyond_ms(launch, some), launch.last_us // 1000
        is_shown = by > 0 or last_ms > min(since_ms, *(start_ms for start_ms, _ in some))
        if abs(by) > SLACK_MS and is_shown:
            where = "after its end" if by > 0 else "before its start"
            says = f"its loop ran {duration_text(abs(by))} {where}, by {source}"
            first_ms = last_ms - by if by > 0 else launch.first_us // 1000
            yield Contradiction(
                sort=ContradictionSort.LOOP_OUTSIDE, name=launch.job, source=source, says=says,
                first_ms=first_ms, last_ms=first_ms + abs(by),
            )  # fmt: skip
        elif launch is last[launch.job] and now_ms - last_ms > AFTER_MS and _is_left(launch, some):
            ended = datetime.fromtimestamp(last_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            says = f"running by the scheduler; its loop ended {ended} by {source}"
            yield Contradiction(
                sort=ContradictionSort.LOOP_ENDED, name=launch.job, source=source, says=says,
                first_ms=last_ms, last_ms=now_ms,
            )  # fmt: skip


def said(found: Sequence[Contradiction], launches: int) -> Iterator[str]:
    """In words, how many of all tracked launches ran while their jobs held nothing."""
    far = [one for one in found if one.sort is ContradictionSort.LOOP_OUTSIDE]
    if far:
        most = max(far, key=lambda one: one.last_ms - one.first_ms)
        yield (
            f"{len(far):,} of {launches:,} tracked launches reach beyond the time that the"
            f" scheduler says (the most: `{most.name}`, {most.says}): clocks differ, or it is"
            " another job; how the time of these jobs divides is wrong by as much (--track-ahead"
            " says by how much the clock of loops is ahead)"
        )


def _by_job(attempts: pl.DataFrame) -> dict[str, _Attempts]:
    """When the attempts of each job began and ended."""
    ran = attempts.filter(pl.col("start_ms").is_not_null()).select("job", "start_ms", "end_ms")
    found: dict[str, _Attempts] = {}
    for job, start_ms, end_ms in ran.iter_rows():
        found.setdefault(job, []).append((start_ms, end_ms))
    return found


def _is_left(launch: Launch, attempts: _Attempts) -> bool:
    """Whether all of a launch ended, and the attempt that it was of goes on."""
    if not all(process.ended is not None for process in launch.processes):
        return False
    start_ms, end_ms = max(attempts, key=lambda one: one[0])
    return end_ms is None and start_ms <= launch.last_us // 1000
