"""Alibaba's GPU cluster of 2023, as published with FGD (ATC'23): a node list and pod lists.

Nodes: ``sn, cpu_milli, memory_mib, gpu, model``. Pods: ``name, cpu_milli, memory_mib, num_gpu,
gpu_milli`` (of each GPU), and in some files ``gpu_spec`` (models joined by ``|``), ``qos``,
``creation_time``, ``deletion_time``, ``scheduled_time`` (s). Equal nodes become one contract.
"""

from pathlib import Path
from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, SECOND_MS
from tidemill.model.rows import MAX_DEVICES, Contract, Job, Queue, Role, Shape, Template
from tidemill.model.states import JobClass
from tidemill.twin.arrivals import Arrival
from tidemill.twin.traces import rows
from tidemill.twin.traces.options import AS_PUBLISHED, Options
from tidemill.twin.traces.trace import Trace, in_order, scaled, span_note

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
NODE_LIST = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_default.csv"

# Latency-sensitive pods serve and outrank best-effort ones, which train (FGD, section 2).
_CLASSES = {"BE": JobClass.TRAINING}
_PRIORITIES = {"BE": 0, "Burstable": 1, "LS": 2, "Guaranteed": 3}


class NodeLine(NamedTuple):
    """One line of the node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class PodLine(NamedTuple):
    """One line of a pod list; times are in ms, -1 where the file has none."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    qos: str
    created_ms: int
    deleted_ms: int
    scheduled_ms: int


def load(path: Path, options: Options) -> Trace:
    """The pods of one list on the nodes beside it; ``path`` may be the folder of both."""
    pods_at = path / PODS if path.is_dir() else path
    nodes_at = Path(options.nodes) if options.nodes else pods_at.with_name(NODE_LIST)
    if pods_at.name == NODE_LIST:
        raise SpecError(
            f"`{pods_at}` is a list of nodes, without work", hint=f"give a pod list, such as {PODS}"
        )
    nodes = node_lines(nodes_at, options)
    pods, skipped, broken = pod_lines(pods_at, options)
    notes = [f"{len(nodes):,} nodes, {sum(node.gpus for node in nodes):,} accelerators"]
    untimed = sum(pod.created_ms < 0 for pod in pods)
    unscheduled = sum(pod.created_ms >= 0 > pod.scheduled_ms for pod in pods)
    if untimed:
        notes.append(f"{untimed:,} pods have no times: one per second, one hour each")
    if unscheduled:
        notes.append(f"{unscheduled:,} pods never ran: the time they waited stands for their work")
    made = [_arrival(i, pod, options) for i, pod in enumerate(pods)]
    arrivals = in_order(pods_at, made)
    return Trace(
        name=pods_at.stem,
        contracts=_contracts(nodes, options),
        queues=tuple(Queue(team) for team in sorted({a.job.shape.team for a in arrivals})),
        arrivals=arrivals,
        skipped=skipped,
        broken=broken,
        notes=(*notes, span_note(arrivals)),
    )


def node_lines(path: Path, options: Options = AS_PUBLISHED) -> list[NodeLine]:
    """The node list, in its own order."""
    names = rows.Names()

    def make(row: rows.TraceRow) -> NodeLine:
        gpus = row.whole("gpu", 1)
        if gpus > MAX_DEVICES:
            row.refuse("gpu", f"at most {MAX_DEVICES}")
        host = (row.whole("cpu_milli"), row.whole("memory_mib"))
        return NodeLine(names.of(row, "sn"), *host, gpus, row.text("model"))

    lines, _, _ = rows.each(path, NODE_COLUMNS, options, make)
    rows.refuse_empty(path, len(lines), "nodes")
    return lines


def pod_lines(
    path: Path, options: Options = AS_PUBLISHED
) -> tuple[list[PodLine], int, tuple[str, ...]]:
    """A pod list in its own order, how many rows were skipped, and why the first of them."""
    names = rows.Names()

    def make(row: rows.TraceRow) -> PodLine:
        gpus, milli = row.whole("num_gpu"), row.whole("gpu_milli")
        if gpus > MAX_DEVICES:
            row.refuse("num_gpu", f"at most {MAX_DEVICES}")
        if gpus and not (milli == 1000 or (gpus == 1 and 0 < milli < 1000)):
            row.refuse("gpu_milli", "1000, or less of a single GPU")
        return PodLine(
            names.of(row, "name"),
            row.whole("cpu_milli"),
            row.whole("memory_mib"),
            gpus,
            milli,
            tuple(model for model in _maybe(row, "gpu_spec").split("|") if model),
            _maybe(row, "qos") or "pods",
            _time_ms(row, "creation_time"),
            _time_ms(row, "deletion_time"),
            _time_ms(row, "scheduled_time"),
        )

    return rows.each(path, POD_COLUMNS, options, make)


def _maybe(row: rows.TraceRow, column: str) -> str:
    return row.text(column) if row.cell(column).strip() else ""


def _time_ms(row: rows.TraceRow, column: str) -> int:
    return row.ms(column) if row.cell(column) else -1


def _contracts(nodes: list[NodeLine], options: Options) -> tuple[Contract, ...]:
    counts: dict[tuple[str, int, int, int], int] = {}
    for node in nodes:
        key = (node.model, node.gpus, node.cpu_milli, node.memory_mib)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        Contract(
            name=f"{model.lower()}-{i}",
            pool=model,
            kind=model,
            count=count * gpus,
            usd_micro_per_hour=options.usd_micro_per_hour,
            node=Template(gpus, cpu_milli, memory_mib),
        )
        for i, ((model, gpus, cpu_milli, memory_mib), count) in enumerate(sorted(counts.items()), 1)
    )


def _arrival(i: int, pod: PodLine, options: Options) -> Arrival:
    role = Role(
        accelerators=pod.gpus,
        milli=pod.gpu_milli if pod.gpus else 1000,
        cpu_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
        kinds=pod.models,
    )
    kind = _CLASSES.get(pod.qos, JobClass.INFERENCE)
    shape = Shape(pod.qos, (role,), kind, _PRIORITIES.get(pod.qos, 0))
    if pod.created_ms < 0:
        return Arrival(i * SECOND_MS, Job(pod.name, shape), scaled(HOUR_MS, options))
    began_ms = pod.scheduled_ms if pod.scheduled_ms >= 0 else pod.created_ms
    work_ms = scaled(max(1, pod.deleted_ms - began_ms), options)
    return Arrival(pod.created_ms, Job(pod.name, shape), work_ms)
