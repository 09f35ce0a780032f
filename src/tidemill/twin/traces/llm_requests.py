"""One hour of requests to a language model, as published by Azure (Patel et al., ISCA'24).

Columns: ``TIMESTAMP`` (date), ``ContextTokens``, ``GeneratedTokens``. Gives the load of a service,
minute by minute: the busiest minute is full, the others are as busy as their tokens. A token that
is generated weighs as much as eight that are read: decoding is bound by memory, reading is not.
"""

from pathlib import Path

from tidemill.model.measures import DAY_MS, MINUTE_MS, ONE_PPM
from tidemill.model.rows import Job, Queue, Role, Shape
from tidemill.model.states import JobClass
from tidemill.twin.arrivals import Arrival, Tide
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import AS_PUBLISHED, Options
from tidemill.twin.traces.philly import moment_ms
from tidemill.twin.traces.trace import Trace, one_contract

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
GENERATED_WEIGHT = 8  # a choice, not a measurement: roughly the price ratio of the two
MAX_MINUTES = 60 * 24 * 366


def load(path: Path, options: Options) -> Trace:
    """One service that runs for a day under this load, again and again."""
    levels, skipped, broken = tide_of(path, options)
    minutes = len(levels.levels_ppm)
    mean = sum(levels.levels_ppm) / minutes / ONE_PPM
    count = options.accelerators or options.node_devices
    shape = Shape("serving", (Role(count=count),), JobClass.INFERENCE, is_preemptible=False)
    service = Arrival(0, Job("service", shape), DAY_MS, activity=levels)
    return Trace(
        name=path.stem,
        contracts=(one_contract(options, count),),
        queues=(Queue("serving"),),
        arrivals=(service,),
        horizon_ms=DAY_MS,
        skipped=skipped,
        broken=broken,
        notes=(f"{minutes:,} minutes of load, repeated; mean {mean:.0%} of the peak",),
    )


def tide_of(path: Path, options: Options = AS_PUBLISHED) -> tuple[Tide, int, tuple[str, ...]]:
    """The load by the minute, how many rows were skipped, and why the first of them."""

    def make(row: rows.TraceRow) -> tuple[int, int]:
        tokens = row.whole("ContextTokens") + GENERATED_WEIGHT * row.whole("GeneratedTokens")
        return moment_ms(row, "TIMESTAMP"), tokens

    requests, skipped, broken = rows.each(path, COLUMNS, options, make)
    rows.refuse_empty(path, len(requests), "requests")
    first_ms = min(at_ms for at_ms, _ in requests)
    minutes = [0] * min(MAX_MINUTES, (max(at for at, _ in requests) - first_ms) // MINUTE_MS + 1)
    for at_ms, tokens in requests:
        minutes[min(len(minutes) - 1, (at_ms - first_ms) // MINUTE_MS)] += tokens
    peak = max(1, *minutes)
    return Tide(tuple(m * ONE_PPM // peak for m in minutes), MINUTE_MS), skipped, broken
