"""Demand that a launch would meet: what waits for accelerators that are not there."""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Shape
from tidemill.model.states import NodeState
from tidemill.model.world import World

CURED_BY_NODES = frozenset(
    {
        Cause.NOTHING_LAUNCHED,
        Cause.NOTHING_READY,
        Cause.NOT_ENOUGH_READY,
        Cause.BUSY,
        Cause.PARTIAL_GANG,
        Cause.SCATTERED,
        Cause.BEHIND,
        Cause.RESERVED,
        Cause.KEPT_BACK,
    }
)
"""Causes that one more node would help against."""


class Unmet(NamedTuple):
    """A shape that has waited long enough for nodes, and how many jobs of it wait."""

    shape: Shape
    jobs: int


def unmet(world: World, policy: Policy) -> list[Unmet]:
    """What has waited long enough, and more nodes would serve."""
    shapes = world.shapes
    return [
        Unmet(world.shape_rows[s], shapes.waiting.item(s))
        for s in sorted(world.queued)
        if _is_unmet(world, policy, s)
    ]


def nodes_missing(world: World, c: int, waiting: Sequence[Unmet]) -> int:
    """How many more nodes of this contract would serve what has waited long enough.

    Below zero: how many could be given back without being missed. One number for both, so that
    nothing is returned only to be launched again.
    """
    contract = world.contract_rows[c]
    node_milli = contract.node.devices * WHOLE_MILLI
    unmet_milli = sum(_milli_of_kind(shape, contract.kind) * jobs for shape, jobs in waiting)
    coming_milli = _coming_nodes(world, c) * node_milli
    k = int(world.contracts.kind[c])
    free_milli = world.kind_free_milli.item(k) - int(world.kind_kept[k])
    short_milli = unmet_milli - coming_milli - free_milli
    return -(-short_milli // node_milli)


def _is_unmet(world: World, policy: Policy, s: int) -> bool:
    shapes = world.shapes
    waited_ms = world.now_ms - world.jobs.since_ms.item(shapes.head.item(s))
    if waited_ms < policy.scale_up_after_ms or shapes.cause.item(s) not in CURED_BY_NODES:
        return False
    return not _needs_a_place(world, world.shape_rows[s])


def _needs_a_place(world: World, shape: Shape) -> bool:
    """Whether a gang must sit in one rack, say: nobody knows where a launched node will stand.

    To launch for it and to return what stands elsewhere could go on for ever.
    """
    if not world.topology.tiers:
        return False
    labelled = {tier.name for tier in world.topology.tiers if tier.label}
    bonds = [bond for role in shape.roles for bond in role.bonds if bond.tier in labelled]
    return any(bond.is_required for bond in (*bonds, *shape.bonds))


def _milli_of_kind(shape: Shape, kind: str) -> int:
    roles = [role for role in shape.roles if not role.kinds or kind in role.kinds]
    return sum(role.total_milli for role in roles)


def _coming_nodes(world: World, c: int) -> int:
    rows = world.node_count
    mine = world.nodes.contract[:rows] == c
    coming = world.nodes.state[:rows] <= NodeState.BOOTING
    return int((mine & coming).sum()) + int(world.contracts.asked_nodes[c])
