"""The second reader on MIG: is every instance on slices that exist, are legal and are free?

The rule said again, without the tables of the scheduler: an instance of ``c`` compute slices takes
a run of memory slices that begins at a multiple of its length, and the compute slice under its
first memory slice and the ``c - 1`` after it must exist (seven on an axis of eight, four on an A30,
whose axis is four wide). Bit 8 of the mask are the media engines, which a ``+me`` instance takes.
"""

import re
from collections import Counter

from tidemill.model.rows import Piece, Role
from tidemill.model.world import World

_NAME = re.compile(r"(\d)g\.\d+gb(\+me)?")


class Slices:
    """What a plan takes of devices by the slice."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken: Counter[tuple[int, int, int]] = Counter()

    def read(self, j: int, role: Role, piece: Piece) -> list[str]:
        """Take a piece in; what is wrong with it, in words."""
        d = piece.devices.bit_length() - 1
        for bit in range(9):
            if piece.slices >> bit & 1:
                self.taken[piece.node, d, bit] += 1
        kind = self.world.kinds[int(self.world.nodes.kind[piece.node])]
        if piece.replicas == 1 and is_legal(kind, role, piece.slices):
            return []
        name, node = self.world.job_names[j], self.world.node_rows[piece.node].name
        return [f"job `{name}` gets slices {piece.slices:#b} of `{node}` as `{role.profile}`"]

    def finish(self, shared: Counter[tuple[int, int]]) -> list[str]:
        """No slice has two owners, and no device is cut and shared by the milli."""
        world, wrong = self.world, list[str]()
        for (n, d, bit), times in sorted(self.taken.items()):
            i, name = int(world.nodes.first_device[n]) + d, world.node_rows[n].name
            has = int(world.devices.slices[i])
            is_whole = world.devices.free_milli[i] == 1000
            if times > 1 or has >> bit & 1 or world.devices.is_failed[i]:
                wrong.append(f"slice {bit} of device {d} of `{name}` is over-committed")
            elif shared[n, d] or not (has or is_whole):
                wrong.append(f"device {d} of `{name}` is cut and shared by the milli")
        return wrong


def is_legal(kind: str, role: Role, slices: int) -> bool:
    """Whether an instance of a role's profile may take these slices of a device of this kind."""
    words = _NAME.fullmatch(role.profile)
    if words is None or slices <= 0:
        return False
    is_small = "A30" in re.split(r"[-_ ]", kind.upper())
    axis, compute = (4, 4) if is_small else (8, 7)
    run = slices & 0xFF
    start, length = (run & -run).bit_length() - 1, run.bit_count()
    return (
        length * 1000 == role.milli * axis
        and run == ((1 << length) - 1) << start
        and start % length == 0
        and start + int(words[1]) <= compute
        and (slices >> 8) == int(words[2] is not None)
    )
