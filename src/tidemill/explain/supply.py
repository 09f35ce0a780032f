"""Supply: where the accelerators are that a role may use, each in exactly one place.

Reads contracts and nodes; returns sums. Columns only: no loop over nodes. The free blocks tell
whether what is free lies together.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tidemill.explain import phrasing
from tidemill.journal import cluster_kinds
from tidemill.model.columns import NODE
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import CLUSTER, UNLISTED, Role, Shape
from tidemill.model.states import LAUNCHED, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import slices
from tidemill.scheduling.contract_capacity import claims_something, could_match
from tidemill.scheduling.eligibility import Option
from tidemill.units.mig import geometry as mig

Mask = NDArray[np.bool_]


class Place(StrEnum):
    """Where an accelerator is, from the contract up."""

    STARTS_LATER = "starts later"
    MAY_LAUNCH = "may be launched"
    NOT_LAUNCHED = "not launched"
    ASKED = "requested from the provider"
    BOOTING = "booting"
    UNHEALTHY = "unhealthy"
    REPAIRING = "repairing"
    FAILED = "failed device"
    UNADVERTISED = "not advertised"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    FULL = "full"
    DRAINING = "draining"
    SPARE = "spare"
    FREE = "free"
    STRANDED = "stranded beside MIG instances"
    BUSY = "busy"


WITHHELD = tuple(place for place in Place if place not in (Place.FREE, Place.STRANDED, Place.BUSY))
"""Places in which an accelerator takes no work."""

_OF_STATE = {
    NodeState.ASKED: Place.ASKED,
    NodeState.BOOTING: Place.BOOTING,
    NodeState.UNHEALTHY: Place.UNHEALTHY,
    NodeState.REPAIRING: Place.REPAIRING,
    NodeState.DRAINING: Place.DRAINING,
}


CLOSED = (Place.CORDONED, Place.TAINTED, Place.FULL)
"""Where nodes are in order and take nothing: the books have one state for all three, and the words
of their cluster tell whose doing it is. One that is not Ready is there too, while work is on it.
"""


class Lot(NamedTuple):
    """What is in one place."""

    milli: int
    nodes: int
    usd_micro_per_hour: int | None
    """What is paid for it now; None where nobody said a price."""
    examples: tuple[str, ...]


NOTHING = Lot(0, 0, 0, ())


class Supply(NamedTuple):
    """All that a role may use by kind and labels."""

    contracts: tuple[int, ...]
    lots: dict[Place, Lot]
    ready_milli: int
    """Working devices on nodes that take work, busy or free."""

    def milli(self, *places: Place) -> int:
        """Accelerators in these places."""
        return sum(self.lots.get(place, NOTHING).milli for place in places)

    @property
    def claimed_milli(self) -> int:
        """Accelerators in all places."""
        return self.milli(*Place)


class Blocks(NamedTuple):
    """How what is free on nodes that take work lies."""

    free_milli: int
    nodes: int
    """Nodes on which any of it is."""
    largest: int
    """Whole free devices on the node that has most of them."""
    roomy_nodes: int
    """Nodes with enough free devices for one replica."""
    cpu_most_milli: int
    """Free CPU on the roomy node that has most of it; memory likewise."""
    memory_most_mib: int


def supply(world: World, role: Role, options: tuple[Option, ...]) -> Supply:
    """Where the accelerators are that match a role's kinds and labels."""
    contracts = tuple(c for c in range(world.contract_count) if _is_claim(world, c, role))
    lots: dict[Place, Lot] = {}
    mine = node_mask(world, options)
    if world.is_observed:  # a group of nodes that promises none is what it has
        there = {*np.unique(world.nodes.contract[: world.node_count][mine]).tolist()}
        contracts = tuple(c for c in contracts if c in there)
    for place, where, milli in _on_nodes(world, mine):
        _add(lots, place, _lot(world, where, milli))
    for c in contracts:
        row, unused = world.contract_rows[c].at(world.now_ms), _paid_and_not_launched(world, c)
        for place, count in _off_nodes(world, c):
            paid = min(count, unused)
            unused -= paid
            usd = paid * row.usd_micro_per_hour // WHOLE_MILLI if row.is_priced else None
            _add(lots, place, Lot(count, count // (WHOLE_MILLI * row.node.devices), usd, ()))
    return Supply(contracts, lots, _ready_milli(world, mine))


def blocks(world: World, role: Role, options: tuple[Option, ...]) -> Blocks:
    """How the free accelerators lie that a role may use now."""
    nodes, mine = world.nodes, np.flatnonzero(open_mask(world, options))
    free = nodes.free_milli[mine]
    if not len(mine):
        return Blocks(0, 0, 0, 0, 0, 0)
    slots = hosting(world, role)[mine]
    roomy = mine[slots >= role.accelerators]
    whole = hosting_devices(world, WHOLE_MILLI)[mine]
    return Blocks(
        int(free.sum()), int((free > 0).sum()), int(whole.max()), len(roomy),
        int(nodes.cpu_free_milli[roomy].max(initial=0)),
        int(nodes.memory_free_mib[roomy].max(initial=0)),
    )  # fmt: skip


def large_enough(world: World, role: Role, options: tuple[Option, ...]) -> tuple[Option, ...]:
    """The options of which some node, empty, has the devices of a replica; all where none has."""
    is_large = world.nodes.devices[: world.node_count] >= role.accelerators
    able = tuple(one for one in options if (node_mask(world, (one,)) & is_large).any())
    return able or options


def of_types_there(world: World, shape: Shape) -> Shape:
    """A shape with no GPU types of which a Kubernetes cluster has no node now, if it has others.

    Its pods name a resource there, and the types are those that have it, or had it once.
    """
    roles = tuple(of_type_there(world, role) for role in shape.roles)
    return shape if roles == shape.roles else replace(shape, roles=roles)


def of_type_there(world: World, role: Role) -> Role:
    """The same of a role."""
    if not role.kinds or cluster_kinds.of_all(world) != cluster_kinds.KUBERNETES:
        return role
    nodes, rows = world.nodes, world.node_count
    numbers = set(nodes.kind[:rows][nodes.state[:rows] != NodeState.GONE].tolist())
    kinds = tuple(kind for kind in role.kinds if world.kind_number.get(kind) in numbers)
    return replace(role, kinds=kinds) if kinds and kinds != role.kinds else role


def unlisted_mask(world: World) -> Mask:
    """The nodes, not gone, that no source lists: of them only what jobs hold is known."""
    rows = world.node_count
    is_unlisted = np.array([*(UNLISTED in group.labels for group in world.groups), False], bool)
    return is_unlisted[world.nodes.group[:rows]] & (world.nodes.state[:rows] != NodeState.GONE)


def unlisted_words(world: World) -> str:
    """What is not known of nodes that no source lists; "": there is none such."""
    count = int(unlisted_mask(world).sum())
    if not count:
        return ""
    here = int((world.nodes.state[: world.node_count] != NodeState.GONE).sum())
    return (
        f"listed by no source: {count:,} of {phrasing.many(here, 'node')}, taken as"
        " large as the most GPUs that"
        " jobs held there at once; how many they have, and whether more are free, is unknown"
    )


def free_milli(world: World, options: tuple[Option, ...]) -> int:
    """What is free on nodes that take work and that kinds, labels and taints allow."""
    return int(world.nodes.free_milli[: world.node_count][open_mask(world, options)].sum())


def open_mask(world: World, options: tuple[Option, ...]) -> Mask:
    """The nodes that take work and that kinds, labels and taints allow."""
    rows, nodes = world.node_count, world.nodes
    takes_work = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
    return node_mask(world, options) & takes_work


def node_mask(world: World, options: tuple[Option, ...]) -> Mask:
    """The nodes, not gone, that kinds and labels allow."""
    rows = world.node_count
    is_ok = np.zeros(len(world.groups) + 1, bool)
    for option in options:
        is_ok[: len(option.is_ok)] |= option.is_ok.astype(bool)
    return is_ok[world.nodes.group[:rows]] & (world.nodes.state[:rows] != NodeState.GONE)


def kept_in(world: World, options: tuple[Option, ...], place: Place) -> Mask:
    """Which nodes that it may use are spares, boot, are unhealthy, or are closed in one of the ways
    there are.
    """
    mine, rows, nodes = node_mask(world, options), world.node_count, world.nodes
    if place is Place.BOOTING:
        return mine & (nodes.state[:rows] == NodeState.BOOTING)
    if place is not Place.SPARE:
        is_there = closed(world)[place]
        if place is Place.UNHEALTHY:
            is_there |= nodes.state[:rows] == NodeState.UNHEALTHY
        return mine & is_there
    return mine & (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 1)


def closed(world: World) -> dict[Place, Mask]:
    """The nodes that the books have as closed, by what their own cluster says of them."""
    rows = world.node_count
    found = {place: np.zeros(rows, bool) for place in (*CLOSED, Place.UNHEALTHY)}
    for n in np.flatnonzero(world.nodes.state[:rows] == NodeState.CORDONED).tolist():
        found[Place(phrasing.shut(world, n))][n] = True
    return found


def would_host(world: World, role: Role, options: tuple[Option, ...], place: Place) -> int:
    """How many replicas fit on what is free of spares, or of nodes that boot or are closed."""
    return int(hosts_there(world, role, options, place).sum())


def free_on(world: World, nodes: tuple[int, ...]) -> Lot:
    """What is free on these nodes, whether they take work or not."""
    here = np.zeros(world.node_count, bool)
    here[[*nodes]] = True
    return _lot(world, here, world.nodes.free_milli[: world.node_count])


def hosts_there(world: World, role: Role, options: tuple[Option, ...], place: Place) -> I64:
    """The same for each node; of others none."""
    rows, nodes = world.node_count, world.nodes
    hosts = hosting(world, role) // max(1, role.accelerators)
    for free, asked in (
        (nodes.cpu_free_milli[:rows], role.cpu_milli),
        (nodes.memory_free_mib[:rows], role.memory_mib),
    ):
        hosts = np.minimum(hosts, free // asked) if asked else hosts
    found: I64 = np.where(kept_in(world, options, place), hosts, 0)
    return found


def in_use_milli(world: World) -> I64:
    """For each node, the accelerators that jobs hold: the one count of what is busy."""
    rows, nodes = world.node_count, world.nodes
    working = (nodes.devices[:rows] - nodes.failed[:rows]).astype(np.int64) * WHOLE_MILLI
    is_launched = np.isin(nodes.state[:rows], sorted(LAUNCHED))
    held: I64 = working - nodes.free_milli[:rows] - nodes.stranded_milli[:rows]
    return np.where(is_launched, held, 0)


def asked_milli(world: World, shape: Shape) -> int:
    """What a job requests in whole GPUs: of accelerators that are parts of GPUs, so much of them.

    Where it may have parts of several sizes, by the largest.
    """
    if not any(row.unit for row in world.contract_rows):
        return shape.total_milli
    return sum(_in_gpus(world, role) for role in shape.roles)


def _in_gpus(world: World, role: Role) -> int:
    asked = role.count * role.replica_milli
    rows = [row for row in world.contract_rows if not role.kinds or row.kind in role.kinds]
    if not all(row.unit for row in rows):  # it may have whole GPUs
        return asked
    return max((row.in_gpus(asked) for row in rows), default=asked)


def held_milli(world: World, j: int) -> int:
    """What an active job runs on; of an elastic one that may be less than it requests."""
    roles = world.shape_of(j).roles
    return sum(p.replicas * roles[p.role].replica_milli for p in world.placements[j])


def hosting(world: World, role: Role) -> I64:
    """For each node, how many devices count for a role, or parts or slices of devices."""
    return slices.per_node(world, role) if role.profile else hosting_devices(world, role.milli)


def hosting_devices(world: World, milli: int) -> I64:
    """For each node, how many parts of this size its devices have free."""
    rows, count = world.node_count, world.device_count
    if not rows:
        return np.zeros(0, np.int64)
    parts = world.devices.free_milli[:count] // milli
    parts = np.where(world.devices.is_failed[:count] == 0, parts, 0)
    sums: I64 = np.add.reduceat(parts.astype(np.int64), world.nodes.first_device[:rows])
    return sums


def _is_claim(world: World, c: int, role: Role) -> bool:
    row = world.contract_rows[c]
    is_kind = not role.kinds or row.kind in role.kinds
    if role.profile and not mig.offers(row.kind, role.profile, role.milli):
        return False
    return claims_something(world, c) and is_kind and could_match(world, row, role)


def _on_nodes(world: World, mine: Mask) -> list[tuple[Place, Mask, I64]]:
    rows, nodes = world.node_count, world.nodes
    state, free = nodes.state[:rows], nodes.free_milli[:rows]
    silent = world.matrices.nodes[:rows, NODE.UNADVERTISED] * WHOLE_MILLI
    failed = nodes.failed[:rows].astype(np.int64) * WHOLE_MILLI
    if world.is_looked_on:  # it shows how many there are, and not why there are fewer
        silent = failed
    failed = failed - silent
    stranded = nodes.stranded_milli[:rows]
    launched = mine & np.isin(state, sorted(LAUNCHED))
    ready, spare = mine & (state == NodeState.READY), nodes.is_spare[:rows] == 1
    found = [(place, mine & (state == at), free) for at, place in _OF_STATE.items()]
    found += [(place, mine & here, free) for place, here in closed(world).items()]
    found += [(Place.FREE, ready & ~spare, free), (Place.SPARE, ready & spare, free)]
    return [
        *found, (Place.FAILED, launched, failed), (Place.UNADVERTISED, launched, silent),
        (Place.STRANDED, launched, stranded),
        (Place.BUSY, launched, in_use_milli(world)),
    ]  # fmt: skip


def _ready_milli(world: World, mine: Mask) -> int:
    rows, nodes = world.node_count, world.nodes
    in_order = (nodes.state[:rows] == NodeState.READY) | closed(world)[Place.FULL]
    ready = mine & in_order & (nodes.is_spare[:rows] == 0)
    return int((nodes.devices[:rows] - nodes.failed[:rows])[ready].sum()) * WHOLE_MILLI


def _paid_and_not_launched(world: World, c: int) -> int:
    """What of a contract is paid for beyond the nodes that it has or had ordered."""
    nodes_milli = int(world.contracts.nodes[c]) * world.contract_rows[c].node.devices * WHOLE_MILLI
    return max(0, world.paid_milli(c) - nodes_milli)


def _off_nodes(world: World, c: int) -> list[tuple[Place, int]]:
    row, contracts = world.contract_rows[c], world.contracts
    node_milli = row.node.devices * WHOLE_MILLI
    if not contracts.is_running[c]:
        return [(Place.STARTS_LATER, row.count * WHOLE_MILLI)]
    asked = int(contracts.asked_nodes[c]) * node_milli
    place, most = Place.NOT_LAUNCHED, int(contracts.committed_milli[c])
    if contracts.is_elastic[c]:
        place, most = Place.MAY_LAUNCH, row.count * WHOLE_MILLI
    rest = most - int(contracts.nodes[c]) * node_milli - asked
    return [(Place.ASKED, asked), (place, max(0, rest))]


def _lot(world: World, where: Mask, milli: I64) -> Lot:
    here = np.flatnonzero(where & (milli > 0))
    contracts, c = world.contracts, world.nodes.contract[here]
    is_paid = (world.nodes.state[here] != NodeState.ASKED) | (contracts.is_elastic[c] == 0)
    prices = [row.at(world.now_ms) for row in world.contract_rows]
    is_priced = all(prices[one].is_priced for one in np.unique(c).tolist())
    rates = np.array([row.rate_usd_micro for row in prices], np.int64)
    usd = int((milli[here] * rates[c] * is_paid).sum()) // WHOLE_MILLI
    examples = tuple(world.node_rows[n].name for n in here[:3].tolist())
    return Lot(int(milli[here].sum()), len(here), usd if is_priced else None, examples)


def _add(lots: dict[Place, Lot], place: Place, lot: Lot) -> None:
    if lot.milli:
        old = lots.get(place, NOTHING)
        examples = (*old.examples, *lot.examples)[:3]
        usd = (old.usd_micro_per_hour, lot.usd_micro_per_hour)
        lots[place] = Lot(
            old.milli + lot.milli, old.nodes + lot.nodes,
            None if usd[0] is None or usd[1] is None else usd[0] + usd[1], examples,
        )  # fmt: skip


def clusters(world: World) -> list[str]:
    """The several clusters of a fleet, the one with the most accelerators first; of one, none."""
    held, rows = dict[str, int](), world.node_count
    is_there = world.nodes.state[:rows] != NodeState.GONE
    for g, group in enumerate(world.groups):
        if cluster := dict(group.labels).get(CLUSTER):
            mine = is_there & (world.nodes.group[:rows] == g)
            if mine.any():
                held[cluster] = held.get(cluster, 0) + int(world.nodes.devices[:rows][mine].sum())
    return sorted(held, key=lambda name: (-held[name], name)) if len(held) > 1 else []
