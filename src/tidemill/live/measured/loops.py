"""What training loops tell (``tidemill.track``) as windows and launches of their jobs.

A *launch* is all processes of a job whose lives overlap: its ranks, or several that know nothing of
each other (trials on one GPU each). Their stretches are added up over equal bins of time, each with
the GPUs that it uses; a bin is a second, or more where a launch is long, so that no launch has more
than ``MOST_BINS`` of them.

``LoopRecords`` takes records as they come and forgets what was told, so that what is held in memory
follows how many processes run, not for how long.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidemill.live.measured import flops, stalls, stated, stretches
from tidemill.live.measured.windows import SAID, UPS, WINDOWS, Measurements, nothing
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointFailedRecord,
    CheckpointSavedRecord,
    EfficiencyRecord,
    EndedRecord,
    LoadRecord,
    RestartedRecord,
    RestoredRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.measures import FOREVER_MS, ONE_PPM

SOURCE = "track"
MOST_BINS = 2_000
SAVING_US = 3_600_000_000
"""So long the ranks of a job may take to save one checkpoint."""
LONGEST_AFTER_MS = 30 * 86_400_000
SECOND_US = 1_000_000
STILL_US = 5 * SECOND_US
"""Loops tell something every second; who was silent for longer is gone."""
EARLIER_AT_MOST = 180
"""So many longer pieces of stretches whose time was told are kept, for an hour: a rank is compared
with what was usual for it."""
_OF_SAVES = (
    CheckpointBegunRecord, CheckpointFailedRecord, CheckpointSavedRecord, RestartedRecord,
    RestoredRecord,
)  # fmt: skip
_PARTS = ("checkpoint_us", "data_us", "communication_us", "other_us")
_WAITS = ("checkpoint_us", "data_us", "communication_us")
_NAMES = {part: f"{part.removesuffix('_us')}_ppm" for part in _PARTS}
_WORK = "mflop"


class WentBack(NamedTuple):
    """A loop that started again within its process."""

    at_us: int
    step: int | None
    """The last step whose work it goes on from; None: nobody says."""
    again_us: int | None = None
    """When it worked again; None: not yet, or not known yet."""


class Process:
    """One process of a job: a run of one rank."""

    def __init__(self, record: TrackRecord) -> None:
        self.job, self.rank = record.job, record.rank
        self.began: BeganRecord | None = None
        self.ended: EndedRecord | None = None
        self.stretches: list[StepsRecord] = []
        self.earlier: list[StepsRecord] = []
        """What was told before, many stretches in one: for those who compare ranks."""
        self.begun: dict[int, CheckpointBegunRecord] = {}
        self.saved: list[CheckpointSavedRecord] = []
        self.over_us: dict[int, int] = {}
        """When checkpoints were saved, or failed."""
        self.restored: RestoredRecord | None = None
        """The first time: later it goes back within its own work."""
        self.backs: list[WentBack] = []
        """When it went back within its own work, or read a checkpoint before it began any."""
        self.worked_us = 1000 * FOREVER_MS
        """Since when it does steps."""
        self.first_step: int | None = None
        """The number of the first step that it told."""
        self.efficiencies: list[EfficiencyRecord] = []
        self.loads: list[LoadRecord] = []
        self.is_service = False
        self.tells_saves = False
        """Whether it ever told a checkpoint, or to which it went back."""
        self.tells_flops = False
        """Whether it ever told the FLOPs of a step: then time without a step did none."""
        self._forgotten_up_us: int | None = None
        self.unended_us = 0
        """How long it computed since its last step, before the stretches that it still has."""
        self.first_us = self.last_us = times_of(record)[0]

    def take(self, record: TrackRecord) -> None:
        """One more record of it."""
        first, last = times_of(record)
        self.first_us, self.last_us = min(self.first_us, first), max(self.last_us, last)
        self.tells_saves |= isinstance(record, _OF_SAVES)
        match record:
            case BeganRecord():
                self.began = record
            case EndedRecord():
                self.ended = record
            case StepsRecord():
                self.stretches += stretches.at_up(record)
                self.tells_flops |= record.mflop is not None
                if record.steps and record.from_us < self.worked_us:
                    self.worked_us, self.first_step = record.from_us, record.first_step
            case CheckpointBegunRecord():
                self.begun[record.checkpoint] = record
            case CheckpointSavedRecord() | CheckpointFailedRecord():
                self._end_checkpoint(record)
            case RestoredRecord() | RestartedRecord():
                self._go_back(record)
            case EfficiencyRecord():
                self.efficiencies.append(record)
            case LoadRecord():
                self.loads.append(record)
                self.is_service = True
            case _:
                pass

    def _go_back(self, record: RestoredRecord | RestartedRecord) -> None:
        self.backs.append(WentBack(record.at_us, record.step))
        is_first = self.restored is None or record.at_us < self.restored.at_us
        if isinstance(record, RestoredRecord) and is_first:
            self.restored = record

    def _end_checkpoint(self, record: CheckpointSavedRecord | CheckpointFailedRecord) -> None:
        self.over_us[record.checkpoint] = record.at_us
        if isinstance(record, CheckpointSavedRecord):
            self.saved.append(record)

    @property
    def gpus(self) -> int:
        """How many GPUs it uses; one where it does not say."""
        told = self.began.gpus if self.began is not None else None
        return 1 if told is None else told

    @property
    def is_loop(self) -> bool:
        """Whether it tells that it began, or what it did: a remark about a job is no launch."""
        return self.began is not None or self.up_us is not None or bool(self.stretches)

    @property
    def is_saving(self) -> bool:
        """Whether it stood still for a checkpoint when it was last heard of."""
        ends = [one.last_end_us or one.until_us for one in self.stretches if one.steps]
        stepped_us = max(ends, default=self.first_us)
        return self.ended is None and any(
            one.at_us >= stepped_us and not one.is_async and n not in self.over_us
            for n, one in self.begun.items()
        )

    @property
    def up_us(self) -> int | None:
        """When its loop began: the first moment that it spent in a part of it; None: not yet."""
        if self._forgotten_up_us is not None:
            return self._forgotten_up_us
        if self.loads:  # a service tells them from when it is ready on
            return min(load.from_us for load in self.loads)
        for stretch in self.stretches:
            if stretch.up_us is not None:
                return stretch.up_us
            if stretch.until_us - stretch.from_us > stretch.other_us:
                return stretch.from_us + stretch.other_us
        return None

    def went_back(self) -> list["WentBack"]:
        """When it went back after its first step, and when it worked again, by time."""
        told = [one for one in self.backs if one.at_us > self.worked_us]
        told.sort(key=lambda one: one.at_us)
        return [one._replace(again_us=self._again_us(one)) for one in told]

    def _again_us(self, back: "WentBack") -> int | None:
        """When its loop did something after it went back; None: not yet.

        Where it does not say when: of the stretch in which it went back, what was outside of steps
        is taken to be after it.
        """
        if back.again_us is not None:
            return back.again_us
        for one in self.stretches:
            if one.up_us is not None and one.up_us >= back.at_us:
                return one.up_us
            since_us = max(one.from_us, back.at_us)
            if one.until_us - since_us > one.other_us:
                return since_us + one.other_us
        return None

    def forget(self, before_us: int) -> None:
        """Drop what nobody asks for once its time was told."""
        self.stretches.sort(key=lambda stretch: stretch.from_us)
        self.backs = [
            one for one in self.went_back() if one.again_us is None or one.again_us > before_us
        ]
        self._forgotten_up_us = self.up_us
        kept_us = before_us - SECOND_US  # the bin that was told in part is divided as a whole
        old = [one for one in self.stretches if one.until_us <= kept_us]
        self.unended_us = flops.unended_us(old, self.unended_us)
        self.earlier = stretches.joined([*self.earlier, *old])[-EARLIER_AT_MOST:]
        self.stretches = [one for one in self.stretches if one.until_us > kept_us]
        self.loads = [one for one in self.loads if one.until_us > before_us]
        saved_us = before_us - SAVING_US
        done = {one.checkpoint for one in self.saved if one.at_us < saved_us}
        self.saved = [one for one in self.saved if one.at_us >= saved_us]
        self.begun = {n: one for n, one in self.begun.items() if n not in done}
        self.over_us = {n: at_us for n, at_us in self.over_us.items() if n in self.begun}
        said = [one for one in self.efficiencies if one.at_us <= kept_us and stated.says(one)]
        later = [one for one in self.efficiencies if one.at_us > kept_us]
        self.efficiencies = [*sorted(said, key=lambda one: one.at_us)[-1:], *later]


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
    def tells_saves(self) -> bool:
        """Whether it says what it saves."""
        return not self.is_service and any(process.tells_saves for process in self.processes)

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
    windows, said = list[pl.DataFrame](), dict[str, str]()
    ups = list[tuple[str, int, int | None, bool, int, int]]()
    for launch in told:
        job = launch.job
        windows.append(_windows(launch, since_us).with_columns(job=pl.lit(job)))
        up_us = launch.up_us
        up_ms = None if up_us is None else up_us // 1000
        last_ms, number = launch.last_us // 1000, len(ups)
        ups.append((job, launch.first_us // 1000, up_ms, launch.tells_saves, last_ms, number))
        every = (one for process in launch.processes for one in process.efficiencies)
        if source := stated.source(every):
            said[job] = source
    return nothing()._replace(
        windows=pl.concat([pl.DataFrame(schema=WINDOWS), *windows], how="diagonal"),
        ups=pl.DataFrame(ups, schema=UPS, orient="row"),
        said=pl.DataFrame([*said.items()], schema=SAID, orient="row"),
    )


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
        stated.add(process.efficiencies, process.gpus, process.last_us, edges, sums)
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


def _where(
    is_known: NDArray[np.bool_], known: NDArray[np.float64],
    otherwise: NDArray[np.float64], weight: NDArray[np.float64],
) -> pl.Series:  # fmt: skip
    """What is known of each bin; else the mean of what was said of it, null where nothing was."""
    mean = np.where(is_known, known, otherwise / np.maximum(weight, 1))
    found = pl.Series(np.rint(mean).astype(np.int64))
    return found.set(pl.Series(~is_known & (weight == 0)), None)


def times_of(record: TrackRecord) -> tuple[int, int]:
    """From when to when a record tells something, in microseconds since 1970."""
    if isinstance(record, StepsRecord | LoadRecord):
        return record.from_us, record.until_us
    return record.at_us, record.at_us
