"""What training loops tell (``tidemill.track``) as windows and launches of their jobs.

A *launch* is all processes of a job whose lives overlap: its ranks, or several that know nothing of
each other (trials on one GPU each). Their stretches are added up over equal bins of time, each with
the GPUs that it uses; a bin is a second, or more where a launch is long, so that no launch has more
than ``MOST_BINS`` of them.

``LoopRecords`` takes records as they come and forgets what was told, so that what is held in memory
follows how many processes run, not for how long.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidemill.live.history.rows import ATTEMPTS, AttemptEnd
from tidemill.live.measured import flops, stalls
from tidemill.live.measured.processes import SECOND_US, Process, says_efficiency
from tidemill.live.measured.windows import UPS, WINDOWS, Measurements, nothing
from tidemill.live.track.records import EfficiencyRecord, TrackRecord
from tidemill.model.measures import ONE_PPM

SOURCE = "track"
MOST_BINS = 2_000
LONGEST_AFTER_MS = 30 * 86_400_000
_PARTS = ("checkpoint_us", "data_us", "communication_us", "other_us")
_WAITS = ("checkpoint_us", "data_us", "communication_us")
_NAMES = {part: f"{part.removesuffix('_us')}_ppm" for part in _PARTS}
_WORK = "mflop"


class Launch(NamedTuple):
    """All processes of a job that were there together."""

    job: str
    processes: tuple[Process, ...]
    first_us: int
    last_us: int

    @property
    def gpus(self) -> int:
        """The most that its processes used at once."""
        begins = [(one.first_us, one.gpus) for one in self.processes]
        ends = [(max(one.last_us, one.first_us + 1), -one.gpus) for one in self.processes]
        return max(accumulate(gpus for _, gpus in sorted([*begins, *ends])), default=0)

    @property
    def is_service(self) -> bool:
        """Whether it answers requests."""
        return any(process.is_service for process in self.processes)

    @property
    def up_us(self) -> int | None:
        """When the last of its ranks began its loop; None: one has not."""
        by_rank = dict[int, list[Process]]()
        for process in self.processes:
            if process.gpus:
                by_rank.setdefault(process.rank, []).append(process)
        ups = [_up_us(some) for some in by_rank.values()]
        return None if not ups or None in ups else max(up for up in ups if up is not None)


def _up_us(processes: Sequence[Process]) -> int | None:
    """When processes that call themselves one rank had begun their loops: those that were there
    before the first had. One that came later took the place of another.
    """
    ups = [(one.first_us, up_us) for one in processes if (up_us := one.up_us) is not None]
    first_us = min((up_us for _, up_us in ups), default=0)
    return max((up_us for began_us, up_us in ups if began_us <= first_us), default=None)


class LoopRecords:
    """Records of training loops, by process."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, str, int], Process] = {}

    def take(self, record: TrackRecord) -> None:
        """One more record."""
        key = (record.job, record.run, record.rank)
        process = self._processes.get(key)
        if process is None:
            process = self._processes[key] = Process(record)
        process.take(record)

    def launches(self) -> list[Launch]:
        """The launches of all jobs, by job and time."""
        by_job: dict[str, list[Process]] = {}
        for process in filter(lambda one: one.is_loop, self._processes.values()):
            process.stretches.sort(key=lambda stretch: stretch.from_us)
            by_job.setdefault(process.job, []).append(process)
        return [launch for job in sorted(by_job) for launch in _together(job, by_job[job])]

    def forget(self, before_us: int, gone_us: int) -> None:
        """Drop what was told before a moment, and processes that were silent since another one."""
        self._processes = {
            key: one for key, one in self._processes.items() if one.last_us >= gone_us
        }
        for process in self._processes.values():
            process.forget(before_us)


def launches(records: Iterable[TrackRecord]) -> list[Launch]:
    """The launches of all jobs, by job and time."""
    loops = LoopRecords()
    for record in records:
        loops.take(record)
    return loops.launches()


def _together(job: str, processes: list[Process]) -> Iterator[Launch]:
    """Processes whose lives overlap are one launch.

    The same rank again is another one, also where clocks of machines differ by a little; but not
    while others go on: then it was started again alone, or they know nothing of each other.
    """
    processes.sort(key=lambda process: process.first_us)
    group: list[Process] = []
    for process in processes:
        if group:
            shared_us = max(one.last_us for one in group) - process.first_us
            is_known = process.rank in {one.rank for one in group}
            if shared_us <= (STILL_US if is_known else 0):
                yield _launch(job, group)
                group = []
        group.append(process)
    yield _launch(job, group)


def _launch(job: str, group: Sequence[Process]) -> Launch:
    first, last = min(p.first_us for p in group), max(p.last_us for p in group)
    return Launch(job, tuple(group), first, last)


def renamed(told: Sequence[Launch], names: Mapping[str, str]) -> list[Launch]:
    """The launches of jobs as the books call them.

    Processes that named themselves each by its own pod are launches of one job, if their pods are.
    """
    by_job: dict[str, list[Process]] = {}
    for launch in told:
        by_job.setdefault(names.get(launch.job, launch.job), []).extend(launch.processes)
    return [launch for job in sorted(by_job) for launch in _together(job, by_job[job])]


def measured(
    told: Sequence[Launch], names: Mapping[str, str] | None = None, since_us: int = 0
) -> Measurements:
    """Windows and beginnings of launches, of jobs as the books call them (``names``: others by
    their own).

    ``since_us``: windows of the time before it are not asked for.
    """
    told = renamed(told, names or {})
    windows, ups = list[pl.DataFrame](), list[tuple[str, int, int | None, bool, int, int]]()
    for launch in told:
        job = launch.job
        windows.append(_windows(launch, since_us).with_columns(job=pl.lit(job)))
        up_us = launch.up_us
        up_ms = None if up_us is None else up_us // 1000
        last_ms, number = launch.last_us // 1000, len(ups)
        ups.append((job, launch.first_us // 1000, up_ms, not launch.is_service, last_ms, number))
    return nothing()._replace(
        windows=pl.concat([pl.DataFrame(schema=WINDOWS), *windows], how="diagonal"),
        ups=pl.DataFrame(ups, schema=UPS, orient="row"),
    )


def names_in(
    told: Sequence[Launch],
    jobs: Collection[str],
    pods: Mapping[tuple[str, str], str] | None = None,
) -> dict[str, str]:
    """How the books call the jobs of launches: by their name, or by what else names them.

    ``pods``: the job of each pod, by namespace and name. Jobs that the books do not know are left
    out.
    """
    found: dict[str, str] = {}
    for launch in told:
        for name in (*names_of(launch), *_by_pods(launch, pods or {})):
            if name in jobs:
                found.setdefault(launch.job, name)
    return found


def _by_pods(launch: Launch, pods: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for process in launch.processes:
        ids = process.began.ids if process.began is not None else {}
        if (job := pods.get((ids.get("namespace", ""), ids.get("pod", "")))) is not None:
            yield job


def names_of(launch: Launch) -> Iterator[str]:
    """By what names the books may have the job of a launch, but for its pods."""
    yield launch.job
    for process in launch.processes:
        ids = process.began.ids if process.began is not None else {}
        if "slurm_array_job" in ids and "slurm_array_task" in ids:
            yield f"{ids['slurm_array_job']}_{ids['slurm_array_task']}"
        if "slurm_job" in ids:
            yield ids["slurm_job"]


def attempts(told: Sequence[Launch], gpu_type: str = "") -> pl.DataFrame:
    """The launches as attempts, where no scheduler tells of them: ``ATTEMPTS``.

    One that told nothing of its end was killed when it last told anything; unless that is within a
    few seconds of when everybody was last heard of.
    """
    until_us = max((launch.last_us for launch in told), default=0)
    rows = []
    for i, launch in enumerate(told):
        is_last = i + 1 == len(told) or told[i + 1].job != launch.job
        outcome = _outcome(launch, is_last, until_us)
        began = [process.began for process in launch.processes if process.began is not None]
        hosts = sorted({one.host for one in began if one.host})
        rows.append(
            {
                "job": launch.job, "submit_ms": None,
                "start_ms": launch.first_us // 1000,
                "end_ms": None if outcome is AttemptEnd.RUNNING else launch.last_us // 1000,
                "outcome": outcome, "gpus": launch.gpus, "gpu_type": gpu_type,
                "nodes": hosts or None,
                "team": next((one.team for one in began if one.team), None),
                "user": next((one.user for one in began if one.user), None),
            }
        )  # fmt: skip
    schema = {name: kind for name, kind in ATTEMPTS.items() if rows and name in rows[0]}
    return pl.DataFrame(rows, schema=schema)


STILL_US = 5 * SECOND_US
"""Loops tell something every second; who was silent for longer is gone."""


def _outcome(launch: Launch, is_last: bool, until_us: int) -> AttemptEnd:
    ends = [process.ended for process in launch.processes]
    told = [end.outcome for end in ends if end is not None]
    if "failed" in told:
        return AttemptEnd.FAILED
    if None not in ends and told:
        return AttemptEnd.DONE if "interrupted" not in told else AttemptEnd.CANCELLED
    if is_last and launch.last_us > until_us - STILL_US:
        return AttemptEnd.RUNNING
    return AttemptEnd.FAILED if is_last else AttemptEnd.REQUEUED


def _windows(launch: Launch, since_us: int) -> pl.DataFrame:
    """Bins of a launch with the shares of their time, averaged over GPUs."""
    skipped_us = min(max(0, since_us - launch.first_us), launch.last_us - launch.first_us)
    span_us = max(1, launch.last_us - launch.first_us - skipped_us)
    bin_us = SECOND_US * max(1, -(-span_us // (SECOND_US * MOST_BINS)))
    first_us = launch.first_us + skipped_us // bin_us * bin_us
    edges = np.arange(first_us, launch.last_us + bin_us, bin_us, dtype=np.int64)
    begun = [one for process in launch.processes for one in process.begun.values()]
    edges = _with_ups(stalls.with_begins(edges, begun), launch)
    names = (*_PARTS, _WORK, "covered", "heard", "untold", "mfu", "counted", "rate", "rated")
    sums = {name: np.zeros(len(edges) - 1) for name in names}
    at_work = [one for one in launch.processes if one.stretches and one.gpus]
    says_work = any(one.tells_flops for one in at_work)
    told: set[str] = set()
    for process in at_work:
        before = sums["covered"].copy()
        told |= _add_stretches(process, edges, sums)
        sums["heard"] += (sums["covered"] > before) * process.gpus
        _add_efficiencies(process, edges, sums)
        if says_work:
            _add_work(process, edges, sums)
    is_covered = sums["covered"] > 0
    idle, ended_gpus = _ended(launch, edges, sums["covered"])
    covered = sums["covered"] + idle
    whole = np.maximum(covered, 1)
    columns: dict[str, NDArray[np.int64]] = {
        "start_ms": edges[:-1] // 1000,
        "end_ms": np.minimum(edges[1:], launch.last_us) // 1000,
    }
    for name in told & {*_PARTS}:
        columns[_NAMES[name]] = np.rint(sums[name] * ONE_PPM / whole).astype(np.int64)
    explained = sum((sums[name] for name in told & {*_WAITS}), np.zeros(len(covered)))
    busy = 1 - (idle + explained) / whole
    heard = np.minimum(sums["heard"] + ended_gpus, launch.gpus)
    columns["heard_gpus"] = heard.astype(np.int64)
    columns["silent_gpus"] = launch.gpus + _untold_gpus(launch) - columns["heard_gpus"]
    frame = pl.DataFrame(columns).with_columns(
        source=pl.lit(SOURCE), said_gpus=pl.lit(_said_gpus(launch), pl.Int64),
        busy_ppm=_where(idle > 0, busy * ONE_PPM, busy, np.zeros(len(covered))),
    )  # fmt: skip
    worked = np.maximum(covered - sums["untold"], 1)
    is_said = says_work & (2 * sums["untold"] <= covered)
    frame = frame.with_columns(
        mflop_per_s=_where(is_said, sums[_WORK] * SECOND_US / worked, sums["rate"], sums["rated"])
    )
    frame = frame.join(_step_times(launch, edges), on="start_ms", how="left", maintain_order="left")
    frame = frame.with_columns(
        mfu_ppm=_where(np.zeros(len(covered), bool), sums["mfu"], sums["mfu"], sums["counted"])
    )
    frame = frame.filter(pl.Series(is_covered) & (pl.col("end_ms") > pl.col("start_ms")))
    none = {_NAMES[name]: 0 for name in sorted(told & {*_PARTS})}
    rest = (_afterwards(launch, none), _unsaid(launch, none), _silence(launch))
    return pl.concat([frame, *rest], how="diagonal")


def _with_ups(edges: NDArray[np.int64], launch: Launch) -> NDArray[np.int64]:
    """Edges of bins, and those where the loop began to work, went back, or worked again: what it
    did before is no work.
    """
    backs = [one for process in launch.processes for one in process.went_back()]
    told = (launch.up_us, *(us for one in backs for us in (one.at_us, one.again_us)))
    more = np.array([us for us in told if us is not None], np.int64)
    return np.union1d(edges, more[(more > edges[0]) & (more < edges[-1])])


def _ended(
    launch: Launch, edges: NDArray[np.int64], covered: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The GPU-time of each bin that processes left when they said that they are done, while others
    go on and none took their place; and how many GPUs that is at most.
    """
    over = [one for one in launch.processes if one.ended is not None and one.gpus]
    ends, gpus = np.array([one.last_us for one in over]), np.array([one.gpus for one in over])
    order = np.argsort(ends, kind="stable")
    ends, gpus = ends[order], gpus[order]
    upto = np.concatenate(([0.0], np.cumsum(gpus * 1.0)))
    moments = np.concatenate(([0.0], np.cumsum(gpus * (ends - edges[0]) * 1.0)))
    edges = np.minimum(edges, launch.last_us)
    at = np.searchsorted(ends, edges, side="left")
    left = upto[at] * (edges - edges[0]) - moments[at]
    room = launch.gpus * np.diff(edges) - covered
    return np.clip(np.diff(left), 0, np.maximum(room, 0)), upto[at[1:]]


def silent_ranks(launch: Launch) -> int:
    """How many ranks of a launch told nothing, of those that it says it has."""
    world = max((one.began.world or 0 for one in launch.processes if one.began), default=0)
    return max(0, world - len({one.rank for one in launch.processes}))


def _untold_gpus(launch: Launch) -> int:
    """About how many GPUs ranks have that told nothing: as many each as those that did."""
    ranks = len({one.rank for one in launch.processes})
    return silent_ranks(launch) * launch.gpus // max(1, ranks)


def _said_gpus(launch: Launch) -> int | None:
    """How many GPUs all ranks use; None where one does not say."""
    says = [one.began is not None and one.began.gpus is not None for one in launch.processes]
    return launch.gpus + _untold_gpus(launch) if all(says) else None


def _afterwards(launch: Launch, none: Mapping[str, int]) -> pl.DataFrame:
    """After all processes said that they are done, what the job still holds is idle.

    ``none``: the parts of its time that the launch told before; it spends none in them any more.
    """
    is_over = all(process.ended is not None for process in launch.processes)
    end_ms = launch.last_us // 1000
    row = {"source": SOURCE, "start_ms": end_ms, "end_ms": end_ms + LONGEST_AFTER_MS,
           **none, "busy_ppm": 0, "heard_gpus": launch.gpus,
           "silent_gpus": _untold_gpus(launch), "said_gpus": _said_gpus(launch)}  # fmt: skip
    return pl.DataFrame([row] if is_over else [], schema={name: WINDOWS[name] for name in row})


def _silence(launch: Launch) -> pl.DataFrame:
    """Of the time after the last word of a launch that did not end, none of its ranks tells.

    A record is made every second, or as often as the loop says: two of them may be on their way.
    """
    lengths = (one.until_us - one.from_us for p in launch.processes for one in p.stretches[-1:])
    slack_us = 2 * max(SECOND_US, *lengths, 0)
    start_ms = (launch.last_us + slack_us) // 1000
    is_told = all(one.ended is not None for one in launch.processes) or _is_saving(launch)
    row = {"source": SOURCE, "start_ms": start_ms, "end_ms": start_ms + LONGEST_AFTER_MS,
           "heard_gpus": 0, "silent_gpus": launch.gpus + _untold_gpus(launch),
           "said_gpus": _said_gpus(launch)}  # fmt: skip
    return pl.DataFrame([] if is_told else [row], schema={name: WINDOWS[name] for name in row})


def _is_saving(launch: Launch) -> bool:
    at_work = [process for process in launch.processes if process.gpus]
    return bool(at_work) and all(process.is_saving for process in at_work)


def _unsaid(launch: Launch, none: Mapping[str, int]) -> pl.DataFrame:
    """A launch that was last heard of within checkpoints is in them until it says more."""
    is_saving, last_ms = _is_saving(launch), launch.last_us // 1000
    row = {"source": SOURCE, "start_ms": last_ms, "end_ms": last_ms + LONGEST_AFTER_MS,
           **none, "checkpoint_ppm": ONE_PPM, "heard_gpus": launch.gpus,
           "silent_gpus": _untold_gpus(launch), "said_gpus": _said_gpus(launch)}  # fmt: skip
    return pl.DataFrame([row] if is_saving else [], schema={name: WINDOWS[name] for name in row})


def _step_times(launch: Launch, edges: NDArray[np.int64]) -> pl.DataFrame:
    """The median time of a step in each bin, of all ranks."""
    told = [
        ((s.from_us + s.until_us) // 2, s.median_step_us)
        for process in launch.processes
        for s in process.stretches
        if s.median_step_us is not None
    ]
    at = np.searchsorted(edges, np.array([at for at, _ in told], np.int64), side="right") - 1
    frame = pl.DataFrame(
        {"start_ms": edges[at] // 1000, "step_us": [us for _, us in told]},
        schema={"start_ms": pl.Int64, "step_us": pl.Int64},
    )
    return frame.group_by("start_ms").agg(pl.col("step_us").median().cast(pl.Int64))


def _add_stretches(
    process: Process, edges: NDArray[np.int64], sums: dict[str, NDArray[np.float64]]
) -> set[str]:
    """Add the stretches of a process, each spread evenly over the bins that it reaches into."""
    gpus, stood = process.gpus, stalls.of(process.begun, process.over_us)
    stretches = stalls.divided(process.stretches, stood) if stood else process.stretches
    starts = np.array([s.from_us for s in stretches], np.int64)
    ends = np.array([s.until_us for s in stretches], np.int64)
    times = np.stack([starts, ends], axis=1).ravel()
    told = {name for name in _PARTS for s in stretches if getattr(s, name) is not None}
    amounts = {name: [getattr(s, name) or 0 for s in stretches] for name in told}
    amounts["covered"] = (ends - starts).tolist()
    for name, amount in amounts.items():
        total = np.cumsum(np.array(amount, np.float64))
        curve = np.stack([np.concatenate(([0.0], total[:-1])), total], axis=1).ravel()
        sums[name] += np.diff(np.interp(edges, times, curve)) * gpus
    return told


def _add_work(
    process: Process, edges: NDArray[np.int64], sums: dict[str, NDArray[np.float64]]
) -> None:
    """Add the FLOPs of a process (of all its GPUs), and the time of which it tells none."""
    done = flops.spread(process.stretches, process.unended_us)
    sums[_WORK] += np.diff(np.interp(edges, done.at_us, done.mflop))
    sums["untold"] += np.diff(np.interp(edges, done.at_us, done.untold_us)) * process.gpus


def _add_efficiencies(
    process: Process, edges: NDArray[np.int64], sums: dict[str, NDArray[np.float64]]
) -> None:
    """Add what a loop or its profiler says of its MFU, or FLOP/s: it holds from then on."""
    told = sorted(
        (e for e in process.efficiencies if says_efficiency(e)), key=lambda one: one.at_us
    )
    if not told:
        return
    at = np.searchsorted(np.array([e.at_us for e in told]), edges[:-1], side="right") - 1
    is_told = (at >= 0) & (edges[:-1] < process.last_us)
    mfus = [_mfu_ppm(e) for e in told]
    is_mfu = is_told & np.array([mfu is not None for mfu in mfus])[at]
    is_rate = is_told & ~is_mfu
    mfu = np.array([mfu or 0 for mfu in mfus], np.float64)[at]
    rate = np.array([e.mflop_per_s or 0 for e in told], np.float64)[at]
    sums["mfu"] += np.where(is_mfu, mfu * process.gpus, 0)
    sums["counted"] += np.where(is_mfu, process.gpus, 0)
    sums["rate"] += np.where(is_rate, rate, 0)
    sums["rated"] += np.where(is_rate, process.gpus, 0)


def _mfu_ppm(one: EfficiencyRecord) -> int | None:
    """The MFU that it says, or FLOP/s over the peak that it counts from; None: FLOP/s alone."""
    if one.mfu_ppm is None and one.mflop_per_s is not None and one.peak_mflop_per_s:
        return one.mflop_per_s * ONE_PPM // one.peak_mflop_per_s
    return one.mfu_ppm


def _where(
    is_known: NDArray[np.bool_], known: NDArray[np.float64],
    otherwise: NDArray[np.float64], weight: NDArray[np.float64],
) -> pl.Series:  # fmt: skip
    """What is known of each bin; else the mean of what was said of it, null where nothing was."""
    mean = np.where(is_known, known, otherwise / np.maximum(weight, 1))
    found = pl.Series(np.rint(mean).astype(np.int64))
    return found.set(pl.Series(~is_known & (weight == 0)), None)
