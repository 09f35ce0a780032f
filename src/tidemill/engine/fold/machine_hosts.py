"""The CPU and memory of a machine that is several nodes here: each of them may have all of it.

A machine with whole GPUs beside MIG instances, or with instances of several profiles, is a node for
each, and what it costs is divided among them: so are its cores and its memory on the books. Its
pods have them together, whatever accelerators they are on. So a cluster that is looked on is asked
as if each part had what the machine has, less what all its parts hold; that is exact for one
request, which is on one part of a machine.
"""

import numpy as np
from msgspec.structs import replace

from tidemill.model import node_groups
from tidemill.model.rows import UNKNOWN_HOST, Contract
from tidemill.model.states import NodeState
from tidemill.model.world import World


def put_together(world: World) -> World:
    """The same cluster state, each part of a machine with the host of all of it."""
    if not world.is_looked_on or not any(row.unit for row in world.contract_rows):
        return world
    nodes, ink, most = world.nodes, world.ink.nodes, dict[int, tuple[int, int]]()
    there = np.flatnonzero(nodes.state[: world.node_count] != NodeState.GONE).tolist()
    for parts in node_groups.machines(world, there):
        if len(parts) == 1 or (nodes.cpu_milli[parts] == UNKNOWN_HOST).any():
            continue
        for column in (
            ink.cpu_milli, ink.cpu_free_milli, ink.memory_mib, ink.memory_free_mib,
        ):  # fmt: skip
            column[parts] = max(0, int(column[parts].sum()))
        has = nodes.cpu_milli.item(parts[0]), nodes.memory_mib.item(parts[0])
        for c in nodes.contract[parts].tolist():
            known = most.get(c, (0, 0))
            most[c] = max(known[0], has[0]), max(known[1], has[1])
    for c, (cpu_milli, memory_mib) in most.items():
        world.contract_rows[c] = _with_host(world.contract_rows[c], cpu_milli, memory_mib)
    return world


def _with_host(row: Contract, cpu_milli: int, memory_mib: int) -> Contract:
    return replace(row, node=replace(row.node, cpu_milli=cpu_milli, memory_mib=memory_mib))
