"""Place: a role tied by bonds, over as few and as near domains as there are, in whole columns.

What each node can host is counted once, added up tier by tier, and divided from the outside in.
Nothing is written: whoever asked takes the pieces, or not.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import MAX_DEVICES, Role
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.room import Filled, Room
from tidemill.scheduling.topology.wishes import Rung

ANYWHERE = (0, -1)
"""Instead of a tier and a domain: the whole fleet."""


class Ground(NamedTuple):
    """What the loops read of a fleet: as it is in a room, or as it would be if all was well."""

    world: World
    state: I64
    is_spare: I64
    is_failed: I64
    cpu_free: I64
    memory_free: I64
    node_free: I64
    device_free: I64


def ground(room: Room) -> Ground:
    """The fleet as it is in a room."""
    world = room.world
    return Ground(
        world, world.nodes.state, world.nodes.is_spare, world.devices.is_failed, room.cpu_free,
        room.memory_free, room.node_free, room.device_free,
    )  # fmt: skip


def at_its_best(world: World) -> Ground:
    """Every node that is known, ready, whole and empty; spares too."""
    nodes, rows, devices = world.nodes, world.node_count, world.device_count
    is_here = nodes.state[:rows] != NodeState.GONE
    return Ground(
        world,
        np.where(is_here, int(NodeState.READY), int(NodeState.GONE)).astype(np.int64),
        np.zeros(rows, np.int64),
        np.zeros(devices, np.int64),
        nodes.cpu_milli[:rows],
        nodes.memory_mib[:rows],
        nodes.devices[:rows].astype(np.int64) * WHOLE_MILLI,
        np.full(devices, WHOLE_MILLI, np.int64),
    )


class Count(NamedTuple):
    """What each domain of each tier can host, in groups, and has free; nodes are the last row."""

    cap: I64
    free: I64


def fill(
    room: Room, role: Role, is_ok: I64, ladder: tuple[Rung, ...], scope: tuple[int, int]
) -> Filled:
    """Where all replicas of a role would go, by the first rung that holds; or how many fit loose.

    The room is not changed.
    """
    here, counted = ground(room), dict[tuple[int, int], I64]()
    for rung in ladder:
        inside = (rung.block, rung.each)
        if inside not in counted:
            counted[inside] = hosts(here, role, is_ok, inside, scope)
        found = gather(here, counted[inside], rung.ratio)
        if rows_total(here.world, found, rung.top) >= rung.want:
            return Filled(role.count, _pieces(here, role, rung, found))
    loose = counted.get((0, 1))
    loose = hosts(here, role, is_ok, (0, 1), scope) if loose is None else loose
    return Filled(int(loose.sum()), ())


def hosts(
    here: Ground, role: Role, is_ok: I64, inside: tuple[int, int], scope: tuple[int, int]
) -> I64:
    """How many groups of replicas each node can take, each inside one block of devices."""
    world, rows = here.world, here.world.node_count
    nodes, (tier, domain), (block, each) = world.nodes, scope, inside
    found: I64 = np.empty(rows, np.int64)
    scopes = world.position[tier] if tier < len(world.domains) else _numbers(rows)
    compiled().survey(
        here.state, here.is_spare, nodes.group, nodes.first_device, nodes.devices,
        here.is_failed, is_ok, here.cpu_free, here.memory_free, here.node_free,
        here.device_free, rows, role.accelerators, role.milli, role.cpu_milli,
        role.memory_mib, block, each, scopes, domain, found,
    )  # fmt: skip
    return found


def gather(here: Ground, hosted: I64, ratio: I64) -> Count:
    """Add up what nodes can host, tier by tier."""
    world, rows = here.world, here.world.node_count
    cap = np.empty((len(world.domains) + 1, rows), np.int64)
    free = np.empty_like(cap)
    compiled().gather(
        hosted, here.node_free, rows, world.position, world.parent, _domains(world), ratio, cap,
        free,
    )  # fmt: skip
    return Count(cap, free)


def rows_total(world: World, found: Count, tier: int) -> int:
    """What all domains of a tier host together."""
    return int(found.cap[tier, : count_of(world, tier)].sum())


def count_of(world: World, tier: int) -> int:
    """How many domains a tier has; nodes are the tier after those with a label."""
    return len(world.domains[tier]) if tier < len(world.domains) else world.node_count


def candidates(
    room: Room, roles: tuple[Role, ...], flags: tuple[tuple[I64, ...], ...], tier: int
) -> Iterator[int]:
    """Domains of a tier that could host each of some roles, on one kind; those with least free
    first, then by number.
    """
    here, tier = ground(room), min(tier, len(room.world.domains))
    ones = np.ones(len(room.world.domains) + 1, np.int64)
    fits = np.ones(count_of(room.world, tier), bool)
    free: I64 = np.zeros(len(fits), np.int64)
    for role, options in zip(roles, flags, strict=True):
        fits_one = np.zeros(len(fits), bool)
        for is_ok in options:
            found = gather(here, hosts(here, role, is_ok, (0, 1), ANYWHERE), ones)
            fits_one |= found.cap[tier, : len(fits)] >= role.count
            free = np.maximum(free, found.free[tier, : len(fits)])
        fits &= fits_one
    able = np.flatnonzero(fits)
    yield from able[np.argsort(free[able], kind="stable")].tolist()


def _pieces(here: Ground, role: Role, rung: Rung, found: Count) -> tuple[tuple[int, int, int], ...]:
    world, rows, loops = here.world, here.world.node_count, compiled()
    quota = np.empty_like(found.cap)
    loops.divide(
        found.cap, found.free, rows, world.position, world.parent, _domains(world), rung.ratio,
        rung.top, rung.want, quota,
    )  # fmt: skip
    node, replicas = (np.empty(role.count, np.int64) for _ in range(2))
    mask, left = np.empty(role.count, np.uint64), np.empty(MAX_DEVICES, np.int64)
    count = loops.pieces(
        quota[-1], rows, rung.ratio[-1], rung.each, rung.block, role.accelerators, role.milli,
        world.nodes.first_device, world.nodes.devices, here.is_failed, here.device_free, left,
        node, replicas, mask,
    )  # fmt: skip
    columns = (node[:count], replicas[:count], mask[:count])
    return tuple(zip(*(column.tolist() for column in columns), strict=True))


def _domains(world: World) -> I64:
    return np.array([len(tier) for tier in world.domains], np.int64)


def _numbers(rows: int) -> I64:
    return np.arange(rows, dtype=np.int64)


def compiled() -> ModuleType:
    """The compiled loops; loaded when the first tied gang is placed."""
    from tidemill.scheduling.topology import kernels  # noqa: PLC0415 - most fleets never need it

    return kernels
