"""Seats: which replicas of a job are where, and the devices that they are taken to hold there.

Nodes give out their devices themselves (the device plugin); here each is in one place at a time.
"""

from collections import Counter
from collections.abc import Iterator

from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import JobState
from tidemill.model.world import World

Seat = tuple[int, int]
"""Role and node, by number."""


def of_job(world: World, j: int) -> Counter[Seat]:
    """The seats that a job holds."""
    found = Counter[Seat]()
    for piece in world.placements.get(j, ()):
        found[piece.role, piece.node] += piece.replicas
    return found


def at_most(kept: Counter[Seat], sure: Counter[Seat], shape: Shape) -> Counter[Seat]:
    """Seats that are sure, and of the others as many as each role still lacks."""
    found = Counter(sure)
    for r, role in enumerate(shape.roles):
        left = role.count - sum(count for (q, _), count in sure.items() if q == r)
        for seat, count in sorted((kept - sure).items()):
            if seat[0] == r and left > 0:
                found[seat] += min(count, left)
                left -= min(count, left)
    return found


def free_mask(
    world: World, n: int, replicas: int, each: int, taken: int, own: int = 0
) -> tuple[int, int]:
    """Devices of a node for as many replicas as find some, the first first; and how many."""
    if not each:
        return 0, replicas
    first, free = world.nodes.first_device.item(n), list[int]()
    for bit in range(world.nodes.devices.item(n)):
        d = first + bit
        is_free = own >> bit & 1 or world.devices.free_milli[d] == WHOLE_MILLI
        if is_free and not taken >> bit & 1 and not world.devices.is_failed[d]:
            free.append(bit)
    count = min(replicas, len(free) // each)
    return sum(1 << bit for bit in free[: count * each]), count


def pieces(world: World, j: int, seats: Counter[Seat]) -> tuple[tuple[Piece, ...], int]:
    """Seats as pieces on devices that are free, or its own; and what finds none."""
    roles = world.shape_of(j).roles
    own = dict[int, int]()
    for piece in world.placements.get(j, ()):
        own[piece.node] = own.get(piece.node, 0) | piece.devices
    pieces, over, taken = list[Piece](), 0, dict[int, int]()
    for (r, n), count in sorted(seats.items()):
        each = roles[r].accelerators
        mask, found = free_mask(world, n, count, each, taken.get(n, 0), own.get(n, 0))
        taken[n] = taken.get(n, 0) | mask
        over += (count - found) * each * WHOLE_MILLI
        if found:
            pieces.append(Piece(r, n, found, mask))
    return tuple(pieces), over


def changed(
    world: World, at_ms: int, j: int, pieces: tuple[Piece, ...], over_milli: int
) -> Iterator[ev.Event]:
    """A job that holds something is seen to hold these from now on, and goes on."""
    jobs = world.jobs
    is_up = jobs.state.item(j) == JobState.RUNNING
    attempt = jobs.attempt.item(j) + is_up
    yield ev.PlacementSeen(at_ms, j, attempt, pieces, over_milli)
    if is_up:
        yield ev.JobStarted(at_ms, j, attempt)
