"""Known: what does not change about a shape until there are new groups of nodes."""

from typing import NamedTuple

from tidemill.model.world import World
from tidemill.scheduling import eligible
from tidemill.scheduling.fit import Options


class Known(NamedTuple):
    """The kinds and groups that a shape may use, and whose it is."""

    options: Options
    kinds: tuple[int, ...]
    queue: int
    priority: int


def know(world: World, s: int) -> Known:
    """Look at a shape for the first time."""
    roles = world.shape_rows[s].roles
    options = tuple(
        eligible.options(world, role) if role.accelerators else (eligible.anywhere(world, role),)
        for role in roles
    )
    kinds = {option.kind for role in options for option in role}
    if -1 in kinds:
        kinds = set(range(len(world.kinds)))
    q, priority = int(world.shapes.queue[s]), int(world.shapes.priority[s])
    return Known(options, tuple(sorted(kinds)), q, priority)
