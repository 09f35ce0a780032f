"""The text of `scontrol show job|node|partition|reservation`, in blocks or one line each (`-o`).

A record is a run of `Key=value` pairs. Values of some keys are free text with blanks in it; in a
block they go to the end of the line, in one line to the next key that Slurm is known to print.
Keys may come more than once (`-d` lists the devices of each node).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from typing import NamedTuple

from msgspec import Struct

from tidemill.live.slurm import amounts, fields, hostlists, identity, json_rows, states, times
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.rows import SlurmJob, SlurmNode, SlurmPartition, SlurmReservation

FIRST_KEYS = {
    "JobId": Output.JOBS_BLOCKS,
    "NodeName": Output.NODES_BLOCKS,
    "PartitionName": Output.PARTITIONS_BLOCKS,
    "ReservationName": Output.RESERVATIONS_BLOCKS,
}
"""The key that opens a record, and what the text then is."""

FREE_TEXT = frozenset({
    "JobName", "Comment", "AdminComment", "SystemComment", "Command", "WorkDir", "StdErr", "StdIn",
    "StdOut", "SubmitLine", "OS", "Reason", "Extra", "BatchHost", "Container",
})  # fmt: skip
AFTER_FREE_TEXT = frozenset({
    "UserId", "HetJobIdSet", "StdErr", "StdIn", "StdOut", "WorkDir", "Power", "Comment",
    "AdminComment", "SystemComment", "Extra", "RealMemory", "Dependency", "FailedNode", "NumNodes",
    "TresPerNode", "TresPerJob", "TresPerTask", "TresPerSocket", "NtasksPerTRES", "MailUser",
    "MailType", "CpusPerTres", "SubmitLine", "Command", "InstanceId", "ResumeAfterTime",
    "BatchFlag", "Requeue", "GresEnforceBind", "MemPerTres", "TresBind", "ContainerID",
})  # fmt: skip
"""Keys that may follow free text in one line."""

MOST_LINES = 20_000
"""Lines of one record; a job on 10,000 nodes with `-d` prints about as many."""

NOTHING = re.compile(r"No \w+ in the system")
"""What scontrol prints where there is nothing to show."""

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")
_REASON = re.compile(r"(.*?)\s*\[[^@\[\]]+@([^\[\]]+)\]", re.DOTALL)
_USER = re.compile(r"(.*)\((\d+)\)")


class BlockRecord(NamedTuple):
    """One record: its number, the line where it begins, and its pairs in the order printed."""

    number: int
    line: int
    pairs: list[tuple[str, str]]

    def get(self, key: str) -> str:
        """The first value of a key; empty where it is missing or Slurm says it has none."""
        found = next((value for name, value in self.pairs if name == key), "")
        return "" if found in fields.NO_TEXT else found

    def text(self, *keys: str) -> str | None:
        """The first of these keys that says something."""
        return next((found for key in keys if (found := self.get(key))), None)

    def number_of(self, key: str) -> int | None:
        """A whole number."""
        found = self.get(key)
        return fields.whole(found) if found else None


def records(lines: Iterable[str]) -> Iterator[BlockRecord]:
    """The records of a text, whichever form it has."""
    pairs, began, number = list[tuple[str, str]](), 0, 0
    for at, line in enumerate(lines, start=1):
        key = line.partition("=")[0]
        if key in FIRST_KEYS:
            if pairs:
                yield BlockRecord(number, began, pairs)
            pairs, began, number = [], at, number + 1
        if len(pairs) > MOST_LINES * 8:
            raise ValueError(f"a record of more than {MOST_LINES} lines")
        pairs += pairs_of(line)
    if pairs:
        yield BlockRecord(number, began, pairs)


def pairs_of(line: str) -> Iterator[tuple[str, str]]:
    """The pairs of one line."""
    found = _KEY.search(line)
    while found:
        key, begin = found[1], found.end()
        is_free = key in FREE_TEXT and not (key == "Reason" and line.lstrip().startswith("Job"))
        after = _next_key(line, begin, is_free)
        end = after.start() if after else len(line)
        yield key, line[begin:end].strip()
        found = after


def _next_key(line: str, begin: int, is_free: bool) -> re.Match[str] | None:
    for found in _KEY.finditer(line, begin):
        if not is_free or found[1] in AFTER_FREE_TEXT:
            return found
    return None


def _job(record: BlockRecord, zone: tzinfo | None) -> SlurmJob:
    def moment(key: str) -> int | None:
        return times.time_ms(record.get(key), zone)

    state = states.job(record.get("JobState"))
    pends, is_over = state.state == "PENDING", state.state in states.ENDED
    start, end = moment("StartTime"), moment("EndTime")
    user, uid = _user(record.get("UserId"))
    array, tasks = record.number_of("ArrayJobId"), record.get("ArrayTaskId")
    task = int(tasks) if tasks.isdigit() else None
    tres = record.text("TRES")  # 22.05: of a pending job requested, else allocated
    req = record.text("ReqTRES") or (tres if pends else None)
    alloc = record.text("AllocTRES") or (None if pends else tres)
    detail = _devices(record)
    nodes = record.text("NodeList")
    count = record.get("NumNodes").partition("-")[0]  # `2-4`: at least two
    requested = json_rows.requested_gpus(
        {
            **{key: record.get(key.title().replace("_", "")) for key in json_rows.PER},
            "node_count": fields.whole(count) if count else None,
            "tasks": record.number_of("NumTasks"),
        },
        req,
    )
    allocated = json_rows.allocated_gpus(alloc, detail)
    return SlurmJob(
        job_id=identity.raw(record.get("JobId")),
        array_job_id=array,
        array_task_id=task,
        array_tasks=tasks if tasks and task is None else None,
        het_job_id=record.number_of("HetJobId"),
        het_offset=record.number_of("HetJobOffset"),
        name=record.text("JobName"),
        user=user,
        uid=uid,
        account=record.text("Account"),
        partition=record.text("Partition"),
        qos=record.text("QOS"),
        reservation=record.text("Reservation"),
        state=state.state,
        state_flags=state.flags,
        reason=_words(record.text("Reason")),
        dependency=record.text("Dependency"),
        submit_ms=moment("SubmitTime"),
        eligible_ms=moment("EligibleTime"),
        start_ms=None if pends else start,
        end_ms=end if is_over else None,
        time_limit_ms=times.limit_ms(record.get("TimeLimit")),
        node_list=nodes,
        required_nodes=record.text("ReqNodeList"),
        excluded_nodes=record.text("ExcNodeList"),
        features=record.text("Features"),
        node_count=fields.whole(count) if count else None,
        cpus=record.number_of("NumCPUs"),
        req_tres=req,
        alloc_tres=alloc,
        tres_per_node=record.text("TresPerNode"),
        tasks=record.number_of("NumTasks"),
        is_exclusive=record.get("OverSubscribe") == "NO",
        gres_detail=detail,
        gpus_requested=requested.number,
        gpus_allocated=allocated.number,
        gpu_type=allocated.type or requested.type,
    )


def _user(text: str) -> tuple[str | None, int | None]:
    """`ada(1000)`: name and uid."""
    found = _USER.fullmatch(text)
    return (found[1], int(found[2])) if found else (text or None, None)


def _devices(record: BlockRecord) -> str | None:
    """Which devices on which node, from the lines of `-d`."""
    found, nodes = list[str](), ""
    for key, value in record.pairs:
        if key == "Nodes":
            nodes = value
        elif key == "GRES" and value and nodes:
            found += [f"{name}={value}" for name in hostlists.expand(nodes)]
    return ";".join(found) or None


def _node(record: BlockRecord, zone: tzinfo | None) -> SlurmNode:
    def moment(key: str) -> int | None:
        return times.time_ms(record.get(key), zone)

    state = states.node(record.get("State"))
    gres = record.text("Gres")
    gpus = amounts.gres_gpus(gres or "")
    reason, when = _reason(record.get("Reason"), zone)
    return SlurmNode(
        name=_named(record, "NodeName"),
        state=state.state,
        state_flags=state.flags,
        reason=reason,
        reason_ms=when,
        gres=gres,
        gpus=gpus.number,
        gpu_type=gpus.type,
        cpus=record.number_of("CPUTot"),
        memory_mib=record.number_of("RealMemory"),
        cpus_allocated=record.number_of("CPUAlloc"),
        memory_allocated_mib=record.number_of("AllocMem"),
        boot_ms=moment("BootTime"),
        instance_type=record.text("InstanceType"),
        partitions=record.text("Partitions"),
        features=record.text("ActiveFeatures", "AvailableFeatures"),
    )


def _words(reason: str | None) -> str | None:
    """scontrol prints `_` for the blanks of a sentence; some single words have it themselves."""
    return reason.replace("_", " ") if reason and ",_" in reason else reason


def _reason(text: str, zone: tzinfo | None) -> tuple[str | None, int | None]:
    """`ECC errors [root@2026-11-16T16:29:46]`: what and when."""
    found = _REASON.fullmatch(text)
    if not found:
        return text or None, None
    return found[1], times.time_ms(found[2], zone)


def _named(record: BlockRecord, key: str) -> str:
    if not (found := record.get(key)):
        raise ValueError(f"{key} is empty")
    return found


def _partition(record: BlockRecord, zone: tzinfo | None) -> SlurmPartition:
    del zone
    return SlurmPartition(
        name=_named(record, "PartitionName"),
        state=record.text("State"),
        nodes=record.text("Nodes"),
        node_count=record.number_of("TotalNodes"),
        max_time_ms=times.limit_ms(record.get("MaxTime")),
        max_nodes=record.number_of("MaxNodes"),
        qos=record.text("QoS"),
    )


def _reservation(record: BlockRecord, zone: tzinfo | None) -> SlurmReservation:
    return SlurmReservation(
        name=_named(record, "ReservationName"),
        state=record.text("State"),
        start_ms=times.time_ms(record.get("StartTime"), zone),
        end_ms=times.time_ms(record.get("EndTime"), zone),
        node_list=record.text("Nodes"),
        flags=record.text("Flags"),
    )


ROWS: dict[Output, Callable[[BlockRecord, tzinfo | None], Struct]] = {
    Output.JOBS_BLOCKS: _job,
    Output.NODES_BLOCKS: _node,
    Output.PARTITIONS_BLOCKS: _partition,
    Output.RESERVATIONS_BLOCKS: _reservation,
}
"""The row of one record, by what it is; ``ValueError`` where it cannot be read."""
