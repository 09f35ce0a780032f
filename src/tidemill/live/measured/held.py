"""Loops that use fewer GPUs than their job holds: what they did is divided by all that it holds.

FLOPs of a step are of the GPUs that its ranks use. The others did nothing that anybody told, so
FLOPs count over the peak of all GPUs that are held. The same goes for an MFU where every rank says
how many GPUs it uses; else it is taken as that of all of them (one process may drive them all).

Ranks that say together that they use more GPUs than are held cannot all be right: what a GPU did
is not known then.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.measured import loops
from tidemill.model.loads import LoadFigure
from tidemill.model.measures import ONE_PPM

WAITS = ("checkpoint", "data", "communication")
"""What a loop says that it does not compute in."""
_LOOP = pl.col("heard_gpus") + pl.col("silent_gpus")
"""GPUs of all ranks of a loop; null in windows of others."""

_PART = 10
"""Ranks contradict their scheduler in such a part of what they tell: clocks differ at the ends."""
_OF_GPUS = (
    LoadFigure.TRAINED_TOKENS, LoadFigure.TRAINED_TOKENED_MS, LoadFigure.SAMPLES,
    LoadFigure.SAMPLED_MS,
)  # fmt: skip
"""What is divided by GPU-hours that were held."""


_IS_MORE = (pl.col("said_gpus").is_not_null() & (pl.col("gpus") > 0)
            & (pl.col("heard_gpus") > pl.col("gpus")))  # fmt: skip
"""Whether the ranks of a window, which say all how many GPUs they use, use more than are held."""


def believed(inside: pl.DataFrame) -> pl.DataFrame:
    """Windows of attempts, without what a GPU did where ranks use more than are held."""
    is_right = _IS_MORE.fill_null(value=False).not_()
    return inside.with_columns(
        pl.when(is_right).then(name).alias(name) for name in ("mflop_per_s", "mfu_ppm")
    )


def without_rates(loads: pl.DataFrame, inside: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Loads of attempts, without what would be divided by GPU-hours that cannot be all of it."""
    wrong = inside.filter(_IS_MORE).select(*key, wrong_ms="start_ms", right_ms="end_ms")
    is_rate = pl.col("figure").is_in([int(one) for one in _OF_GPUS])
    if wrong.is_empty():
        return loads
    is_met = (pl.col("wrong_ms") < pl.col("until")) & (pl.col("right_ms") > pl.col("at_ms"))
    numbered = loads.with_row_index("load")
    met = numbered.filter(is_rate).join(wrong, on=key).filter(is_met).select("load").unique()
    return numbered.join(met, on="load", how="anti", maintain_order="left").drop("load")


def _more_than_held(inside: pl.DataFrame) -> pl.DataFrame:
    """Jobs whose ranks use more GPUs than they hold, in no small part of what they tell."""
    lasted = pl.col("end_ms") - pl.col("start_ms")
    some = inside.filter((pl.col("source") == loops.SOURCE) & pl.col("heard_gpus").is_not_null())
    return (
        some.group_by("job")
        .agg(
            pl.col("heard_gpus", "gpus").filter(_IS_MORE).max(),
            pl.col("start_ms").filter(_IS_MORE).min(), pl.col("end_ms").filter(_IS_MORE).max(),
            part=lasted.filter(_IS_MORE).sum() * _PART, whole=lasted.sum(),
        )
        .filter((pl.col("part") > 0) & (pl.col("part") >= pl.col("whole")))
        .drop("part", "whole")
        .sort("job")
    )  # fmt: skip


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
    """Jobs that hold more GPUs than their loops say that they use, or fewer."""
    for job, used, held, from_ms, to_ms in _fewer(inside, "said_gpus").iter_rows():
        yield Contradiction(
            sort=ContradictionSort.FEWER_GPUS, name=job, source="tidemill.track",
            says=f"it holds {held:,} GPUs; its loop says that it uses {used:,}",
            first_ms=from_ms, last_ms=to_ms,
        )  # fmt: skip
    for job, used, held, from_ms, to_ms in _more_than_held(inside).iter_rows():
        yield Contradiction(
            sort=ContradictionSort.MORE_GPUS, name=job, source="tidemill.track",
            says=f"it holds {held:,} GPUs; its ranks say that they use {used:,}",
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
