"""What of a policy can mean nothing on this cluster: no mistake that anybody could refuse.

A team may get its namespace later, and nodes may come. Types that no node has are told apart
(``unknown_types``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.scheduling.differ import Differ, FleetRules
from tidemill.model import decoding
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue
from tidemill.model.states import NodeState
from tidemill.model.topology import Tier
from tidemill.model.world import World


class Remark(NamedTuple):
    """Something that was found, and what to do about it."""

    what: str
    found: str
    so: str


def of_policy(policy: Policy, fleet: FleetRules, seen: Differ, team_by: str) -> Iterator[Remark]:
    """All of it."""
    if team_by == "namespace":
        yield from _teams(fleet.queues, seen.view.cluster.namespaces)
    yield from _guarantees(fleet.queues, seen.world)
    labels = {key for machine in seen.view.machines.values() for key in machine.labels}
    for tier in fleet.topology.tiers:
        if labels and tier.label and tier.label not in labels:
            so = f"a gang tied to it finds no place; {decoding.nearest(tier.label, labels)}"
            yield Remark("tiers", f"`{tier.name}`: no node has the label `{tier.label}`", so)
    yield from misplaced(fleet.topology.tiers, seen.view.machines.values())
    yield from _switches(policy)


def misplaced(tiers: Sequence[Tier], machines: Iterable[KubeNode]) -> Iterator[Remark]:
    """Tiers that contain one which comes before them: each place of that lies in one of theirs, and
    not the other way round. A place of the inner tier is then cut along those of the outer one.
    """
    some = [row.labels for row in machines]
    for outer, inner in combinations([tier for tier in tiers if tier.label], 2):
        pairs = {(row[outer.label], row[inner.label]) for row in some
                 if outer.label in row and inner.label in row}  # fmt: skip
        outside = Counter(place for place, _ in pairs)
        inside = Counter(place for _, place in pairs)
        if pairs and max(outside.values()) == 1 < max(inside.values()):
            yield Remark(
                "tiers",
                f"`{outer.name}` comes before `{inner.name}`, and each of its places lies in one of"
                f" `{inner.name}`",
                f"a gang that has to be in one `{inner.name}` would have to be in one"
                f" `{outer.name}` too; tiers go from the outermost to the innermost: put"
                f" `{inner.name}` before `{outer.name}`",
            )


def _teams(queues: Sequence[Queue], namespaces: Mapping[str, object]) -> Iterator[Remark]:
    """Teams that jobs could belong to, and that no namespace is."""
    above = {queue.parent for queue in queues}
    lacking = [queue.name for queue in queues if queue.name not in {*above, *namespaces}]
    for name in lacking if namespaces else ():
        so = f"its quotas are nobody's until there is one; {decoding.nearest(name, namespaces)}"
        yield Remark("teams", f"no namespace is called `{name}`", so)


def _guarantees(queues: Sequence[Queue], world: World) -> Iterator[Remark]:
    """Types of which more is guaranteed than there is."""
    there = Counter[str]()
    for n in range(world.node_count):
        if world.nodes.state.item(n) != NodeState.GONE:
            there[world.kinds[world.nodes.kind.item(n)]] += world.nodes.devices.item(n)
    for kind in sorted(there):
        milli = sum(_floor(queue, queues, kind) for queue in queues if not queue.parent)
        if milli > there[kind] * WHOLE_MILLI:
            found = f"{milli // WHOLE_MILLI:,} {kind} are guaranteed, and the nodes have"
            so = "nobody can keep that: guarantee less, or add nodes"
            yield Remark("guarantees", f"{found} {there[kind]:,}", so)


def _floor(queue: Queue, queues: Iterable[Queue], kind: str) -> int:
    """What is guaranteed to a team, or to those below it, if that is more."""
    mine = sum(share.floor_milli for share in queue.shares if share.kind == kind)
    below = (_floor(one, queues, kind) for one in queues if one.parent == queue.name)
    return max(mine, sum(below))


def _switches(policy: Policy) -> Iterator[Remark]:
    """What was switched on, and nobody carries out here; what is on by default is not told."""
    on = [("may_move", policy.may_move), ("cull_idle_after", policy.cull_idle_after_ms > 0)]
    for name, is_on in on:
        if is_on:
            yield Remark("policy", f"`{name}` is off on a live cluster", "leave it out")
