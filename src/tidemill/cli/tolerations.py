"""Taints of nodes that what is asked about is taken to tolerate.

A taint that is called as the resource of the node's accelerators (`nvidia.com/gpu`) keeps pods off
that request none: clusters that set it (GKE does) have the admission `ExtendedResourceToleration`,
which adds the toleration to every pod that requests the resource. So it is assumed here, and said;
but not where a pod is on the books that requests such accelerators and has no such toleration.
"""

from collections import Counter
from typing import NamedTuple

from tidemill.cli import screen
from tidemill.model.measures import WHOLE_MILLI, count_text
from tidemill.model.node_rules import ANY, NodeRules, Pair
from tidemill.model.rows import BY_CLAIM, OF, Role
from tidemill.model.states import NodeState
from tidemill.model.world import World

_STOPS = ":NoExecute"
_UNSCHEDULABLE = "Unschedulable"
"""How a scheduler marks a pod that it looked at: admission did so before it."""


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
    without = {pair: name for pair in found if (name := _without(world, pair))}
    found = [pair for pair in found if pair not in without]
    words = []
    if found:
        words.append(
            f"it is taken to tolerate the taint {_named(found)}, called as the resource that it"
            " requests: admission (ExtendedResourceToleration) adds that to its pods, where it is"
            " enabled"
        )
    if without:
        keys = " ".join(f"--tolerate {key}" for key in sorted({*map(_key, without)}))
        words.append(
            f"it is not taken to tolerate the taint {_named([*without])}: pods here that request"
            f" such accelerators do not, as of `{min(without.values())}`, so that no admission adds"
            f" it; if its pods say it themselves: `fit {keys}`"
        )
    return Tolerated(tuple((key, ANY) for key, _ in found), tuple(words))


def _without(world: World, taint: Pair) -> str:
    """A job that shows that nobody adds a toleration: its pods are there, and have none.

    Of one that has a place, or of which the scheduler said something, pods were made; those of
    which some are parts of GPUs, or are by claims, request another resource.
    """
    kinds = {world.kinds[group.kind] for group in world.groups if taint in group.taints}
    for j in [*world.placements, *world.reasons]:
        reason = world.reason_of(j)
        is_looked_at = reason is not None and _UNSCHEDULABLE in reason.words
        has_pods = j in world.placements or is_looked_at
        roles = [role for role in world.shape_of(j).roles if role.accelerators]
        if has_pods and any(_lacks(role, kinds, taint) for role in roles):
            return world.job_names[j]
    return ""


def _lacks(role: Role, kinds: set[str], taint: Pair) -> bool:
    of_kinds = role.kinds or tuple(kinds)
    is_of_it = not kinds.isdisjoint(of_kinds) and not any(OF in kind for kind in of_kinds)
    is_claimed = any(key == BY_CLAIM for key, _ in role.tolerates)
    return is_of_it and not is_claimed and taint in role.rules.repelled_by(frozenset({taint}))


def left_out(world: World, tolerates: tuple[Pair, ...]) -> str:
    """How much is free behind taints that not everybody tolerates, in words; "": nothing."""
    nodes, rows = world.nodes, world.node_count
    plain, milli, named = NodeRules(tolerates=tolerates), 0, set[Pair]()
    for g, group in enumerate(world.groups):
        taints = {pair for pair in plain.repelled_by(group.taints) if pair[0] != BY_CLAIM}
        mine = (nodes.group[:rows] == g) & (nodes.state[:rows] == NodeState.READY)
        free = int(nodes.free_milli[:rows][mine & (nodes.is_spare[:rows] == 0)].sum())
        if taints and free:
            milli += free
            named |= taints
    if not milli:
        return ""
    key = min(map(_key, named))
    unit = "GPU" if milli == WHOLE_MILLI else "GPUs"
    return (
        "fit now leaves out what is free behind taints that not every job tolerates:"
        f" {milli / WHOLE_MILLI:,g} {unit} ({', '.join(sorted(map(_shown, named)))}); usable counts"
        f" with what jobs tolerate; `fit --tolerate {key}` asks about one that does"
    )


def on_nodes(world: World) -> str:
    """The taints that nodes have and keep pods out by, with how many have them; "": none."""
    count, rows = Counter[Pair](), world.node_count
    here = world.nodes.state[:rows] != NodeState.GONE
    for g, group in enumerate(world.groups):
        many = int((here & (world.nodes.group[:rows] == g)).sum())
        count.update({pair: many for pair in group.taints if pair[0] != BY_CLAIM and many})
    if not count:
        return ""
    told = [f"{_shown(pair)} on {count_text(many, 'node')}" for pair, many in sorted(count.items())]
    return f"taints, which keep off what does not tolerate them: {', '.join(told)}"


def _shown(pair: Pair) -> str:
    return f"`{_key(pair)}{'=' * bool(pair[1])}{pair[1]}`"


def asked(world: World, keys: tuple[str, ...]) -> tuple[Pair, ...]:
    """Tolerations of taints with these keys, whatever their values and effects are; one that no
    node has does no harm, and that is noted.
    """
    known = _taints(world)
    for key in keys:
        if key not in map(_key, known):
            told = f"taints: {_named(known)}" if known else "nodes have none"
            screen.note(
                f"--tolerate is `{key}`: no node has a taint of that key, so it changes nothing"
                f" ({told})"
            )
    return tuple((key, ANY) for key, _ in known if key.removesuffix(_STOPS) in keys)


def _taints(world: World) -> list[Pair]:
    every = {pair for group in world.groups for pair in group.taints}
    return sorted(pair for pair in every if pair[0] != BY_CLAIM)


def _named(taints: list[Pair]) -> str:
    return ", ".join(f"`{key}`" for key in sorted({*map(_key, taints)}))


def _key(pair: Pair) -> str:
    return pair[0].removesuffix(_STOPS)
