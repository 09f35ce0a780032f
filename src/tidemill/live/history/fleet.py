"""The machines of a history: nodes as they were listed or seen, and contracts that pay for them."""

from collections.abc import Iterable, Mapping
from itertools import chain, count

import polars as pl

from tidemill.live.history import telling
from tidemill.live.history.attempts import UNNAMED_SIZE, kind_of, most_at_once, most_unnamed
from tidemill.live.history.rows import SeenNode
from tidemill.model.errors import SpecError
from tidemill.model.rows import MAX_DEVICES, Contract, Node, Template
from tidemill.model.states import Terms
from tidemill.model.world import World

ANY = ""
"""In prices: of every GPU type that has none of its own."""


def with_unlisted(nodes: Iterable[SeenNode], attempts: pl.DataFrame) -> list[SeenNode]:
    """The nodes that were listed, and those that only jobs tell of, as large as they show."""
    listed = {node.name: node for node in nodes if node.gpus > 0}
    for name, most, kind in most_at_once(attempts):
        if name not in listed:
            size = min(max(1, most), MAX_DEVICES)
            listed[name] = SeenNode(name=name, gpus=size, gpu_type=kind, is_inferred=True)
    return [listed[name] for name in sorted(listed)] or _unnamed(attempts)


def _unnamed(attempts: pl.DataFrame) -> list[SeenNode]:
    """As many nodes as jobs needed at once, where nobody names any."""
    most, kind = most_unnamed(attempts)
    return [
        SeenNode(name=f"unnamed-{i}", gpus=UNNAMED_SIZE, gpu_type=kind, is_inferred=True)
        for i in range(1, -(-most // UNNAMED_SIZE) + 1)
    ]


def contracts_of(
    nodes: Iterable[SeenNode],
    prices: Mapping[str, int],
    world: World | None = None,
    terms: str = Terms.RESERVED.value,
) -> tuple[list[Contract], list[Node]]:
    """One new contract for the nodes of each GPU type and size, and the nodes under them.

    ``world``: what there is already; nodes go under a contract that has room before a new one.
    """
    world = world if world is not None else World()
    groups: dict[tuple[str, int, int, int], list[SeenNode]] = {}
    for node in nodes:
        form = (kind_of(node.gpu_type), node.gpus, node.cpu_milli, node.memory_mib)
        groups.setdefault(form, []).append(node)
    contracts, under, used = list[Contract](), list[Node](), {*world.contract_number}
    for (kind, gpus, cpu, memory), some in sorted(groups.items()):
        size = Template(gpus, cpu, memory)
        usd_micro = price_of(kind, prices)
        with_room = _with_room(world, kind, size, usd_micro)
        names = [name for _, name in zip(some, with_room, strict=False)]
        rest = len(some) - len(names)
        if rest:
            name = _unused(f"{kind} x{gpus}", f"({cpu // 1000} CPUs, {memory} MiB)", used)
            used.add(name)
            contracts.append(Contract(name, kind, kind, gpus * rest, usd_micro, size, terms))
            names += [name] * rest
        under += [
            Node(_life(one.name, world), name, one.labels)
            for one, name in zip(some, names, strict=True)
        ]
    return contracts, under


def _with_room(world: World, kind: str, size: Template, usd_micro: int) -> list[str]:
    """Contracts for such nodes that have room for more, each once for every node."""
    found = list[str]()
    for c, row in enumerate(world.contract_rows):
        if (row.kind, row.node, row.usd_micro_per_hour) == (kind, size, usd_micro):
            room = row.count // size.devices - world.contracts.nodes.item(c)
            found += [row.name] * (room if world.contracts.is_running[c] else 0)
    return found


def _unused(name: str, more: str, used: set[str]) -> str:
    """A name that no contract has."""
    tries = chain((name, f"{name} {more}"), (f"{name} ({i})" for i in count(2)))
    return next(one for one in tries if one not in used)


def _life(name: str, world: World) -> str:
    """What a node is called in the journal: one that was gone and is there again is another."""
    return telling.next_life(name, world.node_number) if name in world.node_number else name


def price_of(kind: str, prices: Mapping[str, int]) -> int:
    """Micro-dollars per hour of one GPU of a type."""
    found = prices.get(kind, prices.get(ANY))
    if found is None:
        told = ", ".join(f"`{name}`" for name in sorted(prices)) or "none"
        raise SpecError(
            f"nobody said what one `{kind}` costs an hour; prices were given for {told}",
            hint=f"give --usd-per-hour {kind}=2.50, or --usd-per-hour 2.50 for every type",
        )
    return found
