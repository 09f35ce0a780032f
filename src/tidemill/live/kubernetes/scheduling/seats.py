"""Seats: which replicas of a job are where, and the devices that they are taken to hold there.

Nodes give out their devices themselves (the device plugin), or claims say which they are (DRA);
here each is in one place at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.world import World

Seat = tuple[int, int]
"""Role and node, by number."""


def held(world: World, j: int) -> tuple[Piece, ...]:
    """What a job holds, with what it grows into."""
    move = world.moving.get(j)
    return (*world.placements.get(j, ()), *(move.gained if move is not None else ()))


def of_job(world: World, j: int) -> Counter[Seat]:
    """The seats that a job holds."""
    return counted(held(world, j))


def counted(pieces: Iterable[Piece]) -> Counter[Seat]:
    """How many replicas are on each seat."""
    found = Counter[Seat]()
    for piece in pieces:
        found[piece.role, piece.node] += piece.replicas
    return found


def rank(world: World, seat: Seat) -> tuple[int, ...]:
    """What seats are given out by: those of one domain after each other, at every tier, since pods
    with neighbouring numbers talk most to each other.
    """
    r, n = seat
    return r, *(world.position.item(t, n) for t in range(len(world.domains))), n


def at_most(kept: Counter[Seat], sure: Counter[Seat], counts: Sequence[int]) -> Counter[Seat]:
    """Seats that are sure, and of the others as many as each role still lacks.

    ``counts``: by role; one alone is of all roles together.
    """
    found, is_one = Counter(sure), len(counts) == 1
    for r, count in enumerate(counts):
        left = count - sum(n for (q, _), n in sure.items() if is_one or q == r)
        for seat, more in sorted((kept - sure).items()):
            if (is_one or seat[0] == r) and left > 0:
                found[seat] += min(more, left)
                left -= min(more, left)
    return found


class Marks(NamedTuple):
    """What is known of the devices of a node: masks."""

    taken: int = 0
    """Not to be taken again."""
    own: int = 0
    """Held by whoever asks."""
    told: int = 0
    """Those that some of the replicas are known to hold: they hold these or, where others hold them
    already, none."""


NO_MARKS = Marks()


def free_mask(
    world: World, n: int, replicas: int, each: int, marks: Marks = NO_MARKS
) -> tuple[int, int]:
    """Devices of a node for as many replicas as find some, the first first; and how many."""
    if not each:
        return 0, replicas
    taken, own, told = marks
    first, free = world.nodes.first_device.item(n), list[int]()
    for bit in range(world.nodes.devices.item(n)):
        d = first + bit
        is_free = own >> bit & 1 or world.devices.free_milli[d] == WHOLE_MILLI
        if is_free and not taken >> bit & 1 and not world.devices.is_failed[d]:
            free.append(bit)
    sure = [bit for bit in free if told >> bit & 1]
    known = min(replicas, told.bit_count() // each)
    held = min(known, len(sure) // each)
    rest = sorted((bit for bit in free if not told >> bit & 1), key=lambda b: not own >> b & 1)
    count = min(replicas - known, len(rest) // each)
    found = (*sure[: held * each], *rest[: count * each])
    return sum(1 << bit for bit in found), held + count


def masks(world: World, j: int) -> dict[Seat, int]:
    """The devices that a job holds, by seat."""
    found = dict[Seat, int]()
    for piece in held(world, j):
        seat = (piece.role, piece.node)
        found[seat] = found.get(seat, 0) | piece.devices
    return found


def mask_on(world: World, j: int, n: int) -> int:
    """The devices of a node that a job holds."""
    return sum(mask for (_, node), mask in masks(world, j).items() if node == n)


def are_elsewhere(world: World, j: int, told: Mapping[Seat, int]) -> bool:
    """Whether a job holds other devices than the books have."""
    mine = masks(world, j)
    return any(mask & ~mine.get(seat, 0) for seat, mask in told.items())


def handed_out(mask: int, each: int) -> list[int]:
    """The devices of a piece, one mask for each of its replicas; empty: it has none."""
    if 0 < mask.bit_count() <= each:  # of one replica
        return [mask]
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    some: Iterable[Sequence[int]] = (bits[i : i + each] for i in range(0, len(bits), max(each, 1)))
    return [sum(1 << bit for bit in one) for one in some]


def pieces(
    world: World, j: int, seats: Counter[Seat], told: Mapping[Seat, int] | None = None
) -> tuple[tuple[Piece, ...], int]:
    """Seats as pieces on devices that are free, or its own; and what finds none.

    ``told``: the devices that are known to be held, by seat.
    """
    roles = world.shape_of(j).roles
    own = dict[int, int]()
    for piece in held(world, j):
        own[piece.node] = own.get(piece.node, 0) | piece.devices
    pieces, over, taken = list[Piece](), 0, dict[int, int]()
    for (r, n), count in sorted(seats.items()):
        each = roles[r].accelerators
        known = (told or {}).get((r, n), 0)
        marks = Marks(taken.get(n, 0), own.get(n, 0), known)
        mask, found = free_mask(world, n, count, each, marks)
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
