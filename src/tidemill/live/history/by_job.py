"""What rows say together that are sorted by job: each beside the one before it and after it.

The same as ``over("job")``, which looks for the rows of every job first: at a million jobs a
hundred times slower.
"""

import polars as pl

_JOB = pl.col("job")


def is_first() -> pl.Expr:
    """Whether a row is the first of its job."""
    return (_JOB.shift(1) != _JOB).fill_null(value=True)


def is_last() -> pl.Expr:
    """Whether a row is the last of its job."""
    return (_JOB.shift(-1) != _JOB).fill_null(value=True)


def before(told: pl.Expr) -> pl.Expr:
    """What the row before says; null at the first of a job."""
    return pl.when(~is_first()).then(told.shift(1))


def after(told: pl.Expr) -> pl.Expr:
    """What the next row says; null at the last of a job."""
    return pl.when(~is_last()).then(told.shift(-1))


def counted(flags: pl.Expr) -> pl.Expr:
    """How many rows of the job, up to this one, are flagged."""
    ones = flags.cast(pl.Int64)
    count = ones.cum_sum()
    before_job = pl.when(is_first()).then(count - ones).forward_fill()
    return count - before_job
