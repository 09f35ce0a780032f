"""What loops measured of jobs that hold a part of a GPU: their efficiency is of that part."""

from collections.abc import Sequence

import polars as pl

from tidemill.live.measured.windows import Measurements
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Shape

_OF_A_GPU = ("mfu_ppm", "mflop_per_s")
"""What a loop tells of one GPU, as if it had all of it."""


def of_parts(
    measured: Measurements | None, attempts: pl.DataFrame, shapes: Sequence[Shape]
) -> Measurements | None:
    """What was measured; work on 600 thousandths of a GPU is held against so much of its peak.

    ``shapes``: what jobs request, by the numbers that attempts have.
    """
    milli = {
        s: shape.roles[0].milli for s, shape in enumerate(shapes)
        if len(shape.roles) == 1 and not shape.roles[0].profile
        and shape.roles[0].milli < WHOLE_MILLI
    }  # fmt: skip
    if measured is None or not milli or "shape" not in attempts.columns:
        return measured
    part = pl.col("shape").replace_strict(milli, default=None, return_dtype=pl.Int64)
    jobs = attempts.select("job", part=part).drop_nulls().unique("job", keep="last")
    told = measured.windows.join(jobs, on="job", how="left", maintain_order="left")
    names = [name for name in _OF_A_GPU if name in told.columns]
    whole = pl.col("part").fill_null(WHOLE_MILLI)
    scaled = told.with_columns(pl.col(name) * WHOLE_MILLI // whole for name in names)
    return measured._replace(windows=scaled.drop("part"))
