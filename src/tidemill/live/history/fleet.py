"""The machines of a history: nodes as they were listed or seen, and contracts that pay for them."""

from collections.abc import Callable, Collection, Iterable
from itertools import chain, count

import polars as pl
from msgspec import UNSET
from msgspec.structs import replace

from tidemill.live.history import telling
from tidemill.live.history.attempts import UNNAMED_SIZE, kind_of, most_at_once, most_unnamed
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices.rules import Price
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import MAX_DEVICES, Contract, Node, Template
from tidemill.model.states import Terms
from tidemill.model.world import World
from tidemill.reservation.types import OBSERVED

_Form = tuple[str, int, int, int, str, str, Price]
"""GPU type, GPUs, CPU and memory of a node, its instance type, how it is paid, and the price of one
of its GPUs."""
_PAID = {Terms.ON_DEMAND.value: "on demand", Terms.SPOT.value: "spot", OBSERVED: "while there"}
_ALIKE = ("kind", "node", "usd_micro_per_hour", "end_ms", "price_source")
"""What two nodes of one contract have in common."""


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
        price, size = price_of(node), (node.gpus, node.cpu_milli, node.memory_mib)
        paid = price.terms or node.terms or terms
        if node.name in later and paid == Terms.RESERVED.value:
            paid = OBSERVED
        form = (kind_of(node.gpu_type), *size, node.box, paid, price)
        groups.setdefault(form, []).append(node)
    contracts, under, used = list[Contract](), list[Node](), {*world.contract_number}
    for form in sorted(groups, key=lambda form: (*form[:6], *map(str, form[6]))):
        some, asked = groups[form], _contract(form, window_ms)
        with_room = _with_room(world, asked)
        names = [name for _, name in zip(some, with_room, strict=False)]
        if rest := len(some) - len(names):
            more = f"({asked.node.cpu_milli // 1000} CPUs, {asked.node.memory_mib} MiB)"
            name = _unused(asked.name, more, used)
            used.add(name)
            contracts.append(replace(asked, name=name, count=asked.node.devices * rest))
            names += [name] * rest
        under += [
            Node(_life(one.name, world), name, one.labels)
            for one, name in zip(some, names, strict=True)
        ]
    return contracts, under


def _contract(form: _Form, window_ms: tuple[int, int]) -> Contract:
    """A contract for one node; its end is known where that is still to come."""
    kind, gpus, cpu, memory, box, paid, price = form
    is_ahead = price.ends_ms is not None and price.ends_ms > window_ms[1]
    bought = price.commitment[:100] or (_PAID.get(paid, "") if box else "")
    return Contract(
        (box[:80] or f"{kind} x{gpus}") + (f" ({bought})" if bought else ""),
        kind, kind, gpus, price.usd_micro, Template(gpus, cpu, memory), terms=paid,
        end_ms=price.ends_ms - window_ms[0] if is_ahead and price.ends_ms else FOREVER_MS,
        price_source=price.source or UNSET,
    )  # fmt: skip


def _with_room(world: World, asked: Contract) -> list[str]:
    """Contracts for such nodes that have room for more, each once for every node."""
    found = list[str]()
    for c, row in enumerate(world.contract_rows):
        if all(getattr(row, field) == getattr(asked, field) for field in _ALIKE):
            room = row.count // row.node.devices - world.contracts.nodes.item(c)
            found += [row.name] * (room if world.contracts.is_running[c] else 0)
    return found


def _unused(name: str, more: str, used: set[str]) -> str:
    """A name that no contract has."""
    tries = chain((name, f"{name} {more}"), (f"{name} ({i})" for i in count(2)))
    return next(one for one in tries if one not in used)


def _life(name: str, world: World) -> str:
    """What a node is called in the journal: one that was gone and is there again is another."""
    return telling.next_life(name, world.node_number) if name in world.node_number else name
