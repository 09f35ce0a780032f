"""What Slurm's commands printed, as the attempts and nodes of a history (``live.history``).

A job waits from the moment it was eligible, as Slurm itself counts (`Planned`): one that is held,
or waits for another to end, is no demand. A requeued job is one job with several attempts.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import polars as pl

from tidemill.live.history.rows import AttemptEnd, SeenNode
from tidemill.live.slurm import amounts, frames, hostlists, reading, reasons, states
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.reading import SlurmReading
from tidemill.live.slurm.reasons import ReasonMeaning
from tidemill.live.slurm.refusals import Refusals
from tidemill.live.slurm.rows import SlurmJob, SlurmNode, SlurmNodeEvent
from tidemill.model.reasons import Cause
from tidemill.model.states import NodeState

_OUTCOMES = {
    "PENDING": AttemptEnd.WAITING,
    "RUNNING": AttemptEnd.RUNNING,
    "SUSPENDED": AttemptEnd.RUNNING,
    "COMPLETED": AttemptEnd.DONE,
    "CANCELLED": AttemptEnd.CANCELLED,
    "REVOKED": AttemptEnd.CANCELLED,
    "FAILED": AttemptEnd.FAILED,
    "BOOT_FAIL": AttemptEnd.NODE_LOST,
    "NODE_FAIL": AttemptEnd.NODE_LOST,
    "TIMEOUT": AttemptEnd.TIMED_OUT,
    "DEADLINE": AttemptEnd.TIMED_OUT,
    "OUT_OF_MEMORY": AttemptEnd.OUT_OF_MEMORY,
    "PREEMPTED": AttemptEnd.PREEMPTED,
    "REQUEUED": AttemptEnd.REQUEUED,
}
_LIVE = {Output.SQUEUE_TEXT, Output.QUEUE_JSON, Output.JOBS_BLOCKS}
_HELD = (
    "JobHeldUser", "JobHeldAdmin", "Dependency", "DependencyNeverSatisfied", "BeginTime",
    "JobHoldMaxRequeue", "launch_failed_requeued_held", "job_requeued_in_held_state",
)  # fmt: skip
"""Reasons of jobs that no free GPU would start."""
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
MOST_TASKS = 10_000
"""Members of one array that pend together and are told one by one."""
_ROW = {
    "job_id": pl.Int64, "array_job_id": pl.Int64, "array_task_id": pl.Int64,
    "array_tasks": pl.String, "het_job_id": pl.Int64, "het_offset": pl.Int64, "user": pl.String,
    "uid": pl.Int64, "account": pl.String, "partition": pl.String, "state": pl.String,
    "state_flags": pl.String, "reason": pl.String, "reason_text": pl.String,
    "submit_ms": pl.Int64, "eligible_ms": pl.Int64,
    "start_ms": pl.Int64, "end_ms": pl.Int64, "time_limit_ms": pl.Int64, "node_list": pl.String,
    "node_count": pl.Int64, "nodes_requested": pl.Int64, "required_nodes": pl.String,
    "cpus": pl.Int64, "cluster": pl.String, "alloc_tres": pl.String, "req_tres": pl.String,
    "gres_detail": pl.String, "tres_per_node": pl.String, "gpus_requested": pl.Int64,
    "gpus_allocated": pl.Int64,
    "gpu_type": pl.String,
}  # fmt: skip


class SlurmPast(NamedTuple):
    """What the files of a Slurm cluster tell together."""

    attempts: pl.DataFrame
    nodes: list[SeenNode]
    notes: tuple[str, ...]
    refused: dict[str, Refusals]
    """What could not be read, by file."""
    numbers: dict[str, str]
    """Jobs whose own number is not their name: members of arrays, parts of heterogeneous jobs."""


def read(paths: Sequence[Path], zone: str | None) -> SlurmPast:
    """All of these files; each is told by what it holds."""
    gathering = Gathering()
    for path in paths:
        with reading.open_output(path, zone=zone) as opened:
            gathering.add(path.name, opened)
    return gathering.past()


class Gathering:
    """Outputs of Slurm, one after the other, on their way to one past."""

    def __init__(self) -> None:
        self._jobs = list[pl.DataFrame]()
        self._nodes = list[SlurmNode]()
        self._events = list[SlurmNodeEvent]()
        self._notes = list[str]()
        self._refused = dict[str, Refusals]()

    def add(self, name: str, opened: SlurmReading) -> None:
        """Read all of one output; ``name``: where it is from, for messages."""
        for makes, frame in opened.frames():
            if makes is SlurmJob:
                is_live = opened.output in _LIVE
                tells = frame["eligible_ms"].null_count() < len(frame)
                self._jobs.append(
                    frame.select(*_ROW).with_columns(
                        is_live=pl.lit(is_live), tells_eligible=pl.lit(tells)
                    )
                )
            elif makes is SlurmNode:
                self._nodes += cast("Iterator[SlurmNode]", frames.rows_of(makes, frame))
            elif makes is SlurmNodeEvent:
                self._events += cast("Iterator[SlurmNodeEvent]", frames.rows_of(makes, frame))
        if opened.refusals.total:
            self._refused[name] = opened.refusals
        self._notes += [f"{name}: {text}" for text in opened.errors]

    def past(self, unknown_ms: int | None = None) -> SlurmPast:
        """What they tell together.

        ``unknown_ms``: since when a node is out of which nobody says since when; None: it is not.
        """
        flags = {"is_live": pl.Boolean, "tells_eligible": pl.Boolean}
        told = pl.concat(self._jobs) if self._jobs else pl.DataFrame(schema={**_ROW, **flags})
        out, notes = reasons.nodes_out(self._nodes) if self._nodes else None, list(self._notes)
        attempts = _attempts(told, out, notes)
        nodes = _nodes(self._nodes, self._events, unknown_ms)
        return SlurmPast(attempts, nodes, tuple(notes), self._refused, _numbers(told))


def _attempts(told: pl.DataFrame, out: frozenset[str] | None, notes: list[str]) -> pl.DataFrame:
    """Rows of jobs as attempts; ``out``: nodes that take no work, if anybody said."""
    rows = _each_task(told).with_columns(
        job=_name(told),
        word=pl.when(pl.col("state_flags").str.contains("REQUEUED").fill_null(value=False))
        .then(pl.lit("REQUEUED"))
        .otherwise(pl.col("state")),
    )
    has_held = pl.col("gpus_allocated").fill_null(0) > 0
    has_held &= pl.col("start_ms").is_not_null()
    rows = rows.with_columns(
        outcome=pl.col("word").replace_strict(_words(), default=None, return_dtype=pl.String),
        start_ms=pl.when(has_held).then(pl.col("start_ms")),
        gpus=pl.when(has_held).then("gpus_allocated").otherwise("gpus_requested"),
    )
    is_open = pl.col("start_ms").is_null() & pl.col("end_ms").is_null()
    is_held = pl.col("reason").is_in(_HELD).fill_null(value=False)
    is_held |= pl.col("tells_eligible") & ~pl.col("is_live")
    is_eligible = ~is_open | pl.col("eligible_ms").is_not_null() | ~is_held
    rows = _explained(_once(rows.with_columns(is_eligible=is_eligible)), out)
    is_held = pl.col("reason").is_not_null() & ~pl.col("is_eligible")
    held = pl.when(is_held).then(int(Cause.NOT_ELIGIBLE)).otherwise("reason_cause")
    rows = rows.with_columns(reason_cause=held)
    waits = ~pl.col("is_eligible") & (pl.col("gpus") > 0)
    if held := rows.select(waits.sum()).item():
        jobs = "1 job waits" if held == 1 else f"{held:,} jobs wait"
        notes.append(f"{jobs} for something else than GPUs (held, or not eligible yet): no demand")
    tres = pl.coalesce("alloc_tres", "req_tres")
    return rows.select(
        "job",
        "outcome",
        "start_ms",
        "end_ms",
        "gpus",
        "devices",
        "is_eligible",
        "reason",
        "reason_cause",
        "reason_layer",
        cpus=pl.coalesce("cpus", tres.str.extract(r"(?:^|,)cpu=(\d+)").cast(pl.Int64)),
        memory_mib=_mib(tres),
        team=pl.coalesce("account", pl.lit("unknown")),
        user=pl.coalesce("user", pl.col("uid").cast(pl.String)),
        submit_ms=pl.max_horizontal("submit_ms", "eligible_ms"),
        gpu_type=pl.col("gpu_type"),
        nodes=pl.when(pl.col("start_ms").is_not_null()).then("nodes"),
        node_count=pl.coalesce("node_count", "nodes_requested"),
        is_per_node=pl.col("tres_per_node").str.contains("gpu").fill_null(value=False),
        limit_ms=pl.col("time_limit_ms"),
    )


def _name(told: pl.DataFrame) -> pl.Expr:
    """What a job is called: as Slurm prints it, with its cluster where there are several."""
    is_array = pl.col("array_task_id").is_not_null()
    is_part = pl.col("het_offset").is_not_null()
    is_one = told["cluster"].n_unique() <= 1
    prefix = pl.lit("") if is_one else pl.coalesce(pl.col("cluster") + "/", pl.lit(""))
    return prefix + pl.when(is_array).then(
        pl.format("{}_{}", "array_job_id", "array_task_id")
    ).when(is_part).then(pl.format("{}+{}", "het_job_id", "het_offset")).otherwise(
        pl.col("job_id").cast(pl.String)
    )


def _numbers(told: pl.DataFrame) -> dict[str, str]:
    """The names of jobs that have run, by their own number, where that is another."""
    ran = told.filter(pl.col("start_ms").is_not_null() & pl.col("array_tasks").is_null())
    named = ran.select(number=pl.col("job_id").cast(pl.String), name=_name(told))
    return dict(named.filter(pl.col("number") != pl.col("name")).iter_rows())


def _explained(rows: pl.DataFrame, out: frozenset[str] | None) -> pl.DataFrame:
    """Why jobs wait, in Slurm's word and in plain ones, with the layer that owns it."""
    found = list[ReasonMeaning | None]()
    for state, reason, text, required in rows.select(
        "state", "reason", "reason_text", "required_nodes"
    ).iter_rows():
        is_told = state == "PENDING" and bool(reason)
        meant = reasons.meaning(reason, text, required=required, out=out) if is_told else None
        found.append(meant)
    return rows.with_columns(
        reason=pl.Series([one and f"{one.reason}: {one.words}" for one in found], dtype=pl.String),
        reason_cause=pl.Series([one and int(one.cause or 0) for one in found], dtype=pl.Int64),
        reason_layer=pl.Series(
            [one and one.layer and int(one.layer) for one in found], dtype=pl.Int64
        ),
    )


def _mib(tres: pl.Expr) -> pl.Expr:
    """The memory of all nodes that a TRES text tells, in MiB."""
    number = tres.str.extract(r"(?:^|,)mem=([\d.]+)").cast(pl.Float64)
    unit = tres.str.extract(r"(?:^|,)mem=[\d.]+([KMGT])")
    factor = unit.replace_strict(_MIB, default=1.0, return_dtype=pl.Float64)
    return (number * factor).round().cast(pl.Int64)


def _words() -> dict[str, str]:
    return {word: str(outcome) for word, outcome in _OUTCOMES.items()}


def _each_task(told: pl.DataFrame) -> pl.DataFrame:
    """Members of arrays that pend together, one by one; at most so many of each."""
    together = told.filter(pl.col("array_tasks").is_not_null())
    if not len(together):
        return told
    tasks = [_tasks(text) for text in together["array_tasks"].to_list()]
    each = together.with_columns(array_task_id=pl.Series(tasks, dtype=pl.List(pl.Int64)))
    each = each.explode("array_task_id")
    return pl.concat([told.filter(pl.col("array_tasks").is_null()), each])


def _tasks(text: str) -> list[int]:
    """`5-9,12%2`: members 5 to 9 and 12, of which two may run at once. `0-8:4` is 0, 4 and 8."""
    found = list[int]()
    for part in text.strip("[]").partition("%")[0].split(","):
        bounds, _, step = part.partition(":")
        first, _, last = bounds.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and (step or "1").isdecimal():
            members = range(int(first), int(last or first) + 1, max(1, int(step or 1)))
            found += members[: MOST_TASKS - len(found)]
    return found


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """Each attempt once, also where two commands told of it, with its nodes and devices.

    What has ended is believed before what still runs, and what began before what waits: the one is
    younger than the other. Of what waits or runs, `squeue` knows more than the accounting.
    """
    waits = pl.col("start_ms").is_null() & pl.col("end_ms").is_null()
    rows = rows.with_columns(is_open=pl.col("end_ms").is_null())
    rows = rows.sort("is_open", ~pl.col("is_live"), maintain_order=True)
    rows = rows.unique(["job", "start_ms", "submit_ms"], keep="first", maintain_order=True)
    begun = rows.filter(~waits).group_by("job").agg(latest_ms=pl.col("submit_ms").max())
    rows = rows.join(begun, on="job", how="left").filter(
        ~waits | pl.col("latest_ms").is_null() | (pl.col("submit_ms") > pl.col("latest_ms"))
    )
    names = {text: _names(text) for text in rows["node_list"].unique().to_list() if text}
    details = {text: _masks(text) for text in rows["gres_detail"].unique().to_list() if text}
    found = [names.get(text) for text in rows["node_list"].to_list()]
    devices = [
        _in_order(details.get(text), nodes)
        for text, nodes in zip(rows["gres_detail"].to_list(), found, strict=True)
    ]
    return rows.with_columns(
        nodes=pl.Series(found, dtype=pl.List(pl.String)),
        devices=pl.Series(devices, dtype=pl.List(pl.Int64)),
    )


def _names(text: str) -> list[str] | None:
    try:
        return list(hostlists.expand(text))
    except ValueError:
        return None


def _masks(text: str) -> dict[str, int]:
    """`n1=gpu:h100:2(IDX:0-1);n2=…` as masks of devices by node."""
    found = dict[str, int]()
    for part in text.split(";"):
        node, _, held = part.partition("=")
        mask = 0
        for one in amounts.gres(held) or ():
            for index in one.devices or () if one.name == "gpu" else ():
                mask |= 1 << index
        found[node] = mask
    return found


def _in_order(masks: dict[str, int] | None, nodes: list[str] | None) -> list[int] | None:
    """The masks of an attempt's nodes; None where any of them is not known."""
    if not masks or not nodes or not all(masks.get(node) for node in nodes):
        return None
    return [masks[node] for node in nodes]


def _nodes(
    told: Iterable[SlurmNode], events: Sequence[SlurmNodeEvent], unknown_ms: int | None
) -> list[SeenNode]:
    """Nodes with GPUs; when they took no work comes from Slurm's own record, else from now."""
    found = dict[str, SeenNode]()
    past = dict[str, list[tuple[int, int | None, NodeState]]]()
    for event in events:
        state = _out(event.state, event.state_flags)
        if event.node and event.start_ms is not None and state is not None:
            past.setdefault(event.node, []).append((event.start_ms, event.end_ms, state))
    for node in told:
        state = _out(node.state, node.state_flags)
        out = past.get(node.name, [])
        if state is not None and not any(end is None for _, end, _ in out):
            told_ms = (node.reason_ms, node.last_busy_ms, unknown_ms)
            since = next((ms for ms in told_ms if ms is not None), None)
            out = [*out, (since, None, state)] if since is not None else out
        found[node.name] = SeenNode(
            name=node.name, gpus=node.gpus or 0, gpu_type=node.gpu_type or "",
            cpu_milli=1000 * (node.cpus or 0), memory_mib=node.memory_mib or 0,
            out=tuple(sorted(out, key=lambda one: one[0])),
        )  # fmt: skip
    return [node for node in found.values() if node.gpus]


def _out(state: str | None, flags: str | None) -> NodeState | None:
    """How a node takes no new work; None: it does."""
    words = {*(state or "").split("+"), *(flags or "").split("+")}
    if words & states.BROKEN:
        return NodeState.UNHEALTHY
    if words & states.CLOSED:
        return NodeState.DRAINING
    return None
