"""Ever: whether the domains of a fleet could hold a tied gang even if all was well and empty.

Only what is sure is said: as long as a contract has nodes that nobody has seen, one of them may
stand in the right rack. Spares count as room, and several roles are looked at one by one.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role, Shape
from tidemill.model.tables import I64
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.topology import constraints, place


class Lack(NamedTuple):
    """A bond that cannot be kept: by which role, what it asks of one domain, and the most there is.

    Both in replicas of the role.
    """

    role: int
    bond: Bond
    asked: int
    most: int


def lack(world: World, shape: Shape) -> Lack | None:
    """The bond that no fleet of these nodes could keep; None when there is none, or none sure."""
    topology = world.topology
    bonds = [*shape.bonds, *(bond for role in shape.roles for bond in role.bonds)]
    if not _musts((*bonds,)) or any(topology.number(bond.tier) < 0 for bond in bonds):
        return None  # nothing must be, or in a tier that nobody knows: refused when it is submitted
    found = _inside_nodes(world, shape)
    if found is None and _has_seen_all(world, shape):
        here = place.at_its_best(world)
        found = _of_roles(here, shape) or _of_gang(here, shape)
    return found


def most_together(here: place.Here, role: Role, tier: int) -> int:
    """How many replicas of a role the best domain of a tier holds, on one kind."""
    return max((int(caps.max(initial=0)) for caps in _caps(here, role, tier)), default=0)


def _inside_nodes(world: World, shape: Shape) -> Lack | None:
    """Bonds to a node, or inside one, can be judged by what contracts promise of a node."""
    for r, role in enumerate(shape.roles):
        for bond in _musts((*shape.bonds, *role.bonds)):
            tier = world.topology.tiers[world.topology.number(bond.tier)]
            each = bond.each or role.count
            most = 0 if tier.label else _most_inside(world, role, tier.devices)
            if not tier.label and most < each:
                return Lack(r, bond, each, most)
    return None


def _most_inside(world: World, role: Role, block: int) -> int:
    """How many replicas the best node of any contract takes, inside one block if it has some."""
    found = 0
    for row in world.contract_rows:
        if row.end_ms > world.now_ms and (not role.kinds or row.kind in role.kinds):
            node, most = row.node, 1 << 30
            if role.accelerators:
                devices = min(node.devices, block or node.devices)
                most = devices * (WHOLE_MILLI // role.milli) // role.accelerators
            if role.cpu_milli:
                most = min(most, node.cpu_milli // role.cpu_milli)
            if role.memory_mib:
                most = min(most, node.memory_mib // role.memory_mib)
            found = max(found, most)
    return found


def _of_roles(here: place.Here, shape: Shape) -> Lack | None:
    topology = here.world.topology
    for r, role in enumerate(shape.roles):
        musts = _musts(constraints.of_role(shape, r))
        for upto in range(1, len(musts) + 1):  # the first bond that, with those before it, fails
            rung = constraints.required(topology, role, musts[:upto])
            if not any(_holds(here, role, is_ok, rung) for is_ok in _flags(here.world, role)):
                bond = musts[upto - 1]
                tier = topology.number(bond.tier)
                most = most_together(here, role, tier)
                return Lack(r, bond, bond.each or role.count, most)
    return None


def _of_gang(here: place.Here, shape: Shape) -> Lack | None:
    """Whether some domain could hold each role of a gang that is tied whole."""
    world = here.world
    for bond in _musts(shape.bonds) if len(shape.roles) > 1 else ():
        tier = min(world.topology.number(bond.tier), len(world.domains))
        fits = np.ones(place.count_of(world, tier), bool)
        for r, role in enumerate(shape.roles):
            able = [caps >= role.count for caps in _caps(here, role, tier)]
            fits &= np.logical_or.reduce(able) if able else False
            if not fits.any():
                return Lack(r, bond, role.count, most_together(here, role, tier))
    return None


def _holds(here: place.Here, role: Role, is_ok: I64, rung: constraints.Rung) -> bool:
    found = place.gather(here, role, is_ok, rung)
    return place.rows_total(here.world, found, rung.top) >= rung.want


def _caps(here: place.Here, role: Role, tier: int) -> list[I64]:
    """Replicas in each domain of a tier, for each kind that a role may use."""
    tier = min(tier, len(here.world.domains))
    count, loose = place.count_of(here.world, tier), place.loose(here.world)
    return [
        place.gather(here, role, is_ok, loose).cap[tier, :count]
        for is_ok in _flags(here.world, role)
    ]


def _flags(world: World, role: Role) -> list[I64]:
    if not role.accelerators:
        return [eligibility.anywhere(world, role).is_ok]
    return [option.is_ok for option in eligibility.options(world, role)]


def _musts(bonds: tuple[Bond, ...]) -> tuple[Bond, ...]:
    return tuple(bond for bond in bonds if bond.is_required)


def _has_seen_all(world: World, shape: Shape) -> bool:
    """Whether every node that contracts of its kinds pay for has been seen: on a live cluster,
    where contracts are made of the nodes that joined, those that are there.
    """
    kinds = {kind for role in shape.roles for kind in role.kinds}
    is_any = any(not role.kinds for role in shape.roles)
    return world.is_observed or all(
        int(world.contracts.nodes[c]) * row.node.devices >= row.count
        for c, row in enumerate(world.contract_rows)
        if row.end_ms > world.now_ms and (is_any or row.kind in kinds)
    )
