"""Which nodes the jobs of a Slurm cluster may use: partition, `--constraint`, named nodes.

Nodes are labelled with their partitions (`partition/train`) and features (`feature/nvlink`), and
those that jobs name, or may name yet, with their name; jobs require those labels, or one of several
choices of them (``model.node_rules``). What that cannot say, or what no node tells of, is told
beside it, so that nobody takes it for a job that may be anywhere.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec.structs import replace

from tidemill.live.history.clusters import NODE_NAME, NodeAsk
from tidemill.live.history.gathered import GatheredRows
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.slurm import constraints, het, hostlists, reservations
from tidemill.live.slurm.constraints import ANY_NODE, Choices, FeatureRule
from tidemill.live.slurm.rows import SlurmNode, SlurmPartition
from tidemill.model.measures import count_text
from tidemill.model.node_rules import MOST_CONDITIONS, LabelCondition, LabelTest, Pair
from tidemill.model.rows import FEATURE, PARTITION

MOST_NAMED = 1_000
"""Nodes that one job names: more are not kept."""
_ENCODE = msgspec.json.Encoder().encode


class NodeRequest(NamedTuple):
    """What a job says of the nodes that it may use, as Slurm prints it; None: nothing."""

    partition: str | None = None
    features: str | None = None
    required_nodes: str | None = None
    excluded_nodes: str | None = None
    node_count: int | None = None


class AllowedNodes(NamedTuple):
    """The same, as the books have it."""

    rules: str | None
    """``NodeAsk`` as JSON; None: any node."""
    unkept: str = ""
    """What of it the books cannot say."""


class NodeNames(NamedTuple):
    """What nodes say of themselves, together."""

    partitions: Mapping[str, frozenset[str]]
    """By node: the partitions that it is in, as far as anybody says."""
    features: frozenset[str]
    """All features of all nodes."""
    known: frozenset[str]
    """All partitions that nodes are in, or that are listed."""
    named: frozenset[str]
    """Nodes that are labelled with their names."""


def names_of(
    nodes: Iterable[SlurmNode],
    partitions: Iterable[SlurmPartition],
    named: frozenset[str],
) -> NodeNames:
    """What nodes and partitions say of each other."""
    found, features, known = dict[str, set[str]](), set[str](), set[str]()
    for node in nodes:
        mine = _words(node.partitions)
        found.setdefault(node.name, set()).update(mine)
        features |= _words(node.features)
        known |= mine
    for row in partitions:
        known.add(row.name)
        for name in _expanded(row.nodes):
            if name in found:
                found[name].add(row.name)
    told = {name: frozenset(mine) for name, mine in found.items()}
    return NodeNames(told, frozenset(features), frozenset(known), named)


def labels_of(node: SlurmNode, names: NodeNames) -> tuple[Pair, ...]:
    """What a node is labelled with."""
    partitions = sorted(names.partitions.get(node.name, ()))
    own = ((NODE_NAME, node.name),) if node.name in names.named else ()
    return (
        *((PARTITION + name, "") for name in partitions),
        *((FEATURE + name, "") for name in sorted(_words(node.features))),
        *own,
    )


def named_by(asked: Iterable[NodeRequest]) -> frozenset[str]:
    """The nodes that jobs name."""
    texts = {text for one in asked for text in (one.required_nodes, one.excluded_nodes) if text}
    return frozenset(name for text in texts for name in _expanded(text))


def named_inside(jobs: GatheredRows, inside: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """The nodes of reservations that waiting jobs ask for."""
    asked = set[str]()
    kinds = {"state": pl.String, "reservation": pl.String}
    for rows in jobs.each(*kinds, kinds=kinds) if inside else ():
        asked |= {*rows.filter(pl.col("state") == "PENDING")["reservation"].drop_nulls()}
    names = {name for text in asked for name in reservations.of_names(text)}
    return frozenset(node for name in names for node in inside.get(name, ()))


def allowed(asked: NodeRequest, names: NodeNames) -> AllowedNodes:
    """Which nodes a job may use, where nodes say what jobs ask for."""
    if not any(names.partitions.values()) and not names.features and not names.named:
        return AllowedNodes(None)  # nodes tell nothing that could be compared
    unkept = list[str]()
    parts = [
        _of_partitions(asked.partition, names, unkept),
        _of_features(asked, names, unkept),
        _of_names(asked, unkept),
    ]
    choices = tuple(
        tuple(dict.fromkeys(one for choice in some for one in choice)) for some in product(*parts)
    )
    if len(choices) > MOST_CONDITIONS or any(len(one) > MOST_CONDITIONS for one in choices):
        unkept.append("more choices of nodes than can be kept")
        choices = ANY_NODE
    found = _ask(choices, ", ".join(unkept))
    return AllowedNodes(None if found == NodeAsk() else _ENCODE(found).decode(), found.unkept)


def with_rules(
    attempts: pl.DataFrame, allowed: Sequence[AllowedNodes], unkept: dict[str, str]
) -> pl.DataFrame:
    """Attempts with the nodes that they may use; ``unkept``: what of that is not said, by job."""
    rules = {i: one.rules for i, one in enumerate(allowed) if one.rules is not None}
    lost = {i: one.unkept for i, one in enumerate(allowed) if one.unkept}
    if lost:
        mine = attempts.filter(pl.col("asked_nodes").is_in([*lost]), pl.col("gpus") > 0)
        for job, number in mine.select("job", "asked_nodes").iter_rows():
            unkept[re.sub(het.PART_NUMBER, "", job)] = lost[number]
    found = pl.col("asked_nodes").replace_strict(rules, default=None, return_dtype=pl.String)
    return attempts.with_columns(node_rules=found).drop("asked_nodes")


BESIDES = "besides"
"""The column that says what else a waiting job asks, which the books cannot keep."""


class ReservedNodes(NamedTuple):
    """What reservations are to jobs that wait."""

    nodes: Mapping[str, tuple[str, ...]]
    """By reservation, its nodes; none: also others."""
    keeping: Mapping[str, str]
    """Nodes by the reservation that keeps them for others than those that ask for it."""
    asked: dict[str, set[str]]
    """Jobs that ask for a reservation, by it; they are added here."""


def with_unkept(
    attempts: pl.DataFrame, reserved: ReservedNodes, unkept: dict[str, str]
) -> pl.DataFrame:
    """Attempts of which those that wait now keep to the nodes of the reservation that they ask for.

    With what else they ask (``BESIDES``). ``unkept`` has also what other reservations keep: who may
    use those nodes nobody says here.
    """
    waits = (pl.col("outcome") == AttemptEnd.WAITING) & (pl.col("gpus") > 0)
    rows = attempts.select(
        "job", "node_rules", BESIDES, reservation=pl.when(waits).then("reservation"),
        is_told=waits & pl.col("is_eligible"),
    )  # fmt: skip
    has_any = any(rows[name].null_count() < len(rows) for name in (BESIDES, "reservation"))
    if has_any or reserved.keeping:
        rules = list[str | None]()
        for job, told, besides, own, is_told in rows.iter_rows():
            mine, name = reservations.of_names(own), re.sub(het.PART_NUMBER, "", job)
            ask = msgspec.json.decode(told, type=NodeAsk) if told else NodeAsk()
            inside, lost = _within(ask, mine, reserved.nodes)
            words = [one for one in (ask.unkept, besides, lost) if one]
            for one in mine:
                reserved.asked.setdefault(one, set()).add(name)
            kept = sorted(reserved.keeping.items()) if is_told else []
            others = [f"reservation {one} keeps {nodes} for others"
                      for one, nodes in kept if one not in mine]  # fmt: skip
            if besides or lost or others:
                unkept[name] = ", ".join([*words, *others])
            inside = replace(inside, unkept=", ".join(words))
            rules.append(told if inside == ask else _ENCODE(inside).decode())
        attempts = attempts.with_columns(node_rules=pl.Series(rules, dtype=pl.String))
    return attempts.drop("reservation", BESIDES)


def _within(
    ask: NodeAsk, names: Sequence[str], nodes: Mapping[str, tuple[str, ...]]
) -> tuple[NodeAsk, str]:
    """What a job asks that is to be in one of these reservations; and what of that is not known."""
    if not names:
        return ask, ""
    inside = tuple(sorted({node for name in names for node in nodes.get(name, ())}))
    if all(name in nodes for name in names) and not all(nodes[name] for name in names):
        return ask, ""
    if not all(name in nodes for name in names) or len(inside) > MOST_NAMED:
        return ask, f"reservation {', '.join(names)}, of which no output says the nodes"
    must = LabelCondition(NODE_NAME, LabelTest.IN, inside)
    choices = tuple((*choice, must) for choice in ask.affinity) or ((must,),)
    if any(len(choice) > MOST_CONDITIONS for choice in choices):
        return ask, f"reservation {', '.join(names)}"
    return replace(ask, affinity=choices), ""


def as_asked_now(attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts of which those of a job that waits have the rules that it waits by.

    Of one that was requeued the accounting says less than the queue, which alone knows of nodes
    that it names; the books have one request of a job.
    """
    waits = attempts.filter(pl.col("outcome") == AttemptEnd.WAITING)
    if not len(waits):
        return attempts
    now = waits.select("job", now="node_rules", is_now=pl.lit(value=True))
    now = now.unique("job", keep="last")
    found = attempts.select("job").join(now, on="job", how="left", maintain_order="left")
    rules = pl.when(found["is_now"].fill_null(value=False)).then(found["now"])
    return attempts.with_columns(node_rules=rules.otherwise("node_rules"))


def said(unkept: Mapping[str, str]) -> list[str]:
    if not unkept:
        return []
    words = sorted({*unkept.values()})
    shown = "; ".join(words[:3]) + (" …" if len(words) > 3 else "")
    whose = count_text(len(unkept), "job")
    told = f"{whose} with rules about nodes that the books cannot keep ({shown})"
    return [f"{told}: whether what is free would do is unknown"]


def _ask(choices: Choices, unkept: str) -> NodeAsk:
    """Labels where there is one choice, which most jobs have; affinity for the rest."""
    if len(choices) != 1:
        return NodeAsk((), choices, unkept)
    labels = tuple((one.key, "") for one in choices[0] if one.test is LabelTest.EXISTS)
    rest = tuple(one for one in choices[0] if one.test is not LabelTest.EXISTS)
    return NodeAsk(labels, (rest,) if rest else (), unkept)


def _of_partitions(text: str | None, names: NodeNames, unkept: list[str]) -> Choices:
    """Any of the partitions that it was submitted to."""
    asked = sorted(_words(text))
    if not asked or not any(names.partitions.values()):
        return ANY_NODE
    if unknown := [name for name in asked if name not in names.known]:
        unkept.append(f"partition {', '.join(unknown)}, which no node says that it is in")
        return ANY_NODE
    return tuple((LabelCondition(PARTITION + name, LabelTest.EXISTS),) for name in asked)


def _of_features(asked: NodeRequest, names: NodeNames, unkept: list[str]) -> Choices:
    if not asked.features:
        return ANY_NODE
    found = constraints.parse(asked.features, asked.node_count or 1)
    used = {one.key.removeprefix(FEATURE) for choice in found.choices for one in choice}
    if used - names.features:
        found = FeatureRule(ANY_NODE, is_whole=False)
    if not found.is_whole:
        unkept.append(f"constraint {asked.features}")
    return found.choices


def _of_names(asked: NodeRequest, unkept: list[str]) -> Choices:
    """Nodes that it is to be on, if they are all of its nodes; and those that it must not be on."""
    wanted, excluded = _expanded(asked.required_nodes), _expanded(asked.excluded_nodes)
    if not wanted and not excluded:
        return ANY_NODE
    is_known = max(len(wanted), len(excluded)) <= MOST_NAMED
    conditions = list[LabelCondition]()
    for text, some, test in (
        (asked.required_nodes, wanted, LabelTest.IN),
        (asked.excluded_nodes, excluded, LabelTest.NOT_IN),
    ):
        is_all = test is LabelTest.NOT_IN or len(some) >= (asked.node_count or 1)
        if some and is_known and is_all:
            conditions.append(LabelCondition(NODE_NAME, test, some))
        elif some:
            unkept.append(f"{'nodes' if test is LabelTest.IN else 'not nodes'} {text}")
    return (tuple(conditions),)


def _words(text: str | None) -> set[str]:
    """Names parted by commas; the default partition has a star where sinfo prints it."""
    return {name.strip().rstrip("*") for name in (text or "").split(",") if name.strip()}


def _expanded(text: str | None) -> tuple[str, ...]:
    try:
        return hostlists.expand(text or "")
    except ValueError:
        return ()
