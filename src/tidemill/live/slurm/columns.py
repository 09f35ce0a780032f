"""Which column of which command is which field: one table per command, by the printed header.

Names are compared in lower case without spaces. A column that no table has is not read, and the
reading says which these were. Where a command prints one thing in several columns (`Timelimit` and
`TimelimitRaw`), the first in the table that is there wins.
"""

from collections.abc import Callable
from datetime import tzinfo
from enum import StrEnum

from msgspec import Struct

from tidemill.live.slurm import fields, rows
from tidemill.live.slurm.fields import FieldRule

Columns = dict[str, FieldRule]


class Output(StrEnum):
    """What a file holds: which command printed it, and how."""

    SACCT_TEXT = "sacct -P"
    SQUEUE_TEXT = "squeue -o"
    SINFO_TEXT = "sinfo -o"
    ASSOCIATIONS_TEXT = "sacctmgr -P show assoc"
    QOS_TEXT = "sacctmgr -P show qos"
    EVENTS_TEXT = "sacctmgr -P show event"
    RESERVATIONS_TEXT = "sacctmgr -P show reservation"
    SACCT_JSON = "sacct --json"
    QUEUE_JSON = "squeue --json"
    NODES_JSON = "scontrol show node --json"
    SINFO_JSON = "sinfo --json"
    PARTITIONS_JSON = "scontrol show partition --json"
    RESERVATIONS_JSON = "scontrol show reservation --json"
    ASSOCIATIONS_JSON = "sacctmgr --json show assoc"
    QOS_JSON = "sacctmgr --json show qos"
    JOBS_BLOCKS = "scontrol show job"
    NODES_BLOCKS = "scontrol show node"
    PARTITIONS_BLOCKS = "scontrol show partition"
    RESERVATIONS_BLOCKS = "scontrol show reservation"


def sacct(zone: tzinfo | None) -> Columns:
    """Columns of `sacct -P -o …`."""
    return {
        "jobid": fields.JOB_ID,
        "jobidraw": fields.RAW_ID,
        "cluster": fields.text("cluster"),
        "jobname": fields.text("name"),
        "user": fields.text("user"),
        "uid": fields.number("uid"),
        "account": fields.text("account"),
        "partition": fields.text("partition"),
        "qos": fields.text("qos"),
        "reservation": fields.text("reservation"),
        "state": fields.JOB_STATE,
        "reason": fields.text("reason"),
        "submit": fields.moment("submit_ms", zone),
        "eligible": fields.moment("eligible_ms", zone),
        "start": fields.moment("start_ms", zone),
        "end": fields.moment("end_ms", zone),
        "timelimitraw": fields.limit_minutes("time_limit_ms"),
        "timelimit": fields.limit("time_limit_ms"),
        "suspended": fields.limit("suspended_ms"),
        "nodelist": fields.node_list("node_list"),
        "nnodes": fields.number("node_count"),
        "allocnodes": fields.number("nodes_allocated"),
        "reqnodes": fields.number("nodes_requested"),
        "constraints": fields.text("features"),
        "alloccpus": fields.positive("cpus"),
        "ncpus": fields.positive("cpus"),
        "reqcpus": fields.positive("requested_cpus"),
        "reqtres": fields.REQ_TRES,
        "alloctres": fields.ALLOC_TRES,
    }


def squeue(zone: tzinfo | None) -> Columns:
    """Columns of `squeue -o "%i|…"` and of `squeue -O`; `#2` is the second of one name."""
    return {
        "jobid": fields.JOB_ID,
        "jobid#2": fields.RAW_ID,
        "array_job_id": fields.number("printed_array_job"),
        "cluster": fields.text("cluster"),
        "name": fields.text("name"),
        "user": fields.text("user"),
        "uid": fields.number("uid"),
        "account": fields.text("account"),
        "partition": fields.text("partition"),
        "qos": fields.text("qos"),
        "reservation": fields.text("reservation"),
        "state": fields.JOB_STATE,
        "st": fields.JOB_STATE,
        "nodelist(reason)": fields.NODES_OR_REASON,
        "nodelist": fields.node_list("node_list"),
        "req_nodes": fields.node_list("required_nodes"),
        "exc_nodes": fields.node_list("excluded_nodes"),
        "features": fields.text("features"),
        "reason": fields.text("reason"),
        "dependency": fields.text("dependency"),
        "submit_time": fields.moment("submit_ms", zone),
        "eligible_time": fields.moment("eligible_ms", zone),
        "start_time": fields.moment("start_ms", zone),
        "end_time": fields.moment("end_ms", zone),
        "time_limit": fields.limit("time_limit_ms"),
        "nodes": fields.number("node_count"),
        "cpus": fields.number("cpus"),
        "tres_per_node": fields.TRES_PER_NODE,
        "tres_alloc": fields.ALLOC_TRES,
    }


def sinfo(zone: tzinfo | None) -> Columns:
    """Columns of `sinfo -N -o "%N|…"`."""
    return {
        "nodelist": fields.node_list("name"),
        "state": fields.NODE_STATE,
        "gres": fields.NODE_GRES,
        "cpus": fields.number("cpus"),
        "memory": fields.number("memory_mib"),
        "reason": fields.text("reason", "none", "None"),
        "timestamp": fields.moment("reason_ms", zone),
        "partition": fields.text("partitions"),
        "active_features": fields.text("features"),
        "avail_features": fields.text("features"),
    }


def associations(zone: tzinfo | None) -> Columns:
    """Columns of `sacctmgr -P show assoc`."""
    del zone
    return {
        "cluster": fields.text("cluster"),
        "account": fields.text("account"),
        "user": fields.text("user"),
        "partition": fields.text("partition"),
        "parentname": fields.text("parent"),
        "share": fields.text("shares"),
        "fairshare": fields.text("shares"),
        "qos": fields.text("qos"),
        **_group_limits(),
        "maxtres": fields.text("max_tres_per_job"),
        "maxtrespernode": fields.text("max_tres_per_node"),
        "maxjobs": fields.number("max_jobs"),
        "maxsubmit": fields.number("max_submit_jobs"),
        "maxsubmitjobs": fields.number("max_submit_jobs"),
        "maxwall": fields.limit("max_wall_ms"),
    }


def qos(zone: tzinfo | None) -> Columns:
    """Columns of `sacctmgr -P show qos`."""
    del zone
    return {
        "name": fields.text("name"),
        "priority": fields.number("priority"),
        "preempt": fields.text("preempt"),
        **_group_limits(),
        "maxtres": fields.text("max_tres_per_job"),
        "maxtrespernode": fields.text("max_tres_per_node"),
        "maxtrespu": fields.text("max_tres_per_user"),
        "maxtresperuser": fields.text("max_tres_per_user"),
        "maxtrespa": fields.text("max_tres_per_account"),
        "maxtresperaccount": fields.text("max_tres_per_account"),
        "maxtresrunminspu": fields.text("max_tres_run_mins_per_user"),
        "maxtresrunminspa": fields.text("max_tres_run_mins_per_account"),
        "maxjobspu": fields.number("max_jobs_per_user"),
        "maxjobsperuser": fields.number("max_jobs_per_user"),
        "maxsubmitpu": fields.number("max_submit_per_user"),
        "maxsubmitjobsperuser": fields.number("max_submit_per_user"),
        "maxjobspa": fields.number("max_jobs_per_account"),
        "maxjobsperaccount": fields.number("max_jobs_per_account"),
        "maxsubmitpa": fields.number("max_submit_per_account"),
        "maxsubmitjobsperaccount": fields.number("max_submit_per_account"),
        "maxwall": fields.limit("max_wall_ms"),
        "mintres": fields.text("min_tres"),
    }


def _group_limits() -> Columns:
    return {
        "grptres": fields.text("grp_tres"),
        "grptresmins": fields.text("grp_tres_mins"),
        "grptresrunmins": fields.text("grp_tres_run_mins"),
        "grpjobs": fields.number("grp_jobs"),
        "grpsubmit": fields.number("grp_submit_jobs"),
        "grpsubmitjobs": fields.number("grp_submit_jobs"),
        "grpwall": fields.limit("grp_wall_ms"),
    }


def events(zone: tzinfo | None) -> Columns:
    """Columns of `sacctmgr -P show event`."""
    return {
        "nodename": fields.text("node"),
        "timestart": fields.moment("start_ms", zone),
        "timeend": fields.moment("end_ms", zone),
        "state": fields.NODE_STATE,
    }


def reservations(zone: tzinfo | None) -> Columns:
    """Columns of `sacctmgr -P show reservation format=Name,NodeNames,Flags,Start,End`."""
    return {
        "name": fields.text("name"),
        "nodename": fields.node_list("node_list"),
        "nodenames": fields.node_list("node_list"),
        "flags": fields.text("flags"),
        "timestart": fields.moment("start_ms", zone),
        "timeend": fields.moment("end_ms", zone),
    }


class TextTable(Struct, frozen=True):
    """One command's text: its columns, the rows they make, and the headers it is known by."""

    output: Output
    columns: Callable[[tzinfo | None], Columns]
    makes: type[Struct]
    known_by: tuple[frozenset[str], ...]
    """A header that holds all of one of these, letter by letter: squeue prints capitals."""


def _table(
    output: Output,
    columns: Callable[[tzinfo | None], Columns],
    makes: type[Struct],
    *known_by: str,
) -> TextTable:
    return TextTable(output, columns, makes, tuple(frozenset(names.split()) for names in known_by))


# In this order a header is compared: those with more columns of their own come first.
TEXT_TABLES = (
    _table(
        Output.RESERVATIONS_TEXT, reservations, rows.SlurmReservation,
        "Name NodeName Flags TimeStart", "Name NodeNames Flags TimeStart",
    ),
    _table(Output.EVENTS_TEXT, events, rows.SlurmNodeEvent, "NodeName TimeStart"),
    _table(Output.SACCT_TEXT, sacct, rows.SlurmJob, "JobID", "JobIDRaw"),
    _table(Output.SQUEUE_TEXT, squeue, rows.SlurmJob, "JOBID"),
    _table(Output.SINFO_TEXT, sinfo, rows.SlurmNode, "NODELIST STATE", "NODELIST GRES"),
    _table(Output.QOS_TEXT, qos, rows.SlurmQos, "Name Preempt", "Name GrpTRES", "Name MaxTRESPU"),
    _table(
        Output.ASSOCIATIONS_TEXT, associations, rows.SlurmAssociation,
        "Account Share", "Account GrpTRES", "Account QOS", "Account MaxTRES",
    ),
)  # fmt: skip


def table_of(names: tuple[str, ...]) -> TextTable | None:
    """The command whose text has this header, if any."""
    printed = frozenset(names)
    return next((t for t in TEXT_TABLES if any(known <= printed for known in t.known_by)), None)
