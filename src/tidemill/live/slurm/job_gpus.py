"""What jobs of Slurm have and request, by their TRES: GPUs or none, shards, CPUs, memory."""

from collections.abc import Iterable

import polars as pl

_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
OF_TRES = {
    "tres_cpus": pl.Int64, "memory_mib": pl.Int64, "has_tres": pl.Boolean,
    "names_gpus": pl.Boolean, "shards": pl.Int64, "type_gpus": pl.String,
}  # fmt: skip
"""What is read of TRES texts, which are long and nearly all the same, and not kept."""


def as_asked() -> pl.Expr:
    """What jobs that are somewhere hold, where nobody says more than what they requested."""
    is_placed = pl.col("start_ms").is_not_null() & (pl.col("state") != "PENDING")
    return pl.when(is_placed).then("gpus_requested").alias("gpus_allocated")


def with_tres(jobs: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """These columns of jobs, with what their TRES texts say: each is read once."""
    rows = jobs.select(*names, tres=pl.coalesce("alloc_tres", "req_tres"), asked="req_tres")
    texts, tres = rows.select("tres", "asked").unique(), pl.col("tres")
    names_gpus = [name.str.contains("gres/gpu", literal=True) for name in (tres, pl.col("asked"))]
    typed = tres.str.extract_all(r"gres/gpu:[^=,]+=\d+")
    said = texts.with_columns(
        tres_cpus=tres.str.extract(r"(?:^|,)cpu=(\d+)").cast(pl.Int64),
        memory_mib=_mib(tres),
        has_tres=tres.is_not_null(),
        names_gpus=pl.any_horizontal(names_gpus).fill_null(value=False),
        shards=tres.str.extract(r"(?:^|,)gres/shard=(\d+)").cast(pl.Int64),
        type_gpus=pl.when(typed.list.len() > 1).then(typed.list.join(",")),
    )
    both = ["tres", "asked"]
    rows = rows.join(said, on=both, how="left", nulls_equal=True, maintain_order="left")
    return rows.drop(both)


def without_gpus(rows: pl.DataFrame) -> pl.DataFrame:
    """The same; where GPUs are counted, jobs of which nothing else is said had none.

    Those that held shards (parts of GPUs) alone have some, so many as they were on nodes.
    """
    is_untold = pl.col("gpus").is_null()
    is_shard = is_untold & (pl.col("shards") > 0).fill_null(value=False)
    is_none = is_untold & pl.col("tracks_gpus") & pl.col("has_tres")
    nodes = pl.coalesce("node_count", "nodes_requested", 1).clip(1)
    return rows.with_columns(
        shards=pl.when(is_shard).then("shards"),
        gpus=pl.when(is_shard).then(nodes).when(is_none).then(pl.lit(0)).otherwise("gpus"),
        start_ms=pl.when(is_shard & (pl.col("word") != "PENDING"))
        .then("began_ms")
        .otherwise("start_ms"),
    )


def is_per_node() -> pl.Expr:
    """Whether a job asked for so many GPUs on each node, or is one task, which is on one node.

    Null: nobody says, as in `sacct`. Others (`--gpus`, `--gpus-per-task`) may be spread.
    """
    is_each = pl.col("tres_per_node").str.contains("gpu").fill_null(value=False)
    is_known = pl.col("tasks").is_not_null()
    return pl.when(is_each | is_known).then(is_each | (pl.col("tasks") == 1))


def _mib(tres: pl.Expr) -> pl.Expr:
    """The memory of all nodes that a TRES text tells, in MiB."""
    number = tres.str.extract(r"(?:^|,)mem=([\d.]+)").cast(pl.Float64)
    unit = tres.str.extract(r"(?:^|,)mem=[\d.]+([KMGT])")
    factor = unit.replace_strict(_MIB, default=1.0, return_dtype=pl.Float64)
    return (number * factor).round().cast(pl.Int64)
