"""Traces of a 64-GPU cluster, as published with Muri (SIGCOMM'22).

Columns: ``job_id, num_gpu, submit_time`` (**ms**), ``iterations, iteration_time`` (**ms**),
``priority`` and others. Work is iterations × iteration time; the ``duration`` column is not used
(nor by the authors' simulator, which adds 1.5 %: ``work_ppm`` 1,015,000).
"""

from pathlib import Path

from tidemill.model.rows import Job, Queue
from tidemill.twin.arrivals import Arrival
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.trace import Trace, gang, in_order, one_contract, scaled

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")
PUBLISHED_GPUS = 64  # n8g8.csv: 8 nodes of 8


def load(path: Path, options: Options) -> Trace:
    """All jobs of one trace on the cluster it was published for."""
    names = rows.Names()

    def make(row: rows.TraceRow) -> Arrival:
        priority = row.whole("priority") if row.cell("priority") else 0
        shape = gang(row, "num_gpu", "muri", options, priority)
        work_ms = max(1, round(row.number("iterations") * row.number("iteration_time")))
        job = Job(f"muri-{names.of(row, 'job_id')}", shape, user=row.user())
        return Arrival(row.whole("submit_time"), job, scaled(work_ms, options))

    made, skipped, broken = rows.each(path, COLUMNS, options, make)
    return Trace(
        name=path.stem,
        contracts=(one_contract(options, options.accelerators or PUBLISHED_GPUS),),
        queues=(Queue("muri"),),
        arrivals=in_order(path, made),
        skipped=skipped,
        broken=broken,
        notes=("work is iterations × iteration time",),
    )
