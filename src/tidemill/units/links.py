"""Links: what accelerators say to each other passes a ladder of them, from the node outwards.

A *link* has a bandwidth (one direction, of one accelerator), a latency, and where somebody measured
it a table of bus bandwidths by message size. A *ladder* says how many neighbouring ranks each link
joins. A *group* is how ranks that talk lie on it: so many of them inside the inner link, the rest
beyond the worst one that any message has to pass.
"""

from itertools import pairwise
from math import inf, log
from typing import NamedTuple

from tidemill.model.topology import APART, Topology


class Link(NamedTuple):
    """What a hop gives to one accelerator."""

    bytes_per_s: float
    latency_s: float
    table: tuple[tuple[float, float], ...] = ()
    """Measured: (bytes of a message, bus bytes a second), smaller messages first."""

    def rate(self, size: float) -> float:
        """Bytes a second for messages of this size: as measured, in between on a log scale."""
        if not self.table:
            return self.bytes_per_s
        if size <= self.table[0][0]:
            return self.table[0][1]
        for (small, slow), (large, fast) in pairwise(self.table):
            if size <= large:
                return slow + (fast - slow) * log(size / small) / log(large / small)
        return self.table[-1][1]


class LinkStep(NamedTuple):
    """One step of the ladder: the link that joins so many neighbouring ranks."""

    ranks: float
    link: Link


class RankGroup(NamedTuple):
    """A group of ranks: ``inside`` of them in each inner domain, domains joined by ``outer``."""

    ranks: int
    inside: int
    inner: Link
    outer: Link

    @property
    def domains(self) -> int:
        """How many inner domains the group is on."""
        return -(-self.ranks // self.inside)


class Ladder(NamedTuple):
    """Rungs from the innermost outwards; beyond the last, its link counts."""

    rungs: tuple[LinkStep, ...]

    def group(self, ranks: int, stride: int = 1) -> RankGroup:
        """A group of so many ranks, each ``stride`` ranks from the next."""
        inner = self.rungs[0]
        fit = max(1, int(min(ranks * stride, inner.ranks)) // stride)
        inside = next(n for n in range(min(fit, ranks), 0, -1) if ranks % n == 0)
        return RankGroup(ranks, inside, inner.link, self.across(ranks * stride))

    def across(self, span: float) -> Link:
        """The worst link that a message inside so many neighbouring ranks passes."""
        reach = next((i for i, r in enumerate(self.rungs) if r.ranks >= span), len(self.rungs) - 1)
        return min((rung.link for rung in self.rungs[: reach + 1]), key=lambda x: x.bytes_per_s)


def two_levels(per_node: int, inner: Link, outer: Link) -> Ladder:
    """Nodes of so many accelerators, joined by a network without tiers."""
    return Ladder((LinkStep(per_node, inner), LinkStep(inf, outer)))


def link(topology: Topology, hop: int) -> Link | None:
    """The link of a hop; beyond every tier it is that of the outermost. None when unknown.

    Oversubscription counts in full: collectives of a gang all talk at once.
    """
    tier = topology.tiers[max(hop, APART + 1) - 1]
    if not tier.mb_per_s:
        return None
    usable = tier.mb_per_s * 1e6 * 1000 / tier.oversubscription_milli
    return Link(usable, tier.latency_ns / 1e9)
