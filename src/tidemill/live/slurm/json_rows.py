"""Records of Slurm's JSON as rows: jobs of sacct, of squeue and scontrol; nodes, partitions, …"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from tidemill.live.slurm import amounts, hostlists, identity, json_limits, states
from tidemill.live.slurm import json_values as values
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.json_values import part
from tidemill.live.slurm.rows import (
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    SlurmReservation,
)

Record = dict[str, Any]


def output_of(key: str, record: Record) -> Output | None:
    """Which command printed a list of this name with such records."""
    if key == "jobs":
        is_accounting = isinstance(record.get("time"), dict)
        return Output.SACCT_JSON if is_accounting else Output.QUEUE_JSON
    return LISTS.get(key)


# --- sacct --------------------------------------------------------------------------------------


def _accounted(record: Record) -> Iterator[Struct]:
    """A job attempt of sacct."""
    state = states.accounted(values.words(part(record, "state", "current")))
    time, array = record.get("time"), _array(record)
    alloc, req = (values.tres(part(record, "tres", name)) for name in ("allocated", "requested"))
    het = values.positive(part(record, "het", "job_id"))
    pends = state.state == "PENDING"
    yield SlurmJob(
        job_id=values.number(record.get("job_id")),
        array_job_id=array[0],
        array_task_id=array[1],
        array_tasks=array[2],
        het_job_id=het,
        het_offset=values.number(part(record, "het", "job_offset")) if het else None,
        cluster=values.text(record.get("cluster")),
        account=values.text(record.get("account")),
        name=values.text(record.get("name")),
        user=values.text(record.get("user")) or values.text(part(record, "association", "user")),
        partition=values.text(record.get("partition")),
        features=values.text(record.get("constraints")),
        qos=values.text(record.get("qos")),
        reservation=values.text_alone(part(record, "reservation", "name")),
        state=state.state,
        state_flags=state.flags,
        reason=values.text(part(record, "state", "reason")),
        submit_ms=values.moment(part(time, "submission")),
        eligible_ms=values.moment(part(time, "eligible")),
        start_ms=None if pends else values.moment(part(time, "start")),
        end_ms=values.moment(part(time, "end")),
        time_limit_ms=values.limit_ms(part(time, "limit")),
        suspended_ms=values.moment(part(time, "suspended")),
        node_list=values.text(record.get("nodes")),
        node_count=values.positive(record.get("allocation_nodes")) or _nodes_requested(req),
        cpus=values.number(part(record, "required", "CPUs")),
        cpu_used_ms=_cpu_ms(record),
        peak_bytes=_peak_bytes(record),
        req_tres=req,
        alloc_tres=alloc,
        gpus_requested=amounts.tres_gpus(req or "").number,
        gpus_allocated=amounts.tres_gpus(alloc or "").number,
        gpu_type=amounts.tres_gpus(alloc or "").type or amounts.tres_gpus(req or "").type,
    )


def _steps(record: Record) -> list[Record]:
    found = record.get("steps")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _cpu_ms(record: Record) -> int | None:
    """CPU time of a job, or of its steps together; None where nothing gathers it."""
    own = _total_us(record)
    return (own or sum(_total_us(step) for step in _steps(record))) // 1000 or None


def _total_us(record: Record) -> int:
    total = part(record, "time", "total")
    seconds, micros = (values.number(part(total, name)) for name in ("seconds", "microseconds"))
    return (seconds or 0) * 1_000_000 + (micros or 0)


def _peak_bytes(record: Record) -> int | None:
    """The most memory that a step used: the peak of its largest task, times its tasks."""
    found = [
        (values.number(one.get("count")) or 0) * (values.number(part(step, "tasks", "count")) or 1)
        for step in _steps(record)
        for one in part(step, "tres", "requested", "max") or ()
        if isinstance(one, dict) and one.get("type") == "mem"
    ]
    return max(found, default=0) or None


def _nodes_requested(req_tres: str | None) -> int | None:
    return dict(amounts.tres(req_tres or "") or ()).get("node")


def _array(record: Record) -> tuple[int | None, int | None, str | None]:
    """Id of the array, task, and the tasks that pend together."""
    array = record.get("array")
    leader = values.positive(part(array, "job_id"))
    if leader is None:
        return None, None, None
    tasks = values.text(part(array, "task"))
    at_once = values.positive(part(array, "limits", "max", "running", "tasks"))
    task = values.number(part(array, "task_id"))
    if task is not None or tasks is None:
        return leader, task, None
    found = identity.tasks_of_mask(tasks)
    return leader, None, f"{found}%{at_once}" if at_once and "%" not in found else found


# --- squeue and scontrol show job ---------------------------------------------------------------


def _queued(record: Record) -> Iterator[Struct]:
    state = states.job_of_words(values.words(record.get("job_state")))
    nodes = values.text(record.get("nodes"))
    start, end = (values.moment(record.get(key)) for key in ("start_time", "end_time"))
    pends, is_over = state.state == "PENDING", state.state in states.ENDED
    leader, het = (
        values.positive(record.get("array_job_id")),
        values.positive(record.get("het_job_id")),
    )
    req, alloc = (values.text(record.get(f"tres_{key}_str")) for key in ("req", "alloc"))
    detail = _gres_detail(nodes, values.words(record.get("gres_detail")))
    requested, allocated = requested_gpus(record, req), allocated_gpus(alloc, detail)
    yield SlurmJob(
        job_id=values.number(record.get("job_id")),
        array_job_id=leader,
        array_task_id=values.number(record.get("array_task_id")) if leader else None,
        array_tasks=values.text(record.get("array_task_string")) if leader else None,
        het_job_id=het,
        het_offset=values.number(record.get("het_job_offset")) if het else None,
        cluster=values.text(record.get("cluster")),
        name=values.text(record.get("name")),
        user=values.text(record.get("user_name")),
        uid=values.number(record.get("user_id")),
        account=values.text(record.get("account")),
        partition=values.text(record.get("partition")),
        qos=values.text(record.get("qos")),
        reservation=values.text(record.get("resv_name")),
        state=state.state,
        state_flags=state.flags,
        reason=values.text(record.get("state_reason")),
        reason_text=values.text(record.get("state_description")),
        dependency=values.text(record.get("dependency")),
        submit_ms=values.moment(record.get("submit_time")),
        eligible_ms=values.moment(record.get("eligible_time")),
        start_ms=None if pends else start,
        end_ms=end if is_over else None,
        time_limit_ms=values.limit_ms(record.get("time_limit")),
        changed_ms=values.moment(record.get("suspend_time")),
        ran_ms=values.seconds_ms(record.get("pre_sus_time")),
        node_list=nodes,
        node_count=values.number(record.get("node_count")),
        required_nodes=values.text(record.get("required_nodes")),
        excluded_nodes=values.text(record.get("excluded_nodes")),
        features=values.text(record.get("features")),
        cpus=values.number(record.get("cpus")),
        req_tres=req,
        alloc_tres=alloc,
        tres_per_node=values.text(record.get("tres_per_node")),
        tasks=values.number(record.get("tasks")),
        is_exclusive=_is_exclusive(record),
        gres_detail=detail,
        gpus_requested=requested.number,
        gpus_allocated=allocated.number,
        gpu_type=allocated.type or requested.type,
    )


def _is_exclusive(record: Record) -> bool | None:
    """Whether a job shares its nodes with none; 24.11 calls it otherwise than those before."""
    shared, alone = (values.words(record.get(key)) for key in ("shared", "exclusive"))
    return "none" in shared or "true" in alone if shared or alone else None


def _gres_detail(nodes: str | None, details: list[str]) -> str | None:
    """Which devices on which node: one entry per node, in the order of the list of nodes."""
    if not nodes or not details:
        return None
    names = hostlists.expand(nodes)
    if len(names) != len(details):
        return None
    return ";".join(f"{name}={found}" for name, found in zip(names, details, strict=True))


PER = ("tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket")


def requested_gpus(record: Record, req_tres: str | None) -> amounts.GpuCount:
    """GPUs that a job requests: by its TRES, else by what it asked for per job, node or task.

    A job that asked for none in any of these ways requests zero.
    """
    by_tres = amounts.tres_gpus(req_tres or "")
    if by_tres.number is not None:
        typed = amounts.gres_gpus(values.text(record.get("tres_per_node")) or "").type
        return amounts.GpuCount(by_tres.number, by_tres.type or typed)
    asked = {key: values.text(record.get(key)) for key in PER if key in record}
    if len(asked) == len(PER) and not any(asked.values()):
        return amounts.GpuCount(0, None)
    times = {
        "tres_per_job": 1,
        "tres_per_node": values.number(record.get("node_count")),
        "tres_per_task": values.number(record.get("tasks")),
    }
    for key, count in times.items():
        found = amounts.gres_gpus(asked.get(key) or "")
        if found.number is not None and count is not None:
            return amounts.GpuCount(found.number * count, found.type)
    return amounts.UNKNOWN_GPUS


def allocated_gpus(alloc_tres: str | None, detail: str | None) -> amounts.GpuCount:
    """GPUs that a job has: by its TRES, else by the devices listed for each node."""
    by_tres = amounts.tres_gpus(alloc_tres or "")
    if by_tres.number is not None or not detail:
        return by_tres
    found = [amounts.gres_gpus(entry.partition("=")[2]) for entry in detail.split(";")]
    types = sorted({one.type for one in found if one.type})
    return amounts.GpuCount(sum(one.number or 0 for one in found), ",".join(types) or None)


# --- nodes, partitions, reservations ------------------------------------------------------------


def _node(record: Record) -> Iterator[Struct]:
    state = states.node_of_words(
        [*values.words(record.get("state")), *values.words(record.get("state_flags"))]
    )
    gres = values.text(record.get("gres"))
    gpus = amounts.gres_gpus(gres or "")
    yield SlurmNode(
        name=values.named(record.get("name")),
        state=state.state,
        state_flags=state.flags,
        reason=values.text(record.get("reason")),
        reason_ms=values.moment(record.get("reason_changed_at")),
        gres=gres,
        gpus=gpus.number,
        gpu_type=gpus.type,
        cpus=values.number(record.get("cpus")),
        memory_mib=values.number(record.get("real_memory")),
        cpus_allocated=values.number(record.get("alloc_cpus")),
        memory_allocated_mib=values.number(record.get("alloc_memory")),
        boot_ms=values.moment(record.get("boot_time")),
        instance_type=values.text(record.get("instance_type")),
        partitions=values.joined(record.get("partitions")),
        features=_features(record.get("active_features"), record.get("features")),
    )


def _sinfo(record: Record) -> Iterator[Struct]:
    """Newer sinfo: one record for all nodes of a partition in one state; one row per node.

    A node in two partitions has two rows.
    """
    state = states.node_of_words(values.words(part(record, "node", "state")))
    names = [
        name
        for text in values.words(part(record, "nodes", "nodes"))
        for name in hostlists.expand(text)
    ]
    gres = values.text(part(record, "gres", "total"))
    gpus = amounts.gres_gpus(gres or "")
    for name in names:
        yield SlurmNode(
            name=name,
            state=state.state,
            state_flags=state.flags,
            reason=values.text(part(record, "reason", "description")),
            reason_ms=values.moment(part(record, "reason", "time")),
            gres=gres,
            gpus=gpus.number,
            gpu_type=gpus.type,
            cpus=_same(record, "cpus"),
            memory_mib=_same(record, "memory"),
            partitions=values.text(part(record, "partition", "name")),
            features=_features(
                part(record, "features", "active"), part(record, "features", "total")
            ),
        )


def _features(active: Any, available: Any) -> str | None:  # noqa: ANN401 - decoded JSON
    """Those that a node has now; else those that it could have."""
    return values.joined(active) or values.joined(available)


def _same(record: Record, key: str) -> int | None:
    """What all the nodes of a record have; None where they differ."""
    low, high = (values.number(part(record, key, end)) for end in ("minimum", "maximum"))
    return low if low == high else None


def _partition(record: Record) -> Iterator[Struct]:
    yield SlurmPartition(
        name=values.named(record.get("name")),
        state=values.joined(part(record, "partition", "state"), "+"),
        nodes=values.text(part(record, "nodes", "configured")),
        node_count=values.number(part(record, "nodes", "total")),
        max_time_ms=values.limit_ms(part(record, "maximums", "time")),
        max_nodes=values.number(part(record, "maximums", "nodes")),
        qos=values.text(part(record, "qos", "assigned")),
    )


def _reservation(record: Record) -> Iterator[Struct]:
    yield SlurmReservation(
        name=values.named(record.get("name")),
        start_ms=values.moment(record.get("start_time")),
        end_ms=values.moment(record.get("end_time")),
        node_list=values.text(record.get("node_list")),
        flags=values.joined(record.get("flags")),
    )


LISTS = {
    "nodes": Output.NODES_JSON,
    "sinfo": Output.SINFO_JSON,
    "partitions": Output.PARTITIONS_JSON,
    "reservations": Output.RESERVATIONS_JSON,
    "associations": Output.ASSOCIATIONS_JSON,
    "qos": Output.QOS_JSON,
}

ROWS: dict[Output, Callable[[Record], Iterator[Struct]]] = {
    Output.SACCT_JSON: _accounted,
    Output.QUEUE_JSON: _queued,
    Output.NODES_JSON: _node,
    Output.SINFO_JSON: _sinfo,
    Output.PARTITIONS_JSON: _partition,
    Output.RESERVATIONS_JSON: _reservation,
    Output.ASSOCIATIONS_JSON: json_limits.association,
    Output.QOS_JSON: json_limits.qos,
}
"""The rows of one record, by what it is; ``ValueError`` where it cannot be read."""
