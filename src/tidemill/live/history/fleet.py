"""The machines of a history: nodes as they were listed or seen, and contracts that pay for them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, count

import polars as pl
from msgspec import UNSET
from msgspec.structs import replace

from tidemill.live.history import clusters, telling
from tidemill.live.history.attempts import UNNAMED_SIZE, kind_of
from tidemill.live.history.gathered import Tables, columns_of
from tidemill.live.history.held import most_at_once, most_unnamed, types_held
from tidemill.live.history.rows import WHOLE, SeenNode, is_instance
from tidemill.live.prices.rules import Price
from tidemill.model.measures import FOREVER_MS, count_text
from tidemill.model.rows import (
    CLUSTER,
    MAX_DEVICES,
    UNKNOWN_HOST,
    UNLISTED,
    Contract,
    LaterPrice,
    Node,
    Shape,
    Template,
)
from tidemill.model.states import Terms
from tidemill.model.world import World
from tidemill.reservation.types import OBSERVED, PAID, UNFILLED

_Form = tuple[str, int, int, int, str, str, str, tuple[int, int], Price]
"""GPU type, GPUs, CPU and memory of a node, its instance type, how it is paid, of which of several
clusters it is, how much of a GPU each of its accelerators is, and the price of one of them."""
_ALIKE = (
    "kind", "pool", "node", "end_ms", "usd_micro_per_hour", "price_source", "later_prices", "unit",
    "commitment",
)  # fmt: skip
"""What two nodes of one contract have in common."""


def with_unlisted(
    nodes: Iterable[SeenNode], attempts: Tables, shapes: Sequence[Shape] = ()
) -> list[SeenNode]:
    """The nodes that were listed, and those that only jobs tell of, as large as they show.
    ``shapes``: what jobs request, where attempts say that by number.
    """
    nodes = list(nodes)
    listed = {node.name: node for node in nodes if node.gpus > 0}
    off = {node.name for node in nodes if node.is_off}
    for name, most, kind in most_at_once(attempts, listed, shapes):
        size = min(max(1, most), MAX_DEVICES)
        listed[name] = SeenNode(name=name, gpus=size, gpu_type=kind, is_inferred=True,
                                is_off=name in off)  # fmt: skip
    return clusters.labelled([listed[name] for name in sorted(listed)], attempts) or _unnamed(
        attempts
    )


def typed(nodes: Iterable[SeenNode], attempts: Tables) -> list[SeenNode]:
    """Nodes; one that is listed without a GPU type is of the one that all work there says."""
    nodes = list(nodes)
    if not (untyped := [node.name for node in nodes if not node.gpu_type]):
        return nodes
    told = {name: {kind_of(kind) for kind in kinds}
            for name, kinds in types_held(attempts, untyped).items()}  # fmt: skip
    return [
        replace(node, gpu_type=kinds.pop()) if len(kinds := told.get(node.name, set())) == 1
        else node
        for node in nodes
    ]  # fmt: skip


def _unnamed(attempts: Tables) -> list[SeenNode]:
    """As many GPUs as jobs held at once, where nobody names a node."""
    sizes = [
        (kind, min(UNNAMED_SIZE, most - before))
        for kind, most in most_unnamed(attempts)
        for before in range(0, most, UNNAMED_SIZE)
    ]
    return [
        SeenNode(name=f"unnamed-{i}", gpus=size, gpu_type=kind, is_inferred=True)
        for i, (kind, size) in enumerate(sizes, start=1)
    ]


def said_inferred(nodes: Sequence[SeenNode], attempts: Tables) -> Iterator[str]:
    """What is not known of nodes that nobody listed, in words."""
    inferred = [node for node in nodes if node.is_inferred]
    if inferred and not any(
        part["nodes"].list.len().sum() for part in columns_of(attempts, "nodes")
    ):
        yield (
            f"nobody names a node: {sum(node.gpus for node in inferred):,} GPUs are counted, the"
            " most that jobs held at once, all the time; what was paid for is at least that"
        )
    elif inferred:
        of = "1 node was" if len(nodes) == 1 else f"{len(inferred):,} of {len(nodes):,} nodes were"
        yield (
            f"{of} not listed with GPUs: taken as large as the most that jobs held there at once;"
            " what was paid for is at least that"
        )


def said_types(listed: Iterable[SeenNode], nodes: Iterable[SeenNode]) -> Iterator[str]:
    """Of which GPU types nodes are that were listed without one, in words."""
    untyped = {node.name for node in listed if not node.gpu_type and node.gpus > 0}
    some = [node for node in nodes if node.name in untyped]
    if taken := sorted(node.name for node in some if node.gpu_type):
        yield f"{_named(taken)} listed without a GPU type: of the one that jobs there say"
    unknown = sorted(node.name for node in some if not node.gpu_type)
    if unknown and taken:
        yield f"{_named(unknown)} listed without a GPU type, and no job says one: it may be any"


def as_of(
    end_ms: int, nodes: Iterable[SeenNode], attempts: Tables
) -> tuple[list[SeenNode], list[str]]:
    """The nodes of books that end then, with what was unknown of their times; and that in words.

    One that is out since nobody knows when is out from the end on. One that is off was there from
    the first work on it to the last, and if there was none, it was not.
    """
    nodes = list(nodes)
    worked = spans(attempts, end_ms) if any(n.is_off for n in nodes) else {}
    found, out, off, absent = list[SeenNode](), list[str](), list[str](), list[str]()
    left = list[str]()
    for node in nodes:
        if node.is_off and node.name not in worked:
            absent.append(node.name)
        elif node.is_off:
            (left if node.is_inferred else off).append(node.name)
            first, last = worked[node.name]
            found.append(replace(node, since_ms=first, until_ms=last))
        elif node.now is not None:
            out.append(node.name)
            found.append(replace(node, out=(*node.out, (end_ms, None, node.now))))
        else:
            found.append(node)
    said = {
        "out of service, since when nobody says: counted so from the end of the books on": out,
        "among no nodes that are listed now: counted from the first work there to the last": left,
        "switched off now: counted from the first work there to the last": off,
        "switched off, and no work is shown there: not counted, not paid for": absent,
    }
    return found, [f"{_named(names)} {words}" for words, names in said.items() if names]


def spans(attempts: Tables, end_ms: int) -> dict[str, tuple[int, int]]:
    """By node, when the first work there began and the last ended, if it has by ``end_ms``."""
    found = dict[str, tuple[int, int]]()
    for part in columns_of(attempts, "nodes", "start_ms", "end_ms"):
        work = part.filter(pl.col("start_ms").is_not_null()).explode("nodes").drop_nulls("nodes")
        each = work.group_by("nodes").agg(
            pl.col("start_ms").min(), pl.col("end_ms").fill_null(end_ms).max()
        )
        for name, first, last in each.iter_rows():
            before = found.get(name, (first, last))
            found[name] = min(first, before[0]), max(last, before[1])
    return found


def said_instances(nodes: Iterable[SeenNode]) -> Iterator[str]:
    """How MIG instances that are listed as GPUs are counted, in words."""
    kinds = sorted(
        {
            kind_of(node.gpu_type)
            for node in nodes
            if is_instance(node.gpu_type) and node.machine is None
        }
    )
    if kinds:
        yield (
            f"MIG instances ({', '.join(kinds)}) count one by one, as a GPU type of their own; the"
            f" price of a GPU is not theirs: --usd-per-hour {kinds[0]}=USD gives them one"
        )


def _named(names: list[str]) -> str:
    """So many nodes, with the first of their names."""
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return f"{count_text(len(names), 'node')} ({shown})"


def contracts_of(
    nodes: Iterable[SeenNode],
    price_of: Callable[[SeenNode], Price],
    window_ms: tuple[int, int] = (0, FOREVER_MS),
    world: World | None = None,
    terms: str = Terms.RESERVED.value,
    later: Collection[str] = (),
) -> tuple[list[Contract], list[Node]]:
    """One new contract for the nodes of each GPU type, size and price, and the nodes under them.

    ``window_ms``: when the journal begins, and what is known of it ends, since 1970. ``world``:
    what there is already; nodes go under a contract that has room before a new one. ``terms``:
    where neither their price nor they themselves say any. Those that join ``later`` are paid while
    they are there.
    """
    world = world if world is not None else World()
    groups: dict[_Form, list[SeenNode]] = {}
    for node in nodes:
        price = priced(node, price_of).at(window_ms[0] + world.now_ms)
        size = (node.gpus, node.cpu_milli, node.memory_mib)
        paid = price.terms or node.terms or terms
        if paid == Terms.RESERVED.value and (node.name in later or price.is_counted):
            paid = OBSERVED  # of a commitment with a count the rest is paid for beside it
        cluster = dict(node.labels).get(CLUSTER, "")
        form = (kind_of(node.gpu_type), *size, node.box, paid, cluster, node.unit, price)
        groups.setdefault(form, []).append(node)
    contracts, under = list[Contract](), list[Node]()
    for form in sorted(groups, key=lambda form: (*form[:8], *map(str, form[8]))):
        some, asked = groups[form], _contract(form, window_ms)
        with_room = _with_room(world, asked)
        names = [name for _, name in zip(some, with_room, strict=False)]
        if rest := len(some) - len(names):
            name = _unused(asked, [*world.contract_rows, *contracts])
            spares = sum(one.is_always_spare for one in some[len(names) :])
            contracts.append(
                replace(asked, name=name, count=asked.node.devices * rest, spares=spares)
            )
            names += [name] * rest
        under += [
            Node(_life(one.name, world), name, _labels(one), one.is_always_spare, one.taints)
            for one, name in zip(some, names, strict=True)
        ]
    return contracts, under


def priced(node: SeenNode, price_of: Callable[[SeenNode], Price]) -> Price:
    """What one accelerator of a node costs: of a part, by what a GPU of its machine does."""
    if node.machine is None:
        return price_of(node)
    return price_of(node.machine).scaled(Fraction(*node.unit))


def _labels(node: SeenNode) -> tuple[tuple[str, str], ...]:
    return (*node.labels, UNLISTED) if node.is_inferred else node.labels


def _contract(form: _Form, window_ms: tuple[int, int]) -> Contract:
    """A contract for one node; its end is known where that is still to come."""
    kind, gpus, cpu, memory, box, paid, cluster, unit, price = form
    is_ahead = price.ends_ms is not None and price.ends_ms > window_ms[1]
    node = Template(gpus, cpu or UNKNOWN_HOST, memory or UNKNOWN_HOST)
    is_said = bool(box) and paid != Terms.RESERVED.value
    bought = price.commitment[:100] or (PAID.get(paid, "") if is_said else "")
    of = f"{cluster}/"[:80] if cluster else ""

    def named(way: str | None) -> str:
        words = bought if way is None else way[:100]
        return of + (box[:80] or f"{kind} x{gpus}") + (f" ({words})" if words else "")

    name = named(price.bought)
    return Contract(
        name, of + kind, kind, gpus, price.usd_micro, node, terms=paid,
        end_ms=price.ends_ms - window_ms[0] if is_ahead and price.ends_ms else FOREVER_MS,
        price_source=price.source[:200] or UNSET,
        later_prices=tuple(
            LaterPrice(one.from_ms - window_ms[0], one.usd_micro, one.source[:200],
                       UNSET if named(one.bought) == name else named(one.bought),
                       one.fills or UNSET)
            for one in price.later
        )
        or UNSET,
        unit=unit if unit != WHOLE else UNSET,
        commitment=price.fills or UNSET,
    )  # fmt: skip


def _with_room(world: World, asked: Contract) -> list[str]:
    """Contracts for such nodes that have room for more, each once for every node."""
    found = list[str]()
    for c, signed in enumerate(world.contract_rows):
        row = _as_of(signed, world.now_ms)
        is_alike = all(getattr(row, field) == getattr(asked, field) for field in _ALIKE)
        if is_alike and row.terms != UNFILLED:
            room = row.count // row.node.devices - world.contracts.nodes.item(c)
            found += [row.name] * (room if world.contracts.is_running[c] else 0)
    return found


def _as_of(row: Contract, at_ms: int) -> Contract:
    """A contract as it would be signed at a moment: with the price of then, and later ones."""
    later = tuple(price for price in row.later_prices or () if price.from_ms > at_ms)
    return replace(row.at(at_ms), later_prices=later or UNSET)


def _unused(asked: Contract, others: Sequence[Contract]) -> str:
    """A name that no other contract has: with the size, where that is what tells them apart."""
    name, used = asked.name, {one.name: one.node for one in others}
    cpus = "" if asked.node.cpu_milli >= UNKNOWN_HOST else f"{asked.node.cpu_milli // 1000} CPUs"
    memory = "" if asked.node.memory_mib >= UNKNOWN_HOST else f"{asked.node.memory_mib} MiB"
    size = ", ".join(part for part in (cpus, memory) if part)
    tries = [name] if used.get(name) == asked.node or not size else [name, f"{name} ({size})"]
    return next(one for one in chain(tries, (f"{name} ({i})" for i in count(2))) if one not in used)


def _life(name: str, world: World) -> str:
    """What a node is called in the journal: one that was gone and is there again is another."""
    return telling.next_life(name, world.node_number) if name in world.node_number else name
