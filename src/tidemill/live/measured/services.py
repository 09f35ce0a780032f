"""What services tell of their requests (``tidemill.track``) as stretches of their load.

Records of a second are added up to minutes of the clock. A minute in which nobody was told of a
request, and none waited or ran, is idle: a service says so of itself, whatever its devices do.
"""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from tidemill.live.measured.loops import Launch
from tidemill.live.measured.windows import LOADS, MINUTE_US, WINDOWS, Measurements
from tidemill.live.track.records import LoadRecord
from tidemill.model.loads import NO_BOUND_US, LatencyFigure, LoadFigure, LoadSource
from tidemill.model.measures import FOREVER_MS

SOURCE = "service"
_COUNTS = {
    LoadFigure.REQUESTS: "requests",
    LoadFigure.TOKENS_IN: "tokens_in",
    LoadFigure.TOKENS_OUT: "tokens_out",
}
_LEVELS = {LoadFigure.WAITING_MS: "waiting_us", LoadFigure.RUNNING_MS: "running_us"}
_LATENCIES = {
    LatencyFigure.FIRST_TOKEN: "first_token",
    LatencyFigure.BETWEEN_TOKENS: "between_tokens",
    LatencyFigure.WHOLE: "whole",
}


def with_loads(
    found: Measurements,
    told: Sequence[Launch],
    since_us: int = 0,
    until_us: int = 1000 * FOREVER_MS,
) -> Measurements:
    """What was measured, and the loads of records that end after one moment and up to another.

    The time between the two is counted whole, also that of records which end later.
    """
    rows, idle = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for launch in told:
        for load in _minutes(launch, since_us, until_us):
            start_ms = max(load[0].from_us, since_us) // 1000
            end_ms = min(load[-1].until_us, until_us) // 1000
            span = (launch.job, start_ms, end_ms)
            if start_ms < end_ms:
                figures = _figures(load, end_ms - start_ms, until_us)
                rows += [(*span, int(LoadSource.TRACK), *one) for one in figures]
                idle += [(*span, SOURCE, 0)] if _is_idle(load) else []
    columns = ("job", "start_ms", "end_ms", "source", "busy_ppm")
    windows = pl.DataFrame(idle, {name: WINDOWS[name] for name in columns}, orient="row")
    return found._replace(
        windows=pl.concat([found.windows, windows], how="diagonal"),
        loads=pl.concat([found.loads, pl.DataFrame(rows, schema=LOADS, orient="row")]),
    )


def _minutes(launch: Launch, since_us: int, until_us: int) -> Iterator[list[LoadRecord]]:
    """The records of a launch by the minute in which they begin, of all its processes."""
    by_minute = dict[int, list[LoadRecord]]()
    for process in launch.processes:
        for load in process.loads:
            if since_us < load.until_us and load.from_us < until_us:
                by_minute.setdefault(load.from_us // MINUTE_US, []).append(load)
    for minute in sorted(by_minute):
        yield sorted(by_minute[minute], key=lambda load: (load.until_us, load.run))


def _figures(
    seen: Sequence[LoadRecord], length: int, until_us: int
) -> Iterator[tuple[int, int | None, int]]:
    """Figure, bound and amount of each that is known; amounts of records that end by a moment."""
    loads = [load for load in seen if load.until_us <= until_us]
    yield int(LoadFigure.SEEN_MS), None, length
    yield int(LoadFigure.GAUGED_MS), None, length
    every = [load for load in seen if load.requests]
    if all(load.tokens_in is not None and load.tokens_out is not None for load in every):
        yield int(LoadFigure.TOKENED_MS), None, length
    asked = [load for load in loads if load.requests]
    for figure, name in _COUNTS.items():
        some = [getattr(load, name) for load in asked]
        if None not in some and (some or figure is LoadFigure.REQUESTS):
            yield int(figure), None, sum(some)
    for figure, name in _LEVELS.items():
        yield int(figure), None, sum(getattr(load, name) for load in loads) // 1000
    for latency, name in _LATENCIES.items():
        counts = _merged(bucket for load in loads for bucket in getattr(load, name))
        for bound, count in counts.items():
            yield int(latency), bound, count


def _merged(buckets: Iterable[tuple[int | None, int]]) -> dict[int, int]:
    counts = dict[int, int]()
    for bound, count in buckets:
        key = NO_BOUND_US if bound is None else min(bound, NO_BOUND_US)
        counts[key] = counts.get(key, 0) + count
    return dict(sorted(counts.items()))


def _is_idle(loads: Sequence[LoadRecord]) -> bool:
    return not any(load.requests or load.waiting_us or load.running_us for load in loads)
