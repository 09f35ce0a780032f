"""Arrivals of a spec: drawn in columns, handed out as rows one by one.

Each workload has its own streams, so that changing one leaves the others as they were. Columns of
plain integers are drawn at once (numpy); a ``Job`` exists only from the moment it is asked for, and
equal shapes, efficiencies and tides are one object.
"""

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter

import numpy as np

from tidemill.model.measures import DAY_MS, HOUR_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import Demand, Efficiency, Job, Shape
from tidemill.twin import arrivals, draws, durations, fleet, physics, presets, sharing, sizes, users
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.draws import Columns
from tidemill.twin.mix import JobMix
from tidemill.twin.spec.check_jobs import size_milli
from tidemill.twin.spec.errors import SpecPlace
from tidemill.twin.spec.tables import JobTable, Spec, WorkloadTable
from tidemill.twin.streams import Streams

CHUNK = 65_536  # rows turned from columns to Python integers at a time
_TIDES = 8  # services of one workload differ a little; this many ways
_ENDINGS = tuple(Ending)


def stream(spec: Spec) -> Iterator[Arrival]:
    """Every arrival of the spec, in order of time; ties in the order of the file."""
    streams = Streams(spec.twin.seed)
    sources = [_workload(row, spec, streams) for row in spec.workloads]
    return merge(_single(spec), *sources, key=itemgetter(0))  # when it comes


def mix_of(row: WorkloadTable, spec: Spec) -> JobMix:
    """Sizes and times of a workload: its own, else those of its preset; no gang above the fleet."""
    base = presets.mix(row.preset) if row.preset else None
    place = SpecPlace(spec.source, "workload", 0, row.name)
    if row.sizes:
        each = fleet.share_milli(row, spec.contracts)
        asked = sizes.of({
            size_milli(place, text) * each // WHOLE_MILLI: share
            for text, share in row.sizes.items()
        })  # fmt: skip
    else:
        assert base is not None, "checked while reading"
        asked = base.sizes
    if row.run is not None:
        times = durations.fit(int(row.run.median), int(row.run.mean), int(row.run.longest))
    else:
        assert base is not None, "checked while reading"
        times = base.durations
    coupling = row.coupling
    if coupling is None:
        coupling = base.coupling if base else 0.0
    return JobMix(asked.capped(_largest(row, spec) * WHOLE_MILLI), times, coupling)


def _workload(row: WorkloadTable, spec: Spec, streams: Streams) -> Iterator[Arrival]:
    """The rows of a workload, made as they are asked for."""
    mix = mix_of(row, spec)
    week_ms = fleet.calendar(spec).week_ms
    drawn = draws.draw(row, mix, int(spec.twin.horizon), streams, week_ms)
    per_node = fleet.node_devices(spec.contracts, row.kinds)
    requests = [sharing.request(row, int(milli), spec) for milli in mix.sizes.milli]
    shapes = [fleet.shape(asked.row, asked.milli, per_node, asked.each_milli) for asked in requests]
    tides = _tides(row, streams.of(f"tides/{row.name}"), _hour(week_ms))

    def divided(size: int, mfu_ppm: int) -> Efficiency:
        return physics.efficiency_of(row, spec, int(mix.sizes.milli[size]), mfu_ppm)

    return _rows(row, drawn, shapes, tides, divided, sharing.demand(row, spec))


def _rows(
    row: WorkloadTable,
    drawn: Columns,
    shapes: list[Shape],
    tides: list[Tide],
    divided: Callable[[int, int], Efficiency],
    demand: Demand | None,
) -> Iterator[Arrival]:
    name, startup_ms, restart_ms = row.name, int(row.startup), int(row.restart)
    resize_ms = int(row.resize)
    names = [*users.names(row), ""]
    saving, busy_ppm = fleet.checkpointing(row), int(row.busy)
    efficiencies: dict[tuple[int, int], Efficiency] = {}
    by_size = row.mfu is None and row.computes is not None
    number = 0
    for start in range(0, len(drawn.at_ms), CHUNK):
        part = (column[start : start + CHUNK].tolist() for column in drawn)
        for at_ms, work_ms, size, guess_ms, ending, crash_ms, mfu, active_ms, user in zip(
            *part, strict=True
        ):
            kind = (size if by_size else 0, mfu)
            if kind not in efficiencies:
                efficiencies[kind] = divided(size, mfu)
            job = Job(
                f"{name}-{number:05d}",
                shapes[size],
                guess_ms,
                startup_ms,
                restart_ms,
                saving,
                efficiencies[kind],
                resize_ms,
                demand,
                names[user],
            )
            activity: Tide | Spell | None = None
            if tides:
                activity = tides[number % _TIDES]
            elif active_ms or busy_ppm < ONE_PPM:
                activity = Spell(active_ms or work_ms, busy_ppm)
            crashes_ms = (crash_ms,) if crash_ms else ()
            yield Arrival(at_ms, job, work_ms, _ENDINGS[ending], crashes_ms, activity)
            number += 1


def _single(spec: Spec) -> Iterator[Arrival]:
    """The single jobs of a spec, in order of time."""
    for row in sorted(spec.jobs, key=lambda job: job.at):
        yield from islice(_copies(row, spec), row.copies)


def _copies(row: JobTable, spec: Spec) -> Iterator[Arrival]:
    milli = row.accelerators * fleet.share_milli(row, spec.contracts)
    if row.fraction is not None:
        milli = row.fraction * WHOLE_MILLI // ONE_PPM
    asked = sharing.request(row, milli, spec)
    per_node = fleet.node_devices(spec.contracts, row.kinds)
    shape = fleet.shape(asked.row, asked.milli, per_node, asked.each_milli)
    divided = physics.efficiency_of(row, spec, milli, int(row.mfu or 0))
    for copy in range(1, row.copies + 1):
        job = Job(
            row.name if row.copies == 1 else f"{row.name}-{copy}",
            shape,
            int(row.estimate),
            int(row.startup),
            int(row.restart),
            fleet.checkpointing(row),
            divided,
            int(row.resize),
            sharing.demand(row, spec),
            row.user,
        )
        yield Arrival(int(row.at), job, int(row.work), activity=_activity(row, spec))


def _activity(row: JobTable, spec: Spec) -> Tide | Spell | None:
    if row.tide is not None:
        peak_hour = (row.tide.peak_hour - _hour(fleet.calendar(spec).week_ms)) % 24
        return arrivals.daily(int(row.tide.low), int(row.tide.peak), peak_hour)
    if row.active is not None or row.busy < ONE_PPM:
        return Spell(int(row.work if row.active is None else row.active), int(row.busy))
    return None


def _largest(row: WorkloadTable, spec: Spec) -> int:
    """The largest gang drawn by chance: half of what one kind has, within the team's limit.

    A larger one would wait for ever beside services; whoever means it writes it as a ``[[job]]``.
    """
    contracts = fleet.usable(spec.contracts, row.kinds)
    team = next(team for team in spec.teams if team.name == row.team)
    line = fleet.line(spec, team)
    kinds = sorted({contract.kind for contract in contracts})
    most = (
        min(
            -(-fleet.at_once(fleet.usable(contracts, (kind,))) // 2),
            *(above.limit.get(kind, 2**31) for above in line),
        )
        for kind in kinds
    )
    return max(1, *most)


def _hour(week_ms: int) -> int:
    """The hour of the day at which a story begins."""
    return week_ms % DAY_MS // HOUR_MS


def _tides(row: WorkloadTable, luck: np.random.Generator, begins: int) -> list[Tide]:
    """The tide of a workload in a few variants: a little fuller or emptier, earlier or later."""
    if row.tide is None:
        return []
    variants = []
    for _ in range(_TIDES):
        scale = luck.uniform(0.75, 1.1)
        peak_hour = (row.tide.peak_hour + int(luck.integers(-1, 2))) % 24
        low, peak = (min(ONE_PPM, round(p * scale)) for p in (row.tide.low, row.tide.peak))
        variants.append(arrivals.daily(low, peak, (peak_hour - begins) % 24))
    return variants
