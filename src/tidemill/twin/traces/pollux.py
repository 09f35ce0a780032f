"""Workloads of elastic training jobs, as published with Pollux (OSDI'21).

Columns: ``name, time`` (s), ``application, num_replicas, batch_size``. A workload says what to
train, not how long it takes. That follows from the authors' measurements in the folder
``traces/<application>`` beside it: iterations to the last epoch × the step time that was measured
nearest to the job's replicas and batch.
"""

from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.rows import Job, Queue
from tidemill.twin.arrivals import Arrival
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import Options
from tidemill.twin.traces.trace import Trace, gang, in_order, one_contract, scaled, span_note

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
PUBLISHED_GPUS, PUBLISHED_PER_NODE = 64, 4  # 16 nodes of 4


class MeasuredStep(NamedTuple):
    """One measurement: seconds a step takes, and how much of that is synchronisation."""

    nodes: int
    replicas: int
    local_batch: int
    step_s: float
    sync_s: float


class Measured(NamedTuple):
    """What was measured of an application: steps, and iterations to the end by batch size."""

    steps: tuple[MeasuredStep, ...]
    iterations: dict[int, float]


def load(path: Path, options: Options) -> Trace:
    """All jobs of one workload, as rigid gangs of the size they were submitted with."""
    options = replace(options, per_node=options.per_node or PUBLISHED_PER_NODE)
    names = rows.Names()

    def make(row: rows.TraceRow) -> Arrival:
        shape = gang(row, "num_replicas", "pollux", options)
        run_s = _run_s(path, row, options.node_devices)
        job = Job(names.of(row, "name"), shape, user=row.user())
        return Arrival(row.ms("time"), job, scaled(max(1, round(run_s * 1000)), options))

    made, skipped, broken = rows.each(path, COLUMNS, options, make)
    arrivals = in_order(path, made)
    return Trace(
        name=path.stem,
        contracts=(one_contract(options, options.accelerators or PUBLISHED_GPUS),),
        queues=(Queue("pollux"),),
        arrivals=arrivals,
        skipped=skipped,
        broken=broken,
        notes=("run times are modelled from measured step times", span_note(arrivals)),
    )


def _run_s(path: Path, row: rows.TraceRow, per_node: int) -> float:
    application = row.text("application")
    folder = path.parent.parent / "traces" / application
    if not application.replace("_", "").isalnum() or not folder.is_dir():
        row.refuse("application", f"one that was measured, in `{folder.parent}`")
    known = _measured(folder)
    replicas, batch = row.whole("num_replicas", 1), row.whole("batch_size", 1)
    size = min(known.iterations, key=lambda b: (abs(b - batch), b))
    return known.iterations[size] * _step_s(known.steps, replicas, batch / replicas, per_node)


def _step_s(
    steps: tuple[MeasuredStep, ...], replicas: int, local_batch: float, per_node: int
) -> float:
    """The nearest measurement; a batch too large for the memory is done in several passes."""
    nodes = ceil(replicas / per_node)
    passes = ceil(local_batch / max(step.local_batch for step in steps))
    wanted = local_batch / passes
    step = min(
        steps,
        key=lambda s: (
            abs(s.replicas - replicas),
            abs(s.nodes - nodes),
            abs(s.local_batch - wanted),
            s,
        ),
    )
    return step.step_s + (passes - 1) * (step.step_s - step.sync_s)


@lru_cache(maxsize=64)
def _measured(folder: Path) -> Measured:
    options = Options()
    columns = ("local_bsz", "step_time", "sync_time")

    def placed(row: rows.TraceRow) -> MeasuredStep:
        placement = row.text("placement")
        if not placement.isdecimal():
            row.refuse("placement", "one digit a node")
        return _step(row, len(placement), sum(map(int, placement)))

    def scaled_out(row: rows.TraceRow) -> MeasuredStep:
        return _step(row, row.whole("num_nodes", 1), row.whole("num_replicas", 1))

    near, _, _ = rows.each(folder / "placements.csv", ("placement", *columns), options, placed)
    scales = ("num_nodes", "num_replicas", *columns)
    far, _, _ = rows.each(folder / "scalability.csv", scales, options, scaled_out)
    iterations = {
        int(file.stem.partition("-")[2]): _last_iteration(file, options)
        for file in sorted(folder.glob("validation-*.csv"))
        if file.stem.partition("-")[2].isdecimal()
    }
    if not (near or far) or not iterations:
        raise SpecError(f"`{folder}` holds no measurements", hint="fetch the folder again")
    return Measured((*near, *far), iterations)


def _step(row: rows.TraceRow, nodes: int, replicas: int) -> MeasuredStep:
    local_batch = row.whole("local_bsz", 1)
    return MeasuredStep(
        nodes, replicas, local_batch, row.number("step_time"), row.number("sync_time")
    )


def _last_iteration(file: Path, options: Options) -> float:
    found, _, _ = rows.each(file, ("iteration",), options, lambda row: row.number("iteration"))
    rows.refuse_empty(file, len(found), "epochs")
    return found[-1]
