"""Loops that use fewer GPUs than their job holds: what they did is divided by all that it holds.

FLOPs of a step are of the GPUs that its ranks use. The others did nothing that anybody told, so
FLOPs count over the peak of all GPUs that are held. The same goes for an MFU where every rank says
how many GPUs it uses; else it is taken as that of all of them (one process may drive them all).
"""

from collections.abc import Iterator

import polars as pl

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.measured import loops
from tidemill.model.measures import ONE_PPM

WAITS = ("checkpoint", "data", "communication")
"""What a loop says that it does not compute in."""
_LOOP = pl.col("heard_gpus") + pl.col("silent_gpus")
"""GPUs of all ranks of a loop; null in windows of others."""


def over_all(inside: pl.DataFrame) -> pl.DataFrame:
    """Windows of attempts, with figures of the GPUs of a loop over all GPUs that are held."""
    held = pl.col("gpus").fill_null(1).clip(1)
    return inside.with_columns(
        mflop_per_s=pl.col("mflop_per_s") * pl.min_horizontal(_LOOP, held) // held,
        mfu_ppm=pl.col("mfu_ppm") * pl.min_horizontal("said_gpus", held) // held,
    )


def cut_to_waits(windows: pl.DataFrame) -> pl.DataFrame:
    """The same, with an MFU of all GPUs that leaves the GPUs of a loop the time that it waits; and
    ``own_ppm``: what the loop said, of its own GPUs alone. Who does not say how many uses all.
    """
    held = pl.col("gpus").fill_null(1).clip(1)
    used = pl.min_horizontal("said_gpus", held).clip(1)
    waits = sum((pl.col(f"{name}_ppm").fill_null(0) for name in WAITS), pl.lit(0))
    room = (ONE_PPM - waits).clip(0) * used // held
    return windows.with_columns(
        own_ppm=pl.col("mfu_ppm") * held // used,
        # what nobody knows stays unknown: it is not above what is left
        mfu_ppm=pl.when((used < held) & (pl.col("mfu_ppm") > room)).then(room).otherwise("mfu_ppm"),
    )


def contradictions(inside: pl.DataFrame) -> Iterator[Contradiction]:
    """Jobs that hold more GPUs than their loops say that they use."""
    for job, used, held, from_ms, to_ms in _fewer(inside, "said_gpus").iter_rows():
        yield Contradiction(
            sort=ContradictionSort.FEWER_GPUS, name=job, source="tidemill.track",
            says=f"it holds {held:,} GPUs; its loop says that it uses {used:,}",
            first_ms=from_ms, last_ms=to_ms,
        )  # fmt: skip


def said_untold(inside: pl.DataFrame) -> list[str]:
    """In words, loops that do not say how many GPUs they use and have fewer ranks than GPUs."""
    fewer = _fewer(inside.filter(pl.col("said_gpus").is_null()).with_columns(loop=_LOOP), "loop")
    if fewer.is_empty():
        return []
    named = ", ".join(
        f"`{job}` {used:,} of {held:,}"
        for job, used, held, *_ in fewer.head(5).iter_rows()
    )  # fmt: skip
    more = " …" if len(fewer) > 5 else ""
    said = (
        f"loops that do not say how many GPUs they use, with fewer ranks than GPUs: {named}{more};"
        " taken to use all, FLOPs count over all held (`track.job(gpus=…)` says how many)"
    )
    return [said]


def _fewer(inside: pl.DataFrame, used: str) -> pl.DataFrame:
    """Jobs with the GPUs that they use and hold, and from when to when, where they hold more."""
    few = inside.filter(
        (pl.col("source") == loops.SOURCE) & (pl.col(used) < pl.col("gpus"))
    )  # fmt: skip
    return few.group_by("job").agg(
        pl.col(used).min(), pl.col("gpus").max(), pl.col("start_ms").min(), pl.col("end_ms").max()
    ).sort("job")  # fmt: skip
