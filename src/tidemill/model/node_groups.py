"""Contracts that are one group of nodes: what an observer signs as nodes join reads as one.

An event never changes a contract, so a node that joins an observed cluster and finds no room under
those that are signed gets one of its own: the same name with a number. People see one group that
grows. Money stays exact: each hour costs what its own contract says.
"""

import re
from collections.abc import Iterable, Sequence

from tidemill.model.rows import CLUSTER, UNLISTED, Contract
from tidemill.model.world import World

_NUMBERED = re.compile(r"(.*) \(\d+\)$")


def first_alike(rows: Sequence[Contract], *, is_observed: bool) -> list[int]:
    """For each contract the first one of its group; of what people describe, each by itself."""
    if not is_observed:
        return [*range(len(rows))]
    names = {row.name for row in rows}
    first, found = dict[tuple[object, ...], int](), list[int]()
    for c, row in enumerate(rows):
        numbered = _NUMBERED.match(row.name)
        name = numbered[1] if numbered and numbered[1] in names else row.name
        key = (name, row.kind, row.pool, row.node, row.terms)
        found.append(first.setdefault(key, c))
    return found


def shown_name(world: World, c: int) -> str:
    """What the group of a contract is called now: the price or commitment of now, no number."""
    name = world.contract_rows[c].name_at(world.now_ms)
    numbered = _NUMBERED.match(name) if world.is_observed else None
    return numbered[1] if numbered and numbered[1] in world.contract_number else name


def machine(world: World, n: int) -> str:
    """What a node is a part of (`n1/mig-1g.10gb`), where its accelerators are parts of GPUs."""
    row = world.node_rows[n]
    name, of = row.name, f"{dict(row.labels).get(CLUSTER, '')}/"
    unit = world.contract_rows[world.nodes.contract.item(n)].unit
    is_part = (unit or UNLISTED in row.labels) and "/" in name.removeprefix(of)
    return name.rpartition("/")[0] if is_part else name.partition("#")[0]


def machines(world: World, among: Iterable[int]) -> list[list[int]]:
    """Of some nodes those that are one machine, for each; most machines are one node."""
    if not any(row.unit for row in world.contract_rows):
        return [[n] for n in among]
    found = dict[str, list[int]]()
    for n in among:
        found.setdefault(machine(world, n), []).append(n)
    return [*found.values()]
