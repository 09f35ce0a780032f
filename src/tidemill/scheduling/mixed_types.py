"""Gangs over several GPU types: whether one fits where each replica may be on another type.

Tidemill's own scheduler has the replicas of a role on one type. A scheduler of somebody else's asks
each replica alone, so that a cluster which is looked on is asked for all types together.
"""

from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, eligibility
from tidemill.scheduling.fit import Options, may_redo, undo
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot


def most(world: World, hosts: dict[str, int]) -> int:
    """Of the replicas that each GPU type holds, those that a role may have at once."""
    return sum(hosts.values()) if world.is_looked_on else max(hosts.values(), default=0)


def may_mix(world: World, shape: Shape, options: Options) -> bool:
    """Whether replicas of a role may be on several types here; not where they are tied."""
    if not world.is_looked_on or any(bond.is_required for bond in _bonds(shape)):
        return False
    return any(
        role.accelerators and role.count > 1 and len(able) > 1
        for role, able in zip(shape.roles, options, strict=True)
    )


def needs(world: World, shape: Shape) -> bool:
    """Whether some role is larger than each of the types alone, if nothing ran."""
    for role in shape.roles:
        rows = contract_capacity.running_contracts(world, role)
        held = contract_capacity.hosts_by_kind(world, role, rows)
        if len(held) > 1 and role.count > max(held.values()):
            return world.is_looked_on
    return False


def fits(room: Snapshot, q: int, shape: Shape, options: Options) -> bool:
    """Whether a gang fits over all types that it may use, within the quotas of each."""
    if not may_mix(room.world, shape, options):
        return False
    pieces: tuple[Piece, ...] = ()
    for r, role in enumerate(shape.roles):
        is_ok = eligibility.merged(room.world, options[r])
        found = tuple(Piece(r, *one) for one in room.fill(role, is_ok, PACKING).placed)
        if not found:
            undo(room, q, shape, pieces)
            return False
        room.book(q, shape, found, 1)
        pieces += found
    undo(room, q, shape, pieces)
    return may_redo(room, q, shape, pieces)


def hosts(room: Snapshot, role: Role, options: tuple[eligibility.Option, ...]) -> int:
    """How many replicas of a role fit now: on the type that holds most, or on all of them."""
    if room.world.is_looked_on and options:
        return room.count_hosts(role, eligibility.merged(room.world, options))
    return max((room.count_hosts(role, one.is_ok) for one in options), default=0)


def _bonds(shape: Shape) -> list[Bond]:
    return [*shape.bonds, *(bond for role in shape.roles for bond in role.bonds)]
