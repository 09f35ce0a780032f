"""What `squeue` leaves out of a job, from what `sacct` says of the same job.

People print a few columns of the queue: number, state and reason. The accounting has the rest.
"""

from collections.abc import Collection

import polars as pl

from tidemill.live.history.rows import AttemptEnd

SQUEUE_FORMAT = "%i;%T;%r;%V;%S;%e;%D;%N;%u;%a;%P;%b;%l;%n;%x;%f;%q;%v;%E;%C"
"""All that is read of jobs that wait or run; a constraint (`%f`) may have a `|` in it."""
_OWN = (
    "job", "outcome", "state", "reason", "reason_text", "rules", "is_live",
    "tells_eligible", "lacks_held", "is_suspended",
)  # fmt: skip
"""What the queue itself says, or nobody."""
_WHEN = ("submit_ms", "eligible_ms", "start_ms", "began_ms", "end_ms")


def lacks_gpus(columns: Collection[str]) -> bool:
    """Whether a text of squeue with these columns cannot say how many GPUs jobs request."""
    names = {name.upper() for name in columns}
    return not {"TRES_PER_NODE", "NODES"} <= names and "TRES_ALLOC" not in names


def with_accounting(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of jobs, those of the queue with what the accounting says of the same job's last row."""
    is_short = pl.col("gpus").is_null() | pl.col("submit_ms").is_null() | pl.col("lacks_held")
    is_short &= pl.col("is_live")
    short = rows.filter(is_short)
    if not len(short):
        return rows
    told = rows.filter(~pl.col("is_live")).join(short.select("job"), on="job", how="semi")
    told = told.sort("submit_ms", maintain_order=True).unique("job", keep="last")
    both = short.join(told, on="job", how="left", suffix="_told", maintain_order="left")
    is_over = ~pl.col("outcome").is_in([AttemptEnd.WAITING, AttemptEnd.RUNNING])
    is_same = pl.col("end_ms_told").is_null() | is_over  # else it was requeued, and waits again
    is_begun = pl.col("state") != "PENDING"
    when = {
        "submit_ms": pl.when(is_same).then("submit_ms_told").otherwise("end_ms_told"),
        "eligible_ms": pl.when(is_same).then("eligible_ms_told"),
        "start_ms": pl.when(is_same & is_begun).then("start_ms_told"),
        "began_ms": pl.when(is_same & is_begun).then("began_ms_told"),
        "end_ms": pl.when(is_over).then("end_ms_told"),
    }
    filled = {name: pl.coalesce(name, found) for name, found in when.items()}
    rest = (name for name in rows.columns if name not in (*_OWN, *_WHEN))
    filled |= {name: pl.coalesce(name, f"{name}_told") for name in rest}
    # what it was given may be more than it requested: a node by itself (`--exclusive`)
    is_given = pl.col("lacks_held") & is_same & is_begun
    given = pl.when(is_given).then(pl.coalesce("gpus_told", "gpus"))
    filled["gpus"] = given.otherwise(filled["gpus"])
    return pl.concat([rows.filter(~is_short), both.with_columns(**filled).select(rows.columns)])
