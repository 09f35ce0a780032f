"""Slowdown: how much longer a step takes where a gang sits than where it could have been.

By the step-time model where a job says how it divides its model: the same step twice, its groups
once across the hops they have and once across the best they could have, with what runs behind
compute behind it. By the share of its time on links where only that is known. Whole parts per
million leave: they decide, and they are in the ledger.
"""

from collections.abc import Mapping
from functools import lru_cache

from tidemill.model.measures import ONE_PPM
from tidemill.model.topology import Parallelism, Topology
from tidemill.units import links, parallelism
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Part
from tidemill.units.links import Link, two_levels
from tidemill.units.machine import Machine, Reach
from tidemill.units.models import Model
from tidemill.units.overlap import Hiding
from tidemill.units.step import Step, TrainingRun, unchecked
from tidemill.units.training import Training

SLOWEST_PPM = 100 * ONE_PPM
HEAD = 128  # the usual size of an attention head, where nobody said how many there are
VOCABULARY = 51_200

Hops = tuple[tuple[str, int], ...]
"""By dimension (see ``parallelism.groups``): the hop that its groups cross."""


def slow_ppm(
    topology: Topology, stated: Parallelism, kind: str, per_node: int, here: Hops, best: Hops
) -> int | None:
    """How much longer a step takes where its groups cross ``here`` than where they cross ``best``.

    ``per_node``: accelerators of the job on one node. None where the model, the kind or a link is
    unknown.
    """
    if here == best and _is_known(topology, stated, here):
        return 0
    now, then = (_step(topology, stated, kind, per_node, hops) for hops in (here, best))
    if now is None or then is None:
        return None
    return _ppm(now.seconds / then.seconds - 1)


def share_slow_ppm(topology: Topology, links_ppm: int, here: int, best: int) -> int:
    """The same for a job of which only the share of time on links is known: that part grows as the
    bandwidth shrinks.
    """
    now, then = links.link(topology, here), links.link(topology, best)
    if now is None or then is None:
        return 0
    return _ppm(links_ppm / ONE_PPM * (then.bytes_per_s / now.bytes_per_s - 1))


def model_of(stated: Parallelism) -> Model | None:
    """A model with the parameters, layers and hidden size that a job states."""
    layers, hidden = stated.layers, stated.hidden
    if not (layers and hidden and stated.parameters_m):
        return None
    beside = 1e6 * stated.parameters_m / layers - 4 * hidden * hidden
    heads = next((n for n in range(max(1, hidden // HEAD), 0, -1) if hidden % n == 0), 1)
    return Model(
        key="stated", layers=layers, hidden=hidden, heads=heads, vocabulary=VOCABULARY,
        ffn=max(1, round(beside / (2 * hidden))),
    )  # fmt: skip


def _is_known(topology: Topology, stated: Parallelism, hops: Hops) -> bool:
    has_links = all(links.link(topology, hop) for _, hop in hops)
    return bool(model_of(stated) and stated.batch and stated.sequence and has_links)


@lru_cache(maxsize=4096)
def _step(
    topology: Topology, stated: Parallelism, kind: str, per_node: int, hops: Hops
) -> Step | None:
    model, part = model_of(stated), part_of(kind)
    reach = reaches(topology, stated, per_node, dict(hops))
    if model is None or part is None or reach is None or not (stated.batch and stated.sequence):
        return None
    anywhere = two_levels(per_node, Link(1.0, 0.0), Link(1.0, 0.0))  # every dimension has its reach
    return unchecked(
        TrainingRun(model, stated, Training(), Hiding(), Machine(part, anywhere, reach))
    )


def reaches(
    topology: Topology, stated: Parallelism, per_node: int, hops: Mapping[str, int]
) -> dict[str, Reach] | None:
    """Where the groups of each dimension lie, given the hop they cross; None: a link is unknown."""
    node = min(topology.labelled + 1, len(topology.tiers))
    found = {}
    for name, span in parallelism.groups(stated):
        outer = links.link(topology, hops[name])
        inner = links.link(topology, max(node, hops[name]))
        if outer is None or inner is None:
            return None
        ranks = getattr(stated, name)
        fits = max(1, per_node // max(1, span // ranks))
        if hops[name] >= node:
            fits = ranks
        elif fits >= ranks:  # it would fit a node, and does not sit in one: at best in two halves
            fits = max(1, ranks // 2)
        found[name] = Reach(fits, inner, outer)
    if "context" in found:  # context ranks sum up gradients too, with or without data ranks
        found.setdefault("data", found["context"])
    return found


@lru_cache(maxsize=256)
def part_of(kind: str) -> Part | None:
    """What the catalogue calls this kind of accelerator."""
    return _BOOK.find(kind)


_BOOK = Catalogue()


def _ppm(part: float) -> int:
    return min(SLOWEST_PPM, max(0, round(part * ONE_PPM)))
