"""Demand that a launch would meet: what a job wants of accelerators that are not there."""

import numpy as np

from tidemill.model import tables
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy, release_ms
from tidemill.model.rows import Shape
from tidemill.model.tables import I64
from tidemill.model.topology import Topology
from tidemill.model.world import World
from tidemill.provisioning.columns import BOUGHT, LOOK, Overview

_BLANK = Overview(
    np.zeros(len(LOOK), np.int64), np.zeros((0, len(BOUGHT)), np.int64),
    np.zeros((0, 0), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64),
)  # fmt: skip


class LaidSupply:
    """What a look at the nodes takes, kept up with the World."""

    def __init__(self) -> None:
        self._supply = _BLANK._replace(look=_BLANK.look.copy())
        self._policy: Policy | None = None
        self._topology: Topology | None = None
        self._shapes = 0

    def out(self, world: World, policy: Policy, again_ms: int) -> Overview:
        """As the World is now."""
        look, supply = self._supply.look, self._supply
        if policy is not self._policy or world.contract_count != len(supply.bought):
            self._policy = policy
            supply = supply._replace(bought=_bought(world, policy))
            look[LOOK.SCALE_UP_MS], look[LOOK.AGAIN_MS] = policy.scale_up_after_ms, again_ms
            look[LOOK.RETURN_MS], look[LOOK.CONTRACTS] = (
                policy.return_idle_after_ms,
                len(supply.bought),
            )
        if world.node_count > len(supply.used):
            used = tables.grown(supply.used, world.node_count)
            supply = supply._replace(used=used, minded=np.zeros_like(used))
        look[LOOK.NODES] = world.node_count
        self._supply = self._with_shapes(world, supply)
        return self._supply

    def _with_shapes(self, world: World, supply: Overview) -> Overview:
        """With the rows of shapes that are new; of all, where what they were made by is."""
        kinds, wants = len(world.kinds), supply.wants
        if world.topology is not self._topology or wants.shape[1] != kinds:
            self._topology, self._shapes = world.topology, 0
            wants = np.zeros((0, kinds), np.int64)
        if self._shapes == len(world.shape_rows):
            return supply
        if len(world.shape_rows) > len(wants):
            wants = tables.grown(wants, len(world.shape_rows))
        for s in range(self._shapes, len(world.shape_rows)):
            shape = world.shape_rows[s]
            is_served = not _needs_a_place(world.topology, shape)
            wants[s] = [is_served * _milli_of_kind(shape, kind) for kind in world.kinds]
        self._shapes = len(world.shape_rows)
        return supply._replace(wants=wants)


def _bought(world: World, policy: Policy) -> I64:
    bought: I64 = np.zeros((world.contract_count, len(BOUGHT)), np.int64)
    for c, row in enumerate(world.contract_rows):
        bought[c, BOUGHT.NODES] = row.count // row.node.devices
        bought[c, BOUGHT.NODE_MILLI] = row.node.devices * WHOLE_MILLI
        bought[c, BOUGHT.SPARES] = row.spares
        bought[c, BOUGHT.RELEASE_MS] = release_ms(policy, row)
    return bought


def _needs_a_place(topology: Topology, shape: Shape) -> bool:
    """Whether a gang must sit in one rack, say: nobody knows where a launched node will stand.

    To launch for it and to return what stands elsewhere could go on for ever.
    """
    if not topology.tiers:
        return False
    labelled = {tier.name for tier in topology.tiers if tier.label}
    bonds = [bond for role in shape.roles for bond in role.bonds if bond.tier in labelled]
    return any(bond.is_required for bond in (*bonds, *shape.bonds))


def _milli_of_kind(shape: Shape, kind: str) -> int:
    roles = [role for role in shape.roles if not role.kinds or kind in role.kinds]
    return sum(role.total_milli for role in roles)
