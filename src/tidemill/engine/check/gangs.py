"""Gangs of a plan: is each whole, of one GPU type, and in as few domains as was required?

By the labels of nodes and contracts (``rows``), not by the positions that the scheduler uses. A
bond is kept when every domain holds whole groups: then no group needs to be in two of them.
"""

from tidemill.engine.check.columns import BOND, GANG, OF, RULE, TAKES
from tidemill.engine.check.kernel import kernel
from tidemill.engine.check.telling import tell
from tidemill.model.batch import PieceColumn
from tidemill.model.columns import NODE, ROLE, SHAPE

IS_COUNT, IS_MIXED, IS_BOND, IS_ROLE_BOND = map(
    int, (RULE.COUNT, RULE.MIXED, RULE.BOND, RULE.ROLE_BOND)
)
ANY = -1


@kernel
def count_roles(nodes, roles, of_role, event_pieces, first, count, first_role, role_count):
    """Count the replicas of each role, and notice if it mixes GPU types."""
    for r in range(first_role, first_role + role_count):
        of_role[r, OF.REPLICAS] = 0
        of_role[r, OF.KIND] = ANY
        of_role[r, OF.IS_MIXED] = 0
    for i in range(first, first + count):
        role, replicas = event_pieces[i, PieceColumn.ROLE], event_pieces[i, PieceColumn.REPLICAS]
        if role < 0 or role >= role_count or replicas == 0:
            continue
        r, k = first_role + role, nodes[event_pieces[i, PieceColumn.NODE], NODE.KIND]
        of_role[r, OF.REPLICAS] += replicas
        if of_role[r, OF.KIND] not in (ANY, k) and roles[r, ROLE.ACCELERATORS]:
            of_role[r, OF.IS_MIXED] = 1
        of_role[r, OF.KIND] = k


@kernel
def in_blocks(nodes, on_device, event_pieces, first, count, role, block, sign):
    """Count the devices of a role by the block of the node that they are in."""
    for i in range(first, first + count):
        n, mask = event_pieces[i, PieceColumn.NODE], event_pieces[i, PieceColumn.DEVICES]
        if event_pieces[i, PieceColumn.ROLE] == role:
            for d in range(nodes[n, NODE.DEVICES]):
                at = nodes[n, NODE.FIRST_DEVICE] + d // block * block
                on_device[at, TAKES.SUM] += sign * (mask >> d & 1)


@kernel
def divides_blocks(nodes, on_device, event_pieces, first, count, role, block, each):
    """Whether a block of devices holds a part of a group."""
    found = False
    in_blocks(nodes, on_device, event_pieces, first, count, role, block, 1)
    for i in range(first, first + count):
        n = event_pieces[i, PieceColumn.NODE]
        for d in range(nodes[n, NODE.DEVICES]):
            if on_device[nodes[n, NODE.FIRST_DEVICE] + d, TAKES.SUM] % each != 0:
                found = True
    in_blocks(nodes, on_device, event_pieces, first, count, role, block, -1)
    return found


@kernel
def divides_domains(domain, within, event_pieces, first, count, role, tier, each):
    """Whether a domain holds a part of a group; ``each`` 0: whether there are two domains."""
    found, other = False, ANY
    for i in range(first, first + count):
        if role in (ANY, event_pieces[i, PieceColumn.ROLE]):
            at = domain[tier, event_pieces[i, PieceColumn.NODE]]
            within[at] += event_pieces[i, PieceColumn.REPLICAS]
            found = found or (each == 0 and other not in (ANY, at))
            other = at
    for i in range(first, first + count):
        at = domain[tier, event_pieces[i, PieceColumn.NODE]]
        if each and within[at] % each != 0:
            found = True
    for i in range(first, first + count):
        within[domain[tier, event_pieces[i, PieceColumn.NODE]]] = 0
    return found


@kernel
def read_bonds(w, c, f, event_pieces, first, count, e, j, s):
    """Tell which required bonds a gang breaks."""
    first_role, bonds = w.shapes[s, SHAPE.FIRST_ROLE], f.bonds
    for r in range(first_role, first_role + w.shapes[s, SHAPE.ROLES]):
        for b in range(c.of_role[r, OF.FIRST_BOND], c.of_role[r, OF.END_BOND]):
            tier, block, role = bonds[b, BOND.TIER], bonds[b, BOND.BLOCK], r - first_role
            each = bonds[b, BOND.EACH] or w.roles[r, ROLE.COUNT]
            if block:
                each *= w.roles[r, ROLE.ACCELERATORS]
                is_broken = each > 0 and divides_blocks(
                    w.nodes, c.on_device, event_pieces, first, count, role, block, each
                )
            else:
                is_broken = divides_domains(
                    f.domain, f.within, event_pieces, first, count, role, tier, each
                )
            if is_broken:
                tell(c.reg, c.wrong, IS_ROLE_BOND, e, j, role, tier)
    for b in range(f.of_shape[s, GANG.FIRST_BOND], f.of_shape[s, GANG.END_BOND]):
        tier = bonds[b, BOND.TIER]
        if divides_domains(f.domain, f.within, event_pieces, first, count, ANY, tier, 0):
            tell(c.reg, c.wrong, IS_BOND, e, j, 0, tier)


@kernel
def read_gang(w, c, f, event_pieces, first, count, e, j, s):
    """Tell what is wrong with a gang that has these pieces in all."""
    first_role, role_count = w.shapes[s, SHAPE.FIRST_ROLE], w.shapes[s, SHAPE.ROLES]
    count_roles(w.nodes, w.roles, c.of_role, event_pieces, first, count, first_role, role_count)
    for r in range(first_role, first_role + role_count):
        replicas, most = c.of_role[r, OF.REPLICAS], w.roles[r, ROLE.COUNT]
        least = w.roles[r, ROLE.LEAST] or most
        if replicas < least or replicas > most:
            tell(c.reg, c.wrong, IS_COUNT, e, j, r - first_role, replicas)
        if c.of_role[r, OF.IS_MIXED]:
            tell(c.reg, c.wrong, IS_MIXED, e, j, r - first_role, 0)
    read_bonds(w, c, f, event_pieces, first, count, e, j, s)
