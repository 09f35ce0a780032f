"""Fit: place a whole gang in the room, or leave the room as it was and say what was short.

Roles are placed in order, each on one kind: the first it names that has room within the team's
limit. What comes back is either the pieces or, for the role that failed, what stood in the way on
each kind it may use.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.rows import Piece, Role, Shape
from tidemill.scheduling import shares
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.room import Room

Options = tuple[tuple[Option, ...], ...]


class Obstacle(IntEnum):
    """What kept a role off one kind."""

    LIMIT = 0
    SHORT = 1
    UNFIT = 2
    KEPT = 3


class Shortage(NamedTuple):
    """The role that did not fit, and what stood in the way on each kind tried."""

    role: int
    obstacles: tuple[tuple[Option, Obstacle, int], ...]


class Fit(NamedTuple):
    """The pieces of a gang that fits, or the shortage of one that does not."""

    pieces: tuple[Piece, ...]
    shortage: Shortage | None


def fit(room: Room, q: int, shape: Shape, options: Options, spreads: bool) -> Fit:
    """Place the gang in the room and book it, or change nothing.

    Spreading one role may break up the nodes that the next one needs whole; then it is packed.
    """
    found = _fit(room, q, shape, options, spreads)
    if found.shortage is not None and spreads and len(shape.roles) > 1:
        found = _fit(room, q, shape, options, spreads=False)
    return found


def _fit(room: Room, q: int, shape: Shape, options: Options, spreads: bool) -> Fit:
    pieces: tuple[Piece, ...] = ()
    for r, role in enumerate(shape.roles):
        found, obstacles = _fit_role(room, q, r, role, options[r], spreads)
        if not found:
            undo(room, q, shape, pieces)
            return Fit((), Shortage(r, obstacles))
        room.book(q, shape, found, 1)
        pieces += found
    return Fit(pieces, None)


def undo(room: Room, q: int, shape: Shape, pieces: tuple[Piece, ...]) -> None:
    """Take pieces out of the room and off the books again."""
    room.give(shape, pieces)
    room.book(q, shape, pieces, -1)


def redo(room: Room, q: int, shape: Shape, pieces: tuple[Piece, ...]) -> None:
    """Put pieces that were undone into the room and on the books again."""
    room.take(shape, pieces)
    room.book(q, shape, pieces, 1)


def _fit_role(
    room: Room, q: int, r: int, role: Role, options: tuple[Option, ...], spreads: bool
) -> tuple[tuple[Piece, ...], tuple[tuple[Option, Obstacle, int], ...]]:
    obstacles = []
    for option in options:
        k, need = option.kind, role.total_milli
        if need and not shares.within_limit(room.world, room.used, q, k, need):
            obstacles.append((option, Obstacle.LIMIT, 0))
        elif need > room.kind_free[k]:
            obstacles.append((option, Obstacle.SHORT, 0))
        elif need and not shares.leaves_kept(room.world, room, room.kind_free[k], q, k, need):
            obstacles.append((option, Obstacle.KEPT, 0))
        else:
            filled = room.fill(role, option.is_ok, spreads)
            if filled.placed:
                return tuple(Piece(r, *place) for place in filled.placed), ()
            obstacles.append((option, Obstacle.UNFIT, filled.hosted))
    return (), tuple(obstacles)
