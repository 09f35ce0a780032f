"""Attempts that hold unlike numbers, or types, of GPUs on their nodes: booked GPU by GPU.

`--gpus=9 -N3` takes what is free: one GPU of a node, six of another. `squeue` says of each node
which it gave, and of which type, as long as a job is shown there; `sacct` says how many of each
type, and of nodes of one type no more. Such a job is a gang of replicas of one GPU, each on its
node; all of its attempts are divided alike, for it is one job.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.clusters import kept_to
from tidemill.live.history.rows import ATTEMPTS, SeenNode, is_instance
from tidemill.live.slurm import amounts
from tidemill.model.rows import Role, Shape

_Row = dict[str, Any]
TOLD = ("node_gres", "type_gpus")
"""Columns that say what an attempt holds: by node, and by type of all nodes together."""


class _Seat(NamedTuple):
    """GPUs of one type on a node on the books."""

    node: str
    gpus: int
    devices: tuple[int, ...] | None = None


class SpreadAttempts(NamedTuple):
    """Attempts of which those that are spread so have a shape."""

    attempts: pl.DataFrame
    shapes: list[Shape]


def as_gangs(
    rows: pl.DataFrame,
    nodes: Sequence[SeenNode],
    parts: Mapping[str, Mapping[str, str]],
    known: Sequence[Shape],
) -> SpreadAttempts:
    """``parts``: of nodes with several types, the node that each type is booked as.

    ``known``: what others request, before whom they are not numbered.
    """
    is_told = pl.any_horizontal(pl.col(name).is_not_null() for name in TOLD)
    is_told &= pl.col("het_offset").is_null() & pl.col("start_ms").is_not_null()
    some = rows.with_row_index("row").filter(is_told)
    booked = {node.name: {node.gpu_type.lower(): node.name} for node in nodes}
    booked |= {name: {kind.lower(): one for kind, one in mine.items()}
               for name, mine in parts.items()}  # fmt: skip
    seats = {row["row"]: found for row in some.iter_rows(named=True)
             if (found := _seats(row, booked))}  # fmt: skip
    if not seats:
        return SpreadAttempts(rows.drop(TOLD), [*known])
    jobs = some.filter(pl.col("row").is_in([*seats]))["job"].unique().to_list()
    numbered = rows.drop(TOLD).with_row_index("row")
    is_mine = pl.col("job").is_in(jobs)
    shapes, made = [*known], list[_Row]()
    for row in numbered.filter(is_mine).iter_rows(named=True):
        mine = seats.get(row["row"]) or [*_evenly(row)]
        made.append(row | _by_gpu(mine) | {"shape": len(shapes)})
        shapes.append(Shape(row["team"], (_role(row),)))
    schema = numbered.schema | {name: ATTEMPTS[name] for name in ("shape", "roles")}
    both = [numbered.filter(~is_mine), pl.DataFrame(made, schema=schema)]
    return SpreadAttempts(pl.concat(both, how="diagonal").sort("row").drop("row"), shapes)


def _seats(row: _Row, booked: Mapping[str, Mapping[str, str]]) -> list[_Seat] | None:
    """What an attempt holds, where that is not as many GPUs of one type on each node."""
    nodes: list[str] = row["nodes"] or []
    found, types = list[_Seat](), set[str]()
    if row["node_gres"]:
        for node, text in zip(nodes, row["node_gres"], strict=True):
            for one in amounts.gres(text) or ():
                if one.name == "gpu" and one.number:
                    name = booked.get(node, {}).get((one.type or "").lower(), node)
                    types.add(one.type or "")
                    found.append(_Seat(name, one.number, one.devices))
    else:
        for kind, count in _counts(row["type_gpus"]):
            mine = [booked[node][kind] for node in nodes if kind in booked.get(node, {})]
            types.add(kind)
            found += [seat for seat in _divided(mine, count) if seat.gpus]
    if sum(seat.gpus for seat in found) != row["gpus"] or any(map(is_instance, types)):
        return None
    is_even = len(found) == len(nodes) and len({seat.gpus for seat in found}) == 1
    is_plain = len(types) == 1 or sorted(seat.node for seat in found) == sorted(nodes)
    return None if is_even and is_plain else found


def _counts(text: str) -> Iterator[tuple[str, int]]:
    """`gres/gpu:a100=8,gres/gpu:h100=1`, by type."""
    for name, count in amounts.tres(text) or ():
        yield name.rpartition(":")[2].lower(), count


def _divided(nodes: Sequence[str], gpus: int) -> Iterator[_Seat]:
    """So many GPUs over nodes, as evenly as that comes out."""
    for i, node in enumerate(nodes):
        yield _Seat(node, gpus // len(nodes) + (i < gpus % len(nodes)))


def _evenly(row: _Row) -> Iterator[_Seat]:
    """Another attempt of such a job, of which nobody says more."""
    return _divided(row["nodes"] or (), row["gpus"])


def _by_gpu(seats: Sequence[_Seat]) -> _Row:
    """Where each GPU is."""
    nodes = [seat.node for seat in seats for _ in range(seat.gpus)]
    told = [seat.devices for seat in seats]
    masks = [1 << d for devices in told for d in devices or ()]
    return {
        "nodes": nodes or None, "roles": [0] * len(nodes) or None,
        "devices": masks if nodes and len(masks) == len(nodes) else None,
    }  # fmt: skip


def _role(row: _Row) -> Role:
    """One GPU of such a job, and what it has beside it."""
    gpus = max(1, row["gpus"])
    role = Role(
        count=gpus, cpu_milli=1000 * (row["cpus"] or 0) // gpus,
        memory_mib=(row["memory_mib"] or 0) // gpus,
        kinds=tuple(kind_of(one) for one in (row["gpu_type"] or "").split(",") if one),
    )  # fmt: skip
    return kept_to(role, row["cluster"], row["node_rules"])
