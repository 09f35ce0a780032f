"""Slices: MIG instances in a room. How many fit on each node, and which device takes the next.

Whole columns, no compiled loop: fleets that carry instances are few, and one placement is a handful
of sweeps; over the devices that are cut alone, where one of them takes a single instance.

An instance goes to the device that carries some already and has least left; else to an empty device
of the node with least free. On the device it takes the start that leaves most placements after it
(``units.mig.geometry``). All starts of one profile are apart from each other, so whoever is counted
as fitting does fit.
"""

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig
from tidemill.units.mig.profiles import Geometry

if TYPE_CHECKING:
    from tidemill.scheduling.snapshot import Snapshot

EMPTY = 1 << 40  # above any node's free milli: devices that carry instances are filled first
NOWHERE = 1 << 60

Placed = tuple[tuple[int, ...], ...]


class Instances(NamedTuple):
    """How many more instances of a profile fit now: on devices that carry some, and on empty."""

    profile: str
    beside: int
    empty: int


class Cut(NamedTuple):
    """The devices of one kind on nodes that take work, as MIG sees them."""

    kind: str
    devices: int
    """That carry instances."""
    free_milli: int
    """Of those: what a further instance can have, and what none can."""
    stranded_milli: int
    fits: tuple[Instances, ...]


class Axis(NamedTuple):
    """The devices of a fleet with the nodes and kinds they belong to."""

    node: I64
    kind: I64
    first: I64


def axis(world: World) -> Axis:
    """The columns of a World, as long as it has no further nodes."""
    rows = world.node_count
    node = np.repeat(np.arange(rows), world.nodes.devices[:rows])
    return Axis(node, world.nodes.kind[:rows][node], world.nodes.first_device[:rows])


def per_device(
    world: World, kinds: I64, slices: I64, device_free: I64, is_failed: I64, role: Role
) -> I64:
    """How many instances of a role's profile each of some devices could take now."""
    found: I64 = np.zeros(len(kinds), np.int64)
    for k, kind in enumerate(world.kinds):
        if not mig.offers(kind, role.profile, role.milli):
            continue
        part = mig.of_kind(kind)
        assert part is not None, "it offers the profile"
        can = (kinds == k) & ((slices > 0) | (device_free == WHOLE_MILLI)) & (is_failed == 0)
        found[can] = _most(part, role.profile)[slices[can]]
    return found


def per_node(world: World, role: Role) -> I64:
    """How many instances of a role's profile each node could take of its devices as they are."""
    if not world.node_count:
        return np.zeros(0, np.int64)
    at, (free, is_failed, states) = axis(world), _columns(world)
    return np.add.reduceat(per_device(world, at.kind, states, free, is_failed, role), at.first)


def survey(world: World) -> tuple[Cut, ...]:
    """Every kind of which a device carries instances, or for which somebody asked for some."""
    if not world.sliced and not any(r.profile for shape in world.shape_rows for r in shape.roles):
        return ()
    at, nodes = axis(world), world.nodes
    takes = (nodes.state[at.node] == NodeState.READY) & (nodes.is_spare[at.node] == 0)
    return tuple(
        _cut(world, at, kind, part, takes & (at.kind == k))
        for k, kind in enumerate(world.kinds)
        if (part := mig.of_kind(kind)) is not None and (at.kind == k).any()
    )


def _cut(world: World, at: Axis, kind: str, part: Geometry, here: NDArray[np.bool_]) -> Cut:
    free, is_failed, states = _columns(world)
    is_cut = here & (states > 0)
    left = [mig.left_milli(part, state) for state in states[is_cut].tolist()]
    fits = []
    for row in part.profiles:
        role = Role(milli=part.milli(row), profile=row.name, kinds=(kind,))
        able = per_device(world, at.kind, states, free, is_failed, role)
        fits.append(
            Instances(row.name, int(able[is_cut].sum()), int(able[here & (states == 0)].sum()))
        )
    return Cut(kind, int(is_cut.sum()), sum(one.free for one in left),
               sum(one.stranded for one in left), tuple(fits))  # fmt: skip


def hosts(room: "Snapshot", role: Role, is_ok: I64) -> I64:
    """How many replicas of a role with a profile each node hosts."""
    return _hosts(room, role, is_ok, _devices(room, role))


def fill(room: "Snapshot", role: Role, is_ok: I64) -> tuple[int, Placed]:
    """Place all replicas of a role with a profile, or none: how many fit, and the pieces."""
    beside = _beside(room, role, is_ok) if role.count == 1 else -1
    if beside >= 0:
        return 1, (_take(room, role, beside),)
    devices = _devices(room, role)
    hosts = _hosts(room, role, is_ok, devices)
    total = int(hosts.sum())
    if total < role.count:
        return total, ()
    at, placed = room.axis, list[tuple[int, ...]]()
    rank = _ranks(room, at, slice(None))
    rank[(devices == 0) | (hosts[at.node] == 0)] = NOWHERE
    for _ in range(role.count):
        d = int(np.argmin(rank))
        n = int(at.node[d])
        placed.append(_take(room, role, d))
        hosts[n] -= 1
        devices[d] -= 1
        mine = slice(int(at.first[n]), int(at.first[n]) + int(room.world.nodes.devices[n]))
        again = _ranks(room, at, mine)
        rank[mine] = np.where((devices[mine] > 0) & (hosts[n] > 0), again, NOWHERE)
    return role.count, tuple(placed)


def best_devices(room: "Snapshot", role: Role, is_ok: I64, most: int) -> list[tuple[int, int]]:
    """The devices that suit the first instance of a role best, with their ranks: the first wins."""
    devices = _devices(room, role)
    hosts, at = _hosts(room, role, is_ok, devices), room.axis
    rank = _ranks(room, at, slice(None))
    able = np.flatnonzero((devices > 0) & (hosts[at.node] > 0))
    order = able[np.argsort(rank[able], kind="stable")][:most].tolist()
    return [(rank.item(d), d) for d in order]


def _beside(room: "Snapshot", role: Role, is_ok: I64) -> int:
    """The device that carries instances and has least left beside one more; -1: none takes it."""
    cut = np.flatnonzero(room.slices)
    if not len(cut):
        return -1
    world, nodes, n = room.world, room.world.nodes, room.axis.node[cut]
    able = per_device(
        world, room.axis.kind[cut], room.slices[cut], room.device_free[cut],
        world.devices.is_failed[cut], role,
    ) > 0  # fmt: skip
    able &= (nodes.state[n] == NodeState.READY) & (nodes.is_spare[n] == 0)
    able &= is_ok[nodes.group[n]] != 0
    able &= (room.cpu_free[n] >= role.cpu_milli) & (room.memory_free[n] >= role.memory_mib)
    some = cut[able]
    return int(some[np.argmin(_ranks(room, room.axis, some))]) if len(some) else -1


def _take(room: "Snapshot", role: Role, d: int) -> tuple[int, ...]:
    """Take the best start on a device; the piece."""
    n = int(room.axis.node[d])
    mask = best_start(room.world, n, int(room.slices[d]), role)
    room.slide(role, n, d, mask, -1)
    return n, 1, 1 << d - int(room.axis.first[n]), mask


def best_start(world: World, n: int, state: int, role: Role) -> int:
    """The slices that an instance takes on a device of a node in this state; 0: it cannot."""
    part = mig.of_kind(world.kinds[world.nodes.kind.item(n)])
    row = part.find(role.profile) if part else None
    if part is None or row is None:
        return 0
    return mig.tables(part).best[part.profiles.index(row)][state]


def hosted(world: World, n: int, state: int, free_milli: int, role: Role) -> int:
    """How many instances of a role's profile one working device of a node could take."""
    part = mig.of_kind(world.kinds[world.nodes.kind.item(n)])
    if part is None or part.find(role.profile) is None or not (state or free_milli == WHOLE_MILLI):
        return 0
    return int(_most(part, role.profile)[state])


def could_take(room: "Snapshot", shape: Shape, pieces: tuple[Piece, ...]) -> bool:
    """Whether pieces with slices among them could all be taken."""
    first = room.world.nodes.first_device
    free, state = dict[int, int](), dict[int, int]()
    cpu, memory = dict[int, int](), dict[int, int]()
    for piece in pieces:
        role, n = shape.roles[piece.role], piece.node
        cpu[n] = cpu.get(n, 0) + piece.replicas * role.cpu_milli
        memory[n] = memory.get(n, 0) + piece.replicas * role.memory_mib
        for bit in range(piece.devices.bit_length()):
            if not piece.devices >> bit & 1:
                continue
            d = int(first[n]) + bit
            has, is_in = free.get(d, int(room.device_free[d])), state.get(d, int(room.slices[d]))
            if piece.slices:
                if is_in & piece.slices or not (is_in or has == WHOLE_MILLI):
                    return False
                free[d], state[d] = 0, is_in | piece.slices
            elif has < role.milli:
                return False
            else:
                free[d] = has - role.milli
    return all(cpu[n] <= room.cpu_free[n] and memory[n] <= room.memory_free[n] for n in cpu)


def _devices(room: "Snapshot", role: Role) -> I64:
    is_failed = room.world.devices.is_failed[: room.devices]
    return per_device(room.world, room.axis.kind, room.slices, room.device_free, is_failed, role)


def _columns(world: World) -> tuple[I64, I64, I64]:
    """What is free of every device, whether it failed, and its slices."""
    count, devices = world.device_count, world.devices
    return devices.free_milli[:count], devices.is_failed[:count], devices.slices[:count]


def _hosts(room: "Snapshot", role: Role, is_ok: I64, devices: I64) -> I64:
    """How many replicas each node can take: by its devices, CPU and memory."""
    nodes, rows = room.world.nodes, room.rows
    takes = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
    takes &= is_ok[nodes.group[:rows]] != 0
    found: I64 = np.zeros(rows, np.int64)
    if rows:
        found = np.where(takes, np.add.reduceat(devices, room.axis.first), 0)
    if role.cpu_milli:
        found = np.minimum(found, np.maximum(0, room.cpu_free) // role.cpu_milli)
    if role.memory_mib:
        found = np.minimum(found, np.maximum(0, room.memory_free) // role.memory_mib)
    return found


def _ranks(room: "Snapshot", at: Axis, some: slice | I64) -> I64:
    """How well devices suit one more instance, the lower the better: see above."""
    kinds, states = at.kind[some], room.slices[some]
    found: I64 = EMPTY + room.node_free[at.node[some]]
    for k, kind in enumerate(room.world.kinds):
        part = mig.of_kind(kind)
        mine = (kinds == k) & (states > 0)
        if part is not None and mine.any():
            found[mine] = _free(part)[states[mine]]
    return found


@cache
def _most(part: Geometry, profile: str) -> NDArray[np.int64]:
    row = part.find(profile)
    assert row is not None, "a part that offers a profile has it"
    return np.array(mig.tables(part).most[part.profiles.index(row)], np.int64)


@cache
def _free(part: Geometry) -> NDArray[np.int64]:
    return np.array([mig.left_milli(part, state).free for state in range(mig.STATES)], np.int64)
