"""Labels of jobs, held against a history: what it contradicts is not the labelled job's.

Labels go stale (a prolog wrote one late, an epilog did not run), and one Prometheus may serve
clusters that number their jobs alike. A label counts for its job where that ran then and there; all
others are who held the GPU by the history, if that is one job, as inferred.
"""

import polars as pl

from tidemill.live.prometheus.minutes import MINUTE_MS

NOBODY = ("", "0")
"""What labels of batch jobs say of a GPU that nobody holds; exporters of jobstats count from 0."""


def pairs(rows: pl.DataFrame, running: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Labelled minutes with each attempt of their job that ran in some of them, and ``is_there``:
    whether it ran on that node, as far as anybody says.

    ``rows`` have ``row``, ``job`` and ``node``; ``places``: the nodes of attempts. Where a history
    has none of the nodes that the series name (addresses, names of exporters' pods), names say
    nothing, and labels are believed.
    """
    met = rows.filter(pl.col("job").is_not_null()).join(running, on="job").filter(
        (pl.col("start_ms") < pl.col("at_ms") + MINUTE_MS) & (pl.col("end_ms") > pl.col("at_ms"))
    )  # fmt: skip
    placed = places.select("attempt", "node").unique()
    met = met.join(
        placed.with_columns(is_held=pl.lit(value=True)), on=["attempt", "node"], how="left"
    )
    is_placed = pl.col("attempt").is_in(placed["attempt"].unique().implode())
    known = placed["node"].unique()
    is_readable = rows["node"].is_in(known.implode()).any()
    is_there = pl.col("is_held").fill_null(value=False) | ~is_placed | (not is_readable)
    return met.with_columns(is_there=is_there).drop("is_held")


def heeded(rows: pl.DataFrame, met: pl.DataFrame) -> pl.DataFrame:
    """The minutes with ``job`` where its label holds; ``is_stale``: it names somebody who did not
    hold the GPU; ``is_elsewhere``: because that ran on other nodes then.
    """
    there = met.filter("is_there")["row"].unique().implode()
    is_right = pl.col("row").is_in(there)
    is_named = ~pl.col("held_by").is_in(NOBODY) | (pl.col("pod") != "")
    return rows.with_columns(
        job=pl.when(is_right).then("job"),
        is_stale=is_named & ~is_right,
        is_elsewhere=pl.col("row").is_in(met["row"].unique().implode()) & ~is_right,
        is_known=pl.col("job").is_not_null(),
        label=pl.when(pl.col("held_by").is_in(NOBODY)).then("pod").otherwise("held_by"),
    )
