"""Since when schedulers say why jobs wait: most show only that it is so now.

The journal is told up to some time before the look, so what a look shows would be known from the
end of what is told only: the first minutes of every wait would have no cause. Looks that follow
each other and see one cause of one wait prove it since the first of them.
"""

import polars as pl

from tidemill.live.history.rows import AttemptEnd

_Cause = tuple[int | None, str | None, int | None]
"""Our cause, the scheduler's words where we have none of it, and when the job was submitted."""


class ReasonsSeen:
    """The causes that the last look at a cluster saw, and since which look."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[_Cause, int]] = {}

    def dated(self, attempts: pl.DataFrame, now_ms: int) -> pl.DataFrame:
        """Attempts with the first look that saw why they wait, where nobody says since when."""
        is_undated = (
            (pl.col("outcome") == AttemptEnd.WAITING)
            & pl.col("reason").is_not_null()
            & pl.col("reason_ms").is_null()
        )
        said = attempts.filter(is_undated).select("job", "reason_cause", "reason", "submit_ms")
        before, self._since = self._since, {}
        for job, cause, words, submit_ms in said.iter_rows():
            mine = cause or None, None if cause else words, submit_ms
            known = before.get(job)
            self._since[job] = (mine, known[1] if known and known[0] == mine else now_ms)
        since = [self._since[job][1] for job in said["job"]]
        looks = pl.DataFrame({"job": said["job"], "look_ms": since}, schema_overrides=_LOOKS)
        found = attempts.join(looks.unique("job"), on="job", how="left", maintain_order="left")
        look = pl.when(is_undated).then("look_ms")
        return found.with_columns(reason_ms=pl.coalesce("reason_ms", look)).drop("look_ms")


_LOOKS = {"job": pl.String, "look_ms": pl.Int64}
