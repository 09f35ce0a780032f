"""Jobs of a table that hold a part of one GPU: `0.6` of it, beside others that hold the rest."""

from collections.abc import Mapping

import polars as pl

from tidemill.live.csv import times
from tidemill.live.csv.cells import CellFaults
from tidemill.live.history.attempts import kind_of
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import LEAST_PRIORITY, MOST_PRIORITY, Role, Shape

_HINT = "a job has whole GPUs, or 0.001 to 1 of one GPU on one node"


def milli_of(texts: pl.Series) -> pl.Series:
    """Thousandths of a GPU, of jobs that hold less than one; null: of others."""
    number = times.number_of(times.blank(texts))
    milli = (number * WHOLE_MILLI).round()
    return milli.set(~((number > 0) & (number < 1)).fill_null(value=False), None).cast(pl.Int64)


def shapes_of(
    columns: Mapping[str, pl.Series], texts: pl.Series, faults: CellFaults
) -> tuple[tuple[Shape, ...], dict[str, pl.Series]]:
    """What such jobs request, and which of it each row does (``ATTEMPTS.shape``, ``roles``)."""
    milli = columns["milli"]
    if not milli.count():
        return (), {}
    size, blank = len(milli), times.nothing(len(milli))
    is_small = (milli < 1).fill_null(value=False)
    faults.check(texts, is_small, "gpus", "less than a thousandth of a GPU", _HINT)
    nodes = columns.get("nodes", pl.Series([None] * size, dtype=pl.List(pl.String)))
    is_placed = (nodes.list.len() == 1).fill_null(value=False)
    ran = columns.get("start_ms", times.nothing(size, pl.Int64)).is_not_null()
    is_nowhere = milli.is_not_null() & ran & ~is_placed
    faults.check(texts, is_nowhere, "gpus", "a part of a GPU, and not on which node", _HINT)
    asked = pl.DataFrame({
        "team": columns.get("team", blank), "kind": columns.get("gpu_type", blank),
        "milli": milli, "priority": columns.get("priority", times.nothing(size, pl.Int64)).clip(
            LEAST_PRIORITY, MOST_PRIORITY
        ),
    })  # fmt: skip
    number, shapes = dict[tuple[object, ...], int](), list[Shape]()
    for key in asked.filter(milli >= 1).unique(maintain_order=True).iter_rows():
        team, kind, amount, priority = key
        role = Role(milli=amount, kinds=(kind_of(kind),) if kind else ())
        number[key] = len(shapes)
        shapes.append(Shape(team or "unknown", (role,), priority=priority or 0))
    mine = [number.get(key) for key in asked.iter_rows()]
    return tuple(shapes), {
        "shape": pl.Series(mine, dtype=pl.Int64),
        "roles": pl.Series([None if one is None else [0] for one in mine], dtype=pl.List(pl.Int64)),
    }
