"""Devices of jobs that run below their peers, from minutes of a Prometheus joined to jobs."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.prometheus.joining import HeldGpus
from tidemill.live.prometheus.minutes import MINUTE_MS
from tidemill.live.prometheus.reading import Hour
from tidemill.workload.slow import devices
from tidemill.workload.slow.devices import DeviceMinutes, SlowDevice
from tidemill.workload.slow.peers import F64

BIN_MS = 5 * MINUTE_MS
_FIGURES = ("clock_mhz", "busy", "watts", "celsius", "sm")
_DEVICE = ("node", "uuid", "minor", "model")


class DeviceSuspect(NamedTuple):
    """A device that ran below the others of its job."""

    job: str
    node: str
    uuid: str
    minor: int
    found: SlowDevice


class DeviceStragglers(NamedTuple):
    """What devices say of each other."""

    suspects: tuple[DeviceSuspect, ...]
    jobs: int
    """That were judged: clocks of several devices of one model are known for long enough."""
    too_short: int
    """Jobs of whose devices too little is known while they were at work."""
    without_clocks: int
    """Jobs with several devices of which nobody told the clock."""

    def document(self) -> dict[str, object]:
        """For JSON."""
        rows = [
            one._asdict() | {"found": one.found._asdict() | {
                "figures": one.found.figures._asdict(), "peers": one.found.peers._asdict()}}
            for one in self.suspects
        ]  # fmt: skip
        counts = {name: getattr(self, name) for name in ("jobs", "too_short", "without_clocks")}
        return {"suspects": rows, **counts}


def find(hours: Iterable[Hour], held: HeldGpus) -> DeviceStragglers:
    """Devices whose clock is below that of the other devices of their model in the same job."""
    parts = [_binned(held.of(hour)) for hour in hours]
    rows = pl.concat(parts) if parts else pl.DataFrame()
    suspects, judged = list[DeviceSuspect](), set[str]()
    short, silent = set[str](), set[str]()
    if len(rows):
        for (job, _), some in rows.group_by("job", "model", maintain_order=True):
            if some.select(pl.struct("node", "uuid", "minor").n_unique()).item() < 2:
                continue
            if some["clock_mhz"].is_null().all():
                silent.add(str(job))
                continue
            told, who = _of_job(some)
            (judged if devices.is_judged(told) else short).add(str(job))
            for one in devices.find(told):
                node, uuid, minor = who.row(one.device)
                suspects.append(DeviceSuspect(str(job), node, uuid, minor, one))
    order = sorted(suspects, key=lambda one: (-one.found.slow_ppm, one.job, one.node, one.minor))
    return DeviceStragglers(
        tuple(order), len(judged), len(short - judged), len(silent - short - judged)
    )


def _binned(minutes: pl.DataFrame) -> pl.DataFrame:
    """Whole devices, averaged over five minutes."""
    whole = minutes.filter(pl.col("mig") == "")
    at = (pl.col("at_ms") // BIN_MS * BIN_MS).alias("at_ms")
    return whole.group_by("job", *_DEVICE, at).agg(pl.col(*_FIGURES).mean())


def _of_job(rows: pl.DataFrame) -> tuple[DeviceMinutes, pl.DataFrame]:
    """What the devices of a job did, and which column is whose."""
    times = np.unique(rows["at_ms"].to_numpy())
    who = rows.select("node", "uuid", "minor").unique().sort("node", "minor", "uuid")
    numbered = rows.join(who.with_row_index("device"), on=["node", "uuid", "minor"])
    at = np.searchsorted(times, numbered["at_ms"].to_numpy())
    column = numbered["device"].to_numpy()

    def table(name: str) -> F64:
        made = np.full((len(times), len(who)), np.nan)
        made[at, column] = numbered[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        return made

    return DeviceMinutes(times, *(table(name) for name in _FIGURES)), who
