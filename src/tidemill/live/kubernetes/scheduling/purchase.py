"""Whether more nodes of the kinds that a cluster has would help a waiting job.

`PodScheduled=False` with the reason `Unschedulable` is an order to an autoscaler to buy a node: it
is written only where one of a kind that is there, empty, could carry what waits.
"""

from tidemill.model.reasons import Cause
from tidemill.model.rows import Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import diagnose

LACKS_NODES = frozenset({
    Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY, Cause.BUSY,
    Cause.PARTIAL_GANG, Cause.SCATTERED, Cause.KEPT_BACK, Cause.RESERVED, Cause.IMPOSSIBLE_GANG,
    Cause.CPU_BINDS, Cause.MEMORY_BINDS,
})  # fmt: skip
"""Causes of which a node, of a kind that could carry it, is the cure. Not that somebody is ahead:
the order is for the one ahead."""


def helps(world: World, shape: Shape, cause: Cause) -> bool:
    """Whether nodes like those that are there would help."""
    if cause not in LACKS_NODES or _is_tied(shape):
        return False
    if diagnose.limit_cause(world, shape) is not Cause.NONE:
        return False  # whatever is bought, its team may not use it
    return all(_is_carried(world, role) for role in shape.roles)


def _is_tied(shape: Shape) -> bool:
    """Whether its replicas have to sit together: where a new node will be nobody knows."""
    count = sum(role.count for role in shape.roles)
    return count > 1 and any(bond.is_required for bond in shape.bonds)


def _is_carried(world: World, role: Role) -> bool:
    """Whether one replica fits on an empty node of a kind that the cluster has."""
    nodes, rows = world.nodes, world.node_count
    there = nodes.state[:rows] != NodeState.GONE
    for c in sorted(set(nodes.contract[:rows][there].tolist())):
        row = world.contract_rows[c]
        is_kind = not role.kinds or row.kind in role.kinds
        if is_kind and diagnose.replicas_per_node(row, role) and diagnose.matching_nodes(
            world, row, role
        ):  # fmt: skip
            return True
    return False
