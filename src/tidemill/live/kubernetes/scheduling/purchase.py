"""Whether more nodes of the kinds that a cluster has would help a waiting job.

`PodScheduled=False` with the reason `Unschedulable` is an order to an autoscaler to buy a node: it
is written only where one of a kind that is there, empty, could carry what waits.
"""

from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.model.node_rules import Pair
from tidemill.model.reasons import Cause
from tidemill.model.rows import Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, diagnose

LACKS_NODES = frozenset({
    Cause.NOTHING_LAUNCHED, Cause.BUSY, Cause.PARTIAL_GANG, Cause.IMPOSSIBLE_GANG
})  # fmt: skip
"""Causes of which a node, of a kind that could carry it, is the cure, and of which `why` does not
say not to buy: enough is free (scattered, kept for others, without CPU), or there and not Ready.
Nor that somebody is ahead, in the queue or by a reservation: the order is for the one ahead."""


def helps(world: World, shape: Shape, cause: Cause, *, is_spread: bool = False) -> bool:
    """Whether nodes like those that are there would help; none has the name of another.

    ``is_spread``: over nodes by name, so that the names it may have now are only of those there.
    """
    if cause not in LACKS_NODES or _is_tied(world, shape):
        return False
    if diagnose.is_over_limits(world, shape):
        return False  # whatever is bought, its team may not use it
    return is_carried(world, shape, is_spread=is_spread)


def is_carried(world: World, shape: Shape, *, is_spread: bool = False) -> bool:
    """Whether nodes like those that are there, but for their names, would each hold a replica."""
    return all(_is_carried(world, role, is_spread=is_spread) for role in shape.roles)


def _is_tied(world: World, shape: Shape) -> bool:
    """Whether its replicas have to sit together, anywhere: where a new node will be nobody knows.

    A gang that selects the rack that it requires may use a new node in that rack alone.
    """
    count = sum(role.count for role in shape.roles)
    label = {tier.name: tier.label for tier in world.topology.tiers}
    selected = [{key for key, _ in role.labels} for role in shape.roles]
    return count > 1 and any(
        bond.is_required and not all(label.get(bond.tier, "") in keys for keys in selected)
        for bond in shape.bonds
    )


def _is_carried(world: World, role: Role, *, is_spread: bool) -> bool:
    """Whether one replica fits on an empty node like one that is there, but for its name."""
    nodes, rows = world.nodes, world.node_count
    there = nodes.state[:rows] != NodeState.GONE
    contracts, groups = nodes.contract[:rows][there].tolist(), nodes.group[:rows][there].tolist()
    for c, g in sorted(set(zip(contracts, groups, strict=True))):
        row, group = world.contract_rows[c], world.groups[g]
        is_kind = not role.kinds or row.kind in role.kinds
        labels = group.labels if is_spread else _of_another(group.labels)
        if is_kind and role.rules.allow(labels, group.taints) and (
            contract_capacity.replicas_per_node(row, role)
        ):  # fmt: skip
            return True
    return False


def _of_another(labels: frozenset[Pair]) -> frozenset[Pair]:
    """The labels of a node that has another name."""
    return frozenset(pair for pair in labels if pair[0] != HOSTNAME) | {(HOSTNAME, "")}
