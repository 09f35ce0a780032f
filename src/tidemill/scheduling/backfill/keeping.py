"""Keeping: what a reservation takes out of a room while somebody else is fitted beside it."""

from types import ModuleType
from typing import NamedTuple, Self

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.tables import I64, U64
from tidemill.scheduling.room import Room

DEVICES = 64  # of one node: a mask is one number

Sliced = tuple[Shape, tuple[Piece, ...]]
"""Free slices that are kept for an instance, as a shape of their own."""


class Kept(NamedTuple):
    """The pieces of a reservation as columns, and what was free of them when they were kept."""

    node: I64
    mask: U64
    milli: I64
    cpu: I64
    memory: I64
    kept_part: I64
    """By piece and device, ``DEVICES`` a piece."""
    kept_cpu: I64
    kept_memory: I64

    @classmethod
    def of(cls, shape: Shape, pieces: tuple[Piece, ...]) -> Self:
        """Nothing is kept yet."""
        count, roles = len(pieces), [shape.roles[piece.role] for piece in pieces]
        both = [*zip(pieces, roles, strict=True)]
        return cls(
            np.array([piece.node for piece in pieces], np.int64),
            np.array([piece.devices for piece in pieces], np.uint64),
            np.array([role.milli for role in roles], np.int64),
            np.array([piece.replicas * role.cpu_milli for piece, role in both], np.int64),
            np.array([piece.replicas * role.memory_mib for piece, role in both], np.int64),
            np.zeros(count * DEVICES, np.int64), np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )  # fmt: skip


def keep(room: Room, kept: Kept) -> None:
    """Take what these pieces need and is free now out of the room."""
    compiled().keep(
        len(kept.node), kept.node, kept.mask, kept.milli, kept.cpu, kept.memory,
        room.world.nodes.first_device, *room.columns, kept.kept_part, kept.kept_cpu,
        kept.kept_memory,
    )  # fmt: skip
    room.touch(kept.node)


def let_go(room: Room, kept: Kept) -> None:
    """Give it back."""
    compiled().let_go(
        len(kept.node), kept.node, kept.mask, room.world.nodes.first_device, *room.columns,
        kept.kept_part, kept.kept_cpu, kept.kept_memory,
    )  # fmt: skip
    room.touch(kept.node)


def keep_slices(room: Room, shape: Shape, pieces: tuple[Piece, ...]) -> list[Sliced]:
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


def let_slices_go(room: Room, kept: list[Sliced]) -> None:
    """Give them back."""
    for part in reversed(kept):
        room.give(*part)


def compiled() -> ModuleType:
    """The kernels of backfill; loaded when a policy first asks for them."""
    from tidemill.scheduling.backfill import kernels  # noqa: PLC0415 - a cold process may do without

    return kernels
