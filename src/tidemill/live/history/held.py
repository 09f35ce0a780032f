"""How many GPUs of each node attempts held at one time, by what a source shows.

What is looked at takes 24 bytes for each attempt and node, whatever else a history says, and some
nodes are put in order at a time.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidemill.live.history.gathered import Tables, columns_of
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Shape
from tidemill.model.tables import I64

I32 = NDArray[np.int32]
_AT_ONCE = 500_000
"""Rows that are put in order at one time, if nodes are about as busy as each other."""
_SHOWN = ("nodes", "start_ms", "end_ms", "gpus", "gpu_type", "shape", "roles")
_NODE_BITS, _TIME_BITS = 19, 43  # of a key; the last bit says whether something begins


class HeldSeats(NamedTuple):
    """Who held how many GPUs of a node from when to when; nodes by number."""

    node: I32
    start_ms: I64
    end_ms: I64
    gpus: I32

    @classmethod
    def of(cls, rows: pl.DataFrame, node: pl.Series, gpus: str) -> Self:
        """Rows with ``start_ms`` and ``end_ms``; null: it goes on."""
        end_ms = rows["end_ms"].fill_null(FOREVER_MS).to_numpy()
        return cls(
            node.to_numpy().astype(np.int32), rows["start_ms"].to_numpy(), end_ms,
            rows[gpus].to_numpy().astype(np.int32),
        )  # fmt: skip


def most(parts: Sequence[HeldSeats], nodes: int) -> I64:
    """The most GPUs of each node that were held at one time."""
    found: I64 = np.zeros(nodes, np.int64)
    rows = sum(len(part.node) for part in parts)
    if not rows:
        return found
    first_ms = min(int(part.start_ms.min()) for part in parts if len(part.node))
    each = max(1, min(1 << _NODE_BITS, nodes * _AT_ONCE // rows))
    for first in range(0, nodes, each):
        keys, changes = list[I64](), list[I32]()
        for part in parts:
            mine = (part.node >= first) & (part.node < first + each)
            node = (part.node[mine] - first).astype(np.int64) << (_TIME_BITS + 1)
            for at_ms, begins in ((part.start_ms[mine], 1), (part.end_ms[mine], 0)):
                late = np.minimum(at_ms - first_ms, (1 << _TIME_BITS) - 1)
                keys.append(node | late << 1 | begins)
                changes.append(part.gpus[mine] if begins else -part.gpus[mine])
        key, change = np.concatenate(keys), np.concatenate(changes)
        if not len(key):
            continue
        order = np.argsort(key)
        node = key[order] >> (_TIME_BITS + 1)
        level = np.cumsum(change[order])  # all that begins ends, so that each node begins with 0
        starts = np.flatnonzero(np.concatenate(([True], node[1:] != node[:-1])))
        found[first + node[starts]] = np.maximum.reduceat(level, starts)
    return found


def most_at_once(
    tables: Tables, listed: Collection[str] = (), shapes: Sequence[Shape] = ()
) -> Iterator[tuple[str, int, str]]:
    """The most GPUs that attempts held of each node at one time, with their GPU type.

    What each attempt held of each of its nodes is its share, rounded up; with one of the
    ``shapes``, what the replica there requests. Nodes that are ``listed`` are left out.
    """
    parts, kinds = list[HeldSeats](), dict[str, str]()
    number = dict[str, int]()
    for rows in columns_of(tables, *_SHOWN):
        there = rows.filter(pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0))
        held = pl.concat([_in_shares(there), *_by_role(there, shapes)])
        held = held.filter(~pl.col("nodes").is_in(list(listed)))
        for name, kind in held.group_by("nodes").agg(pl.col("gpu_type").max()).iter_rows():
            number.setdefault(name, len(number))
            kinds[name] = max(kinds.get(name, ""), kind or "")
        if len(held):
            node = held["nodes"].replace_strict(number, return_dtype=pl.Int32)
            parts.append(HeldSeats.of(held, node, "each"))
    found = most(parts, len(number))
    for name in sorted(number):
        yield name, int(found[number[name]]), kinds[name]


def types_held(tables: Tables, names: Collection[str]) -> dict[str, set[str]]:
    """By node, of these nodes: the GPU types that work there says."""
    found = dict[str, set[str]]()
    for rows in columns_of(tables, "nodes", "start_ms", "gpu_type"):
        there = rows.filter(pl.col("start_ms").is_not_null()).select("nodes", "gpu_type")
        each = there.drop_nulls().filter(pl.col("gpu_type") != "").explode("nodes").unique()
        for name, kind in each.filter(pl.col("nodes").is_in(list(names))).iter_rows():
            found.setdefault(name, set()).add(kind)
    return found


def _in_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """What attempts that are told by columns held of each node: equal shares."""
    plain = rows.filter(pl.col("shape").is_null() | pl.col("roles").is_null())
    count = pl.col("nodes").list.len()
    shares = plain.with_columns(each=(pl.col("gpus") + count - 1) // count)
    return shares.select("nodes", "start_ms", "end_ms", "each", "gpu_type").explode("nodes")


def _by_role(rows: pl.DataFrame, shapes: Sequence[Shape]) -> Iterator[pl.DataFrame]:
    """What attempts that are told by shapes held of each node: whole GPUs of each replica there."""
    told = rows.filter(pl.col("shape").is_not_null() & pl.col("roles").is_not_null())
    if not len(told):
        return
    requests = [
        (s, r, role.accelerators, role.kinds[0] if len(role.kinds) == 1 else None)
        for s in told["shape"].unique().to_list()
        for r, role in enumerate(shapes[s].roles)
    ]
    names = {"shape": pl.Int64, "roles": pl.Int64, "each": pl.Int64, "kind": pl.String}
    asked = pl.DataFrame(requests, schema=names, orient="row")
    seats = told.select("nodes", "roles", "shape", "start_ms", "end_ms", "gpu_type")
    seats = seats.explode("nodes", "roles").join(asked, on=["shape", "roles"], how="left")
    kind = pl.coalesce("kind", "gpu_type").alias("gpu_type")
    yield seats.select("nodes", "start_ms", "end_ms", "each", kind)


def most_unnamed(tables: Tables) -> Iterator[tuple[str, int]]:
    """The most GPUs of each type that attempts held at one time of which nobody says where."""
    is_somewhere = pl.col("nodes").list.len().fill_null(0) > 0
    everywhere = [
        rows.filter(pl.col("start_ms").is_not_null() & ~is_somewhere).with_columns(
            nodes=pl.concat_list("gpu_type")
        )
        for rows in columns_of(tables, *_SHOWN)
    ]
    for kind, number, _ in most_at_once(everywhere):
        yield kind, number
