"""Waits and an MFU of one attempt that are more than its time: figures that cannot both be true.

Nobody computes while it waits. Where a loop (or a service) says an MFU, and it, or its devices, say
waits and idle time that leave less than that, the waits are booked first and what is left is
useful, at the peak. That is said: a loop that does not wait for the GPU within its step counts
waits while the GPU works, or the FLOPs are those of other ranks too.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.measured import against
from tidemill.live.measured.flops import BELIEVED_PPM, JUDGED_MS
from tidemill.live.measured.held import WAITS
from tidemill.model.measures import ONE_PPM

ROUNDED_PPM = 1_010_000
"""Up to here sums are the whole: shares are rounded, and clocks of sources differ."""


class JudgedSums(NamedTuple):
    """Attempts whose shares are more than the whole."""

    against: list[Contradiction]
    near: list[str]
    """In words, those that are a little more."""


def judged(pieces: pl.DataFrame, jobs: pl.DataFrame, key: Sequence[str]) -> JudgedSums:
    """Pieces of attempts with what all sources say of them, judged by the minute, as FLOPs are.

    ``jobs``: the names of attempts.
    """
    waits = sum((pl.col(f"{name}_ppm").fill_null(0) for name in WAITS), pl.lit(0))
    idle = (ONE_PPM - pl.col("busy_ppm")).fill_null(0)
    # a loop waits on its own GPUs; devices are those of the whole job
    is_own = waits + pl.col("own_ppm") >= idle + pl.col("mfu_ppm")
    # an MFU is said of steps: a loop that stands still to save takes none back
    is_saving = pl.col("checkpoint_ppm").fill_null(0) >= ONE_PPM
    lasted = pl.col("end_ms") - pl.col("start_ms")
    mean = {name: (pl.col(name) * lasted).sum() // lasted.sum() for name in ("lost", "mfu_ppm")}
    minutes = (
        pieces.with_columns(
            lost=pl.when(is_own).then(waits).otherwise(idle),
            mfu_ppm=pl.when(is_own).then("own_ppm").otherwise("mfu_ppm"),
        )
        .filter(pl.col("mfu_ppm").is_not_null() & ~is_saving)
        .group_by(*key, pl.col("start_ms") // JUDGED_MS)
        .agg(**mean, from_ms=pl.col("start_ms").min(), to_ms=pl.col("end_ms").max())
        .with_columns(ppm=pl.col("lost") + pl.col("mfu_ppm"))
        .filter(pl.col("ppm") > ROUNDED_PPM)
        .sort(*key, "ppm", "from_ms")
    )
    most = minutes.group_by(key, maintain_order=True).agg(
        pl.col("ppm", "lost", "mfu_ppm").last(), pl.col("from_ms").min(), pl.col("to_ms").max()
    )
    named = most.join(jobs.select(*key, "job").unique(key), on=key).sort(*key)
    wrong = named.filter(pl.col("ppm") > BELIEVED_PPM)
    near = named.filter(pl.col("ppm") <= BELIEVED_PPM)["job"].unique().sort().to_list()
    return JudgedSums([*_against(wrong)], _said_near(near))


def _against(wrong: pl.DataFrame) -> Iterator[Contradiction]:
    for job, lost, mfu, from_ms, to_ms in wrong.select(
        "job", "lost", "mfu_ppm", "from_ms", "to_ms"
    ).iter_rows():
        says = (
            f"waits and idle time are {_percent(lost)} of a minute and its MFU {_percent(mfu)}:"
            f" {_percent(lost + mfu)} in all"
        )
        yield Contradiction(
            sort=ContradictionSort.OVER_WHOLE, name=job, source="tidemill.track", says=says,
            first_ms=from_ms, last_ms=to_ms,
        )  # fmt: skip


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.0f} %"


def _said_near(jobs: Sequence[str]) -> list[str]:
    if not jobs:
        return []
    percent, named = BELIEVED_PPM // 10_000 - 100, against.names(jobs)
    return [f"waits and MFU that are up to {percent} % more than the time: MFU cut, {named}"]
