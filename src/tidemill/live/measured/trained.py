"""What training loops tell of their steps (``tidemill.track``), as amounts of stretches of time.

Records of a second are added up to minutes of the clock, over all ranks. What one rank did not say
of a minute (its tokens, its samples), or a rank that tells nothing, leaves that amount unknown.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from tidemill.live.measured import loops
from tidemill.live.measured.loops import Launch, Process
from tidemill.live.measured.windows import LOADS, MINUTE_US, Measurements
from tidemill.live.track.records import StepsRecord
from tidemill.model.loads import LoadFigure, LoadSource
from tidemill.model.measures import FOREVER_MS

_COUNTS = {
    "tokens": (LoadFigure.TRAINED_TOKENS, LoadFigure.TRAINED_TOKENED_MS),
    "samples": (LoadFigure.SAMPLES, LoadFigure.SAMPLED_MS),
}
"""What steps have, and how long it was counted."""

_NEVER_US = 1000 * FOREVER_MS


def with_steps(
    found: Measurements,
    told: Sequence[Launch],
    since_us: int = 0,
    until_us: int = _NEVER_US,
) -> Measurements:
    """What was measured, and the steps of records that end after one moment and up to another.

    The time between the two is counted whole, also that of records which end later.
    """
    rows = [
        (launch.job, *span, int(LoadSource.TRACK), int(figure), None, amount)
        for launch in told
        for span, figure, amount in _amounts(launch, since_us, until_us)
    ]
    more = pl.DataFrame(rows, schema=LOADS, orient="row")
    return found._replace(loads=pl.concat([found.loads, more]))


def _amounts(
    launch: Launch, since_us: int, until_us: int
) -> Iterator[tuple[tuple[int, int], LoadFigure, int]]:
    """Span, figure and amount of each that is known, minute by minute since its loops came up."""
    is_whole = not loops.silent_ranks(launch)
    first = min((p.rank for p in launch.processes if p.worked_us < _NEVER_US), default=-1)
    for minute in _minutes(launch, since_us, until_us):
        ups_us = [process.up_us or 0 for process, _ in minute]
        start_us, end_us = minute[0][1].from_us, max(one.until_us for _, one in minute)
        ended = [(process, one) for process, one in minute if one.until_us <= until_us]
        span = (max(start_us, since_us, min(ups_us)) // 1000, min(end_us, until_us) // 1000)
        length = span[1] - span[0]
        if length <= 0:
            continue
        yield span, LoadFigure.STEPPED_MS, length
        yield span, LoadFigure.STEPS, sum(one.steps for p, one in ended if p.rank == first)
        for name, (figure, counted) in _COUNTS.items():
            some = [getattr(one, name) for _, one in minute if one.steps]
            if is_whole and some and None not in some:
                yield span, figure, sum(getattr(one, name) for _, one in ended if one.steps)
                yield span, counted, length


def _minutes(
    launch: Launch, since_us: int, until_us: int
) -> Iterator[list[tuple[Process, StepsRecord]]]:
    """The records of a launch since its loops came up, by the minute in which they begin.

    Of a long launch by several minutes, so that there are not too many.
    """
    span_us = min(until_us, launch.last_us) - max(since_us, launch.first_us)
    width_us = MINUTE_US * max(1, -(-span_us // (MINUTE_US * loops.MOST_BINS)))
    by_minute = dict[int, list[tuple[Process, StepsRecord]]]()
    for process in launch.processes:
        up_us = _NEVER_US if process.up_us is None else process.up_us
        for one in process.stretches:
            if since_us < one.until_us and one.from_us < until_us and one.until_us > up_us:
                by_minute.setdefault(one.from_us // width_us, []).append((process, one))
    for minute in sorted(by_minute):
        yield sorted(by_minute[minute], key=lambda pair: (pair[1].from_us, pair[0].rank))
