"""Gangs over several GPU types: whether one fits where each replica may be on another type.

Tidemill's own scheduler has the replicas of a role on one type. A scheduler of somebody else's asks
each replica alone, so that a cluster which is looked on is asked for all types together.
"""

from msgspec.structs import replace

from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, eligibility, shares
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import Options, may_redo, undo
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot


def most(world: World, hosts: dict[str, int]) -> int:
    """Of the replicas that each GPU type holds, those that a role may have at once."""
    return sum(hosts.values()) if world.is_looked_on else max(hosts.values(), default=0)


def may_mix(world: World, shape: Shape, options: Options) -> bool:
    """Whether replicas of a role may be on several types here; not where they are tied."""
    return are_asked_alone(world, shape) and any(
        role.accelerators and role.count > 1 and len(able) > 1
        for role, able in zip(shape.roles, options, strict=True)
    )


def are_asked_alone(world: World, shape: Shape) -> bool:
    """Whether whoever decides asks each replica of a gang alone, whatever types the others have."""
    return world.is_looked_on and not any(bond.is_required for bond in _bonds(shape))


def needs(world: World, shape: Shape) -> bool:
    """Whether some role is larger than each of the types alone, if nothing ran."""
    for role in shape.roles:
        rows = contract_capacity.running_contracts(world, role)
        held = contract_capacity.hosts_by_kind(world, role, rows)
        if len(held) > 1 and role.count > max(held.values()):
            return world.is_looked_on
    return False


def fits(room: Snapshot, q: int, shape: Shape, options: Options) -> bool:
    """Whether a gang fits over all types that it may use, within the quotas of each.

    Roles with the least choice of types go first, and of those the largest replicas.
    """
    if not may_mix(room.world, shape, options):
        return False
    pieces: tuple[Piece, ...] = ()
    order = sorted(
        range(len(shape.roles)), key=lambda r: (len(options[r]), -shape.roles[r].replica_milli)
    )
    for r in order:
        found = _put(room, q, shape, r, options[r])
        pieces += found
        if sum(piece.replicas for piece in found) < shape.roles[r].count:
            undo(room, q, shape, pieces)
            return False
    undo(room, q, shape, pieces)
    return may_redo(room, q, shape, pieces)


def _put(
    room: Snapshot, q: int, shape: Shape, r: int, options: tuple[Option, ...]
) -> tuple[Piece, ...]:
    """Put what replicas of a role there is room for on one type after the other, and book them."""
    role, pieces, left = shape.roles[r], tuple[Piece, ...](), shape.roles[r].count
    if not role.accelerators:
        options = (eligibility.anywhere(room.world, role),)
    for option in options:
        if count := may_hold(room, q, replace(role, count=left), option):
            filled = room.fill(replace(role, count=count), option.is_ok, PACKING)
            found = tuple(Piece(r, *one) for one in filled.placed)
            room.book(q, shape, found, 1)
            pieces, left = pieces + found, left - sum(piece.replicas for piece in found)
    return pieces


def may_hold(room: Snapshot, q: int, role: Role, option: Option) -> int:
    """How many replicas of a role one type takes now, within quotas and what others keep back."""
    high, k, need = min(room.count_hosts(role, option.is_ok), role.count), option.kind, 0
    if k >= 0 and (need := role.replica_milli):
        high = min(high, room.kind_free.item(k) // need)
    low = 0 if need else high
    while low < high:
        middle = (low + high + 1) // 2
        if shares.allow(room.world, room, room.kind_free, q, k, middle * need):
            low = middle
        else:
            high = middle - 1
    return low


def hosts(room: Snapshot, role: Role, options: tuple[eligibility.Option, ...]) -> int:
    """How many replicas of a role fit now: on the type that holds most, or on all of them."""
    if room.world.is_looked_on and options:
        return room.count_hosts(role, eligibility.merged(room.world, options))
    return max((room.count_hosts(role, one.is_ok) for one in options), default=0)


def _bonds(shape: Shape) -> list[Bond]:
    return [*shape.bonds, *(bond for role in shape.roles for bond in role.bonds)]
