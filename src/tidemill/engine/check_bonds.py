"""The second reader on bonds: is every group of replicas inside one domain, as was required?

By the labels of nodes and contracts, not by the positions that the scheduler uses. A bond is kept
when every domain holds whole groups: then no group needs to be in two of them.
"""

from collections import Counter
from collections.abc import Sequence

from tidemill.model.rows import Piece, Role
from tidemill.model.topology import Bond, Tier
from tidemill.model.world import World

Domain = tuple[str, ...]
Pieces = tuple[Piece, ...]


def broken(world: World, j: int, pieces: Pieces, lost: Pieces = ()) -> list[str]:
    """The required bonds that a gang breaks on these pieces, less those it loses; in words."""
    shape, name = world.shape_of(j), world.job_names[j]
    pieces = _left(pieces, lost)
    found = []
    for r, role in enumerate(shape.roles):
        mine = [piece for piece in pieces if piece.role == r]
        bonds = (*role.bonds, *(shape.bonds if len(shape.roles) == 1 else ()))
        found += [
            f"job `{name}` role `{role.name}` is not inside one `{bond.tier}`"
            for bond in bonds
            if bond.is_required and not _keeps(world, bond, role, mine)
        ]
    if len(shape.roles) > 1:
        found += [
            f"job `{name}` is not inside one `{bond.tier}`"
            for bond in shape.bonds
            if bond.is_required and len({_domain(world, bond, piece.node) for piece in pieces}) > 1
        ]
    return found


def _left(pieces: Pieces, lost: Pieces) -> Pieces:
    """What is left of some pieces when others are taken off them."""
    replicas, devices = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for piece in lost:
        replicas[piece.role, piece.node] += piece.replicas
        devices[piece.role, piece.node] = devices.get((piece.role, piece.node), 0) | piece.devices
    found = []
    for piece in pieces:
        where = (piece.role, piece.node)
        gone = min(piece.replicas, replicas[where])
        replicas[where] -= gone
        mask = piece.devices & ~devices.get(where, 0)
        if gone < piece.replicas:
            found.append(Piece(piece.role, piece.node, piece.replicas - gone, mask))
    return tuple(found)


def _keeps(world: World, bond: Bond, role: Role, pieces: Sequence[Piece]) -> bool:
    each, sums = bond.each or role.count, Counter[Domain]()
    block = _tier(world, bond).devices
    if not block:
        for piece in pieces:
            sums[_domain(world, bond, piece.node)] += piece.replicas
        return all(count % each == 0 for count in sums.values())
    for piece in pieces:
        for d in range(piece.devices.bit_length()):
            sums[f"{piece.node}", f"{d // block}"] += piece.devices >> d & 1
    return all(count % (each * role.accelerators) == 0 for count in sums.values())


def _domain(world: World, bond: Bond, n: int) -> Domain:
    """The domain of a node as the values of its labels, from the outside in."""
    contract = world.contract_rows[int(world.nodes.contract[n])]
    labels = {**dict(contract.node.labels), **dict(world.node_rows[n].labels)}
    values: list[str] = []
    for tier in world.topology.tiers:
        if not tier.label:
            return (*values, f"node {n}")
        values += ["", labels[tier.label]] if tier.label in labels else [f"alone {n}"]
        if tier.name == bond.tier:
            break
    return tuple(values)


def _tier(world: World, bond: Bond) -> Tier:
    return next(tier for tier in world.topology.tiers if tier.name == bond.tier)
