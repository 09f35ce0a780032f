"""What of each attempt is safe, as its loops say: what launches told of saves, by attempt.

A loop that says nothing of what it saves tells when it was launched again; what was lost by that,
and what a stop loses after it, nobody knows.
"""

import polars as pl

from tidemill.live.measured import clocks
from tidemill.live.measured.windows import Measurements

KEY = ["number", "attempt"]
"""By what attempts are told apart."""


def told(
    runs: pl.DataFrame, measured: Measurements, before: pl.DataFrame, begins_ms: int
) -> pl.DataFrame:
    """What is safe, and at the beginning of each attempt that tells it, that nothing is yet.

    Where its loop spoke only later, from then on: what was before is no work that was measured. By
    the clock of its loop the last save may be after the end. A loop is launched again within an
    attempt if the launch before it was heard of in it. One that says nothing of what it saves is
    launched again, and what was lost by that, or will be by a stop, nobody knows.
    """
    every = runs.join(before, on=KEY, how="left").with_columns(
        began_ms=pl.coalesce("began_ms", "start_ms"), tells=pl.col("tells").fill_null(value=False)
    )
    every = every.with_columns(says=pl.col("tells") | pl.col("job").is_in(_who_saves(measured)))
    last_ms, at_ms = pl.col("end_ms") - 1, pl.col("at_ms")
    is_at_end = pl.col("is_over") & at_ms.is_between(last_ms, last_ms + clocks.SLACK_MS)
    is_at_end &= pl.col("launched_ms") < pl.col("end_ms")
    is_at_end &= pl.col("left_ms").is_null()
    is_own = pl.col("left_ms").is_null() | (pl.col("left_ms") > pl.col("began_ms"))
    is_own &= pl.col("next_ms").is_null() | (pl.col("next_ms") <= last_ms)
    is_own &= ~_IS_BETWEEN | (pl.col("left_ms") >= pl.col("start_ms"))
    inside = every.join(measured.saves, on="job").filter(
        is_own & (at_ms.is_between(pl.col("start_ms"), last_ms) | is_at_end)
    )
    at_ms = pl.max_horizontal("at_ms", "covers_ms").clip(upper_bound=last_ms)
    saved = inside.with_columns(at_ms=at_ms).select(
        *KEY, "at_ms", "is_back", "is_again",
        covers_ms=pl.when(pl.col("is_again") & ~pl.col("says")).then(begins_ms)
        .otherwise(pl.col("covers_ms").clip(pl.col("began_ms"), pl.col("at_ms"))),
    ).sort("at_ms", "is_again", "is_back", "covers_ms")  # fmt: skip
    is_first = pl.col("says") & ~pl.col("tells") & (pl.col("spoken_ms") < pl.col("end_ms"))
    first = _with_launches(every.filter(is_first), measured.ups)
    is_late = pl.col("is_up_told") & (pl.col("spoken_ms") > pl.col("start_ms"))
    safe_ms = pl.when(is_late).then("spoken_ms").otherwise("began_ms")
    never = pl.lit(value=False)
    first = first.select(*KEY, at_ms="spoken_ms", is_back=never, is_again=never, covers_ms=safe_ms)
    return pl.concat([first, saved])


_IS_BETWEEN = (
    ~pl.col("is_back") & ~pl.col("is_again") & (pl.col("covers_ms") > pl.col("left_ms"))
).fill_null(value=False)
"""Of saves: what was between two launches, which counts only where its beginning is told too."""


def _who_saves(measured: Measurements) -> list[str]:
    """Jobs that say what they save, or of which a later launch proves it."""
    is_of_itself = pl.col("left_ms").is_null() | (pl.col("covers_ms") < pl.col("left_ms"))
    saved = measured.saves.filter(~pl.col("is_back") & ~pl.col("is_again") & is_of_itself)["job"]
    return sorted(pl.concat([saved, measured.ups.filter("saves")["job"]]).unique().to_list())


def _with_launches(runs: pl.DataFrame, ups: pl.DataFrame) -> pl.DataFrame:
    """Attempts but for those in which no launch was there, of jobs whose launches are known."""
    is_there = (pl.col("last_ms") >= pl.col("held_ms") - clocks.SLACK_MS) & (
        pl.col("began_ms_right") <= pl.col("end_ms")
    )
    found = runs.join(ups, on="job").filter(is_there).select(KEY).unique()
    unknown = runs.join(ups, on="job", how="anti")
    return pl.concat([runs.join(found, on=KEY, how="semi", maintain_order="left"), unknown])
