"""Contract capacity: what the nodes of contracts hold of a role when all is well and nothing runs.

What a contract promises, less what its nodes are seen not to be; of a live cluster, the nodes that
are there.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tidemill.model.rows import Contract, Role
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig

PER_DEVICE = 1000
SHUT = (NodeState.UNHEALTHY, NodeState.CORDONED, NodeState.DRAINING, NodeState.REPAIRING)
"""States of nodes that are there, and take no work until somebody mends or opens them."""
Mask = NDArray[np.bool_]


def kinds_that_hold(world: World, role: Role) -> list[str]:
    """The GPU types of which contracts, when all is well and nothing runs, hold all its replicas;
    where none does, or another scheduler asks each replica alone, those of which they hold some.
    """
    hosts = hosts_by_kind(world, role, running_contracts(world, role))
    all_of_it = [] if world.is_looked_on else [k for k, n in hosts.items() if n >= role.count]
    return all_of_it or [k for k, n in hosts.items() if n]


def holding(world: World, role: Role, kinds: Sequence[int]) -> list[bool]:
    """For each of these GPU types (-1: any), whether contracts hold all replicas of a role on it.

    Where they do on none, all of them count.
    """
    if len(kinds) < 2:
        return [True] * len(kinds)
    able = {world.kind_number[kind] for kind in kinds_that_hold(world, role)}
    found = [k in able for k in kinds]
    return found if any(found) else [True] * len(kinds)


def hosts_by_kind(world: World, role: Role, rows: Iterable[Contract]) -> dict[str, int]:
    """How many replicas the nodes of these contracts would hold, by GPU type."""
    found: dict[str, int] = {}
    for row, nodes in usable(world, role, rows):
        found[row.kind] = found.get(row.kind, 0) + replicas_per_node(row, role) * nodes
    return found


def usable(world: World, role: Role, rows: Iterable[Contract]) -> Iterator[tuple[Contract, int]]:
    """The contracts that have nodes which a role may use, and how many when all is well."""
    for row in rows:
        if not could_match(world, row, role):
            continue
        nodes = matching_nodes(world, row, role)
        if nodes or not nodes_in_use(world, row):  # all of them may be spares
            yield row, nodes


def running_contracts(world: World, role: Role) -> list[Contract]:
    """The contracts that claim something, of GPU types that a role may use."""
    rows = (row for c, row in enumerate(world.contract_rows) if claims_something(world, c))
    return [row for row in rows if not role.kinds or row.kind in role.kinds]


def claims_something(world: World, c: int) -> bool:
    """Whether a contract is not over; of a live cluster, which promises no nodes, has some."""
    is_over = world.contract_rows[c].end_ms <= world.now_ms
    return not is_over and (not world.is_observed or world.contracts.nodes.item(c) > 0)


def replicas_per_node(contract: Contract, role: Role) -> int:
    """How many replicas an empty node of this contract hosts."""
    node = contract.node
    most = 1 << 30
    if role.profile:
        most = node.devices * mig.most(contract.kind, role.profile, role.milli)
    elif role.accelerators:
        most = node.devices * (PER_DEVICE // role.milli) // role.accelerators
    if role.cpu_milli:
        most = min(most, node.cpu_milli // role.cpu_milli)
    if role.memory_mib:
        most = min(most, node.memory_mib // role.memory_mib)
    return most


def nodes_in_use(world: World, contract: Contract) -> int:
    """How many nodes of this contract take work when all is well: all but the spares; of a live
    cluster, which promises no nodes, those that are there.
    """
    if world.is_observed:
        return world.contracts.nodes.item(world.contract_number[contract.name]) - contract.spares
    return promised_nodes(contract)


def devices(world: World, contract: Contract) -> int:
    """How many accelerators a contract promises; of a live cluster, those that are there."""
    if world.is_observed:
        there = world.contracts.nodes.item(world.contract_number[contract.name])
        return there * contract.node.devices
    return contract.count


def promised_nodes(contract: Contract) -> int:
    """How many nodes a contract has, all but the spares."""
    return contract.count // contract.node.devices - contract.spares


def could_match(world: World, contract: Contract, role: Role) -> bool:
    """Whether a role may be on any of the contract's nodes, as promised or as seen."""
    if _is_promised(contract, role):
        return not _may_be_repelled(world, role) or matching_nodes(world, contract, role) > 0
    return any(
        group.pool == contract.pool
        and world.kinds[group.kind] == contract.kind
        and role.rules.allow(group.labels, group.taints)
        for group in world.groups
    )


def matching_nodes(world: World, contract: Contract, role: Role) -> int:
    """How many nodes of a contract a role may use: those promised, less those seen not to be such.

    Where none is promised: those seen to be such.
    """
    is_promised = _is_promised(contract, role)
    if is_promised and not _may_be_repelled(world, role):
        return nodes_in_use(world, contract)
    mine, may = _seen(world, contract, role)
    if not is_promised:
        return int((mine & may).sum())
    return max(0, nodes_in_use(world, contract) - int((mine & ~may).sum()))


def shut_nodes(world: World, contract: Contract, role: Role) -> list[int]:
    """The nodes of a contract that a role may use, and that take no work now; no spares."""
    nodes, rows = world.nodes, world.node_count
    mine, may = _seen(world, contract, role)
    is_shut = np.isin(nodes.state[:rows], SHUT) & (nodes.is_spare[:rows] == 0)
    found: list[int] = np.flatnonzero(mine & may & is_shut).tolist()
    return found


def lost_replicas(world: World, contract: Contract, role: Role) -> dict[int, int]:
    """By node of a contract: how many replicas it does not host as it is now, and would if all was
    well: it takes no work, or devices of it failed.
    """
    each = replicas_per_node(contract, role)
    found = dict.fromkeys(shut_nodes(world, contract, role), each)
    mine, may = _seen(world, contract, role)
    nodes, rows = world.nodes, world.node_count
    for n in np.flatnonzero(mine & may & (nodes.failed[:rows] > 0)).tolist():
        left = nodes.devices.item(n) - nodes.failed.item(n)
        less = each - replicas_per_node(_with_devices(contract, left), role)
        if less and n not in found and not nodes.is_spare[n]:
            found[n] = less
    return found


def is_short(world: World, n: int) -> bool:
    """Whether a node takes work, and devices of it failed."""
    return world.nodes.state.item(n) not in SHUT and bool(world.nodes.failed.item(n))


def _with_devices(contract: Contract, devices: int) -> Contract:
    return replace(contract, node=replace(contract.node, devices=devices))


def _seen(world: World, contract: Contract, role: Role) -> tuple[Mask, Mask]:
    """Of each node: whether it is there and of a contract, and whether a role may be on it."""
    rules, nodes = role.rules, world.nodes
    c, rows = world.contract_number[contract.name], world.node_count
    is_ok = np.array([rules.allow(g.labels, g.taints) for g in world.groups], bool)
    mine = (nodes.contract[:rows] == c) & (nodes.state[:rows] != NodeState.GONE)
    return mine, is_ok[nodes.group[:rows]] if rows else mine


def _is_promised(contract: Contract, role: Role) -> bool:
    """Whether all nodes of a contract are such as a role may be on, unless one is seen not to."""
    node = contract.node
    return role.rules.allow(frozenset(node.labels), frozenset(node.taints))


def _may_be_repelled(world: World, role: Role) -> bool:
    """Whether single nodes may keep a role away: by taints, or by labels that it does not want."""
    return bool(role.affinity) or any(group.taints for group in world.groups)


class SmallKinds:
    """Of which GPU types contracts have too few for a role, by GPUs alone, whatever became of them:
    nobody keeps what is free of these from it.
    """

    def __init__(self, contracts: Sequence[Contract]) -> None:
        self._contracts = contracts
        self._kinds = {row.kind for row in contracts}
        self._of: dict[tuple[int, ...], tuple[str, ...]] = {}

    def of(self, role: Role) -> tuple[str, ...]:
        """The types that do not hold all its replicas, where another that it may use does."""
        if role.profile or not role.accelerators or len(self._kinds) < 2:
            return ()
        size = (role.milli, role.accelerators, role.least or role.count)
        if size not in self._of:
            self._of[size] = self._too_small(*size)
        small = self._of[size]
        able = self._kinds.difference(small)
        return small if able.intersection(role.kinds or able) else ()

    def _too_small(self, milli: int, accelerators: int, count: int) -> tuple[str, ...]:
        hosts = dict.fromkeys(self._kinds, 0)
        for row in self._contracts:
            per_node = row.node.devices * (PER_DEVICE // milli) // accelerators
            hosts[row.kind] += promised_nodes(row) * per_node
        return tuple(sorted(kind for kind, most in hosts.items() if most < count))
