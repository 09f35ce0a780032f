"""Under-used whole GPUs: jobs that held them and used less than half of every axis, as measured.

Three axes: compute (SMs active; the share of busy time where that was not measured), memory
bandwidth, and memory. Compute and bandwidth are averages over the time that was measured, memory is
the most that was used. A job of which less than half of its time is known on any axis is not
judged: unknown is not little. How many of a job one GPU has room for its busiest GPU says, which is
known where each of them is.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import polars as pl

from tidemill.live.history.attempts import kind_of
from tidemill.model.measures import HOUR_MS, MINUTE_MS, ONE_PPM
from tidemill.units.sharing.slivers import FULL, SMALL

LEAST_KNOWN = 0.5
"""Of the time of a job's windows, on each axis."""
MOST_SHARING = 7
ANY_TYPE = ""
"""In prices: of every GPU type that has none of its own."""
HARDLY_PPM = 50_000
_AXES = ("compute", "bandwidth", "memory")


class UnderusedJob(NamedTuple):
    """What a job held, and how much of it it used."""

    job: str
    user: str | None
    team: str | None
    gpu_type: str
    gpus: int
    gpu_ms: int
    """GPU-milliseconds that it held in windows that were measured."""
    compute_ppm: int
    bandwidth_ppm: int
    memory_ppm: int
    usd_micro: int | None
    """What those cost; None: nobody said the price."""
    step_ppm: int = 0
    """Shares are known to the nearest of such steps: a journal keeps them so. 0: as measured."""
    busiest_ppm: int | None = None
    """The axis most used of its busiest GPU; None: not known of each of its GPUs."""
    idle_gpus: int = 0
    """Of its GPUs, those that are known to be hardly used."""

    @property
    def is_hardly_used(self) -> bool:
        """Whether all that it holds computes and moves next to nothing."""
        return max(self.compute_ppm, self.bandwidth_ppm) < HARDLY_PPM

    @property
    def most_ppm(self) -> int | None:
        """What of one of its GPUs is used at most; None: it has several, and each is not known."""
        if self.gpus > 1:
            return self.busiest_ppm
        return max(self.compute_ppm, self.bandwidth_ppm, self.memory_ppm) + self.step_ppm // 2

    @property
    def fits(self) -> int | None:
        """How many of it one GPU has room for on every axis: at most seven, as MIG has slices. At
        least so many where shares are known in steps; None: not known of each of its GPUs.
        """
        most = self.most_ppm
        return None if most is None else min(MOST_SHARING, int(FULL * ONE_PPM) // max(most, 1))

    @property
    def gpu_hours(self) -> float:
        """For people."""
        return self.gpu_ms / HOUR_MS


_OF_WINDOWS = UnderusedJob._fields[: UnderusedJob._fields.index("busiest_ppm")]
"""What windows of the whole job tell; the rest is of its GPUs (``with_devices``)."""


class UsedDevice(NamedTuple):
    """What a job used of one GPU in the minutes that were measured; None: not measured."""

    job: str
    node: str
    uuid: str
    minor: int
    minutes: int
    compute_ppm: int | None
    bandwidth_ppm: int | None
    memory_ppm: int | None


class UnderusedUser(NamedTuple):
    """What the under-used GPUs of a user come to."""

    user: str | None
    jobs: int
    gpu_ms: int
    usd_micro: int | None


class Underused(NamedTuple):
    """Jobs that hold whole GPUs for little, the largest first, and how many were looked at."""

    jobs: tuple[UnderusedJob, ...]
    users: tuple[UnderusedUser, ...]
    judged: int
    unknown: int
    """Jobs with windows of which some axis is not known."""

    def document(self) -> dict[str, object]:
        """For JSON."""
        return {
            "jobs": [job._asdict() | {"fits": job.fits} for job in self.jobs],
            "users": [user._asdict() for user in self.users],
            "judged": self.judged, "unknown": self.unknown,
        }  # fmt: skip


class DeviceUse:
    """Adds up what jobs use of each GPU, hour by hour."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame] = []

    def take(self, minutes: pl.DataFrame) -> None:
        """Minutes of GPUs with their ``job`` (``HeldGpus.of``)."""
        rows = minutes.with_columns(
            compute=pl.coalesce("sm", "busy"), memory=pl.col("used_bytes") / pl.col("total_bytes")
        )
        self._parts.append(
            rows.group_by("job", "node", "uuid", "minor").agg(
                length_ms=pl.col("length_ms").fill_null(MINUTE_MS).sum(),
                memory=pl.col("memory").max(),
                **{f"{name}_sum": pl.col(name).sum() for name in ("compute", "dram")},
                **{f"{name}_count": pl.col(name).count() for name in ("compute", "dram")},
            )
        )

    def of(self, jobs: Collection[str]) -> tuple[UsedDevice, ...]:
        """The GPUs of some jobs, by job and place."""
        if not self._parts:
            return ()
        sums = [f"{name}_{what}" for name in ("compute", "dram") for what in ("sum", "count")]
        rows = (
            pl.concat(self._parts)
            .filter(pl.col("job").is_in(list(jobs)))
            .group_by("job", "node", "uuid", "minor")
            .agg(pl.col("length_ms", *sums).sum(), pl.col("memory").max())
            .sort("job", "node", "minor", "uuid")
        )

        def ppm(share: pl.Expr) -> pl.Expr:
            return (share * ONE_PPM).round().cast(pl.Int64)

        def mean(name: str) -> pl.Expr:
            is_known = pl.col(f"{name}_count") > 0
            return pl.when(is_known).then(
                ppm(pl.col(f"{name}_sum") / pl.col(f"{name}_count").clip(1))
            )

        told = rows.select(
            "job", "node", "uuid", "minor", minutes=pl.col("length_ms") // MINUTE_MS,
            compute_ppm=mean("compute"),
            bandwidth_ppm=mean("dram"), memory_ppm=ppm(pl.col("memory")),
        )  # fmt: skip
        return tuple(UsedDevice(*row) for row in told.iter_rows())


def find(
    windows: pl.DataFrame,
    attempts: pl.DataFrame,
    usd_micro_per_hour: Mapping[str, int],
    by_job: Mapping[str, int] | None = None,
    step_ppm: int = 0,
) -> Underused:
    """The under-used jobs among these windows (``WINDOWS``) of these attempts (``ATTEMPTS``).

    ``usd_micro_per_hour``: of one GPU by type, as the books call it; ``by_job`` goes before it.
    ``step_ppm``: as ``UnderusedJob`` has it.
    """
    jobs = _of_jobs(windows, _known_of(attempts))
    is_known = pl.all_horizontal(pl.col(f"{axis}_ppm").is_not_null() for axis in _AXES)
    judged = jobs.filter(is_known)
    small = judged.filter(pl.max_horizontal(f"{axis}_ppm" for axis in _AXES) < SMALL * ONE_PPM)
    rows = small.sort(pl.col("gpu_ms") * -1, "job").with_columns(
        usd_micro=pl.lit(None, pl.Int64), step_ppm=pl.lit(step_ppm, pl.Int64)
    )
    told = (UnderusedJob(*row) for row in rows.select(_OF_WINDOWS).iter_rows())
    found = [_priced(row, usd_micro_per_hour, by_job or {}) for row in told]
    return Underused(tuple(found), _users(found), len(judged), len(jobs) - len(judged))


def with_devices(found: Underused, devices: Collection[UsedDevice]) -> Underused:
    """The same, with what is known of each GPU of a job."""
    by_job = dict[str, list[UsedDevice]]()
    for one in devices:
        by_job.setdefault(one.job, []).append(one)
    jobs = tuple(_with_devices(job, by_job.get(job.job, [])) for job in found.jobs)
    return found._replace(jobs=jobs)


def _with_devices(job: UnderusedJob, devices: list[UsedDevice]) -> UnderusedJob:
    """A GPU of which too little was measured, beside the others, is not known."""
    enough = LEAST_KNOWN * max((one.minutes for one in devices), default=0)
    known = [
        (one.compute_ppm, one.bandwidth_ppm, one.memory_ppm)
        for one in devices
        if one.minutes >= enough
    ]
    axes = [(c, b, m) for c, b, m in known if None not in (c, b, m)]
    idle = sum(max(c or 0, b or 0) < HARDLY_PPM for c, b, _ in axes)
    is_each = len(axes) == len(devices) >= job.gpus
    return job._replace(
        busiest_ppm=max(ppm or 0 for one in axes for ppm in one) if is_each and axes else None,
        idle_gpus=idle if len(devices) <= job.gpus else 0,
    )


def _known_of(attempts: pl.DataFrame) -> pl.DataFrame:
    """Whose each job is; what a source does not tell is null. MIG instances and other parts are no
    whole GPUs.
    """
    for name in ("is_instance", "is_part"):
        if name in attempts.columns:
            attempts = attempts.filter(~pl.col(name))
    kinds = {"user": pl.String, "team": pl.String, "gpu_type": pl.String}
    rows = attempts.select(
        "job", "gpus",
        *((pl.col(name) if name in attempts.columns else pl.lit(None)).cast(kind).alias(name)
          for name, kind in kinds.items()),
    )  # fmt: skip
    named = rows.with_columns(pl.col("gpu_type").fill_null(""))
    return named.filter(pl.col("gpus") > 0).unique("job", keep="last", maintain_order=True)


def _of_jobs(windows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Each job with its axes; null where too little of one is known."""
    length = pl.col("end_ms") - pl.col("start_ms")
    rows = windows.with_columns(
        length=length, compute=pl.coalesce("sm_ppm", "busy_ppm"), bandwidth="dram_ppm"
    )

    def axis(name: str, value: pl.Expr) -> pl.Expr:
        seen = pl.col("length").filter(pl.col(name).is_not_null()).sum()
        is_enough = (seen > 0) & (seen >= LEAST_KNOWN * pl.col("length").sum())
        return pl.when(is_enough).then(value)

    def mean(name: str) -> pl.Expr:
        seen = pl.col("length").filter(pl.col(name).is_not_null()).sum()
        return axis(name, (pl.col(name) * pl.col("length")).sum() // seen)

    by_job = rows.group_by("job").agg(
        pl.col("length").sum(),
        compute_ppm=mean("compute"),
        bandwidth_ppm=mean("bandwidth"),
        memory_ppm=axis("memory_ppm", pl.col("memory_ppm").max()),
    )
    return by_job.join(known, on="job").with_columns(gpu_ms=pl.col("length") * pl.col("gpus"))


def _priced(
    row: UnderusedJob, prices: Mapping[str, int], by_job: Mapping[str, int]
) -> UnderusedJob:
    price = by_job.get(row.job, prices.get(kind_of(row.gpu_type), prices.get(ANY_TYPE)))
    return row._replace(usd_micro=None if price is None else row.gpu_ms * price // HOUR_MS)


def _users(jobs: list[UnderusedJob]) -> tuple[UnderusedUser, ...]:
    """By user, the most GPU-time first; dollars only where all of them are known."""
    found: dict[str | None, UnderusedUser] = {}
    for job in jobs:
        user = found.get(job.user, UnderusedUser(job.user, 0, 0, 0))
        both = (
            None
            if job.usd_micro is None or user.usd_micro is None
            else user.usd_micro + job.usd_micro
        )
        found[job.user] = UnderusedUser(job.user, user.jobs + 1, user.gpu_ms + job.gpu_ms, both)
    return tuple(sorted(found.values(), key=lambda user: (-user.gpu_ms, user.user or "")))
