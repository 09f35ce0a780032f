"""Clusters of one history: jobs and nodes with equal names are told apart."""

from collections.abc import Collection

import polars as pl

from tidemill.model.errors import SpecError


def by_cluster(attempts: pl.DataFrame, listed: Collection[str]) -> pl.DataFrame:
    """Attempts of several clusters, on nodes of which those with one name are told apart.

    A job says of which ``cluster`` it is. What lists nodes does not.
    """
    rows = attempts.with_row_index("row")
    each = rows.select("row", "cluster", "nodes").explode("nodes").drop_nulls("nodes")
    shared = each.group_by("nodes").agg(clusters=pl.col("cluster").unique().sort())
    shared = shared.filter(pl.col("clusters").list.len() > 1).sort("nodes")
    if not len(shared):
        return attempts
    if both := [name for name in shared["nodes"].to_list() if name in listed]:
        raise SpecError(
            f"jobs of several clusters ({', '.join(map(str, shared['clusters'][0]))}) ran on nodes"
            f" called `{both[0]}`, and the list of nodes does not say of which cluster that is",
            hint="import each cluster into a journal of its own (sacct --clusters NAME …)",
        )
    is_shared = pl.col("nodes").is_in(shared["nodes"].to_list()) & pl.col("cluster").is_not_null()
    prefixed = pl.when(is_shared).then(pl.format("{}/{}", "cluster", "nodes")).otherwise("nodes")
    told = each.select("row", renamed=prefixed).group_by("row", maintain_order=True).agg("renamed")
    rows = rows.join(told, on="row", how="left", maintain_order="left")
    return rows.with_columns(nodes=pl.coalesce("renamed", "nodes")).drop("row", "renamed")
