"""Collectives: how long what a group of ranks says to each other takes.

The alpha-beta model: a message costs its latency and its bytes over the bandwidth of the slowest
link it passes. Rings (Thakur et al. 2005), double binary trees (Sanders et al. 2009, as in NCCL
2.4), the two levels of node and network one after the other, pairwise exchange; of those that a
collective has, the fastest is taken, as NCCL's tuner does. Where every accelerator has a network
card of its own, the ranks of a group on one node send on all of theirs at once. Seconds are floats
here: physics.
"""

from math import ceil, log2

from tidemill.units.links import Link, RankGroup

TREE = 0.92
"""Of a link's bandwidth, used by trees: what NCCL's tuner assumes."""


def all_reduce_s(ranks: int, size: float, over: Link) -> float:
    """A ring: every rank sends its part round twice."""
    return 2 * all_gather_s(ranks, size, over)


def all_gather_s(ranks: int, size: float, over: Link) -> float:
    """A ring: each of the parts, ``size`` together, passes every rank but one.

    A reduce-scatter is the same ring, the other way round.
    """
    return (ranks - 1) * (size / ranks / over.rate(size) + over.latency_s)


def tree_all_reduce_s(ranks: int, size: float, over: Link) -> float:
    """Two trees, each for half of the data: up and down once, in as many steps as they are deep."""
    if ranks == 1:
        return 0.0
    return 2 * (size / (TREE * over.rate(size)) + ceil(log2(ranks)) * over.latency_s)


def all_to_all_s(ranks: int, size: float, over: Link) -> float:
    """Pairwise: each rank keeps its own part of ``size`` and sends the others one by one."""
    return (ranks - 1) * (size / ranks / over.rate(size) + over.latency_s)


def point_to_point_s(size: float, over: Link) -> float:
    """One message."""
    return size / over.rate(size) + over.latency_s


def all_reduce(group: RankGroup, size: float) -> float:
    """Sum ``size`` bytes over all ranks of a group, for each of them."""
    return min(all_reduce_ways(group, size).values())


def all_reduce_ways(group: RankGroup, size: float) -> dict[str, float]:
    """How long each way would take."""
    if group.domains == 1:
        over = group.inner
        return {
            "ring": all_reduce_s(group.ranks, size, over),
            "tree": tree_all_reduce_s(group.ranks, size, over),
        }
    wide, part = _together(group), size / group.inside
    inside = 2 * all_gather_s(group.inside, size, group.inner)
    return {
        "ring": 2 * _ring(group, size),
        "tree": tree_all_reduce_s(group.domains, size, wide)
        + 2 * (group.inside - 1) * group.inner.latency_s,
        "hierarchical": inside + all_reduce_s(group.domains, part, group.outer),
        "hierarchical tree": inside + tree_all_reduce_s(group.domains, part, group.outer),
    }


def all_gather(group: RankGroup, size: float) -> float:
    """Give every rank of a group the parts of all others, ``size`` bytes together."""
    return min(all_gather_ways(group, size).values())


def all_gather_ways(group: RankGroup, size: float) -> dict[str, float]:
    """How long each way would take."""
    if group.domains == 1:
        return {"ring": all_gather_s(group.ranks, size, group.inner)}
    across = all_gather_s(group.domains, size / group.inside, group.outer)
    return {
        "ring": _ring(group, size),
        "hierarchical": across + all_gather_s(group.inside, size, group.inner),
    }


reduce_scatter = all_gather
"""The same, the other way round."""


def all_to_all(group: RankGroup, size: float) -> float:
    """Each rank sends an equal part of its ``size`` bytes to every other; both ways at once."""
    if group.domains == 1:
        return all_to_all_s(group.ranks, size, group.inner)
    near, far = group.inside - 1, group.ranks - group.inside
    each = size / group.ranks
    inside = near * (each / group.inner.rate(size) + group.inner.latency_s)
    return max(inside, far * (each / group.outer.rate(size) + group.outer.latency_s))


def send(group: RankGroup, size: float) -> float:
    """One rank of a group to the next, over the worst link between two of them."""
    return point_to_point_s(size, group.inner if group.domains == 1 else group.outer)


def _ring(group: RankGroup, size: float) -> float:
    """One ring through all ranks; it leaves each node as often as the group has ranks there."""
    wide = _together(group)
    steps = (group.ranks - group.domains) * group.inner.latency_s
    steps += (group.domains - 1) * group.outer.latency_s
    return (group.ranks - 1) / group.ranks * size / wide.rate(size) + steps


def _together(group: RankGroup) -> Link:
    """The network cards of a group's ranks on one node, as one link, no faster than the node's."""
    outer, most = group.outer, group.inner.bytes_per_s
    table = tuple((size, min(most, group.inside * rate)) for size, rate in outer.table)
    return Link(min(most, group.inside * outer.bytes_per_s), outer.latency_s, table)
