"""Limits of accounts and of QOS from `sacctmgr --json` (23.02 and newer), as its text says them.

What 24.11 prints where was found by setting each limit to a value of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tidemill.live.slurm import json_values as values
from tidemill.live.slurm.json_values import part
from tidemill.live.slurm.rows import SlurmAssociation, SlurmQos

Record = dict[str, Any]
Paths = Mapping[str, tuple[str, ...]]

PARENT = 0x7FFFFFFF
"""The share of a user who has that of its account (`Fairshare=parent`)."""


def _paths(**places: str) -> Paths:
    return {name: tuple(place.split("/")) for name, place in places.items()}


ACCOUNT_TRES = _paths(
    grp_tres="max/tres/total",
    grp_tres_mins="max/tres/group/minutes",
    grp_tres_run_mins="max/tres/group/active",
    max_tres_per_job="max/tres/per/job",
    max_tres_per_node="max/tres/per/node",
)
ACCOUNT_COUNTS = _paths(
    grp_jobs="max/jobs/per/count",
    grp_submit_jobs="max/jobs/per/submitted",
    max_jobs="max/jobs/active",
    max_submit_jobs="max/jobs/total",
)
ACCOUNT_TIMES = _paths(
    grp_wall_ms="max/per/account/wall_clock", max_wall_ms="max/jobs/per/wall_clock"
)
QOS_TRES = _paths(
    grp_tres="max/tres/total",
    grp_tres_mins="max/tres/minutes/total",
    grp_tres_run_mins="max/tres/minutes/per/qos",
    max_tres_per_job="max/tres/per/job",
    max_tres_per_node="max/tres/per/node",
    max_tres_per_user="max/tres/per/user",
    max_tres_per_account="max/tres/per/account",
    max_tres_run_mins_per_user="max/tres/minutes/per/user",
    max_tres_run_mins_per_account="max/tres/minutes/per/account",
    min_tres="min/tres/per/job",
)
QOS_COUNTS = _paths(
    grp_jobs="max/active_jobs/count",
    grp_submit_jobs="max/jobs/count",
    max_jobs_per_user="max/jobs/active_jobs/per/user",
    max_submit_per_user="max/jobs/per/user",
    max_jobs_per_account="max/jobs/active_jobs/per/account",
    max_submit_per_account="max/jobs/per/account",
)
QOS_TIMES = _paths(grp_wall_ms="max/wall_clock/per/qos", max_wall_ms="max/wall_clock/per/job")


def association(record: Record) -> Iterator[Struct]:
    """An account, or a user in it."""
    shares = values.number(record.get("shares_raw"))
    yield SlurmAssociation(
        account=values.text(record.get("account")),
        cluster=values.text(record.get("cluster")),
        user=values.text(record.get("user")),
        partition=values.text(record.get("partition")),
        parent=values.text(record.get("parent_account")),
        shares="parent" if shares == PARENT else None if shares is None else str(shares),
        qos=",".join(sorted(values.words(record.get("qos")))) or None,
        **_limits(record, ACCOUNT_TRES, ACCOUNT_COUNTS, ACCOUNT_TIMES),
    )


def qos(record: Record) -> Iterator[Struct]:
    """A QOS."""
    limits = part(record, "limits")
    yield SlurmQos(
        name=values.named(record.get("name")),
        priority=values.number(record.get("priority")),
        preempt=values.joined(part(record, "preempt", "list")),
        **_limits(limits, QOS_TRES, QOS_COUNTS, QOS_TIMES),
    )


def _limits(record: Any, tres: Paths, counts: Paths, times: Paths) -> dict[str, Any]:  # noqa: ANN401 - decoded JSON
    return {
        **{name: values.tres(part(record, *path)) for name, path in tres.items()},
        **{name: values.number(part(record, *path)) for name, path in counts.items()},
        **{name: values.limit_ms(part(record, *path)) for name, path in times.items()},
    }
