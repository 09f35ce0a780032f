"""What is known beside a reason of Slurm: the limit that it names, of whom, and how to look at it.

A reason is one word for a kind of limit. What the cluster itself says of it (`sacctmgr show qos`
and `show assoc`, `scontrol show partition` and `show reservation`) is the evidence: amounts that
stay the same while a job waits, so that a journal hears of them once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from tidemill.live.history.writing import LONGEST_REASON
from tidemill.live.slurm import amounts, hostlists
from tidemill.live.slurm.limits import LimitNamed
from tidemill.live.slurm.reasons import SHOW_JOB, ReasonMeaning
from tidemill.live.slurm.rows import (
    SlurmAssociation,
    SlurmPartition,
    SlurmQos,
    SlurmReservation,
)
from tidemill.model.reasons import JOB_NUMBER, TO_SEE_IT, Cause, Layer

NO_LIMIT_MS = 1 << 50
MOST_SAID = 3
"""Limits that are told of one job; more would not be read."""
_MINUTE_MS = 60_000
_GRES, _GPU = "gres/", "gres/gpu"


class WaitingJob(NamedTuple):
    """Whose a waiting job is, and by which rules it waits; None: not told."""

    user: str | None = None
    account: str | None = None
    qos: str | None = None
    partition: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    gpus_requested: int | None = None
    time_limit_ms: int | None = None


class LimitRules(NamedTuple):
    """What a cluster says of its limits."""

    associations: Sequence[SlurmAssociation] = ()
    qos: Sequence[SlurmQos] = ()
    partitions: Sequence[SlurmPartition] = ()
    reservations: Sequence[SlurmReservation] = ()


def by_rules(
    found: ReasonMeaning, job: WaitingJob, rules: LimitRules, now_ms: int
) -> ReasonMeaning:
    """The reason, as far as rules say more than Slurm's word.

    A limit that a job exceeds by itself is no matter of waiting. A node that is "not available",
    though it is up, may be kept for a reservation that begins before the job would end.
    """
    if found.cause is Cause.OVER_LIMIT and found.limit and _is_too_large(found.limit, job, rules):
        return replace(
            found, layer=Layer.WORKLOAD, cause=Cause.OVER_LIMIT_ALWAYS,
            words=f"requests more GPUs than {_WHOSE[found.limit.is_of_qos]} ever allows",
        )  # fmt: skip
    if found.cause in (Cause.BUSY, Cause.RESERVED) and (found.nodes or found.usable):
        return _kept(found, job, rules.reservations, now_ms)
    return found


_WHOSE = {True: "its QOS", False: "its account or user"}


def _is_too_large(limit: LimitNamed, job: WaitingJob, rules: LimitRules) -> bool:
    """Whether the GPUs of the job alone are more than a limit over GPUs at one time."""
    if limit.tres != _GRES or limit.column.endswith("Mins") or not job.gpus_requested:
        return False
    rows = _limiting(limit, job, rules) if limit.is_of_qos else _path(job, rules.associations)
    told = [dict(amounts.tres(_amount(limit, row)) or ()) for row in rows]
    return any(row.get(_GPU, job.gpus_requested) < job.gpus_requested for row in told)


def usable(job: WaitingJob, partitions: Sequence[SlurmPartition]) -> str | None:
    """The nodes of a job's partitions, folded; None: not told."""
    names = (job.partition or "").split(",")
    return ",".join(row.nodes for row in partitions if row.nodes and row.name in names) or None


def _kept(
    found: ReasonMeaning, job: WaitingJob, rows: Sequence[SlurmReservation], now_ms: int
) -> ReasonMeaning:
    """Nodes that are up: kept for a reservation, or for other jobs.

    Of nodes that it names one is enough; of its partition's, others may be free.
    """
    named, whole = ({*hostlists.expand(text or "")} for text in (found.nodes, found.usable))
    until_ms = now_ms + (job.time_limit_ms or NO_LIMIT_MS)
    for row in rows:
        is_ahead = (row.end_ms or NO_LIMIT_MS) > now_ms and (row.start_ms or 0) < until_ms
        nodes = {*hostlists.expand(row.node_list or "")} if row.node_list else set[str]()
        is_mine = bool(named & nodes if named else whole and whole <= nodes)
        if is_ahead and row.name != job.reservation and is_mine:
            is_closed = "MAINT" in (row.flags or "")
            of = "a node that it requests by name" if named else "all nodes of its partition"
            return replace(
                found, layer=Layer.PROVISIONING if is_closed else Layer.RESERVATION, cause=None,
                words=f"its time limit reaches into a reservation of {of}"
                f" (`{row.name}`, flags {row.flags or 'none'})",
                look=f"scontrol show reservation {row.name}",
            )  # fmt: skip
    return found


def words(found: ReasonMeaning, job: WaitingJob, rules: LimitRules) -> str:
    """A reason in Slurm's word and in plain ones, what is known beside it, and how to see it."""
    said, shown = f"{found.reason}: {found.words}", TO_SEE_IT + command(found, job, rules)
    for fact in _facts(found, job, rules):
        if len(said) + len(fact) + len(shown) + 2 <= LONGEST_REASON:
            said += f"; {fact}"
    return said + shown


def command(found: ReasonMeaning, job: WaitingJob, rules: LimitRules) -> str:
    """A command that shows it and changes nothing, by the names of this job."""
    names = {name: f"{value}" for name, value in job._asdict().items() if value}
    if found.limit and (limiting := _limiting(found.limit, job, rules)):
        names["qos"] = limiting[0].name
    if nodes := found.nodes or found.usable:
        names["nodes"] = nodes
    try:
        return found.look.format_map({**names, "job": JOB_NUMBER})
    except KeyError:  # that name was not told
        return SHOW_JOB.format(job=JOB_NUMBER)


def _facts(found: ReasonMeaning, job: WaitingJob, rules: LimitRules) -> Iterable[str]:
    """What the cluster says of the rule that keeps the job out."""
    word = found.reason.partition(",")[0]
    if found.limit is not None:
        return list(_limits(found.limit, job, rules))[:MOST_SAID]
    if word.startswith("Partition"):
        return _of_partition(word, _by_name(rules.partitions, job.partition))
    if word.startswith("Reservation"):
        return _of_reservation(_by_name(rules.reservations, job.reservation))
    if word in ("Dependency", "DependencyNeverSatisfied") and job.dependency:
        return [f"Dependency={job.dependency}"]
    if word in ("Priority", "Resources"):
        return _of_priority(word, job.qos, rules.qos)
    return ()


def _limits(limit: LimitNamed, job: WaitingJob, rules: LimitRules) -> Iterator[str]:
    """Each row that has such a limit and holds for the job."""
    for qos in _limiting(limit, job, rules):
        of = "" if qos.name == job.qos else f" (of partition `{job.partition}`)"
        yield f"QOS `{qos.name}`{of} has {limit.column}={_amount(limit, qos)}"
    for row in () if limit.is_of_qos else _path(job, rules.associations):
        if amount := _amount(limit, row):
            who = f"user `{row.user}` in " if row.user else ""
            yield f"{who}account `{row.account}` has {limit.column}={amount}"
            if limit.column.startswith("Max"):  # such a limit is inherited, and the nearest counts
                return


def _limiting(limit: LimitNamed, job: WaitingJob, rules: LimitRules) -> list[SlurmQos]:
    """The QOS with such a limit that hold for a job: its partition's, and its own."""
    if not limit.is_of_qos:
        return []
    partition = _by_name(rules.partitions, job.partition)
    names = dict.fromkeys((job.qos, partition.qos if partition else None))
    found = [row for name in names if (row := _by_name(rules.qos, name))]
    return [row for row in found if _amount(limit, row)]


def _path(job: WaitingJob, told: Sequence[SlurmAssociation]) -> Iterator[SlurmAssociation]:
    """The associations that hold for a job: its user's, its account's and those above it."""
    own = {row.account: row for row in told if not (row.user or row.partition)}
    yield from (
        row for row in told
        if row.user and (row.user, row.account) == (job.user, job.account)
        and row.partition in (None, job.partition)
    )  # fmt: skip
    name, seen = job.account, set[str]()
    while name and name in own and name not in seen:
        seen.add(name)
        yield own[name]
        name = own[name].parent


def _amount(limit: LimitNamed, row: SlurmAssociation | SlurmQos) -> str:
    """How much it is, as Slurm prints it; empty where none is set, or none about these TRES."""
    value: Any = getattr(row, limit.field, None) if limit.field else None
    if value is None:
        return ""
    if limit.field.endswith("_ms"):
        return f"{value // _MINUTE_MS:,} min"
    if limit.tres is None:
        return f"{value}"
    return ",".join(part for part in value.split(",") if part.startswith(limit.tres))


def _of_partition(word: str, row: SlurmPartition | None) -> Iterator[str]:
    if row is None:
        return
    if word == "PartitionTimeLimit" and row.max_time_ms is not None:
        yield f"partition `{row.name}` has MaxTime={row.max_time_ms // _MINUTE_MS:,} min"
    elif word == "PartitionNodeLimit":
        most = "" if row.max_nodes is None else f"MaxNodes={row.max_nodes} and "
        yield f"partition `{row.name}` has {most}TotalNodes={row.node_count}"
    elif word in ("PartitionDown", "PartitionInactive"):
        yield f"partition `{row.name}` has State={row.state}"


def _of_reservation(row: SlurmReservation | None) -> Iterator[str]:
    if row is not None:
        state = f" is {row.state}" if row.state else ""  # JSON has none
        yield f"reservation `{row.name}` of {row.node_list or 'no node'}{state}"


def _of_priority(word: str, qos: str | None, rules: Sequence[SlurmQos]) -> Iterator[str]:
    """The priority of its QOS where others have a higher one, and whom it may preempt."""
    own = _by_name(rules, qos)
    if own is None:
        return
    higher = sorted(row.name for row in rules if (row.priority or 0) > (own.priority or 0))
    if word == "Priority" and higher:
        names = ", ".join(f"`{name}`" for name in higher[:MOST_SAID])
        yield f"QOS {names} goes before its QOS `{own.name}` (Priority={own.priority or 0})"
    if own.preempt:
        yield f"QOS `{own.name}` may preempt jobs of QOS {own.preempt}"
    else:
        above = sorted(row.name for row in rules if own.name in (row.preempt or "").split(","))
        if above:
            yield f"jobs of QOS {', '.join(above[:MOST_SAID])} may preempt those of `{own.name}`"


_Named = TypeVar("_Named", SlurmQos, SlurmPartition, SlurmReservation)


def _by_name(rows: Sequence[_Named], name: str | None) -> _Named | None:
    return next((row for row in rows if row.name == name), None)
