"""Machines: accelerators of one kind on a ladder of links, as a training job sees them."""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Part
from tidemill.units.links import Ladder, Link, LinkStep, RankGroup

INNER_REACHED = 0.78
"""Of the printed scale-up bandwidth, as a bus bandwidth of large collectives: about 235 of 300 GB/s
on A100 and 360 of 450 on H100 (nccl-tests, eight GPUs of a node)."""
OUTER_REACHED = 0.85
"""The same of the network between nodes."""
INNER_LATENCY_S = 3e-6
OUTER_LATENCY_S = 10e-6
"""A step of a ring between nodes: card, switches, proxy (NCCL's tuner assumes as much)."""
NIC_GB_S = 25.0
"""A network card an accelerator, where nobody says."""
HOST_LINK_GB_S = 32.0
"""Between parts without a scale-up link: PCIe 4.0 ×16, one direction."""


class Reach(NamedTuple):
    """Where the groups of one dimension are known to lie: so many ranks of each in one domain."""

    inside: int
    inner: Link
    outer: Link


class Machine(NamedTuple):
    """A part, and the links over which its ranks talk."""

    part: Part
    ladder: Ladder
    reach: Mapping[str, Reach] = {}
    """By dimension; where it is not known, ranks lie on the ladder one after the other."""

    def group(self, name: str, ranks: int, stride: int = 1) -> RankGroup:
        """How a group of ranks of this dimension lies."""
        known = self.reach.get(name)
        if known is None:
            return self.ladder.group(ranks, stride)
        inside = next(n for n in range(min(known.inside, ranks), 0, -1) if ranks % n == 0)
        return RankGroup(ranks, inside, known.inner, known.outer)


def of(part: Part, per_node: int, nic_gb_s: float | None, oversubscription: float = 1.0) -> Machine:
    """Nodes of so many parts with so much network together (one direction).

    A part whose scale-up link joins more than a node (NVL72, a TPU pod) has it all the way there.
    """
    inner = Link((part.link_gb_s or HOST_LINK_GB_S) * 1e9 * INNER_REACHED, INNER_LATENCY_S)
    joined = max(part.domain, per_node) if part.link_gb_s else per_node
    outer = inner.bytes_per_s
    if nic_gb_s is not None:
        outer = nic_gb_s / per_node * 1e9 * OUTER_REACHED / oversubscription
    network = Link(outer, OUTER_LATENCY_S)
    return Machine(part, Ladder((LinkStep(joined, inner), LinkStep(inf, network))))


def network_gb_s(book: Catalogue, part: Part, per_node: int) -> float:
    """All cards of a node: as in the largest box of the catalogue with this part, else one of
    200 Gb/s an accelerator.
    """
    boxes = [box for box in book.boxes.values() if box.part == part.key and box.nic_gb_s]
    if not boxes:
        return NIC_GB_S * per_node
    box = max(boxes, key=lambda box: (box.count, box.nic_gb_s, box.key))
    return (box.nic_gb_s or 0.0) / box.count * per_node


def pod(part: Part, chips: int, link_gb_s: float, network_gb_s: float) -> Machine:
    """Pods of so many chips on links of their own, joined by a network (both a chip, one way)."""
    inner = Link(link_gb_s * 1e9 * INNER_REACHED, INNER_LATENCY_S)
    outer = Link(network_gb_s * 1e9 * OUTER_REACHED, OUTER_LATENCY_S)
    return Machine(part, Ladder((LinkStep(chips, inner), LinkStep(inf, outer))))
