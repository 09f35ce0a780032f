"""Hops: how far apart a placement is, group by group, and what that costs in time.

The hop of a group is the innermost tier that holds it; a gang is as slow as the worst of its
groups. Groups are as well arranged as they can be: a domain with whole groups of replicas splits
none.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidemill.model.rows import Piece, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.topology import APART, NO_HOP
from tidemill.model.world import World
from tidemill.units import parallelism, slowdown


class Sizes(NamedTuple):
    """The accelerators of the largest domain of each tier: what could be held together at best."""

    devices: tuple[int, ...]

    def hop(self, devices: int) -> int:
        """The innermost tier that could hold so many accelerators."""
        holding = [t for t, size in enumerate(self.devices) if size >= devices]
        return max(holding) + 1 if holding else APART


def sizes(world: World) -> Sizes:
    """Look at the whole fleet once."""
    nodes, rows = world.nodes, world.node_count
    devices = np.where(nodes.state[:rows] == NodeState.GONE, 0, nodes.devices[:rows])
    most = int(devices.max(initial=0))
    found = []
    for t, tier in enumerate(world.topology.tiers):
        if tier.label:
            sums = np.bincount(world.position[t, :rows], devices, 1)
            found.append(int(sums.max()))
        else:
            found.append(min(most, tier.devices or most))
    return Sizes(tuple(found))


def hop_of_groups(world: World, pieces: Iterable[Piece], each: int) -> int:
    """The innermost tier at which every domain holds whole groups of ``each`` replicas."""
    rows = [(piece.node, piece.replicas) for piece in pieces]
    nodes, replicas = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    labelled, tiers = len(world.domains), world.topology.tiers
    found = APART
    for t in range(labelled):
        if not _is_whole(world.position[t, nodes], replicas, each):
            return found
        found = t + 1
    if len(tiers) > labelled and not tiers[labelled].devices and _is_whole(nodes, replicas, each):
        found = labelled + 1
    return found


def slow_ppm(world: World, j: int, fleet: Sizes) -> int:
    """How much longer the steps of a job take where it sits than at the best place for it.

    By its parallelism and model where both are stated, else by the share of its time on links;
    0 where neither is known.
    """
    topology, hop = world.topology, int(world.jobs.hop[j])
    if hop == NO_HOP or not topology.tiers:
        return 0
    shape, pieces = world.shape_of(j), world.placements[j]
    found = _by_parallelism(world, shape, pieces, fleet)
    if found is not None:
        return found
    best = fleet.hop(-(-shape.total_milli // 1000))
    return slowdown.share_slow_ppm(topology, int(world.jobs.links_ppm[j]), hop, max(hop, best))


def _by_parallelism(
    world: World, shape: Shape, pieces: tuple[Piece, ...], fleet: Sizes
) -> int | None:
    stated, r = shape.parallelism, parallelism.worker(shape)
    if stated is None or r < 0:
        return None
    role, mine = shape.roles[r], [piece for piece in pieces if piece.role == r]
    here, best = list[tuple[str, int]](), list[tuple[str, int]]()
    for name, size in parallelism.groups(stated):
        hop = nearest = fleet.hop(size)
        if size > role.accelerators:  # else inside one replica, on one node, as near as it gets
            each = -(-size // role.accelerators)
            sits = sum(piece.replicas for piece in mine)
            together = sits if sits % each else each
            hop = min(nearest, hop_of_groups(world, mine, together))
        here.append((name, hop))
        best.append((name, nearest))
    kind = world.kinds[int(world.nodes.kind[mine[0].node])]
    return slowdown.slow_ppm(
        world.topology, stated, kind, role.accelerators, tuple(here), tuple(best)
    )


def _is_whole(domains: I64, replicas: I64, each: int) -> bool:
    _, which = np.unique(domains, return_inverse=True)
    return bool((np.bincount(which, replicas).astype(np.int64) % each == 0).all())
