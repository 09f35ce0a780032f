"""Clusters of one history: what has equal names is told apart, and work stays in its cluster.

Jobs require a label of their nodes (``CLUSTER``), so that neither `why` nor the ledger nor a replay
takes what is free in another cluster for theirs.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.history.gathered import Tables, columns_of
from tidemill.live.history.rows import SeenNode
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text
from tidemill.model.node_rules import Affinity, LabelTest
from tidemill.model.rows import CLUSTER, FEATURE, PARTITION, UNKEPT, Role

Labels = tuple[tuple[str, str], ...]
_LONGEST_NAME = 200
NODE_NAME = "node"
"""The label of a node of Slurm that jobs name (`--nodelist`, `--exclude`), or may name."""


def label(cluster: str | None) -> Labels:
    """What the nodes of a cluster are labelled with, and its jobs require."""
    return ((CLUSTER, cluster),) if cluster else ()


class NodeAsk(Struct, frozen=True, omit_defaults=True):
    """What an attempt asks of its nodes (``node_rules``, as JSON)."""

    labels: Labels = ()
    affinity: Affinity = ()
    unkept: str = ""
    """What else it asks, which the books cannot say."""


def kept_to(role: Role, cluster: str | None, rules: str | None) -> Role:
    """A role that may use only nodes of its cluster, and such as its rules allow."""
    asked = msgspec.json.decode(rules, type=NodeAsk) if rules else NodeAsk()
    name = f"{UNKEPT}{asked.unkept}"[:_LONGEST_NAME] if asked.unkept else role.name
    return replace(
        role, name=name, labels=(*label(cluster), *asked.labels), affinity=asked.affinity
    )


def is_of_slurm(key: str) -> bool:
    """Whether the label of a node says in which partition it is, or which feature it has."""
    return key.startswith((PARTITION, FEATURE))


def anywhere(role: Role) -> Role:
    """A role that may be in any partition, and on nodes with any features."""
    labels = tuple(pair for pair in role.labels if not is_of_slurm(pair[0]))
    is_about = any(is_of_slurm(one.key) for choice in role.affinity for one in choice)
    return replace(role, labels=labels, affinity=() if is_about else role.affinity)


def of_no_name(rules: str | None) -> str | None:
    """What an attempt asks of its nodes but for their names, which nobody can require then."""
    asked = msgspec.json.decode(rules, type=NodeAsk) if rules else NodeAsk()
    affinity, words = _without_names(asked.affinity)
    if not words:
        return rules
    unkept = ", ".join(filter(None, [asked.unkept, words]))
    return msgspec.json.encode(replace(asked, affinity=affinity, unkept=unkept)).decode()


def nameless(role: Role) -> Role:
    """A role that may be on nodes of any name."""
    affinity, words = _without_names(role.affinity)
    name = f"{UNKEPT}{words}"[:_LONGEST_NAME] if words else role.name
    return replace(role, name=name, affinity=affinity)


def _without_names(affinity: Affinity) -> tuple[Affinity, str]:
    """Choices of nodes without what they say of names, and that in words."""
    named = dict.fromkeys(one for choice in affinity for one in choice if one.key == NODE_NAME)
    if not named:
        return affinity, ""
    rest = [tuple(one for one in choice if one.key != NODE_NAME) for choice in affinity]
    words = (f"{'nodes' if one.test is LabelTest.IN else 'not nodes'} {','.join(one.values)}"
             for one in named)  # fmt: skip
    return tuple(dict.fromkeys(rest)) if all(rest) else (), ", ".join(words)


def labelled(nodes: Iterable[SeenNode], attempts: Tables) -> list[SeenNode]:
    """Nodes with the cluster whose jobs ran there, where jobs say of which they are."""
    whose = dict[str, str]()
    for part in columns_of(attempts, "cluster", "nodes"):
        told = part.filter(pl.col("cluster").is_not_null())
        each = told.explode("nodes").drop_nulls().unique() if len(told) else told
        for of, name in each.iter_rows():
            whose[name] = max(of, whose.get(name, ""))
    return [_with(node, label(whose.get(node.name))) for node in nodes]


def _with(node: SeenNode, labels: Labels) -> SeenNode:
    """A node with labels, unless it says of which cluster it is."""
    if CLUSTER in dict(node.labels):
        return node
    return replace(node, labels=(*node.labels, *labels))


def unlabelled(labels: Labels) -> Labels:
    """Labels but for the one of the cluster."""
    return tuple(pair for pair in labels if pair[0] != CLUSTER)


def said_of_nobody(nodes: Iterable[SeenNode], attempts: Tables) -> Iterator[str]:
    """Nodes of which nobody knows of which of several clusters they are, in words."""
    if all(part["cluster"].is_null().all() for part in columns_of(attempts, "cluster")):
        return
    names = sorted(one.name for one in nodes if CLUSTER not in dict(one.labels))
    if names:
        shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        of = count_text(len(names), "node")
        yield (
            f"{of} ({shown}): no job ran there that says its cluster, so nobody knows of which it"
            " is; jobs that say theirs are kept from it"
        )


def by_cluster(attempts: pl.DataFrame, listed: Collection[SeenNode]) -> pl.DataFrame:
    """Attempts of several clusters, on nodes of which those with one name are told apart.

    A job says of which ``cluster`` it is, if any job of that cluster says where it was. Where what
    lists nodes says it too, all are called `CLUSTER/NODE`.
    """
    if "nodes" not in attempts.columns:
        return attempts.drop("cluster")
    rows = attempts.with_row_index("row")
    each = rows.select("row", "cluster", "nodes").explode("nodes").drop_nulls("nodes")
    shared = each.group_by("nodes").agg(clusters=pl.col("cluster").unique().sort())
    is_listed = any(CLUSTER in dict(node.labels) for node in listed)
    if not is_listed:
        shared = shared.filter(pl.col("clusters").list.len() > 1).sort("nodes")
    is_somewhere = pl.col("cluster").is_in(
        [*each["cluster"].unique(), *(dict(node.labels).get(CLUSTER) for node in listed)]
    )
    if not len(shared):
        return attempts.with_columns(cluster=pl.when(is_somewhere).then("cluster"))
    names = {node.name for node in listed}
    if both := [name for name in shared["nodes"].to_list() if not is_listed and name in names]:
        raise SpecError(
            f"jobs of several clusters ({', '.join(map(str, shared['clusters'][0]))}) ran on nodes"
            f" called `{both[0]}`, and the list of nodes does not say of which cluster that is",
            hint="import each cluster into a journal of its own (sacct --clusters NAME …); `import"
            " csv` reads a table of nodes with a column `cluster`",
        )
    is_shared = pl.col("nodes").is_in(shared["nodes"].to_list()) & pl.col("cluster").is_not_null()
    prefixed = pl.when(is_shared).then(pl.format("{}/{}", "cluster", "nodes")).otherwise("nodes")
    told = each.select("row", renamed=prefixed).group_by("row", maintain_order=True).agg("renamed")
    rows = rows.join(told, on="row", how="left", maintain_order="left")
    rows = rows.with_columns(cluster=pl.when(is_somewhere).then("cluster"))
    return rows.with_columns(nodes=pl.coalesce("renamed", "nodes")).drop("row", "renamed")
