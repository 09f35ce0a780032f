"""Assumptions: what somebody says of all jobs because nothing was measured of them.

``training.mfu=0.35`` and the like. They are written into the jobs as they are submitted, and the
ledger calls what rests on them *assumed*; whatever was measured of a job counts before it.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import polars as pl

from tidemill.model import codes
from tidemill.model.batch import Batch, JobColumn
from tidemill.model.errors import SpecError
from tidemill.model.measures import ONE_PPM, decimal_number, duration_ms
from tidemill.model.states import Confidence

PREFIX = "training."
SHARES = {
    "mfu": JobColumn.MFU, "host": JobColumn.HOST, "communication": JobColumn.LINKS,
    "attainable": JobColumn.ATTAINABLE,
}  # fmt: skip
"""Shares of the time at work: model FLOPs over peak, waiting for the host and for the links, and
the roof that memory bandwidth allows."""
LENGTHS = {
    "checkpoint_interval": JobColumn.INTERVAL, "checkpoint_cost": JobColumn.COST,
    "startup": JobColumn.STARTUP, "restart": JobColumn.RESTART,
}  # fmt: skip
"""Lengths of time: between two checkpoints, of writing one, from being placed to the first step,
and what a later attempt takes beyond that."""


class Assumptions(NamedTuple):
    """What is assumed of every job, by the column of the job that it fills."""

    shares: dict[JobColumn, int] = {}  # noqa: RUF012 - never written
    lengths: dict[JobColumn, int] = {}  # noqa: RUF012 - never written

    @property
    def words(self) -> str:
        """Of what, for people."""
        names = {column: name for table in (SHARES, LENGTHS) for name, column in table.items()}
        return ", ".join(PREFIX + names[column] for column in (*self.shares, *self.lengths))

    def fill(self, batch: Batch, measured: Collection[str] = ()) -> Batch:
        """A batch whose new jobs say what is assumed of them.

        ``measured``: jobs of which it is known when they came up.
        """
        for column, value in self.lengths.items():
            batch.jobs[:, column] = value
        if measured and {JobColumn.STARTUP, JobColumn.RESTART} & {*self.lengths}:
            told = [name in measured for name in batch.job_names]
            batch.jobs[told, JobColumn.STARTUP] = batch.jobs[told, JobColumn.RESTART] = 0
        if self.shares:
            for column, value in self.shares.items():
                batch.jobs[:, column] = value
            batch.jobs[:, JobColumn.CONFIDENCE] = codes.CONFIDENCE_CODE[Confidence.ASSUMED]
        return batch

    def with_ups(self, attempts: pl.DataFrame, measured: Collection[str] = ()) -> pl.DataFrame:
        """Attempts that come up as late as is assumed, where nobody saw when they did."""
        first = self.lengths.get(JobColumn.STARTUP, 0)
        later = first + self.lengths.get(JobColumn.RESTART, 0)
        if not later:
            return attempts
        start, end = pl.col("start_ms"), pl.col("end_ms")
        wait = pl.when(pl.col("attempt") > 1).then(later).otherwise(first)
        up = start + wait
        up = pl.when(end.is_null()).then(up).otherwise(
            pl.min_horizontal(up, pl.max_horizontal(start, end - 1))
        )  # fmt: skip
        is_seen = (pl.col("up_ms") > start) | pl.col("job").is_in(list(measured))
        return attempts.with_columns(up_ms=pl.when(is_seen).then("up_ms").otherwise(up))


NOTHING = Assumptions()


def read(told: Iterable[str]) -> Assumptions:
    """``training.mfu=0.35,training.checkpoint_interval=30m``, once or several times."""
    shares, lengths = dict[JobColumn, int](), dict[JobColumn, int]()
    for pair in (part.strip() for text in told for part in text.split(",") if part.strip()):
        name, sign, value = pair.partition("=")
        key = name.strip().removeprefix(PREFIX)
        if not sign or key not in {*SHARES, *LENGTHS}:
            known = ", ".join(f"{PREFIX}{name}" for name in (*SHARES, *LENGTHS))
            raise SpecError(
                f"--assume is `{pair}`, which nothing can be assumed by",
                hint=f"such as training.mfu=0.35; known are {known}",
            )
        if key in SHARES:
            shares[SHARES[key]] = _share(pair, value.strip())
        else:
            lengths[LENGTHS[key]] = _length(pair, value.strip())
    _refuse_impossible(shares)
    if lengths.get(JobColumn.COST) and not lengths.get(JobColumn.INTERVAL):
        raise SpecError(
            "--assume says what a checkpoint costs, and not how often one is written",
            hint="add training.checkpoint_interval=30m",
        )
    return Assumptions(shares, lengths)


def _share(pair: str, text: str) -> int:
    try:
        value = round(decimal_number(text.removesuffix("%")) * ONE_PPM)
    except ValueError:
        value = -1
    value = value // 100 if text.endswith("%") else value
    if not 0 <= value <= ONE_PPM:
        raise SpecError(
            f"--assume is `{pair}`, which is no share of the time", hint="such as 0.35, or 35%"
        )
    return value


def _length(pair: str, text: str) -> int:
    try:
        return duration_ms(text)
    except ValueError as error:
        raise SpecError(
            f"--assume is `{pair}`, which is no length of time", hint="such as 30m or 90s"
        ) from error


def _refuse_impossible(shares: dict[JobColumn, int]) -> None:
    parts = [shares.get(c, 0) for c in (JobColumn.MFU, JobColumn.HOST, JobColumn.LINKS)]
    if shares and JobColumn.MFU not in shares:
        raise SpecError(
            "--assume says how the time at work divides, and not the MFU",
            hint="add training.mfu=0.35",
        )
    if sum(parts) > ONE_PPM:
        raise SpecError(
            "--assume gives shares of the time that are more than all of it",
            hint="mfu, host and communication together are at most 1",
        )
    if 0 < shares.get(JobColumn.ATTAINABLE, ONE_PPM) < shares.get(JobColumn.MFU, 0):
        raise SpecError(
            "--assume gives an MFU above what is attainable", hint="lower one, or raise the other"
        )
