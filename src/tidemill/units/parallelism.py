"""Parallelism to placement: which ranks of a training job talk most, and should sit together.

Tensor and context parallel ranks exchange activations in every layer: they go inside the innermost
tier that is large enough for them. Expert groups exchange tokens twice a layer: next. Pipeline
stages pass one activation per micro-batch: near each other, inside the tier around the node. Data
parallel ranks meet once a step, and go across. (The order of Megatron-LM, Narayanan et al. 2021.)
Bonds that come out of it are preferred, never required: breaking one has a price (``collectives``).
"""

from tidemill.model.rows import Role, Shape
from tidemill.model.topology import Bond, Parallelism, Topology

Bonds = tuple[Bond, ...]


def bonds(topology: Topology, shape: Shape) -> tuple[Bonds, ...]:
    """For each role the bonds that follow from how the job divides its model."""
    stated = shape.parallelism
    r = worker(shape)
    if stated is None or not topology.tiers or r < 0:
        return ((),) * len(shape.roles)
    found = _bonds(topology, shape.roles[r], stated)
    return tuple(found if r == i else () for i in range(len(shape.roles)))


def worker(shape: Shape) -> int:
    """The role whose accelerators the parallelism divides; -1 when none has that many."""
    stated = shape.parallelism
    if stated is None:
        return -1
    sizes = (role.count * role.accelerators for role in shape.roles)
    return next((r for r, size in enumerate(sizes) if size == ranks(stated)), -1)


def ranks(stated: Parallelism) -> int:
    """How many accelerators a job with this parallelism has."""
    return stated.tensor * stated.context * stated.pipeline * stated.data


def groups(stated: Parallelism) -> tuple[tuple[str, int], ...]:
    """The dimensions that say something to each other, and over how many neighbouring ranks.

    The group that talks most is the innermost; each next one spans those before it.
    """
    inner = stated.tensor * stated.context
    expert = stated.tensor * max(stated.context, stated.expert)
    stage = max(inner, expert) * stated.pipeline
    found = (
        ("tensor", stated.tensor if stated.tensor > 1 else 0),
        ("context", inner if stated.context > 1 else 0),
        ("expert", expert if stated.expert > 1 else 0),
        ("pipeline", min(stage, ranks(stated)) if stated.pipeline > 1 else 0),
        ("data", ranks(stated) if stated.data > 1 else 0),
    )
    return tuple((name, size) for name, size in found if size)


def _bonds(topology: Topology, role: Role, stated: Parallelism) -> Bonds:
    """One bond a dimension, at the innermost tier: the ladder lets go whatever does not fit."""
    inside = len(topology.tiers) - 1
    node = min(topology.labelled, inside)
    found: list[Bond] = []
    for name, size in groups(stated):
        each = -(-size // role.accelerators)
        if role.count % each:
            continue
        if name == "data":
            tier = max(0, topology.labelled - 1)
        elif each * role.accelerators > size or size <= role.accelerators:
            tier = inside
        else:
            tier = inside if name in ("tensor", "context") else node
        tier = _large_enough(topology, tier, size)
        found.append(Bond(topology.tiers[tier].name, each, is_required=False))
    return tuple(found)


def _large_enough(topology: Topology, tier: int, size: int) -> int:
    """The innermost tier from here outwards whose block, if it is one, has so many devices."""
    while tier > 0 and 0 < topology.tiers[tier].devices < size:
        tier -= 1
    return tier
