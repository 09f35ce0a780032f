"""How much longer the steps of a job take while others are on its GPUs, as its own loop shows.

A node is shared while its jobs were shown to hold more GPUs together than it has. A job's steps at
such times are compared with its own steps at other times: the ratio of the medians is what its
neighbours cost it. A job that was never alone has nothing to be compared with: not known.
"""

from collections.abc import Iterable

import polars as pl

from tidemill.live.history.rows import SeenNode
from tidemill.model.measures import ONE_PPM

LEAST_WINDOWS = 5  # on each side, or the medians say nothing


def with_neighbours(
    windows: pl.DataFrame, attempts: pl.DataFrame, nodes: Iterable[SeenNode]
) -> pl.DataFrame:
    """The windows with ``beside_ppm``, cut where sharing begins and ends; null: not known."""
    blank = windows.with_columns(beside_ppm=pl.lit(None, pl.Int64))
    if "step_us" not in windows.columns:
        return blank
    shared = _shared(attempts, {node.name: node.gpus for node in nodes})
    if shared.is_empty():
        return blank
    at = (
        attempts.filter(pl.col("start_ms").is_not_null())
        .select("job", "nodes", "start_ms", "end_ms")
        .explode("nodes")
        .join(shared, left_on="nodes", right_on="node")
        .with_columns(
            from_ms=pl.max_horizontal("from_ms", "start_ms"),
            to_ms=pl.min_horizontal("to_ms", pl.col("end_ms").fill_null(pl.col("to_ms"))),
        )
        .filter(pl.col("from_ms") < pl.col("to_ms"))
        .select("job", "from_ms", "to_ms")
        .unique()
    )
    numbered = windows.with_row_index("row")
    touching = (
        numbered.select("row", "job", "start_ms", "end_ms")
        .join(at, on="job")
        .filter((pl.col("from_ms") < pl.col("end_ms")) & (pl.col("to_ms") > pl.col("start_ms")))
    )
    inside = touching.filter(
        (pl.col("from_ms") <= pl.col("start_ms")) & (pl.col("to_ms") >= pl.col("end_ms"))
    )
    steps = numbered.filter(pl.col("step_us").is_not_null())
    beside = steps.join(inside, on="row", how="semi")
    alone = steps.join(touching, on="row", how="anti")
    slower = _medians(beside, "shared_us").join(_medians(alone, "alone_us"), on="job")
    slower = slower.select(
        "job",
        slow_ppm=(pl.col("shared_us") * ONE_PPM // pl.col("alone_us") - ONE_PPM).clip(0),
    )
    return (
        numbered.join(slower, on="job", how="left", maintain_order="left")
        .with_columns(
            beside_ppm=pl.when(pl.col("row").is_in(inside["row"].unique().implode())).then(
                pl.col("slow_ppm").cast(pl.Int64)
            )
        )
        .drop("row", "slow_ppm")
    )


def _medians(windows: pl.DataFrame, name: str) -> pl.DataFrame:
    """The median step time of each job that has enough windows."""
    grouped = windows.group_by("job").agg(pl.col("step_us").median().cast(pl.Int64), pl.len())
    return grouped.filter((pl.col("len") >= LEAST_WINDOWS) & (pl.col("step_us") > 0)).select(
        "job", pl.col("step_us").alias(name)
    )


def _shared(attempts: pl.DataFrame, sizes: dict[str, int]) -> pl.DataFrame:
    """When more GPUs of a node were held together than it has: node, from, to."""
    held = (
        attempts.filter(pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0))
        .with_columns(each=pl.col("gpus") / pl.col("nodes").list.len())
        .select("nodes", "start_ms", "end_ms", "each")
        .explode("nodes")
    )
    changes = pl.concat([
        held.select(node="nodes", at="start_ms", change="each"),
        held.drop_nulls("end_ms").select(node="nodes", at="end_ms", change=-pl.col("each")),
    ]).group_by("node", "at").agg(pl.col("change").sum()).sort("node", "at")  # fmt: skip
    size = pl.col("node").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    return (
        changes.with_columns(
            held=pl.col("change").cum_sum().over("node"), to_ms=pl.col("at").shift(-1).over("node")
        )
        .filter((pl.col("held") > size) & pl.col("to_ms").is_not_null())
        .select("node", from_ms="at", to_ms="to_ms")
    )
