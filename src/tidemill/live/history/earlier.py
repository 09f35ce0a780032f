"""Machines that had the name of a node before it: replaced, or created again as another one.

A source lists nodes as they are now. Work that it shows on one of them before, and that this one
cannot have done (of another GPU type, or with more GPUs than it has), was on an earlier machine of
that name: a node of its own on the books, as large as that work shows, until the last of it.
"""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.live.history.attempts import kind_of
from tidemill.live.history.gathered import GatheredRows
from tidemill.live.history.rows import SeenNode

EARLIER = " (earlier)"
"""What stands behind the name of a node, and means the machine that had it before."""


class Separated(NamedTuple):
    """Attempts, of which those on earlier machines say so."""

    attempts: GatheredRows
    until_ms: dict[str, int]
    """By name, when the last work on each earlier machine ended."""


def separate(attempts: GatheredRows, nodes: Iterable[SeenNode]) -> Separated:
    """Tell the work on earlier machines from that on the nodes that are listed."""
    known = _known(attempts, nodes)
    if known is None:
        return Separated(attempts, {})
    known = known.join(_first_work(attempts, known), on="nodes", how="left")
    until_ms = dict[str, int]()
    for part in attempts.each(*_WORK):
        for name, end_ms in _earlier(part, known).select("nodes", "end_ms").iter_rows():
            until_ms[name + EARLIER] = max(end_ms, until_ms.get(name + EARLIER, end_ms))
    if not until_ms:
        return Separated(attempts, {})
    told = attempts.changed(lambda rows: _renamed(rows, _earlier(rows, known)))
    return Separated(told, dict(sorted(until_ms.items())))


_WORK = ("start_ms", "end_ms", "kind", "nodes", "gpus")


def _first_work(attempts: GatheredRows, known: pl.DataFrame) -> pl.DataFrame:
    """By node when work of its own type began, and whether any was before it that it cannot do."""
    schema = {"nodes": pl.String, "own_ms": pl.Int64, "cannot": pl.Boolean}
    found = pl.DataFrame(schema=schema)
    is_own = pl.col("kind") == pl.col("node_kind")
    for part in attempts.each(*_WORK):
        each = _work(part, known).group_by("nodes").agg(
            own_ms=pl.col("start_ms").filter(is_own).min(), cannot=_cannot_be().any()
        )  # fmt: skip
        found = pl.concat([found, each]).group_by("nodes").agg(
            pl.col("own_ms").min(), pl.col("cannot").any()
        )  # fmt: skip
    return found


def _is_other() -> pl.Expr:
    kinds = pl.col("kind").str.split(",")  # of a job on nodes of several types
    return (pl.col("kind") != "") & ~kinds.list.contains(pl.col("node_kind"))


def _is_before() -> pl.Expr:
    return (pl.col("end_ms") <= pl.col("since_ms")).fill_null(value=False)


def _cannot_be() -> pl.Expr:
    return _is_before() & (_is_other() | (pl.col("held") > pl.col("node_gpus")))


def _earlier(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """The work of these attempts that was on earlier machines."""
    is_replaced = _is_other() & (pl.col("end_ms") <= pl.col("own_ms")).fill_null(value=False)
    return _work(rows, known).filter((_is_before() & pl.col("cannot")) | is_replaced)


def _known(attempts: GatheredRows, nodes: Iterable[SeenNode]) -> pl.DataFrame | None:
    """The nodes that are listed, with what they are.

    None where there is one GPU type, and nothing says when a node came, as nearly everywhere.
    """
    listed = [
        (one.name, kind_of(one.gpu_type) if one.gpu_type else "", one.gpus, one.since_ms)
        for one in nodes
        if one.gpus > 0
    ]
    schema = {"nodes": pl.String, "node_kind": pl.String, "node_gpus": pl.Int64,
              "since_ms": pl.Int64}  # fmt: skip
    known = pl.DataFrame(listed, schema=schema, orient="row").filter(pl.col("node_kind") != "")
    told = {kind for part in attempts.each("kind") for kind in part["kind"].unique().to_list()}
    kinds = {*known["node_kind"].unique().to_list(), *told, ""}
    is_one = len(kinds) <= 2 and known["since_ms"].is_null().all()
    return None if is_one else known


def _work(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """What attempts held of nodes that are listed, with what those are; a row for each of both."""
    seats = pl.col("nodes").list.len().cast(pl.Int64)
    is_over = pl.col("start_ms").is_not_null() & pl.col("nodes").is_not_null()
    held = rows.with_row_index("row").filter(is_over).select(
        "row", "start_ms", "end_ms", "kind", "nodes", seat=pl.col("gpus") / seats
    )  # fmt: skip
    held = held.explode("nodes").join(known, on="nodes")
    return held.group_by("row", "nodes").agg(
        pl.col("seat").sum().alias("held"), pl.exclude("seat").first()
    )


def _renamed(attempts: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Attempts whose rows and nodes are these are on the earlier machines of those names."""
    if not len(found):
        return attempts
    rows = attempts.with_row_index("row")
    was = found.select("row", "nodes", is_earlier=pl.lit(value=True))
    changed = rows.join(was.select("row").unique(), on="row", how="semi").select("row", "nodes")
    each = changed.explode("nodes").join(
        was, on=["row", "nodes"], how="left", maintain_order="left"
    )
    name = pl.when("is_earlier").then(pl.col("nodes") + EARLIER).otherwise("nodes")
    told = each.select("row", renamed=name).group_by("row", maintain_order=True).agg("renamed")
    rows = rows.join(told, on="row", how="left", maintain_order="left")
    return rows.with_columns(nodes=pl.coalesce("renamed", "nodes")).drop("row", "renamed")


def in_their_time(nodes: Iterable[SeenNode], until_ms: dict[str, int]) -> list[SeenNode]:
    """Earlier machines until their last work; who has the name now is there from then on."""
    found = list[SeenNode]()
    for node in nodes:
        if node.name in until_ms:
            found.append(replace(node, until_ms=until_ms[node.name]))
        elif node.since_ms is None and node.name + EARLIER in until_ms:
            found.append(replace(node, since_ms=until_ms[node.name + EARLIER]))
        else:
            found.append(node)
    return found


def said(until_ms: dict[str, int]) -> list[str]:
    """What was found, in words."""
    if not until_ms:
        return []
    names = [name.removesuffix(EARLIER) for name in until_ms]
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    words = f"earlier work on {', '.join(names[:5])}{more} cannot have been on what is called so"
    words += f" now (another GPU type, or more GPUs): on the books as `{names[0]}{EARLIER}`, as"
    return [f"{words} large as that work shows, until the last of it"]


def said_otherwise(attempts: GatheredRows, nodes: Iterable[SeenNode]) -> list[str]:
    """Work that says another GPU type than its node is listed with, in words."""
    known = _known(attempts, [node for node in nodes if not node.is_inferred])
    if known is None:
        return []
    count, first = 0, list[tuple[int, int, str, str, str, str]]()
    for i, part in enumerate(attempts.each(*_WORK, "job")):
        other = _work(part, known).filter(_is_other())
        count += other["row"].n_unique()
        for row, ms, kind, node, listed in other.sort("start_ms", "row").head(1).select(
            "row", "start_ms", "kind", "nodes", "node_kind"
        ).iter_rows():  # fmt: skip
            first.append((ms, i, part["job"][row], kind, node, listed))
    if not first:
        return []
    _, _, job, kind, node, listed = min(first)
    whom = "1 attempt says" if count == 1 else f"{count:,} attempts say"
    where = f"`{job}`: {kind} on {node}, listed with {listed}"
    words = f"{whom} another GPU type than the node is listed with ({where})"
    return [f"{words}: booked as the node is listed"]
