"""Attempts whose replicas are not whole on their nodes: divided by GPU, so that what is is booked.

Two things of a source may contradict each other: a replica has more GPUs than its node is listed
with, or some of its GPUs are others' at the time. A replica holds all of its GPUs or none, so its
job is booked with each GPU as a replica by itself: those that are there count, the others are
*over* (``seating``).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.live.history import held
from tidemill.live.history.gathered import Tables, columns_of
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import MAX_DEVICES, Role, Shape

UNFIT = "unfit"
"""The column that says why an attempt is divided by GPU, where its node is too small."""
_SHOWN = ("start_ms", "end_ms", "each", "replicas", "nodes", "roles", "shape")


class Fitted(NamedTuple):
    """Attempts (or jobs) of which those that did not fit are divided by GPU."""

    rows: pl.DataFrame
    """With ``UNFIT``, where they are attempts."""
    shapes: Sequence[Shape]
    """What jobs request by number; those that are divided have new ones behind the others."""
    divided: dict[str, frozenset[int]]
    """By job the roles that are; 0 for one that is told by columns."""


def fit(
    rows: pl.DataFrame,
    sizes: Mapping[str, int],
    shapes: Sequence[Shape],
    crowded: Sequence[str] = (),
) -> Fitted:
    """Divide the jobs of attempts that do not fit; ``sizes``: how many GPUs nodes have.

    ``crowded``: jobs of which some GPUs are others'.
    """
    large = _too_large(rows, sizes, shapes)
    words = [f"{each} on {node}, listed with {sizes[node]}" for _, _, _, each, node in large]
    said: list[str | None] = [None] * (len(rows) if large else 0)
    for (row, *_), text in zip(large, words, strict=True):
        said[row] = text
    unfit = pl.Series(said, dtype=pl.String) if large else pl.lit(None, pl.String)
    found = dict[str, set[int]]()
    for job, role in (
        *((job, role) for _, job, role, _, _ in large),
        *((job, 0) for job in crowded),
    ):
        found.setdefault(job, set()).add(role)
    divided = {job: frozenset(roles) for job, roles in found.items()}
    return by_gpu(rows.with_columns(unfit.alias(UNFIT)), shapes, divided)


def are_large(tables: Tables, sizes: Mapping[str, int], shapes: Sequence[Shape]) -> bool:
    """Whether any attempt has replicas larger than their node."""
    each = columns_of(tables, "job", *_SHOWN)
    return any(_too_large(rows, sizes, shapes) for rows in each)


def said(tables: Iterable[pl.DataFrame]) -> list[str]:
    """Attempts that had more GPUs than their nodes, in words."""
    each = [rows.filter(pl.col(UNFIT).is_not_null()).select("job", UNFIT) for rows in tables]
    large = pl.concat(each) if each else pl.DataFrame()
    if not len(large):
        return []
    job, why = large.sort("job").row(0)
    are = "1 attempt had" if len(large) == 1 else f"{len(large):,} attempts had"
    words = f"{are} more GPUs than the node is listed with (`{job}`: {why})"
    return [f"{words}: booked are those that it has"]


def said_over(count: int, names: Sequence[str]) -> list[str]:
    """Attempts of which a part found no device, in words; ``names``: the first of their jobs."""
    if not count:
        return []
    shown = ", ".join(f"`{name}`" for name in names[:3]) + (" and more" if len(names) > 3 else "")
    are = "1 attempt" if count == 1 else f"{count:,} attempts"
    words = f"{are} shown on GPUs that others held, or that the node does not have ({shown})"
    return [f"{words}: what found no free GPU is not booked"]


def _too_large(
    rows: pl.DataFrame, sizes: Mapping[str, int], shapes: Sequence[Shape]
) -> list[tuple[int, str, int, int, str]]:
    """Attempts with replicas larger than their node: row, job, role, GPUs, the first such node."""
    least = min(sizes.values(), default=MAX_DEVICES)
    is_there = pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0)
    some = rows.select("job", "each", "nodes", "roles", "shape", "start_ms")
    some = some.with_row_index("row").filter(is_there)
    plain = some.filter(pl.col("shape").is_null() & (pl.col("each") > least))
    seats = plain.select("row", "job", "each", "nodes", role=0).explode("nodes")
    told = some.filter(pl.col("shape").is_not_null() & pl.col("roles").is_not_null())
    large = [(s, r, role.accelerators) for s in told["shape"].unique().to_list()
             for r, role in enumerate(shapes[s].roles) if is_whole(role) > least]  # fmt: skip
    if large:
        schema = {"shape": pl.Int64, "roles": pl.Int64, "each": pl.Int64}
        asked = pl.DataFrame(large, schema=schema, orient="row")
        gangs = told.select("row", "job", "nodes", "roles", "shape").explode("nodes", "roles")
        gangs = gangs.join(asked, on=["shape", "roles"], maintain_order="left")
        roles = gangs.select("row", "job", "each", "nodes", role="roles")
        seats = pl.concat([seats.cast({"role": pl.Int64}), roles.cast({"each": pl.Int64})])
    size = pl.col("nodes").replace_strict(sizes, default=MAX_DEVICES, return_dtype=pl.Int64)
    found = seats.filter(pl.col("nodes").is_not_null() & (pl.col("each") > size))
    found = found.unique(["row", "role"], keep="first", maintain_order=True)
    return list(found.select("row", "job", "role", "each", "nodes").iter_rows())


def is_whole(role: Role) -> int:
    """How many whole GPUs a replica has that may be divided; 0: it has parts of them."""
    return role.accelerators if role.milli == WHOLE_MILLI and not role.profile else 0


def by_gpu(
    rows: pl.DataFrame, shapes: Sequence[Shape], divided: Mapping[str, frozenset[int]]
) -> Fitted:
    """Attempts, or jobs, in which each GPU of these jobs (of these roles) is a replica."""
    if not divided:
        return Fitted(rows, shapes, {})
    is_one = pl.col("job").is_in(list(divided)) & pl.col("shape").is_null()
    gpus = pl.col("each") * pl.col("replicas")
    rows = rows.with_columns(
        each=pl.when(is_one).then(1).otherwise("each").cast(pl.Int64),
        replicas=pl.when(is_one).then(gpus).otherwise("replicas").cast(pl.Int64),
    )
    is_gang = pl.col("job").is_in(list(divided)) & pl.col("shape").is_not_null()
    numbered = rows.with_row_index("row")
    gangs = numbered.filter(is_gang)
    if not len(gangs):
        return Fitted(rows, shapes, dict(divided))
    every, number = [*shapes], dict[tuple[int, frozenset[int]], int]()
    made = list[dict[str, Any]]()
    for row in gangs.iter_rows(named=True):
        s, roles = row["shape"], divided[row["job"]]
        if (s, roles) not in number:
            number[s, roles] = len(every)
            every.append(_shape_by_gpu(shapes[s], roles))
        seats = _seats_by_gpu(row, shapes[s], roles) if row.get("nodes") else {}
        made.append(row | seats | {"shape": number[s, roles]})
    told = pl.DataFrame(made, schema=gangs.schema)
    both = pl.concat([numbered.filter(~is_gang.fill_null(value=False)), told]).sort("row")
    return Fitted(both.drop("row"), every, dict(divided))


def _shape_by_gpu(shape: Shape, roles: frozenset[int]) -> Shape:
    """A shape in which each GPU of these roles is a replica; which sit together, nobody asks."""
    made = list[Role]()
    for r, role in enumerate(shape.roles):
        each = is_whole(role) if r in roles else 0
        if each > 1:
            role = replace(  # noqa: PLW2901 - the same role, in other parts
                role, count=role.count * each, accelerators=1, least=role.least * each,
                cpu_milli=role.cpu_milli // each, memory_mib=role.memory_mib // each, bonds=(),
            )  # fmt: skip
        made.append(role)
    return replace(shape, roles=tuple(made), speedup=(), bonds=(), parallelism=None)


def _seats_by_gpu(row: Mapping[str, Any], shape: Shape, roles: frozenset[int]) -> dict[str, Any]:
    """Where the replicas of an attempt are, once for each GPU of these roles."""
    nodes, seats, masks = list[str](), list[int](), list[int]()
    told = row["devices"] or repeat(0)
    for node, r, mask in zip(row["nodes"], row["roles"], told, strict=False):
        each = max(1, is_whole(shape.roles[r])) if r in roles else 1
        devices = [d for d in range(MAX_DEVICES) if mask >> d & 1] if each > 1 else []
        nodes += [node] * each
        seats += [r] * each
        masks += [1 << d for d in devices] if len(devices) == each else [mask * (each == 1)] * each
    return {"nodes": nodes, "roles": seats, "devices": masks if row["devices"] else None}


def crowded(tables: Tables, sizes: Mapping[str, int]) -> list[str]:
    """Jobs with replicas of several GPUs, of which others hold some, by what is shown.

    Those that are told by shapes are left as they are: an observer tells gangs pod by pod, and what
    an import would know of them by looking back it does not.
    """
    number = {name: n for n, name in enumerate(sizes)}
    parts = list[held.HeldSeats]()
    for rows in columns_of(tables, *_SHOWN):
        some = _seats(rows)
        node = some["nodes"].replace_strict(number, default=None, return_dtype=pl.Int32)
        is_known = node.is_not_null()
        parts.append(held.HeldSeats.of(some.filter(is_known), node.drop_nulls(), "held"))
    most = held.most(parts, len(sizes))
    overfull = [name for n, name in enumerate(sizes) if most[n] > sizes[name]]
    del parts
    return _partly(tables, {name: sizes[name] for name in overfull}) if overfull else []


def _seats(rows: pl.DataFrame) -> pl.DataFrame:
    """What attempts are shown to hold (``held``): a row for each of them and of its nodes."""
    is_there = pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0)
    is_there &= (pl.col("end_ms") != pl.col("start_ms")).fill_null(value=True)
    count = pl.col("nodes").list.len().cast(pl.Int64)
    share = (pl.col("replicas") + count - 1) // count
    some = rows.with_row_index("row").filter(is_there & pl.col("shape").is_null())
    some = some.with_columns(share=share, nth=pl.int_ranges(count)).explode("nodes", "nth")
    mine = (pl.col("replicas") - pl.col("nth") * pl.col("share")).clip(0, pl.col("share"))
    columns = ("row", "nodes", "start_ms", "end_ms", "each")
    return some.select(*columns, held=mine * pl.col("each")).filter(pl.col("held") > 0)


def _partly(tables: Tables, sizes: Mapping[str, int]) -> list[str]:
    """Of what is shown on these nodes, whose replicas find some of their GPUs and not all."""
    turns = dict[str, list[tuple[int, int, int, int, int, int, str]]]()
    first = 0
    for rows in columns_of(tables, *_SHOWN, "job"):
        some = _seats(rows).filter(pl.col("nodes").is_in(list(sizes)))
        for row, node, start_ms, end_ms, each, gpus in some.iter_rows():
            who = rows["job"][row]
            end_ms = FOREVER_MS if end_ms is None else end_ms  # noqa: PLW2901
            mine = turns.setdefault(node, [])
            mine += [(at_ms, begins, first + row, len(mine), each, gpus, who)
                     for at_ms, begins in ((start_ms, 1), (end_ms, 0))]  # fmt: skip
        first += len(rows)
    found = dict[str, None]()
    for node in turns:
        free, got = sizes[node], dict[int, int]()
        for _, begins, _, seat, each, gpus, who in sorted(turns[node]):
            if not begins:
                free += got.pop(seat, 0)
                continue
            taken = got[seat] = min(free, gpus)
            free -= taken
            if taken % each:
                found[who] = None
    return list(found)
