"""Wishes: the bonds of a gang as a ladder of what to try, from all that is wished to what must be.

A rung says how replicas are grouped: so many in one block of devices, so many of those in one node,
in one rack, and so on. The first rung keeps every bond at its own tier. Each next one lets the last
preferred bond go one tier further out, until only required bonds are left: since a gang is as slow
as its slowest group, nothing is lost by moving all groups of one bond together.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidemill.model.rows import Role, Shape
from tidemill.model.tables import I64
from tidemill.model.topology import Bond, Topology
from tidemill.units import parallelism

SHAPES_KEPT = 4096


class Rung(NamedTuple):
    """One way to tie the replicas of a role.

    ``each`` replicas in a block of ``block`` devices (0: anywhere on a node), ``ratio[t]`` such
    groups in a domain of tier ``t`` (the last is the node), and so on outwards; ``want`` groups of
    the outermost kind, over domains of tier ``top``.
    """

    block: int
    each: int
    ratio: I64
    top: int
    want: int


class Scope(NamedTuple):
    """A tier in one domain of which a whole gang of several roles is to sit."""

    tier: int
    is_required: bool


class Wishes(NamedTuple):
    """For each role its ladder, for a gang of several roles its scopes; narrowest first."""

    ladders: tuple[tuple[Rung, ...], ...]
    scopes: tuple[Scope, ...]
    is_binding: bool
    """Whether anything is required: wishes alone never keep a gang from its place."""


def of(topology: Topology, shape: Shape) -> Wishes | None:
    """The wishes of a shape; None when it has none, and any placement is as good."""
    if not (shape.bonds or shape.parallelism or any(role.bonds for role in shape.roles)):
        return None
    return _of(topology, shape)


def required(topology: Topology, role: Role, bonds: tuple[Bond, ...]) -> Rung:
    """How the replicas of a role must be tied, whatever else is wished."""
    musts = [(topology.number(bond.tier), bond.each) for bond in _known(topology, bonds)
             if bond.is_required]  # fmt: skip
    rung = _rung(topology, role.count, musts)
    assert rung is not None, "bonds that do not nest are refused when they are submitted"
    return rung


def of_role(shape: Shape, r: int) -> tuple[Bond, ...]:
    """The bonds of one role; a role that is alone has those of its gang too."""
    alone = len(shape.roles) == 1
    return shape.roles[r].bonds + (shape.bonds if alone else ())


@lru_cache(SHAPES_KEPT)
def _of(topology: Topology, shape: Shape) -> Wishes:
    derived = parallelism.bonds(topology, shape)
    ladders = tuple(
        _ladder(topology, role, (*role.bonds, *derived[r], *of_role(shape, r)[len(role.bonds) :]))
        for r, role in enumerate(shape.roles)
    )
    bonds = (*shape.bonds, *(bond for role in shape.roles for bond in role.bonds))
    return Wishes(
        ladders,
        _scopes(topology, shape) if len(shape.roles) > 1 else (),
        any(bond.is_required for bond in bonds),
    )


def _known(topology: Topology, bonds: tuple[Bond, ...]) -> tuple[Bond, ...]:
    """Those of tiers that there are: only jobs that are over name one that was taken away."""
    return tuple(bond for bond in bonds if topology.number(bond.tier) >= 0)


def _ladder(topology: Topology, role: Role, bonds: tuple[Bond, ...]) -> tuple[Rung, ...]:
    bonds = _known(topology, bonds)
    musts = [(topology.number(bond.tier), bond.each) for bond in bonds if bond.is_required]
    wished = [(topology.number(bond.tier), bond.each) for bond in bonds if not bond.is_required]
    rungs: list[Rung] = []
    while True:
        rung = _rung(topology, role.count, musts + wished)
        if rung is not None and not any(_is_same(rung, known) for known in rungs):
            rungs.append(rung)
        if not wished:
            return tuple(rungs)
        tier, each = wished.pop()
        if tier > 0:
            wished.append((tier - 1, each))


def _rung(topology: Topology, count: int, bonds: list[tuple[int, int]]) -> Rung | None:
    """Bonds as one nest of groups, innermost first; None where they do not go into each other."""
    nodes = topology.labelled
    ratio = np.ones(nodes + 1, np.int64)
    block, each, size, top = 0, 1, 1, nodes if count == 1 else 0
    for tier, asked in sorted(bonds, reverse=True):
        wanted = asked or count
        devices = topology.tiers[tier].devices
        if devices and block:
            return None
        if devices:
            block, each = devices, wanted
        elif wanted <= size:
            if size % wanted:
                return None
            continue
        elif wanted % size:
            return None
        else:
            ratio[min(tier, nodes)] *= wanted // size
        size = wanted
        if size == count:
            top = min(tier, nodes)
    if count % size:
        return None
    ratio.setflags(write=False)
    return Rung(block, each, ratio, top, count // size)


def _is_same(one: Rung, other: Rung) -> bool:
    return one[:2] + one[3:] == other[:2] + other[3:] and bool((one.ratio == other.ratio).all())


def _scopes(topology: Topology, shape: Shape) -> tuple[Scope, ...]:
    """Preferred tiers from the innermost outwards, then the innermost that is required."""
    bonds = _known(topology, shape.bonds)
    musts = [topology.number(bond.tier) for bond in bonds if bond.is_required]
    wished = [topology.number(bond.tier) for bond in bonds if not bond.is_required]
    floor = max(musts, default=-1)
    scopes = [Scope(t, is_required=False) for t in range(max(wished, default=-1), floor, -1)]
    return (*scopes, Scope(floor, is_required=True)) if musts else tuple(scopes)
