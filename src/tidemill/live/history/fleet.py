"""The machines of a history: nodes as they were listed or seen, and contracts that pay for them."""

from collections.abc import Iterable, Mapping

import polars as pl

from tidemill.live.history.attempts import UNNAMED_SIZE, kind_of, most_at_once, most_unnamed
from tidemill.live.history.rows import SeenNode
from tidemill.model.errors import SpecError
from tidemill.model.rows import MAX_DEVICES, Contract, Node, Template

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
    nodes: Iterable[SeenNode], prices: Mapping[str, int]
) -> tuple[list[Contract], list[Node]]:
    """One contract for the nodes of each GPU type and size, and the nodes under them."""
    groups: dict[tuple[str, int, int, int], list[SeenNode]] = {}
    for node in nodes:
        form = (kind_of(node.gpu_type), node.gpus, node.cpu_milli, node.memory_mib)
        groups.setdefault(form, []).append(node)
    contracts, under, used = list[Contract](), list[Node](), set[str]()
    for (kind, gpus, cpu, memory), some in sorted(groups.items()):
        name = f"{kind} x{gpus}"
        if name in used:
            name = f"{name} ({cpu // 1000} CPUs, {memory} MiB)"
        used.add(name)
        size = Template(gpus, cpu, memory)
        usd_micro = price_of(kind, prices)
        contracts.append(Contract(name, kind, kind, gpus * len(some), usd_micro, size))
        under += [Node(one.name, name, one.labels) for one in some]
    return contracts, under


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
