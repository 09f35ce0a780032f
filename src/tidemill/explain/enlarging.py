"""Enlarging: what has to be bought or launched, and which quotas have to allow it first.

Nodes that a maximum quota keeps a job from using are no help: where its team, or one above it, may
not use as much, the raise and the nodes are one fix. How many nodes is counted so that the job runs
when nothing else does. Of a gang that has to be in one place nothing is said: where a new node will
be nobody knows.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import certificates, phrasing, prices, quota, told
from tidemill.explain.answers import PricedFix
from tidemill.explain.context import Case
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Queue, Role, Shape
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, diagnose, elastic, shares

_PER_DEVICE = contract_capacity.PER_DEVICE


class _Enlargement(NamedTuple):
    """So many nodes more under a contract, and what the teams may use then."""

    row: Contract
    nodes: int
    raised: tuple[Queue, ...]

    @property
    def usd_micro(self) -> int:
        """What they cost an hour, where that is known."""
        return self.nodes * self.row.node.devices * self.row.rate_usd_micro


def more(case: Case) -> tuple[PricedFix, ...]:
    """What else helps a job that never fits, for which something is to be paid."""
    return _MORE.get(case.cause, _nothing)(case)


def launch(case: Case, replicas: int) -> PricedFix | None:
    """Nodes that may be launched; where its team uses too much now, once that has ended."""
    found, bound = prices.launch(case, replicas), quota.binds(case)
    if found is not None or bound is None:
        return found
    uses = f"it uses {phrasing.amount(bound.used)} of {bound.bound} `{bound.kind}`{bound.below}"
    lacking = max(1, case.role.count - prices.most_ready(case))
    whose = phrasing.team(bound.name)
    return prices.launch(case, lacking, f"wait until jobs of {whose} end ({uses})")


def _nothing(case: Case) -> tuple[PricedFix, ...]:  # noqa: ARG001 - one signature for the table
    return ()


def _sign(case: Case) -> tuple[PricedFix, ...]:
    """What nobody has: of the types that it names, those that its team may use as they are."""
    world, role = case.world, case.role
    raises = {kind: _raised(case, kind, role.total_milli) for kind in role.kinds}
    free = tuple(kind for kind, rows in raises.items() if not rows)
    kinds = free or role.kinds[:1]
    asked = phrasing.units(role.total_milli, replace(role, kinds=kinds))
    do = f"{'add nodes with' if world.is_observed else 'sign a contract for'} {asked}"
    rows = () if free or not kinds else raises[kinds[0]]
    return (PricedFix(_with(case, rows, kinds[0] if kinds else "", do), None, sets=rows),)


def _widen(case: Case) -> tuple[PricedFix, ...]:
    """As many more nodes as the gang lacks, of the type of which the fewest are lacking and at the
    cheapest rate paid now; a price that is known goes first, and what needs no larger quota.
    """
    shape = elastic.smallest(case.shape)
    if any(bond.is_required for bond in (*shape.bonds, *(b for r in shape.roles for b in r.bonds))):
        return ()
    offers = list[_Enlargement]()
    for c in case.supply.contracts:
        row = case.world.contract_rows[c].at(case.world.now_ms)
        if nodes := _lacking(case.world, shape, case.role, row):
            offers.append(_Enlargement(row, nodes, _raised(case, row.kind, _on(shape, row.kind))))
    if not offers:
        return ()
    best = min(
        offers, key=lambda one: (len(one.raised), one.nodes, not one.row.is_priced, one.usd_micro)
    )
    count = phrasing.many(best.nodes, "node")
    kind, name = best.row.kind, best.row.name
    is_observed = case.world.is_observed
    size = best.row.node.devices
    do = (
        f"add {count} of {size}×`{kind}`"
        if is_observed
        else f"enlarge contract `{name}` by {count}"
    )
    words = _with(case, best.raised, kind, do) + _while_out(case, shape, best)
    usd = best.usd_micro if best.row.is_priced else None
    return (PricedFix(words, usd, sets=best.raised),)


_MORE: dict[Cause, Callable[[Case], tuple[PricedFix, ...]]] = {
    Cause.NOTHING_CLAIMED: _sign,
    Cause.IMPOSSIBLE_GANG: _widen,
    Cause.OVER_LIMIT_ALWAYS: _widen,
}


def _with(case: Case, raised: tuple[Queue, ...], kind: str, do: str) -> str:
    """What to do, and the limits to raise first."""
    if raised:
        return f"{quota.words(case, case.world.kind_number[kind], raised)} and {do}"
    if told.names_limit(case.world, case.j) and case.cause is not Cause.OVER_LIMIT_ALWAYS:
        return f"raise the limit that its own scheduler names, and {do}"
    return do


def _raised(case: Case, kind: str, milli: int) -> tuple[Queue, ...]:
    """The queues whose maximum of a type is below this, each raised to it."""
    k = case.world.kind_number.get(kind)
    return () if k is None else quota.raised_for_good(case, k, milli)


def _on(shape: Shape, kind: str) -> int:
    """What the roles request that may be on a type."""
    return sum(role.total_milli for role in shape.roles if not role.kinds or kind in role.kinds)


def _lacking(world: World, shape: Shape, role: Role, row: Contract) -> int:
    """How many nodes of a contract a gang lacks, if nothing ran; 0: none, or they would not do."""
    per_node = contract_capacity.replicas_per_node(row, role)
    if not per_node or not contract_capacity.matching_nodes(world, row, role):
        return 0
    rows = contract_capacity.running_contracts(world, role)
    hosts = contract_capacity.hosts_by_kind(world, role, rows)
    there = sum(hosts.values()) if world.is_looked_on else hosts[row.kind]
    nodes = -(-(role.count - there) // per_node)
    if sum(one.accelerators > 0 for one in shape.roles) > 1:
        nodes = max(nodes, _beside_each_other(world, shape, row))
    return max(nodes, _unlent(world, shape, row)) if nodes > 0 else 0


def _while_out(case: Case, shape: Shape, best: _Enlargement) -> str:
    """How many it has to be as long as others take no work, or less than they could; "": no more.

    Of several roles nothing is said.
    """
    world, role, row = case.world, case.role, best.row
    rows = [
        one for one in contract_capacity.running_contracts(world, role)
        if world.is_looked_on or one.kind == row.kind
    ]  # fmt: skip
    out = dict[int, int]()
    for one in rows:
        out |= contract_capacity.lost_replicas(world, one, role)
    there = sum(contract_capacity.hosts_by_kind(world, role, rows).values()) - sum(out.values())
    nodes = -(-(role.count - there) // contract_capacity.replicas_per_node(row, role))
    if nodes <= best.nodes or sum(one.accelerators > 0 for one in shape.roles) > 1:
        return ""
    more = phrasing.many(nodes, "more node")
    return f"; {certificates.out_now(world, sorted(out))}: until that ends {more}"


def _beside_each_other(world: World, shape: Shape, row: Contract) -> int:
    """How many nodes several roles lack that share none: the largest is seated first, on a type
    that has room for all of it, and else on nodes of this contract.
    """
    free, each = dict[str, int](), dict[str, Contract]()
    for one in contract_capacity.running_contracts(world, Role()):
        free[one.kind] = free.get(one.kind, 0) + contract_capacity.nodes_in_use(world, one)
        each.setdefault(one.kind, one)
    each[row.kind], lacking = row, 0
    roles = [role for role in shape.roles if role.accelerators]
    for role in sorted(roles, key=lambda role: -role.total_milli):
        need = {kind: _nodes_for(role, one) for kind, one in each.items()}
        room = [kind for kind, n in need.items() if 0 < n <= free[kind]]
        kind = max(room, key=lambda kind: (free[kind] - need[kind], kind), default=row.kind)
        if not need[kind]:  # another type than this contract has
            return 0
        lacking += max(0, need[kind] - free[kind])
        free[kind] = max(0, free[kind] - need[kind])
    return lacking


def _nodes_for(role: Role, row: Contract) -> int:
    """How many empty nodes of a contract all replicas of a role take; 0: none would do."""
    per_node = contract_capacity.replicas_per_node(row, role)
    is_kind = not role.kinds or row.kind in role.kinds
    return -(-role.count // per_node) if per_node and is_kind else 0


def _unlent(world: World, shape: Shape, row: Contract) -> int:
    """How many nodes have to come so that what other teams keep back leaves enough."""
    if not world.tree.keeps:
        return 0
    q, k, need = world.queue_of(shape), world.kind_number[row.kind], _on(shape, row.kind)
    kept = shares.kept_after(world, shares.when_idle(world), q, k, need)
    short = need + kept - diagnose.claimed_milli(world, k)
    return -(-short // (row.node.devices * _PER_DEVICE))
