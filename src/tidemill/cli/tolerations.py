"""Taints of nodes that what is asked about is taken to tolerate.

A taint that is called as the resource of the node's accelerators (`nvidia.com/gpu`) keeps pods off
that request none: clusters that set it (GKE does) have the admission `ExtendedResourceToleration`,
which adds the toleration to every pod that requests the resource. So it is assumed here, and said.
"""

from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.model.node_rules import ANY, Pair
from tidemill.model.rows import BY_CLAIM
from tidemill.model.world import World

_STOPS = ":NoExecute"


class Tolerated(NamedTuple):
    """Taints that are tolerated, as a role has them, and what has to be said of it."""

    pairs: tuple[Pair, ...] = ()
    assumed: tuple[str, ...] = ()


NOTHING = Tolerated()


def of_resources(world: World) -> Tolerated:
    """What every request for accelerators tolerates: taints called as their resource."""
    found = _taints(world)
    if not found:
        return NOTHING
    from tidemill.live.kubernetes import resources

    found = [pair for pair in found if resources.is_accelerator(_key(pair))]
    named = _named(found)
    words = (
        f"it is taken to tolerate the taint {named}, called as the resource that it requests:"
        " admission (ExtendedResourceToleration) adds that to its pods, where it is enabled"
    )
    return Tolerated(tuple((key, ANY) for key, _ in found), (words,) if found else ())


def asked(world: World, keys: tuple[str, ...]) -> tuple[Pair, ...]:
    """Tolerations of taints with these keys, whatever their values and effects are."""
    known = _taints(world)
    for key in keys:
        if key not in map(_key, known):
            told = f"taints: {_named(known)}" if known else "nodes have none; leave it out"
            raise SpecError(f"--tolerate is `{key}`; no node has a taint of that key", hint=told)
    return tuple((key, ANY) for key, _ in known if key.removesuffix(_STOPS) in keys)


def _taints(world: World) -> list[Pair]:
    every = {pair for group in world.groups for pair in group.taints}
    return sorted(pair for pair in every if pair[0] != BY_CLAIM)


def _named(taints: list[Pair]) -> str:
    return ", ".join(f"`{key}`" for key in sorted({*map(_key, taints)}))


def _key(pair: Pair) -> str:
    return pair[0].removesuffix(_STOPS)
