"""Heterogeneous jobs: parts that Slurm starts together are the roles of one gang.

`sacct` and `squeue` tell a row for each part (`123+0`, `123+1`), and only together they are a job:
one that waits until all of it fits. Parts without GPUs are left out, as jobs without are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.clusters import kept_to
from tidemill.live.history.rows import ATTEMPTS, AttemptEnd
from tidemill.model.rows import MAX_DEVICES, Role, Shape

PART = ("het_job_id", "het_offset")
"""Columns that say of which job a row is a part."""
PART_NUMBER = r"\+\d+$"
"""Which part of one it is, at the end of its name."""
_Row = dict[str, Any]


class Gangs(NamedTuple):
    """Attempts in which every job is one."""

    attempts: pl.DataFrame
    shapes: list[Shape]
    """What those request that have several parts, by number."""


def as_gangs(rows: pl.DataFrame, known: Sequence[Shape] = ()) -> Gangs:
    """Rows as attempts, with the parts of each heterogeneous job together.

    ``known``: what others request, before whom they are not numbered.
    """
    is_part = pl.col("het_offset").is_not_null()
    parts = rows.filter(is_part)
    rest = rows.filter(~is_part).drop(PART)
    if not len(parts):
        return Gangs(rest, [*known])
    made, shapes = list[_Row](), [*known]
    for some in _by_attempt(parts):
        shape = _shape(some)
        made.append(_gang(some, shape) | {"shape": len(shapes)})
        shapes.append(shape)
    schema = {name: ATTEMPTS[name] for name in ATTEMPTS if made and name in made[0]}
    return Gangs(pl.concat([rest, pl.DataFrame(made, schema=schema)], how="diagonal"), shapes)


def _by_attempt(parts: pl.DataFrame) -> list[list[_Row]]:
    """The parts of each attempt of each job that have GPUs, in order of their number."""
    ordered = parts.sort("submit_ms", "start_ms", nulls_last=True, maintain_order=True)
    numbered = ordered.with_columns(attempt=pl.int_range(pl.len()).over("job"))
    found: dict[tuple[str, int], list[_Row]] = {}
    for row in numbered.sort("attempt", "het_offset").iter_rows(named=True):
        if row["gpus"]:
            key = (row["job"].rpartition("+")[0], row["attempt"])
            found.setdefault(key, []).append(row | {"job": key[0]})
    return list(found.values())


def _shape(parts: Sequence[_Row]) -> Shape:
    return Shape(parts[0]["team"], tuple(_role(part) for part in parts))


def _role(part: _Row) -> Role:
    """One replica for each node, where that comes out; else each GPU by itself."""
    nodes = max(len(part["nodes"] or ()), part["node_count"] or 0, 1)
    each = part["gpus"] // nodes if part["gpus"] % nodes == 0 else 1
    each = each if each <= MAX_DEVICES else 1
    count = part["gpus"] // each
    role = Role(
        f"part {part['het_offset']}", count, each,
        cpu_milli=1000 * (part["cpus"] or 0) // count,
        memory_mib=(part["memory_mib"] or 0) // count,
        kinds=(kind_of(part["gpu_type"]),) if part["gpu_type"] else (),
    )  # fmt: skip
    return kept_to(role, part["cluster"], part["node_rules"])


def _gang(parts: Sequence[_Row], shape: Shape) -> _Row:
    """All parts as one attempt: it begins when all of them have, and ends when all have."""
    leader = parts[0]
    has_begun = all(part["start_ms"] is not None for part in parts)
    ends = [part["end_ms"] for part in parts]
    end_ms = None if None in ends else max(ends)
    seats = [
        seat
        for r, (part, role) in enumerate(zip(parts, shape.roles, strict=True))
        for seat in _seats(part, role.count, r)
        if has_begun
    ]
    masks = [mask for _, _, mask in seats]
    is_mixed = bool(seats) and len({part["gpu_type"] for part in parts}) > 1  # roles say which
    return {
        "job": leader["job"], "cluster": leader["cluster"],
        "team": leader["team"], "user": leader["user"],
        "submit_ms": min(part["submit_ms"] for part in parts),
        "start_ms": max(part["start_ms"] for part in parts) if has_begun else None,
        "end_ms": end_ms, "outcome": _outcome(parts, has_begun=has_begun, end_ms=end_ms),
        "gpus": sum(part["gpus"] for part in parts),
        "gpu_type": None if is_mixed else leader["gpu_type"],
        "nodes": [node for node, _, _ in seats] or None,
        "roles": [role for _, role, _ in seats] or None,
        "devices": masks if masks and None not in masks else None,
        "cpus": sum(part["cpus"] or 0 for part in parts),
        "memory_mib": sum(part["memory_mib"] or 0 for part in parts),
        "limit_ms": max((part["limit_ms"] or 0 for part in parts), default=0),
        "is_eligible": all(part["is_eligible"] for part in parts),
        "cpu_used_ms": _sum(parts, "cpu_used_ms"), "cpu_had_ms": _sum(parts, "cpu_had_ms"),
        **_reason(parts),
    }  # fmt: skip


def _sum(parts: Sequence[_Row], name: str) -> int | None:
    """Of all parts together; None where one does not say it."""
    told = [part[name] for part in parts]
    return None if None in told else sum(told)


def _seats(part: _Row, count: int, r: int) -> list[tuple[str, int, int | None]]:
    """Node, role and devices of each replica of a part."""
    nodes, masks = part["nodes"] or (), part["devices"]
    if not nodes:
        return []
    names = [nodes[i * len(nodes) // count] for i in range(count)]
    if masks is None or len(nodes) != count:
        return [(name, r, None) for name in names]
    return [(name, r, mask) for name, mask in zip(names, masks, strict=True)]


def _outcome(parts: Sequence[_Row], *, has_begun: bool, end_ms: int | None) -> str:
    """How it ended: as the first part that was not just done."""
    if end_ms is None:
        return str(AttemptEnd.RUNNING if has_begun else AttemptEnd.WAITING)
    ends = [part["outcome"] for part in parts if part["outcome"] != AttemptEnd.DONE]
    return str(ends[0] if ends else AttemptEnd.DONE)


def _reason(parts: Sequence[_Row]) -> _Row:
    """Why it waits, by the first of its parts of which that is said."""
    names = ("reason", "reason_cause", "reason_layer")
    told = next((part for part in parts if part["reason"]), parts[0])
    return {name: told[name] for name in names}
