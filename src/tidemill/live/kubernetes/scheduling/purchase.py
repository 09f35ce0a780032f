"""Whether more nodes of the kinds that a cluster has, or had, would help a waiting job.

`PodScheduled=False` with the reason `Unschedulable` is an order to an autoscaler to buy a node: it
is written only where one of a kind that is there, empty, could carry what waits. Of a kind of which
none is there any more the last are known: an autoscaler that took them away may bring one back.
Which kinds it could bring besides nobody tells us: the first node of a kind has to be seen once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes.nodes import NAME
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.live.kubernetes.scheduling.shapes import POOLS
from tidemill.model import lives
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.node_rules import Pair
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.topology import Tier
from tidemill.model.world import Group, World
from tidemill.scheduling import contract_capacity, diagnose, shares

LACKS_NODES = frozenset({
    Cause.NOTHING_LAUNCHED, Cause.BUSY, Cause.PARTIAL_GANG, Cause.IMPOSSIBLE_GANG
})  # fmt: skip
"""Causes of which a node, of a kind that could carry it, is the cure, and of which `why` does not
say not to buy: enough is free (scattered, kept for others, without CPU), or there and not Ready.
Nor that somebody is ahead, in the queue or by a reservation: the order is for the one ahead."""
LACKS_KINDS = frozenset({
    Cause.NOTHING_CLAIMED, Cause.IMPOSSIBLE_LABEL, Cause.IMPOSSIBLE_SIZE,
    Cause.IMPOSSIBLE_TOPOLOGY,
})  # fmt: skip
"""Causes of which only a node is the cure of a kind that is not there (for a gang that has to be in
one place: one more there), if the cluster had such."""
OF_TEMPLATES = frozenset({*POOLS, "topology.kubernetes.io/region"})
"""Labels that a new node has like the others of its pool; in which rack it will be nobody knows."""


class NodeSort(NamedTuple):
    """Nodes that are alike: of one contract and one group."""

    contract: Contract
    group: Group
    is_there: bool
    name: str
    """Of one of those that are gone; "": they are there."""


def helps(world: World, shape: Shape, cause: Cause, *, is_spread: bool = False) -> str | None:
    """Whether nodes like those that are there, or were, would help; none has the name of another.

    None: no; else what is to be said of it, "" where such are there. ``is_spread``: over nodes by
    name, so that the names it may have now are only of those there.
    """
    if cause not in LACKS_NODES | LACKS_KINDS or not _is_in_place(world, shape, cause):
        return None
    here, gone = list[Role](), list[NodeSort]()
    for role in shape.roles:
        one = _carrier(world, shape, role, is_spread=is_spread)
        if one is None:
            return None
        if one.is_there:
            here.append(role)
        else:
            gone.append(one)
    if here and diagnose.is_over_limits(world, replace(shape, roles=(*here,))):
        return None  # whatever is bought, its team may not use it
    if gone:
        return _were_there(gone[0])
    return None if cause in LACKS_KINDS - {Cause.IMPOSSIBLE_TOPOLOGY} else ""


def was_there(world: World, role: Role) -> bool:
    """Whether a replica would fit on an empty node like one that is gone."""
    return any(not one.is_there and _carries(one, role, is_spread=False) for one in _sorts(world))


def _were_there(one: NodeSort) -> str:
    return (
        f"nodes like `{one.name}` ({one.contract.node.devices} `{one.contract.kind}`), which is"
        " gone, could carry it: an autoscaler that has such may add one"
    )


def _is_in_place(world: World, shape: Shape, cause: Cause) -> bool:
    """Whether a new node is in the place in which its replicas have to sit together, if in any.

    So it is where it selects that place, or where all nodes that could carry it are in one which
    their pool has as a label; and a gang that has to be on one node may be on a new one.
    """
    if sum(role.count for role in shape.roles) < 2 and cause is not Cause.IMPOSSIBLE_TOPOLOGY:
        return True
    tiers = {tier.name: tier for tier in world.topology.tiers}
    bonds = (*shape.bonds, *(bond for role in shape.roles for bond in role.bonds))
    return all(_is_known(world, shape, tiers[one.tier]) for one in bonds if one.is_required)


def _is_known(world: World, shape: Shape, tier: Tier) -> bool:
    if not tier.label:
        return not tier.devices and any(_holds_all(one, shape) for one in _sorts(world))
    if all(any(key == tier.label for key, _ in role.labels) for role in shape.roles):
        return True
    return tier.label in OF_TEMPLATES and _has_one_value(world, shape, tier.label)


def _has_one_value(world: World, shape: Shape, label: str) -> bool:
    """Whether all nodes that could carry a role have one value of a label.

    Of each node, and not of its group: that leaves out what nobody selects by.
    """
    able = {
        one[:2]
        for one in _sorts(world)
        if any(_carries(one, r, is_spread=False) for r in shape.roles)
    }
    nodes, found = world.nodes, set[str]()
    for n, row in enumerate(world.node_rows):
        contract = world.contract_rows[nodes.contract.item(n)]
        if (contract, world.groups[nodes.group.item(n)]) in able:
            found.add(dict((*contract.node.labels, *row.labels)).get(label, ""))
            if len(found) > 1:
                return False
    return len(found) == 1 and "" not in found


def _holds_all(one: NodeSort, shape: Shape) -> bool:
    """Whether an empty node like these holds a whole gang."""
    node, roles = one.contract.node, shape.roles
    return (
        all(_carries(one, role, is_spread=False) for role in roles)
        and sum(role.total_milli for role in roles) <= node.devices * WHOLE_MILLI
        and sum(role.count * role.cpu_milli for role in roles) <= node.cpu_milli
        and sum(role.count * role.memory_mib for role in roles) <= node.memory_mib
    )


def _carrier(world: World, shape: Shape, role: Role, *, is_spread: bool) -> NodeSort | None:
    """Nodes of which an empty one, but for its name, would hold a replica; first those there."""
    for one in _sorts(world):
        if _carries(one, role, is_spread=is_spread) and (
            one.is_there or _may_have(world, shape, role, one)
        ):
            return one
    return None


def _may_have(world: World, shape: Shape, role: Role, one: NodeSort) -> bool:
    """Whether the team may have so much of what is gone: of that nobody keeps anything back."""
    q, k = world.queue_of(shape), world.kind_number[one.contract.kind]
    return role.total_milli <= shares.most_milli(world, q, k)[0]


def _sorts(world: World) -> Iterator[NodeSort]:
    """Nodes that are there, sort by sort; then those that are gone, as they were last."""
    nodes, rows, known = world.nodes, world.node_count, world.node_number
    sorts = list(zip(nodes.contract[:rows].tolist(), nodes.group[:rows].tolist(), strict=True))
    there = (nodes.state[:rows] != NodeState.GONE).tolist()
    seen = {sort for sort, is_there in zip(sorts, there, strict=True) if is_there}
    for c, g in sorted(seen):
        yield NodeSort(world.contract_rows[c], world.groups[g], True, "")
    for n, sort in enumerate(sorts):
        if sort in seen:
            continue
        name = world.node_rows[n].name
        if lives.following(name, known) not in known:
            seen.add(sort)
            contract, group = world.contract_rows[sort[0]], world.groups[sort[1]]
            yield NodeSort(contract, group, False, lives.origin(name, known))


def _carries(one: NodeSort, role: Role, *, is_spread: bool) -> bool:
    """Whether one replica fits on an empty node like these, but for its name."""
    labels = one.group.labels if is_spread else _of_another(one.group.labels)
    return (
        (not role.kinds or one.contract.kind in role.kinds)
        and role.rules.allow(labels, one.group.taints)
        and contract_capacity.replicas_per_node(one.contract, role) > 0
    )


def _of_another(labels: frozenset[Pair]) -> frozenset[Pair]:
    """The labels of a node that has another name."""
    kept = {pair for pair in labels if pair[0] not in (HOSTNAME, NAME)}
    return frozenset((*kept, (HOSTNAME, ""), (NAME, "")))
