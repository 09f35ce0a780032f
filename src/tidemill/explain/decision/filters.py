"""The filters: how many nodes each question of the scheduler removed, and which were left.

A node is asked in the scheduler's own order (``fitting.sweeps.removed_by``), on what is free when
it comes to the job; then come the questions that are about more than one node: what reservations
keep, the quotas of the GPU type, whether all replicas find a place, and the topology.
"""

from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tidemill.explain import phrasing
from tidemill.explain.decision.answers import Filter, Filtering
from tidemill.explain.decision.noting import NotingRoom
from tidemill.model import lives
from tidemill.model.rows import BY_CLAIM, CLUSTER, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import barred_by
from tidemill.scheduling.fitting import sweeps
from tidemill.scheduling.fitting.columns import FILTER, Obstacle
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.topology import constraints, place

EXAMPLES = 3


class NodeFilter(IntEnum):
    """The filters in their order; a node is removed by the first that it does not pass."""

    STATE = 0
    SPARE = 1
    GPU_TYPE = 2
    LABELS = 3
    TAINTS = 4
    AFFINITY = 5
    FREE_GPUS = 6
    CPU = 7
    MEMORY = 8
    DEVICES = 9
    RESERVATION = 10
    QUOTA = 11
    TOO_FEW_FREE = 12
    LENDING = 13
    GANG = 14
    TOPOLOGY = 15
    PASSED = 16


_OF_NODE = {
    FILTER.STATE: NodeFilter.STATE,
    FILTER.SPARE: NodeFilter.SPARE,
    FILTER.FREE: NodeFilter.FREE_GPUS,
    FILTER.CPU: NodeFilter.CPU,
    FILTER.MEMORY: NodeFilter.MEMORY,
    FILTER.DEVICES: NodeFilter.DEVICES,
    FILTER.PASSED: NodeFilter.PASSED,
}
_OF_RULE = {
    "labels": NodeFilter.LABELS,
    "taints": NodeFilter.TAINTS,
    "affinity": NodeFilter.AFFINITY,
}
_OF_TYPE = {
    Obstacle.LIMIT: NodeFilter.QUOTA,
    Obstacle.SHORT: NodeFilter.TOO_FEW_FREE,
    Obstacle.KEPT: NodeFilter.LENDING,
}


class FilteredRole(NamedTuple):
    """What is filtered for: a role of a shape, of a queue."""

    world: World
    queue: int
    shape: Shape
    r: int
    options: tuple[Option, ...]

    @property
    def role(self) -> Role:
        """The role."""
        return self.shape.roles[self.r]


def filtering(asked: FilteredRole, bare: NotingRoom, beside: NotingRoom) -> Filtering:
    """Ask every node that is not gone, in the rooms as the scheduler finds them."""
    world, role = asked.world, asked.role
    found = verdicts(asked, bare, beside)
    here = np.flatnonzero(world.nodes.state[: world.node_count] != NodeState.GONE)
    removed = []
    for stage in NodeFilter:
        out = here[found[here] == stage]
        if stage is not NodeFilter.PASSED and len(out):
            removed.append(_filter(asked, beside, stage, out))
        elif stage is NodeFilter.QUOTA and _is_over_quota(asked, beside):
            words = f"the maximum quota of `{asked.shape.team}` is reached, whatever is free"
            removed.append(Filter(stage.name.lower(), 0, (), words))
    left = int((found[here] == NodeFilter.PASSED).sum())
    hosts = sum(beside.count_hosts(role, option.is_ok) for option in asked.options) if left else 0
    hosts = min(role.count, hosts)
    return Filtering(
        role.name, phrasing.asks(replace(asked.shape, roles=(role,), bonds=())), len(here),
        tuple(removed), left, hosts, role.count,
        f"{phrasing.many(left, 'node')} of {len(here):,} can take a replica",
    )  # fmt: skip


def _is_over_quota(asked: FilteredRole, room: NotingRoom) -> bool:
    """Whether its quota refuses the role of every GPU type, also where no node would take it."""
    milli, kinds = asked.role.total_milli, [o.kind for o in asked.options if o.kind >= 0]
    barred = [barred_by(room, asked.queue, kind, milli) for kind in kinds if milli]
    return bool(barred) and all(obstacle is Obstacle.LIMIT for obstacle in barred)


def verdicts(asked: FilteredRole, bare: NotingRoom, beside: NotingRoom) -> I64:
    """The stage that removes each node, by its number."""
    world, rows = asked.world, asked.world.node_count
    found = _alone(asked, beside)
    if bare is not beside:
        kept = (_alone(asked, bare) == NodeFilter.PASSED) & (found != NodeFilter.PASSED)
        found[kept] = NodeFilter.RESERVATION
    kinds = world.nodes.kind[:rows]
    for option in asked.options:
        mine = found == NodeFilter.PASSED
        if option.kind >= 0:
            mine &= kinds == option.kind
        if mine.any():
            found[mine] = _of_type(asked, beside, option)[mine]
    return found


def _of_type(asked: FilteredRole, room: NotingRoom, option: Option) -> I64:
    """What keeps a role off a GPU type as a whole, or off the domains of its nodes."""
    role, found = asked.role, np.full(room.rows, int(NodeFilter.PASSED), np.int64)
    if role.total_milli:
        obstacle = barred_by(room, asked.queue, option.kind, role.total_milli)
        if obstacle is not None:
            found[:] = _OF_TYPE[obstacle]
            return found
    if room.count_hosts(role, option.is_ok) < role.count:
        found[:] = NodeFilter.GANG
        return found
    found[~_has_domain(asked, room, option)] = NodeFilter.TOPOLOGY
    return found


def _has_domain(asked: FilteredRole, room: NotingRoom, option: Option) -> NDArray[np.bool_]:
    """By node: whether the domain that it is in can take any group that must sit together."""
    world, rows = asked.world, asked.world.node_count
    wish = constraints.of(world.topology, asked.shape) if world.topology.tiers else None
    if wish is None or not wish.is_binding:
        return np.ones(rows, bool)
    rung = wish.ladders[asked.r][-1]  # what must be, whatever else is wished
    caps = place.gather(place.ground(room), asked.role, option.is_ok, rung).cap
    if rung.top >= len(world.domains):
        hosts: I64 = caps[len(world.domains), :rows]
        return hosts > 0
    around: I64 = caps[rung.top, world.position[rung.top, :rows]]
    return around > 0


def _alone(asked: FilteredRole, room: NotingRoom) -> I64:
    """What each node says for itself."""
    world, role = asked.world, asked.role
    flags = eligibility.merged(world, asked.options)
    plain = replace(role, accelerators=0, profile="") if role.profile else role
    codes: I64 = np.zeros(room.rows, np.int64)
    sweeps.filter_all(world.matrices, room.ground, room.request(plain, flags, PACKING), codes)
    found = np.array([int(_OF_NODE.get(FILTER(c), NodeFilter.PASSED)) for c in FILTER], np.int64)[
        codes
    ]
    if role.profile:
        found[(found == NodeFilter.PASSED) & (room.hosts(role, flags) == 0)] = NodeFilter.DEVICES
    rules = np.array([*(_rule(world, role, g) for g in range(len(world.groups))), 0], np.int64)
    ruled = codes == FILTER.RULES
    found[ruled] = rules[world.nodes.group[: room.rows]][ruled]
    return found


def _rule(world: World, role: Role, g: int) -> int:
    """What keeps a role off a group of nodes."""
    group = world.groups[g]
    broken = role.rules.broken_by(group.labels, group.taints)
    if not eligibility.takes_type(world.kinds[group.kind], role):
        return NodeFilter.GPU_TYPE
    return _OF_RULE[broken] if broken else NodeFilter.PASSED


def _filter(asked: FilteredRole, room: NotingRoom, stage: NodeFilter, out: I64) -> Filter:
    world = asked.world
    names = tuple(lives.node_name(world, n) for n in out[:EXAMPLES].tolist())
    return Filter(stage.name.lower(), len(out), names, _words(asked, room, stage, out))


def _unlabelled(world: World, role: Role, out: I64) -> str:
    """Which labels these nodes lack: those that all of them do, else those that some do."""
    seen = [world.groups[g].labels for g in {world.nodes.group.item(n) for n in out.tolist()}]
    asked = [pair for pair in role.labels if pair[0] != CLUSTER]
    if lack := [pair for pair in asked if not any(pair in labels for labels in seen)]:
        return f"without {phrasing.pairs(lack)}"
    some = [pair for pair in asked if not all(pair in labels for labels in seen)]
    return f"without {' or '.join(phrasing.pairs([pair]) for pair in some)}" if some else ""


def _words(asked: FilteredRole, room: NotingRoom, stage: NodeFilter, out: I64) -> str:
    world, role = asked.world, asked.role
    match stage:
        case NodeFilter.STATE:
            counts = Counter(phrasing.shut(world, n) for n in out.tolist())
            return ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items()))
        case NodeFilter.SPARE:
            return "kept as hot spares"
        case NodeFilter.GPU_TYPE:
            there = phrasing.ids(sorted({world.kinds[k] for k in world.nodes.kind[out].tolist()}))
            asks = f"profile `{role.profile}` of " if role.profile else ""
            return f"{there}; it requests {asks}{phrasing.kinds(role)}"
        case NodeFilter.LABELS:
            return _unlabelled(world, role, out) or "other clusters"
        case NodeFilter.TAINTS:
            groups = {world.nodes.group.item(n) for n in out.tolist()}
            taints = {
                pair for g in groups for pair in role.rules.repelled_by(world.groups[g].taints)
            }
            named = [pair for pair in sorted(taints) if pair[0] != BY_CLAIM]
            said = [f"taints that it does not tolerate: {phrasing.pairs(named[:EXAMPLES])}"]
            said = said if named else []
            if len(named) < len(taints):
                said.append("devices that are allocated by claims")
            return "; ".join(said)
        case NodeFilter.AFFINITY:
            mine = role.rules.own.affinity_words
            groups = {world.nodes.group.item(n) for n in out.tolist()}
            why = {one for g in groups for one in role.rules.said_of(world.groups[g].labels)}
            told = [f"node affinity: it must have {mine}"] if mine else []
            return "; ".join([*told, *sorted(why)])
        case NodeFilter.FREE_GPUS | NodeFilter.CPU | NodeFilter.MEMORY | NodeFilter.DEVICES:
            return _short(room, role, stage, out)
        case _:
            return _of_all(asked, room, stage, out)


def _short(room: NotingRoom, role: Role, stage: NodeFilter, out: I64) -> str:
    """What single nodes have too little of."""
    match stage:
        case NodeFilter.FREE_GPUS:
            free = _span(room.node_free[out], phrasing.amount)
            return f"too few free: {free} of {phrasing.amounts(role.replica_milli, 'GPU')}"
        case NodeFilter.CPU:
            free = _span(room.cpu_free[out], phrasing.cores)
            return f"CPU: {free} of {phrasing.many_cores(role.cpu_milli)} free"
        case NodeFilter.MEMORY:
            free = _span(room.memory_free[out], phrasing.gib)
            return f"memory: {free} of {phrasing.gib(role.memory_mib)} GiB free"
        case _ if role.profile:
            return f"no device with free slices where a `{role.profile}` may start"
        case _:
            return "enough is free in all, but not on as many GPUs as one replica requests"


def _of_all(asked: FilteredRole, room: NotingRoom, stage: NodeFilter, out: I64) -> str:
    """What keeps the gang off nodes that have room."""
    world, role = asked.world, asked.role
    match stage:
        case NodeFilter.RESERVATION:
            return "kept for jobs before it that have a backfill reservation"
        case NodeFilter.QUOTA:
            return f"they have room, but the maximum quota of `{asked.shape.team}` is reached"
        case NodeFilter.TOO_FEW_FREE:
            free = " and ".join(
                f"{phrasing.amount(room.kind_free.item(k))} `{world.kinds[k]}`"
                for k in sorted({*world.nodes.kind[out].tolist()})
            )
            return f"in all {free} are free, the gang requests {phrasing.amount(role.total_milli)}"
        case NodeFilter.LENDING:
            return "they have room, but other teams do not lend what is free"
        case NodeFilter.GANG:
            room_for = max(room.count_hosts(role, option.is_ok) for option in asked.options)
            return f"they take {room_for:,} of {phrasing.many(role.count, 'replica')}"
        case _:
            return "in a topology domain that cannot take what must sit together"


def _span(free: I64, text: Callable[[int], str]) -> str:
    least, most = text(int(free.min())), text(int(free.max()))
    return least if least == most else f"{least} to {most}"
