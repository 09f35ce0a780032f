"""How attempts ended, by the states that Slurm prints."""

import polars as pl

from tidemill.live.history.rows import AttemptEnd

_OUTCOMES = {
    "PENDING": AttemptEnd.WAITING,
    "RUNNING": AttemptEnd.RUNNING,
    "SUSPENDED": AttemptEnd.RUNNING,
    "COMPLETED": AttemptEnd.DONE,
    "CANCELLED": AttemptEnd.CANCELLED,
    "REVOKED": AttemptEnd.CANCELLED,
    "FAILED": AttemptEnd.FAILED,
    "BOOT_FAIL": AttemptEnd.NODE_LOST,
    "NODE_FAIL": AttemptEnd.NODE_LOST,
    "TIMEOUT": AttemptEnd.TIMED_OUT,
    "DEADLINE": AttemptEnd.TIMED_OUT,
    "OUT_OF_MEMORY": AttemptEnd.OUT_OF_MEMORY,
    "PREEMPTED": AttemptEnd.PREEMPTED,
    "REQUEUED": AttemptEnd.REQUEUED,
    "REQUEUE_FED": AttemptEnd.REQUEUED,
    "REQUEUE_HOLD": AttemptEnd.REQUEUED,
    "RESIZING": AttemptEnd.CHANGED,
    "SPECIAL_EXIT": AttemptEnd.FAILED,
    "LAUNCH_FAILED": AttemptEnd.FAILED,
    "RECONFIG_FAIL": AttemptEnd.FAILED,
}
"""Words of states; a flag without a state beside it is one, too (sacct prints only that)."""
WORDS = {word: str(outcome) for word, outcome in _OUTCOMES.items()}

IS_REFUSED = (
    (pl.col("outcome") == AttemptEnd.FAILED)
    & (pl.col("start_ms").is_null() & pl.col("end_ms").is_not_null())
    & (pl.col("gpus") > 0)
)
"""Slurm refused it: it failed without a start."""


def said_refused(jobs: int) -> list[str]:
    """How many of these there are, in words."""
    if not jobs:
        return []
    told = "1 job" if jobs == 1 else f"{jobs:,} jobs"
    return [f"{told} FAILED without a start (refused by Slurm): on the books as cancelled"]
