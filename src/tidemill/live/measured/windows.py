"""Windows of time in which something of a job was measured: what sources give, one row each.

A source (a training loop, DCGM by Prometheus) knows its own wire format and nothing of events;
``events`` joins the windows of all sources to attempts. Times are milliseconds since 1970 in UTC;
shares are millionths of the window, of all GPUs of the job on average; null: not measured.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import polars as pl

from tidemill.journal.contradictions import Contradiction
from tidemill.model import lives

DEVICES = "dcgm"
"""Who measures devices, by whatever exporter."""
MINUTE_US = 60_000_000
"""Records of a second are added up to minutes of the clock."""

WINDOWS: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,  # the name of the job in the books (``ATTEMPTS.job``)
    "start_ms": pl.Int64,
    "end_ms": pl.Int64,
    "source": pl.String,  # who measured it: ``track``, ``dcgm``, ``engine``
    "busy_ppm": pl.Int64,  # the GPU was at work, as the device counts it
    "checkpoint_ppm": pl.Int64,  # the loop stood still for a checkpoint
    "data_ppm": pl.Int64,  # the loop waited for data
    "communication_ppm": pl.Int64,  # the loop waited for other ranks
    "straggler_ppm": pl.Int64,  # of what the loops waited for other ranks: for slow ones
    "heard_gpus": pl.Int64,  # of ranks that tell something then
    "silent_gpus": pl.Int64,  # of ranks that do not
    "said_gpus": pl.Int64,  # of all ranks; null where one does not say how many it uses
    "other_ppm": pl.Int64,  # outside of steps: start-up, evaluation, logging
    "mfu_ppm": pl.Int64,  # model FLOPs over the peak
    "sm_ppm": pl.Int64,  # SM active
    "tensor_ppm": pl.Int64,  # tensor pipes active
    "dram_ppm": pl.Int64,  # memory interface active
    "memory_ppm": pl.Int64,  # of the memory of the devices, used at most
    "watts": pl.Int64,  # of one device, on average
    "clock_mhz": pl.Int64,  # of the SMs of one device, on average
    "iowait_ppm": pl.Int64,  # of the time of all CPUs of its nodes, waiting for I/O
    "cpu_ppm": pl.Int64,  # of the time of all CPUs of its nodes, at work
    "step_us": pl.Int64,  # the median time from the end of one step to the end of the next
    "unseen_gpus": pl.Int64,  # that the job held, and nobody measured
    "unseen_ppm": pl.Int64,  # of all its GPUs: those that nobody measured while others were, or
    # that are said to be another job's
    "mflop_per_s": pl.Int64,  # achieved by one GPU: millions of operations of the model a second
}
"""One row per job and window of one source; windows of one source and job do not overlap."""

SAVES: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,
    "launched_ms": pl.Int64,  # when the first process of the launch began
    "left_ms": pl.Int64,  # of a loop that was launched again: when the launch before it was last
    # heard of; null: it says this of itself
    "at_ms": pl.Int64,  # when it was known to be safe
    "covers_ms": pl.Int64,  # what the job did up to this moment cannot be lost any more; where that
    # is after it was left, what was between: nobody says what
    "is_back": pl.Boolean,  # its loop goes back, or is launched again: the rest is lost
    "is_again": pl.Boolean,  # it works again after that
    "next_ms": pl.Int64,  # of a loop that was launched again: when the next launch began
}
"""One row per checkpoint that was saved, and per loop that went back to one."""

UPS: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,
    "began_ms": pl.Int64,  # when a process of it began
    "up_ms": pl.Int64,  # when its loop began to work; null: it has not
    "saves": pl.Boolean,  # whether it tells what it saves
    "last_ms": pl.Int64,  # when it was last heard of
    "launch": pl.Int64,  # its number: of several jobs that had one name, it is of one
}
"""One row per launch of a job that tells its steps."""


ERRORS: dict[str, pl.DataType | type[pl.DataType]] = {
    "at_ms": pl.Int64,  # within a minute from then
    "node": pl.String,
    "minor": pl.Int64,  # as the driver counts the devices of a node; -1: nobody said
    "xid": pl.Int64,
    "job": pl.String,  # null: nobody is known to have held the GPU
    "uuid": pl.String,  # the card itself, as NVIDIA names it; null: nobody said
}
"""One row per error that the driver of a device reported."""


LOADS: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.String,
    "start_ms": pl.Int64,
    "end_ms": pl.Int64,
    "source": pl.Int64,  # a ``LoadSource``
    "figure": pl.Int64,  # a ``LoadFigure``; a ``LatencyFigure`` where there is a bound
    "bound_us": pl.Int64,  # of a bucket of latencies: what is in it took no longer
    "amount": pl.Int64,
}
"""One row per job, stretch of time and figure; stretches of one source do not overlap."""


CONTRADICTIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "sort": pl.String,  # a ``ContradictionSort``
    "name": pl.String,  # of the node or job
    "source": pl.String,
    "says": pl.String,
    "first_ms": pl.Int64,
    "last_ms": pl.Int64,
}
"""One row per node or job of which a source says otherwise than the scheduler."""


SAID: dict[str, pl.DataType | type[pl.DataType]] = {"job": pl.String, "source": pl.String}
"""One row per job that says where it has its efficiency from."""


class Measurements(NamedTuple):
    """All that was measured of the jobs of a history."""

    windows: pl.DataFrame
    saves: pl.DataFrame
    ups: pl.DataFrame
    errors: pl.DataFrame = pl.DataFrame(schema=ERRORS)
    loads: pl.DataFrame = pl.DataFrame(schema=LOADS)
    against: pl.DataFrame = pl.DataFrame(schema=CONTRADICTIONS)
    said: pl.DataFrame = pl.DataFrame(schema=SAID)

    def with_against(self, found: Iterable[Contradiction]) -> "Measurements":
        """The same, and where whoever measured it contradicts the scheduler."""
        rows = [msgspec.structs.astuple(one) for one in found]
        return self._replace(against=pl.DataFrame(rows, schema=CONTRADICTIONS, orient="row"))

    def for_lives(self, jobs: pl.Series) -> "Measurements":
        """The same, of each of several jobs that had one name after each other.

        Sources measure by that name. It is joined to attempts by time: of each job that counts
        which was measured while it ran.
        """
        told = {"windows": self.windows, "saves": self.saves, "ups": self.ups, "loads": self.loads}
        known = {name for table in told.values() for name in table["job"].unique().to_list()}
        names = jobs.filter(jobs.str.contains(f"{lives.LIFE}\\d+$")).unique().sort().to_list()
        later = {name: base for name in names if (base := lives.origin(name, known)) != name}
        if not later:
            return self
        whose = pl.DataFrame({"job": [*later.values()], "later": [*later]})
        return self._replace(**{key: _also(table, whose) for key, table in told.items()})

    def mfu_sources(self) -> list[tuple[str, str]]:
        """Jobs, and where they have their efficiency from."""
        return [(job, source) for job, source in self.said.iter_rows()]

    def contradictions(self) -> list[Contradiction]:
        """Where those who measured it contradict the scheduler."""
        return msgspec.convert(self.against.to_dicts(), list[Contradiction])


def _also(told: pl.DataFrame, whose: pl.DataFrame) -> pl.DataFrame:
    """Rows, and the same rows under further names of their jobs."""
    more = told.join(whose, on="job").with_columns(job="later").select(told.columns)
    return pl.concat([told, more])


def nothing() -> Measurements:
    """Nobody measured anything."""
    return Measurements(*(pl.DataFrame(schema=form) for form in (WINDOWS, SAVES, UPS)))


def both(one: Measurements, other: Measurements) -> Measurements:
    """What two sources measured."""
    return Measurements(*(pl.concat(pair, how="diagonal") for pair in zip(one, other, strict=True)))
