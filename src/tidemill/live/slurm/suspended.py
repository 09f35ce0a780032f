"""Jobs that Slurm suspended: they kept their GPUs, and did nothing with them.

The accounting says for how long in all, and not when: the time of such an attempt is idle by as
much as it was suspended, all along. Devices that were measured say it better, and go before.
"""

import polars as pl

from tidemill.live.measured import windows
from tidemill.live.measured.windows import Measurements
from tidemill.model.measures import HOUR_MS, ONE_PPM, count_text

SOURCE = "sacct"
"""Who measured it."""


class SuspendedTimes:
    """For how long attempts were suspended, one part of a history after the other."""

    def __init__(self) -> None:
        self._found = list[pl.DataFrame]()

    def take(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Remember what attempts say of it; gives them without that column."""
        is_so = (pl.col("suspended_ms") > 0) & pl.col("start_ms").is_not_null()
        some = attempts.filter(is_so)
        if len(some):
            self._found.append(some.select("job", "start_ms", "end_ms", "suspended_ms", "gpus"))
        return attempts.drop("suspended_ms")

    def told(self, last_ms: int) -> tuple[Measurements | None, list[str]]:
        """As measured windows, and in words; ``last_ms``: up to when the rest is shown."""
        if not self._found:
            return None, []
        rows = pl.concat(self._found).with_columns(pl.col("end_ms").fill_null(last_ms))
        length = (pl.col("end_ms") - pl.col("start_ms")).clip(pl.col("suspended_ms"))
        busy = ONE_PPM - pl.col("suspended_ms") * ONE_PPM // length
        made = rows.select("job", "start_ms", end_ms=pl.col("start_ms") + length,
                           source=pl.lit(SOURCE), busy_ppm=busy)  # fmt: skip
        hours = rows.select((pl.col("suspended_ms") * pl.col("gpus")).sum()).item() / HOUR_MS
        words = (
            f"{count_text(len(rows), 'attempt')} suspended for {hours:,.1f} GPU-hours in all, with"
            " their GPUs: allocated, idle; when is not told, so it is idle all along"
        )
        made = made.with_columns(pl.col("busy_ppm").cast(pl.Int64))
        return windows.nothing()._replace(windows=made), [words]


def beside(measured: Measurements | None, told: Measurements | None) -> Measurements | None:
    """What was measured, and what the accounting says."""
    return windows.both(measured, told) if measured and told else measured or told
