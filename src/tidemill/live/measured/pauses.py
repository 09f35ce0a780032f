"""Attempts that stood still while they held their GPUs: windows in which those did nothing.

A scheduler may stop a job and let it go on later (Slurm suspends). An import knows for how long in
all, and of when the last change at most: up to it such an attempt is idle by a share, all along. An
observer looks again and again: it sees each change, and tells each stretch once. What it told of an
attempt is kept beside its journal, so that the whole is what the scheduler says of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from tidemill.live.measured import windows
from tidemill.live.measured.windows import Measurements
from tidemill.model.measures import FOREVER_MS, ONE_PPM

SOURCE = "scheduler"
"""Who measured it: devices go before, by the order of names (``joining``)."""
PAUSES: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,
    "start_ms": pl.Int64,  # since when it holds its GPUs
    "end_ms": pl.Int64,  # null: it goes on
    "gpus": pl.Int64,
    "paused_ms": pl.Int64,  # up to ``changed_ms``; in all where that is null
    "changed_ms": pl.Int64,  # when it was last stopped or went on; null: nobody says
    "after_ms": pl.Int64,  # since then; null: it stands still now
}
"""One row per attempt that stood still."""


class ToldPause(NamedTuple):
    """What was told of an attempt: it stood still for so long in all."""

    start_ms: int
    told_ms: int


class ToldPauses(NamedTuple):
    """What was told up to a moment, by job: of attempts that go on."""

    mark_ms: int
    jobs: Mapping[str, ToldPause] = {}


class _Pause(NamedTuple):
    """A stretch of time in which an attempt stood still by a share."""

    start_ms: int
    end_ms: int
    share_ppm: int

    def up_to(self, at_ms: int) -> int:
        """How long it stood still in it up to a moment."""
        length_ms = min(at_ms, self.end_ms) - self.start_ms
        return max(0, length_ms) * self.share_ppm // ONE_PPM


def all_along(rows: pl.DataFrame, last_ms: int) -> Measurements:
    """Attempts of a history, idle by the share in which each stood still up to the last change, and
    after that as that says; where nobody says when it was, up to the end.

    ``last_ms``: up to when those are shown that go on.
    """
    end_ms = pl.col("end_ms").fill_null(last_ms)
    until_ms = pl.max_horizontal(pl.coalesce("changed_ms", end_ms),
                                 pl.col("start_ms") + pl.col("paused_ms"))  # fmt: skip
    share_ppm = pl.col("paused_ms") * ONE_PPM // (until_ms - pl.col("start_ms")).clip(1)
    before = rows.select("job", "start_ms", end_ms=until_ms, busy_ppm=ONE_PPM - share_ppm)
    still_ms = pl.when(pl.col("end_ms").is_null()).then(FOREVER_MS).otherwise("end_ms")
    after_ms = pl.coalesce(pl.col("changed_ms") + pl.col("after_ms"), still_ms)
    after = rows.filter(pl.col("changed_ms").is_not_null()).select(
        "job", start_ms="changed_ms", end_ms=after_ms, busy_ppm=pl.lit(0, pl.Int64)
    )
    made = pl.concat([before, after]).filter(pl.col("start_ms") < pl.col("end_ms"))
    made = made.with_columns(source=pl.lit(SOURCE))
    return windows.nothing()._replace(windows=made.filter(pl.col("busy_ppm") < ONE_PPM))


def in_all_ms(last_ms: int) -> pl.Expr:
    """For how long attempts stood still up to their end, or up to a moment."""
    goes_on = pl.col("end_ms").fill_null(last_ms) - pl.col("changed_ms")
    after = pl.coalesce("after_ms", goes_on.clip(0)).fill_null(0)
    return pl.col("paused_ms") + after


def since(
    rows: pl.DataFrame, told: ToldPauses, begins_ms: int, until_ms: int, now_ms: int
) -> tuple[Measurements, ToldPauses]:
    """Stretches of the time after what was told, and what is told once all up to a moment is.

    ``begins_ms``: the zero of the journal: of attempts that began before it, nobody told anything.
    ``now_ms``: when the scheduler was asked.
    """
    is_first = told.mark_ms <= begins_ms
    found, next_told = list[tuple[str, int, int, int]](), dict[str, ToldPause]()
    for row in rows.select(*PAUSES).iter_rows(named=True):
        job, start_ms, end_ms = row["job"], row["start_ms"], row["end_ms"]
        known = told.jobs.get(job)
        mine = None if is_first and start_ms < begins_ms else 0
        if known is not None and known.start_ms == start_ms:
            mine = known.told_ms
        pauses, before_ms = _pauses(row, mine, told.mark_ms, now_ms)
        found += [(job, one.start_ms, one.end_ms, ONE_PPM - one.share_ppm) for one in pauses]
        if end_ms is None or end_ms > until_ms:
            sum_ms = before_ms + sum(one.up_to(until_ms) for one in pauses)
            next_told[job] = ToldPause(start_ms, sum_ms)
    names = ("job", "start_ms", "end_ms", "busy_ppm")
    made = pl.DataFrame(found, schema={n: windows.WINDOWS[n] for n in names}, orient="row")
    made = made.with_columns(source=pl.lit(SOURCE))
    return windows.nothing()._replace(windows=made), ToldPauses(until_ms, next_told)


def _pauses(
    row: Mapping[str, int | None], told_ms: int | None, mark_ms: int, now_ms: int
) -> tuple[list[_Pause], int]:
    """When an attempt stood still after a moment, and for how long it was told to have before.

    ``told_ms`` is None for one that began before anybody looked: then it is a share.
    """
    start_ms, end_ms, changed_ms = row["start_ms"] or 0, row["end_ms"], row["changed_ms"]
    since_ms, last_ms = max(start_ms, mark_ms), now_ms if end_ms is None else end_ms
    paused_ms = row["paused_ms"] or 0
    if changed_ms is None:
        return _spread(start_ms, last_ms, since_ms, paused_ms, told_ms)
    after_ms = last_ms - changed_ms if row["after_ms"] is None else row["after_ms"]
    if told_ms is None:
        share_ppm = paused_ms * ONE_PPM // max(1, changed_ms - start_ms)
        told_ms = _Pause(start_ms, changed_ms, min(ONE_PPM, share_ppm)).up_to(since_ms)
        told_ms += _Pause(changed_ms, changed_ms + after_ms, ONE_PPM).up_to(since_ms)
    left_ms = min(max(0, paused_ms - told_ms), max(0, changed_ms - since_ms))
    stretches = [(changed_ms - left_ms, changed_ms), (changed_ms, changed_ms + after_ms)]
    found = [_Pause(max(since_ms, first), last, ONE_PPM) for first, last in stretches]
    return [one for one in found if one.start_ms < one.end_ms], told_ms


def _spread(
    start_ms: int, last_ms: int, since_ms: int, paused_ms: int, told_ms: int | None
) -> tuple[list[_Pause], int]:
    """The same where nobody says when: what was not told is spread over the rest of it."""
    first_ms = start_ms if told_ms is None else since_ms
    left_ms = max(0, paused_ms - (told_ms or 0))
    share_ppm = min(ONE_PPM, left_ms * ONE_PPM // max(1, last_ms - first_ms))
    before_ms = _Pause(first_ms, last_ms, share_ppm).up_to(since_ms) + (told_ms or 0)
    found = _Pause(since_ms, last_ms, share_ppm)
    return [found] if share_ppm and since_ms < last_ms else [], before_ms
