"""Microsoft ITP training jobs, as published with ElasticFlow (ASPLOS'23).

Columns: ``job_id, submission_time`` (s), ``duration`` (s), ``num_gpu``. No capacity in the file.
"""

from pathlib import Path

from tidemill.model.rows import Job, Queue
from tidemill.twin.arrivals import Arrival
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.trace import Trace, fleet_of, gang, in_order, scaled

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


def load(path: Path, options: Options) -> Trace:
    """All jobs of one cluster; one team, no faults."""
    names = rows.Names()

    def make(row: rows.TraceRow) -> Arrival:
        shape = gang(row, "num_gpu", "itp", options)
        job = Job(names.of(row, "job_id"), shape, user=row.user())
        return Arrival(row.ms("submission_time"), job, scaled(row.ms("duration", 1), options))

    made, skipped, broken = rows.each(path, COLUMNS, options, make)
    arrivals = in_order(path, made)
    contract, notes = fleet_of(arrivals, options)
    return Trace(
        name=path.stem,
        contracts=(contract,),
        queues=(Queue("itp"),),
        arrivals=arrivals,
        skipped=skipped,
        broken=broken,
        notes=notes,
    )
