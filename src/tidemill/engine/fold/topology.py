"""Folding where things are: the tiers of the fleet, the position of each node, groups of nodes.

A position is a column per tier, not a group: hundreds of racks leave as many groups of equal nodes
as there were before. Only when a job asks for the label of a tier by its value (``rack=r7``) do
groups tell such nodes apart; so it is with the other labels that are declared unasked.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidemill.core import rows
from tidemill.core.places import hop_of
from tidemill.model import events as ev
from tidemill.model.columns import AT
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Contract, Node, Role, Shape
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.topology import NO_HOP, Bond, Tier, Topology
from tidemill.model.world import Domain, Group, World


def topology_set(world: World, event: ev.TopologySet) -> list[int]:
    """The tiers are known; every node gets its position in each."""
    refuse_unless_nested(event.topology)
    if (lost := lost_tier(world, event.topology)) is not None:
        raise EventRefused(
            f"the new topology has no tier `{lost.tier}`, which the job `{lost.job}` names",
            hint="keep the tier, whatever its label and figures, until such jobs have ended",
        )
    world.topology = event.topology
    labelled = event.topology.labelled
    world.domains = [[] for _ in range(labelled)]
    world.domain_number = [{} for _ in range(labelled)]
    rows.write_tiers(world)
    position = np.zeros((labelled, len(world.ink.w.nodes)), np.int64)
    world.ink.parent = position.copy()
    world.renew(position=position)
    for n, row in enumerate(world.node_rows):
        contract = world.contract_rows[int(world.nodes.contract[n])]
        locate(world, n, (*contract.node.labels, *row.labels))
    _hide_labels(world)
    for j in sorted(world.placements):
        world.ink.jobs.hop[j] = hop_of(world.ink.w, j) if event.topology.tiers else NO_HOP
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


class LostTier(NamedTuple):
    """A tier that a topology lacks, and a job that names it and is not over."""

    tier: str
    job: str


def lost_tier(world: World, topology: Topology) -> LostTier | None:
    """What keeps a topology from being that of a cluster; None: nothing. Jobs that are over do not.

    Of several jobs the oldest.
    """
    rows, count = world.shape_rows[: world.shape_count], world.job_count
    adrift = [s for s, shape in enumerate(rows) if is_adrift(topology, shape)]
    if not adrift:
        return None
    jobs = world.jobs
    is_alive = jobs.state[:count] <= JobState.RUNNING
    named = np.flatnonzero(is_alive & np.isin(jobs.shape[:count], adrift))
    if not len(named):
        return None
    j = int(named[0])
    tiers = (bond.tier for bond in _bonds(world.shape_of(j)))
    return LostTier(min(one for one in tiers if topology.number(one) < 0), world.job_names[j])


def is_adrift(topology: Topology, shape: Shape) -> bool:
    """Whether a shape names a tier that there is not, any more or yet."""
    return any(topology.number(bond.tier) < 0 for bond in _bonds(shape))


def locate(world: World, n: int, labels: Iterable[tuple[str, str]]) -> None:
    """Write the position of a node in each tier; without the label it is an island."""
    tiers = world.topology.tiers[: len(world.domains)]
    if not tiers:
        return
    if n >= world.ink.w.position.shape[1]:
        rows = len(world.ink.w.nodes)
        world.ink.parent = _widened(world.ink.parent, rows)
        world.renew(position=_widened(world.ink.w.position, rows))
    values, d = dict(labels), -1
    for t, tier in enumerate(tiers):
        value = values.get(tier.label)
        domain = Domain(d, value or "", n if value is None else -1)
        d = world.domain_number[t].setdefault(domain, len(world.domains[t]))
        if d == len(world.domains[t]):
            world.domains[t].append(domain)
            world.ink.parent[t, d] = domain.parent
        world.ink.w.position[t, n] = d


def group(world: World, k: int, contract: Contract, row: Node) -> Group:
    """The group of a node: its kind, pool, taints and the labels that some job may ask for."""
    labels = frozenset(contract.node.labels) | frozenset(row.labels)
    if world.hidden_labels:
        labels = frozenset(pair for pair in labels if pair[0] not in world.hidden_labels)
    taints = frozenset((*contract.node.taints, *row.taints))
    return Group(k, contract.pool, labels, taints)


def group_number(world: World, group: Group) -> int:
    """The number of a group, new or old."""
    if group not in world.group_number:
        world.group_number[group] = len(world.groups)
        world.groups.append(group)
    return world.group_number[group]


def reveal_labels(world: World, roles: tuple[Role, ...]) -> None:
    """Tell nodes apart by the labels that these roles ask for, if groups left them out so far."""
    if world.hidden_labels and any(
        key in world.hidden_labels for role in roles for key in role.rules.keys
    ):
        _hide_labels(world, roles)


def refuse_bonds(topology: Topology, name: str, shape: Shape) -> None:
    """Refuse bonds that no placement could be judged by."""
    for bond in _bonds(shape):
        if topology.number(bond.tier) < 0:
            known = ", ".join(f"`{tier.name}`" for tier in topology.tiers) or "none"
            raise EventRefused(
                f"job `{name}` {'requires' if bond.is_required else 'prefers'} one `{bond.tier}`;"
                f" tiers that this fleet declares: {known}",
                hint="declare the tier in the topology of the fleet before the job, or omit it",
            )
    for bond in shape.bonds:
        tier = topology.tiers[topology.number(bond.tier)]
        if bond.each or (tier.devices and len(shape.roles) > 1):
            raise EventRefused(
                f"job `{name}` ties its whole gang to `{bond.tier}` by groups or inside a node",
                hint="a gang is tied whole, at the node or outside; tie roles for the rest",
            )
    if shape.elastic_role is not None and any(bond.is_required for bond in _bonds(shape)):
        raise EventRefused(
            f"job `{name}` is elastic and must sit in one `{_bonds(shape)[0].tier}`",
            hint="prefer the tier instead of requiring it: what grows may have to go elsewhere",
        )
    for role in shape.roles:
        _refuse_role(topology, name, role)


def _refuse_role(topology: Topology, name: str, role: Role) -> None:
    for bond in role.bonds:
        if bond.each and role.count % bond.each:
            raise EventRefused(
                f"job `{name}` role `{role.name}` has {role.count} replicas, tied {bond.each} by"
                f" {bond.each} to `{bond.tier}`",
                hint="make the number of replicas a multiple of the group",
            )
    required = sorted(
        ((topology.number(bond.tier), bond.each or role.count) for bond in role.bonds
         if bond.is_required), reverse=True,
    )  # fmt: skip
    inside = [t for t, _ in required if topology.tiers[t].devices]
    sizes = [each for _, each in required]
    is_nested = all(outer % inner == 0 or inner % outer == 0 for inner, outer in pairwise(sizes))
    if len(inside) > 1 or not is_nested:
        raise EventRefused(
            f"job `{name}` role `{role.name}` has required topology constraints that do not nest",
            hint="use one inside the node, and groups of which each is a multiple of the smaller",
        )


def refuse_unless_nested(topology: Topology) -> None:
    """Refuse tiers that are named twice, out of order or that do not divide each other."""
    tiers = topology.tiers
    names, labels = [tier.name for tier in tiers], [tier.label for tier in tiers if tier.label]
    if len({*names}) < len(names) or len({*labels}) < len(labels):
        raise EventRefused(
            f"a topology names a tier or a label twice: {', '.join(names)}",
            hint="give every tier a name and a label of its own",
        )
    if [*tiers] != sorted(tiers, key=_depth) or sum(_depth(t) == (1, 0) for t in tiers) > 1:
        raise EventRefused(
            f"the tiers {', '.join(f'`{name}`' for name in names)} are not in order",
            hint="first those with a label, outermost first; then the node; then device blocks",
        )
    for tier in tiers:
        if tier.label and tier.devices:
            raise EventRefused(
                f"tier `{tier.name}` has both a label and a number of devices",
                hint="a label is for tiers outside the node, devices for blocks inside it",
            )
    blocks = [tier.devices for tier in tiers if tier.devices]
    for outer, inner in pairwise(blocks):
        if outer % inner or outer == inner:
            raise EventRefused(
                f"blocks of {inner} devices do not divide blocks of {outer}",
                hint="use sizes that go into each other, such as 8, 4, 2",
            )


def _depth(tier: Tier) -> tuple[int, int]:
    """Where a tier belongs: outside the node, the node, inside it."""
    return (0, 0) if tier.label else (2, -tier.devices) if tier.devices else (1, 0)


def _bonds(shape: Shape) -> list[Bond]:
    return [*shape.bonds, *(bond for role in shape.roles for bond in role.bonds)]


def _hide_labels(world: World, roles: tuple[Role, ...] = ()) -> None:
    """Find which labels nobody asks for, and group the nodes by the others."""
    known = (role for shape in world.shape_rows for role in shape.roles)
    asked = {key for role in (*known, *roles) for key in role.rules.keys}
    labels = {tier.label for tier in world.topology.tiers if tier.label}
    labels.update(world.topology.unasked)
    hidden = tuple(sorted(labels - asked))
    if hidden == world.hidden_labels:
        return
    world.hidden_labels = hidden
    for n, row in enumerate(world.node_rows):
        contract = world.contract_rows[int(world.nodes.contract[n])]
        found = group(world, int(world.nodes.kind[n]), contract, row)
        world.ink.nodes.group[n] = group_number(world, found)
    world.changes.forget()
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1


def _widened(array: I64, rows: int) -> I64:
    wider = np.zeros((array.shape[0], rows), np.int64)
    wider[:, : array.shape[1]] = array
    return wider
