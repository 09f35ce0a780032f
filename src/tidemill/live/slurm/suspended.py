"""Jobs that Slurm suspended: they kept their GPUs, and did nothing with them.

The accounting says for how long in all, and not when; the queue says when a job was last suspended
or resumed, and for how long it ran before it was last suspended. Devices that were measured say it
better, and go before (``measured.pauses``).
"""

import polars as pl

from tidemill.live.measured import pauses, windows
from tidemill.live.measured.windows import Measurements
from tidemill.live.slurm import het
from tidemill.model.measures import HOUR_MS, count_text

COLUMNS = ("suspended_ms", "changed_ms", "ran_ms", "is_suspended")
"""What rows of attempts say of it: in all, when that changed last, for how long it ran before, and
whether it is so now."""


class SuspendedTimes:
    """For how long attempts were suspended, one part of a history after the other."""

    def __init__(self) -> None:
        self._found = [pl.DataFrame(schema=pauses.PAUSES)]

    def take(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Remember what attempts say of it; gives them without these columns."""
        is_so = (pl.col("suspended_ms") > 0) | pl.col("changed_ms").is_not_null()
        some = attempts.filter(is_so & pl.col("start_ms").is_not_null())
        if len(some):
            self._found.append(_as_pauses(some))
        return attempts.drop(COLUMNS)

    def rows(self) -> pl.DataFrame:
        """As ``pauses.PAUSES``; of the parts of a heterogeneous job one: they have one name."""
        name = pl.col("job").str.replace(het.PART_NUMBER, "")
        every = pl.concat(self._found).with_columns(job=name)
        key = ["job", "start_ms"]
        rest = [pl.col(name).first() for name in pauses.PAUSES if name not in (*key, "gpus")]
        found = every.group_by(key, maintain_order=True).agg(pl.col("gpus").sum(), *rest)
        return found.select(*pauses.PAUSES)  # in this order from every source: they are joined

    def told(self, last_ms: int) -> tuple[Measurements | None, list[str]]:
        """As measured windows, and in words; ``last_ms``: up to when the rest is shown."""
        rows = self.rows().filter(pauses.in_all_ms(last_ms) > 0)
        if not len(rows):
            return None, []
        ms = rows.select((pauses.in_all_ms(last_ms) * pl.col("gpus")).sum()).item()
        hours, seconds = ms / HOUR_MS, ms / 1000
        amount = f"{hours:,.1f} GPU-hours" if hours >= 1 else f"{seconds:,.0f} GPU-seconds"
        words = (
            f"{count_text(len(rows), 'attempt')} suspended for {amount} in all, with"
            " their GPUs: allocated, idle; when is told of the last time at most, so the rest is"
            " idle all along"
        )
        return pauses.all_along(rows, last_ms), [words]


def _as_pauses(attempts: pl.DataFrame) -> pl.DataFrame:
    """What attempts say, as ``pauses.PAUSES``.

    Of one that is over the accounting says all, also where it ended while it was suspended.
    """
    before = pl.col("changed_ms") - pl.col("start_ms") - pl.col("ran_ms")
    before = pl.when(pl.col("changed_ms").is_not_null()).then(before.clip(0))
    rest = (pl.col("suspended_ms").fill_null(0) - before).clip(0)
    after = pl.when(pl.col("end_ms").is_not_null()).then(rest).when(~pl.col("is_suspended")).then(0)
    return attempts.select(
        "job", "start_ms", "end_ms", "gpus",
        paused_ms=pl.coalesce(before, "suspended_ms"), changed_ms="changed_ms",
        after_ms=pl.when(pl.col("changed_ms").is_null()).then(0).otherwise(after),
    ).cast(pl.Schema(pauses.PAUSES))  # fmt: skip


def beside(measured: Measurements | None, told: Measurements | None) -> Measurements | None:
    """What was measured, and what the accounting says."""
    return windows.both(measured, told) if measured and told else measured or told
