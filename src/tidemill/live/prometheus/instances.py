"""MIG in DCGM: instances of a GPU, whole GPUs that are partitioned, and who holds instances.

An exporter tells of instances (``GPU_I_ID``, MIG UUIDs), of the whole GPU, or of both. What a whole
GPU did is nobody's who holds one of its instances, and counts for nobody while series of its
instances tell the same work.
"""

from collections.abc import Sequence

import polars as pl

from tidemill.live.history.rows import SeenNode, is_instance
from tidemill.model.rows import Role, Shape

IS_INSTANCE = "is_instance"
"""A column of attempts: whether what it holds are MIG instances."""


def with_instances(attempts: pl.DataFrame, shapes: Sequence[Shape] = ()) -> pl.DataFrame:
    """Attempts with ``is_instance``, by what their jobs request or by the type of their GPUs."""
    if IS_INSTANCE in attempts.columns:
        return attempts
    cut = [s for s, shape in enumerate(shapes) if any(map(_is_cut, shape.roles))]
    types = attempts["gpu_type"].drop_nulls().unique() if "gpu_type" in attempts.columns else ()
    named = [name for name in types if is_instance(name)]
    by_shape = pl.col("shape").is_in(cut) if "shape" in attempts.columns else pl.lit(value=False)
    by_type = pl.col("gpu_type").is_in(named) if named else pl.lit(value=False)
    return attempts.with_columns((by_shape | by_type).fill_null(value=False).alias(IS_INSTANCE))


def _is_cut(role: Role) -> bool:
    return bool(role.profile) or any(map(is_instance, role.kinds))


def on_machines(attempts: pl.DataFrame, nodes: Sequence[SeenNode]) -> pl.DataFrame:
    """Attempts on the machines that parts of nodes are of: that is what series call them."""
    names = {node.name: node.machine_name for node in nodes if node.name != node.machine_name}
    if not names or "nodes" not in attempts.columns:
        return attempts
    return attempts.with_columns(pl.col("nodes").list.eval(pl.element().replace(names)))


def gpu() -> pl.Expr:
    """The GPU that a series is of, on its node: by its number, else by its UUID."""
    number = pl.concat_str(pl.lit("#"), pl.col("minor").cast(pl.String))
    return pl.when(pl.col("minor") >= 0).then(number).otherwise("uuid")


def without_partitioned(rows: pl.DataFrame) -> pl.DataFrame:
    """Minutes without those of whole GPUs from the first to the last minute of their instances."""
    if not (rows["mig"] != "").any():
        return rows
    cut = rows.filter(pl.col("mig") != "").group_by("node", gpu().alias("gpu"))
    stretch = cut.agg(cut_ms=pl.col("at_ms").min(), until_ms=pl.col("at_ms").max())
    is_cut = (pl.col("mig") == "") & pl.col("at_ms").is_between("cut_ms", "until_ms")
    known = rows.with_columns(gpu=gpu()).join(
        stretch, on=["node", "gpu"], how="left", maintain_order="left"
    )
    return known.filter(~is_cut.fill_null(value=False)).drop("gpu", "cut_ms", "until_ms")


def devices_at_once() -> pl.Expr:
    """How many GPUs, or instances, rows of one minute tell of.

    In the minute in which a GPU is replaced two UUIDs have one number; in that in which numbers
    move one UUID has two.
    """
    by_uuid = pl.struct("node", "uuid", "mig").n_unique()
    by_number = pl.struct("node", "minor", "mig").n_unique()
    return (
        pl.when((pl.col("uuid") == "").any())
        .then(by_number)
        .when((pl.col("minor") < 0).any())
        .then(by_uuid)
        .otherwise(pl.min_horizontal(by_uuid, by_number))
        .cast(pl.Int64)
    )
