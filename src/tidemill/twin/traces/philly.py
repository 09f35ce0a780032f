"""The Philly trace in its compact form (Jeon et al., ATC'19; file from the Pollux artifact).

Columns: ``timestamp`` (date), ``duration`` (s), ``num_gpus``, ``gpu_time`` (GPU·s), ``cluster``.
The 15 virtual clusters are teams; ``gpu_time`` is the product of two others. Not in order of time.
A column ``user`` is taken over where there is one. Dates have no zone, and none is made up.
"""

from datetime import UTC, datetime
from pathlib import Path

from tidemill.journal.moments import Calendar
from tidemill.model.rows import Job, Queue, Shape
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.trace import Trace, fleet_of, gang, in_order, scaled

_1970 = datetime(1970, 1, 1)  # noqa: DTZ001 - dates of a trace have no zone
_DAY_S = 86_400
COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def load(path: Path, options: Options) -> Trace:
    """All jobs; no faults."""

    shapes = dict[tuple[str, str], Shape]()  # what many rows say alike is read once
    works_ms = dict[str, int]()

    def make(row: rows.TraceRow) -> tuple[int, Job, int]:
        asked = row.cell("num_gpus"), row.cell("cluster")
        if (shape := shapes.get(asked)) is None:
            shape = shapes[asked] = gang(row, "num_gpus", row.text("cluster"), options)
        job = Job(f"philly-{row.line}", shape, user=row.user() if "user" in row.places else "")
        at_ms, told = moment_ms(row, "timestamp"), row.cell("duration")
        if (work_ms := works_ms.get(told)) is None:
            work_ms = works_ms[told] = scaled(row.ms("duration", 1), options)
        return at_ms, job, work_ms

    made, skipped, broken = rows.each(path, COLUMNS, options, make)
    arrivals = in_order(path, made)
    contract, notes = fleet_of(arrivals, options)
    teams = sorted({arrival.job.shape.team for arrival in arrivals})
    return Trace(
        name="philly",
        contracts=(contract,),
        queues=tuple(Queue(team) for team in teams),
        arrivals=arrivals,
        calendar=calendar_of(made[0][0]),
        skipped=skipped,
        broken=broken,
        notes=notes,
    )


def calendar_of(first_ms: int) -> Calendar:
    """The calendar of a trace that begins at this moment, as ``moment_ms`` counts."""
    return Calendar(datetime.fromtimestamp(first_ms / 1000, UTC).replace(tzinfo=None))


def moment_ms(row: rows.TraceRow, column: str) -> int:
    """A date without a zone, as milliseconds since 1970 as if it were UTC."""
    text = row.cell(column).strip()[:26]  # Azure writes seven places; six are known here
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        row.text(column)  # it may be more wrong than that
        row.refuse(column, "a date such as 2017-10-09 07:01:55")
    if moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None)
    passed = moment - _1970
    if passed.microseconds:
        return round(passed.total_seconds() * 1000)
    return (passed.days * _DAY_S + passed.seconds) * 1000
