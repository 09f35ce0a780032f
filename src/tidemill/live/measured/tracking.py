"""All that launches tell of their jobs: their windows, and which of their waits are for slow ranks.

Ranks are compared by the detector of ``tidemill stragglers``; what it finds is a source of its own
beside what each loop says of itself. A launch whose ranks cannot be compared is told nothing of:
its waits are for others, and nobody knows whether one of them is slow.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import NamedTuple

import polars as pl

from tidemill.live.measured import loops, ranks, saves, services, trained
from tidemill.live.measured.loops import LONGEST_AFTER_MS, SECOND_US, Launch, Process
from tidemill.live.measured.windows import WINDOWS, Measurements
from tidemill.model.measures import FOREVER_MS
from tidemill.workload.slow import ranks as slow_ranks

SOURCE = "ranks"
"""Who says it, beside ``track``: the ranks of a job, compared."""
FELL_SILENT_US = 60_000_000
FELL_SILENT_PART = 10
"""A rank that tells nothing for so long while others do, or for such a part of a launch, is told
of; loops tell every second."""
NAMED = 5


class _ComparedTime(NamedTuple):
    start_us: int
    end_us: int
    straggler_ppm: int


def measured(
    told: Sequence[Launch],
    names: Mapping[str, str] | None = None,
    since_us: int = 0,
    until_us: int = 1000 * FOREVER_MS,
) -> Measurements:
    """What launches tell, of jobs as the books call them; as ``loops.measured``.

    ``until_us``: loads of the time after it are told later.
    """
    named = loops.renamed(told, names or {})
    found = loops.measured(named, since_us=since_us)
    rows = [
        (one.job, max(part.start_us, since_us) // 1000, part.end_us // 1000, SOURCE,
         part.straggler_ppm)
        for one, next_us in _with_next(named)
        for part in _compared(one, next_us)
        if part.end_us > since_us
    ]  # fmt: skip
    columns = ("job", "start_ms", "end_ms", "source", "straggler_ppm")
    windows = pl.DataFrame(rows, {name: WINDOWS[name] for name in columns}, orient="row")
    found = found._replace(windows=pl.concat([found.windows, windows], how="diagonal"))
    found = found._replace(saves=saves.frame(named))
    found = trained.with_steps(found, named, since_us, until_us)
    return services.with_loads(found, named, since_us, until_us)


def _with_next(told: Sequence[Launch]) -> Iterator[tuple[Launch, int]]:
    """Launches in order, and when the next one of the same job began."""
    for one, after in zip_longest(told, told[1:]):
        is_same = after is not None and after.job == one.job
        yield one, after.first_us if is_same else 1000 * FOREVER_MS


def _compared(launch: Launch, next_us: int) -> Iterator[_ComparedTime]:
    """The time of a launch in which it is known what of its waits was for slow ranks.

    Who is alone waits for nobody, also when it tells nothing any more.
    """
    after_us = max(launch.last_us, min(launch.last_us + 1000 * LONGEST_AFTER_MS, next_us))
    is_over = all(process.ended is not None for process in launch.processes)
    if _is_alone(launch):
        yield _ComparedTime(launch.first_us, launch.last_us, 0)
        yield _ComparedTime(launch.last_us, after_us, 0)
        return
    if loops.silent_ranks(launch):  # one that tells nothing may be the slow one
        return
    parts = slow_ranks.find(ranks.of_launch(launch).windows).stretches
    if parts:
        yield _ComparedTime(launch.first_us, parts[0].start_us, 0)  # until all had warmed up
    for i, part in enumerate(parts):
        last_us = launch.last_us if i + 1 == len(parts) else part.end_us
        yield _ComparedTime(part.start_us, last_us, part.straggler_ppm)
    if parts and is_over:
        yield _ComparedTime(launch.last_us, after_us, 0)


def said_silent(told: Sequence[Launch]) -> list[str]:
    """Jobs of which some ranks told nothing, and what is made of that."""
    some = dict[str, int]()
    for launch in told:
        if missing := loops.silent_ranks(launch):
            some[launch.job] = max(missing, some.get(launch.job, 0))
    found = list[str]()
    if some:
        named = ", ".join(f"`{job}` {count:,}" for job, count in [*some.items()][:NAMED])
        more = " …" if len(some) > NAMED else ""
        found.append(
            f"ranks that told nothing: {named}{more}; their time is inferred from the other ranks"
            " where a scheduler shows their GPUs (else they are not on the books), and what of the"
            " waits was for a slow rank is unknown"
        )
    return [*found, *_said_fallen(told)]


def _said_fallen(told: Sequence[Launch]) -> Iterator[str]:
    """Ranks that told something and no more while others went on, in words."""
    fallen = [(one.job, rank, us) for one in told for rank, us in _fallen(one)]
    if fallen:
        named = ", ".join(f"`{job}` rank {rank} since {_moment(us)}"
                          for job, rank, us in fallen[:NAMED])  # fmt: skip
        more = " …" if len(fallen) > NAMED else ""
        yield (
            f"ranks that fell silent while others of their job went on: {named}{more}; their time"
            " from then on is inferred from the other ranks"
        )


def _fallen(launch: Launch) -> Iterator[tuple[int, int]]:
    """The ranks of a launch that fell silent without an end, and when."""
    tenth_us = (launch.last_us - launch.first_us) // FELL_SILENT_PART
    silent_us = max(loops.STILL_US, min(FELL_SILENT_US, tenth_us))
    last = dict[int, Process]()
    for process in sorted(launch.processes, key=lambda one: (one.rank, one.last_us)):
        last[process.rank] = process
    for rank, process in last.items():
        is_over = process.ended is not None or process.is_saving
        if not is_over and launch.last_us - process.last_us > silent_us:
            yield rank, process.last_us


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // SECOND_US, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _is_alone(launch: Launch) -> bool:
    """Whether it says that it is one process with one GPU, which waits for nobody."""
    if len(launch.processes) != 1 or launch.gpus > 1:
        return False
    began = launch.processes[0].began
    return began is not None and began.world == 1
