"""Keeping: what a reservation takes out of a room while somebody else is fitted beside it."""

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.tables import I64
from tidemill.scheduling.fitting.columns import KEPT, KEPT_COLUMNS
from tidemill.scheduling.snapshot import Snapshot, signed

Sliced = tuple[Shape, tuple[Piece, ...]]
"""Free slices that are kept for an instance, as a shape of their own."""


def kept(shape: Shape, pieces: tuple[Piece, ...]) -> I64:
    """The pieces of a reservation as rows (``KEPT``); nothing is kept yet."""
    rows: I64 = np.zeros((len(pieces), KEPT_COLUMNS), np.int64)
    roles = shape.roles
    if not pieces:
        return rows
    rows[:, : KEPT.KEPT_CPU] = [
        (
            piece.node, signed(piece.devices), roles[piece.role].milli,
            piece.replicas * roles[piece.role].cpu_milli,
            piece.replicas * roles[piece.role].memory_mib, piece.replicas,
        )
        for piece in pieces
    ]  # fmt: skip
    rows[:, KEPT.ROLE] = [piece.role for piece in pieces]
    return rows


def keep_slices(room: Snapshot, shape: Shape, pieces: tuple[Piece, ...]) -> list[Sliced]:
    """Take what instances need and is free now out of the room; what that was."""
    found, first = list[Sliced](), room.world.nodes.first_device
    for piece in pieces:
        role, n = shape.roles[piece.role], piece.node
        d = first.item(n) + piece.devices.bit_length() - 1
        state = room.slices.item(d)
        is_open = state or room.device_free.item(d) == WHOLE_MILLI
        free = piece.slices & ~state if is_open else 0
        cpu = min(role.cpu_milli, max(0, room.cpu_free.item(n)))
        memory = min(role.memory_mib, max(0, room.memory_free.item(n)))
        asks = Role(accelerators=int(free > 0), cpu_milli=cpu, memory_mib=memory)
        part = (Shape(shape.team, (asks,)), (Piece(0, n, 1, piece.devices if free else 0, free),))
        room.take(*part)
        found.append(part)
    return found


def let_slices_go(room: Snapshot, kept: list[Sliced]) -> None:
    """Give them back."""
    for part in reversed(kept):
        room.give(*part)
