"""Where attempts were: the nodes that Slurm's lists name, and the devices of each."""

import polars as pl

from tidemill.live.slurm import amounts, hostlists


def with_nodes(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the names of their nodes: each list that Slurm folded is read once."""
    texts = rows["node_list"].drop_nulls().unique(maintain_order=True)
    is_folded = texts.str.contains_any(["[", "]"]) | texts.is_in([*hostlists.NO_NODES])
    is_folded |= texts.str.contains(r"^,|,,|,$")  # no list: to be refused, as is a list too long
    is_folded |= texts.str.len_bytes() > hostlists.MOST_NAMES
    plain, folded = texts.filter(~is_folded), texts.filter(is_folded)
    names = pl.Series([_names(text) if text else None for text in folded], dtype=_NAMES)
    known = pl.DataFrame({
        "node_list": pl.concat([plain, folded]), "nodes": pl.concat([plain.str.split(","), names]),
    })  # fmt: skip
    return _with(rows, known, ["node_list"])


_NAMES = pl.List(pl.String)


def _with(rows: pl.DataFrame, known: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Rows with what is known of some of their columns; no other column is touched."""
    found = rows.select(on).join(known, on=on, how="left", maintain_order="left")
    return rows.with_columns(found.drop(on))


def with_devices(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with what they hold on each of their nodes (``node_gres``), where that is told.

    ``devices``: the masks of those that are GPUs.
    """
    both = ["gres_detail", "node_list"]
    told = rows.select(*both, "nodes").filter(pl.col("gres_detail").is_not_null())
    told = told.drop_nulls().unique(both, maintain_order=True)
    if not len(told):
        nothing = pl.lit(None, pl.List(pl.Int64))
        return rows.with_columns(devices=nothing, node_gres=pl.lit(None, _NAMES))
    held = [_in_order(_by_node(text), nodes) for text, _, nodes in told.iter_rows()]
    masks = [None if texts is None else _masks(texts) for texts in held]
    known = told.drop("nodes").with_columns(
        devices=pl.Series(masks, dtype=pl.List(pl.Int64)), node_gres=pl.Series(held, dtype=_NAMES)
    )
    return _with(rows, known, both)


def _names(text: str) -> list[str] | None:
    try:
        return list(hostlists.expand(text))
    except ValueError:
        return None


def _by_node(text: str) -> dict[str, str]:
    """`n1=gpu:h100:2(IDX:0-1);n2=…` by node."""
    return {node: held for node, _, held in (one.partition("=") for one in text.split(";"))}


def _in_order(held: dict[str, str], nodes: list[str] | None) -> list[str] | None:
    """What an attempt holds on each of its nodes; None where that is not known of any of them."""
    if not nodes or not all(held.get(node) for node in nodes):
        return None
    return [held[node] for node in nodes]


def _masks(held: list[str]) -> list[int] | None:
    """The devices of each node; None where they are not told of any of them."""
    masks = [_mask(text) for text in held]
    return masks if all(masks) else None


def _mask(text: str) -> int:
    mask = 0
    for one in amounts.gres(text) or ():
        for index in one.devices or () if one.name == "gpu" else ():
            mask |= 1 << index
    return mask
