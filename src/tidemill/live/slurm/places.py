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
    """Rows with the masks of their devices, one for each node, where that is told."""
    both = ["gres_detail", "node_list"]
    told = rows.select(*both, "nodes").filter(pl.col("gres_detail").is_not_null())
    told = told.drop_nulls().unique(both, maintain_order=True)
    if not len(told):
        return rows.with_columns(devices=pl.lit(None, pl.List(pl.Int64)))
    masks = [_in_order(_masks(text), nodes) for text, _, nodes in told.iter_rows()]
    known = told.drop("nodes").with_columns(devices=pl.Series(masks, dtype=pl.List(pl.Int64)))
    return _with(rows, known, both)


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
