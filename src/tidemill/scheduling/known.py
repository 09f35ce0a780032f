"""Known: what does not change about a shape until there are new groups of nodes."""

from typing import NamedTuple

from tidemill.model.world import World
from tidemill.scheduling import eligible
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.fit import Options

Sharing = tuple[int, bytes]
"""A kind, and the groups of it that may be used."""


class Known(NamedTuple):
    """The kinds and groups that a shape may use, and whose it is."""

    options: Options
    kinds: tuple[int, ...]
    queue: int
    priority: int


def know(world: World, s: int, shared: dict[Sharing, Option] | None = None) -> Known:
    """Look at a shape for the first time.

    Options of the same groups are one object, whosoever they are: ``shared`` holds those there are,
    and what is known of nodes for one request is known for all like it.
    """
    roles, shared = world.shape_rows[s].roles, {} if shared is None else shared
    options = tuple(
        tuple(shared.setdefault((option.kind, option.is_ok.tobytes()), option) for option in found)
        for found in (
            eligible.options(world, role)
            if role.accelerators
            else (eligible.anywhere(world, role),)
            for role in roles
        )
    )
    kinds = {option.kind for role in options for option in role}
    if -1 in kinds:
        kinds = set(range(len(world.kinds)))
    q, priority = int(world.shapes.queue[s]), int(world.shapes.priority[s])
    return Known(options, tuple(sorted(kinds)), q, priority)
