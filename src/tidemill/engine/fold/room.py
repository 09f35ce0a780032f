"""Room on nodes: which pieces may be taken, and devices that are lost and repaired.

What taking and giving back does is said in ``core.places``.
"""

from collections.abc import Iterator

import numpy as np

from tidemill.core import places, rows
from tidemill.model.columns import MIG_STATES, NODE
from tidemill.model.errors import EventRefused
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role
from tidemill.model.states import LAUNCHED, NodeState
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig

Pieces = tuple[Piece, ...]

_READY = int(NodeState.READY)


def take_out(world: World, n: int) -> None:
    """Remove the node's accelerators from the levels of its contract, before a change."""
    w = world.ink.w
    places.take_out(w.nodes, w.levels, w.kinds, n)


def put_back(world: World, n: int) -> None:
    """Add the node's accelerators to the levels of its contract, after a change."""
    w = world.ink.w
    places.put_back(w.at, w.nodes, w.levels, w.kinds, w.log, n)


def write_found(world: World, pieces: Pieces) -> int:
    """Hand pieces to a kernel that takes them; how many."""
    for piece in pieces:
        if piece.slices:
            _know_slices(world, world.nodes.kind.item(piece.node))
    return rows.write_found(world, pieces)


def know_slices(world: World) -> None:
    """As ``_know_slices``, of every kind: after a snapshot was read, nothing is known of them."""
    for k in range(len(world.kinds)):
        _know_slices(world, k)


def _know_slices(world: World, k: int) -> None:
    """What a device of a kind is worth in each state of its slices, free and stranded."""
    row, geometry = world.ink.w.slices[k], mig.of_kind(world.kinds[k])
    if row[0] or geometry is None:
        return
    left = [mig.left_milli(geometry, state) for state in range(mig.STATES)]
    row[:MIG_STATES] = [one.free for one in left]
    row[MIG_STATES:] = [one.stranded for one in left]


def refuse_if_taken(world: World, j: int, roles: tuple[Role, ...], pieces: Pieces) -> None:
    """Refuse pieces that together ask for more than their nodes have left for this job."""
    nodes = world.nodes
    cpu: dict[int, int] = {}
    memory: dict[int, int] = {}
    refuse_if_booked(world, j, roles, pieces)
    for piece in pieces:
        n, role = piece.node, roles[piece.role]
        if nodes.state[n] != _READY or nodes.is_spare[n]:
            state = "a spare" if nodes.is_spare[n] else NodeState(nodes.state[n]).name.lower()
            asked = f"node `{world.node_rows[n].name}`"
            raise _refusal(world, j, asked, f"it is {state} and takes no new work")
        cpu[n] = cpu.get(n, 0) + piece.replicas * role.cpu_milli
        memory[n] = memory.get(n, 0) + piece.replicas * role.memory_mib
        if cpu[n] > nodes.cpu_free_milli[n] or memory[n] > nodes.memory_free_mib[n]:
            asked = f"{cpu[n]} CPU-milli and {memory[n]} MiB of `{world.node_rows[n].name}`"
            found = f"{nodes.cpu_free_milli[n]} and {nodes.memory_free_mib[n]} are free"
            raise _refusal(world, j, asked, found)


def refuse_if_booked(world: World, j: int, roles: tuple[Role, ...], pieces: Pieces) -> None:
    """Refuse devices that others hold, that failed, or that no launched node has."""
    nodes = world.nodes
    taken, slices = _own(world, j, roles)
    for piece in pieces:
        _refuse_if_unfit(world, j, roles, piece)
        n, role = piece.node, roles[piece.role]
        first = int(nodes.first_device[n])
        for bit in bits(piece.devices):
            d = first + bit
            if role.profile:
                _refuse_if_sliced(world, j, role, piece, slices, taken)
                continue
            taken[d] = taken.get(d, 0) + role.milli
            free = 0 if slices.get(d) else world.devices.free_milli[d]
            if world.devices.is_failed[d] or taken[d] > free:
                asked = f"{taken[d]} milli of `{world.node_rows[n].name}` device {bit}"
                raise _refusal(world, j, asked, "it is not free")


def _own(world: World, j: int, roles: tuple[Role, ...]) -> tuple[dict[int, int], dict[int, int]]:
    """What a job holds already is free for it: milli by device, less than none taken, and slices.

    Slices of a device that only this job cut are as if nobody had.
    """
    taken, slices = dict[int, int](), dict[int, int]()
    for piece in world.placements.get(j, ()):
        first, role = int(world.nodes.first_device[piece.node]), roles[piece.role]
        for d in (first + bit for bit in bits(piece.devices)):
            if role.profile:
                slices[d] = slices.get(d, int(world.devices.slices[d])) & ~piece.slices
            else:
                taken[d] = taken.get(d, 0) - role.milli
    return taken, slices


def _refuse_if_sliced(
    world: World, j: int, role: Role, piece: Piece, slices: dict[int, int], taken: dict[int, int]
) -> None:
    """Refuse an instance that is not legal on its device, or whose slices are not free."""
    n, bit = piece.node, piece.devices.bit_length() - 1
    d, part = int(world.nodes.first_device[n]) + bit, world.kinds[world.nodes.kind[n]]
    asked = f"slices {piece.slices:#b} of `{world.node_rows[n].name}` device {bit}"
    geometry = mig.of_kind(part)
    row = geometry.find(role.profile) if geometry else None
    if geometry is None or row is None or geometry.milli(row) != role.milli:
        raise _refusal(world, j, asked, f"`{part}` has no such profile `{role.profile}`")
    if piece.slices not in (mig.claim(row, start) for start in row.starts):
        raise _refusal(world, j, asked, f"no `{role.profile}` may sit there")
    state = slices.get(d, int(world.devices.slices[d]))
    is_own = d in slices or world.devices.free_milli[d] == WHOLE_MILLI
    is_empty = not state and is_own and d not in taken
    if world.devices.is_failed[d] or state & piece.slices or not (state or is_empty):
        raise _refusal(world, j, asked, "they are not free")
    slices[d] = state | piece.slices


def _refuse_if_unfit(world: World, j: int, roles: tuple[Role, ...], piece: Piece) -> None:
    n, nodes = piece.node, world.nodes
    if not 0 <= n < world.node_count:
        raise _refusal(world, j, f"node number {n}", f"there are {world.node_count} nodes")
    if not 0 <= piece.role < len(roles):
        raise _refusal(world, j, f"role number {piece.role}", f"it has {len(roles)} roles")
    name = world.node_rows[n].name
    if NodeState(nodes.state[n]) not in LAUNCHED:
        state = NodeState(nodes.state[n]).name.lower()
        raise _refusal(world, j, f"node `{name}`", f"it is {state}")
    wanted = piece.replicas * roles[piece.role].accelerators
    is_mask = 0 <= piece.devices < 1 << int(nodes.devices[n])
    is_instance = piece.replicas == 1 and piece.slices > 0
    if bool(roles[piece.role].profile) != is_instance or (piece.slices and not is_instance):
        asked = f"slices {piece.slices:#b} of `{name}` for {piece.replicas} replicas"
        raise _refusal(world, j, asked, "each replica with a profile is a piece with slices")
    if piece.replicas < 1 or not is_mask or piece.devices.bit_count() != wanted:
        asked = f"devices {piece.devices:#b} of `{name}` for {piece.replicas} replicas"
        raise _refusal(world, j, asked, f"{wanted} of its {nodes.devices[n]} devices are meant")


def fail_device(world: World, n: int, device: int) -> None:
    """Mark one empty device as failed: it is free no more."""
    d = int(world.nodes.first_device[n]) + device
    take_out(world, n)
    world.ink.nodes.free_milli[n] -= int(world.devices.free_milli[d])
    world.ink.devices.is_failed[d] = 1
    world.ink.nodes.failed[n] += 1
    put_back(world, n)


def repair_device(world: World, n: int, device: int) -> None:
    """Make one device that failed work again: it is empty, so it is free."""
    d = int(world.nodes.first_device[n]) + device
    take_out(world, n)
    world.ink.nodes.free_milli[n] += int(world.devices.free_milli[d])
    world.ink.devices.is_failed[d] = 0
    world.ink.nodes.failed[n] -= 1
    put_back(world, n)


def fill(world: World, n: int) -> None:
    """Make every device that works on a node one that is in use: nothing is free there."""
    devices = _devices_of(world, n)
    take_out(world, n)
    world.ink.devices.free_milli[devices[world.devices.is_failed[devices] == 0]] = 0
    world.ink.nodes.free_milli[n] = 0
    put_back(world, n)


def repair_devices(world: World, n: int) -> None:
    """Make every device of an empty node work again (between take_out and put_back)."""
    devices = _devices_of(world, n)
    world.ink.devices.is_failed[devices] = 0
    world.ink.nodes.failed[n] = 0
    world.ink.nodes.free_milli[n] = int(world.devices.free_milli[devices].sum())
    keep_unadvertised(world, n)


def keep_unadvertised(world: World, n: int) -> None:
    """The last devices of an empty node, which works, are not advertised: nobody may have them."""
    count = world.ink.w.nodes.item(n, NODE.UNADVERTISED)
    if count:
        devices = _devices_of(world, n)[-count:]
        world.ink.devices.is_failed[devices] = 1
        world.ink.nodes.failed[n] = count
        world.ink.nodes.free_milli[n] -= int(world.devices.free_milli[devices].sum())


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones in a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _devices_of(world: World, n: int) -> np.ndarray:
    first = int(world.nodes.first_device[n])
    return np.arange(first, first + int(world.nodes.devices[n]))


def _refusal(world: World, j: int, asked: str, found: str) -> EventRefused:
    return EventRefused(
        f"job `{world.job_names[j]}` is to be placed on {asked}; {found}",
        hint="the journal and the plan disagree; run `tidemill journal verify`",
    )
