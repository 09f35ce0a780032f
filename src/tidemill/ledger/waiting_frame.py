"""What waits in a cluster state, as a Polars DataFrame: who, what, since when, and why."""

import polars as pl

from tidemill.ledger.waits import shape_kind
from tidemill.model.reasons import Cause
from tidemill.model.world import World

SCHEMA = {
    "job": pl.String, "team": pl.String, "user": pl.String, "gpu_milli": pl.Int64,
    "kinds": pl.String, "priority": pl.Int64, "since_ms": pl.Int64, "waited_ms": pl.Int64,
    "cause": pl.String,
}  # fmt: skip


def frame(world: World, now_ms: int) -> pl.DataFrame:
    """One row per job that waits, as of a moment."""
    rows = []
    for j in sorted(j for waiting in world.waiting for j in waiting):
        shape, since_ms = world.shape_of(j), int(world.jobs.since_ms[j])
        rows.append({
            "job": world.job_names[j], "team": shape.team, "user": world.job_users[j] or None,
            "gpu_milli": shape.total_milli, "kinds": shape_kind(shape),
            "priority": shape.priority, "since_ms": since_ms, "waited_ms": now_ms - since_ms,
            "cause": Cause(int(world.shapes.cause[world.jobs.shape[j]])).name.lower(),
        })  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)
